// What the page knows of the profile, without the page: sums, places of boxes, matches, the table.
// `tree` is the data that Python wrote, with the children of each node. No function here calls
// itself: a stack may be deeper than the browser's.
"use strict";

function makeTree(data) {
  const nodes = data.nodes.map(([fn, parent, now, before]) => ({
    fn, parent, now, before: before || now.map(() => 0), children: [], depth: 0,
  }));
  nodes.forEach((node, index) => {
    if (node.parent < 0) return;
    const parent = nodes[node.parent];
    node.depth = parent.depth + 1;
    parent.children.push(index);
  });
  return { ...data, nodes };
}

// Of one kind, for each node with all below it: what it holds now and held before, and how wide it
// is. Where two profiles are compared, a node is as wide as the larger of the two, so that what is
// gone is seen as well.
function weigh(tree, kind) {
  const now = tree.nodes.map((node) => node.now[kind]);
  const before = tree.nodes.map((node) => node.before[kind]);
  const width = now.map((value, index) => Math.max(value, before[index]));
  for (let index = tree.nodes.length - 1; index > 0; index--) {
    const parent = tree.nodes[index].parent;
    for (const sums of [now, before, width]) sums[parent] += sums[index];
  }
  return { now, before, width };
}

// The boxes that are wide enough to be seen, callers first: `zoomed` fills the width, what calls it
// lies above it just as wide.
function layOut(tree, weights, zoomed, pixels, least) {
  const boxes = [];
  for (let index = tree.nodes[zoomed].parent; index >= 0; index = tree.nodes[index].parent) {
    boxes.push({ index, x: 0, width: pixels, depth: tree.nodes[index].depth, above: true });
  }
  boxes.reverse();
  const scale = weights.width[zoomed] > 0 ? pixels / weights.width[zoomed] : 0;
  const left = [{ index: zoomed, x: 0 }];
  while (left.length > 0) {
    const { index, x } = left.pop();
    const width = index === zoomed ? pixels : weights.width[index] * scale;
    boxes.push({ index, x, width, depth: tree.nodes[index].depth, above: false });
    let at = x;
    const inside = [];
    for (const child of widestFirst(tree.nodes[index].children, weights.width)) {
      const size = weights.width[child] * scale;
      if (size < least) break;
      inside.push({ index: child, x: at });
      at += size;
    }
    left.push(...inside.reverse());
  }
  return boxes;
}

function widestFirst(children, width) {
  return [...children].sort((a, b) => width[b] - width[a] || a - b);
}

// Which functions a text names, and how much of the whole they hold: what lies below another match
// counts once.
function search(tree, weights, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return { functions: new Set(), share: 0, held: 0 };
  const functions = new Set();
  tree.functions.forEach(([name, file], index) => {
    if (`${name} ${file}`.toLowerCase().includes(wanted)) functions.add(index);
  });
  // The root is no function.
  const inside = tree.nodes.map(() => false);
  let held = 0;
  let width = 0;
  for (let index = 1; index < tree.nodes.length; index++) {
    const node = tree.nodes[index];
    const matches = functions.has(node.fn);
    if (matches && !inside[node.parent]) {
      held += weights.now[index];
      width += weights.width[index];
    }
    inside[index] = matches || inside[node.parent];
  }
  return { functions, held, share: weights.width[0] > 0 ? width / weights.width[0] : 0 };
}

// A row for each function. One that calls itself counts what is below it once.
function tabulate(tree, weights, kind) {
  const rows = tree.functions.map(([name, file, line], fn) => ({
    fn, name, file, line, self: 0, selfBefore: 0, all: 0, allBefore: 0,
  }));
  // How often each function is on the way from the root to the node.
  const open = tree.functions.map(() => 0);
  const way = [{ index: 0, next: 0, entered: false }];
  while (way.length > 0) {
    const step = way[way.length - 1];
    const node = tree.nodes[step.index];
    const row = rows[node.fn];
    if (!step.entered && step.index > 0) {
      row.self += node.now[kind];
      row.selfBefore += node.before[kind];
      if (open[node.fn]++ === 0) {
        row.all += weights.now[step.index];
        row.allBefore += weights.before[step.index];
      }
    }
    step.entered = true;
    if (step.next < node.children.length) {
      way.push({ index: node.children[step.next++], next: 0, entered: false });
    } else {
      if (step.index > 0) open[node.fn]--;
      way.pop();
    }
  }
  return rows.filter((row) => row.all !== 0 || row.allBefore !== 0);
}

// As the terminal writes it: three digits, bytes by powers of 1024.
function amount(value, unit, signed) {
  const sign = value < 0 ? "-" : signed && value > 0 ? "+" : "";
  let size = Math.abs(value);
  if (unit !== "bytes") return sign + size.toLocaleString("en-US");
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let step = 0;
  while (size >= 1023.5 && step < units.length - 1) {
    size /= 1024;
    step++;
  }
  const digits = step === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${sign}${size.toFixed(digits)} ${units[step]}`;
}

function percent(value, total) {
  return total === 0 ? "" : `${((100 * value) / total).toFixed(1)}%`;
}

// The name without arguments and templates' parameters, for boxes in which the whole has no room.
function shortName(name) {
  let depth = 0;
  let short = "";
  for (const letter of name) {
    if (letter === "<" || letter === "(") depth++;
    if (depth === 0) short += letter;
    if ((letter === ">" || letter === ")") && depth > 0) depth--;
  }
  return short.trim() || name;
}

// The same number for the same text: a file gives its functions their colour, their names a shade.
function hash(text) {
  let number = 7;
  for (let i = 0; i < text.length; i++) number = (number * 31 + text.charCodeAt(i)) % 65521;
  return number;
}

// The page: draws the boxes and the table, and does what is clicked and typed.

const ROW = 20;
const LEAST_WIDTH = 0.7;
const FIRST_ROWS = 50;
const SVG = "http://www.w3.org/2000/svg";
const by = (id) => document.getElementById(id);

const tree = makeTree(JSON.parse(by("data").textContent));
const state = {
  kind: tree.main, weights: null, zoomed: 0, chosen: 0, found: null, boxes: [],
  order: "self", allRows: false,
};

function element(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function nameOf(index) {
  return index === 0 ? "all" : tree.functions[tree.nodes[index].fn][0];
}

function placeOf(fn) {
  const [, file, line] = tree.functions[fn];
  return file && line ? `${file}:${line}` : file;
}

// In words: for whoever hears the page, for the line below the graph and for the pointer.
function described(index) {
  const { unit } = tree.kinds[state.kind];
  const { now, before, width } = state.weights;
  const held = `${amount(now[index], unit)}`;
  const place = index === 0 ? "" : placeOf(tree.nodes[index].fn);
  const words = [nameOf(index), place, held].filter((word) => word !== "");
  if (tree.compared) {
    const change = amount(now[index] - before[index], unit, true);
    words.push(`before ${amount(before[index], unit)}`, `change ${change}`);
  } else {
    words.push(`${percent(width[index], width[0])} of all`);
  }
  return words.join(", ");
}

const letterWidth = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = getComputedStyle(by("flame")).font;
  return pen.measureText("MMMMMMMMMM").width / 10 || 7.3;
})();

function fitted(name, width) {
  const room = Math.floor((width - 8) / letterWidth);
  if (name.length <= room) return name;
  const short = shortName(name);
  if (short.length <= room) return short;
  return room >= 3 ? `${short.slice(0, room - 1)}…` : "";
}

function look(index) {
  const { now, before } = state.weights;
  const names = [];
  let style = "";
  if (tree.compared) {
    const change = now[index] - before[index];
    const most = Math.max(now[index], before[index], 1);
    names.push(change > 0 ? "grown" : change < 0 ? "shrunk" : "same");
    style = `--much: ${Math.round(25 + (75 * Math.abs(change)) / most)}%`;
  } else if (index > 0) {
    const [name, file] = tree.functions[tree.nodes[index].fn];
    style = `--hue: ${hash(file || name) % 360}; --shift: ${(hash(name) % 9) - 4}%`;
  } else {
    names.push("same");
  }
  if (index > 0 && state.found.functions.has(tree.nodes[index].fn)) names.push("hit");
  if (index === state.chosen) names.push("chosen");
  return { names, style };
}

function draw() {
  const svg = by("flame");
  const pixels = Math.max(by("graph").clientWidth, 1);
  state.boxes = layOut(tree, state.weights, state.zoomed, pixels, LEAST_WIDTH);
  if (!state.boxes.some((box) => box.index === state.chosen)) state.chosen = state.zoomed;
  const deepest = state.boxes.reduce((most, box) => Math.max(most, box.depth), 0);
  svg.setAttribute("height", (deepest + 1) * ROW);
  svg.setAttribute("viewBox", `0 0 ${pixels} ${(deepest + 1) * ROW}`);
  // The two colours of a comparison stay.
  svg.classList.toggle("searching", !tree.compared && by("search").value.trim() !== "");
  svg.replaceChildren(...state.boxes.map(drawn));
  by("all").disabled = state.zoomed === 0;
  choose(state.chosen);
}

function drawn({ index, x, width, depth, above }) {
  const { names, style } = look(index);
  if (above) names.push("above");
  const label = described(index);
  const text = element("text", { x: x + 4, y: depth * ROW + 14 });
  text.textContent = fitted(nameOf(index), width);
  const title = element("title", {});
  title.textContent = label;
  const box = element("rect", { x, y: depth * ROW, width, height: ROW, rx: 2 });
  return element(
    "g",
    {
      id: `node-${index}`, "data-index": index, class: names.join(" "), style,
      role: "treeitem", "aria-level": depth + 1, "aria-label": label,
    },
    title, box, text,
  );
}

function choose(index) {
  by(`node-${state.chosen}`)?.classList.remove("chosen");
  state.chosen = index;
  by(`node-${index}`)?.classList.add("chosen");
  by("flame").setAttribute("aria-activedescendant", `node-${index}`);
  by("details").textContent = described(index);
}

function zoom(index) {
  state.zoomed = index;
  state.chosen = index;
  draw();
}

// To the box beside the chosen one in its row, or the widest one below, or the caller.
function step(key) {
  const node = tree.nodes[state.chosen];
  const row = state.boxes.filter((box) => box.depth === node.depth).sort((a, b) => a.x - b.x);
  const at = row.findIndex((box) => box.index === state.chosen);
  const below = state.boxes.filter((box) => tree.nodes[box.index].parent === state.chosen);
  const to = {
    ArrowLeft: row[at - 1]?.index,
    ArrowRight: row[at + 1]?.index,
    ArrowDown: below.sort((a, b) => b.width - a.width)[0]?.index,
    ArrowUp: node.parent >= 0 ? node.parent : undefined,
    Home: 0,
  }[key];
  if (to === undefined) return;
  choose(to);
  by(`node-${to}`)?.scrollIntoView({ block: "nearest" });
}

function searched() {
  const text = by("search").value;
  state.found = search(tree, state.weights, text);
  const { unit } = tree.kinds[state.kind];
  const share = `${(100 * state.found.share).toFixed(1)}%`;
  by("matched").textContent =
    text.trim() === "" ? "" : `${share} matched, ${amount(state.found.held, unit)}`;
}

const COLUMNS = tree.compared
  ? [
      ["self", "change in self", (row) => row.self - row.selfBefore],
      ["all", "with calls", (row) => row.all - row.allBefore],
      ["now", "now", (row) => row.all],
      ["before", "before", (row) => row.allBefore],
    ]
  : [
      ["self", "self", (row) => row.self],
      ["all", "with calls", (row) => row.all],
    ];

function headed() {
  const cells = COLUMNS.flatMap(([key, title]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.order = key;
    button.textContent = title;
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.ariaSort = state.order === key ? "descending" : "none";
    cell.append(button, state.order === key ? " ▾" : "");
    const share = document.createElement("th");
    share.className = "share";
    share.textContent = "%";
    return tree.compared ? [cell] : [cell, share];
  });
  for (const title of ["function", "line"]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = "text";
    cell.textContent = title;
    cells.push(cell);
  }
  const row = document.createElement("tr");
  row.append(...cells);
  by("table").tHead.replaceChildren(row);
}

function fill() {
  headed();
  const { unit } = tree.kinds[state.kind];
  const total = state.weights.now[0];
  const value = COLUMNS.find(([key]) => key === state.order)[2];
  const rows = tabulate(tree, state.weights, state.kind);
  rows.sort((a, b) => Math.abs(value(b)) - Math.abs(value(a)) || b.all - a.all || a.fn - b.fn);
  const shown = state.allRows ? rows : rows.slice(0, FIRST_ROWS);
  by("table").tBodies[0].replaceChildren(
    ...shown.map((row) => {
      const line = document.createElement("tr");
      for (const [key, , of] of COLUMNS) {
        const signed = tree.compared && (key === "self" || key === "all");
        line.insertCell().textContent = amount(of(row), unit, signed);
        if (tree.compared) continue;
        const share = line.insertCell();
        share.className = "share";
        share.textContent = percent(of(row), total);
      }
      const name = document.createElement("button");
      name.type = "button";
      name.dataset.find = row.name;
      name.textContent = row.name;
      const cell = line.insertCell();
      cell.className = "text name";
      cell.title = row.name;
      cell.append(name);
      const place = line.insertCell();
      place.className = "text";
      place.title = placeOf(row.fn);
      place.textContent = placeOf(row.fn).split("/").pop();
      return line;
    }),
  );
  by("more").hidden = shown.length === rows.length;
  by("more").textContent = `Show all ${rows.length} functions`;
}

function refresh() {
  state.weights = weigh(tree, state.kind);
  searched();
  draw();
  fill();
}

const THEMES = ["auto", "dark", "light"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  by("theme").textContent = `Theme: ${theme}`;
  by("theme").dataset.theme = theme;
}

by("page").hidden = false;
tree.kinds.forEach((kind, index) => {
  const text = kind.unit === "count" ? kind.title : `${kind.title}, ${kind.unit}`;
  by("kind").append(new Option(text, index, false, index === tree.main));
});
by("kind").addEventListener("change", (event) => {
  state.kind = Number(event.target.value);
  refresh();
});
by("search").addEventListener("input", () => {
  searched();
  draw();
});
by("controls").addEventListener("submit", (event) => event.preventDefault());
by("all").addEventListener("click", () => zoom(0));
by("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(by("theme").dataset.theme) + 1) % THEMES.length]);
});
by("more").addEventListener("click", () => {
  state.allRows = true;
  fill();
});
by("table").addEventListener("click", (event) => {
  const { order, find } = event.target.dataset;
  if (order !== undefined) {
    state.order = order;
    fill();
  } else if (find !== undefined) {
    by("search").value = find;
    searched();
    draw();
    by("graph").scrollIntoView({ block: "nearest" });
  }
});
by("flame").addEventListener("click", (event) => {
  const box = event.target.closest("g");
  if (box !== null) zoom(Number(box.dataset.index));
});
by("flame").addEventListener("pointerover", (event) => {
  const box = event.target.closest("g");
  if (box !== null) by("details").textContent = described(Number(box.dataset.index));
});
by("flame").addEventListener("pointerleave", () => {
  by("details").textContent = described(state.chosen);
});
by("flame").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") zoom(state.chosen);
  else if (event.key === "Escape") zoom(0);
  else if (event.key === "Backspace") zoom(Math.max(tree.nodes[state.zoomed].parent, 0));
  else if (event.key.startsWith("Arrow") || event.key === "Home") step(event.key);
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select") !== null) return;
  event.preventDefault();
  by("search").focus();
});
setTheme("auto");
refresh();
let drawnWidth = by("graph").clientWidth;
new ResizeObserver(() => {
  if (by("graph").clientWidth === drawnWidth) return;
  drawnWidth = by("graph").clientWidth;
  draw();
}).observe(by("graph"));

// The page: draws the map and the table of classes, and does what is clicked and typed.

const by = (id) => document.getElementById(id);
const heap = makeHeap(JSON.parse(by("data").textContent));
const COLOURS = {
  occupancy: "how full", holes: "bytes free inside", class: "size class", owner: "heap",
  kind: "kind of memory",
};
const MOST_OWNERS = 12;
const state = {
  colour: "occupancy", class: -1, owner: -1, cell: 0, plan: null, chosen: -1, marked: [], order: "free",
};
const mostHoles = heap.kinds.reduce((most, kind, i) => Math.max(most, holes(heap, i)), 1);

function colourOf(index, empty) {
  const kind = heap.kinds[index];
  if (kind === FREE) return empty;
  if (state.colour === "kind") return hue(kind);
  if (kind === HEAP) return "hsl(270 25% 60%)";
  if (state.colour === "occupancy") return ramp(share(heap, index));
  if (state.colour === "holes") return ramp(1 - holes(heap, index) / mostHoles);
  if (state.colour === "owner") {
    return heap.owner[index] < 0 ? "hsl(0 0% 55%)" : hue(heap.owner[index]);
  }
  const place = heap.class[index];
  return place < 0 ? "hsl(0 0% 55%)" : ramp(place / Math.max(heap.classes.length - 1, 1));
}

function isDimmed(index) {
  return (state.class >= 0 && heap.class[index] !== state.class)
    || (state.owner >= 0 && heap.owner[index] !== state.owner);
}

function draw() {
  const width = Math.max(by("map").clientWidth, 1);
  const plan = layOut(heap, width, state.cell);
  state.plan = plan;
  const pen = sized("cells", width);
  const style = getComputedStyle(document.documentElement);
  const empty = style.getPropertyValue("--empty");
  const line = plan.cell > 4 ? 1 : 0;
  pen.font = "12px ui-monospace, monospace";
  pen.fillStyle = style.getPropertyValue("--faint");
  for (const band of plan.bands) pen.fillText(bandTitle(band), 0, band.y - 5);
  let next = 0;
  for (let index = 0; index < heap.count; ++index) {
    while (next + 1 < plan.bands.length && plan.bands[next + 1].first <= index) next += 1;
    pen.fillStyle = colourOf(index, empty);
    pen.globalAlpha = isDimmed(index) ? 0.15 : 1;
    for (const [x, y, w, h] of rectangles(heap, plan, index, plan.bands[next])) {
      pen.fillRect(x, y, w - line, h - line);
    }
  }
  pen.fillStyle = style.getPropertyValue("--absent");
  for (const [index, start, size] of heap.absent) {
    // A cell that stands for more has memory all the same.
    if (size < plan.per) continue;
    const band = bandOf(plan, heap.at[index]);
    pen.globalAlpha = isDimmed(index) ? 0.15 : 1;
    for (const [x, y, w, h] of rectangles(heap, plan, index, band, start, size)) {
      pen.clearRect(x, y, w, h);
      pen.fillRect(x, y, w - line, h - line);
    }
  }
  sized("mark", width);
  mark();
  by("scale").textContent = `a cell is ${amount(plan.per * heap.unit)}`;
}

// A pen for a canvas of the plan's height, which is empty then.
function sized(id, width) {
  const canvas = by(id);
  // A screen of many pixels gets fewer, where all of them would be more than can be drawn.
  const scale = Math.min(window.devicePixelRatio || 1, (MOST_HEIGHT * 1.3) / state.plan.height);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${state.plan.height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(state.plan.height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}

// The chosen piece has a frame, on a canvas of its own: the others are not drawn again for it.
function mark() {
  const pen = by("mark").getContext("2d");
  for (const [x, y, w, h] of state.marked) pen.clearRect(x - 2, y - 2, w + 4, h + 4);
  state.marked = [];
  if (state.chosen < 0) return;
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--mark");
  pen.lineWidth = 2;
  const band = bandOf(state.plan, heap.at[state.chosen]);
  state.marked = rectangles(heap, state.plan, state.chosen, band);
  for (const [x, y, w, h] of state.marked) pen.strokeRect(x, y, w, h);
}

function bandTitle(band) {
  const gap = band.gap ? `, ${amount(band.gap * heap.unit)} after the last` : "";
  return `0x${(band.start * heap.unit).toString(16)}${gap}`;
}

function choose(index) {
  if (index === state.chosen) return;
  state.chosen = index;
  by("details").textContent = index < 0 ? "" : described(heap, index);
  mark();
}

function pointed(event) {
  const box = by("cells").getBoundingClientRect();
  const address = addressAt(state.plan, event.clientX - box.left, event.clientY - box.top);
  if (address >= 0) choose(pieceAt(heap, address));
}

function stepped(key) {
  const last = heap.count - 1;
  if (key === "End") return choose(last);
  if (key === "Home" || state.chosen < 0) return choose(0);
  if (key === "ArrowLeft") return choose(Math.max(state.chosen - 1, 0));
  if (key === "ArrowRight") return choose(Math.min(state.chosen + 1, last));
  const sign = key === "ArrowDown" ? 1 : -1;
  const wanted = heap.at[state.chosen] + sign * state.plan.row;
  const found = pieceAt(heap, wanted);
  const beside = Math.min(Math.max(state.chosen + sign, 0), last);
  return choose(found < 0 ? beside : found);
}

function item(text, ...before) {
  const made = document.createElement("span");
  made.className = "item";
  made.append(...before, text);
  return made;
}

function box(colour) {
  const made = document.createElement("span");
  made.className = "box";
  made.style.background = colour;
  return made;
}

function legend() {
  const items = [];
  if (state.colour === "owner") {
    const shown = heap.owners.slice(0, MOST_OWNERS);
    items.push(...shown.map((owner, i) => item(` ${ownerTitle(heap, i)}`, box(hue(i)))));
    const more = heap.owners.length - shown.length;
    if (more > 0) items.push(item(`and ${more} more`));
  } else if (state.colour === "kind") {
    KINDS.forEach((name, kind) => {
      if (kind !== FREE && heap.kinds.includes(kind)) items.push(item(` ${name}`, box(hue(kind))));
    });
  } else {
    const [from, to] = {
      occupancy: ["empty", "full"], holes: [`${amount(mostHoles)} free`, "nothing free"],
      class: [`${heap.classes[0]?.[0] ?? ""}`, `${heap.classes.at(-1)?.[0] ?? ""} bytes`],
    }[state.colour];
    const bar = document.createElement("span");
    bar.className = "ramp";
    const stops = STOPS.map((stop) => `rgb(${stop.join(" ")})`);
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    items.push(item(to, from, bar));
  }
  if (heap.kinds.includes(FREE)) items.push(item(" free span", box("var(--empty)")));
  if (heap.absent.length) items.push(item(" not resident", box("var(--absent)")));
  by("legend").replaceChildren(...items);
}

// Of a class: what the program asked for and what else is resident, as far as anybody knows it.
function partsOf([, , , , resident, free, rounding, cached, flight]) {
  const used = resident - free;
  const known = Math.min(cached + flight + rounding, used);
  const scale = cached + flight + rounding ? known / (cached + flight + rounding) : 0;
  return [
    ["live", "in use", used - known], ["rounding", "rounding", rounding * scale],
    ["cached", "in caches", cached * scale], ["flight", "in flight", flight * scale],
    ["free", "free inside", free],
  ].filter(([name]) => heap.known || name === "live" || name === "free");
}

const HEADS = [
  ["class", "class", (row) => -row[0]], ["", "bar", null], ["slabs", "slabs", (row) => row[2]],
  ["resident", "memory", (row) => row[4]], ["free inside", "free", (row) => row[5]],
  ["% free", "share", (row) => row[5] / Math.max(row[4], 1)],
  ["not resident", "absent", (row) => row[3] - row[4]],
];

function table() {
  const order = HEADS.find(([, name]) => name === state.order)[2];
  const rows = heap.classes.map((row, index) => [row, index]);
  rows.sort(([a], [b]) => order(b) - order(a) || a[0] - b[0]);
  const most = rows.reduce((sum, [row]) => Math.max(sum, row[4]), 1);
  by("table").tHead.replaceChildren(headRow());
  by("table").tBodies[0].replaceChildren(...rows.map(([row, index]) => classRow(row, index, most)));
}

function headRow() {
  const line = document.createElement("tr");
  for (const [title, name, order] of HEADS) {
    const cell = document.createElement("th");
    if (order) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.order = name;
      button.textContent = title;
      cell.ariaSort = state.order === name ? "descending" : "none";
      cell.append(button);
    }
    line.append(cell);
  }
  return line;
}

function classRow(row, index, most) {
  const line = document.createElement("tr");
  const [size, , slabs, bytes, resident, free] = row;
  if (index === state.class) line.className = "chosen";
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.class = index;
  button.textContent = size;
  const bar = document.createElement("div");
  bar.className = "bar";
  for (const [name, title, value] of partsOf(row)) {
    const part = document.createElement("span");
    part.className = name;
    part.style.width = `${(100 * value) / most}%`;
    part.title = `${title}: ${amount(value)}`;
    bar.append(part);
  }
  bar.role = "img";
  bar.ariaLabel = partsOf(row).map(([, title, value]) => `${title} ${amount(value)}`).join(", ");
  for (const inside of [button, bar, slabs.toLocaleString("en"), amount(resident), amount(free),
    percent(free, resident), amount(bytes - resident)]) {
    const cell = document.createElement("td");
    cell.append(inside);
    line.append(cell);
  }
  return line;
}

function options(id, pairs) {
  by(id).replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
}

function changed() {
  by("class").value = state.class;
  legend();
  table();
  draw();
}

function start() {
  options("colour", Object.entries(COLOURS));
  options("class", [[-1, "all"], ...heap.classes.map(([size], i) => [i, size])]);
  options("owner", [[-1, "all"], ...heap.owners.map((owner, i) => [i, ownerTitle(heap, i)])]);
  by("parts").replaceChildren(
    ...(heap.classes.length ? partsOf(heap.classes[0]) : []).map(
      ([name, title]) => item(` ${title}`, box(`var(--${name})`)),
    ),
  );
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  by("colour").addEventListener("change", (event) => {
    state.colour = event.target.value;
    changed();
  });
  for (const id of ["class", "owner"]) {
    by(id).addEventListener("change", (event) => {
      state[id] = Number(event.target.value);
      changed();
    });
  }
  for (const [id, step] of [["smaller", -1], ["larger", 1]]) {
    by(id).addEventListener("click", () => {
      state.cell = Math.min(Math.max(state.plan.cell + step, 2), 16);
      draw();
    });
  }
  by("theme").addEventListener("click", () => {
    const names = ["auto", "dark", "light"];
    const now = document.documentElement.dataset.theme ?? "auto";
    const next = names[(names.indexOf(now) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    by("theme").textContent = `Theme: ${next}`;
    draw();
  });
  by("cells").addEventListener("pointermove", pointed);
  by("cells").addEventListener("pointerdown", pointed);
  by("cells").addEventListener("keydown", (event) => {
    const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
    if (!keys.includes(event.key)) return;
    event.preventDefault();
    stepped(event.key);
  });
  by("table").addEventListener("click", (event) => {
    const { order, class: chosen } = event.target.dataset;
    if (order) state.order = order;
    if (chosen !== undefined) state.class = state.class === Number(chosen) ? -1 : Number(chosen);
    if (order || chosen !== undefined) changed();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  by("page").hidden = false;
  window.addEventListener("resize", draw);
  changed();
}

start();

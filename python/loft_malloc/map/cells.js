// What lies where: the heap's pieces, their places on a plane of cells, and their colours.

const SLAB = 0, MEDIUM = 1, LARGE = 2, FREE = 3, HEAP = 4;
const KINDS = ["slab", "medium run", "large object", "free span", "heap of the program's own"];
// Browsers draw no canvas that is much higher.
const MOST_HEIGHT = 12000;
const AIMED_HEIGHT = 640;
const GAP_HEIGHT = 18;
const STOPS = [[253, 231, 37], [94, 201, 98], [33, 145, 140], [59, 82, 139], [68, 1, 84]];

function makeHeap(told) {
  let end = 0;
  const at = told.gaps.map((gap, index) => {
    const start = end + gap;
    end = start + told.sizes[index];
    return start;
  });
  return { ...told, at, count: at.length };
}

// Bytes of a piece that are in use.
function usedBytes(heap, index) {
  const used = heap.used[index];
  return heap.kinds[index] === SLAB ? used * heap.classes[heap.class[index]][0] : used;
}

// Of what is resident: the rest cannot be full.
function share(heap, index) {
  return usedBytes(heap, index) / Math.max(heap.resident[index], 1);
}

function holes(heap, index) {
  if (heap.kinds[index] >= FREE) return 0;
  return Math.max(heap.resident[index] - usedBytes(heap, index), 0);
}

// The piece at an address in units, or -1.
function pieceAt(heap, address) {
  let low = 0;
  let high = heap.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (heap.at[middle] <= address) low = middle + 1;
    else high = middle;
  }
  const index = low - 1;
  return index >= 0 && address < heap.at[index] + heap.sizes[index] ? index : -1;
}

// Bands of cells, one below the other: where nothing lies for several rows, a new one begins.
function layOut(heap, width, wanted) {
  const total = heap.sizes.reduce((sum, size) => sum + size, 0);
  let cell = wanted || Math.floor(Math.sqrt((width * AIMED_HEIGHT) / total));
  cell = Math.min(Math.max(cell, 2), 16);
  let per = 1;
  for (;;) {
    const made = bands(heap, Math.max(Math.floor(width / cell), 1), per, cell);
    if (made.height <= MOST_HEIGHT) return made;
    if (cell > 2) cell -= 1;
    else per *= 2;
  }
}

function bands(heap, columns, per, cell) {
  const found = [];
  const row = columns * per;
  for (let index = 0; index < heap.count; ++index) {
    const last = found[found.length - 1];
    const before = last ? last.end : 0;
    if (!last || heap.at[index] - before > 2 * row) {
      const start = heap.at[index] - (heap.at[index] % per);
      found.push({ start, end: 0, first: index, gap: last ? heap.at[index] - before : 0 });
    }
    found[found.length - 1].end = heap.at[index] + heap.sizes[index];
  }
  let y = 0;
  for (const band of found) {
    // Its address stands above it.
    y += GAP_HEIGHT;
    band.y = y;
    band.rows = Math.ceil((band.end - band.start) / row);
    y += band.rows * cell;
  }
  return { bands: found, columns, per, cell, row, height: y, width: columns * cell };
}

function bandOf(plan, address) {
  return plan.bands.find((band) => address >= band.start && address < band.end);
}

// The rectangles of a piece: at most three, since the rows between its first and last are whole.
function rectangles(heap, plan, index, band, start = 0, size = heap.sizes[index]) {
  const { per, columns, cell } = plan;
  const at = heap.at[index] + start;
  const from = Math.floor((at - band.start) / per);
  const to = Math.max(Math.ceil((at + size - band.start) / per), from + 1);
  const top = Math.floor(from / columns);
  const bottom = Math.floor((to - 1) / columns);
  const rectangle = (first, last, row, rows) => [
    first * cell, band.y + row * cell, (last - first) * cell, rows * cell,
  ];
  if (top === bottom) return [rectangle(from % columns, ((to - 1) % columns) + 1, top, 1)];
  const found = [rectangle(from % columns, columns, top, 1)];
  if (bottom - top > 1) found.push(rectangle(0, columns, top + 1, bottom - top - 1));
  found.push(rectangle(0, ((to - 1) % columns) + 1, bottom, 1));
  return found;
}

function addressAt(plan, x, y) {
  const band = plan.bands.find((each) => y >= each.y && y < each.y + each.rows * plan.cell);
  const column = Math.floor(x / plan.cell);
  if (!band || column < 0 || column >= plan.columns) return -1;
  return band.start + (Math.floor((y - band.y) / plan.cell) * plan.columns + column) * plan.per;
}

// A hundred steps are as many as anybody sees.
const RAMP = Array.from({ length: 101 }, (_, step) => {
  const place = (step / 100) * (STOPS.length - 1);
  const low = Math.min(Math.floor(place), STOPS.length - 2);
  const mixed = STOPS[low].map((from, i) => from + (STOPS[low + 1][i] - from) * (place - low));
  return `rgb(${mixed.map(Math.round).join(" ")})`;
});

// From 0 to 1.
function ramp(value) {
  return RAMP[Math.round(Math.min(Math.max(value, 0), 1) * 100)];
}

// Far from each other for numbers side by side.
function hue(number) {
  return `hsl(${Math.round((number * 137.508) % 360)} 58% ${[52, 66, 42][number % 3]}%)`;
}

function amount(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  while (bytes >= 1023.5 && step < units.length - 1) {
    bytes /= 1024;
    step += 1;
  }
  const digits = step === 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return `${bytes.toFixed(digits)} ${units[step]}`;
}

function percent(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(1)}%` : "";
}

function ownerTitle(heap, place) {
  const owner = heap.owners[place];
  return `heap ${owner}${owner === heap.samples ? " (sampled objects)" : ""}`;
}

// In words.
function described(heap, index) {
  const kind = heap.kinds[index];
  const bytes = heap.sizes[index] * heap.unit;
  const words = [KINDS[kind], `0x${(heap.at[index] * heap.unit).toString(16)}`, amount(bytes)];
  if (kind === SLAB) {
    const [size, objects] = heap.classes[heap.class[index]];
    words.push(`class ${size}`, `${heap.used[index]} of ${objects} objects used`);
  }
  if (kind < FREE) words.push(`${amount(usedBytes(heap, index))} in use`);
  if (kind < LARGE) words.push(`${amount(holes(heap, index))} free inside`);
  const absent = bytes - heap.resident[index];
  if (absent) words.push(`${amount(absent)} not resident`);
  if (heap.owner[index] >= 0) words.push(ownerTitle(heap, heap.owner[index]));
  return words.join(", ");
}

// The roofline explorer: a GPU, two dtypes and the sizes of a matrix product; which bound the product
// meets in FP32 or TF32 and in 16 bit, the floor of each, and their ratio: the most that AMP can
// gain on it.
//
// The peaks come from Python in `data.gpus`, each { name, peaks: TFLOP/s by dtype, bandwidth: GB/s,
// note }; the arithmetic is roofline.mjs. The state is gpu, baseline and dtype by name, the whole
// numbers m, n and k, and `measured`: milliseconds of the 16-bit product as text, 0 for none.

import { analyse, castFloor, peak, ridge, roof, shareOfPeak, unaligned } from "./roofline.mjs";
import { fromText, toText } from "./typed.mjs";
import {
  assemble,
  faultLine,
  h,
  legendKey,
  picture,
  plainModel,
  selectField,
  svg,
  textField,
  wholeNumber,
} from "./dom.mjs";

const BASELINES = ["fp32", "tf32"];
const LOW = ["fp16", "bf16"];
const DTYPES = [...BASELINES, ...LOW];
const DASHES = { fp32: "2 4", tf32: "8 4", fp16: "none", bf16: "none" };
const LARGEST = 2 ** 17;
const MARGIN = { top: 20, right: 24, bottom: 46, left: 58 };
const HEIGHT = 360;
const RANGE = [0.1, 1e5]; // FLOP per byte, in the picture

// ---- state -------------------------------------------------------------------------------------

// `base` and `low` are the two sides: { dtype, ...what `analyse` gives }. `limit` is floor by floor,
// and `limitWithCast` counts the cast of an FP32 weight of (k, n) too.
function readState(model) {
  const { gpus } = model.get("data");
  const gpu = gpus.find(({ name }) => name === model.get("gpu")) ?? gpus[0];
  const sizes = { m: model.get("m"), n: model.get("n"), k: model.get("k") };
  const side = (dtype) => ({ dtype, ...analyse(gpu, dtype, sizes) });
  const base = side(had(gpu, model.get("baseline"), "fp32"));
  const low = side(had(gpu, model.get("dtype"), "fp16"));
  const measured = fromText(String(model.get("measured"))); // milliseconds
  const share = measured > 0 ? shareOfPeak(gpu, low.dtype, low.flops, measured / 1e3) : null;
  const limit = base.floor / low.floor;
  const limitWithCast = base.floor / (castFloor(gpu, sizes.k * sizes.n) + low.floor);
  return { gpus, gpu, sizes, base, low, measured, share, limit, limitWithCast, odd: unaligned(low.dtype, sizes) };
}

// The dtype, or another where this GPU does not have it.
function had(gpu, dtype, otherwise) {
  return dtype in gpu.peaks ? dtype : otherwise;
}

// ---- words -------------------------------------------------------------------------------------

function upper({ dtype }) {
  return dtype.toUpperCase();
}

// Three digits, with the unit that leaves one to three of them before the point.
function inUnit(value, units) {
  const [scale, unit] = units.find(([size]) => value >= size) ?? units.at(-1);
  const digits = value / scale;
  return `${digits >= 1000 ? Math.round(digits).toLocaleString("en") : Number(digits.toPrecision(3))} ${unit}`;
}

const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const FLOPS = [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"], [1, "FLOP"]];
const SIZES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]];

function percent(share) {
  return `${Number((100 * share).toPrecision(3))} %`;
}

function threeDigits(value) {
  return value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function limitInWords({ base, low, limit }) {
  return `By the data sheet, ${upper(low)} is at most ${threeDigits(limit)} times as fast as ${upper(base)}.`;
}

function reasonInWords({ base, low }) {
  if (base.bound === low.bound) {
    const ratio = low.bound === "compute" ? "peaks" : "bytes";
    return `Both are bound by ${low.bound}: the limit is the ratio of the ${ratio}.`;
  }
  return `${upper(base)} is bound by ${base.bound}, ${upper(low)} by ${low.bound}.`;
}

function castInWords({ limitWithCast }) {
  const slower = limitWithCast < 1 ? ", so it is slower" : "";
  return `With autocast's cast of an FP32 weight of (k, n): ${threeDigits(limitWithCast)} times${slower}.`;
}

function shareInWords({ share, low, measured }) {
  if (share === null) return `Type a measured time of ${upper(low)} to see what it reached.`;
  const ratio = measured / 1e3 / low.floor;
  if (ratio < 1) {
    const cache = low.bound === "bandwidth" ? "the data were still in the L2 cache, or " : "";
    return `Faster than the floor: ${cache}the time, the dtype or the sizes are not what was measured.`;
  }
  return `Measured: ${percent(share)} of the peak; ${threeDigits(ratio)} times the floor.`;
}

function oddInWords({ odd }) {
  if (odd.length === 0) return "";
  const are = odd.length > 1 ? "are not multiples" : "is not a multiple";
  return `${odd.join(", ")} ${are} of 8, so tensor cores work below their best.`;
}

function launchInWords({ low }) {
  if (low.floor >= 1e-5) return "";
  return "A launch costs a few microseconds: here the GPU may wait for Python, whatever the dtype.";
}

function summary(state) {
  const { gpu, sizes, base, low } = state;
  const floors = `Floors: ${upper(base)} ${inUnit(base.floor, SECONDS)}, ${upper(low)} ${inUnit(low.floor, SECONDS)}.`;
  const { m, n, k } = sizes;
  return `${gpu.name}, m ${m}, n ${n}, k ${k}. ${floors} ${limitInWords(state)} ${reasonInWords(state)}`;
}

// ---- controls ----------------------------------------------------------------------------------

function controls(model, set, read) {
  const faults = faultLine();
  const names = model.get("data").gpus.map(({ name }) => name);
  const gpu = selectField("GPU", names, (name) => {
    const chosen = read().gpus.find((g) => g.name === name);
    const baseline = had(chosen, model.get("baseline"), "fp32");
    set({ gpu: name, baseline, dtype: had(chosen, model.get("dtype"), "fp16") });
  });
  const dtypeField = (label, dtypes, trait) =>
    selectField(label, dtypes.map((dtype) => dtype.toUpperCase()), (text) => set({ [trait]: text.toLowerCase() }));
  const baseline = dtypeField("Baseline", BASELINES, "baseline");
  const dtype = dtypeField("16-bit dtype", LOW, "dtype");
  const sizes = ["m", "n", "k"].map((name) => {
    const parse = (text) => readSize(text, name);
    return { name, field: textField(name, faults, parse, (value) => set({ [name]: value })) };
  });
  const setTime = (value) => set({ measured: toText(value) });
  const time = textField("16-bit time (ms)", faults, readTime, setTime);
  const nodes = [gpu.node, baseline.node, dtype.node, ...sizes.map(({ field }) => field.node), time.node];
  const draw = (state) => {
    gpu.select.value = state.gpu.name;
    for (const { select } of [baseline, dtype]) {
      for (const option of select.options) option.disabled = !(option.value.toLowerCase() in state.gpu.peaks);
    }
    baseline.select.value = upper(state.base);
    dtype.select.value = upper(state.low);
    for (const { name, field } of sizes) field.draw(state.sizes[name]);
    time.draw(state.measured > 0 ? toText(state.measured) : "");
  };
  return { nodes: [h("div", { class: "amp-controls amp-products" }, ...nodes), faults.node], draw };
}

// Both give a number, or throw an Error whose message is one line for the learner.
function readSize(text, name) {
  const value = wholeNumber(text);
  if (value >= 1 && value <= LARGEST) return value; // null counts as 0
  throw new Error(`${name} must be a whole number from 1 to ${LARGEST}, got “${text}”.`);
}

function readTime(text) {
  const value = Number(text);
  if (value >= 0 && Number.isFinite(value)) return value;
  throw new Error(`The measured time must be a number of milliseconds, got “${text}”.`);
}

// ---- read-out ----------------------------------------------------------------------------------

const ROWS = {
  "bytes moved": ({ bytes }) => inUnit(bytes, SIZES),
  "FLOP per byte": ({ intensity }) => threeDigits(intensity),
  "ridge, FLOP per byte": ({ dtype }, gpu) => threeDigits(ridge(gpu, dtype)),
  "bound by": ({ bound }) => bound,
  "peak, dense": ({ dtype }, gpu) => `${inUnit(peak(gpu, dtype), FLOPS)}/s`,
  "FLOP/s at the floor": ({ flops, floor }) => `${inUnit(flops / floor, FLOPS)}/s`,
  floor: ({ floor }) => inUnit(floor, SECONDS),
};

function readout() {
  const line = (kind) => h("p", { class: kind });
  const limit = line("amp-verdict amp-limit");
  const [reason, cast, share] = [line("amp-verdict"), line("amp-verdict"), line("amp-verdict")];
  const notes = [line("amp-note"), line("amp-note"), line("amp-note")];
  const names = [h("th", { scope: "col" }), h("th", { scope: "col" })];
  const caption = h("caption", {});
  const cells = Object.keys(ROWS).map(() => [h("td", {}), h("td", {})]);
  const body = Object.keys(ROWS).map((title, i) => h("tr", {}, h("th", { scope: "row" }, title), ...cells[i]));
  const head = h("thead", {}, h("tr", {}, h("td", {}), ...names));
  const table = h("table", { class: "amp-table amp-sides" }, caption, head, h("tbody", {}, ...body));
  const heading = h("p", { class: "amp-heading" }, "What 16 bit can gain");
  const left = h("div", { class: "amp-panel" }, heading, limit, reason, cast, share, ...notes);
  const node = h("div", { class: "amp-columns" }, left, h("div", {}, table));
  function draw(state) {
    const { gpu, base, low } = state;
    limit.textContent = limitInWords(state);
    reason.textContent = reasonInWords(state);
    cast.textContent = castInWords(state);
    share.textContent = shareInWords(state);
    [oddInWords(state), launchInWords(state), gpu.note].forEach((text, i) => (notes[i].textContent = text));
    caption.textContent = `${inUnit(low.flops, FLOPS)} on ${gpu.name}`;
    [base, low].forEach((side, j) => {
      names[j].textContent = upper(side);
      Object.values(ROWS).forEach((words, i) => (cells[i][j].textContent = words(side, gpu)));
    });
  }
  return { nodes: [node], draw };
}

function liveSummary() {
  const node = h("output", { class: "amp-hidden", "aria-live": "polite" });
  let before = null;
  function draw(state) {
    const now = `${summary(state)} ${state.share === null ? "" : shareInWords(state)}`.trim();
    if (before !== null && now !== before) node.textContent = now;
    before = now;
  }
  return { nodes: [node], draw };
}

// ---- the picture -------------------------------------------------------------------------------

// Both axes are logarithmic. Upwards the window takes in the highest peak of this GPU.
function makeFrame({ gpu, gpus }, width) {
  const highest = Math.max(...gpus.flatMap(({ peaks }) => Object.values(peaks))) * 2e12;
  const lowest = 1e10;
  const [left, right] = RANGE.map(Math.log10);
  const span = { x: width - MARGIN.left - MARGIN.right, y: HEIGHT - MARGIN.top - MARGIN.bottom };
  const inside = (value, low, high) => Math.min(Math.max(value, low), high);
  const across = (value) => (Math.log10(inside(value, ...RANGE)) - left) / (right - left);
  const up = (value) =>
    Math.log10(inside(value, lowest, highest) / lowest) / Math.log10(highest / lowest);
  return {
    width,
    gpu,
    lowest,
    highest,
    bottom: HEIGHT - MARGIN.bottom,
    x: (intensity) => MARGIN.left + span.x * across(intensity),
    y: (rate) => HEIGHT - MARGIN.bottom - span.y * up(rate),
  };
}

function compact(value) {
  return value.toLocaleString("en", { notation: "compact" }); // 10K
}

function drawGround(at) {
  const parts = [];
  for (let e = -1; e <= 5; e += 1) {
    const x = at.x(10 ** e);
    const label = { class: "amp-tick", x, y: at.bottom + 17, "text-anchor": "middle" };
    parts.push(svg("line", { class: "amp-grid", x1: x, x2: x, y1: MARGIN.top, y2: at.bottom }));
    parts.push(svg("text", label, compact(10 ** e)));
  }
  for (let rate = at.lowest; rate <= at.highest; rate *= 10) {
    const [y, x1, x2] = [at.y(rate), MARGIN.left, at.width - MARGIN.right];
    const label = { class: "amp-tick", x: x1 - 8, y: y + 4, "text-anchor": "end" };
    parts.push(svg("line", { class: "amp-grid", x1, x2, y1: y, y2: y }));
    parts.push(svg("text", label, compact(rate / 1e12)));
  }
  const below = { class: "amp-axis-title", x: (MARGIN.left + at.width - MARGIN.right) / 2, y: HEIGHT - 8 };
  parts.push(svg("text", { ...below, "text-anchor": "middle" }, "FLOP per byte"));
  parts.push(svg("text", { class: "amp-axis-title", x: 0, y: 12 }, "TFLOP/s"));
  return parts;
}

// One roof for each peak that this GPU has; two dtypes with one peak share theirs.
function drawRoofs({ gpu, base, low }, at) {
  const byPeak = new Map();
  for (const name of DTYPES.filter((d) => d in gpu.peaks)) {
    byPeak.set(gpu.peaks[name], [...(byPeak.get(gpu.peaks[name]) ?? []), name]);
  }
  return [...byPeak.values()].flatMap((names) => {
    const side = [low, base].find(({ dtype }) => names.includes(dtype));
    const [first, last] = RANGE;
    const corner = ridge(gpu, names[0]);
    const point = (i) => `${at.x(i)} ${at.y(roof(gpu, names[0], i))}`;
    const line = {
      class: side ? `amp-roof amp-chosen ${sideClass(side)}` : "amp-roof",
      "stroke-dasharray": DASHES[names[0]],
      d: `M${point(first)}L${point(corner)}L${point(last)}`,
    };
    const label = {
      class: side ? "amp-band-label" : "amp-tick",
      x: at.width - MARGIN.right - 4,
      y: at.y(peak(gpu, names[0])) - 4,
      "text-anchor": "end",
    };
    return [svg("path", line), svg("text", label, names.join(", ").toUpperCase())];
  });
}

function sideClass({ dtype }) {
  return LOW.includes(dtype) ? "amp-low" : "amp-base";
}

// The most that each dtype can reach: a square for the baseline, a circle for 16 bit.
function drawWork({ gpu, base, low, share }, at) {
  const place = ({ dtype, intensity }) => [at.x(intensity), at.y(roof(gpu, dtype, intensity))];
  const [[bx, by], [x, y]] = [place(base), place(low)];
  const parts = [
    svg("line", { class: "amp-edge", x1: bx, x2: bx, y1: by, y2: at.bottom }),
    svg("line", { class: "amp-edge", x1: x, x2: x, y1: y, y2: at.bottom }),
    svg("rect", { class: "amp-work amp-base", x: bx - 5.5, y: by - 5.5, width: 11, height: 11 }),
    svg("circle", { class: "amp-work amp-low", cx: x, cy: y, r: 6 }),
  ];
  if (share !== null) {
    const reached = at.y(share * peak(gpu, low.dtype));
    const d = `M${x - 6} ${reached - 6}L${x + 6} ${reached + 6}M${x - 6} ${reached + 6}L${x + 6} ${reached - 6}`;
    parts.push(svg("path", { class: "amp-reached", d }));
  }
  return parts;
}

function roofs() {
  return picture(HEIGHT, 220, (state, width) => {
    const at = makeFrame(state, width);
    const label = `Rooflines, both axes logarithmic. ${summary(state)}`;
    return { label, parts: [...drawGround(at), ...drawRoofs(state, at), ...drawWork(state, at)] };
  });
}

function legend() {
  const square = svg("rect", { class: "amp-work amp-base", x: 3, y: 3, width: 10, height: 10 });
  const dot = svg("circle", { class: "amp-work amp-low", cx: 8, cy: 8, r: 5 });
  const cross = svg("path", { class: "amp-reached", d: "M3 3L13 13M3 13L13 3" });
  const keys = [
    legendKey("the most in the baseline", square),
    legendKey("the most in 16 bit", dot),
    legendKey("measured", cross),
  ];
  return h("p", { class: "amp-legend" }, ...keys);
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "gpu", "baseline", "dtype", "m", "n", "k", "measured"];
  return assemble({ model, el, root: "amp-roofline-explorer" }, "Roofline explorer", names, readState, (set, read) => [
    controls(model, set, read),
    roofs(),
    { nodes: [legend()] },
    readout(),
    liveSummary(),
  ]);
}

// The explorer on a page of its own, with the `data` of a Python RooflineExplorer.
export function mount(el, values) {
  const sizes = { m: 4096, n: 4096, k: 4096 };
  const model = plainModel({ gpu: "H200", baseline: "fp32", dtype: "fp16", ...sizes, measured: "0", ...values });
  render({ model, el });
  return model;
}

export default { render };

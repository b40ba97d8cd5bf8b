// The roofline explorer: a GPU, a dtype and the sizes of a matrix product; which bound the product
// meets, the time below which it cannot be done, and what a measured time reached of the peak.
//
// The peaks come from Python in `data.gpus`, each { name, peaks: TFLOP/s by dtype, bandwidth: GB/s,
// note }; the arithmetic is roofline.mjs. The state is gpu and dtype by name, the whole numbers m,
// n and k, and `measured`: milliseconds as text, 0 for none.

import { analyse, peak, ridge, roof, shareOfPeak, unaligned } from "./roofline.mjs";
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

const DTYPES = ["fp32", "tf32", "fp16", "bf16"];
const DASHES = { fp32: "2 4", tf32: "8 4", fp16: "none", bf16: "none" };
const LARGEST = 2 ** 17;
const MARGIN = { top: 20, right: 24, bottom: 46, left: 58 };
const HEIGHT = 360;
const RANGE = [0.1, 1e5]; // FLOP per byte, in the picture

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const { gpus } = model.get("data");
  const gpu = gpus.find(({ name }) => name === model.get("gpu")) ?? gpus[0];
  const dtype = model.get("dtype") in gpu.peaks ? model.get("dtype") : "fp32";
  const sizes = { m: model.get("m"), n: model.get("n"), k: model.get("k") };
  const measured = fromText(String(model.get("measured"))); // milliseconds
  const work = analyse(gpu, dtype, sizes);
  const share = measured > 0 ? shareOfPeak(gpu, dtype, work.flops, measured / 1e3) : null;
  return { gpus, gpu, dtype, sizes, measured, work, share, odd: unaligned(dtype, sizes) };
}

// ---- words -------------------------------------------------------------------------------------

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

function boundInWords({ work, gpu, dtype }) {
  const edge = threeDigits(ridge(gpu, dtype));
  const has = threeDigits(work.intensity);
  if (work.bound === "compute") {
    return `Bound by compute: ${has} FLOP per byte is beyond the ridge at ${edge}.`;
  }
  return `Bound by bandwidth: ${has} FLOP per byte is short of the ridge at ${edge}.`;
}

function shareInWords({ share, work, measured }) {
  if (share === null) return "Type a measured time to see what it reached.";
  const ratio = measured / 1e3 / work.floor;
  if (ratio < 1) {
    return "Faster than the floor: the time, the dtype or the sizes are not what was measured.";
  }
  return `${percent(share)} of the peak; ${threeDigits(ratio)} times the floor.`;
}

function oddInWords({ odd, dtype }) {
  if (odd.length === 0) return "";
  const multiple = dtype === "tf32" ? 4 : 8;
  return `${odd.join(", ")}: no multiple of ${multiple}, so tensor cores work below their best.`;
}

function launchInWords({ work }) {
  if (work.floor >= 1e-5) return "";
  return "A launch costs a few microseconds: here the GPU may wait for Python, whatever the dtype.";
}

function summary(state) {
  const { gpu, dtype, sizes, work } = state;
  return (
    `${gpu.name}, ${dtype}, m ${sizes.m}, n ${sizes.n}, k ${sizes.k}. ${boundInWords(state)} ` +
    `Floor ${inUnit(work.floor, SECONDS)}.`
  );
}

// ---- controls ----------------------------------------------------------------------------------

function controls(model, set, read) {
  const faults = faultLine();
  const names = model.get("data").gpus.map(({ name }) => name);
  const gpu = selectField("GPU", names, (name) => {
    const { peaks } = read().gpus.find((g) => g.name === name);
    set({ gpu: name, dtype: read().dtype in peaks ? read().dtype : "fp32" });
  });
  const dtype = selectField("Dtype", DTYPES, (name) => set({ dtype: name }));
  const sizes = ["m", "n", "k"].map((name) => {
    const parse = (text) => readSize(text, name);
    return { name, field: textField(name, faults, parse, (value) => set({ [name]: value })) };
  });
  const setTime = (value) => set({ measured: toText(value) });
  const time = textField("Measured (ms)", faults, readTime, setTime);
  const nodes = [gpu.node, dtype.node, ...sizes.map(({ field }) => field.node), time.node];
  const draw = (state) => {
    gpu.select.value = state.gpu.name;
    for (const option of dtype.select.options) option.disabled = !(option.value in state.gpu.peaks);
    dtype.select.value = state.dtype;
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

function readout() {
  const rows = {};
  const row = (key, title) => {
    rows[key] = h("dd", {});
    return h("div", {}, h("dt", {}, title), rows[key]);
  };
  const panel = (heading, ...items) =>
    h("div", { class: "amp-panel" }, h("p", { class: "amp-heading" }, heading), ...items);
  const verdict = h("p", { class: "amp-verdict" });
  const share = h("p", { class: "amp-verdict" });
  const odd = h("p", { class: "amp-note" });
  const launch = h("p", { class: "amp-note" });
  const note = h("p", { class: "amp-note" });
  const work = h("dl", {}, row("flops", "FLOPs"), row("bytes", "bytes moved"), row("intensity", "FLOP per byte"));
  const limits = h("dl", {}, row("floor", "floor"), row("reach", "FLOP/s at the floor"), row("peak", "peak, dense"));
  const left = panel("The work", verdict, work, odd, launch);
  const right = panel("The limit", share, limits, note);
  const node = h("div", { class: "amp-columns" }, left, right);
  function draw(state) {
    const { gpu, dtype, work } = state;
    verdict.textContent = boundInWords(state);
    share.textContent = shareInWords(state);
    odd.textContent = oddInWords(state);
    launch.textContent = launchInWords(state);
    note.textContent = gpu.note;
    rows.flops.textContent = inUnit(work.flops, FLOPS);
    rows.bytes.textContent = inUnit(work.bytes, SIZES);
    rows.intensity.textContent = threeDigits(work.intensity);
    rows.floor.textContent = inUnit(work.floor, SECONDS);
    rows.reach.textContent = `${inUnit(work.flops / work.floor, FLOPS)}/s`;
    rows.peak.textContent = `${inUnit(peak(gpu, dtype), FLOPS)}/s`;
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
function drawRoofs({ gpu, dtype }, at) {
  const byPeak = new Map();
  for (const name of DTYPES.filter((d) => d in gpu.peaks)) {
    byPeak.set(gpu.peaks[name], [...(byPeak.get(gpu.peaks[name]) ?? []), name]);
  }
  return [...byPeak.values()].flatMap((names) => {
    const chosen = names.includes(dtype);
    const [low, high] = RANGE;
    const corner = ridge(gpu, names[0]);
    const point = (i) => `${at.x(i)} ${at.y(roof(gpu, names[0], i))}`;
    const line = {
      class: chosen ? "amp-roof amp-chosen" : "amp-roof",
      "stroke-dasharray": DASHES[names[0]],
      d: `M${point(low)}L${point(corner)}L${point(high)}`,
    };
    const label = {
      class: chosen ? "amp-band-label" : "amp-tick",
      x: at.width - MARGIN.right - 4,
      y: at.y(peak(gpu, names[0])) - 4,
      "text-anchor": "end",
    };
    return [svg("path", line), svg("text", label, names.join(", "))];
  });
}

function drawWork({ gpu, dtype, work, share }, at) {
  const [x, y] = [at.x(work.intensity), at.y(roof(gpu, dtype, work.intensity))];
  const parts = [
    svg("line", { class: "amp-edge", x1: x, x2: x, y1: y, y2: at.bottom }),
    svg("circle", { class: "amp-work", cx: x, cy: y, r: 6 }),
  ];
  if (share !== null) {
    const reached = at.y(share * peak(gpu, dtype));
    const d = `M${x - 6} ${reached - 6}L${x + 6} ${reached + 6}M${x - 6} ${reached + 6}L${x + 6} ${reached - 6}`;
    parts.push(svg("path", { class: "amp-reached", d }));
  }
  return parts;
}

function roofs() {
  return picture(HEIGHT, 220, (state, width) => {
    const at = makeFrame(state, width);
    const label = `Roofline, both axes logarithmic. ${summary(state)}`;
    return { label, parts: [...drawGround(at), ...drawRoofs(state, at), ...drawWork(state, at)] };
  });
}

function legend() {
  const dot = svg("circle", { class: "amp-work", cx: 8, cy: 8, r: 5 });
  const cross = svg("path", { class: "amp-reached", d: "M3 3L13 13M3 13L13 3" });
  const most = legendKey("the most that this product can reach", dot);
  return h("p", { class: "amp-legend" }, most, legendKey("measured", cross));
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "gpu", "dtype", "m", "n", "k", "measured"];
  return assemble({ model, el }, "Roofline explorer", names, readState, (set, read) => [
    controls(model, set, read),
    roofs(),
    { nodes: [legend()] },
    readout(),
    liveSummary(),
  ]);
}

// The explorer on a page of its own, with the `data` of a Python RooflineExplorer.
export function mount(el, values) {
  const start = { gpu: "H200", dtype: "fp16", m: 4096, n: 4096, k: 4096, measured: "0" };
  const model = plainModel({ ...start, ...values });
  render({ model, el });
  return model;
}

export default { render };

// The gradient histogram: how many gradients have which binary exponent, what a format does to
// each of them, and how a loss scale moves them.
//
// This module draws and holds no facts. The counts, what becomes of them at every scale, and the
// edges of every format come from Python (amp_lessons.scaling) in `data`:
//
//   exponents, counts   gradients with a magnitude in [2^e, 2^(e+1)), unscaled
//   zeros, total        how many are exactly zero already, and how many there are in all
//   formats             for each: name, overflow ("inf" or "NaN"), the edges of its ranges as
//                       log2 (becomes_zero, normal, overflows), and fates, one for each scale
//                       2^0, 2^1, ...: [zero, subnormal, normal, overflow]

import {
  assemble,
  control,
  h,
  picture,
  plainModel,
  powerOfTwo,
  selectField,
  svg,
  uniqueId,
} from "./dom.mjs";

// What can become of a gradient, in the order in which Python counts it and the picture shows it.
const FATES = ["zero", "subnormal", "normal", "overflow"];
const TITLES = {
  zero: "become zero",
  subnormal: "subnormal",
  normal: "normal",
  overflow: "overflow",
};
const MEANINGS = {
  zero: "lost: too small for the format",
  subnormal: "kept, with fewer bits",
  normal: "saved with all the bits of the format",
  overflow: "lost: too large for the format",
};
const MARGIN = { top: 72, right: 14, bottom: 46, left: 54 };
const HEIGHT = 340;

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const data = model.get("data");
  const scale = model.get("scale_exponent");
  const format = data.formats.find(({ name }) => name === model.get("format")) ?? data.formats[0];
  const fate = Object.fromEntries(FATES.map((name, i) => [name, format.fates[scale][i]]));
  return { data, format, scale, fate, alive: data.total - data.zeros };
}

function scaleInWords(scale) {
  return `scale 2^${scale} = ${2 ** scale}`;
}

function percent(count, total) {
  const share = (100 * count) / total;
  if (count > 0 && share < 0.1) return "< 0.1 %";
  if (count < total && share > 99.9) return "> 99.9 %";
  return `${share.toFixed(1)} %`;
}

function grouped(count) {
  return count.toLocaleString("en");
}

// ---- controls and read-out ---------------------------------------------------------------------

function controls(model, set) {
  const names = model.get("data").formats.map(({ name }) => name);
  const format = selectField("Format", names, (name) => set({ format: name }));
  const last = model.get("data").formats[0].fates.length - 1;
  const slider = control("input", {
    id: uniqueId("scale"),
    type: "range",
    min: 0,
    max: last,
    step: 1,
    oninput: () => set({ scale_exponent: Number(slider.value) }),
  });
  // For the eye alone: the slider itself says it aloud.
  const shown = h("span", { class: "amp-scale", "aria-hidden": "true" });
  const label = h("label", { for: slider.id }, "Loss scale");
  const ends = h("div", { class: "amp-ends", "aria-hidden": "true" }, raised(0), raised(last));
  const heading = h("div", { class: "amp-split" }, label, shown);
  const field = h("div", { class: "amp-field amp-grow" }, heading, slider, ends);
  const draw = ({ format: { name }, scale }) => {
    format.select.value = name;
    slider.value = scale;
    slider.setAttribute("aria-valuetext", scaleInWords(scale));
    shown.replaceChildren(raised(scale), ` = ${grouped(2 ** scale)}`);
  };
  return { nodes: [h("div", { class: "amp-controls" }, format.node, field)], draw };
}

function raised(exponent) {
  return h("span", {}, "2", h("sup", {}, exponent));
}

// One card a fate: the count, its share, and the same hatching as in the picture.
function readout(patterns) {
  const cards = FATES.map((fate) => {
    const count = h("dd", { class: "amp-count" });
    const share = h("dd", { class: "amp-share" });
    const title = h("dt", {}, swatch(fate, patterns), TITLES[fate]);
    const meaning = h("dd", { class: "amp-note" }, MEANINGS[fate]);
    const node = h("div", { class: "amp-card" }, title, count, share, meaning);
    return { node, count, share, fate };
  });
  const zeros = h("p", { class: "amp-note" });
  const node = h("dl", { class: "amp-cards" }, ...cards.map(({ node }) => node));
  function draw({ data, fate, alive }) {
    for (const card of cards) {
      card.count.textContent = grouped(fate[card.fate]);
      card.share.textContent = percent(fate[card.fate], alive);
    }
    zeros.textContent =
      `Shares are of the ${grouped(alive)} gradients that are not zero. ` +
      `Another ${grouped(data.zeros)} are exactly zero already: no scale changes those.`;
  }
  return { nodes: [node, zeros], draw };
}

function swatch(fate, patterns) {
  const box = { x: 1, y: 1, width: 14, height: 14 };
  const square = svg("rect", { class: `amp-bar amp-${fate}`, fill: patterns[fate], ...box });
  const size = { width: 16, height: 16 };
  return svg("svg", { class: "amp-swatch", "aria-hidden": "true", ...size }, square);
}

// The same in one sentence, for the picture's accessible name and the live region.
function summary({ format, scale, fate, alive }) {
  const parts = ["normal", "subnormal", "zero", "overflow"].map(
    (name) => `${grouped(fate[name])} ${TITLES[name]} (${percent(fate[name], alive)})`,
  );
  return `${format.name}, ${scaleInWords(scale)}: ${parts.join(", ")}`;
}

function liveSummary() {
  const node = h("output", { class: "amp-hidden", "aria-live": "polite" });
  let before = null;
  function draw(state) {
    const now = summary(state);
    if (before !== null && now !== before) node.textContent = now;
    before = now;
  }
  return { nodes: [node], draw };
}

// ---- the picture -------------------------------------------------------------------------------

// Hatchings tell the fates apart without colour. A pattern is found by its id from any SVG of the
// page, so the cards use the same ones.
function makePatterns() {
  const ids = Object.fromEntries(FATES.map((fate) => [fate, uniqueId(`fill-${fate}`)]));
  const size = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const tile = (fate, ...marks) =>
    svg("pattern", { id: ids[fate], class: `amp-fill amp-${fate}`, ...size }, ...marks);
  const rising = "M-1 1L1 -1M0 6L6 0M5 7L7 5";
  const falling = "M-1 5L1 7M0 0L6 6M5 -1L7 1";
  const defs = svg(
    "defs",
    {},
    tile("zero", svg("circle", { cx: 3, cy: 3, r: 1.1 })),
    tile("subnormal", svg("path", { d: rising })),
    tile("normal", svg("rect", { width: 6, height: 6 })),
    tile("overflow", svg("path", { d: rising + falling })),
  );
  const fills = Object.fromEntries(FATES.map((fate) => [fate, `url(#${ids[fate]})`]));
  const node = svg("svg", { class: "amp-hidden", "aria-hidden": "true" }, defs);
  return { node, fills };
}

// Where everything goes, in pixels. The window takes in the whole format and the whole way that
// the gradients can travel, so that it stands still while the slider moves.
function makeFrame({ data, format }, width) {
  const scales = format.fates.length - 1;
  const low = Math.min(data.exponents[0], Math.floor(format.becomes_zero) - 4);
  const high = Math.max(data.exponents.at(-1) + scales, Math.ceil(format.overflows) + 3) + 1;
  const plotWidth = width - MARGIN.left - MARGIN.right;
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const tallest = niceCeiling(Math.max(...data.counts));
  return {
    width,
    low,
    high,
    tallest,
    bottom: HEIGHT - MARGIN.bottom,
    x: (exponent) => MARGIN.left + (plotWidth * (exponent - low)) / (high - low),
    y: (count) => HEIGHT - MARGIN.bottom - (plotHeight * count) / tallest,
  };
}

function niceCeiling(count) {
  const power = 10 ** Math.floor(Math.log10(count));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].find((step) => step * power >= count) * power;
}

// The four ranges of the format, from left to right, each with its two ends.
function bands(format, { low, high }) {
  const edges = [low, format.becomes_zero, format.normal, format.overflows, high];
  return FATES.map((fate, i) => ({ fate, from: edges[i], to: edges[i + 1] }));
}

function drawBands(state, at) {
  return bands(state.format, at).flatMap(({ fate, from, to }) => {
    const x = at.x(from);
    const ground = svg("rect", {
      class: `amp-band amp-${fate}`,
      x,
      y: MARGIN.top,
      width: at.x(to) - x,
      height: at.bottom - MARGIN.top,
    });
    const edge = { class: "amp-edge", x1: x, x2: x, y1: MARGIN.top - 8, y2: at.bottom };
    return fate === "zero" ? [ground] : [ground, svg("line", edge)];
  });
}

// The labels take turns on two lines, so that a narrow range has room for its own.
function drawBandLabels(state, at) {
  const text = {
    zero: "becomes zero",
    subnormal: "subnormal",
    normal: "normal",
    overflow: `overflow: ${state.format.overflow}`,
  };
  return bands(state.format, at).map(({ fate, from, to }, i) => {
    const y = MARGIN.top - (i % 2 ? 14 : 34);
    const middle = (at.x(from) + at.x(to)) / 2;
    const half = text[fate].length * 3.8;
    const x = Math.min(Math.max(middle, MARGIN.left + half), at.width - MARGIN.right - half);
    return svg("text", { class: "amp-band-label", x, y, "text-anchor": "middle" }, text[fate]);
  });
}

// Every bar is drawn once for each range and cut off at the range's ends, so that a bar which
// straddles an edge shows both fates.
function drawBars(state, at, fills, clipIds) {
  const outline = state.data.exponents.map((exponent, i) => {
    const count = state.data.counts[i];
    if (count === 0) return "";
    const left = at.x(exponent + state.scale);
    const width = at.x(exponent + state.scale + 1) - left;
    const inset = width > 5 ? 0.75 : 0;
    const top = Math.min(at.y(count), at.bottom - 2); // one gradient is still to be seen
    return `M${left + inset} ${at.bottom}V${top}H${left + width - inset}V${at.bottom}Z`;
  });
  const d = outline.join("");
  return bands(state.format, at).flatMap(({ fate, from, to }) => {
    const area = { x: at.x(from), y: 0, width: at.x(to) - at.x(from), height: HEIGHT };
    const clip = svg("clipPath", { id: clipIds[fate] }, svg("rect", area));
    const bars = svg("path", {
      class: `amp-bar amp-${fate}`,
      d,
      fill: fills[fate],
      "clip-path": `url(#${clipIds[fate]})`,
    });
    return [clip, bars];
  });
}

function drawAxes(state, at) {
  const { left, right } = MARGIN;
  const below = { x: (left + at.width - right) / 2, y: HEIGHT - 6, "text-anchor": "middle" };
  return [
    ...drawExponents(at),
    ...drawCounts(at),
    svg("text", { class: "amp-axis-title", ...below }, "magnitude of gradient × scale"),
    svg("text", { class: "amp-axis-title", x: 0, y: 12 }, "gradients per power of two"),
  ];
}

function drawExponents(at) {
  const room = 44; // pixels that a label needs
  const step = [1, 2, 4, 8, 16, 32, 64].find((n) => at.x(n) - at.x(0) >= room) ?? 128;
  const marks = [];
  for (let e = Math.ceil(at.low / step) * step; e <= at.high; e += step) {
    const x = at.x(e);
    const label = { class: "amp-tick", x, y: at.bottom + 19, "text-anchor": "middle" };
    marks.push(svg("line", { class: "amp-axis", x1: x, x2: x, y1: at.bottom, y2: at.bottom + 5 }));
    marks.push(svg("text", label, powerOfTwo(e)));
  }
  return marks;
}

function drawCounts(at) {
  const [x1, x2] = [MARGIN.left, at.width - MARGIN.right];
  return [0, at.tallest / 2, at.tallest].filter(Number.isInteger).flatMap((count) => {
    const y = at.y(count);
    const label = { class: "amp-tick", x: x1 - 8, y: y + 4, "text-anchor": "end" };
    const line = svg("line", { class: "amp-grid", x1, x2, y1: y, y2: y });
    return [line, svg("text", label, grouped(count))];
  });
}

function histogram(patterns) {
  const clipIds = Object.fromEntries(FATES.map((fate) => [fate, uniqueId(`clip-${fate}`)]));
  return picture(HEIGHT, 280, (state, width) => {
    const at = makeFrame(state, width);
    const label = `Histogram of gradients by power of two. ${summary(state)}`;
    const bars = drawBars(state, at, patterns, clipIds);
    const [bands, axes] = [drawBands(state, at), drawAxes(state, at)];
    return { label, parts: [...bands, ...axes, ...bars, ...drawBandLabels(state, at)] };
  });
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "format", "scale_exponent"];
  return assemble({ model, el, root: "amp-gradient-histogram" }, "Gradient histogram", names, readState, (set) => {
    const patterns = makePatterns();
    const { fills } = patterns;
    const hatches = { nodes: [patterns.node] };
    return [hatches, controls(model, set), histogram(fills), readout(fills), liveSummary()];
  });
}

// The histogram on a page of its own, with the `data` of a Python GradientHistogram.
export function mount(el, { data, format = data.formats[0].name, scale_exponent = 0 }) {
  const model = plainModel({ data, format, scale_exponent });
  render({ model, el });
  return model;
}

export default { render };

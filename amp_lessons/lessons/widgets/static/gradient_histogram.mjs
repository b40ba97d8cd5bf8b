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

import { assemble, h, picture, plainModel, rangeField, selectField, svg } from "./dom.mjs";
import {
  FATES,
  barOutline,
  clippedBars,
  drawBandLabels,
  drawBands,
  drawExponents,
  makePatterns,
} from "./zones.mjs";

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
  const ends = h("div", { class: "amp-ends", "aria-hidden": "true" }, raised(0), raised(last));
  const choose = (scale) => set({ scale_exponent: scale });
  const { node, slider, shown } = rangeField("Loss scale", last, choose, ends);
  const draw = ({ format: { name }, scale }) => {
    format.select.value = name;
    slider.value = scale;
    slider.setAttribute("aria-valuetext", scaleInWords(scale));
    shown.replaceChildren(raised(scale), ` = ${grouped(2 ** scale)}`);
  };
  return { nodes: [h("div", { class: "amp-controls" }, format.node, node)], draw };
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
    left: MARGIN.left,
    right: MARGIN.right,
    top: MARGIN.top,
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

function bandNames({ overflow }) {
  const names = { zero: "becomes zero", subnormal: "subnormal", normal: "normal" };
  return { ...names, overflow: `overflow: ${overflow}` };
}

function drawAxes(at) {
  const { left, right } = MARGIN;
  const below = { x: (left + at.width - right) / 2, y: HEIGHT - 6, "text-anchor": "middle" };
  return [
    ...drawExponents(at),
    ...drawCounts(at),
    svg("text", { class: "amp-axis-title", ...below }, "magnitude of gradient × scale"),
    svg("text", { class: "amp-axis-title", x: 0, y: 12 }, "gradients per power of two"),
  ];
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
  const drawBars = clippedBars(patterns);
  return picture(HEIGHT, 280, (state, width) => {
    const at = makeFrame(state, width);
    const label = `Histogram of gradients by power of two. ${summary(state)}`;
    const { data, format, scale } = state;
    const d = barOutline(data.exponents[0] + scale, data.counts, at, at.y);
    const [bars, bands, axes] = [drawBars(d, format, at, HEIGHT), drawBands(format, at), drawAxes(at)];
    return { label, parts: [...bands, ...axes, ...bars, ...drawBandLabels(format, at, bandNames(format))] };
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

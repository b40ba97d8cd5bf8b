// The four ranges of a format on an axis of binary exponents: what it does to a number there. Their
// names, grounds, edges, labels and hatchings, and the axis below.
//
// A format is { becomes_zero, normal, overflows }, its edges as log2. `at` says where things go, in
// pixels: { width, left, right, top, bottom, low, high, x(exponent) }, and with oneLine that the labels
// need no second line.

import { powerOfTwo, svg, uniqueId } from "./dom.mjs";

// What can become of a number, from left to right.
export const FATES = ["zero", "subnormal", "normal", "overflow"];

// The four ranges of the format, from left to right, each with its two ends.
export function bands(format, { low, high }) {
  const edges = [low, format.becomes_zero, format.normal, format.overflows, high];
  return FATES.map((fate, i) => ({ fate, from: edges[i], to: edges[i + 1] }));
}

export function drawBands(format, at) {
  return bands(format, at).flatMap(({ fate, from, to }) => {
    const x = at.x(from);
    const ground = svg("rect", {
      class: `amp-band amp-${fate}`,
      x,
      y: at.top,
      width: at.x(to) - x,
      height: at.bottom - at.top,
    });
    const edge = { class: "amp-edge", x1: x, x2: x, y1: at.top - 8, y2: at.bottom };
    return fate === "zero" ? [ground] : [ground, svg("line", edge)];
  });
}

// The labels take turns on two lines, so that a narrow range has room for its own.
export function drawBandLabels(format, at, text) {
  return bands(format, at).map(({ fate, from, to }, i) => {
    const y = at.top - (i % 2 || at.oneLine ? 14 : 34);
    const middle = (at.x(from) + at.x(to)) / 2;
    const half = text[fate].length * 3.8;
    const x = Math.min(Math.max(middle, at.left + half), at.width - at.right - half);
    return svg("text", { class: "amp-band-label", x, y, "text-anchor": "middle" }, text[fate]);
  });
}

// Bars, drawn once for each range and cut off at the range's ends, so that a bar which straddles an
// edge shows both fates. Gives what draws them.
export function clippedBars(fills) {
  const ids = Object.fromEntries(FATES.map((fate) => [fate, uniqueId(`clip-${fate}`)]));
  return (d, format, at, height) =>
    bands(format, at).flatMap(({ fate, from, to }) => {
      const area = { x: at.x(from), y: 0, width: at.x(to) - at.x(from), height };
      const clip = svg("clipPath", { id: ids[fate] }, svg("rect", area));
      const cut = { d, fill: fills[fate], "clip-path": `url(#${ids[fate]})` };
      return [clip, svg("path", { class: `amp-bar amp-${fate}`, ...cut })];
    });
}

// The outline of bars: `counts[i]` numbers from 2^(low + i) to 2^(low + i + 1), on a ground line.
export function barOutline(low, counts, at, y) {
  const bars = counts.map((count, i) => {
    if (count === 0) return "";
    const left = at.x(low + i);
    const width = at.x(low + i + 1) - left;
    const inset = width > 5 ? 0.75 : 0;
    const top = Math.min(y(count), y(0) - 2); // one number is still to be seen
    return `M${left + inset} ${y(0)}V${top}H${left + width - inset}V${y(0)}Z`;
  });
  return bars.join("");
}

export function drawExponents(at) {
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

// Hatchings tell the fates apart without colour. A pattern is found by its id from any SVG of the
// page, so whatever shows a fate can use the same ones.
export function makePatterns() {
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

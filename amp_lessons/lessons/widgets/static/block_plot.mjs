// The plot of the block explorer: numbers by magnitude, one of which can be dragged, and the lines
// below which a format has nothing but 0.

import { zeroBelow } from "./blocks.mjs";
import { h, keepKeys, picture, powerOfTwo, svg, withMinus } from "./dom.mjs";

const OCTAVES = 10; // from its neighbours' size to 1,024 times as large
const PER_OCTAVE = 8; // stops
const STOPS = OCTAVES * PER_OCTAVE;
const PLOT = { height: 280, top: 30, left: 34, right: 6 };
const ROOMY = 35; // pixels of a column that a number fits into

export const digits = (x) => withMinus(Number(x.toPrecision(Math.abs(x) < 1 ? 2 : 3)));

export function timesInWords(times) {
  const shown = times < 1000 ? Number(times.toPrecision(3)) : Math.round(times).toLocaleString("en");
  return `${shown} ${shown === 1 ? "time" : "times"}`;
}

// FP8's lines would be far below the others.
export const hasLimit = (format) => format.element.bits === 4;

// The number to drag: an upright slider that stands in its column of the plot.
export function handle(set) {
  const thumb = h("span", { class: "amp-be-thumb", "aria-hidden": "true" }, "↕");
  const is = { role: "slider", tabindex: 0, "aria-label": "Marked number", "aria-orientation": "vertical" };
  const node = keepKeys(h("div", { class: "amp-be-handle", ...is, "aria-valuemin": 0, "aria-valuemax": STOPS }, thumb));
  let stop = 0;
  let octave = 1; // in pixels
  let grip = null; // how far below the middle of the thumb the pointer holds it
  const move = (to) => to !== stop && set({ times: 2 ** (Math.min(Math.max(to, 0), STOPS) / PER_OCTAVE) });
  const keys = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 8, PageDown: -8, Home: -STOPS, End: STOPS };
  node.addEventListener("keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    move(stop + keys[event.key]);
  });
  const belowThumb = ({ clientY }) => clientY - thumb.getBoundingClientRect().top - thumb.offsetHeight / 2;
  const follow = (event) => grip !== null && move(stop + Math.round((PER_OCTAVE * (grip - belowThumb(event))) / octave));
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    grip = event.target === thumb ? belowThumb(event) : 0;
    node.setPointerCapture(event.pointerId);
    follow(event);
  });
  node.addEventListener("pointermove", follow);
  for (const name of ["pointerup", "pointercancel"]) node.addEventListener(name, () => (grip = null));
  function draw({ times, median }) {
    stop = Math.round(PER_OCTAVE * Math.log2(times));
    node.setAttribute("aria-valuenow", stop);
    node.setAttribute("aria-valuetext", `${timesInWords(times)} the median of the others: ${digits(times * median)}`);
  }
  function place(x, y, pixels) {
    octave = pixels;
    node.style.left = `${x}px`;
    thumb.style.top = `${y}px`;
  }
  return { node, draw, place };
}

// `rows` of the state are formats with their blocks.
export function plot(slider) {
  const { height, top, left, right } = PLOT;

  function paint(state, width) {
    const { numbers, sizes, marked, median } = state;
    const high = Math.log2(median) + OCTAVES;
    const low = Math.floor(Math.max(Math.log2(sizes.find((size) => size > 0)), high - 24)) - 1;
    const column = (width - left - right) / numbers.length;
    const roomy = column >= ROOMY;
    const bottom = height - (roomy ? 24 : 8);
    const octave = (bottom - top) / (high - low);
    const x = (i) => left + column * (i + 0.5);
    const y = (size) => bottom - octave * Math.max(Math.log2(size) - low, 0);
    slider.place(x(marked), y(Math.abs(numbers[marked])), octave);
    const stems = numbers.flatMap((number, i) => {
      const at = { cx: x(i), cy: y(Math.abs(number)), r: Math.min(5, column / 3) };
      const stem = svg("line", { class: "amp-be-stem", x1: x(i), x2: x(i), y1: at.cy, y2: bottom });
      const below = { class: "amp-tick", x: x(i), y: height - 4, "text-anchor": "middle" };
      const dot = i === marked ? [] : [svg("circle", { class: "amp-be-dot", ...at })];
      return [stem, ...dot, ...(roomy ? [svg("text", below, digits(number))] : [])];
    });
    const lines = state.rows.filter(({ format }) => hasLimit(format)).flatMap((row) => limits(row, x, y, column, low));
    const label = `${numbers.length} numbers by magnitude: ${numbers.map(digits).join(", ")}`;
    return { label, parts: [...axis(low, high, y, width), ...lines, ...stems] };
  }

  function axis(low, high, y, width) {
    const marks = [svg("text", { class: "amp-axis-title", x: 0, y: 12 }, "magnitude")];
    for (let e = Math.ceil(low / 2) * 2; e <= high; e += 2) {
      const at = y(2 ** e);
      marks.push(svg("line", { class: "amp-grid", x1: left, x2: width - right, y1: at, y2: at }));
      marks.push(svg("text", { class: "amp-tick", x: left - 8, y: at + 4, "text-anchor": "end" }, powerOfTwo(e)));
    }
    return marks;
  }

  // A line for each block, unless it is below the plot.
  function limits({ format, blocks }, x, y, column, low) {
    const drawn = blocks.filter(({ scale }) => Math.log2(zeroBelow(format, scale)) > low);
    return drawn.map(({ start, stored, scale }) => {
      const [x1, x2] = [x(start) - column / 2, x(start + stored.length - 1) + column / 2];
      const at = y(zeroBelow(format, scale));
      return svg("line", { class: `amp-be-limit amp-be-${format.name}`, x1, x2, y1: at, y2: at });
    });
  }

  const made = picture(height, 250, paint);
  const node = h("div", { class: "amp-be-plot" }, ...made.nodes, slider.node);
  return { node, draw: (state) => (made.draw(state), slider.draw(state)), stop: made.stop };
}

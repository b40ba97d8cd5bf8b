// The block explorer: numbers that share a scale, one of them to drag, and what four block-scaled
// formats keep of the others.
//
// The arithmetic is in blocks.mjs, so that it also lives on a web page with no Python. The state:
//
//   numbers    16 or 32 of them
//   count      how many are shown, 16 or 32
//   marked     the place of the one to drag
//   times      how many times as large it is as the median of the others
//   rounding   how the scale of MX formats is rounded, one of ROUNDINGS

import { BLOCK_FORMATS, ROUNDINGS, quantize, zeroBelow } from "./blocks.mjs";
import { assemble, h, keepKeys, legendKey, picture, plainModel, powerOfTwo, selectField, svg, withMinus } from "./dom.mjs";

const OCTAVES = 10; // from its neighbours' size to 1,024 times as large
const PER_OCTAVE = 8; // stops
const STOPS = OCTAVES * PER_OCTAVE;
const WHOSE = { FLOOR: "OCP MX", CEIL: "torchao", RCEIL: "cuBLAS", EVEN: "torchao" };
const PLOT = { height: 286, top: 30, bottom: 262, left: 40, right: 10 };
const ROOMY = 35; // pixels of a column that a number fits into

const NOTE = "NVFP4 has a second scale, for the whole tensor. Here it is 1. A block of 16 numbers fills half of an MX block.";

// What can become of a number: its words, and its mark in a box of 14 pixels.
const FATES = {
  close: { words: "stays within 6% (FP8) or 20% (FP4)", mark: "M7 2a5 5 0 1 0 .01 0Z" },
  off: { words: "is off by more", mark: "M7 1.5L12.5 7L7 12.5L1.5 7Z" },
  zero: { words: "becomes 0", mark: "M2.5 2.5l9 9m0 -9l-9 9" },
  cut: { words: "saturates: cut to the largest", mark: "M1.5 2.5H12.5M7 6L12 12.5H2Z" },
};

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const [count, marked, times, rounding] = ["count", "marked", "times", "rounding"].map((name) => model.get(name));
  const numbers = model.get("numbers").slice(0, count).map(Math.fround);
  const sizes = numbers.filter((_, i) => i !== marked).map(Math.abs).sort((a, b) => a - b);
  const median = sizes[(sizes.length - 1) / 2];
  numbers[marked] = Math.fround((numbers[marked] < 0 ? -1 : 1) * times * median);
  const rows = BLOCK_FORMATS.map((format) => rowOf(numbers, marked, format, rounding));
  return { numbers, sizes, marked, times, median, rounding, rows };
}

// What a format makes of the numbers.
function rowOf(numbers, marked, format, rounding) {
  const blocks = quantize(numbers, format, rounding);
  const stored = blocks.flatMap(({ stored }) => stored);
  const fates = stored.map((one, i) => fateOf(numbers[i], one, format));
  const counts = Object.fromEntries(Object.keys(FATES).map((fate) => [fate, 0]));
  fates.forEach((fate, i) => i !== marked && (counts[fate] += 1));
  return { format, blocks, kept: stored.map(({ kept }) => kept), fates, counts, others: numbers.length - 1 };
}

function fateOf(number, { kept, cut }, { close }) {
  if (cut) return "cut";
  if (Math.abs(kept - number) <= close * Math.abs(number)) return "close";
  return kept === 0 ? "zero" : "off";
}

// ---- words -------------------------------------------------------------------------------------

const digits = (x) => withMinus(Number(x.toPrecision(Math.abs(x) < 1 ? 2 : 3)));

function timesInWords(times) {
  const shown = times < 1000 ? Number(times.toPrecision(3)) : Math.round(times).toLocaleString("en");
  return `${shown} ${shown === 1 ? "time" : "times"}`;
}

// "3 of 15 others become 0", and the rest: ", 8 stay within 20%."
function fatesInWords({ format, counts, others }) {
  const within = `within ${100 * format.close}%`;
  if (counts.close === others) return [`All ${others} others stay ${within}`, "."];
  const verb = (count, word) => (count === 1 ? `${word}s` : word);
  const zeros = counts.zero === others ? `All ${others} others` : `${counts.zero || "None"} of ${others} others`;
  const cut = counts.cut ? `, ${counts.cut} ${verb(counts.cut, "saturate")}` : "";
  const close = counts.close ? `, ${counts.close} ${verb(counts.close, "stay")} ${within}` : "";
  return [`${zeros} ${verb(counts.zero || 1, "become")} 0`, `${cut}${close}.`];
}

function markedInWords({ kept, fates }, { numbers, marked }) {
  const [before, after] = [numbers[marked], kept[marked]];
  const change = Math.round((100 * (after - before)) / before);
  const verb = fates[marked] === "cut" ? "saturates at" : change ? "becomes" : "stays";
  return `Marked: ${digits(before)} ${verb} ${digits(after)}${change ? ` (${change > 0 ? "+" : "−"}${Math.abs(change)}%)` : ""}.`;
}

// A power of two, or an E4M3 number in all its digits.
function scalesInWords({ format, blocks }) {
  const one = ({ scale }) => {
    if (format.scale === "FP32") return digits(scale);
    if (format.scale === "E4M3") return scale;
    const exponent = Math.log2(scale);
    return `${powerOfTwo(exponent)}${Math.abs(exponent) > 12 ? "" : ` = ${scale}`}`;
  };
  return `Scale${blocks.length > 1 ? "s" : ""} ${blocks.map(one).join(" and ")}`;
}

function layoutInWords({ element, scale, block }) {
  return `${element.name}, ${scale} scale for ${Number.isFinite(block) ? block : "all"}`;
}

// ---- controls ----------------------------------------------------------------------------------

function controls(model, set) {
  const names = Object.keys(ROUNDINGS);
  const sizes = [16, 32].filter((size) => size <= model.get("numbers").length);
  const count = selectField("Numbers", sizes, (size) => set({ count: Number(size) }));
  const labels = names.map((name) => `${name.toLowerCase()} (${WHOSE[name]})`);
  const rounding = selectField("Scale of MX formats", labels, () => set({ rounding: names[rounding.select.selectedIndex] }));
  const formula = h("code", {});
  function draw(state) {
    count.select.value = state.numbers.length;
    rounding.select.selectedIndex = names.indexOf(state.rounding);
    formula.textContent = ROUNDINGS[state.rounding];
  }
  rounding.node.append(h("p", { class: "amp-note" }, formula));
  return { nodes: [h("div", { class: "amp-controls" }, count.node, rounding.node)], draw };
}

// The number to drag: an upright slider that stands in its column of the plot.
function handle(set) {
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

// ---- the plot: all numbers by size, and the lines below which a format has only 0 --------------

function plot(slider) {
  const { height, top, bottom, left, right } = PLOT;

  function paint(state, width) {
    const { numbers, sizes, marked, median } = state;
    const high = Math.log2(median) + OCTAVES;
    const low = Math.floor(Math.max(Math.log2(sizes.find((size) => size > 0)), high - 24)) - 1;
    const column = (width - left - right) / numbers.length;
    const octave = (bottom - top) / (high - low);
    const x = (i) => left + column * (i + 0.5);
    const y = (size) => bottom - octave * Math.max(Math.log2(size) - low, 0);
    slider.place(x(marked), y(Math.abs(numbers[marked])), octave);
    const stems = numbers.flatMap((number, i) => {
      const at = { cx: x(i), cy: y(Math.abs(number)), r: Math.min(5, column / 3) };
      const stem = svg("line", { class: "amp-be-stem", x1: x(i), x2: x(i), y1: at.cy, y2: bottom });
      const below = { class: "amp-tick", x: x(i), y: height - 4, "text-anchor": "middle" };
      const dot = i === marked ? [] : [svg("circle", { class: "amp-be-dot", ...at })];
      return [stem, ...dot, ...(column < ROOMY ? [] : [svg("text", below, digits(number))])];
    });
    const parts = [...axis(low, high, y, width), ...state.rows.flatMap((row, i) => limits(row, i, x, y, column, low)), ...stems];
    return { label: `${numbers.length} numbers by size: ${numbers.map(digits).join(", ")}`, parts };
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

  // Where the line is below the plot, it isn't drawn.
  function limits({ format, blocks }, place, x, y, column, low) {
    const size = blocks.map(({ scale }) => zeroBelow(format, scale));
    return blocks.flatMap(({ start, stored }, i) => {
      if (Math.log2(size[i]) <= low) return [];
      const [x1, x2] = [x(start) - column / 2, x(start + stored.length - 1) + column / 2];
      const line = svg("line", { class: `amp-be-limit amp-be-${format.name}`, x1, x2, y1: y(size[i]), y2: y(size[i]) });
      const end = place % 2 ? { x: x2, "text-anchor": "end" } : { x: x1, "text-anchor": "start" };
      return [line, svg("text", { class: "amp-be-caption", y: y(size[i]) - 5, ...end }, format.name)];
    });
  }

  const made = picture(height, 250, paint);
  const node = h("div", { class: "amp-be-plot" }, ...made.nodes, slider.node);
  return { node, draw: (state) => (made.draw(state), slider.draw(state)), stop: made.stop };
}

// ---- what is left ------------------------------------------------------------------------------

function mark(fate) {
  return svg("path", { class: `amp-be-mark amp-be-${fate}`, d: FATES[fate].mark });
}

function lead() {
  const times = h("strong", {});
  const node = h("p", { class: "amp-be-lead" }, "The marked number is ", times, " as large as the median of the others. Drag it up and down.");
  return { node, draw: (state) => (times.textContent = timesInWords(state.times)) };
}

function legend() {
  const keys = Object.keys(FATES).map((fate) => legendKey(FATES[fate].words, mark(fate)));
  const note = h("p", { class: "amp-note" }, "Below a format's line in the plot, numbers become 0.");
  return h("div", { class: "amp-be-legend" }, h("p", { class: "amp-legend" }, ...keys), note);
}

// A format: its scale, what becomes of the numbers in words, and a mark below each of them.
function strip(place) {
  const format = BLOCK_FORMATS[place];
  const [scale, zeros, rest, one] = [h("p", {}), h("strong", {}), h("span", {}), h("p", { class: "amp-note" })];
  const name = h("p", {}, h("strong", { class: "amp-be-name" }, format.name), h("span", { class: "amp-note" }, ` ${layoutInWords(format)}`));
  const said = h("div", { class: "amp-be-said" }, name, scale, h("p", { class: "amp-be-fates" }, zeros, rest), one);
  const cells = h("div", { class: "amp-be-cells", role: "img" });
  let drawn = [];

  function draw(state) {
    const row = state.rows[place];
    const [first, others] = fatesInWords(row);
    zeros.textContent = first;
    rest.textContent = others;
    scale.textContent = scalesInWords(row);
    one.textContent = markedInWords(row, state);
    if (drawn.length !== row.kept.length) makeCells(row, state.marked);
    cells.setAttribute("aria-label", `${format.name} keeps ${row.kept.map(digits).join(", ")}`);
    drawn.forEach(({ path, text }, i) => {
      const fate = row.fates[i];
      path.setAttribute("d", FATES[fate].mark);
      path.setAttribute("class", `amp-be-mark amp-be-${fate}`);
      text.textContent = digits(row.kept[i]);
    });
  }

  function makeCells({ kept, blocks }, marked) {
    drawn = kept.map(() => ({ path: mark("close"), text: h("span", {}) }));
    const starts = blocks.map(({ start }) => start).filter(Boolean);
    const nodes = drawn.map(({ path, text }, i) => {
      const is = [i === marked && "amp-be-marked", starts.includes(i) && "amp-be-start"].filter(Boolean).join(" ");
      return h("div", { class: is || null }, svg("svg", { width: 14, height: 14 }, path), text);
    });
    cells.replaceChildren(...nodes);
    cells.classList.toggle("amp-be-dense", kept.length > 16);
  }
  return { nodes: [said, cells], draw };
}

// What a key has changed, for who cannot see it.
function announcer() {
  const node = h("output", { class: "amp-hidden", "aria-live": "polite" });
  let before = null;
  function draw({ rows }) {
    const now = rows.map((row) => `${row.format.name}: ${fatesInWords(row)[0]}`).join(". ");
    if (before !== null && now !== before) node.textContent = now;
    before = now;
  }
  return { nodes: [node], draw };
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["numbers", "count", "marked", "times", "rounding"];
  return assemble({ model, el, root: "amp-block-explorer" }, "Block explorer", names, readState, (set) => {
    const [words, numbers] = [lead(), plot(handle(set))];
    const strips = BLOCK_FORMATS.map((_, place) => strip(place));
    const nodes = [words.node, numbers.node, legend(), ...strips.flatMap(({ nodes }) => nodes)];
    const draw = (state) => [words, numbers, ...strips].forEach((part) => part.draw(state));
    const grid = { nodes: [h("div", { class: "amp-be-grid" }, ...nodes), h("p", { class: "amp-note" }, NOTE)], draw, stop: numbers.stop };
    return [controls(model, set), grid, announcer()];
  });
}

// The explorer on a page of its own, with the values of a Python BlockExplorer.
export function mount(el, values) {
  const model = plainModel({ ...values });
  render({ model, el });
  return model;
}

export default { render };

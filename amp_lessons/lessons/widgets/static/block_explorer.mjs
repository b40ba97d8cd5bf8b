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

import { digits, handle, hasLimit, plot, timesInWords } from "./block_plot.mjs";
import { BLOCK_FORMATS, ROUNDINGS, quantize } from "./blocks.mjs";
import { assemble, h, legendKey, plainModel, powerOfTwo, selectField, svg } from "./dom.mjs";

const WHOSE = { FLOOR: "OCP MX", CEIL: "torchao", RCEIL: "cuBLAS", EVEN: "torchao" };
const NOTE = "NVFP4 has a second scale, for the whole tensor. Here it is 1. In MX formats, 16 numbers fill half of a block.";

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
  if (kept === 0 && number !== 0) return "zero";
  if (cut) return "cut";
  return Math.abs(kept - number) <= close * Math.abs(number) ? "close" : "off";
}

// ---- words -------------------------------------------------------------------------------------

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
    if (format.scale === "FP32") return Number(scale.toPrecision(4));
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
  const lines = BLOCK_FORMATS.filter(hasLimit).map((format) => {
    const line = svg("line", { class: `amp-be-limit amp-be-${format.name}`, x1: 0, x2: 16, y1: 8, y2: 8 });
    return legendKey(`below it, ${format.name} has only 0`, line);
  });
  return h("p", { class: "amp-legend" }, ...keys, ...lines);
}

// A format: its scale, what becomes of the numbers in words, and a mark below each of them.
function strip(place) {
  const format = BLOCK_FORMATS[place];
  const [scale, zeros, rest, one] = [h("p", {}), h("strong", {}), h("span", {}), h("p", { class: "amp-note" })];
  const name = h("p", {}, h("strong", { class: "amp-be-name" }, format.name), h("span", { class: "amp-note" }, ` ${layoutInWords(format)}`));
  const said = h("div", { class: `amp-be-said amp-be-said-${format.element.name}` }, name, scale, h("p", {}, zeros, rest), one);
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
      return h("div", { class: is || null }, svg("svg", { viewBox: "0 0 14 14" }, path), text);
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

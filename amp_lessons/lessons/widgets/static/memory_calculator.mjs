// The memory calculator: choose a model, a batch and an optimizer, and see where the bytes of a
// training step are in FP32, beside autocast or BF16 parameters.
//
// The bytes come from memory.mjs. The state is `kind`, `layers`, `width`, `batch`, `length`,
// `optimizer` and `against`; `data` holds the presets and the largest sizes.

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
  uniqueId,
  wholeNumber,
} from "./dom.mjs";
import {
  HEAD_WIDTH,
  PARTS,
  crossoverBatch,
  totalOf,
  trainingMemory,
} from "./memory.mjs";

const SIZES = { layers: "Layers", width: "Width", batch: "Batch", length: "Sequence length" };
const KINDS = { mlp: "MLP", gpt: "GPT-2" };
const OPTIMIZERS = { sgd: "SGD", momentum: "SGD with momentum", adam: "Adam" };
const AGAINST = { amp: "autocast (AMP)", bf16: "BF16 parameters" };
const TITLES = {
  parameters: "parameters",
  gradients: "gradients",
  optimizer: "optimizer state",
  data: "batch",
  activations: "activations",
  cast_cache: "cast cache",
};
const OWN = "sizes of your own";
const ROW = { height: 46, gap: 22, top: 8, left: 60, right: 92 };

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const settings = { optimizer: model.get("optimizer"), kind: model.get("kind") };
  for (const name of Object.keys(SIZES)) settings[name] = model.get(name);
  const against = model.get("against");
  const bars = ["fp32", against].map((precision) => {
    const memory = trainingMemory(settings, precision);
    return { precision, memory, total: totalOf(memory) };
  });
  const names = ["kind", "layers", "width", "batch", ...(settings.kind === "gpt" ? ["length"] : [])];
  const preset = model.get("data").presets.find((p) => names.every((name) => p[name] === settings[name]));
  return { settings, against, bars, preset, crossover: crossoverBatch(settings, against) };
}

function nameOf(precision) {
  return { fp32: "FP32", amp: "AMP", bf16: "BF16" }[precision];
}

// 1,536 bytes as "1.50 KiB".
function inUnits(bytes) {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 4);
  const unit = ["bytes", "KiB", "MiB", "GiB", "TiB"][power];
  return power ? `${(bytes / 1024 ** power).toFixed(2)} ${unit}` : `${bytes} ${unit}`;
}

function sizeFault(name, value, { most, kind }) {
  const fine = value >= 1 && value <= most[name]; // null counts as 0
  if (!fine) return `${SIZES[name]} must be a whole number from 1 to ${most[name]}.`;
  if (name !== "width" || kind !== "gpt" || value % HEAD_WIDTH === 0) return null;
  return `The width of a GPT must be a multiple of ${HEAD_WIDTH}.`;
}

// ---- controls ----------------------------------------------------------------------------------

function controls(model, set) {
  const { presets, most } = model.get("data");
  const usePreset = (name) => {
    const preset = presets.find((one) => one.name === name);
    if (!preset) return draw(readState(model));
    const { name: _, ...values } = preset;
    replace(values);
  };
  const preset = selectField("Example", [...presets.map(({ name }) => name), OWN], usePreset);
  const choose = (label, names, trait, change = (value) => set({ [trait]: value })) => {
    const field = selectField(label, Object.values(names), (text) => {
      const value = Object.keys(names).find((key) => names[key] === text);
      change(value);
    });
    return { node: field.node, draw: (value) => (field.select.value = names[value]) };
  };
  const toKind = (kind) => {
    const width = Math.max(HEAD_WIDTH, Math.round(model.get("width") / HEAD_WIDTH) * HEAD_WIDTH);
    replace(kind === "gpt" ? { width, kind } : { kind });
  };
  const kind = choose("Kind of model", KINDS, "kind", toKind);
  const optimizer = choose("Optimizer", OPTIMIZERS, "optimizer");
  const against = choose("Beside FP32", AGAINST, "against");

  const faults = faultLine();
  const sizes = Object.keys(SIZES).map((name) => {
    const parse = (text) => {
      const value = wholeNumber(text);
      const fault = sizeFault(name, value, { most, kind: model.get("kind") });
      if (fault !== null) throw new Error(fault);
      return value;
    };
    return { name, field: textField(SIZES[name], faults, parse, (value) => set({ [name]: value })) };
  });
  // What was typed and refused is of no interest once other values take its place.
  const replace = (values) => {
    set(values);
    sizes.forEach(({ name, field }) => field.reset(model.get(name)));
  };

  function draw({ settings, against: chosen, preset: matching }) {
    preset.select.value = matching?.name ?? OWN;
    kind.draw(settings.kind);
    optimizer.draw(settings.optimizer);
    against.draw(chosen);
    for (const { name, field } of sizes) {
      field.node.hidden = name === "length" && settings.kind !== "gpt";
      field.draw(settings[name]);
    }
  }
  const first = h("div", { class: "amp-controls" }, preset.node, kind.node, optimizer.node, against.node);
  const second = h("div", { class: "amp-controls amp-sizes" }, ...sizes.map(({ field }) => field.node));
  return { nodes: [first, second, faults.node], draw };
}

// ---- the bars ----------------------------------------------------------------------------------

// Hatchings tell the parts apart without colour; they lie over a fill of the part's own colour.
const MARKS = {
  parameters: "",
  gradients: "M0 6L6 0",
  optimizer: "M0 0L6 6M0 6L6 0",
  data: "M0 3H6",
  activations: "M3 0V6",
  cast_cache: "M1.5 1.5h3v3h-3z",
};

function makePatterns() {
  const ids = Object.fromEntries(PARTS.map((part) => [part, uniqueId(part)]));
  const size = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const patterns = PARTS.map((part) => {
    const ground = svg("rect", { class: `amp-part-fill amp-part-${part}`, width: 6, height: 6 });
    const mark = svg("path", { class: "amp-part-mark", d: MARKS[part] });
    return svg("pattern", { id: ids[part], ...size }, ground, mark);
  });
  const holder = { class: "amp-hidden", width: 0, height: 0, "aria-hidden": "true" };
  const fills = Object.fromEntries(PARTS.map((part) => [part, `url(#${ids[part]})`]));
  return { node: svg("svg", holder, svg("defs", {}, ...patterns)), fills };
}

function bars(fills) {
  const height = ROW.top + 2 * (ROW.height + ROW.gap);
  return picture(height, 220, (state, width) => {
    const most = Math.max(...state.bars.map(({ total }) => total));
    const scale = (width - ROW.left - ROW.right) / most;
    const parts = state.bars.flatMap((bar, i) => drawBar(bar, i, scale, fills));
    return { label: summary(state), parts };
  });
}

function drawBar({ precision, memory, total }, row, scale, fills) {
  const y = ROW.top + row * (ROW.height + ROW.gap);
  const middle = y + ROW.height / 2 + 4;
  let x = ROW.left;
  const boxes = PARTS.flatMap((part) => {
    const width = memory[part] * scale;
    const box = { class: "amp-memory-part", "data-part": part, x, y, width, height: ROW.height };
    x += width;
    return width > 0 ? [svg("rect", { ...box, fill: fills[part] })] : [];
  });
  const name = { class: "amp-band-label", x: ROW.left - 10, y: middle, "text-anchor": "end" };
  const sum = svg("text", { x: x + 8, y: middle }, inUnits(total));
  return [svg("text", name, nameOf(precision)), ...boxes, sum];
}

function legend(fills) {
  const keys = PARTS.map((part) => {
    const box = { class: "amp-memory-part", x: 1, y: 1, width: 14, height: 14, fill: fills[part] };
    return legendKey(TITLES[part], svg("rect", box));
  });
  return h("p", { class: "amp-legend" }, ...keys);
}

function summary({ bars }) {
  const words = bars.map(({ precision, memory, total }) => {
    const parts = PARTS.filter((part) => memory[part] > 0);
    const list = parts.map((part) => `${TITLES[part]} ${inUnits(memory[part])}`).join(", ");
    return `${nameOf(precision)}: ${inUnits(total)}: ${list}`;
  });
  return `Bytes of a training step. ${words.join(". ")}.`;
}

// ---- in words and numbers ----------------------------------------------------------------------

function verdict() {
  const words = h("output", { class: "amp-memory-verdict", "aria-live": "polite" });
  const crossing = h("p", { class: "amp-note" });
  function draw(state) {
    const [fp32, beside] = state.bars;
    const name = nameOf(beside.precision);
    const text = `${name} needs ${(beside.total / fp32.total).toFixed(2)} times the bytes of FP32.`;
    if (words.textContent !== text) words.textContent = text;
    crossing.textContent = crossoverInWords(name, state.crossover);
  }
  return { nodes: [h("p", { class: "amp-verdict" }, words), crossing], draw };
}

function crossoverInWords(name, batch) {
  if (batch === null) return `At no batch does ${name} need less: what it adds is never won back.`;
  if (batch === 1) return `${name} needs less at every batch.`;
  return `${name} needs less than FP32 from a batch of ${batch.toLocaleString("en")} on.`;
}

function table() {
  const heads = ["part", "FP32", "AMP", "difference"].map((name) => h("th", { scope: "col" }, name));
  const body = h("tbody", {});
  const label = { role: "region", "aria-label": "Bytes by part", tabindex: 0 };
  const grid = h("table", { class: "amp-table" }, h("thead", {}, h("tr", {}, ...heads)), body);
  const box = h("div", { class: "amp-scroll", "data-lm-suppress-shortcuts": "true", ...label }, grid);
  const note = h("p", { class: "amp-note" }, NOTE);
  function draw({ bars: [fp32, beside] }) {
    heads[2].textContent = nameOf(beside.precision);
    const row = (title, one, other) => {
      const sign = other - one > 0 ? "+" : "";
      const cells = [one, other].map((bytes) => h("td", {}, bytes.toLocaleString("en")));
      const change = h("td", {}, sign + (other - one).toLocaleString("en").replace("-", "−"));
      return h("tr", {}, h("th", { scope: "row" }, title), ...cells, change);
    };
    const rows = PARTS.map((part) => row(TITLES[part], fp32.memory[part], beside.memory[part]));
    body.replaceChildren(...rows, row("total", fp32.total, beside.total));
  }
  return { nodes: [box, note], draw };
}

const NOTE =
  "Counted at the end of the forward pass, by CUDA's autocast rules, with the gradients that " +
  "backward then adds. Not counted: temporary results, workspaces, and what the allocator keeps.";

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = [...Object.keys(SIZES), "kind", "optimizer", "against"];
  return assemble({ model, el, root: "amp-memory-calculator" }, "Memory calculator", names, readState, (set) => {
    const { node, fills } = makePatterns();
    const [hatches, keys] = [{ nodes: [node] }, { nodes: [legend(fills)] }];
    return [hatches, controls(model, set), bars(fills), keys, verdict(), table()];
  });
}

// The calculator on a page of its own, with the `data` of a Python MemoryCalculator.
export function mount(el, { data, ...values }) {
  const { name: _, ...start } = data.presets[0];
  const model = plainModel({ data, optimizer: "sgd", against: "amp", ...start, ...values });
  render({ model, el });
  return model;
}

export default { render };

// The explorer of published runs: a GPU, a model, a batch; the speed-up of each published pair as a
// bar, with a line at 1 and one at the limit by the peaks, and where each pair comes from.
//
// `data.gpus` holds { name, baseline, limit, peaks: [baseline, FP16] in TFLOP/s }, with null where
// the course has no peaks. `data.pairs` holds { gpu, model, name, gpus, batch, speedup, rates,
// differs: "", "batch" or "more", suspect, note, source, line }, and `data.sources` { name, url,
// commit }. The state is gpu, model and batch as text; "" stands for all models, and for any batch.

import { assemble, h, plainModel, selectField } from "./dom.mjs";

const EVERY_MODEL = "all models, on one GPU";
const ANY_BATCH = "any";
const DIFFERS = {
  "": "same batch, and nothing else known to differ",
  batch: "another batch",
  more: "batch not printed, or another layout",
};

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const { gpus, pairs, sources } = model.get("data");
  const gpu = gpus.find(({ name }) => name === model.get("gpu")) ?? gpus[0];
  const here = pairs.filter((pair) => pair.gpu === gpu.name);
  const models = [...new Set(here.map((pair) => pair.model))].sort(byName);
  const name = models.includes(model.get("model")) ? model.get("model") : "";
  const ofModel = here.filter((pair) => pair.model === name);
  const batches = [...new Set(ofModel.map((pair) => pair.batch))];
  const batch = batches.includes(model.get("batch")) ? model.get("batch") : "";
  const chosen = name
    ? ofModel.filter((pair) => batch === "" || pair.batch === batch).sort((a, b) => a.gpus - b.gpus)
    : here.filter((pair) => pair.gpus === 1).sort((a, b) => b.speedup - a.speedup);
  const most = Math.max(1.2, gpu.limit ?? 0, ...chosen.map(({ speedup }) => speedup));
  return { gpu, models, name, batches, batch, chosen, sources, scale: 1.06 * most };
}

// As Python sorts them: by their letters, whatever the language of the page.
function byName(a, b) {
  const [one, other] = [a.toLowerCase(), b.toLowerCase()];
  return one < other ? -1 : one > other ? 1 : 0;
}

// ---- words -------------------------------------------------------------------------------------

function times(value) {
  return value.toFixed(2);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function foundInWords({ gpu, name, batch, chosen }) {
  const what = name || "All models";
  const where = batch ? `${what}, batch ${batch}, on ${gpu.name}` : `${what} on ${gpu.name}`;
  const values = chosen.filter(({ suspect }) => !suspect).map(({ speedup }) => speedup);
  const dropped = chosen.length - values.length;
  const suspect = dropped ? ` Left out here: ${dropped} suspect ${dropped > 1 ? "pairs" : "pair"}.` : "";
  if (chosen.length === 0) return `${where}: no pair was published for one GPU. Choose a model.`;
  if (values.length === 0) return `${where}: only suspect pairs.`;
  if (values.length === 1) return `${where}: one pair, ${times(values[0])} times as fast.${suspect}`;
  const range = `${times(Math.min(...values))} to ${times(Math.max(...values))} times as fast`;
  return `${where}: ${values.length} pairs, ${range}, median ${times(median(values))}.${suspect}`;
}

function limitInWords({ gpu }) {
  if (gpu.limit === null) return `The course has no peaks for ${gpu.name}, so no limit is drawn.`;
  const [low, high] = gpu.peaks.map((peak) => Number(peak.toPrecision(4)));
  const peaks = `${gpu.baseline} ${low}, FP16 ${high} TFLOP/s`;
  return `Limit by the peaks (${peaks}): work bound by compute gets at most ${times(gpu.limit)} times as fast.`;
}

const BANDWIDTH = "Work bound by the memory's bandwidth gets at most 2 times as fast, by half the bytes.";

function aboveInWords({ gpu, chosen }) {
  if (gpu.limit === null) return "";
  const above = chosen.filter(({ speedup }) => speedup > Math.max(gpu.limit, 2)).length;
  if (above === 0) return "";
  const are = above === 1 ? "1 pair is" : `${above} pairs are`;
  return `${are} above both limits. More than the format changed, or the baseline was far from its own limit.`;
}

function batchInWords({ batch }) {
  return batch === "same" ? "same batch" : `batch ${batch}`;
}

function gpusInWords({ gpus }) {
  return gpus === 1 ? "1 GPU" : `${gpus} GPUs`;
}

// ---- controls ----------------------------------------------------------------------------------

// A select whose options change: they are replaced only when they differ.
function changingField(label, choose) {
  const { node, select } = selectField(label, [], choose);
  let before = "";
  function draw(names, chosen) {
    if (names.join("\n") !== before) {
      before = names.join("\n");
      select.replaceChildren(...names.map((value) => h("option", { value }, value)));
    }
    select.value = chosen;
  }
  return { node, draw };
}

function controls(model, set) {
  const names = model.get("data").gpus.map(({ name }) => name);
  const gpu = selectField("GPU", names, (name) => {
    const there = model.get("data").pairs.some((p) => p.gpu === name && p.model === model.get("model"));
    set({ gpu: name, model: there ? model.get("model") : "", batch: "" });
  });
  const chooseModel = (text) => set({ model: text === EVERY_MODEL ? "" : text, batch: "" });
  const chosenModel = changingField("Model", chooseModel);
  const batch = changingField("Batch of each GPU", (text) => set({ batch: text === ANY_BATCH ? "" : text }));
  function draw(state) {
    gpu.select.value = state.gpu.name;
    chosenModel.draw([EVERY_MODEL, ...state.models], state.name || EVERY_MODEL);
    batch.draw([ANY_BATCH, ...state.batches], state.batch || ANY_BATCH);
    batch.node.hidden = state.batches.length < 2;
  }
  const nodes = [gpu.node, chosenModel.node, batch.node];
  return { nodes: [h("div", { class: "amp-controls" }, ...nodes)], draw };
}

// ---- the bars ----------------------------------------------------------------------------------

function bar({ speedup, differs, suspect }, { gpu, scale }) {
  const at = (value) => `left: ${(100 * value) / scale}%`;
  const width = `width: ${(100 * speedup) / scale}%`;
  const parts = [h("span", { class: "amp-gain", "data-differs": differs || "nothing", "data-suspect": suspect !== "", style: width })];
  parts.push(h("span", { class: "amp-line-one", style: at(1) }));
  if (gpu.limit !== null) parts.push(h("span", { class: "amp-line-limit", style: at(gpu.limit) }));
  return h("span", { class: "amp-gain-box", "aria-hidden": "true" }, ...parts);
}

function row(pair, state) {
  const title = h("span", { class: "amp-pair-name" }, pair.name);
  const number = h("span", { class: "amp-pair-gain" }, times(pair.speedup));
  const link = sourceLink(pair, state.sources[pair.source]);
  const facts = [gpusInWords(pair), batchInWords(pair), pair.rates];
  const note = pair.note ? ` Note: ${pair.note}.` : "";
  const about = h("span", { class: "amp-note amp-pair-about" }, `${facts.join(" · ")} · `, link, note);
  const item = h("li", {}, title, bar(pair, state), number, about);
  if (pair.suspect) item.append(h("span", { class: "amp-suspect" }, `Suspect: ${pair.suspect}.`));
  return item;
}

// A line of 0 says that the source has no line for it, since the figure is a median.
function sourceLink({ name, line }, source) {
  const place = line ? `, line ${line}` : "";
  const where = `${source.name}${place}, commit ${source.commit}`;
  const href = line ? `${source.url}#L${line}` : source.url;
  const label = { "aria-label": `source of ${name}: ${where}`, title: where };
  return h("a", { href, target: "_blank", rel: "noreferrer", ...label }, "source");
}

function bars() {
  const list = h("ol", { class: "amp-pairs" });
  const label = { role: "region", "aria-label": "Published pairs", tabindex: 0 };
  const box = h("div", { class: "amp-pairs-box", "data-lm-suppress-shortcuts": "true", ...label }, list);
  function draw(state) {
    list.replaceChildren(...state.chosen.map((pair) => row(pair, state)));
    box.scrollTop = 0;
  }
  return { nodes: [box], draw };
}

function legend() {
  const key = (swatch, text) => h("span", { class: "amp-key" }, swatch, text);
  const keys = Object.entries(DIFFERS).map(([differs, text]) =>
    key(h("span", { class: "amp-gain amp-gain-key", "data-differs": differs || "nothing" }), text),
  );
  keys.push(key(h("span", { class: "amp-gain amp-gain-key", "data-suspect": true }), "suspect"));
  const one = key(h("span", { class: "amp-line-key" }), "1: no gain");
  const limit = key(h("span", { class: "amp-line-key amp-line-limit-key" }), "limit by the peaks");
  return h("p", { class: "amp-legend" }, ...keys, one, limit);
}

// ---- in words ----------------------------------------------------------------------------------

function readout() {
  const found = h("output", { class: "amp-found", "aria-live": "polite" });
  const limit = h("p", { class: "amp-verdict" });
  const above = h("p", { class: "amp-note" });
  const bandwidth = h("p", { class: "amp-note" }, BANDWIDTH);
  function draw(state) {
    const text = foundInWords(state);
    if (found.textContent !== text) found.textContent = text;
    limit.textContent = limitInWords(state);
    above.textContent = aboveInWords(state);
  }
  return { nodes: [h("p", { class: "amp-verdict" }, found), limit, bandwidth, above], draw };
}

const NOTE =
  "All figures are quoted, from NVIDIA's and Lambda's tables. The course measured none of them. " +
  "Software and batch differ between models, so compare the two runs of a pair.";

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "gpu", "model", "batch"];
  return assemble({ model, el, root: "amp-published-explorer" }, "Published runs", names, readState, (set) => [
    controls(model, set),
    readout(),
    { nodes: [legend()] },
    bars(),
    { nodes: [h("p", { class: "amp-note" }, NOTE)] },
  ]);
}

// The explorer on a page of its own, with the `data` of a Python PublishedExplorer.
export function mount(el, values) {
  const model = plainModel({ gpu: "A100 80GB", model: "", batch: "", ...values });
  render({ model, el });
  return model;
}

export default { render };

// The loss scale lab: drag the loss scale, and see which gradients FP16 keeps, how training goes and
// what the network paints.
//
// This module draws and holds no facts. All numbers are recorded runs, which Python hands over in
// `data`:
//
//   about      steps; snapshots, the steps after which gradients and pictures were kept; picture,
//              [how many, height, width]
//   unit       the errors are whole multiples of it
//   levels     the characters for the grey values of a pixel, white first
//   format     FP16's edges as log2: becomes_zero, normal, overflows
//   asked_at   log2 of the loss scale that the second prediction is about
//   as_well    a run trains as well as FP32 if its error ends at most this many times as high
//   original   what the network is to paint: a character a pixel
//   fp32, runs the run in FP32, and one for each loss scale 2^exponent: errors, after 0, 1, ... steps
//              as long as they are finite; snapshots with the groups `between` (the layers) and
//              `weights`, each with total, zero, inf, the largest in FP32, and by binary exponent [lowest, count, ...]
//              exact (FP32) and found (FP16, divided by the scale); and the pictures. What all runs
//              share at the start stands in fp32 alone.
//
// The state: `scale_exponent`; `step`, whose gradients and pictures are shown, null for the first
// gradients and the last pictures; `stage`, "guess" and "cost" for the two predictions and "live"
// after them; `guess`, an exponent or null; `cost`, one of COSTS or ""; `searched`, whether the
// learner has found a scale that trains and moved on, or has looked long enough. `trained` is what
// came of "Train it here": exponent, errors, done, problem.

import { assemble, control, h, legendKey, picture, plainModel, powerOfTwo, rangeField, svg, uniqueId } from "./dom.mjs";
import { barOutline, clippedBars, drawBandLabels, drawBands, drawExponents } from "./zones.mjs";

const GROUPS = { between: "Between the layers", weights: "Of the weights" };
const COSTS = {
  none: "no better than at the start",
  twice: "about twice FP32's",
  same: "about the same as FP32's",
};
const GRAD_SCALER = 16; // log2 of the scale that GradScaler starts with
const LONG_ENOUGH = 20; // stops
const RESTARTED = "The kernel was restarted. Run this cell again.";
const GRADIENTS = { height: 266, top: 44, bottom: 226, row: 62, gap: 26, left: 8, right: 8, roomy: 620 };
const CURVE = { height: 190, top: 12, bottom: 160, left: 44, right: 14 };
const DIGITS = { height: 136, gap: 12, label: 58 };

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const data = model.get("data");
  const at = Math.max(0, data.runs.findIndex(({ exponent }) => exponent === model.get("scale_exponent")));
  const step = model.get("step") ?? null;
  const run = data.runs[at];
  const last = step ?? data.about.steps;
  const values = ["stage", "guess", "cost", "searched", "trained"];
  return {
    ...Object.fromEntries(values.map((name) => [name, model.get(name)])),
    data,
    at,
    exponent: run.exponent,
    run,
    step,
    shot: shotOf(data, run, step ?? 0),
    pictures: { fp32: shotOf(data, data.fp32, last).pictures, fp16: shotOf(data, run, last)?.pictures },
    error: errorAfter(data, run, last),
    fp32: errorAfter(data, data.fp32, last),
    trains: trainsAsWell(data, run),
  };
}

// The gradients and pictures of a run after some steps; null if they were NaN.
function shotOf(data, run, step) {
  const place = data.about.snapshots.indexOf(step);
  const shot = run.snapshots[place];
  if (!shot) return null;
  const shared = data.fp32.snapshots[place];
  const groups = Object.keys(GROUPS).map((name) => [name, { ...shared[name], ...shot[name] }]);
  return { pictures: shared.pictures, ...shot, ...Object.fromEntries(groups) };
}

// null once the error is inf or NaN.
function errorAfter(data, run, step) {
  return step < run.errors.length ? run.errors[step] * data.unit : null;
}

function trainsAsWell(data, run) {
  const [error, fp32] = [run, data.fp32].map((one) => errorAfter(data, one, data.about.steps));
  return error !== null && error <= data.as_well * fp32;
}

// ---- words -------------------------------------------------------------------------------------

function grouped(count) {
  return count.toLocaleString("en");
}

// A loss scale as people write it: 2.38, 65,536, and 2³³ where that is shorter.
function scaleInWords(exponent) {
  if (exponent > 20) return powerOfTwo(exponent);
  const scale = 2 ** exponent;
  return scale < 100 ? String(Number(scale.toPrecision(3))) : grouped(scale);
}

function scaleAloud(exponent) {
  return `2^${exponent} = ${grouped(Number((2 ** exponent).toPrecision(Math.max(3, Math.ceil(exponent / 3) + 1))))}`;
}

function raised(exponent) {
  return h("span", {}, "2", h("sup", {}, exponent));
}

function afterSteps(step) {
  return step === 0 ? "at the first step" : `after ${step} steps`;
}

// "61%", "19 of 124,800", "all but 4", "none".
function shareOf(count, total) {
  if (count === 0) return "none";
  if (count === total) return "all";
  const percent = Math.round((100 * count) / total);
  if (percent > 99) return `all but ${grouped(total - count)}`;
  return percent < 1 ? `${grouped(count)} of ${grouped(total)}` : `${percent}%`;
}

// What becomes of a group, such as "61% become 0" and "8 of 10,192 become inf".
function fateOf({ zero, inf, total }) {
  const one = (count, what) => `${shareOf(count, total)} ${count === 1 ? "becomes" : "become"} ${what}`;
  const fates = [[zero, "0"], [inf, "inf"]].filter(([count]) => count > 0);
  return fates.length ? fates.map(([count, what]) => one(count, what)).join(", ") : "none become 0";
}

function shown(error) {
  return error.toFixed(3);
}

// What is to be seen, in one sentence or two.
function summary({ data, run, exponent, step, shot, error, fp32 }) {
  const name = `Loss scale ${scaleInWords(exponent)}`;
  const start = step === null ? `${name}:` : `${name}, ${afterSteps(step)}:`;
  if (shot === null) return `${start} every gradient is NaN, because the first update broke the network.`;
  const { between, weights } = shot;
  const when = step === null ? `after ${data.about.steps} steps ` : "";
  if (weights.inf) {
    const many = `${grouped(weights.inf)} weight gradients become inf`;
    const none = between.inf ? `and ${grouped(between.inf)} between the layers` : "and none between the layers";
    return `${start} ${many}, ${none}. The first update breaks the network, and its error becomes NaN.`;
  }
  if (between.zero === between.total && weights.zero === weights.total) {
    const changes = run.errors[0] === run.errors.at(-1) ? "no weight changes" : "no weight changes any more";
    return `${start} every gradient becomes 0, so ${changes}; ${when}the error is ${shown(error)} (FP32: ${shown(fp32)}).`;
  }
  const share = shareOf(between.zero, between.total);
  const becomes = between.zero === 1 ? "becomes" : "become";
  const lost = `${share} of the gradients between the layers ${becomes} 0`.replace(/(of [\d,]+) of the gradients/, "$1 gradients");
  return `${start} ${lost}; ${when}the error is ${shown(error)} (FP32: ${shown(fp32)}).`;
}

// ---- the predictions ---------------------------------------------------------------------------

function predictions(model, set, read) {
  const { data } = read();
  const question = h("p", { class: "amp-ll-question", id: uniqueId("question") });
  const note = h("p", { class: "amp-note" });
  const scale = scaleField("Your guess", data, () => drawGuess());
  scale.slider.value = 0;
  const costs = costChoices((cost) => (picked = cost));
  let picked = "";
  const button = (text, onclick, more = "") =>
    control("button", { type: "button", class: `amp-choice ${more}`, onclick }, text);
  const commit = button("Commit my guess", take, "amp-commit");
  const skip = button("Skip, let me drag", () => goLive({}), "amp-quiet");
  const buttons = h("div", { class: "amp-choices" }, commit, skip);
  const label = { role: "group", "aria-labelledby": question.id };
  const card = h("div", { class: "amp-panel amp-ll-card", ...label }, question, note, scale.node, costs.node, buttons);

  function take() {
    if (read().stage === "guess") {
      set({ guess: data.runs[scale.slider.value].exponent, stage: "cost" });
      costs.focus();
    } else if (picked) goLive({ cost: picked });
    else costs.focus();
  }
  function goLive(values) {
    const box = card.closest(".amp-widget");
    set({ ...values, stage: "live" });
    box.querySelector(".amp-ll-scale input").focus({ preventScroll: true });
  }
  const drawGuess = () => scale.draw(data.runs[scale.slider.value].exponent, Number(scale.slider.value));
  drawGuess();
  function draw({ stage }) {
    card.hidden = stage === "live";
    if (card.hidden) return;
    const guessing = stage === "guess";
    scale.node.hidden = !guessing;
    costs.node.hidden = guessing;
    if (guessing) {
      question.textContent = "Before you drag: from which loss scale on does FP16 train as well as FP32?";
      const most = Math.round(100 * (data.as_well - 1));
      note.textContent =
        `Below you see a loss scale of 1: FP16 doesn't learn at all. “As well” means that after ` +
        `${data.about.steps} steps the error is at most ${most}% above FP32's.`;
    } else {
      const { between } = data.runs.find(({ exponent }) => exponent === data.asked_at).snapshots[0];
      question.textContent =
        `One more: at loss scale ${scaleInWords(data.asked_at)}, ${shareOf(between.zero, between.total)} of the gradients ` +
        `between the layers become 0. What is the error after ${data.about.steps} steps?`;
      note.textContent = "";
    }
  }
  return { nodes: [card], draw };
}

function costChoices(pick) {
  const name = uniqueId("cost");
  const inputs = Object.keys(COSTS).map((cost) =>
    control("input", { type: "radio", name, value: cost, onchange: () => pick(cost) }),
  );
  const picks = inputs.map((input) => h("label", { class: "amp-pick" }, input, COSTS[input.value]));
  const legend = h("legend", {}, "The error is");
  const node = h("fieldset", { class: "amp-picks-field" }, legend, h("div", { class: "amp-picks" }, ...picks));
  return { node, focus: () => inputs[0].focus() };
}

// ---- the slider of loss scales -----------------------------------------------------------------

// A slider over all stops, with marks below it. `draw(exponent, stop, marks)`.
function scaleField(label, data, choose) {
  const last = data.runs.length - 1;
  const ticks = data.runs.flatMap(({ exponent }, stop) => (isMarked(exponent) ? [{ exponent, stop }] : []));
  const places = ticks.map(({ exponent, stop }) => {
    const many = exponent % 2 && exponent < 4 ? "amp-ll-tick amp-ll-minor" : "amp-ll-tick";
    return h("span", { class: many, style: placeOf(stop, last) }, raised(exponent));
  });
  const below = h("div", { class: "amp-ll-ticks", "aria-hidden": "true" }, ...places);
  const field = rangeField(label, last, choose, below);
  function draw(exponent, stop) {
    field.slider.value = stop;
    field.slider.setAttribute("aria-valuetext", scaleAloud(exponent));
    field.shown.replaceChildren(raised(exponent), ` = ${grouped(Number((2 ** exponent).toPrecision(exponent < 7 ? 3 : 15)))}`);
  }
  return { ...field, below, last, draw };
}

function isMarked(exponent) {
  return [0, 1, 2, 3, 4].includes(exponent) || exponent % 8 === 0;
}

// Where the middle of the slider's thumb is at a stop.
function placeOf(stop, last) {
  return `left: calc(8px + (100% - 16px) * ${stop / last})`;
}

function scaleSlider(model, set, read) {
  const { data } = read();
  const visited = new Set(); // where the learner stopped, not where a drag passed by
  const choose = (stop) => set({ scale_exponent: data.runs[stop].exponent, ...search(stop) });
  const field = scaleField("Loss scale", data, choose);
  field.slider.addEventListener("change", () => visited.add(Number(field.slider.value)));
  const signs = h("div", { class: "amp-ll-signs" });
  const names = h("div", { class: "amp-ll-names" });
  field.below.before(signs);
  field.below.after(names);
  field.node.classList.add("amp-ll-scale");

  // The search ends when the learner leaves a scale that trains, or has looked at many.
  function search(stop) {
    const found = [...visited].some((seen) => seen !== stop && trainsAsWell(data, data.runs[seen]));
    return found || visited.size >= LONG_ENOUGH ? { searched: true } : {};
  }
  const sign = (exponent, shape) => {
    const stop = data.runs.findIndex((run) => run.exponent === exponent);
    return h("span", { class: "amp-ll-tick", "aria-hidden": "true", style: placeOf(stop, field.last) }, shape);
  };
  let drawn = "";
  function draw({ stage, at, exponent, guess, searched }) {
    field.node.hidden = stage !== "live";
    if (field.node.hidden) return;
    if (visited.size === 0) visited.add(at);
    field.draw(exponent, at);
    const wanted = [guess, searched].join();
    if (wanted === drawn) return;
    drawn = wanted;
    const marks = [];
    if (guess !== null) marks.push([guess, "▲", `your guess: ${scaleInWords(guess)}`]);
    if (searched) marks.push([GRAD_SCALER, "◆", `GradScaler starts at ${scaleInWords(GRAD_SCALER)}`]);
    signs.replaceChildren(...marks.map(([exponent, shape]) => sign(exponent, shape)));
    names.replaceChildren(...marks.map(([, shape, words]) => h("span", {}, `${shape} ${words}`)));
  }
  return { nodes: [field.node], draw };
}

function verdict() {
  const node = h("output", { class: "amp-ll-summary", "aria-live": "polite" });
  const box = h("p", { class: "amp-verdict" }, node);
  const note = h("p", { class: "amp-note amp-ll-note", "aria-live": "polite" });
  const write = (element, text) => element.textContent !== text && (element.textContent = text);
  function draw(state) {
    write(node, summary(state));
    write(note, state.stage === "live" ? [predicted(state), moved(state), learnt(state)].filter(Boolean).join(" ") : "");
    box.dataset.trains = state.trains;
  }
  return { nodes: [box, note], draw };
}

// What became of the second prediction, at the scale that it was about.
function predicted({ data, cost, exponent, step, error, fp32 }) {
  if (!cost || exponent !== data.asked_at || step !== null) return "";
  const right = error < 1.5 * fp32 ? "same" : error < 4 * fp32 ? "twice" : "none";
  const times = (error / fp32).toFixed(2);
  return `You predicted “${COSTS[cost]}”, and it is ${times} times FP32's${cost === right ? ": right." : "."}`;
}

// The first and last scale that train as well as FP32, once the learner has looked for them.
function learnt({ data, guess, searched, step }) {
  if (!searched || step !== null) return "";
  const good = data.runs.filter((run) => trainsAsWell(data, run)).map(({ exponent }) => exponent);
  const [first, last] = [good[0], good.at(-1)].map(scaleInWords);
  const yours = guess === null ? "" : `Your guess was ${scaleInWords(guess)}. `;
  return `${yours}FP16 trains as well as FP32 from loss scale ${first} to ${last}.`;
}

// How far the largest weight gradients have moved since the start.
function moved({ data, run, step, shot }) {
  if (!step || shot === null) return "";
  const ratio = shotOf(data, run, 0).weights.largest / shot.weights.largest;
  if (ratio < 1.05) return "The largest weight gradient is as large as at the start.";
  const times = `${Number(ratio.toPrecision(2))} times smaller than at the start`;
  return `The largest weight gradient is now ${times}, so a larger loss scale would fit by now.`;
}

// ---- the gradients -----------------------------------------------------------------------------

const BANDS = { zero: "FP16 rounds to 0", subnormal: "fewer bits", normal: "FP16 keeps them", overflow: "inf" };

// The window takes in all that there is to see, so that it stands still while the slider moves; and
// the tallest bar of each group, so that heights can be compared.
function extentOf(data) {
  const all = [data.fp32, ...data.runs].flatMap((run) =>
    data.about.snapshots.map((step) => shotOf(data, run, step)).filter(Boolean),
  );
  const bars = all.flatMap((shot) => Object.keys(GROUPS).map((name) => shot[name].exact)).filter(({ length }) => length);
  const last = data.runs.at(-1).exponent;
  const first = shotOf(data, data.fp32, 0).weights.exact;
  const tallest = (name) =>
    Math.max(...all.flatMap((shot) => [...shot[name].exact.slice(1), ...shot[name].found.slice(1)])) / 1.1;
  return {
    low: Math.min(...bars.map(([low]) => low)) - 1,
    high: first[0] + first.length - 1 + last + 1,
    tallest: Object.fromEntries(Object.keys(GROUPS).map((name) => [name, tallest(name)])),
  };
}

function gradients(model, set, read) {
  const { data } = read();
  const extent = extentOf(data);
  const { left, right, top, bottom, height, row, gap, roomy } = GRADIENTS;
  const fills = { zero: "none", subnormal: null, normal: null, overflow: null };
  const drawBars = Object.fromEntries(Object.keys(GROUPS).map((name) => [name, clippedBars(fills)]));
  let octave = 1; // in pixels

  function paint(state, width) {
    octave = (width - left - right) / (extent.high - extent.low);
    const x = (exponent) => left + octave * (exponent - extent.low);
    const oneLine = width > roomy;
    const at = { width, left, right, top, bottom, oneLine, low: extent.low, high: extent.high, x };
    const rows = Object.keys(GROUPS).flatMap((name, i) => paintRow(state, name, at, top + 4 + (i + 1) * row + i * gap));
    const axis = { class: "amp-axis-title", x: width / 2, y: height - 4, "text-anchor": "middle" };
    const title = svg("text", axis, "size of a gradient × loss scale");
    const ground = [...drawBands(data.format, at), ...drawBandLabels(data.format, at, BANDS)];
    return { label: inWords(state), parts: [...ground, ...drawExponents(at), title, ...rows] };
  }

  function paintRow({ shot, exponent }, name, at, base) {
    const caption = { class: "amp-ll-caption", x: at.left + 8, y: base + 17 };
    const line = svg("line", { class: "amp-axis", x1: at.left, x2: at.width - at.right, y1: base, y2: base });
    const say = (words) => {
      const title = svg("tspan", { class: "amp-ll-strong" }, `${GROUPS[name]}: `);
      return svg("text", caption, title, words);
    };
    if (shot === null) return [line, say("every gradient is NaN")];
    const y = (count) => base - (row * count) / extent.tallest[name];
    const outline = ([low, ...counts]) => (counts.length ? barOutline(low + exponent, counts, at, y) : "");
    const { exact, found } = shot[name];
    const solid = drawBars[name](outline(found), data.format, at, height);
    const ghost = svg("path", { class: "amp-ll-exact", d: outline(exact) });
    return [...solid, ghost, line, say(fateOf(shot[name]))];
  }

  function inWords({ shot, step }) {
    const start = `Gradients ${afterSteps(step ?? 0)}, by power of two, times the loss scale.`;
    if (shot === null) return `${start} Every gradient is NaN.`;
    return `${start} ${Object.entries(GROUPS).map(([name, title]) => `${title}: ${fateOf(shot[name])}.`).join(" ")}`;
  }

  const made = picture(height, 330, paint);
  const [box] = made.nodes;
  dragScale(box.firstChild, set, read, () => octave);
  const heading = h("p", { class: "amp-heading" });
  const exact = svg("rect", { class: "amp-ll-exact", x: 2.5, y: 2.5, width: 11, height: 12 });
  const found = ["subnormal", "normal"].map((fate, i) =>
    svg("rect", { class: `amp-bar amp-${fate}`, x: 2 + 6 * i, y: 2, width: 6, height: 13 }),
  );
  const keys = [legendKey("what FP16 computes", ...found), legendKey("exact, in FP32", exact)];
  const above = h("div", { class: "amp-split amp-ll-above" }, heading, h("p", { class: "amp-legend" }, ...keys));
  function draw(state) {
    heading.textContent = `Gradients ${afterSteps(state.step ?? 0)}`;
    box.classList.toggle("amp-ll-grab", state.stage === "live");
    made.draw(state);
  }
  return { nodes: [above, box], draw, stop: made.stop };
}

// The gradients themselves can be dragged, too: they and the slider go together.
function dragScale(target, set, read, octave) {
  let from = null; // where the pointer went down, and the exponent there
  const sliderOf = () => target.closest(".amp-widget").querySelector(".amp-ll-scale input");
  target.addEventListener("pointerdown", (event) => {
    if (read().stage !== "live" || event.button) return;
    from = { x: event.clientX, exponent: read().exponent };
    target.setPointerCapture(event.pointerId);
  });
  target.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const slider = sliderOf();
    const wanted = from.exponent + (event.clientX - from.x) / octave();
    const off = read().data.runs.map(({ exponent }) => Math.abs(exponent - wanted));
    const stop = String(off.indexOf(Math.min(...off)));
    if (slider.value === stop) return;
    slider.value = stop;
    slider.dispatchEvent(new Event("input"));
  });
  const end = () => {
    if (from !== null) sliderOf().dispatchEvent(new Event("change"));
    from = null;
  };
  for (const name of ["pointerup", "pointercancel"]) target.addEventListener(name, end);
}

// ---- the curve ---------------------------------------------------------------------------------

function curve(read) {
  const { data } = read();
  const { steps } = data.about;
  const { left, right, top, bottom, height } = CURVE;
  const tallest = Math.ceil(20 * data.fp32.errors[0] * data.unit) / 20;
  const y = (error) => bottom - ((bottom - top) * Math.min(error, 1.05 * tallest)) / tallest;

  function paint(state, width) {
    const x = (step) => left + ((width - left - right) * step) / steps;
    const line = (errors, kind) => {
      const points = errors.map((error, step) => `${x(step).toFixed(1)} ${y(error * data.unit).toFixed(1)}`);
      return svg("path", { class: `amp-ll-line ${kind}`, d: `M${points.join("L")}` });
    };
    const parts = [...ground(x, width), line(state.run.errors, "amp-ll-fp16"), line(data.fp32.errors, "amp-ll-fp32")];
    const here = trainedHere(state);
    if (here?.length) parts.push(line(here.map((error) => error / data.unit), "amp-ll-here"));
    return { label: inWords(state), parts: [...parts, ...ending(state, x)] };
  }

  function ground(x, width) {
    const lines = [0, 1, 2, 3, 4, 5].map((i) => (i * tallest) / 5).flatMap((error) => {
      const label = { class: "amp-tick", x: left - 8, y: y(error) + 4, "text-anchor": "end" };
      const grid = svg("line", { class: "amp-grid", x1: left, x2: width - right, y1: y(error), y2: y(error) });
      return [grid, svg("text", label, Number(error.toFixed(3)))];
    });
    const ticks = [0, 1, 2, 3].map((third) => Math.round((third * steps) / 3)).map((step) => {
      const anchor = step === 0 ? "start" : step === steps ? "end" : "middle";
      const text = step === steps ? `${step} steps` : step;
      return svg("text", { class: "amp-tick", x: x(step), y: bottom + 19, "text-anchor": anchor }, text);
    });
    return [...lines, ...ticks];
  }

  // A dot where the pictures are from; a cross and a word where the numbers end.
  function ending({ run, step }, x) {
    const { errors } = run;
    if (errors.length <= steps) {
      const [cx, cy] = [x(errors.length - 1), y(errors.at(-1) * data.unit)];
      const cross = svg("path", { class: "amp-ll-cross", d: `M${cx - 6} ${cy - 6}l12 12m0 -12l-12 12` });
      const words = { class: "amp-ll-caption", x: cx + 14, y: cy + 5 };
      return [cross, svg("text", words, `inf or NaN from step ${errors.length} on`)];
    }
    const at = step ?? steps;
    const cy = y(errors[at] * data.unit);
    const dot = svg("circle", { class: "amp-ll-dot", cx: x(at), cy, r: 5 });
    const post = svg("line", { class: "amp-edge", x1: x(at), x2: x(at), y1: top, y2: bottom });
    return step === null ? [dot] : [post, dot];
  }

  function inWords({ run, exponent }) {
    const ends = (one) => `${shown(one.errors[0] * data.unit)} to ${shown(one.errors.at(-1) * data.unit)}`;
    const fp16 = run.errors.length <= steps ? `is inf or NaN from step ${run.errors.length} on` : `goes from ${ends(run)}`;
    return `Error by step. FP32 goes from ${ends(data.fp32)}; FP16 at loss scale ${scaleInWords(exponent)} ${fp16}.`;
  }

  const made = picture(height, 240, paint);
  const stroke = (kind) => svg("path", { class: `amp-ll-line ${kind}`, d: "M0 8H16" });
  const ours = legendKey("", stroke("amp-ll-here"));
  ours.append("trained here");
  const fp16 = h("span", {});
  const key = legendKey("", stroke("amp-ll-fp16"));
  key.append(fp16);
  const legend = h("p", { class: "amp-legend" }, key, legendKey("FP32", stroke("amp-ll-fp32")), ours);
  function draw(state) {
    fp16.textContent = `FP16, loss scale ${scaleInWords(state.exponent)}`;
    ours.hidden = !trainedHere(state);
    made.draw(state);
  }
  const node = h("div", {}, h("p", { class: "amp-heading" }, "Error per pixel after each step"), ...made.nodes, legend);
  return { node, draw, stop: made.stop };
}

// The errors of a run in this kernel at the scale that is shown.
function trainedHere({ trained, exponent }) {
  return trained?.exponent === exponent ? trained.errors : null;
}

// ---- what the network paints -------------------------------------------------------------------

function digits(read) {
  const { data } = read();
  const [count, tall, wide] = data.about.picture;
  const { gap, label, height } = DIGITS;
  const drawn = new Map(); // a row's paths by its text

  // One path for each grey value: the picture follows the theme's colours, and stays sharp.
  function paths(text) {
    if (drawn.has(text)) return drawn.get(text);
    const squares = {};
    [...text].forEach((level, i) => {
      if (level === data.levels[0]) return;
      const [picture, pixel] = [Math.floor(i / (tall * wide)), i % (tall * wide)];
      const x = picture * (wide + 1) + (pixel % wide);
      squares[level] = `${squares[level] ?? ""}M${x} ${Math.floor(pixel / wide)}h1v1h-1z`;
    });
    const most = data.levels.length - 1;
    const made = Object.entries(squares).map(([level, d]) =>
      svg("path", { d, "fill-opacity": (data.levels.indexOf(level) / most).toFixed(3) }),
    );
    drawn.set(text, made);
    return made;
  }

  function paint(state, width) {
    const size = Math.min((height / 3 - gap) / tall, (width - label) / (count * (wide + 1) - 1));
    const row = height / 3;
    const rows = [["original", data.original], ["FP32", state.pictures.fp32], ["FP16", state.pictures.fp16]];
    const parts = rows.flatMap(([name, text], i) => {
      const middle = i * row + (size * tall) / 2;
      const title = svg("text", { class: "amp-tick", x: 0, y: middle + 4 }, name);
      if (!text) return [title, ...nothing(middle, size)];
      const place = `translate(${label} ${middle - (tall * size) / 2}) scale(${size})`;
      return [title, svg("g", { class: "amp-ll-pixels", transform: place }, ...paths(text))];
    });
    return { label: inWords(state), parts };
  }

  const nothing = (middle, size) =>
    Array.from({ length: count }, (_, i) => {
      const x = label + (i * (wide + 1) + wide / 2) * size;
      return svg("text", { class: "amp-ll-nan", x, y: middle + 4, "text-anchor": "middle" }, "NaN");
    });

  function inWords({ data, step, pictures, error, fp32 }) {
    const when = step === 0 ? "before training" : afterSteps(step ?? data.about.steps);
    const ours = pictures.fp16 ? `error ${shown(error)}` : "nothing but NaN";
    return `${count} pictures, ${when}: the originals, what the FP32 network paints (error ${shown(fp32)}), and the FP16 network (${ours}).`;
  }

  const made = picture(height, 310, paint);
  const heading = h("p", { class: "amp-heading" });
  function draw(state) {
    const when = state.step === 0 ? "before training" : afterSteps(state.step ?? data.about.steps);
    heading.textContent = `What it paints ${when}`;
    made.draw(state);
  }
  return { node: h("div", {}, heading, ...made.nodes), draw, stop: made.stop };
}

function columns(...pieces) {
  const [first, ...others] = pieces.map((piece) => piece.node);
  const node = h("div", { class: "amp-columns amp-ll-columns" }, first, h("div", {}, ...others));
  return {
    nodes: [node],
    draw: (state) => pieces.forEach((piece) => piece.draw(state)),
    stop: () => pieces.forEach((piece) => piece.stop?.()),
  };
}

// ---- time, and training here -------------------------------------------------------------------

function timeSlider(set, read) {
  const { about } = read().data;
  const stops = [null, ...about.snapshots];
  const names = ["all", ...about.snapshots].map((name, i) =>
    h("span", { class: "amp-ll-tick", style: placeOf(i, stops.length - 1) }, name),
  );
  const ticks = h("div", { class: "amp-ll-ticks", "aria-hidden": "true" }, ...names);
  const { node, slider, shown } = rangeField("Time", stops.length - 1, (i) => set({ step: stops[i] }), ticks);
  function draw({ stage, step }) {
    const words = step === null ? "the whole training" : afterSteps(step);
    slider.value = stops.indexOf(step);
    slider.setAttribute("aria-valuetext", words);
    shown.textContent = words;
    node.hidden = stage !== "live";
  }
  return { node, draw };
}

// Only where there is a kernel to train in.
function trainHere(model, read) {
  let cut = false;
  const button = control("button", { type: "button", class: "amp-choice", onclick: ask }, "Train it here");
  const status = h("p", { class: "amp-note", role: "status" });
  function ask() {
    const { exponent, trained } = read();
    if (cut || busy(trained)) return;
    status.textContent = `Training at loss scale ${scaleInWords(exponent)} …`;
    model.send({ type: "train", exponent });
  }
  const busy = (trained) => trained?.done === false;
  const onRestart = () => {
    cut = true;
    status.textContent = RESTARTED;
    button.setAttribute("aria-disabled", "true");
  };
  model.on("comm_live_update", onRestart);
  function draw(state) {
    node.hidden = state.stage !== "live";
    const { trained, data } = state;
    if (cut) return;
    button.setAttribute("aria-disabled", busy(trained));
    if (trained?.exponent !== undefined) status.textContent = inWords(trained, data);
  }
  function inWords({ exponent, errors, done, problem, seconds }, { about, unit, runs }) {
    const name = `at loss scale ${scaleInWords(exponent)}`;
    if (problem) return `Training ${name} stopped: ${problem}`;
    if (!done) return `Training ${name}: ${errors.length - 1} of ${about.steps} steps …`;
    const run = runs.find((one) => one.exponent === exponent);
    const told = (error) => (error === undefined ? "inf or NaN" : shown(error));
    const recorded = run.errors[about.steps];
    const both = `error ${told(errors[about.steps])}, recorded ${told(recorded && recorded * unit)}`;
    return `Trained here in ${seconds.toFixed(1)} s ${name}: ${both}.`;
  }
  const node = h("div", { class: "amp-ll-train" }, button, status);
  return { nodes: [node], draw, stop: () => model.off("comm_live_update", onRestart) };
}

// ---- putting it together -----------------------------------------------------------------------

const NAMES = ["scale_exponent", "step", "stage", "guess", "cost", "searched", "trained"];

function render({ model, el }) {
  return assemble({ model, el, root: "amp-loss-scale-lab" }, "Loss scale lab", NAMES, readState, (set, read) => [
    predictions(model, set, read),
    scaleSlider(model, set, read),
    verdict(),
    gradients(model, set, read),
    columns(curve(read), digits(read), timeSlider(set, read)),
    ...(model.send ? [trainHere(model, read)] : []),
  ]);
}

// The lab on a page of its own, with the `data` of a Python LossScaleLab. `python(message)` gives a
// promise of what `trained` becomes; without it there is nothing to train in. Without a
// `scale_exponent`, the first run is shown.
export function mount(el, values, python) {
  const start = { step: null, stage: "guess", guess: null, cost: "", searched: false, trained: {} };
  const model = plainModel({ ...start, ...values });
  if (python) model.send = async (message) => model.set("trained", await python(message));
  render({ model, el });
  return model;
}

export default { render };

// The autocast step-through: the ops of a model one by one. The learner predicts the dtype that an
// op runs in and the dtype of its output, commits, and sees what is cast and why.
//
// This module draws, and knows no answer that Python has not given it. The state is `device`,
// `dtype`, `answers` (for each committed step the two dtypes, or [] where it was shown) and `place`,
// the step that is looked at. Python answers each change with `view`:
//
//   device, dtype, answers, place   the state that this view belongs to
//   model, torch, fault             what runs; why it cannot, or ""
//   options, score                  the dtypes to choose from; { right, asked, shown }
//   steps                           { number, op, kernel, path, code, operands, verdict }, and after
//                                   its commit also { result, runs_in, gives, rule, why, casts,
//                                   spared, cache, answer }, as Python's Step
//   operands                        { name, kind, made_by, dtype }; then { used_as, how, cached } too

import { assemble, control, faultLine, h, plainModel, selectField, svg, uniqueId } from "./dom.mjs";

const DEVICES = { cuda: "CUDA", cpu: "CPU" };
const LOW = { float16: "FP16", bfloat16: "BF16" };
const BRIEF = { ...LOW, float32: "FP32", float64: "FP64" };
const VERDICTS = { right: ["✓", "Right"], wrong: ["✗", "Not so"], shown: ["–", "Shown"] };
const CASTS = { new: "cast", again: "cast again", "from cache": "from the cache" };
const STATE = ["device", "dtype", "answers", "place"];

// ---- state -------------------------------------------------------------------------------------

// While Python has not answered the last change, the view is still that of the change before.
function readState(model) {
  const view = model.get("view");
  const waiting = STATE.some((name) => JSON.stringify(view[name]) !== JSON.stringify(model.get(name)));
  const { steps, place } = view;
  const step = steps[place] ?? null;
  return { ...view, waiting, step, asking: step !== null && step.verdict === "" };
}

function brief(dtype) {
  return BRIEF[dtype] ?? dtype;
}

// ---- words -------------------------------------------------------------------------------------

function bothInWords(runsIn, gives) {
  return `runs in ${brief(runsIn)} and gives ${brief(gives)}`;
}

function saidInWords([runsIn, gives]) {
  return runsIn === gives ? brief(runsIn) : `that it ${bothInWords(runsIn, gives)}`;
}

function verdictInWords({ verdict, op, runs_in, gives, answer }) {
  const truth = `${op} ${bothInWords(runs_in, gives)}`;
  const said = verdict === "wrong" ? ` You said ${saidInWords(answer)}.` : "";
  return `${VERDICTS[verdict][1]}: ${truth}.${said}`;
}

function scoreInWords({ right, asked, shown }) {
  if (!asked) return shown ? `${shown} shown, none predicted` : "No prediction yet";
  return `${right} of ${asked} right${shown ? `, ${shown} shown` : ""}`;
}

function sourceOf({ kind, made_by }) {
  return { result: `from op ${made_by}`, input: "input" }[kind] ?? "";
}

// The line of code, or what is known of an op that no line of the model's own calls.
function lineOf({ code, path, op }) {
  return code || (path ? `${path}: ${op}` : op);
}

function bytesInWords(bytes) {
  return bytes >= 1e6 ? `${Number((bytes / 1e6).toPrecision(3))} MB` : `${bytes.toLocaleString("en")} bytes`;
}

// ---- the rules ---------------------------------------------------------------------------------

function rulesForm(set) {
  const named = (words, text) => Object.keys(words).find((key) => words[key] === text);
  const device = selectField("Whose rules", Object.values(DEVICES), (text) => set({ device: named(DEVICES, text) }));
  const dtype = selectField("16-bit dtype", Object.values(LOW), (text) => set({ dtype: named(LOW, text) }));
  const faults = faultLine();
  const source = h("p", { class: "amp-note" });
  const draw = (state) => {
    device.select.value = DEVICES[state.device];
    dtype.select.value = LOW[state.dtype];
    faults.tell("trace", state.fault);
    source.textContent =
      `${state.model} under autocast, traced with torch ${state.torch} on tensors without data. ` +
      "Other rules start again.";
  };
  const row = h("div", { class: "amp-controls" }, device.node, dtype.node);
  return { nodes: [row, source, faults.node], draw };
}

// ---- the program -------------------------------------------------------------------------------

function program() {
  const list = h("ol", { class: "amp-program" });
  const label = { role: "region", "aria-label": "The forward pass, op by op", tabindex: 0 };
  const node = h("div", { class: "amp-program-box", "data-lm-suppress-shortcuts": "true", ...label }, list);
  let drawn = "";
  function draw({ steps, place }) {
    const now = JSON.stringify([place, steps.map(({ code, op, verdict, gives }) => [code, op, verdict, gives])]);
    if (now === drawn) return;
    drawn = now;
    list.replaceChildren(...steps.map((step, i) => programLine(step, i === place)));
    const line = list.children[place];
    if (line) node.scrollTop = line.offsetTop - node.clientHeight / 2;
  }
  return { node, draw };
}

function programLine(step, current) {
  const [mark, word] = VERDICTS[step.verdict] ?? ["", ""];
  return h(
    "li",
    { "aria-current": current ? "step" : null },
    h("span", { class: "amp-verdict-mark", "data-verdict": step.verdict, "aria-hidden": "true" }, mark),
    h("span", { class: "amp-hidden" }, word ? `${word}: ` : ""),
    h("code", {}, lineOf(step)),
    step.verdict ? dtypeChip(step.gives) : h("span", {}),
  );
}

// ---- one op ------------------------------------------------------------------------------------

function dtypeChip(dtype) {
  return h("span", { class: "amp-dtype", "data-dtype": dtype }, brief(dtype));
}

function tensorBox(name, dtype, note = "") {
  const words = [h("span", { class: "amp-tensor-name" }, name)];
  if (note) words.push(" ", h("span", { class: "amp-note" }, note));
  return h("span", { class: "amp-tensor", "data-dtype": dtype }, h("span", {}, ...words), dtypeChip(dtype));
}

function arrow(kind = "") {
  const line = svg("path", { class: `amp-arrow ${kind}`, d: "M1 6H30" });
  const head = svg("path", { class: "amp-arrow-head", d: "M29 1L38 6L29 11Z" });
  return svg("svg", { width: 40, height: 12, viewBox: "0 0 40 12", "aria-hidden": "true" }, line, head);
}

function operandLine(operand) {
  const { name, kind, dtype, used_as, how, cached } = operand;
  const box = tensorBox(name || kind, dtype, sourceOf(operand));
  if (!how) return h("li", {}, box);
  const words = how === "new" && cached ? "cast, kept in the cache" : CASTS[how];
  const way = h("span", { class: "amp-cast", "data-how": how }, h("span", {}, words), arrow(how === "from cache" ? "amp-dashed" : ""));
  return h("li", {}, box, way, tensorBox("copy", used_as));
}

function flow(step) {
  const known = step.verdict !== "";
  const inputs = h("ul", { class: "amp-operands", "aria-label": "Inputs" }, ...step.operands.map(operandLine));
  const runs = known ? [h("span", {}, "runs in "), dtypeChip(step.runs_in)] : [h("span", {}, "runs in ?")];
  const kernel = step.kernel !== step.op ? h("span", { class: "amp-note" }, `torch runs ${step.kernel}`) : "";
  const op = h("div", { class: "amp-op-box" }, h("span", { class: "amp-op" }, step.op), h("span", {}, ...runs), kernel);
  const name = step.result || "output";
  const output = known ? tensorBox(name, step.gives) : h("span", { class: "amp-tensor" }, h("span", {}, "output"), h("span", {}, "?"));
  const down = () => h("span", { class: "amp-down", "aria-hidden": "true" }, "↓");
  const node = h("div", { class: "amp-flow" }, inputs, down(), op, down(), h("div", { class: "amp-output" }, output));
  return node;
}

// What the cache holds: before the op while it is asked, after it once it is committed.
function cacheBox({ steps, place, step, asking }) {
  const before = steps[asking || !step ? place - 1 : place];
  const entries = before?.cache ?? [];
  const current = step && !asking;
  const heading = step ? "Autocast's cache of casts" : "Autocast's cache of casts, emptied";
  const words = { new: "new", used: "used by this op" };
  const items = entries.map(({ name, dtype, bytes, state }) => {
    const note = current ? (words[state] ?? "") : "";
    const box = tensorBox(name, dtype, [bytesInWords(bytes), note].filter(Boolean).join(", "));
    return h("li", { "data-state": step ? (current ? state : "") : "gone" }, box);
  });
  const empty = h("p", { class: "amp-note" }, "It is empty.");
  const note = step ? "" : "The region has ended, so these copies are gone. The next region casts the weights again.";
  const list = items.length ? h("ul", { class: "amp-cache" }, ...items) : empty;
  const parts = [h("p", { class: "amp-heading" }, heading), list];
  if (note) parts.push(h("p", { class: "amp-note" }, note));
  return h("div", { class: "amp-cache-box" }, ...parts);
}

// ---- the question ------------------------------------------------------------------------------

// Two groups of radio buttons. A choice of the first is taken over by the second, until that one
// has been chosen by itself.
function question(submit) {
  let picked = ["", ""];
  let own = false;
  const groups = ["It runs in", "Its output is"].map((legend, which) => {
    const name = uniqueId("pick");
    const row = h("div", { class: "amp-picks" });
    const node = h("fieldset", { class: "amp-picks-field" }, h("legend", {}, legend), row);
    const make = (dtype) => {
      const onkeydown = (event) => event.key === "Enter" && submit();
      const input = control("input", { type: "radio", name, value: dtype, onchange: () => pick(which, dtype), onkeydown });
      return h("label", { class: "amp-pick" }, input, dtypeChip(dtype));
    };
    return { node, row, make };
  });
  function pick(which, dtype) {
    picked[which] = dtype;
    if (which === 1) own = true;
    else if (!own) picked[1] = dtype;
    mark();
  }
  function mark() {
    groups.forEach(({ row }, which) => {
      for (const input of row.querySelectorAll("input")) input.checked = input.value === picked[which];
    });
  }
  function reset(options) {
    picked = ["", ""];
    own = false;
    for (const { row, make } of groups) row.replaceChildren(...options.map(make));
  }
  const node = h("div", { class: "amp-picks-fields" }, ...groups.map((group) => group.node));
  return { node, reset, read: () => picked, focus: () => groups[0].row.querySelector("input")?.focus() };
}

function stepPanel(model, set) {
  const heading = h("p", { class: "amp-heading" });
  const code = h("pre", { class: "amp-code-line" }, h("code", {}));
  const drawing = h("div", {});
  const ask = question(commit);
  const faults = faultLine();
  const result = h("div", { class: "amp-step-result", role: "status" });
  const cache = h("div", {});
  const button = (text, onclick, kind = "amp-quiet") =>
    control("button", { type: "button", class: `amp-choice ${kind}`, onclick }, text);
  const buttons = {
    commit: button("Commit", commit, "amp-commit"),
    show: button("Show me", () => put([])),
    next: button("Next op", () => go(1), "amp-commit"),
    back: button("Back", () => go(-1)),
    again: button("Start again", again),
  };
  const row = h("div", { class: "amp-choices" }, ...Object.values(buttons));
  const score = h("p", { class: "amp-note" });
  const node = h("div", { class: "amp-panel amp-step-panel" }, heading, code, drawing, ask.node, faults.node, result, row, score, cache);
  let wish = null; // what gets the focus when Python has answered
  let asked = ""; // the question that the form is for

  function commit() {
    const [runsIn, gives] = ask.read();
    if (!runsIn || !gives) {
      const missing = runsIn ? "of its output" : "it runs in";
      return faults.tell("ask", `Choose the dtype ${missing} first.`);
    }
    put([runsIn, gives]);
  }
  function put(answer) {
    const { waiting, asking } = readState(model);
    if (waiting || !asking) return;
    wish = () => buttons.next.focus();
    set({ answers: [...model.get("answers"), answer] });
  }
  function go(by) {
    if (readState(model).waiting) return;
    wish = () => (readState(model).asking ? ask.focus() : readState(model).step ? buttons.next.focus() : buttons.again.focus());
    set({ place: model.get("place") + by });
  }
  function again() {
    wish = ask.focus;
    set({ answers: [], place: 0 });
  }
  function draw(state) {
    if (state.waiting) return;
    const { step, asking, steps, place } = state;
    node.hidden = steps.length === 0;
    if (node.hidden) return;
    heading.textContent = step ? `Op ${step.number} of ${steps.length}: ${step.op}` : "The autocast region ends.";
    code.hidden = !step?.code;
    code.firstChild.textContent = step?.code ?? "";
    drawing.replaceChildren(...(step ? [flow(step)] : []));
    const key = JSON.stringify([state.device, state.dtype, place, asking]);
    if (key !== asked) {
      faults.tell("ask", "");
      ask.reset(state.options);
      asked = key;
    }
    ask.node.hidden = !asking;
    result.replaceChildren(...resultOf(state));
    buttons.commit.hidden = buttons.show.hidden = !asking;
    buttons.next.hidden = asking || !step;
    buttons.next.textContent = place === steps.length - 1 ? "End the region" : "Next op";
    buttons.back.hidden = place === 0;
    buttons.again.hidden = !state.answers.length;
    score.textContent = step ? scoreInWords(state.score) : "";
    cache.replaceChildren(cacheBox(state));
    wish?.();
    wish = null;
  }
  return { node, draw };
}

// What a commit tells; at the end, the score and what was missed. Nothing while an op is asked.
function resultOf(state) {
  const { step, asking, steps, score } = state;
  if (asking) return [];
  if (step) {
    const [mark] = VERDICTS[step.verdict];
    const sign = h("span", { class: "amp-verdict-mark", "data-verdict": step.verdict, "aria-hidden": "true" }, mark);
    const why = step.why.map((sentence) => h("li", {}, sentence));
    return [h("p", { class: "amp-step-verdict" }, sign, verdictInWords(step)), h("ul", { class: "amp-reasons" }, ...why)];
  }
  const wrong = steps.filter(({ verdict }) => verdict === "wrong");
  const parts = [h("p", { class: "amp-step-verdict" }, `${scoreInWords(score)}.`)];
  if (wrong.length) {
    parts.push(h("p", { class: "amp-heading" }, "What you missed"));
    parts.push(h("ul", { class: "amp-reasons" }, ...wrong.map(missedLine)));
  }
  return parts;
}

function missedLine(step) {
  const { number, op, runs_in, gives, answer, why } = step;
  const words = `: ${op} ${bothInWords(runs_in, gives)}. You said ${saidInWords(answer)}. ${why[0]}`;
  return h("li", {}, `Op ${number}, `, h("code", {}, lineOf(step)), words);
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  return assemble({ model, el, root: "amp-autocast-steps" }, "Autocast, op by op", [...STATE, "view"], readState, (set) => {
    const list = program();
    const panel = stepPanel(model, set);
    const both = h("div", { class: "amp-step-through" }, list.node, panel.node);
    const draw = (state) => {
      both.hidden = state.steps.length === 0;
      list.draw(state);
      panel.draw(state);
    };
    return [rulesForm(set), { nodes: [both], draw }];
  });
}

// The step-through on a page of its own. `python(state)` gives a promise of the values that Python
// answers with.
export function mount(el, values, python) {
  const model = plainModel(values);
  model.save_changes = async () => {
    const state = Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
    for (const [name, value] of Object.entries(await python(state))) model.set(name, value);
  };
  render({ model, el });
  return model;
}

export default { render };

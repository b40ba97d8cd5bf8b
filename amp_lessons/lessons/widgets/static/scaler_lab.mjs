// The scaler lab: choose a GradScaler's settings and which steps overflow, predict the scale after
// the next update, and see what a real GradScaler does, with the simulator beside it.
//
// The real trajectory comes from Python in `real`; the simulator is scaler.mjs. The state is the
// four settings, `found_inf` (a truth value a step) and `answers`: one for each step that has been
// shown, the scale that was predicted as text, or "" where nobody predicted.

import { FORMATS, makeFormat } from "./formats.mjs";
import { fromText, readNumber, toText } from "./typed.mjs";
import { initialState, nextState, settingFault, simulate } from "./scaler.mjs";
import {
  assemble,
  control,
  faultLine,
  h,
  legendKey,
  picture,
  plainModel,
  powerOfTwo,
  svg,
  textField,
  uniqueId,
  wholeNumber,
} from "./dom.mjs";

const SETTINGS = {
  init_scale: "Initial scale",
  growth_factor: "Growth factor",
  backoff_factor: "Backoff factor",
  growth_interval: "Growth interval",
};
const MOST_STEPS = 40;
const FP32 = makeFormat(FORMATS.find(({ name }) => name === "FP32"));
const MARGIN = { top: 14, right: 18, bottom: 44, left: 62 };
const HEIGHT = 250;

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const settings = {};
  for (const name of Object.keys(SETTINGS)) settings[name] = fromText(String(model.get(name)));
  const foundInf = model.get("found_inf");
  const simulated = simulate(foundInf, settings);
  const answers = model.get("answers").slice(0, foundInf.length);
  const asked = answers.filter((text) => text !== "").length;
  const right = answers.filter((text, i) => isRight(text, simulated[i].scale)).length;
  const shown = answers.length;
  const before = shown ? simulated[shown - 1] : initialState(settings);
  const real = readReal(model.get("real"), settings, foundInf);
  return { settings, foundInf, simulated, answers, asked, right, shown, before, real };
}

function isRight(text, scale) {
  return text !== "" && fromText(text) === scale;
}

// What the real scaler did; null while Python has not answered for these very inputs, and on a
// page with no Python.
function readReal(real, settings, foundInf) {
  if (!real?.scales) return null;
  const same =
    Object.keys(SETTINGS).every((name) => fromText(String(real[name])) === settings[name]) &&
    real.found_inf.length === foundInf.length &&
    real.found_inf.every((overflow, i) => overflow === foundInf[i]);
  return same ? real.scales.map(fromText) : null;
}

function makeActions(model, set) {
  const state = () => readState(model);
  const changePattern = (foundInf) => {
    const old = model.get("found_inf");
    const first = foundInf.findIndex((overflow, i) => overflow !== old[i]);
    const same = first < 0 ? foundInf.length : first; // what was shown up to here still holds
    set({ found_inf: foundInf, answers: model.get("answers").slice(0, same) });
  };
  return {
    setSetting(name, value) {
      const plain = name === "growth_interval" ? value : toText(value);
      set({ [name]: plain, answers: [] });
    },
    setSteps(count) {
      const { foundInf } = state();
      changePattern(Array.from({ length: count }, (_, i) => foundInf[i] ?? false));
    },
    toggle: (step) => changePattern(state().foundInf.map((v, i) => (i === step ? !v : v))),
    answer: (scale) => set({ answers: [...state().answers, toText(scale)] }),
    showAll() {
      const { foundInf, answers } = state();
      set({ answers: foundInf.map((_, i) => answers[i] ?? "") });
    },
    restart: () => set({ answers: [] }),
  };
}

// A scale in words: 65536, 0.1, or 2 with a raised exponent where that is shorter.
function shortScale(scale) {
  if (scale === Infinity) return "inf";
  const exponent = Math.log2(scale);
  if (scale > 0 && Number.isInteger(exponent) && Math.abs(exponent - 5) > 14) {
    return powerOfTwo(exponent);
  }
  return String(Number(scale.toPrecision(7)));
}

// ---- settings ----------------------------------------------------------------------------------

function settingsForm(actions, read) {
  const faults = faultLine();
  const names = Object.keys(SETTINGS);
  const fields = names.map((name) => settingField(name, faults, actions, read));
  const steps = stepsField(faults, actions, read);
  const all = [...fields, steps].map(({ node }) => node);
  const draw = ({ settings, foundInf }) => {
    names.forEach((name, i) => fields[i].draw(toText(settings[name])));
    steps.draw(foundInf.length);
  };
  return { nodes: [h("div", { class: "amp-controls" }, ...all), faults.node], draw };
}

function settingField(name, faults, actions, read) {
  const parse = (text) => {
    const { value } = readNumber(FP32, text);
    const fault = settingFault(name, value);
    if (fault !== null) throw new Error(fault);
    return value;
  };
  return textField(SETTINGS[name], faults, parse, (value) => {
    if (value !== read().settings[name]) actions.setSetting(name, value);
  });
}

function stepsField(faults, actions, read) {
  const parse = (text) => {
    const count = wholeNumber(text);
    if (count >= 1 && count <= MOST_STEPS) return count; // null counts as 0
    throw new Error(`steps must be a whole number from 1 to ${MOST_STEPS}`);
  };
  return textField("Number of steps", faults, parse, (count) => {
    if (count !== read().foundInf.length) actions.setSteps(count);
  });
}

// ---- the pattern -------------------------------------------------------------------------------

// One toggle a step. Tab reaches the row once; the arrow keys move along it.
function patternRow(actions) {
  const id = uniqueId("pattern");
  const heading = h("p", { class: "amp-heading", id }, "Which steps overflow?");
  const row = h("div", { class: "amp-steps", role: "group", "aria-labelledby": id });
  let focused = 0;
  function move(event) {
    const last = row.children.length - 1;
    const to = { ArrowLeft: focused - 1, ArrowRight: focused + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    focus(Math.min(Math.max(to, 0), last));
    row.children[focused].focus();
  }
  function focus(step) {
    focused = step;
    [...row.children].forEach((button, i) => (button.tabIndex = i === step ? 0 : -1));
  }
  function makeButton(step) {
    const mark = h("span", { class: "amp-mark", "aria-hidden": "true" });
    const number = h("span", { class: "amp-step-number", "aria-hidden": "true" }, step);
    const onclick = () => (focus(step), actions.toggle(step));
    const label = { "aria-label": `step ${step} overflows` };
    return control("button", { type: "button", onclick, ...label }, mark, number);
  }
  row.addEventListener("keydown", move);
  function draw({ foundInf, shown }) {
    while (row.children.length > foundInf.length) row.lastChild.remove();
    while (row.children.length < foundInf.length) row.append(makeButton(row.children.length));
    focus(Math.min(focused, foundInf.length - 1));
    [...row.children].forEach((button, step) => {
      button.setAttribute("aria-pressed", String(foundInf[step]));
      button.firstChild.textContent = foundInf[step] ? "inf" : "ok";
      button.classList.toggle("amp-next", step === shown);
    });
  }
  return { nodes: [heading, row], draw };
}

// ---- the prediction ----------------------------------------------------------------------------

// The three things that can become of the scale, whether or not they are right.
function choices({ before, settings }) {
  const grown = Math.fround(before.scale * settings.growth_factor);
  return [
    { verb: "grows to", scale: grown },
    { verb: "stays at", scale: before.scale },
    { verb: "backs off to", scale: Math.fround(before.scale * settings.backoff_factor) },
  ];
}

// Why the scale after a step is what it is.
function reason(state, step) {
  const { settings, foundInf, simulated } = state;
  const before = step ? simulated[step - 1] : initialState(settings);
  const after = simulated[step];
  const interval = settings.growth_interval;
  if (foundInf[step]) {
    return `a gradient overflowed: the scale is multiplied by ${settings.backoff_factor}`;
  }
  if (after.cleanSteps > 0) return `clean step ${after.cleanSteps} of ${interval}: not yet`;
  const reached = `clean step ${before.cleanSteps + 1} of ${interval}`;
  if (after.scale !== before.scale) return `${reached}: the scale grows`;
  return `${reached}, but the scale cannot grow: float32 ends at about 3.4e38`;
}

function predictions(actions, read) {
  const question = h("p", { class: "amp-heading" });
  const makeChoice = (_, i) => {
    const onclick = () => actions.answer(choices(read())[i].scale);
    return control("button", { type: "button", class: "amp-choice", onclick });
  };
  const buttons = Array.from({ length: 3 }, makeChoice);
  const makeOther = (text, onclick) =>
    control("button", { type: "button", class: "amp-choice amp-quiet", onclick }, text);
  const all = makeOther("Show all", actions.showAll);
  const again = makeOther("Start again", () => (actions.restart(), buttons[0].focus()));
  const group = h("div", { class: "amp-choices" }, ...buttons, all, again);
  const verdict = h("output", { class: "amp-feedback", "aria-live": "polite" });
  const score = h("p", { class: "amp-note" });
  function draw(state) {
    const { foundInf, shown, answers, right, asked } = state;
    const done = shown === foundInf.length;
    question.textContent = done
      ? "Every step is shown."
      : `Step ${shown} ${foundInf[shown] ? "overflows" : "is clean"}. ` +
        "After update(), the scale…";
    const options = choices(state);
    // A button that is disabled loses the focus: at the end it goes to one that is not.
    if (done && [...buttons, all].includes(document.activeElement)) again.focus();
    buttons.forEach((button, i) => {
      button.textContent = `${options[i].verb} ${shortScale(options[i].scale)}`;
      button.disabled = done;
    });
    all.disabled = done;
    again.disabled = shown === 0;
    verdict.textContent = shown && answers[shown - 1] !== "" ? feedback(state) : "";
    score.textContent = asked ? `${right} of ${asked} predictions right` : "No prediction yet.";
  }
  return { nodes: [h("div", { class: "amp-panel amp-ask" }, question, group, verdict, score)], draw };
}

function feedback(state) {
  const step = state.shown - 1;
  const { scale } = state.simulated[step];
  const word = isRight(state.answers[step], scale) ? "Right" : "Not so";
  return `${word}: after step ${step} the scale is ${shortScale(scale)}; ${reason(state, step)}.`;
}

// ---- the picture -------------------------------------------------------------------------------

// The window takes in what is shown and one power of two on each side: it gives nothing away.
function makeFrame(state, width) {
  const scales = [initialState(state.settings), ...state.simulated.slice(0, state.shown)];
  const exponents = scales.map(({ scale }) => Math.log2(scale)).filter(Number.isFinite);
  const low = Math.floor(Math.min(...exponents, 127)) - 1;
  const high = Math.ceil(Math.max(...exponents, low + 1)) + 1;
  const plotWidth = width - MARGIN.left - MARGIN.right;
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const inside = (exponent) => Math.min(Math.max(exponent, low), high); // 0 below, inf above
  return {
    width,
    low,
    high,
    column: plotWidth / (state.foundInf.length + 1),
    bottom: HEIGHT - MARGIN.bottom,
    x: (step) => MARGIN.left + (plotWidth * (step + 1.5)) / (state.foundInf.length + 1),
    y: (scale) =>
      MARGIN.top + (plotHeight * (high - inside(Math.log2(scale)))) / (high - low),
  };
}

function drawGround(state, at) {
  const [x1, x2] = [MARGIN.left, at.width - MARGIN.right];
  const parts = state.foundInf.flatMap((overflow, step) => {
    const box = { x: at.x(step) - at.column / 2, y: MARGIN.top, width: at.column };
    const height = at.bottom - MARGIN.top;
    return overflow ? [svg("rect", { class: "amp-overflow-step", ...box, height })] : [];
  });
  const gap = [1, 2, 4, 8, 16, 32, 64, 128].find((n) => (at.high - at.low) / n <= 8) ?? 256;
  for (let e = Math.ceil(at.low / gap) * gap; e <= at.high; e += gap) {
    const y = at.y(2 ** e);
    const label = { class: "amp-tick", x: x1 - 8, y: y + 4, "text-anchor": "end" };
    parts.push(svg("line", { class: "amp-grid", x1, x2, y1: y, y2: y }));
    parts.push(svg("text", label, powerOfTwo(e)));
  }
  const every = [1, 2, 5, 10].find((n) => n * at.column >= 22) ?? 20;
  for (let step = 0; step < state.foundInf.length; step += every) {
    const label = { class: "amp-tick", x: at.x(step), y: at.bottom + 17, "text-anchor": "middle" };
    parts.push(svg("text", label, step));
  }
  const start = { class: "amp-tick", x: at.x(-1), y: at.bottom + 17, "text-anchor": "middle" };
  if (at.column >= 28) parts.push(svg("text", start, "start"));
  const title = { class: "amp-axis-title", x: (x1 + x2) / 2, y: HEIGHT - 6 };
  parts.push(svg("text", { ...title, "text-anchor": "middle" }, "step"));
  return parts;
}

function drawScales(state, at) {
  const { simulated, shown, settings, real, foundInf } = state;
  const first = initialState(settings).scale;
  const parts = [];
  const known = real ?? simulated.map(({ scale }) => scale);
  const points = [first, ...known.slice(0, shown)].map((s, i) => `${at.x(i - 1)} ${at.y(s)}`);
  if (real) parts.push(svg("path", { class: "amp-real-line", d: `M${points.join("L")}` }));
  const dot = { class: "amp-start", cx: at.x(-1), cy: at.y(first), r: 4 };
  parts.push(svg("circle", dot));
  for (let step = 0; step < shown; step += 1) {
    const [x, y] = [at.x(step), at.y(simulated[step].scale)];
    const square = { class: "amp-simulated", x: x - 6, y: y - 6, width: 12, height: 12 };
    parts.push(svg("rect", square));
    if (real) parts.push(svg("circle", { class: "amp-real", cx: x, cy: at.y(real[step]), r: 3.5 }));
  }
  if (shown < foundInf.length) {
    const middle = (MARGIN.top + at.bottom) / 2 + 8;
    const mark = { class: "amp-question", x: at.x(shown), y: middle, "text-anchor": "middle" };
    parts.push(svg("text", mark, "?"));
  }
  return parts;
}

function summary({ settings, simulated, shown, foundInf }) {
  const scales = simulated.slice(0, shown).map(({ scale }) => shortScale(scale));
  const after = shown ? `after each of ${shown} steps: ${scales.join(", ")}` : "no step is shown yet";
  const overflows = foundInf.flatMap((overflow, step) => (overflow ? [step] : []));
  const where = overflows.length ? `Steps that overflow: ${overflows.join(", ")}.` : "No overflow.";
  return `Scale by step. Start: ${shortScale(settings.init_scale)}; ${after}. ${where}`;
}

function trajectory() {
  return picture(HEIGHT, 260, (state, width) => {
    const at = makeFrame(state, width);
    return { label: summary(state), parts: [...drawGround(state, at), ...drawScales(state, at)] };
  });
}

function legend() {
  const square = svg("rect", { class: "amp-simulated", x: 2, y: 2, width: 12, height: 12 });
  const dot = svg("circle", { class: "amp-real", cx: 8, cy: 8, r: 3.5 });
  const band = svg("rect", { class: "amp-overflow-step", width: 16, height: 16 });
  const keys = [
    legendKey("real GradScaler", dot),
    legendKey("simulator", square),
    legendKey("overflow", band),
  ];
  return h("p", { class: "amp-legend" }, ...keys);
}

// ---- the table ---------------------------------------------------------------------------------

const COLUMNS = ["step", "gradients", "real GradScaler", "simulator", "clean steps", "predicted"];

function table() {
  const head = h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)));
  const body = h("tbody", {});
  const label = { role: "region", "aria-label": "The scale after each step", tabindex: 0 };
  const grid = h("table", { class: "amp-table" }, h("thead", {}, head), body);
  const box = h("div", { class: "amp-scroll", "data-lm-suppress-shortcuts": "true", ...label }, grid);
  const note = h("p", { class: "amp-note" });
  let lines = 0;
  function draw(state) {
    body.replaceChildren(...state.answers.map((answer, step) => tableRow(state, answer, step)));
    box.hidden = state.shown === 0;
    if (state.shown > lines) box.scrollTop = box.scrollHeight;
    lines = state.shown;
    note.textContent = state.shown ? agreement(state) : "";
  }
  return { nodes: [box, note], draw };
}

function tableRow({ foundInf, simulated, real }, answer, step) {
  const { scale, cleanSteps } = simulated[step];
  const predicted =
    answer === "" ? "—" : `${shortScale(fromText(answer))} ${isRight(answer, scale) ? "✓" : "✗"}`;
  const cells = [foundInf[step] ? "overflow: step skipped" : "finite"];
  cells.push(real ? shortScale(real[step]) : "…", shortScale(scale), cleanSteps, predicted);
  const className = foundInf[step] ? "amp-overflowed" : null;
  const number = h("th", { scope: "row" }, step);
  return h("tr", { class: className }, number, ...cells.map((text) => h("td", {}, text)));
}

function agreement({ real, simulated, shown }) {
  if (!real) return "The real GradScaler runs in Python, which has not answered for these inputs.";
  const differs = simulated.slice(0, shown).findIndex(({ scale }, i) => scale !== real[i]);
  if (differs >= 0) return `The simulator differs from the real GradScaler at step ${differs}.`;
  return `The simulator and the real GradScaler agree in all ${shown} steps shown.`;
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = [...Object.keys(SETTINGS), "found_inf", "answers", "real"];
  return assemble({ model, el, root: "amp-scaler-lab" }, "Scaler lab", names, readState, (set, read) => {
    const actions = makeActions(model, set);
    return [
      settingsForm(actions, read),
      patternRow(actions),
      predictions(actions, read),
      trajectory(),
      { nodes: [legend()] },
      table(),
    ];
  });
}

// The lab on a page of its own. Without Python there is no real trajectory.
export function mount(el, values = {}) {
  const found_inf = Array.from({ length: 12 }, (_, i) => i === 5 || i === 6);
  const settings = { init_scale: "4", growth_factor: "2", backoff_factor: "0.5" };
  const start = { ...settings, growth_interval: 2, found_inf, answers: [], real: {} };
  const model = plainModel({ ...start, ...values });
  render({ model, el });
  return model;
}

export default { render };

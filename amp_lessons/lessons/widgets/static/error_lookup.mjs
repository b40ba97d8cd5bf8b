// The box to look an error up: a text area, a button, and the answer below them.
//
// Python (amp_lessons.amp.errors) finds the entries. This module sends `text` and `length`, counts
// `asked` up, and shows `answer`: { number, status, html, found, sure }.

import { assemble, control, h, plainModel, uniqueId } from "./dom.mjs";

const RESTARTED = "The kernel was restarted. Run this cell again.";
const HINT = "Ctrl+Enter looks it up, too. Only your own kernel reads the text.";
const NAMES = ["answer"];

// Of a very long text both ends: an error stands at one of them.
function endsOf(text, [head, tail]) {
  return text.length <= head + tail ? text : `${text.slice(0, head)}\n${text.slice(-tail)}`;
}

function question(model, set) {
  const id = uniqueId("pasted");
  const hint = uniqueId("hint");
  const area = control("textarea", {
    id,
    rows: 6,
    class: "amp-pasted",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": hint,
    onkeydown: (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.stopPropagation();
      ask();
    },
  });
  area.value = model.get("text");
  const ask = () => {
    const text = area.value;
    set({ text: endsOf(text, model.get("ends")), length: [...text].length, asked: model.get("asked") + 1 });
  };
  const button = control("button", { type: "button", class: "amp-look-up", onclick: ask }, "Look it up");
  const label = h("label", { for: id }, "Your error, or what you see");
  const field = h("div", { class: "amp-field" }, label, area);
  const note = h("span", { class: "amp-note", id: hint }, model.get("hint") ?? HINT);
  const tryOut = (text) => {
    area.value = text;
    ask();
  };
  const examples = model
    .get("examples")
    .map((text) => control("button", { type: "button", onclick: () => tryOut(text) }, text));
  const row = { class: "amp-examples", role: "group", "aria-label": "Examples" };
  const tried = h("div", row, h("span", { class: "amp-note" }, "For example:"), ...examples);
  return { nodes: [field, h("div", { class: "amp-ask" }, button, note), tried] };
}

function answer(model) {
  const status = h("p", { class: "amp-verdict", role: "status" });
  const found = h("div", { class: "amp-found" });
  let shown = null;
  const draw = ({ asked, answer }) => {
    if (asked && answer.number !== asked) {
      status.textContent = "Looking it up …";
      status.dataset.bad = false;
      return;
    }
    if (answer === shown) return;
    shown = answer;
    status.textContent = answer.status ?? "";
    status.dataset.bad = answer.sure === false;
    found.innerHTML = answer.html ?? ""; // our own HTML
  };
  // Jupyter tells a widget one thing about its line to Python: that it is gone, with the kernel.
  const onRestart = () => {
    status.textContent = RESTARTED;
    status.dataset.bad = true;
  };
  model.on("comm_live_update", onRestart);
  return { nodes: [status, found], draw, stop: () => model.off("comm_live_update", onRestart) };
}

function render({ model, el }) {
  const readState = () => ({ asked: model.get("asked"), answer: model.get("answer") });
  return assemble({ model, el, root: "amp-error-lookup" }, "Look up an error", NAMES, readState, (set) => [
    question(model, set),
    answer(model),
  ]);
}

// The box on a page of its own. `python(values)` gives a promise of the answer to what was asked.
export function mount(el, values, python) {
  const model = plainModel({ text: "", examples: [], length: 0, asked: 0, answer: {}, ...values });
  model.on("change:asked", async () => {
    const { text, length, asked } = { text: model.get("text"), length: model.get("length"), asked: model.get("asked") };
    model.set("answer", await python({ text, length, asked }));
  });
  render({ model, el });
  return model;
}

export default { render };

// The buttons below a verdict. Python has the hints and the solution, and sends their boxes as HTML.

import { control, h } from "./dom.mjs";

function render({ model, el }) {
  const button = (text, onclick) => control("button", { type: "button", onclick }, text);
  const hint = button("Hint", () => model.send("hint"));
  const solution = button("Solution", () => (model.get("gives_up") ? ask(true) : open()));
  const stay = button("Keep trying", () => ask(false));
  const question = h("p", {}, "Give up and show the solution?");
  const sure = h("div", { class: "amp-help-row" }, question, button("Show it", open), stay);
  const shown = h("div", { "aria-live": "polite" });
  const row = h("div", { class: "amp-help-row" }, hint, solution);
  const name = { role: "group", "aria-label": "Help with this exercise" };
  el.append(h("div", { class: "amp-widget amp-help-buttons", ...name }, row, sure, shown));

  function ask(asking) {
    sure.hidden = !asking;
    (asking ? stay : solution).focus();
  }

  function open() {
    ask(false);
    model.send("solution");
  }

  function draw() {
    hint.disabled = !model.get("more_hints");
    const boxes = model.get("shown").map((markup) => {
      const box = h("div");
      box.innerHTML = markup; // our own: every word in it is escaped
      return box;
    });
    shown.replaceChildren(...boxes);
  }

  function onRestart() {
    hint.disabled = solution.disabled = true;
    sure.hidden = true;
  }

  sure.hidden = true;
  draw();
  const names = ["change:shown", "change:more_hints"];
  for (const name of names) model.on(name, draw);
  model.on("comm_live_update", onRestart);
  return () => {
    for (const name of names) model.off(name, draw);
    model.off("comm_live_update", onRestart);
  };
}

export default { render };

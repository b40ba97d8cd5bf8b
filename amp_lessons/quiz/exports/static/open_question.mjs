// An open question: answer it aloud, look at a good answer, and tick the points that yours had.

import { control, h, uniqueId } from "./dom.mjs";
import { asked, spoken, trusted } from "./sheet.mjs";

// A box like `questionBox`'s. `actions.done(score)` gets the share of the points, from 0 to 1.
export function openBox(question, heading, actions) {
  const titleId = uniqueId("open");
  const button = control("button", { type: "button", class: "amp-primary", onclick: open }, "Show a good answer");
  const answer = h("div", { class: "amp-feedback", tabindex: "-1" });
  const result = h("p", { class: "amp-result", "aria-live": "polite" });
  const note = "Say your answer aloud, as you would in an interview, before you look.";
  const first = h("div", { class: "amp-actions" }, button);
  const node = h(
    "div",
    { class: "amp-question amp-open", role: "group", "aria-labelledby": titleId },
    h("p", { class: "amp-kind", id: titleId }, heading),
    trusted("div", { class: "amp-prompt" }, question.prompt),
    h("p", { class: "amp-note" }, note),
    first,
    answer,
    result,
  );
  node.addEventListener("keydown", onKey);

  function onKey(event) {
    if (event.key !== "Enter" || event.target.matches("button, summary") || first.hidden) return;
    event.preventDefault();
    event.stopPropagation();
    open();
  }

  function open() {
    first.hidden = true;
    const rows = question.rubric.map(pointRow);
    const count = control("button", { type: "button", class: "amp-primary", onclick: () => take(rows, count) }, "Count my points");
    const legend = h("legend", { class: "amp-part-title" }, "Tick what your answer had in it");
    answer.replaceChildren(
      ...spoken(question),
      h("fieldset", { class: "amp-choices" }, legend, ...rows.map((row) => row.node)),
      h("div", { class: "amp-actions" }, count),
      ...asked(question),
      trusted("p", { class: "amp-note" }, `Source: ${question.source}`),
    );
    answer.focus({ preventScroll: true });
  }

  function take(rows, count) {
    const points = rows.filter(({ box }) => box.checked).length;
    for (const { box } of rows) box.disabled = true;
    count.hidden = true;
    result.textContent = `${points} of ${rows.length} points`;
    actions.done(points / rows.length);
  }

  return { node, focus: () => button.focus() };
}

function pointRow(markup) {
  const box = control("input", { type: "checkbox" });
  const text = trusted("span", { class: "amp-choice-text" }, markup);
  return { box, node: h("label", { class: "amp-choice" }, box, text) };
}

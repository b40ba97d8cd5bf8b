// Questions and answers to read: in the list of the page, and on the sheets that are printed.

import { h } from "./dom.mjs";
import { withUnit } from "./marking.mjs";

const NAME = (place) => `(${"1234567890"[place]})`;

// An element with trusted HTML in it: all of it was made from our own Markdown.
export function trusted(tag, attributes, markup) {
  const node = h(tag, attributes);
  node.innerHTML = markup;
  return node;
}

// A question with what there is to read and to choose from.
export function questionParts(question) {
  const parts = [trusted("div", { class: "amp-prompt" }, question.prompt)];
  if (question.code) parts.push(textBox(question.code, "Code"));
  if (question.log) parts.push(textBox(escaped(question.log), "Log"));
  if (question.plot) parts.push(trusted("div", { class: "amp-figure" }, question.plot));
  if (question.choices) parts.push(list(question.choices, "amp-offered"));
  if (question.lines) parts.push(linesOf(question));
  if (question.form === "number") parts.push(blank(question.unit));
  return parts;
}

// Code or a log, in a box that scrolls to the side, which the keyboard reaches. It's no landmark:
// a list of questions has many of them.
function textBox(markup, label) {
  const reached = { class: "amp-code", tabindex: "0", role: "group", "aria-label": label };
  return trusted("pre", reached, markup);
}

function escaped(text) {
  const node = h("span");
  node.textContent = text;
  return node.innerHTML;
}

function list(markups, name) {
  return h("ol", { class: name }, ...markups.map((markup) => trusted("li", {}, markup)));
}

function linesOf({ lines }) {
  return list(
    lines.map(({ html }) => html),
    "amp-offered",
  );
}

function blank(unit) {
  const line = h("span", { class: "amp-blank", "aria-hidden": "true" });
  return h("p", { class: "amp-note" }, "A number", unit ? `, in ${unit}` : "", ": ", line);
}

// What is right, and why each of the others is not.
export function answerParts(question) {
  const parts = ANSWER_BY[question.form](question);
  if (question.source)
    parts.push(trusted("p", { class: "amp-note" }, `Source: ${question.source}`));
  if (question.proof) {
    const title = h("summary", {}, "The proof");
    parts.push(h("details", {}, title, textBox(question.proof, "Proof")));
  }
  return parts;
}

const ANSWER_BY = {
  one: ofChoices,
  many: ofChoices,
  number: ofNumber,
  order: ofOrder,
  open: ofOpen,
};

function ofChoices({ choices, key }) {
  const places = choices.map((_, place) => place);
  const right = places.filter((place) => key.right.includes(place));
  const wrong = places.filter((place) => !key.right.includes(place));
  const parts = [
    ...right.map((place) => reason("right", `${NAME(place)} is right`, key.why[place])),
    ...wrong.map((place) => reason("wrong", `${NAME(place)} is not right`, key.why[place])),
  ];
  if (key.explanation) parts.push(trusted("div", {}, key.explanation));
  return parts;
}

function ofNumber({ key, unit }) {
  return [
    reason("right", withUnit(key.answer, unit), key.explanation),
    ...key.mistakes.map(({ value, why }) => reason("wrong", `Not ${withUnit(value, unit)}`, why)),
  ];
}

function ofOrder({ lines, key }) {
  const right = key.offered.slice(0, key.count).map((markup) => trusted("li", {}, markup));
  const parts = [h("ol", { class: "amp-offered" }, ...right), trusted("div", {}, key.explanation)];
  key.distractors.forEach((why, number) => {
    const at = lines.findIndex(({ place }) => place === key.count + number);
    parts.push(reason("wrong", `${NAME(at)} does not belong`, why));
  });
  for (const { why } of key.slips) parts.push(reason("wrong", "A common slip", why));
  return parts;
}

function reason(role, title, markup) {
  const heading = h("p", { class: "amp-heading" }, title);
  return h("div", { class: `amp-remark amp-remark-${role}` }, heading, trusted("div", {}, markup));
}

function ofOpen({ answer, rubric }) {
  const points = rubric.map((point) => trusted("li", {}, point));
  const heading = h("p", { class: "amp-heading" }, "What a good answer has in it");
  return [
    trusted("div", { class: "amp-good-answer" }, answer),
    h("div", {}, heading, h("ul", {}, ...points)),
  ];
}

// The questions one below the other, each with its answer folded away.

import { standings } from "./boxes.mjs";
import { h, uniqueId } from "./dom.mjs";
import { openIdsOf } from "./filters.mjs";
import { answerParts, questionParts } from "./sheet.mjs";

const AT_ONCE = 20; // more are drawn when they are asked for

export function browseView(bank, answers, sheets) {
  const openIds = openIdsOf(bank);
  const count = h("p", { class: "amp-found", "aria-live": "polite" });
  const list = h("div", { class: "amp-browse" });
  const more = h("button", { type: "button", onclick: drawMore }, "Show more");
  const prints = [
    h(
      "button",
      { type: "button", onclick: () => sheets.print("questions") },
      "Print the questions",
    ),
    h("button", { type: "button", onclick: () => sheets.print("answers") }, "Print the answers"),
  ];
  const node = h(
    "div",
    {},
    h("h2", { class: "amp-hidden" }, "Questions"),
    h("div", { class: "amp-head" }, count, h("div", { class: "amp-actions" }, ...prints)),
    list,
    h("div", { class: "amp-actions amp-more" }, more),
  );
  let questions = [];
  let found = new Map();

  function draw(chosen) {
    questions = chosen;
    found = standings(answers.all(), openIds);
    count.textContent = counted(chosen.length);
    for (const button of prints) button.disabled = !chosen.length;
    list.replaceChildren();
    drawMore();
  }

  function drawMore() {
    const from = list.childElementCount;
    const next = questions
      .slice(from, from + AT_ONCE)
      .map((question) => card(bank, question, found));
    list.append(...next);
    const left = questions.length - list.childElementCount;
    more.hidden = !left;
    more.textContent = `Show ${Math.min(left, AT_ONCE)} more`;
    if (from) next[0]?.querySelector("h3").focus();
  }

  return { node, draw };
}

export function counted(number) {
  if (!number) return "No question fits: take a word or a filter away.";
  return number === 1 ? "1 question" : `${number} questions`;
}

function card(bank, question, found) {
  const answerId = uniqueId("answer");
  const answer = h("div", { id: answerId, class: "amp-answer", hidden: true });
  const closed = { type: "button", "aria-expanded": "false", "aria-controls": answerId };
  const button = h("button", { ...closed, onclick: toggle }, "Show answer");
  function toggle() {
    if (!answer.childElementCount) answer.append(...answerParts(question));
    answer.hidden = !answer.hidden;
    button.setAttribute("aria-expanded", answer.hidden ? "false" : "true");
    button.textContent = answer.hidden ? "Show answer" : "Hide answer";
  }
  const heading = headingOf(bank, question, found.get(question.id));
  return h(
    "article",
    { class: "amp-question amp-card-of" },
    h("h3", { class: "amp-kind", tabindex: "-1" }, heading),
    ...questionParts(question),
    h("div", { class: "amp-actions" }, button),
    answer,
  );
}

// "GradScaler · Find the fault · level 2 · missed last time"
export function headingOf(bank, question, standing) {
  const parts = [bank.topics[question.topic], question.kindName, `level ${question.level}`];
  if (standing) parts.push(standing.missed ? "missed last time" : "answered");
  return parts.join(" · ");
}

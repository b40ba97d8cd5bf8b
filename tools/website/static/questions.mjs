// Predictions and questions on a page: the boxes of the notebook, marked here. A reader's answers are
// kept in the browser, in the form of the notebook's log, with what was given added to each.

import { answerIn } from "./answering.mjs";
import { entryOf, openAnswers } from "./answers.mjs";
import { mount } from "./quiz.mjs";

const SAVED = "Kept in this browser.";

export function putIn(storage) {
  const answers = openAnswers(storage);
  for (const place of document.querySelectorAll("[data-questions]")) {
    const { kind, questions } = JSON.parse(place.querySelector("script").textContent);
    putOne(place, kind, questions, answers);
  }
}

function putOne(place, kind, questions, answers) {
  const verdicts = kept(questions, answers.all());
  for (const id of Object.keys(verdicts)) openResults(id);
  const el = document.createElement("div");
  const values = {
    title: kind === "predict" ? "Prediction" : "Questions",
    questions: questions.map((question) => ({ ...question, before: "" })),
    verdicts, // before the box is made: a verdict that comes later would take the focus
    standing: standing(questions, verdicts),
    runs: false,
  };
  let begun = Date.now();
  mount(el, values, async (message) => {
    const reply = { call: message.call };
    try {
      reply.content = take(message);
    } catch (fault) {
      reply.error = fault.message;
    }
    return { reply, changed: { verdicts: { ...verdicts }, standing: standing(questions, verdicts) } };
  });
  place.replaceChildren(el);

  function take(message) {
    if (message.type === "drawn") return { focus: false };
    const question = questions.find(({ id }) => id === message.id);
    if (message.type === "proof") return { markup: question.proof, text: textOf(question.proof) };
    const { told, score } = answerIn(question, message);
    if (!verdicts[question.id]) {
      const sure = message.type === "answer" && Boolean(message.sure);
      const entry = entryOf(question.id, score, sure, (Date.now() - begun) / 1000);
      answers.add([{ ...entry, given: told.given }]);
    }
    begun = Date.now();
    verdicts[question.id] = told;
    openResults(question.id);
    return told;
  }
}

// The first answer to each question, judged again.
function kept(questions, entries) {
  const verdicts = {};
  for (const question of questions) {
    const entry = entries.find(({ item, given }) => item === question.id && given !== undefined);
    if (!entry) continue;
    try {
      const message = entry.given === null ? { type: "give up" } : { type: "answer", answer: entry.given };
      verdicts[question.id] = answerIn(question, message).told;
    } catch {
      // the question has changed since
    }
  }
  return verdicts;
}

function standing(questions, verdicts) {
  const told = questions.map(({ id }) => verdicts[id]).filter(Boolean);
  if (!told.length) return "";
  if (questions.length === 1) return SAVED;
  const right = told.filter(({ right, given }) => right && given !== null).length;
  return `${right} of ${told.length} right. ${SAVED}`;
}

function openResults(id) {
  for (const fold of document.querySelectorAll("details[data-about]")) {
    if (fold.dataset.about === id) fold.open = true;
  }
}

function textOf(markup) {
  const node = document.createElement("div");
  node.innerHTML = markup;
  return node.textContent;
}

// A sheet of questions and a sheet of answers, numbered alike, of the questions that are chosen.

import { h } from "./dom.mjs";
import { answerParts, questionParts } from "./sheet.mjs";

const TITLES = { questions: "Questions", answers: "Answers" };

export function printing(sheet, bank, chosen) {
  let asked = null;

  function fill(what) {
    const rows = chosen().map((question, place) => row(bank, what, question, place + 1));
    const title = h("h1", {}, `AMP Lessons: ${TITLES[what].toLowerCase()}`);
    sheet.replaceChildren(title, ...rows);
  }

  // The browser's own print command gives the questions.
  window.addEventListener("beforeprint", () => asked ?? fill("questions"));
  window.addEventListener("afterprint", () => (asked = null));

  return {
    print(what) {
      fill(what);
      asked = what;
      window.print(); // on a phone this returns before anything is printed
    },
  };
}

function row(bank, what, question, number) {
  const about = `${number}. ${bank.topics[question.topic]} · ${question.kindName}`;
  const parts = what === "questions" ? questionParts(question) : answerParts(question);
  const shown = parts.filter((part) => part.tagName !== "DETAILS"); // a proof is for the screen
  return h("section", { class: "amp-question" }, h("h2", { class: "amp-kind" }, about), ...shown);
}

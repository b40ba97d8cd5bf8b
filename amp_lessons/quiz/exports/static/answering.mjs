// What a box is told about an answer, without Python: `Quiz.answer` and `Quiz.give_up` in JavaScript.

import { keyOf, mark } from "./marking.mjs";
import { readTyped } from "./typed_numbers.mjs";

// Judge a message of a box: `{ type: "answer", answer }` or `{ type: "give up" }`. Gives what the box
// is told and the score. Throws an Error with one line for the reader if it is no answer.
export function answerIn(question, { type, answer }) {
  if (type === "give up") {
    return { told: verdict(question, mark(question, keyOf(question)), null), score: 0 };
  }
  const { value, readAs } = typed(question, answer);
  const marked = mark(question, value);
  return { told: { ...verdict(question, marked, answer), readAs }, score: marked.score };
}

// As `Quiz` says it in a notebook: with a capital letter and a full stop.
function typed({ form, unit }, given) {
  if (form !== "number") return { value: given };
  try {
    return readTyped(given, unit);
  } catch (fault) {
    throw new Error(`${fault.message[0].toUpperCase()}${fault.message.slice(1)}.`);
  }
}

function verdict(question, marked, given) {
  const told = { ...marked, given };
  if (question.form === "order") told.lines = question.key.offered.slice(0, question.key.count);
  return told;
}

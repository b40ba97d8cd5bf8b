// One question at a time: what was missed first, then what is due, then what is new.

import { answerIn } from "./answering.mjs";
import { entryOf } from "./answers.mjs";
import { isDue, nextId, soonestId, standings } from "./boxes.mjs";
import { headingOf } from "./browse.mjs";
import { control, h } from "./dom.mjs";
import { openIdsOf } from "./filters.mjs";
import { openBox, questionBox } from "./question.mjs";

const KEYS = "Keys: the numbers choose, Enter answers, h shows the hint, n goes on.";

const TYPED_INTO = 'input[type="text"], input[type="search"], select';

export function drillView(bank, answers) {
  const openIds = openIdsOf(bank);
  const byId = new Map(bank.questions.map((question) => [question.id, question]));
  const place = h("div", { class: "amp-place" });
  const onward = control("button", { type: "button", onclick: advance }, "Skip");
  const tally = h("p", { class: "amp-note", "aria-live": "polite" });
  const foot = h(
    "div",
    { class: "amp-head amp-quiz-foot" },
    tally,
    h("div", { class: "amp-actions" }, onward),
  );
  const keys = h("p", { class: "amp-note amp-keys" }, KEYS);
  const node = h("div", {}, h("h2", { class: "amp-hidden" }, "Drill"), place, foot, keys);
  const recent = []; // ids, as they were asked
  const score = { asked: 0, right: 0 };
  let ids = [];
  let box = null;
  let current = null;
  let answered = false;

  function draw(chosen) {
    ids = chosen.map(({ id }) => id);
    // An answer on the screen stays there, also if the filter no longer wants its question.
    if (!current || (!answered && !ids.includes(current.id))) ask(next());
    drawFoot();
  }

  function next() {
    return nextId(ids, standings(answers.all(), openIds), Date.now(), recent);
  }

  function advance() {
    ask(next());
    focus();
  }

  function ask(id) {
    answered = false;
    current = id ? byId.get(id) : null;
    box = current ? boxFor(current) : null;
    place.replaceChildren(box ? box.node : nothing());
    if (id) recent.push(id);
    drawFoot();
  }

  function boxFor(question) {
    const heading = headingOf(bank, question, standings(answers.all(), openIds).get(question.id));
    const begun = Date.now();
    const note = (share, sure) => {
      answers.add([entryOf(question.id, share, sure, (Date.now() - begun) / 1000)]);
      answered = true;
      score.asked += 1;
      score.right += share === 1 ? 1 : 0;
      drawFoot();
    };
    if (question.form === "open") return openBox(question, heading, openActions(question, note));
    return questionBox(question, heading, {
      submit: async (answer, sure) => {
        const { told, score: share } = answerIn(question, { type: "answer", answer });
        note(share, sure);
        return told;
      },
      giveUp: async () => {
        note(0, false);
        return answerIn(question, { type: "give up" }).told;
      },
      proof: async () => ({ markup: question.proof, text: textOf(question.proof) }),
    });
  }

  function openActions({ answer, rubric }, note) {
    return {
      reveal: async () => ({ answer, rubric }),
      submit: async (ticked) => {
        note(ticked.length / rubric.length, true);
        return { text: `${ticked.length} of ${rubric.length} points` };
      },
    };
  }

  function nothing() {
    const words = ids.length
      ? "That's all for today. What you missed comes back at once, the rest in some days."
      : "No question fits: take a word or a filter away.";
    const again = control(
      "button",
      { type: "button", class: "amp-primary", onclick: practise },
      "Practise all the same",
    );
    const actions = ids.length ? [h("div", { class: "amp-actions" }, again)] : [];
    return h("div", { class: "amp-done", tabindex: "-1" }, h("p", {}, words), ...actions);
  }

  function practise() {
    ask(soonestId(ids, standings(answers.all(), openIds), recent));
    focus();
  }

  function drawFoot() {
    const found = standings(answers.all(), openIds);
    const now = Date.now();
    const due = ids.filter((id) => isDue(found.get(id), now)).length;
    const fresh = ids.filter((id) => !found.has(id)).length;
    const parts = score.asked ? [`${score.right} of ${score.asked} right`] : [];
    tally.textContent = [...parts, `${due} due`, `${fresh} new`].join(" · ");
    onward.textContent = answered ? "Next question" : "Skip";
    onward.classList.toggle("amp-primary", answered);
    onward.hidden = !current;
    keys.hidden = !current;
  }

  // On a phone the keyboard would cover a question that wants a number: there, its text is focused.
  function focus() {
    const touch = window.matchMedia("(pointer: coarse)").matches;
    if (box && !(touch && current.form === "number")) box.focus();
    else place.firstElementChild?.focus();
    place.scrollIntoView({ block: "nearest" });
  }

  function onKey(event) {
    const aside = event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented;
    if (aside || !current || event.target.matches?.(TYPED_INTO)) return;
    const enter = event.key === "Enter" && !event.target.matches?.("button, summary, a");
    if (event.key === "n" || (enter && answered)) {
      event.preventDefault();
      advance();
    } else if (beside(event.target) && (enter || event.key.length === 1)) {
      pass(event);
    }
  }

  function beside(target) {
    return !box.node.contains(target) && target.matches?.("body, main, main *");
  }

  // A key that is pressed beside the question is meant for it.
  function pass(event) {
    const { key } = event;
    const copy = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    if (!box.node.dispatchEvent(copy)) event.preventDefault();
  }

  return { node, draw, focus, onKey };
}

function textOf(markup) {
  const node = document.createElement("div");
  node.innerHTML = markup;
  return node.textContent;
}

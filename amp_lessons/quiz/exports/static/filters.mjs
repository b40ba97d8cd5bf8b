// Which questions are meant: words, lesson, kind, level, and how they were answered.

import { h, uniqueId } from "./dom.mjs";
import { isDue, standings } from "./boxes.mjs";

const STATES = {
  all: ["All", () => true],
  new: ["New", (standing) => !standing],
  missed: ["Missed last time", (standing) => Boolean(standing?.missed)],
  due: ["Due today", (standing, now) => isDue(standing, now)],
};

export function filterForm(bank, answers, changed) {
  const openIds = openIdsOf(bank);
  const texts = new Map(); // by id, made when somebody searches
  const searchId = uniqueId("search");
  const search = h("input", {
    id: searchId,
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    oninput: changed,
  });
  const lesson = field(
    "Lesson",
    [["", "All lessons"], ...bank.lessons.map(({ name }, place) => [String(place), name])],
    changed,
  );
  const kind = field("Kind", [["", "All kinds"], ...bank.kinds], changed);
  const level = field(
    "Level",
    [["", "All levels"], ...bank.levels.map(([number, name]) => [String(number), name])],
    changed,
  );
  const state = field(
    "Answers",
    Object.entries(STATES).map(([key, [name]]) => [key, name]),
    changed,
  );
  const searchField = h(
    "div",
    { class: "amp-field amp-search" },
    h("label", { for: searchId }, "Search"),
    search,
  );
  const fields = [lesson, kind, level, state].map(({ node }) => node);
  const form = h(
    "form",
    { class: "amp-filters", role: "search", "aria-label": "Questions" },
    searchField,
    ...fields,
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  const summary = h("summary", {}, "Search and filter");
  const node = h("details", { class: "amp-filter-box", open: true }, summary, form);

  function textOf(question) {
    if (!texts.has(question.id)) texts.set(question.id, readable(question));
    return texts.get(question.id);
  }

  // The questions that fit all that is asked for, except how they were answered.
  function wanted() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const topics = lesson.value() && bank.lessons[Number(lesson.value())].topics;
    return bank.questions.filter(
      (question) =>
        (!topics || topics.includes(question.topic)) &&
        (!kind.value() || question.kind === kind.value()) &&
        (!level.value() || String(question.level) === level.value()) &&
        words.every((word) => textOf(question).includes(word)),
    );
  }

  function chosen() {
    const found = standings(answers.all(), openIds);
    const now = Date.now();
    const fits = STATES[state.value()][1];
    summary.textContent = inWords();
    return wanted().filter(({ id }) => fits(found.get(id), now));
  }

  // What is set, for when the form is folded away.
  function inWords() {
    const set = [lesson, kind, level, state]
      .filter((each) => each.isSet())
      .map((each) => each.text());
    if (search.value.trim()) set.unshift(`“${search.value.trim()}”`);
    return set.length ? `Search and filter: ${set.join(" · ")}` : "Search and filter";
  }

  return { node, chosen };
}

export function openIdsOf({ questions }) {
  return new Set(questions.filter(({ form }) => form === "open").map(({ id }) => id));
}

function field(label, options, changed) {
  const id = uniqueId("filter");
  const list = options.map(([value, text]) => h("option", { value }, text));
  const select = h("select", { id, onchange: changed }, ...list);
  const node = h("div", { class: "amp-field" }, h("label", { for: id }, label), select);
  return {
    node,
    value: () => select.value,
    isSet: () => select.selectedIndex > 0,
    text: () => select.selectedOptions[0].textContent,
  };
}

// All that is written in a question and its answer, in small letters and without markup.
function readable(question) {
  const page = document.createElement("template");
  const found = [];
  (function collect(value) {
    if (typeof value === "string") found.push(value);
    else if (value && typeof value === "object") Object.values(value).forEach(collect);
  })(question);
  page.innerHTML = found.join(" \n");
  return page.content.textContent.toLowerCase();
}

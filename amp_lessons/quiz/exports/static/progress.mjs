// What was answered, lesson by lesson, and the file that takes it to another machine.

import { parseLines, toLines } from "./answers.mjs";
import { isDue, standings } from "./boxes.mjs";
import { h } from "./dom.mjs";
import { openIdsOf } from "./filters.mjs";

const FILE = "amp-lessons-answers.jsonl";
const WHERE_KEPT =
  "Your answers stay in this browser. To count them in the terminal too, export them and run " +
  "amp-lessons drill --merge with the file.";
const NOT_KEPT =
  "This browser does not let the page keep anything: export your answers before you close it.";

export function progressView(bank, answers, changed) {
  const openIds = openIdsOf(bank);
  const where = h("p", { class: "amp-note" });
  const told = h("p", { class: "amp-told", "aria-live": "polite" });
  const place = h("div", {
    class: "amp-scroll-x",
    tabindex: "0",
    role: "region",
    "aria-label": "Progress by lesson",
  });
  const input = h("input", {
    type: "file",
    accept: ".jsonl,.json,.txt",
    class: "amp-hidden",
    tabindex: "-1",
    "aria-label": "File with answers",
    onchange: bringIn,
  });
  const exporting = h("button", { type: "button", onclick: takeOut }, "Export answers");
  const importing = h("button", { type: "button", onclick: () => input.click() }, "Import answers");
  const forgetting = h("button", { type: "button", onclick: forget }, "Forget all");
  const node = h(
    "div",
    { class: "amp-progress" },
    h("h2", {}, "Progress"),
    place,
    h("div", { class: "amp-actions" }, exporting, importing, forgetting, input),
    told,
    where,
  );
  let sure = false;

  function draw() {
    place.replaceChildren(tableOf(bank, standings(answers.all(), openIds)));
    where.textContent = answers.failed() ? NOT_KEPT : WHERE_KEPT;
    const none = !answers.all().length;
    exporting.disabled = forgetting.disabled = none;
    sure = false;
    forgetting.textContent = "Forget all";
  }

  function takeOut() {
    const blob = new Blob([toLines(answers.all())], { type: "application/jsonl" });
    const link = h("a", { href: URL.createObjectURL(blob), download: FILE });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    told.textContent = `Exported ${answersInWords(answers.all().length)} as ${FILE}.`;
  }

  async function bringIn() {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    const { entries, broken } = parseLines(await file.text());
    const added = answers.add(entries);
    const left = broken ? ` ${broken} of its lines could not be read.` : "";
    const known = entries.length - added;
    changed();
    told.textContent = entries.length
      ? `${answersInWords(added)} imported from ${file.name}, ${known} were here before.${left}`
      : `${file.name} holds no answers: take a file that this page or amp-lessons wrote.`;
  }

  function forget() {
    if (!sure) {
      sure = true;
      forgetting.textContent = "Press again to forget all";
      return;
    }
    const count = answers.all().length;
    answers.forget();
    changed();
    told.textContent = `Forgot ${answersInWords(count)}.`;
  }

  return { node, draw };
}

function answersInWords(count) {
  return count === 1 ? "1 answer" : `${count} answers`;
}

function tableOf(bank, found) {
  const now = Date.now();
  const heads = ["Lesson", "Questions", "Answered", "Right", "Due"];
  const rows = bank.lessons.map(({ name, topics }) => {
    const ids = bank.questions.filter(({ topic }) => topics.includes(topic)).map(({ id }) => id);
    return [name, ...countsOf(ids, found, now)];
  });
  const total = [
    "All",
    ...countsOf(
      bank.questions.map(({ id }) => id),
      found,
      now,
    ),
  ];
  const cells = (row) => [
    h("th", { scope: "row" }, row[0]),
    ...row.slice(1).map((value) => h("td", {}, String(value))),
  ];
  return h(
    "table",
    { class: "amp-table" },
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...[...rows, total].map((row) => h("tr", {}, ...cells(row)))),
  );
}

function countsOf(ids, found, now) {
  const answered = ids.filter((id) => found.has(id));
  const right = answered.filter((id) => !found.get(id).missed);
  const due = answered.filter((id) => isDue(found.get(id), now));
  return [ids.length, answered.length, right.length, due.length];
}

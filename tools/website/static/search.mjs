// The search: sections that have every word, those with the words in their title first.

import { h } from "./dom.mjs";

const MOST = 40;
const KINDS = { deep: "deep notebook", front: "page", errors: "error", reference: "page", quiz: "page" };
const wanted = new URLSearchParams(location.search).get("q") ?? "";
document.getElementById("wanted").value = wanted;
const told = document.getElementById("told");
const words = wanted.toLowerCase().match(/[a-z0-9_]+/g) ?? [];
if (words.length) {
  told.textContent = "Searching …";
  const { pages, sections } = await fetch("data/search.json").then((answer) => answer.json());
  const hits = sections
    .map((section, place) => ({ section, place, score: scoreOf(section, pages) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.place - b.place);
  const count = hits.length === 1 ? "1 section" : `${hits.length} sections`;
  const cut = hits.length > MOST ? ` The first ${MOST} are shown.` : "";
  told.textContent = hits.length ? `${count} found.${cut}` : "Nothing found. Try fewer or other words.";
  document.getElementById("hits").replaceChildren(...hits.slice(0, MOST).map(({ section }) => hit(section, pages)));
}

function scoreOf([page, , title, beginning, rest], pages) {
  let score = 0;
  for (const word of words) {
    const beginsWord = new RegExp(`(^|[^a-z0-9_])${word}`);
    const one =
      (beginsWord.test(title.toLowerCase()) ? 8 : 0) +
      (beginsWord.test(pages[page][1].toLowerCase()) ? 2 : 0) +
      (beginsWord.test(beginning.toLowerCase()) ? 2 : 0) +
      (beginsWord.test(rest) ? 1 : 0);
    if (!one) return 0;
    score += one;
  }
  return score + (title.toLowerCase() === words.join(" ") ? 10 : 0);
}

function hit([page, anchor, title, beginning], pages) {
  const [path, name, kind] = pages[page];
  const address = anchor ? `${path}#${encodeURIComponent(anchor)}` : path;
  const where = name === title ? "" : ` · ${name}`;
  return h("li", {}, h("a", { href: address }, title), h("small", {}, ` ${KINDS[kind] ?? kind}${where}`), h("p", {}, beginning));
}

// What the box to look an error up is told, as `ErrorLookup` in Python tells it.

import { searcher } from "./error_search.mjs";

const NOTHING = "Nothing here matches this text.";
const HINT = "Ctrl+Enter looks it up, too. The text doesn't leave this page.";

export function answering(data) {
  const search = searcher(data);
  const { examples, ends } = data;
  return {
    first: { examples, ends, hint: HINT },
    python: async ({ text, length, asked }) => ({ number: asked, ...answerTo(search, text, length, ends) }),
  };
}

export function answerTo(search, text, length, ends) {
  let found;
  try {
    found = search(text);
  } catch (fault) {
    const told = `${fault.message[0].toUpperCase()}${fault.message.slice(1)}.`;
    return { status: told, html: "", found: [], sure: false };
  }
  const sure = found.filter(({ confident }) => confident);
  return {
    status: sure.length ? `Found: ${sure[0].entry.title}` : NOTHING,
    html: asHtml(sure, found, whatWasRead(length, ends)),
    found: (sure.length ? sure : found).map(({ entry }) => entry.id),
    sure: sure.length > 0,
  };
}

function whatWasRead(total, [head, tail]) {
  if (total <= head + tail) return "";
  const number = (value) => value.toLocaleString("en");
  return `The text has ${number(total)} characters: the first ${number(head)} and the last ${number(tail)} were read.`;
}

function asHtml([best, ...others], found, note) {
  const parts = note ? [`<p class="amp-note">${note}</p>`] : [];
  const rest = best ? others : found;
  if (best) parts.push(details(best));
  if (rest.length) parts.push(`<p class="amp-heading">${best ? "It may also be one of these" : "The nearest entries"}</p>`);
  for (const each of rest) {
    parts.push(`<details><summary>${escaped(each.entry.title)}</summary>${details(each)}</details>`);
  }
  return parts.join("");
}

function details({ entry, why }) {
  const rows = [...entry.rows, ["Found by", escaped(why)]];
  const terms = rows.map(([name, text]) => `<div><dt>${name}</dt><dd>${text}</dd></div>`);
  return `<dl class="amp-answer">${terms.join("")}</dl>`;
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

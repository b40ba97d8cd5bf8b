// `amp_lessons.amp.errors.search` in JavaScript: which entries fit a pasted text, and how surely. A
// test holds it against Python on the example of every entry and on errors that people have pasted.

import { isWarning, read } from "./error_text.mjs";
import { indexOf, vocabulary } from "./error_words.mjs";

const [LAST, EARLIER, ELSEWHERE] = [300, 200, 100];
const MOST_SPECIFIC = 60;
const SPECIAL = 30;
const LONGEST_WHY = 90;
const OFTEN = { "very common": 3, common: 1.5, rare: 0 };
const MOST_MESSAGES = 30;
const [WINDOW, OVERLAP] = [4000, 500];
const MOST_WORDS = 40;
const FOR_SYMPTOMS = 1.3;
const NEARLY_AS_GOOD = 0.7;
const LEAST_SHARE = 0.6;
const NAMED_DTYPE = /(?:BFloat16|Half|Float|Double|float16|float32|float64|bfloat16)/i;

// `search(text, limit)` gives matches `{ entry, score, confident, why }`, the best one first.
export function searcher({ entries, words }) {
  const known = vocabulary(words);
  const compiled = new Map();
  let index = null;

  function regexes(entry, general) {
    const name = `${general} ${entry.id}`;
    if (!compiled.has(name)) {
      const patterns = general ? entry.general : entry.patterns;
      compiled.set(name, patterns.map((pattern) => new RegExp(pattern, "ig")));
    }
    return compiled.get(name);
  }

  function search(text, limit = 3) {
    const named = entries.find(({ id }) => id === text.trim().toLowerCase());
    if (named) return [{ entry: named, score: LAST, confident: true, why: "this is its name" }];
    const pasted = read(text);
    const found = byPatterns(pasted);
    if (!found.some(({ confident }) => confident)) found.push(...byWords(pasted));
    found.sort((a, b) => b.confident - a.confident || b.score - a.score);
    const best = new Map();
    for (const each of found) if (!best.has(each.entry.id)) best.set(each.entry.id, each);
    return [...best.values()].slice(0, limit);
  }

  // ---- patterns ----

  function byPatterns(pasted) {
    const passes = pasted.lines.some((line) => NAMED_DTYPE.test(line)) ? [false, true] : [false];
    for (const look of [inErrors, inTheRest]) {
      for (const general of passes) {
        const found = look(pasted, general);
        if (found.length) return found;
      }
    }
    return [];
  }

  function inErrors(pasted, general) {
    return different(pasted.errors).flatMap((message, place) => {
      const worth = place ? EARLIER - place : LAST;
      return matches(message, worth, true, place ? "an earlier error says" : "the error says", pasted, general);
    });
  }

  function inTheRest(pasted, general) {
    const confident = pasted.errors.length === 0;
    const warnings = different([...pasted.messages].reverse().filter(isWarning));
    const rest = warnings.map((each) => [each, EARLIER, "a warning says"]);
    for (const part of windows(pasted.lines)) rest.push([{ text: part, before: "" }, ELSEWHERE, "a line says"]);
    return rest.flatMap(([message, worth, why]) => matches(message, worth, confident, why, pasted, general));
  }

  function matches(message, worth, confident, why, pasted, general) {
    return entries.flatMap((entry) => {
      const [special, matched] = matchOf(regexes(entry, general), message);
      if (!matched) return [];
      const score = worth + special + ownWords(entry, pasted) + OFTEN[entry.seen];
      return [{ entry, score, confident, why: `${why}: ${short(matched)}` }];
    });
  }

  function ownWords(entry, pasted) {
    pasted.words ??= new Set(known.tokens(pasted.lines.join(" ")));
    const there = entry.words.filter((each) => {
      const own = known.tokens(each);
      return own.length > 0 && own.every((word) => pasted.words.has(word));
    });
    return 2 * Math.min(there.length, 3);
  }

  // ---- words ----

  function byWords(pasted) {
    const own = pasted.own.length ? pasted.own : pasted.lines;
    const said = pasted.errors.length ? [pasted.errors[0].text] : own;
    index ??= indexOf(entries.map(({ parts }) => parts), known);
    const words = index.query(said.join(" ").slice(0, WINDOW));
    const likely = index
      .compare(words)
      .map((like, place) => ({ entry: entries[place], like, score: favoured(entries[place], pasted) * like.score }))
      .filter(({ like }) => like.words.length)
      .sort((a, b) => b.score - a.score);
    const sure = likely.length > 0 && isSure(pasted, words, likely[0].like);
    return likely.map(({ entry, like, score }) => ({
      entry,
      score,
      confident: sure && score >= NEARLY_AS_GOOD * likely[0].score && isSure(pasted, words, like),
      why: `your words ${like.words.slice(0, 6).map((word) => words.get(word)).join(", ")}`,
    }));
  }

  function favoured({ kind }, { raised }) {
    return kind === "symptom" && !raised ? FOR_SYMPTOMS : 1;
  }

  function isSure({ raised, own }, words, like) {
    const aboutAmp = [...words.keys()].some((word) => known.topic.has(word));
    if (raised || !own.length || words.size > MOST_WORDS || !aboutAmp) return false;
    if (like.words.every((word) => known.subjects.has(word))) return false;
    return like.words.length >= 2 && like.share >= LEAST_SHARE;
  }

  return search;
}

function different(messages) {
  return [...new Map(messages.map((each) => [each.text, each])).values()].slice(0, MOST_MESSAGES);
}

function windows(lines) {
  const text = lines.join(" ");
  const found = [];
  for (let start = 0; start < text.length; start += WINDOW - OVERLAP) found.push(text.slice(start, start + WINDOW));
  return found;
}

// How special a match in a message is, and what it matches. One that begins in the frames above the
// message is more special than all others.
function matchOf(regexes, { text, before }) {
  let longest = "";
  for (const regex of regexes) {
    regex.lastIndex = 0;
    const found = regex.exec(text)?.[0] ?? "";
    if (found.length > longest.length) longest = found;
  }
  if (longest) return [(SPECIAL * Math.min(longest.length, MOST_SPECIFIC)) / MOST_SPECIFIC, longest];
  if (!before) return [0, ""];
  for (const regex of regexes) {
    for (const found of `${before} ${text}`.matchAll(regex)) {
      if (found.index + found[0].length > before.length + 1) return [2 * SPECIAL, text];
    }
  }
  return [0, ""];
}

function short(text) {
  return text.length <= LONGEST_WHY ? text : `${text.slice(0, LONGEST_WHY)}…`;
}

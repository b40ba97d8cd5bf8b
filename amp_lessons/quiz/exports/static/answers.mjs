// What was answered, kept in the browser: one line of JSON for each answer, as `quiz.log` writes
// them, so that `amp-lessons drill --merge FILE` reads what this page exports.

const STORED = "amp-lessons-answers";
const WHERE = ["quiz", "drill", "mock", "lesson", "page"];

export function entryOf(item, score, sure, seconds, at = new Date()) {
  return {
    v: 1,
    at: at.toISOString().replace("Z", "+00:00"),
    item,
    score: Math.round(score * 1e4) / 1e4,
    sure,
    where: "page",
    seconds: seconds === null ? null : Math.round(seconds * 10) / 10,
  };
}

// The entries of a text, each once, in the order of time, and how many lines are none.
export function parseLines(text) {
  const found = new Map();
  let broken = 0;
  for (const line of text.split(/\r?\n/)) {
    if (!line.trim()) continue;
    const entry = parsed(line);
    if (entry) found.set(identity(entry), entry);
    else broken += 1;
  }
  const entries = [...found.values()].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return { entries, broken };
}

function parsed(line) {
  let entry;
  try {
    entry = JSON.parse(line);
  } catch {
    return null;
  }
  return isEntry(entry) ? entry : null;
}

function isEntry(entry) {
  return (
    entry !== null &&
    typeof entry === "object" &&
    entry.v === 1 &&
    typeof entry.item === "string" &&
    typeof entry.sure === "boolean" &&
    WHERE.includes(entry.where) &&
    typeof entry.score === "number" &&
    entry.score >= 0 &&
    entry.score <= 1 &&
    isTime(entry.at) &&
    (entry.seconds === null || Number.isFinite(entry.seconds))
  );
}

function isTime(text) {
  const complete = /^2[01]\d\d-.*(Z|[+-]\d\d:\d\d)$/; // a time without its zone could be any
  return typeof text === "string" && complete.test(text) && !Number.isNaN(Date.parse(text));
}

// As Python tells two entries apart: the time they took does not count.
function identity({ at, item, score, sure, where }) {
  return JSON.stringify([Date.parse(at), item, score, sure, where]);
}

export function toLines(entries) {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
}

// A store of answers. `storage` is the browser's localStorage, or null if there is none.
//
// Another tab may write too, so each addition reads what is there now and puts both together.
export function openAnswers(storage) {
  let kept = [];
  let failed = storage === null;
  function load() {
    if (failed) return;
    try {
      kept = parseLines(storage.getItem(STORED) ?? "").entries;
    } catch {
      failed = true;
    }
  }
  function save() {
    if (failed) return;
    try {
      storage.setItem(STORED, toLines(kept));
    } catch {
      failed = true; // full, or not allowed: the answers live as long as the page
    }
  }
  load();
  return {
    all: () => kept,
    failed: () => failed,
    reload: load,
    // Gives how many of these were new.
    add(entries) {
      load();
      const before = kept.length;
      kept = parseLines(toLines([...kept, ...entries])).entries;
      save();
      return kept.length - before;
    },
    forget() {
      kept = [];
      save();
    },
  };
}

// When a question comes back. Each lies in a box: a right answer moves it one box on, where it
// waits longer, and a wrong one back into the first, from which it comes at once.
//
// All of this follows from the answers, so nothing but the answers is kept.

export const WAITS = [0, 1, 3, 7, 16, 35]; // days, by box
export const ENOUGH = 0.75; // of an open question's points
const DAY = 86_400_000;
const APART = 3; // questions between a miss and its return, where there are so many

// Where each answered question stands: `{ box, due, missed, at }` by its id, times in milliseconds.
// `openIds` are questions that one marks oneself, for which most of the points are enough.
export function standings(entries, openIds = new Set()) {
  const found = new Map();
  for (const entry of [...entries].sort((a, b) => Date.parse(a.at) - Date.parse(b.at))) {
    const known = entry.score >= (openIds.has(entry.item) ? ENOUGH : 1);
    found.set(entry.item, after(found.get(entry.item), known, entry.sure, Date.parse(entry.at)));
  }
  return found;
}

function after(before, known, sure, at) {
  if (!known) return { box: 0, due: at, missed: true, at };
  const box = before?.box ?? 0;
  const early = before && !before.missed && at < before.due;
  if (early) return { ...before, at }; // practice on the day itself is not a longer memory
  const next = sure ? Math.min(box + 1, WAITS.length - 1) : Math.max(box, 1);
  return { box: next, due: startOfDay(at) + WAITS[next] * DAY, missed: false, at };
}

// A question that waits a day comes on the next morning, not 24 hours later.
function startOfDay(time) {
  return new Date(time).setHours(0, 0, 0, 0);
}

export function isDue(standing, now) {
  return standing !== undefined && standing.due <= now;
}

// The question to ask: what was missed, then what is due, then what is new. After one that came
// back in this session comes one that did not, so that what is missed again and again does not keep
// the rest away. Null if nothing is left for today. `recent` are the ids that were asked in this
// session, the newest at the end.
export function nextId(ids, found, now, recent) {
  const last = recent.at(-1);
  const due = ids.filter((id) => isDue(found.get(id), now));
  const rank = (id) => (found.get(id).missed ? 0 : 1);
  due.sort((a, b) => rank(a) - rank(b) || found.get(a).due - found.get(b).due);
  const ready = due.filter((id) => !recent.slice(-APART).includes(id));
  const unanswered = ids.filter((id) => !found.has(id));
  const skipped = unanswered.filter((id) => recent.includes(id));
  const fresh = unanswered.filter((id) => !recent.includes(id));
  fresh.sort((a, b) => mixed(a) - mixed(b)); // topics take turns, in the same order each time
  const cameBack = recent.indexOf(last) < recent.length - 1;
  const other = cameBack ? [...ready.filter((id) => !recent.includes(id)), ...fresh] : [];
  const order = [
    ...other,
    ...ready,
    ...fresh,
    ...due.filter((id) => id !== last),
    ...skipped,
    ...due,
  ];
  return order[0] ?? null;
}

// A number that looks like chance, but is the same for the same text (FNV-1a).
function mixed(text) {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193) >>> 0;
  return hash;
}

// For somebody who wants to go on when nothing is due: the question that would come back first.
export function soonestId(ids, found, recent) {
  const waiting = ids.filter((id) => found.has(id) && id !== recent.at(-1));
  waiting.sort((a, b) => found.get(a).at - found.get(b).at);
  return waiting[0] ?? ids[0] ?? null;
}

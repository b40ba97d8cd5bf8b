// `amp_lessons.amp.errors.pasted` in JavaScript: a pasted text made readable, and its messages.

const MOST_LINES = 12;
const MOST_FRAMES = 40;
const MOST_BEFORE = 1500;
const WRAPPERS = new Set([
  "ChildFailedError",
  "CalledProcessError",
  "ProcessExitedException",
  "ProcessRaisedException",
  "RayTaskError",
  "BrokenPipeError",
  "KeyboardInterrupt",
  "SystemExit",
  "ZeroDivisionError",
]);
const TRACEBACK = "Traceback (most recent call last)";
const COLOURS =
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]|\[(?:\d{1,3};)*\d{1,3}m/g;
const ENTITIES = { lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: " ", amp: "&" };
const AROUND = new Set(" \t>|│┃║▏▌╭╮╰╯┌┐└┘├┤─━═❱");
const TYPEID = /\b(?:struct|class) (?=(?:c10|at)::)/g;

// Only what a program wrote begins with one of these. The level counts in capitals alone.
const LOG =
  /^(?:\[?\(?rank[ _:]?\d+\)?\]?:?|\[\d+(?:,\d+)?\](?:<\w+>)?:|\(\w+ pid=\d+[^)]*\)|[[(]?\d{4}[-/]\d\d?[-/]\d\d?[T ,]+\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])]?|[[(]?\d\d:\d\d:\d\d(?:[.,]\d+)?[\])]?)\s*/i;
const LEVEL = /^\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?(?=[\s:|-])\s*/;
const OTHER =
  /^(?:\[?(?:debug|info|warn|warning|error|critical|fatal)\]?(?=[\s:|-])|E(?=\s{3})|[\w.-]{1,40}\s+\|(?=\s)|[-:|](?=\s))\s*/i;

const NAMED =
  /(?<!except )(?<![\w.])(?:\w+\.)*(\w*(?:Error|Exception|Warning|KeyboardInterrupt|SystemExit))(?:: ?|$)(.*)/;
const ENDS = /^(?:Traceback|File "|During handling of|The above exception|Original Traceback|-{4,})/;

// `{ lines, messages, raised, own, errors }`, as Python's `Pasted`. Throws an Error whose message is
// one line if there is nothing to look up.
export function read(text) {
  if (!text.trim()) throw new Error("nothing to look up: paste an error, or describe what you see");
  const broken = text.split("\ufffd").length - 1;
  if (text.includes("\0") || broken > text.length / 10) {
    throw new Error("this is not text: paste the error as it was printed");
  }
  const bare = plain(text).split("\n").map(bareLine);
  const lines = bare.map(([line]) => line);
  if (!lines.some((line) => /[A-Za-z]{2}/.test(line))) {
    throw new Error("no English words in this text: PyTorch's messages are in English, so paste one of them");
  }
  const messages = messagesIn(lines);
  const errors = messages.filter((each) => !isWarning(each) && saysSomething(each)).reverse();
  return {
    lines: [...new Set(lines.filter(Boolean))],
    messages,
    errors,
    raised: messages.length > 0 || lines.some((line) => line.startsWith(TRACEBACK)),
    own: bare.filter(([line, logged]) => line && !logged).map(([line]) => line),
  };
}

export function isWarning({ name }) {
  return name.endsWith("Warning");
}

function saysSomething({ name, text }) {
  const rest = text.startsWith(name) ? text.slice(name.length) : text;
  return !WRAPPERS.has(name) && /[^ :.]/.test(rest);
}

function plain(text) {
  let found = text.replace(COLOURS, "");
  for (const [name, character] of Object.entries(ENTITIES)) found = found.replaceAll(`&${name};`, character);
  if (found.includes(`${TRACEBACK}:\\n`)) found = found.replaceAll("\\n", "\n").replaceAll('\\"', '"');
  found = found.replace(/\r\n?/g, "\n").normalize("NFKC");
  found = found.replace(/[“”„]/g, '"').replace(/[‘’`´]/g, "'").replace(TYPEID, "");
  return found.replace(/[^\n\P{C}]|(?! )\p{Z}/gu, " ");
}

function strip(line) {
  let [from, to] = [0, line.length];
  while (from < to && AROUND.has(line[from])) from += 1;
  while (to > from && AROUND.has(line[to - 1])) to -= 1;
  return line.slice(from, to);
}

function bareLine(whole) {
  let line = strip(whole);
  let logged = false;
  for (;;) {
    const byProgram = LOG.exec(line) ?? LEVEL.exec(line);
    const found = byProgram ?? OTHER.exec(line);
    if (!found) break;
    logged ||= byProgram !== null;
    line = strip(line.slice(found[0].length));
  }
  return [line.split(/\s+/).filter(Boolean).join(" "), logged];
}

function messagesIn(lines) {
  return lines.flatMap((line, place) => {
    const named = NAMED.exec(line);
    if (!named) return [];
    const parts = [`${named[1]}:`, named[2]];
    for (const following of lines.slice(place + 1, place + MOST_LINES)) {
      if (!following || ENDS.test(following) || NAMED.test(following)) break;
      parts.push(following);
    }
    const before = lines.slice(Math.max(place - MOST_FRAMES, 0), place).filter(Boolean).join(" ");
    return [{ name: named[1], text: parts.filter(Boolean).join(" "), before: before.slice(-MOST_BEFORE) }];
  });
}

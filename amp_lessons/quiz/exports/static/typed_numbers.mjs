// Reading the number that somebody typed, without Python: what `quiz.typed_numbers` reads, and the
// same words where it reads none. One table of cases in the tests holds the two together.

import { withUnit } from "./marking.mjs";

const LONGEST = 100;
const ABOUT = /^(?:about|around|roughly|approximately|approx\.?|~|≈)\s*/i;
const WHOLE = String.raw`[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+(?:_[0-9]+)*|(?=\.[0-9])`;
const PLAIN = String.raw`(?:${WHOLE})(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?`;
const NUMBER = new RegExp(`${PLAIN}|inf(?:inity)?(?![a-z])`, "iy");
const LITERAL = new RegExp(`^[+-]?(?:${NUMBER.source})$`, "i");
const SUFFIXES = { k: 1e3, K: 1e3, M: 1e6, G: 1e9 };
const SUFFIX = /%|[kKMG](?![a-zA-Z])/y;
const BARE_SUFFIX = /([kKMG])$/;
const PREFIXED = /^([KMGT])i?B$/;
const WORDS = /^[a-zµ][a-zµ/ ]*$/i;
const BYTES = { b: 1, byte: 1, bytes: 1 };
[..."kmgt"].forEach((prefix, n) => {
  BYTES[`${prefix}b`] = 1000 ** (n + 1);
  BYTES[`${prefix}ib`] = 1024 ** (n + 1);
});
const TIMES = { ns: 1, µs: 1e3, us: 1e3, ms: 1e6, s: 1e9, sec: 1e9, second: 1e9, seconds: 1e9 };

// Gives `{ value, readAs }`: the number in the question's unit, and what it was read as, such as
// "0.2*65536 = 13,107.2", or "" for a plain number. Throws an Error whose message is one line.
export function readTyped(text, unit = "") {
  const shown = text.trim();
  const plain = withThePrefix(inPlainSigns(shown).replace(ABOUT, ""), unit);
  const found = plain.length > LONGEST ? null : sumIn(plain, !isPercent(unit));
  if (!found || (found.rest && !WORDS.test(found.rest))) throw noNumber(shown, unit);
  if (unit && !isPercent(unit) && plain.endsWith("%")) {
    throw new Error(`this question doesn't want a percentage; ${advice(unit)}`);
  }
  const value = inUnit(found.value, found.rest, unit);
  if (Number.isNaN(value)) throw noNumber(shown, unit);
  const written = isPercent(unit) ? plain.replace(/%$/, "").trim() : found.read.trim();
  const asItIs = LITERAL.test(written) && (!found.rest || same(found.rest, unit));
  return { value, readAs: asItIs ? "" : `${plain} = ${withUnit(value, unit)}` };
}

// Examples of what can be typed.
function forms(unit) {
  if (isPercent(unit)) return "33, 33% or 100/3";
  if (unit) return `112 ${unit}, 0.2*65536, 1/3 or 2^-24`;
  return "13,107, 0.2*65536, 13k, 33% or 2^-24";
}

function advice(unit) {
  return unit ? `answer in ${unit}, such as ${forms(unit)}` : `write it such as ${forms(unit)}`;
}

function noNumber(shown, unit) {
  return new Error(`${quoted(shown)} is not a number; ${advice(unit)}`);
}

function inPlainSigns(text) {
  for (const [sign, plain] of Object.entries({ "−": "-", "×": "*", "·": "*", "÷": "/", μ: "µ" })) {
    text = text.replaceAll(sign, plain);
  }
  text = text.replace(/\s+/g, " ").replace(/\bper ?cent\b/gi, "%");
  return text.replace(/(?<=[0-9]) (?=[0-9]{3}(?![0-9]))/g, "");
}

// ---- units --------------------------------------------------------------------------------------

function isPercent(unit) {
  return unit === "%" || unit === "percent";
}

function withThePrefix(plain, unit) {
  const wanted = PREFIXED.exec(unit);
  const bare = BARE_SUFFIX.exec(plain);
  if (!wanted || !bare) return plain;
  if (bare[1].toUpperCase() !== wanted[1]) {
    throw new Error(`it isn't clear what ${quoted(bare[1])} counts here; ${advice(unit)}`);
  }
  return `${plain.slice(0, -1).trimEnd()} ${unit}`;
}

function inUnit(value, typed, wanted) {
  if (!typed || same(typed, wanted)) return value;
  for (const units of [BYTES, TIMES]) {
    const [there, here] = [units[typed.toLowerCase()], units[wanted.toLowerCase()]];
    if (there && here) return (value * there) / here;
  }
  throw new Error(`${quoted(typed)} is not a unit that this question takes; ${advice(wanted)}`);
}

function same(typed, wanted) {
  const [one, other] = [typed, wanted].map((unit) => unit.toLowerCase().replaceAll(" ", ""));
  return one === other || (one.length > 2 && `${one}s` === other);
}

// ---- the calculator -----------------------------------------------------------------------------

// The sum that a text begins with: `{ value, read, rest }`, or null where Python raises.
function sumIn(text, share) {
  let at = 0;
  try {
    const value = sum();
    return { value, read: text.slice(0, at), rest: text.slice(at).trim() };
  } catch {
    return null;
  }

  function take(pattern) {
    pattern.lastIndex = at + text.slice(at).search(/\S|$/);
    const [found] = pattern.exec(text) ?? [""];
    if (found) at = pattern.lastIndex;
    return found;
  }

  function sum() {
    let value = product();
    for (let sign = take(/[+-]/y); sign; sign = take(/[+-]/y)) {
      const other = product();
      value = sign === "+" ? value + other : value - other;
    }
    return value;
  }

  function product() {
    let value = signed();
    for (let sign = take(/\*(?!\*)|\//y); sign; sign = take(/\*(?!\*)|\//y)) {
      const other = signed();
      if (sign === "/" && other === 0) throw new RangeError();
      value = sign === "*" ? value * other : value / other;
    }
    return value;
  }

  function signed() {
    const sign = take(/[+-]/y);
    const value = power();
    return sign === "-" ? -value : value;
  }

  function power() {
    const base = atom();
    return take(/\^|\*\*/y) ? powerOf(base, signed()) : base;
  }

  function atom() {
    let value;
    if (take(/\(/y)) {
      value = sum();
      if (!take(/\)/y)) throw new RangeError();
    } else {
      value = numberIn(take(NUMBER));
    }
    for (let suffix = take(SUFFIX); suffix; suffix = take(SUFFIX)) {
      if (suffix !== "%") value *= SUFFIXES[suffix];
      else if (share) value /= 100;
    }
    return value;
  }
}

function numberIn(written) {
  if (!written) throw new RangeError();
  if (/^inf/i.test(written)) return Infinity;
  return Number(written.replaceAll(",", "").replaceAll("_", ""));
}

// A power, rounded once: Math.pow may be off in the last bit, and 10^-8 has to be 1e-8.
function powerOf(base, exponent) {
  const value = wholePower(base, exponent) ?? base ** exponent;
  if (!Number.isFinite(value)) throw new RangeError();
  return value;
}

// A power of whole numbers that is not too large, or null.
function wholePower(base, exponent) {
  const size = Math.abs(exponent);
  if (!Number.isInteger(base) || !Number.isInteger(exponent)) return null;
  if (base === 0 || size * Math.log2(Math.abs(base)) > 2000) return null;
  if (exponent < 0 && base === 10) return Number(`1e${exponent}`);
  const whole = Number(BigInt(base) ** BigInt(size));
  if (exponent >= 0) return whole;
  return Number.isFinite(whole) ? 1 / whole : null;
}

// As Python shows a text: in single quotes, or in double ones if it holds a single one.
function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
}

// Between a learner's text and a number: reading what was typed, and putting into words what
// rounding did to it.

import { decode, encode, nextDown, nextUp, ulp } from "./formats.mjs";

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const POWER_OF_TWO = /^([+-]?)2(?:\^|\*\*)([+-]?\d+)$/;
const PATTERN = /^0(x[0-9a-f]+|b[01]+)$/i;
const NAMED = { inf: Infinity, infinity: Infinity, "∞": Infinity, nan: NaN };

// Read 0.1, 1e-8, -0, inf, nan, 2^-14, or a bit pattern such as 0x3c00 or 0b0_01111_0000000000.
//
// Gives { value }, or { value, code } for a pattern. Throws an Error whose message is one line
// for the learner.
export function readNumber(format, text) {
  const plain = text.trim().replaceAll("−", "-").replace(/^\((.*)\)$/, "$1");
  if (plain === "") throw new Error("Type a number, such as 0.1, or its bits, such as 0x3c00.");
  const pattern = plain.replace(/[_ ]/g, "");
  if (PATTERN.test(pattern)) return readPattern(format, pattern);
  return { value: readValue(plain) };
}

function readPattern(format, text) {
  const code = Number(text);
  if (code >= 2 ** format.bits) {
    const { name, bits } = format;
    throw new Error(`${text} is not a bit pattern of ${name}, which has ${bits} bits.`);
  }
  return { value: decode(format, code), code };
}

function readValue(text) {
  const [, sign, name] = /^([+-]?)(.*)$/.exec(text.toLowerCase());
  if (name in NAMED) return sign === "-" ? -NAMED[name] : NAMED[name];
  const power = POWER_OF_TWO.exec(text);
  const value = power ? Number(`${power[1]}1`) * 2 ** Number(power[2]) : Number(text);
  if (!power && !DECIMAL.test(text)) {
    const comma = /^[+-]?\d+,\d+$/.test(text) ? " The decimal sign is a point." : "";
    throw new Error(`“${text}” is not a number.${comma} Try 0.1, 1e-8, inf, nan, 2^-14 or 0x3c00.`);
  }
  const vanished = value === 0 && (power || /[1-9]/.test(text.split(/e/i)[0]));
  if (vanished || !Number.isFinite(value)) {
    throw new Error(`${text} is outside float64, in which this page counts (5e-324 to 1.8e308).`);
  }
  return value;
}

// A Number as text that Python's float() and JavaScript's Number() both read back, −0 included.
export function toText(value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return Object.is(value, -0) ? "-0" : String(value);
}

export function fromText(text) {
  const word = /^([+-]?)(inf|nan)/i.exec(text);
  if (!word) return Number(text);
  return (word[1] === "-" ? -1 : 1) * NAMED[word[2].toLowerCase()];
}

// What rounding lost: the error, absolute and relative and in ulps, one phrase for it, and whether
// it is more than a rounding: an overflow, an underflow, or a clipped number.
// The errors are NaN where there is no number to compare with.
export function loss(format, value, code) {
  const stored = decode(format, code);
  const absolute = stored === value ? 0 : Math.abs(stored - value);
  return {
    stored,
    absolute,
    relative: absolute === 0 ? 0 : absolute / Math.abs(value),
    ulps: absolute === 0 ? 0 : absolute / ulp(format, stored),
    words: lossInWords(format, value, stored),
    bad: isLost(format, value, stored),
  };
}

function lossInWords(format, value, stored) {
  if (Number.isNaN(value)) return "NaN stays NaN";
  if (stored === value) return "exact: nothing was lost";
  if (Number.isNaN(stored)) return `overflowed to NaN: ${format.name} has no inf`;
  if (!Number.isFinite(stored)) return `overflowed to ${stored > 0 ? "inf" : "-inf"}`;
  if (stored === 0) return "rounded to zero: underflow";
  if (isClipped(format, value, stored)) return "clipped to the largest number: saturated";
  const direction = stored > value ? "up" : "down";
  if (isTie(format, value, stored)) return `rounded ${direction}: a tie goes to the even mantissa`;
  const subnormal = Math.abs(stored) < 2 ** format.minExponent;
  return `rounded ${direction}${subnormal ? ": a subnormal, with fewer bits to hold it" : ""}`;
}

function isLost(format, value, stored) {
  if (Number.isNaN(value) || stored === value) return false;
  return !Number.isFinite(stored) || stored === 0 || isClipped(format, value, stored);
}

function isClipped(format, value, stored) {
  const largest = decode(format, format.maxCode);
  return Math.abs(value) > largest && encode(format, value) !== encode(format, stored);
}

function isTie(format, value, stored) {
  const other = value > stored ? nextUp(format, stored) : nextDown(format, stored);
  return value - stored === other - value;
}

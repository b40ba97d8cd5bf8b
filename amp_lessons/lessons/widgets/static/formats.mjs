// Floating-point formats: what the bits mean, and what rounding to fewer of them does.
//
// This module depends on nothing, so that the bit explorer also lives on a page with no Python.
// It says the same as amp_lessons/amp/numbers/formats.py; tests/lessons/widgets/test_formats_js.py compares the two
// over every 8-bit and 16-bit pattern.
//
// A bit pattern ("code") is an unsigned integer of at most 32 bits, held in a Number. JavaScript's
// bit operators work on signed 32-bit integers, so patterns are taken apart by division instead.

// The formats of the course, from wide to narrow, as Python sends them. TF32 has 19 bits, though
// memory holds it in 32. E4M3 has no inf: its top exponent holds ordinary numbers, and only the
// pattern of all ones is NaN.
export const FORMATS = [
  { name: "FP32", exponent_bits: 8, mantissa_bits: 23, has_inf: true },
  { name: "TF32", exponent_bits: 8, mantissa_bits: 10, has_inf: true },
  { name: "FP16", exponent_bits: 5, mantissa_bits: 10, has_inf: true },
  { name: "BF16", exponent_bits: 8, mantissa_bits: 7, has_inf: true },
  { name: "FP8 E4M3", exponent_bits: 4, mantissa_bits: 3, has_inf: false },
  { name: "FP8 E5M2", exponent_bits: 5, mantissa_bits: 2, has_inf: true },
];

// Complete the facts that define a format with everything that follows from them. FP4 has neither inf
// nor NaN: every pattern is a number, and what overflows becomes the largest.
export function makeFormat({ name, exponent_bits, mantissa_bits, has_inf = true, has_nan = true }) {
  const bits = 1 + exponent_bits + mantissa_bits;
  if (bits > 32) throw new RangeError(`${name} has ${bits} bits: 32 at most have room here`);
  const exponentOnes = 2 ** exponent_bits - 1;
  const bias = 2 ** (exponent_bits - 1) - 1;
  const leadingOne = 2 ** mantissa_bits; // the 1 of 1.mmm, counted in steps of the last bit
  const signBit = 2 ** (bits - 1);
  const infCode = exponentOnes * leadingOne;
  return Object.freeze({
    name,
    exponentBits: exponent_bits,
    mantissaBits: mantissa_bits,
    hasInf: has_inf,
    hasNan: has_nan,
    bits,
    bias,
    minExponent: 1 - bias, // of the smallest normal number; subnormals share it
    exponentOnes,
    leadingOne,
    signBit,
    maxCode: has_inf ? infCode - 1 : signBit - (has_nan ? 2 : 1), // the largest finite number
    infCode,
    // What encode gives for a NaN: the quiet one, or -0 where there is none.
    nanCode: has_inf ? infCode + leadingOne / 2 : signBit - (has_nan ? 1 : 0),
  });
}

// ---- bits to numbers ---------------------------------------------------------------------------

// Split a pattern into its three fields, as unsigned integers, and say what they stand for.
export function fields(format, code) {
  if (!Number.isInteger(code) || code < 0 || code >= 2 ** format.bits) {
    const { name, bits } = format;
    throw new RangeError(`${code} is not a bit pattern of ${name}: it has ${bits} bits`);
  }
  const sign = code >= format.signBit ? 1 : 0;
  const magnitude = code % format.signBit;
  const exponent = Math.floor(magnitude / format.leadingOne);
  const mantissa = magnitude % format.leadingOne;
  return { sign, exponent, mantissa, kind: kindOf(format, exponent, mantissa) };
}

function kindOf(format, exponent, mantissa) {
  if (exponent === 0) return mantissa === 0 ? "zero" : "subnormal";
  if (exponent < format.exponentOnes) return "normal";
  if (format.hasInf) return mantissa === 0 ? "inf" : "nan";
  return format.hasNan && mantissa === format.leadingOne - 1 ? "nan" : "normal";
}

// The exact value of a pattern. Every number of every format here is exact in a Number (float64).
export function decode(format, code) {
  const { sign, exponent, mantissa, kind } = fields(format, code);
  if (kind === "nan") return NaN;
  const magnitude = kind === "inf" ? Infinity : finiteMagnitude(format, exponent, mantissa);
  return sign ? -magnitude : magnitude;
}

function finiteMagnitude(format, exponent, mantissa) {
  if (exponent === 0) return mantissa * 2 ** (format.minExponent - format.mantissaBits);
  return (format.leadingOne + mantissa) * 2 ** (exponent - format.bias - format.mantissaBits);
}

// ---- numbers to bits ---------------------------------------------------------------------------

// The pattern of the nearest number, ties to the even mantissa.
//
// What lies beyond the largest number becomes inf, or NaN where the format has no inf; with
// saturate, it becomes the largest number. Any NaN gives the quiet NaN with sign 0.
export function encode(format, value, { saturate = false } = {}) {
  const code = nearestCode(format, Math.abs(value));
  const beyond = code > format.maxCode && !saturate && format.hasNan;
  if (Number.isNaN(code) || (beyond && !format.hasInf)) return format.nanCode;
  const sign = value < 0 || Object.is(value, -0) ? format.signBit : 0;
  return sign + Math.min(code, beyond ? format.infCode : format.maxCode);
}

// Whether a number lies so far beyond the largest one that the nearest would be larger still.
export function overflows(format, value) {
  return nearestCode(format, Math.abs(value)) > format.maxCode;
}

// Patterns of positive numbers count upwards with the number: after 0.111 × 2^e comes 1.000 × 2^e,
// and after 1.111 × 2^e comes 1.000 × 2^(e+1). So the value, counted in steps of its last bit, and
// the steps of all the smaller exponents add up to the pattern, and a carry takes care of itself.
function nearestCode(format, magnitude) {
  if (magnitude === 0 || !Number.isFinite(magnitude)) return magnitude;
  const exponent = Math.max(exponentOf(magnitude), format.minExponent);
  const steps = magnitude / 2 ** (exponent - format.mantissaBits); // exact: a power of two
  return (exponent - format.minExponent) * format.leadingOne + roundHalfToEven(steps);
}

function roundHalfToEven(x) {
  const below = Math.floor(x);
  const rest = x - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return up ? below + 1 : below;
}

// The nearest number of the format. NaN stays NaN, also where the format cannot store it.
export function round(format, value, options) {
  if (Number.isNaN(value)) return NaN;
  return decode(format, encode(format, value, options));
}

// ---- the numbers around a number ---------------------------------------------------------------

// Distance between neighbouring numbers at `value`: what its last bit is worth.
export function ulp(format, value) {
  const nearest = Math.abs(round(format, value));
  if (!Number.isFinite(nearest)) return nearest;
  const exponent = nearest === 0 ? format.minExponent : exponentOf(nearest);
  return 2 ** (Math.max(exponent, format.minExponent) - format.mantissaBits);
}

// The smallest number that is larger than `value`. Above the largest comes inf, or NaN, or nothing:
// then it is given again.
export function nextUp(format, value) {
  if (Number.isNaN(value)) return NaN;
  const largest = decode(format, format.maxCode);
  if (value < -largest) return -largest;
  if (value >= largest && !format.hasNan) return largest;
  if (value >= largest) return format.hasInf ? Infinity : NaN;
  const nearest = round(format, value);
  if (nearest > value) return nearest;
  if (nearest === 0) return decode(format, 1);
  return decode(format, encode(format, nearest) + (nearest > 0 ? 1 : -1));
}

// The largest number that is smaller than `value`.
export function nextDown(format, value) {
  return -nextUp(format, -value);
}

// ---- digits ------------------------------------------------------------------------------------

// A float64 x is significand × 2^power. Its own bits say so, exactly.
function split(magnitude) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, magnitude);
  const bits = view.getBigUint64(0);
  const exponent = Number(bits >> 52n);
  const fraction = bits & (2n ** 52n - 1n);
  if (exponent === 0) return { significand: fraction, power: -1074 };
  return { significand: fraction + 2n ** 52n, power: exponent - 1075 };
}

// The binary exponent, floor(log2 x), of a positive Number. (Math.log2 itself rounds.)
export function exponentOf(magnitude) {
  const { significand, power } = split(magnitude);
  return power + significand.toString(2).length - 1;
}

// Every digit of a Number, with nothing rounded: exactDecimal(0.1) has 55 decimals.
export function exactDecimal(value) {
  if (Number.isNaN(value)) return "nan";
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  if (!Number.isFinite(value)) return `${sign}inf`;
  const { significand, power } = split(Math.abs(value));
  if (power >= 0) return sign + (significand << BigInt(power));
  // x / 2^n has the digits of x × 5^n, with the point n places from their end.
  const places = -power;
  const digits = String(significand * 5n ** BigInt(places)).padStart(places + 1, "0");
  const whole = digits.slice(0, -places);
  const fraction = digits.slice(-places).replace(/0+$/, "");
  return sign + (fraction ? `${whole}.${fraction}` : whole);
}

// As few digits as tell every number of the format from its neighbours, and five at least:
// 0.1 in FP16 is 0.099976.
export function inDigits(format, value) {
  if (value === 0 || !Number.isFinite(value)) return exactDecimal(value).replace("nan", "NaN");
  const enough = Math.ceil(1 + (format.mantissaBits + 1) * Math.log10(2));
  return String(Number(value.toPrecision(Math.max(enough, 5))));
}

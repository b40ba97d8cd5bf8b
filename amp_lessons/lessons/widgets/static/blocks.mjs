// Block-scaled formats: small elements, and a scale for each block of them.
//
// It says the same as amp_lessons/amp/numbers/blocks, to the bit; tests/lessons/widgets/test_blocks_js.py
// compares the two. Numbers are float32, so each step is rounded with Math.fround.

import { decode, exponentOf, makeFormat, overflows, round } from "./formats.mjs";

const E4M3 = makeFormat({ name: "E4M3", exponent_bits: 4, mantissa_bits: 3, has_inf: false });
const E2M1 = makeFormat({ name: "E2M1", exponent_bits: 2, mantissa_bits: 1, has_inf: false, has_nan: false });

// `block` is how many numbers share a scale. NVFP4 has no second scale here, as if it were 1; `close`
// is how far off rounding leaves a normal number at most, as a share of it.
export const BLOCK_FORMATS = [
  { name: "FP8", element: E4M3, block: Infinity, scale: "FP32", close: 0.06 },
  { name: "MXFP8", element: E4M3, block: 32, scale: "E8M0", close: 0.06 },
  { name: "MXFP4", element: E2M1, block: 32, scale: "E8M0", close: 0.2 },
  { name: "NVFP4", element: E2M1, block: 16, scale: "E4M3", close: 0.2 },
];

// How a block's largest magnitude becomes a power of two, by the names of ScaleRounding.
export const ROUNDINGS = {
  FLOOR: "2**(floor(log2(amax)) - emax)",
  CEIL: "2**(ceil(log2(amax)) - emax)",
  RCEIL: "2**ceil(log2(amax / max))",
  EVEN: "2**(floor(log2(round(amax))) - emax)",
};

const f32 = Math.fround;
const LARGEST = f32(3.4028234663852886e38);

// Each block of some numbers: where it starts, its scale, and for each number its `element`, what is
// `kept` of it, and whether it was `cut` off to the largest element.
export function quantize(numbers, format, rounding) {
  const blocks = [];
  for (let start = 0; start < numbers.length; start += format.block) {
    const block = numbers.slice(start, start + format.block);
    const { scale, scaled } = SCALES[format.scale](block, format.element, rounding);
    const stored = scaled.map((x) => {
      const element = Number.isNaN(x) && !format.element.hasNan ? 0 : round(format.element, x, { saturate: true });
      return { element, kept: f32(element * scale), cut: overflows(format.element, x) };
    });
    blocks.push({ start, scale, stored });
  }
  return blocks;
}

// The largest magnitude that a block's format rounds to zero.
export function zeroBelow({ element }, scale) {
  return (scale * decode(element, 1)) / 2;
}

const amaxOf = (block) => Math.max(...block.map(Math.abs));
const maxOf = (element) => decode(element, element.maxCode);
const times = (block, factor) => block.map((x) => f32(x * factor));

const SCALES = {
  FP32(block, element) {
    const amax = amaxOf(block);
    const up = amax === 0 ? 1 : Math.min(f32(maxOf(element) / amax), LARGEST);
    return { scale: f32(1 / up), scaled: times(block, up) };
  },
  E4M3(block, element) {
    const wanted = f32(amaxOf(block) * f32(1 / maxOf(element)));
    const scale = round(E4M3, Math.min(wanted, maxOf(E4M3)));
    return { scale, scaled: times(block, Math.min(f32(1 / scale), LARGEST)) };
  },
  E8M0(block, element, rounding) {
    const amax = amaxOf(block);
    const exponent = Math.min(Math.max(exponentOfScale(amax, element, rounding), -127), 127);
    const scale = Number.isNaN(amax) ? NaN : 2 ** exponent;
    return { scale, scaled: block.map((x) => f32(x / scale)) };
  },
};

function exponentOfScale(amax, element, rounding) {
  const max = maxOf(element);
  const emax = exponentOf(max);
  if (rounding === "FLOOR") return floorLog2(amax) - emax;
  if (rounding === "CEIL") return ceilLog2(amax) - emax;
  if (rounding === "RCEIL") return ceilLog2(f32(amax / max));
  return floorLog2(amax + 2 ** (floorLog2(amax) - element.mantissaBits - 1)) - emax; // EVEN
}

// Exactly. Zero gives -1000, and inf or NaN 128.
function floorLog2(x) {
  if (x === 0) return -1000;
  return Number.isFinite(x) ? exponentOf(x) : 128;
}

function ceilLog2(x) {
  const below = floorLog2(x);
  return Number.isFinite(x) && x > 2 ** below ? below + 1 : below;
}

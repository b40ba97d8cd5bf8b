// The roofline's arithmetic, as amp_lessons.amp.roofline has it.
//
// A GPU is { name, peaks: TFLOP/s by dtype, bandwidth: GB/s }; a size may be up to 2^17, so that
// FLOPs and bytes are whole numbers that float64 holds.

export const BYTES = { fp32: 4, tf32: 4, fp16: 2, bf16: 2 };
const ALIGNMENT = 16;

export function peak(gpu, dtype) {
  return gpu.peaks[dtype] * 1e12; // FLOP/s
}

function bytesPerSecond(gpu) {
  return gpu.bandwidth * 1e9;
}

// The intensity, in FLOP per byte, from which on the peak can be reached.
export function ridge(gpu, dtype) {
  return peak(gpu, dtype) / bytesPerSecond(gpu);
}

// The most FLOP/s that work of this intensity can reach.
export function roof(gpu, dtype, intensity) {
  return Math.min(peak(gpu, dtype), intensity * bytesPerSecond(gpu));
}

// A product (m, k) times (k, n): what it costs, and which bound it meets.
export function analyse(gpu, dtype, { m, n, k }) {
  const flops = 2 * m * n * k;
  const bytes = BYTES[dtype] * (m * k + k * n + m * n);
  const computing = flops / peak(gpu, dtype);
  const moving = bytes / bytesPerSecond(gpu);
  return {
    flops,
    bytes,
    intensity: flops / bytes,
    floor: Math.max(computing, moving), // seconds
    bound: computing >= moving ? "compute" : "bandwidth",
  };
}

// The least seconds for autocast's cast of FP32 elements: 4 bytes read and 2 written for each.
export function castFloor(gpu, elements) {
  return ((BYTES.fp32 + BYTES.fp16) * elements) / bytesPerSecond(gpu);
}

// What a time reached of the peak, 1 being all of it.
export function shareOfPeak(gpu, dtype, flops, seconds) {
  return flops / seconds / peak(gpu, dtype);
}

// Which of m, n and k are no multiples of 16 bytes.
export function unaligned(dtype, sizes) {
  if (dtype === "fp32") return [];
  return ["m", "n", "k"].filter((name) => sizes[name] % (ALIGNMENT / BYTES[dtype]));
}

// Bytes of a training step on CUDA, as amp_lessons.amp.memory.training.training_memory counts them on models of
// amp_lessons.amp.training.models: `linear_stack` with the mean squared error, and `GPT` with the
// cross-entropy. Python is the oracle in the tests.
//
// A precision is "fp32", "amp" (autocast, fp16 or bf16 alike) or "bf16" (parameters in bf16).

export const PARTS = ["parameters", "gradients", "optimizer", "data", "activations", "cast_cache"];
export const STATE_COPIES = { sgd: 0, momentum: 1, adam: 2 };
const VOCABULARY = 50257;
const CONTEXT = 1024;
export const HEAD_WIDTH = 64;

// Bytes by part, for { kind: "mlp" | "gpt", layers, width, batch, length, optimizer }.
export function trainingMemory(settings, precision) {
  const { parameters, cast, data, activations } = COUNTS[settings.kind](settings, precision);
  const states = parameters * (precision === "bf16" ? 2 : 4);
  return {
    parameters: states,
    gradients: states,
    optimizer: states * STATE_COPIES[settings.optimizer],
    data,
    activations,
    cast_cache: precision === "amp" ? 2 * cast : 0,
  };
}

export function totalOf(memory) {
  return PARTS.reduce((sum, part) => sum + memory[part], 0);
}

// The smallest batch from which on `precision` needs less than FP32; null if there is none.
// All that grows with the batch grows in proportion to it.
export function crossoverBatch(settings, precision) {
  const ahead = (batch) => {
    const sized = { ...settings, batch };
    return totalOf(trainingMemory(sized, precision)) - totalOf(trainingMemory(sized, "fp32"));
  };
  const [one, two] = [ahead(1), ahead(2)];
  if (one < 0) return 1;
  return two >= one ? null : Math.floor(one / (one - two)) + 2;
}

const COUNTS = { mlp: countMlp, gpt: countGpt };

// Saved: the input of each layer, and what the loss takes. The first input is the data itself,
// unless autocast has to cast it; the output is cast once more, for the loss in float32.
function countMlp({ layers, width, batch }, precision) {
  const parameters = layers * width * (width + 1);
  const values = batch * width;
  const number = precision === "bf16" ? 2 : 4;
  const activations = precision === "amp" ? values * (2 * (layers + 1) + 4) : values * layers * number;
  return { parameters, cast: parameters, data: 2 * values * number, activations: activations + number };
}

function countGpt({ layers, width, batch, length }, precision) {
  const linear = layers * (12 * width * width + 9 * width) + VOCABULARY * width;
  const parameters = linear + CONTEXT * width + layers * 4 * width + 2 * width;
  const low = precision === "fp32" ? 4 : 2; // what matrix multiplications take and give
  const stream = precision === "bf16" ? 2 : 4; // what the blocks add to, which layer norms take
  const tokens = batch * length;
  const norm = tokens * (width * stream + 8); // with a mean and a scale for each token
  // The efficient kernel, which float32 takes, pads its row sums to a multiple of 32.
  const rows = precision === "fp32" ? 32 * Math.ceil(length / 32) : length;
  // Both it and cuDNN's, which an H200 takes in 16 bit, keep a seed and an offset for dropout.
  const attention = batch * (width / HEAD_WIDTH) * rows * 4 + 16;
  const block = 2 * norm + attention + 14 * tokens * width * low;
  const logits = tokens * VOCABULARY * (2 * low + (precision === "amp" ? 4 : 0));
  const scalars = precision === "bf16" ? 4 : 8; // the loss and its weight
  const positions = 8 * length;
  const activations = layers * block + norm + tokens * width * low + logits + scalars + positions;
  return { parameters, cast: linear, data: 16 * tokens, activations };
}

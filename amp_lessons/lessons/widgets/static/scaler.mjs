// torch.amp.GradScaler's arithmetic, as amp_lessons.scaler.simulate_records has it.
//
// The scale is a float32. Its product with a factor is taken in float64, in which JavaScript
// counts, and rounded to float32 by Math.fround.

const LARGEST = (2 - 2 ** -23) * 2 ** 127;

// What is wrong with one setting, in one line for the learner; null if nothing is.
export function settingFault(name, value) {
  const shown = Number.isNaN(value) ? "nan" : String(value);
  const checks = {
    init_scale: [value > 0 && (value <= LARGEST || value === Infinity), "a positive float32"],
    growth_factor: [value > 1, "greater than 1"],
    backoff_factor: [value > 0 && value < 1, "between 0 and 1"],
    growth_interval: [
      Number.isInteger(value) && value >= 1 && value < 2 ** 63, // torch keeps it as an int64
      value < 2 ** 63 ? "a whole number, 1 or more" : "less than 2^63",
    ],
  };
  const [fine, wanted] = checks[name];
  return fine ? null : `${name} must be ${wanted}, got ${shown}`;
}

// The scaler before its first update.
export function initialState({ init_scale }) {
  return { scale: Math.fround(init_scale), cleanSteps: 0 };
}

// The scaler after one more update().
export function nextState({ scale, cleanSteps }, foundInf, settings) {
  if (foundInf) return { scale: Math.fround(scale * settings.backoff_factor), cleanSteps: 0 };
  if (cleanSteps + 1 < settings.growth_interval) return { scale, cleanSteps: cleanSteps + 1 };
  const grown = Math.fround(scale * settings.growth_factor);
  return { scale: Number.isFinite(grown) ? grown : scale, cleanSteps: 0 };
}

// The scaler after each update.
export function simulate(foundInf, settings) {
  let state = initialState(settings);
  return foundInf.map((overflow) => (state = nextState(state, overflow, settings)));
}

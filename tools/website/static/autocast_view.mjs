// What Python tells the autocast step-through, from recorded steps: `AutocastSteps` in JavaScript.
// Of a step that isn't committed only the op may be known, and of the next one its inputs.

const START = { device: "cuda", dtype: "float16", answers: [], place: 0 };
const OF_HIDDEN = ["number", "op", "kernel", "path", "code"];

export function answering(data) {
  let rules = `${START.device} ${START.dtype}`;
  return {
    first: { ...START, view: viewOf(data, START) },
    python: async (state) => {
      const now = `${state.device} ${state.dtype}`;
      const begins = rules !== now;
      rules = now;
      return answerTo(data, begins ? { ...state, answers: [], place: 0 } : state);
    },
  };
}

// The values that change with a state: other rules start again, and no place lies past the next step.
export function answerTo(data, state) {
  const { steps } = data.rules[`${state.device} ${state.dtype}`];
  const answers = state.answers.slice(0, steps.length);
  const place = Math.min(Math.max(state.place, 0), answers.length);
  return { answers, place, view: viewOf(data, { ...state, answers, place }) };
}

export function viewOf(data, { device, dtype, answers, place }) {
  const { options, steps } = data.rules[`${device} ${dtype}`];
  const shown = steps.map((step, i) =>
    i < answers.length ? revealed(step, answers[i]) : hidden(step, i === answers.length),
  );
  const words = shown.slice(0, answers.length).map(({ verdict }) => verdict);
  const count = (word) => words.filter((each) => each === word).length;
  const score = { right: count("right"), asked: words.length - count("shown"), shown: count("shown") };
  const about = { model: data.model, torch: data.torch, fault: "", options };
  return { device, dtype, answers, place, ...about, steps: shown, score };
}

function revealed(step, answer) {
  if (!answer.length) return { ...step, answer, verdict: "shown" };
  const right = answer[0] === step.runs_in && answer[1] === step.gives;
  return { ...step, answer, verdict: right ? "right" : "wrong" };
}

function hidden(step, asked) {
  const plain = Object.fromEntries(OF_HIDDEN.map((name) => [name, step[name]]));
  const operands = (asked ? step.operands : []).map(({ name, kind, made_by, dtype }) => ({ name, kind, made_by, dtype }));
  return { ...plain, operands, verdict: "" };
}

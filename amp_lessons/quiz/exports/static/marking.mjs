// Marking without Python: what `quiz.marking` says, word for word, for questions as `exports.page`
// writes them. The tests hold the two against each other.

// Mark an answer: places in the choices, a number, or places in the offered lines.
//
// Gives `{ right, score, remarks, source, key }`, with remarks as HTML, as `markup.feedback` does.
// Throws an Error whose message is one line, if it is no answer to this question.
export function mark(question, answer) {
  const marked = MARKED_BY[question.form](question, answer);
  return { ...marked, source: question.source, key: keyOf(question) };
}

const MARKED_BY = { one: markChoices, many: markChoices, number: markNumber, order: markOrder };

// The right answer in the form in which answers are given.
export function keyOf({ form, key }) {
  if (form === "number") return key.answer;
  return form === "order" ? Array.from({ length: key.count }, (_, place) => place) : key.right;
}

function markChoices({ form, choices, key }, answer) {
  const chosen = new Set(answer);
  if (![...chosen].every((place) => place in choices)) {
    throw new Error(`this question has ${choices.length} choices`);
  }
  if (form === "one" && chosen.size !== 1) {
    throw new Error("this question has one right choice: choose one");
  }
  const remarks = [];
  choices.forEach((text, place) => {
    const right = key.right.includes(place);
    const role = chosen.has(place) ? (right ? "right" : "wrong") : "missed";
    if (chosen.has(place) || right) {
      remarks.push(remark(role, text, key.why[place], "1234567890"[place]));
    }
  });
  if (key.explanation) remarks.push(remark("explanation", "", key.explanation));
  const found = key.right.filter((place) => chosen.has(place)).length;
  const extra = chosen.size - found;
  return {
    right: found === key.right.length && extra === 0,
    score: Math.max(0, (found - extra) / key.right.length),
    remarks,
  };
}

function markNumber({ unit, key }, value) {
  const right = accepts(key, value);
  const shown = (number) => escapeHtml(withUnit(number, unit));
  const truth = remark(right ? "right" : "missed", shown(key.answer), key.explanation);
  const remarks = right ? [truth] : [remark("wrong", shown(value), whyWrong(key, value)), truth];
  return { right, score: right ? 1 : 0, remarks };
}

function accepts({ answer, tolerance }, value) {
  return Math.abs(value - answer) <= tolerance * Math.abs(answer) * (1 + 1e-9);
}

// The mistake that leads to this number, or how far off it is.
function whyWrong({ answer, tolerance, mistakes }, value) {
  const off = ({ value: wrong }) => Math.abs(value - wrong);
  const nearest = mistakes.reduce(
    (best, each) => (best && off(best) <= off(each) ? best : each),
    null,
  );
  const reach = nearest ? Math.max(tolerance, 1e-3) * Math.abs(nearest.value) : 0;
  if (nearest && off(nearest) <= reach) return nearest.why;
  const said = (text) => `<p>${text}</p>`;
  if (answer && value && Number.isFinite(value)) {
    const factor = value / answer;
    if (factor < 0) return said("The sign is wrong.");
    if (factor >= 2 || factor <= 0.5) {
      const times = general(factor > 1 ? factor : 1 / factor, 3);
      return said(`That is ${times} times too ${factor > 1 ? "large" : "small"}.`);
    }
  }
  return said(tolerance ? "That is close, but too far off to count." : "Not this number.");
}

function markOrder({ key }, order) {
  const places = new Set(order);
  if (!order.length || places.size < order.length || !order.every((line) => line in key.offered)) {
    throw new Error("an order names some of the lines, each at most once");
  }
  const at = new Map(order.map((line, number) => [line, number]));
  const right = acceptsOrder(key, order, at);
  const remarks = [];
  key.distractors.forEach((why, number) => {
    const line = key.count + number;
    if (at.has(line)) remarks.push(remark("wrong", key.offered[line], why));
  });
  for (const { early, late, why } of key.slips) {
    const slipped = at.has(early) && at.has(late) && at.get(early) < at.get(late);
    if (slipped) remarks.push(remark("wrong", key.offered[early], why));
  }
  const leftOut = key.offered.findIndex((_, line) => line < key.count && !at.has(line));
  if (leftOut >= 0) {
    const why = "<p>This line belongs to it, and you left it out.</p>";
    remarks.push(remark("missed", key.offered[leftOut], why));
  }
  if (!right && !remarks.length) {
    const first = order.find((line, number) => line !== number);
    const why = "<p>This is the first line that is not where it has to be.</p>";
    remarks.push(remark("wrong", key.offered[first], why));
  }
  remarks.push(remark("explanation", "", key.explanation));
  return { right, score: right ? 1 : 0, remarks };
}

function acceptsOrder({ count, before }, order, at) {
  const whole = order.length === count && order.every((line) => line < count);
  return whole && before.every(([first, then]) => at.get(first) < at.get(then));
}

function remark(role, answer, text, name = "") {
  return { role, name, answer, text };
}

function escapeHtml(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

// ---- showing numbers ------------------------------------------------------------------------------------

// "112 GB"; numbers from 10,000 on get their commas.
export function withUnit(value, unit) {
  const whole = Number.isInteger(value) && Math.abs(value) < 1e15;
  let number = whole ? String(value) : general(value, 6);
  if (Math.abs(value) >= 10_000) number = number.replace(/^-?\d+/, withCommas);
  return `${number} ${unit}`.trim();
}

function withCommas(digits) {
  return digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

// A number with so many digits as Python's "g" writes it: no zeros at the end, 1e-08, half to even.
function general(value, digits) {
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [written, power] = rounded(value, digits).split("e");
  const exponent = Number(power);
  const plain = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${plain(written)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  return plain(Number(`${written}e${power}`).toFixed(digits - 1 - exponent));
}

// toExponential, but a tie goes to the even digit, and not up.
function rounded(value, digits) {
  const [exact, power] = value.toExponential(60).split("e");
  const cut = exact.startsWith("-") ? digits + 2 : digits + 1;
  const kept = digits === 1 ? exact.slice(0, cut - 1) : exact.slice(0, cut);
  const tie = /^\.?50*$/.test(exact.slice(kept.length));
  return tie && Number(kept.at(-1)) % 2 === 0
    ? `${kept}e${power}`
    : value.toExponential(digits - 1);
}

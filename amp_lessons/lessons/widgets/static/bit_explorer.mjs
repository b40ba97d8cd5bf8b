// The bit explorer: pick a format, toggle its bits, type a number, and read what is stored.
//
// `render` is what anywidget calls in a notebook; `mount` puts the same explorer on a page with no
// Python. The arithmetic is in formats.mjs, the reading of typed text in typed.mjs.
//
// The state is three values: the format, the value that was asked for (0.1) and the pattern that
// stores it (0x2e66). Toggling a bit asks for exactly what the bits say.

import {
  decode,
  encode,
  exactDecimal,
  exponentOf,
  fields,
  FORMATS,
  inDigits,
  makeFormat,
  nextDown,
  nextUp,
  ulp,
} from "./formats.mjs";
import { fromText, loss, readNumber, toText } from "./typed.mjs";
import {
  assemble,
  control,
  h,
  plainModel,
  powerOfTwo,
  selectField,
  uniqueId,
  withMinus,
} from "./dom.mjs";

// ---- state -------------------------------------------------------------------------------------

// Everything that is drawn, computed from what the model holds.
function readState(model) {
  const formats = model.get("formats").map(makeFormat);
  const format = formats.find(({ name }) => name === model.get("format")) ?? formats[0];
  const value = fromText(model.get("value"));
  const saturate = model.get("saturate");
  // The model's pattern counts where it is the value (it tells NaN from NaN); otherwise it is
  // left over from another format or value, and rounding the value says what is stored.
  const held = model.get("code");
  const fits = held < 2 ** format.bits && Object.is(decode(format, held), value);
  const code = fits ? held : encode(format, value, { saturate });
  return { formats, format, value, saturate, code, stored: decode(format, code) };
}

// What a learner can do. `set` stores several values of the model at once.
function makeActions(model, set) {
  const ask = (value, changes = {}) => {
    const { format, saturate } = { ...readState(model), ...changes };
    const code = encode(format, value, { saturate });
    const names = { format: format.name, saturate };
    set({ ...names, value: toText(value), code });
  };
  return {
    setValue: (value) => ask(value),
    setCode: (code) => set({ code, value: toText(decode(readState(model).format, code)) }),
    setSaturate: (saturate) => ask(readState(model).value, { saturate }),
    setFormat(name) {
      const { formats, value } = readState(model);
      ask(value, { format: formats.find((format) => format.name === name) });
    },
  };
}

// ---- the controls ------------------------------------------------------------------------------

function controls(actions, read) {
  const format = selectField("Format", [], actions.setFormat);
  const input = control("input", {
    id: uniqueId("value"),
    class: "amp-value",
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    onchange: commit,
    // JupyterLab keeps Enter from submitting a form and from ending a change, so it is heard here.
    onkeydown: (event) => event.key === "Enter" && commit(),
  });
  const examples = "such as 0.1, 1e-8, inf, 2^-14 or the bits 0x3c00";
  const hint = h("span", { id: uniqueId("hint"), class: "amp-note" }, examples);
  const error = h("p", { id: uniqueId("error"), class: "amp-error", role: "alert" });
  input.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
  const saturate = control("input", {
    type: "checkbox",
    onchange: () => actions.setSaturate(saturate.checked),
  });
  const facts = h("p", { class: "amp-note" });
  let drawn = null;

  function commit() {
    showError("");
    if (input.value === drawn) return; // Enter, and then leaving the field: once is enough
    try {
      const { value, code } = readNumber(read().format, input.value);
      if (code === undefined) actions.setValue(value);
      else actions.setCode(code);
    } catch (problem) {
      showError(problem.message); // the text stays, to be put right; the number stays as it was
    }
  }

  function showError(message) {
    error.textContent = message;
    if (message) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  const node = h(
    "div",
    { class: "amp-controls" },
    format.node,
    h("div", { class: "amp-field amp-grow" }, h("label", { for: input.id }, "Value"), input, hint),
    h("label", { class: "amp-check" }, saturate, "Clip at the largest number (saturate)"),
  );

  function draw(state) {
    const names = state.formats.map(({ name }) => name);
    if (format.select.length !== names.length) {
      format.select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    }
    format.select.value = state.format.name;
    saturate.checked = state.saturate;
    facts.textContent = formatFacts(state.format);
    if (drawn === toText(state.value)) return; // what is being typed stays
    drawn = toText(state.value);
    input.value = drawn;
    showError("");
  }

  return { nodes: [node, error, facts], draw };
}

function formatFacts(format) {
  const { name, bits, exponentBits, mantissaBits, bias, minExponent, maxCode, leadingOne } = format;
  const [largest, normal, smallest] = [maxCode, leadingOne, 1].map((code) =>
    inDigits(format, decode(format, code)),
  );
  return (
    `${name}: ${bits} bits = 1 sign + ${exponentBits} exponent + ${mantissaBits} mantissa. ` +
    `Bias ${bias}. Largest ${largest}, ` +
    `smallest normal ${normal} (${powerOfTwo(minExponent)}), smallest ${smallest}.`
  );
}

// ---- the bits ----------------------------------------------------------------------------------

// One button a bit. The row is a toolbar: Tab enters it, the arrow keys walk along it, and Space
// or Enter toggles, which buttons do by themselves.
function bitRow(actions, read) {
  let buttons = [];
  let readings = {};
  let drawnFormat = null;
  const listeners = { onkeydown: walk, onfocusin: remember };
  const node = h("div", { class: "amp-bits", role: "toolbar", ...listeners });

  function walk(event) {
    const here = buttons.indexOf(event.target);
    const last = buttons.length - 1;
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[event.key];
    if (here < 0 || to === undefined) return;
    event.preventDefault();
    buttons[Math.min(Math.max(to, 0), last)].focus();
  }

  // Tab comes back to the bit that was left: exactly one button is in the tab order.
  function remember(event) {
    for (const button of buttons) button.tabIndex = button === event.target ? 0 : -1;
  }

  function toggle(position) {
    const { code } = read();
    actions.setCode(code + (bitAt(code, position) ? -1 : 1) * 2 ** position);
  }

  function field(name, top, width) {
    const label = h("span", { id: uniqueId(name), class: "amp-label" }, name);
    const own = [];
    for (let place = width - 1; place >= 0; place--) {
      const position = top - (width - 1 - place);
      const onclick = () => toggle(position);
      const button = control("button", { type: "button", tabindex: "-1", onclick });
      own.push(Object.assign(button, { ampField: name, ampPlace: place, ampPosition: position }));
    }
    buttons.push(...own);
    readings[name] = h("span", { class: "amp-reading" });
    const bits = h("div", { class: "amp-cells" }, ...own);
    const attributes = { class: `amp-bitfield amp-${name}`, "aria-labelledby": label.id };
    return h("div", { role: "group", ...attributes }, label, bits, readings[name]);
  }

  function build(format) {
    buttons = [];
    readings = {};
    node.style.setProperty("--amp-bit-count", format.bits);
    node.classList.toggle("amp-dense", format.bits > 20);
    node.setAttribute("aria-label", `The ${format.bits} bits of ${format.name}`);
    node.replaceChildren(
      field("sign", format.bits - 1, 1),
      field("exponent", format.bits - 2, format.exponentBits),
      field("mantissa", format.mantissaBits - 1, format.mantissaBits),
    );
    buttons[0].tabIndex = 0;
    drawnFormat = format.name;
  }

  function draw({ format, code }) {
    if (drawnFormat !== format.name) build(format);
    for (const button of buttons) drawBit(button, bitAt(code, button.ampPosition));
    const { sign, exponent, mantissa } = fields(format, code);
    readings.sign.textContent = sign ? "−" : "+";
    readings.exponent.textContent = `stored ${exponent}`;
    readings.mantissa.textContent = `${mantissa} of ${format.leadingOne}`;
  }

  return { nodes: [node], draw };
}

function bitAt(code, position) {
  return Math.floor(code / 2 ** position) % 2;
}

function drawBit(button, bit) {
  const { ampField: field, ampPlace: place } = button;
  const which = field === "sign" ? "sign bit" : `${field} bit ${place}`;
  button.textContent = bit;
  button.setAttribute("aria-pressed", bit === 1);
  button.setAttribute("aria-label", `${which}, value ${bit}`);
}

// ---- what the bits say -------------------------------------------------------------------------

function formula() {
  const node = h("p", { class: "amp-formula" });
  function draw({ format, code }) {
    const { sign, exponent, mantissa, kind } = fields(format, code);
    if (kind === "inf" || kind === "nan") {
      node.replaceChildren(specialRule(format, kind, sign));
      return;
    }
    const power = kind === "normal" ? exponent - format.bias : format.minExponent;
    const digits = mantissa.toString(2).padStart(format.mantissaBits, "0");
    const leading = kind === "normal" ? 1 : 0;
    const spoken =
      `minus one to the ${sign}, times 2 to the ${power}, times binary ${leading}.${digits}`;
    node.replaceChildren(
      h(
        "span",
        { role: "math", "aria-label": spoken },
        part("sign", "(−1)", h("sup", {}, sign)),
        " × ",
        part("exponent", "2", h("sup", {}, withMinus(power))),
        " × ",
        part("mantissa", `${leading}.${digits}`),
        h("sub", {}, "2"),
      ),
    );
  }
  return { nodes: [node], draw };
}

function part(name, ...children) {
  return h("span", { class: `amp-part amp-${name}` }, ...children);
}

function specialRule(format, kind, sign) {
  if (kind === "inf") return `exponent all ones, mantissa zero: ${sign ? "−" : ""}inf`;
  if (format.hasInf) return "exponent all ones, mantissa not zero: NaN";
  return "exponent and mantissa all ones: NaN";
}

// A list of terms and their values; `draw` fills in the values.
function facts(title, terms, compute, verdict = []) {
  const values = terms.map(() => h("dd"));
  const rows = terms.map((term, i) => h("div", {}, h("dt", {}, term), values[i]));
  const heading = h("p", { id: uniqueId("facts"), class: "amp-heading" }, title);
  const attributes = { class: "amp-panel", role: "group", "aria-labelledby": heading.id };
  const node = h("div", attributes, heading, ...verdict, h("dl", {}, ...rows));
  const draw = (state) => compute(state).forEach((text, i) => (values[i].textContent = text));
  return { node, draw };
}

function numberFacts() {
  const terms = ["sign", "exponent", "mantissa", "kind", "ulp here", "bit pattern"];
  return facts("This number", terms, ({ format, code, stored }) => {
    const { sign, exponent, mantissa, kind } = fields(format, code);
    return [
      sign ? "1 (negative)" : "0 (positive)",
      exponentInWords(format, exponent, kind),
      mantissaInWords(format, mantissa, kind),
      kind === "nan" ? "NaN" : kind,
      powerText(ulp(format, stored)),
      hex(format, code),
    ];
  });
}

function exponentInWords(format, exponent, kind) {
  if (kind === "inf" || kind === "nan") return `stored ${exponent}: no exponent`;
  if (kind !== "normal") return `stored 0: counts as ${withMinus(format.minExponent)}`;
  return `stored ${exponent}, minus bias ${format.bias} = ${withMinus(exponent - format.bias)}`;
}

function mantissaInWords(format, mantissa, kind) {
  if (kind === "inf" || kind === "nan") return `stored ${mantissa}`;
  const leading = kind === "normal" ? 1 : 0;
  const value = leading + mantissa / format.leadingOne;
  const shown = brief(value, 12);
  const sign = Number(shown) === value ? "=" : "≈";
  return `${leading} + ${mantissa}/${format.leadingOne} ${sign} ${shown}`;
}

function powerText(value) {
  if (!Number.isFinite(value)) return "none";
  return `${powerOfTwo(exponentOf(value))} = ${brief(value)}`;
}

function hex({ bits }, code) {
  return `0x${code.toString(16).padStart(Math.ceil(bits / 4), "0")}`;
}

function lossFacts() {
  const words = h("p", { class: "amp-verdict" });
  const terms = ["asked for", "stored", "absolute error", "relative error"];
  const panel = facts("What rounding lost", terms, ({ format, value, code, stored }) => {
    const { absolute, relative, ulps, words: phrase, bad } = loss(format, value, code);
    words.textContent = phrase;
    words.dataset.bad = bad;
    return [
      display(value),
      display(stored),
      Number.isFinite(absolute) ? brief(absolute) + inUlps(ulps) : lossless(value, stored),
      Number.isFinite(relative) ? brief(relative) + inPercent(relative) : lossless(value, stored),
    ];
  }, [words]);
  return panel;
}

function display(value) {
  return toText(value).replace("nan", "NaN");
}

function lossless(value, stored) {
  return Number.isNaN(value) || Number.isNaN(stored) ? "none: not a number" : "infinite";
}

function inUlps(ulps) {
  return ulps === 0 ? "" : ` (${brief(ulps, 3)} ulp)`;
}

function inPercent(relative) {
  return relative === 0 ? "" : ` (${brief(relative * 100, 3)} %)`;
}

// Few digits, for numbers that are read and not copied.
function brief(value, digits = 4) {
  return String(Number(value.toPrecision(digits)));
}

// ---- the exact value and the neighbours --------------------------------------------------------

function exactValue() {
  const label = h("p", { id: uniqueId("exact"), class: "amp-heading" }, "Exact value");
  const digits = h("p", { class: "amp-exact", role: "group", "aria-labelledby": label.id });
  const draw = ({ stored }) => (digits.textContent = exactDecimal(stored).replace("nan", "NaN"));
  return { nodes: [label, digits], draw };
}

// The number between its neighbours. The gaps are drawn equal and named, since at a power of two
// the one below is half of the one above.
function neighbours(actions, read) {
  const step = (find) => () => {
    const { format, stored } = read();
    actions.setCode(encode(format, find(format, stored)));
  };
  const below = control("button", { type: "button", class: "amp-step", onclick: step(nextDown) });
  const above = control("button", { type: "button", class: "amp-step", onclick: step(nextUp) });
  const stored = h("span", { class: "amp-stored" });
  const gaps = [h("span", { class: "amp-gap" }), h("span", { class: "amp-gap" })];
  const asked = h("span", { class: "amp-asked" }, "asked for");
  const line = h("div", { class: "amp-line", "aria-hidden": "true" }, ...gaps, asked);
  const node = h("div", { class: "amp-neighbours" }, line, below, stored, above);

  function draw(state) {
    const { format, value } = state;
    const [low, high] = [nextDown(format, state.stored), nextUp(format, state.stored)];
    stored.replaceChildren(caption("stored"), inDigits(format, state.stored));
    label(below, "below", low, state);
    label(above, "above", high, state);
    gaps[0].textContent = gapText(state.stored - low);
    gaps[1].textContent = gapText(high - state.stored);
    const place = placeOnLine(value, low, state.stored, high);
    asked.hidden = place === null;
    asked.style.left = `${place * 100}%`;
  }

  function label(button, side, number, { format, stored: here }) {
    const none = Number.isNaN(here) || Object.is(number, here);
    const text = none ? "none" : inDigits(format, number);
    button.disabled = none;
    button.replaceChildren(caption(side === "below" ? "◀ below" : "above ▶"), text);
    button.setAttribute("aria-label", `Step to the neighbour ${side}, ${text}`);
  }

  const heading = h("p", { class: "amp-heading" }, "Neighbours");
  return { nodes: [heading, node], draw };
}

function caption(text) {
  return h("span", { class: "amp-caption" }, text);
}

function gapText(gap) {
  return Number.isFinite(gap) ? `gap ${brief(gap, 3)}` : "";
}

// Where the value that was asked for stands on the line, as a share of its width; null if it is
// not between the two neighbours.
function placeOnLine(value, low, stored, high) {
  if (value === stored) return 1 / 2;
  if (!(value > low && value < high)) return null;
  const toward = value < stored ? low : high;
  if (!Number.isFinite(toward) || !Number.isFinite(stored)) return null;
  const share = Math.abs(value - stored) / Math.abs(toward - stored);
  return 1 / 2 + (value < stored ? -1 : 1) * (share / 3);
}

// ---- putting it together -----------------------------------------------------------------------

// A change is said aloud, shortly, to who cannot see it.
function announcer() {
  const node = h("p", { class: "amp-hidden", role: "status", "aria-live": "polite" });
  let before = null;
  function draw({ format, value, code, stored }) {
    const { kind } = fields(format, code);
    const { words } = loss(format, value, code);
    const number = kind === "nan" ? "NaN" : `${inDigits(format, stored)}, ${kind}`;
    const now = `${format.name} ${hex(format, code)}: ${number}; ${words}`;
    if (before !== null && now !== before) node.textContent = now;
    before = now;
  }
  return { nodes: [node], draw };
}

function render({ model, el }) {
  const names = ["value", "format", "code", "formats", "saturate"];
  return assemble({ model, el, root: "amp-bit-explorer" }, "Bit explorer", names, readState, (set, read) => {
    const actions = makeActions(model, set);
    const [number, lost] = [numberFacts(), lossFacts()];
    const panels = {
      nodes: [h("div", { class: "amp-columns" }, number.node, lost.node)],
      draw: (state) => (number.draw(state), lost.draw(state)),
    };
    return [
      controls(actions, read),
      bitRow(actions, read),
      formula(),
      exactValue(),
      neighbours(actions, read),
      panels,
      announcer(),
    ];
  });
}

// The explorer on a page of its own. Options: value, format, formats, saturate.
export function mount(el, options = {}) {
  const { value = 0.1, format = "FP16", formats = FORMATS, saturate = false } = options;
  const model = plainModel({ value: toText(value), format, formats, saturate, code: 0 });
  render({ model, el });
  return model;
}

export default { render };

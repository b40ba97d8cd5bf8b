// The little that the widgets need to build a page: elements, unique ids, and a stand-in for the
// model that Jupyter gives to a widget.

const SVG = "http://www.w3.org/2000/svg";

// h("p", { class: "note" }, "text", child): an element with attributes, listeners and children.
// An attribute that is null, undefined or false is left out; `onclick: f` adds a listener.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for SVG, whose elements live in a namespace of their own.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// A notebook loads this module again for each widget on its page, so each copy needs its own name.
const COPY = crypto.getRandomValues(new Uint32Array(2)).join("-");
let made = 0;

// An id, or the name of a group of radio buttons, that nothing else on the page has.
export function uniqueId(name) {
  made += 1;
  return `amp-${name}-${COPY}-${made}`;
}

// The same for a button, an input or a select. While one has the focus, JupyterLab would take the
// arrow keys for its own and move to another cell: the attribute, on the element itself, says no.
export function control(tag, attributes, ...children) {
  return keepKeys(h(tag, attributes, ...children));
}

export function keepKeys(node) {
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

// The box around a widget. What the style sheet says of this widget alone stands below its `root`.
function frame(root, name, ...children) {
  return h("div", { class: `amp-widget ${root}`, role: "group", "aria-label": name }, ...children);
}

// A labelled <select>. `choose` gets the value that was chosen.
export function selectField(label, values, choose) {
  const id = uniqueId("select");
  const options = values.map((value) => h("option", { value }, value));
  const select = control("select", { id, onchange: () => choose(select.value) }, ...options);
  return { node: h("div", { class: "amp-field" }, h("label", { for: id }, label), select), select };
}

// A labelled slider with stops 0 to `last`. `choose` gets the stop while it moves. `shown` is for what
// it stands at, for the eye alone: the slider says it aloud, by its aria-valuetext.
export function rangeField(label, last, choose, ...below) {
  const slider = control("input", {
    id: uniqueId("range"),
    type: "range",
    min: 0,
    max: last,
    step: 1,
    oninput: () => choose(Number(slider.value)),
  });
  const shown = h("span", { class: "amp-scale", "aria-hidden": "true" });
  const heading = h("div", { class: "amp-split" }, h("label", { for: slider.id }, label), shown);
  return { node: h("div", { class: "amp-field amp-grow" }, heading, slider, ...below), slider, shown };
}

// What is wrong with the fields of a form, in one line below it.
export function faultLine() {
  const node = h("p", { class: "amp-error", role: "alert", id: uniqueId("error") });
  const faults = new Map(); // by field
  const tell = (label, fault) => {
    if (fault) faults.set(label, fault);
    else faults.delete(label);
    node.textContent = [...faults.values()].join(" ");
  };
  return { node, tell };
}

// A labelled text input, read when Enter is pressed or when it is left. `parse(text)` gives a value
// or throws an Error whose message is one line for the learner; `commit(value)` gets the value.
// `draw(text)` shows a value, but not over what the learner types or has typed wrong; `reset(text)`
// does it all the same.
export function textField(label, faults, parse, commit) {
  const id = uniqueId("setting");
  const input = control("input", {
    id,
    class: "amp-setting",
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": faults.node.id,
    onchange: take,
    onkeydown: (event) => event.key === "Enter" && take(),
  });
  function complain(fault) {
    faults.tell(label, fault);
    if (fault) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  function take() {
    let value;
    try {
      value = parse(input.value);
    } catch (fault) {
      return complain(fault.message);
    }
    complain(null);
    commit(value);
  }
  function draw(text) {
    const busy = input.hasAttribute("aria-invalid") || document.activeElement === input;
    if (!busy) input.value = text;
  }
  function reset(text) {
    complain(null);
    input.value = text;
  }
  const node = h("div", { class: "amp-field" }, h("label", { for: id }, label), input);
  return { node, draw, reset };
}

// The whole number that a learner typed, commas between thousands allowed; null if it is none.
export function wholeNumber(text) {
  const plain = text.trim();
  const digits = /^\d{1,3}(,\d{3})+$/.test(plain) ? plain.replaceAll(",", "") : plain;
  return digits !== "" && Number.isInteger(Number(digits)) ? Number(digits) : null;
}

// "−4" with a true minus sign, for text that is read and not copied.
export function withMinus(value) {
  return String(value).replaceAll("-", "−");
}

// "2^-24" as 2 with a raised exponent, for text where no element can stand, such as SVG.
export function powerOfTwo(exponent) {
  const raised = (character) => (character === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[character]);
  return "2" + [...String(exponent)].map(raised).join("");
}

// Call `listener` when one of these values of the model changes; gives back how to stop.
function listen(model, names, listener) {
  for (const name of names) model.on(`change:${name}`, listener);
  return () => names.forEach((name) => model.off(`change:${name}`, listener));
}

// A picture as wide as its box, drawn again when that changes. `paint(state, width)` gives what it
// says to who cannot see it, and its parts.
export function picture(height, leastWidth, paint) {
  const node = svg("svg", { class: "amp-picture", role: "img", height });
  let last = null;
  function draw(state) {
    last = state;
    const width = Math.max(node.parentElement?.clientWidth ?? 0, leastWidth);
    const { label, parts } = paint(state, width);
    node.setAttribute("width", width);
    node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    node.setAttribute("aria-label", label);
    node.replaceChildren(...parts);
  }
  const box = h("div", { class: "amp-picture-box" }, node);
  const watcher = new ResizeObserver(() => last && draw(last));
  watcher.observe(box);
  return { nodes: [box], draw, stop: () => watcher.disconnect() };
}

// One entry of a picture's legend: small marks in SVG, and a word.
export function legendKey(text, ...marks) {
  const size = { width: 16, height: 16, class: "amp-swatch", "aria-hidden": "true" };
  return h("span", { class: "amp-key" }, svg("svg", size, ...marks), text);
}

// A widget of pieces { nodes, draw(state), stop() }, of which only the nodes are a must. They are
// drawn when one of the values `names` changes. `makePieces(set, read)` gets `set`, which writes
// several values as one change (one message, one drawing), and `read`, the state of the moment.
// Gives back how to end it.
export function assemble({ model, el, root }, title, names, readState, makePieces) {
  let setting = false;
  const read = () => readState(model);
  const set = (values) => {
    setting = true;
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    setting = false;
    model.save_changes();
    redraw();
  };
  const pieces = makePieces(set, read);
  function redraw() {
    if (setting) return;
    const state = read();
    for (const piece of pieces) piece.draw?.(state);
  }
  el.append(frame(root, title, ...pieces.flatMap(({ nodes }) => nodes)));
  redraw();
  const stopListening = listen(model, names, redraw);
  return () => {
    stopListening();
    for (const piece of pieces) piece.stop?.();
  };
}

// What Jupyter's model is to a widget, for a page with no Python: values by name, and who listens.
export function plainModel(values) {
  const listeners = {};
  return {
    get: (name) => values[name],
    set(name, value) {
      if (Object.is(values[name], value)) return;
      values[name] = value;
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    save_changes() {},
    on(event, listener) {
      (listeners[event] ??= new Set()).add(listener);
    },
    off(event, listener) {
      listeners[event]?.delete(listener);
    },
  };
}

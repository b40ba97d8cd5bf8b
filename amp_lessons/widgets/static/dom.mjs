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

let made = 0;

// Ids must differ between two copies of a widget on one page: label, output and pattern use them.
export function uniqueId(name) {
  made += 1;
  return `amp-${name}-${made}`;
}

// The same for a button, an input or a select. While one has the focus, JupyterLab would take the
// arrow keys for its own and move to another cell: the attribute, on the element itself, says no.
export function control(tag, attributes, ...children) {
  return h(tag, { ...attributes, "data-lm-suppress-shortcuts": "true" }, ...children);
}

// The box around a widget.
export function frame(name, ...children) {
  return h("div", { class: "amp-widget", role: "group", "aria-label": name }, ...children);
}

// A labelled <select>. `choose` gets the value that was chosen.
export function selectField(label, values, choose) {
  const id = uniqueId("select");
  const options = values.map((value) => h("option", { value }, value));
  const select = control("select", { id, onchange: () => choose(select.value) }, ...options);
  return { node: h("div", { class: "amp-field" }, h("label", { for: id }, label), select), select };
}

// A labelled text input, committed by Enter or by leaving it. `complain` shows a fault or, with
// null, takes it back: `tell(label, fault)` writes it into the element with the id `errorId`.
export function textField(label, errorId, tell, commit) {
  const id = uniqueId("setting");
  const input = control("input", {
    id,
    class: "amp-setting",
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": errorId,
    onchange: commit,
    onkeydown: (event) => event.key === "Enter" && commit(),
  });
  const node = h("div", { class: "amp-field" }, h("label", { for: id }, label), input);
  const complain = (fault) => {
    tell(label, fault);
    if (fault) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  return { node, input, complain };
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
export function listen(model, names, listener) {
  for (const name of names) model.on(`change:${name}`, listener);
  return () => names.forEach((name) => model.off(`change:${name}`, listener));
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

// The whole loop before and after. `lines` holds { text, kind, why }: the kind is "same", "gone" or
// "new", and a line with a `why` can be opened. The button copies `program`.

import { assemble, control, h, plainModel, uniqueId } from "./dom.mjs";

const SIGNS = { same: " ", gone: "−", new: "+" };
const SPOKEN = { same: "", gone: "taken away: ", new: "added: " };
const HINT = "Choose a coloured line to see what it's for.";

function code({ text, kind }) {
  const sign = h("span", { class: "amp-wl-sign", "aria-hidden": "true" }, SIGNS[kind]);
  const spoken = h("span", { class: "amp-hidden" }, SPOKEN[kind]);
  return [sign, spoken, h("code", {}, text || " ")];
}

function listing(model, set) {
  const drawers = [];
  const rows = model.get("lines").map((line, place) => {
    if (!line.why) return h("li", { "data-kind": line.kind }, h("div", { class: "amp-wl-line" }, ...code(line)));
    const id = uniqueId("why");
    const toggle = () => {
      const opened = model.get("opened");
      set({ opened: opened.includes(place) ? opened.filter((each) => each !== place) : [...opened, place] });
    };
    const button = control(
      "button",
      { type: "button", class: "amp-wl-line", "aria-controls": id, onclick: toggle },
      ...code(line),
    );
    const why = h("p", { id, class: "amp-wl-why" }, line.why);
    drawers.push((opened) => {
      button.setAttribute("aria-expanded", String(opened.includes(place)));
      why.hidden = !opened.includes(place);
    });
    return h("li", { "data-kind": line.kind }, button, why);
  });
  const list = h("ul", { class: "amp-wl-listing", "aria-label": "the loop, line by line" }, ...rows);
  return { nodes: [list], draw: ({ opened }) => drawers.forEach((each) => each(opened)) };
}

function buttons(model, set) {
  const told = h("span", { class: "amp-note", role: "status" });
  const copying = async () => {
    told.textContent = (await copied(model.get("program")))
      ? "Copied, with its imports."
      : "The browser doesn't allow copying here. Select the text instead.";
  };
  const all = model.get("lines").flatMap(({ why }, place) => (why ? [place] : []));
  const allOpen = () => all.every((place) => model.get("opened").includes(place));
  const everyone = control("button", { type: "button", class: "amp-choice amp-quiet", onclick: () => set({ opened: allOpen() ? [] : all }) });
  const copy = control("button", { type: "button", class: "amp-choice", onclick: copying }, "Copy the new loop");
  const draw = () => (everyone.textContent = allOpen() ? "Hide the reasons" : "Show all reasons");
  return { nodes: [h("div", { class: "amp-wl-buttons" }, copy, everyone, told)], draw };
}

// Whether the text is on the clipboard now.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "amp-hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy"); // where a page isn't served securely
    area.remove();
    return done;
  }
}

function render({ model, el }) {
  const readState = () => ({ opened: model.get("opened") });
  const names = ["opened"];
  return assemble({ model, el, root: "amp-whole-loop" }, "The whole loop", names, readState, (set) => [
    { nodes: [h("p", { class: "amp-note" }, HINT)] },
    listing(model, set),
    buttons(model, set),
  ]);
}

export function mount(el, values) {
  const model = plainModel({ opened: [], ...values });
  render({ model, el });
  return model;
}

export default { render };

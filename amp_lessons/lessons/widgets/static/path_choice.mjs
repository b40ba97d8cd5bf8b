// The choice of a path: a group of radio buttons that look like cards.
//
// Python (amp_lessons.lessons.widgets.path_choice) keeps the choice. This module tells it which path
// was chosen, and follows `chosen`, which may also change elsewhere.

import { control, h, uniqueId } from "./dom.mjs";

function card(option, group, choose) {
  const radio = control("input", {
    type: "radio",
    name: group,
    value: option.key,
    onchange: () => radio.checked && choose(option.key),
  });
  const title = h("span", { class: "amp-title" }, option.title);
  const parts = [h("span", { class: "amp-row" }, radio, title)];
  for (const name of ["time", "goal"]) parts.push(h("span", { class: `amp-${name}` }, option[name]));
  return { node: h("label", { class: "amp-path" }, ...parts), radio };
}

function render({ model, el }) {
  const group = uniqueId("path");
  const choose = (key) => model.send({ choose: key });
  const cards = model.get("options").map((option) => card(option, group, choose));
  const problem = h("p", { class: "amp-problem", role: "alert" });
  const draw = () => {
    for (const { radio } of cards) radio.checked = radio.value === model.get("chosen");
    problem.textContent = model.get("problem");
  };
  const row = h("div", { class: "amp-paths", role: "radiogroup", "aria-label": "Path" }, ...cards.map(({ node }) => node));
  el.append(h("div", { class: "amp-home" }, row, problem));
  draw();
  const names = ["change:chosen", "change:problem"];
  for (const name of names) model.on(name, draw);
  return () => names.forEach((name) => model.off(name, draw));
}

export default { render };

// The policy table: another version, another dtype, some ops. The words are those of the page.

import { h, selectField, uniqueId } from "./dom.mjs";

const data = await fetch("data/policies.json").then((answer) => answer.json());
const versions = Object.keys(data.versions).reverse();
const SHOWS = ["all ops", "CUDA and CPU differ"];
const chosen = { version: versions[0], dtype: "float16", show: SHOWS[0], words: "" };
const body = document.querySelector("#policy-table tbody");
const told = document.getElementById("policy-told");

function choose(name) {
  return (value) => {
    chosen[name] = value;
    draw();
  };
}

const id = uniqueId("ops");
const search = h("input", { id, type: "search", oninput: () => choose("words")(search.value) });
document.getElementById("policy-controls").replaceChildren(
  h("div", { class: "amp-widget" }, h("div", { class: "amp-controls" },
    selectField("torch", versions, choose("version")).node,
    selectField("autocast dtype", ["float16", "bfloat16"], choose("dtype")).node,
    selectField("Show", SHOWS, choose("show")).node,
    h("div", { class: "amp-field" }, h("label", { for: id }, "Search an op"), search))),
);

function draw() {
  const words = chosen.words.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = data.versions[chosen.version][chosen.dtype].filter(
    ([op, cuda, cpu]) =>
      words.every((word) => op.toLowerCase().includes(word)) &&
      (chosen.show === SHOWS[0] || cuda?.[0] !== cpu?.[0]),
  );
  body.replaceChildren(...rows.map(rowOf));
  const count = rows.length === 1 ? "1 op" : `${rows.length} ops`;
  told.textContent = `torch ${chosen.version}, ${chosen.dtype}: ${count}`;
}

function rowOf([op, cuda, cpu]) {
  return h("tr", {}, h("th", { scope: "row" }, h("code", {}, op)), cellOf(cuda), cellOf(cpu));
}

function cellOf(cell) {
  if (!cell) return h("td", {}, "not in this torch");
  const [group, ...dtypes] = cell;
  if (!dtypes.some(Boolean)) return h("td", {}, data.groups[group]);
  return h("td", {}, `${data.groups[group]} `, h("small", {}, `(${dtypes.map((each) => each ?? "–").join(", ")})`));
}

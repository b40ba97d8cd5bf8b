// The page of questions that works offline: browse, drill, progress, print.

import { openAnswers } from "./answers.mjs";
import { h } from "./dom.mjs";
import { browseView } from "./browse.mjs";
import { drillView } from "./drill.mjs";
import { filterForm } from "./filters.mjs";
import { progressView } from "./progress.mjs";
import { printing } from "./printing.mjs";
import { themeSwitch } from "./theme.mjs";

const bank = JSON.parse(document.getElementById("data").textContent);
const answers = openAnswers(browserStorage());
const sheets = printing(document.getElementById("sheet"), bank, () => filters.chosen());
const filters = filterForm(bank, answers, draw);
const views = {
  Browse: browseView(bank, answers, sheets),
  Drill: drillView(bank, answers),
  Progress: progressView(bank, answers, draw),
};
let shown = "Browse";

const tabs = Object.keys(views).map((name) =>
  h("button", { type: "button", class: "amp-tab", onclick: () => go(name) }, name),
);
const inSite = document.querySelector("main") !== null; // whose page has a main part already
const main = h(inSite ? "div" : "main", { id: "main", tabindex: "-1" });

function go(name) {
  shown = name;
  filters.node.open = name === "Browse"; // in a drill, the question comes first
  draw();
  views[shown].focus?.();
}

function draw() {
  const view = views[shown];
  for (const tab of tabs) {
    if (tab.textContent === shown) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  filters.node.hidden = shown === "Progress";
  if (main.firstChild !== view.node) main.replaceChildren(view.node);
  view.draw(filters.chosen());
}

function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return null; // the browser allows this page none
  }
}

// Answers of another tab count here too.
window.addEventListener("storage", () => {
  answers.reload();
  if (shown === "Progress") draw();
});
document.addEventListener("keydown", (event) => views[shown].onKey?.(event));

document
  .getElementById("page")
  .replaceChildren(
    h(
      "header",
      { class: "amp-top" },
      h("h1", {}, "AMP interview questions"),
      themeSwitch(browserStorage()),
    ),
    h("nav", { class: "amp-tabs", "aria-label": "Views" }, ...tabs),
    filters.node,
    main,
  );
draw();

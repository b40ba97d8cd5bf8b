// What every page of the site does: the theme, boxes that scroll, and, where the page has them,
// widgets and questions. Without JavaScript a page is text with plain folds.

import { themeSwitch } from "./theme.mjs";

function storage() {
  try {
    return window.localStorage;
  } catch {
    return null; // the browser allows this page none
  }
}

document.getElementById("theme").replaceWith(themeSwitch(storage()));

// A box that scrolls has to be within reach of the keyboard.
function reachable() {
  for (const box of document.querySelectorAll(".page pre, .page .table")) {
    if (box.closest("[data-widget], [data-questions]")) continue;
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
}
reachable();
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true);

// On a narrow screen the table of contents stands above the text, so it begins closed.
if (matchMedia("(max-width: 1099px)").matches) document.querySelector(".contents")?.removeAttribute("open");

if (document.querySelector("[data-questions]")) {
  import("./questions.mjs").then(({ putIn }) => putIn(storage()));
}
if (document.querySelector("[data-widget]")) {
  import("./widgets.mjs").then(({ mountAll }) => mountAll());
}

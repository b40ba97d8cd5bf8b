// Light or dark: as the system prefers, until the switch says otherwise.

import { h } from "./dom.mjs";

const STORED_THEME = "amp-lessons-theme";

export function themeSwitch(storage) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = h("button", { type: "button", class: "amp-theme", onclick: flip });
  let chosen = read(storage);

  function isDark() {
    return chosen ? chosen === "dark" : system.matches;
  }
  function flip() {
    chosen = isDark() ? "light" : "dark";
    try {
      storage?.setItem(STORED_THEME, chosen);
    } catch {
      // full, or not allowed: the choice lives as long as the page
    }
    show();
  }
  function show() {
    if (chosen) document.documentElement.dataset.theme = chosen;
    button.textContent = isDark() ? "Light" : "Dark"; // what it changes to
  }
  system.addEventListener("change", show);
  show();
  return button;
}

function read(storage) {
  try {
    const found = storage?.getItem(STORED_THEME);
    return found === "dark" || found === "light" ? found : null;
  } catch {
    return null;
  }
}

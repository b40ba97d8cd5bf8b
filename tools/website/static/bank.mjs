// The page of questions inside the site. Its module reads the bank from the page, so the bank comes
// first.

const answer = await fetch("data/bank.json");
document.getElementById("data").textContent = await answer.text();
await import("./page.mjs");
if (location.hash === "#progress") {
  [...document.querySelectorAll(".amp-tab")].find((tab) => tab.textContent === "Progress")?.click();
}

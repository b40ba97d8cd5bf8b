// Ask every few seconds whether the room has changed, and change the page in place: what is open
// stays open, and what has the focus keeps it.
const SECONDS = 3;
const token = new URLSearchParams(location.search).get("token") ?? "";
const connection = document.getElementById("connection");
let revision = "";

function attributes(old, now) {
  for (const { name, value } of now.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (!now.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS"))
      old.removeAttribute(name);
}

// Make `old` what `now` is. Elements with an id are found again wherever they stand.
function sync(old, now) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  attributes(old, now);
  const wanted = new Set([...now.children].map(child => child.id).filter(Boolean));
  const known = new Map();
  for (const child of [...old.children]) {
    if (child.id && !wanted.has(child.id)) child.remove();
    else if (child.id) known.set(child.id, child);
  }
  let place = old.firstChild;
  for (const want of now.childNodes) {
    const same = place && place.nodeName === want.nodeName && (place.id ?? "") === (want.id ?? "");
    const found = same ? place : want.id ? known.get(want.id) : undefined;
    if (!found || found.nodeName !== want.nodeName) {
      old.insertBefore(want.cloneNode(true), place);
    } else {
      if (found === place) place = place.nextSibling;
      else old.insertBefore(found, place);
      sync(found, want);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

async function look() {
  try {
    const query = new URLSearchParams({ token, have: revision });
    const answer = await fetch(`state.json?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const state = await answer.json();
    if (state.html) {
      const page = new DOMParser().parseFromString(state.html, "text/html");
      sync(document.getElementById("room"), page.getElementById("room"));
    }
    revision = state.revision;
    if (connection.textContent) connection.textContent = "";
  } catch {
    const lost = "No answer from amp-lessons class: this is what it said last. Is it still running?";
    if (connection.textContent !== lost) connection.textContent = lost;
  }
  setTimeout(look, 1000 * SECONDS);
}

look();

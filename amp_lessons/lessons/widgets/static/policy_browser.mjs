// The policy browser: search an op, and read what autocast does to it on CUDA beside the CPU.
//
// This module filters and shows, and holds no facts. Everything comes from Python
// (amp_lessons.amp.policy) in `data`:
//
//   torch, devices, dtypes, groups, shows   the version that was asked, and what there is to choose
//   ops                                     the names, in the order of the list
//   policies                                by dtype, one for each op: `differs`, whether the two
//                                           devices treat it differently, and `of`, one for each
//                                           device: { device, low, full, mixed, double, group,
//                                           listed, inputs, measured, note }, a dtype or null
//                                           where there is no result

import { assemble, control, h, plainModel, selectField, uniqueId } from "./dom.mjs";

const DEVICE_NAMES = { cuda: "CUDA", cpu: "CPU" };
const ASKED = { measured: "measured here", "fake tensors": "asked on fake tensors, with no GPU" };
// A mark for each group, for the eye; its words always stand beside it.
const MARKS = {
  "lower precision": "▼",
  float32: "▲",
  widest: "◆",
  "as given": "=",
  refused: "✕",
  "not answerable": "?",
};
const MEANINGS = {
  "lower precision": "casts to the 16-bit dtype",
  float32: "computes in float32",
  widest: "casts to the widest input",
  "as given": "does nothing",
  refused: "raises an error",
  "not answerable": "cannot be asked here",
};

// ---- state -------------------------------------------------------------------------------------

function readState(model) {
  const data = model.get("data");
  const dtype = model.get("dtype");
  const policies = data.policies[dtype];
  const matches = matching(data, policies, model.get("search"), model.get("show"));
  const chosen = Math.max(data.ops.indexOf(model.get("op")), 0);
  return { data, dtype, policies, matches, chosen };
}

function matching(data, policies, search, show) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return data.ops.flatMap((op, i) => {
    const named = words.every((word) => op.toLowerCase().includes(word));
    return named && isShown(policies[i], show, data) ? [i] : [];
  });
}

// The op to show after a search: the one of this name, else the one that is shown if it still
// matches, else the first that does. Without a match, no op is shown.
function found(model, { search = model.get("search"), show = model.get("show") }) {
  const data = model.get("data");
  const matches = matching(data, data.policies[model.get("dtype")], search, show).map((i) => data.ops[i]);
  const [named] = matches.filter((op) => op.toLowerCase() === search.trim().toLowerCase());
  if (named) return named;
  return matches.includes(model.get("op")) ? model.get("op") : (matches[0] ?? model.get("op"));
}

function isShown(policy, show, { groups }) {
  if (groups.includes(show)) return policy.of.some(({ group }) => group === show);
  return show.startsWith("differs") ? policy.differs : true;
}

// ---- controls ----------------------------------------------------------------------------------

function controls(model, set, list) {
  const { dtypes, shows } = model.get("data");
  const find = (change) => set({ ...change, op: found(model, change) });
  const id = uniqueId("search");
  const search = control("input", {
    id,
    type: "text",
    class: "amp-value",
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "softmax, conv, loss …",
    oninput: () => find({ search: search.value }),
    onkeydown: (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        list.enter();
      } else if (event.key === "Escape" && search.value) {
        event.stopPropagation();
        set({ search: "" });
      }
    },
  });
  const field = h("div", { class: "amp-field amp-grow" }, h("label", { for: id }, "Search ops"), search);
  const dtype = selectField("16-bit dtype", dtypes, (value) => set({ dtype: value }));
  const show = selectField("Show", shows, (value) => find({ show: value }));
  const draw = () => {
    if (search.value !== model.get("search")) search.value = model.get("search");
    dtype.select.value = model.get("dtype");
    show.select.value = model.get("show");
  };
  return { nodes: [h("div", { class: "amp-controls" }, field, dtype.node, show.node)], draw };
}

// ---- the list ----------------------------------------------------------------------------------

// A listbox with one tab stop: the arrow keys choose, and the chosen op is read out.
function opList(model, set) {
  const { ops } = model.get("data");
  const devices = model.get("data").devices.map((device) => DEVICE_NAMES[device]);
  const rows = ops.map((op, i) => {
    const cells = devices.map(() => h("span", { class: "amp-policy-cell" }));
    const name = h("span", { class: "amp-op" }, op);
    const attributes = { role: "option", class: "amp-option", onclick: () => set({ op }) };
    const node = h("div", { id: uniqueId("op"), ...attributes }, name, ...cells);
    return { node, cells, i };
  });
  const box = control(
    "div",
    { role: "listbox", class: "amp-options", tabindex: 0, "aria-label": "Ops", onkeydown },
    ...rows.map(({ node }) => node),
  );
  const heads = ["op", ...devices].map((text) => h("span", {}, text));
  const head = h("div", { class: "amp-option amp-option-head", "aria-hidden": "true" }, ...heads);
  const count = h("p", { class: "amp-note" });
  const live = h("output", { class: "amp-hidden", "aria-live": "polite" });
  let state = null;
  let filled = null;

  function onkeydown(event) {
    const { matches, chosen } = state;
    if (!matches.length) return;
    const at = matches.indexOf(chosen);
    const page = 8;
    const last = matches.length - 1;
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at < 0 ? 0 : at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(matches[Math.min(Math.max(to, 0), last)]);
  }

  function choose(i) {
    set({ op: ops[i] });
    reveal(i);
  }

  // Scroll the list, and never the page, until the row is to be seen.
  function reveal(i) {
    const row = rows[i].node.getBoundingClientRect();
    const view = box.getBoundingClientRect();
    if (row.top < view.top) box.scrollTop -= view.top - row.top;
    else if (row.bottom > view.bottom) box.scrollTop += row.bottom - view.bottom;
  }

  function enter() {
    if (!state.matches.length) return;
    box.focus({ preventScroll: true });
    choose(state.matches.includes(state.chosen) ? state.chosen : state.matches[0]);
  }

  function fillRows({ policies }) {
    for (const { node, cells, i } of rows) {
      policies[i].of.forEach(({ group }, k) => cells[k].replaceChildren(...marked(group)));
      const said = policies[i].of.map(({ group }, k) => `${devices[k]} ${group}`);
      node.setAttribute("aria-label", [ops[i], ...said].join(", "));
    }
  }

  function draw(now) {
    const first = state === null;
    state = now;
    if (filled !== now.policies) fillRows(now);
    filled = now.policies;
    const shown = new Set(now.matches);
    for (const { node, i } of rows) {
      node.hidden = !shown.has(i);
      node.setAttribute("aria-selected", String(i === now.chosen));
    }
    if (shown.has(now.chosen)) {
      box.setAttribute("aria-activedescendant", rows[now.chosen].node.id);
      reveal(now.chosen);
    } else box.removeAttribute("aria-activedescendant");
    const text = `${now.matches.length} of ${ops.length} ops`;
    if (!first && count.textContent !== text) live.textContent = text;
    count.textContent = text;
  }
  const table = h("div", { class: "amp-list" }, head, box);
  return { nodes: [table, count, live], draw, enter };
}

function marked(group) {
  const mark = h("span", { class: "amp-mark", "data-group": group, "aria-hidden": "true" }, MARKS[group]);
  return [mark, h("span", {}, group)];
}

// ---- one op, side by side ----------------------------------------------------------------------

function details(model) {
  const title = h("p", { class: "amp-heading amp-op-title" });
  const verdict = h("p", { class: "amp-verdict" });
  const panels = h("div", { class: "amp-columns" });
  const source = h("p", { class: "amp-note" });
  const node = h("div", { class: "amp-details" }, title, verdict, panels);
  function draw({ data, dtype, policies, matches, chosen }) {
    node.hidden = !matches.length;
    const policy = policies[chosen];
    title.textContent = data.ops[chosen];
    verdict.textContent = verdictOf(policy);
    panels.replaceChildren(...policy.of.map((one) => panel(one, dtype)));
    source.textContent = `autocast in ${dtype}, as torch ${data.torch} itself answered.`;
  }
  return { nodes: [node, source], draw };
}

function verdictOf({ differs, of }) {
  if (of.some(({ group }) => group === "not answerable")) return "Only one device could be asked here.";
  return differs ? "CUDA and CPU treat it differently." : "The same group on CUDA and CPU.";
}

function panel(policy, dtype) {
  const { device, low, full, mixed, double, group, listed, inputs, measured, note } = policy;
  const row = (input, result) => {
    const out = h("dd", {}, result ?? "no result");
    return h("div", {}, h("dt", {}, input), out);
  };
  return h(
    "div",
    { class: "amp-panel", role: "group", "aria-label": DEVICE_NAMES[device] },
    h("p", { class: "amp-heading" }, DEVICE_NAMES[device], " ", h("span", { class: "amp-note" }, ASKED[measured])),
    h("p", { class: "amp-group" }, ...marked(group), h("span", { class: "amp-note" }, MEANINGS[group])),
    h(
      "dl",
      {},
      row(`${dtype} in`, low),
      row("float32 in", full),
      row("mixed in", mixed ?? (inputs < 2 ? "takes one tensor" : null)),
      row("float64 in", double),
      row("a rule of its own", listed ? "yes" : "no"),
    ),
    h("p", { class: "amp-why" }, h("strong", {}, "Why: "), note),
  );
}

// ---- putting it together -----------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "op", "dtype", "search", "show"];
  return assemble({ model, el, root: "amp-policy-browser" }, "Policy browser", names, readState, (set, read) => {
    const list = opList(model, set);
    // Where the row of the chosen op stands is known once the list is on the page.
    const frameId = requestAnimationFrame(() => list.draw(read()));
    const onceShown = { nodes: [], stop: () => cancelAnimationFrame(frameId) };
    return [controls(model, set, list), list, details(model), onceShown];
  });
}

// The browser on a page of its own, with the `data` of a Python PolicyBrowser.
export function mount(
  el,
  { data, op = data.ops[0], dtype = data.dtypes[0], search = "", show = data.shows[0] },
) {
  const model = plainModel({ data, op, dtype, search, show });
  render({ model, el });
  return model;
}

export default { render };

// Order the calls: cards to arrange into a training step, a button that runs them in Python, and
// what came of it.
//
// An order is { before, each, after }: ids of cards by zone. A card that is in none of them is left
// out. From Python: `data` = { cards: [{ id, code }], start: order, usual: order, steps, pieces,
// overflows: steps, clipped: steps }, and, for the order in `asked`, `result` = { order, right,
// findings: texts, notes: texts, stop: { card, step, piece, message } or null, warned: texts,
// numbers: [[name, yours, right]], curves: { yours, right } }, each curve with errors, scales and
// skipped steps. `right` is null for an order that can't be run here. An empty `asked` or `result` stands for none. Texts hold code between backticks.

import { assemble, control, h, legendKey, picture, plainModel, powerOfTwo, svg, uniqueId } from "./dom.mjs";

const ZONES = {
  before: "before the loop",
  each: "in the loop",
  after: "after the loop",
  unused: "left out",
};
const HEIGHT = 330;
const MARGIN = { right: 16, left: 64 };
const PANELS = { error: [18, 176], scale: [204, 284] };
const DRAG_FROM = 5; // pixels

// ---- orders -------------------------------------------------------------------------------------

// The same order with the cards that are left out, as `data.cards` has them.
function withUnused(order, cards) {
  const used = [...order.before, ...order.each, ...order.after];
  const unused = cards.map(({ id }) => id).filter((id) => !used.includes(id));
  return { before: order.before, each: order.each, after: order.after, unused };
}

function find(zones, card) {
  const zone = Object.keys(ZONES).find((name) => zones[name].includes(card));
  return { zone, index: zones[zone].indexOf(card) };
}

// The order with a card at a place of a zone, counted without that card.
function place(zones, card, zone, index) {
  const moved = {};
  for (const name of Object.keys(ZONES)) moved[name] = zones[name].filter((id) => id !== card);
  if (zone !== "unused") moved[zone].splice(index, 0, card);
  return { before: moved.before, each: moved.each, after: moved.after };
}

// The order with a card one place further up (-1) or down (1), into the next zone at an end.
function shift(zones, card, by) {
  const { zone, index } = find(zones, card);
  const names = Object.keys(ZONES);
  const inside = zone !== "unused" && index + by >= 0 && index + by < zones[zone].length;
  if (inside) return place(zones, card, zone, index + by);
  const next = names[names.indexOf(zone) + by];
  if (next === undefined) return place(zones, card, zone, index);
  return place(zones, card, next, by < 0 ? zones[next].length : 0);
}

function same(a, b) {
  const text = ({ before = [], each = [], after = [] }) => [before, each, after].join("|");
  return text(a) === text(b);
}

function readState(model) {
  const { cards, ...data } = model.get("data");
  const [asked, result] = [model.get("asked"), model.get("result")];
  const order = model.get("order");
  return {
    ...data,
    cards,
    order,
    zones: withUnused(order, cards),
    result: result.order ? result : null,
    waits: Boolean(asked.each) && !(result.order && same(asked, result.order)),
    stale: Boolean(result.order) && !same(result.order, order),
  };
}

// ---- words --------------------------------------------------------------------------------------

// Text with code between backticks, as nodes.
function marked(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

function whereIs(zones, card) {
  const { zone, index } = find(zones, card);
  if (zone === "unused") return ZONES.unused;
  return `${ZONES[zone]}, ${index + 1} of ${zones[zone].length}`;
}

function stepsInWords(steps) {
  return steps.length === 1 ? `step ${steps[0]}` : `steps ${steps.join(", ")}`;
}

function plainNumber(value) {
  if (value === null || value === undefined) return "inf or NaN";
  return value >= 1e4 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

function introduction({ steps, pieces, overflows, clipped }) {
  const text =
    `These calls train the digit painter for ${steps} steps of ${pieces} micro-batches, in FP16 ` +
    `on a CPU. A broken picture makes the gradients of ${stepsInWords(overflows)} overflow. ` +
    `The gradients of ${stepsInWords(clipped)} are too large and have to be clipped. Put the calls in ` +
    "order. You may leave some out.";
  return { nodes: [h("p", {}, text)] };
}

const HOW =
  "Drag a card, or choose it with Space or a click and move it with the arrow keys or the " +
  "buttons below. Space puts it down, Escape puts it back, Delete leaves it out.";

// ---- the board ----------------------------------------------------------------------------------

// The cards in their zones. A card that is chosen follows the arrow keys; `choose`, `shift` and
// `leaveOut` do the same for buttons. Says what it does to `tell`.
function board(set, read, tell) {
  const state = read();
  const hintId = uniqueId("hint");
  const made = Object.fromEntries(state.cards.map((card) => [card.id, makeCard(card)]));
  const lists = Object.fromEntries(Object.keys(ZONES).map((zone) => [zone, makeList(zone)]));
  const watchers = []; // called when another card is chosen
  let chosen = null; // the card that is picked up, and the order before that
  let focused = null; // the one card that Tab reaches
  let drag = null; // { card, x, y, from: the order before, moves }

  function makeCard({ id, code }) {
    const place = h("span", { class: "amp-hidden" });
    const fault = h("span", { class: "amp-oc-call-fault" });
    const grip = h("span", { class: "amp-oc-grip", "aria-hidden": "true" }, "⠿");
    const text = h("code", {}, code);
    const attributes = { type: "button", class: "amp-oc-call", "aria-pressed": "false" };
    const button = control("button", { ...attributes, "aria-describedby": hintId, onclick: () => toggle(id) }, grip, text, place, fault);
    button.addEventListener("pointerdown", (event) => startDrag(event, id));
    button.addEventListener("focus", () => focus(id));
    return { place, fault, button, node: h("li", {}, button) };
  }

  function makeList(zone) {
    const label = `Cards ${ZONES[zone]}`;
    return h("ol", { class: "amp-oc-calls", "aria-label": label, "data-zone": zone });
  }

  // ---- what a learner does ----

  function focus(id) {
    focused = id;
    for (const [name, { button }] of Object.entries(made)) button.tabIndex = name === id ? 0 : -1;
  }

  function toggle(id) {
    if (drag?.moved) return; // the click that ends a drag
    if (chosen?.card === id) return drop();
    chosen = { card: id, from: read().order };
    show();
    tell(`Chosen: ${whereIs(read().zones, id)}. Move it, then press Space to put it down.`);
  }

  function drop() {
    const { card } = chosen;
    chosen = null;
    show();
    tell(`Put down: ${whereIs(read().zones, card)}.`);
  }

  function cancel() {
    const { card, from } = chosen;
    chosen = null;
    set({ order: from });
    made[card].button.focus();
    tell(`Put back: ${whereIs(read().zones, card)}.`);
  }

  function moveTo(card, order, keepFocus = true) {
    if (same(order, read().order)) return tell("It is at the end.");
    set({ order });
    if (keepFocus) made[card].button.focus(); // a card that moves in the page loses the focus
    tell(`Now ${whereIs(read().zones, card)}.`);
  }

  const shiftChosen = (by, keepFocus) =>
    chosen && moveTo(chosen.card, shift(read().zones, chosen.card, by), keepFocus);
  const leaveOut = (keepFocus) =>
    chosen && moveTo(chosen.card, place(read().zones, chosen.card, "unused", 0), keepFocus);

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.matches(".amp-oc-call")) return;
    const actions = {
      ArrowUp: () => step(-1),
      ArrowDown: () => step(1),
      Home: () => !chosen && step(-Infinity),
      End: () => !chosen && step(Infinity),
      Escape: () => chosen && cancel(),
      Delete: () => leaveOut(),
      Backspace: () => leaveOut(),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }

  function step(by) {
    if (chosen) return shiftChosen(by);
    const all = Object.keys(ZONES).flatMap((zone) => read().zones[zone]);
    const to = Math.min(Math.max(all.indexOf(focused) + by, 0), all.length - 1);
    made[all[to]].button.focus();
  }

  // ---- dragging: the card moves along the list while the pointer does ----

  function startDrag(event, card) {
    const byFinger = event.pointerType === "touch" && !event.target.matches(".amp-oc-grip");
    if (event.button !== 0 || byFinger) return; // a finger on a card scrolls the page
    drag = { card, x: event.clientX, y: event.clientY, from: read().order, moved: false };
    for (const [name, listener] of Object.entries(dragging)) window.addEventListener(name, listener);
  }

  const dragging = { pointermove: onMove, pointerup: endDrag, pointercancel: stopDrag, keydown: onEscape };

  function onMove(event) {
    const far = Math.hypot(event.clientX - drag.x, event.clientY - drag.y);
    if (!drag.moved && far < DRAG_FROM) return;
    if (!drag.moved) chosen = null;
    drag.moved = true;
    event.preventDefault();
    const { zone, index } = under(event.clientX, event.clientY, drag.card);
    const order = place(read().zones, drag.card, zone, index);
    if (same(order, read().order)) return show();
    set({ order });
  }

  // The place below a point: the nearest zone, and how many of its cards lie above the point.
  function under(x, y, card) {
    const away = (low, value, high) => Math.max(low - value, 0, value - high);
    const distance = (zone) => {
      const box = lists[zone].parentElement.getBoundingClientRect();
      return Math.hypot(away(box.left, x, box.right), away(box.top, y, box.bottom));
    };
    const zone = Object.keys(ZONES).reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const others = [...lists[zone].children].filter((node) => node !== made[card].node);
    const above = (node) => {
      const box = node.getBoundingClientRect();
      return box.top + box.height / 2 < y;
    };
    return { zone, index: others.filter(above).length };
  }

  function endDrag() {
    const { card, moved } = drag;
    release();
    if (!moved) return (drag = null);
    setTimeout(() => (drag = null)); // after the click that follows
    made[card].button.focus();
    show();
    tell(`Now ${whereIs(read().zones, card)}.`);
  }

  function stopDrag() {
    const { from, moved } = drag;
    release();
    drag = null;
    if (moved) set({ order: from });
    show();
  }

  function onEscape(event) {
    if (event.key === "Escape") stopDrag();
  }

  function release() {
    for (const [name, listener] of Object.entries(dragging)) window.removeEventListener(name, listener);
  }

  // ---- drawing ----

  function show() {
    const { zones, result, stale } = read();
    for (const [zone, list] of Object.entries(lists)) {
      zones[zone].forEach((id, i) => {
        const { node } = made[id];
        if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
      });
      list.parentElement.classList.toggle("amp-oc-empty", zones[zone].length === 0);
    }
    for (const [id, { button, place: where, fault }] of Object.entries(made)) {
      button.setAttribute("aria-pressed", String(chosen?.card === id));
      button.classList.toggle("amp-oc-dragged", Boolean(drag?.moved) && drag.card === id);
      where.textContent = whereIs(zones, id);
      const raised = !stale && result?.stop?.card === id;
      button.classList.toggle("amp-oc-raised-here", raised);
      fault.textContent = raised ? "✗ raised the error" : "";
    }
    if (!focused) focus(Object.keys(ZONES).flatMap((zone) => zones[zone])[0]);
    for (const watcher of watchers) watcher(chosen?.card ?? null);
  }

  const line = (text) => h("p", { class: "amp-oc-code-line" }, h("code", {}, text));
  const zone = (name, title) =>
    h("div", { class: `amp-oc-zone amp-oc-zone-${name}` }, h("p", { class: "amp-note" }, title), lists[name]);
  const program = h(
    "div",
    { class: "amp-oc-program", role: "group", "aria-label": "The training step" },
    line("for pictures in batches:"),
    zone("before", "once a step, before the loop"),
    line("    for piece in pieces:"),
    zone("each", "in the loop, for each micro-batch"),
    zone("after", "once a step, after the loop"),
  );
  const tray = zone("unused", "Left out");
  const hint = h("p", { class: "amp-note", id: hintId }, HOW);
  const node = h("div", { class: "amp-oc-board" }, program, tray);
  node.addEventListener("keydown", onKey);
  return {
    nodes: [hint, node],
    draw: show,
    stop: release,
    shift: (by) => shiftChosen(by, false),
    leaveOut: () => leaveOut(false),
    letGo: () => (chosen = null),
    watch: (watcher) => watchers.push(watcher),
  };
}

// ---- the buttons --------------------------------------------------------------------------------

function button(text, onclick, more = "") {
  return control("button", { type: "button", class: `amp-oc-button ${more}`, onclick }, text);
}

// Moving without a keyboard and without dragging: they act on the card that is chosen.
function movers(cards) {
  const all = [
    button("↑ Up", () => cards.shift(-1)),
    button("↓ Down", () => cards.shift(1)),
    button("Leave out", () => cards.leaveOut()),
  ];
  const label = { role: "group", "aria-label": "Move the chosen card" };
  cards.watch((chosen) => {
    for (const each of all) each.setAttribute("aria-disabled", String(chosen === null));
  });
  return { nodes: [h("div", { class: "amp-oc-buttons", ...label }, ...all)] };
}

function starters(set, read, cards, status) {
  function run() {
    cards.letGo();
    const { order, result, stale } = read();
    if (result && !stale) return status.tell("This order has run: its result is below.");
    set({ asked: { ...order } });
  }
  function showMe() {
    cards.letGo();
    set({ order: read().usual });
    status.tell("This is the usual order. Run it to see what it does.");
  }
  function reset() {
    cards.letGo();
    set({ order: read().start, asked: {}, result: {} });
    status.tell("The cards are mixed again.");
  }
  const all = [button("Run it", run, "amp-oc-main"), button("Show me", showMe), button("Reset", reset)];
  return { nodes: [h("div", { class: "amp-oc-buttons" }, ...all)] };
}

// One line that a screen reader reads out when it changes.
function statusLine() {
  const node = h("p", { class: "amp-note amp-oc-status", role: "status" });
  let waited = false;
  const tell = (text) => (node.textContent = text);
  function draw({ waits }) {
    if (waits) tell("Running…");
    else if (waited) tell("");
    waited = waits;
  }
  return { nodes: [node], tell, draw };
}

// ---- what came of it ----------------------------------------------------------------------------

function verdict() {
  const node = h("div", { class: "amp-oc-outcome", "aria-live": "polite" });
  let shown;
  function draw(state) {
    const { result, stale } = state;
    const key = result && JSON.stringify([result, stale]);
    if (key === shown) return; // else a screen reader would read it out again
    shown = key;
    node.replaceChildren(...(result ? verdictParts(state) : []));
    node.classList.toggle("amp-oc-is-right", Boolean(result?.right));
    node.hidden = !result;
  }
  return { nodes: [node], draw };
}

function verdictParts({ result, stale, steps }) {
  const { right, findings, notes, stop, warned } = result;
  const parts = [];
  if (stale) parts.push(h("p", { class: "amp-note" }, "You have moved cards since this run."));
  if (right !== null) parts.push(h("p", { class: "amp-oc-result-word" }, right ? "✓ Right" : "✗ Not right"));
  if (right) {
    const text = `After ${steps} steps the weights are those of the usual order.`;
    parts.push(h("p", {}, text), ...notes.map((note) => h("p", {}, ...marked(note))));
  }
  const [first, ...others] = findings;
  if (first) parts.push(h("p", { class: "amp-oc-finding" }, ...marked(first)));
  if (others.length) {
    const lines = others.map((text) => h("li", {}, ...marked(text)));
    parts.push(h("p", { class: "amp-heading" }, "And also"), h("ul", { class: "amp-oc-findings" }, ...lines));
  }
  if (stop) parts.push(...stopParts(stop));
  for (const text of warned) parts.push(h("p", {}, "PyTorch warned:"), message(text));
  return parts;
}

function stopParts({ step, piece, message: text }) {
  const where = piece === null ? `step ${step}` : `step ${step}, micro-batch ${piece}`;
  return [h("p", {}, `The run stopped in ${where}:`), message(text)];
}

function message(text) {
  return h("pre", { class: "amp-oc-message", tabindex: 0, role: "group", "aria-label": "Message" }, text);
}

// ---- the numbers --------------------------------------------------------------------------------

function numbersTable() {
  const head = ["", "your order", "usual order"].map((name) => h("th", { scope: "col" }, name));
  head[0] = h("td", {});
  const body = h("tbody", {});
  const grid = h("table", { class: "amp-table amp-oc-numbers" }, h("thead", {}, h("tr", {}, ...head)), body);
  const label = { role: "region", "aria-label": "Both runs in numbers", tabindex: 0 };
  const box = h("div", { class: "amp-oc-numbers-box", "data-lm-suppress-shortcuts": "true", ...label }, grid);
  function draw({ result }) {
    const rows = result?.numbers ?? [];
    box.hidden = rows.length === 0;
    body.replaceChildren(...rows.map(numbersRow));
  }
  return { nodes: [box], draw };
}

function numbersRow([name, yours, right]) {
  const differs = yours !== right;
  const own = h("td", { class: differs ? "amp-oc-differs" : null }, differs ? `≠ ${yours}` : yours);
  return h("tr", {}, h("th", { scope: "row" }, name), own, h("td", {}, right));
}

// ---- the picture --------------------------------------------------------------------------------

// The error per pixel above, on a logarithmic scale, and the loss scale below, step by step.
function trajectories() {
  const made = picture(HEIGHT, 280, ({ result, steps }, width) => {
    const curves = result?.curves.yours ? result.curves : null;
    if (!curves) return { label: "No run yet", parts: [] };
    const at = makeFrame(curves, steps, width);
    const parts = [...drawGround(at), ...drawRun(curves.right, at, "right")];
    return { label: summary(curves), parts: [...parts, ...drawRun(curves.yours, at, "yours")] };
  });
  const keys = ["yours", "right"].map((run) => {
    const line = svg("path", { class: `amp-oc-run amp-oc-run-${run}`, d: "M0 8H16" });
    return legendKey(run === "yours" ? "your order" : "usual order", line);
  });
  const tick = svg("path", { class: "amp-oc-run amp-oc-skip-key", d: "M8 2V14" });
  const legend = h("p", { class: "amp-legend" }, ...keys, legendKey("skipped step", tick));
  const box = h("div", {}, ...made.nodes, legend);
  function draw(state) {
    box.hidden = !state.result?.curves.yours;
    made.draw(state);
  }
  return { nodes: [box], draw, stop: made.stop };
}

// A frame of both panels: `x(step)`, from 1, and `error(value)` and `scale(value)` for y.
function makeFrame({ yours, right }, steps, width) {
  const errors = [...yours.errors, ...right.errors].filter((value) => value > 0);
  const low = Math.floor(4 * Math.log10(Math.min(...errors))) / 4;
  const high = Math.min(Math.ceil(4 * Math.log10(Math.max(...errors))) / 4, low + 8);
  const scales = [...yours.scales, ...right.scales].filter((value) => value > 0).map(Math.log2);
  const [lowest, highest] = [Math.floor(Math.min(...scales)) - 1, Math.ceil(Math.max(...scales)) + 1];
  const between = ([top, bottom], share) => bottom - (bottom - top) * Math.min(Math.max(share, 0), 1);
  return {
    width,
    steps,
    errors: [low, high],
    scales: [lowest, highest],
    x: (step) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * (step - 0.5)) / steps,
    error: (value) =>
      between(PANELS.error, value === null ? 1 : (Math.log10(value) - low) / (high - low)),
    scale: (value) => between(PANELS.scale, (Math.log2(value) - lowest) / (highest - lowest)),
  };
}

function drawGround(at) {
  const [x1, x2] = [MARGIN.left, at.width - MARGIN.right];
  const tick = (y, text) => [
    svg("line", { class: "amp-grid", x1, x2, y1: y, y2: y }),
    svg("text", { class: "amp-tick", x: x1 - 8, y: y + 4, "text-anchor": "end" }, text),
  ];
  const parts = errorTicks(at.errors).flatMap((value) => tick(at.error(value), plainNumber(value)));
  const [low, high] = at.scales;
  const gap = [1, 2, 4, 8, 16, 32, 64].find((n) => (high - low) / n <= 4) ?? 128;
  for (let e = Math.ceil(low / gap) * gap; e <= high; e += gap) {
    parts.push(...tick(at.scale(2 ** e), powerOfTwo(e)));
  }
  for (let step = 5; step <= at.steps; step += 5) {
    const label = { class: "amp-tick", x: at.x(step), y: HEIGHT - 22, "text-anchor": "middle" };
    parts.push(svg("text", label, step));
  }
  const middle = { class: "amp-axis-title", x: (x1 + x2) / 2, y: HEIGHT - 5, "text-anchor": "middle" };
  parts.push(svg("text", middle, "step"));
  for (const [name, [top, bottom]] of Object.entries({ "error per pixel": PANELS.error, "loss scale": PANELS.scale })) {
    const y = (top + bottom) / 2;
    const turned = { class: "amp-axis-title", x: 14, y, "text-anchor": "middle", transform: `rotate(-90 14 ${y})` };
    parts.push(svg("text", turned, name));
  }
  return parts;
}

// 1, 2 and 5 times the powers of ten, or the powers alone if that is too many.
function errorTicks([low, high]) {
  const every = high - low > 5 ? 2 : 1;
  const factors = high - low > 1.6 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let e = Math.floor(low); e <= high; e += every) {
    ticks.push(...factors.map((factor) => factor * 10 ** e));
  }
  return ticks.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

function drawRun({ errors, scales, skipped }, at, name) {
  const line = (values, y) => values.map((value, i) => `${at.x(i + 1)} ${y(value)}`).join("L");
  const look = { class: `amp-oc-run amp-oc-run-${name}` };
  const lost = errors.indexOf(null); // Python sends null for inf and NaN
  const word = { class: "amp-tick", x: at.x(lost + 1), y: PANELS.error[0] - 2, "text-anchor": "middle" };
  const y = PANELS.scale[1] + (name === "yours" ? 9 : 0);
  return [
    svg("path", { ...look, d: `M${line(errors, at.error)}` }),
    svg("path", { ...look, d: `M${line(scales, at.scale)}` }),
    ...(lost >= 0 ? [svg("text", word, "inf or NaN")] : []),
    ...skipped.map((step) => svg("path", { class: `amp-oc-skip amp-oc-skip-${name}`, d: `M${at.x(step)} ${y}v7` })),
  ];
}

function summary({ yours, right }) {
  const words = ({ errors, scales, skipped }) =>
    `the error per pixel goes from ${plainNumber(errors[0])} to ${plainNumber(errors.at(-1))}, ` +
    `the loss scale ends at ${scales.at(-1)}, ` +
    `${skipped.length} ${skipped.length === 1 ? "step is" : "steps are"} skipped`;
  return `Both runs over ${right.errors.length} steps. Your order: ${words(yours)}. Usual order: ${words(right)}.`;
}

// ---- putting it together ------------------------------------------------------------------------

function render({ model, el }) {
  const names = ["data", "order", "asked", "result"];
  return assemble({ model, el, root: "amp-order-calls" }, "Order the calls", names, readState, (set, read) => {
    const status = statusLine();
    const cards = board(set, read, status.tell);
    return [
      introduction(read()),
      cards,
      movers(cards),
      starters(set, read, cards, status),
      status,
      verdict(),
      trajectories(),
      numbersTable(),
    ];
  });
}

// The widget on a page of its own, with the `data` of a Python OrderTheCalls. Nothing runs there:
// a page that has recorded what comes of the order in `asked` sets `result`.
export function mount(el, values) {
  const model = plainModel({ order: values.data.start, asked: {}, result: {}, ...values });
  render({ model, el });
  return model;
}

export default { render };

// Questions in a notebook, one at a time. Python knows the answers: each answer is sent there, and
// the verdict comes back.

import { control, h, plainModel } from "./dom.mjs";
import { openBox, questionBox, taskBox } from "./question.mjs";

const BOXES = { open: openBox, task: taskBox };
const RESTARTED = "The kernel was restarted. Run this cell again.";
const AFTER_SCROLLING = 500; // ms: JupyterLab scrolls when a cell has run

function render({ model, el }) {
  const calls = caller(model);
  const body = h("div", {});
  const foot = h("div", { class: "amp-split amp-quiz-foot" });
  const report = h("div", { class: "amp-report", "aria-live": "polite" });
  const clock = clockOf(model);
  const name = model.get("title");
  const frame = h("div", { class: "amp-widget amp-quiz", role: "group", "aria-label": name }, body, foot, report);
  frame.addEventListener("keydown", (event) => keepFromNotebook(event, el));
  el.append(frame);
  const boxes = new Map(); // by place, so that an answered question is still there on the way back
  let shown = null;

  function box(place) {
    if (!boxes.has(place)) {
      const question = model.get("questions")[place];
      const make = BOXES[question.form] ?? questionBox;
      const made = make(question, headingOf(question, place), actionsOf(question));
      const told = model.get("verdicts")[question.id] ?? model.get("committed")?.[question.id];
      if (told) made.show(told);
      boxes.set(place, made);
    }
    return boxes.get(place);
  }

  function headingOf(question, place) {
    const total = model.get("questions").length;
    const number = total > 1 ? `Question ${place + 1} of ${total} · ` : "";
    const before = question.before ? ` · last time ${question.before}` : "";
    return `${number}${question.kindName}${before}`;
  }

  function actionsOf(question) {
    const ask = (type, more) => calls.send({ type, id: question.id, ...more });
    const predicts = model.get("committed") !== undefined;
    return {
      submit: (answer, sure) => ask("answer", { answer, sure }).then(drawFootAfter),
      giveUp: predicts ? null : () => ask("give up").then(drawFootAfter),
      proof: () => ask("proof"),
      run: model.get("runs") === false ? null : () => ask("run").then(({ printed }) => printed),
      reveal: () => ask("reveal"),
      committed: () => predicts && toNextCell(el),
      onward,
    };
  }

  function onward() {
    const place = model.get("place");
    if (place < model.get("questions").length - 1) go(place + 1);
    else toNextCell(el);
  }

  function drawFootAfter(verdict) {
    drawFoot();
    return verdict;
  }

  function draw() {
    const place = model.get("place");
    if (shown === place) return;
    const moved = shown !== null;
    shown = place;
    body.replaceChildren(box(place).node);
    drawFoot();
    if (moved) box(place).focus();
  }

  function go(place) {
    model.set("place", place);
    model.save_changes();
    draw();
  }

  function drawFoot() {
    const place = model.get("place");
    const last = model.get("questions").length - 1;
    const parts = [h("span", { class: "amp-note", "aria-live": "polite" }, model.get("standing"))];
    if (clock.node && !model.get("report")) parts.push(clock.node);
    const button = (text, to) => control("button", { type: "button", onclick: () => go(to) }, text);
    const ways = [];
    if (place > 0) ways.push(button("Back", place - 1));
    if (place < last) ways.push(button("Next question", place + 1));
    if (model.get("ends_at") && !model.get("report")) {
      const finish = () => calls.send({ type: "finish" });
      ways.push(control("button", { type: "button", onclick: finish }, "Finish"));
    }
    if (ways.length) parts.push(h("span", { class: "amp-actions" }, ...ways));
    foot.replaceChildren(...parts);
    foot.hidden = !last && !model.get("standing");
  }

  // A verdict that comes by itself: of a prediction, when its result is there.
  function onVerdicts() {
    const verdicts = model.get("verdicts");
    model.get("questions").forEach((question, place) => {
      const told = verdicts[question.id];
      if (!told || !boxes.has(place)) return;
      const awaited = boxes.get(place).show(told);
      if (awaited && model.get("committed")) bringIntoView(boxes.get(place).verdict, el);
    });
  }

  // Jupyter tells a widget on the page one thing about its line to Python: that it is gone, with
  // the kernel. What was judged stays as it is.
  function onRestart() {
    calls.cutOff();
    for (const made of boxes.values()) made.cutOff?.(RESTARTED);
  }

  function drawReport() {
    report.innerHTML = model.get("report"); // our own HTML
    drawFoot();
  }

  model.on("comm_live_update", onRestart);
  model.on("change:report", drawReport);
  model.on("change:place", draw);
  model.on("change:standing", drawFoot);
  model.on("change:verdicts", onVerdicts);
  draw();
  if (model.get("report")) drawReport();
  calls.send({ type: "drawn" }).then(
    ({ focus }) => focus && takeFocus(frame, () => box(model.get("place"))),
    () => {}, // no kernel has run this cell
  );
  return () => {
    clock.stop();
    model.off("comm_live_update", onRestart);
    model.off("change:report", drawReport);
    model.off("change:place", draw);
    model.off("change:standing", drawFoot);
    model.off("change:verdicts", onVerdicts);
    calls.stop();
  };
}

// JupyterLab takes a digit or a letter for a command that edits the notebook. Those that are pressed
// in the box stay here, and Escape gives the focus back to the cell.
function keepFromNotebook(event, el) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  event.stopPropagation();
  if (event.key === "Escape") ownCell(el)?.focus({ preventScroll: true });
}

function ownCell(el) {
  return el.closest(".jp-Notebook .jp-Cell");
}

// A box that has just been run gets the focus, and its top is brought into view: JupyterLab goes on
// to the next cell and scrolls. But not from under somebody who types, or who has gone elsewhere.
function takeFocus(el, shown) {
  const own = ownCell(el);
  const near = [own, own?.nextElementSibling].some((cell) => cell?.matches(".jp-mod-active"));
  if (!near || document.activeElement?.closest(".cm-editor, input, textarea, select")) return;
  const touch = matchMedia("(pointer: coarse)").matches; // a keyboard would cover the question
  if (!touch) shown().focus();
  const bringTop = () => {
    const block = el.offsetHeight < innerHeight / 2 ? "nearest" : "start";
    el.scrollIntoView({ block, behavior: "instant" });
  };
  bringTop();
  setTimeout(() => (touch || el.contains(document.activeElement)) && bringTop(), AFTER_SCROLLING);
}

// After a commit the next cell is to run. JupyterLab hears its keys only while the focus is in a
// cell, and the cell with the focus is the one that they are for. Says whether there is one.
function toNextCell(el) {
  const own = ownCell(el);
  const next = own?.nextElementSibling;
  const cell = next?.matches(".jp-Cell") ? next : own;
  cell?.focus({ preventScroll: true });
  return cell ? cell.contains(document.activeElement) : false;
}

// A verdict that was waited for stands above the cell that has just run, where JupyterLab has
// scrolled to. It is brought back, but not for somebody who types or has gone on.
function bringIntoView(verdict, el) {
  setTimeout(() => {
    if (document.activeElement?.closest(".cm-editor") || goneOn(el)) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const part = verdict.offsetHeight < innerHeight / 2 ? verdict : verdict.firstElementChild;
    part.scrollIntoView({ block: "nearest", behavior: still ? "instant" : "smooth" });
  }, AFTER_SCROLLING);
}

// Whether the notebook's active cell is beyond the one that follows the result.
function goneOn(el) {
  const cells = [...(el.closest(".jp-Notebook")?.querySelectorAll(".jp-Cell") ?? [])];
  const active = cells.findIndex((cell) => cell.matches(".jp-mod-active"));
  return active > cells.indexOf(el.closest(".jp-Cell")) + 3;
}

// The time that is left, if there is an end. Nothing is cut off when it is over.
function clockOf(model) {
  const end = model.get("ends_at");
  if (!end) return { stop() {} };
  const node = h("span", { class: "amp-note", role: "timer" });
  const draw = () => {
    const left = end - Date.now() / 1000;
    const minutes = Math.ceil(Math.abs(left) / 60);
    const words = `${minutes} minute${minutes === 1 ? "" : "s"}`;
    node.textContent = left >= 0 ? `${words} left` : `${words} over`;
  };
  draw();
  const timer = setInterval(draw, 10000);
  return { node, stop: () => clearInterval(timer) };
}

// Messages to Python with an answer: `send(message)` gives a promise of it.
function caller(model) {
  const waiting = new Map();
  let number = 0;
  let cut = false;
  function receive(message) {
    const call = waiting.get(message.call);
    if (!call) return; // meant for another view of this widget
    waiting.delete(message.call);
    if (message.error) call.reject(new Error(message.error));
    else call.resolve(message.content);
  }
  model.on("msg:custom", receive);
  const view = Math.random().toString(36).slice(2);
  return {
    send: (message) =>
      new Promise((resolve, reject) => {
        if (cut) return reject(new Error(RESTARTED));
        number += 1;
        const call = `${view}-${number}`;
        waiting.set(call, { resolve, reject });
        model.send({ ...message, call });
      }),
    cutOff() {
      cut = true;
      for (const { reject } of waiting.values()) reject(new Error(RESTARTED));
    },
    stop: () => model.off("msg:custom", receive),
  };
}

// A quiz on a page of its own. `python(message)` gives a promise of the reply, and of the values
// that changed with it. Where nothing can run a proof, `values.runs` is false.
export function mount(el, values, python) {
  const model = plainModel({ place: 0, verdicts: {}, standing: "", title: "Questions", ends_at: 0, report: "", ...values });
  const receivers = new Set();
  const { on, off } = model;
  model.on = (event, f) => (event === "msg:custom" ? receivers.add(f) : on(event, f));
  model.off = (event, f) => (event === "msg:custom" ? receivers.delete(f) : off(event, f));
  model.send = async (message) => {
    const { reply, changed } = await python(message);
    for (const [name, value] of Object.entries(changed)) model.set(name, value);
    for (const receive of receivers) receive(reply);
  };
  render({ model, el });
  return model;
}

export default { render };

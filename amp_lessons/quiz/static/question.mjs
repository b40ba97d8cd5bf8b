// One question: what there is to read, the answer to give, and the verdict on it. The widget in a
// notebook and the page that works without Python both stand on this; what is right, they know.
//
// A question is what `quiz.markup.view` gives. Its HTML was made from our own Markdown.

import { control, faultLine, h, keepKeys, uniqueId } from "./dom.mjs";

const NAMES = "1234567890"; // of choices and lines, and the keys that choose them
const ROLES = {
  right: "Right",
  wrong: "Not right",
  missed: "The right answer",
  explanation: "",
};

// An element with trusted HTML in it.
function rich(tag, attributes, markup) {
  const node = h(tag, attributes);
  node.innerHTML = markup;
  return node;
}

// A box around one question.
//
// `actions`:
//   submit(answer, sure)  a promise of the verdict; it rejects with an Error whose message is one
//                         line about how to answer. An answer is a list of places, or typed text.
//   giveUp()              optional: a promise of the verdict for somebody who wants to see the answer
//   proof()               optional: a promise of the proof's code
//   run()                 optional: a promise of what the proof prints
//   committed()           optional: after a commit, puts the focus where one goes on; true if it did
//   onward()              optional: goes on, for Enter on a verdict
// The verdict is `{ right, remarks, key, source, given, readAs }`, or `{ waiting: text }` if it is to
// come later, by `show(verdict)`, which says whether the verdict had been waited for. For somebody
// who has given no answer, `given` is null, and `result` may say what stands above the answer.
//
// Gives back `{ node, verdict, focus, show, cutOff }`; `cutOff(why)` says why a verdict that is
// waited for will not come.
export function questionBox(question, heading, actions) {
  const faults = faultLine();
  const input = answerInput(question);
  const verdict = control("div", { class: "amp-feedback", "aria-live": "polite", tabindex: "-1" });
  const guess = guessBox();
  const hint = hintBox(question);
  const answer = control("button", { type: "button", class: "amp-primary", onclick: take }, "Answer");
  const showMe = control("button", { type: "button", onclick: giveUp }, "Show me");
  showMe.hidden = !actions.giveUp;
  const buttons = h("div", { class: "amp-actions" }, answer, guess.node, hint.button, showMe);
  const node = titled(heading, ...reading(question), input.node, buttons, faults.node, hint.node, verdict);
  node.addEventListener("keydown", onKey);
  let done = false;
  let told = null; // the verdict that is shown: the first one stays
  let waiting = false; // for the verdict on a commit

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.('input[type="text"]');
    const enter = event.key === "Enter" && !event.target.matches?.("button, a, summary");
    if (done && !(enter && told && actions.onward)) return;
    if (enter && done) actions.onward();
    else if (enter) take();
    else if (!typing && event.key === "h") hint.button.click();
    else if (typing || !input.press(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  async function take() {
    if (done) return;
    const given = input.read();
    if (given === null) return faults.tell("answer", input.missing);
    await settle(() => actions.submit(given, !guess.box.checked));
  }

  async function giveUp() {
    await settle(() => actions.giveUp());
  }

  async function settle(ask) {
    faults.tell("answer", null);
    try {
      const given = await ask();
      const here = node.contains(document.activeElement) || document.activeElement === document.body;
      show(given);
      if (here && !(given.waiting && actions.committed?.())) verdict.focus({ preventScroll: true });
    } catch (fault) {
      faults.tell("answer", fault.message);
    }
  }

  function show(given) {
    if (told) return false;
    done = true;
    const inside = node.contains(document.activeElement);
    input.close(given);
    if (given.waiting) {
      answer.hidden = guess.node.hidden = true;
      sayInstead(given.waiting);
      waiting = true;
      return false;
    }
    told = given;
    buttons.hidden = true;
    verdict.replaceChildren(...verdictParts(question, told, actions));
    if (inside) verdict.focus({ preventScroll: true });
    return waiting;
  }

  function cutOff(why) {
    if (waiting && !told) sayInstead(why);
  }

  function sayInstead(text) {
    verdict.replaceChildren(h("p", { class: "amp-waiting" }, text));
  }

  return { node, verdict, show, cutOff, focus: () => !done && input.focus() };
}

// A question's box: its parts below a line that names it. A click on its text puts the focus into it,
// so that the next key is for the question and not for the page around it.
function titled(heading, ...parts) {
  const id = uniqueId("question");
  const title = h("p", { class: "amp-kind", id }, heading);
  const attributes = { class: "amp-question", role: "group", "aria-labelledby": id, tabindex: "-1" };
  return control("div", attributes, title, ...parts);
}

// What there is to read before the answer.
export function reading(question) {
  const parts = [rich("div", { class: "amp-prompt" }, question.prompt)];
  if (question.code) parts.push(codeBox(question.code, "Code"));
  if (question.log) parts.push(scrollBox(h("pre", {}, question.log), "Log"));
  if (question.plot) parts.push(rich("div", { class: "amp-figure" }, question.plot));
  return parts;
}

export function codeBox(markup, label) {
  return scrollBox(rich("pre", { class: "amp-code" }, markup), label);
}

// Long lines scroll in a box of their own, which the keyboard reaches.
function scrollBox(node, label) {
  keepKeys(node);
  node.setAttribute("tabindex", "0");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", label);
  return node;
}

function guessBox() {
  const box = control("input", { type: "checkbox" });
  return { box, node: h("label", { class: "amp-guess" }, box, "I'm guessing") };
}

function hintBox(question) {
  const node = rich("div", { class: "amp-hint", "aria-live": "polite", hidden: true }, "");
  const open = () => {
    node.hidden = false;
    node.innerHTML = question.hint;
    button.disabled = true;
  };
  const button = control("button", { type: "button", onclick: open }, "Hint");
  button.hidden = !question.hint;
  return { node, button };
}

// ---- answers ------------------------------------------------------------------------------------
//
// Each gives `{ node, read, press, close, focus, missing }`: `read()` is the answer or null,
// `press(key)` says whether the key meant something, `close(verdict)` marks what was right.

function answerInput(question) {
  if (question.form === "number") return numberInput(question);
  if (question.form === "order") return orderInput(question);
  return choiceInput(question);
}

function choiceInput(question) {
  const many = question.form === "many";
  const name = uniqueId("choices");
  const rows = question.choices.map((markup, place) => {
    const box = control("input", { type: many ? "checkbox" : "radio", name });
    const mark = h("span", { class: "amp-judged" });
    const key = h("span", { class: "amp-key-name", "aria-hidden": "true" }, NAMES[place]);
    const text = rich("span", { class: "amp-choice-text" }, markup);
    return { box, mark, node: h("label", { class: "amp-choice" }, box, key, text, mark) };
  });
  const title = many ? "Your answers, one or more" : "Your answer";
  const legend = h("legend", { class: many ? "amp-note" : "amp-hidden" }, title);
  const chosen = () => rows.flatMap(({ box }, place) => (box.checked ? [place] : []));
  return {
    node: h("fieldset", { class: "amp-choices" }, legend, ...rows.map((row) => row.node)),
    missing: many ? "Choose one or more of the answers." : "Choose one of the answers.",
    read: () => (chosen().length ? chosen() : null),
    focus: () => rows[0].box.focus(),
    press(key) {
      const row = key.length === 1 && rows[NAMES.indexOf(key)];
      if (!row) return false;
      row.box.checked = many ? !row.box.checked : true;
      row.box.focus();
      return true;
    },
    close(told) {
      rows.forEach(({ box, mark, node }, place) => {
        box.disabled = true;
        if (told.given) box.checked = told.given.includes(place);
        if (!told.key) return;
        const right = told.key.includes(place);
        node.classList.toggle("amp-right", right);
        node.classList.toggle("amp-wrong", box.checked && !right);
        mark.textContent = right ? "✓ right" : box.checked ? "✗ not right" : "";
      });
    },
  };
}

function numberInput(question) {
  const id = uniqueId("number");
  const help = h("p", { class: "amp-note", id: uniqueId("forms") }, `Such as ${question.forms}.`);
  const described = { "aria-describedby": help.id };
  const box = control("input", { id, type: "text", autocomplete: "off", spellcheck: "false", ...described });
  box.setAttribute("inputmode", "text"); // powers are written with ^, which a numeric pad lacks
  const unit = h("span", { class: "amp-unit" }, question.unit);
  const label = question.unit ? `Your answer, in ${question.unit}` : "Your answer";
  return {
    node: h("div", { class: "amp-number" }, h("label", { for: id }, label), box, unit, help),
    missing: `Type a number, such as ${question.forms}.`,
    read: () => box.value.trim() || null,
    focus: () => box.focus(),
    press: () => false,
    close(told) {
      box.disabled = true;
      help.textContent = told.readAs ?? "";
      if (told.given !== undefined && told.given !== null) box.value = told.given;
    },
  };
}

// Each line is a button: pressing it makes it the next one, pressing it again takes it out.
function orderInput(question) {
  let order = [];
  let closed = false;
  const rows = question.lines.map(({ place, html }, number) => {
    const badge = h("span", { class: "amp-badge", "aria-hidden": "true" });
    const said = h("span", { class: "amp-hidden" });
    const text = rich("span", { class: "amp-order-text" }, html);
    const key = h("span", { class: "amp-key-name", "aria-hidden": "true" }, NAMES[number]);
    const pressed = { type: "button", class: "amp-order-line", "aria-pressed": "false" };
    const button = control("button", { ...pressed, onclick: () => toggle(place) }, key, badge, text, said);
    return { place, badge, said, button };
  });
  function toggle(place) {
    if (closed) return;
    order = order.includes(place) ? order.filter((other) => other !== place) : [...order, place];
    for (const row of rows) {
      const at = order.indexOf(row.place);
      row.button.setAttribute("aria-pressed", at >= 0 ? "true" : "false");
      row.badge.textContent = at >= 0 ? ordinal(at + 1) : "";
      row.said.textContent = at >= 0 ? `, line ${at + 1} of your order` : "";
    }
  }
  const note = `Press the lines in the order in which they run. ${question.lines.length - question.wanted} of them ${question.lines.length - question.wanted === 1 ? "does" : "do"} not belong.`;
  return {
    node: h(
      "div",
      { class: "amp-order", role: "group", "aria-label": "Your order" },
      h("p", { class: "amp-note" }, note),
      ...rows.map(({ button }) => button),
    ),
    missing: "Press the lines in their order first.",
    read: () => (order.length ? order : null),
    focus: () => rows[0].button.focus(),
    press(key) {
      const row = key.length === 1 && rows[NAMES.indexOf(key)];
      if (!row) return false;
      toggle(row.place);
      row.button.focus();
      return true;
    },
    close(told) {
      if (told.given) {
        order = [];
        for (const place of told.given) toggle(place);
      }
      closed = true;
      for (const { button } of rows) button.disabled = true;
    },
  };
}

// "2nd", of the few lines that there are: their keys are numbers too.
function ordinal(number) {
  return `${number}${["st", "nd", "rd"][number - 1] ?? "th"}`;
}

// ---- questions without choices ------------------------------------------------------------------

// A question to answer aloud, marked by oneself. `actions.reveal()` gives a promise of
// `{ answer, rubric }`, both HTML; `actions.submit(ticked)` notes the points that were ticked.
export function openBox(question, heading, actions) {
  const faults = faultLine();
  const after = control("div", { class: "amp-feedback", "aria-live": "polite", tabindex: "-1" });
  const button = control("button", { type: "button", class: "amp-primary", onclick: reveal }, "Show a good answer");
  const buttons = h("div", { class: "amp-actions" }, button);
  const how = h("p", { class: "amp-note" }, question.howTo);
  const node = titled(heading, ...reading(question), how, buttons, faults.node, after);
  let marks = [];
  let told = null;

  async function reveal() {
    const { answer, rubric } = await actions.reveal();
    marks = rubric.map(() => control("input", { type: "checkbox" }));
    const rows = rubric.map((markup, place) =>
      h("label", { class: "amp-choice" }, marks[place], rich("span", { class: "amp-choice-text" }, markup)),
    );
    const save = control("button", { type: "button", class: "amp-primary", onclick: take }, "Note my points");
    after.replaceChildren(
      rich("div", { class: "amp-good-answer" }, answer),
      h("fieldset", { class: "amp-choices" }, h("legend", {}, "Which of these did you say?"), ...rows),
      h("div", { class: "amp-actions" }, save),
    );
    after.focus({ preventScroll: true }); // before the button that had the focus goes
    buttons.hidden = true;
  }

  async function take() {
    try {
      show(await actions.submit(marks.flatMap((box, place) => (box.checked ? [place] : []))));
    } catch (fault) {
      faults.tell("points", fault.message);
    }
  }

  function show(given) {
    if (told) return;
    told = given;
    buttons.hidden = true;
    for (const box of marks) box.disabled = true;
    after.append(h("p", { class: "amp-result" }, given.text));
    after.focus({ preventScroll: true });
    after.querySelector(".amp-actions")?.remove();
  }

  return { node, show, focus: () => button.focus() };
}

// A task that is solved in a cell of its own. `actions.submit()` looks at what its check said.
export function taskBox(question, heading, actions) {
  const faults = faultLine();
  const result = h("p", { class: "amp-result", "aria-live": "polite" });
  const button = control("button", { type: "button", class: "amp-primary", onclick: take }, "I have run its check");
  const buttons = h("div", { class: "amp-actions" }, button);
  const how = h("p", { class: "amp-note" }, question.howTo);
  const node = titled(heading, ...reading(question), how, buttons, faults.node, result);

  async function take() {
    faults.tell("check", null);
    try {
      show(await actions.submit([]));
    } catch (fault) {
      faults.tell("check", fault.message);
    }
  }

  function show(given) {
    buttons.hidden = true;
    result.textContent = given.text;
  }

  return { node, show, focus: () => button.focus() };
}

// ---- the verdict --------------------------------------------------------------------------------

function verdictParts(question, told, actions) {
  const word = told.given === null ? (told.result ?? "The answer") : told.right ? "✓ Right" : "✗ Not right";
  const tone = told.given === null ? "" : told.right ? "amp-right" : "amp-wrong";
  const parts = [h("p", { class: `amp-result ${tone}` }, word)];
  for (const remark of told.remarks) parts.push(remarkBox(remark, told));
  if (question.form === "order" && !told.right && told.lines) {
    const lines = told.lines.map((markup) => rich("li", {}, markup));
    parts.push(h("p", { class: "amp-heading" }, "A right order"), h("ol", {}, ...lines));
  }
  parts.push(rich("p", { class: "amp-note" }, `Source: ${told.source}`));
  if (question.proved && actions.proof) parts.push(proofBox(actions));
  return parts;
}

// A choice is named by its number: its text still stands above.
function remarkBox({ role, name, answer, text }, told) {
  const node = h("div", { class: `amp-remark amp-remark-${role}` });
  const word = name ? `${name}: ${role === "wrong" ? "not right" : "right"}` : ROLES[role];
  const isTheAnswer = role === "right" && told.remarks.length === 1;
  if (word && !isTheAnswer) node.append(h("p", { class: "amp-heading" }, word));
  if (answer && !name) node.append(rich("div", { class: "amp-remark-answer" }, answer));
  node.append(rich("div", {}, text));
  return node;
}

function proofBox({ proof, run }) {
  const place = h("div", { class: "amp-proof" });
  const button = control("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "Show the proof");
  async function toggle() {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", open ? "false" : "true");
    button.textContent = open ? "Show the proof" : "Hide the proof";
    place.replaceChildren();
    if (!open) place.append(...proofParts(await proof(), run));
  }
  return h("div", {}, h("div", { class: "amp-actions" }, button), place);
}

function proofParts({ markup, text }, run) {
  const output = h("div", { "aria-live": "polite" });
  const copy = control("button", { type: "button", onclick: copyIt }, "Copy");
  async function copyIt() {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  }
  async function runIt() {
    output.replaceChildren(h("p", { class: "amp-note" }, "Running…"));
    output.replaceChildren(scrollBox(h("pre", {}, await run()), "What the proof prints"));
  }
  const buttons = [copy];
  if (run) buttons.push(control("button", { type: "button", onclick: runIt }, "Run it here"));
  return [codeBox(markup, "Proof"), h("div", { class: "amp-actions" }, ...buttons), output];
}

// Page of the set-up: shows the step, and holds its dead-man button.
//
// The button is released when the finger or key goes up, the page is hidden or loses the focus, its timer is delayed, or the beats of
// the set-up stop. Each press has a number: the set-up follows no reading of a press that has ended.

import { Plot, SPAN_S } from "./plot.js";
import { Link } from "./link.js";

const $ = (id) => document.getElementById(id);
const PERIOD_MS = 40, STALL_MS = 200, DEAF_MS = 3000, MOST_SAMPLES = 620;
const NAMES = { begin: "Begin", finish: "Done", write: "Write into the profile", again: "Again", skip: "Skip this step", end: "End the set-up" };
const KEYS = { Space: "drive", ArrowLeft: "left", ArrowRight: "right" };

let over = false, receivedAt = 0, noteTimer = null;
let state = null, mine = false, free = true, samples = [], dirty = false, shownTurn = -1, answered = new Set();
let leaseMs = 300, beat = 0, beatAt = 0, n = 0, press = 0, key = "", pointer = null, before = 0, held = null;

const link = new Link({ onMessage, onLost: () => { letGo(); mine = false; show(); }, note });

function send(message) { if (link.open) link.send(message, { request: true }); }

// A stop is sent in any case, also after the connection has come back.
function stop() {
  letGo();
  link.send({ do: "stop" }, { request: true, stops: true });
}

function onMessage(message) {
  receivedAt = performance.now();
  switch (message.k) {
    case "hello": hello(message); break;
    case "tick": tick(message); break;
    case "beat": beat = message.b; beatAt = receivedAt; break;
    case "control": if (mine && !message.mine) letGo(); mine = message.mine; free = message.free; show(); break;
    case "note": note(message.text); break;
    case "over": over = link.final = true; letGo(); note("The set-up has ended."); break;
    case "displaced": letGo(); break;
  }
}

function hello(message) {
  n = 0; press = 0; leaseMs = message.lease_ms; samples = message.samples;
  $("lines").textContent = "";
  makePlots();
  take(message);
  link.begun();
  // The first page takes control; a page never takes it from another without its button.
  setTimeout(() => { if (free && !mine) send({ do: "take" }); }, 0);
}

function tick(message) {
  if (message.sample) {
    if (samples.length && message.sample[0] < samples.at(-1)[0]) samples = [];
    samples.push(message.sample);
    while (samples.length > MOST_SAMPLES || samples[0][0] < message.sample[0] - SPAN_S - 1) samples.shift();
  }
  take(message);
  dirty = true;
}

function take(message) {
  const lines = $("lines");
  if (message.lines.length) { lines.append(`${message.lines.join("\n")}\n`); lines.scrollTop = lines.scrollHeight; }
  if (state && state.step !== message.step) samples = [];
  state = message;
  if (held && !state.drives) letGo();
  show();
}

function makePlots() {
  $("plots").replaceChildren();
  plots = [
    new Plot($("plots"), "Servo", "command, left positive", [{ name: "steering", index: 1, colour: "--c1" }], { least: 1 }),
    new Plot($("plots"), "Throttle and brake", "normalised", [{ name: "throttle", index: 2, colour: "--c3" }, { name: "brake", index: 3, colour: "--bad" }], { least: 1 }),
    new Plot($("plots"), "Wheel speed", "m/s, forward positive", [{ name: "speed", index: 4, colour: "--c1" }], { least: 0.5 }),
    new Plot($("plots"), "Gyro", "rad/s, body axes", [{ name: "x", index: 5, colour: "--c2" }, { name: "y", index: 6, colour: "--c3" }, { name: "z", index: 7, colour: "--c1" }], { least: 0.5 }),
  ];
}
let plots = [];

function text(id, value) { if ($(id).textContent !== value) $(id).textContent = value; }
function element(tag, content, name = "") { return Object.assign(document.createElement(tag), { textContent: content, className: name }); }

function show() {
  if (!state) return;
  const list = state.stage === "checklist";
  text("step", list ? "checklist" : state.step ?? "setup");
  text("title", list ? "the steps are over" : state.title ?? "");
  text("motion", list ? "" : [state.motion, state.motor && `motor ${state.motor}`].filter(Boolean).join(", "));
  text("do", state.do ?? "");
  text("status", state.status ?? "");
  const warning = { drives: "THE VEHICLE DRIVES in this step, while you hold the button and no longer.", "wheels off the ground": "THE WHEELS TURN in this step: they must touch nothing." }[state.motion];
  $("warning").hidden = !warning; text("warning", warning ?? "");
  $("control").hidden = mine;
  text("control-say", free ? "No page is in control." : "Another page is in control.");
  $("hold").hidden = !(mine && state.drives);
  for (const button of document.querySelectorAll(".hold")) {
    button.hidden = state.jogs ? button.dataset.key === "drive" : button.dataset.key !== "drive";
    button.classList.toggle("held", key === button.dataset.key);
  }
  text("held", state.held ? "HELD: it moves" : state.drives ? "released: nothing moves" : "nothing moves");
  question();
  if (state.turn !== shownTurn || $("choices").dataset.mine !== String(mine)) {
    shownTurn = state.turn;
    $("choices").dataset.mine = String(mine);
    choices();
    result();
    checklist();
    const answer = $("answer");
    answer.value = state.question?.usual ?? "";
  }
  steps();
}

function choices() {
  $("choices").replaceChildren(...state.choices.map((choice, k) => {
    const button = element("button", state.stage === "checklist" ? "Finish" : choice === "finish" && state.jogs ? "This is the end of its way" : NAMES[choice], k === 0 ? "first" : "");
    button.type = "button"; button.dataset.choice = choice; button.disabled = !mine;
    // Not on the click of a key that repeats: the space bar is the dead-man button.
    button.addEventListener("click", () => { letGo(); send({ do: "choose", choice, turn: state.turn }); });
    return button;
  }));
}

function question() {
  const asked = state.question;
  $("question").hidden = !asked || !mine;
  if (!asked) return;
  text("question-text", asked.text);
  const options = Object.entries(asked.options);
  $("answer").hidden = $("answer-send").hidden = options.length > 0;
  if ($("options").dataset.turn === String(state.turn)) return;
  $("options").dataset.turn = state.turn;
  $("options").replaceChildren(...options.map(([key, meaning]) => {
    const button = element("button", meaning);
    button.type = "button"; button.dataset.answer = key;
    button.addEventListener("click", () => answer(key));
    return button;
  }));
}

function answer(value) { send({ do: "answer", text: value.slice(0, 20), turn: state.turn }); }

function result() {
  const found = state.result;
  $("p-result").hidden = !found;
  if (!found) return;
  text("h-result", found.failure ? "Not measured" : "Found");
  $("wrong").hidden = !found.wrong;
  $("found").replaceChildren(...(found.failure ? [found.failure] : found.found).map((each) => element("li", each)));
  const values = found.values ?? [];
  $("values").hidden = !values.length;
  $("values").tBodies[0].replaceChildren(...values.map((row) => { const line = document.createElement("tr"); line.append(...row.map((each) => element("td", each))); return line; }));
  $("h-diff").hidden = $("diff").hidden = !found.diff;
  $("diff").replaceChildren(...(found.diff ?? "").split("\n").map((line) => element("span", `${line}\n`, line.startsWith("+") ? "add" : line.startsWith("-") ? "cut" : "")));
}

function checklist() {
  const items = state.checklist ?? [];
  $("p-checklist").hidden = !items.length;
  const all = () => { $("first-lap").hidden = items.some((item, k) => item.state === "ask" && !answered.has(k)); };
  $("checklist").replaceChildren(...items.map((item, k) => {
    const line = element("li", "", item.state);
    if (item.state !== "ask") { line.textContent = `${item.state === "ok" ? "ok" : "LOOK"}: ${item.text}`; return line; }
    const label = element("label", "", "check"), box = Object.assign(document.createElement("input"), { type: "checkbox", checked: answered.has(k) });
    box.addEventListener("change", () => { if (box.checked) answered.add(k); else answered.delete(k); all(); });
    label.append(box, item.text);
    line.append(label);
    return line;
  }));
  text("commands", (state.commands ?? []).join("\n"));
  if (items.length) all();
}

function steps() {
  const rows = state.steps.map((step) => {
    const line = element("li", `${step.name}: ${step.title} `);
    if (step.state === "now") line.setAttribute("aria-current", "step");
    line.append(element("small", [step.motion, step.state, step.note].filter(Boolean).join(", ")));
    return line;
  });
  if (rows.map((row) => row.textContent).join() !== $("steps").dataset.text) {
    $("steps").dataset.text = rows.map((row) => row.textContent).join();
    $("steps").replaceChildren(...rows);
  }
}

// ---------------------------------------------------------------- dead-man button

function hold(wanted, event = null) {
  if (!mine || !state?.drives || key || (event && event.pointerType === "mouse" && event.button !== 0)) return;
  if (event) { event.preventDefault(); event.target.setPointerCapture(event.pointerId); pointer = event.pointerId; }
  key = wanted; press += 1; before = performance.now(); held = setInterval(beatHold, PERIOD_MS);
  report(); show();
}

function beatHold() {
  const now = performance.now(), slept = now - before > STALL_MS;
  before = now;
  // After a delay of the page, or without beats, nobody knows what is held.
  if (slept || now - beatAt > leaseMs || document.hidden || !document.hasFocus()) { letGo(); return; }
  report();
}

function letGo() {
  clearInterval(held); held = null;
  pointer = null;
  if (!key) return;
  key = "";
  report(); show();
}

function report() { n += 1; send({ do: "hold", key, press, n, beat }); }

for (const button of document.querySelectorAll(".hold")) {
  button.addEventListener("pointerdown", (event) => hold(button.dataset.key, event));
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(name, (event) => { if (event.pointerId === pointer) letGo(); });
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  // iOS treats a long press as selecting or scrolling.
  for (const name of ["touchstart", "touchmove"]) button.addEventListener(name, (event) => event.preventDefault(), { passive: false });
}
for (const name of ["blur", "pagehide", "freeze"]) window.addEventListener(name, letGo);
document.addEventListener("visibilitychange", () => { if (document.hidden) letGo(); dirty = true; });
window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
  if (event.code === "Escape") { stop(); return; }
  const wanted = KEYS[event.code];
  if (!wanted || !state?.drives) return;
  event.preventDefault();
  if (!event.repeat && (wanted === "drive") !== state.jogs) hold(wanted);
});
window.addEventListener("keyup", (event) => {
  if (KEYS[event.code] && state?.drives) event.preventDefault();
  if (key && KEYS[event.code] === key && pointer === null) letGo();
});

$("stop").addEventListener("click", stop);
$("take").addEventListener("click", () => send({ do: "take" }));
$("question").addEventListener("submit", (event) => { event.preventDefault(); answer($("answer").value); });
function note(value) {
  clearTimeout(noteTimer);
  $("note").hidden = !value; $("note").textContent = value;
  if (value && !over && !link.displaced) noteTimer = setTimeout(() => { $("note").hidden = true; }, 8000);
}

function age() {
  const silent = receivedAt ? performance.now() - receivedAt : 0;
  if (link.open && silent > DEAF_MS) link.giveUp();
  document.body.classList.toggle("stale", !link.open || silent > 1000);
  text("link", link.needsToken ? "needs a token" : over ? "ended" : link.displaced ? "displaced" : !link.open ? "not connected" : silent > 1000 ? `no data for ${(silent / 1000).toFixed(1)} s` : mine ? "in control" : "looking on");
}

function paint() {
  if (dirty && !document.hidden) {
    dirty = false;
    for (const plot of plots) plot.draw(samples);
  }
  requestAnimationFrame(paint);
}

setInterval(age, 100);
link.connect();
paint();

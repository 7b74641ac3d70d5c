// Connects to the server and distributes its messages. Old data is greyed out, with its age.

import { Link, keepInSight } from "./link.js";
import { Teleop } from "./teleop.js";
import { MapView } from "./map.js";
import { Panels } from "./panels.js";
import { Plot, SPAN_S } from "./plot.js";

const $ = (id) => document.getElementById(id);
const STALE_S = 1.0, DEAF_MS = 4000, MOST_SAMPLES = 620;

const map = new MapView(), panels = new Panels();
const teleop = new Teleop(send);
const link = new Link({ onMessage, onLost: () => teleop.lost(), note });
let samples = [], facts = null, plots = [], dirty = false;
let receivedAt = 0, silentS = 0, lastN = 0, dropped = 0, over = false, noteTimer = null;

// A stop waits for a lost connection, a request for control does not.
function send(message, request = false) { link.send(message, { request, stops: request && message.action !== "teleop" }); }

function onMessage(message) {
  receivedAt = performance.now();
  switch (message.k) {
    case "hello": begin(message); break;
    case "tick": tick(message); break;
    case "beat": teleop.onBeat(message.b); break;
    case "control": teleop.control(message); break;
    case "note": note(message.text); break;
    case "over": over = true; note("The run has ended."); break;
  }
}

function begin(hello) {
  lastN = 0; over = false;
  const fresh = !facts || facts.session !== hello.facts.session;
  facts = hello.facts;
  if (fresh) { dropped = 0; note(""); }
  samples = hello.history.plot;
  panels.begin(hello);
  map.begin(facts, hello.history.trail);
  teleop.begin(hello);
  makePlots();
  if (hello.state) state(hello.state);
  link.begun();
}

function makePlots() {
  $("plots").replaceChildren();
  const tasks = facts.tasks.map((task, k) => ({ name: task.name, index: 7 + k, colour: ["--c1", "--c2", "--c3", "--c4"][k % 4] }));
  const shortest = Math.min(...facts.tasks.map((task) => task.deadline_ms));
  plots = [
    new Plot($("plots"), "Speed", "m/s", [{ name: "estimated", index: 1, colour: "--c1" }, { name: "target", index: 2, colour: "--c2", dashed: true }], { least: 1 }),
    new Plot($("plots"), "Cross-track error", "m, left positive", [{ name: "cross-track", index: 3, colour: "--c1" }],
      { least: 0.1, places: 3, limits: () => (samples.some((s) => s[3] != null && Math.abs(s[3]) > 0.4 * facts.corridor_m) ? [facts.corridor_m, -facts.corridor_m] : []) }),
    new Plot($("plots"), "Wheel angle", "rad, left positive", [{ name: "commanded", index: 4, colour: "--c1" }], { least: 0.2, places: 3 }),
    new Plot($("plots"), "Throttle and brake", "normalised", [{ name: "throttle", index: 5, colour: "--c3" }, { name: "brake", index: 6, colour: "--bad" }], { least: 1 }),
    new Plot($("plots"), "Longest response", "ms, dotted: shortest deadline", tasks, { least: 1, zero: true, limits: () => [shortest] }),
  ];
}

function tick(message) {
  if (!facts) return;
  if (lastN && message.n > lastN + 1) dropped += message.n - lastN - 1;
  lastN = message.n; silentS = message.silent_s;
  if (message.plot) {
    samples.push(message.plot);
    if (samples.length > MOST_SAMPLES) samples.splice(0, samples.length - MOST_SAMPLES);
    const start = message.plot[0] - SPAN_S - 1;
    while (samples.length && samples[0][0] < start) samples.shift();
  }
  map.add(message.trail, message.now);
  if (message.state) state(message.state);
  panels.now(message.now);
  panels.log(message.log);
  if (message.tasks) panels.deadlines(message.tasks);
  dirty = true;
}

function state(newest) { panels.state(newest); teleop.state(newest.status); }

function note(text) {
  clearTimeout(noteTimer);
  $("note").hidden = !text; $("note").textContent = text;
  if (text && !over && !link.displaced) noteTimer = setTimeout(() => { $("note").hidden = true; }, 8000);
}

// Data is as old as the daemon's last message, whether the daemon or the network is silent.
function age() {
  const silent = receivedAt ? (performance.now() - receivedAt) / 1000 : 0, connected = link.open;
  if (connected && silent * 1000 > DEAF_MS) link.giveUp();
  const old = silentS + silent, stale = !connected || !facts || old > STALE_S;
  document.body.classList.toggle("stale", stale);
  const lost = dropped ? `, ${dropped} updates dropped` : "";
  $("link").textContent = link.needsToken ? "needs a token" : !facts ? "connecting" : over ? "run ended" : link.displaced ? "displaced" : !connected ? `not connected, no data for ${old.toFixed(1)} s` : stale ? `no data for ${old.toFixed(1)} s` : `live${lost}`;
}

function paint() {
  if (dirty && !document.hidden) {
    dirty = false;
    map.draw();
    for (const plot of plots) plot.draw(samples);
  }
  requestAnimationFrame(paint);
}

window.addEventListener("resize", () => { dirty = true; });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { dirty = true; });
document.addEventListener("visibilitychange", () => { dirty = true; });
setInterval(age, 100);
keepInSight($("stops"));
link.connect();
paint();

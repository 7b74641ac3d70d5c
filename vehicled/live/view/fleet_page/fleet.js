// All vehicles of a fleet on one map, with an emergency stop for each and for all.

import { colour, digits, step, surface } from "./canvas.js";
import { Link, keepInSight } from "./link.js";

const $ = (id) => document.getElementById(id);
const STALE_S = 1.0, DEAF_MS = 4000, COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5"];
const DRIVES = new Set(["AUTO", "TELEOP", "OFFBOARD", "ALIGN"]);

const link = new Link({ onMessage, note });
let vehicles = [], states = {}, cars = [], carOutline = [0, 0, 0], rows = new Map(), dirty = true, receivedAt = 0, over = false, noteTimer = null;

function onMessage(message) {
  receivedAt = performance.now();
  switch (message.k) {
    case "hello": begin(message.vehicles); break;
    case "tick": states = message.vehicles; cars = message.cars ?? []; carOutline = message.car_outline_m ?? carOutline; show(); break;
    case "stopped": note(message.text); break;
    case "note": note(message.text); break;
    case "over": over = true; note("The run has ended."); break;
  }
}

function emergencyStop(who) { link.send({ do: "emergency_stop", who }, { request: true, stops: true }); }

function begin(facts) {
  over = false; vehicles = facts; rows = new Map();
  $("vehicles").replaceChildren(...vehicles.map((vehicle, k) => {
    const row = document.createElement("li"), head = document.createElement("div"), own = document.createElement("a");
    const mode = document.createElement("span"), speed = document.createElement("span"), why = document.createElement("div"), stop = document.createElement("button");
    vehicle.colour = COLOURS[k % COLOURS.length];
    row.style.borderLeftColor = `var(${vehicle.colour})`;
    head.className = "head"; mode.className = "mode"; speed.className = "speed"; why.className = "why";
    own.textContent = vehicle.name; own.target = "_blank"; own.rel = "noopener";
    own.href = `${location.protocol}//${location.hostname.includes(":") && !location.hostname.startsWith("[") ? `[${location.hostname}]` : location.hostname}:${vehicle.port}/#${encodeURIComponent(link.token)}`;
    own.title = `The page of ${vehicle.name}`;
    stop.type = "button"; stop.textContent = "Emergency stop"; stop.setAttribute("aria-label", `Emergency stop of ${vehicle.name}`);
    stop.addEventListener("click", () => emergencyStop(vehicle.name));
    head.append(own, mode, speed); row.append(head, stop, why);
    rows.set(vehicle.name, { row, mode, speed, why });
    return row;
  }));
  link.begun();
}

function show() {
  let drive = 0;
  for (const [name, { row, mode, speed, why }] of rows) {
    const state = states[name] ?? {}, silent = state.age_s == null || state.age_s > STALE_S;
    if (!silent && DRIVES.has(state.mode)) drive += 1;
    row.classList.toggle("silent", silent);
    mode.textContent = state.mode ?? "no news yet";
    mode.className = `mode ${state.mode === "FAULT" ? "faulty" : state.mode === "STOPPING" ? "stops" : DRIVES.has(state.mode) ? "drives" : "rests"}`;
    speed.textContent = state.speed_mps == null ? "" : `${state.speed_mps.toFixed(2)} m/s`;
    const ago = state.age_s == null ? "" : silent ? `no news for ${state.age_s.toFixed(0)} s; last: ` : "";
    why.textContent = state.mode ? `${ago}${state.stop && state.stop !== state.why ? `${state.why}; last stop: ${state.stop}` : state.why}` : "";
  }
  $("count").textContent = `${drive} of ${vehicles.length} drive`;
  dirty = true;
}

function draw() {
  const on = surface($("map"));
  if (!on || !vehicles.length) return;
  const { context: c, width, height } = on, places = [];
  for (const { course } of vehicles) course.x_m.forEach((x, k) => places.push([x, course.y_m[k]]));
  for (const { name } of vehicles) if (states[name]?.x != null) places.push([states[name].x, states[name].y]);
  const range = (k) => [places.reduce((least, p) => Math.min(least, p[k]), Infinity), places.reduce((most, p) => Math.max(most, p[k]), -Infinity)];
  const [west, east] = range(0), [south, north] = range(1);
  const scale = Math.min((width - 80) / (east - west + 2), (height - 70) / (north - south + 2));
  const x = (e) => width / 2 + (e - (west + east) / 2) * scale, y = (n) => height / 2 - (n - (south + north) / 2) * scale;
  grid(c, width, height, x, y, scale);
  c.lineJoin = "round";
  for (const { course, colour: name } of vehicles) {
    c.beginPath();
    course.x_m.forEach((e, k) => (k ? c.lineTo(x(e), y(course.y_m[k])) : c.moveTo(x(e), y(course.y_m[k]))));
    if (course.closed) c.closePath();
    c.strokeStyle = colour(name); c.globalAlpha = 0.4; c.lineWidth = 1.5; c.setLineDash([6, 4]); c.stroke(); c.setLineDash([]); c.globalAlpha = 1;
  }
  for (const [e, n, yaw] of cars) {
    const [front, rear, half] = carOutline, grow = Math.max(1, 8 / ((front + rear) * scale));
    c.save(); c.translate(x(e), y(n)); c.rotate(-yaw); c.scale(grow * scale, grow * scale);
    c.fillStyle = colour("--soft"); c.fillRect(-rear, -half, front + rear, 2 * half); c.restore();
  }
  c.font = "600 12px system-ui, sans-serif"; c.textAlign = "left"; c.textBaseline = "bottom";
  for (const { name, outline_m: [front, rear, half], colour: ink } of vehicles) {
    const state = states[name];
    if (state?.x == null) continue;
    // To scale, but never too small to be seen.
    const grow = Math.max(1, 16 / ((front + rear) * scale));
    c.save(); c.translate(x(state.x), y(state.y)); c.rotate(-(state.yaw ?? 0)); c.scale(grow * scale, grow * scale);
    c.beginPath(); c.moveTo(front, 0); c.lineTo(front - 0.6 * half, half); c.lineTo(-rear, half); c.lineTo(-rear, -half); c.lineTo(front - 0.6 * half, -half); c.closePath();
    c.globalAlpha = state.age_s > STALE_S ? 0.4 : 1; c.fillStyle = colour(ink); c.fill(); c.restore();
    c.fillStyle = colour("--ink"); c.fillText(name, x(state.x) + 9, y(state.y) - 7);
  }
}

function grid(c, width, height, x, y, scale) {
  const unit = step(Math.max(width, 300) / scale, Math.max(4, width / 80)), places = digits(unit);
  c.strokeStyle = colour("--rule"); c.fillStyle = colour("--soft"); c.lineWidth = 1; c.font = "11px system-ui, sans-serif";
  const first = (zero) => Math.ceil(zero / unit) * unit;
  c.textAlign = "center"; c.textBaseline = "bottom";
  for (let e = first(-x(0) / scale); x(e) < width; e += unit) {
    c.beginPath(); c.moveTo(x(e), 0); c.lineTo(x(e), height); c.stroke();
    if (x(e) > 44 && x(e) < width - 20) c.fillText((e || 0).toFixed(places), x(e), height - 3);
  }
  c.textAlign = "left"; c.textBaseline = "middle";
  for (let n = first((y(0) - height) / scale); y(n) > 0; n += unit) {
    c.beginPath(); c.moveTo(0, y(n)); c.lineTo(width, y(n)); c.stroke();
    if (y(n) < height - 24 && y(n) > 10) c.fillText((n || 0).toFixed(places), 4, y(n));
  }
}

function note(text) {
  clearTimeout(noteTimer);
  $("note").hidden = !text; $("note").textContent = text;
  if (text && !over && !link.displaced) noteTimer = setTimeout(() => { $("note").hidden = true; }, 8000);
}

function age() {
  const silent = receivedAt ? (performance.now() - receivedAt) / 1000 : 0;
  if (link.open && silent * 1000 > DEAF_MS) link.giveUp();
  const stale = !link.open || !vehicles.length || silent > STALE_S;
  document.body.classList.toggle("stale", stale);
  $("link").textContent = link.needsToken ? "needs a token" : over ? "run ended" : link.displaced ? "displaced" : !vehicles.length ? "connecting" : stale ? `no data for ${silent.toFixed(1)} s` : "live";
}

function paint() {
  if (dirty && !document.hidden) { dirty = false; draw(); }
  requestAnimationFrame(paint);
}

$("stop-all").addEventListener("click", () => emergencyStop("*"));
window.addEventListener("resize", () => { dirty = true; });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { dirty = true; });
document.addEventListener("visibilitychange", () => { dirty = true; });
setInterval(age, 100);
keepInSight($("stops"));
link.connect();
paint();

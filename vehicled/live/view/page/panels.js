// Gauges, failsafe table, deadlines, log and ports. Received strings are inserted as text, never as markup.

const $ = (id) => document.getElementById(id);
const MODES = { AUTO: "drives", TELEOP: "drives", ALIGN: "drives", ARMED: "drives", STANDBY: "rests", INIT: "rests", STOPPING: "stops", FAULT: "faulty" };
const STATES = { force: "active", holds: "holds, not long enough yet", quiet: "inactive", idle: "not monitored now" };
const REACTS = { NONE: "none", WARN: "holds", CAP_SPEED: "holds" };
const WAITS = { ARMED: "driving waits", AUTO: "teleop waits", STOPPING: "the stop does not end" };
const MOST_LINES = 200;

function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  if (name) made.className = name;
  return made;
}

// Replaces only the list items whose text has changed.
function put(list, items) {
  items.forEach((item, k) => {
    const old = list.children[k];
    if (!old) list.append(item);
    else if (old.textContent !== item.textContent || old.className !== item.className) old.replaceWith(item);
  });
  while (list.children.length > items.length) list.lastChild.remove();
}

// Changes only what differs, so that a phone redraws less and a screen reader announces less.
function say(node, text) { if (node.textContent !== text) node.textContent = text; }
function paint(node, name) { if (node.className !== name) node.className = name; }

const number = (value, places, unit = "") => (value == null ? "–" : `${value.toFixed(places)}${unit ? ` ${unit}` : ""}`);
const percent = (value) => (value == null ? "–" : `${(100 * value).toFixed(0)} %`);

class Gauge {
  constructor(parent, name, { wide = false, meter = "" } = {}) {
    this.box = element("div", "", wide ? "gauge wide" : "gauge");
    this.base = this.box.className;
    this.value = element("span", "–");
    this.more = element("small");
    this.box.append(element("b", name), this.value, " ", this.more);
    if (meter) {
      this.meter = element("div", "", meter === "one" ? "meter one" : "meter");
      this.bar = element("i");
      this.meter.append(this.bar);
      this.box.append(this.meter);
    }
    parent.append(this.box);
  }

  set(value, more = "", mood = "") { say(this.value, value); say(this.more, more); paint(this.box, mood ? `${this.base} ${mood}` : this.base); }

  // Fraction from -1 to 1, drawn to the left and right of the middle; or from 0 to 1.
  fill(share, kind = "") {
    const s = Math.max(-1, Math.min(1, share ?? 0));
    const one = this.meter.classList.contains("one");
    this.bar.style.left = one ? "0" : `${50 + 50 * Math.min(s, 0)}%`;
    this.bar.style.width = `${(one ? 100 : 50) * Math.abs(s)}%`;
    paint(this.bar, kind);
  }
}

export class Panels {
  constructor() {
    const gauges = $("gauges");
    const make = (key, name, options) => { this.gauges[key] = new Gauge(gauges, name, options); };
    this.gauges = {};
    make("speed", "speed", { wide: true, meter: "one" });
    make("off", "cross-track error", { meter: "two" });
    make("wheel", "wheel angle", { meter: "two" });
    make("pedal", "throttle and brake", { meter: "two" });
    make("progress", "progress", { meter: "one" });
    make("estimate", "estimate");
    make("gnss", "GNSS");
    make("ages", "age of inputs");
    make("battery", "battery");
    make("controller", "controller");
    make("host", "computer");
    this.facts = null; this.rules = new Map(); this.rows = []; this.lastLine = 0;
    $("matrix-all").addEventListener("toggle", () => this.#matrix());
  }

  begin(hello) {
    this.facts = hello.facts;
    document.title = `${hello.facts.profile} – vehicled`;
    this.rules.clear();
    this.rows = hello.matrix;
    for (const row of hello.matrix) for (const rule of row.rules) this.rules.set(rule.code, { ...rule, row: row.row, fault: row.fault });
    this.standing = [];
    this.#makeMatrix();
    this.lastLine = 0;
    $("log").replaceChildren();
    this.log(hello.history.log);
    const { facts } = hello;
    $("mixed").hidden = !facts.mixed;
    $("mixed").textContent = `Mixed reality: the vehicle also stops for virtual bodies (${facts.mixed}).`;
    const rows = [
      ["profile", `${facts.profile}${facts.simulated ? ", simulated vehicle" : ""}`],
      ["course", `${facts.course.name}, ${facts.course.length_m.toFixed(1)} m`],
      ["estimator", facts.estimator], ["controller", facts.controller], ["log", facts.log ? facts.log.split("/").pop() : "not written"], ["vehicled", facts.version],
    ];
    this.view = element("dd", "–"); this.room = element("dd", "–");
    $("facts").replaceChildren(
      ...rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]),
      element("dt", "memory, disk free"), this.room, element("dt", "this view"), this.view);
  }

  now(now) {
    const g = this.gauges, facts = this.facts, { estimate, control, actuator, gnss, pulse, motor, host } = now;
    const clock = pulse == null ? "" : pulse.clock_us == null ? ", pulses without a second" : `, clock ${pulse.clock_us.toFixed(0)} µs from UTC`;
    const speed = Math.abs(estimate?.v ?? 0), most = Math.min(facts.max_speed_mps, this.status?.speed_cap_mps ?? Infinity);
    // The stopping distance always sets a cap; one that does not limit the speed is not a warning.
    const capped = this.status?.reaction === "CAP_SPEED";
    g.speed.set(number(estimate?.v, 2, "m/s"), `target ${number(control?.target, 2)}, limit ${most.toFixed(2)} m/s${capped ? ", capped" : ""}`, capped || speed > most ? "warn" : "");
    g.speed.fill(speed / facts.max_speed_mps);
    const off = control?.off;
    g.off.set(number(off, 3, "m"), off == null ? "" : off >= 0 ? "left" : "right", Math.abs(off ?? 0) > 0.8 * facts.corridor_m ? "bad" : "");
    g.off.fill(-(off ?? 0) / facts.corridor_m);
    g.wheel.set(number(actuator?.wheel, 3, "rad"), actuator?.wheel == null ? "" : actuator.wheel >= 0 ? "left" : "right");
    g.wheel.fill(-(actuator?.wheel ?? 0) / facts.max_wheel_rad);
    const brakes = (actuator?.brake ?? 0) > 0;
    g.pedal.set(brakes ? percent(actuator.brake) : percent(actuator?.throttle), brakes ? "brake" : "throttle", brakes ? "bad" : "");
    g.pedal.fill(brakes ? -actuator.brake : actuator?.throttle, brakes ? "brake" : "");
    g.progress.set(number(control?.progress, 1, "m"), `of ${facts.course.length_m.toFixed(1)} m`);
    g.progress.fill((control?.progress ?? 0) / facts.course.length_m);
    const sigma = estimate?.ellipse?.[0];
    g.estimate.set(estimate ? estimate.status.toLowerCase() : "none so far", sigma == null ? "" : `sigma ${(100 * sigma).toFixed(1)} cm, ${number(estimate.sigma_yaw, 3)} rad`,
      estimate && estimate.status === "RUNNING" ? "good" : "warn");
    g.gnss.set(gnss ? (gnss.carrier === "none" ? gnss.fix.replace("_", " ") : `RTK ${gnss.carrier}`) : "no data yet",
      gnss ? `${gnss.satellites} satellites${gnss.correction_s == null ? "" : `, corrections ${gnss.correction_s.toFixed(1)} s`}${clock}` : "", gnss?.carrier === "fixed" ? "good" : "warn");
    const [gnssAge, imuAge, wheelAge] = actuator?.ages ?? [];
    const age = (value) => (value == null ? "–" : value.toFixed(0));
    g.ages.set(`${age(gnssAge)} / ${age(imuAge)} / ${age(wheelAge)} ms`, "GNSS / IMU / wheels");
    g.battery.set(number(motor?.volts, 1, "V"), motor ? `${number(motor.amperes, 1, "A")}, ${number(motor.celsius, 0, "°C")}${motor.fault ? `, fault ${motor.fault}` : ""}` : "no telemetry", motor?.fault ? "bad" : "");
    g.controller.set(control ? control.level.replace("_", " ") : "–", control && control.reason !== "none" ? control.reason.replace("_", " ") : "", control && control.level !== "primary" ? "warn" : "");
    g.host.set(host ? `${percent(host.cpu)} busy` : "–", host ? `${host.celsius == null ? "" : `${host.celsius.toFixed(0)} °C`}${host.throttled ? " throttled" : ""}` : "", host?.throttled ? "bad" : "");
    say(this.room, host ? `${percent(host.memory_free)}, ${percent(host.disk_free)}` : "–");
  }

  state(state) {
    this.status = state.status;
    const { status } = state;
    say($("mode"), status.mode);
    paint($("mode"), `mode ${MODES[status.mode] ?? ""}`);
    say($("why"), status.why);
    this.standing = state.rules;
    this.#stoppers(status);
    this.#nearest();
    this.#matrix();
    const list = $("ports");
    if (list.children.length !== status.ports.length) list.replaceChildren(...status.ports.map(() => element("li")));
    status.ports.forEach((port, k) => {
      const item = list.children[k];
      paint(item, port.state === "OPENED" ? "" : "bad");
      say(item, port.state === "OPENED" ? port.name : `${port.name} ${port.state.toLowerCase()}: ${port.detail}`);
    });
    this.#rc(status.rc);
    say(this.view, `${(100 * state.view.share).toFixed(2)} % of the loop's time, longest ${(state.view.longest_us / 1000).toFixed(2)} ms${state.view.dropped ? `, ${state.view.dropped} dropped` : ""}`);
  }

  // The RC handset: who has control, the radio link, and the channels in the receiver's own units.
  #rc(rc) {
    const line = $("rc");
    line.hidden = !rc;
    if (!rc) return;
    const link = rc.link_quality == null ? "" : `, link ${percent(rc.link_quality)}${rc.rssi_dbm == null ? "" : ` at ${rc.rssi_dbm.toFixed(0)} dBm`}`;
    const what = !rc.alive ? `lost: ${rc.trouble}` : rc.killed ? "kill switch on" : rc.control ? "has control" : "lets others drive";
    const channels = rc.channels.map((value, k) => `${k + 1}: ${value == null ? "–" : value.toFixed(0)}`).join("  ");
    paint(line, `rc ${rc.killed || (!rc.alive && rc.required) ? "bad" : ""}`);
    say(line, `RC handset ${what}${link}. Channels ${channels || "none"}`);
  }

  deadlines(tasks) {
    const body = $("deadlines").tBodies[0];
    if (body.children.length !== tasks.length) {
      body.replaceChildren(...this.facts.tasks.map((facts) => {
        const row = element("tr");
        row.append(element("td", facts.name), element("td", facts.rate_hz.toFixed(0), "n"), ...Array.from({ length: 3 }, () => element("td", "–", "n")), element("td", facts.deadline_ms.toFixed(1), "n"));
        const cell = element("td"), share = element("div", "", "share");
        share.append(element("i"));
        cell.append(share);
        row.append(cell, element("td", "0", "n"));
        return row;
      }));
    }
    const causes = [];
    tasks.forEach((task, k) => {
      const cells = body.children[k].children, limit = this.facts.tasks[k].deadline_ms;
      [task.p50_ms, task.p99_ms, task.max_ms].forEach((value, n) => say(cells[2 + n], number(value, 2)));
      this.#share(cells[6].firstChild.firstChild, (task.max_ms ?? 0) / limit);
      const total = this.status?.deadlines[k];
      say(cells[7], total ? `${total.misses}${total.skips ? ` + ${total.skips}` : ""}` : "–");
      if (task.cause) causes.push(`${task.task}: ${task.cause}`);
    });
    say($("deadline-say"), causes.length ? `Last cause of a miss: ${causes.join("; ")}. The number after + counts skipped releases.` : "None missed since this view began. Missed: since the daemon started.");
  }

  log(lines) {
    const list = $("log");
    for (const [n, t, level, text, key] of lines) {
      if (n <= this.lastLine) continue;
      this.lastLine = n;
      const item = element("li", "", level === "mode" ? "mode-line" : level);
      // A line that counts on takes the place of the one before.
      if (key && list.firstChild?.dataset.key === key) list.firstChild.remove();
      item.dataset.key = key;
      item.append(element("time", t.toFixed(1)), element("span", text));
      list.prepend(item);
    }
    while (list.children.length > MOST_LINES) list.lastChild.remove();
  }

  #stoppers(status) {
    const items = [];
    const add = (kind, tag, head, text) => {
      const item = element("li", "", kind);
      if (tag) item.append(element("span", tag, "tag"), " ");
      item.append(element("b", head), text ? `: ${text}` : "");
      items.push(item);
    };
    for (const [code, state, , , said, reaction] of this.standing) {
      if (state === "force") add(reaction >= "S2" ? "force" : "holds", reaction, code, said);
      if (state === "holds") add("holds", reaction, `${code}, if it lasts`, said);
    }
    for (const text of status.waiting_for) add("waits", "", WAITS[status.mode] ?? "arming waits", text);
    if (!items.length) add("none", "", ["AUTO", "TELEOP", "ALIGN"].includes(status.mode) ? "None: no rule holds" : "All arming checks pass", "");
    put($("stoppers"), items);
    $("substitutes-all").hidden = !status.substitutes.length;
    say($("substitutes-count"), String(status.substitutes.length));
    put($("substitutes"), status.substitutes.map((text) => element("li", text)));
    const chain = ["AUTO", "TELEOP", "ALIGN", "ARMED"].includes(status.mode) ? [] : status.chain;
    $("chain-head").hidden = !chain.length;
    put($("chain"), chain.map((link) => {
      const item = element("li", "", REACTS[link.reaction] ?? "force");
      item.append(element("b", `${link.ago_s.toFixed(1)} s ago, ${link.code}`), `: ${link.reason}`);
      return item;
    }));
  }

  #closeness([code, , value, limit]) {
    if (value == null || limit == null || (limit <= 0 && value <= 0)) return null;
    // A value that must stay above its limit is near it within 25 % above.
    const share = this.rules.get(code)?.under ? Math.max(0, 1 - 4 * (value / Math.max(limit, 1e-9) - 1)) : value / Math.max(limit, 1e-9);
    return Number.isFinite(share) ? share : null;
  }

  #share(bar, share) {
    bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
    paint(bar, share > 1 ? "over" : share > 0.7 ? "near" : "");
  }

  #nearest() {
    // While disarmed few rules are monitored; the others follow in grey.
    const idle = (rule) => (rule[1] === "idle" ? 1 : 0);
    const shown = this.standing.filter((rule) => this.#closeness(rule) != null)
      .sort((a, b) => idle(a) - idle(b) || this.#closeness(b) - this.#closeness(a)).slice(0, 6);
    const body = $("nearest").tBodies[0];
    while (body.children.length < shown.length) {
      const row = element("tr"), cell = element("td"), share = element("div", "", "share");
      share.append(element("i"));
      cell.append(share);
      row.append(element("td"), element("td"), element("td", "", "n"), element("td", "", "n"), cell);
      body.append(row);
    }
    while (body.children.length > shown.length) body.lastChild.remove();
    shown.forEach((rule, k) => {
      const [code, state, value, limit] = rule, { unit, reaction } = this.rules.get(code), cells = body.children[k].children;
      paint(body.children[k], state);
      say(cells[0], broken(code)); say(cells[1], reaction); say(cells[2], plain(value)); say(cells[3], `${plain(limit)} ${unit}`);
      this.#share(cells[4].firstChild.firstChild, this.#closeness(rule));
    });
  }

  #makeMatrix() {
    const body = $("matrix").tBodies[0];
    body.replaceChildren();
    this.cells = new Map();
    for (const row of this.rows) {
      const rules = row.rules.length ? row.rules : [null];
      rules.forEach((rule, k) => {
        const line = element("tr"), fault = element("td");
        if (k === 0) fault.append(element("span", row.fault));
        if (rule) fault.append(element("small", broken(rule.code)));
        const value = element("td", "", "n"), limit = element("td", "", "n"), stands = element("td");
        if (!rule) stands.append(`reaction by: ${row.outside}`);
        line.append(element("td", k === 0 ? String(row.row) : ""), fault, element("td", rule ? rule.reaction : ""), value, limit, stands);
        body.append(line);
        if (rule) this.cells.set(rule.code, { line, value, limit, stands });
      });
    }
  }

  #matrix() {
    if (!$("matrix-all").open || !this.standing) return;
    for (const [code, state, value, limit, said, , words] of this.standing) {
      const cells = this.cells.get(code), rule = this.rules.get(code);
      if (!cells || !rule) continue;
      paint(cells.line, state);
      say(cells.value, value == null ? words ?? "" : plain(value));
      say(cells.limit, limit == null ? "" : `${rule.under ? "> " : ""}${plain(limit)} ${rule.unit}`);
      say(cells.stands, said ? `${STATES[state]}: ${said}` : STATES[state]);
    }
  }
}

// Let codes break after each underscore.
function broken(code) { return code.replaceAll("_", "_\u200b"); }

function plain(value) {
  const size = Math.abs(value);
  return value.toFixed(Number.isInteger(value) ? 0 : size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

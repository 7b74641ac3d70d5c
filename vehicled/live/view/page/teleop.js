// Teleop. The present reading is sent 25 times a second while this page is in control.
//
// The deadman is a finger on the pad, or the space bar. It is released when the finger or key goes up, the page is hidden or loses
// the focus, the timer is delayed, or the daemon's beats stop. It must then be pressed again.

const $ = (id) => document.getElementById(id);
const PERIOD_MS = 40, STALL_MS = 250, REACH_PX = 85, KEY_PER_S = 1.6;
const KEYS = { ArrowUp: "up", KeyW: "up", ArrowDown: "down", KeyS: "down", ArrowLeft: "left", KeyA: "left", ArrowRight: "right", KeyD: "right" };

export class Teleop {
  constructor(send) {
    this.send = send;
    this.enabled = this.inControl = false;
    this.origin = this.holder = this.mode = "";
    this.silence = 200;
    this.n = 0; this.beat = 0; this.beatAt = 0; this.before = 0;
    this.pointer = null; this.start = [0, 0]; this.keys = new Set(); this.space = false;
    this.steering = this.throttle = this.brake = 0;
    this.timer = null;
    const pad = this.pad = $("pad");
    pad.addEventListener("pointerdown", (event) => this.#press(event));
    pad.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) pad.addEventListener(name, (event) => { if (event.pointerId === this.pointer) this.letGo(); });
    pad.addEventListener("contextmenu", (event) => event.preventDefault());
    // iOS treats a long press as selecting or scrolling.
    for (const name of ["touchstart", "touchmove"]) pad.addEventListener(name, (event) => event.preventDefault(), { passive: false });
    window.addEventListener("keydown", (event) => this.#key(event, true));
    window.addEventListener("keyup", (event) => this.#key(event, false));
    for (const name of ["blur", "pagehide", "freeze"]) window.addEventListener(name, () => this.letGo());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.letGo(); });
    const actions = { take: "teleop", disarm: "disarm", stop: "stop", emergency: "emergency_stop" };
    for (const [name, action] of Object.entries(actions)) $(`teleop-${name}`).addEventListener("click", () => this.#request(action));
    $("teleop-back").addEventListener("change", () => { if (this.held) this.letGo(); });
  }

  get held() { return this.pointer !== null || this.space; }

  begin(hello) {
    this.enabled = hello.teleop;
    $("p-teleop").hidden = $("stops").hidden = !hello.teleop;
    document.body.classList.toggle("can-stop", hello.teleop);
    this.origin = hello.origin; this.silence = hello.facts.silence_s * 1000;
    this.n = 0; this.beat = 0;
    this.control({ mine: false, holder: hello.holder });
  }

  // Called when another client takes or releases control.
  control({ mine, holder }) {
    this.letGo();
    this.inControl = mine; this.holder = holder;
    clearInterval(this.timer);
    this.timer = mine ? setInterval(() => this.#tick(), PERIOD_MS) : null;
    this.before = performance.now();
    this.#show();
  }

  onBeat(beat) { this.beat = beat; this.beatAt = performance.now(); }

  state(status) {
    if (status.mode !== this.mode) { this.mode = status.mode; this.#show(); }
  }

  lost() { this.control({ mine: false, holder: "" }); }

  letGo() {
    const held = this.held;
    const pointer = this.pointer;
    this.pointer = null; this.space = false; this.keys.clear();
    this.steering = this.throttle = this.brake = 0;
    if (pointer !== null && this.pad.hasPointerCapture(pointer)) this.pad.releasePointerCapture(pointer);
    if (held && this.inControl) this.#report();
    if (held) this.#show();
  }

  #request(action) {
    if (action !== "teleop") this.letGo();
    this.send({ do: "request", action }, true);
  }

  #press(event) {
    if (!this.inControl || this.held || (event.pointerType === "mouse" && event.button !== 0)) return;
    event.preventDefault();
    this.pad.focus({ preventScroll: true });
    this.pad.setPointerCapture(event.pointerId);
    // The point where the finger is put down is neutral.
    this.pointer = event.pointerId; this.start = [event.clientX, event.clientY];
    this.steering = this.throttle = this.brake = 0;
    this.#show();
  }

  #move(event) {
    if (event.pointerId !== this.pointer) return;
    const cut = (value) => Math.max(-1, Math.min(1, value)), rest = (value) => (Math.abs(value) < 0.08 ? 0 : (value - Math.sign(value) * 0.08) / 0.92);
    const up = rest(cut((this.start[1] - event.clientY) / REACH_PX));
    this.steering = rest(cut((this.start[0] - event.clientX) / REACH_PX));
    this.throttle = Math.max(0, up) * ($("teleop-back").checked ? -1 : 1);
    this.brake = Math.max(0, -up);
    this.#knob(event.clientX, event.clientY);
  }

  #key(event, down) {
    if (!this.enabled || event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "BUTTON", "SUMMARY"].includes(event.target.tagName) && event.target.id !== "teleop-back") return;
    if (event.code === "Escape" && down) { this.#request("stop"); return; }
    if (!this.inControl) return;
    if (event.code === "Space") {
      event.preventDefault();
      if (down && !event.repeat && !this.held) { this.space = true; this.#show(); }
      if (!down && this.space) this.letGo();
    } else if (event.code === "KeyR" && down && !event.repeat && !this.throttle) {
      $("teleop-back").checked = !$("teleop-back").checked;
    } else if (KEYS[event.code]) {
      event.preventDefault();
      if (down) this.keys.add(KEYS[event.code]); else this.keys.delete(KEYS[event.code]);
    }
  }

  #tick() {
    const now = performance.now(), slept = now - this.before > STALL_MS;
    const dt = Math.min(now - this.before, STALL_MS) / 1000;
    this.before = now;
    // After a delay of the page, or without beats, the deadman's state is unknown.
    if (this.held && (slept || now - this.beatAt > this.silence)) { this.letGo(); return; }
    if (this.space) this.#drive(dt);
    this.#report();
  }

  // Keys are on or off, so throttle and steering ramp; the brake is immediate.
  #drive(dt) {
    const has = (key) => (this.keys.has(key) ? 1 : 0), side = has("left") - has("right");
    const towards = (value, goal, rate) => (value < goal ? Math.min(goal, value + rate * dt) : Math.max(goal, value - rate * dt));
    this.steering = towards(this.steering, side, side === 0 ? 2 * KEY_PER_S : KEY_PER_S);
    const way = $("teleop-back").checked ? -1 : 1;
    this.throttle = has("down") ? 0 : towards(this.throttle, has("up") * way, has("up") ? KEY_PER_S / 2 : KEY_PER_S);
    this.brake = has("down");
  }

  #report() {
    this.n += 1;
    const held = this.held;
    this.send({ do: "teleop", steering: held ? this.steering : 0, throttle: held ? this.throttle : 0, brake: held ? this.brake : 0, deadman: held, n: this.n, beat: this.beat });
  }

  #knob(x, y) {
    const box = this.pad.getBoundingClientRect(), knob = $("pad-knob");
    knob.hidden = false;
    knob.style.left = `${Math.max(0, Math.min(box.width, x - box.left))}px`;
    knob.style.top = `${Math.max(0, Math.min(box.height, y - box.top))}px`;
  }

  #show() {
    const drives = this.mode === "TELEOP" && this.inControl;
    $("teleop-say").textContent = this.inControl
      ? drives ? "You are driving. Releasing the deadman brakes." : "You are in control: hold the pad, or the space bar, to drive."
      : this.holder ? `${this.holder} is in control.` : "Nobody is in control.";
    $("teleop-who").textContent = this.origin;
    $("teleop-take").disabled = this.inControl || Boolean(this.holder && this.holder !== this.origin);
    this.pad.className = `pad${this.held ? " held" : this.inControl ? " ready" : ""}`;
    $("pad-text").textContent = !this.inControl ? "take control first" : this.held ? "" : "hold here";
    if (!this.held) $("pad-knob").hidden = true;
  }
}

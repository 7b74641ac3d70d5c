// Map: course with its corridor, fence, driven path, estimate with its ellipse, virtual bodies, and in a simulation the ground truth.

import { colour, digits, step, surface } from "./canvas.js";

const SIGMAS = 3, MOST_TRAIL = 4000;

export class MapView {
  constructor() {
    this.canvas = document.getElementById("map");
    this.facts = null; this.trail = []; this.now = {};
    this.scale = 20; this.extent = 0; this.centre = [0, 0]; this.fits = true; this.follows = false;
    this.fingers = new Map();
    const press = (id, act) => document.getElementById(id).addEventListener("click", () => { act(); this.#buttons(); this.draw(); });
    press("map-fit", () => { this.fits = true; this.follows = false; });
    press("map-follow", () => { this.follows = !this.follows; this.fits = false; });
    press("map-in", () => this.#zoom(1.4));
    press("map-out", () => this.#zoom(1 / 1.4));
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#zoom(Math.exp(-event.deltaY * 0.002), event.offsetX, event.offsetY);
      this.#buttons(); this.draw();
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    });
    this.canvas.addEventListener("pointermove", (event) => this.#drag(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) this.canvas.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
    this.#buttons();
  }

  begin(facts, trail) {
    const { x_m: xs, y_m: ys } = facts.course, span = (values) => values.reduce((most, v) => Math.max(most, v), -Infinity) - values.reduce((least, v) => Math.min(least, v), Infinity);
    this.extent = Math.max(span(xs), span(ys));
    this.facts = facts; this.trail = trail; this.fits = true; this.follows = false;
    const keys = [["--c0", "band", `corridor ±${facts.corridor_m.toFixed(2)} m`], ["--c0", "dashed", "course"], ["--c1", "", "driven path"], ["--c1", "ring", `estimate, ${SIGMAS} sigma`]];
    if (facts.simulated) keys.push(["--c2", "ring", "ground truth"]);
    if (facts.mixed) keys.push(["--warn", "", "virtual bodies"]);
    if (facts.fence.length) keys.push(["--bad", "", "fence"]);
    document.getElementById("map-legend").replaceChildren(...keys.map(([name, kind, text]) => {
      const key = document.createElement("span"), mark = document.createElement("i");
      key.className = "key"; mark.className = kind; mark.style.color = `var(${name})`;
      key.append(mark, text);
      return key;
    }));
    this.#buttons(); this.draw();
  }

  add(points, now) {
    this.now = now;
    this.trail.push(...points);
    if (this.trail.length > MOST_TRAIL) this.trail.splice(0, this.trail.length - MOST_TRAIL);
  }

  #buttons() {
    document.getElementById("map-fit").setAttribute("aria-pressed", String(this.fits));
    document.getElementById("map-follow").setAttribute("aria-pressed", String(this.follows));
  }

  #drag(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const at = [event.offsetX, event.offsetY];
    if (this.fingers.size === 1) {
      this.centre = [this.centre[0] - (at[0] - before[0]) / this.scale, this.centre[1] + (at[1] - before[1]) / this.scale];
      if (Math.hypot(at[0] - before[0], at[1] - before[1]) > 0) this.fits = this.follows = false;
    } else if (this.fingers.size === 2) {
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)[1];
      const apart = (place) => Math.max(Math.hypot(place[0] - other[0], place[1] - other[1]), 10);
      this.#zoom(apart(at) / apart(before), other[0], other[1]);
    }
    this.fingers.set(event.pointerId, at);
    this.#buttons(); this.draw();
  }

  #zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const dx = (px - this.canvas.clientWidth / 2), dy = (py - this.canvas.clientHeight / 2);
    const scale = Math.min(Math.max(this.scale * factor, 0.02), 5000);
    if (!this.follows) this.centre = [this.centre[0] + dx / this.scale - dx / scale, this.centre[1] - dy / this.scale + dy / scale];
    this.scale = scale; this.fits = false;
  }

  #fit(width, height) {
    const { course, fence, corridor_m: margin } = this.facts;
    let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
    const take = (x, y) => { west = Math.min(west, x); east = Math.max(east, x); south = Math.min(south, y); north = Math.max(north, y); };
    course.x_m.forEach((x, k) => take(x, course.y_m[k]));
    for (const ring of fence) ring.corners.forEach(([x, y]) => take(x, y));
    if (this.now.estimate && this.now.estimate.x != null) take(this.now.estimate.x, this.now.estimate.y);
    const room = Math.max(margin, 0.5) + 0.5;
    this.scale = Math.min((width - 60) / (east - west + 2 * room), (height - 90) / (north - south + 2 * room));
    // Below the middle, so that the buttons do not cover it.
    this.centre = [(west + east) / 2, (south + north) / 2 + 14 / this.scale];
  }

  draw() {
    const on = surface(this.canvas);
    if (!on || !this.facts) return;
    const { context: c, width, height } = on, estimate = this.now.estimate;
    if (this.fits) this.#fit(width, height);
    if (this.follows && estimate && estimate.x != null) this.centre = [estimate.x, estimate.y];
    const x = (e) => width / 2 + (e - this.centre[0]) * this.scale, y = (n) => height / 2 - (n - this.centre[1]) * this.scale;
    this.#grid(c, width, height, x, y);
    const { course, corridor_m: corridor, fence } = this.facts;
    c.lineJoin = c.lineCap = "round";
    this.#line(c, course.x_m.map((e, k) => [e, course.y_m[k]]), x, y, course.closed);
    c.strokeStyle = colour("--c0");
    // A corridor wider than the course cannot be drawn as a line; everything is inside.
    if (corridor < this.extent / 2) { c.globalAlpha = 0.18; c.lineWidth = Math.max(2 * corridor * this.scale, 2); c.stroke(); c.globalAlpha = 1; }
    c.lineWidth = 1.5; c.setLineDash([6, 4]); c.stroke(); c.setLineDash([]);
    for (const ring of fence) {
      this.#line(c, ring.corners, x, y, true);
      c.strokeStyle = colour("--bad"); c.lineWidth = 2; c.stroke();
      if (ring.keep_out) { c.globalAlpha = 0.15; c.fillStyle = colour("--bad"); c.fill(); c.globalAlpha = 1; }
    }
    if (this.trail.length > 1) {
      this.#line(c, this.trail, x, y, false);
      c.strokeStyle = colour("--c1"); c.lineWidth = 2; c.stroke();
    }
    c.fillStyle = colour("--warn");
    for (const [e, n] of this.now.virtual?.points ?? []) c.fillRect(x(e) - 2, y(n) - 2, 4, 4);
    if (this.now.truth && this.now.truth.x != null) this.#vehicle(c, this.now.truth, x, y, colour("--c2"), false);
    if (estimate && estimate.x != null) {
      this.#vehicle(c, estimate, x, y, colour("--c1"), true);
      if (estimate.ellipse) {
        const [a, b, turn] = estimate.ellipse;
        c.beginPath(); c.ellipse(x(estimate.x), y(estimate.y), Math.max(SIGMAS * a * this.scale, 1), Math.max(SIGMAS * b * this.scale, 1), -turn, 0, 2 * Math.PI);
        c.globalAlpha = 0.2; c.fillStyle = colour("--c1"); c.fill(); c.globalAlpha = 1; c.strokeStyle = colour("--ink"); c.lineWidth = 1; c.stroke();
      }
    }
  }

  #line(c, points, x, y, closed) {
    c.beginPath();
    points.forEach(([e, n], k) => (k ? c.lineTo(x(e), y(n)) : c.moveTo(x(e), y(n))));
    if (closed) c.closePath();
  }

  // To scale, but never too small to be seen; the tip is the front axle.
  #vehicle(c, pose, x, y, ink, filled) {
    const length = Math.max(1.35 * this.facts.wheelbase_m * this.scale, 18), half = 0.3 * length;
    c.save(); c.translate(x(pose.x), y(pose.y)); c.rotate(-(pose.yaw ?? 0));
    c.beginPath(); c.moveTo(length * 0.8, 0); c.lineTo(-length * 0.2, half); c.lineTo(-length * 0.08, 0); c.lineTo(-length * 0.2, -half); c.closePath();
    c.lineWidth = 1.8; c.strokeStyle = filled ? colour("--ground") : ink; c.fillStyle = ink;
    if (filled) c.fill();
    c.stroke(); c.restore();
  }

  #grid(c, width, height, x, y) {
    const unit = step(Math.max(width, 300) / this.scale, Math.max(4, width / 80)), places = digits(unit);
    c.strokeStyle = colour("--rule"); c.fillStyle = colour("--soft"); c.lineWidth = 1; c.font = "11px system-ui, sans-serif";
    const west = this.centre[0] - width / 2 / this.scale, south = this.centre[1] - height / 2 / this.scale;
    c.textAlign = "center"; c.textBaseline = "bottom";
    for (let e = Math.ceil(west / unit) * unit; x(e) < width; e += unit) {
      c.beginPath(); c.moveTo(x(e), 0); c.lineTo(x(e), height); c.stroke();
      if (x(e) > 44 && x(e) < width - 20) c.fillText((e || 0).toFixed(places), x(e), height - 3);
    }
    c.textAlign = "left"; c.textBaseline = "middle";
    for (let n = Math.ceil(south / unit) * unit; y(n) > 0; n += unit) {
      c.beginPath(); c.moveTo(0, y(n)); c.lineTo(width, y(n)); c.stroke();
      if (y(n) < height - 24 && y(n) > 10) c.fillText((n || 0).toFixed(places), 4, y(n));
    }
  }
}

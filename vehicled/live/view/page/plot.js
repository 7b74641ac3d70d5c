// Line plots of the last minute: axes with numbers, dotted limits, gaps in missing data.

export const SPAN_S = 60;

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Steps of 1, 2 or 5 times a power of ten, about `wanted` of them.
export function step(span, wanted) {
  const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
  for (const factor of [1, 2, 5]) if (factor * power >= raw * 0.999) return factor * power;
  return 10 * power;
}

// Scale a canvas to this screen; return its context and size in CSS pixels, or null while it is hidden.
export function surface(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (!width || !height) return null;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function digits(unit) { return Math.max(0, Math.min(4, -Math.floor(Math.log10(unit) + 1e-9))); }

export class Plot {
  // lines: [{name, index, colour, dashed?}] of the samples; limits(): values to mark; least: span of the axis at the least.
  constructor(parent, title, unit, lines, { limits = () => [], least = 1, zero = false, places = 2 } = {}) {
    this.lines = lines; this.limits = limits; this.least = least; this.zero = zero; this.places = places;
    const figure = document.createElement("figure");
    figure.className = "plot";
    const caption = document.createElement("figcaption");
    const name = document.createElement("b");
    name.textContent = title;
    const scale = document.createElement("span");
    scale.className = "unit";
    scale.textContent = unit;
    const legend = document.createElement("span");
    legend.className = "legend";
    this.values = lines.map((line) => {
      const key = document.createElement("span");
      key.className = "key";
      const mark = document.createElement("i");
      mark.style.color = `var(${line.colour})`;
      if (line.dashed) mark.className = "dashed";
      const value = document.createElement("span");
      value.className = "value";
      key.append(mark, `${line.name} `, value);
      legend.append(key);
      return value;
    });
    caption.append(name, scale, legend);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${title} in ${unit} over the last minute: ${lines.map((line) => line.name).join(", ")}`);
    figure.append(caption, this.canvas);
    parent.append(figure);
  }

  draw(samples) {
    const on = surface(this.canvas);
    if (!on) return;
    const { context: c, width, height } = on;
    const newest = samples.length ? samples[samples.length - 1] : null;
    this.lines.forEach((line, k) => {
      const value = newest ? newest[line.index] : null;
      this.values[k].textContent = value == null ? "–" : value.toFixed(this.places);
    });
    // A run shorter than a minute grows from the left.
    const start = newest ? Math.max(newest[0] - SPAN_S, samples[0][0]) : 0, end = start + SPAN_S;
    const marks = this.limits().filter((value) => Number.isFinite(value));
    let low = this.zero ? 0 : Infinity, high = this.zero ? 0 : -Infinity;
    for (const sample of samples) {
      if (sample[0] < start) continue;
      for (const line of this.lines) {
        const value = sample[line.index];
        if (value != null) { low = Math.min(low, value); high = Math.max(high, value); }
      }
    }
    for (const mark of marks) { low = Math.min(low, mark); high = Math.max(high, mark); }
    if (!(high >= low)) { low = 0; high = this.least; }
    if (high - low < this.least) { const more = (this.least - high + low) / 2; high += this.zero ? 2 * more : more; low -= this.zero ? 0 : more; }
    const unit = step(high - low, 3);
    low = Math.floor(low / unit + 1e-9) * unit; high = Math.ceil(high / unit - 1e-9) * unit;
    const left = 44, right = width - 6, top = 6, bottom = height - 17;
    const x = (t) => left + (right - left) * (t - start) / SPAN_S, y = (v) => bottom - (bottom - top) * (v - low) / (high - low);
    c.font = "11px system-ui, sans-serif"; c.lineWidth = 1; c.strokeStyle = colour("--rule"); c.fillStyle = colour("--soft");
    c.textBaseline = "middle"; c.textAlign = "right";
    for (let v = low; v <= high + unit * 1e-6; v += unit) {
      c.beginPath(); c.moveTo(left, y(v)); c.lineTo(right, y(v)); c.stroke();
      c.fillText((Math.abs(v) < unit * 1e-6 ? 0 : v).toFixed(digits(unit)), left - 5, y(v));
    }
    c.textBaseline = "alphabetic"; c.textAlign = "center";
    for (let t = Math.ceil(start / 15) * 15; t <= end; t += 15) {
      if (t < 0) continue;
      c.beginPath(); c.moveTo(x(t), bottom); c.lineTo(x(t), bottom + 3); c.stroke();
      const half = c.measureText(String(t)).width / 2;
      c.fillText(String(t), Math.min(Math.max(x(t), left + half), right - half), height - 3);
    }
    c.strokeStyle = colour("--ink"); c.setLineDash([2, 3]);
    for (const mark of marks) { c.beginPath(); c.moveTo(left, y(mark)); c.lineTo(right, y(mark)); c.stroke(); }
    c.save(); c.beginPath(); c.rect(left, 0, right - left, height); c.clip();
    c.lineWidth = 1.7; c.lineJoin = "round";
    for (const line of this.lines) {
      c.strokeStyle = colour(line.colour); c.setLineDash(line.dashed ? [5, 3] : []);
      c.beginPath();
      let before = null;
      for (const sample of samples) {
        const value = sample[line.index];
        if (value == null || sample[0] < start - 1) { before = null; continue; }
        // Leave gaps open: a line through one would show data that does not exist.
        if (before != null && sample[0] - before < 0.6) c.lineTo(x(sample[0]), y(value)); else c.moveTo(x(sample[0]), y(value));
        before = sample[0];
      }
      c.stroke();
    }
    c.restore(); c.setLineDash([]);
  }
}

// Line plots of the last minute, by uPlot: a shared cursor, dotted limits, gaps in missing data.

import { colour, digits, step } from "./canvas.js";

export const SPAN_S = 60;
const GAP_S = 0.6, HEIGHT = 116;

export class Plot {
  // lines: [{name, index, colour, dashed?}] of the samples; limits(): values to mark; least: span of the axis at the least.
  constructor(parent, title, unit, lines, { limits = () => [], least = 1, zero = false, places = 2 } = {}) {
    this.lines = lines; this.limits = limits; this.least = least; this.zero = zero; this.places = places;
    const made = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });
    this.figure = made("figure", "plot");
    const caption = document.createElement("figcaption"), legend = made("span", "legend");
    this.values = lines.map((line) => {
      const key = made("span", "key"), mark = made("i", line.dashed ? "dashed" : ""), value = made("span", "value");
      mark.style.color = `var(${line.colour})`;
      key.append(mark, `${line.name} `, value);
      legend.append(key);
      return value;
    });
    caption.append(made("b", "", title), made("span", "unit", unit), legend);
    this.figure.append(caption);
    parent.append(this.figure);
    this.plot = new uPlot(this.#options(), [[], ...lines.map(() => [])], this.figure);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", `${title} in ${unit} over the last minute: ${lines.map((line) => line.name).join(", ")}`);
  }

  #options() {
    const axis = { stroke: () => colour("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: () => colour("--rule"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(this.figure.clientWidth, 50), height: HEIGHT, legend: { show: false }, padding: [6, 6, 0, 0],
      cursor: { sync: { key: "minute" }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: false, range: () => this.#span() }, y: { range: (_, low, high) => this.#range(low, high) } },
      axes: [
        { ...axis, size: 20, gap: 3, grid: { show: false }, incrs: [15], space: 20 },
        { ...axis, size: 46, gap: 4, space: 26, values: (_, ticks, __, ___, unit) => ticks.map((v) => v.toFixed(digits(unit))) },
      ],
      series: [{}, ...this.lines.map((line) => ({
        stroke: () => colour(line.colour), width: 1.7, dash: line.dashed ? [5, 3] : [], points: { show: false }, gaps,
      }))],
      hooks: { setCursor: [() => this.#show()], draw: [(u) => this.#marks(u)] },
    };
  }

  // A run shorter than a minute grows from the left.
  #span() {
    const times = this.plot?.data[0] ?? [], start = times.length ? Math.max(times.at(-1) - SPAN_S, times[0]) : 0;
    return [start, start + SPAN_S];
  }

  #range(low, high) {
    for (const mark of this.limits()) if (Number.isFinite(mark)) { low = Math.min(low ?? mark, mark); high = Math.max(high ?? mark, mark); }
    if (this.zero) { low = Math.min(low ?? 0, 0); high = Math.max(high ?? 0, 0); }
    if (low == null) return [0, this.least];
    const more = Math.max(0, this.least - high + low);
    [low, high] = this.zero ? [low, high + more] : [low - more / 2, high + more / 2];
    const unit = step(high - low, 3);
    return [Math.floor(low / unit + 1e-9) * unit, Math.ceil(high / unit - 1e-9) * unit];
  }

  #marks(u) {
    const c = u.ctx, { left, width, top, height } = u.bbox, ratio = window.devicePixelRatio || 1;
    c.save();
    c.strokeStyle = colour("--ink"); c.lineWidth = ratio; c.setLineDash([2 * ratio, 3 * ratio]);
    for (const mark of this.limits()) {
      const y = u.valToPos(mark, "y", true);
      if (y < top || y > top + height) continue;
      c.beginPath(); c.moveTo(left, y); c.lineTo(left + width, y); c.stroke();
    }
    c.restore();
  }

  // The values at the cursor, the newest ones without it.
  #show() {
    const u = this.plot, at = u?.cursor.idx ?? (u ? u.data[0].length - 1 : -1);
    this.lines.forEach((_, k) => {
      const value = at < 0 ? null : u.data[k + 1][at], text = value == null ? "–" : value.toFixed(this.places);
      if (this.values[k].textContent !== text) this.values[k].textContent = text;
    });
  }

  draw(samples) {
    const width = this.figure.clientWidth;
    if (!width) return;
    if (width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    this.plot.setData([samples.map((s) => s[0]), ...this.lines.map((line) => samples.map((s) => s[line.index]))]);
    this.#show();
  }
}

// Leave gaps open: a line through one would show data that does not exist.
function gaps(u, series, first, last, missing) {
  const times = u.data[0], values = u.data[series], found = [...missing];
  for (let i = Math.max(first, 0) + 1; i <= last; i++) {
    if (times[i] - times[i - 1] >= GAP_S && values[i] != null) found.push([u.valToPos(times[i - 1], "x", true), u.valToPos(times[i], "x", true)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}

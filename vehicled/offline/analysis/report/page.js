"use strict";
// A shared cursor and zoom for the panels along the time axis. Without this the page is the same, standing still.
// Wide views show the columns that the page was drawn with, close ones the single samples of the data block.
(() => {
  const body = document.body, COLUMNS = +body.dataset.columns, START = +body.dataset.start, SPAN = +body.dataset.span;
  const plots = [...document.querySelectorAll("#time svg.plot")];
  if (!plots.length) return;
  body.classList.add("live");
  let from = 0, to = COLUMNS, at = null, drag = null;
  const LONG = START + SPAN >= 120, NEAR = COLUMNS / 16, LEAST_S = 1e-4, MOST_TICKS = 2500, MOST_DOTS = 400;
  const SVG = plots[0].namespaceURI;
  let samples = null, close = false;
  const seconds = column => START + column / COLUMNS * SPAN;
  const short = value => Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(+value.toPrecision(4));
  const clock = (s, digits) => {
    if (!LONG) return s.toFixed(digits);
    if (s < 0) return "\u2212" + clock(-s, digits);
    const whole = digits ? Math.floor(s) : Math.round(s), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, rest = whole % 60;
    const tail = digits ? (s - whole).toFixed(digits).slice(1) : "";
    return (h ? h + ":" + String(m).padStart(2, "0") : m) + ":" + String(rest).padStart(2, "0") + tail;
  };

  const panels = [...document.querySelectorAll("#time figure.panel")].map(figure => {
    const areas = [...figure.querySelectorAll(".area")];
    const cursors = areas.map(area => area.appendChild(Object.assign(document.createElement("div"), {className: "cursor"})));
    return {figure, cursors, readout: figure.querySelector(".readout"), lines: [...figure.querySelectorAll("path.line[data-name]")],
            strips: [...figure.querySelectorAll("svg.strip")], axis: figure.querySelector(".x"), parsed: null,
            ticks: [...figure.querySelectorAll("[data-task]")].map(area => {
              const svg = document.createElementNS(SVG, "svg");
              Object.assign(svg.dataset, area.dataset);
              svg.classList.add("ticks");
              return area.appendChild(svg);
            }), overlays: new Map()};
  });
  const causes = JSON.parse(document.querySelector("[data-causes]")?.dataset.causes || "{}");

  // ---------------------------------------------------------------- single samples

  async function unpacked(block) {
    const head = JSON.parse(block.dataset.head), packed = Uint8Array.from(atob(block.textContent), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const data = new Uint8Array(await new Response(stream).arrayBuffer());
    let offset = 0;
    // All first bytes, then all second ones, and so on.
    const numbers = (n, Kind) => {
      const bytes = new Uint8Array(4 * n);
      for (let b = 0; b < 4; b++) for (let i = 0; i < n; i++) bytes[4 * i + b] = data[offset + b * n + i];
      offset += 4 * n;
      return new Kind(bytes.buffer);
    };
    const times = head.counts.map(n => {
      let t = 0;
      return Float64Array.from(numbers(n, Int32Array), step => (t += step) * head.unit_us * 1e-6 / SPAN * COLUMNS);
    });
    const series = {};
    for (const [name, number] of Object.entries(head.series)) {
      const at = times[number], steps = Float64Array.from(at.subarray(1), (t, i) => t - at[i]).sort();
      series[name] = {at, values: numbers(at.length, Float32Array), gap: 4 * (steps[steps.length >> 1] || Infinity)};
    }
    return {spans: head.spans, series};
  }
  // Index of the first time after a column.
  function after(at, column) {
    let low = 0, high = at.length;
    while (low < high) { const middle = (low + high) >> 1; if (at[middle] > column) high = middle; else low = middle + 1; }
    return low;
  }
  const kept = column => samples !== null && after(samples.spans, column) % 2 === 1;
  const made = (kind, attributes, parent) => {
    const element = document.createElementNS(SVG, kind);
    for (const [name, text] of Object.entries(attributes)) element.setAttribute(name, text);
    return parent.appendChild(element);
  };
  const height = (svg, v) => {
    const low = +svg.dataset.low, high = +svg.dataset.high;
    return 1000 * (1 - (svg.dataset.log ? Math.log(Math.max(v, low) / low) / Math.log(high / low) : (v - low) / (high - low)));
  };
  function drawLines(panel) {
    for (const line of panel.lines) {
      const svg = line.ownerSVGElement, found = samples.series[line.dataset.series];
      let over = panel.overlays.get(svg);
      if (!over) {
        over = made("svg", {viewBox: "0 0 " + COLUMNS + " 1000", preserveAspectRatio: "none", class: "samples"}, svg.parentNode);
        panel.overlays.set(svg, over);
      }
      if (line === panel.lines.find(other => other.ownerSVGElement === svg)) over.textContent = "";
      if (!found) continue;
      const first = Math.max(after(found.at, from) - 1, 0), last = Math.min(after(found.at, to), found.at.length - 1);
      const factor = +line.dataset.factor, dots = last - first <= MOST_DOTS;
      let d = "", points = "", before = -Infinity;
      for (let i = first; i <= last; i++) {
        const v = found.values[i];
        if (!Number.isFinite(v)) { before = -Infinity; continue; }
        const place = ((found.at[i] - from) / (to - from) * COLUMNS).toFixed(2) + " " + height(svg, v * factor).toFixed(1);
        d += (found.at[i] - before > found.gap && !line.dataset.held ? "M" : d ? "L" : "M") + place;
        if (dots) points += "M" + place + "h0";
        before = found.at[i];
      }
      made("path", {class: line.getAttribute("class"), d, "stroke-dasharray": line.getAttribute("stroke-dasharray") || "none"}, over);
      if (dots) made("path", {class: line.getAttribute("class") + " samples", d: points}, over);
    }
  }
  function drawTicks(panel) {
    const scale = COLUMNS / (to - from), us = COLUMNS / SPAN * 1e-6;
    for (const svg of panel.ticks) {
      const prefix = "task_tick." + svg.dataset.task, ends = samples?.series[prefix + ".end_us"];
      svg.textContent = "";
      svg.setAttribute("viewBox", "0 0 " + COLUMNS + " 10");
      svg.setAttribute("preserveAspectRatio", "none");
      if (!close || !ends) continue;
      const starts = samples.series[prefix + ".start_us"].values, limits = samples.series[prefix + ".deadline_us"].values;
      const why = samples.series[prefix + ".cause"].values;
      const first = Math.max(after(ends.at, from) - 2, 0), last = Math.min(after(ends.at, to), ends.at.length - 1);
      panel.figure.classList.toggle("far", last - first > MOST_TICKS);
      if (last - first > MOST_TICKS) continue;
      const box = (a, b, top, tall, colour) =>
        made("rect", {x: ((a - from) * scale).toFixed(2), width: Math.max((b - a) * scale, 0.8).toFixed(2), y: top, height: tall, class: "state c" + colour}, svg);
      for (let i = first; i <= last; i++) {
        const release = ends.at[i], start = release + starts[i] * us, end = release + ends.values[i] * us, due = release + limits[i] * us;
        box(release, start, 4, 2, 0);
        box(start, end, 1, 8, why[i] < 0 ? 3 : 6);
        box(due, due, 0, 10, 7);
      }
    }
  }
  function tickAt(svg, column) {
    const prefix = "task_tick." + svg.dataset.task, ends = samples.series[prefix + ".end_us"];
    const i = ends ? after(ends.at, column) - 1 : -1;
    if (i < 0) return null;
    const read = name => samples.series[prefix + name].values[i], ms = us => short(us / 1000) + " ms", cause = read(".cause");
    return svg.dataset.name + ": starts after " + ms(read(".start_us")) + ", ends after " + ms(read(".end_us")) + " of " +
      ms(read(".deadline_us")) + (cause < 0 ? "" : ", missed (" + (causes[cause] || "cause " + cause) + ")");
  }
  // The columns in which a deadline was missed, in order of time.
  function missed() {
    const found = [];
    for (const [name, {at, values}] of Object.entries(samples.series)) {
      if (/^task_tick\..*\.cause$/.test(name)) values.forEach((cause, i) => { if (cause >= 0) found.push(at[i]); });
    }
    return found.sort((a, b) => a - b);
  }
  function toMiss(step) {
    const misses = samples === null ? [] : missed(), here = at !== null ? at : step > 0 ? from : to, near = 1e-9 * COLUMNS;
    const next = step > 0 ? misses.find(m => m > here + near) : misses.findLast(m => m < here - near);
    if (next === undefined) return;
    const half = Math.min((to - from) / 2, COLUMNS / SPAN * 0.025);
    show(next - half, next + half);
    point(next);
  }

  // The smallest and largest place of every column, out of the path itself: M, l, v and h are all there is.
  function parse(path) {
    const columns = new Map(), steps = path.getAttribute("d").matchAll(/([Mlvh])(-?\d+)(?: (-?\d+))?/g);
    let x = 0, y = 0;
    for (const [, kind, a, b] of steps) {
      if (kind === "M") { x = +a; y = +b; } else if (kind === "l") { x += +a; y += +b; } else if (kind === "v") { y += +a; } else { continue; }
      const found = columns.get(x);
      if (found) { found[0] = Math.max(found[0], y); found[1] = Math.min(found[1], y); } else columns.set(x, [y, y]);
    }
    return columns;
  }
  function value(svg, y) {
    const low = +svg.dataset.low, high = +svg.dataset.high, share = 1 - y / 1000;
    return svg.dataset.log ? low * Math.pow(high / low, share) : low + share * (high - low);
  }
  function readings(panel, exact) {
    const column = Math.floor(exact), words = [];
    if (close) {
      for (const svg of panel.ticks) words.push(tickAt(svg, exact));
      for (const line of panel.lines) {
        const found = samples.series[line.dataset.series], i = found ? after(found.at, exact) - 1 : -1;
        if (i >= 0 && (line.dataset.held || exact - found.at[i] <= found.gap)) {
          words.push(line.dataset.name + " " + short(found.values[i] * +line.dataset.factor));
        }
      }
      return words.filter(Boolean).join(" \u00b7 ") + stripsAt(panel, column);
    }
    panel.parsed ||= panel.lines.map(parse);
    panel.lines.forEach((line, i) => {
      let found = null;
      for (let d = 0; d <= 12 && !found; d++) found = panel.parsed[i].get(column - d);
      if (!found) return;
      const svg = line.ownerSVGElement, a = short(value(svg, found[0])), b = short(value(svg, found[1]));
      words.push(line.dataset.name + " " + (a === b ? a : a + " \u2026 " + b));
    });
    return words.join(" \u00b7 ") + stripsAt(panel, column);
  }
  function stripsAt(panel, column) {
    const words = [];
    for (const svg of panel.strips) {
      const hit = [...svg.children].find(r => +r.getAttribute("x") <= column + 1 && column <= +r.getAttribute("x") + +r.getAttribute("width"));
      if (hit) words.push(svg.dataset.name + ": " + hit.dataset.name);
    }
    return words.join(" \u00b7 ");
  }

  const bar = document.createElement("div");
  bar.className = "bar";
  const output = document.createElement("output");
  const button = (text, label, act) => {
    const made = Object.assign(document.createElement("button"), {type: "button", textContent: text, title: label, onclick: act});
    made.setAttribute("aria-label", label);
    return made;
  };
  bar.append(button("\u25c0", "earlier", () => move(-0.5)), button("\u2212", "zoom out", () => zoom(2)), output,
             button("+", "zoom in", () => zoom(0.5)), button("\u25b6", "later", () => move(0.5)), button("all", "the whole run", () => show(0, COLUMNS)));
  body.append(bar);

  function show(a, b) {
    const least = kept((a + b) / 2) ? LEAST_S / SPAN * COLUMNS : 8;
    const width = Math.min(Math.max(b - a, least), COLUMNS);
    from = Math.min(Math.max(a, 0), COLUMNS - width);
    to = from + width;
    for (const svg of plots) {
      const box = svg.getAttribute("viewBox").split(" ");
      svg.setAttribute("viewBox", from + " 0 " + width + " " + box[3]);
    }
    close = width < NEAR && kept(from + width / 2);
    body.classList.toggle("close", close);
    for (const panel of panels) {
      if (close) drawLines(panel);
      drawTicks(panel);
    }
    const span = width / COLUMNS * SPAN, first = seconds(from);
    const raw = span / 6, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const steps = LONG && raw > 1
      ? [2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 864000].filter(s => s >= raw)
      : [1, 2, 5, 10].map(k => k * power).filter(s => s >= raw);
    const step = Math.min(...steps), digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    for (const panel of panels) {
      if (!panel.axis) continue;
      panel.axis.textContent = "";
      for (let k = Math.ceil(first / step - 1e-9); k * step <= first + span * 1.000001; k++) {
        const place = ((k * step - first) / span * 100).toFixed(2);
        const label = Object.assign(document.createElement("span"), {textContent: clock(k * step, digits)});
        label.setAttribute("style", "left:" + place + "%");
        panel.axis.append(label);
      }
    }
    point(at);
  }
  function zoom(factor) {
    const middle = at !== null && at >= from && at <= to ? at : (from + to) / 2, width = (to - from) * factor;
    show(middle - width * (middle - from) / (to - from), middle + width * (to - middle) / (to - from));
  }
  function move(share) { const step = (to - from) * share; show(from + step, to + step); }
  function point(column) {
    at = column;
    const seen = column !== null && column >= from && column <= to, place = (column - from) / (to - from) * 100;
    const digits = Math.max(2, Math.ceil(-Math.log10((to - from) / COLUMNS * SPAN / 500)));
    output.textContent = seen ? clock(seconds(column), digits) + (LONG ? "" : " s")
                              : clock(seconds(from), 0) + " to " + clock(seconds(to), 0);
    for (const panel of panels) {
      for (const cursor of panel.cursors) { cursor.style.display = seen ? "block" : "none"; cursor.style.left = place + "%"; }
      const box = panel.figure.getBoundingClientRect();
      if (box.bottom > 0 && box.top < innerHeight) panel.readout.textContent = seen ? readings(panel, column) : "";
    }
  }
  const column = (area, event) => {
    const box = area.getBoundingClientRect();
    return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
  };
  for (const area of document.querySelectorAll("#time .area")) {
    area.addEventListener("pointerdown", event => { drag = event.pointerType === "mouse" ? column(area, event) : null; point(column(area, event)); });
    area.addEventListener("pointermove", event => point(column(area, event)));
    area.addEventListener("pointerup", event => {
      const end = column(area, event);
      if (drag !== null && Math.abs(end - drag) > (to - from) * 0.01) show(Math.min(drag, end), Math.max(drag, end));
      drag = null;
    });
    area.addEventListener("dblclick", () => show(0, COLUMNS));
  }
  addEventListener("scroll", () => point(at), {passive: true});
  addEventListener("keydown", event => {
    if (event.target !== body || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {"+": () => zoom(0.5), "-": () => zoom(2), "ArrowLeft": () => move(-0.25), "ArrowRight": () => move(0.25), "Escape": () => show(0, COLUMNS),
                 "n": () => toMiss(1), "p": () => toMiss(-1)}[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  addEventListener("beforeprint", () => show(0, COLUMNS));
  show(0, COLUMNS);
  const block = document.getElementById("samples");
  if (block && typeof DecompressionStream !== "undefined") unpacked(block).then(found => {
    samples = found;
    if (missed().length) {
      bar.append(button("\u25c2 miss", "previous missed deadline (p)", () => toMiss(-1)), button("miss \u25b8", "next missed deadline (n)", () => toMiss(1)));
    }
    show(from, to);
  });
})();
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));

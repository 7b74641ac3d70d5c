"use strict";
// A shared cursor and zoom for the panels along the time axis. Without this the page is the same, standing still.
(() => {
  const body = document.body, COLUMNS = +body.dataset.columns, START = +body.dataset.start, SPAN = +body.dataset.span;
  const plots = [...document.querySelectorAll("#time svg.plot")];
  if (!plots.length) return;
  body.classList.add("live");
  let from = 0, to = COLUMNS, at = null, drag = null;
  const LONG = START + SPAN >= 120;
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
            strips: [...figure.querySelectorAll("svg.strip")], axis: figure.querySelector(".x"), parsed: null};
  });

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
  function readings(panel, column) {
    panel.parsed ||= panel.lines.map(parse);
    const words = [];
    panel.lines.forEach((line, i) => {
      let found = null;
      for (let d = 0; d <= 12 && !found; d++) found = panel.parsed[i].get(column - d);
      if (!found) return;
      const svg = line.ownerSVGElement, a = short(value(svg, found[0])), b = short(value(svg, found[1]));
      words.push(line.dataset.name + " " + (a === b ? a : a + " \u2026 " + b));
    });
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
    const width = Math.min(Math.max(b - a, 8), COLUMNS);
    from = Math.min(Math.max(a, 0), COLUMNS - width);
    to = from + width;
    for (const svg of plots) {
      const box = svg.getAttribute("viewBox").split(" ");
      svg.setAttribute("viewBox", from + " 0 " + width + " " + box[3]);
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
    output.textContent = seen ? clock(seconds(column), 2) + (LONG ? "" : " s")
                              : clock(seconds(from), 0) + " to " + clock(seconds(to), 0);
    for (const panel of panels) {
      for (const cursor of panel.cursors) { cursor.style.display = seen ? "block" : "none"; cursor.style.left = place + "%"; }
      const box = panel.figure.getBoundingClientRect();
      if (box.bottom > 0 && box.top < innerHeight) panel.readout.textContent = seen ? readings(panel, Math.floor(column)) : "";
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
    const act = {"+": () => zoom(0.5), "-": () => zoom(2), "ArrowLeft": () => move(-0.25), "ArrowRight": () => move(0.25), "Escape": () => show(0, COLUMNS)}[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  addEventListener("beforeprint", () => show(0, COLUMNS));
  show(0, COLUMNS);
})();
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));

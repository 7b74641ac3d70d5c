// Colours, round steps and sharp canvases for the map.

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

// The socket of a page: token, reconnection, and requests that must not be lost.

const $ = (id) => document.getElementById(id);
const RETRY_MS = [300, 700, 1500, 3000], STOP_KEPT_MS = 30000;

export class Link {
  // `onMessage` gets each message, `onLost` is called when the connection is lost, `note` shows a text.
  constructor({ onMessage, onLost = () => {}, note }) {
    this.onMessage = onMessage; this.onLost = onLost; this.note = note;
    this.socket = null; this.attempts = 0; this.retry = null; this.unsent = []; this.displaced = false;
    // True where no connection is wanted any more.
    this.final = false;
    this.token = this.#readToken();
    $("token").addEventListener("submit", (event) => {
      event.preventDefault();
      this.token = $("token-field").value.trim();
      sessionStorage.setItem("token", this.token);
      this.connect();
    });
    window.addEventListener("hashchange", () => { this.token = this.#readToken(); if (this.socket) this.socket.close(); else this.connect(); });
  }

  get needsToken() { return !$("token").hidden; }

  get open() { return this.socket && this.socket.readyState === WebSocket.OPEN; }

  // The token follows the #, is kept only for this tab, and is removed from the address.
  #readToken() {
    const given = decodeURIComponent(location.hash.slice(1));
    if (given) {
      sessionStorage.setItem("token", given);
      history.replaceState(null, "", location.pathname);
    }
    return given || sessionStorage.getItem("token") || "";
  }

  async connect() {
    clearTimeout(this.retry);
    const token = this.token;
    try {
      const answer = await fetch("access", { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
      const { known } = await answer.json();
      $("token").hidden = known;
      if (!known) { $("token-field").focus(); return; }
    } catch { this.again(); return; }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const opened = this.socket = new WebSocket(`${scheme}://${location.host}/socket${token ? `?token=${encodeURIComponent(token)}` : ""}`);
    opened.addEventListener("message", (event) => {
      if (opened !== this.socket) return;
      const message = JSON.parse(event.data);
      if (message.k === "displaced") { this.displaced = true; this.note("Another page took the place of this one: reload it to open it again."); }
      this.onMessage(message);
    });
    opened.addEventListener("close", () => { if (opened === this.socket) { this.socket = null; this.onLost(); this.again(); } });
  }

  // Readings are dropped where the network is slow: an old one is of no use. A request is sent in any case, and one that `stops`
  // even after the connection has come back.
  send(message, { request = false, stops = false } = {}) {
    if (this.open && (request || this.socket.bufferedAmount < 2000)) { this.socket.send(JSON.stringify(message)); return; }
    if (!request) return;
    if (stops) this.unsent.push({ message, at: performance.now() });
    this.note(stops ? "NOT CONNECTED: the stop is sent when the connection comes back. Use the vehicle's own stop." : "Not connected.");
  }

  // Send the stops that wait since the connection was lost.
  begun() {
    this.attempts = 0;
    const waiting = this.unsent;
    this.unsent = [];
    for (const { message, at } of waiting) if (performance.now() - at < STOP_KEPT_MS) this.send(message, { request: true, stops: true });
  }

  // A socket may stay open although the network is gone.
  giveUp() { const deaf = this.socket; this.socket = null; deaf.close(); this.onLost(); this.again(); }

  again() {
    clearTimeout(this.retry);
    // Pages that take each other's places would never end.
    if (this.displaced || this.final) return;
    this.retry = setTimeout(() => this.connect(), RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)]);
    this.attempts += 1;
  }
}

// A page that is zoomed with two fingers, or wider than the screen, shows a part of itself: the stops stay in that part.
export function keepInSight(stops) {
  const view = window.visualViewport;
  if (!view) return;
  const keep = () => {
    stops.style.transform = stops.style.width = "";
    let box = stops.getBoundingClientRect();
    if (box.right <= view.offsetLeft + view.width + 1 && box.bottom <= view.offsetTop + view.height + 1 && view.scale <= 1.01) return;
    if (box.width > view.width * view.scale) { stops.style.width = `${view.width * view.scale}px`; box = stops.getBoundingClientRect(); }
    const right = view.offsetLeft + view.width - box.width / view.scale - box.left, down = view.offsetTop + view.height - box.bottom;
    stops.style.transform = `translate(${right}px, ${down}px) scale(${1 / view.scale})`;
  };
  for (const name of ["resize", "scroll"]) view.addEventListener(name, keep);
  setInterval(keep, 500);
}

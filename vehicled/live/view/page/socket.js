// Connection of a page to its server: the token, and reconnection.

const $ = (id) => document.getElementById(id);
const RETRY_MS = [300, 700, 1500, 3000];

export class PageSocket {
  // onMessage gets each message, onLost is called when a connection has ended.
  constructor(onMessage, onLost) {
    this.onMessage = onMessage; this.onLost = onLost;
    // Pages that take each other's places would never end.
    this.final = false;
    this.socket = null; this.attempts = 0; this.retry = null; this.token = readToken();
    $("token").addEventListener("submit", (event) => {
      event.preventDefault();
      this.token = $("token-field").value.trim();
      sessionStorage.setItem("token", this.token);
      this.connect();
    });
    window.addEventListener("hashchange", () => { this.token = readToken(); if (this.socket) this.socket.close(); else this.connect(); });
  }

  get open() { return this.socket !== null && this.socket.readyState === WebSocket.OPEN; }

  get waiting() { return this.open ? this.socket.bufferedAmount : 0; }

  get needsToken() { return !$("token").hidden; }

  send(message) { this.socket.send(JSON.stringify(message)); }

  // A greeting has come: the next loss is retried at once.
  greeted() { this.attempts = 0; }

  // A socket may stay open although the network is gone.
  drop() { const deaf = this.socket; this.#end(); deaf.close(); }

  async connect() {
    clearTimeout(this.retry);
    try {
      const answer = await fetch("access", { headers: this.token ? { Authorization: `Bearer ${this.token}` } : {}, cache: "no-store" });
      const { known } = await answer.json();
      $("token").hidden = known;
      if (!known) { $("token-field").focus(); return; }
    } catch { this.#again(); return; }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const opened = this.socket = new WebSocket(`${scheme}://${location.host}/socket${this.token ? `?token=${encodeURIComponent(this.token)}` : ""}`);
    opened.addEventListener("message", (event) => { if (opened === this.socket) this.onMessage(JSON.parse(event.data)); });
    opened.addEventListener("close", () => { if (opened === this.socket) this.#end(); });
  }

  #end() { this.socket = null; this.onLost(); this.#again(); }

  #again() {
    clearTimeout(this.retry);
    if (this.final) return;
    this.retry = setTimeout(() => this.connect(), RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)]);
    this.attempts += 1;
  }
}

// The token follows the #, is kept only for this tab, and is removed from the address.
function readToken() {
  const given = decodeURIComponent(location.hash.slice(1));
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return given || sessionStorage.getItem("token") || "";
}

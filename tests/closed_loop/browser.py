"""A headless Chromium, driven through its DevTools protocol: enough of it to look at a page and to
touch it."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

from tests.busy_computer import DEADLINE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0", "--hide-scrollbars",
]  # fmt: skip


def executable() -> str | None:
    """Return the path of an installed browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page of the browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        """Warnings and errors of the page's console, and uncaught exceptions."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=DEADLINE_S))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)

    def listen(self, seconds: float) -> None:
        """Let the page run and collect its complaints."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            try:
                self._note(json.loads(self._socket.recv(timeout=left_s)))
            except TimeoutError:
                return

    def _note(self, message: dict[str, Any]) -> None:
        values = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(values["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(values["args"])[:500])
            case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                self.complaints.append(
                    f"{values['entry']['text']} {values['entry'].get('url', '')}"
                )

    def size(self, width: int, height: int, *, dark: bool, mobile: bool) -> None:
        """Set screen size and colour scheme."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        self.do(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def open(self, url: str) -> None:
        """Load a page."""
        self.do("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        found = self.do(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float = DEADLINE_S) -> None:
        """Wait until an expression is true in the page; an expression that fails while the page
        loads counts as false."""
        end_s = time.monotonic() + seconds
        while not self.value(f"(() => {{ try {{ return {script} }} catch {{ return false }} }})()"):
            assert time.monotonic() < end_s, (script, self.complaints)
            self.listen(0.05)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Send ``mousePressed``, ``mouseMoved`` or ``mouseReleased`` of the left button."""
        self.do(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def key(self, kind: str, code: str, key: str) -> None:
        """Send ``keyDown`` or ``keyUp``."""
        self.do("Input.dispatchKeyEvent", type=kind, code=code, key=key)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save a PNG of the visible part, or of the whole page."""
        data = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """Start a browser with a fresh profile in a folder, and yield its tab."""
    path = executable()
    assert path is not None
    process = subprocess.Popen(
        [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _port(folder / "DevToolsActivePort")
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=DEADLINE_S) as answer:
            target = next(target for target in json.load(answer) if target["type"] == "page")
        with connect(target["webSocketDebuggerUrl"], max_size=None, compression=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(file: Path) -> int:
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return int(file.read_text().splitlines()[0])
        except (OSError, IndexError, ValueError):
            assert time.monotonic() < end_s, "the browser does not start"
            time.sleep(0.05)

"""Process that speaks MAVLink for a run: ``python -m vehicled.bridges.mavlink.server``. It ends with the pipe.

One thread reads the daemon's pipe, one sends requests to the daemon in order; the main one has the link and everything else.
"""

import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from vehicled.bridges.child import be_modest, frames, read_opening, report
from vehicled.bridges.frames import FrameKind, Report
from vehicled.bridges.mavlink.config import AddressError, MavlinkConfig, parse_address
from vehicled.bridges.mavlink.link import MavlinkLink
from vehicled.control_socket.client import Client, ControlError
from vehicled.control_socket.socket_path import SocketPathError
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.schema import CHANNELS
from vehicled.ros.cdr import CdrError, unpacker

TICK_S = 0.02
MOST_WAITING = 100
"""Requests that may wait for the daemon; more are refused."""
REQUEST_TIMEOUT_S = 30.0


class Requests:
    """Connection to the daemon for requests, which are answered in order by a thread."""

    def __init__(self, path: str, inbox: "queue.SimpleQueue[Callable[[], None]]") -> None:
        self._path = Path(path)
        self._inbox = inbox
        self._waiting: queue.Queue[tuple[dict[str, Any], Callable[[dict[str, Any], str], None]]] = queue.Queue(MOST_WAITING)
        self._setpoints: Client | None = None
        self._retry_s = 0.0
        threading.Thread(target=self._work, daemon=True).start()

    def ask(self, request: dict[str, Any], answer: Callable[[dict[str, Any], str], None]) -> None:
        """Send a request in its turn; the answer comes through the inbox."""
        try:
            self._waiting.put_nowait((request, answer))
        except queue.Full:
            answer({}, "too many requests wait for the daemon: ask again")

    def offer(self, request: dict[str, Any]) -> None:
        """Send a setpoint or a heartbeat at once or not at all. Its connection is its lease."""
        try:
            if self._setpoints is None:
                if time.monotonic() < self._retry_s:
                    return
                self._retry_s = time.monotonic() + 1.0
                self._setpoints = Client(self._path)
            self._setpoints.offer(**request)
            self._setpoints.arrived()
        except (ControlError, SocketPathError, OSError):
            self._setpoints = None

    def _work(self) -> None:
        client: Client | None = None
        while True:
            request, answer = self._waiting.get()
            reply: dict[str, Any] = {}
            why = ""
            try:
                client = client or Client(self._path)
                reply = client.ask(**request)
            except (ControlError, SocketPathError, OSError) as error:
                why = str(error) or "the daemon does not answer"
                if not isinstance(error, ControlError):
                    client = None
            self._inbox.put(lambda answer=answer, reply=reply, why=why: answer(reply, why))  # type: ignore[misc]


class Process:
    """The link, the autopilot, and what goes between them and the daemon."""

    def __init__(self, config: MavlinkConfig) -> None:
        """Open the link. Raises OSError and :class:`AddressError`."""
        from vehicled.bridges.mavlink.autopilot import KINDS, Autopilot

        self.link = MavlinkLink(parse_address(config.address))
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        requests = Requests(config.control_socket, self.inbox)
        self.autopilot = Autopilot(config, self.link.send, requests.ask, requests.offer)
        self._decode = {CHANNELS[kind].id: unpacker(kind) for kind in KINDS}
        self.over = False

    def follow(self, pipe: Any) -> None:
        """Read the daemon's frames until the pipe ends; on a thread of its own."""
        for kind, data in frames(pipe):
            self.inbox.put(lambda kind=kind, data=data: self._frame(kind, data))  # type: ignore[misc]
        self.inbox.put(self._end)

    def run(self) -> None:
        """Serve until the pipe ends."""
        while not self.over:
            select.select([self.link.fileno()], [], [], TICK_S)
            for message in self.link.receive():
                self.autopilot.on_message(message)
            while not self.inbox.empty():
                self.inbox.get()()
            self.autopilot.tick(time.monotonic())

    def _frame(self, kind: FrameKind, data: bytes) -> None:
        if kind is FrameKind.STATE:
            self.autopilot.on_status(msgspec.json.decode(data, type=dict[str, Any])["status"])
            return
        try:
            for offset, length, channel, _, _ in message_heads(data):
                unpack = self._decode.get(channel)
                if unpack is not None:
                    start = offset + MESSAGE_HEAD.size
                    self.autopilot.on_record(unpack(data[start : start + length]))
        except (ValueError, CdrError):
            pass  # A damaged frame: the next one is whole.

    def _end(self) -> None:
        self.over = True


def main() -> int:
    """Run the process."""
    be_modest()
    pipe = sys.stdin.buffer
    config = read_opening(pipe, MavlinkConfig)
    try:
        process = Process(config)
    except (OSError, AddressError) as error:
        why = getattr(error, "strerror", None) or str(error)
        report(Report(state="failed", detail=f"{config.address}: {why}"))
        return 1
    report(Report(state="listening", port=process.link.port))
    threading.Thread(target=process.follow, args=(pipe,), daemon=True).start()
    process.run()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Skip the interpreter's shutdown: a thread may still wait for the daemon.
    os._exit(status)

"""Process that speaks MAVLink for a run: ``python -m vehicled.live.bridges.mavlink.server``. It
ends with the pipe.

One thread reads the daemon's pipe, three send requests to the daemon; the main one has the link and
everything else, and never waits for another.
"""

import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vehicled.live.bridges.child import be_modest, frames, read_opening, report
from vehicled.live.bridges.frames import ChildReport, FrameKind
from vehicled.live.bridges.mavlink.config import MavlinkAddressError, MavlinkConfig, parse_address
from vehicled.live.bridges.mavlink.link import MavlinkLink
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.schema import CHANNELS
from vehicled.ros.cdr import CdrError, unpacker

TICK_S = 0.02
MOST_FRAMES = 64
"""Frames of the daemon that wait; further ones stay in the pipe, and the daemon drops what does not
fit there."""
END_S = 1.0
"""Time for the last messages after the pipe has ended, s; then the process ends, whatever it
does."""


class MavlinkProcess:
    """The link, the autopilot, and what goes between them and the daemon."""

    def __init__(self, config: MavlinkConfig) -> None:
        """Open the link. Raises OSError and :class:`MavlinkAddressError`."""
        from vehicled.live.bridges.mavlink.autopilot import KINDS, Autopilot
        from vehicled.live.bridges.mavlink.lanes import DaemonLanes

        self.link = MavlinkLink(parse_address(config.address), config.system_id)
        self._answers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._frames: queue.Queue[tuple[FrameKind, bytes]] = queue.Queue(MOST_FRAMES)
        self.autopilot = Autopilot(
            config, self.link.send, DaemonLanes(Path(config.control_socket), self._answers)
        )
        self._decode = {CHANNELS[kind].id: unpacker(kind) for kind in KINDS}
        self.over = False

    def follow(self, pipe: Any) -> None:
        """Read the daemon's frames until the pipe ends, then end the process; on a thread of its
        own."""
        for frame in frames(pipe):
            self._frames.put(frame)
        self.over = True
        time.sleep(END_S)
        os._exit(0)

    def run(self) -> None:
        """Serve until the pipe ends. A message that cannot be handled costs only itself."""
        while not self.over:
            select.select([self.link.fileno()], [], [], TICK_S)
            for message in self.link.receive():
                self._guarded(lambda message=message: self.autopilot.on_message(message))  # type: ignore[misc]
            while not self._answers.empty():
                self._guarded(self._answers.get())
            while not self._frames.empty():
                kind, data = self._frames.get()
                self._guarded(lambda kind=kind, data=data: self._frame(kind, data))  # type: ignore[misc]
            self._guarded(lambda: self.autopilot.tick(time.monotonic()))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do some work; a defect of the bridge is reported to the ground stations and does not end
        it."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a stop must pass whatever came before it
            with suppress(Exception):
                self.autopilot.pilot.say(f"the bridge failed: {type(error).__name__}: {error}", 2)

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


def main() -> int:
    """Run the process."""
    be_modest()
    pipe = sys.stdin.buffer
    config = read_opening(pipe, MavlinkConfig)
    try:
        process = MavlinkProcess(config)
    except (OSError, MavlinkAddressError) as error:
        why = getattr(error, "strerror", None) or str(error)
        report(ChildReport(state="failed", detail=f"{config.address}: {why}"))
        return 1
    report(ChildReport(state="listening", port=process.link.port))
    threading.Thread(target=process.follow, args=(pipe,), daemon=True).start()
    process.run()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Skip the interpreter's shutdown: a thread may still wait for the daemon.
    os._exit(status)

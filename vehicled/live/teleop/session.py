"""Teleop loop over an input device, a terminal and a daemon. Every tick sends the present reading
or nothing.

It never waits for the daemon or the terminal, and never sends a late reading. At its end it reports
to the daemon that the input device is gone; if that fails, the daemon's timeout brakes.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from vehicled.live.control_socket.client import Client, ControlError, HungUpError
from vehicled.live.control_socket.protocol import ActionRequest, Request, WatchRequest
from vehicled.live.control_socket.socket_path import SocketPathError
from vehicled.live.teleop.joystick import JoystickSource
from vehicled.live.teleop.keyboard import Keyboard
from vehicled.live.teleop.pad import Pad
from vehicled.live.teleop.reading import Reading
from vehicled.live.teleop.screen import status_line
from vehicled.live.teleop.state import STALL_NS, TeleopState
from vehicled.live.teleop.terminal import Terminal

SHOW_NS = 100_000_000
WATCH_HZ = 10.0

_ENDS = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "the terminal was closed",
    signal.SIGQUIT: "SIGQUIT",
}


class TeleopSession:
    """Runs until the driver quits, the input device or the daemon is lost, or a signal ends it."""

    def __init__(
        self,
        daemon: Path,
        keyboard: Keyboard,
        pad: tuple[Pad, JoystickSource] | None,
        terminal: Terminal | None,
        *,
        period_ns: int,
        clock: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        """Take the sources. ``keyboard`` drives unless there is a ``pad``; its requests count in
        both cases. ``terminal`` is optional with a pad.
        """
        self._daemon = daemon
        self._keyboard = keyboard
        self._pad = pad
        self._terminal = terminal
        self._period_ns = period_ns
        self._clock = clock
        self._say = terminal.say if terminal is not None else say
        self._source: Keyboard | Pad = pad[0] if pad is not None else keyboard
        self._state = TeleopState(self._source.name[:64])
        self._status: dict[str, Any] = {}
        self._ended_by = ""
        self._suspended = False
        self._shown = ""
        self._status_stack = ExitStack()
        self._status_client: Client
        self.dropped = 0
        """Number of readings that the daemon had no room for."""

    def run(self) -> str:
        """Run the session and return the reason for its end; empty if the driver quit. Raises
        :class:`ControlError` if the daemon is lost.
        """
        with _signals(self._end, self._suspend):
            while True:
                with Client(self._daemon) as command_client, self._status_stack:
                    command_client.hurry()
                    self._watch()
                    try:
                        self._loop(command_client)
                    finally:
                        try:
                            self._offer(command_client, self._state.unplugged())
                        except ControlError:
                            pass  # The daemon is gone.
                if not self._suspended:
                    return self._ended_by or self._source.trouble
                self._pause()

    def _watch(self) -> None:
        """Connect for the daemon's state."""
        self._status_stack.close()
        self._status_client = self._status_stack.enter_context(Client(self._daemon))
        self._status_client.send(WatchRequest(WATCH_HZ))

    def _end(self, why: str) -> None:
        self._ended_by = self._ended_by or why

    def _suspend(self) -> None:
        self._suspended = True

    def _loop(self, command_client: Client) -> None:
        due_ns = before_ns = self._clock()
        show_ns = 0
        while not (self._ended_by or self._state.leaving):
            now_ns = self._clock()
            if self._suspended:
                return
            if now_ns < due_ns:
                self._wait(command_client, due_ns - now_ns)
                continue
            # Missed ticks are skipped.
            due_ns = max(due_ns + self._period_ns, now_ns + self._period_ns // 2)
            self._read_inputs(now_ns)
            if now_ns - before_ns > STALL_NS:
                self._source.let_go()
            before_ns = now_ns
            if self._source.trouble:
                return
            self._on_message(command_client)
            reading = self._source.read(now_ns)
            requests = self._keyboard.drain_requests() + (
                self._pad[0].drain_requests() if self._pad is not None else []
            )
            actions = self._state.actions_for(requests)
            # Send the reading first, so that the daemon knows an input device before it gets the
            # request to drive.
            self._offer(command_client, self._state.request(reading))
            for action in actions:
                self._offer(command_client, ActionRequest(action, self._state.origin))
            if now_ns >= show_ns:
                show_ns = now_ns + SHOW_NS
                self._show(reading, now_ns)

    def _wait(self, command_client: Client, wait_ns: int) -> None:
        """Wait for the tick or for input, because the time of an input is the time of its
        arrival."""
        inputs: list[Any] = [command_client, self._status_client]
        if self._terminal is not None:
            inputs.append(self._terminal)
        if self._pad is not None:
            inputs.append(self._pad[1])
        select.select(inputs, [], [], wait_ns * 1e-9)
        now_ns = self._clock()
        self._read_inputs(now_ns)
        self._on_message(command_client)
        if self._source.trouble:
            # Send at once, not at the tick.
            self._offer(command_client, self._state.unplugged())
            self._end(self._source.trouble)

    def _read_inputs(self, now_ns: int) -> None:
        """Read all input of the device and the terminal."""
        if self._terminal is not None and not self._keyboard.trouble:
            try:
                data = self._terminal.keys()
                if data:
                    self._keyboard.feed(data, now_ns)
            except EOFError as error:
                self._keyboard.lost(f"lost the terminal: {error}")
                self._end(self._keyboard.trouble)
        if self._pad is not None and not self._pad[0].trouble:
            pad, joystick = self._pad
            try:
                pad.feed(joystick.events(), now_ns)
            except EOFError as error:
                pad.lost(f"lost {joystick.name}: {error}")

    def _on_message(self, command_client: Client) -> None:
        try:
            replies = self._status_client.arrived()
        except HungUpError as error:
            # The daemon disconnects a client that was held up and did not read; the readings go on
            # over their own connection.
            replies = []
            try:
                self._watch()
            except (ControlError, SocketPathError):
                raise error from None
        for reply in replies:
            if reply.get("ok"):
                self._status = reply["status"]
                self._state.on_message(self._status)
        for reply in command_client.arrived():
            if not reply.get("ok"):
                self._say(f"refused by the daemon: {reply.get('why', '')}")

    def _offer(self, command_client: Client, request: Request | None) -> None:
        if request is not None and not command_client.offer(request):
            self.dropped += 1

    def _pause(self) -> None:
        """Suspend by Ctrl-Z: release the deadman, restore the terminal, and stop until the shell
        continues the process.

        The connection is closed meanwhile, because a daemon disconnects clients that do not read.
        """
        self._suspended = False
        self._source.let_go()
        if self._terminal is not None:
            self._terminal.restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._terminal is not None:
            self._terminal.enter()

    def _show(self, reading: Reading, now_ns: int) -> None:
        if self._terminal is not None:
            self._terminal.show(
                status_line(
                    self._status, reading, self._source.hint(now_ns), active=self._state.active
                )
            )
        line = f"{self._state.mode}: {self._state.why}"
        if self._status and line != self._shown:
            self._shown = line
            self._say(line)


@contextmanager
def _signals(end: Callable[[str], None], suspend: Callable[[], None]) -> Iterator[None]:
    """Turn signals into reasons, so that every end is orderly."""

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            suspend()
        else:
            end(_ENDS[signal.Signals(number)])

    previous = {number: signal.signal(number, handle) for number in (*_ENDS, signal.SIGTSTP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

"""One sitting: a stick, a terminal and a daemon. Every tick reads what is there now and sends it, or sends nothing.

It never waits for the daemon or the terminal, and what could not be sent at its time is never sent. When it ends, however it ends,
the daemon is told that the stick is gone; when it cannot even do that, silence is the brake.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from vehicled.control_socket.client import Client, ControlError
from vehicled.teleop.joystick import Stick
from vehicled.teleop.keyboard import Keyboard
from vehicled.teleop.pad import Pad
from vehicled.teleop.reading import Reading
from vehicled.teleop.screen import status_line
from vehicled.teleop.seat import STALL_NS, Seat
from vehicled.teleop.terminal import Terminal

SHOW_NS = 100_000_000
WATCH_HZ = 10.0

_ENDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "the terminal was closed", signal.SIGQUIT: "SIGQUIT"}


class Session:
    """Runs until the human leaves, the stick or the daemon is lost, or a signal ends it."""

    def __init__(
        self,
        daemon: Path,
        keyboard: Keyboard,
        pad: tuple[Pad, Stick] | None,
        terminal: Terminal | None,
        *,
        period_ns: int,
        clock: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        """``keyboard`` drives unless there is a ``pad``; its wishes count either way. ``terminal`` may be missing with a pad."""
        self._daemon = daemon
        self._keyboard = keyboard
        self._pad = pad
        self._terminal = terminal
        self._period_ns = period_ns
        self._clock = clock
        self._say = terminal.say if terminal is not None else say
        self._source: Keyboard | Pad = pad[0] if pad is not None else keyboard
        self._seat = Seat(self._source.name[:64])
        self._status: dict[str, Any] = {}
        self._ended_by = ""
        self._suspended = False
        self._told = ""
        self.dropped = 0
        """Readings that the daemon had no room for."""

    def run(self) -> str:
        """Why it ended; empty when the human left. Raises :class:`ControlError` when the daemon is lost."""
        with _signals(self._end, self._suspend):
            while True:
                with Client(self._daemon) as hand, Client(self._daemon) as watch:
                    hand.hurry()
                    watch.send(do="watch", rate_hz=WATCH_HZ)
                    try:
                        self._loop(hand, watch)
                    finally:
                        try:
                            self._offer(hand, self._seat.unplugged())
                        except ControlError:
                            pass  # It is not there to be told.
                if not self._suspended:
                    return self._ended_by or self._source.trouble
                self._pause()

    def _end(self, why: str) -> None:
        self._ended_by = self._ended_by or why

    def _suspend(self) -> None:
        self._suspended = True

    def _loop(self, hand: Client, watch: Client) -> None:
        due_ns = before_ns = self._clock()
        show_ns = 0
        while not (self._ended_by or self._seat.leaving):
            now_ns = self._clock()
            if self._suspended:
                return
            if now_ns < due_ns:
                self._wait(hand, watch, due_ns - now_ns)
                continue
            # A tick that was slept through is not made up for.
            due_ns = max(due_ns + self._period_ns, now_ns + self._period_ns // 2)
            self._take_in(now_ns)
            if now_ns - before_ns > STALL_NS:
                self._source.let_go()
            before_ns = now_ns
            if self._source.trouble:
                return
            self._hear(hand, watch)
            reading = self._source.read(now_ns)
            wishes = self._keyboard.take_wishes() + (self._pad[0].take_wishes() if self._pad is not None else [])
            actions = self._seat.wish(wishes)
            # The reading first: who asks to drive is then known to have a stick, and nobody else's fulfils the wish.
            self._offer(hand, self._seat.request(reading))
            for action in actions:
                self._offer(hand, {"do": "request", "action": action, "origin": self._seat.origin})
            if now_ns >= show_ns:
                show_ns = now_ns + SHOW_NS
                self._show(reading, now_ns)

    def _wait(self, hand: Client, watch: Client, wait_ns: int) -> None:
        """Until the tick, or until the stick says something: a byte's time is the time at which it came."""
        inputs: list[Any] = [hand, watch]
        if self._terminal is not None:
            inputs.append(self._terminal)
        if self._pad is not None:
            inputs.append(self._pad[1])
        select.select(inputs, [], [], wait_ns * 1e-9)
        now_ns = self._clock()
        self._take_in(now_ns)
        self._hear(hand, watch)
        if self._source.trouble:
            # At once, not at the tick.
            self._offer(hand, self._seat.unplugged())
            self._end(self._source.trouble)

    def _take_in(self, now_ns: int) -> None:
        """Everything that stick and terminal have said."""
        if self._terminal is not None and not self._keyboard.trouble:
            try:
                data = self._terminal.keys()
                if data:
                    self._keyboard.feed(data, now_ns)
            except EOFError as error:
                self._keyboard.lost(f"the terminal is gone: {error}")
                self._end(self._keyboard.trouble)
        if self._pad is not None and not self._pad[0].trouble:
            pad, stick = self._pad
            try:
                pad.feed(stick.events(), now_ns)
            except EOFError as error:
                pad.lost(f"{stick.name} was unplugged: {error}")

    def _hear(self, hand: Client, watch: Client) -> None:
        for reply in watch.arrived():
            if reply.get("ok"):
                self._status = reply["status"]
                self._seat.hear(self._status)
        for reply in hand.arrived():
            if not reply.get("ok"):
                self._say(f"the daemon refuses: {reply.get('why', '')}")

    def _offer(self, hand: Client, request: dict[str, Any] | None) -> None:
        if request is not None and not hand.offer(**request):
            self.dropped += 1

    def _pause(self) -> None:
        """Ctrl-Z: let go, give the terminal back, and stop until the shell goes on with us.

        Not connected, because a daemon hangs up on those who do not read.
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
            self._terminal.show(status_line(self._status, reading, self._source.hint(now_ns), seated=self._seat.seated))
        said = f"{self._seat.mode}: {self._seat.why}"
        if self._status and said != self._told:
            self._told = said
            self._say(said)


@contextmanager
def _signals(end: Callable[[str], None], suspend: Callable[[], None]) -> Iterator[None]:
    """Signals as words, so that every end is an orderly one."""

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

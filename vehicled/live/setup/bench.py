"""Joins one step of the set-up to the ports of the vehicle and to its user."""

import signal
import time
from typing import Protocol

import anyio

from vehicled.core.messages import PortState
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.session import PERIOD_NS, TERMINAL, Ended, Stage, StepSession
from vehicled.live.setup.steps import Wording
from vehicled.live.teleop.terminal import Terminal
from vehicled.runtime.timer import Alarm
from vehicled.runtime.wires import WireTransport

SHOW_NS = 100_000_000
CLOSE_S = 0.5
"""Timeout for ports that do not accept the last command, s."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals that end a step; a suspended set-up could not hold its actuator at neutral."""


async def signal_of_end() -> str:
    """Wait for a signal that ends the set-up, and return its name."""
    with anyio.open_signal_receiver(*_ENDS) as signals:
        async for number in signals:
            return signal.Signals(number).name
    raise AssertionError


class FrontEnd(Protocol):
    """Display and input of the set-up's user."""

    wording: Wording

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def show(self, now_ns: int) -> None:
        """Show where the step is."""

    async def serve_step(self, session: StepSession) -> str:
        """Pass the user's input to a step until it is cancelled or the user is lost; return the
        reason."""


class TerminalFrontEnd:
    """The set-up on a terminal."""

    wording = TERMINAL

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._session: StepSession | None = None

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._terminal.say(text)

    def show(self, now_ns: int) -> None:
        """Show where the step is."""
        if self._session is not None and self._session.stage is not Stage.OVER:
            self._terminal.show(self._session.status(now_ns))

    async def serve_step(self, session: StepSession) -> str:
        """Pass keys to a step until the terminal is gone; return the reason."""
        self._session = session
        while True:
            await anyio.wait_readable(self._terminal.fileno())
            try:
                session.on_keys(self._terminal.keys(), time.monotonic_ns())
            except EOFError as error:
                return str(error)


class SetupBench:
    """Runs one step on the wall clock. It is the host of the ports."""

    def __init__(
        self, session: StepSession, devices: Devices, transport: WireTransport, front: FrontEnd
    ) -> None:
        self._session = session
        self._devices = devices
        self._transport = transport
        self._front = front
        self._alarm = Alarm()
        self._tick_ns = self._shown_ns = 0
        self._scope: anyio.CancelScope | None = None
        self.interrupted = ""
        """Signal, or loss of the user, that ended the step; empty if none."""

    async def run(self) -> Ended:
        """Run the step to its end. The last thing that the actuator gets is the brake, or
        neutral."""
        try:
            with self._alarm:
                async with anyio.create_task_group() as group:
                    self._scope = group.cancel_scope
                    group.start_soon(self._transport.serve, self)
                    group.start_soon(self._watch_signals)
                    group.start_soon(self._serve_user)
                    await self._alarm.serve(time.monotonic_ns(), self._turn)
                    group.cancel_scope.cancel()
        finally:
            now_ns = time.monotonic_ns()
            self._devices.command(self._session.stop(now_ns), now_ns)
            self._transport.transmit(self._devices.take_tx(), now_ns)
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._transport.aclose()
        return self._session.ended or Ended.QUIT

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that was opened, lost or failed."""
        self._devices.on_port(port, state, detail, now_ns)
        if state is not PortState.OPENED:
            self._front.say(f"{port}: {detail}")
        self._alarm.rearm(now_ns)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Handle received bytes."""
        self._devices.on_rx(port, data, t_rx_ns)
        self._alarm.rearm(min(self._tick_ns, self._devices.next_due_ns()))

    def _turn(self) -> int | None:
        now_ns = time.monotonic_ns()
        session, devices = self._session, self._devices
        devices.on_time(now_ns)
        if now_ns >= self._tick_ns:
            # Missed ticks are skipped.
            self._tick_ns = max(self._tick_ns + PERIOD_NS, now_ns + PERIOD_NS // 2)
            devices.command(session.tick(now_ns), now_ns)
            for line in session.lines():
                self._front.say(line)
            if now_ns - self._shown_ns > SHOW_NS:
                self._shown_ns = now_ns
                self._front.show(now_ns)
        self._transport.transmit(devices.take_tx(), now_ns)
        return None if session.stage is Stage.OVER else min(self._tick_ns, devices.next_due_ns())

    async def _serve_user(self) -> None:
        self._end(await self._front.serve_step(self._session))

    async def _watch_signals(self) -> None:
        self._end(await signal_of_end())

    def _end(self, why: str) -> None:
        self.interrupted = why
        assert self._scope is not None
        self._scope.cancel()

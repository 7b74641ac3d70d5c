"""Joins one step of the set-up to the ports of the vehicle and to a terminal."""

import signal
import time

import anyio

from vehicled.core.messages import PortState
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.session import PERIOD_NS, Ended, Stage, StepSession
from vehicled.live.teleop.terminal import Terminal
from vehicled.runtime.timer import Alarm
from vehicled.runtime.wires import WireTransport

SHOW_NS = 100_000_000
CLOSE_S = 0.5
"""Timeout for ports that do not accept the last command, s."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals that end a step; a suspended set-up could not hold its actuator at neutral."""


class SetupBench:
    """Runs one step on the wall clock. It is the host of the ports."""

    def __init__(
        self, session: StepSession, devices: Devices, transport: WireTransport, terminal: Terminal
    ) -> None:
        self._session = session
        self._devices = devices
        self._transport = transport
        self._terminal = terminal
        self._alarm = Alarm()
        self._tick_ns = self._shown_ns = 0
        self._scope: anyio.CancelScope | None = None
        self.interrupted = ""
        """Signal, or loss of the terminal, that ended the step; empty if none."""

    async def run(self) -> Ended:
        """Run the step to its end. The last thing that the actuator gets is the brake, or
        neutral."""
        try:
            with self._alarm:
                async with anyio.create_task_group() as group:
                    self._scope = group.cancel_scope
                    group.start_soon(self._transport.serve, self)
                    group.start_soon(self._watch_signals)
                    group.start_soon(self._read_keys)
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
            self._terminal.say(f"{port}: {detail}")
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
                self._terminal.say(line)
            if now_ns - self._shown_ns > SHOW_NS and session.stage is not Stage.OVER:
                self._shown_ns = now_ns
                self._terminal.show(session.status(now_ns))
        self._transport.transmit(devices.take_tx(), now_ns)
        return None if session.stage is Stage.OVER else min(self._tick_ns, devices.next_due_ns())

    async def _read_keys(self) -> None:
        while True:
            await anyio.wait_readable(self._terminal.fileno())
            try:
                self._session.on_keys(self._terminal.keys(), time.monotonic_ns())
            except EOFError as error:
                self._end(str(error))
                return

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(*_ENDS) as signals:
            async for number in signals:
                self._end(signal.Signals(number).name)
                return

    def _end(self, why: str) -> None:
        self.interrupted = why
        assert self._scope is not None
        self._scope.cancel()

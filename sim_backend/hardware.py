"""World on real ports: the devices of a profile, played over the cables of another computer in wall
time.

The daemon runs elsewhere with its own profile, service and kernel. Its ports are opened here by the
daemon's own port code, so a pulled plug, a bus without power or a wrong line rate acts on both ends
as on a vehicle. A real line takes its own time: an emulator hands over a frame when the device
begins to send it. What is late leaves late, and is counted.
"""

import gc
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import anyio
from msgspec.structs import replace

from sim_backend.emulators.can_bus import CanBus
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.registry import wired_ports
from sim_backend.plant.interface import VehicleLostError
from sim_backend.wall import SLICE_NS
from sim_backend.world import WorldSetup, port_names
from vehicled.core.errors import SetupError
from vehicled.core.histogram import Histogram
from vehicled.core.messages import PortState
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports import AddressError, Port, make_port
from vehicled.runtime.ports.sharing import transport_of
from vehicled.runtime.timer import Alarm

KEPT_NS = 1_000_000_000
"""Longest time that bytes wait for a line that takes none, ns; then they are dropped, as by a
device with a full buffer."""


class HardwareInTheLoop:
    """One vehicle on real ports; nobody arms it but its own daemon."""

    def __init__(
        self, setup: WorldSetup, addresses: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Take the address of each device that is played. ``say`` is called with a line about each
        change of a port. Raises :class:`SetupError`, whose text names the mistaken address.
        """
        self._say = say
        self._ended_by = ""
        self._names = port_names(setup.profile)
        self._ports = _ports(setup, addresses)
        self.left_out = [name for name in wired_ports(setup.profile)[0] if name not in self._ports]
        """Devices with a cable for which there is no address."""
        now_ns = time.monotonic_ns()
        self._world = replace(setup, scenario=False).world(now_ns, time.time_ns())
        self._lines: dict[str, tuple[SerialLine | CanBus, int]] = {}
        for number, name in enumerate(self._names):
            device = self._world.emulator(number)
            sound = device.emulator if isinstance(device, FailingEmulator) else device
            if name in self._ports and isinstance(sound, SerialLine | CanBus):
                sound.carried = True
                self._lines[name] = sound, 0
        self._reached_ns = now_ns
        self._alarm = Alarm()
        self.lateness = Histogram()
        """Time from the instant at which bytes were due to that at which they were handed to the
        port."""

    async def run(self) -> str:
        """Run until a signal; return its name. Raises :class:`VehicleLostError` if the run must
        end."""
        lost: VehicleLostError | None = None
        try:
            with self._alarm:
                async with anyio.create_task_group() as group:
                    for port in self._ports.values():
                        group.start_soon(port.serve, self)
                    group.start_soon(self._watch_signals, group.cancel_scope)
                    try:
                        await self._alarm.serve(self._reached_ns, self._turn)
                    except VehicleLostError as error:
                        # Raise outside the task group, which would wrap the exception.
                        lost = error
                        group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                for port in self._ports.values():
                    await port.aclose()
        if lost is not None:
            raise lost
        return self._ended_by

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                self._ended_by = signal.Signals(number).name
                scope.cancel()
                return

    def _turn(self) -> int:
        """Bring the world up to date and hand over what is due; return when to look again."""
        now_ns = time.monotonic_ns()
        # A late simulator catches up in slices and reads the commands in between.
        self._reached_ns = min(now_ns, self._reached_ns + SLICE_NS)
        for due_ns, number, data in self._world.advance(self._reached_ns):
            port = self._ports.get(self._names[number])
            if port is not None:
                sent_ns = time.monotonic_ns()
                self.lateness.add(sent_ns - due_ns)
                port.send(data, sent_ns + KEPT_NS, sent_ns)
        for name, (line, baud) in self._lines.items():
            if isinstance(line, SerialLine) and line.baud != baud:
                # The daemon has set the device to another rate.
                self._lines[name] = line, line.baud
                self._ports[name].set_baud(line.baud)
        return now_ns if self._reached_ns < now_ns else self._world.next_wake_ns()

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Pass the daemon's bytes to a device."""
        self._world.on_frame(self._names.index(port), t_rx_ns, data)
        self._alarm.rearm(time.monotonic_ns())

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Say what became of a port; its device learns of a line that was opened anew."""
        self._say(f"{port}: {state.name.lower()}: {detail}")
        if state is PortState.OPENED:
            self._world.on_line(self._names.index(port), now_ns, 0)
            if port in self._lines:
                self._lines[port] = self._lines[port][0], 0

    def summary(self) -> list[str]:
        """Return what passed each port, and how late bytes were handed over."""
        lines = []
        for name, port in self._ports.items():
            counts = port.counts
            dropped = counts.refused + counts.expired + counts.overflowed + counts.abandoned
            lines.append(
                f"{name}: {counts.tx_bytes} bytes sent, {counts.rx_bytes} received, {dropped} "
                "messages dropped"
            )
        if self.lateness.n:
            p99_ms = self.lateness.quantiles_ns([0.99])[0] / 1e6
            lines.append(
                f"handed over late by {p99_ms:.2f} ms at p99, {self.lateness.max_ns / 1e6:.2f} "
                "ms at most"
            )
        return lines


def run(setup: WorldSetup, arguments: Sequence[str], say: Callable[[str], None]) -> None:
    """Run until a signal, with ``NAME=ADDRESS`` for each device. Raises :class:`SetupError` and
    :class:`VehicleLostError`."""
    addresses: dict[str, str] = {}
    for text in arguments:
        name, equals, address = text.partition("=")
        if not equals or not address:
            raise SetupError(
                f"--port {text}: expected NAME=ADDRESS, such as gnss=serial:/dev/ttyUSB0 or "
                "drive=can:can1"
            )
        if name in addresses:
            raise SetupError(f"--port {name} is given twice: each device has one port")
        addresses[name] = address
    bench = HardwareInTheLoop(setup, addresses, say)
    for name in bench.left_out:
        say(f"{name}: not played, because it has no --port")
    gc.collect()
    gc.freeze()
    say("ready; arm the vehicle on its own computer")
    try:
        anyio.run(bench.run, backend_options={"loop_factory": new_event_loop})
    finally:
        for line in bench.summary():
            say(line)


def _ports(setup: WorldSetup, addresses: Mapping[str, str]) -> dict[str, Port]:
    rates, can_ports = wired_ports(setup.profile)
    ports: dict[str, Port] = {}
    for name, address in addresses.items():
        if name not in rates:
            close = get_close_matches(name, rates, n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"?' if close else "use one of"
            raise SetupError(
                f"--port {name}: the profile has no device of this name with a cable; {hint} "
                f"{', '.join(rates)}"
            )
        device = setup.profile.devices[name]
        if (name in can_ports) != address.startswith("can:"):
            form = (
                "can:can1 or can:slcan:/dev/ttyACM0" if name in can_ports else "serial:/dev/ttyUSB0"
            )
            raise SetupError(
                f"--port {name}={address}: driver {device.driver.name} needs an address such "
                f"as {form}"
            )
        try:
            ports[name] = make_port(name, _completed(address, device.port), transport_of(device))
        except AddressError as error:
            raise SetupError(f"--port {name}: {error}") from None
    return ports


def _completed(address: str, theirs: str) -> str:
    """Return an address with the line rate and frame of the daemon's, unless it has its own."""
    _, _, query = theirs.partition("?")
    if "?" in address or not (
        address.startswith("serial:") and theirs.startswith(("serial:", "pty:"))
    ):
        return address
    kept = "&".join(part for part in query.split("&") if part.startswith(("baud=", "frame=")))
    return f"{address}?{kept}" if kept else address

"""Emulator of a source of pulses per second: the kernel's stamps of both edges, and the other side
of the reference clock, which keeps the samples for chrony."""

from collections.abc import Mapping
from types import MappingProxyType

from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.line import LineDevice, on_its_line
from sim_backend.emulators.outbox import ActiveFailures
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import Message, TimePulse
from vehicled.core.wire import pps
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

READ_NS = 20_000
"""Time from an edge until its stamp is read."""
PULSE_NS = 100_000_000
"""Length of a pulse, as receivers are delivered."""
DOUBLED, INVERTED, SHIFTED = "pps_doubled", "pps_inverted", "pps_shifted"
KINDS = MappingProxyType({DOUBLED: 300_000.0, INVERTED: 1.0, SHIFTED: 5_000.0})


class PulseLine(ActiveFailures, LineDevice):
    """Source as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        self._framer = Framer(pps.PROTOCOLS, pps.LONGEST_BYTES)
        self._normal = Normals(stream(seed, f"{port}/pulses"), 1)
        self._edges: list[tuple[int, int, bool]] = []
        self._clock_ns = 0
        self._asserts = self._clears = (0, 0)
        self.samples: list[pps.RefclockSample] = []
        """Samples for chrony."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """See :class:`sim_backend.emulators.failures.FailureInjectable`."""
        return KINDS

    def restart(self, now_ns: int) -> None:
        self._tx.clear()
        self._edges.clear()
        self._asserts = self._clears = (0, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Stamp the begin of a pulse, and its end later."""
        if not isinstance(message, TimePulse):
            return
        # Computer's clock less the time of the run.
        self._clock_ns = message.utc_ns + round(message.clock_offset_s * 1e9) - message.t_ns
        noise_ns = round(message.jitter_s * 1e9 * self._normal()[0])
        begins_ns = message.t_ns + noise_ns + round(1e3 * self._active.get(SHIFTED, 0.0))
        edges = [(begins_ns, True), (begins_ns + PULSE_NS, False)]
        if DOUBLED in self._active:
            edges.append((begins_ns + round(1e3 * self._active[DOUBLED]), True))
        self._edges = [
            (max(now_ns, edge_ns) + READ_NS, edge_ns + self._clock_ns, begins)
            for edge_ns, begins in sorted(edges)
        ]

    def next_due_ns(self) -> int:
        """Time of its next edge."""
        return self._edges[0][0] if self._edges else NEVER_NS

    def on_time(self, now_ns: int) -> None:
        while self._edges and self._edges[0][0] <= now_ns:
            _, stamp_ns, begins = self._edges.pop(0)
            if begins != (INVERTED in self._active):
                self._asserts = self._asserts[0] + 1, stamp_ns
            else:
                self._clears = self._clears[0] + 1, stamp_ns
            stamps = pps.PulseStamps(*self._asserts, *self._clears, now_ns + self._clock_ns)
            self._tx.append(pps.encode(stamps))

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Keep the samples for chrony."""
        for _, frame in self._framer.feed(data):
            record = pps.parse(frame)
            if isinstance(record, pps.RefclockSample):
                self.samples.append(record)
                self._tx.append(pps.encode(pps.RefclockErrors(0, 0)))


pulse_source = on_its_line(PulseLine)

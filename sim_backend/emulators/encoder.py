"""Emulator of a microcontroller that counts two wheel encoders: the programs of donkeycar and of
ros_arduino_bridge.

The simulated speed is the mean of the wheels, so both encoders count alike. Each sample of the
speed moves the wheels on; lines leave by the board's own millisecond clock.
"""

from collections.abc import Mapping
from math import floor, pi
from types import MappingProxyType

from drivers.encoder.codec import EncoderCounts, encode
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.line import LineDevice, baud_of, on_its_line
from sim_backend.emulators.outbox import ActiveFailures
from vehicled.core.messages import Message, WheelSpeed
from vehicled.profile.schema import DeviceTable

STANDS, TURNED, MISSING, JUMPS, RESETS = (
    "encoder_stands", "encoder_turned", "encoder_missing", "encoder_jumps", "encoder_resets",
)  # fmt: skip
KINDS = MappingProxyType({STANDS: 1.0, TURNED: 1.0, MISSING: 1.0, JUMPS: 100_000.0, RESETS: 1.0})
MS_NS = 1_000_000
LONGEST_COMMAND_BYTES = 16


class EncoderBoard(ActiveFailures, LineDevice):
    """Board as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(baud_of(device.port) if "baud=" in device.port else 0)
        params = device.driver.selected
        self._params = params
        self._ticks_per_m = params.ticks_per_revolution / (2.0 * pi * params.wheel_radius_m)
        self._ticks = [0.0] * len(params.signs)
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._began_ns = now_ns
        self._period_ns = 0
        self._sends_ns = NEVER_NS
        self._received = b""
        self._moved_ns: int | None = None
        self._ticks = [0.0] * len(self._ticks)

    @property
    def kinds(self) -> Mapping[str, float]:
        """See :class:`sim_backend.emulators.failures.FailureInjectable`."""
        return KINDS

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure."""
        if kind == JUMPS and active:
            self._ticks[0] += value
        elif kind == RESETS and active:
            self._begin(now_ns)
        else:
            super().inject(kind, value, active, now_ns)

    def restart(self, now_ns: int) -> None:
        self._tx.clear()
        self._begin(now_ns)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Turn the wheels by the speed since the sample before."""
        if not isinstance(message, WheelSpeed):
            return
        if self._moved_ns is not None:
            way_m = message.speed_mps * (message.t_ns - self._moved_ns) * 1e-9
            for i, sign in enumerate(self._params.signs):
                stands = i == 0 and STANDS in self._active
                turn = -1 if i == 0 and TURNED in self._active else 1
                self._ticks[i] += 0.0 if stands else turn * (sign or 1) * way_m * self._ticks_per_m
        self._moved_ns = message.t_ns

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Obey the commands."""
        end = b"\r" if self._params.dialect == "ros_arduino_bridge" else b"\n"
        *lines, rest = (self._received + data).split(end)
        self._received = rest[-LONGEST_COMMAND_BYTES:]
        for line in lines:
            if line in (b"p", b"e"):
                self._send(now_ns)
            elif line == b"r":
                self._ticks = [0.0] * len(self._ticks)
            elif line[:1] == b"c":
                digits = line[1:]
                self._period_ns = int(digits[:9]) * MS_NS if digits.isdigit() else 0
                self._sends_ns = now_ns + self._period_ns if self._period_ns else NEVER_NS

    def next_due_ns(self) -> int:
        """Time of its next line."""
        return self._sends_ns

    def on_time(self, now_ns: int) -> None:
        while self._sends_ns <= now_ns:
            self._send(self._sends_ns)
            self._sends_ns += self._period_ns

    def _send(self, now_ns: int) -> None:
        whole = 1 << self._params.counter_bits
        half = whole >> 1
        ticks = [(floor(each) + half) % whole - half for each in self._ticks]
        if MISSING in self._active:
            del ticks[-1]
        counts = EncoderCounts(tuple(ticks), (now_ns - self._began_ns) // MS_NS & 0xFFFFFFFF)
        self._tx.append(encode(counts, self._params.dialect))


encoder_board = on_its_line(EncoderBoard)

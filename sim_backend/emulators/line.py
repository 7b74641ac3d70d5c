"""Serial line between a device and the daemon: time per byte, random cuts, mismatched line rates.

A :class:`LineDevice` is the device itself, without byte timing; :class:`SerialLine` makes an
emulator of it.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.wire import Wire, WireDevice
from sim_backend.sensors.noise import BLOCK, stream
from vehicled.profile.schema import DeviceTable

BITS_PER_BYTE = 10
"""Start bit, eight data bits, stop bit."""
USB_BAUD = 8_000_000
"""Substitute line rate of USB: about the throughput of full-speed bulk transfers."""
RATE_TOLERANCE = 0.03
"""Largest relative difference of line rates that still communicate."""
ANSWER_NS = 5_000_000
"""Delay from a command to its answer: devices check for commands between two samples."""
LONGEST_CHUNK_BYTES = 96
BUFFER_BYTES = 8192
FORCED_BACKLOG_NS = 20_000_000
"""Longest queue of a device at a forced line rate, ns. It sends noise, which must not delay valid
data once the rate fits again."""
_BAUD = re.compile(r"[?&]baud=(\d{1,8})(?:&|$)")
_OPENED_BAUD = 115_200
"""Line rate of a serial port whose address has none."""

_RX, _LINE = 0, 1
"""Order of events at the same instant."""


class LineDevice(WireDevice):
    """Device at the far end of a serial line."""

    def __init__(self, baud: int = 0) -> None:
        super().__init__()
        self._baud = baud

    @property
    def baud(self) -> int:
        """Present line rate; 0 on USB, which has none."""
        return self._baud

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Take the daemon's bytes, cut anywhere, the last of which has just arrived."""


class AnsweringDevice(LineDevice):
    """Line device that answers commands after a while. Answers keep their order."""

    def __init__(self, baud: int = 0) -> None:
        super().__init__(baud)
        self._answers: deque[tuple[int, bytes]] = deque()

    def answer(self, frame: bytes, now_ns: int, after_ns: int = ANSWER_NS) -> None:
        """Send a frame after the response delay."""
        due_ns = now_ns + after_ns
        self._answers.append(
            (max(due_ns, self._answers[-1][0]) if self._answers else due_ns, frame)
        )

    def next_due_ns(self) -> int:
        """Time of its next answer."""
        return self._answers[0][0] if self._answers else NEVER_NS

    def on_time(self, now_ns: int) -> None:
        while self._answers and self._answers[0][0] <= now_ns:
            self._tx.append(self._answers.popleft()[1])


def baud_of(port: str) -> int:
    """Return the line rate in the profile's port address; 0 if it is not a serial port."""
    if not port.startswith(("serial:", "pty:")):
        return 0
    found = _BAUD.search(port)
    return int(found[1]) if found else _OPENED_BAUD


class SerialLine(Wire[LineDevice]):
    """Emulator of a device and its line: first in, first out, one byte after the other, in both
    directions.

    Bytes reach the daemon in pieces of random length, each at the time of its last byte. While the
    two line rates differ, noise arrives, in proportion to the rates. Frames that overflow the
    device's buffer are lost as a whole.
    """

    def __init__(
        self,
        device: LineDevice,
        port: str,
        seed: int,
        start_ns: int,
        *,
        host_baud: int = 0,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """``host_baud`` is the rate at which the daemon opens the port; 0: unknown, matches until
        it is set."""
        super().__init__(device, start_ns)
        self._buffer_bytes = buffer_bytes
        self._opened_baud = host_baud
        self._host_sends = self._host_listens = host_baud
        self._forced_baud = 0
        self.carried = False
        """True if a real line carries the bytes, with its own rates and times."""
        self._up_free_ns = self._down_free_ns = start_ns
        self._cuts = stream(seed, f"{port}/cuts")
        self._noise = stream(seed, f"{port}/noise")
        self._lengths: list[int] = []

    @property
    def baud(self) -> int:
        """Line rate of the device; 0 on USB."""
        return self._forced_baud or self._device.baud

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Send the daemon's bytes along the line to the device."""
        start_ns = max(t_ns, self._up_free_ns)
        sent_at = (self._host_sends or self.baud) if self.baud and not self.carried else USB_BAUD
        self._up_free_ns = start_ns + _duration_ns(len(data), sent_at)
        self._push(self._up_free_ns, _RX, (data, sent_at))

    def on_line(self, baud: int, t_ns: int) -> None:
        """Handle a new line rate; a reopened port returns to its first one."""
        self._host_sends = baud or self._opened_baud
        self._push(t_ns, _LINE, self._host_sends)

    # ---------------------------------------------------------------- injected failures

    @property
    def kinds(self) -> Mapping[str, float]:
        kinds: Mapping[str, float] = getattr(self._device, "kinds", {})
        return kinds

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        self.on_time(now_ns)
        device: Any = self._device
        device.inject(kind, value, active, now_ns)
        self._collect(now_ns)

    def force_baud(self, baud: int) -> None:
        """Keep the device at this line rate regardless of commands; 0 releases it."""
        self._forced_baud = baud if self._device.baud else 0

    # ---------------------------------------------------------------- bytes

    def _happen(self, kind: int, what: Any, now_ns: int) -> None:
        if kind == _RX:
            data, sent_at = what
            received = (
                data
                if self.carried or _fits(self.baud, sent_at)
                else self._scramble(data, sent_at, self.baud)
            )
            self._device.on_bytes(received, now_ns)
        else:
            self._host_listens = what

    def _clear(self, now_ns: int) -> None:
        """Drop what the device had queued or was sending."""
        self._events[:] = sorted(event for event in self._events if event[1] != _RX)
        self._up_free_ns = self._down_free_ns = now_ns

    def _send(self, frames: Sequence[bytes], now_ns: int) -> None:
        if not frames:
            return
        baud = USB_BAUD if self.carried else self.baud or USB_BAUD
        start_ns = max(now_ns, self._down_free_ns)
        room = self._buffer_bytes - (start_ns - now_ns) * baud // (BITS_PER_BYTE * 1_000_000_000)
        kept = []
        waits_ns = start_ns - now_ns
        for frame in frames:
            if len(frame) <= room and not (self._forced_baud and waits_ns > FORCED_BACKLOG_NS):
                room -= len(frame)
                waits_ns += _duration_ns(len(frame), baud)
                kept.append(frame)
        data = b"".join(kept)
        self._down_free_ns = start_ns + _duration_ns(len(data), baud)
        listener = self._host_listens
        noisy = not (self.carried or _fits(self.baud, listener))
        at, end = 0, len(data)
        while at < end:
            stop = min(at + self._length(), end)
            piece = data[at:stop]
            if noisy:
                piece = self._scramble(piece, baud, listener)
            self._tx.append((start_ns + _duration_ns(stop, baud), piece))
            at = stop

    def _scramble(self, data: bytes, sent_at: int, received_at: int) -> bytes:
        # A slow receiver reads several bytes as one, a fast one reads one byte as several.
        received = len(data) * min(received_at, 8 * sent_at) // sent_at
        return self._noise.bytes(max(1, received))

    def _length(self) -> int:
        if not self._lengths:
            self._lengths = self._cuts.integers(
                1, LONGEST_CHUNK_BYTES, BLOCK, endpoint=True
            ).tolist()
        return self._lengths.pop()


def on_its_line(
    unit: Callable[[str, DeviceTable, int, int], LineDevice],
) -> Callable[[str, DeviceTable, int, int], SerialLine]:
    """Return the emulator of a device and its line, for the registry: a function of port name,
    device table, seed and start."""

    def emulator(port: str, device: DeviceTable, seed: int, start_ns: int) -> SerialLine:
        return SerialLine(
            unit(port, device, seed, start_ns), port, seed, start_ns, host_baud=baud_of(device.port)
        )

    return emulator


def _duration_ns(count: int, baud: int) -> int:
    return count * BITS_PER_BYTE * 1_000_000_000 // baud


def _fits(device_baud: int, host_baud: int) -> bool:
    return (
        not device_baud
        or not host_baud
        or abs(device_baud - host_baud) <= RATE_TOLERANCE * device_baud
    )

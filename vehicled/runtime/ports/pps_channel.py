"""Sources of pulses per second: ``/dev/ppsN`` by the ioctl of RFC 2783, or the folder
``/sys/class/pps/ppsN``, which every user may read. What the driver sends goes to chrony or ntpd.

The kernel stamps the edges, so that it does not matter when they are read. A thread waits for them.
"""

import errno
import fcntl
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from struct import Struct as Layout
from struct import calcsize
from typing import NamedTuple, Protocol

import anyio.to_thread

from vehicled.core.wire import pps
from vehicled.core.wire.framing import Framer
from vehicled.runtime.ports.address import PpsAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.refclock import ShmOutput, SockOutput, error_number
from vehicled.runtime.readable import while_readable

SECOND_NS = 1_000_000_000
WAIT_NS = 500_000_000
"""Longest wait of the thread, which the end of the port waits for."""
POLL_S = 0.02
"""Interval at which the folder is read: shorter than a pulse of 0.1 s."""
FETCH = (3 << 30) | (calcsize("@P") << 16) | (ord("p") << 8) | 0xA4
"""``PPS_FETCH`` of linux/pps.h: its size is that of a pointer."""
FETCH_DATA = Layout("@IIqiIqiIi0qqiI")
"""``struct pps_fdata``: sequences and times of both edges, mode, time-out."""
_STAMP = re.compile(r"(\d{1,12})\.(\d{9})#(\d{1,10})\s*\Z")
_EDGES = Layout("<IqIq")


class Edges(NamedTuple):
    """Newest edges of a source, as in :class:`vehicled.core.wire.pps.PulseStamps`."""

    assert_sequence: int
    assert_ns: int
    clear_sequence: int
    clear_ns: int


class PulseReader(Protocol):
    """One source of pulses."""

    def wait(self) -> Edges | None:
        """Wait for an edge, at most for :data:`WAIT_NS`; None without one. Raises OSError."""
        ...

    def close(self) -> None:
        """Close the source; safe to repeat."""
        ...


class KernelPulses:
    """Source by its device."""

    def __init__(self, path: str) -> None:
        """Open the device. Raises OSError."""
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Without a wait, which also shows if it is a source of pulses.
            self._fetch(0)
        except OSError:
            self.close()
            raise

    def wait(self) -> Edges | None:
        """Wait for an edge."""
        try:
            return self._fetch(WAIT_NS)
        except OSError as error:
            if error.errno in (errno.ETIMEDOUT, errno.EINTR):
                return None
            raise

    def _fetch(self, timeout_ns: int) -> Edges:
        data = bytearray(FETCH_DATA.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, timeout_ns, 0))
        fcntl.ioctl(self._file, FETCH, data, True)
        asserts, clears, at_s, at_ns, _, clear_s, clear_ns, *_ = FETCH_DATA.unpack(data)
        return Edges(asserts, at_s * SECOND_NS + at_ns, clears, clear_s * SECOND_NS + clear_ns)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class FolderPulses:
    """Source by its folder of sysfs."""

    def __init__(self, path: str) -> None:
        """Read it once. Raises OSError."""
        self._folder = Path(path)
        self._newest = self._read()

    def wait(self) -> Edges | None:
        """Wait for an edge."""
        for _ in range(round(WAIT_NS * 1e-9 / POLL_S)):
            time.sleep(POLL_S)
            newest = self._read()
            if newest != self._newest:
                self._newest = newest
                return newest
        return None

    def _read(self) -> Edges:
        found: list[int] = []
        for edge in ("assert", "clear"):
            match = _STAMP.match((self._folder / edge).read_text(encoding="ascii"))
            found += [int(match[3]), int(match[1]) * SECOND_NS + int(match[2])] if match else [0, 0]
        return Edges(*found)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class PpsChannel:
    """Open source of pulses."""

    retry_s: float | None = None
    owes = False

    def __init__(
        self, reader: PulseReader, detail: str, shm: ShmOutput | None, sock: SockOutput | None
    ) -> None:
        """Take ownership of source and outputs, and start the thread that waits for edges."""
        self.detail = detail
        self._outputs = shm, sock
        self._framer = Framer(pps.PROTOCOLS, pps.LONGEST_BYTES)
        self._errors: pps.RefclockErrors | None = None
        self._loop_side, self._edge_side = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._loop_side.setblocking(False)
        self._reader = reader
        self._ends = False
        self._reason = "the source was closed"
        self._thread = threading.Thread(target=self._work, name="pps", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor of the loop's side."""
        return self._loop_side.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver the stamps of each edge."""
        await while_readable(self._loop_side.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """Hand samples to chrony or ntpd; the next delivery has their errors."""
        for _, frame in self._framer.feed(data):
            sample = pps.parse(frame)
            if isinstance(sample, pps.RefclockSample):
                numbers = []
                for output in self._outputs:
                    try:
                        if output is not None:
                            output.write(sample)
                        numbers.append(0)
                    except OSError as error:
                        numbers.append(error_number(error))
                self._errors = pps.RefclockErrors(*numbers)
        return len(data)

    async def change_baud(self, baud: int) -> None:
        """Do nothing."""

    async def aclose(self, *, drain: bool) -> None:
        """End the thread and close all."""
        del drain
        self._ends = True
        with suppress(OSError):
            self._loop_side.shutdown(socket.SHUT_RDWR)
        await anyio.to_thread.run_sync(self._thread.join, 4 * WAIT_NS * 1e-9)
        self._loop_side.close()
        for output in self._outputs:
            if output is not None:
                output.close()

    def _drain(self, deliver: Deliver) -> float | None:
        try:
            data = self._loop_side.recv(_EDGES.size)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            raise LostError(self._reason)
        # Both clocks together: the driver needs the age of the edge, whenever it is read.
        before_ns, read_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        errors, self._errors = self._errors, None
        frames = pps.encode(pps.PulseStamps(*Edges(*_EDGES.unpack(data)), read_ns))
        if errors is not None:
            frames += pps.encode(errors)
        deliver(frames, (before_ns + after_ns) // 2)
        return None

    def _work(self) -> None:
        """Wait for edges until the loop's side closes or the source is gone."""
        try:
            while not self._ends:
                edges = self._reader.wait()
                if edges is not None:
                    self._edge_side.send(_EDGES.pack(*edges))
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            self._reason = f"the source of pulses is gone ({error.strerror or error})"
        finally:
            self._reader.close()
            self._edge_side.close()


async def open_pps(address: PpsAddress, counts: PortCounts) -> PpsChannel:
    """Open a source of pulses and its outputs, in a thread. Raises :class:`OpenError`."""
    del counts
    return await anyio.to_thread.run_sync(_open, address)


def _open(address: PpsAddress) -> PpsChannel:
    path = address.path
    kind: Callable[[str], PulseReader] = FolderPulses if os.path.isdir(path) else KernelPulses
    try:
        reader = kind(path)
    except OSError as error:
        raise OpenError(_why_not(path, error)) from None
    except UnicodeDecodeError:
        raise OpenError(f"{path} is not a source of pulses") from None
    outputs = []
    try:
        shm = ShmOutput(address.shm) if address.shm >= 0 else None
    except OSError as error:
        reader.close()
        text = f"shm={address.shm}: {error.strerror or error} ({os.strerror(error.errno or 0)})"
        raise OpenError(
            f"{text}: units 0 and 1 are root's alone, and another program may have made it "
            "('ipcs -m'): use shm=2 or above"
        ) from None
    if shm is not None:
        outputs.append(f"shared memory unit {address.shm}")
    if address.sock:
        outputs.append(address.sock)
    sock = SockOutput(address.sock) if address.sock else None
    return PpsChannel(reader, f"{path}{', for ' if outputs else ''}{', '.join(outputs)}", shm, sock)


def _why_not(path: str, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return (
                f"{path} does not exist: 'dtoverlay=pps-gpio,gpiopin=18' in config.txt makes it of "
                "a pin, 'ldattach PPS /dev/ttyS0' of a line DCD"
            )
        case errno.EACCES | errno.EPERM:
            name = os.path.basename(path)
            return f"no permission to open {path}: use pps:/sys/class/pps/{name}, open to all"
        case errno.ENOTTY | errno.EINVAL:
            return f"{path} is not a source of pulses"
    return f"cannot open {path} ({error.strerror or error})"

"""Serial ports and ptys. pyserial opens the port in a worker thread, because that may block;
pyserial-asyncio reads.

The port is given to ``SerialTransport`` behind a handle. Alone it would read 1 KiB with two system
calls, and drain and close the port on the loop, which may block for as long as the line needs. It
only reads: its write buffer knows no deadlines, and the last frame must be sent when no loop runs.

On trio :func:`~vehicled.runtime.readable.while_readable` reads the bare descriptor. This also works
on asyncio: remove the branch in ``receive`` to drop pyserial-asyncio. CPU per frame of 64 bytes at
400 Hz on a pty, one shared core: behind the handle 28-42 us, transport alone 51-58, bare descriptor
30-41, ``anyio.wait_readable`` 68-103, trio 51-60.
"""

import asyncio
import errno
import os
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import serial
import serial_asyncio

from vehicled.runtime.ports.address import SerialAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.read_budget import LINE_BYTES_PER_S, ReadBudget
from vehicled.runtime.readable import while_readable

_DRAIN_S = 5.0


class SerialChannel:
    """Open serial port."""

    retry_s: float | None = None
    owes = False

    def __init__(self, port: serial.Serial, detail: str) -> None:
        """Take ownership of ``port``, which is open and non-blocking."""
        self.detail = detail
        self._port = port
        self._fd = port.fileno()
        self.counts = PortCounts()
        self._budget = _budget(port.baudrate)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    async def receive(self, deliver: Deliver) -> None:
        """Deliver what arrives: with ``SerialTransport`` on asyncio, from the bare descriptor on
        trio."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            await while_readable(self._fd, partial(self._drain, deliver))
        end: asyncio.Future[None] = loop.create_future()
        receiver = _Receiver(deliver, end, self.paused)
        transport = serial_asyncio.SerialTransport(loop, receiver, _Handle(self))
        try:
            await end
        finally:
            receiver.stop()
            if not transport.is_closing():
                transport.abort()

    def paused(self, read_bytes: int) -> float:
        """Account for what was read; return the pause before the next read, s."""
        pause_s = self._budget.spend(read_bytes)
        self.counts.throttled += pause_s > 0.0
        return pause_s

    def read(self) -> bytes:
        """Return the waiting bytes that may be read now, possibly none. Raises
        :class:`LostError`."""
        try:
            data = os.read(self._fd, self._budget.allowance())
        except BlockingIOError:
            return b""
        except OSError as error:
            raise LostError(f"the device is gone ({error.strerror})") from None
        if not data:
            # With VMIN 1 an idle line gives EAGAIN, so an empty read is a hang-up; the descriptor
            # would stay readable forever.
            raise LostError("the device is gone (hang-up)")
        return data

    def write(self, data: bytes) -> int:
        """Write data; return the number of bytes that the driver accepted."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LostError(f"the device is gone ({error.strerror})") from None

    async def change_baud(self, baud: int) -> None:
        """Drain the line and change its rate in a worker thread, because adapters need
        milliseconds."""
        try:
            with anyio.fail_after(_DRAIN_S):
                await anyio.to_thread.run_sync(self._change_baud, baud, abandon_on_cancel=True)
        except TimeoutError:
            raise LostError(
                f"the line did not drain within {_DRAIN_S:.0f} s, so the baud rate cannot be "
                "changed"
            ) from None
        except (OSError, ValueError, termios.error) as error:
            raise LostError(f"cannot change the baud rate to {baud} ({error})") from None

    async def aclose(self, *, drain: bool) -> None:
        """Close in a worker thread, because the kernel waits there for unsent data."""
        if self._port.is_open:
            await anyio.to_thread.run_sync(self._close, drain)

    def _drain(self, deliver: Deliver) -> float | None:
        data = self.read()
        if data:
            deliver(data, time.monotonic_ns())
        return self.paused(len(data)) or None

    def _change_baud(self, baud: int) -> None:
        termios.tcdrain(self._fd)
        self._port.baudrate = baud
        self._budget = _budget(baud)

    def _close(self, drain: bool) -> None:
        if not drain:
            with suppress(OSError, termios.error):
                termios.tcflush(self._fd, termios.TCOFLUSH)
        with suppress(OSError):
            self._port.close()


def _budget(baud: int) -> ReadBudget:
    # Eight bits a byte, without start and stop, for a device whose clock is a little fast.
    return ReadBudget(max(baud / 8, LINE_BYTES_PER_S))


class _Handle:
    """Stand-in for the port, given to the transport."""

    timeout = 0
    write_timeout = 0

    def __init__(self, channel: SerialChannel) -> None:
        self._channel = channel

    def fileno(self) -> int:
        return self._channel.fileno()

    def read(self, size: int) -> bytes:
        """Return the waiting bytes that may be read now, whatever ``size``."""
        try:
            return self._channel.read()
        except LostError as error:
            raise serial.SerialException(str(error)) from None

    def flush(self) -> None:
        """Do nothing: the channel drains in a worker thread."""

    def close(self) -> None:
        """Do nothing: the channel closes the port."""


class _Receiver(asyncio.Protocol):
    """Adds arrival times to what the transport reads, and pauses it when the line has had its
    due."""

    def __init__(
        self, deliver: Deliver, end: asyncio.Future[None], paused: Callable[[int], float]
    ) -> None:
        self._deliver = deliver
        self._end = end
        self._paused = paused
        self._transport: Any = None
        self._resume: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._deliver(data, time.monotonic_ns())
        except BaseException as error:  # noqa: BLE001 - the loop would only log it; here it reaches the task that waits
            self._finish(error)
            return
        pause_s = self._paused(len(data))
        if pause_s and not self._transport.is_closing():
            self._transport.pause_reading()
            self._resume = self._transport.loop.call_later(pause_s, self._transport.resume_reading)

    def stop(self) -> None:
        if self._resume is not None:
            self._resume.cancel()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._finish(LostError(str(exc) if exc is not None else "the transport was closed"))

    def _finish(self, error: BaseException) -> None:
        if not self._end.done():
            self._end.set_exception(error)


async def open_serial(address: SerialAddress, counts: PortCounts) -> SerialChannel:
    """Open a serial port for exclusive use. Raises :class:`OpenError`."""
    channel = await anyio.to_thread.run_sync(_open, address)
    channel.counts = counts
    return channel


def _open(address: SerialAddress) -> SerialChannel:
    path = address.path
    # An inter-byte timeout of 0 makes pyserial set VMIN 1, which distinguishes an idle line from a
    # hang-up.
    _, parity, stop = address.frame
    port = serial.Serial(
        baudrate=address.baud,
        parity=parity,
        stopbits=int(stop),
        timeout=0,
        write_timeout=0,
        inter_byte_timeout=0,
        exclusive=True,
    )
    # Set before it opens, so that the line has this state from the beginning.
    port.dtr = address.dtr == "on"
    try:
        port.port = path
        port.open()
    except (OSError, ValueError, termios.error) as error:
        raise OpenError(_why_not(path, address.baud, error)) from None
    if parity != "N":
        _drop_parity_errors(port.fileno())
    real = os.path.realpath(path)
    detail = (
        f"{path} at {address.baud} baud"
        if real == path
        else f"{path} ({real}) at {address.baud} baud"
    )
    try:
        port.set_low_latency_mode(True)
    except (OSError, ValueError, RuntimeError):
        # Ptys and CDC-ACM have no low-latency mode and need none, drivers may forbid it, and it
        # exists only on Linux.
        return SerialChannel(port, detail)
    return SerialChannel(port, f"{detail}, low latency")


def _drop_parity_errors(fd: int) -> None:
    """Let the kernel drop bytes with a wrong parity, which pyserial passes on: a protocol with
    parity may have no checksum."""
    with suppress(OSError, termios.error):
        attributes = termios.tcgetattr(fd)
        attributes[0] |= termios.INPCK | termios.IGNPAR
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _why_not(path: str, baud: int, error: Exception) -> str:
    code = getattr(error, "errno", None)
    if code == errno.ENOENT:
        return (
            f"{path} does not exist: plug the device in, or use a port that 'vehicled doctor' lists"
        )
    if code in (errno.EACCES, errno.EPERM):
        return (
            f"no permission to open {path}: add the user to the group that owns it, usually dialout"
        )
    if code in (errno.EAGAIN, errno.EBUSY):
        holder = lock_holder(path)
        return f"{path} is in use by {holder or 'another process'}: stop that process first"
    if code is None and "configure port" in str(error):
        return f"{path} is not a serial port ({error})"
    if isinstance(error, ValueError):
        return f"{path} does not support {baud} baud ({error})"
    return f"cannot open {path} ({error})"


def lock_holder(path: str, proc: Path = Path("/proc")) -> str:
    """Return the process that holds the lock of a serial port, as ``name (process 123)``; empty if
    unknown."""
    with suppress(OSError, ValueError, IndexError):
        state = os.stat(path)
        file = (os.major(state.st_dev), os.minor(state.st_dev), state.st_ino)
        for line in (proc / "locks").read_text().splitlines():
            # 1: FLOCK  ADVISORY  WRITE 27276 00:1a:3 0 EOF
            words = line.split()
            major, minor, inode = words[5].split(":")
            if words[1] == "FLOCK" and (int(major, 16), int(minor, 16), int(inode)) == file:
                pid = words[4]
                return f"{(proc / pid / 'comm').read_text().strip()} (process {pid})"
    return ""

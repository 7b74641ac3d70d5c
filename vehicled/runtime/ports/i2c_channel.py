"""I2C buses of the kernel (``/dev/i2c-N``): transactions of :mod:`vehicled.core.wire.i2c` for a
device.

A transaction blocks for as long as the bus needs, up to a second where a device holds it, so a
thread makes them; a pair of sockets between it and the loop is the channel's descriptor.
"""

import errno
import fcntl
import os
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Protocol

import anyio.to_thread

from vehicled.core.wire.i2c import I2cRequestReader
from vehicled.runtime.ports.address import I2cAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.readable import while_readable

I2C_SLAVE = 0x0703
"""Request of the kernel that addresses a device which no driver of its own has."""
TRIES = 3
"""Times that a transaction is tried: noise of motors disturbs single ones."""
END_S = 2.0
"""Longest wait for the last transactions when the port closes, s."""
BUFFER_BYTES = 4096


class I2cBus(Protocol):
    """One device on a bus."""

    def transfer(self, written: bytes, read: int) -> bytes:
        """Write bytes, then return ``read`` others. Raises OSError."""
        ...

    def close(self) -> None:
        """Close the bus; safe to repeat."""
        ...


class KernelBus:
    """Device on a bus of the kernel."""

    def __init__(self, path: str, device: int) -> None:
        """Open the bus. Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self._file, I2C_SLAVE, device)
        except OSError:
            self.close()
            raise

    def transfer(self, written: bytes, read: int) -> bytes:
        """Write, then read as a transaction of its own: registers keep their pointer."""
        if written:
            os.write(self._file, written)
        return os.read(self._file, read) if read else b""

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class I2cChannel:
    """Open device."""

    retry_s: float | None = None
    owes = False

    def __init__(self, bus: I2cBus, detail: str) -> None:
        """Take ownership of the bus, and start the thread that makes its transactions."""
        self.detail = detail
        self._loop_side, self._bus_side = socket.socketpair()
        self._loop_side.setblocking(False)
        for each in (self._loop_side, self._bus_side):
            # Commands that wait longer than a few are late; the send queue of the port drops them.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._bus = bus
        self._reason = "the bus was closed"
        # It ends with the sockets; the last command must be sent even while the process ends.
        self._thread = threading.Thread(target=self._work, name="i2c", daemon=False)
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor of the loop's side."""
        return self._loop_side.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver the answers."""
        await while_readable(self._loop_side.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """Hand requests to the thread; return the number of bytes that it has room for."""
        try:
            return self._loop_side.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise LostError(self._reason) from None

    async def change_baud(self, baud: int) -> None:
        """Do nothing: the rate of a bus belongs to all its devices (dtparam=i2c_arm_baudrate)."""

    async def aclose(self, *, drain: bool) -> None:
        """Let the thread end, after what it has, or at once; wait for it elsewhere."""
        with suppress(OSError):
            self._loop_side.shutdown(socket.SHUT_WR if drain else socket.SHUT_RDWR)
        await anyio.to_thread.run_sync(self._thread.join, END_S)
        self._loop_side.close()

    def _drain(self, deliver: Deliver) -> float | None:
        try:
            data = self._loop_side.recv(BUFFER_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            raise LostError(self._reason)
        deliver(data, time.monotonic_ns())
        return None

    def _work(self) -> None:
        """Make transactions until the loop's side closes or the device is gone."""
        reader = I2cRequestReader()
        try:
            while data := self._bus_side.recv(BUFFER_BYTES):
                for request in reader.feed(data):
                    answer = self._transfer(request.written, request.read)
                    if answer:
                        # Whoever closes the port waits for no answers, and what he sent is made.
                        with suppress(BrokenPipeError):
                            self._bus_side.sendall(answer)
        except OSError as error:
            self._reason = f"the device does not acknowledge any more ({error.strerror or error})"
        finally:
            self._bus.close()
            self._bus_side.close()

    def _transfer(self, written: bytes, read: int) -> bytes:
        for left in reversed(range(TRIES)):
            try:
                return self._bus.transfer(written, read)
            except OSError:
                if not left:
                    raise
        raise AssertionError


async def open_i2c(address: I2cAddress, counts: PortCounts) -> I2cChannel:
    """Open a device on a bus, in a thread. Raises :class:`OpenError`."""
    del counts
    return await anyio.to_thread.run_sync(_open, address)


def _open(address: I2cAddress) -> I2cChannel:
    try:
        bus = KernelBus(address.path, address.device)
        try:
            bus.transfer(b"", 1)
        except OSError:
            bus.close()
            raise
    except OSError as error:
        raise OpenError(_why_not(address, error)) from None
    return I2cChannel(bus, f"{address.path}, device {address.device:#04x}")


def _why_not(address: I2cAddress, error: OSError) -> str:
    path, number = address.path, address.path.rpartition("-")[2]
    match error.errno:
        case errno.ENOENT:
            return (
                f"{path} does not exist: enable I2C (raspi-config, jetson-io), or use a bus that "
                "'i2cdetect -l' lists"
            )
        case errno.EACCES | errno.EPERM:
            return f"no permission to open {path}: add the user to the group i2c"
        case errno.EBUSY:
            return f"{path}: a driver of the kernel has device {address.device:#04x}: unload it"
        case errno.ENXIO | errno.EREMOTEIO | errno.EIO | errno.ETIMEDOUT:
            return (
                f"{path}: nothing answers at {address.device:#04x}: check power, SDA, SCL and the "
                f"address ('i2cdetect -y {number}' shows who answers)"
            )
        case errno.ENOTTY:
            return f"{path} is not an I2C bus"
    return f"cannot open {path} ({error.strerror or error})"

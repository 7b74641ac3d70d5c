"""Counters of the kernel (``/sys/bus/counter``): quadrature decoders of a processor, such as TI's
eQEP and the timers of an STM32, read as the lines of a microcontroller (``TICKS,MS``)."""

import os
import time
from contextlib import suppress

import anyio

from vehicled.runtime.ports.address import CounterAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts

DEFAULT_S = 0.05
LEAST_S = 0.005
LONGEST_TEXT = 32


class CounterChannel:
    """Open counters, read periodically. The request ``cMS`` sets the period."""

    retry_s: float | None = None
    owes = False

    def __init__(self, files: list[int], detail: str) -> None:
        """Take ownership of the open ``count`` files."""
        self.detail = detail
        self._files = files
        self._period_s = DEFAULT_S

    def fileno(self) -> int:
        """Return the descriptor of the first counter."""
        return self._files[0]

    async def receive(self, deliver: Deliver) -> None:
        """Deliver a line for each period."""
        while True:
            try:
                texts = [os.pread(file, LONGEST_TEXT, 0).strip() for file in self._files]
            except OSError as error:
                raise LostError(f"the counter is gone ({error.strerror or error})") from None
            now_ns = time.monotonic_ns()
            clock = b"%d" % (now_ns // 1_000_000 & 0xFFFF_FFFF)
            deliver(b";".join(text + b"," + clock for text in texts) + b"\n", now_ns)
            await anyio.sleep(self._period_s)

    def write(self, data: bytes) -> int:
        """Take the period from a request."""
        digits = data.strip().removeprefix(b"c")
        if digits.isdigit():
            self._period_s = max(LEAST_S, int(digits[:6]) * 1e-3)
        return len(data)

    async def change_baud(self, baud: int) -> None:
        """Do nothing."""

    async def aclose(self, *, drain: bool) -> None:
        """Close the files."""
        del drain
        for file in self._files:
            with suppress(OSError):
                os.close(file)
        self._files.clear()


async def open_counter(address: CounterAddress, counts: PortCounts) -> CounterChannel:
    """Open one counter, or two. Raises :class:`OpenError`."""
    del counts
    files: list[int] = []
    details = []
    try:
        for path in filter(None, (address.path, address.second)):
            details.append(_checked(path))
            files.append(os.open(f"{path}/count", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        for file in files:
            os.close(file)
        raise OpenError(
            f"cannot open a counter ({error.strerror or error}: {error.filename}): 'ls "
            "/sys/bus/counter/devices/*/' shows those that there are"
        ) from None
    return CounterChannel(files, ", ".join(details))


def _checked(path: str) -> str:
    """Return what a counter is. Raises :class:`OpenError` for one that does not count."""
    if _read(f"{path}/enable") == "0":
        raise OpenError(f"{path} does not count: write 1 into {path}/enable")
    ceiling = _read(f"{path}/ceiling")
    if ceiling == "0":
        raise OpenError(
            f"{path} stays at 0, its ceiling: write 4294967295 (65535 for 16 bits) into "
            f"{path}/ceiling"
        )
    if not ceiling.isdigit():
        return path
    top = int(ceiling)
    if top & (top + 1):
        raise OpenError(
            f"{path} wraps at {top}, which is no whole number of bits: write 4294967295 (65535 "
            f"for 16 bits) into {path}/ceiling"
        )
    return f"{path} (counter_bits = {top.bit_length()})"


def _read(file: str) -> str:
    try:
        with open(file, encoding="ascii", errors="replace") as found:
            return found.read(LONGEST_TEXT).strip()
    except OSError:
        return ""

"""Transactions of an I2C bus as a byte stream, in both directions.

A request is ``bytes to write | bytes to read | the bytes written``; its answer is the bytes read,
and nothing for one that reads none. The address of the device belongs to the port, so a driver
never sees it. A device that does not acknowledge is a port that is lost.
"""

from msgspec import Struct

HEAD = 2


class I2cRequest(Struct, frozen=True, gc=False):
    """One transaction: bytes to write, then a number of bytes to read."""

    written: bytes
    read: int = 0


def encode(*requests: I2cRequest) -> bytes:
    """Return the bytes of requests, each of at most 255 bytes either way."""
    return b"".join(bytes((len(each.written), each.read)) + each.written for each in requests)


class I2cRequestReader:
    """Reads requests on the side of the bus, cut anywhere. Never raises; keeps less than one."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[I2cRequest]:
        """Return the requests that ``data`` completes."""
        held, at, found = self._held + data, 0, list[I2cRequest]()
        while at + HEAD <= len(held) and at + HEAD + held[at] <= len(held):
            end = at + HEAD + held[at]
            found.append(I2cRequest(held[at + HEAD : end], held[at + 1]))
            at = end
        self._held = held[at:]
        return found

"""Devices that count what their reader of bytes drops."""

from typing import Protocol

from vehicled.core.ports import Device


class CountedReader(Protocol):
    """Reader of a byte stream that counts what it drops, such as a Framer."""

    @property
    def bad_frames(self) -> int: ...

    @property
    def dropped_bytes(self) -> int: ...


class CountedDevice(Device):
    """Device whose counts are those of its reader."""

    _reader: CountedReader

    @property
    def bad_frames(self) -> int:
        """Heads without a valid frame."""
        return self._reader.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside of valid frames."""
        return self._reader.dropped_bytes

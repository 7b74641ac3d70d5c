"""Emulated devices behind pseudo-terminals, so that the daemon's real serial and CAN code runs on a laptop.

A byte port is a pty; a CAN port is an slcan adapter on a pty, because containers and laptops rarely have a vcan.
"""

import os
import termios
import tty
from collections.abc import Iterable, Mapping
from contextlib import suppress

from vehicled.wire import can, slcan

SLCAN_BITRATE = 500_000
_READ_BYTES = 4096
_BAUD = {getattr(termios, name): int(name[1:]) for name in dir(termios) if name[0] == "B" and name[1:].isdigit()}


class _Adapter:
    """The electronics of an slcan adapter: frames on the bus side, text on the other; answers what opens and closes it."""

    def __init__(self) -> None:
        self._decoder = slcan.Decoder()
        self._open = False

    def from_host(self, text: bytes) -> tuple[bytes, bytes]:
        """Records for the bus, and answers to the host."""
        records, answers = b"", b""
        for item in self._decoder.feed(text):
            if isinstance(item, can.CanFrame):
                if self._open:
                    records += can.pack(item)
                    answers += b"Z\r" if item.extended else b"z\r"
                else:
                    answers += slcan.REFUSED
                continue
            command = item.text[:1]
            if command in (b"O", b"L"):
                self._open = True
            elif command == b"C":
                self._open = False
            answers += b"\r"
        return records, answers

    def to_host(self, records: bytes) -> bytes:
        """Text of frames on the bus; a closed adapter hears nothing."""
        return b"".join(slcan.encode(frame) for frame in can.unpack_all(records)) if self._open else b""


class Ptys:
    """One pty for each of some ports. Close it, or use it as a context."""

    def __init__(self, ports: Mapping[str, int], can_ports: Iterable[str]) -> None:
        """``ports``: line rate by port; 0 for a device that has none, such as one on USB. OSError when no pty is left."""
        self._master: dict[str, int] = {}
        self._slave: dict[str, int] = {}
        self._port: dict[int, str] = {}
        self._baud: dict[str, int] = {}
        self._has_rate: dict[str, bool] = {}
        self._adapters = {port: _Adapter() for port in can_ports}
        self.urls: dict[str, str] = {}
        """Addresses for the daemon, by port."""
        self.lost_bytes = 0
        """Bytes for a daemon that does not read, as a real adapter would lose them."""
        for port, baud in ports.items():
            master, slave = os.openpty()
            tty.setraw(slave)
            os.set_blocking(master, False)
            # Our own descriptor of the slave stays open: without any, reading the master fails until the daemon comes back.
            self._master[port], self._slave[port], self._port[master] = master, slave, port
            path = os.ttyname(slave)
            if port in self._adapters:
                self.urls[port] = f"can:slcan:{path}?bitrate={SLCAN_BITRATE}"
            else:
                self.urls[port] = f"serial:{path}?baud={baud}" if baud else f"serial:{path}"
            self._has_rate[port] = baud > 0

    @property
    def descriptors(self) -> list[int]:
        """To be watched for reading."""
        return list(self._port)

    def read(self, descriptor: int) -> tuple[str, bytes, int | None]:
        """Port, bytes that the daemon sent, and its line rate when that has changed."""
        port = self._port[descriptor]
        data = b""
        with suppress(OSError):
            data = os.read(descriptor, _READ_BYTES)
        adapter = self._adapters.get(port)
        if adapter is not None:
            data, answers = adapter.from_host(data)
            self._write(descriptor, answers)
            return port, data, None
        # Rates outside the standard ones are not told by tcgetattr; the daemon opens the port with the right one of those.
        baud = _BAUD.get(termios.tcgetattr(self._slave[port])[5], 0) if self._has_rate[port] else 0
        changed = baud if baud and baud != self._baud.get(port) else None
        if changed is not None:
            self._baud[port] = baud
        return port, data, changed

    def write(self, port: str, data: bytes) -> None:
        """Bytes of the device."""
        adapter = self._adapters.get(port)
        self._write(self._master[port], adapter.to_host(data) if adapter is not None else data)

    def close(self) -> None:
        """Give every descriptor back. Safe to repeat."""
        for descriptor in (*self._master.values(), *self._slave.values()):
            os.close(descriptor)
        self._master.clear()
        self._slave.clear()
        self._port.clear()

    def __enter__(self) -> "Ptys":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            written = os.write(descriptor, data) if data else 0
        except OSError:
            written = 0
        self.lost_bytes += len(data) - written

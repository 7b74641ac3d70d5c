"""Emulated devices behind pseudo-terminals, so that the daemon's real serial and CAN code runs on a laptop.

A byte port is a pty; a CAN port is an slcan adapter on a pty, because containers and laptops rarely have a vcan.
"""

import os
import select
import termios
import tty
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

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
    """One pty for each of some ports. Close it, or use it as a context.

    A pty gets another number each time it is made, as an adapter does each time it is plugged in. With a ``folder`` the daemon is
    told of a link of the port's name in it, which stands where ``/dev/serial/by-id`` stands on a vehicle.
    """

    def __init__(
        self,
        ports: Mapping[str, int],
        can_ports: Iterable[str],
        folder: Path | None = None,
        *,
        watched: Iterable[str] = (),
        absent: Iterable[str] = (),
    ) -> None:
        """``ports``: line rate by port; 0 for a device that has none, such as one on USB. ``watched``: ports of which
        :meth:`opened` tells whether somebody has them open; they are only written to. ``absent``: ports that are plugged in later,
        which like pulling plugs needs a ``folder``.

        OSError when no pty is left, or the folder cannot be used.
        """
        self._folder = folder
        self._ports = dict(ports)
        self._watched = frozenset(watched)
        self._master: dict[str, int] = {}
        self._slave: dict[str, int] = {}
        self._port: dict[int, str] = {}
        self._baud: dict[str, int] = {}
        self._adapters = {port: _Adapter() for port in can_ports}
        self.urls: dict[str, str] = {}
        """Addresses for the daemon, by port."""
        self.lost_bytes = 0
        """Bytes for a daemon that does not read, as a real adapter would lose them."""
        later = frozenset(absent)
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            for port, baud in ports.items():
                if port not in later:
                    self.plug(port)
                path = folder / port if folder is not None else os.ttyname(self._slave[port])
                if port in self._adapters:
                    self.urls[port] = f"can:slcan:{path}?bitrate={SLCAN_BITRATE}"
                else:
                    self.urls[port] = f"serial:{path}?baud={baud}" if baud else f"serial:{path}"
        except BaseException:
            self.close()
            raise

    @property
    def descriptors(self) -> list[int]:
        """To be watched for reading."""
        return [descriptor for descriptor, port in self._port.items() if port not in self._watched]

    def plugged(self, port: str) -> bool:
        """Whether the port is there."""
        return port in self._master

    def descriptor(self, port: str) -> int:
        """Of a port that is there."""
        return self._master[port]

    def plug(self, port: str) -> None:
        """Make the port's pty and its name. OSError when that cannot be."""
        link = None if self._folder is None else self._folder / port
        if link is not None and link.is_symlink():
            # Left behind by a run that was killed.
            link.unlink()
        master, slave = os.openpty()
        try:
            tty.setraw(slave)
            os.set_blocking(master, False)
            if link is not None:
                link.symlink_to(os.ttyname(slave))
        except BaseException:
            os.close(master)
            os.close(slave)
            raise
        self._master[port], self._port[master] = master, port
        if port in self._watched:
            os.close(slave)
        else:
            # Our own descriptor stays open: without any, reading the master fails until the daemon comes back.
            self._slave[port] = slave
        self._baud.pop(port, None)
        if port in self._adapters:
            self._adapters[port] = _Adapter()

    def unplug(self, port: str) -> None:
        """Take the port away with its name, as pulling its plug does."""
        if self._folder is not None:
            (self._folder / port).unlink(missing_ok=True)
        master = self._master.pop(port)
        del self._port[master]
        os.close(master)
        if port in self._slave:
            os.close(self._slave.pop(port))

    def opened(self, port: str) -> bool:
        """Whether somebody has a ``watched`` port open."""
        poll = select.poll()
        poll.register(self._master[port], 0)
        return not any(events & select.POLLHUP for _, events in poll.poll(0))

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
        baud = _BAUD.get(termios.tcgetattr(descriptor)[5], 0) if self._ports[port] > 0 else 0
        changed = baud if baud and baud != self._baud.get(port) else None
        if changed is not None:
            self._baud[port] = baud
        return port, data, changed

    def write(self, port: str, data: bytes) -> None:
        """Bytes of the device; nobody hears them while it is unplugged."""
        descriptor = self._master.get(port)
        if descriptor is not None:
            adapter = self._adapters.get(port)
            self._write(descriptor, adapter.to_host(data) if adapter is not None else data)

    def close(self) -> None:
        """Give every descriptor back, and take the names away. Safe to repeat."""
        for port in list(self._master):
            self.unplug(port)

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

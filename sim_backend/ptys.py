"""Emulated devices behind pseudo-terminals, so that the daemon's real serial and CAN code runs on a
laptop.

A byte port is a pty. A CAN port is an slcan adapter on a pty, because containers and laptops rarely
have a vcan.
"""

import os
import select
import termios
import tty
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from vehicled.core.wire import can, slcan

SLCAN_BITRATE = 500_000
_READ_BYTES = 4096
_BAUD = {
    getattr(termios, name): int(name[1:])
    for name in dir(termios)
    if name[0] == "B" and name[1:].isdigit()
}


class _Adapter:
    """slcan adapter: frames on the bus side, text on the host side; it answers open and close
    commands."""

    def __init__(self) -> None:
        self._decoder = slcan.SlcanDecoder()
        self._open = False

    def from_host(self, text: bytes) -> tuple[bytes, bytes]:
        """Return records for the bus and answers to the host."""
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
        """Return the text of frames from the bus; a closed adapter passes none."""
        return (
            b"".join(slcan.encode(frame) for frame in can.unpack_all(records))
            if self._open
            else b""
        )


class Ptys:
    """One pty per port; a context manager.

    A pty gets a new number each time it is made, as an adapter does when it is plugged in. With a
    ``folder`` the daemon opens a link named after the port, the counterpart of
    ``/dev/serial/by-id``.
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
        """``ports``: line rate by port; 0 for a device without one, for example on USB.
        ``watched``: write-only ports whose opening :meth:`opened` reports. ``absent``: ports that
        are plugged in later; like unplugging it needs a ``folder``.

        Raises OSError when no pty is left or the folder is unusable.
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
        """Address by port, for the daemon."""
        self.lost_bytes = 0
        """Bytes lost because the daemon did not read, as with a real adapter."""
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
        """File descriptors to poll for reading."""
        return [descriptor for descriptor, port in self._port.items() if port not in self._watched]

    def plugged(self, port: str) -> bool:
        return port in self._master

    def descriptor(self, port: str) -> int:
        """Return the file descriptor of a plugged-in port."""
        return self._master[port]

    def plug(self, port: str) -> None:
        """Make the port's pty and its link. Raises OSError if that fails."""
        link = None if self._folder is None else self._folder / port
        if link is not None and link.is_symlink():
            # A killed run left it behind.
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
            # Our slave descriptor stays open: without one, reading the master fails until the
            # daemon comes back.
            self._slave[port] = slave
        self._baud.pop(port, None)
        if port in self._adapters:
            self._adapters[port] = _Adapter()

    def unplug(self, port: str) -> None:
        """Remove the port and its link, as pulling its plug does."""
        if self._folder is not None:
            (self._folder / port).unlink(missing_ok=True)
        master = self._master.pop(port)
        del self._port[master]
        os.close(master)
        if port in self._slave:
            os.close(self._slave.pop(port))

    def opened(self, port: str) -> bool:
        """True if a process has a ``watched`` port open."""
        poll = select.poll()
        poll.register(self._master[port], 0)
        return not any(events & select.POLLHUP for _, events in poll.poll(0))

    def read(self, descriptor: int) -> tuple[str, bytes, int | None]:
        """Return the port, the daemon's bytes, and the line rate if it changed."""
        port = self._port[descriptor]
        data = b""
        with suppress(OSError):
            data = os.read(descriptor, _READ_BYTES)
        adapter = self._adapters.get(port)
        if adapter is not None:
            data, answers = adapter.from_host(data)
            self._write(descriptor, answers)
            return port, data, None
        # tcgetattr reports standard rates only; the daemon has already set the others from the
        # address.
        baud = _BAUD.get(termios.tcgetattr(descriptor)[5], 0) if self._ports[port] > 0 else 0
        changed = baud if baud and baud != self._baud.get(port) else None
        if changed is not None:
            self._baud[port] = baud
        return port, data, changed

    def write(self, port: str, data: bytes) -> None:
        """Write the device's bytes; they are dropped while it is unplugged."""
        descriptor = self._master.get(port)
        if descriptor is not None:
            adapter = self._adapters.get(port)
            self._write(descriptor, adapter.to_host(data) if adapter is not None else data)

    def close(self) -> None:
        """Close every descriptor and remove the links. Idempotent."""
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

"""Notice of a device that is plugged in: inotify for paths, netlink for network interfaces.

A device that comes back is opened at once instead of after the pause of the back-off. Without
inotify or netlink the back-off alone decides.
"""

import ctypes
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

SETTLE_S = 0.02
"""Time from the notice to the attempt, s: a device is announced several times, with its permissions
last."""
_READ_BYTES = 1 << 16
_IN_ATTRIB = 0x4
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_Q_OVERFLOW, _IN_IGNORED, _IN_ONLYDIR = 0x4000, 0x8000, 0x01000000
_APPEARED = _IN_ATTRIB | _IN_MOVED_TO | _IN_CREATE
_GONE = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_IGNORED | _IN_Q_OVERFLOW
_EVENT = struct.Struct("iIII")
"""Head of ``struct inotify_event``: watch, mask, cookie, length of the name."""
_RTMGRP_LINK, _RTM_NEWLINK, _IFLA_IFNAME = 1, 16, 3
_MESSAGE = struct.Struct("=IHHII")
"""``struct nlmsghdr``: length, type, flags, sequence, port."""
_INTERFACE_BYTES = 16
_ATTRIBUTE = struct.Struct("=HH")


class Arrival(Protocol):
    """Source of notices about one device."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is news."""
        ...

    def came(self) -> bool:
        """Drain the news; return True if the device may have come."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...


class PathArrival:
    """Notice of a path that appears or gets other permissions, watched from the nearest folder that
    exists."""

    def __init__(self, path: str) -> None:
        """Begin to watch. Raises OSError."""
        self._path = Path(path)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._watch = -1
        self._name = b""
        self._rearm()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def came(self) -> bool:
        """Drain the news; return True if the path, or a folder on the way to it, has appeared."""
        found = False
        with suppress(BlockingIOError):
            while data := os.read(self._fd, _READ_BYTES):
                found = self._concerned(data) or found
        if found:
            # A folder on the way may have come or gone.
            self._rearm()
        return found

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)

    def _concerned(self, data: bytes) -> bool:
        at, found = 0, False
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            named = data[at - length : at].rstrip(b"\0") == self._name
            found = (
                found
                or (watch == self._watch and bool(mask & _GONE or (mask & _APPEARED and named)))
                or watch < 0
            )
        return found

    def _rearm(self) -> None:
        if self._watch >= 0:
            self._libc.inotify_rm_watch(self._fd, self._watch)
        folder, name = self._path.parent, self._path.name
        while not folder.is_dir() and folder != folder.parent:
            folder, name = folder.parent, folder.name
        mask = _APPEARED | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
        self._watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
        self._name = os.fsencode(name)


class InterfaceArrival:
    """Notice of a network interface that appears or changes its state."""

    def __init__(self, interface: str) -> None:
        """Begin to listen. Raises OSError."""
        self._name = interface.encode()
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        try:
            self._socket.bind((0, _RTMGRP_LINK))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    def came(self) -> bool:
        """Drain the news; return True if they are about the interface."""
        found = False
        while True:
            try:
                found = self._named(self._socket.recv(_READ_BYTES)) or found
            except BlockingIOError:
                return found
            except OSError:
                # The kernel has dropped news.
                found = True

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _named(self, data: bytes) -> bool:
        at = 0
        while len(data) - at >= _MESSAGE.size:
            length, kind, *_ = _MESSAGE.unpack_from(data, at)
            end = min(at + max(length, _MESSAGE.size), len(data))
            if kind == _RTM_NEWLINK and self._name in _names(
                data[at + _MESSAGE.size + _INTERFACE_BYTES : end]
            ):
                return True
            at = end + (-end % 4)
        return False


def _names(attributes: bytes) -> list[bytes]:
    """Return the values of the attributes that name an interface."""
    found, at = [], 0
    while len(attributes) - at >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if kind == _IFLA_IFNAME:
            found.append(attributes[at + _ATTRIBUTE.size : at + length].rstrip(b"\0"))
        at += max(_ATTRIBUTE.size, length + (-length % 4))
    return found


def arrival_of(*, path: str = "", interface: str = "") -> Arrival | None:
    """Watch for a device by its path or its interface; None if this system cannot."""
    if sys.platform != "linux":
        return None
    try:
        return PathArrival(path) if path else InterfaceArrival(interface)
    except (OSError, AttributeError):
        return None

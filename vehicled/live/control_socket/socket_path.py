"""File system paths of the control sockets."""

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from vehicled.core.errors import UserError

SUFFIX = ".sock"
GROUP = "vehicled"
START = "start one with vehicled run, or vehicled sim --clock wall"
MAX_PATH = 100
"""Longest socket path; the kernel allows 107 bytes."""


class SocketPathError(UserError):
    """No socket, or several; the text gives the remedy."""


def folder() -> Path:
    """Return the folder of this user's sockets: the service's, the session's, or one in /tmp that
    only this user may enter."""
    service = os.environ.get("RUNTIME_DIRECTORY")
    if service:
        return Path(service.split(":")[0])
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session and Path(session).is_dir():
        return Path(session, "vehicled")
    return Path(f"/tmp/vehicled-{os.getuid()}")  # noqa: S108  (made 0700, and refused when it is another's)


def socket_path(name: str) -> Path:
    """Return the socket of the daemon that runs the profile ``name``; create its folder. Raises
    :class:`SocketPathError`."""
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.stat()
    except OSError as error:
        raise SocketPathError(
            f"cannot create the folder of the control socket, {place}: {error.strerror}"
        ) from None
    if status.st_uid != os.getuid():
        raise SocketPathError(f"{place} belongs to another user: remove it, or set XDG_RUNTIME_DIR")
    path = place / f"{name}{SUFFIX}"
    if len(os.fsencode(path)) > MAX_PATH:
        raise SocketPathError(
            f"{path} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder"
        )
    return path


def own_path(name: str) -> Path:
    """Like :func:`socket_path`, but raise :class:`SocketPathError` if a daemon already uses it."""
    path = socket_path(name)
    if answers(path):
        raise taken(path)
    return path


def taken(path: Path) -> SocketPathError:
    """Return the error for a socket that a daemon already uses."""
    return SocketPathError(
        f"another daemon already uses {path}: stop it, or use another profile name"
    )


def free_path(name: str) -> Path:
    """Like :func:`socket_path`, but under another name if a daemon already uses it, so that
    simulations can run in parallel."""
    path = socket_path(name)
    return path if not answers(path) else socket_path(f"{name}-{os.getpid()}")


def answers(path: Path) -> bool:
    """Return True if a daemon listens at a path, even if it is too busy to accept a connection."""
    return isinstance(_failure(path), BlockingIOError | TimeoutError | None)


def left_over(path: Path) -> bool:
    """Return True if nobody listens at a path any more, because the daemon was killed or lost its
    power."""
    return isinstance(_failure(path), ConnectionRefusedError)


def _failure(path: Path) -> OSError | None:
    """Return why no connection is possible; None if one is."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except OSError as error:
            return error
    return None


def find(name: str | None) -> Path:
    """Return the socket of a running daemon: that of the profile ``name``, or the only one. Raises
    :class:`SocketPathError`."""
    folders = [folder(), *Path("/run").glob("vehicled*")]
    sockets = [path for place in folders for path in sorted(_sockets(place))]
    dead = [path for path in sockets if left_over(path)]
    found = {path.stem: path for path in sockets if path not in dead}
    old = "".join(f"; {path} is left over from one that has ended" for path in dead)
    if name is not None:
        path = Path(name)
        if path.suffix == SUFFIX or "/" in name:
            return path
        if name in found:
            return found[name]
        running = f"running: {', '.join(sorted(found))}" if found else "none is running"
        raise SocketPathError(
            _closed(folders)
            or f"no daemon of profile {name!r} is running ({running}{old}); {START}"
        )
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise SocketPathError(_closed(folders) or f"no daemon is running{old}; {START}")
    raise SocketPathError(
        f"several daemons run: {', '.join(sorted(found))}; choose one with --profile"
    )


def _closed(folders: Iterable[Path]) -> str:
    """Return the message for a service folder without permission; empty if there is none."""
    closed = [
        place for place in folders if place.is_dir() and not os.access(place, os.R_OK | os.X_OK)
    ]
    if not closed:
        return ""
    return (
        f"{closed[0]} is only for the group {GROUP}: sudo usermod -aG {GROUP} $USER, then log "
        "in again"
    )


def _sockets(place: Path) -> list[Path]:
    try:
        return [path for path in place.glob(f"*{SUFFIX}") if stat.S_ISSOCK(path.stat().st_mode)]
    except OSError:
        return []

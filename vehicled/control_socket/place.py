"""Where the control socket of a daemon is."""

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

SUFFIX = ".sock"
GROUP = "vehicled"
START = "start one with vehicled run, or vehicled sim --clock wall"
MAX_PATH = 100
"""The kernel takes 107 bytes of a socket's path."""


class PlaceError(Exception):
    """No socket, or too many of them; the text names the cure."""


def folder() -> Path:
    """The folder of this user's sockets: the service's own, the session's, or one in /tmp that only this user may enter."""
    service = os.environ.get("RUNTIME_DIRECTORY")
    if service:
        return Path(service.split(":")[0])
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session and Path(session).is_dir():
        return Path(session, "vehicled")
    return Path(f"/tmp/vehicled-{os.getuid()}")  # noqa: S108  (made 0700, and refused when it is another's)


def socket_path(name: str) -> Path:
    """Socket of the daemon that runs the profile ``name``; its folder is made. Raises :class:`PlaceError`."""
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.stat()
    except OSError as error:
        raise PlaceError(f"the folder of the control socket, {place}, cannot be made: {error.strerror}") from None
    if status.st_uid != os.getuid():
        raise PlaceError(f"{place} belongs to another user: remove it, or set XDG_RUNTIME_DIR")
    path = place / f"{name}{SUFFIX}"
    if len(os.fsencode(path)) > MAX_PATH:
        raise PlaceError(f"{path} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder")
    return path


def own_path(name: str) -> Path:
    """As :func:`socket_path`. Raises :class:`PlaceError` when a daemon serves it already."""
    path = socket_path(name)
    if answers(path):
        raise taken(path)
    return path


def taken(path: Path) -> PlaceError:
    """A daemon serves that socket already."""
    return PlaceError(f"a daemon serves {path} already: stop it, or run under another profile name")


def free_path(name: str) -> Path:
    """As :func:`socket_path`, under another name when a daemon serves that one already: simulations run side by side."""
    path = socket_path(name)
    return path if not answers(path) else socket_path(f"{name}-{os.getpid()}")


def answers(path: Path) -> bool:
    """Whether a daemon listens at a path."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def find(name: str | None) -> Path:
    """Socket of a running daemon: that of the profile ``name``, or the only one there is. Raises :class:`PlaceError`."""
    folders = [folder(), *Path("/run").glob("vehicled*")]
    found = {path.stem: path for place in folders for path in sorted(_sockets(place))}
    if name is not None:
        path = Path(name)
        if path.suffix == SUFFIX or "/" in name:
            return path
        if name in found:
            return found[name]
        running = f"running: {', '.join(sorted(found))}" if found else "none is running"
        raise PlaceError(_closed(folders) or f"no daemon of profile {name!r} to talk to ({running}); {START}")
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise PlaceError(_closed(folders) or f"no daemon to talk to; {START}")
    raise PlaceError(f"several daemons run: {', '.join(sorted(found))}; name one with --profile")


def _closed(folders: Iterable[Path]) -> str:
    """That the service's folder may not be entered, with the cure; empty when none is closed."""
    closed = [place for place in folders if place.is_dir() and not os.access(place, os.R_OK | os.X_OK)]
    if not closed:
        return ""
    return f"{closed[0]} is for the group {GROUP} only: sudo usermod -aG {GROUP} $USER, then log in anew"


def _sockets(place: Path) -> list[Path]:
    try:
        return [path for path in place.glob(f"*{SUFFIX}") if stat.S_ISSOCK(path.stat().st_mode)]
    except OSError:
        return []

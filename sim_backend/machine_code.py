"""Machine code by the C compiler of the machine: built once and kept in a cache folder.

A kept library has been shown to give the bits of the Python code that it stands for; no other is
used. So a run is the same with and without a compiler, and only its cost differs. Failures are not
fatal: without machine code the Python code runs.

The compiler is ``cc``, or the one that ``VEHICLED_CC`` names (empty: none). The folder is one in
``$XDG_CACHE_HOME/vehicled``.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno")
COMPILE_TIMEOUT_S = 8.0
"""Timeout of the compiler, s: half the daemon's wait for the simulator's greeting."""
KEPT = 64
"""Largest number of cached files of a folder; the least recently used one is removed."""
RETRY_S = 3600.0
"""Age after which an unusable library is rebuilt, because the machine may only have been busy."""


def library(
    name: str,
    origin: object,
    flags: tuple[str, ...],
    text: Callable[[], str],
    agrees: Callable[[ctypes.CDLL], bool],
) -> ctypes.CDLL | None:
    """Return a library; None if it is not available.

    ``name`` is that of the cache folder. ``origin`` is all that the C source ``text`` depends on,
    by its representation; ``flags`` are added to ``FLAGS``. ``agrees`` is True for a library that
    gives the bits of the Python code; it may raise AttributeError or OSError. Both functions are
    called only if the cache has no library.
    """
    compiler = _compiler()
    folder = _folder(name) if compiler else None
    if not compiler or folder is None:
        return None
    try:
        place = folder / f"{_key(origin, compiler, flags)}.so"
        if not _is_known(place):
            _make(place, [compiler, *FLAGS, *flags], text, agrees)
        # An empty file marks a library that was built and is unusable.
        if not place.stat().st_size:
            return None
        with suppress(OSError):
            os.utime(place)
        return ctypes.CDLL(str(place))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiler() -> str:
    """Return the path of the compiler; empty if none is found."""
    named = os.environ.get("VEHICLED_CC", "cc")
    return (shutil.which(named) or "") if named else ""


def _folder(name: str) -> Path | None:
    """Return the cache folder, accessible to us only because its files are executed; None if it
    cannot be made."""
    try:
        root = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "vehicled" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    return folder if status.st_uid == os.getuid() and not status.st_mode & 0o022 else None


def _key(origin: object, compiler: str, flags: tuple[str, ...]) -> str:
    """Return the cache key: a hash of everything that the machine code depends on."""
    program = os.stat(compiler)
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    made_by = (
        compiler,
        program.st_size,
        program.st_mtime_ns,
        FLAGS,
        flags,
        platform.machine(),
        libc,
        sys.version,
    )
    return sha256(repr((made_by, origin)).encode()).hexdigest()[:32]


def _is_known(place: Path) -> bool:
    if not place.exists():
        return False
    status = place.stat()
    return status.st_size > 0 or time.time() - status.st_mtime < RETRY_S


def _make(
    place: Path, command: list[str], text: Callable[[], str], agrees: Callable[[ctypes.CDLL], bool]
) -> None:
    """Compile, verify and move into place atomically, so that two processes can do it side by
    side."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        source, made = Path(folder, "source.c"), Path(folder, "library.so")
        source.write_text(text(), encoding="ascii")
        call = [*command, "-o", str(made), str(source), "-lm"]
        try:
            subprocess.run(
                call,
                check=True,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=COMPILE_TIMEOUT_S,
            )
            good = agrees(ctypes.CDLL(str(made)))
        except (OSError, AttributeError, subprocess.TimeoutExpired):
            # It cannot be loaded or takes too long: do not retry at every start.
            good = False
        if not good:
            # Make a new file: a process dies if the pages that it has mapped are truncated.
            made.unlink(missing_ok=True)
            made.touch()
        made.replace(place)
    cached = sorted(place.parent.glob("*.so"), key=lambda path: path.stat().st_mtime_ns)
    for oldest in cached[:-KEPT]:
        oldest.unlink(missing_ok=True)

"""Machine code of the step, on machines with a C compiler: built once per kind of vehicle and kept in a cache folder.

A kept library has been shown to give the bits of the plain step, see :func:`_agrees`; no other is used. So a run is the same with
and without a compiler, and only its cost differs. Failures are not fatal: without machine code the plain step runs.

The compiler is ``cc``, or the one that ``VEHICLED_CC`` names (empty: none). The folder is ``$XDG_CACHE_HOME/vehicled/twins``.
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
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from typing import NamedTuple

from sim_backend.plant.double_track import c_source
from sim_backend.plant.double_track.constants import Constants
from sim_backend.plant.double_track.ground import flat_surface
from sim_backend.plant.double_track.state import PlantState, Stepped

Plain = Callable[..., Stepped]


class Native(NamedTuple):
    """Functions of the library. They work in place on a :func:`.c_source.block`; arrays are passed by address."""

    advance: Callable[..., int]
    """``advance(block, steer_rad, throttle, brake)``: take one step and return its result code, see :mod:`.c_source`."""
    run: Callable[..., int]
    """``run(block, commands, count, every, rows)``: take ``count`` steps, or fewer if the next one diverges, and return how many.
    Every ``every``-th step writes the state before it and its outputs.
    """


FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno"),
    # Call the mathematics of Python's own library, as Python does.
    *("-fno-builtin-sin", "-fno-builtin-cos", "-fno-builtin-tan"),
)
COMPILE_TIMEOUT_S = 8.0
"""Timeout of the compiler, s: half the daemon's wait for the simulator's greeting."""
KEPT = 64
"""Largest number of cached files; the least recently used one is removed."""
RETRY_S = 3600.0
"""Age after which an unusable library is rebuilt, because the machine may only have been busy."""
PROVING_STEPS = 3000


def native_step(c: Constants, text: Callable[[Constants], str], plain: Plain, start: PlantState) -> Native | None:
    """Return machine code for the kind of vehicle of ``c``; None if it is not available.

    ``text`` returns the C source of the kind, which must agree with the step ``plain`` from ``start`` on. Both are called only if
    the cache has no library.
    """
    compiler = _compiler()
    folder = _folder() if compiler else None
    if not compiler or folder is None:
        return None
    library_path = folder / f"{_name(c, compiler)}.so"
    try:
        if not _is_known(library_path):
            _make(library_path, compiler, text(c), c, plain, start)
        # An empty file marks a library that was built and is unusable.
        if not library_path.stat().st_size:
            return None
        with suppress(OSError):
            os.utime(library_path)
        return _loaded(library_path)
    except (OSError, subprocess.SubprocessError, AttributeError):
        return None


def doubles(values: "list[float] | tuple[float, ...]") -> "ctypes.Array[ctypes.c_double]":
    """Return the values as the array type that the machine code takes."""
    return (ctypes.c_double * len(values))(*values)


def _compiler() -> str:
    """Return the path of the compiler; empty if none is found."""
    named = os.environ.get("VEHICLED_CC", "cc")
    return (shutil.which(named) or "") if named else ""


def _folder() -> Path | None:
    """Return the cache folder, accessible to us only because its files are executed; None if it cannot be made."""
    try:
        root = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "vehicled" / "twins"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    return folder if status.st_uid == os.getuid() and not status.st_mode & 0o022 else None


def _name(c: Constants, compiler: str) -> str:
    """Return the cache key: a hash of everything that the machine code depends on."""
    program = os.stat(compiler)
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    origin = (compiler, program.st_size, program.st_mtime_ns, FLAGS, platform.machine(), libc, sys.version, c_source.kind(c))
    return sha256(repr(origin).encode() + _sources()).hexdigest()[:32]


@cache
def _sources() -> bytes:
    return b"".join(source.read_bytes() for source in sorted(Path(__file__).parent.glob("*.py")))


def _is_known(library_path: Path) -> bool:
    if not library_path.exists():
        return False
    status = library_path.stat()
    return status.st_size > 0 or time.time() - status.st_mtime < RETRY_S


def _make(library_path: Path, compiler: str, text: str, c: Constants, plain: Plain, start: PlantState) -> None:
    """Compile, verify and move into place atomically, so that two processes can do it side by side."""
    with tempfile.TemporaryDirectory(dir=library_path.parent) as place:
        source, library = Path(place, "step.c"), Path(place, "step.so")
        source.write_text(text, encoding="ascii")
        command = [compiler, *FLAGS, "-o", str(library), str(source), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=COMPILE_TIMEOUT_S)
            agrees = _agrees(_loaded(library), plain, c, start)
        except (OSError, subprocess.TimeoutExpired):
            # It cannot be loaded or takes too long: do not retry at every start.
            agrees = False
        if not agrees:
            # Make a new file: a process dies if the pages that it has mapped are truncated.
            library.unlink(missing_ok=True)
            library.touch()
        library.replace(library_path)
    cached = sorted(library_path.parent.glob("*.so"), key=lambda path: path.stat().st_mtime_ns)
    for oldest in cached[:-KEPT]:
        oldest.unlink(missing_ok=True)


def _loaded(path: Path) -> Native:
    library = ctypes.CDLL(str(path))
    library.twin_advance.argtypes = [ctypes.c_void_p] + [ctypes.c_double] * 3
    library.twin_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    library.twin_run.restype = ctypes.c_long
    return Native(library.twin_advance, library.twin_run)


def _agrees(native: Native, plain: Plain, c: Constants, start: PlantState) -> bool:
    """True if both give the same bits: starting, turning, sliding, braking and standing, with random commands held for a while."""
    random, surface, state = Random(1), flat_surface(), start
    block = doubles(c_source.block(c, start, surface, inf, inf))
    place = ctypes.addressof(block)
    for index in range(PROVING_STEPS):
        if index % 100 == 0:
            steer, throttle, brake = random.uniform(-0.5, 0.5), random.uniform(-0.3, 1.0), max(0.0, random.uniform(-2.0, 1.0))
        try:
            state, outputs = plain(c, state, surface, steer, throttle, brake)
        except ArithmeticError:
            return False
        native.advance(place, steer, throttle, brake)
        if bytes(doubles(block[: c_source.SURFACE_AT])) != bytes(doubles((*state, *outputs))):
            return False
    return True

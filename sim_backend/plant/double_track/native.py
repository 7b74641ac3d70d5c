"""The step as machine code, where this machine has a C compiler: made once for a kind of vehicle and kept in a cache folder.

What is kept has shown before that it gives the bits of the plain step, see :func:`_agrees`; everything else is not used. So a run
is the same with and without a compiler, and only its cost differs. Nothing in here is fatal: where something is missing or in the
way there is no machine code, and the plain step runs.

The compiler is ``cc``, or what ``VEHICLED_CC`` names; empty, there is none. The folder is ``$XDG_CACHE_HOME/vehicled/twins``.
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
from math import inf
from pathlib import Path
from random import Random

from sim_backend.plant.double_track import c_source
from sim_backend.plant.double_track.constants import Constants
from sim_backend.plant.double_track.ground import flat_surface
from sim_backend.plant.double_track.state import Outputs, State

Advance = Callable[..., int]
"""``advance(block, steer_rad, throttle, brake)``: one step of a :func:`.c_source.block` in place, which is handed over by its
address. Returns how it ended, see :mod:`.c_source`."""
Plain = Callable[..., tuple[State, Outputs]]

FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno"),
    # The mathematics of Python's own library, called as Python calls it.
    *("-fno-builtin-sin", "-fno-builtin-cos", "-fno-builtin-tan"),
)
PATIENCE_S = 8.0
"""Of the one who waits for the greeting of a simulator: half."""
KEPT = 64
"""Files in the folder; beyond them the one that was not used for longest goes."""
RETRY_S = 3600.0
"""What could not be used is made again after this time: perhaps the machine was only busy."""
PROVING_STEPS = 3000


def native_step(c: Constants, text: Callable[[], str], plain: Callable[[], Plain], start: State) -> Advance | None:
    """Machine code for vehicles of the kind of ``c``; None where it cannot be had.

    ``text`` is the C text of the kind and ``plain`` the step it must agree with from ``start`` on; both are asked for only where
    nothing has been kept.
    """
    compiler = _compiler()
    folder = _folder() if compiler else None
    if not compiler or folder is None:
        return None
    made = folder / f"{_name(c, compiler)}.so"
    try:
        if not _is_known(made):
            _make(made, compiler, text(), c, plain, start)
        # Zero bytes: it was made, and cannot be used.
        if not made.stat().st_size:
            return None
        with suppress(OSError):
            os.utime(made)
        return _loaded(made)
    except (OSError, subprocess.SubprocessError, AttributeError):
        return None


def doubles(values: "list[float] | tuple[float, ...]") -> "ctypes.Array[ctypes.c_double]":
    """As the machine code takes them."""
    return (ctypes.c_double * len(values))(*values)


def _compiler() -> str:
    """Path of the compiler; empty where there is none."""
    named = os.environ.get("VEHICLED_CC", "cc")
    return (shutil.which(named) or "") if named else ""


def _folder() -> Path | None:
    """Ours alone, because what lies in it is executed; None where it cannot be made."""
    try:
        root = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "vehicled" / "twins"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    return folder if status.st_uid == os.getuid() and not status.st_mode & 0o022 else None


def _name(c: Constants, compiler: str) -> str:
    """Of everything that the machine code comes from."""
    program = os.stat(compiler)
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    origin = (compiler, program.st_size, program.st_mtime_ns, FLAGS, platform.machine(), libc, sys.version, c_source.kind(c))
    digest = sha256(repr(origin).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]


def _is_known(made: Path) -> bool:
    if not made.exists():
        return False
    status = made.stat()
    return status.st_size > 0 or time.time() - status.st_mtime < RETRY_S


def _make(made: Path, compiler: str, text: str, c: Constants, plain: Callable[[], Plain], start: State) -> None:
    """Compile, prove, and put in its place at once: two processes may do so side by side."""
    with tempfile.TemporaryDirectory(dir=made.parent) as place:
        source, library = Path(place, "step.c"), Path(place, "step.so")
        source.write_text(text, encoding="ascii")
        command = [compiler, *FLAGS, "-o", str(library), str(source), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
            agrees = _agrees(_loaded(library), plain(), c, start)
        except (OSError, subprocess.TimeoutExpired):
            # It cannot be loaded from there, or takes too long: not to be tried at every start.
            agrees = False
        if not agrees:
            # Another file: this one may be mapped, and a process dies of the pages that are taken from under it.
            library.unlink(missing_ok=True)
            library.touch()
        library.replace(made)
    kept = sorted(made.parent.glob("*.so"), key=lambda path: path.stat().st_mtime_ns)
    for oldest in kept[:-KEPT]:
        oldest.unlink(missing_ok=True)


def _loaded(library: Path) -> Advance:
    function = getattr(ctypes.CDLL(str(library)), c_source.ENTRY)
    function.argtypes = [ctypes.c_void_p] + [ctypes.c_double] * 3
    function.restype = ctypes.c_int
    advance: Advance = function
    return advance


def _agrees(advance: Advance, plain: Plain, c: Constants, start: State) -> bool:
    """Whether both give the same bits: starting, turning, sliding, braking and standing, by random commands held for a while."""
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
        advance(place, steer, throttle, brake)
        if bytes(doubles(block[: c_source.SURFACE_AT])) != bytes(doubles((*state, *outputs))):
            return False
    return True

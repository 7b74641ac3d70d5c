"""Machine code of the step, on machines with a C compiler, see :mod:`sim_backend.machine_code`."""

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from typing import NamedTuple

from sim_backend.machine_code import library
from sim_backend.plant.double_track import c_source
from sim_backend.plant.double_track.constants import Constants
from sim_backend.plant.double_track.ground import flat_surface
from sim_backend.plant.double_track.state import PlantState, Stepped

Plain = Callable[..., Stepped]


class Native(NamedTuple):
    """Functions of the library. They work in place on a :func:`.c_source.block`; arrays are passed
    by address."""

    advance: Callable[..., int]
    """``advance(block, steer_rad, throttle, brake)``: take one step and return its result code, see
    :mod:`.c_source`."""
    run: Callable[..., int]
    """``run(block, commands, count, every, rows)``: take ``count`` steps, or fewer if the next one
    diverges, and return how many. Every ``every``-th step writes the state before it and its
    outputs.
    """


FLAGS = ("-fno-builtin-sin", "-fno-builtin-cos", "-fno-builtin-tan")
"""Call the mathematics of Python's own library, as Python does."""
PROVING_STEPS = 3000


def native_step(
    c: Constants, text: Callable[[Constants], str], plain: Plain, start: PlantState
) -> Native | None:
    """Return machine code for the kind of vehicle of ``c``; None if it is not available.

    ``text`` returns the C source of the kind, which must agree with the step ``plain`` from
    ``start`` on. Both are called only if the cache has no library.
    """
    made = library(
        "twins",
        (c_source.kind(c), _sources()),
        FLAGS,
        lambda: text(c),
        lambda made: _agrees(_entries(made), plain, c, start),
    )
    return _entries(made) if made else None


def doubles(values: "list[float] | tuple[float, ...]") -> "ctypes.Array[ctypes.c_double]":
    """Return the values as the array type that the machine code takes."""
    return (ctypes.c_double * len(values))(*values)


@cache
def _sources() -> str:
    return sha256(
        b"".join(source.read_bytes() for source in sorted(Path(__file__).parent.glob("*.py")))
    ).hexdigest()


def _entries(library: ctypes.CDLL) -> Native:
    library.twin_advance.argtypes = [ctypes.c_void_p] + [ctypes.c_double] * 3
    library.twin_run.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_void_p,
    ]
    library.twin_run.restype = ctypes.c_long
    return Native(library.twin_advance, library.twin_run)


def _agrees(native: Native, plain: Plain, c: Constants, start: PlantState) -> bool:
    """True if both give the same bits: starting, turning, sliding, braking and standing, with
    random commands held for a while."""
    random, surface, state = Random(1), flat_surface(), start
    block = doubles(c_source.block(c, start, surface, inf, inf))
    place = ctypes.addressof(block)
    for index in range(PROVING_STEPS):
        if index % 100 == 0:
            steer = random.uniform(-0.5, 0.5)
            throttle = random.uniform(-0.3, 1.0)
            brake = max(0.0, random.uniform(-2.0, 1.0))
        try:
            state, outputs = plain(c, state, surface, steer, throttle, brake)
        except ArithmeticError:
            return False
        native.advance(place, steer, throttle, brake)
        if bytes(doubles(block[: c_source.SURFACE_AT])) != bytes(doubles((*state, *outputs))):
            return False
    return True

"""A recorded drive as the fit takes it, and what one of ours is compared with."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[np.float64]

LONGEST_S = 25.0
"""Longer drives are cut into pieces of ``PIECE_S``: open loop, everything drifts away in the end."""
PIECE_S = 15.0
STANDS_MPS = 0.1
LEAST_STANDING = 3
MOVES_MPS = 0.2
REST_S = 1.5


class RunError(ValueError):
    """A drive that cannot be calibrated on; says why."""


class Run(Struct, frozen=True, kw_only=True):
    """Commands and motion of the rear axle, on one clock that begins at 0. Columns (n,) of commands, (m,) of motion."""

    name: str
    command_s: Array
    throttle: Array
    """-1..1, held from one command to the next; 0 before the first."""
    brake: Array
    steering: Array
    t_s: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array
    """Not wrapped."""
    speed_mps: Array
    """NaN, as in the other three, where nobody knows."""
    turns: bool = True
    """False: only the way along a straight was measured; ``yaw_rad`` and ``y_m`` are what one takes them for."""
    rig: str = ""
    """What measured it. Drives of one rig share how far the heading it gives is turned from that of the vehicle."""

    def known(self) -> NDArray[np.bool_]:
        """Rows (m,) whose motion is known in full."""
        return np.isfinite(self.x_m + self.y_m + self.yaw_rad + self.speed_mps)


class Piece(Struct, frozen=True, kw_only=True):
    """Rows of a run that are driven open loop, from where the vehicle was."""

    run: Run
    index: int
    """Of the run, among all."""
    rows: slice
    start: tuple[float, float, float, float]
    """Rear axle: x, y (m), yaw (rad), speed (m/s)."""

    @property
    def begin_s(self) -> float:
        """When it begins, on the clock of the run."""
        return float(self.run.t_s[self.rows][0])

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return float(self.run.t_s[self.rows][-1]) - self.begin_s

    def after_s(self) -> Array:
        """Its rows, on a clock that begins with it."""
        return self.run.t_s[self.rows] - self.begin_s


class Motion(Struct, frozen=True):
    """The rear axle of a simulated drive at the rows of a piece."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array


def as_measured(motion: Motion, piece: Piece, misaligned_rad: float) -> Motion:
    """The motion of a vehicle whose heading is ``misaligned_rad`` more than the measured one, from the same place on."""
    x_m, y_m, _, _ = piece.start
    along, across = np.cos(misaligned_rad), np.sin(misaligned_rad)
    east, north = motion.x_m - x_m, motion.y_m - y_m
    return Motion(x_m + along * east - across * north, y_m + across * east + along * north, motion.yaw_rad, motion.speed_mps)


def checked(run: Run) -> Run:
    """The run. Raises :class:`RunError` for one without commands or motion."""
    known = run.known()
    if len(run.command_s) < 2:
        raise RunError(f"{run.name}: has no commands; record the actuator commands beside the motion")
    if known.sum() < 20:
        raise RunError(f"{run.name}: its motion is known in {int(known.sum())} rows; 20 with position, yaw and speed are needed")
    if not float(np.nanmax(run.speed_mps[known])) > MOVES_MPS:
        raise RunError(f"{run.name}: the vehicle stands all the time (below {MOVES_MPS} m/s)")
    return run


def pieces(runs: list[Run]) -> list[Piece]:
    """What is driven open loop: a run as a whole, or a long one in parts that begin where the motion is known."""
    found = []
    for index, run in enumerate(runs):
        known = np.flatnonzero(run.known())
        t = run.t_s
        first, last = int(known[0]), _end(run, known)
        if t[last] - t[first] <= LONGEST_S:
            found.append(Piece(run=run, index=index, rows=slice(first, last + 1), start=_start(run, first, last + 1)))
            continue
        begin = first
        while t[last] - t[begin] > 0.5 * PIECE_S:
            end = int(np.searchsorted(t, t[begin] + PIECE_S, side="right"))
            rows = slice(begin, min(end, last + 1))
            if run.known()[rows].sum() >= 20:
                found.append(Piece(run=run, index=index, rows=rows, start=_start(run, rows.start, rows.stop)))
            following = known[known >= end]
            if not len(following):
                break
            begin = int(following[0])
    return found


def _end(run: Run, known: NDArray[np.int64]) -> int:
    """Last row: standing about after the drive says nothing, and would only thin out the errors of the drive."""
    moving = known[run.speed_mps[known] > STANDS_MPS]
    over_s = run.t_s[moving[-1] if len(moving) else known[-1]] + REST_S
    return int(known[run.t_s[known] <= over_s][-1])


def _start(run: Run, first: int, stop: int) -> tuple[float, float, float, float]:
    """Where it is when it sets off; from all the rows for which it stands before that, if it does."""
    rows = slice(first, stop)
    moving = np.flatnonzero(run.speed_mps[rows] > STANDS_MPS)
    standing = int(moving[0]) if len(moving) else stop - first
    if standing >= LEAST_STANDING:
        still = slice(first, first + standing)
        x, y, yaw = (float(np.nanmedian(column[still])) for column in (run.x_m, run.y_m, run.yaw_rad))
        return x, y, yaw, 0.0
    return float(run.x_m[first]), float(run.y_m[first]), float(run.yaw_rad[first]), float(run.speed_mps[first])

"""Recorded drives as input of the fit, and the simulated motion compared with them."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.vehicle import REST_MPS

LONGEST_S = 25.0
"""Longest open-loop drive; longer ones are cut into pieces of ``PIECE_S``, because open-loop errors
grow without bound."""
PIECE_S = 15.0
LEAST_STANDING = 3
MOVES_MPS = 0.2
REST_S = 1.5
ALIGN_S = 5.0
"""First part of a piece from which place and heading of its start are found if only a course was
measured."""


class CalibrationRunError(ValueError):
    """Drive that is unusable for calibration; the text says why."""


class CalibrationRun(Struct, frozen=True, kw_only=True):
    """Commands and motion of the rear axle, on one clock from 0. Columns (n,) of commands, (m,) of
    motion."""

    name: str
    command_s: Array
    throttle: Array
    """Throttle -1..1, held from one command to the next; 0 before the first."""
    brake: Array
    steering: Array
    t_s: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array
    """Continuous yaw."""
    speed_mps: Array
    """Speed; NaN if unknown, as in the other three."""
    turns: bool = True
    """False if only the distance along a straight was measured; ``yaw_rad`` and ``y_m`` are then
    assumed."""
    rig: str = ""
    """Measuring rig. Drives of one rig share their heading misalignment."""
    course_only: bool = False
    """True if ``yaw_rad`` is the course over ground, which says nothing of the heading until the
    vehicle has moved."""

    def known(self) -> NDArray[np.bool_]:
        """True for rows (m,) with complete motion."""
        return np.isfinite(self.x_m + self.y_m + self.yaw_rad + self.speed_mps)


class RunSegment(Struct, frozen=True, kw_only=True):
    """Part of a run that is driven open loop from the vehicle's measured state."""

    run: CalibrationRun
    index: int
    rows: slice
    start: tuple[float, float, float, float]
    """Rear axle: x, y (m), yaw (rad), speed (m/s)."""

    @property
    def begin_s(self) -> float:
        """Start time on the clock of the run."""
        return float(self.run.t_s[self.rows][0])

    @property
    def seconds(self) -> float:
        """Duration."""
        return float(self.run.t_s[self.rows][-1]) - self.begin_s

    def after_s(self) -> Array:
        """Times of its rows from its start."""
        return self.run.t_s[self.rows] - self.begin_s


class SimulatedMotion(Struct, frozen=True):
    """Motion of the rear axle of a simulated drive at the rows of a piece."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array


def as_measured(
    motion: SimulatedMotion, piece: RunSegment, misaligned_rad: float
) -> SimulatedMotion:
    """Rotate the motion by a vehicle heading that is ``misaligned_rad`` larger than the measured
    one, about its start.

    If only a course was measured, move and rotate it onto the first :data:`ALIGN_S` of the measured
    path instead.
    """
    if piece.run.course_only:
        return _onto_path(motion, piece)
    x_m, y_m, _, _ = piece.start
    along, across = np.cos(misaligned_rad), np.sin(misaligned_rad)
    east, north = motion.x_m - x_m, motion.y_m - y_m
    return SimulatedMotion(
        x_m + along * east - across * north,
        y_m + across * east + along * north,
        motion.yaw_rad,
        motion.speed_mps,
    )


def _onto_path(motion: SimulatedMotion, piece: RunSegment) -> SimulatedMotion:
    run, rows = piece.run, piece.rows
    simulated, measured = motion.x_m + 1j * motion.y_m, run.x_m[rows] + 1j * run.y_m[rows]
    early = np.isfinite(measured) & (piece.after_s() <= ALIGN_S)
    if early.sum() < LEAST_STANDING:
        return motion
    here, there = simulated[early].mean(), measured[early].mean()
    # Least squares over a rotation (Umeyama 1991).
    turn = np.vdot(simulated[early] - here, measured[early] - there)
    turn = turn / abs(turn) if abs(turn) > 0.0 else 1.0
    moved = there + turn * (simulated - here)
    return SimulatedMotion(
        moved.real,
        moved.imag,
        motion.yaw_rad + _nearest_turn(motion, piece, float(np.angle(turn))),
        motion.speed_mps,
    )


def _nearest_turn(motion: SimulatedMotion, piece: RunSegment, angle_rad: float) -> float:
    """Return the angle plus the whole turns by which the measured yaw is ahead of the simulated
    one."""
    off = np.nanmedian(piece.run.yaw_rad[piece.rows] - motion.yaw_rad)
    return angle_rad + 2.0 * np.pi * float(np.round((off - angle_rad) / (2.0 * np.pi)))


def checked(run: CalibrationRun) -> CalibrationRun:
    """Return the run. Raises :class:`CalibrationRunError` if it lacks commands or motion."""
    known = run.known()
    if len(run.command_s) < 2:
        raise CalibrationRunError(
            f"{run.name}: has no commands; record the actuator commands beside the motion"
        )
    if known.sum() < 20:
        raise CalibrationRunError(
            f"{run.name}: {int(known.sum())} rows have position, yaw and speed; at least 20 "
            "are needed"
        )
    if not float(np.nanmax(run.speed_mps[known])) > MOVES_MPS:
        raise CalibrationRunError(
            f"{run.name}: the vehicle never moves (faster than {MOVES_MPS} m/s)"
        )
    return run


def pieces(runs: list[CalibrationRun]) -> list[RunSegment]:
    """Return the open-loop pieces: whole runs, or parts of long ones that begin where the motion is
    known."""
    found = []
    for index, run in enumerate(runs):
        known = np.flatnonzero(run.known())
        t = run.t_s
        first, last = int(known[0]), _end(run, known)
        if t[last] - t[first] <= LONGEST_S:
            found.append(
                RunSegment(
                    run=run,
                    index=index,
                    rows=slice(first, last + 1),
                    start=_start(run, first, last + 1),
                )
            )
            continue
        begin = first
        while t[last] - t[begin] > 0.5 * PIECE_S:
            end = int(np.searchsorted(t, t[begin] + PIECE_S, side="right"))
            rows = slice(begin, min(end, last + 1))
            if run.known()[rows].sum() >= 20:
                found.append(
                    RunSegment(
                        run=run, index=index, rows=rows, start=_start(run, rows.start, rows.stop)
                    )
                )
            following = known[known >= end]
            if not len(following):
                break
            begin = int(following[0])
    return found


def _end(run: CalibrationRun, known: NDArray[np.int64]) -> int:
    """Return the last row; standstill after the drive is cut off, because it would dilute the
    errors."""
    moving = known[run.speed_mps[known] > REST_MPS]
    over_s = run.t_s[moving[-1] if len(moving) else known[-1]] + REST_S
    return int(known[run.t_s[known] <= over_s][-1])


def _start(run: CalibrationRun, first: int, stop: int) -> tuple[float, float, float, float]:
    """Return the state at the start, averaged over the standstill before it, if any."""
    rows = slice(first, stop)
    moving = np.flatnonzero(run.speed_mps[rows] > REST_MPS)
    standing = int(moving[0]) if len(moving) else stop - first
    if standing >= LEAST_STANDING:
        still = slice(first, first + standing)
        x, y, yaw = (
            float(np.nanmedian(column[still])) for column in (run.x_m, run.y_m, run.yaw_rad)
        )
        return x, y, yaw, 0.0
    return (
        float(run.x_m[first]),
        float(run.y_m[first]),
        float(run.yaw_rad[first]),
        float(run.speed_mps[first]),
    )

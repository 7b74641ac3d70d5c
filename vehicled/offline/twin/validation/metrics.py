"""Differences between two drives of the same commands, and their evaluation against targets."""

from math import atan2, hypot
from typing import Any

import numpy as np
from msgspec import Struct

from sim_backend.plant.double_track.parameters import Body
from vehicled.core.arrays import rms
from vehicled.offline.twin.validation.reference import ReferenceRun
from vehicled.offline.twin.validation.targets import Target

_TURNS_RADPS = 0.02
"""Largest yaw rate of a reference below which its lateral motion is not compared."""
_SLIDE_RAD, _SPIN_RAD = 0.45, 0.7
"""Sideslip of a vehicle that slides sideways, and of one that spins. A slide may still end either
way."""
_UNDECIDED = {"is neutral", "slides"}
_MOVES_MPS = 0.5
_NEUTRAL_RAD = 0.01
"""Understeer below which a vehicle counts as neutral."""
_SLIDES = 0.15
"""Longitudinal slip beyond which a wheel locks or spins; the tyres' force is largest at 0.1 to
0.12."""
_LIFTED = 0.02
"""Load of a lifted wheel over the mean load."""
_LEAST_SIDESLIP_RAD = 0.01
"""Least scale of the lateral speed, as an angle: some tyres pull to one side by as much without
slip."""
_FEWEST_ROWS = 20
"""Fewest rows that are compared, and fewest that turn for the lateral motion to be."""


class ModelDrive(Struct, frozen=True, eq=False):
    """Our model's run at the times of the reference's rows. Arrays of shape (n,), at the
    reference's measuring points."""

    x_m: Any
    y_m: Any
    yaw_rad: Any
    vx_mps: Any
    vy_mps: Any
    yaw_rate_radps: Any
    roll_rad: Any
    wheel_angle_rad: Any
    """Angle of the virtual front wheel."""
    body: Body
    wheel_radps: Any
    """Wheel speeds (4, n): front left, front right, rear left, rear right."""
    load_n: Any
    """Wheel loads (4, n)."""
    rolling_radius_m: Any
    """Radii (4, 1) by which a wheel's speed is compared with the vehicle's."""
    load_factor: float
    """Our weight over that of the reference's wheel loads."""
    ended: str = ""
    """Reason of an early end; the arrays are then shorter than the reference's."""


class TargetResult(Struct, frozen=True):
    """Result of a run against its target. ``share``: largest ratio of a figure to its limit; NaN if
    nothing was checked."""

    passed: bool | None
    share: float
    reasons: list[str]


class JudgedRows(Struct, frozen=True):
    """Rows of a run whose figures are judged."""

    rows: int
    limit: str
    """Reason why later rows are not: what the reference's tyres do there. Empty if it stays below
    its limit."""


def judged_rows(reference: ReferenceRun, drive: ModelDrive) -> JudgedRows:
    """Find the rows before the reference reaches its limit or creeps to its end.

    At the limit tyres slide, wheels lock, spin or lift. What follows depends on the reference's own
    step.
    """
    rows, reason = min([(_moving_rows(reference), ""), *_limits(reference, drive)])
    return JudgedRows(rows, reason)


def _moving_rows(reference: ReferenceRun) -> int:
    """Return the number of rows up to a creeping end."""
    slow = reference.family.cut_below_mps
    fast = np.flatnonzero(np.abs(reference.vx_mps) >= slow)
    return int(fast[-1]) + 1 if slow and len(fast) else len(reference.t_s)


def _limits(reference: ReferenceRun, drive: ModelDrive) -> list[tuple[int, str]]:
    """Return for each limit that is reached its first row and its name."""
    if reference.vy_mps is None or not np.isfinite(reference.family.limit_slip_rad):
        return []
    n = min(len(reference.t_s), len(drive.x_m))
    vx, vy, yaw_rate = reference.vx_mps[:n], reference.vy_mps[:n], reference.yaw_rate_radps[:n]
    ahead, behind = drive.body.cg_to_front_m, drive.body.wheelbase_m - drive.body.cg_to_front_m
    moving = vx > _MOVES_MPS * max(1.0, drive.body.wheelbase_m)
    speed = np.maximum(vx, 0.1)
    front = drive.wheel_angle_rad[:n] - np.arctan2(vy + ahead * yaw_rate, speed)
    rear = np.arctan2(vy - behind * yaw_rate, speed)
    slides = reference.family.limit_slip_rad
    events = [
        ("front axle slides", np.abs(front) > slides),
        ("rear axle slides", np.abs(rear) > slides),
    ]
    if reference.wheel_radps is not None:
        slip = reference.wheel_radps[:, :n] * drive.rolling_radius_m / speed - 1.0
        # A vehicle that starts with spinning wheels recovers.
        turning = (np.abs(yaw_rate) > _TURNS_RADPS) | (not reference.family.at_rest)
        events += [
            ("wheel locks", (slip < -_SLIDES).any(axis=0)),
            ("wheel spins", (slip > _SLIDES).any(axis=0) & turning),
        ]
    if reference.load_n is not None:
        load = reference.load_n[:, :n]
        # Some models have no loads in their first row.
        events.append(
            ("wheel lifts", (load < _LIFTED * load.mean(axis=0)).any(axis=0) & (np.arange(n) > 0))
        )
    found = [(np.flatnonzero(happens & moving), name) for name, happens in events]
    return [(int(rows[0]), name) for rows, name in found if len(rows)]


def deviations(reference: ReferenceRun, drive: ModelDrive, rows: int) -> dict[str, Any]:
    """Return ours minus theirs by figure, in percent of its scale; the RMS of an array is the
    error. Never raises.

    Figures of which the reference has no signal are left out, as are those of lateral motion if it
    does not turn.
    """
    n = min(rows, len(drive.x_m))
    if n < _FEWEST_ROWS:
        return {}
    path = float(np.hypot(np.diff(reference.x_m[:n]), np.diff(reference.y_m[:n])).sum())
    theirs = reference.vx_mps[:n]
    ours = (
        drive.vx_mps[:n]
        if reference.vy_mps is not None
        else np.hypot(drive.vx_mps[:n], drive.vy_mps[:n])
    )
    fastest = float(np.abs(theirs).max())
    if path <= 0.0 or fastest <= 0.0:
        return {}
    off = np.concatenate((drive.x_m[:n] - reference.x_m[:n], drive.y_m[:n] - reference.y_m[:n]))
    found = {"position": np.sqrt(2.0) / path * off, "speed": (ours - theirs) / fastest}
    turning = np.abs(reference.yaw_rate_radps[:n])
    peak = float(turning.max())
    if np.count_nonzero(turning > _TURNS_RADPS) >= _FEWEST_ROWS:
        found["yaw rate"] = (drive.yaw_rate_radps[:n] - reference.yaw_rate_radps[:n]) / peak
        if reference.vy_mps is not None:
            sideways = float(np.abs(reference.vy_mps[:n]).max())
            across = max(
                sideways, 0.5 * drive.body.wheelbase_m * peak, _LEAST_SIDESLIP_RAD * fastest
            )
            found["lateral speed"] = (drive.vy_mps[:n] - reference.vy_mps[:n]) / across
        if (
            reference.roll_rad is not None
            and (lean := float(np.abs(reference.roll_rad[:n]).max())) > 0.0
        ):
            found["roll"] = (drive.roll_rad[:n] - reference.roll_rad[:n]) / lean
    if reference.wheel_radps is not None:
        found["slip"] = _slip_deviation(reference, drive, ours, n)
    if reference.load_n is not None:
        load, own = reference.load_n[:, 1:n], drive.load_n[:, 1:n]
        theirs_sum, own_sum = (np.maximum(loads.sum(axis=0), 1e-9) for loads in (load, own))
        found["load shares"] = (own / own_sum - load / theirs_sum).ravel()
        # The mean: bodies that heave have more weight than m g now and then.
        found["weight"] = np.array([own_sum.sum() / (drive.load_factor * theirs_sum.sum()) - 1.0])
    return {name: 100.0 * values for name, values in found.items()}


def errors_of(reference: ReferenceRun, drive: ModelDrive, rows: int) -> dict[str, float]:
    """Return the errors by figure: the RMS of the deviations."""
    return {name: rms(values) for name, values in deviations(reference, drive, rows).items()}


def _slip_deviation(reference: ReferenceRun, drive: ModelDrive, ours: Any, n: int) -> Any:
    """Return the difference of the longitudinal slips, each bounded, so that a spinning wheel does
    not outweigh the rest."""
    theirs = reference.vx_mps[:n]
    wheels = reference.wheel_radps[:, :n]
    own = drive.wheel_radps[:, :n]
    if np.array_equal(wheels[0], wheels[1]) and np.array_equal(wheels[2], wheels[3]):
        own = np.repeat((own[:2].mean(axis=0), own[2:].mean(axis=0)), 2, axis=0)
    floor = 0.1 * float(np.abs(theirs).max())
    slips = (
        (w * drive.rolling_radius_m - v) / np.maximum(np.abs(theirs), floor)
        for w, v in ((own, ours), (wheels, theirs))
    )
    mine, wanted = (np.clip(slip, -_SLIDES, _SLIDES) for slip in slips)
    return (mine - wanted).ravel()


def check_target(
    reference: ReferenceRun,
    drive: ModelDrive,
    errors: dict[str, float],
    limits: dict[str, float],
    target: Target,
) -> TargetResult:
    """Compare the errors with the limits of this run, and the behaviour if the target wants it.
    Never raises."""
    if not target.judged:
        return TargetResult(None, float("nan"), [drive.ended] if drive.ended else [])
    reasons: list[str] = [drive.ended] if drive.ended else []
    shares = [errors[name] / limits[name] for name in limits if name in errors]
    reasons += [
        f"{name} {errors[name]:.3g} %, limit {limit:.3g}"
        for name, limit in limits.items()
        if not errors.get(name, 0.0) <= limit
    ]
    if target.behaviour and not drive.ended:
        theirs, ours = behaviour(reference, drive)
        opposed = theirs != ours and not {theirs, ours} & _UNDECIDED
        shares.append(float("inf") if opposed else 0.0)
        if opposed:
            reasons.append(f"the reference {theirs}, ours {ours}")
    worst = max((share if share == share else float("inf") for share in shares), default=0.0)
    return TargetResult(not reasons, float("inf") if drive.ended else worst, reasons)


def behaviour(reference: ReferenceRun, drive: ModelDrive) -> tuple[str, str]:
    """Classify reference and our model in the last fifth: spins, slides, ploughs, turns in, is
    neutral. Uses signs only."""
    n = min(_moving_rows(reference), len(drive.x_m))
    last = slice(n - max(2, n // 5), n)
    delta = drive.wheel_angle_rad[last]
    theirs, ours = (
        _behaviour(
            vx[last],
            None if vy is None else vy[last],
            yaw_rate[last],
            delta,
            drive.body.wheelbase_m,
        )
        for vx, vy, yaw_rate in (
            (reference.vx_mps, reference.vy_mps, reference.yaw_rate_radps),
            (drive.vx_mps, drive.vy_mps, drive.yaw_rate_radps),
        )
    )
    return theirs, ours


def _behaviour(vx: Any, vy: Any, yaw_rate: Any, delta: Any, wheelbase_m: float) -> str:
    sideslip = (
        max((atan2(abs(b), a) for a, b in zip(vx, vy) if hypot(a, b) > _MOVES_MPS), default=0.0)
        if vy is not None
        else 0.0
    )
    if sideslip > _SLIDE_RAD:
        return "spins" if sideslip > _SPIN_RAD else "slides"
    moving = vx > _MOVES_MPS
    if not moving.any():
        return "stands"
    turn = np.sign(np.mean(yaw_rate[moving])) or 1.0
    understeer = float(
        np.mean((delta[moving] - wheelbase_m * yaw_rate[moving] / vx[moving]) * turn)
    )
    if abs(understeer) < _NEUTRAL_RAD:
        return "is neutral"
    return "ploughs" if understeer > 0 else "turns in"

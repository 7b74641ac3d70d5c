"""Differences between two drives of the same commands, and their evaluation against targets."""

from math import degrees, hypot
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.lab.validation.reference import Reference
from vehicled.lab.validation.targets import Target

_TURNS_RADPS = 0.02
"""Largest yaw rate of a reference below which it is not compared."""
_SPIN_RAD = 0.6
"""Sideslip of a vehicle that spins."""
_MOVES_MPS = 0.5
_NEUTRAL_RAD = 0.01
"""Understeer below which a vehicle counts as neutral."""


class ModelDrive(Struct, frozen=True, eq=False):
    """Our model's run at the times of the reference's rows. Arrays of shape (n,), at the reference's measuring points."""

    x_m: Any
    y_m: Any
    yaw_rad: Any
    vx_mps: Any
    vy_mps: Any
    yaw_rate_radps: Any
    roll_rad: Any
    wheel_angle_rad: Any
    """Angle of the virtual front wheel."""
    wheelbase_m: float
    ended: str = ""
    """Reason of an early end; the arrays are then shorter than the reference's."""


class MotionErrors(Struct, frozen=True):
    """RMS differences; NaN if the reference lacks the quantity or the divisor is 0."""

    position_m: float
    position_pct: float
    """Position error, percent of the path's length."""
    path_m: float
    yaw_rate_radps: float
    yaw_rate_pct: float
    """Yaw rate error, percent of the reference's largest yaw rate."""
    lateral_speed_mps: float
    speed_mps: float
    roll_deg: float


class TargetResult(Struct, frozen=True):
    """Result of a run against its target. ``share``: largest ratio of a figure to its limit; NaN if nothing was checked."""

    passed: bool | None
    share: float
    reasons: list[str]


def rows_judged(reference: Reference) -> int:
    """Return the number of rows to compare; a creeping end is left out."""
    slow = reference.family.cut_below_mps
    if not slow:
        return len(reference.t_s)
    fast = np.flatnonzero(np.abs(reference.vx_mps) >= slow)
    return int(fast[-1]) + 1 if len(fast) else len(reference.t_s)


def errors_of(reference: Reference, drive: ModelDrive) -> MotionErrors:
    """Compare the common rows. Never raises; NaN for what cannot be compared."""
    n = min(rows_judged(reference), len(drive.x_m))
    if n < 2:
        nothing = float("nan")
        return MotionErrors(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    dx, dy = drive.x_m[:n] - reference.x_m[:n], drive.y_m[:n] - reference.y_m[:n]
    path = float(np.hypot(np.diff(reference.x_m[:n]), np.diff(reference.y_m[:n])).sum())
    position = float(np.sqrt(np.mean(dx * dx + dy * dy)))
    yaw_rate = _rms(drive.yaw_rate_radps[:n] - reference.yaw_rate_radps[:n])
    peak = float(np.abs(reference.yaw_rate_radps[:n]).max())
    ours = drive.vx_mps[:n] if reference.vy_mps is not None else np.hypot(drive.vx_mps[:n], drive.vy_mps[:n])
    return MotionErrors(
        position_m=position,
        position_pct=100.0 * position / path if path > 0 else float("nan"),
        path_m=path,
        yaw_rate_radps=yaw_rate,
        yaw_rate_pct=100.0 * yaw_rate / peak if peak > _TURNS_RADPS else float("nan"),
        lateral_speed_mps=_rms(drive.vy_mps[:n] - reference.vy_mps[:n]) if reference.vy_mps is not None else float("nan"),
        speed_mps=_rms(ours - reference.vx_mps[:n]),
        roll_deg=degrees(_rms(drive.roll_rad[:n] - reference.roll_rad[:n])) if reference.roll_rad is not None else float("nan"),
    )


def check_target(reference: Reference, drive: ModelDrive, errors: MotionErrors, target: Target) -> TargetResult:
    """Compare the errors with the target. Never raises."""
    if not target.judged:
        return TargetResult(None, float("nan"), [drive.ended] if drive.ended else [])
    reasons: list[str] = []
    shares: list[float] = []
    if drive.ended:
        reasons.append(drive.ended)
    figures = (
        ("position", errors.position_pct, target.position_pct, "%"),
        ("yaw rate", errors.yaw_rate_pct, target.yaw_rate_pct, "%"),
        ("lateral speed", errors.lateral_speed_mps, target.lateral_speed_mps, "m/s"),
        ("roll", errors.roll_deg, target.roll_deg, "deg"),
    )
    for name, value, limit, unit in figures:
        if limit is None or (value != value and not drive.ended and name != "position"):
            continue
        shares.append(value / limit)
        if not value <= limit:
            reasons.append(f"{name} {value:.3g} {unit}, limit {limit:g}")
    if target.behaviour and not drive.ended:
        theirs, ours = behaviour(reference, drive)
        opposed = theirs != ours and "is neutral" not in (theirs, ours)
        shares.append(float("inf") if opposed else 0.0)
        if opposed:
            reasons.append(f"the reference {theirs}, ours {ours}")
    worst = max((share if share == share else float("inf") for share in shares), default=0.0)
    return TargetResult(not reasons, float("inf") if drive.ended else worst, reasons)


def behaviour(reference: Reference, drive: ModelDrive) -> tuple[str, str]:
    """Classify reference and our model in the last fifth: spins, ploughs, turns in, is neutral. Uses signs only."""
    n = min(rows_judged(reference), len(drive.x_m))
    last = slice(n - max(2, n // 5), n)
    delta = drive.wheel_angle_rad[last]
    theirs, ours = (
        _behaviour(vx[last], None if vy is None else vy[last], yaw_rate[last], delta, drive.wheelbase_m)
        for vx, vy, yaw_rate in (
            (reference.vx_mps, reference.vy_mps, reference.yaw_rate_radps),
            (drive.vx_mps, drive.vy_mps, drive.yaw_rate_radps),
        )
    )
    return theirs, ours


def _behaviour(vx: Any, vy: Any, yaw_rate: Any, delta: Any, wheelbase_m: float) -> str:
    if vy is not None and any(hypot(a, b) > _MOVES_MPS and abs(b) > np.tan(_SPIN_RAD) * a for a, b in zip(vx, vy)):
        return "spins"
    moving = vx > _MOVES_MPS
    if not moving.any():
        return "stands"
    turn = np.sign(np.mean(yaw_rate[moving])) or 1.0
    understeer = float(np.mean((delta[moving] - wheelbase_m * yaw_rate[moving] / vx[moving]) * turn))
    if abs(understeer) < _NEUTRAL_RAD:
        return "is neutral"
    return "ploughs" if understeer > 0 else "turns in"


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))

"""Excitation of drives: which quantities they determine; for the others, the reason and what to
drive."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from sim_backend.plant.double_track.constants import GRAVITY_MPS2
from vehicled.core.arrays import Array
from vehicled.offline.twin.calibration.quantity import Needs, Quantity
from vehicled.offline.twin.calibration.run import MOVES_MPS, CalibrationRun

LEAST_S = 1.0
LEVELS_APART = 0.15
TURN = 0.05
STEP_S = 0.25
CHANGE_S = 1.0
SLIDING_SHARE = 0.6
LATERAL_SHARE = 0.1

_WHY: dict[Needs, tuple[str, str]] = {
    "drive": ("the vehicle was not driven by its throttle for a second", "drive with throttle"),
    "throttle_range": (
        "the throttle covers too little of its range, or only single values of it",
        "ramp the throttle from 0 to full and back, within 10 s",
    ),
    "throttle_changes": ("the throttle hardly changes", "change the throttle while driving"),
    "throttle_steps": (
        "the throttle never steps by 0.3",
        "step the throttle from 0 to full and back to 0",
    ),
    "coasting": (
        "it never coasts for a second, which separates losses from torque",
        "let it coast at throttle 0",
    ),
    "turns": ("it hardly steers", "hold turns of several angles"),
    "straight": (
        "it never drives straight with a measured heading",
        "drive straight ahead with the steering at 0",
    ),
    "left": ("it hardly steers left", "hold left turns of several angles"),
    "right": ("it hardly steers right", "hold right turns of several angles"),
    "steering_changes": (
        "the steering does not change while it moves",
        "steer from side to side while driving",
    ),
    "steering_steps": (
        "the steering never steps while it moves",
        "step the steering while driving",
    ),
    "lateral": ("it never turns with a tenth of the grip for a second", "turn faster"),
    "sliding": (
        "it never comes near the limit of grip",
        "turn at the limit, where there is room to slide",
    ),
    "yaw_jerk": ("its yaw rate never changes fast", "step the steering at speed"),
}


class UnobservableQuantity(Struct, frozen=True):
    """Quantity that is not fitted, with the reason and what to drive."""

    name: str
    why: str
    cure: str


def levels(runs: Sequence[CalibrationRun]) -> list[float]:
    """Return the steering commands (rounded to 0.02) held for a second in total while moving, the
    largest first.

    They are at least :data:`LEVELS_APART` from each other and from 0, so that each has a wheel
    angle of its own; of nearer ones the one that was held longest counts.
    """
    held: dict[float, float] = {}
    for run in runs:
        t, moving = run.t_s, run.speed_mps > MOVES_MPS
        steering = _at(run, run.steering, t)
        lasts = np.append(np.diff(t), 0.0)
        for level in np.unique(np.round(steering[moving] * 50.0) / 50.0):
            near = moving & (np.abs(steering - level) < 0.011)
            held[float(level)] = held.get(float(level), 0.0) + float(lasts[near].sum())
    found = [0.0]
    for level in sorted(held, key=lambda level: (-held[level], level)):
        if held[level] >= LEAST_S and min(abs(level - other) for other in found) >= LEVELS_APART:
            found.append(level)
    return sorted(found[1:], key=lambda level: (-abs(level), level))


def top_mps(runs: Sequence[CalibrationRun]) -> float:
    """Return the top speed of the drives without the fastest percent, which may be a measurement
    outlier."""
    speeds = np.concatenate([run.speed_mps[np.isfinite(run.speed_mps)] for run in runs])
    return max(float(np.percentile(speeds, 99.0)), MOVES_MPS)


def shown(runs: Sequence[CalibrationRun], friction: float) -> dict[Needs, bool]:
    """Return the needs that the drives fulfil. ``friction`` is the vehicle's lateral grip over its
    weight."""
    seconds: dict[Needs, float] = dict.fromkeys(_WHY, 0.0)
    flags: dict[Needs, bool] = {}
    throttles: list[Array] = []
    changed = step = steered_step = steered_change = 0.0
    for run in runs:
        t = run.t_s
        lasts = np.append(np.diff(t), 0.0)
        speed = np.nan_to_num(run.speed_mps)
        moving = speed > MOVES_MPS
        throttle, steering = _at(run, run.throttle, t), _at(run, run.steering, t)
        throttles.append(run.throttle)
        known = np.isfinite(run.yaw_rad)
        rate = np.gradient(np.interp(t, t[known], run.yaw_rad[known]), t)
        lateral = np.abs(rate) * speed
        columns: list[tuple[Needs, Any]] = [
            ("drive", moving & (throttle > 0.0)),
            ("coasting", moving & (throttle == 0.0) & (_at(run, run.brake, t) == 0.0)),
            ("turns", moving & (np.abs(steering) > TURN)),
            ("straight", moving & (np.abs(steering) < TURN) & run.turns),
            ("left", moving & (steering > TURN)),
            ("right", moving & (steering < -TURN)),
            ("lateral", moving & (lateral > LATERAL_SHARE * friction * GRAVITY_MPS2)),
            ("sliding", moving & (lateral > SLIDING_SHARE * friction * GRAVITY_MPS2)),
            ("yaw_jerk", moving & (np.abs(np.gradient(rate, t)) > 3.0)),
        ]
        for name, rows in columns:
            seconds[name] += float(lasts[rows].sum())
        late = run.command_s + STEP_S
        change = np.abs(_at(run, run.throttle, late) - run.throttle)
        step = max(step, float(change.max(initial=0.0)))
        changed = max(changed, float(np.ptp(run.throttle)))
        turned = np.abs(_at(run, run.steering, late) - run.steering)[
            np.interp(run.command_s, t, speed) > MOVES_MPS
        ]
        later = np.abs(_at(run, run.steering, run.command_s + CHANGE_S) - run.steering)[
            np.interp(run.command_s, t, speed) > MOVES_MPS
        ]
        steered_change += float((later > TURN).sum())
        steered_step = max(steered_step, float(turned.max(initial=0.0)))
    for name in _WHY:
        flags[name] = seconds[name] >= LEAST_S
    # Turns to both sides show what is straight ahead too, as far as the sides are alike.
    flags["straight"] |= flags["left"] and flags["right"]
    flags["throttle_range"] = (
        float(np.ptp(np.concatenate([[0.0], *throttles]))) >= 0.5 and len(_distinct(throttles)) >= 5
    )
    flags["throttle_changes"] = changed >= 0.1
    flags["throttle_steps"] = step >= 0.3
    flags["steering_changes"] = steered_change >= 5
    flags["steering_steps"] = steered_step >= 0.4
    flags["yaw_jerk"] = seconds["yaw_jerk"] >= 0.5 and steered_step >= 0.3
    return flags


def choose(
    quantities: Sequence[Quantity], flags: dict[Needs, bool]
) -> tuple[list[Quantity], list[UnobservableQuantity]]:
    """Return the quantities to fit, and the others with the reasons."""
    seen, unseen = [], []
    for quantity in quantities:
        missing = [need for need in quantity.needs if not flags[need]]
        if missing:
            unseen.append(UnobservableQuantity(quantity.name, *_WHY[missing[0]]))
        else:
            seen.append(quantity)
    return seen, unseen


def cure(quantity: Quantity) -> str:
    """Return what to drive for a quantity."""
    return _WHY[quantity.needs[0]][1]


def _distinct(columns: list[Array]) -> Array:
    found: Array = np.unique(np.round(np.concatenate(columns), 1))
    return found


def _at(run: CalibrationRun, column: Array, t_s: Array) -> Array:
    row = np.searchsorted(run.command_s, t_s, side="right") - 1
    held: Array = np.where(row < 0, 0.0, column[np.clip(row, 0, None)])
    return held

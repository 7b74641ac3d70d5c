"""Recognises the manoeuvre of a reference run from its signals, whatever its file is called."""

from typing import Any, Literal

import numpy as np

from vehicled.offline.twin.validation.reference import ReferenceRun

Trait = Literal[
    "straight", "gentle drive", "gentle brake", "slow", "combined slip", "ramp", "one side",
    "alternating", "fast", "quick"
]  # fmt: skip
"""``alternating`` steers to both sides within two seconds, ``fast`` at more than 1.2 Hz, ``quick``
at more than 3 Hz."""

TURNS_RADPS = 0.02
"""Largest yaw rate of a run that counts as straight."""
SLOW_MPS = 4.0
GENTLE_MPS3 = 5.0
"""Largest rate of a commanded acceleration without a jump of the force."""
PEDAL_STEP, ACCELERATION_STEP_MPS2 = 0.1, 0.4
"""Change within ``STEP_S`` while the vehicle turns, from which the tyres transmit forces of both
directions. A speed controller changes the throttle by a third of it.
"""
STEP_S = 0.3
RAMP_S = 2.0
HALF_PERIODS_S: dict[Trait, float] = {"alternating": 2.0, "fast": 0.42, "quick": 0.17}


def traits_of(reference: ReferenceRun) -> frozenset[Trait]:
    """Return all that a run's motion and commands show of its manoeuvre."""
    by_acceleration = bool(reference.family.commands.acceleration)
    command = reference.throttle if by_acceleration else reference.throttle - reference.brake
    t_s, rate = reference.command_t_s, np.abs(reference.yaw_rate_radps)
    found: set[Trait] = set()
    if rate.max() < TURNS_RADPS:
        found.add("straight")
        jumps = np.abs(np.diff(command)) > GENTLE_MPS3 * np.diff(t_s)
        if by_acceleration and not jumps.any() and np.ptp(command) > 0.0:
            found.add("gentle drive" if command.max() > -command.min() else "gentle brake")
        return frozenset(found)
    if float(np.abs(reference.vx_mps).max()) < SLOW_MPS:
        found.add("slow")
    later = np.clip(np.searchsorted(t_s, t_s + STEP_S), 0, len(t_s) - 1)
    turning = np.interp(t_s, reference.t_s, rate) > 0.3 * rate.max()
    step = float(np.abs(command[later] - command)[turning].max(initial=0.0))
    if step > (ACCELERATION_STEP_MPS2 if by_acceleration else PEDAL_STEP):
        found.add("combined slip")
    half_s = half_period_s(t_s, reference.steer)
    found |= {trait for trait, limit_s in HALF_PERIODS_S.items() if half_s < limit_s}
    if half_s == float("inf"):
        found.add("one side")
        size = np.abs(reference.steer)
        begins_s, ends_s = (t_s[np.argmax(size > share * size.max())] for share in (0.1, 0.9))
        if ends_s - begins_s > RAMP_S:
            found.add("ramp")
    return frozenset(found)


def half_period_s(t_s: Any, steer: Any) -> float:
    """Return the shortest time between two opposite extremes of the steering; infinite if it steers
    to one side only."""
    large = np.flatnonzero(np.abs(steer) > 0.3 * np.abs(steer).max(initial=1e-9))
    sides = np.split(large, np.flatnonzero(np.diff(np.sign(steer[large]))) + 1)
    peaks = [side[np.argmax(np.abs(steer[side]))] for side in sides if len(side)]
    return float(np.diff(t_s[peaks]).min()) if len(peaks) > 1 else float("inf")

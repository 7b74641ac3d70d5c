"""Actuator dynamics on recorded commands: dead time, rate limits, maps and lags, at every step of a
grid.

They follow :class:`sim_backend.plant.actuators.Actuators` except for the time at which a command
acts: there from the next grid point on; here a step takes the command's mean, and the output is
shifted by the dead time, which need not be a whole number of steps. So the motion depends smoothly
on the dead time, which the fit needs.
"""

from math import exp

import numpy as np

from vehicled.core.arrays import Array


def held_means(command_s: Array, values: Array, begin_s: float, step_s: float, steps: int) -> Array:
    """Return the means (steps,) over each step of a command that is held from row to row; 0 before
    the first row."""
    edges = begin_s + step_s * np.arange(steps + 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(command_s))])
    row = np.clip(np.searchsorted(command_s, edges, side="right") - 1, 0, None)
    total = np.where(edges < command_s[0], 0.0, area[row] + values[row] * (edges - command_s[row]))
    # Round away the cancellation error of differences, which would look like a change.
    return np.asarray(np.round(np.diff(total) / step_s, 12))


def delayed(values: Array, delay_s: float, step_s: float) -> Array:
    """Delay ``values`` (n,) by a dead time; the first value extends backward."""
    if delay_s <= 0.0:
        return values
    steps = np.arange(len(values), dtype=np.float64)
    moved: Array = np.interp(steps - round(delay_s / step_s, 9), steps, values)
    return moved


def rate_limited(target: Array, most: float, start: float) -> Array:
    """Limit the change of ``target`` (n,) to ``most`` per step; 0 is no limit."""
    if most <= 0.0:
        return target
    out, now = list[float](), start
    for wanted in target.tolist():
        gap = wanted - now
        now = wanted if abs(gap) <= most else now + (most if gap > 0.0 else -most)
        out.append(now)
    return np.array(out)


def low_passed(target: Array, lag_s: float, step_s: float, start: float) -> Array:
    """Apply a first-order lag to ``target`` (n,); 0 is none."""
    if lag_s <= 0.0:
        return target
    gain, out, now = 1.0 - exp(-step_s / lag_s), list[float](), start
    for wanted in target.tolist():
        now += gain * (wanted - now)
        out.append(now)
    return np.array(out)


def servo(
    target: Array, bandwidth_radps: float, damping: float, step_s: float, start: float
) -> Array:
    """Apply a second-order follower to ``target`` (n,), integrated implicitly; bandwidth 0 is
    none."""
    if bandwidth_radps <= 0.0:
        return target
    stiff = bandwidth_radps * step_s
    pull = stiff * bandwidth_radps
    implicit_gain = 1.0 / (1.0 + 2.0 * damping * stiff + stiff * stiff)
    out, angle, rate = list[float](), start, 0.0
    for wanted in target.tolist():
        rate = implicit_gain * (rate + pull * (wanted - angle))
        angle += step_s * rate
        out.append(angle)
    return np.array(out)


def with_slack(servo_rad: Array, slack_rad: float, start: float) -> Array:
    """Return the wheel angles (n,) that a servo moves through its slack."""
    if slack_rad <= 0.0:
        return servo_rad
    half, out, now = 0.5 * slack_rad, list[float](), start
    for angle in servo_rad.tolist():
        if now < angle - half:
            now = angle - half
        elif now > angle + half:
            now = angle + half
        out.append(now)
    return np.array(out)


def beyond_dead_zone(command: Array, dead_zone: float) -> Array:
    """Apply a dead zone to steering commands (n,); the full range is mapped to the rest."""
    return np.sign(command) * np.clip((np.abs(command) - dead_zone) / (1.0 - dead_zone), 0.0, None)

"""Steering of a recorded drive by least squares over the whole of it: what online identification is
compared with.

The wheel angle that a single track of the believed wheelbase l must have had is ``arctan(l
dyaw/ds)``, with yaw rate and speed of the truth. It is explained by the steering command, held
between rows, delayed and slewed: a line is fitted at each delay, and the delay that explains most
wins. The yaw rate is a slope over a second; the commands are smoothed by the same filter, because a
line through unsmoothed ones comes out 3 to 7 % too flat.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand
from vehicled.offline.recordings import smoothing
from vehicled.offline.recordings.recording import Recording, seconds

MIN_SPEED_MPS = 0.3
MIN_ROWS = 30
"""Three seconds at 10 Hz."""
MIN_COMMAND_SPREAD = 0.02
"""Standard deviation of the command below which it shows nothing but an offset."""
MIN_R2 = 0.8
"""A line that explains less says nothing of the steering."""
DELAYS_S = np.arange(0.0, 0.8001, 0.05)
STEP_S = 0.01


class SteeringFit(Struct, frozen=True, kw_only=True):
    """Wheel angle = ``gain_rad`` command(t - ``delay_s``) + ``offset_rad``."""

    gain_rad: float
    offset_rad: float
    delay_s: float
    r2: float
    """Share of the variance of the wheel angle that the line explains."""


def steering(recording: Recording) -> SteeringFit | None:
    """Least squares over a recording; None where its truth or its commands do not show the
    steering."""
    commands = [m for m in recording.inputs if isinstance(m, ActuatorCommand)]
    if len(commands) < MIN_ROWS:
        return None
    command_s = seconds(np.array([m.t_ns for m in commands]))
    command = np.array([m.steering for m in commands])
    good, wheel = _wheel_angles(recording)
    if len(wheel) < MIN_ROWS or float(np.std(command)) < MIN_COMMAND_SPREAD:
        return None
    best = None
    for _ in range(2):  # the slew in commands per second needs the gain
        per_s = (
            np.inf if best is None else recording.vehicle.steering.rate_radps / abs(best.gain_rad)
        )
        smooth = _smoothed(recording, command_s, command, per_s)[good]
        fits = [_line(column, wheel, float(delay_s)) for column, delay_s in zip(smooth.T, DELAYS_S)]
        best = max(fits, key=lambda fit: fit.r2)
    return best if best is not None and best.r2 >= MIN_R2 else None


def _smoothed(recording: Recording, command_s: Array, command: Array, per_s: float) -> Array:
    """Commands (n, delays) as the wheel follows them, with the smoothing of the yaw rate, at the
    rows of the truth."""
    truth = recording.truth
    t_s = seconds(truth.t_ns)
    grid_s = np.arange(t_s[0] - DELAYS_S[-1], t_s[-1], STEP_S)
    held = command[np.maximum(np.searchsorted(command_s, grid_s, side="right") - 1, 0)]
    followed, step, now = [], per_s * STEP_S, float(held[0])
    for wanted in held.tolist():
        now += min(max(wanted - now, -step), step)
        followed.append(now * STEP_S)
    sums = np.cumsum(followed)
    late = np.stack(
        [np.interp(t_s - delay_s, grid_s + STEP_S, sums) for delay_s in DELAYS_S], axis=1
    )
    return smoothing.slopes(t_s, late, np.isfinite(truth.yaw_rad))


def _wheel_angles(recording: Recording) -> tuple[NDArray[np.bool_], Array]:
    """Rows (n,) in which the vehicle moved, and the wheel angles (rad) that the truth shows
    there."""
    truth = recording.truth
    t_s = seconds(truth.t_ns)
    rate = smoothing.slopes(t_s, truth.yaw_rad[:, np.newaxis], np.isfinite(truth.yaw_rad))[:, 0]
    with np.errstate(invalid="ignore"):
        good = np.isfinite(rate) & (truth.speed_mps > MIN_SPEED_MPS)
    return good, np.arctan(recording.vehicle.wheelbase_m * rate[good] / truth.speed_mps[good])


def _line(command: Array, wheel: Array, delay_s: float) -> SteeringFit:
    basis = np.stack([command, np.ones(len(command))], axis=1)
    gain, offset = np.linalg.lstsq(basis, wheel, rcond=None)[0]
    residual = wheel - basis @ np.array([gain, offset])
    spread = float(wheel.var())
    r2 = 1.0 - float(residual.var()) / spread if spread > 0.0 else 0.0
    return SteeringFit(gain_rad=float(gain), offset_rad=float(offset), delay_s=delay_s, r2=r2)

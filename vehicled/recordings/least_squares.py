"""Steering of a recorded drive by least squares over the whole of it: what online identification is compared with.

The wheel angle that a single track of the believed wheelbase l must have had is ``arctan(l dyaw/ds)``, with yaw rate and speed of
the truth. It is explained by the steering command, delayed: a line is fitted at each delay, and the delay that explains most wins.
"""

import numpy as np
from msgspec import Struct

from vehicled.messages import ActuatorCommand
from vehicled.recordings import smoothing
from vehicled.recordings.recording import Array, Recording, seconds

MIN_SPEED_MPS = 0.3
MIN_ROWS = 30
"""Three seconds at 10 Hz."""
MIN_COMMAND_SPREAD = 0.02
"""Standard deviation of the command below which it shows nothing but an offset."""
MIN_R2 = 0.8
"""A line that explains less says nothing of the steering."""
DELAYS_S = np.arange(0.0, 0.8001, 0.05)


class SteeringFit(Struct, frozen=True, kw_only=True):
    """Wheel angle = ``gain_rad`` command(t - ``delay_s``) + ``offset_rad``."""

    gain_rad: float
    offset_rad: float
    delay_s: float
    r2: float
    """Share of the variance of the wheel angle that the line explains."""


def steering(recording: Recording) -> SteeringFit | None:
    """Least squares over a recording; None where its truth or its commands do not show the steering.

    The command is read off the straight line between rows. A command that is held acts half a period later on the mean, so that
    this delay is longer by half a period (0.05 s) than that of one who counts from the handing over.
    """
    commands = [m for m in recording.inputs if isinstance(m, ActuatorCommand)]
    if len(commands) < MIN_ROWS:
        return None
    command_s = np.array([m.t_ns for m in commands]) * 1e-9
    command = np.array([m.steering for m in commands])
    t_s, wheel = wheel_angles(recording)
    if len(t_s) < MIN_ROWS or float(np.std(command)) < MIN_COMMAND_SPREAD:
        return None
    fits = [_line(np.interp(t_s - delay_s, command_s, command), wheel, float(delay_s)) for delay_s in DELAYS_S]
    best = max(fits, key=lambda fit: fit.r2)
    return best if best.r2 >= MIN_R2 else None


def wheel_angles(recording: Recording) -> tuple[Array, Array]:
    """Times (s) at which the vehicle moved, and the wheel angle (rad) that the truth shows there; both (m,)."""
    truth = recording.truth
    t_s = seconds(truth.t_ns)
    rate = smoothing.slopes(t_s, truth.yaw_rad[:, np.newaxis], np.isfinite(truth.yaw_rad))[:, 0]
    with np.errstate(invalid="ignore"):
        good = np.isfinite(rate) & (truth.speed_mps > MIN_SPEED_MPS)
    return t_s[good], np.arctan(recording.vehicle.wheelbase_m * rate[good] / truth.speed_mps[good])


def _line(command: Array, wheel: Array, delay_s: float) -> SteeringFit:
    basis = np.stack([command, np.ones(len(command))], axis=1)
    gain, offset = np.linalg.lstsq(basis, wheel, rcond=None)[0]
    residual = wheel - basis @ np.array([gain, offset])
    spread = float(wheel.var())
    r2 = 1.0 - float(residual.var()) / spread if spread > 0.0 else 0.0
    return SteeringFit(gain_rad=float(gain), offset_rad=float(offset), delay_s=delay_s, r2=r2)

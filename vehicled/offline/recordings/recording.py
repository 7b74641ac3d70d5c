"""Data types of a recorded drive and of an estimator's output for it.

Times are integer nanoseconds on the clock of the recording. Positions are metres on the local plane
of the recording's datum, yaw is in radians counter-clockwise from its x axis. Arrays are float64 of
shape (n,) unless stated otherwise; NaN is "not known".

Every motion of a rear axle is a :class:`RecordedMotion`. Four types that look alike describe
something else: ``sensors.reading.SensorRecording`` holds samples of an inertial unit as arrays,
because a night at rest has millions; ``sensors.truth.Series`` has velocity as a vector and what a
reference system claims of its accuracy; ``twin.calibration.run`` has commands as columns and times
from 0, for a fit that simulates each drive many times; ``twin.validation`` has runs of other
vehicle models, with velocities of the body, wheel speeds and wheel loads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import GroundTruth, Identification, Message, StateEstimate
from vehicled.core.vehicle import Vehicle
from vehicled.paths.datum import Datum

Times = NDArray[np.int64]

MOTION = ("x_m", "y_m", "yaw_rad", "speed_mps")
"""Columns of a motion."""
MAX_GAP_S = 0.3
"""Between samples further apart the truth is not known."""
UNKNOWN_COURSE = "imported"
"""Course in the header of a log whose source has none."""
KINDS = (
    "mocap", "rtk", "plain", "plain_start", "bare_rtk", "bare_plain", "path", "path_sim", "ramp",
    "acceleration", "log", "rosbag",
)  # fmt: skip
"""Kinds of recordings: what is measured and what is the truth.

================  ======================================================  =====================
kind              inputs                                                  truth
================  ======================================================  =====================
``mocap``         noisy positions, heading with a misalignment, commands  motion capture
``rtk``           RTK positions, gyro, commands                           smoothed RTK track
``plain``         plain GNSS positions, gyro, commands                    RTK
``plain_start``   as ``plain``, and RTK while standing at the start       RTK
``bare_rtk``      RTK positions, commands; no gyro                        smoothed RTK track
``bare_plain``    plain GNSS positions, commands; no gyro                 RTK
``path``          RTK positions on a grid, gyro, commands                 smoothed RTK track
``path_sim``      true positions and heading of a simulation, commands    the simulation
``ramp``          motion capture as fixes and gyro, commands              motion capture
``acceleration``  motion capture as fixes along a straight, commands      motion capture
``log``           whatever a log of ours holds                            a simulator or
                                                                          reference system,
                                                                          else RTK
``rosbag``        whatever a ROS bag holds                                RTK or odometry
================  ======================================================  =====================
"""


def seconds(t_ns: Times) -> Array:
    """Stamps as float seconds, for numerics."""
    return np.asarray(t_ns * 1e-9, dtype=np.float64)


def arrival_ns(message: Message) -> int:
    """Time at which a message entered: arrival of a measurement, or sending of a command."""
    t_ns: int = getattr(message, "t_rx_ns", None) or message.t_ns  # type: ignore[attr-defined]
    return t_ns


def unwrapped(yaw_rad: Array) -> Array:
    """Return a continuous yaw; NaN stays where it is."""
    known = np.isfinite(yaw_rad)
    out = yaw_rad.copy()
    out[known] = np.unwrap(yaw_rad[known])
    return out


def held(
    t_ns: Times | Array, times_ns: Sequence[int] | Times, values: Array, before: float = np.nan
) -> Array:
    """Return the newest value at each time of ``t_ns``, of values that came at ``times_ns``;
    ``before`` the first."""
    index = np.searchsorted(np.asarray(times_ns, dtype=np.int64), t_ns, side="right") - 1
    found: Array = np.concatenate([values, [before]])[index]  # index -1 is the one behind the end
    return found


def between(wanted_s: Array, t_s: Array, values: Array, max_gap_s: float = MAX_GAP_S) -> Array:
    """Return values (n,) on straight lines between samples; NaN outside of them and in gaps longer
    than ``max_gap_s``."""
    if len(t_s) < 2:
        return np.full(len(wanted_s), np.nan)
    return np.where(covered(wanted_s, t_s, max_gap_s), np.interp(wanted_s, t_s, values), np.nan)


def covered(wanted_s: Array, t_s: Array, max_gap_s: float) -> NDArray[np.bool_]:
    """Return whether each time lies between two samples that are no further apart than
    ``max_gap_s``."""
    right = np.clip(np.searchsorted(t_s, wanted_s), 1, len(t_s) - 1)
    inside: NDArray[np.bool_] = (
        (wanted_s >= t_s[0]) & (wanted_s <= t_s[-1]) & (t_s[right] - t_s[right - 1] <= max_gap_s)
    )
    return inside


@dataclass(frozen=True, slots=True)
class RecordedMotion:
    """Motion of the rear axle: the truth, an estimate or what was published; NaN where it is not
    known.

    ``yaw_rad`` is not wrapped to any range.
    """

    t_ns: Times
    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array

    @classmethod
    def of(cls, messages: Sequence[GroundTruth] | Sequence[StateEstimate]) -> "RecordedMotion":
        """Return the motion that messages describe."""
        x, y, yaw, speed = (
            np.array([getattr(m, name) for m in messages], dtype=np.float64) for name in MOTION
        )
        return cls(
            np.array([m.t_ns for m in messages], dtype=np.int64), x, y, unwrapped(yaw), speed
        )

    @classmethod
    def partly(cls, t_ns: Times, **known: Array | None) -> "RecordedMotion":
        """Return a motion of which only some columns are known."""
        columns = (known.get(name) for name in MOTION)
        return cls(
            t_ns, *(np.full(len(t_ns), np.nan) if column is None else column for column in columns)
        )

    def at(self, t_ns: Times) -> "RecordedMotion":
        """Return the motion at other times, on straight lines; NaN in gaps and outside."""
        wanted_s, t_s = seconds(t_ns), seconds(self.t_ns)
        return RecordedMotion(
            t_ns, *(between(wanted_s, t_s, getattr(self, name)) for name in MOTION)
        )

    @property
    def known(self) -> bool:
        """True if its position is known anywhere."""
        return bool(np.isfinite(self.x_m).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recorded drive."""

    name: str
    kind: str
    vehicle: Vehicle
    """Assumed vehicle from the profile, however wrong for this drive."""
    datum: Datum
    inputs: Sequence[Message]
    """Measurements and commands in order of arrival."""
    steps_ns: Sequence[int]
    """Times at which the estimate is judged: the rows of the recording."""
    truth: RecordedMotion
    """Ground truth at ``steps_ns``."""
    raw_x_m: Array
    """Measured position in force at ``steps_ns``, held between fixes."""
    raw_y_m: Array
    published: RecordedMotion
    """Estimate of the on-board filter at ``steps_ns``."""
    lever_arm_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Antenna, or the marker that stands for it, from the rear axle: forward, left, up."""
    source: str = ""
    """File it comes from."""
    course: str = ""
    """Name of the course it was driven on; empty if nothing says so."""
    truth_sigma: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Standard deviations that the truth claims: position per axis (m), yaw (rad), speed (m/s). 0
    if exact, infinite if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track(RecordedMotion):
    """Output of an estimator for a recording, at its ``steps_ns``."""

    yaw_rate_radps: Array
    covariance: Array
    """(n, 4, 4) over (x, y, yaw, speed)."""
    nis: Array
    """Normalised innovation squared of the newest position."""
    status: NDArray[np.int64]
    """:class:`~vehicled.core.messages.EstimatorStatus`."""
    ahead_x_m: Array
    """Predicted position, before the measured one of that very step was given; NaN at steps where
    it was not asked for."""
    ahead_y_m: Array
    rejected: int = 0
    identified: Sequence[Identification] = field(default_factory=tuple)
    """All results of the identifier, in order."""
    vehicles: Sequence[Vehicle] = field(default_factory=tuple)
    """The vehicle believed at each step; what was identified up to then, else the recording's."""

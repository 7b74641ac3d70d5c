"""Data types of a recorded drive and of an estimator's output for it.

Times are integer nanoseconds on the clock of the recording. Positions are metres on the local plane of the recording's datum, yaw
is in radians counter-clockwise from its x axis. Arrays are float64 of shape (n,) unless stated otherwise; NaN is "not known".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import Identification, Message
from vehicled.core.vehicle import Vehicle
from vehicled.paths.datum import Datum

Times = NDArray[np.int64]

UNKNOWN_COURSE = "imported"
"""Course in the header of a log whose source has none."""
KINDS = (
    "mocap", "rtk", "plain", "plain_start", "bare_rtk", "bare_plain", "path", "path_sim", "ramp", "acceleration", "log", "rosbag",
)  # fmt: skip
"""Kinds of recordings: what is measured and what is the truth.

===============  =========================================================  ===================================================
kind             inputs                                                     truth
===============  =========================================================  ===================================================
``mocap``        noisy positions, heading with a misalignment, commands     motion capture
``rtk``          RTK positions, gyro, commands                              the RTK track, smoothed
``plain``        plain GNSS positions, gyro, commands                       RTK
``plain_start``  as ``plain``, and RTK while standing at the start          RTK
``bare_rtk``     RTK positions, commands; no gyro                           the RTK track, smoothed
``bare_plain``   plain GNSS positions, commands; no gyro                    RTK
``path``         RTK positions on a grid, gyro, commands                    the RTK track, smoothed
``path_sim``     true positions and heading of a simulation, commands       the simulation
``ramp``         motion capture as fixes and gyro, commands                 motion capture
``acceleration`` motion capture as fixes along a straight, commands         motion capture
``log``          whatever a log of ours holds                               a simulator or reference system, else RTK
``rosbag``       whatever a ROS bag holds                                   RTK or odometry
===============  =========================================================  ===================================================
"""


def seconds(t_ns: Times) -> Array:
    """Stamps as float seconds, for numerics."""
    return np.asarray(t_ns * 1e-9, dtype=np.float64)


def arrival_ns(message: Message) -> int:
    """Time at which a message entered: arrival of a measurement, or sending of a command."""
    t_ns: int = getattr(message, "t_rx_ns", None) or message.t_ns  # type: ignore[attr-defined]
    return t_ns


@dataclass(frozen=True, slots=True)
class RecordedTruth:
    """The rear axle as it was, or NaN where nobody knows. ``yaw_rad`` is not wrapped to any range."""

    t_ns: Times
    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array

    @property
    def known(self) -> bool:
        """True if its position is known anywhere."""
        return bool(np.isfinite(self.x_m).any())


@dataclass(frozen=True, slots=True)
class Poses:
    """Columns of one source of poses; None if not recorded."""

    x_m: Array | None = None
    y_m: Array | None = None
    yaw_rad: Array | None = None
    speed_mps: Array | None = None


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
    truth: RecordedTruth
    """Ground truth at ``steps_ns``."""
    raw_x_m: Array
    """Measured position in force at ``steps_ns``, held between fixes."""
    raw_y_m: Array
    published: Poses = field(default_factory=Poses)
    """Estimate of the on-board filter at ``steps_ns``."""
    lever_arm_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Antenna, or the marker that stands for it, from the rear axle: forward, left, up."""
    source: str = ""
    """File it comes from."""
    course: str = ""
    """Name of the course it was driven on; empty if nothing says so."""
    truth_sigma: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Standard deviations that the truth claims: position per axis (m), yaw (rad), speed (m/s). 0 if exact, infinite if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Output of an estimator for a recording, at its ``steps_ns``."""

    t_ns: Times
    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array
    yaw_rate_radps: Array
    covariance: Array
    """(n, 4, 4) over (x, y, yaw, speed)."""
    nis: Array
    """Normalised innovation squared of the newest position."""
    status: NDArray[np.int64]
    """:class:`~vehicled.core.messages.EstimatorStatus`."""
    ahead_x_m: Array
    """Predicted position, before the measured one of that very step was given; NaN at steps where it was not asked for."""
    ahead_y_m: Array
    rejected: int = 0
    identified: Sequence[Identification] = field(default_factory=tuple)
    """All results of the identifier, in order."""
    vehicles: Sequence[Vehicle] = field(default_factory=tuple)
    """The vehicle believed at each step; what was identified up to then, else the recording's."""

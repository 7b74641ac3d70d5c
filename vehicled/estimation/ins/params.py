"""Tuning of the inertial filter. Masks and gates use the terms of robot_localization.

``use_...`` replaces its ``<sensor>_config`` masks, ``rejection_threshold`` is a Mahalanobis distance (3.29 passes 99.9 % of
consistent scalars, 3.72 of pairs); ``sensor_timeout_s``, ``history_length_s`` and ``smooth_lagged_data`` have the same meaning.
Densities are per root second, sigmas are floors under what the devices report.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.estimation.filter_status import FilterParams

Threshold = Annotated[float, Meta(gt=0.5, le=1e9)]
Vector3 = Annotated[tuple[float, ...], Meta(min_length=3, max_length=3)]


class GnssUse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """GNSS position and velocity."""

    use_position: bool = True
    use_height: bool = True
    use_velocity: bool = True
    use_vertical_velocity: bool = True
    pose_rejection_threshold: Threshold = 3.72
    twist_rejection_threshold: Threshold = 3.72
    sigma_floor_m: Positive = 0.02
    velocity_sigma_floor_mps: Positive = 0.05
    course_min_speed_mps: Positive = 0.5
    """Lowest speed at which the course over ground may align the yaw."""
    coloured: bool = True
    """Model the error of solutions without fixed carrier phase as states. The receiver declares their size, and the
    position itself has ``white_sigma_m``. Otherwise ten fixes in a second would count as independent, which they are not."""
    coloured_time_s: Positive = 100.0
    """Correlation time of that error. Recorded plain GNSS drifts for 30 s or more; a longer memory keeps a known start."""
    coloured_drift: NonNegative = 0.74
    """Random walk of the predicted position beside that error, over its size, per root second, without an accelerometer: the drive
    model may be wrong for minutes, and only the positions show it."""
    white_sigma_m: Positive = 0.1


class HeadingUse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of heading: measured = yaw + bias + white noise, the bias a random walk with initial sigma ``bias_sigma_rad``."""

    use_yaw: bool = True
    sigma_floor_rad: Positive = 0.01
    sigma_unknown_rad: Positive = 0.05
    """Sigma of a heading that reports none."""
    bias_sigma_rad: NonNegative = 0.02
    bias_walk_rad: NonNegative = 1e-4
    rejection_threshold: Threshold = 3.29


class SpeedUse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Forward speed of the rear axle."""

    use_speed: bool = True
    sigma_floor_mps: Positive = 0.03
    rejection_threshold: Threshold = 3.29


class Constraints(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Non-holonomic constraints: lateral and vertical speed of the rear axle are 0 within a sigma."""

    use_lateral: bool = True
    use_vertical: bool = True
    rate_hz: Annotated[float, Meta(gt=0.0, le=1000.0)] = 20.0
    lateral_sigma_mps: Positive = 0.03
    lateral_per_speed: NonNegative = 0.01
    """Growth of the sigma with speed: mounting angle and wheel alignment, rad."""
    lateral_per_force: NonNegative = 0.015
    """Growth with speed times lateral acceleration (rad per m/s2): the slip angle of a tyre grows with its side force."""
    vertical_sigma_mps: Positive = 0.1


class Rest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Zero-velocity and zero-rate updates at standstill: no throttle, no speed, quiet sensors for ``after_s``."""

    use_zero_velocity: bool = True
    use_zero_rate: bool = True
    after_s: Positive = 0.5
    max_speed_mps: Positive = 0.15
    max_rate_radps: Positive = 0.03
    """Largest rate at standstill, bias removed; turning the vehicle by hand is faster."""
    max_jump_mps2: Positive = 0.5
    """Largest change of the specific force between two steps at standstill."""
    velocity_sigma_mps: Positive = 0.01
    rate_sigma_radps: Positive = 0.003


class Inertial(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Errors of the inertial unit, including vibration and scale error."""

    gyro_density_radps: Positive = 5e-4
    accelerometer_density_mps2: Positive = 0.03
    gyro_bias_walk_radps: Positive = 3e-5
    accelerometer_bias_walk_mps2: Positive = 3e-4
    gyro_bias_sigma_radps: Positive = 0.01
    accelerometer_bias_sigma_mps2: Positive = 0.1
    tilt_sigma_rad: Positive = 0.05
    """Sigma of roll and pitch at a start without levelling."""


class InsParams(FilterParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of :class:`vehicled.estimation.ins.estimator.Ins`."""

    imu_lever_arm_m: Vector3 = (0.0, 0.0, 0.0)
    """Vector from the rear axle to the inertial unit: forward, left, up."""
    gnss: GnssUse = field(default_factory=GnssUse)
    moving_base: HeadingUse = field(default_factory=HeadingUse)
    magnetic: HeadingUse = field(
        default_factory=lambda: HeadingUse(
            sigma_floor_rad=0.05, sigma_unknown_rad=0.2, bias_sigma_rad=0.15, bias_walk_rad=0.02, rejection_threshold=5.0
        )
    )
    """Motors and iron disturb it, so its bias drifts."""
    inertial: HeadingUse = field(default_factory=lambda: HeadingUse(sigma_unknown_rad=0.02, bias_sigma_rad=3.0, bias_walk_rad=0.02))
    """Integrated gyro: its zero is arbitrary, so only its changes are used and it gives no alignment. If the vehicle always
    starts in a known direction, set a small ``bias_sigma_rad``."""
    wheel_speed: SpeedUse = field(default_factory=SpeedUse)
    motor_speed: SpeedUse = field(default_factory=lambda: SpeedUse(sigma_floor_mps=0.1))
    wheel_scale_sigma: NonNegative = 0.03
    """Relative uncertainty of the wheel radius, which is a state."""
    constraints: Constraints = field(default_factory=Constraints)
    rest: Rest = field(default_factory=Rest)
    imu: Inertial = field(default_factory=Inertial)
    max_tilt_rad: Annotated[float, Meta(gt=0.0, le=1.57)] = 0.8
    """Largest angle between the vertical axis of the body and up. No vehicle drives beyond it, so the unit is mounted otherwise,
    and the estimate has diverged."""
    sensor_timeout_s: Positive = 0.05
    """Age of the newest sample at which the inertial unit counts as lost; at least two periods plus its latency."""
    speed_density_mps: Positive = 0.3
    """Random walk of the velocity without accelerometer."""
    wheel_density_rad: Positive = 0.06
    """Error of the commanded wheel angle as white noise, without gyro."""
    smooth_lagged_data: bool = True
    """Fuse late measurements at their time of validity. Otherwise those older than a step are rejected and counted."""
    history_length_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Largest age of a measurement that is still fused."""

"""Tuning of the inertial filter. Masks and gates use the terms of robot_localization.

``use_...`` replaces its ``<sensor>_config`` masks, ``rejection_threshold`` is a Mahalanobis
distance (3.29 passes 99.9 % of consistent scalars, 3.72 of pairs); ``sensor_timeout_s``,
``history_length_s`` and ``smooth_lagged_data`` have the same meaning. Densities are per root
second, sigmas are floors under what the devices report.
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
    """Fuse east and north."""
    use_height: bool = True
    """Fuse the height."""
    use_velocity: bool = True
    """Fuse the horizontal velocity."""
    use_vertical_velocity: bool = True
    """Fuse the vertical velocity."""
    pose_rejection_threshold: Threshold = 3.72
    """Mahalanobis distance beyond which a position is rejected."""
    twist_rejection_threshold: Threshold = 3.72
    """Mahalanobis distance beyond which a velocity is rejected."""
    sigma_floor_m: Positive = 0.02
    """Lower bound of a position's sigma, m."""
    velocity_sigma_floor_mps: Positive = 0.05
    """Lower bound of a velocity's sigma, m/s."""
    course_min_speed_mps: Positive = 0.5
    """Lowest speed at which the course over ground may align the yaw."""
    coloured: bool = True
    """Model the error of solutions without fixed carrier phase as states. The receiver declares
    their size, and the position itself has ``white_sigma_m``. Otherwise ten fixes in a second would
    count as independent, which they are not."""
    coloured_time_s: Positive = 100.0
    """Correlation time of that error. Recorded plain GNSS drifts for 30 s or more; a longer memory
    keeps a known start."""
    coloured_drift: NonNegative = 0.74
    """Random walk of the predicted position beside that error, over its size, per root second,
    without an accelerometer: the drive model may be wrong for minutes, and only the positions show
    it."""
    white_sigma_m: Positive = 0.1
    """Sigma of the white part of a position without fixed carrier phase, m."""


class HeadingUse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of heading: measured = yaw + bias + white noise, the bias a random walk with initial
    sigma ``bias_sigma_rad``."""

    use_yaw: bool = True
    """Fuse the heading."""
    sigma_floor_rad: Positive = 0.01
    """Lower bound of a heading's sigma, rad."""
    sigma_unknown_rad: Positive = 0.05
    """Sigma of a heading that reports none."""
    bias_sigma_rad: NonNegative = 0.02
    """Initial sigma of the bias, rad."""
    bias_walk_rad: NonNegative = 1e-4
    """Random walk of the bias, rad per root second."""
    rejection_threshold: Threshold = 3.29
    """Mahalanobis distance beyond which a heading is rejected."""


class SpeedUse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Forward speed of the rear axle."""

    use_speed: bool = True
    """Fuse the speed."""
    sigma_floor_mps: Positive = 0.03
    """Lower bound of a speed's sigma, m/s."""
    rejection_threshold: Threshold = 3.29
    """Mahalanobis distance beyond which a speed is rejected."""


class Constraints(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Non-holonomic constraints: lateral and vertical speed of the rear axle are 0 within a
    sigma."""

    use_lateral: bool = True
    """Apply the constraint to the lateral speed."""
    use_vertical: bool = True
    """Apply the constraint to the vertical speed."""
    rate_hz: Annotated[float, Meta(gt=0.0, le=1000.0)] = 20.0
    """Updates per second, Hz."""
    lateral_sigma_mps: Positive = 0.03
    """Sigma of the lateral speed, m/s."""
    lateral_per_speed: NonNegative = 0.01
    """Growth of the sigma with speed: mounting angle and wheel alignment, rad."""
    lateral_per_force: NonNegative = 0.015
    """Growth with speed times lateral acceleration (rad per m/s2): the slip angle of a tyre grows
    with its side force."""
    vertical_sigma_mps: Positive = 0.1
    """Sigma of the vertical speed, m/s."""


class Rest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Zero-velocity and zero-rate updates at standstill: no throttle, no speed, quiet sensors for
    ``after_s``."""

    use_zero_velocity: bool = True
    """Apply zero-velocity updates."""
    use_zero_rate: bool = True
    """Apply zero-rate updates."""
    after_s: Positive = 0.5
    """Time of quiet before the updates begin, s."""
    max_speed_mps: Positive = 0.15
    """Largest speed that counts as standstill, m/s."""
    max_rate_radps: Positive = 0.03
    """Largest rate at standstill, bias removed; turning the vehicle by hand is faster."""
    max_jump_mps2: Positive = 0.5
    """Largest change of the specific force between two steps at standstill."""
    velocity_sigma_mps: Positive = 0.01
    """Sigma of the zero velocity, m/s."""
    rate_sigma_radps: Positive = 0.003
    """Sigma of the zero rate, rad/s."""


class Inertial(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Errors of the inertial unit, including vibration and scale error."""

    gyro_density_radps: Positive = 5e-4
    """Noise density of the gyro, rad/s per root Hz."""
    accelerometer_density_mps2: Positive = 0.03
    """Noise density of the accelerometer, m/s2 per root Hz."""
    gyro_bias_walk_radps: Positive = 3e-5
    """Random walk of the gyro's bias, rad/s per root second."""
    accelerometer_bias_walk_mps2: Positive = 3e-4
    """Random walk of the accelerometer's bias, m/s2 per root second."""
    gyro_bias_sigma_radps: Positive = 0.01
    """Initial sigma of the gyro's bias, rad/s."""
    accelerometer_bias_sigma_mps2: Positive = 0.1
    """Initial sigma of the accelerometer's bias, m/s2."""
    tilt_sigma_rad: Positive = 0.05
    """Sigma of roll and pitch at a start without levelling."""


class InsParams(FilterParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of :class:`vehicled.estimation.ins.estimator.Ins`."""

    imu_lever_arm_m: Vector3 = (0.0, 0.0, 0.0)
    """Vector from the rear axle to the inertial unit: forward, left, up."""
    gnss: GnssUse = field(default_factory=GnssUse)
    """Use of the GNSS receiver."""
    moving_base: HeadingUse = field(default_factory=HeadingUse)
    """Use of a heading from two antennas."""
    magnetic: HeadingUse = field(
        default_factory=lambda: HeadingUse(
            sigma_floor_rad=0.05,
            sigma_unknown_rad=0.2,
            bias_sigma_rad=0.15,
            bias_walk_rad=0.02,
            rejection_threshold=5.0,
        )
    )
    """Motors and iron disturb it, so its bias drifts."""
    inertial: HeadingUse = field(
        default_factory=lambda: HeadingUse(
            sigma_unknown_rad=0.02, bias_sigma_rad=3.0, bias_walk_rad=0.02
        )
    )
    """Integrated gyro: its zero is arbitrary, so only its changes are used and it gives no
    alignment. If the vehicle always starts in a known direction, set a small ``bias_sigma_rad``."""
    wheel_speed: SpeedUse = field(default_factory=SpeedUse)
    """Use of the wheel speed."""
    motor_speed: SpeedUse = field(default_factory=lambda: SpeedUse(sigma_floor_mps=0.1))
    """Use of the motor's speed."""
    wheel_scale_sigma: NonNegative = 0.03
    """Relative uncertainty of the wheel radius, which is a state."""
    constraints: Constraints = field(default_factory=Constraints)
    """Non-holonomic constraints."""
    rest: Rest = field(default_factory=Rest)
    """Updates at standstill."""
    imu: Inertial = field(default_factory=Inertial)
    """Errors of the inertial unit."""
    max_tilt_rad: Annotated[float, Meta(gt=0.0, le=1.57)] = 0.8
    """Largest angle between the vertical axis of the body and up. No vehicle drives beyond it, so
    the unit is mounted otherwise, and the estimate has diverged."""
    sensor_timeout_s: Positive = 0.05
    """Age of the newest sample at which the inertial unit counts as lost; at least two periods plus
    its latency."""
    speed_density_mps: Positive = 0.3
    """Random walk of the velocity without accelerometer."""
    wheel_density_rad: Positive = 0.06
    """Error of the commanded wheel angle as white noise, without gyro."""
    smooth_lagged_data: bool = True
    """Fuse late measurements at their time of validity. Otherwise those older than a step are
    rejected and counted."""
    history_length_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Largest age of a measurement that is still fused."""

"""Tuning of the planar filter. Densities are per root second, sigmas are floors under what the
devices report."""

from typing import Annotated

from msgspec import Meta

from vehicled.core.vehicle import NonNegative, Positive, Share
from vehicled.estimation.filter_status import FilterParams


class PlanarParams(FilterParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning.

    Densities and correlations were fitted to every second recorded drive of the ART vehicle and
    checked on the others. The uncertainty of a vehicle parameter (``..._spread``) is its spread
    between campaigns on that vehicle.
    """

    # ---- GNSS position
    gnss_sigma_floor_m: Positive = 0.02
    """White part of the error of a fixed solution, and the lower bound of every solution's
    sigma."""
    timing_sigma_s: NonNegative = 0.02
    """Jitter of the stamps, which adds an along-track error of this times the speed."""
    error_white_sigma_m: Positive = 0.03
    """White part of the error of solutions without fixed carrier phase; the rest is correlated."""
    error_walk_m: Positive = 0.22
    """Random walk of that correlated error, m per root second. The receiver declares its size, and
    both give its time."""
    error_min_time_s: Positive = 2.0
    """Shortest time of that error: a small one walks less than the above."""
    error_damping: Annotated[float, Meta(gt=0.05, le=1.0)] = 1.0
    """Damping ratio of that second-order process."""
    error_at_start: Share = 1.0
    """Initial sigma of that error over its stationary one: 1 for a receiver, 0 for noise that
    starts with the drive."""
    error_jump_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.99
    """Probability limit beyond which the innovation of such a fix counts as a jump of its error;
    the fix is still accepted."""

    # ---- GNSS velocity
    use_gnss_velocity: bool = True
    """Fuse the velocity of the receiver."""
    gnss_velocity_sigma_floor_mps: Positive = 0.05
    """Lower bound of a GNSS velocity's sigma, m/s."""
    course_min_speed_mps: Positive = 0.5
    """Lowest speed at which the GNSS course is used."""

    # ---- heading and gyro
    heading_sigma_floor_rad: Positive = 0.01
    """Lower bound of a heading's sigma, rad."""
    heading_sigma_unknown_rad: Positive = 0.01
    """White part of the error of a heading that reports no sigma. Its drift is a state."""
    heading_misalignment_rad: Annotated[float, Meta(ge=-3.2, le=3.2)] = 0.0
    """Known part of the measured yaw minus that of the body."""
    misalignment_sigma_rad: Positive = 0.18
    """Initial sigma of the mounting angle of a heading sensor. A larger one than
    ``alignment.arming_sigma_rad`` (0.2) keeps a standing vehicle from arming, because only driving
    shows that angle."""
    inertial_start_sigma_rad: Positive = 0.02
    """Initial sigma of the yaw from which an integrated gyro starts."""
    misalignment_density_rad: NonNegative = 0.0005
    """Random walk of the mounting angle, rad per root second."""
    inertial_density_rad: Positive = 0.005
    """Drift of an integrated gyro that its rate does not show, such as lost samples."""
    gyro_density_rad: Positive = 0.023
    """Noise, scale error and dead band while driving."""
    gyro_rest_density_rad: Positive = 0.002
    """Noise at standstill, where the gyro measures its bias."""
    gyro_bias_sigma_radps: Positive = 0.004
    """Stationary sigma of the gyro's bias, rad/s."""
    gyro_bias_time_s: Positive = 30.0
    """Correlation time of the bias: temperature, and a dead band that hides it at times."""
    gyro_fresh_s: Positive = 0.15
    """Largest age of a gyro sample; beyond it steering and speed give the yaw rate."""

    # ---- wheels, motor, steering
    wheel_speed_sigma_floor_mps: Positive = 0.03
    """Lower bound of a wheel speed's sigma, m/s."""
    use_motor_speed: bool = True
    """Fuse the speed of the motor."""
    motor_speed_sigma_mps: Positive = 0.1
    """Sigma of the motor's speed, m/s."""
    wheel_scale_sigma: Positive = 0.05
    """Initial sigma of the relative scale error of wheel and motor speed."""
    steering_density_rad: Positive = 0.05
    """Error of the wheel angle as white noise (rad per root Hz)."""
    gain_spread: Positive = 0.2
    """Relative uncertainty of the steering gain."""
    offset_spread_rad: Positive = 0.015
    """Uncertainty of the steering offset, rad."""

    # ---- longitudinal motion
    speed_density_mps: Positive = 0.15
    """Error of the drive model's acceleration as white noise."""
    coasting_density_mps: Positive = 1.0
    """The same without known commands."""
    drive_lag_s: NonNegative = 0.1
    """Time constant of the drive, after its delay."""
    authority_scale: Positive = 1.0
    """Initial acceleration at full drive over that of the vehicle parameters."""
    authority_spread: Positive = 0.35
    """Relative uncertainty of the acceleration at full drive."""
    authority_walk: NonNegative = 0.005
    """Random walk of that factor, per root second."""
    friction_extra_mps2: Annotated[float, Meta(ge=-5.0, le=5.0)] = 0.0
    """Initial friction beyond that of the vehicle parameters."""
    friction_spread_mps2: Positive = 0.2
    """Uncertainty of the friction, m/s2."""
    friction_walk_mps2: Positive = 0.015
    """Slopes and surfaces."""
    turn_drag_mps2m: NonNegative = 0.0
    """Friction per curvature: wheels of one axle without a differential scrub in turns."""
    position_density_m: Positive = 0.03
    """Lateral slip."""

    # ---- standstill
    rest_s: Positive = 0.3
    """Time of quiet that counts as standstill, s."""
    rest_speed_mps: Positive = 0.15
    """Largest speed that counts as standstill, m/s."""

    # ---- fusion
    history_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Largest age of a measurement that is still fused."""
    gate_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.9999
    """Fraction of consistent measurements that pass the chi-square gate."""

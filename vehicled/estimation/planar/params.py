"""Tuning of the planar filter. Densities are per root second, sigmas are floors under what the devices report."""

from typing import Annotated

from msgspec import Meta, Struct

from vehicled.vehicle import NonNegative, Positive, Share


class PlanarParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning.

    Densities and correlations are fitted to every other one of the recorded drives of the ART vehicle and checked on the rest. How
    far a parameter of the vehicle may be off (``..._spread``) is that vehicle's spread between campaigns.
    """

    # ---- GNSS position
    gnss_sigma_floor_m: Positive = 0.02
    """White part of the error of a fixed solution, and the least that any solution is trusted to."""
    timing_sigma_s: NonNegative = 0.02
    """Jitter of the stamps: an error along the way of this times the speed."""
    error_white_sigma_m: Positive = 0.03
    """White part of the error of solutions without fixed carrier phase; the rest of it wanders."""
    error_rate_mps: Positive = 0.05
    """How fast the error of such solutions wanders (sigma of its derivative). How far is what the receiver says of itself."""
    error_damping: Annotated[float, Meta(gt=0.05, le=1.0)] = 1.0
    """Of that second-order process, as a share of the critical one."""
    error_walk_m: NonNegative = 0.22
    """What is added to the error itself, as a random walk: multipath and satellites that come and go."""
    error_at_start: Share = 1.0
    """Error of the first such fix as a share of what it may become: 1 for a receiver, 0 for noise that begins with the drive."""
    error_jump_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.99
    """Such a fix that lies outside this share of good ones is not refused: its error has jumped, by as much."""

    # ---- GNSS velocity
    use_gnss_velocity: bool = True
    gnss_velocity_sigma_floor_mps: Positive = 0.05
    course_min_speed_mps: Positive = 0.5
    """GNSS course counts from this speed on."""

    # ---- heading and gyro
    heading_sigma_floor_rad: Positive = 0.01
    heading_sigma_unknown_rad: Positive = 0.01
    """White part of a heading that comes without sigma. Its drift is a state."""
    heading_misalignment_rad: Annotated[float, Meta(ge=-3.2, le=3.2)] = 0.0
    """Measured yaw minus that of the body, as far as it is known."""
    misalignment_sigma_rad: Positive = 0.15
    """Of a heading whose sensor was mounted at some angle."""
    inertial_start_sigma_rad: Positive = 0.02
    """Of an integrated gyro: the yaw it was told to start from."""
    misalignment_density_rad: NonNegative = 0.0005
    inertial_density_rad: Positive = 0.005
    """Drift of an integrated gyro that its rate does not show: lost samples."""
    gyro_density_rad: Positive = 0.023
    """Noise, scale and dead band on the road."""
    gyro_rest_density_rad: Positive = 0.002
    """Noise while the vehicle stands, when the gyro shows its bias."""
    gyro_bias_sigma_radps: Positive = 0.004
    gyro_bias_time_s: Positive = 30.0
    """Correlation time of the bias: temperature, and a dead band that hides it now and then."""
    gyro_fresh_s: Positive = 0.15
    """The gyro drives the yaw while its newest sample is younger than this; then steering and speed do."""

    # ---- wheels, motor, steering
    wheel_speed_sigma_floor_mps: Positive = 0.03
    use_motor_speed: bool = True
    motor_speed_sigma_mps: Positive = 0.1
    wheel_scale_sigma: Positive = 0.05
    steering_density_rad: Positive = 0.05
    """Error of the wheel angle as white noise (rad per root Hz)."""
    gain_spread: Positive = 0.3
    """Of the steering gain, relative."""
    offset_spread_rad: Positive = 0.03

    # ---- longitudinal motion
    speed_density_mps: Positive = 0.15
    """What the drive model does not know of the acceleration, as white noise."""
    coasting_density_mps: Positive = 1.0
    """The same where nobody tells what is commanded."""
    drive_lag_s: NonNegative = 0.1
    """Rise of the drive, after its delay."""
    authority_scale: Positive = 1.0
    """Acceleration of the full drive, relative to what is believed of the vehicle, before anything is known of it."""
    authority_spread: Positive = 0.2
    authority_walk: NonNegative = 0.005
    friction_extra_mps2: Annotated[float, Meta(ge=-5.0, le=5.0)] = 0.0
    """Friction on the road beyond what is believed."""
    friction_spread_mps2: Positive = 0.2
    friction_walk_mps2: Positive = 0.015
    """Slopes and surfaces."""
    turn_drag_mps2m: NonNegative = 0.0
    """Friction per curvature: wheels on one axle that are not free to turn at their own speeds scrub."""
    position_density_m: Positive = 0.03
    """Slip across."""

    # ---- rest
    rest_s: Positive = 0.3
    rest_speed_mps: Positive = 0.15

    # ---- fusion
    history_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Oldest measurement that is still fused."""
    gate: bool = True
    gate_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.9999
    """Share of good measurements that the chi-square gate lets pass."""
    gate_patience: Annotated[int, Meta(ge=1)] = 5
    """Consecutive rejections of one kind after which the state is doubted instead."""
    align_fixes: Annotated[int, Meta(ge=1)] = 5
    """Accepted fixes from the start, or from a re-acquisition, to RUNNING."""
    max_position_sigma_m: Positive = 4.0
    """DIVERGED beyond this, as beyond the next two."""
    max_yaw_sigma_rad: Positive = 0.6
    max_speed_sigma_mps: Positive = 1.0

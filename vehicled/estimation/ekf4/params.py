"""Tuning of the 4-DOF filter."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from vehicled.vehicle import NonNegative, Positive


class Ekf4Params(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. Densities are per root second; sigmas are floors under what the devices report."""

    model: Literal["kinematic", "dynamic"] = "kinematic"
    """How the yaw rate follows from the wheel angle, and whether the wheels slip: see dynamic_single_track.py. Kinematic by
    default: below 2 m/s the tyres of a small vehicle slip by less than its steering gain is in doubt."""
    cornering_stiffness_per_rad: Annotated[float, Meta(ge=1.0, le=100.0)] = 10.0
    """Of the rear axle over its load; dynamic model only. Car tyres have 8 to 15, whatever the size of the car."""
    understeer_rad_per_g: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.03
    """Wheel angle that one g takes beyond that of the geometry; dynamic model only. Cars have 1 to 4 degrees."""
    centre_share: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.5
    """Centre of gravity ahead of the rear axle, over the wheelbase; dynamic model only."""
    inertia_share: Annotated[float, Meta(ge=0.3, le=3.0)] = 1.0
    """Yaw inertia over m a b; dynamic model only. 0.8 to 1.2 for most vehicles."""
    position_density_m: Positive = 0.02
    yaw_density_rad: Positive = 0.01
    """Covers gyro noise, scale and bias drift."""
    wheel_density_rad: Positive = 0.06
    """Error of the wheel angle as white noise (rad per root Hz); counts only while no gyro is fresh."""
    speed_density_mps: Positive = 0.3
    """What throttle, slope and battery do to the speed that the drive model does not know."""
    surplus_per_s: NonNegative = 0.0
    """Acceleration by which the drive is believed to differ from its model, per correction of the speed: an engine, a speed loop or
    a slope, which would otherwise make every speed wrong by what the model has wrong, times the delay of the measurements.
    Needs a measured speed; with positions alone it swings. 0: the drive is as believed."""
    gnss_sigma_floor_m: Positive = 0.02
    gnss_coloured: bool = True
    """Estimate the slow error of positions as states, unless the solution is fixed and declares 5 cm or less. Without it every
    fix counts as an independent opinion, which is true of simulated white noise only."""
    gnss_white_sigma_m: Positive = 0.1
    """White part of the error of a solution without fixed carrier phase; the rest is a slow error, of the size declared."""
    gnss_coloured_time_s: Positive = 60.0
    """Correlation time of that slow error; 30 s and more on recorded plain GNSS."""
    gnss_velocity_sigma_floor_mps: Positive = 0.05
    use_gnss_velocity: bool = True
    course_min_speed_mps: Positive = 0.5
    """GNSS course counts from this speed on."""
    heading_sigma_floor_rad: Positive = 0.02
    heading_sigma_unknown_rad: Positive = 0.1
    """For a heading that comes without sigma."""
    wheel_speed_sigma_floor_mps: Positive = 0.03
    use_motor_speed: bool = True
    motor_speed_sigma_mps: Positive = 0.1
    gyro_fresh_s: Positive = 0.05
    """The gyro drives the yaw while its newest sample is younger than this; then the single-track model does."""
    rest_s: Positive = 1.0
    history_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Oldest measurement that is still fused."""
    gate: bool = True
    gate_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.999
    """Share of good measurements that the chi-square gate lets pass."""
    gate_patience: Annotated[int, Meta(ge=1)] = 5
    """Consecutive rejections of one kind after which the state is doubted instead: its covariance is inflated by the residual and
    the measurement accepted, else one wrong belief would lock out the truth for ever."""
    align_fixes: Annotated[int, Meta(ge=1)] = 5
    """Accepted fixes from the start, or from an acceptance against the gate, to RUNNING."""
    max_position_sigma_m: Positive = 4.0
    """DIVERGED beyond this, as beyond the next two."""
    max_yaw_sigma_rad: Positive = 0.6
    max_speed_sigma_mps: Positive = 1.0

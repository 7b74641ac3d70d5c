"""Tuning of the 4-DOF filter."""

from typing import Annotated, Literal

from msgspec import Meta

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.estimation.filter_status import FilterParams


class Ekf4Params(FilterParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. Densities are per root second; sigmas are floors under what the devices report."""

    model: Literal["kinematic", "dynamic"] = "kinematic"
    """Model of the yaw rate: kinematic, or dynamic with tyre slip (dynamic_single_track.py). Below
    2 m/s the slip of a small vehicle matters less than the uncertainty of its steering gain, hence
    the default."""
    cornering_stiffness_per_rad: Annotated[float, Meta(ge=1.0, le=100.0)] = 10.0
    """Cornering stiffness of the rear axle over its load; dynamic model only. Car tyres of any size
    have 8 to 15."""
    understeer_rad_per_g: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.03
    """Wheel angle per g of lateral acceleration beyond the geometric one; dynamic model only. Cars
    have 1 to 4 degrees."""
    centre_share: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.5
    """Centre of gravity ahead of the rear axle, over the wheelbase; dynamic model only."""
    inertia_share: Annotated[float, Meta(ge=0.3, le=3.0)] = 1.0
    """Yaw inertia over m a b; dynamic model only. 0.8 to 1.2 for most vehicles."""
    position_density_m: Positive = 0.02
    """Process noise of the position, m per root second."""
    yaw_density_rad: Positive = 0.01
    """Covers gyro noise, scale and bias drift."""
    wheel_density_rad: Positive = 0.06
    """Error of the wheel angle as white noise (rad per root Hz); used only without a fresh gyro."""
    speed_density_mps: Positive = 0.3
    """Error of the drive model: throttle, slope, battery."""
    surplus_per_s: NonNegative = 0.0
    """Gain of the estimated acceleration error of the drive model, per correction of the speed. It
    covers an engine, a speed loop or a slope, which would otherwise bias every speed by the model
    error times the delay of the measurements. Needs a measured speed; with positions alone it
    oscillates. 0 turns it off."""
    gnss_sigma_floor_m: Positive = 0.02
    """Lower bound of a position's sigma, m."""
    gnss_coloured: bool = True
    """Estimate the slow error of positions as states, unless the solution is fixed and declares 5
    cm or less. Otherwise every fix counts as independent, which holds for simulated white noise
    only."""
    gnss_white_sigma_m: Positive = 0.1
    """White part of the error of a solution without fixed carrier phase; the rest is a slow error
    of the declared size."""
    gnss_coloured_time_s: Positive = 60.0
    """Correlation time of that slow error; 30 s and more on recorded plain GNSS."""
    gnss_coloured_drift: NonNegative = 1.0
    """Random walk of the predicted position beside such an error, over its size, per root second,
    if the receiver measures no velocity. Heading and drive may be wrong for a whole drive, and only
    the positions show it; without this the filter takes their error for the slow one of GNSS."""
    gnss_velocity_sigma_floor_mps: Positive = 0.05
    """Lower bound of a GNSS velocity's sigma, m/s."""
    use_gnss_velocity: bool = True
    """Fuse the velocity of the receiver."""
    course_min_speed_mps: Positive = 0.5
    """Lowest speed at which the GNSS course is used."""
    heading_sigma_floor_rad: Positive = 0.02
    """Lower bound of a heading's sigma, rad."""
    heading_sigma_unknown_rad: Positive = 0.1
    """Sigma of a heading that reports none."""
    heading_drift_sigma_rad: NonNegative = 0.15
    """Slow error of a heading that a gyro integrates, which its sigma does not contain: mounting
    angle and drift."""
    wheel_speed_sigma_floor_mps: Positive = 0.03
    """Lower bound of a wheel speed's sigma, m/s."""
    use_motor_speed: bool = True
    """Fuse the speed of the motor."""
    motor_speed_sigma_mps: Positive = 0.1
    """Sigma of the motor's speed, m/s."""
    gyro_fresh_s: Positive = 0.05
    """Largest age of a gyro sample; beyond it the single-track model gives the yaw rate."""
    rest_s: Positive = 1.0
    """Time without throttle and speed that counts as standstill, s."""
    history_s: Annotated[float, Meta(ge=0.02, le=2.0)] = 0.5
    """Largest age of a measurement that is still fused."""
    gate_probability: Annotated[float, Meta(ge=0.5, le=0.999999)] = 0.999
    """Fraction of consistent measurements that pass the chi-square gate."""

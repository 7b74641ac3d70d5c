"""Measurement update of the 4-DOF filter: gate, correction and counters.

:class:`FilterState` holds everything that a measurement changes, so that the filter can return to a
past state and fuse the later measurements again without counting anything twice.
"""

from math import remainder, sqrt, tau

from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.arrays import Array
from vehicled.core.clamp import clamp
from vehicled.core.messages import HeadingKind
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.estimation import coloured_error, measurements
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.four_dof import FourDofState
from vehicled.estimation.gaussian import Measurement, chi_square_limit, update
from vehicled.estimation.history import EstimatedPose

# Sources of measurements in their order of fusion at one instant: yaw first, since positions depend
# on it. A source is also the index of its gate; the velocity of a fix has its own gate.
HEADING, WHEEL, MOTOR, STEERING, POSITION, VELOCITY = 0, 3, 4, 5, 6, 7
"""HEADING reserves one number for each :class:`~vehicled.core.messages.HeadingKind`."""
DRIFTING = HEADING + int(HeadingKind.INERTIAL)


class YawMeasurement(Struct, frozen=True, gc=False):
    """Yaw from a heading source."""

    t_ns: int
    source: int
    yaw_rad: float
    sigma_rad: float


class AxleSpeed(Struct, frozen=True, gc=False):
    """Speed of the rear axle from wheels or motor."""

    t_ns: int
    source: int
    speed_mps: float
    sigma_mps: float


class SteeringMeasurement(Struct, frozen=True, gc=False):
    """Wheel angle measured by the steering."""

    wheel_rad: float


class PositionMeasurement(Struct, frozen=True, gc=False):
    """Antenna position in the map frame, and its velocity if the receiver gives a usable one."""

    t_ns: int
    east_m: float
    north_m: float
    R: Array
    """(2, 2), m2"""
    velocity_mps: tuple[float, float] | None
    R_velocity: Array
    """(2, 2), m2/s2"""
    coloured_sigma_m: float = 0.0
    """Sigma of the slow error per axis, which ``R`` does not contain; 0 for a fixed solution."""
    carrier: int = 0


Ekf4Measurement = YawMeasurement | AxleSpeed | SteeringMeasurement | PositionMeasurement


class FilterState(Struct, frozen=True, gc=False):
    """State of the filter and the counters of its measurements."""

    state: FourDofState
    counters: GateCounters


class FusionConfig(Struct, frozen=True, gc=False):
    """Constant inputs of :func:`fuse`."""

    params: Ekf4Params
    limits: tuple[float, float]
    """Limits of the normalised innovation squared, for one and two values."""
    lever_arm_m: tuple[float, float, float]
    lowest_speed_mps: float
    max_wheel_rad: float
    max_surplus_mps2: float


def fusion_config(
    params: Ekf4Params,
    lever_arm_m: tuple[float, float, float],
    lowest_speed_mps: float,
    max_wheel_rad: float,
    max_surplus_mps2: float,
) -> FusionConfig:
    """Return the configuration with the limits of the gate, infinite if the gate is off."""
    infinity = float("inf")
    limits = [
        chi_square_limit(params.gate_probability, m) if params.gate else infinity for m in (1, 2)
    ]
    return FusionConfig(
        params,
        (limits[0], limits[1]),
        lever_arm_m,
        lowest_speed_mps,
        max_wheel_rad,
        max_surplus_mps2,
    )


def fuse(config: FusionConfig, filter_state: FilterState, z: Ekf4Measurement) -> FilterState:
    """Return the filter state at the same instant, with the measurement fused or its rejection
    counted."""
    pose = _pose(filter_state.state)
    if isinstance(z, YawMeasurement):
        sigma = z.sigma_rad
        if z.source == DRIFTING:
            sigma = _drifting_sigma_rad(config.params, filter_state.state, sigma)
        return _apply(
            config, filter_state, z.source, z.t_ns, measurements.heading(pose, z.yaw_rad, sigma)
        )
    if isinstance(z, AxleSpeed):
        return _apply(
            config,
            filter_state,
            z.source,
            z.t_ns,
            measurements.speed(pose, z.speed_mps, z.sigma_mps),
        )
    if isinstance(z, SteeringMeasurement):
        return _with_wheel(
            filter_state, clamp(z.wheel_rad, -config.max_wheel_rad, config.max_wheel_rad)
        )
    return _fuse_fix(config, filter_state, pose, z)


def _drifting_sigma_rad(params: Ekf4Params, state: FourDofState, sigma_rad: float) -> float:
    """Return the sigma with which a heading that a gyro integrates is fused.

    Its slow error, mounting angle and drift, is no state of this filter, so a hundred such headings
    are worth no more than one: they lead a yaw that is less sure than that error back to it, as by
    covariance intersection (Julier and Uhlmann 1997), and count for nothing beside a better one
    from gyro and positions.
    """
    slow, variance = params.heading_drift_sigma_rad**2 + sigma_rad * sigma_rad, state.covariance[10]
    return (
        min(sqrt(slow * variance / (variance - slow)), measurements.MAX_SIGMA)
        if variance > slow
        else measurements.MAX_SIGMA
    )


def _fuse_fix(
    config: FusionConfig, filter_state: FilterState, pose: EstimatedPose, z: PositionMeasurement
) -> FilterState:
    rejected = filter_state.counters.rejected
    astray = (
        z.coloured_sigma_m == 0.0
        and filter_state.counters.strikes[POSITION] >= config.params.max_rejections
    )
    east_m, north_m = z.east_m, z.north_m
    coloured = None
    if z.coloured_sigma_m > 0.0:
        coloured = coloured_error.continued(
            filter_state.state.coloured, z.coloured_sigma_m, z.carrier
        )
        drift_m = (
            config.params.gnss_coloured_drift * z.coloured_sigma_m
            if z.velocity_mps is None
            else 0.0
        )
        if coloured.drift_m != drift_m:
            coloured = replace(coloured, drift_m=drift_m)
        east_m, north_m = east_m - coloured.mean_m[0], north_m - coloured.mean_m[1]
    if coloured is not filter_state.state.coloured:
        filter_state = replace(filter_state, state=replace(filter_state.state, coloured=coloured))
    at = measurements.position(pose, east_m, north_m, z.R, config.lever_arm_m)
    filter_state = _apply(
        config,
        filter_state,
        POSITION,
        z.t_ns,
        at if coloured is None else replace(at, with_error=True),
    )
    if filter_state.counters.rejected != rejected or z.velocity_mps is None:
        return filter_state
    east_mps, north_mps = z.velocity_mps
    moved = measurements.velocity(
        _pose(filter_state.state),
        east_mps,
        north_mps,
        z.R_velocity,
        config.lever_arm_m,
        config.params.course_min_speed_mps,
    )
    # A position that went astray did so by a wrong speed or direction.
    return _apply(config, filter_state, VELOCITY, z.t_ns, moved, forced=astray)


def _apply(
    config: FusionConfig,
    filter_state: FilterState,
    gate: int,
    t_ns: int,
    z: Measurement,
    *,
    forced: bool = False,
) -> FilterState:
    """Gate, correct and count; each gate counts its own rejections. ``forced``: accept it whatever
    the state says."""
    state, counters = filter_state.state, filter_state.counters
    position = gate == POSITION
    limit = config.limits[len(z.residual) - 1]
    # The error state absorbs a jump of the slow error, so the gate must not reject such a fix.
    forced = forced or z.with_error or counters.strikes[gate] >= config.params.max_rejections
    result = update(state.covariance, z, limit, forced, state.coloured)
    if position:
        counters = replace(counters, nis=result.nis)
    if not result.accepted:
        return FilterState(state, counters.reject(gate))
    dx, dy, dyaw, dv = result.shift
    speed = max(config.lowest_speed_mps, state.speed_mps + dv)
    surplus = 0.0
    if abs(speed) > STANDSTILL_MPS:
        # An error of the drive model shows as corrections that keep their sign.
        most = config.max_surplus_mps2
        surplus = clamp(state.surplus_mps2 + config.params.surplus_per_s * dv, -most, most)
    corrected = FourDofState(
        state.x_m + dx,
        state.y_m + dy,
        remainder(state.yaw_rad + dyaw, tau),
        speed,
        state.wheel_rad,
        result.covariance,
        state.yaw_rate_radps,
        state.lateral_mps,
        surplus,
        result.coloured,
    )
    doubted = result.nis > limit and not z.with_error
    if doubted or position:
        counters = replace(counters, good_fixes=(0 if doubted else counters.good_fixes) + position)
    return FilterState(corrected, counters.accept(gate, t_ns))


def _with_wheel(b: FilterState, wheel_rad: float) -> FilterState:
    return replace(b, state=replace(b.state, wheel_rad=wheel_rad))


def _pose(state: FourDofState) -> EstimatedPose:
    return EstimatedPose(
        state.x_m,
        state.y_m,
        state.yaw_rad,
        state.speed_mps,
        state.yaw_rate_radps,
        state.lateral_mps,
    )

"""What a measurement does to the belief of the 4-DOF filter: gate, correction and the counts that go with them.

Everything that a measurement changes stands in :class:`FilterState`, so that a belief of the past can be taken up again and the
measurements since fused anew without counting anything twice.
"""

from math import remainder, tau

from msgspec import Struct
from msgspec.structs import replace

from vehicled.estimation import coloured_error, measurements
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.four_dof import State
from vehicled.estimation.gaussian import Array, Measurement, chi_square_limit, update
from vehicled.estimation.history import Pose

NAN = float("nan")
MAX_COUNT = 2**32 - 1
STANDING_MPS = 0.05
"""A slower vehicle is held by friction: what corrects its speed says nothing about the drive."""

# Sources of measurements, in the order in which those of one instant are fused: the yaw before what is turned by it. A source is
# also the place of its gate; the velocity of a fix has a gate of its own.
HEADING, WHEEL, MOTOR, STEERING, POSITION, VELOCITY = 0, 3, 4, 5, 6, 7
"""HEADING is followed by one number for each further :class:`~vehicled.messages.HeadingKind`."""
GATES = 8


class YawMeasurement(Struct, frozen=True, gc=False):
    """Yaw from a heading source."""

    t_ns: int
    source: int
    yaw_rad: float
    sigma_rad: float


class SpeedMeasurement(Struct, frozen=True, gc=False):
    """Speed of the rear axle from wheels or motor."""

    t_ns: int
    source: int
    speed_mps: float
    sigma_mps: float


class SteeringMeasurement(Struct, frozen=True, gc=False):
    """Wheel angle as the steering measures it."""

    wheel_rad: float


class PositionMeasurement(Struct, frozen=True, gc=False):
    """Antenna in the map frame, and its velocity where the receiver tells one that counts."""

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


Seen = YawMeasurement | SpeedMeasurement | SteeringMeasurement | PositionMeasurement


class FilterState(Struct, frozen=True, gc=False):
    """State of the filter and what its measurements have left behind."""

    state: State
    newest_ns: int
    """Time of validity of the newest measurement accepted."""
    good_fixes: int
    """Accepted in a row since the start, or since one was accepted against the gate."""
    rejected: int
    nis: float = NAN
    """Of the newest position."""
    strikes: tuple[int, ...] = (0,) * GATES
    """Rejections in a row, by gate."""


class FusionConfig(Struct, frozen=True, gc=False):
    """What fusion depends on beside belief and measurement."""

    params: Ekf4Params
    limits: tuple[float, float]
    """Of the normalised innovation squared, for one and two values."""
    lever_arm_m: tuple[float, float, float]
    lowest_speed_mps: float
    max_wheel_rad: float
    max_surplus_mps2: float


def setting(
    params: Ekf4Params,
    lever_arm_m: tuple[float, float, float],
    lowest_speed_mps: float,
    max_wheel_rad: float,
    max_surplus_mps2: float,
) -> FusionConfig:
    """Setting with the limits of the gate; infinite where the gate is off."""
    infinity = float("inf")
    limits = [chi_square_limit(params.gate_probability, m) if params.gate else infinity for m in (1, 2)]
    return FusionConfig(params, (limits[0], limits[1]), lever_arm_m, lowest_speed_mps, max_wheel_rad, max_surplus_mps2)


def fuse(with_: FusionConfig, belief: FilterState, z: Seen) -> FilterState:
    """Belief at the same instant with the measurement in it, or with its rejection counted."""
    pose = _pose(belief.state)
    if isinstance(z, YawMeasurement):
        return _apply(with_, belief, z.source, z.t_ns, measurements.heading(pose, z.yaw_rad, z.sigma_rad))
    if isinstance(z, SpeedMeasurement):
        return _apply(with_, belief, z.source, z.t_ns, measurements.speed(pose, z.speed_mps, z.sigma_mps))
    if isinstance(z, SteeringMeasurement):
        return _with_wheel(belief, min(max(z.wheel_rad, -with_.max_wheel_rad), with_.max_wheel_rad))
    return _fuse_fix(with_, belief, pose, z)


def _fuse_fix(with_: FusionConfig, belief: FilterState, pose: Pose, z: PositionMeasurement) -> FilterState:
    rejected = belief.rejected
    east_m, north_m = z.east_m, z.north_m
    coloured = None
    if z.coloured_sigma_m > 0.0:
        coloured = coloured_error.continued(belief.state.coloured, z.coloured_sigma_m, z.carrier)
        east_m, north_m = east_m - coloured.mean_m[0], north_m - coloured.mean_m[1]
    if coloured is not belief.state.coloured:
        belief = replace(belief, state=replace(belief.state, coloured=coloured))
    at = measurements.position(pose, east_m, north_m, z.R, with_.lever_arm_m)
    belief = _apply(with_, belief, POSITION, z.t_ns, at if coloured is None else replace(at, with_error=True))
    if belief.rejected != rejected or z.velocity_mps is None:
        return belief
    east_mps, north_mps = z.velocity_mps
    moved = measurements.velocity(
        _pose(belief.state), east_mps, north_mps, z.R_velocity, with_.lever_arm_m, with_.params.course_min_speed_mps
    )
    return _apply(with_, belief, VELOCITY, z.t_ns, moved)


def _apply(with_: FusionConfig, belief: FilterState, gate: int, t_ns: int, z: Measurement) -> FilterState:
    """Gate, correct, count; each gate keeps its patience apart."""
    state, strikes = belief.state, belief.strikes
    position = gate == POSITION
    limit = with_.limits[len(z.residual) - 1]
    # A slow error that jumps is no reason to doubt the fix: the error state takes the jump.
    forced = z.with_error or strikes[gate] >= with_.params.gate_patience
    result = update(state.covariance, z, limit, forced, state.coloured)
    nis = result.nis if position else belief.nis
    if not result.accepted:
        strikes = (*strikes[:gate], strikes[gate] + 1, *strikes[gate + 1 :])
        return FilterState(state, belief.newest_ns, belief.good_fixes, min(belief.rejected + 1, MAX_COUNT), nis, strikes)
    if strikes[gate]:
        strikes = (*strikes[:gate], 0, *strikes[gate + 1 :])
    dx, dy, dyaw, dv = result.shift
    speed = max(with_.lowest_speed_mps, state.speed_mps + dv)
    surplus = 0.0
    if abs(speed) > STANDING_MPS:
        # What the drive model has wrong shows as corrections that keep their sign.
        most = with_.max_surplus_mps2
        surplus = min(max(state.surplus_mps2 + with_.params.surplus_per_s * dv, -most), most)
    corrected = State(
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
    good = (0 if doubted else belief.good_fixes) + position
    return FilterState(corrected, max(belief.newest_ns, t_ns), good, belief.rejected, nis, strikes)


def _with_wheel(b: FilterState, wheel_rad: float) -> FilterState:
    return replace(b, state=replace(b.state, wheel_rad=wheel_rad))


def _pose(state: State) -> Pose:
    return Pose(state.x_m, state.y_m, state.yaw_rad, state.speed_mps, state.yaw_rate_radps, state.lateral_mps)

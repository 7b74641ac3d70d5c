"""Inputs: sensor measurements, GNSS corrections, and ground truth."""

from enum import IntEnum
from math import cos, isfinite, pi, sin

from vehicled.core.messages.base import (
    NAN,
    NAN3,
    NAN9,
    Float64s,
    Int64,
    Matrix3,
    Message,
    UInt8,
    Vector3,
)


class FixType(IntEnum):
    """Kind of GNSS solution, best last."""

    NONE = 0
    TIME = 1
    DEAD_RECKONING = 2
    FIX_2D = 3
    FIX_3D = 4


class CarrierSolution(IntEnum):
    """State of the RTK carrier-phase solution."""

    NONE = 0
    FLOAT = 1
    FIXED = 2


FIXED_SIGMA_LIMIT_M = 0.1
"""Standard deviation per axis beyond which no carrier-phase solution is fixed, whatever its label
says."""


def is_place(latitude_rad: float, longitude_rad: float) -> bool:
    """Return True for a place on the earth; 0, 0 is what devices send without one."""
    return (
        abs(latitude_rad) <= pi / 2
        and abs(longitude_rad) <= pi
        and not latitude_rad == longitude_rad == 0.0
    )


def stated_carrier(carrier: CarrierSolution, position_covariance_m2: Matrix3) -> CarrierSolution:
    """Return the carrier solution that a stated covariance allows: one that is called fixed and
    errs by decimetres is floating."""
    east, _, _, _, north, *_ = position_covariance_m2
    limit = FIXED_SIGMA_LIMIT_M**2
    # Not by max, which may return NaN where the other axis is known.
    contradicted = carrier is CarrierSolution.FIXED and (east > limit or north > limit)
    return CarrierSolution.FLOAT if contradicted else carrier


class GnssFix(Message, frozen=True):
    """Position and velocity of the GNSS antenna, WGS 84. Covariances ENU, row-major, NaN where
    unknown."""

    t_ns: Int64
    t_rx_ns: Int64
    latitude_rad: float
    longitude_rad: float
    height_m: float
    velocity_enu_mps: Vector3 = NAN3
    position_covariance_m2: Matrix3 = NAN9
    velocity_covariance_m2ps2: Matrix3 = NAN9
    fix_type: FixType = FixType.NONE
    carrier: CarrierSolution = CarrierSolution.NONE
    differential: bool = False
    correction_age_s: float = NAN
    satellites: UInt8 = 0
    hdop: float = NAN
    vdop: float = NAN
    utc_ns: Int64 = 0
    """UTC of validity, ns since 1970; 0 if unknown."""


class ImuSample(Message, frozen=True):
    """Specific force and angular rate at the sensor, in body axes (forward, left, up)."""

    t_ns: Int64
    t_rx_ns: Int64
    specific_force_mps2: Vector3
    angular_rate_radps: Vector3
    temperature_k: float = NAN
    saturated: bool = False


class HeadingKind(IntEnum):
    """Source of a heading; it determines the error model."""

    INERTIAL = 0
    """Integrated gyro: drifts."""
    MAGNETIC = 1
    """Magnetometer: disturbed by motors and iron."""
    MOVING_BASE = 2
    """Two GNSS antennas: no drift; noise falls with the baseline."""


class Heading(Message, frozen=True):
    """Yaw of the body, counter-clockwise from east."""

    t_ns: Int64
    t_rx_ns: Int64
    yaw_rad: float
    sigma_rad: float
    kind: HeadingKind = HeadingKind.INERTIAL


class MotorStatus(Message, frozen=True):
    """Telemetry of the motor controller."""

    t_ns: Int64
    t_rx_ns: Int64
    motor_speed_radps: float = NAN
    motor_current_a: float = NAN
    input_current_a: float = NAN
    input_voltage_v: float = NAN
    duty: float = NAN
    controller_temperature_k: float = NAN
    motor_temperature_k: float = NAN
    fault_code: UInt8 = 0
    """0: no fault; the driver's NOTES.md lists the others."""


class ActuatorStatus(Message, frozen=True):
    """Telemetry of one of several actuator devices, for the log; MotorStatus is that of all of
    them."""

    t_ns: Int64
    t_rx_ns: Int64
    device: str
    """Port of the device in the profile."""
    motor_speed_radps: float = NAN
    motor_current_a: float = NAN
    input_current_a: float = NAN
    input_voltage_v: float = NAN
    duty: float = NAN
    controller_temperature_k: float = NAN
    motor_temperature_k: float = NAN
    fault_code: UInt8 = 0
    """0: no fault; as in MotorStatus."""


class WheelSpeed(Message, frozen=True):
    """Speed of the rear axle measured by the wheels, positive forward."""

    t_ns: Int64
    t_rx_ns: Int64
    speed_mps: float
    sigma_mps: float


class SteeringFeedback(Message, frozen=True):
    """Measured angle of the virtual front wheel of the single-track model, positive left."""

    t_ns: Int64
    t_rx_ns: Int64
    wheel_angle_rad: float
    sigma_rad: float


class Corrections(Message, frozen=True):
    """RTCM bytes for the GNSS receiver, unparsed."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str
    data: bytes


class ReferenceState(Message, frozen=True):
    """State of a reference system, such as an INS with RTK, at its output point. It is logged and
    becomes GroundTruth; no task receives it. Standard deviations are NaN where unknown."""

    t_ns: Int64
    t_rx_ns: Int64
    latitude_rad: float
    longitude_rad: float
    height_m: float
    """Height above the ellipsoid."""
    velocity_enu_mps: Vector3
    roll_rad: float
    """Roll of the body, right side down positive."""
    pitch_rad: float
    """Pitch of the body, nose down positive."""
    yaw_rad: float
    """Yaw of the body, counter-clockwise from east."""
    yaw_rate_radps: float = NAN
    position_sigma_m: Vector3 = NAN3
    """Standard deviations east, north, up."""
    velocity_sigma_mps: Vector3 = NAN3
    """Standard deviations east, north, up."""
    yaw_sigma_rad: float = NAN
    carrier: CarrierSolution = CarrierSolution.NONE
    """State of the RTK solution that the positions rest on."""


class GroundTruth(Message, frozen=True):
    """True state of the vehicle, by a simulator or by a reference system. It is logged and used for
    scoring; no task receives it.

    The standard deviations are those that the reference system claims; 0 for a simulator.
    """

    t_ns: Int64
    t_rx_ns: Int64
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    wheel_angle_rad: float
    """NaN where only a simulator could know it."""
    battery_v: float = NAN
    position_sigma_m: float = 0.0
    """Standard deviation of the position per axis, in the worse one."""
    yaw_sigma_rad: float = 0.0
    speed_sigma_mps: float = 0.0


class ObstacleContact(Message, frozen=True):
    """Contact of the simulated vehicle with its scene: the first impact, and each harder one until
    they part. It is logged and used for scoring; no task receives it.
    """

    t_ns: Int64
    t_rx_ns: Int64
    x_m: float
    """Touching point in ``map``."""
    y_m: float
    bearing_rad: float
    """Bearing of the touching point from the rear axle, from forward."""
    speed_mps: float
    """Approach speed along the normal of the touching surface."""
    impulse_ns: float
    """Impulse on the vehicle, N s."""
    what: str
    """Name of the part of the scene."""


def contact_text(contact: ObstacleContact) -> str:
    """Return what was touched, where and how hard."""
    place = f"({contact.x_m:.2f}, {contact.y_m:.2f}) m"
    return (
        f"{contact.what or 'the scene'} at {place}, {contact.speed_mps:.2f} m/s, "
        f"{contact.impulse_ns:.3g} N s"
    )


class Gear(IntEnum):
    """Position of the gear selector."""

    UNKNOWN = 0
    PARK = 1
    REVERSE = 2
    NEUTRAL = 3
    DRIVE = 4


class GearReport(Message, frozen=True):
    """Gear of the simulated vehicle, from a twin with a selector. It is logged; no task receives
    it."""

    t_ns: Int64
    t_rx_ns: Int64
    gear: Gear


class ObstacleRange(Message, frozen=True):
    """Distance to the nearest obstacle in the lane ahead, along the lane, from the front of the
    vehicle."""

    t_ns: Int64
    t_rx_ns: Int64
    distance_m: float
    """Infinite if the lane is free within the sensor's range."""


class LaserScan(Message, frozen=True):
    """One sweep of a planar scanner. Bearings are in the body frame, counter-clockwise from
    forward.

    Ranges follow REP-117: +inf for no return, -inf for an object nearer than the minimum range, NaN
    for an invalid ray.
    """

    t_ns: Int64
    """Time of the first ray; ray i is ``i * time_increment_s`` later."""
    t_rx_ns: Int64
    angle_min_rad: float
    """Bearing of the first ray."""
    angle_increment_rad: float
    """Bearing step between rays; negative for a scanner that turns clockwise."""
    time_increment_s: float
    scan_time_s: float
    """Period of the sweeps."""
    range_min_m: float
    range_max_m: float
    x_m: float
    """Scanner position, forward of the rear axle."""
    y_m: float
    """Scanner position, left of the rear axle."""
    ranges_m: Float64s


class HeightMap(Message, frozen=True):
    """Heights of the ground around the vehicle during one turn of a 3-D scanner, over the plane
    that the wheels stand on, in the body frame."""

    t_ns: Int64
    """Time at which the scanner looked along ``bearing_rad``."""
    t_rx_ns: Int64
    x_m: float
    """Corner of the first cell, forward of the rear axle; ``y_m`` left of it."""
    y_m: float
    cell_m: float
    """Edge of a cell."""
    columns: Int64
    """Cells of a row, which run to the left; rows follow each other forward."""
    bearing_rad: float
    bearing_rate_radps: float
    """Speed of the bearing, counter-clockwise positive: gives the time at which a cell was seen."""
    scanner_x_m: float
    """Scanner position, forward of the rear axle; ``scanner_y_m`` left of it."""
    scanner_y_m: float
    heights_m: Float64s
    """Mean height of the ground in each cell; NaN where none was seen."""


class VirtualWorld(Message, frozen=True):
    """Begin of mixed reality: bodies of a virtual world are added to the drive of a vehicle. They
    reach the obstacle stop alone."""

    t_ns: Int64
    t_rx_ns: Int64
    name: str
    """Scene and virtual vehicles."""
    stops_if_lost: bool = False
    """True if the silence of the virtual world counts as an obstacle."""


class VirtualScan(LaserScan, frozen=True):
    """Scan of a virtual world, cast from the estimated pose. Only the obstacle stop receives it."""

    overlaps: bool = False
    """True if the vehicle's outline overlaps a virtual body."""
    vehicle_x_m: float = NAN
    """Estimated pose of the vehicle from which it was cast."""
    vehicle_y_m: float = NAN
    vehicle_yaw_rad: float = NAN
    progress_m: float = NAN
    """Arc length of the vehicle on its course, by which bodies depart; NaN while it is on none."""


def virtual_returns(scan: VirtualScan) -> list[tuple[float, float]]:
    """Return the places in ``map`` at which the rays of a virtual scan met a body, m."""
    x, y, yaw = scan.vehicle_x_m, scan.vehicle_y_m, scan.vehicle_yaw_rad
    if not isfinite(x + y + yaw):
        return []
    x += cos(yaw) * scan.x_m - sin(yaw) * scan.y_m
    y += sin(yaw) * scan.x_m + cos(yaw) * scan.y_m
    first = yaw + scan.angle_min_rad
    return [
        (x + range_m * cos(bearing), y + range_m * sin(bearing))
        for ray, range_m in enumerate(scan.ranges_m)
        if isfinite(range_m) and isfinite(bearing := first + ray * scan.angle_increment_rad)
    ]


class RcChannels(Message, frozen=True):
    """One frame of an RC receiver: the channels of the operator's handset, and the state of the
    radio link."""

    t_ns: Int64
    t_rx_ns: Int64
    channels: Float64s
    """Values of channels 1, 2, ... in the receiver's own units; NaN for one that was not
    received."""
    failsafe: bool = False
    """True if the receiver says that it has lost the handset; the channels are then its own."""
    frame_lost: bool = False
    """True if the receiver says that this frame repeats an older one."""
    link_quality: float = NAN
    """Fraction of the handset's packets that arrive, 0 to 1."""
    rssi_dbm: float = NAN
    """Signal strength at the better antenna, dBm."""
    snr_db: float = NAN
    """Signal-to-noise ratio, dB."""


class MapMatch(IntEnum):
    """Outcome of matching a scan with a map; motion capture gives ``MATCHED`` poses alone."""

    SEARCHING = 0
    """The whole map is being searched."""
    MATCHED = 1
    """The scan fits at the pose."""
    UNFIT = 2
    """The scan fits too little where the vehicle should be, or nowhere."""
    AMBIGUOUS = 3
    """The scan fits at several places alike."""
    BLIND = 4
    """The scan has too few returns."""


class MapPose(Message, frozen=True):
    """Pose of the rear axle on a map, by a scan or by motion capture; NaN unless ``MATCHED``."""

    t_ns: Int64
    t_rx_ns: Int64
    x_m: float
    y_m: float
    yaw_rad: float
    covariance: Matrix3 = NAN9
    """Covariance of x, y and yaw, row-major: large along a corridor without marks."""
    fit: float = NAN
    """Fraction of the returns that lie on the map's surfaces; 1 of motion capture."""
    outcome: MapMatch = MapMatch.SEARCHING


class TimePulse(Message, frozen=True):
    """Pulse at a second of UTC from the PPS pin of a GNSS receiver, stamped by the kernel."""

    t_ns: Int64
    t_rx_ns: Int64
    utc_ns: Int64 = 0
    """UTC of the pulse, a whole second; 0 while no receiver names it."""
    clock_offset_s: float = NAN
    """Clock of the computer less UTC, s."""
    jitter_s: float = NAN
    """Standard deviation of one stamp, by the intervals of the last pulses, s."""

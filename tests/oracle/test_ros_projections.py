"""Every projection, read back by rosbags: values, units, frames and stamps as ROS defines them."""

from collections.abc import Callable
from math import atan2, cos, degrees, inf, isnan, nan, pi, radians
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from vehicled.core import messages
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    CarrierSolution,
    Cause,
    ControlCommand,
    EstimatorStatus,
    Fault,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    LaserScan,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    Path,
    Reaction,
    StateEstimate,
    TaskTick,
    WheelSpeed,
)  # fmt: skip
from vehicled.ros.cdr import CdrError
from vehicled.ros.projections import PROJECTIONS, MessageProjection, clock, static_transforms
from vehicled.ros.standard import standard_definition

OFFSET_NS = 1_700_000_000_123_456_789
T_NS = 5_000_000_001

FIX = GnssFix(T_NS, T_NS + 1, radians(43.0725), radians(-89.4125), 259.5, fix_type=FixType.FIX_3D)
IMU = ImuSample(T_NS, T_NS + 1, (0.5, -0.25, 9.81), (0.01, 0.02, -0.03))
ESTIMATE = StateEstimate(
    T_NS, T_NS - 7, 12.0, -3.5, 2.0, 4.25, 0.125,
    tuple(float(10 * row + column) for row in range(1, 5) for column in range(1, 5)),
    EstimatorStatus.RUNNING,
)  # fmt: skip
SCAN = LaserScan(
    T_NS, T_NS + 9, -0.5, 0.25, 0.0078125, 0.125, 0.0625, 30.0, 0.5, 0.0, (1.5, inf, -inf, nan)
)
COURSE = Path(
    T_NS,
    "oval",
    True,
    (0.0, 1.0, 2.0),
    (5.0, 6.0, 7.0),
    (0.0, pi / 2, -3.0),
    (0.0,) * 3,
    (1.0,) * 3,
)
CONTROL = ControlCommand(T_NS, T_NS - 7, 0.25, 0.5, 0.0, target_speed_mps=3.5)
ACTUATOR = ActuatorCommand(T_NS, T_NS - 7, 0.5, 0.0, 0.75, 0.25)
TICK = TaskTick(
    T_NS - 9_000_000, T_NS - 8_000_000, T_NS, 7_500_000, 5_000_000, 2, 3, True, Cause.QUEUED, 1
)
FAULT = Fault(T_NS, "gnss_silent", "gnss", Reaction.CONTROLLED_STOP, True, "no fix for 0.5 s")
MOTOR = MotorStatus(T_NS, T_NS + 3, input_current_a=12.5, input_voltage_v=7.25)
CHANGE = ModeChange(
    T_NS, Mode.AUTO, Mode.STOPPING, Reaction.BRAKE, "imu_silent", "", "imu_silent", "no IMU sample"
)
TURNED = Heading(T_NS, T_NS + 2, 2.5, 0.125, HeadingKind.MOVING_BASE)
ROLLED = WheelSpeed(T_NS, T_NS + 2, -1.25, 0.05)
SAMPLES: tuple[Message, ...] = (
    FIX, IMU, SCAN, ESTIMATE, COURSE, CONTROL, ACTUATOR, MOTOR, TICK, FAULT, CHANGE, TURNED, ROLLED,
)  # fmt: skip

Show = Callable[[str, Message], Any]


def _row(topic: str, source: type[Message]) -> MessageProjection:
    (row,) = (row for row in PROJECTIONS if row.topic == topic and row.source is source)
    return row


@pytest.fixture(scope="module")
def show() -> Show:
    """Project a message to a topic and read the record as ROS would; None where there is none."""
    store = get_typestore(Stores.ROS2_HUMBLE)
    for row in PROJECTIONS:
        # Registering refuses a text that differs from what the store knows of the type.
        store.register(get_types_from_msg(row.schema_text, row.schema_name))

    def show(topic: str, message: Message) -> Any:
        row = _row(topic, type(message))
        record = row.project(message, OFFSET_NS)
        return None if record is None else store.deserialize_cdr(record, row.schema_name)

    return show


def _xyz(vector: Any) -> tuple[float, ...]:
    return vector.x, vector.y, vector.z


def _yaw(quaternion: Any) -> float:
    assert (quaternion.x, quaternion.y) == (0.0, 0.0)
    assert quaternion.z**2 + quaternion.w**2 == pytest.approx(1.0)
    return 2.0 * atan2(quaternion.z, quaternion.w)


def _same_angle(found: float, expected: float) -> bool:
    return cos(found - expected) == pytest.approx(1.0, abs=1e-12)


def test_the_table_covers_what_ros_tools_show() -> None:
    assert {(row.topic, row.schema_name) for row in PROJECTIONS} == {
        ("/gnss/fix", "sensor_msgs/msg/NavSatFix"),
        ("/imu/data", "sensor_msgs/msg/Imu"),
        ("/scan", "sensor_msgs/msg/LaserScan"),
        ("/odometry", "nav_msgs/msg/Odometry"),
        ("/tf", "tf2_msgs/msg/TFMessage"),
        ("/course", "nav_msgs/msg/Path"),
        ("/drive", "ackermann_msgs/msg/AckermannDriveStamped"),
        ("/drive_applied", "ackermann_msgs/msg/AckermannDriveStamped"),
        ("/battery", "sensor_msgs/msg/BatteryState"),
        ("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray"),
        ("/heading", "sensor_msgs/msg/Imu"),
        ("/wheel_speed", "geometry_msgs/msg/TwistStamped"),
    }
    assert {row.source for row in PROJECTIONS} == set(map(type, SAMPLES)) <= set(messages.ALL)
    assert all(row.max_rate_hz > 0.0 for row in PROJECTIONS)
    assert {row.topic: row.max_rate_hz for row in PROJECTIONS
        if row.source in (StateEstimate, ImuSample)} == {
        "/odometry": 50.0, "/tf": 50.0, "/imu/data": inf,
    }  # fmt: skip


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_stamps_are_wall_time(message: Message, show: Show) -> None:
    for row in PROJECTIONS:
        if row.source is type(message):
            shown = show(row.topic, message)
            header = shown.transforms[0].header if row.topic == "/tf" else shown.header
            assert (header.stamp.sec, header.stamp.nanosec) == (1_700_000_005, 123_456_790)


def test_a_battery_discharges_with_a_negative_current_and_says_nothing_unknown(show: Show) -> None:
    battery = show("/battery", MOTOR)
    assert (battery.voltage, battery.current, battery.present) == (7.25, -12.5, True)
    assert isnan(battery.percentage)
    assert isnan(battery.temperature)
    assert show("/battery", msgspec.structs.replace(MOTOR, input_voltage_v=nan)) is None


def test_the_sensors_stand_in_base_link_and_the_clock_is_the_time() -> None:
    store = get_typestore(Stores.ROS2_HUMBLE)
    for name in ("tf2_msgs/TFMessage", "rosgraph_msgs/Clock"):
        defined = standard_definition(name)
        store.register(get_types_from_msg(defined.text, defined.name))
    static = static_transforms({"gnss_link": (0.25, 0.0, 0.3), "imu_link": (0.0, -0.5, 0.1)}, T_NS)
    shown: Any = store.deserialize_cdr(static, "tf2_msgs/msg/TFMessage")
    gnss, imu = shown.transforms
    assert (gnss.header.frame_id, gnss.child_frame_id, _xyz(gnss.transform.translation)) == (
        "base_link",
        "gnss_link",
        (0.25, 0.0, 0.3),
    )
    assert (imu.child_frame_id, _xyz(imu.transform.translation)) == ("imu_link", (0.0, -0.5, 0.1))
    assert (_yaw(imu.transform.rotation), imu.header.stamp.sec, imu.header.stamp.nanosec) == (
        0.0,
        5,
        1,
    )
    shown = store.deserialize_cdr(clock(T_NS), "rosgraph_msgs/msg/Clock")
    assert (shown.clock.sec, shown.clock.nanosec) == (5, 1)


def test_a_fix_is_in_degrees_and_ellipsoidal_height(show: Show) -> None:
    fix = show("/gnss/fix", FIX)
    assert fix.header.frame_id == "gnss_link"
    assert (fix.latitude, fix.longitude, fix.altitude) == (
        pytest.approx(43.0725),
        pytest.approx(-89.4125),
        259.5,
    )


@pytest.mark.parametrize(
    ("fix_type", "differential", "carrier", "status"),
    [
        (FixType.NONE, True, CarrierSolution.FIXED, "STATUS_NO_FIX"),
        (FixType.TIME, False, CarrierSolution.NONE, "STATUS_NO_FIX"),
        (FixType.DEAD_RECKONING, False, CarrierSolution.NONE, "STATUS_NO_FIX"),
        (FixType.FIX_2D, False, CarrierSolution.NONE, "STATUS_FIX"),
        (FixType.FIX_3D, False, CarrierSolution.NONE, "STATUS_FIX"),
        (FixType.FIX_3D, True, CarrierSolution.NONE, "STATUS_SBAS_FIX"),
        (FixType.FIX_3D, True, CarrierSolution.FLOAT, "STATUS_GBAS_FIX"),
        (FixType.FIX_3D, True, CarrierSolution.FIXED, "STATUS_GBAS_FIX"),
    ],
)
def test_the_status_of_a_fix(
    fix_type: FixType, differential: bool, carrier: CarrierSolution, status: str, show: Show
) -> None:
    fix = msgspec.structs.replace(
        FIX, fix_type=fix_type, differential=differential, carrier=carrier
    )
    shown = show("/gnss/fix", fix).status
    assert shown.status == getattr(shown, status)
    assert shown.service == 0


FULL = (4.0, 0.5, 0.1, 0.5, 5.0, 0.2, 0.1, 0.2, 9.0)
DIAGONAL = (4.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 9.0)


@pytest.mark.parametrize(
    ("given_m2", "shown_m2", "kind"),
    [
        (FULL, FULL, "COVARIANCE_TYPE_KNOWN"),
        (DIAGONAL, DIAGONAL, "COVARIANCE_TYPE_DIAGONAL_KNOWN"),
        (
            tuple(nan if value == 0.0 else value for value in DIAGONAL),
            DIAGONAL,
            "COVARIANCE_TYPE_DIAGONAL_KNOWN",
        ),
        ((4.0, 0.5, nan, 0.5, 5.0, nan, nan, nan, 9.0), DIAGONAL, "COVARIANCE_TYPE_DIAGONAL_KNOWN"),
        (NAN9, (0.0,) * 9, "COVARIANCE_TYPE_UNKNOWN"),
        ((*DIAGONAL[:8], nan), (0.0,) * 9, "COVARIANCE_TYPE_UNKNOWN"),
        ((inf, *DIAGONAL[1:]), (0.0,) * 9, "COVARIANCE_TYPE_UNKNOWN"),
    ],
)
def test_the_covariance_of_a_fix(
    given_m2: tuple[float, ...], shown_m2: tuple[float, ...], kind: str, show: Show
) -> None:
    shown = show("/gnss/fix", msgspec.structs.replace(FIX, position_covariance_m2=given_m2))
    assert tuple(shown.position_covariance.tolist()) == shown_m2
    assert shown.position_covariance_type == getattr(shown, kind)


def test_an_imu_sample_has_no_orientation(show: Show) -> None:
    imu = show("/imu/data", IMU)
    assert imu.header.frame_id == "imu_link"
    assert _xyz(imu.linear_acceleration) == (0.5, -0.25, 9.81)
    assert _xyz(imu.angular_velocity) == (0.01, 0.02, -0.03)
    assert imu.orientation_covariance.tolist() == [-1.0, *[0.0] * 8]
    assert (*_xyz(imu.orientation), imu.orientation.w) == (0.0, 0.0, 0.0, 1.0)
    assert not imu.angular_velocity_covariance.any()
    assert not imu.linear_acceleration_covariance.any()


def test_a_heading_is_an_orientation_without_rates(show: Show) -> None:
    imu = show("/heading", TURNED)
    assert imu.header.frame_id == "gnss_link"
    assert _same_angle(_yaw(imu.orientation), 2.5)
    assert imu.orientation_covariance[8] == 0.125**2
    assert imu.orientation_covariance[0] > 100.0
    assert imu.angular_velocity_covariance[0] == imu.linear_acceleration_covariance[0] == -1.0
    unknown = show(
        "/heading", msgspec.structs.replace(TURNED, sigma_rad=nan, kind=HeadingKind.INERTIAL)
    )
    assert unknown.header.frame_id == "imu_link"
    assert unknown.orientation_covariance[8] == 0.0


def test_a_wheel_speed_is_a_twist_of_the_body(show: Show) -> None:
    twist = show("/wheel_speed", ROLLED)
    assert twist.header.frame_id == "base_link"
    assert _xyz(twist.twist.linear) == (-1.25, 0.0, 0.0)


def test_a_scan_keeps_its_bearings_times_and_ranges(show: Show) -> None:
    scan = show("/scan", SCAN)
    assert scan.header.frame_id == "laser_link"
    assert (scan.angle_min, scan.angle_max, scan.angle_increment) == (-0.5, 0.25, 0.25)
    assert (scan.time_increment, scan.scan_time, scan.range_min, scan.range_max) == (
        0.0078125,
        0.125,
        0.0625,
        30.0,
    )
    assert np.array_equal(scan.ranges, np.array(SCAN.ranges_m, dtype=np.float32), equal_nan=True)
    assert len(scan.intensities) == 0


def test_odometry_places_the_covariance_by_axis(show: Show) -> None:
    odometry = show("/odometry", ESTIMATE)
    assert (odometry.header.frame_id, odometry.child_frame_id) == ("map", "base_link")
    assert _xyz(odometry.pose.pose.position) == (12.0, -3.5, 0.0)
    assert _yaw(odometry.pose.pose.orientation) == pytest.approx(2.0)
    assert _xyz(odometry.twist.twist.linear) == (4.25, 0.0, 0.0)
    assert _xyz(odometry.twist.twist.angular) == (0.0, 0.0, 0.125)

    ours = np.reshape(ESTIMATE.covariance, (4, 4))
    x_y_yaw = [0, 1, 5]
    pose = odometry.pose.covariance.reshape(6, 6)
    assert np.array_equal(pose[np.ix_(x_y_yaw, x_y_yaw)], ours[:3, :3])
    assert np.count_nonzero(pose) == 9
    twist = odometry.twist.covariance.reshape(6, 6)
    assert twist[0, 0] == ours[3, 3]
    assert np.count_nonzero(twist) == 1


def test_the_transform_is_the_pose(show: Show) -> None:
    (transform,) = show("/tf", ESTIMATE).transforms
    assert (transform.header.frame_id, transform.child_frame_id) == ("map", "base_link")
    assert _xyz(transform.transform.translation) == (12.0, -3.5, 0.0)
    assert _yaw(transform.transform.rotation) == pytest.approx(2.0)


@pytest.mark.parametrize("topic", ["/odometry", "/tf"])
@pytest.mark.parametrize(
    "change",
    [{"status": EstimatorStatus.UNINITIALISED}, {"x_m": nan}, {"y_m": inf}, {"yaw_rad": nan}],
    ids=str,
)
def test_no_pose_is_shown_before_there_is_one(
    topic: str, change: dict[str, Any], show: Show
) -> None:
    assert show(topic, msgspec.structs.replace(ESTIMATE, **change)) is None


@pytest.mark.parametrize("topic", ["/odometry", "/tf"])
@pytest.mark.parametrize("status", [EstimatorStatus.ALIGNING, EstimatorStatus.DIVERGED])
def test_a_doubtful_pose_is_shown(topic: str, status: EstimatorStatus, show: Show) -> None:
    assert show(topic, msgspec.structs.replace(ESTIMATE, status=status)) is not None


def test_the_course_is_a_path_of_poses(show: Show) -> None:
    path = show("/course", COURSE)
    assert path.header.frame_id == "map"
    assert [_xyz(pose.pose.position) for pose in path.poses] == [
        (0.0, 5.0, 0.0),
        (1.0, 6.0, 0.0),
        (2.0, 7.0, 0.0),
    ]
    assert all(
        _same_angle(_yaw(p.pose.orientation), yaw)
        for p, yaw in zip(path.poses, COURSE.yaw_rad, strict=True)
    )
    assert all(pose.header == path.header for pose in path.poses)


def test_an_empty_course_is_an_empty_path_and_a_torn_one_none(show: Show) -> None:
    assert show("/course", Path(T_NS, "", False, (), (), (), (), ())).poses == []
    assert show("/course", msgspec.structs.replace(COURSE, yaw_rad=(0.0,))) is None


def test_drive_shows_what_was_wanted_and_what_was_applied(show: Show) -> None:
    wanted = show("/drive", CONTROL)
    assert (wanted.drive.steering_angle, wanted.drive.speed) == (0.25, 3.5)
    applied = show("/drive_applied", ACTUATOR)
    assert applied.drive.steering_angle == 0.25
    assert isnan(applied.drive.speed)
    for shown in (wanted, applied):
        assert shown.header.frame_id == "base_link"
        assert (
            shown.drive.steering_angle_velocity,
            shown.drive.acceleration,
            shown.drive.jerk,
        ) == (0.0, 0.0, 0.0)


def _status(show: Show, message: Message) -> tuple[Any, dict[str, str]]:
    (status,) = show("/diagnostics", message).status
    return status, {pair.key: pair.value for pair in status.values}


def test_a_missed_deadline_is_a_warning(show: Show) -> None:
    status, values = _status(show, TICK)
    assert status.level == status.WARN
    assert status.name == "vehicled: task 3"
    assert status.message == "missed its deadline: response 9.000 ms, allowed 5.000 ms, QUEUED"
    assert values == {
        "cause": "QUEUED", "lateness_ns": "1000000", "execution_ns": "8000000",
        "response_ns": "9000000", "deadline_ns": "5000000", "cpu_ns": "7500000", "skipped": "2",
        "holder": "1",
    }  # fmt: skip


def test_a_kept_deadline_shows_nothing_and_a_holder_only_where_there_is_one(show: Show) -> None:
    assert show("/diagnostics", msgspec.structs.replace(TICK, missed=False)) is None
    assert "holder" not in _status(show, msgspec.structs.replace(TICK, cause=Cause.COMPUTE))[1]


@pytest.mark.parametrize(
    ("reaction", "active", "level"),
    [
        (Reaction.NONE, True, "WARN"),
        (Reaction.WARN, True, "WARN"),
        (Reaction.CAP_SPEED, True, "WARN"),
        (Reaction.CONTROLLED_STOP, True, "ERROR"),
        (Reaction.BRAKE, True, "ERROR"),
        (Reaction.DISABLE, True, "ERROR"),
        (Reaction.DISABLE, False, "OK"),
    ],
)
def test_a_fault_is_as_grave_as_its_reaction(
    reaction: Reaction, active: bool, level: str, show: Show
) -> None:
    status, values = _status(show, msgspec.structs.replace(FAULT, reaction=reaction, active=active))
    assert status.level == getattr(status, level)
    assert (status.name, status.message, status.hardware_id) == (
        "vehicled: gnss_silent",
        "no fix for 0.5 s",
        "gnss",
    )
    assert values == {"reaction": reaction.name, "active": str(active).lower()}


@pytest.mark.parametrize(
    ("after", "reaction", "level"),
    [
        (Mode.STOPPING, Reaction.NONE, "OK"),
        (Mode.STOPPING, Reaction.BRAKE, "WARN"),
        (Mode.FAULT, Reaction.DISABLE, "ERROR"),
        (Mode.STANDBY, Reaction.BRAKE, "OK"),
    ],
)
def test_a_change_of_mode_is_grave_if_nobody_asked_for_it(
    after: Mode, reaction: Reaction, level: str, show: Show
) -> None:
    status, values = _status(show, msgspec.structs.replace(CHANGE, after=after, reaction=reaction))
    assert status.level == getattr(status, level)
    assert status.message == f"AUTO -> {after.name}: no IMU sample"
    assert (values["before"], values["after"], values["code"]) == ("AUTO", after.name, "imu_silent")


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("/imu/data", msgspec.structs.replace(IMU, t_ns=2**62)),
        ("/drive", msgspec.structs.replace(CONTROL, target_speed_mps=1e39)),
        ("/course", msgspec.structs.replace(COURSE, yaw_rad=(0.0, inf, 0.0))),
        ("/diagnostics", msgspec.structs.replace(FAULT, t_ns=2**62)),
    ],
)
def test_what_the_standard_type_cannot_hold_is_an_error_to_count(
    topic: str, message: Message, show: Show
) -> None:
    with pytest.raises(CdrError):
        show(topic, message)


@given(
    latitude_rad=st.floats(-pi / 2, pi / 2), longitude_rad=st.floats(-pi, pi), height_m=st.floats(),
    x_m=st.floats(-1e6, 1e6), y_m=st.floats(-1e6, 1e6), yaw_rad=st.floats(-100.0, 100.0),
)  # fmt: skip
def test_positions_and_headings_survive(
    latitude_rad: float,
    longitude_rad: float,
    height_m: float,
    x_m: float,
    y_m: float,
    yaw_rad: float,
    show: Show,
) -> None:
    fix = show("/gnss/fix", GnssFix(T_NS, T_NS, latitude_rad, longitude_rad, height_m))
    assert (fix.latitude, fix.longitude, repr(fix.altitude)) == (
        degrees(latitude_rad),
        degrees(longitude_rad),
        repr(height_m),
    )
    pose = show(
        "/odometry", msgspec.structs.replace(ESTIMATE, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad)
    ).pose.pose
    assert _xyz(pose.position) == (x_m, y_m, 0.0)
    assert _same_angle(_yaw(pose.orientation), yaw_rad)

"""Autoware's commands as requests, and the state that it sees."""

from math import cos, inf, nan, sin
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autoware_definitions import autoware_store
from tests.unit.test_ros2_requests import CONFIG, NOW_NS, course_of, fields
from tests.unit.view_facts import estimate
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Message,
    Mode,
    ModeChange,
    Reaction,
    SteeringFeedback,
)
from vehicled.live.bridges.ros2.autoware import (
    CONTROL_TOPIC,
    EMERGENCY_TOPIC,
    GEAR_TOPIC,
    LATCHED_COMMANDS,
    LATCHED_REPORTS,
    AutowareVehicle,
    Follow,
)
from vehicled.live.bridges.ros2.requests import RefusedError, request_of
from vehicled.live.control_socket.protocol import Request
from vehicled.ros.autoware import AutowareGear, direction_of

STORE = autoware_store()
OFFSET_NS = 1_700_000_000 * 10**9
CONTROL = "autoware_control_msgs/Control"
GEAR = "autoware_vehicle_msgs/GearCommand"
EMERGENCY = "tier4_vehicle_msgs/VehicleEmergencyStamped"
TRAJECTORY = "autoware_planning_msgs/Trajectory"


def made(type_name: str, *values: Any) -> Any:
    """Return a message of Autoware's own class."""
    return STORE.types[type_name.replace("/", "/msg/")](*values)


def stamp(age_s: float = 0.0) -> Any:
    ns = NOW_NS - round(age_s * 1e9)
    return made("builtin_interfaces/Time", ns // 10**9, ns % 10**9)


def control(
    velocity: float = 0.0,
    angle: float = 0.0,
    *,
    ages_s: tuple[float, float, float] = (0.0, 0.0, 0.0),
    rate: float = 0.0,
    acceleration: float = 0.0,
    jerk: float = 0.0,
    defined: bool = True,
) -> Any:
    zero = made("builtin_interfaces/Time", 0, 0)
    lateral = made("autoware_control_msgs/Lateral", stamp(ages_s[1]), zero, angle, rate, defined)
    longitudinal = made(
        "autoware_control_msgs/Longitudinal",
        stamp(ages_s[2]), zero, velocity, acceleration, jerk, defined, defined,
    )  # fmt: skip
    return made(CONTROL, stamp(ages_s[0]), zero, lateral, longitudinal)


def trajectory(
    *points: tuple[float, float, float, float],
    age_s: float = 0.0,
    frame: str = "map",
    **fields: float,
) -> Any:
    """Return a trajectory of points (x, y, yaw, speed)."""

    def point(x_m: float, y_m: float, yaw_rad: float, speed_mps: float) -> Any:
        pose = made(
            "geometry_msgs/Pose",
            made("geometry_msgs/Point", x_m, y_m, 0.0),
            made("geometry_msgs/Quaternion", 0.0, 0.0, sin(0.5 * yaw_rad), cos(0.5 * yaw_rad)),
        )
        zero = made("builtin_interfaces/Duration", 0, 0)
        values = {
            "lateral": 0.0, "acceleration": 0.0, "rate": 0.0, "front": 0.0, "rear": 0.0, **fields
        }  # fmt: skip
        return made(
            "autoware_planning_msgs/TrajectoryPoint", zero, pose, speed_mps, *values.values()
        )

    header = made("std_msgs/Header", stamp(age_s), frame)
    return made(TRAJECTORY, header, [point(*each) for each in points])


class Talk:
    """Autoware and the vehicle, without a wire."""

    def __init__(self, follow: Follow = "control", *, auto: bool = False) -> None:
        self.vehicle = AutowareVehicle(follow, auto=auto)
        self.notes: list[str] = []
        self._kinds = self.vehicle.requests(self.notes.append)
        self._rows = self.vehicle.projections()

    def send(self, type_name: str, message: Any) -> Request | None:
        return request_of(self._kinds[type_name], message, CONFIG, NOW_NS)

    def gear(self, gear: int) -> None:
        assert self.send(GEAR, made(GEAR, stamp(), gear)) is None

    def speed(self, message: Any) -> float:
        request = self.send(CONTROL, message)
        assert request is not None
        return float(fields(request)["speed_mps"])

    def see(self, message: Message) -> dict[str, Any]:
        """Return what Autoware reads by topic after a message of the daemon."""
        found = {}
        for row in self._rows:
            if row.source is type(message):
                record = row.project(message, OFFSET_NS)
                if record is not None:
                    found[row.topic] = STORE.deserialize_cdr(record, row.schema_name)
        return found

    def drive(self, speed_mps: float) -> None:
        """Let the estimate say a speed."""
        self.see(msgspec.structs.replace(estimate(0.0), speed_mps=speed_mps))


def actuated(mode: Mode = Mode.STANDBY, wheel_rad: float = 0.0) -> ActuatorCommand:
    return ActuatorCommand(10**9, 0, 0.0, 0.0, 0.0, wheel_rad, mode)


# ------------------------------------------------------------------ control


def test_a_control_command_is_speed_and_wheel_angle_within_the_limits() -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    request = talk.send(CONTROL, control(1.5, 0.9))
    assert request is not None
    assert fields(request) == {"speed_mps": 1.5, "wheel_angle_rad": 0.4}
    assert not talk.notes


def test_a_command_of_autoware_auto_is_read_too() -> None:
    talk = Talk(auto=True)
    talk.drive(0.0)
    package = "autoware_auto_vehicle_msgs/GearCommand"
    talk.send(package, made(package, stamp(), AutowareGear.DRIVE))
    command = made(
        "autoware_auto_control_msgs/AckermannControlCommand",
        stamp(),
        made("autoware_auto_control_msgs/AckermannLateralCommand", stamp(), 0.1, 0.0),
        made("autoware_auto_control_msgs/LongitudinalCommand", stamp(), 1.5, 0.0, 0.0),
    )
    request = talk.send("autoware_auto_control_msgs/AckermannControlCommand", command)
    assert request is not None
    assert fields(request) == {"speed_mps": 1.5, "wheel_angle_rad": 0.1}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (control(nan), "not finite"),
        (control(1.0, inf), "not finite"),
        (control(1.0, rate=nan), "not finite"),
        (control(1.0, acceleration=-inf), "not finite"),
        (control(1.0, jerk=nan), "not finite"),
        (control(1.0, ages_s=(0.6, 0.0, 0.0)), "0.6 s old"),
        (control(1.0, ages_s=(0.0, 0.7, 0.0)), "0.7 s old"),
        (control(1.0, ages_s=(0.0, 0.0, 0.8)), "0.8 s old"),
        (control(1.0, ages_s=(-0.6, 0.0, 0.0)), "in the future"),
    ],
)
def test_a_control_command_that_is_not_valid_is_refused(message: Any, why: str) -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    with pytest.raises(RefusedError, match=why):
        talk.send(CONTROL, message)


def test_a_value_that_the_controller_did_not_fill_in_is_not_read() -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    assert talk.speed(control(1.0, rate=nan, acceleration=nan, jerk=nan, defined=False)) == 1.0


# ------------------------------------------------------------------ gears


@pytest.mark.parametrize(
    ("gear", "asked", "driven"),
    [
        (AutowareGear.DRIVE, 1.0, 1.0),
        (AutowareGear.DRIVE, -1.0, 0.0),
        (AutowareGear.DRIVE_18, 1.0, 1.0),
        (AutowareGear.LOW_2, 1.0, 1.0),
        (AutowareGear.REVERSE, -1.0, -1.0),
        (AutowareGear.REVERSE_2, -1.0, -1.0),
        (AutowareGear.REVERSE, 1.0, 0.0),
        (AutowareGear.PARK, 1.0, 0.0),
        (AutowareGear.NEUTRAL, -1.0, 0.0),
        (None, 1.0, 0.0),
    ],
)
def test_a_gear_that_does_not_drive_that_way_holds_the_vehicle(
    gear: AutowareGear | None, asked: float, driven: float
) -> None:
    talk = Talk()
    talk.drive(0.0)
    if gear is not None:
        talk.gear(gear)
    assert talk.speed(control(asked)) == driven
    assert bool(talk.notes) is (asked != driven)
    if gear is None:
        assert f"publish {GEAR_TOPIC}" in talk.notes[0]


def test_a_change_of_direction_waits_for_standstill() -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    assert talk.speed(control(2.0)) == 2.0
    talk.drive(2.0)
    talk.gear(AutowareGear.REVERSE)
    assert talk.speed(control(-1.0)) == 0.0
    assert "REVERSE engages at standstill" in talk.notes[-1]
    talk.drive(0.05)
    assert talk.speed(control(-1.0)) == -1.0


def test_before_the_speed_is_known_no_gear_engages() -> None:
    talk = Talk()
    talk.gear(AutowareGear.DRIVE)
    assert talk.speed(control(1.0)) == 0.0
    talk.drive(0.0)
    assert talk.speed(control(1.0)) == 1.0


@pytest.mark.parametrize("gear", [0, 25, 255])
def test_a_value_that_is_no_gear_is_refused_and_changes_nothing(gear: int) -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    with pytest.raises(RefusedError, match="is no gear"):
        talk.gear(gear)
    assert talk.speed(control(1.0)) == 1.0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("gear"), st.integers(1, 24)),
            st.tuples(st.just("speed"), st.floats(-3.0, 3.0)),
            st.tuples(st.just("control"), st.floats(-3.0, 3.0)),
        ),
        max_size=30,
    )
)
def test_no_order_of_gears_and_commands_drives_against_the_gear_that_is_shown(
    order: list[tuple[str, Any]],
) -> None:
    talk, actual = Talk(), nan
    for what, value in order:
        if what == "gear":
            talk.gear(value)
        elif what == "speed":
            actual = value
            talk.drive(actual)
        else:
            driven = talk.speed(control(value))
            assert driven in (0.0, pytest.approx(value, rel=1e-6))
            if driven != 0.0 and not abs(actual) > 0.1:
                shown = talk.see(actuated())["/vehicle/status/gear_status"].report
                assert direction_of(shown) * driven > 0.0


def test_an_emergency_holds_the_vehicle_until_it_ends() -> None:
    talk = Talk()
    talk.drive(0.0)
    talk.gear(AutowareGear.DRIVE)
    talk.send(EMERGENCY, made(EMERGENCY, stamp(), True))
    assert talk.speed(control(1.0)) == 0.0
    assert EMERGENCY_TOPIC in talk.notes[0]
    talk.send(EMERGENCY, made(EMERGENCY, stamp(), False))
    assert talk.speed(control(1.0)) == 1.0


@pytest.mark.parametrize(
    ("name", "highest"), [("TurnIndicatorsCommand", 3), ("HazardLightsCommand", 2)]
)
def test_commands_of_lights_are_checked_and_ignored(name: str, highest: int) -> None:
    type_name = f"autoware_vehicle_msgs/{name}"
    talk = Talk()
    for command in range(1, highest + 1):
        assert talk.send(type_name, made(type_name, stamp(), command)) is None
    for command in (0, highest + 1):
        with pytest.raises(RefusedError, match="no such command"):
            talk.send(type_name, made(type_name, stamp(), command))


def test_a_gear_that_was_sent_long_ago_still_counts() -> None:
    """Nodes may send it once and keep it for those that join later."""
    talk = Talk()
    talk.drive(0.0)
    talk.send(GEAR, made(GEAR, stamp(3600.0), AutowareGear.DRIVE))
    assert talk.speed(control(1.0)) == 1.0


# ------------------------------------------------------------------ trajectory


def test_a_trajectory_is_a_course_to_its_first_stop() -> None:
    talk = Talk("trajectory")
    request = talk.send(
        TRAJECTORY,
        trajectory(
            (0, 0, 0, 0), (2, 0, 0, 1), (4, 0, 0, 2), (6, 0, 0, 0), (8, 0, 0, 0), (10, 0, 0, 2)
        ),
    )
    assert request is not None
    course = course_of(request)
    assert course.x_m[-1] == pytest.approx(6.0)
    assert course.speed_mps[0] == pytest.approx(1.0)
    assert course.speed_mps.max() == pytest.approx(2.0)


def test_a_trajectory_with_negative_speeds_is_driven_backward() -> None:
    request = Talk("trajectory").send(
        TRAJECTORY, trajectory((0, 0, 0, -1), (-2, 0, 0, -1), (-4, 0, 0, 0))
    )
    assert request is not None
    assert course_of(request).speed_mps[0] == -1.0


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (trajectory(), "asks for standstill"),
        (trajectory((0, 0, 0, 0), (2, 0, 0, 0)), "asks for standstill"),
        (trajectory((0, 0, 0, 1)), "at least two"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, nan)), "not finite"),
        (trajectory((0, 0, 0, 1), (nan, 0, 0, 1)), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), lateral=nan), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), acceleration=inf), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), rate=nan), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), front=nan), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), rear=nan), "not finite"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), frame="odom"), "frame is 'odom'"),
        (trajectory((0, 0, 0, 1), (2, 0, 0, 1), age_s=1.2), "1.2 s old"),
        (trajectory((0, 0, 3.14, 1), (2, 0, 3.14, 1)), "looks the other way"),
        (trajectory((0, 0, 0, -1), (2, 0, 0, -1)), "looks the other way"),
    ],
)
def test_a_trajectory_that_cannot_be_driven_is_refused(message: Any, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        Talk("trajectory").send(TRAJECTORY, message)


def test_an_emergency_refuses_trajectories() -> None:
    talk = Talk("trajectory")
    talk.send(EMERGENCY, made(EMERGENCY, stamp(), True))
    with pytest.raises(RefusedError, match="says emergency"):
        talk.send(TRAJECTORY, trajectory((0, 0, 0, 1), (2, 0, 0, 1)))


def test_either_the_controller_drives_or_the_planner() -> None:
    topics = {
        follow: {topic for topic, _ in Talk(follow).vehicle.commands()}
        for follow in ("control", "trajectory")
    }
    assert CONTROL_TOPIC in topics["control"] - topics["trajectory"]
    assert topics["trajectory"] - topics["control"] == {
        "/planning/scenario_planning/trajectory",
        "/planning/trajectory",
    }


# ------------------------------------------------------------------ state


def test_the_state_is_in_autowares_frames_and_signs() -> None:
    talk = Talk()
    seen = talk.see(msgspec.structs.replace(estimate(3.0), speed_mps=-1.5, yaw_rate_radps=0.25))
    velocity = seen["/vehicle/status/velocity_status"]
    assert velocity.header.frame_id == "base_link"
    assert velocity.longitudinal_velocity == -1.5
    assert velocity.lateral_velocity == 0.0
    assert velocity.heading_rate == 0.25
    odometry = seen["/localization/kinematic_state"]
    assert (odometry.header.frame_id, odometry.child_frame_id) == ("map", "base_link")
    assert odometry.pose.pose.position.x == 3.0
    assert odometry.twist.twist.linear.x == -1.5
    assert seen["/localization/initialization_state"].state == 3
    assert seen["/localization/acceleration"].header.frame_id == "base_link"


def test_the_acceleration_follows_the_speed() -> None:
    talk, seen = Talk(), dict[str, Any]()
    for k in range(100):
        at = msgspec.structs.replace(estimate(0.0), t_ns=k * 20_000_000, speed_mps=0.02 * k)
        seen = talk.see(msgspec.structs.replace(at, yaw_rate_radps=0.5))
    found = seen["/localization/acceleration"].accel.accel.linear
    assert found.x == pytest.approx(1.0, rel=1e-3)
    assert found.y == pytest.approx(0.5 * 0.02 * 99)


def test_what_is_not_known_is_not_published() -> None:
    talk = Talk()
    unknown = msgspec.structs.replace(
        estimate(nan), speed_mps=nan, status=EstimatorStatus.UNINITIALISED
    )
    seen = talk.see(unknown)
    assert seen.keys() == {"/localization/initialization_state"}
    assert seen["/localization/initialization_state"].state == 1


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("follow", ["control", "trajectory"])
def test_only_the_mode_in_which_autoware_drives_is_autonomous(
    follow: Follow, mode: Mode, auto: bool
) -> None:
    talk = Talk(follow, auto=auto)
    autonomous = Mode.OFFBOARD if follow == "control" else Mode.AUTO
    wanted = 1 if mode is autonomous else 6 if mode in (Mode.INIT, Mode.FAULT) else 4
    assert talk.see(actuated(mode))["/vehicle/status/control_mode"].mode == wanted
    change = ModeChange(10**9, Mode.INIT, mode, Reaction.NONE, "", "", "", "")
    assert talk.see(change)["/vehicle/status/control_mode"].mode == wanted


def test_the_measured_wheel_angle_takes_the_place_of_the_commanded_one() -> None:
    talk, topic = Talk(), "/vehicle/status/steering_status"
    assert talk.see(actuated(wheel_rad=0.25))[topic].steering_tire_angle == 0.25
    measured = SteeringFeedback(10**9, 10**9, 0.125, 0.01)
    assert talk.see(measured)[topic].steering_tire_angle == 0.125
    assert topic not in talk.see(actuated(wheel_rad=0.25))


def test_the_gear_is_never_none_and_fits_the_motion() -> None:
    talk = Talk()

    def shown() -> int:
        return int(talk.see(actuated())["/vehicle/status/gear_status"].report)

    assert shown() == AutowareGear.PARK
    talk.drive(1.0)
    assert shown() == AutowareGear.DRIVE
    talk.drive(-1.0)
    assert shown() == AutowareGear.REVERSE
    talk.drive(0.0)
    assert shown() == AutowareGear.PARK
    talk.gear(5)
    assert shown() == 5


def test_the_lights_that_the_vehicle_lacks_are_off() -> None:
    seen = Talk().see(actuated())
    assert seen["/vehicle/status/turn_indicators_status"].report == 1
    assert seen["/vehicle/status/hazard_lights_status"].report == 1


def test_latched_topics_are_topics_of_the_interface() -> None:
    talk = Talk()
    assert {row.topic for row in talk.vehicle.projections()} >= LATCHED_REPORTS
    assert {topic for topic, _ in talk.vehicle.commands()} >= LATCHED_COMMANDS

"""MAVLink bridge: conversions, names of parameters, missions, and what the autopilot answers to anything."""

from math import cos, degrees, inf, isfinite, nan, pi, radians, sin
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pymavlink.dialects.v20 import ardupilotmega as mav

from tests.examples import examples
from vehicled.bridges.mavlink.autopilot import MESSAGES, TAKES, Autopilot
from vehicled.bridges.mavlink.config import AddressError, MavlinkConfig, parse_address
from vehicled.bridges.mavlink.mission import Item, MissionError, Upload, Waypoint, check_item, course_through, waypoints
from vehicled.bridges.mavlink.modes import AUTO, GUIDED, HOLD, MANUAL, RTL, base_mode, custom_mode, system_status
from vehicled.bridges.mavlink.parameters import MOST, names_of
from vehicled.bridges.mavlink.units import chunks, degrees_e7, heading_cdeg, heading_rad, integer
from vehicled.messages import (
    ControlCommand,
    EstimatorStatus,
    Fault,
    FixType,
    GnssFix,
    Mode,
    ModeChange,
    MotorStatus,
    Reaction,
    StateEstimate,
)
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import from_bytes

CONFIG = MavlinkConfig(
    address="udp:127.0.0.1:14550", offset_ns=10**18, started_ns=0, turn_radius_m=1.0, usual_speed_mps=1.0, control_socket="socket",
    version="0.1.0", datum=(LOT_17.latitude_rad, LOT_17.longitude_rad, LOT_17.height_m),
)  # fmt: skip
ESTIMATE = StateEstimate(10**9, 10**9, 3.0, 4.0, 0.5, 1.0, 0.1, (0.01,) * 16, EstimatorStatus.RUNNING)
GCS = 255
numbers = st.one_of(st.floats(width=32), st.sampled_from((0.0, -0.0, nan, inf, -inf, 1.0, -1.0, 3e38)))


class Bench:
    """An autopilot with what it sent and asked. ``replies``: answers of the daemon by request, or the reason of a refusal."""

    def __init__(self, **replies: Any) -> None:
        self.sent: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.offered: list[dict[str, Any]] = []
        self.replies = {"parameters": {"parameters": [{"key": "speed.p", "value": 1.5}]}, **replies}
        self.pilot = Autopilot(CONFIG, self.sent.append, self.ask, self.offered.append)
        self.packer = mav.MAVLink(None, srcSystem=1)
        self.pilot.on_record(ESTIMATE)
        self.pilot.on_status({"mode": "STANDBY", "reaction": "NONE", "waiting_for": [], "course": "lot17"})
        self.pilot.tick(100.0)

    def ask(self, request: dict[str, Any], answer: Any) -> None:
        self.asked.append(request)
        reply = self.replies.get(request["do"], {"mode": "STANDBY"})
        answer({} if isinstance(reply, str) else reply, reply if isinstance(reply, str) else "")

    def take(self, message: Any) -> list[Any]:
        """Let a ground station send a message, over the wire's packing; return what came of it."""
        before = len(self.sent)
        data = message.pack(mav.MAVLink(None, srcSystem=GCS, srcComponent=190))
        (received,) = mav.MAVLink(None).parse_buffer(data)
        self.pilot.on_message(received)
        new = self.sent[before:]
        for each in new:
            each.pack(self.packer)
        return new

    def command(self, command: int, *params: float) -> int:
        """Send a command; return its result."""
        values = [*params, *[0.0] * (7 - len(params))]
        answers = self.take(mav.MAVLink_command_long_message(1, 1, command, 0, *values))
        (result,) = [answer.result for answer in answers if answer.get_type() == "COMMAND_ACK"]
        return int(result)


# ------------------------------------------------------------------ conversions


@given(st.floats(-50.0, 50.0))
def test_headings_turn_the_other_way_from_north(yaw_rad: float) -> None:
    heading = heading_rad(yaw_rad)
    assert (sin(heading), cos(heading)) == pytest.approx((cos(yaw_rad), sin(yaw_rad)), abs=1e-9)
    assert 0 <= heading_cdeg(yaw_rad) < 36000
    assert sin(radians(heading_cdeg(yaw_rad) / 100.0)) == pytest.approx(cos(yaw_rad), abs=2e-4)


@given(st.floats(), st.sampled_from((1.0, 100.0, 1e7)))
def test_integers_stay_in_range_whatever_comes(value: float, factor: float) -> None:
    assert -(2**31) < integer(value, factor) < 2**31
    assert 0 <= integer(value, factor, 0, 65534, 65535) <= 65535
    assert degrees_e7(value) == 0 or isfinite(value)
    assert heading_cdeg(value) <= 65535


@given(st.text(max_size=700))
def test_texts_are_cut_into_parts(text: str) -> None:
    parts = chunks(text)
    assert 1 <= len(parts) <= 10
    assert all(len(part) <= 50 for part in parts)
    assert b"".join(parts) == text.encode("ascii", "replace")[:500]


@given(st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,20}(\.[a-z][a-z0-9_]{0,30}){0,2}", fullmatch=True), unique=True, max_size=40))
def test_names_of_parameters_are_short_and_unique(keys: list[str]) -> None:
    names = names_of(keys)
    assert list(names.values()) == keys
    assert all(0 < len(name) <= MOST and name.isascii() and name == name.upper() for name in names)
    assert names_of(keys) == names


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("udp:127.0.0.1:14550", ("udp", "127.0.0.1", 14550)),
        ("udpin:[::]:14550", ("udpin", "::", 14550)),
        ("serial:/dev/ttyUSB0?baud=115200", ("serial", "/dev/ttyUSB0", 115200)),
        ("serial:/dev/ttyUSB0", ("serial", "/dev/ttyUSB0", 57600)),
    ],
)
def test_addresses(text: str, parsed: tuple[str, str, int]) -> None:
    address = parse_address(text)
    assert (address.kind, address.place, address.number) == parsed


@pytest.mark.parametrize(
    "text", ["", "udp", "udp:1", "udp::14550", "udp:a:0", "udp:a:70000", "serial:", "serial:/dev/x?speed=1", "tcp:a:1"]
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(AddressError, match="use udp:HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("mode", "course", "shown", "armed"),
    [
        ("STANDBY", "lot17", HOLD, False), ("ARMED", "lot17", HOLD, True), ("AUTO", "lot17", AUTO, True),
        ("AUTO", "mission", AUTO, True),
        ("AUTO", "goto 1.0 2.0", GUIDED, True), ("AUTO", "return", RTL, True), ("OFFBOARD", "lot17", GUIDED, True),
        ("TELEOP", "lot17", MANUAL, True), ("STOPPING", "lot17", HOLD, True), ("FAULT", "lot17", HOLD, False),
    ],
)  # fmt: skip
def test_modes_are_those_of_a_rover(mode: str, course: str, shown: int, armed: bool) -> None:
    status = {"mode": mode, "course": course, "reaction": "NONE"}
    assert custom_mode(status, HOLD) == shown
    assert bool(base_mode(status) & mav.MAV_MODE_FLAG_SAFETY_ARMED) is armed
    assert (system_status(status) == mav.MAV_STATE_EMERGENCY) is (mode == "FAULT")
    braked = system_status({**status, "reaction": "BRAKE", "why_code": "imu_silent"})
    assert (braked == mav.MAV_STATE_CRITICAL) is (mode == "STOPPING")
    assert system_status({**status, "reaction": "CONTROLLED_STOP", "why_code": "course_finished"}) == system_status(status)


# ------------------------------------------------------------------ telemetry


@given(st.sampled_from(sorted(MESSAGES)), numbers, numbers, numbers, st.integers(-(2**62), 2**62))
def test_every_message_can_be_packed_whatever_the_daemon_knows(name: str, a: float, b: float, c: float, t_ns: int) -> None:
    bench = Bench()
    bench.pilot.on_record(StateEstimate(t_ns, 0, a, b, c, a, b, (c,) * 16))
    bench.pilot.on_record(GnssFix(t_ns, 0, a, b, c, (a, b, c), hdop=a, fix_type=FixType.NONE))
    bench.pilot.on_record(MotorStatus(t_ns, 0, input_voltage_v=a, input_current_a=b))
    bench.pilot.on_record(ControlCommand(t_ns, 0, a, b, c, progress_m=a))
    bench.sent.clear()
    bench.pilot._send_message(name)
    for message in bench.sent:
        message.pack(bench.packer)


def test_a_place_is_sent_in_the_frames_of_a_ground_station() -> None:
    bench = Bench()
    sent = {message.get_type(): message for message in bench.sent}
    where = sent["GLOBAL_POSITION_INT"]
    east_m, north_m, _ = LOT_17.to_enu(radians(where.lat * 1e-7), radians(where.lon * 1e-7), LOT_17.height_m)
    assert (east_m, north_m) == pytest.approx((3.0, 4.0), abs=0.02)
    assert (where.vx, where.vy) == (round(100 * sin(0.5)), round(100 * cos(0.5)))
    assert where.hdg == round(degrees(pi / 2 - 0.5) * 100)
    assert (sent["LOCAL_POSITION_NED"].x, sent["LOCAL_POSITION_NED"].y) == (4.0, 3.0)
    assert sent["ATTITUDE"].yawspeed == -0.1


def test_mode_changes_and_faults_are_told_in_words() -> None:
    bench = Bench()
    bench.sent.clear()
    bench.pilot.on_record(
        ModeChange(2, Mode.AUTO, Mode.STOPPING, Reaction.BRAKE, "imu_silent", "", "imu_silent", "no IMU sample " * 5)
    )
    bench.pilot.on_record(Fault(2, "battery_low", "", Reaction.WARN, True, "low"))
    bench.pilot.on_record(Fault(3, "battery_low", "", Reaction.WARN, False, "low"))
    texts = [(message.severity, message.text, message.id, message.chunk_seq) for message in bench.sent]
    assert [severity for severity, *_ in texts] == [2, 2, 5]
    assert "".join(text for _, text, *_ in texts[:2]).startswith("STOPPING: no IMU sample no IMU")
    assert (texts[0][2], texts[1][2], texts[1][3], texts[2][2]) == (1, 1, 1, 0)


# ------------------------------------------------------------------ commands


@pytest.mark.parametrize(
    ("command", "params", "requests"),
    [
        (mav.MAV_CMD_COMPONENT_ARM_DISARM, (0.0,), [{"do": "request", "action": "disarm"}]),
        (mav.MAV_CMD_DO_FLIGHTTERMINATION, (1.0,), [{"do": "request", "action": "emergency_stop"}]),
        (mav.MAV_CMD_DO_PAUSE_CONTINUE, (0.0,), [{"do": "request", "action": "stop"}]),
        (mav.MAV_CMD_DO_SET_MODE, (1.0, HOLD), [{"do": "request", "action": "stop"}]),
        (mav.MAV_CMD_NAV_RETURN_TO_LAUNCH, (), [{"do": "return"}]),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (1.0, 0.7), [{"do": "speed", "limit_mps": pytest.approx(0.7)}]),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (1.0, -2.0), [{"do": "speed", "limit_mps": None}]),
        (
            mav.MAV_CMD_DO_REPOSITION, (0.5, 0.0, 0.0, nan, 43.0, -89.0),
            [{"do": "goto", "latitude_deg": 43.0, "longitude_deg": -89.0, "yaw_rad": None, "speed_mps": 0.5}],
        ),
    ],
)  # fmt: skip
def test_commands_become_requests(command: int, params: tuple[float, ...], requests: list[dict[str, Any]]) -> None:
    bench = Bench()
    assert bench.command(command, *params) == mav.MAV_RESULT_ACCEPTED
    assert bench.asked == [{**request, "origin": "MAVLink"} for request in requests]


def test_a_refusal_is_answered_with_its_reason() -> None:
    bench = Bench(**{"return": "there is no place to return to"})
    assert bench.command(mav.MAV_CMD_NAV_RETURN_TO_LAUNCH) == mav.MAV_RESULT_DENIED
    assert [message.text for message in bench.sent if message.get_type() == "STATUSTEXT"] == ["there is no place to return to"]
    assert bench.command(mav.MAV_CMD_NAV_TAKEOFF) == mav.MAV_RESULT_UNSUPPORTED
    assert bench.command(mav.MAV_CMD_DO_SET_MODE, 1.0, MANUAL) == mav.MAV_RESULT_DENIED


def test_arming_is_answered_when_it_has_happened_or_waited_too_long() -> None:
    for mode, result in (("ARMED", mav.MAV_RESULT_ACCEPTED), ("STANDBY", mav.MAV_RESULT_TEMPORARILY_REJECTED)):
        bench = Bench()
        assert not bench.take(mav.MAVLink_command_long_message(1, 1, mav.MAV_CMD_COMPONENT_ARM_DISARM, 0, 1, 0, 0, 0, 0, 0, 0))
        bench.pilot.on_status({"mode": mode, "waiting_for": ["the GNSS is silent"]})
        bench.pilot.tick(104.0)
        assert [message.result for message in bench.sent if message.get_type() == "COMMAND_ACK"] == [result]
        told = [message for message in bench.sent if message.get_type() == "STATUSTEXT" and "GNSS is silent" in message.text]
        assert bool(told) is (mode == "STANDBY")


def test_without_permission_nothing_is_asked() -> None:
    bench = Bench()
    bench.pilot._config = MavlinkConfig(
        **{name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__} | {"control_socket": ""}
    )
    assert bench.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1.0) == mav.MAV_RESULT_DENIED
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1))
    bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 2.0, 9))
    bench.take(mav.MAVLink_set_position_target_local_ned_message(0, 1, 1, 8, 0b10111000111, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0))
    assert (bench.asked, bench.offered) == ([], [])


def test_a_velocity_is_a_setpoint() -> None:
    bench = Bench()
    bench.take(mav.MAVLink_set_position_target_local_ned_message(0, 1, 1, 8, 0b010111000111, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0.1))
    (offered,) = bench.offered
    assert (offered["speed_mps"], offered["curvature_per_m"]) == pytest.approx((0.5, -0.2), abs=1e-6)
    bench.take(mav.MAVLink_set_position_target_local_ned_message(0, 1, 1, 8, 0b010111000111, 0, 0, 0, nan, 0, 0, 0, 0, 0, 0, 0.1))
    assert len(bench.offered) == 1


def integers_of(spec: str) -> st.SearchStrategy[int]:
    """Return numbers of an integer type of MAVLink, often those of commands that are known."""
    bits = int("".join(filter(str.isdigit, spec)))
    low, high = (0, 2**bits - 1) if spec.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([n for n in (0, 1, 16, 178, 192, 400, 512) if n <= high]))


@examples(300)
@given(st.sampled_from(sorted(TAKES)), st.data())
def test_any_message_is_survived(name: str, data: st.DataObject) -> None:
    bench = Bench()
    kind = next(kind for kind in mav.mavlink_map.values() if kind.msgname == name)
    types, counts = dict(zip(kind.fieldnames, kind.fieldtypes)), dict(zip(kind.ordered_fieldnames, kind.array_lengths))
    values: list[Any] = []
    for field in kind.fieldnames:
        spec, count = types[field], counts[field]
        if spec in ("float", "double"):
            values.append(data.draw(numbers))
        elif spec == "char":
            values.append(data.draw(st.binary(max_size=count)))
        elif field in ("target_system", "target_component"):
            values.append(1)
        else:
            values.append([data.draw(integers_of(spec)) for _ in range(count)] if count else data.draw(integers_of(spec)))
    message = getattr(mav, f"MAVLink_{name.lower()}_message")(*values)
    bench.take(message)
    bench.pilot.tick(101.0)


# ------------------------------------------------------------------ missions


def item(seq: int, x: float, y: float, command: int = mav.MAV_CMD_NAV_WAYPOINT, p2: float = 0.0) -> Any:
    """Return an item of a mission, at a place in the map frame."""
    latitude, longitude, _ = LOT_17.to_geodetic(x, y, 0.0)
    place = degrees_e7(latitude), degrees_e7(longitude)
    return mav.MAVLink_mission_item_int_message(1, 1, seq, 6, command, 0, 1, 0.0, p2, 0.0, nan, *place, 12.5)


MISSION = [
    item(0, 0.0, 0.0),
    item(1, 20.0, 0.0),
    item(2, 0.0, 0.0, mav.MAV_CMD_DO_CHANGE_SPEED, 0.5),
    item(3, 30.0, 15.0),
    item(4, 10.0, 20.0),
]


def upload(bench: Bench, mission: list[Any]) -> list[Any]:
    """Send a mission as a ground station does; return the answers behind the last item."""
    answers = bench.take(mav.MAVLink_mission_count_message(1, 1, len(mission)))
    for _ in range(3 * len(mission)):
        wanted = [answer for answer in answers if answer.get_type() == "MISSION_REQUEST_INT"]
        if not wanted:
            break
        answers = bench.take(mission[wanted[0].seq])
    return answers


def test_a_mission_goes_up_and_comes_down_again_bit_for_bit() -> None:
    bench = Bench()
    (ack,) = upload(bench, MISSION)
    assert (ack.get_type(), ack.type) == ("MISSION_ACK", mav.MAV_MISSION_ACCEPTED)
    (count,) = bench.take(mav.MAVLink_mission_request_list_message(1, 1))
    assert count.count == len(MISSION)
    for sent in MISSION:
        (back,) = bench.take(mav.MAVLink_mission_request_int_message(1, 1, sent.seq))
        fields = ("seq", "frame", "command", "autocontinue", "param1", "param2", "param3", "x", "y", "z")
        assert [getattr(back, name) for name in fields] == [getattr(sent, name) for name in fields]
    course = from_bytes(bench.asked[-1]["data"])
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((3.0, 4.0), abs=1e-6)
    assert (course.x_m[-1], course.y_m[-1]) == pytest.approx((10.0, 20.0), abs=0.02)
    assert set(course.speed_mps.round(6)) >= {1.0, 0.5}


def test_reached_waypoints_are_reported_in_order() -> None:
    bench = Bench()
    upload(bench, MISSION)
    bench.pilot.on_record(ModeChange(1, Mode.ARMED, Mode.AUTO, Reaction.NONE, "drives_course", "", "drives_course", "driving"))
    bench.sent.clear()
    length_m = from_bytes(bench.asked[-1]["data"]).length_m
    for k in range(200):
        bench.pilot.on_record(ControlCommand(0, 0, 0.0, 0.0, 0.0, progress_m=(length_m - 1.0) * k / 199))
    reached = [message.seq for message in bench.sent if message.get_type() == "MISSION_ITEM_REACHED"]
    assert reached == [1, 3]
    stop = ModeChange(1, Mode.AUTO, Mode.STOPPING, Reaction.NONE, "course_finished", "", "course_finished", "finished")
    bench.pilot.on_record(stop)
    assert [message.seq for message in bench.sent if message.get_type() == "MISSION_ITEM_REACHED"] == [1, 3, 4]


@pytest.mark.parametrize(
    ("mission", "result"),
    [
        ([item(0, 0, 0), item(1, 5, 5, mav.MAV_CMD_NAV_TAKEOFF)], mav.MAV_MISSION_UNSUPPORTED),
        ([item(0, 0, 0), item(1, 5, 5, mav.MAV_CMD_DO_JUMP)], mav.MAV_MISSION_UNSUPPORTED),
        ([item(0, 0, 0)], mav.MAV_MISSION_ERROR),
        ([item(0, 0, 0), item(1, 5, 5, mav.MAV_CMD_NAV_RETURN_TO_LAUNCH)], mav.MAV_MISSION_ERROR),
        ([item(0, 0, 0), item(1, 3.0, 4.0)], mav.MAV_MISSION_ERROR),
    ],
)
def test_a_mission_that_cannot_be_driven_is_refused(mission: list[Any], result: int) -> None:
    bench = Bench()
    answers = upload(bench, mission)
    assert [answer.type for answer in answers if answer.get_type() == "MISSION_ACK"] == [result]
    assert any(answer.get_type() == "STATUSTEXT" for answer in answers)
    assert bench.pilot.mission == []


def test_lost_items_are_asked_for_again_and_then_given_up() -> None:
    bench = Bench()
    bench.take(mav.MAVLink_mission_count_message(1, 1, 3))
    bench.take(MISSION[2])
    for k in range(10):
        bench.pilot.tick(102.0 + 2.0 * k)
    asked = [message.seq for message in bench.sent if message.get_type() == "MISSION_REQUEST_INT"]
    assert asked == [0] * 5
    assert [message.type for message in bench.sent if message.get_type() == "MISSION_ACK"] == [mav.MAV_MISSION_OPERATION_CANCELLED]


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=8), st.floats(-pi, pi))
def test_a_course_begins_at_the_vehicle_and_passes_every_waypoint(places: list[tuple[float, float]], yaw_rad: float) -> None:
    assume(all(abs(a[0] - b[0]) + abs(a[1] - b[1]) > 3.0 for a, b in zip([(0.0, 0.0), *places], places, strict=False)))
    found = [Waypoint(x, y, 1.0, k + 1) for k, (x, y) in enumerate(places)]
    try:
        course, arcs_m = course_through(Pose(0.0, 0.0, yaw_rad), found, turn_radius_m=1.0, datum=LOT_17, name="mission")
    except MissionError:
        # A line that doubles back on itself cannot be driven.
        assume(False)
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert arcs_m == sorted(arcs_m)
    for (x, y), arc_m in zip(places, arcs_m, strict=True):
        at = int(abs(course.s_m - arc_m).argmin())
        assert abs(course.x_m[at] - x) + abs(course.y_m[at] - y) < 1.0


def test_items_in_the_local_frame_are_north_and_east() -> None:
    zeros = (0.0, 0.0, 0.0, 0.0)
    (found,) = waypoints([Item(1, 16, 1, zeros, 0, 0, 0.0), Item(1, 16, 1, zeros, 70_000, 20_000, 0.0)], Datum(0.0, 0.0), None, 1.0)
    assert (found.x_m, found.y_m) == pytest.approx((2.0, 7.0))
    with pytest.raises(MissionError):
        check_item(Item(12, 16, 1, zeros, 0, 0, 0.0), 1)
    with pytest.raises(MissionError):
        check_item(Item(6, 16, 1, zeros, 950_000_000, 0, 0.0), 1)
    assert Upload(3, (255, 190)).items == []


def test_parameters_are_listed_read_and_set() -> None:
    bench = Bench()
    (value,) = bench.take(mav.MAVLink_param_request_list_message(1, 1))
    assert (value.param_id, value.param_value, value.param_count) == ("SPEED_P", 1.5, 1)
    (value,) = bench.take(mav.MAVLink_param_request_read_message(1, 1, b"SPEED_P", -1))
    assert value.param_value == 1.5
    (value,) = bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 2.0, 9))
    assert value.param_value == 2.0
    assert bench.asked[-1] == {"do": "set_parameter", "key": "speed.p", "value": 2.0, "origin": "MAVLink"}
    bench.replies["set_parameter"] = "out of range"
    answers = bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 99.0, 9))
    assert [answer.get_type() for answer in answers] == ["STATUSTEXT", "PARAM_VALUE"]
    assert answers[1].param_value == 2.0

"""MAVLink bridge: conversions, names of parameters, missions, and what the autopilot answers to
anything."""

from base64 import b64decode
from collections.abc import Callable
from math import cos, degrees, inf, isfinite, nan, pi, radians, sin
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pymavlink.dialects.v20 import ardupilotmega as mav

from tests.examples import examples
from vehicled.core.messages import (
    ControlCommand,
    CourseKind,
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
from vehicled.live.bridges.mavlink.autopilot import REFUSED, TAKEN, Autopilot
from vehicled.live.bridges.mavlink.config import MavlinkAddressError, MavlinkConfig, parse_address
from vehicled.live.bridges.mavlink.mission import (
    Item,
    MissionError,
    Waypoint,
    check_item,
    course_through,
    waypoints,
)
from vehicled.live.bridges.mavlink.modes import RoverMode, base_mode, shown_mode, system_status
from vehicled.live.bridges.mavlink.parameters import MOST, names_of
from vehicled.live.bridges.mavlink.places import PlaceError, global_place
from vehicled.live.bridges.mavlink.telemetry import TELEMETRY
from vehicled.live.bridges.mavlink.units import (
    chunks,
    degrees_e7,
    heading_cdeg,
    heading_rad,
    integer,
)
from vehicled.live.bridges.mavlink.view import RunState
from vehicled.live.control_socket.protocol import Request
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import from_bytes

CONFIG = MavlinkConfig(
    address="udp:127.0.0.1:14550", offset_ns=10**18, started_ns=0, turn_radius_m=1.0,
    usual_speed_mps=1.0, control_socket="socket", version="0.1.0",
    datum=(LOT_17.latitude_rad, LOT_17.longitude_rad, LOT_17.height_m),
)  # fmt: skip
ESTIMATE = StateEstimate(
    10**9, 10**9, 3.0, 4.0, 0.5, 1.0, 0.1, (0.01,) * 16, EstimatorStatus.RUNNING
)
GCS = 255
HOLD = RoverMode.HOLD
AUTO = RoverMode.AUTO
RTL = RoverMode.RTL
GUIDED = RoverMode.GUIDED
MANUAL = RoverMode.MANUAL
MODE = mav.MAV_CMD_DO_SET_MODE
ARM = mav.MAV_CMD_COMPONENT_ARM_DISARM
numbers = st.one_of(
    st.floats(width=32), st.sampled_from((0.0, -0.0, nan, inf, -inf, 1.0, -1.0, 3e38))
)


class Bench:
    """An autopilot with what it sent and asked. ``replies``: answers of the daemon by request, or
    the reason of a refusal."""

    def __init__(self, **replies: Any) -> None:
        self.sent: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.offered: list[dict[str, Any]] = []
        self.planning: list[tuple[Callable[[], Request], Callable[..., None]]] = []
        """Plans that the daemon has not answered yet, while ``slow``."""
        self.slow = False
        self.replies = {"parameters": {"parameters": [{"key": "speed.p", "value": 1.5}]}, **replies}
        self.autopilot = Autopilot(CONFIG, self.sent.append, self)
        self.pilot = self.autopilot.pilot
        self.packer = mav.MAVLink(None, srcSystem=1)
        self.autopilot.on_record(ESTIMATE)
        self.status("STANDBY")
        self.autopilot.tick(100.0)

    def status(self, mode: str, kind: CourseKind = CourseKind.GIVEN) -> None:
        """Let the daemon send its state."""
        status = {
            "mode": mode,
            "reaction": "NONE",
            "waiting_for": [],
            "course": "lot17",
            "course_kind": kind.name,
        }
        self.autopilot.on_status(status)

    # The lanes to the daemon.

    def operate(self, request: Request, answer: Any) -> None:
        self.ask(request, answer)

    def ask(self, request: Request, answer: Any) -> None:
        self.asked.append(msgspec.to_builtins(request))
        reply = self.replies.get(self.asked[-1]["do"], {"mode": self.pilot.view.state.mode.name})
        answer({} if isinstance(reply, str) else reply, reply if isinstance(reply, str) else "")

    def plan(self, prepare: Callable[[], Request], answer: Any) -> None:
        self.planning.append((prepare, answer))
        if not self.slow:
            self.planned()

    def planned(self) -> None:
        """Let the daemon answer the oldest plan."""
        prepare, answer = self.planning.pop(0)
        try:
            request = prepare()
        except MissionError as error:
            answer({}, str(error))
        else:
            self.ask(request, answer)

    def offer(self, request: Request) -> None:
        self.offered.append(msgspec.to_builtins(request))

    def cancel(self, why: str, *, operations: bool) -> None:
        # A plan that the daemon has begun is answered all the same.
        del why, operations

    def take(self, message: Any) -> list[Any]:
        """Let a ground station send a message, over the wire's packing; return what came of it."""
        before = len(self.sent)
        data = message.pack(mav.MAVLink(None, srcSystem=GCS, srcComponent=190))
        (received,) = mav.MAVLink(None).parse_buffer(data)
        self.autopilot.on_message(received)
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

    def actions(self) -> list[str]:
        """Return the changes of mode and the plans that were asked for, in order."""
        return [request.get("action", request["do"]) for request in self.asked]

    def texts(self) -> str:
        """Return all texts so far."""
        texts = [message for message in self.sent if message.get_type() == "STATUSTEXT"]
        return "".join(
            message.text if message.chunk_seq else f" {message.text}" for message in texts
        ).strip()


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


@given(
    st.lists(
        st.from_regex(r"[a-z][a-z0-9_]{0,20}(\.[a-z][a-z0-9_]{0,30}){0,2}", fullmatch=True),
        unique=True,
        max_size=40,
    )
)
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
    "text",
    [
        "",
        "udp",
        "udp:1",
        "udp::14550",
        "udp:a:0",
        "udp:a:70000",
        "serial:",
        "serial:/dev/x?speed=1",
        "tcp:a:1",
    ],
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(MavlinkAddressError, match="use udp:HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("mode", "kind", "shown", "armed"),
    [
        (Mode.STANDBY, CourseKind.GIVEN, HOLD, False), (Mode.ARMED, CourseKind.GIVEN, HOLD, True),
        (Mode.AUTO, CourseKind.GIVEN, AUTO, True), (Mode.AUTO, CourseKind.MISSION, AUTO, True),
        (Mode.AUTO, CourseKind.GOTO, GUIDED, True), (Mode.AUTO, CourseKind.RETURN, RTL, True),
        (Mode.OFFBOARD, CourseKind.GIVEN, GUIDED, True),
        (Mode.TELEOP, CourseKind.GIVEN, MANUAL, True),
        (Mode.STOPPING, CourseKind.GIVEN, HOLD, True), (Mode.FAULT, CourseKind.GIVEN, HOLD, False),
    ],
)  # fmt: skip
def test_modes_are_those_of_a_rover(
    mode: Mode, kind: CourseKind, shown: RoverMode, armed: bool
) -> None:
    state = RunState(mode, course_kind=kind)
    assert shown_mode(state, HOLD) is shown
    assert bool(base_mode(state) & mav.MAV_MODE_FLAG_SAFETY_ARMED) is armed
    assert (system_status(state) == mav.MAV_STATE_EMERGENCY) is (mode is Mode.FAULT)
    braked = system_status(state._replace(reaction=Reaction.BRAKE, why_code="imu_silent"))
    assert (braked == mav.MAV_STATE_CRITICAL) is (mode is Mode.STOPPING)
    finished = state._replace(reaction=Reaction.CONTROLLED_STOP, why_code="course_finished")
    assert system_status(finished) == system_status(state)


# ------------------------------------------------------------------ telemetry


@given(st.sampled_from(sorted(TELEMETRY)), numbers, numbers, numbers, st.integers(-(2**62), 2**62))
def test_every_message_can_be_packed_whatever_the_daemon_knows(
    name: str, a: float, b: float, c: float, t_ns: int
) -> None:
    bench = Bench()
    bench.autopilot.on_record(StateEstimate(t_ns, 0, a, b, c, a, b, (c,) * 16))
    bench.autopilot.on_record(GnssFix(t_ns, 0, a, b, c, (a, b, c), hdop=a, fix_type=FixType.NONE))
    bench.autopilot.on_record(MotorStatus(t_ns, 0, input_voltage_v=a, input_current_a=b))
    bench.autopilot.on_record(ControlCommand(t_ns, 0, a, b, c, progress_m=a))
    bench.sent.clear()
    bench.autopilot._send(name)
    for message in bench.sent:
        message.pack(bench.packer)


def test_a_place_is_sent_in_the_frames_of_a_ground_station() -> None:
    bench = Bench()
    sent = {message.get_type(): message for message in bench.sent}
    where = sent["GLOBAL_POSITION_INT"]
    east_m, north_m, _ = LOT_17.to_enu(
        radians(where.lat * 1e-7), radians(where.lon * 1e-7), LOT_17.height_m
    )
    assert (east_m, north_m) == pytest.approx((3.0, 4.0), abs=0.02)
    assert (where.vx, where.vy) == (round(100 * sin(0.5)), round(100 * cos(0.5)))
    assert where.hdg == round(degrees(pi / 2 - 0.5) * 100)
    assert (sent["LOCAL_POSITION_NED"].x, sent["LOCAL_POSITION_NED"].y) == (4.0, 3.0)
    assert sent["ATTITUDE"].yawspeed == -0.1


def test_mode_changes_and_faults_are_sent_as_text() -> None:
    bench = Bench()
    bench.sent.clear()
    bench.autopilot.on_record(
        ModeChange(
            2,
            Mode.AUTO,
            Mode.STOPPING,
            Reaction.BRAKE,
            "imu_silent",
            "",
            "imu_silent",
            "no IMU sample " * 5,
        )
    )
    bench.autopilot.on_record(Fault(2, "battery_low", "", Reaction.WARN, True, "low"))
    bench.autopilot.on_record(Fault(3, "battery_low", "", Reaction.WARN, False, "low"))
    texts = [
        (message.severity, message.text, message.id, message.chunk_seq) for message in bench.sent
    ]
    assert [severity for severity, *_ in texts] == [2, 2, 5]
    assert "".join(text for _, text, *_ in texts[:2]).startswith("STOPPING: no IMU sample no IMU")
    assert (texts[0][2], texts[1][2], texts[1][3], texts[2][2]) == (1, 1, 1, 0)


# ------------------------------------------------------------------ commands


@pytest.mark.parametrize(
    ("command", "params", "requests"),
    [
        (ARM, (0.0,), [{"do": "request", "action": "disarm"}]),
        (ARM, (0.0, 21196.0), [{"do": "request", "action": "disarm"}]),
        (mav.MAV_CMD_DO_FLIGHTTERMINATION, (1.0,), [{"do": "request", "action": "emergency_stop"}]),
        (mav.MAV_CMD_DO_FLIGHTTERMINATION, (0.0,), [{"do": "request", "action": "reset"}]),
        (mav.MAV_CMD_DO_PAUSE_CONTINUE, (0.0,), [{"do": "request", "action": "stop"}]),
        (MODE, (1.0, HOLD), [{"do": "request", "action": "stop"}]),
        (MODE, (1.0, GUIDED), []),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (1.0, 0.7),
         [{"do": "speed", "limit_mps": pytest.approx(0.7)}]),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (1.0, -2.0), [{"do": "speed", "limit_mps": None}]),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (1.0, -1.0), []),
        (mav.MAV_CMD_DO_CHANGE_SPEED, (2.0, 3.0), []),
        (mav.MAV_CMD_DO_SET_MISSION_CURRENT, (0.0,), []),
    ],
)  # fmt: skip
def test_commands_become_requests(
    command: int, params: tuple[float, ...], requests: list[dict[str, Any]]
) -> None:
    bench = Bench()
    assert bench.command(command, *params) == mav.MAV_RESULT_ACCEPTED
    assert bench.asked == [{**request, "origin": "MAVLink"} for request in requests]


NEAR = (degrees(LOT_17.latitude_rad) + 1e-4, degrees(LOT_17.longitude_rad) + 1e-4)
GOOD: dict[int, tuple[float, ...]] = {
    ARM: (1, 0),
    MODE: (1, HOLD, 0),
    mav.MAV_CMD_MISSION_START: (0, 0),
    mav.MAV_CMD_NAV_RETURN_TO_LAUNCH: (),
    mav.MAV_CMD_DO_FLIGHTTERMINATION: (1,),
    mav.MAV_CMD_DO_PAUSE_CONTINUE: (0,),
    mav.MAV_CMD_DO_CHANGE_SPEED: (1, 0.5, -1, 0),
    mav.MAV_CMD_DO_REPOSITION: (0.5, 1, 0, nan, *NEAR, 0),
    mav.MAV_CMD_DO_SET_MISSION_CURRENT: (0, 0),
    mav.MAV_CMD_SET_MESSAGE_INTERVAL: (30, 1e5),
    mav.MAV_CMD_REQUEST_MESSAGE: (30,),
    mav.MAV_CMD_GET_HOME_POSITION: (),
    mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: (1,),
    mav.MAV_CMD_DO_SET_HOME: (),
}
"""Parameters of each command that are in order."""
BAD: dict[int, dict[int, tuple[float, ...]]] = {
    ARM: {1: (nan, inf, -inf, 0.5, 2, -1), 2: (1, 2989, inf, 21196)},
    MODE: {1: (nan, inf, -1, 256, 1.5, 0, 128), 2: (nan, inf, -1, 4.5, 300, MANUAL, 7, 99),
        3: (1, inf)},
    mav.MAV_CMD_MISSION_START: {1: (1, inf, -1), 2: (3, inf)},
    mav.MAV_CMD_DO_FLIGHTTERMINATION: {1: (nan, inf, -inf, 0.3, -1)},
    mav.MAV_CMD_DO_PAUSE_CONTINUE: {1: (nan, inf, 0.7, 2, -1)},
    mav.MAV_CMD_DO_CHANGE_SPEED: {
        1: (nan, inf, 4, -1, 0.5), 2: (nan, inf, 0, -0.5, -3, 101), 3: (inf, -5, 150, -1.5),
        4: (1, inf),
    },
    mav.MAV_CMD_DO_REPOSITION: {
        1: (inf, -inf, 101), 2: (nan, inf, 2, 3, 0.5), 4: (inf, 90, -90),
        5: (nan, inf, 91, -91, 214.7483647, 0.0), 6: (nan, inf, 181, 214.7483647, 0.0, 90.0),
    },
    mav.MAV_CMD_DO_SET_MISSION_CURRENT: {1: (nan, inf, -1, 1.5, 2), 2: (2, inf)},
    mav.MAV_CMD_SET_MESSAGE_INTERVAL: {1: (nan, inf, -1, 0.5), 2: (nan, inf, -2)},
    mav.MAV_CMD_REQUEST_MESSAGE: {1: (nan, inf, -1, 0.5)},
    mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: {1: (nan, inf, 0)},
    mav.MAV_CMD_DO_SET_HOME: {1: (0, 1)},
}  # fmt: skip
"""Values of each parameter that are refused, each beside others that are in order."""


def test_every_command_has_its_refusals() -> None:
    rows = Bench().autopilot.commands
    assert GOOD.keys() == rows.keys()
    for number, row in rows.items():
        checked = set(row.params) | ({5, 6} if row.has_place else set())
        assert checked <= set(BAD.get(number, {}))
        assert all(param.name and param.allowed for param in row.params.values())


@pytest.mark.parametrize(
    ("command", "number", "value"),
    [
        (command, number, value)
        for command, rows in BAD.items()
        for number, values in rows.items()
        for value in values
    ],
)
def test_a_parameter_that_is_not_allowed_is_denied_and_asks_for_nothing(
    command: int, number: int, value: float
) -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.command(MODE, 1, GUIDED)
    bench.asked.clear()
    params = [*GOOD[command], *[0.0] * (7 - len(GOOD[command]))]
    params[number - 1] = value
    if command == mav.MAV_CMD_DO_REPOSITION and value == 0.0:
        params[4:6] = [0.0, 0.0]
    assert bench.command(command, *params) == mav.MAV_RESULT_DENIED
    assert (bench.asked, bench.planning) == ([], [])


def test_other_commands_are_unsupported() -> None:
    bench = Bench()
    for command in (
        mav.MAV_CMD_NAV_TAKEOFF,
        mav.MAV_CMD_NAV_LAND,
        mav.MAV_CMD_DO_SET_SERVO,
        mav.MAV_CMD_DO_MOTOR_TEST,
        65535,
    ):
        assert bench.command(command, 1.0) == mav.MAV_RESULT_UNSUPPORTED
    assert bench.asked == []


@pytest.mark.parametrize("frame", [1, 2, 4, 7, 8, 9, 12, 20, 21, 200])
def test_a_place_in_a_frame_that_is_not_global_is_denied(frame: int) -> None:
    bench = Bench()
    nothing, place = (0, 0, -1, 1, 0, nan), (round(NEAR[0] * 1e7), round(NEAR[1] * 1e7), 0)
    (*_, answer) = bench.take(
        mav.MAVLink_command_int_message(1, 1, frame, mav.MAV_CMD_DO_REPOSITION, *nothing, *place)
    )
    assert (answer.get_type(), answer.result, bench.planning, bench.asked) == (
        "COMMAND_ACK",
        mav.MAV_RESULT_DENIED,
        [],
        [],
    )
    (*_, answer) = bench.take(
        mav.MAVLink_command_int_message(1, 1, 6, mav.MAV_CMD_DO_REPOSITION, *nothing, *place)
    )
    assert answer.result == mav.MAV_RESULT_ACCEPTED
    east_m, north_m, _ = LOT_17.to_enu(radians(NEAR[0]), radians(NEAR[1]), LOT_17.height_m)
    assert (bench.asked[0]["x_m"], bench.asked[0]["y_m"]) == pytest.approx(
        (east_m, north_m), abs=0.02
    )


def test_a_refusal_is_answered_with_its_reason() -> None:
    bench = Bench(**{"return": "there is no place to return to"})
    bench.status("ARMED")
    assert bench.command(mav.MAV_CMD_NAV_RETURN_TO_LAUNCH) == mav.MAV_RESULT_DENIED
    assert bench.texts() == "there is no place to return to"
    assert bench.command(MODE, 1.0, MANUAL) == mav.MAV_RESULT_DENIED


def test_arming_is_answered_when_it_has_happened_or_waited_too_long() -> None:
    for mode, result in (
        ("ARMED", mav.MAV_RESULT_ACCEPTED),
        ("STANDBY", mav.MAV_RESULT_TEMPORARILY_REJECTED),
    ):
        bench = Bench()
        assert not bench.take(mav.MAVLink_command_long_message(1, 1, ARM, 0, 1, 0, 0, 0, 0, 0, 0))
        bench.autopilot.on_status({"mode": mode, "waiting_for": ["the GNSS is silent"]})
        bench.autopilot.tick(104.0)
        assert [
            message.result for message in bench.sent if message.get_type() == "COMMAND_ACK"
        ] == [result]
        texts_sent = [
            message
            for message in bench.sent
            if message.get_type() == "STATUSTEXT" and "GNSS is silent" in message.text
        ]
        assert bool(texts_sent) is (mode == "STANDBY")


def test_without_permission_nothing_is_asked() -> None:
    bench = Bench()
    fields = {name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__}
    bench.pilot.view.config = MavlinkConfig(**fields | {"control_socket": ""})
    assert bench.command(ARM, 1.0) == mav.MAV_RESULT_DENIED
    assert bench.command(mav.MAV_CMD_REQUEST_MESSAGE, 30.0) == mav.MAV_RESULT_ACCEPTED
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1))
    bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 2.0, 9))
    bench.take(
        mav.MAVLink_set_position_target_local_ned_message(
            0, 1, 1, 8, 0b10111000111, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
        )
    )
    assert (bench.asked, bench.offered) == ([], [])


def test_a_vehicle_with_another_system_id_takes_what_is_for_that_alone() -> None:
    bench = Bench()
    bench.pilot.view.config = msgspec.structs.replace(CONFIG, system_id=2)
    for system in (1, 2):
        bench.take(mav.MAVLink_mission_clear_all_message(system, 1))
    assert [each.get_type() for each in bench.sent].count("MISSION_ACK") == 1


@pytest.mark.parametrize(
    ("system", "component", "taken"),
    [(1, 1, True), (0, 0, True), (1, 190, True), (2, 1, False), (1, 100, False)],
)
def test_only_messages_to_this_vehicle_are_taken(system: int, component: int, taken: bool) -> None:
    bench = Bench()
    bench.take(mav.MAVLink_command_long_message(system, component, ARM, 0, 0, 0, 0, 0, 0, 0, 0))
    assert bench.actions() == ["disarm"] * taken


def test_what_a_router_sends_back_is_not_taken() -> None:
    bench = Bench()
    data = mav.MAVLink_command_long_message(1, 1, ARM, 0, 0, 0, 0, 0, 0, 0, 0).pack(
        mav.MAVLink(None, srcSystem=1, srcComponent=1)
    )
    (own,) = mav.MAVLink(None).parse_buffer(data)
    bench.autopilot.on_message(own)
    assert bench.asked == []


def test_known_messages_that_are_refused_say_what_to_do_once() -> None:
    bench = Bench()
    for k in range(50):
        bench.autopilot.tick(101.0 + 0.04 * k)
        bench.take(mav.MAVLink_manual_control_message(1, 0, 1000, 0, 0, 0))
        bench.take(mav.MAVLink_rc_channels_override_message(1, 1, *[1500] * 8))
    assert bench.texts().count("is not taken") == 2
    assert (bench.asked, bench.offered) == ([], [])
    assert REFUSED.keys().isdisjoint(TAKEN)
    assert REFUSED.keys() | TAKEN.keys() <= {kind.msgname for kind in mav.mavlink_map.values()}


# ------------------------------------------------------------------ nothing drives by mistake


def local(
    x: float, y: float, *, frame: int = 1, mask: int = 0b110111111000, yaw: float = 0.0
) -> Any:
    return mav.MAVLink_set_position_target_local_ned_message(
        0, 1, 1, frame, mask, x, y, 0, 0, 0, 0, 0, 0, 0, yaw, 0
    )


def velocity(
    vx: float, rate: float = 0.0, *, frame: int = 8, mask: int = 0b010111000111, vy: float = 0.0
) -> Any:
    return mav.MAVLink_set_position_target_local_ned_message(
        0, 1, 1, frame, mask, 0, 0, 0, vx, vy, 0, 0, 0, 0, 0, rate
    )


def long(command: int, *params: float) -> Any:
    return mav.MAVLink_command_long_message(1, 1, command, 0, *params, *[0.0] * (7 - len(params)))


GIVEN: dict[str, Callable[[], list[Any]]] = {
    "local place": lambda: [local(5, 14)],
    "global place": lambda: [
        mav.MAVLink_set_position_target_global_int_message(
            0,
            1,
            1,
            6,
            0b110111111000,
            round(NEAR[0] * 1e7),
            round(NEAR[1] * 1e7),
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        )
    ],
    "reposition": lambda: [long(mav.MAV_CMD_DO_REPOSITION, -1, 1, 0, nan, *NEAR)],
    "guided item": lambda: [
        mav.MAVLink_mission_item_message(1, 1, 0, 3, 16, 2, 1, 0, 0, 0, 0, *NEAR, 0)
    ],
    "guided mode and a place": lambda: [long(MODE, 1, GUIDED), local(5, 14)],
    "RTL": lambda: [long(mav.MAV_CMD_NAV_RETURN_TO_LAUNCH)],
    "RTL mode": lambda: [long(MODE, 1, RTL)],
    "AUTO": lambda: [long(MODE, 1, AUTO)],
    "AUTO by SET_MODE": lambda: [mav.MAVLink_set_mode_message(1, 1, AUTO)],
    "mission and AUTO": lambda: [*mission_upload(), long(mav.MAV_CMD_MISSION_START)],
    "velocity": lambda: [long(MODE, 1, GUIDED), velocity(0.5), velocity(0.5)],
    "continue": lambda: [long(mav.MAV_CMD_DO_PAUSE_CONTINUE, 1)],
}


@pytest.mark.parametrize("between", [None, HOLD, GUIDED])
@pytest.mark.parametrize("given", GIVEN)
def test_nothing_that_was_given_while_disarmed_drives_at_arming(
    given: str, between: int | None
) -> None:
    bench = Bench()
    bench.slow = True
    for message in GIVEN[given]():
        bench.take(message)
    if between is not None:
        bench.command(MODE, 1, between)
    bench.take(long(ARM, 1))
    bench.status("ARMED")
    while bench.planning:
        # The daemon is armed by the time at which the plan is ready.
        bench.planned()
    for k in range(20):
        bench.autopilot.tick(101.0 + k)
        bench.status("ARMED")
    assert {"drive", "offboard"}.isdisjoint(bench.actions())


@pytest.mark.parametrize("mode", ["INIT", "STANDBY", "STOPPING", "FAULT"])
@pytest.mark.parametrize("given", ["RTL", "RTL mode", "AUTO"])
def test_a_mode_that_drives_is_rejected_while_disarmed(given: str, mode: str) -> None:
    bench = Bench()
    bench.status(mode)
    (message,) = GIVEN[given]()
    (*_, ack) = bench.take(message)
    assert (ack.result, bench.asked, bench.planning) == (
        mav.MAV_RESULT_TEMPORARILY_REJECTED,
        [],
        [],
    )
    assert "arm it first" in bench.texts()


STOPS: dict[str, Callable[[], Any]] = {
    "HOLD": lambda: long(MODE, 1, HOLD),
    "HOLD by SET_MODE": lambda: mav.MAVLink_set_mode_message(1, 1, HOLD),
    "disarm": lambda: long(ARM, 0),
    "termination": lambda: long(mav.MAV_CMD_DO_FLIGHTTERMINATION, 1),
    "pause": lambda: long(mav.MAV_CMD_DO_PAUSE_CONTINUE, 0),
    "GUIDED": lambda: long(MODE, 1, GUIDED),
    "mission clear": lambda: mav.MAVLink_mission_clear_all_message(1, 1),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("given", ["reposition", "RTL", "mission and AUTO"])
def test_a_stop_calls_off_what_is_still_planned(given: str, stop: str) -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.slow = True
    for message in GIVEN[given]():
        bench.take(message)
        if given.startswith("mission") and bench.planning and message.get_type() != "COMMAND_LONG":
            bench.planned()
    assert len(bench.planning) == 1
    bench.take(STOPS[stop]())
    bench.planned()
    assert "drive" not in bench.actions()
    acks = [message for message in bench.sent if message.get_type() == "COMMAND_ACK"]
    assert acks[-1].result == mav.MAV_RESULT_TEMPORARILY_REJECTED
    assert "called off" in bench.texts()


def test_a_place_does_not_drive_a_vehicle_that_was_disarmed_in_between() -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.command(MODE, 1, GUIDED)
    bench.slow = True
    bench.take(local(6, 1))
    # By somebody else, so that the bridge learns of it only by the status.
    bench.status("STANDBY")
    bench.status("ARMED")
    bench.planned()
    assert "drive" not in bench.actions()
    assert "ask again" in bench.texts()


def test_a_place_waits_until_the_daemon_has_answered_the_stops_before_it() -> None:
    bench = Bench()
    bench.status("ARMED")
    answers: list[Any] = []
    bench.operate = lambda request, answer: answers.append(answer)  # type: ignore[method-assign]
    bench.take(long(MODE, 1, GUIDED))
    bench.take(local(6, 1))
    assert (len(answers), bench.asked) == (1, [])
    answers.pop()({"mode": "ARMED"}, "")
    assert bench.actions() == ["goto"]
    # Another stop calls it off before it was sent.
    bench.asked.clear()
    answers.clear()
    bench.take(long(MODE, 1, GUIDED))
    bench.take(local(6, 1))
    bench.take(long(MODE, 1, HOLD))
    bench.take(long(ARM, 0))
    for answer in answers:
        answer({"mode": "ARMED"}, "")
    assert bench.actions() == []


def test_an_armed_vehicle_drives_to_a_place_in_guided_only() -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.take(local(6, 1))
    assert (bench.asked, "choose GUIDED" in bench.texts()) == ([], True)
    assert bench.command(mav.MAV_CMD_DO_REPOSITION, -1, 0, 0, nan, *NEAR) == mav.MAV_RESULT_DENIED
    bench.command(MODE, 1, GUIDED)
    bench.asked.clear()
    bench.take(local(6, 1))
    assert bench.actions() == ["goto", "drive"]
    bench.status("AUTO", CourseKind.GOTO)
    bench.take(local(9, 1))
    assert bench.actions() == ["goto", "drive", "goto"]


def test_a_drive_along_the_course_is_left_by_its_own_command_only() -> None:
    bench = Bench()
    bench.status("AUTO")
    bench.take(local(6, 1))
    bench.take(velocity(0.5))
    assert (bench.asked, bench.offered) == ([], [])
    assert bench.command(MODE, 1, AUTO) == mav.MAV_RESULT_ACCEPTED
    assert bench.asked == []
    bench.command(mav.MAV_CMD_DO_REPOSITION, -1, 1, 0, nan, *NEAR)
    assert bench.actions() == ["goto"]
    bench.asked.clear()
    bench.command(MODE, 1, GUIDED)
    assert bench.actions() == ["stop"]
    assert (
        shown_mode(bench.pilot.view.state._replace(mode=Mode.STANDBY), bench.pilot.view.chosen)
        is GUIDED
    )


def test_a_place_that_was_planned_is_no_mission() -> None:
    bench = Bench()
    bench.status("ARMED", CourseKind.GOTO)
    assert bench.command(MODE, 1, AUTO) == mav.MAV_RESULT_DENIED
    bench.status("ARMED", CourseKind.GIVEN)
    assert bench.command(MODE, 1, AUTO) == mav.MAV_RESULT_ACCEPTED
    assert bench.actions() == ["drive"]


def test_only_a_pause_is_continued_and_only_by_an_armed_vehicle() -> None:
    bench = Bench()
    resume = mav.MAV_CMD_DO_PAUSE_CONTINUE, 1
    bench.status("AUTO")
    bench.command(MODE, 1, HOLD)
    bench.status("ARMED")
    assert bench.command(*resume) == mav.MAV_RESULT_DENIED
    bench.status("AUTO")
    bench.command(mav.MAV_CMD_DO_PAUSE_CONTINUE, 0)
    bench.status("STANDBY")
    assert bench.command(*resume) == mav.MAV_RESULT_TEMPORARILY_REJECTED
    bench.status("ARMED")
    assert bench.command(*resume) == mav.MAV_RESULT_ACCEPTED
    assert bench.actions() == ["stop", "stop", "drive"]


def test_a_repeated_command_is_one_command() -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.slow = True
    command = mav.MAV_CMD_DO_REPOSITION, -1, 1, 0, nan, *NEAR
    assert not [m for m in bench.take(long(*command)) if m.get_type() == "COMMAND_ACK"]
    assert bench.command(*command) == mav.MAV_RESULT_IN_PROGRESS
    assert len(bench.planning) == 1
    for _ in range(3):
        assert bench.command(mav.MAV_CMD_DO_FLIGHTTERMINATION, 1) == mav.MAV_RESULT_ACCEPTED
    assert bench.actions() == ["emergency_stop"] * 3


def test_arming_by_force_is_denied() -> None:
    bench = Bench()
    assert bench.command(ARM, 1, 21196) == mav.MAV_RESULT_DENIED
    assert bench.asked == []


# ------------------------------------------------------------------ targets


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        (1, (1.0, 6.0)),
        (7, (3.0 + 1.0, 4.0 + 6.0)),
        (9, (3.0 + 6.0 * cos(0.5) + 1.0 * sin(0.5), 4.0 + 6.0 * sin(0.5) - 1.0 * cos(0.5))),
        (12, (3.0 + 6.0 * cos(0.5) + 1.0 * sin(0.5), 4.0 + 6.0 * sin(0.5) - 1.0 * cos(0.5))),
        (8, None), (20, None), (21, None), (0, None), (4, None), (13, None), (255, None),
    ],
)  # fmt: skip
def test_each_frame_of_a_place_is_exact_or_refused(
    frame: int, place: tuple[float, float] | None
) -> None:
    bench = Bench()
    bench.take(local(6.0, 1.0, frame=frame))
    assert bench.actions() == ([] if place is None else ["goto"])
    if place is not None:
        assert (bench.asked[0]["x_m"], bench.asked[0]["y_m"]) == pytest.approx(place)
    assert ("target refused" in bench.texts()) is (place is None)


@pytest.mark.parametrize(
    "message",
    [
        local(nan, 1), local(1, inf), local(3e38, 1), local(60_000, 1),
        local(6, 1, mask=0b110111111001), local(6, 1, mask=0b110111000000),
        local(6, 1, mask=0b110000111000), local(6, 1, mask=0b010111111000), local(6, 1, mask=0xFFF),
        local(6, 1, mask=0b100111111000, yaw=nan), local(6, 1, mask=0b100111111000, yaw=inf),
        velocity(nan), velocity(inf), velocity(101.0), velocity(0.5, nan), velocity(0.5, frame=1),
        velocity(0.5, frame=7), velocity(0.5, vy=0.2), velocity(0.5, vy=nan),
        velocity(0.5, mask=0b010000000111), velocity(0.5, mask=0b000111000111),
        velocity(0.5, mask=0b010111001111), velocity(0.5, mask=0b010111000110),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_meant_is_refused(message: Any) -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.command(MODE, 1, GUIDED)
    bench.asked.clear()
    bench.take(message)
    assert (bench.asked, bench.offered, bench.planning) == ([], [], [])
    assert "refused" in bench.texts() or "away" in bench.texts()


@pytest.mark.parametrize(
    ("frame", "lat", "lon"),
    [
        (1, *NEAR),
        (8, *NEAR),
        (6, 0.0, 0.0),
        (6, 214.7483647, NEAR[1]),
        (6, NEAR[0], 214.7483647),
        (6, -NEAR[0], 180 + NEAR[1]),
    ],
)
def test_a_global_target_that_cannot_be_meant_is_refused(
    frame: int, lat: float, lon: float
) -> None:
    bench = Bench()
    place = round(lat * 1e7), round(lon * 1e7)
    bench.take(
        mav.MAVLink_set_position_target_global_int_message(
            0, 1, 1, frame, 0b110111111000, *place, 0, 0, 0, 0, 0, 0, 0, 0, 0
        )
    )
    assert (bench.asked, bench.planning) == ([], [])
    assert "refused" in bench.texts()


@pytest.mark.parametrize(
    ("latitude_deg", "longitude_deg", "why"),
    [
        (0.0, 0.0, "place holder"),
        (91.0, 10.0, "no place"),
        (0.001, -170.0, "other side of the earth"),
        (0.2, 10.0, "from the map's"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_before_it_is_converted(
    latitude_deg: float, longitude_deg: float, why: str
) -> None:
    with pytest.raises(PlaceError, match=why):
        global_place(Datum.from_degrees(0.0, 10.0), latitude_deg, longitude_deg)


def test_a_heading_comes_along() -> None:
    bench = Bench()
    bench.take(local(6, 1, mask=0b100111111000, yaw=0.25))
    assert bench.asked[0]["yaw_rad"] == pytest.approx(pi / 2 - 0.25)
    bench.command(mav.MAV_CMD_DO_REPOSITION, -1, 1, 0, pi / 2, *NEAR)
    assert bench.asked[1]["yaw_rad"] == pytest.approx(0.0, abs=1e-6)


def test_a_velocity_is_a_setpoint_in_guided() -> None:
    bench = Bench()
    bench.status("ARMED")
    bench.take(velocity(0.5, 0.1))
    assert bench.offered == []
    bench.command(MODE, 1, GUIDED)
    bench.asked.clear()
    for k in range(10):
        bench.autopilot.tick(102.0 + 0.02 * k)
        bench.take(velocity(0.5, 0.1))
    assert len(bench.offered) == 10
    assert [offer["sequence"] for offer in bench.offered] == list(range(1, 11))
    assert (bench.offered[0]["speed_mps"], bench.offered[0]["curvature_per_m"]) == pytest.approx(
        (0.5, -0.2), abs=1e-6
    )
    assert bench.actions() == ["offboard"]
    bench.command(MODE, 1, HOLD)
    bench.take(velocity(0.5, 0.1))
    assert len(bench.offered) == 10


def integers_of(spec: str) -> st.SearchStrategy[int]:
    """Return numbers of an integer type of MAVLink, often those of commands that are known."""
    bits = int("".join(filter(str.isdigit, spec)))
    low, high = (
        (0, 2**bits - 1) if spec.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return st.one_of(
        st.integers(low, high),
        st.sampled_from([n for n in (0, 1, 16, 178, 192, 400, 512) if n <= high]),
    )


@examples(300)
@given(st.sampled_from(sorted(TAKEN)), st.data())
def test_any_message_is_survived(name: str, data: st.DataObject) -> None:
    bench = Bench()
    kind = next(kind for kind in mav.mavlink_map.values() if kind.msgname == name)
    types = dict(zip(kind.fieldnames, kind.fieldtypes))
    counts = dict(zip(kind.ordered_fieldnames, kind.array_lengths))
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
            values.append(
                [data.draw(integers_of(spec)) for _ in range(count)]
                if count
                else data.draw(integers_of(spec))
            )
    message = getattr(mav, f"MAVLink_{name.lower()}_message")(*values)
    bench.take(message)
    bench.autopilot.tick(101.0)
    # A disarmed vehicle is never driven, whatever comes.
    assert {"drive", "offboard", "teleop"}.isdisjoint(bench.actions())


# ------------------------------------------------------------------ missions


def item(
    seq: int, x: float, y: float, command: int = mav.MAV_CMD_NAV_WAYPOINT, p2: float = 0.0
) -> Any:
    """Return an item of a mission, at a place in the map frame."""
    latitude, longitude, _ = LOT_17.to_geodetic(x, y, 0.0)
    place = degrees_e7(latitude), degrees_e7(longitude)
    return mav.MAVLink_mission_item_int_message(
        1, 1, seq, 6, command, 0, 1, 0.0, p2, 0.0, nan, *place, 12.5
    )


MISSION = [
    item(0, 0.0, 0.0),
    item(1, 20.0, 0.0),
    item(2, 0.0, 0.0, mav.MAV_CMD_DO_CHANGE_SPEED, 0.5),
    item(3, 30.0, 15.0),
    item(4, 10.0, 20.0),
]


def mission_upload() -> list[Any]:
    """Return the messages of an upload of ``MISSION``."""
    return [mav.MAVLink_mission_count_message(1, 1, len(MISSION)), *MISSION]


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
        fields = (
            "seq",
            "frame",
            "command",
            "autocontinue",
            "param1",
            "param2",
            "param3",
            "x",
            "y",
            "z",
        )
        assert [getattr(back, name) for name in fields] == [getattr(sent, name) for name in fields]
    course = from_bytes(b64decode(bench.asked[-1]["data"]))
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((3.0, 4.0), abs=1e-6)
    assert (course.x_m[-1], course.y_m[-1]) == pytest.approx((10.0, 20.0), abs=0.02)
    assert set(course.speed_mps.round(6)) >= {1.0, 0.5}


def test_reached_waypoints_are_reported_in_order() -> None:
    bench = Bench()
    upload(bench, MISSION)
    bench.autopilot.on_record(
        ModeChange(
            1, Mode.ARMED, Mode.AUTO, Reaction.NONE, "drives_course", "", "drives_course", "driving"
        )
    )
    bench.status("AUTO", CourseKind.MISSION)
    bench.sent.clear()
    length_m = from_bytes(b64decode(bench.asked[-1]["data"])).length_m
    for k in range(200):
        bench.autopilot.on_record(
            ControlCommand(0, 0, 0.0, 0.0, 0.0, progress_m=(length_m - 1.0) * k / 199)
        )
    reached = [
        message.seq for message in bench.sent if message.get_type() == "MISSION_ITEM_REACHED"
    ]
    assert reached == [1, 3]
    stop = ModeChange(
        1,
        Mode.AUTO,
        Mode.STOPPING,
        Reaction.NONE,
        "course_finished",
        "",
        "course_finished",
        "finished",
    )
    bench.autopilot.on_record(stop)
    assert [
        message.seq for message in bench.sent if message.get_type() == "MISSION_ITEM_REACHED"
    ] == [1, 3, 4]


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
    assert bench.pilot.mission == ()


def test_lost_items_are_asked_for_again_and_then_given_up() -> None:
    bench = Bench()
    bench.take(mav.MAVLink_mission_count_message(1, 1, 3))
    bench.take(MISSION[2])
    for k in range(10):
        bench.autopilot.tick(102.0 + 2.0 * k)
    asked = [message.seq for message in bench.sent if message.get_type() == "MISSION_REQUEST_INT"]
    assert asked == [0] * 5
    assert [message.type for message in bench.sent if message.get_type() == "MISSION_ACK"] == [
        mav.MAV_MISSION_OPERATION_CANCELLED
    ]


def results(answers: list[Any]) -> list[int]:
    """Return the results of the acknowledgements of the mission protocol."""
    return [answer.type for answer in answers if answer.get_type() == "MISSION_ACK"]


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        ({"frame": 8}, mav.MAV_MISSION_UNSUPPORTED_FRAME),
        ({"frame": 12}, mav.MAV_MISSION_UNSUPPORTED_FRAME),
        ({"x": 0, "y": 0}, mav.MAV_MISSION_INVALID_PARAM5_X),
        ({"x": 2**31 - 1}, mav.MAV_MISSION_INVALID_PARAM5_X),
        ({"x": 2**31 - 1, "y": 2**31 - 1}, mav.MAV_MISSION_INVALID_PARAM5_X),
        ({"x": -430_000_000}, mav.MAV_MISSION_INVALID_PARAM5_X),
        ({"frame": 1, "x": 2_000_000_000}, mav.MAV_MISSION_INVALID_PARAM5_X),
        ({"param1": -1.0}, mav.MAV_MISSION_INVALID_PARAM1),
        ({"param1": inf}, mav.MAV_MISSION_INVALID_PARAM1),
        ({"param1": 1e6}, mav.MAV_MISSION_INVALID_PARAM1),
        ({"command": 178, "param1": 7.0, "param2": 1.0}, mav.MAV_MISSION_INVALID_PARAM1),
        ({"command": 178, "param1": 1.0, "param2": 0.0}, mav.MAV_MISSION_INVALID_PARAM2),
        ({"command": 178, "param1": 1.0, "param2": nan}, mav.MAV_MISSION_INVALID_PARAM2),
        (
            {"command": 178, "param1": 1.0, "param2": -1.0, "param3": 50.0},
            mav.MAV_MISSION_INVALID_PARAM3,
        ),
        (
            {"command": 178, "param1": 1.0, "param2": 1.0, "param4": 1.0},
            mav.MAV_MISSION_INVALID_PARAM4,
        ),
        ({"command": 93, "param1": -1.0, "param2": 12.0}, mav.MAV_MISSION_INVALID_PARAM1),
        ({"command": 17}, mav.MAV_MISSION_UNSUPPORTED),
        ({"command": 115}, mav.MAV_MISSION_UNSUPPORTED),
        ({"command": 201}, mav.MAV_MISSION_UNSUPPORTED),
        ({"command": 65000}, mav.MAV_MISSION_UNSUPPORTED),
    ],
)
def test_an_item_that_cannot_be_driven_is_refused_as_it_comes(
    changed: dict[str, Any], result: int
) -> None:
    bench, bad = Bench(), item(1, 20.0, 0.0)
    for name, value in changed.items():
        setattr(bad, name, value)
    answers = upload(bench, [item(0, 0, 0), bad, item(2, 30, 15)])
    assert results(answers) == [result]
    assert "item 1" in bench.texts()
    assert (bench.planning, bench.asked, bench.pilot.mission) == ([], [], ())


def test_a_mission_waits_and_names_what_it_ignores() -> None:
    bench = Bench()
    first, second = item(1, 20.0, 0.0), item(3, 30.0, 15.0, mav.MAV_CMD_NAV_LOITER_TIME)
    first.param1, second.param1 = 30.0, 5.0
    delay = item(4, 0, 0, mav.MAV_CMD_NAV_DELAY)
    delay.param1 = 7.5
    mission = [
        item(0, 0, 0),
        first,
        item(2, 0, 0, mav.MAV_CMD_DO_DIGICAM_CONTROL),
        second,
        delay,
        item(5, 10.0, 20.0),
    ]
    assert results(upload(bench, mission)) == [mav.MAV_MISSION_ACCEPTED]
    course = from_bytes(b64decode(bench.asked[-1]["data"]))
    assert [wait.duration_s for wait in course.waits] == [30.0, 12.5]
    for wait, (x, y) in zip(course.waits, ((20.0, 0.0), (30.0, 15.0)), strict=True):
        at = int(abs(course.s_m - wait.s_m).argmin())
        assert (course.x_m[at], course.y_m[at]) == pytest.approx((x, y), abs=0.1)
    assert "DO_DIGICAM_CONTROL" in bench.texts()
    assert bench.asked[-1]["kind"] == "mission"


@pytest.mark.parametrize("kind", [1, 2])
def test_fence_and_rally_points_are_another_list(kind: int) -> None:
    bench = Bench()
    upload(bench, MISSION)
    for message in (
        mav.MAVLink_mission_count_message(1, 1, 3, kind),
        mav.MAVLink_mission_request_list_message(1, 1, kind),
        mav.MAVLink_mission_request_int_message(1, 1, 1, kind),
        mav.MAVLink_mission_clear_all_message(1, 1, kind),
        mav.MAVLink_mission_item_int_message(1, 1, 0, 0, 5001, 0, 1, 0, 0, 0, 0, 1, 1, 0, kind),
    ):
        (ack,) = bench.take(message)
        assert (ack.get_type(), ack.type, ack.mission_type) == (
            "MISSION_ACK",
            mav.MAV_MISSION_UNSUPPORTED,
            kind,
        )
    assert len(bench.pilot.mission) == len(MISSION)
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1, 255))
    assert bench.pilot.mission == ()


def test_an_upload_has_one_sender_and_items_in_order() -> None:
    bench = Bench()
    bench.take(mav.MAVLink_mission_count_message(1, 1, len(MISSION)))
    other = mav.MAVLink(None, srcSystem=GCS - 1, srcComponent=190)
    for message in (mav.MAVLink_mission_count_message(1, 1, 2), MISSION[0]):
        (received,) = mav.MAVLink(None).parse_buffer(message.pack(other))
        bench.autopilot.on_message(received)
    refused = [message.type for message in bench.sent if message.get_type() == "MISSION_ACK"]
    assert refused == [mav.MAV_MISSION_DENIED, mav.MAV_MISSION_INVALID_SEQUENCE]
    bench.take(MISSION[3])
    bench.take(MISSION[0])
    bench.take(MISSION[0])
    for message in MISSION[1:]:
        bench.take(message)
    assert len(bench.pilot.mission) == len(MISSION)
    (ack,) = [message for message in bench.take(MISSION[2]) if message.get_type() == "MISSION_ACK"]
    assert ack.type == mav.MAV_MISSION_INVALID_SEQUENCE


@pytest.mark.parametrize("mode", ["AUTO", "OFFBOARD", "TELEOP", "STOPPING", "ALIGN"])
def test_an_upload_does_not_change_a_drive(mode: str) -> None:
    bench = Bench()
    bench.status(mode)
    assert results(upload(bench, MISSION)) == [mav.MAV_MISSION_DENIED]
    assert (bench.asked, bench.pilot.mission) == ([], ())


def test_clearing_the_mission_stops_the_vehicle_that_drives_it() -> None:
    bench = Bench()
    upload(bench, MISSION)
    bench.asked.clear()
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1))
    bench.status("AUTO", CourseKind.GOTO)
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1))
    assert bench.asked == []
    bench.status("AUTO", CourseKind.MISSION)
    bench.take(mav.MAVLink_mission_clear_all_message(1, 1))
    assert bench.actions() == ["stop"]
    bench.status("ARMED", CourseKind.MISSION)
    assert bench.command(MODE, 1, AUTO) == mav.MAV_RESULT_DENIED


@pytest.mark.parametrize("frame", [0, 3, 6, 12])
def test_an_item_that_is_no_part_of_a_mission_is_a_place(frame: int) -> None:
    bench = Bench()
    bench.status("ARMED")
    place = mav.MAVLink_mission_item_message(1, 1, 0, frame, 16, 2, 1, 0, 0, 0, 0, *NEAR, 0)
    assert results(bench.take(place)) == [
        mav.MAV_MISSION_UNSUPPORTED_FRAME if frame == 12 else mav.MAV_MISSION_DENIED
    ]
    bench.command(MODE, 1, GUIDED)
    bench.asked.clear()
    assert results(bench.take(place)) == [
        mav.MAV_MISSION_UNSUPPORTED_FRAME if frame == 12 else mav.MAV_MISSION_ACCEPTED
    ]
    assert bench.actions() == ([] if frame == 12 else ["goto", "drive"])
    altitude = mav.MAVLink_mission_item_message(1, 1, 0, 3, 16, 3, 1, 0, 0, 0, 0, *NEAR, 0)
    assert results(bench.take(altitude)) == [mav.MAV_MISSION_INVALID_SEQUENCE]


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=8),
    st.floats(-pi, pi),
)
def test_a_course_begins_at_the_vehicle_and_passes_every_waypoint(
    places: list[tuple[float, float]], yaw_rad: float
) -> None:
    assume(
        all(
            abs(a[0] - b[0]) + abs(a[1] - b[1]) > 3.0
            for a, b in zip([(0.0, 0.0), *places], places, strict=False)
        )
    )
    found = [Waypoint(x, y, 1.0, k + 1) for k, (x, y) in enumerate(places)]
    try:
        course, arcs_m = course_through(
            Pose(0.0, 0.0, yaw_rad), found, turn_radius_m=1.0, datum=LOT_17, name="mission"
        )
    except MissionError:
        # A line that doubles back on itself cannot be driven.
        assume(False)
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert arcs_m == sorted(arcs_m)
    for (x, y), arc_m in zip(places, arcs_m, strict=True):
        at = int(abs(course.s_m - arc_m).argmin())
        assert abs(course.x_m[at] - x) + abs(course.y_m[at] - y) < 1.0


def test_long_legs_are_driven_straight_and_longer_ones_refused() -> None:
    places = [
        Waypoint(10.0, 0.0, 1.0, 1),
        Waypoint(10.0, 730.0, 0.5, 2, 4.0),
        Waypoint(400.0, 730.0, 2.0, 3),
    ]
    course, arcs_m = course_through(
        Pose(0.0, 0.0, 0.0), places, turn_radius_m=1.0, datum=LOT_17, name="mission"
    )
    straight = (course.y_m > 20.0) & (course.y_m < 700.0)
    assert abs(course.x_m[straight] - 10.0).max() < 0.05
    assert set(course.speed_mps[straight]) == {0.5}
    assert [(wait.s_m, wait.duration_s) for wait in course.waits] == [
        (pytest.approx(arcs_m[1], abs=0.3), 4.0)
    ]
    assert course.speed_mps[-1] == 2.0
    with pytest.raises(MissionError, match=r"item 4: 11\.0 km from the place before"):
        course_through(
            Pose(0.0, 0.0, 0.0),
            [*places, Waypoint(400.0, 11_730.0, 1.0, 4)],
            turn_radius_m=1.0,
            datum=LOT_17,
            name="mission",
        )


def test_items_in_the_local_frame_are_north_and_east() -> None:
    zeros = (0.0, 0.0, 0.0, 0.0)
    (found,) = waypoints(
        [Item(1, 16, 1, zeros, 0, 0, 0.0), Item(1, 16, 1, zeros, 70_000, 20_000, 0.0)],
        Datum(0.0, 0.0),
        None,
        1.0,
    )
    assert (found.x_m, found.y_m) == pytest.approx((2.0, 7.0))
    with pytest.raises(MissionError):
        check_item(Item(12, 16, 1, zeros, 0, 0, 0.0), 1)
    with pytest.raises(MissionError):
        check_item(Item(6, 16, 1, zeros, 950_000_000, 0, 0.0), 1)


def test_parameters_are_listed_read_and_set() -> None:
    bench = Bench()
    (value,) = bench.take(mav.MAVLink_param_request_list_message(1, 1))
    assert (value.param_id, value.param_value, value.param_count) == ("SPEED_P", 1.5, 1)
    (value,) = bench.take(mav.MAVLink_param_request_read_message(1, 1, b"SPEED_P", -1))
    assert value.param_value == 1.5
    (value,) = bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 2.0, 9))
    assert value.param_value == 2.0
    assert bench.asked[-1] == {
        "do": "set_parameter",
        "key": "speed.p",
        "value": 2.0,
        "origin": "MAVLink",
    }
    asked = len(bench.asked)
    for value, kind in ((nan, 9), (inf, 9), (2.5, 6)):
        (*_, text, answer) = bench.take(
            mav.MAVLink_param_set_message(1, 1, b"SPEED_P", value, kind)
        )
        assert (text.get_type(), answer.param_value) == ("STATUSTEXT", 1.5)
    bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_X", 2.5, 9))
    assert "SPEED_X" in bench.texts()
    assert {request["do"] for request in bench.asked[asked:]} == {"parameters"}
    bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 0.01, 9))
    assert bench.asked[-1]["value"] == 0.01
    bench.replies["set_parameter"] = "out of range"
    bench.replies["parameters"] = {"parameters": [{"key": "speed.p", "value": 2.0}]}
    answers = bench.take(mav.MAVLink_param_set_message(1, 1, b"SPEED_P", 99.0, 9))
    assert [answer.get_type() for answer in answers] == ["STATUSTEXT", "PARAM_VALUE"]
    assert answers[1].param_value == 2.0

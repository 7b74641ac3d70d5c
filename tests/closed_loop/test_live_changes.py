"""Changes while the vehicle drives: another course, a speed limit, a parameter, the setpoints of
another program."""

import json
from collections.abc import Callable
from math import hypot, inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vehicled.core.messages import (
    ActuatorCommand,
    CourseCommand,
    Event,
    Fault,
    GroundTruth,
    Message,
    Mode,
    ModeChange,
    OperatorAction,
    OperatorCommand,
    ParameterCommand,
    Reaction,
    Setpoint,
    SpeedCommand,
)
from vehicled.daemon.live_changes import Prepared
from vehicled.daemon.machine import Machine
from vehicled.live.control_socket.console import Console, RunFacts
from vehicled.log.reader import LogReader
from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose, course_to
from vehicled.paths.stored import to_bytes
from vehicled.run.judge import Judge
from vehicled.run.plan import Plan
from vehicled.run.simulation import Simulated, SimulationSpec, simulate
from vehicled.run.spec import RunSpec

pytestmark = pytest.mark.xdist_group("changes")  # the undisturbed drive is driven once

COURSE = "circle_r5_ccw"
UNDISTURBED_S = 5.5
Act = Callable[[Machine, int], Any]


class Drive:
    """A simulated drive in lockstep during which something is asked at given times."""

    def __init__(
        self, folder: Path, acts: list[tuple[float, Act]], *, duration_s: float = 20.0
    ) -> None:
        self.answers: list[Any] = []
        waiting = sorted(acts, key=lambda act: act[0])
        first_ns = 0

        def progress(machine: Machine, judge: Judge, now_ns: int) -> None:
            nonlocal first_ns
            first_ns = first_ns or now_ns
            while waiting and now_ns - first_ns >= waiting[0][0] * 1e9:
                self.answers.append(waiting.pop(0)[1](machine, now_ns))

        spec = RunSpec(
            profile="art_published",
            course=COURSE,
            duration_s=duration_s,
            log_folder=str(folder),
            seed=3,
        )
        self.done: Simulated = simulate(Plan.of(spec), SimulationSpec(), progress=progress)
        self.path = self.done.result.log

    def of(self, *kinds: type[Message]) -> list[Any]:
        """Messages of some kinds in the log."""
        with LogReader(self.path) as log:
            return [record.message for record in log.messages(*kinds)]

    def assert_replayed(self) -> None:
        with Journal(self.path) as journal:
            result = Replay(journal).run()
        assert result.first is None, result.first.to_text()
        assert (result.verdict, result.digest) == ("identical", result.digest_in_log)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of a drive during which nothing is asked."""
    return Drive(
        tmp_path_factory.mktemp("undisturbed"), [], duration_s=UNDISTURBED_S
    ).done.result.digest


def pose(machine: Machine) -> Pose:
    estimate = machine.estimate
    assert estimate is not None
    return Pose(estimate.x_m, estimate.y_m, estimate.yaw_rad)


def send(course: Course) -> Act:
    def act(machine: Machine, now_ns: int) -> str:
        return machine.on_message(
            CourseCommand(now_ns, now_ns, "a test", course.name, to_bytes(course)), now_ns
        )

    return act


def goto(x_m: float, y_m: float, speed_mps: float = 0.8) -> Act:
    def act(machine: Machine, now_ns: int) -> Any:
        assert machine.pipeline.builder is not None
        course = course_to(
            pose(machine), x_m, y_m, None,
            radius_m=machine.pipeline.builder.vehicle.min_turn_radius_m, speed_mps=speed_mps,
            datum=machine.pipeline.builder.course.datum, refused=lambda course: "",
        )  # fmt: skip
        return send(course)(machine, now_ns)

    return act


def test_a_course_to_another_place_is_taken_while_driving(tmp_path: Path) -> None:
    drive = Drive(tmp_path, [(4.5, goto(5.0, -4.0))], duration_s=60.0)
    assert drive.answers == [""]
    assert drive.done.result.finished, drive.done.result.why
    end = drive.of(GroundTruth)[-1]
    assert hypot(end.x_m - 5.0, end.y_m + 4.0) < 0.5
    (event,) = [event for event in drive.of(Event) if event.name == "course_set"]
    # It is one drive: nothing stops at the change.
    assert [change.after for change in drive.of(ModeChange)][-3:] == [
        Mode.AUTO,
        Mode.STOPPING,
        Mode.STANDBY,
    ]
    at_ns = event.t_ns
    speeds = [
        truth.speed_mps
        for truth in drive.of(GroundTruth)
        if 0 <= truth.t_ns - at_ns < 2_000_000_000
    ]
    assert min(speeds) > 0.5
    angles = [
        command.wheel_angle_rad
        for command in drive.of(ActuatorCommand)
        if abs(command.t_ns - at_ns) < 100_000_000
    ]
    assert max(abs(np.diff(angles))) < 0.05, "the gate's rate limit holds across the change"
    drive.assert_replayed()


def lap_here(machine: Machine, part: float) -> Course:
    """A lap to the left, of which the vehicle has this part behind it."""
    x, y, yaw = pose(machine)
    turned = yaw - np.pi / 2.0 + 2.0 * np.pi * (np.arange(60) / 60.0 - part)
    left_x, left_y = x - 2.0 * np.sin(yaw), y + 2.0 * np.cos(yaw)
    datum = load_course(COURSE).datum
    return course_from_waypoints(
        "lap",
        left_x + 2.0 * np.cos(turned),
        left_y + 2.0 * np.sin(turned),
        closed=True,
        datum=datum,
    )


@pytest.mark.parametrize(
    "part",
    [0.97, pytest.param(0.5, marks=pytest.mark.soak), pytest.param(0.2, marks=pytest.mark.soak)],
)
def test_a_lap_that_is_joined_anywhere_is_driven_in_full_and_ends_there(
    tmp_path: Path, part: float
) -> None:
    def act(machine: Machine, now_ns: int) -> Any:
        lap = lap_here(machine, part)
        return send(lap)(machine, now_ns), pose(machine), lap.length_m

    drive = Drive(tmp_path, [(4.0, act)], duration_s=25.0)
    ((answer, joined, length_m),) = drive.answers
    assert answer == ""
    assert drive.done.result.finished, drive.done.result.why
    assert drive.done.result.driven_m == pytest.approx(length_m, abs=0.3)
    end = drive.of(GroundTruth)[-1]
    assert hypot(end.x_m - joined.x_m, end.y_m - joined.y_m) < 0.5
    drive.assert_replayed()


def test_a_lap_that_is_prepared_beside_the_loop_is_driven_in_full(tmp_path: Path) -> None:
    """The vehicle drives on while the lap, read already, is prepared; what the log keeps gives the
    same drive."""
    asked: list[tuple[CourseCommand, Prepared]] = []

    def console(machine: Machine) -> Console:
        facts = RunFacts(
            profile="art", course=COURSE, course_m=0.0, estimator="", controller="",
            link="messages", version="", started_ns=0
        )  # fmt: skip
        return Console(machine, facts)

    def ask_for_it(machine: Machine, now_ns: int) -> None:
        lap = lap_here(machine, 0.9)
        message = CourseCommand(now_ns, now_ns, "a test", lap.name, to_bytes(lap))
        asked.append((message, console(machine).prepare(message, lap)))

    def take_it(machine: Machine, now_ns: int) -> str:
        return console(machine).change(*asked[0], now_ns)

    drive = Drive(tmp_path, [(4.0, ask_for_it), (4.3, take_it)], duration_s=25.0)
    assert drive.answers == [None, ""]
    assert drive.done.result.finished, drive.done.result.why
    length_m = asked[0][1].course.length_m
    assert length_m - 0.6 < drive.done.result.driven_m < length_m + 0.2
    (event,) = [event for event in drive.of(Event) if event.name == "course_set"]
    assert 0.1 < json.loads(event.fields)["joined_m"] < 0.5
    drive.assert_replayed()


def far() -> Course:
    return course_from_waypoints(
        "far", [100.0, 110.0], [0.0, 0.0], closed=False, datum=load_course(COURSE).datum
    )


def backwards() -> Course:
    here = load_course(COURSE)
    return course_from_waypoints(
        "backwards", here.x_m[::-5], here.y_m[::-5], closed=True, datum=here.datum
    )


def elsewhere() -> Course:
    return course_from_waypoints(
        "elsewhere", [0.0, 10.0], [0.0, 0.0], closed=False, datum=Datum.from_degrees(48.0, 9.0)
    )


def garbage(data: bytes) -> Act:
    def act(machine: Machine, now_ns: int) -> str:
        return machine.on_message(CourseCommand(now_ns, now_ns, "a test", "x", data), now_ns)

    return act


def tight(machine: Machine, now_ns: int) -> Any:
    """Ask for a course that bends at once more sharply than the tyres can hold at this speed."""
    x, y, yaw = pose(machine)
    u = np.linspace(0.0, 1.2, 30)
    assert machine.pipeline.builder is not None
    course = course_from_waypoints(
        "tight", x + 0.5 * np.sin(u + yaw) - 0.5 * np.sin(yaw),
        y - 0.5 * np.cos(u + yaw) + 0.5 * np.cos(yaw), closed=False,
        datum=machine.pipeline.builder.course.datum,
    )  # fmt: skip
    return send(course)(machine, now_ns)


def parameter(key: str, value: float) -> Act:
    return lambda machine, now_ns: machine.on_message(
        ParameterCommand(now_ns, now_ns, "a test", key, value), now_ns
    )


def limit(limit_mps: float) -> Act:
    return lambda machine, now_ns: machine.on_message(
        SpeedCommand(now_ns, now_ns, "a test", limit_mps), now_ns
    )


REFUSED: list[tuple[Act, str]] = [
    (send(far()), "off the course"),
    (send(backwards()), "degrees to the course"),
    (send(elsewhere()), "another origin"),
    (garbage(b""), "no course"),
    (garbage(b"x\x9c" + bytes(range(256))), "no course"),
    (garbage(to_bytes(far())[:-9]), "cut off"),
    (tight, "lower the speed first|are left"),
    (parameter("response_min_n", 1.0), "cannot be changed while"),
    (parameter("speed.acceleration_mps2", 99.0), "out of range: it may lie between 0.1 and 5"),
    (parameter("speed.acceleration_mps2", nan), "out of range"),
    (limit(0.0), "cannot be the speed limit"),
    (limit(nan), "cannot be the speed limit"),
    (limit(1e3), "cannot be the speed limit"),
]


def test_what_is_refused_says_why_and_changes_nothing(tmp_path: Path, undisturbed: str) -> None:
    drive = Drive(
        tmp_path,
        [(3.8 + 0.1 * k, act) for k, (act, _) in enumerate(REFUSED)],
        duration_s=UNDISTURBED_S,
    )
    for answer, (_, said) in zip(drive.answers, REFUSED, strict=True):
        assert any(part in answer for part in said.split("|")), (answer, said)
    assert drive.done.result.digest == undisturbed
    refused = [fault for fault in drive.of(Fault) if fault.code == "request_refused"]
    assert [fault.reason for fault in refused] == drive.answers
    assert {fault.reaction for fault in refused} == {Reaction.NONE}
    drive.assert_replayed()


def test_a_speed_limit_holds_until_it_is_lifted(tmp_path: Path) -> None:
    drive = Drive(tmp_path, [(4.0, limit(0.4)), (7.0, limit(inf))], duration_s=11.0)
    assert drive.answers == ["", ""]
    (begin_ns, end_ns) = [event.t_ns for event in drive.of(Event) if event.name == "speed_limited"]
    speeds = {(truth.t_ns - begin_ns) * 1e-9: truth.speed_mps for truth in drive.of(GroundTruth)}
    usual = np.mean([speed for t, speed in speeds.items() if -1.0 < t < 0.0])
    limited = [speed for t, speed in speeds.items() if 2.2 < t < (end_ns - begin_ns) * 1e-9]
    lifted = np.mean([speed for t, speed in speeds.items() if 5.5 < t < 7.0])
    assert 0.3 < np.mean(limited) < 0.42 < 0.8 * usual
    assert lifted == pytest.approx(usual, rel=0.1)
    drive.assert_replayed()


def test_a_parameter_takes_effect_between_two_ticks(tmp_path: Path) -> None:
    drive = Drive(
        tmp_path,
        [(4.0, parameter("speed.acceleration_mps2", 0.3)), (4.5, limit(0.3)), (6.5, limit(inf))],
        duration_s=9.0,
    )
    plain = Drive(tmp_path, [(4.5, limit(0.3)), (6.5, limit(inf))], duration_s=9.0)
    assert drive.answers == [""] * 3
    rises = []
    for each in (drive, plain):
        lifted_ns = [event.t_ns for event in each.of(Event) if event.name == "speed_limited"][-1]
        speeds = [truth.speed_mps for truth in each.of(GroundTruth) if truth.t_ns > lifted_ns]
        rises.append(next(k for k, speed in enumerate(speeds) if speed > 0.7))
    assert rises[0] > 1.5 * rises[1], "it speeds up more slowly"
    assert not [
        change
        for change in drive.of(ModeChange)
        if change.reaction > Reaction.WARN and change.after is Mode.FAULT
    ]
    drive.assert_replayed()


class Program:
    """Another program that streams setpoints."""

    def __init__(self, origin: str = "planner") -> None:
        self.origin, self.sequence = origin, 0

    def acts(
        self, begin_s: float, end_s: float, speed_mps: float, curvature_per_m: float
    ) -> list[tuple[float, Act]]:
        def act(machine: Machine, now_ns: int) -> None:
            self.sequence += 1
            setpoint = Setpoint(
                now_ns,
                now_ns,
                speed_mps,
                curvature_per_m,
                origin=self.origin,
                sequence=self.sequence,
            )
            machine.on_message(setpoint, now_ns)

        return [(begin_s + k / 50.0, act) for k in range(round((end_s - begin_s) * 50.0))]


def ask(action: OperatorAction) -> Act:
    return lambda machine, now_ns: machine.on_message(
        OperatorCommand(now_ns, now_ns, action, "a test"), now_ns
    )


def test_setpoints_drive_and_a_stale_one_brakes(tmp_path: Path) -> None:
    first, second = Program(), Program("intruder")
    acts = (
        first.acts(2.3, 6.5, 0.6, 0.25)
        + second.acts(3.5, 6.0, 2.0, -0.5)
        + [(2.5, ask(OperatorAction.OFFBOARD))]
    )
    drive = Drive(tmp_path, acts, duration_s=8.5)
    changes = drive.of(ModeChange)
    offboard = next(change for change in changes if change.after is Mode.OFFBOARD)
    stop = next(change for change in changes if change.before is Mode.OFFBOARD)
    assert (offboard.code, offboard.origin) == ("offboard", "planner")
    assert (stop.code, stop.reaction, stop.unit) == ("setpoint_stale", Reaction.BRAKE, "s")
    last_ns = [setpoint.t_ns for setpoint in drive.of(Setpoint) if setpoint.origin == "planner"][-1]
    assert 0.2e9 < stop.t_ns - last_ns < 0.25e9
    steady = [
        truth for truth in drive.of(GroundTruth) if offboard.t_ns + 2.5e9 < truth.t_ns < stop.t_ns
    ]
    assert np.mean([truth.speed_mps for truth in steady]) == pytest.approx(0.6, abs=0.05)
    assert np.mean([truth.yaw_rate_radps / truth.speed_mps for truth in steady]) == pytest.approx(
        0.25, rel=0.2
    )
    assert abs(drive.of(GroundTruth)[-1].speed_mps) < 0.1
    drive.assert_replayed()


def test_setpoints_that_are_not_finite_are_none(tmp_path: Path) -> None:
    program = Program()
    acts = (
        program.acts(2.3, 3.0, 0.6, 0.2)
        + program.acts(3.0, 4.0, nan, 0.2)
        + [(2.5, ask(OperatorAction.OFFBOARD))]
    )
    drive = Drive(tmp_path, acts, duration_s=5.0)
    stop = next(change for change in drive.of(ModeChange) if change.before is Mode.OFFBOARD)
    assert stop.code == "setpoint_stale"
    drive.assert_replayed()


def test_a_program_that_ends_stops_the_vehicle_gently(tmp_path: Path) -> None:
    program = Program()

    def release(machine: Machine, now_ns: int) -> None:
        machine.on_message(
            Setpoint(now_ns, now_ns, 0.0, 0.0, origin="planner", released=True), now_ns
        )

    drive = Drive(
        tmp_path,
        [*program.acts(2.3, 3.5, 0.6, 0.2), (2.5, ask(OperatorAction.OFFBOARD)), (3.5, release)],
        duration_s=5.0,
    )
    stop = next(change for change in drive.of(ModeChange) if change.before is Mode.OFFBOARD)
    assert (stop.code, stop.reaction) == ("setpoints_ended", Reaction.CONTROLLED_STOP)


def test_offboard_without_setpoints_waits_and_the_course_is_driven_on(
    tmp_path: Path, undisturbed: str
) -> None:
    drive = Drive(tmp_path, [(4.0, ask(OperatorAction.OFFBOARD))], duration_s=UNDISTURBED_S)
    assert Mode.OFFBOARD not in {change.after for change in drive.of(ModeChange)}
    assert drive.done.result.digest == undisturbed


def test_a_wheel_angle_is_a_setpoint_too(tmp_path: Path) -> None:
    count = 0

    def act(machine: Machine, now_ns: int) -> None:
        nonlocal count
        count += 1
        machine.on_message(
            Setpoint(now_ns, now_ns, 0.5, wheel_angle_rad=-0.2, origin="planner", sequence=count),
            now_ns,
        )

    acts = [(2.3 + k / 50.0, act) for k in range(180)]
    drive = Drive(tmp_path, [*acts, (2.5, ask(OperatorAction.OFFBOARD))], duration_s=5.0)
    commands = [command for command in drive.of(ActuatorCommand) if command.mode is Mode.OFFBOARD][
        100:-50
    ]
    assert np.mean([command.wheel_angle_rad for command in commands]) == pytest.approx(
        -0.2, abs=0.01
    )

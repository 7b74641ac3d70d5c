"""A mission that waits: the vehicle stands where the file says, for so long, without a fault, and
the log replays it."""

from collections.abc import Callable
from math import cos, degrees, hypot, pi, sin
from pathlib import Path

import pytest

from sim_backend.connection import START_NS
from tests.grid import sampled
from vehicled.core.events import WAIT_BEGINS, WAIT_ENDED
from vehicled.core.messages import (
    ControlCommand,
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
)
from vehicled.live.control_socket.console import Console, RunFacts
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.report.page import write_report
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import LOT_17
from vehicled.paths.stored import to_bytes
from vehicled.profile import load_profile
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec

SECOND_NS = 10**9
STOPS = ((0.0, 0.0, 1.0), (4.0, 0.0, 0.0), (7.0, 1.0, 11.0), (9.0, 3.0, 2.0))
"""Waypoints with their waits: before the start, none, in a bend for longer than a drive may stand
still, and at the end."""


def mission(path: Path) -> Path:
    """Write the waypoints as Mission Planner does."""
    rows = ["QGC WPL 110"]
    for k, (x_m, y_m, wait_s) in enumerate(STOPS, 1):
        latitude, longitude, _ = LOT_17.to_geodetic(x_m, y_m, 0.0)
        place = f"{degrees(latitude):.9f}\t{degrees(longitude):.9f}"
        rows.append(f"{k}\t0\t3\t16\t{wait_s}\t0\t0\t0\t{place}\t0\t1")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_mission_of_a_file_waits_where_it_says_and_replays(tmp_path: Path) -> None:
    course = load_course(str(mission(tmp_path / "round.waypoints")))
    assert [wait.duration_s for wait in course.waits] == [1.0, 11.0, 2.0]
    spec = RunSpec(
        profile="art",
        course=str(tmp_path / "round.waypoints"),
        duration_s=60.0,
        log_folder=str(tmp_path),
        seed=3,
    )
    done = simulate(Plan.of(spec), SimulationSpec())
    assert done.result.finished, done.result.why
    path = done.result.log
    with LogReader(path) as log:
        records = [record.message for record in log.messages(Event, GroundTruth, Fault, ModeChange)]
    assert not [
        fault
        for fault in records
        if isinstance(fault, Fault) and fault.active and fault.reaction > 0
    ]
    waits = [
        event
        for event in records
        if isinstance(event, Event) and event.name in (WAIT_BEGINS, WAIT_ENDED)
    ]
    assert [event.name for event in waits] == [WAIT_BEGINS, WAIT_ENDED] * 3
    truth = [record for record in records if isinstance(record, GroundTruth)]
    for began, ended, wait in zip(waits[::2], waits[1::2], course.waits, strict=True):
        stood = [
            one
            for one in truth
            if began.t_ns <= one.t_ns <= ended.t_ns and abs(one.speed_mps) < 0.02
        ]
        assert stood[-1].t_ns - stood[0].t_ns >= (wait.duration_s - 0.3) * SECOND_NS
        at = int(abs(course.s_m - wait.s_m).argmin())
        assert hypot(stood[-1].x_m - course.x_m[at], stood[-1].y_m - course.y_m[at]) < 0.2
        # Not longer than asked for, beside the braking.
        assert ended.t_ns - began.t_ns < (wait.duration_s + 1.0) * SECOND_NS
    # Only the last one ends the drive.
    finished = [
        change
        for change in records
        if isinstance(change, ModeChange) and change.code == "course_finished"
    ]
    assert [change.t_ns >= waits[-1].t_ns for change in finished] == [True]
    with Journal(path) as journal:
        result = Replay(journal).run()
    assert result.first is None, result.first.to_text()
    assert (result.verdict, result.digest) == ("identical", result.digest_in_log)
    page = tmp_path / "report.html"
    write_report(path, str(page))
    assert "Waited 14 s at 3 place(s), as the course asks." in page.read_text()


def bend(size_m: float, speed_mps: float, *waits_s: float, name: str = "bend") -> Course:
    """Return a wave of two bends with waits at its start, in its middle and at its end."""
    u = [0.1 * k for k in range(41)]
    durations = [0.0] * len(u)
    durations[0], durations[20], durations[-1] = waits_s
    x_m, y_m = [size_m * v for v in u], [0.25 * size_m * sin(v) for v in u]
    return course_from_waypoints(
        name, x_m, y_m, default_speed_mps=speed_mps, closed=False, waits_s=durations
    )


class Drive:
    """Daemon and simulator in one process, with an operator."""

    def __init__(self, vehicle: str, course: Course, *overrides: str) -> None:
        self.course = course
        self.faults: list[Fault] = []
        self.events: list[tuple[float, str]] = []
        self.at_m = 0.0
        self.truth: GroundTruth | None = None
        self.pair = WrappedPair(
            load_profile(vehicle, overrides), course, [], self, 1, link="messages"
        )
        self.machine = self.pair.machine
        facts = RunFacts(
            profile=vehicle, course=course.name, course_m=course.length_m, estimator="",
            controller="", link="", version="", started_ns=0,
        )  # fmt: skip
        self.console = Console(self.machine, facts)

    def record(self, message: Message, _: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active and message.reaction > 0:
            self.faults.append(message)
        elif isinstance(message, Event) and message.name in (WAIT_BEGINS, WAIT_ENDED):
            self.events.append((message.t_ns * 1e-9, message.name))
        elif isinstance(message, GroundTruth):
            self.truth = message
        elif isinstance(message, ControlCommand):
            self.at_m = message.progress_m

    @property
    def now_s(self) -> float:
        return self.pair.now_ns * 1e-9

    def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        end_ns = max(self.pair.now_ns, START_NS) + round(within_s * SECOND_NS)
        while not holds():
            assert self.pair.now_ns < end_ns, (
                f"{self.machine.mode.name}: {self.machine.why} at {self.at_m:.2f} m, {self.events}"
            )
            self.pair.grant()
            self.pair.reply()

    def runs(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        self.until(lambda: self.now_s >= end_s, seconds + 1.0)

    def waited_s(self) -> float:
        wait = self.machine.wait(self.pair.now_ns)
        return -1.0 if wait is None else wait[1]

    def ask(self, *actions: OperatorAction) -> None:
        for action in actions:
            self.machine.on_message(
                OperatorCommand(self.pair.now_ns, self.pair.now_ns, action, "the test"),
                self.pair.now_ns,
            )

    def takes(self, course: Course) -> str:
        now_ns = self.pair.now_ns
        return self.machine.on_message(
            CourseCommand(now_ns, now_ns, "the test", course.name, to_bytes(course)), now_ns
        )


VEHICLES = {
    # vehicle: length of a radian of the bend in metres, speed
    "art": (2.0, 1.0), "art_vesc": (2.0, 1.0), "nigel": (0.4, 0.2), "f1tenth": (3.0, 2.0),
    "roboracer": (3.0, 2.0), "hunter_se": (2.0, 1.0), "husky_a200": (2.0, 0.8),
    "hmmwv": (10.0, 4.0), "opencav": (10.0, 4.0), "rzr": (10.0, 4.0),
}  # fmt: skip
CONTROLLERS = ("stanley", "mpc", "flat", "linear", "regulated_pure_pursuit", "avoid")


@pytest.mark.parametrize(
    ("vehicle", "controller"),
    sampled(
        [
            *((vehicle, "") for vehicle in VEHICLES),
            *(("art", controller) for controller in CONTROLLERS),
        ],
        lambda row: row in (("nigel", ""), ("art", "mpc")),
    ),
)
def test_every_vehicle_stands_for_its_wait_and_nothing_calls_it_a_fault(
    vehicle: str, controller: str
) -> None:
    size_m, speed_mps = VEHICLES[vehicle]
    drive = Drive(
        vehicle,
        bend(size_m, speed_mps, 0.0, 7.0, 1.0),
        *([f"controller.name={controller}"] if controller else []),
    )
    drive.until(lambda: len(drive.events) == 1)
    drive.until(lambda: drive.waited_s() > 1.0)
    assert drive.truth is not None
    place = drive.truth.x_m, drive.truth.y_m
    at = int(abs(drive.course.s_m - drive.course.waits[0].s_m).argmin())
    assert hypot(place[0] - drive.course.x_m[at], place[1] - drive.course.y_m[at]) < 0.25
    drive.runs(5.0)
    assert abs(drive.truth.speed_mps) < 0.02
    assert hypot(drive.truth.x_m - place[0], drive.truth.y_m - place[1]) < 0.05
    drive.until(lambda: drive.machine.course_driven)
    assert len(drive.events) == 4
    assert drive.faults == []


@pytest.fixture(scope="module")
def waiting() -> Drive:
    """Return a drive that waits in the middle of its course, for 30 s."""
    drive = Drive("art", bend(2.0, 1.0, 0.0, 30.0, 0.0))
    drive.until(lambda: drive.waited_s() > 2.0)
    return drive


def test_what_is_asked_for_while_the_vehicle_waits(waiting: Drive) -> None:
    drive, machine = waiting, waiting.machine
    status = drive.console.status(drive.pair.now_ns)
    assert (status["mode"], status["wait"]["duration_s"]) == ("AUTO", 30.0)
    assert "waits 2 s of 30 s at" in status["why"]
    assert machine.supervisor.inputs is not None
    assert machine.supervisor.inputs.waiting
    # A parameter builds the controller again, and the wait goes on.
    now_ns = drive.pair.now_ns
    change = ParameterCommand(now_ns, now_ns, "the test", "speed.acceleration_mps2", 0.8)
    assert machine.on_message(change, now_ns) == ""
    drive.runs(2.0)
    assert drive.waited_s() == pytest.approx(4.0, abs=0.2)
    # A stop ends it; the drive that resumes waits from the beginning.
    drive.ask(OperatorAction.STOP)
    drive.until(lambda: machine.mode is Mode.STANDBY)
    drive.runs(0.1)
    assert drive.waited_s() < 0.0
    assert machine.supervisor.inputs.waiting is False
    drive.ask(OperatorAction.ARM)
    drive.until(lambda: machine.mode is Mode.ARMED)
    drive.ask(OperatorAction.DRIVE)
    drive.until(lambda: drive.waited_s() > 1.0)
    assert drive.waited_s() < 2.0
    # Another course ends it, too; its own wait, at the same place, is another one.
    assert drive.takes(bend(2.0, 1.0, 0.0, 3.0, 0.0, name="other")) == ""
    drive.until(lambda: drive.waited_s() > 0.0)
    assert drive.waited_s() < 0.2
    drive.until(lambda: machine.course_driven)
    assert [fault.code for fault in drive.faults] == []


def test_a_lap_waits_at_both_sides_of_its_seam() -> None:
    radius_m, n = 1.6, 24
    x_m = [radius_m * sin(2.0 * pi * k / n) for k in range(n + 1)]
    y_m = [radius_m * (1.0 - cos(2.0 * pi * k / n)) for k in range(n + 1)]
    durations = [1.0] + [0.0] * (n - 1) + [2.0]
    drive = Drive("art", course_from_waypoints("lap", x_m, y_m, closed=True, waits_s=durations))
    assert [wait.s_m for wait in drive.course.waits] == pytest.approx([0.0, drive.course.length_m])
    drive.until(lambda: len(drive.events) == 2)
    assert drive.events[1][0] - drive.events[0][0] == pytest.approx(1.0, abs=0.1)
    drive.until(lambda: drive.machine.course_driven)
    assert len(drive.events) == 4
    assert drive.events[3][0] - drive.events[2][0] > 2.0
    assert drive.faults == []


def test_a_moving_vehicle_takes_no_course_whose_wait_it_would_miss() -> None:
    drive = Drive("art", bend(2.0, 1.0, 0.0, 0.0, 0.0))
    drive.until(lambda: drive.at_m > 3.0)
    waits_s = [0.0] * 41
    near = int((drive.at_m + 0.4) / drive.course.length_m * 40)
    waits_s[near] = 5.0
    u = [0.1 * k for k in range(41)]
    course = course_from_waypoints(
        "near", [2.0 * v for v in u], [0.5 * sin(v) for v in u], closed=False, waits_s=waits_s
    )
    assert "lower the speed first" in drive.takes(course)

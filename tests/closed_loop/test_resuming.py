"""A drive that was stopped in mid-course goes on from where the vehicle stands, in lockstep."""

from collections.abc import Callable
from itertools import pairwise
from math import cos, hypot, pi, sin

import numpy as np
import pytest

from sim_backend.connection import START_NS
from vehicled.core.messages import (
    ControlCommand,
    CourseCommand,
    Event,
    Fault,
    Message,
    Mode,
    ModeChange,
    OperatorAction,
    OperatorCommand,
    TeleopCommand,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import to_bytes
from vehicled.profile import load_profile

SECOND_NS = 10**9
READING_NS = 50_000_000
COURSE = load_course("figure_eight")
CROSSING_M = COURSE.length_m / 2.0


class Drive:
    """A vehicle on the figure eight, its operator, and what the log says."""

    def __init__(self, *overrides: str) -> None:
        self.progress_m: list[float] = []
        self.reports: list[Fault | ModeChange] = []
        self.events: list[str] = []
        self.drives = False
        profile = load_profile("art", overrides)
        self.pair = WrappedPair(profile, COURSE, [], self, 0, link="messages")
        self.machine = self.pair.machine
        self.stick: tuple[float, float] | None = None
        """Steering and throttle of who drives by hand."""
        self._readings = 0
        self._reading_ns = 0

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, ControlCommand) and self.machine.mode is Mode.AUTO:
            self.progress_m.append(message.progress_m)
        elif isinstance(message, Fault | ModeChange):
            self.reports.append(message)
        elif isinstance(message, Event):
            self.events.append(message.name)

    def ask(self, *actions: OperatorAction) -> None:
        for action in actions:
            self.machine.on_message(
                OperatorCommand(self.pair.now_ns, self.pair.now_ns, action, "the test"),
                self.pair.now_ns,
            )

    def until(self, holds: Callable[[], bool], within_s: float) -> None:
        end_ns = self.pair.now_ns + round(within_s * SECOND_NS)
        while not holds():
            assert self.pair.now_ns < end_ns, f"{self.machine.mode.name}: {self.machine.why}"
            self.pair.grant()
            now_ns = self.pair.now_ns
            if self.stick is not None and now_ns >= self._reading_ns:
                self._reading_ns = now_ns + READING_NS
                self._readings += 1
                steering, throttle = self.stick
                reading = TeleopCommand(
                    now_ns, now_ns, steering, throttle, 0.0, True, "the stick", self._readings
                )
                self.machine.on_message(reading, now_ns)
            self.pair.reply()

    def runs(self, seconds: float) -> None:
        end_ns = max(self.pair.now_ns, START_NS) + round(seconds * SECOND_NS)
        self.until(lambda: self.pair.now_ns >= end_ns, seconds + 1.0)

    def is_in(self, mode: Mode) -> Callable[[], bool]:
        return lambda: self.machine.mode is mode

    def has_reached(self, s_m: float) -> Callable[[], bool]:
        return lambda: bool(self.progress_m) and self.progress_m[-1] >= s_m

    def resume(self) -> str:
        """Arm and drive; what the log says of it."""
        before = len(self.reports)
        self.ask(OperatorAction.ARM, OperatorAction.DRIVE)
        self.until(self.is_in(Mode.AUTO), 2.0)
        return " ".join(fault.reason for fault in self.reports[before:])


@pytest.mark.parametrize(
    ("controller", "stops"),
    [
        (
            "pure_pursuit",
            [(OperatorAction.DISARM, 4.0), (OperatorAction.EMERGENCY_STOP, CROSSING_M - 0.4)],
        ),
        ("mpc", [(OperatorAction.STOP, 4.0)]),
    ],
)
def test_it_goes_on_from_where_any_stop_left_it(
    controller: str, stops: list[tuple[OperatorAction, float]]
) -> None:
    """Also at the crossing, where the start of the course and another part of it are as near."""
    drive = Drive(f"controller.name={controller}")
    for action, at_m in stops:
        drive.until(drive.has_reached(at_m), 40.0)
        drive.ask(action)
        drive.until(lambda: drive.machine.supervisor.stopped, 5.0)
        said, entry = drive.resume(), drive.machine.supervisor.entry
        assert entry.s_m == pytest.approx(at_m + 0.5, abs=0.5)
        assert (
            f"driving the course, resumed at {entry.s_m:.1f} m of {COURSE.length_m:.0f} m" in said
        )
    drive.until(drive.has_reached(stops[-1][1] + 3.0), 10.0)
    steps = [b - a for a, b in pairwise(drive.progress_m)]
    assert max(steps) < 1.0, "no jump along the course, standing or driving"
    assert min(steps) > -0.3
    assert not {"corridor_left", "path_lost", "commands_clipped"} & {
        fault.code for fault in drive.reports
    }


def test_a_manual_drive_along_the_course_goes_on_from_there() -> None:
    drive = Drive()
    drive.until(drive.has_reached(3.0), 10.0)
    drive.ask(OperatorAction.STOP)
    drive.until(drive.is_in(Mode.STANDBY), 5.0)
    stopped_m = drive.progress_m[-1]
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.ARM, OperatorAction.TELEOP)
    drive.until(drive.is_in(Mode.TELEOP), 2.0)
    drive.stick = 0.05, 0.5
    drive.runs(2.0)
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.STOP)
    drive.until(drive.is_in(Mode.STANDBY), 5.0)
    drive.resume()
    drive.runs(0.5)
    assert drive.machine.supervisor.entry.s_m is not None
    assert drive.machine.supervisor.entry.s_m > stopped_m + 0.5
    assert drive.progress_m[-1] == pytest.approx(drive.machine.supervisor.entry.s_m, abs=0.5)
    drive.runs(1.0)
    assert drive.machine.mode is Mode.AUTO, drive.machine.why


def test_a_lap_reached_by_a_manual_drive_is_driven_in_full() -> None:
    """It was set while the vehicle stood elsewhere, so where it begins is only known when the drive
    does."""
    drive = Drive()
    drive.until(drive.has_reached(2.0), 10.0)
    drive.ask(OperatorAction.STOP)
    drive.until(drive.is_in(Mode.STANDBY), 5.0)
    stand = drive.pair.world.motion
    c, s = cos(stand.yaw_rad), sin(stand.yaw_rad)
    # The vehicle gets to it with 3 m left until its line.
    angles = stand.yaw_rad - 0.5 * pi + 1.5 + 2.0 * pi * np.arange(60) / 60.0
    x = stand.x_m + 5.0 * c - 2.0 * s + 2.0 * np.cos(angles)
    y = stand.y_m + 5.0 * s + 2.0 * c + 2.0 * np.sin(angles)
    lap = course_from_waypoints("lap", x, y, closed=True, datum=COURSE.datum)
    now_ns = drive.pair.now_ns
    assert (
        drive.machine.on_message(
            CourseCommand(now_ns, now_ns, "the test", lap.name, to_bytes(lap)), now_ns
        )
        == ""
    )
    assert any("off the course" in text for text in drive.machine.waiting_for(now_ns))
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.ARM, OperatorAction.TELEOP)
    drive.until(drive.is_in(Mode.TELEOP), 2.0)
    drive.stick = 0.05, 0.5
    drive.until(
        lambda: (
            hypot(drive.pair.world.motion.x_m - stand.x_m, drive.pair.world.motion.y_m - stand.y_m)
            > 4.2
        ),
        15.0,
    )
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.STOP)
    drive.until(drive.is_in(Mode.STANDBY), 5.0)
    drive.progress_m.clear()
    drive.resume()
    drive.until(lambda: drive.machine.course_driven, 25.0)
    assert drive.events.count("lap_joined") == 1
    assert drive.progress_m[0] < 0.5
    assert drive.progress_m[-1] == pytest.approx(lap.length_m, abs=0.2)
    assert {fault.code for fault in drive.reports if isinstance(fault, Fault)} <= {"arming_refused"}


def test_outside_the_corridor_it_is_not_armed_and_both_cures_are_named() -> None:
    drive = Drive("limits.corridor_m=0.6")
    drive.until(drive.has_reached(5.0), 12.0)
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.TELEOP)
    drive.until(drive.is_in(Mode.TELEOP), 2.0)
    drive.stick = -1.0, 0.6
    drive.runs(3.0)
    drive.stick = 0.0, 0.0
    drive.ask(OperatorAction.STOP)
    drive.until(drive.is_in(Mode.STANDBY), 5.0)
    drive.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    drive.runs(0.5)
    assert drive.machine.mode is Mode.STANDBY
    (why,) = [text for text in drive.machine.supervisor.waiting if "off the course" in text]
    assert "where its drive ended" in why
    assert "by hand, or take it to the start of the course" in why

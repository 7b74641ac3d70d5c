"""Controllers that are wrong about their place, their end or their plan: safety watches the
vehicle."""

from collections.abc import Callable
from math import cos, hypot, inf, isfinite, nan, sin
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sim_backend.connection import START_NS
from tests.closed_loop.test_obstacle_stop import Drive, post
from vehicled.control.interface import Controller
from vehicled.core.messages import (
    ControlCommand,
    Fault,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
)
from vehicled.estimation.interface import Estimator
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import LateralOffset, LateralSpline
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.run.pair import Pair
from vehicled.safety.fence import Fence, Polygon

SECOND_NS = 1_000_000_000
Change = Callable[[ControlCommand], ControlCommand]


class Wrong:
    """A sound controller whose commands and reports are changed."""

    def __init__(self, sound: Any, change: Change = lambda command: command, **says: Any) -> None:
        """``says``: attributes that it has instead of those of the sound one; a function of the
        last command gives one."""
        self._sound, self._change, self._says = sound, change, says
        self.command: ControlCommand | None = None

    def __getattr__(self, name: str) -> Any:
        said = vars(self)["_says"].get(name)
        if said is None:
            return getattr(self._sound, name)
        return said(self.command) if name == "lateral_offset" else said

    def step(self, *arguments: Any) -> ControlCommand:
        self.command = self._sound.step(*arguments)
        return self._change(self.command)


class WrongPair(Pair):
    """Daemon and simulator with such a controller."""

    def __init__(
        self,
        profile: str,
        course: Course,
        *overrides: str,
        change: Change = lambda command: command,
        **more: Any,
    ) -> None:
        says = {name: more.pop(name) for name in ("finished", "lateral_offset") if name in more}
        self._wrong = change, says
        self.faults: list[str] = []
        self.course, self._truth = course, PathTracker(course)
        self.furthest_m = 0.0
        super().__init__(
            load_profile(profile, overrides), course, (), self, 3, link="messages", **more
        )

    def around(self, estimator: Estimator, controller: Controller) -> tuple[Estimator, Controller]:
        change, says = self._wrong
        return estimator, Wrong(controller, change, **says)  # type: ignore[return-value]

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active:
            self.faults.append(message.code)

    def until(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Go on to this time of the run. ``furthest_m`` is the largest true distance from the
        course."""
        while self.now_ns < START_NS + seconds * SECOND_NS and not stop():
            self.grant()
            true = self.world.motion
            here = self._truth.update(true.x_m, true.y_m, true.yaw_rad, true.speed_mps)
            self.furthest_m = max(self.furthest_m, hypot(true.x_m - here.x_m, true.y_m - here.y_m))
            self.reply()

    @property
    def stopped(self) -> bool:
        return self.machine.supervisor.stopped


def straight_on(throttle: float) -> Change:
    """Drive straight on after a metre, and say that all is well."""

    def change(command: ControlCommand) -> ControlCommand:
        if not command.progress_m > 1.0:
            return command
        place = {
            "cross_track_m": 0.0,
            "heading_error_rad": 0.0,
            "progress_m": 1.0 + command.t_ns % SECOND_NS * 1e-8,
        }
        return replace(
            command,
            wheel_angle_rad=0.0,
            throttle=throttle,
            brake=0.0,
            target_speed_mps=nan,
            **place,
        )

    return change


@pytest.mark.parametrize(
    ("profile", "throttle", "way_m"), [("art_published", 0.3, 1.2), ("opencav", 0.1, 3.0)]
)
def test_a_controller_that_says_it_is_on_its_course_is_stopped_where_it_is_not(
    profile: str, throttle: float, way_m: float
) -> None:
    pair = WrongPair(profile, load_course("circle_r5_ccw"), change=straight_on(throttle))
    pair.until(20.0, lambda: pair.stopped)
    assert "corridor_left" in pair.faults
    assert pair.machine.mode is Mode.STANDBY
    corridor_m = load_profile(profile).limits.corridor_m
    assert corridor_m < pair.furthest_m < corridor_m + way_m


def test_a_place_that_jumps_in_its_word_changes_nothing() -> None:
    """The drive, and where it is resumed."""
    jumps = iter(range(1_000_000))
    course = load_course("straight_20m")
    pair = WrongPair(
        "art_vesc",
        course,
        change=lambda c: replace(c, progress_m=100.0 * next(jumps), cross_track_m=-0.5),
    )
    pair.until(5.0)
    assert (pair.machine.mode, pair.faults) == (Mode.AUTO, [])
    for actions in ((OperatorAction.STOP,), (OperatorAction.ARM, OperatorAction.DRIVE)):
        for action in actions:
            pair.machine.on_message(
                OperatorCommand(pair.now_ns, pair.now_ns, action, "a test"), pair.now_ns
            )
        pair.until((pair.now_ns - START_NS) / SECOND_NS + 1.5)
    entry = pair.machine.supervisor.entry
    assert entry.s_m is not None
    assert 3.0 < entry.s_m < pair.world.motion.x_m


def test_a_controller_that_is_finished_at_once_has_not_driven_the_course() -> None:
    pair = WrongPair("art_vesc", load_course("straight_20m"), finished=True)
    pair.until(3.0, lambda: pair.stopped)
    assert pair.faults == ["course_cut_short"]
    assert pair.machine.why.startswith(
        "the controller ends the drive 20.0 m before the end of the course"
    )
    assert not pair.machine.course_driven


@pytest.mark.soak  # make test: the matrix, on an open course
def test_a_lap_is_no_licence_to_drive_for_ever() -> None:
    circle = load_course("circle_r2_ccw")
    pair = WrongPair(
        "art_vesc",
        circle,
        change=lambda c: replace(c, throttle=max(c.throttle, 0.4), brake=0.0),
        finished=False,
    )
    pair.until(30.0, lambda: pair.stopped)
    assert pair.faults[-1] == "course_overrun"
    true = pair.world.motion
    beyond_m = 2.0 * (true.yaw_rad % 6.283185)
    assert 1.0 < beyond_m < 2.5


def test_backward_out_of_the_start() -> None:
    back: Change = lambda c: replace(c, throttle=-0.4, brake=0.0, cross_track_m=0.0, progress_m=3.0)  # noqa: E731
    pair = WrongPair("art_vesc", load_course("straight_20m"), change=back)
    pair.until(12.0, lambda: pair.stopped)
    assert "corridor_left" in pair.faults
    assert -2.6 < pair.world.motion.x_m < -2.0


def to_and_fro(command: ControlCommand) -> ControlCommand:
    """Drive back and forth within the corridor after a metre, and say that all is well."""
    if not command.progress_m > 1.0:
        return command
    sense = 1.0 if command.t_ns // (2 * SECOND_NS) % 2 else -1.0
    return replace(
        command,
        wheel_angle_rad=0.0,
        throttle=0.2 * sense,
        brake=0.0,
        target_speed_mps=1.0,
        cross_track_m=0.0,
    )


def in_a_circle(command: ControlCommand) -> ControlCommand:
    """Drive round and round within the corridor after three metres, and say that all is well."""
    if not command.progress_m > 3.0:
        return command
    return replace(
        command,
        wheel_angle_rad=0.5,
        throttle=0.15,
        brake=0.0,
        target_speed_mps=0.8,
        cross_track_m=0.0,
    )


@pytest.mark.parametrize(
    ("change", "overrides"), [(to_and_fro, ()), (in_a_circle, ("limits.corridor_m=3.0",))]
)
def test_a_controller_that_drives_and_gets_nowhere_is_stopped(
    change: Change, overrides: tuple[str, ...]
) -> None:
    pair = WrongPair("art_vesc", load_course("straight_20m"), *overrides, change=change)
    pair.until(60.0, lambda: pair.stopped)
    assert pair.faults[-1] == "no_progress", pair.machine.why


def now_and_then(command: ControlCommand) -> ControlCommand:
    """Drive fast, and name that speed in one of a hundred steps only."""
    named_mps = 2.0 if command.t_ns // 10_000_000 % 100 == 0 else 0.2
    return replace(command, throttle=0.4, brake=0.0, target_speed_mps=named_mps)


def test_a_speed_that_is_named_now_and_then_is_no_licence_to_drive_at_it() -> None:
    pair = WrongPair("art_vesc", load_course("straight_20m"), change=now_and_then)
    pair.until(9.0, lambda: pair.stopped)
    assert pair.faults[-1] == "faster_than_asked", pair.machine.why


def says_it_turns(command: ControlCommand | None) -> LateralOffset | None:
    """Say all the time that the turn begins now."""
    return (
        None
        if command is None or not isfinite(command.progress_m)
        else LateralOffset(command.progress_m, 0.6, 0.0, 0.0, 1.0)
    )


def says_it_swerves(command: ControlCommand | None) -> LateralSpline | None:
    """Say all the time that the path swerves at once, from where the vehicle is."""
    return (
        None
        if command is None or not isfinite(command.progress_m)
        else LateralSpline(command.progress_m, 0.4, SWERVE)
    )


SWERVE = 0.0, 0.0, 0.0, 0.6, 1.2, 1.2, 1.2


@pytest.mark.parametrize(
    "offset",
    [
        lambda _: LateralOffset(3.0, 2.0, 0.0, 0.0, 1.2),
        says_it_turns,
        lambda _: LateralSpline(3.0, 0.6, SWERVE),
        says_it_swerves,
    ],
)
def test_a_way_round_an_obstacle_that_is_only_said_hides_nothing(
    tmp_path: Path, offset: Callable[[Any], Any]
) -> None:
    place = (6.0, 0.0)
    drive = Drive(tmp_path, post(*place), course=load_course("straight_20m"))
    pipeline = drive.pair.machine.pipeline
    pipeline._controller = Wrong(pipeline._controller, lateral_offset=offset)  # type: ignore[assignment]
    drive.until(9.0, lambda t: place, stop=lambda: drive.pair.machine.supervisor.stopped)
    assert "obstacle_ahead" in drive.codes
    assert drive.nearest_m > 0.2


def test_a_zone_under_the_body_is_not_driven_over() -> None:
    """A speck beside the middle line, narrower than the vehicle: no corner of its body would meet
    it."""
    zone = [(6.0, 0.08), (6.1, 0.08), (6.1, 0.18), (6.0, 0.18)]
    fence = Fence([Polygon(tuple(zone), keep_out=True, name="tree")])
    pair = WrongPair("art_vesc", load_course("straight_20m"), fence=fence)
    outline, nearest_m = load_profile("art_vesc").vehicle.outline, inf

    def gap_m() -> float:
        true = pair.world.motion
        c, s = cos(true.yaw_rad), sin(true.yaw_rad)
        ahead = [c * (x - true.x_m) + s * (y - true.y_m) for x, y in zone]
        return min(ahead) - outline.front_m

    while not pair.stopped and pair.now_ns < START_NS + 9 * SECOND_NS:
        pair.until((pair.now_ns - START_NS) / SECOND_NS + 0.1)
        nearest_m = min(nearest_m, gap_m())
    assert "fence_ahead" in pair.faults
    assert "inside the keep-out zone tree" in pair.machine.why
    assert 0.0 < nearest_m < 0.5
    pair.machine.on_message(
        OperatorCommand(pair.now_ns, pair.now_ns, OperatorAction.ARM, "a test"), pair.now_ns
    )
    pair.until((pair.now_ns - START_NS) / SECOND_NS + 1.0)
    assert pair.machine.mode is Mode.ARMED, "it stands outside"

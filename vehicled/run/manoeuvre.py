"""Evaluation of open-loop programmes and of courses with lanes, from the ground truth."""

from math import hypot, inf, isfinite
from pathlib import Path

import msgspec
from msgspec import Struct

from vehicled.control.programme import ProgrammeParams
from vehicled.control.programme_file import MAX_BYTES, ProgrammeError, read_programme
from vehicled.control.programmes import named
from vehicled.control.speed import drive_authority_mps2, usable_gain
from vehicled.core.errors import SetupError
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    ControlLevel,
    GroundTruth,
    Message,
    Mode,
)
from vehicled.core.vehicle import Vehicle
from vehicled.paths.course import Course
from vehicled.paths.markings import BodyRectangle, LanePassage
from vehicled.profile import load
from vehicled.profile.schema import Profile
from vehicled.run.judge import ErrorStatistics, Judge
from vehicled.run.spec import RunSpec
from vehicled.safety.gate import KINDS

TYPES: tuple[type[Message], ...] = (GroundTruth, ActuatorCommand, ControlCommand)


class Section(Struct, frozen=True):
    """Errors over the manoeuvre itself, without the run-up and the stop. The cross-track error is
    relative to the course."""

    cross_track_mean_m: float
    cross_track_max_m: float
    heading_mean_rad: float
    speed_mean_mps: float
    """Mean true speed, m/s."""


class ProgrammeMotion(Struct, frozen=True):
    """Motion of the vehicle during a programme, in AUTO mode."""

    driven_m: float
    top_speed_mps: float
    peak_lateral_mps2: float
    peak_yaw_rate_radps: float
    turned_rad: float
    cut: dict[str, int]
    """Number of commands limited by the gate, by kind."""


class ManoeuvreJudge:
    """Follows the ground truth in AUTO mode and during the stop after it."""

    def __init__(self, course: Course, vehicle: Vehicle, judge: Judge) -> None:
        """Take the course. ``judge`` of the same course must get every message first: its
        projection is reused."""
        outline = vehicle.outline
        body = BodyRectangle(outline.front_m, outline.rear_m, vehicle.width_m)
        self._markings = course.markings
        self._passing = LanePassage(course.markings, body)
        self._judge = judge
        self._cross_track = ErrorStatistics()
        self._heading = ErrorStatistics()
        self._speed = ErrorStatistics()
        self._driving = False
        self._before: GroundTruth | None = None
        self._driven_m = self._top_mps = self._lateral_mps2 = self._yaw_rate_radps = (
            self._turned_rad
        ) = 0.0
        self._cut: dict[str, int] = {}
        self.gave_up = False
        """True if the controller only commanded a stop; for a programme: if the entry speed was not
        reached."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Process one message."""
        match message:
            case GroundTruth() if self._driving:
                self._follow(message)
            case ActuatorCommand():
                self._driving = message.mode is Mode.AUTO
                if self._driving and message.clipped:
                    for bit, kind in KINDS.items():
                        if message.clipped & bit:
                            self._cut[kind] = self._cut.get(kind, 0) + 1
            case ControlCommand():
                self.gave_up |= self._driving and message.level is ControlLevel.STOP
            case _:
                pass

    @property
    def verdict(self) -> str:
        """Return the verdict on the lanes and boxes of the course; empty if it has none."""
        return self._passing.verdict

    @property
    def passed(self) -> bool | None:
        """True if the course's lanes were kept and its boxes met; None if it has none."""
        return self._passing.passed

    @property
    def section(self) -> Section | None:
        """Return the errors of the manoeuvre; None if the course does not mark one."""
        if not self._markings or not self._cross_track.n:
            return None
        cross = self._cross_track
        return Section(cross.mean, cross.max, self._heading.mean, self._speed.mean)

    @property
    def motion(self) -> ProgrammeMotion:
        """Return the motion during a programme."""
        return ProgrammeMotion(
            self._driven_m,
            self._top_mps,
            self._lateral_mps2,
            self._yaw_rate_radps,
            self._turned_rad,
            dict(sorted(self._cut.items())),
        )

    def _follow(self, truth: GroundTruth) -> None:
        before, self._before = self._before, truth
        if not isfinite(truth.x_m + truth.y_m + truth.yaw_rad + truth.speed_mps):
            return
        if before is not None:
            self._driven_m += hypot(truth.x_m - before.x_m, truth.y_m - before.y_m)
            self._turned_rad += (
                0.5e-9 * (truth.yaw_rate_radps + before.yaw_rate_radps) * (truth.t_ns - before.t_ns)
            )
        self._top_mps = max(self._top_mps, abs(truth.speed_mps))
        self._lateral_mps2 = max(self._lateral_mps2, abs(truth.speed_mps * truth.yaw_rate_radps))
        self._yaw_rate_radps = max(self._yaw_rate_radps, abs(truth.yaw_rate_radps))
        if not self._markings:
            return
        self._passing.update(truth.x_m, truth.y_m, truth.yaw_rad)
        point = self._judge.here
        last_m = inf if self._markings.to_m is None else self._markings.to_m
        if point is not None and self._markings.from_m <= point.s_m <= last_m:
            self._cross_track.add(point.cross_track_m)
            self._heading.add(point.heading_error_rad)
            self._speed.add(truth.speed_mps)


def load_programme(text: str, profile: Profile) -> ProgrammeParams:
    """Return a programme by file or name. Raises :class:`SetupError` with the remedy."""
    try:
        if not (text.lower().endswith((".csv", ".txt")) or "/" in text):
            return named(text, profile.vehicle, profile.limits)
        path = Path(text).expanduser()
        if not path.is_file():
            raise ProgrammeError(
                f"{text}: file not found; give a .csv file or the name of a programme"
            )
        with path.open("rb") as file:
            return read_programme(file.read(MAX_BYTES + 1), text)
    except ProgrammeError as error:
        raise SetupError(f"--programme: {error}") from None
    except OSError as error:
        raise SetupError(f"--programme: cannot read {text} ({error.strerror})") from None


def programme_overrides(spec: RunSpec, overrides: list[str]) -> list[str]:
    """Return profile overrides that make the programme the controller. They contain it completely,
    so the log needs no other file.

    The speed is controlled as by the profile's own controller, unless the profile tunes the
    programme's.
    """
    if not spec.programme:
        return []
    if spec.controller:
        raise SetupError("--programme replaces the controller: leave out --controller")
    profile = load(spec.profile, overrides).profile
    programme = load_programme(spec.programme, profile)
    own = profile.controller.params.get("programme")
    selected = own if own is not None else profile.controller.selected
    speed = getattr(selected, "speed", None)
    values = msgspec.to_builtins(programme)
    values.pop("speed")
    if speed is not None and own is None:
        # Holding a speed may need the full integral term quickly: use half the gain of critical
        # damping for an integrating drive.
        drive = profile.vehicle.drive
        settling = drive_authority_mps2(drive) * usable_gain(speed, drive) ** 2 / 8.0
        wanted = msgspec.to_builtins(speed) | {"integral_limit": 1.0, "i": max(speed.i, settling)}
        values |= {f"speed.{key}": value for key, value in wanted.items() if value is not None}
    defaults = msgspec.to_builtins(ProgrammeParams())
    return ["controller.name=programme"] + [
        f"controller.programme.{key}={msgspec.json.encode(value).decode()}"
        for key, value in values.items()
        if key not in defaults or value != defaults[key]
    ]

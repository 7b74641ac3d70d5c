"""Changes while the daemon runs: another course, another parameter of the controller, a speed
limit. Pure.

What takes time is prepared apart from the loop (:meth:`ControllerBuilder.prepare`) and taken
between two ticks. A replay prepares it again from the recorded message, with the same result.
"""

from collections.abc import Callable
from math import isfinite
from statistics import median
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.control.interface import Controller
from vehicled.core.messages import CourseCommand, ParameterCommand, SpeedCommand, StateEstimate
from vehicled.core.vehicle import Limits, Outline, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import from_bytes
from vehicled.paths.tracking import PathTracker
from vehicled.profile import plugins
from vehicled.safety.entry import lap_from
from vehicled.safety.fence import Fence

CHANGES = (CourseCommand, ParameterCommand, SpeedCommand)
"""Messages that change what the daemon does while it runs."""
NO_BODY = Outline(0.0, 0.0, 0.0)


class ChangeError(Exception):
    """A change is refused; the text gives reason and cure."""


class Parameter(Struct, frozen=True, kw_only=True):
    """Parameter of the controller that may be changed during a run."""

    key: str
    value: float
    profile: float
    """Value in the profile."""
    low: float
    high: float


class Prepared(Struct, frozen=True):
    """New controller, with what it was built from."""

    course: Course
    params: Any
    controller: Controller
    tracker: PathTracker | None = None
    """Tracker of another course, for the monitors."""
    lap_from_m: float | None = None
    """Arc length of the lap that was asked for at which ``course`` begins; None if it is that
    lap."""
    stored: bytes = b""
    """The course to ask for in the place of that lap; empty for none."""


class CourseRules:
    """Conditions under which a course can be driven in a run, besides those of its controller."""

    def __init__(self, vehicle: Vehicle, limits: Limits, datum: Datum, fence: Fence | None) -> None:
        """``datum``: origin of the run's map."""
        self.vehicle = vehicle
        self.limits = limits
        self.datum = datum
        self.fence = fence

    def outside(self, course: Course) -> str:
        """Return where a course takes the vehicle out of the fence; empty if it does not."""
        return outside_fence(course, self.fence, self.vehicle.outline)

    def check(self, course: Course) -> None:
        """Raise :class:`ChangeError` if the course cannot be driven."""
        if course.datum != self.datum:
            raise ChangeError(
                f"{course.name}: the course has another origin than the map of this run: "
                "convert it to that datum"
            )
        if course.reverses and not self.vehicle.drive.top_reverse_speed_mps:
            raise ChangeError(
                f"{course.name}: the course has reverse legs, and this vehicle cannot reverse"
            )
        if outside := self.outside(course):
            raise ChangeError(outside)


class ControllerBuilder:
    """Builds the controller of a run, again for every change."""

    def __init__(
        self,
        build: Callable[[Any, Course], Controller],
        implementation: type[Controller],
        params: Any,
        course: Course,
        vehicle: Vehicle,
        limits: Limits,
        fence: Fence | None,
    ) -> None:
        """``build`` takes the parameters and the course; ``implementation`` is the controller's
        class."""
        self._build = build
        self._implementation = implementation
        self._profile = self.params = params
        self.course = course
        self.vehicle = vehicle
        self.limits = limits
        self.rules = CourseRules(vehicle, limits, course.datum, fence)
        self.outside = self.rules.outside
        self.usual_speed_mps = median(np.abs(course.speed_mps).tolist())
        """Speed of a planned course, m/s: the median of the first one."""

    def parameters(self) -> list[Parameter]:
        """Return the parameters that may be changed, in the order in which the controller declares
        them."""
        return [
            Parameter(
                key=key,
                value=_value(self.params, key),
                profile=_value(self._profile, key),
                low=low,
                high=high,
            )
            for key, (low, high) in self._implementation.CHANGEABLE.items()
        ]

    def prepare(
        self,
        message: CourseCommand | ParameterCommand,
        estimate: StateEstimate | None = None,
        *,
        moving: bool = False,
        checked: Course | None = None,
    ) -> Prepared:
        """Return the controller after a change; it takes time, and another thread may do it. Raises
        :class:`ChangeError`.

        A lap begins where a vehicle at ``estimate`` joins it, and so it is driven in full.
        ``checked``: the course of the message, where another process has read and checked it.
        """
        course, params, tracker, from_m = self.course, self.params, None, None
        if isinstance(message, CourseCommand):
            self.require_course()
            course = checked or self._checked(message)
            from_m = lap_from(course, estimate, self.limits, moving=moving)
            if from_m is not None:
                course = course.beginning_at(from_m)
            tracker = PathTracker(course)
        else:
            params = self._with(message.key, message.value)
        try:
            return Prepared(course, params, self._build(params, course), tracker, from_m)
        except (Exception, SystemExit) as error:
            raise ChangeError(
                f"the controller does not accept it: {plugins.describe(error)}"
            ) from error

    def beginning_at(self, s_m: float) -> Prepared:
        """Return the controller of the present lap with another start."""
        course = self.course.beginning_at(s_m)
        return Prepared(
            course, self.params, self._build(self.params, course), PathTracker(course), s_m
        )

    def fits(self, prepared: Prepared, message: CourseCommand | ParameterCommand) -> bool:
        """Return True if nothing else was changed since the preparation."""
        same_course, same_params = prepared.course is self.course, prepared.params == self.params
        return same_params if isinstance(message, CourseCommand) else same_course

    def take(self, prepared: Prepared) -> None:
        """Use a change from now on."""
        self.course, self.params = prepared.course, prepared.params

    def require_course(self) -> None:
        """Raise :class:`ChangeError` if the controller of this run follows no course."""
        if not self._implementation.follows_course:
            raise ChangeError(
                "the controller of this run follows no course: choose another controller in "
                "the profile"
            )

    def _with(self, key: str, value: float) -> Any:
        ranges = self._implementation.CHANGEABLE
        if key not in ranges:
            known = ", ".join(ranges) or "none"
            raise ChangeError(
                f"{key} cannot be changed while the daemon runs; with this controller these "
                f"can: {known}"
            )
        low, high = ranges[key]
        if not low <= value <= high:
            raise ChangeError(
                f"{key} = {value:g} is out of range: it may lie between {low:g} and {high:g}"
            )
        return _replaced(self.params, key.split("."), value)

    def _checked(self, message: CourseCommand) -> Course:
        try:
            course = from_bytes(message.course)
        except CourseError as error:
            raise ChangeError(str(error)) from None
        self.rules.check(course)
        return course


def outside_fence(course: Course, fence: Fence | None, outline: Outline = NO_BODY) -> str:
    """Return where a course takes a body beyond the fence, and the cure; empty if it does not.
    Without ``outline`` the line itself is tested."""
    if fence is None:
        return ""
    x_m, y_m, yaw_rad = course.x_m, course.y_m, course.yaw_rad
    if course.closed:
        x_m, y_m, yaw_rad = (np.append(column, column[0]) for column in (x_m, y_m, yaw_rad))
    breach = fence.first_breach(outline, x_m, y_m, yaw_rad)
    if breach is None:
        return ""
    k, violated = breach
    place = (
        f"({x_m[k]:.1f}, {y_m[k]:.1f}) "
        f"m{'' if outline == NO_BODY else ', with the body of the vehicle'}"
    )
    return f"course {course.name!r} is {violated} at {place}: change the course or the fence"


def check_limit(limit_mps: float, max_speed_mps: float) -> None:
    """Raise :class:`ChangeError` if a speed limit is not one that may be set."""
    if limit_mps == float("inf"):
        return
    if not (isfinite(limit_mps) and 0.0 < limit_mps <= max_speed_mps):
        raise ChangeError(
            f"{limit_mps:g} m/s cannot be the speed limit: it lies above 0 and at most at "
            f"{max_speed_mps:g} m/s"
        )


def _value(params: Any, key: str) -> float:
    for name in key.split("."):
        params = getattr(params, name)
    return float(params)


def _replaced(params: Any, path: list[str], value: float) -> Any:
    name, *rest = path
    return replace(
        params, **{name: _replaced(getattr(params, name), rest, value) if rest else value}
    )

"""Features by name: the inputs that a policy may have, computed in the daemon, in data sets and in
the environments alike.

All are in the frame of the motion: the vehicle frame, turned by pi on a reverse leg.
"""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cached_property
from math import isfinite, pi
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from vehicled.control.error_state import ErrorState, error_state, reference_ahead
from vehicled.control.path_follower import FollowerState, PathFollower
from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.paths.tracking import PathPoint

MAX_DISTANCE_M = 100.0
MAX_SECTORS = 1080
MAX_WIDTH = 4096


class FeatureError(ValueError):
    """A name of a feature that does not exist; the text says which do."""


class Demanded(NamedTuple):
    """A command as a policy gives it: fractions of full drive, negative for the brake, and of full
    steering, positive left, both in the frame of the motion."""

    throttle: float
    steering: float


def demanded(follower: PathFollower) -> Demanded:
    """Return the command that a follower gave last."""
    direction, demand = follower.tracker.direction, follower.last_demand
    return Demanded(
        direction * demand.throttle - demand.brake,
        direction * follower.vehicle.steering.command(follower.command_rad),
    )


class FeatureInputs:
    """The state of one control step, from which features are computed on demand."""

    def __init__(
        self,
        follower: PathFollower,
        state: FollowerState,
        look_ahead_m: float,
        scan: LaserScan | None,
    ) -> None:
        """``state`` is what the steering law of ``follower`` was called with."""
        self.tracker = follower.tracker
        self.pose = state.ahead
        self.yaw_rate_radps = state.estimate.yaw_rate_radps
        self.target_mps = abs(follower.target(state.here.s_m).speed_mps)
        self.look_ahead_m = look_ahead_m
        self.scan = scan
        self.direction = follower.tracker.direction
        self.speed_mps = self.direction * self.pose.speed_mps
        self._follower = follower

    @property
    def previous(self) -> Demanded:
        """Throttle and steering last commanded."""
        return demanded(self._follower)

    @cached_property
    def projection(self) -> PathPoint:
        """Point of the course nearest to the pose."""
        return self.tracker.locate(self.pose.x_m, self.pose.y_m, self.pose.yaw_rad)

    @cached_property
    def errors(self) -> ErrorState:
        """Published error state e1..e4: the reference is nearest to the point ``look_ahead_m``
        ahead."""
        turned = 0.0 if self.direction > 0 else pi
        pose, yaw = self.pose, self.pose.yaw_rad + turned
        reference = reference_ahead(self.tracker, pose.x_m, pose.y_m, yaw, self.look_ahead_m)
        return error_state(
            pose.x_m,
            pose.y_m,
            yaw,
            self.speed_mps,
            reference.x_m,
            reference.y_m,
            reference.yaw_rad + turned,
            self.target_mps,
        )

    def curvature_per_m(self, ahead_m: float) -> float:
        """Curvature of the course that far ahead of the projection."""
        return (
            self.direction
            * self.tracker.point_at(self.projection.s_m + self.direction * ahead_m).curvature_per_m
        )

    def course_ahead(self, ahead_m: float) -> tuple[float, float]:
        """Offset to the left (m) and relative heading (rad) of the point of the course that far
        beyond the projection."""
        turned = 0.0 if self.direction > 0 else pi
        x, y, yaw, *_ = self.tracker.point_at(self.projection.s_m + self.direction * ahead_m)
        pose = self.pose
        there = error_state(pose.x_m, pose.y_m, pose.yaw_rad + turned, 0.0, x, y, yaw + turned, 0.0)
        return there.left_m, there.heading_rad

    def sectors_m(self, count: int) -> Array:
        """Smallest range (count,) in equal sectors of the scanner's field of view, from right to
        left; the largest range of the scanner where nothing is seen. Infinite before the first
        scan, which makes no finite command: the vehicle brakes."""
        scan = self.scan
        if scan is None:
            return np.full(count, np.inf)
        return sector_ranges(
            np.asarray(scan.ranges_m),
            scan.angle_increment_rad,
            scan.range_min_m,
            scan.range_max_m,
            count,
        )


def sector_ranges(
    ranges_m: Array, increment_rad: float, least_m: float, most_m: float, count: int
) -> Array:
    """Return the smallest range (count,) of each sector, from right to left.

    A ray without a return counts as ``most_m``, one with a return too near as ``least_m``; an
    invalid one is left out.
    """
    seen = np.clip(np.where(np.isnan(ranges_m), most_m, ranges_m), least_m, most_m)
    if increment_rad < 0.0:
        seen = seen[::-1]
    found = np.full(count, most_m)
    np.minimum.at(found, np.arange(len(seen)) * count // max(len(seen), 1), seen)
    return found


class Feature(Struct, frozen=True):
    """A feature: its name, how many numbers it gives, and how they are computed."""

    name: str
    width: int
    value: Callable[[FeatureInputs], float | Array]


SCALARS: dict[str, tuple[str, Callable[[FeatureInputs], float]]] = {
    "reference_ahead_m": ("reference ahead of the vehicle, m (e1)", lambda i: i.errors.ahead_m),
    "reference_left_m": ("reference left of the vehicle, m (e2)", lambda i: i.errors.left_m),
    "reference_heading_rad": (
        "heading of the reference minus that of the vehicle, rad (e3)",
        lambda i: i.errors.heading_rad,
    ),
    "reference_speed_mps": ("target speed minus speed, m/s (e4)", lambda i: i.errors.speed_mps),
    "cross_track_m": (
        "offset from the course, m, positive left of it",
        lambda i: i.direction * i.projection.cross_track_m,
    ),
    "heading_error_rad": (
        "heading of the course minus that of the vehicle, rad",
        lambda i: i.projection.heading_error_rad,
    ),
    "speed_mps": ("speed, m/s", lambda i: i.speed_mps),
    "yaw_rate_radps": (
        "yaw rate, rad/s",
        lambda i: i.yaw_rate_radps if isfinite(i.yaw_rate_radps) else 0.0,
    ),
    "target_speed_mps": ("speed of the speed profile, m/s", lambda i: i.target_mps),
    "previous_throttle": (
        "throttle last commanded, fraction of full drive, negative for the brake",
        lambda i: i.previous.throttle,
    ),
    "previous_steering": (
        "steering last commanded, fraction of full steering, positive left",
        lambda i: i.previous.steering,
    ),
}
"""Meaning and computation of the features of one number."""
PARAMETRISED = {
    "course_left_m[D]": (
        "point of the course D metres beyond the nearest one: left of the vehicle, m"
    ),
    "course_heading_rad[D]": "the same point: heading of the course minus that of the vehicle, rad",
    "curvature_per_m[D]": "the same point: curvature of the course, 1/m, positive left",
    "scan_m[N]": (
        "smallest range in each of N equal sectors of the scanner's view, right to left, m"
    ),
}
"""Meaning of the features with a number in their name."""
PUBLISHED = (
    "reference_ahead_m",
    "reference_left_m",
    "reference_heading_rad",
    "reference_speed_mps",
)
"""Error state of the published controllers."""
PREVIEW = (
    *(f"course_left_m[{ahead}]" for ahead in (0.5, 1.0, 2.0)),
    *(f"course_heading_rad[{ahead}]" for ahead in (0.5, 1.0, 2.0)),
    "reference_speed_mps",
)
"""Three points of the course ahead, for a vehicle of about a metre that drives at about 1 m/s."""
SETS = {"published": PUBLISHED, "preview": PREVIEW}
"""Sets of features by name."""
_AT: dict[str, Callable[[FeatureInputs, float], float]] = {
    "course_left_m": lambda i, ahead_m: i.course_ahead(ahead_m)[0],
    "course_heading_rad": lambda i, ahead_m: i.course_ahead(ahead_m)[1],
    "curvature_per_m": lambda i, ahead_m: i.curvature_per_m(ahead_m),
}
"""Features of a point of the course by name."""
_ARGUMENT = re.compile(r"(course_left_m|course_heading_rad|curvature_per_m|scan_m)\[([0-9.]+)\]")


def feature(name: str) -> Feature:
    """Return the feature of that name. Raises :class:`FeatureError`."""
    if name in SCALARS:
        return Feature(name, 1, SCALARS[name][1])
    if found := _ARGUMENT.fullmatch(name):
        kind, text = found.groups()
        if kind == "scan_m" and text.isdecimal() and 1 <= int(text) <= MAX_SECTORS:
            count = int(text)
            return Feature(name, count, lambda i: i.sectors_m(count))
        if kind in _AT and text.count(".") <= 1 and text != "." and float(text) <= MAX_DISTANCE_M:
            ahead_m, at = float(text), _AT[kind]
            return Feature(name, 1, lambda i: at(i, ahead_m))
        limits = (
            f"a whole number from 1 to {MAX_SECTORS}"
            if kind == "scan_m"
            else f"metres from 0 to {MAX_DISTANCE_M:g}"
        )
        raise FeatureError(f'feature "{name[:64]}": the number in brackets is {limits}')
    known = [*SCALARS, *PARAMETRISED]
    close = get_close_matches(name[:64], known, n=1, cutoff=0.5)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    raise FeatureError(f'unknown feature "{name[:64]}"{hint} (known: {", ".join(known)})')


class FeatureVector:
    """The features of a policy, in order, as one vector."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises :class:`FeatureError` for an unknown name, for none, for one given twice, and for
        too many numbers."""
        if not names:
            raise FeatureError("no features are named")
        if twice := sorted({name for name in names if list(names).count(name) > 1}):
            raise FeatureError(f'feature "{twice[0]}" is named twice')
        self.features = [feature(name) for name in names]
        self.width = sum(each.width for each in self.features)
        if self.width > MAX_WIDTH:
            raise FeatureError(
                f"the features are {self.width} numbers; at most {MAX_WIDTH} are allowed"
            )
        self._steps = [
            (each.value, each.width if each.name.startswith("scan_m") else 0)
            for each in self.features
        ]
        """Computation of each feature, with its width if it is an array."""

    @property
    def columns(self) -> list[str]:
        """Name of every number: that of the feature, with an index behind a dot where it has
        several."""
        return [
            each.name if each.width == 1 else f"{each.name}.{index}"
            for each in self.features
            for index in range(each.width)
        ]

    def fill(self, inputs: FeatureInputs, out: Array) -> None:
        """Write the features into ``out`` (width,)."""
        at = 0
        for value, width in self._steps:
            if width:
                out[at : at + width] = value(inputs)
                at += width
            else:
                # A quarter of the time of a slice.
                out[at] = value(inputs)
                at += 1

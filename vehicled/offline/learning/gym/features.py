"""Features of many vehicles at once, by the names that policies have in the daemon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from sim_backend.scene.batch import sector_minima
from vehicled.control.policy.features import FeatureError, FeatureVector
from vehicled.core.arrays import Array, clipped
from vehicled.offline.learning.gym.errors import GymError
from vehicled.paths.batch_tracking import BatchTracker, CoursePoints, PathPoints


@dataclass
class BatchInputs:
    """State of all vehicles as a policy sees it, arrays (n,)."""

    tracker: BatchTracker
    points: PathPoints
    """Projections of the poses."""
    look_ahead_m: float
    target_at: Callable[[Array], Array]
    """Returns the target speeds at arc lengths."""
    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array
    yaw_rate_radps: Array
    previous: Array
    """Last actions (n, 2): throttle, negative for the brake, and steering."""
    ranges_m: Array
    """Scans (n, rays) within the scanner's range, from the right to the left; invalid rays are the
    largest range."""
    reach_m: float
    """Largest range of the scanner."""

    @cached_property
    def reference(self) -> CoursePoints:
        """Points of the course nearest to those ahead of the vehicles."""
        return self.tracker.references_ahead(self.x_m, self.y_m, self.yaw_rad, self.look_ahead_m)

    @cached_property
    def target_mps(self) -> Array:
        """Target speeds at the projections."""
        return self.target_at(self.points.s_m)


class BatchFeature(NamedTuple):
    """A feature: how many numbers it gives, their bounds, and how they are computed."""

    width: int
    low: float
    high: float
    values: Callable[[BatchInputs], Array]
    """Returns (n,) or (n, width)."""


def _ahead(i: BatchInputs, point: CoursePoints) -> Array:
    c, s = np.cos(i.yaw_rad), np.sin(i.yaw_rad)
    return c * (point.x_m - i.x_m) + s * (point.y_m - i.y_m)


def _left(i: BatchInputs, point: CoursePoints) -> Array:
    c, s = np.cos(i.yaw_rad), np.sin(i.yaw_rad)
    return c * (point.y_m - i.y_m) - s * (point.x_m - i.x_m)


def _heading(i: BatchInputs, point: CoursePoints) -> Array:
    difference = point.yaw_rad - i.yaw_rad
    return difference - 2.0 * np.pi * np.rint(difference / (2.0 * np.pi))


_SCALARS: dict[str, tuple[float, Callable[[BatchInputs], Array]]] = {
    "reference_ahead_m": (1000.0, lambda i: _ahead(i, i.reference)),
    "reference_left_m": (1000.0, lambda i: _left(i, i.reference)),
    "reference_heading_rad": (np.pi, lambda i: _heading(i, i.reference)),
    "reference_speed_mps": (200.0, lambda i: i.target_mps - i.speed_mps),
    "cross_track_m": (1000.0, lambda i: i.points.cross_track_m),
    "heading_error_rad": (np.pi, lambda i: i.points.heading_error_rad),
    "speed_mps": (100.0, lambda i: i.speed_mps),
    "yaw_rate_radps": (100.0, lambda i: i.yaw_rate_radps),
    "target_speed_mps": (100.0, lambda i: i.target_mps),
    "previous_throttle": (1.0, lambda i: i.previous[:, 0]),
    "previous_steering": (1.0, lambda i: i.previous[:, 1]),
}
"""Bound and computation of the features of one number."""
_AHEAD: dict[str, tuple[float, Callable[[BatchInputs, CoursePoints], Array]]] = {
    "course_left_m": (1000.0, _left),
    "course_heading_rad": (np.pi, _heading),
    "curvature_per_m": (100.0, lambda i, point: point.curvature_per_m),
}
"""Bound and computation of the features of a point ahead on the course."""


def _scalar(kind: str, i: BatchInputs) -> Array:
    return _SCALARS[kind][1](i)


def _of_point(kind: str, ahead_m: float, i: BatchInputs) -> Array:
    return _AHEAD[kind][1](i, i.tracker.points_at(i.points.s_m + ahead_m))


def _sectors(width: int, i: BatchInputs) -> Array:
    return sector_minima(i.ranges_m, width, i.reach_m)


def feature(name: str, width: int, reach_m: float) -> BatchFeature:
    """Return a feature of the daemon by name, for a scanner of a largest range. Raises
    :class:`GymError` for another."""
    kind, _, argument = name.removesuffix("]").partition("[")
    # The functions of the tables have no names of their own, by which an environment could be
    # pickled.
    if kind in _SCALARS:
        bound = _SCALARS[kind][0]
        return BatchFeature(1, -bound, bound, partial(_scalar, kind))
    if kind in _AHEAD:
        bound = _AHEAD[kind][0]
        return BatchFeature(1, -bound, bound, partial(_of_point, kind, float(argument)))
    if kind == "scan_m":
        return BatchFeature(width, 0.0, reach_m, partial(_sectors, width))
    raise GymError(f'feature "{name}" is not computed for many vehicles at once; leave it out')


class FeatureVectors:
    """The features of an observation, in order."""

    def __init__(self, names: Sequence[str], reach_m: float) -> None:
        """Raises :class:`GymError` for an unknown name, and for one that is given twice."""
        try:
            known = FeatureVector(names)
        except FeatureError as error:
            raise GymError(str(error)) from None
        self._features = [feature(each.name, each.width, reach_m) for each in known.features]
        self.scans = any(name.startswith("scan_m") for name in names)
        widths = [each.width for each in self._features]
        self.low = np.repeat([each.low for each in self._features], widths).astype(np.float32)
        self.high = np.repeat([each.high for each in self._features], widths).astype(np.float32)

    def observe(self, inputs: BatchInputs) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Return the observations (n, width), within their bounds."""
        columns = [
            np.reshape(each.values(inputs), (len(inputs.x_m), each.width))
            for each in self._features
        ]
        values: np.ndarray[tuple[int, int], np.dtype[np.float32]] = np.concatenate(
            columns, axis=1
        ).astype(np.float32)
        return clipped(values, self.low, self.high)

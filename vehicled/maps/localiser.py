"""Localisation on a known map: each scan is matched where the vehicle should be; without a pose the
whole map is searched.

All work is bounded: one match of at most ``points`` points per step, or a part of a search. Nothing
here reads a clock, so a drive in lockstep and its replay give the same poses.
"""

from collections import deque
from math import hypot, isfinite, remainder, tau
from typing import Annotated, Protocol

import numpy as np
from msgspec import Meta, Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import NAN, EstimatorStatus, LaserScan, MapMatch, MapPose, StateEstimate
from vehicled.core.vehicle import NonNegative, Positive
from vehicled.maps.errors import MapError
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.matching import Match, PlanarPose, align
from vehicled.maps.scans import body_points
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.maps.surface import Index, SurfaceTable

REACH_M = 0.6
FEWEST_POINTS = 25
LOST_SCANS = 8
"""Scans in a row that do not fit after which a standing vehicle searches its place anew."""
STANDING_MPS = 0.05
MOST_SHIFT_M, MOST_SHIFT_RAD = 0.8, 0.35
"""Correction of a prediction beyond which a match is none."""
RIVAL_FIT = 0.93
"""Fit of another place, over that of the best one, from which the two cannot be distinguished."""
SAME_M, SAME_RAD = 0.3, 0.2
RETRY_NS = 1_000_000_000
WORST_M, WORST_RAD = 100.0, 3.0
"""Standard deviations of what a scan does not determine."""


class PastMotion(Protocol):
    """Poses of the vehicle in the last second."""

    def add(self, estimate: StateEstimate) -> None:
        """Remember the motion of an estimate."""
        ...

    def poses(self, age_s: Array, estimate: StateEstimate) -> tuple[Array, Array, Array]:
        """Return x, y and yaw (n,) at times before an estimate."""
        ...


class LocaliserParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Localisation on a map by a planar scanner."""

    map: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Map as ROS map_server has it (.yaml); its path counts from the profile."""
    scanner: str = ""
    """Device whose scans are matched; empty: the first one with ``LaserScan``."""
    points: Annotated[int, Meta(ge=40, le=2000)] = 180
    """Most points of a scan that are matched: the bound of the time for one."""
    rate_hz: Annotated[float, Meta(gt=0.0, le=200.0)] = 40.0
    """Most scans per second that are matched."""
    least_fit: Annotated[float, Meta(ge=0.1, le=1.0)] = 0.5
    """Fraction of the points that must lie on the map's surfaces."""
    sigma_m: Positive = 0.01
    """Least standard deviation of a position: errors of map and scanner that all points share."""
    sigma_rad: Positive = 0.003
    """Least standard deviation of a yaw."""
    search_points: Annotated[int, Meta(ge=1000, le=1_000_000)] = 15_000
    """Points that a search of the whole map evaluates in one step."""
    start: list[float] = []
    """x, y (m) and yaw (rad) on the map where the vehicle starts; empty: anywhere, and the whole
    map is searched."""
    start_reach_m: NonNegative = 1.0
    """Largest distance from there at which it may stand, m."""

    def __post_init__(self) -> None:
        if len(self.start) not in (0, 3):
            raise ValueError("start has three numbers: x, y and yaw")


class MapLocaliser:
    """Poses on a map, one for each scan. Call :meth:`on_scan` for every scan and :meth:`step` once
    per fusion."""

    def __init__(
        self,
        params: LocaliserParams,
        grid: OccupancyGrid,
        motion: PastMotion,
        mount_m: tuple[float, float] | None = None,
    ) -> None:
        """``mount_m``: place of the scanner whose scans count; None for any. Raises
        :class:`MapError`."""
        self._params = params
        self._motion = motion
        self._mount_m = mount_m
        x, y, outward = grid.surfaces_m()
        cell_m = max(grid.resolution_m, 0.05)
        try:
            self._surface = SurfaceTable(x, y, cell_m, max(REACH_M, 2.0 * cell_m), outward)
            self._pyramid = Pyramid(self._surface.elements, max(2.0 * grid.resolution_m, 0.1))
        except ValueError as error:
            raise MapError(
                f"{params.map}: is too large to be searched ({error}): cut the map or make its "
                "cells larger"
            ) from None
        if len(self._surface.elements) < FEWEST_POINTS:
            raise MapError(
                f"{params.map}: has hardly any occupied cells: nothing can be found on it; "
                "look at its thresholds and at negate"
            )
        self._pending: LaserScan | None = None
        self._matched_ns = 0
        self._period_ns = round(1e9 / params.rate_hz)
        self._search: PoseSearch | None = None
        self._searched: tuple[Array, Array] = (np.zeros(0), np.zeros(0))
        self._candidates: deque[PlanarPose] | None = None
        """Places to be compared once a search is over; None before."""
        self._found: list[Match] = []
        self._retry_ns = 0
        self._narrow = bool(params.start)
        """True while the stated start has not been tried."""
        self._unfit = 0

    def on_scan(self, scan: LaserScan) -> None:
        """Take a scan; of several before a step the newest counts."""
        if self._mount_m is None or (scan.x_m, scan.y_m) == self._mount_m:
            self._pending = scan

    def step(self, now_ns: int, estimate: StateEstimate | None) -> MapPose | None:
        """Match the newest scan, or go on searching. Return the result, if there is one. Never
        raises."""
        tracked = (
            estimate is not None
            and estimate.status is not EstimatorStatus.UNINITIALISED
            and _is_finite(estimate)
        )
        if tracked:
            assert estimate is not None
            self._motion.add(estimate)
            stands = abs(estimate.speed_mps) < STANDING_MPS
            if self._unfit < LOST_SCANS or not stands:
                self._search = None
                return self._track(now_ns, estimate)
        return self._search_place(now_ns, estimate if tracked else None)

    # ---------------------------------------------------------------- tracking

    def _track(self, now_ns: int, estimate: StateEstimate) -> MapPose | None:
        scan = self._pending
        if scan is None or scan.t_ns - self._matched_ns < self._period_ns // 2:
            return None
        self._pending, self._matched_ns = None, scan.t_ns
        x, y, row = self._points(scan)
        t_ns = middle_ns(scan)
        if len(x) < FEWEST_POINTS:
            return self._lost(t_ns, scan.t_rx_ns, MapMatch.BLIND, 0.0)
        age_s = (
            np.concatenate(
                (
                    [estimate.t_ns - t_ns],
                    estimate.t_ns - scan.t_ns - row * scan.time_increment_s * 1e9,
                )
            )
            * 1e-9
        )
        px, py, pyaw = self._motion.poses(age_s, estimate)
        guess = PlanarPose(float(px[0]), float(py[0]), float(pyaw[0]))
        x, y = _seen_from(guess, px[1:], py[1:], pyaw[1:], x, y)
        match = align(self._surface, x, y, guess)
        shift_m = hypot(match.pose.x_m - guess.x_m, match.pose.y_m - guess.y_m)
        shift_rad = remainder(match.pose.yaw_rad - guess.yaw_rad, tau)
        if (
            match.fit < self._params.least_fit
            or shift_m > MOST_SHIFT_M
            or abs(shift_rad) > MOST_SHIFT_RAD
        ):
            self._unfit += 1
            return self._lost(t_ns, scan.t_rx_ns, MapMatch.UNFIT, match.fit)
        self._unfit = 0
        return self._pose(t_ns, scan.t_rx_ns, match)

    def _points(self, scan: LaserScan) -> tuple[Array, Array, Index]:
        x, y, row = body_points(scan)
        if len(x) > self._params.points:
            pick = np.linspace(0, len(x) - 1, self._params.points).astype(np.intp)
            x, y, row = x[pick], y[pick], row[pick]
        return x, y, row

    def _pose(self, t_ns: int, t_rx_ns: int, match: Match) -> MapPose:
        p = self._params
        covariance = np.linalg.inv(
            match.information + np.diag((WORST_M**-2, WORST_M**-2, WORST_RAD**-2))
        )
        covariance += np.diag((p.sigma_m**2, p.sigma_m**2, p.sigma_rad**2))
        return MapPose(
            t_ns,
            t_rx_ns,
            *match.pose,
            tuple(covariance.ravel().tolist()),
            match.fit,
            MapMatch.MATCHED,
        )

    @staticmethod
    def _lost(t_ns: int, t_rx_ns: int, outcome: MapMatch, fit: float) -> MapPose:
        return MapPose(t_ns, t_rx_ns, NAN, NAN, NAN, fit=fit, outcome=outcome)

    # ---------------------------------------------------------------- search

    def _search_place(self, now_ns: int, estimate: StateEstimate | None) -> MapPose | None:
        """Search the vehicle's place, which must stand meanwhile or move slowly."""
        if self._search is None:
            scan = self._pending
            if scan is None or now_ns < self._retry_ns:
                return None
            x, y, _ = self._points(scan)
            self._pending = None
            if len(x) < FEWEST_POINTS:
                self._retry_ns = now_ns + RETRY_NS
                return self._lost(middle_ns(scan), scan.t_rx_ns, MapMatch.BLIND, 0.0)
            window = (
                (PlanarPose(*self._params.start), self._params.start_reach_m, 0.6)
                if self._narrow
                else None
            )
            self._search = PoseSearch(self._pyramid, x, y, window, min(self._params.least_fit, 0.5))
            self._searched, self._candidates, self._found = (x, y), None, []
            return None
        if self._candidates is None:
            if self._search.step(self._params.search_points):
                best = self._search.best
                self._candidates = deque([] if best is None else [best, *self._search.rivals()])
            return None
        if self._candidates:
            self._found.append(
                align(self._surface, *self._searched, self._candidates.popleft(), coarse_m=0.15)
            )
            return None
        return self._settle(now_ns)

    def _settle(self, now_ns: int) -> MapPose | None:
        """Compare the places that were found, and check the best one with a new scan."""
        scan = self._pending
        if scan is None:
            return None
        self._pending = None
        t_ns = middle_ns(scan)
        found = sorted(self._found, key=lambda match: -match.fit)
        self._search = None
        best = found[0] if found else None
        if best is not None and best.fit >= self._params.least_fit:
            if any(
                match.fit > RIVAL_FIT * best.fit and _apart(match.pose, best.pose)
                for match in found[1:]
            ):
                self._retry_ns = now_ns + RETRY_NS
                return self._lost(t_ns, scan.t_rx_ns, MapMatch.AMBIGUOUS, best.fit)
            x, y, _ = self._points(scan)
            match = align(self._surface, x, y, best.pose)
            if match.fit >= self._params.least_fit:
                self._unfit = 0
                return self._pose(t_ns, scan.t_rx_ns, match)
        if self._narrow:
            # It does not stand where the profile says: search everywhere.
            self._narrow = False
        else:
            self._retry_ns = now_ns + RETRY_NS
        return self._lost(t_ns, scan.t_rx_ns, MapMatch.UNFIT, 0.0 if best is None else best.fit)


def _apart(a: PlanarPose, b: PlanarPose) -> bool:
    return (
        hypot(a.x_m - b.x_m, a.y_m - b.y_m) > SAME_M
        or abs(remainder(a.yaw_rad - b.yaw_rad, tau)) > SAME_RAD
    )


def middle_ns(scan: LaserScan) -> int:
    """Return the time in the middle of a sweep."""
    return scan.t_ns + round(0.5e9 * scan.time_increment_s * max(len(scan.ranges_m) - 1, 0))


def _seen_from(
    here: PlanarPose, px: Array, py: Array, pyaw: Array, x_m: Array, y_m: Array
) -> tuple[Array, Array]:
    """Return points that were seen from poses (n,), each from its own, as they are seen from one
    pose."""
    c, s = np.cos(pyaw), np.sin(pyaw)
    dx, dy = px + c * x_m - s * y_m - here.x_m, py + s * x_m + c * y_m - here.y_m
    c0, s0 = np.cos(here.yaw_rad), np.sin(here.yaw_rad)
    return c0 * dx + s0 * dy, c0 * dy - s0 * dx


def _is_finite(estimate: StateEstimate) -> bool:
    return isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps)

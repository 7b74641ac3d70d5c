"""Paths on a map beside a library: time of one plan, its length, and how many are found.

    python bench/map_paths.py [--goals 20] [--limit-s 4] [--json]

Starts and goals with headings are drawn from the lane of the scene race_track, at most 20 m of the
lap apart, for the vehicle of f1tenth_lidar. The library is OMPL (pip install ompl) with RRTConnect
on Reeds-Shepp states, the same radius, map and check of the body, and its own simplification
within the limit; it draws samples, so its paths differ from run to run. Times are those of the
processor.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vehicled.core import shipped
from vehicled.maps.map_file import read_map
from vehicled.maps.matching import PlanarPose
from vehicled.paths.catalog import load_course
from vehicled.paths.errors import CourseError
from vehicled.paths.shortest import WIDER
from vehicled.profile import load_profile
from vehicled.run.terminal import print_table
from vehicled.runtime.planner.free_space import FreeSpace
from vehicled.runtime.planner.hybrid_astar import HybridAStar, Manoeuvring
from vehicled.runtime.planner.on_map import LEAST_LEG_M

SCENE, PROFILE = "race_track", "f1tenth_lidar"
APART_M, MAP_M = 20.0, 27.0
Planner = Callable[[PlanarPose, PlanarPose], float | None]
"""Returns the length of a path; None if none was found."""


def requests(space: FreeSpace, count: int) -> list[tuple[PlanarPose, PlanarPose]]:
    """Return starts and goals that are free."""
    lap, rng = load_course(f"{SCENE}/lap"), np.random.default_rng(1)

    def pose(s_m: float) -> PlanarPose:
        k = int(np.searchsorted(lap.s_m, s_m % lap.length_m)) % len(lap.x_m)
        yaw = lap.yaw_rad[k] + rng.uniform(-0.5, 0.5) + np.pi * rng.integers(2)
        dx, dy = rng.uniform(-0.4, 0.4, 2)
        return space.seen(float(lap.x_m[k] + dx), float(lap.y_m[k] + dy), float(yaw))

    found: list[tuple[PlanarPose, PlanarPose]] = []
    while len(found) < count:
        at = rng.uniform(0.0, lap.length_m)
        pair = pose(at), pose(at + rng.uniform(2.0, APART_M) * rng.choice((-1, 1)))
        room = space.room_m(*np.array(pair).T)
        if float(room.min()) > space.margin_m:
            found.append(pair)
    return found


def ours(space: FreeSpace, ways: Manoeuvring) -> Planner:
    """Return hybrid A*."""

    def plan(start: PlanarPose, goal: PlanarPose) -> float | None:
        try:
            path = HybridAStar(space, start, (*goal[:2], goal.yaw_rad), ways).path()
        except CourseError:
            return None
        return sum(abs(part.length_m) for part in path)

    return plan


def library(space: FreeSpace, ways: Manoeuvring, limit_s: float) -> Planner | None:
    """Return the planner of OMPL; None if it is not installed."""
    try:
        from ompl import base, geometric, util
    except ImportError:
        return None
    util.setLogLevel(util.LogLevel.LOG_NONE)
    bounds = base.RealVectorBounds(2)
    bounds.setLow(0.0)
    bounds.setHigh(MAP_M)

    def free(state: Any) -> bool:
        pose = np.array([[state.getX(), state.getY(), state.getYaw()]]).T
        return float(space.room_m(*pose)[0]) >= space.margin_m

    def plan(start: PlanarPose, goal: PlanarPose) -> float | None:
        states = base.ReedsSheppStateSpace(ways.radius_m)
        states.setBounds(bounds)
        setup = geometric.SimpleSetup(states)
        setup.setStateValidityChecker(free)
        ends = []
        for pose in (start, goal):
            state = states.allocState()
            state.setX(pose.x_m)
            state.setY(pose.y_m)
            state.setYaw(pose.yaw_rad)
            ends.append(state)
        setup.setStartAndGoalStates(*ends)
        setup.getSpaceInformation().setStateValidityCheckingResolution(0.002)
        setup.setPlanner(geometric.RRTConnect(setup.getSpaceInformation()))
        if not setup.solve(limit_s) or not setup.haveExactSolutionPath():
            return None
        setup.simplifySolution(0.25 * limit_s)
        return float(setup.getSolutionPath().length())

    return plan


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--goals", type=int, default=20)
    parser.add_argument("--limit-s", type=float, default=4.0, help="longest search of the library")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    profile = load_profile(PROFILE)
    vehicle = profile.vehicle
    space = FreeSpace(
        read_map(shipped.folder("profiles") / "scenes" / f"{SCENE}.yaml"), vehicle, profile.limits
    )
    leg_m = max(vehicle.wheelbase_m, LEAST_LEG_M)
    ways = Manoeuvring(WIDER * vehicle.min_turn_radius_m, reverse=True, leg_m=leg_m)
    planners = {"ours": ours(space, ways), "ompl": library(space, ways, arguments.limit_s)}
    asked = requests(space, arguments.goals)
    found: dict[str, dict[str, float]] = {}
    lengths: dict[str, list[float | None]] = {}
    for name, plan in planners.items():
        if plan is None:
            continue
        times = []
        lengths[name] = []
        for start, goal in asked:
            began = time.process_time()
            lengths[name].append(plan(start, goal))
            times.append(1e3 * (time.process_time() - began))
        found[name] = {
            "median_ms": float(np.median(times)),
            "largest_ms": max(times),
            "found": sum(length is not None for length in lengths[name]) / len(asked),
        }
    rows_of_all = zip(*lengths.values(), strict=True)
    both = [row for row in rows_of_all if None not in row]
    for name, column in zip(found, zip(*both, strict=True), strict=True):
        found[name]["mean_length_m"] = float(np.mean(column))
    if arguments.json:
        print(json.dumps(found))
    else:
        rows = [[name, *(f"{value:.3g}" for value in row.values())] for name, row in found.items()]
        print_table("paths on a map", ["planner", *next(iter(found.values()))], rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

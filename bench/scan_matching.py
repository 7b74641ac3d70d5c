"""Scan matching beside a library: time of one scan, its error, and the search of a whole map.

    python bench/scan_matching.py [--scans 200] [--rounds 5] [--json]

Scans are those of a simulated scanner (1081 rays, noise of 10 mm) at random places of the scene
race_track, and the map is its grid. The guess is off by up to 0.15 m and 0.06 rad, as after a
second without a match. Matched are 180 points, as the daemon does. The library is small_gicp with
one thread, whose points are given three heights, because points of one plane have no normals in it.
Times are medians of the rounds; the library's is given over ours of the same round. Install it
beside: pip install small- gicp.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from sim_backend.scene.rays import Rays
from sim_backend.scene.reading import load_scene
from vehicled.core import shipped
from vehicled.core.arrays import Array
from vehicled.maps.localiser import LocaliserParams
from vehicled.maps.map_file import read_map
from vehicled.maps.matching import PlanarPose, align
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.maps.surface import SurfaceTable
from vehicled.paths.catalog import load_course
from vehicled.run.terminal import print_table

SCENE = "race_track"
RAYS, REACH_M, SIGMA_M = 1081, 10.0, 0.01
HEIGHTS_M = (-0.3, 0.0, 0.3)
Matcher = Callable[[Array, Array, PlanarPose], PlanarPose]


def scans(count: int) -> list[tuple[PlanarPose, Array, Array]]:
    """Return poses near the middle of the track, with the points that a scanner there sees."""
    scene, course = load_scene(SCENE, load_course("straight_20m")), load_course(f"{SCENE}/lap")
    rng = np.random.default_rng(1)
    found = []
    bearing = np.linspace(-2.356, 2.356, RAYS)
    for k in rng.integers(0, len(course.x_m), count):
        pose = PlanarPose(
            float(course.x_m[k]) + rng.uniform(-0.3, 0.3),
            float(course.y_m[k]) + rng.uniform(-0.3, 0.3),
            course.yaw_rad[k] + rng.uniform(-0.3, 0.3),
        )
        rays = Rays(
            np.full(RAYS, pose.x_m),
            np.full(RAYS, pose.y_m),
            np.asarray(pose.yaw_rad + bearing, np.float64),
        )
        ranges = scene.cast(rays, np.zeros(RAYS), REACH_M).range_m + rng.normal(0.0, SIGMA_M, RAYS)
        met = np.isfinite(ranges)
        pick = np.flatnonzero(met)[
            np.linspace(0, met.sum() - 1, LocaliserParams(map="-").points).astype(int)
        ]
        found.append(
            (pose, ranges[pick] * np.cos(bearing[pick]), ranges[pick] * np.sin(bearing[pick]))
        )
    return found


def library(x_m: Array, y_m: Array) -> Matcher | None:
    """Return the matcher of small_gicp; None if it is not installed."""
    try:
        import small_gicp
    except ImportError:
        return None
    solid = np.concatenate([np.stack((x_m, y_m, np.full(len(x_m), z)), axis=1) for z in HEIGHTS_M])
    target, tree = small_gicp.preprocess_points(
        solid, downsampling_resolution=0.05, num_neighbors=20, num_threads=1
    )

    def match(px: Array, py: Array, guess: PlanarPose) -> PlanarPose:
        source = small_gicp.PointCloud(
            np.concatenate([np.stack((px, py, np.full(len(px), z)), axis=1) for z in HEIGHTS_M])
        )
        start = np.eye(4)
        c, s = np.cos(guess.yaw_rad), np.sin(guess.yaw_rad)
        start[:2] = ((c, -s, 0.0, guess.x_m), (s, c, 0.0, guess.y_m))
        found = small_gicp.align(
            target, source, tree, init_T_target_source=start, registration_type="PLANE_ICP",
            max_correspondence_distance=0.6, num_threads=1, max_iterations=20,
        ).T_target_source  # fmt: skip
        return PlanarPose(
            float(found[0, 3]), float(found[1, 3]), float(np.arctan2(found[1, 0], found[0, 0]))
        )

    return match


def measured(
    match: Matcher, cases: list[tuple[PlanarPose, Array, Array]], guesses: list[PlanarPose]
) -> dict[str, float]:
    """Return the time of one scan and the errors across and along the track."""
    began = time.process_time()
    poses = [match(x, y, guess) for (_, x, y), guess in zip(cases, guesses)]
    used = time.process_time() - began
    off = np.array([true.to(pose) for (true, _, _), pose in zip(cases, poses)])
    return {
        "ms": 1e3 * used / len(cases),
        "rms_m": float(np.sqrt(np.mean(off[:, 0] ** 2 + off[:, 1] ** 2))),
        "median_m": float(np.median(np.hypot(off[:, 0], off[:, 1]))),
        "rms_rad": float(np.sqrt(np.mean(off[:, 2] ** 2))),
        "lost": float((np.hypot(off[:, 0], off[:, 1]) > 0.2).mean()),
    }


def searched(pyramid: Pyramid, cases: list[tuple[PlanarPose, Array, Array]]) -> dict[str, float]:
    """Return steps and time of searches of the whole map."""
    budget = LocaliserParams(map="-").search_points
    steps, times, here = [], [], 0
    for true, x, y in cases:
        search, count, over = PoseSearch(pyramid, x, y), 0, False
        while not over:
            began = time.process_time()
            over = search.step(budget)
            times.append(1e3 * (time.process_time() - began))
            count += 1
        steps.append(count)
        found = [] if search.best is None else [search.best, *search.rivals()]
        here += any(np.hypot(p.x_m - true.x_m, p.y_m - true.y_m) < 0.3 for p in found)
    return {
        "steps": float(median(steps)), "most_steps": float(max(steps)),
        "step_ms": float(median(times)), "p99_step_ms": float(np.quantile(times, 0.99)),
        "found": here / len(cases),
    }  # fmt: skip


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scans", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    grid = read_map(shipped.folder("profiles") / "scenes" / f"{SCENE}.yaml")
    x, y, outward = grid.surfaces_m()
    surface = SurfaceTable(x, y, max(grid.resolution_m, 0.05), 0.6, outward)
    cases = scans(arguments.scans)
    rng = np.random.default_rng(2)
    guesses = [
        true.then(PlanarPose(*rng.uniform((-0.15, -0.15, -0.06), (0.15, 0.15, 0.06)).tolist()))
        for true, _, _ in cases
    ]
    matchers: dict[str, Matcher | None] = {
        "ours": lambda px, py, guess: align(surface, px, py, guess).pose,
        "small_gicp": library(surface.elements.x_m, surface.elements.y_m),
    }
    results: dict[str, Any] = {}
    rounds: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for name, match in matchers.items():
            if match is not None:
                results[name] = measured(match, cases, guesses)
                rounds.setdefault(name, []).append(results[name]["ms"])
    for name in rounds:
        results[name]["ms"] = median(rounds[name])
        results[name]["over_ours"] = median(a / b for a, b in zip(rounds[name], rounds["ours"]))
    results["ours"]["period_share"] = results["ours"]["ms"] / 25.0
    results["search"] = searched(Pyramid(surface.elements), cases[: max(arguments.scans // 10, 1)])
    if arguments.json:
        print(json.dumps(results))
        return 0
    matched = [(name, each) for name, each in results.items() if name != "search"]
    rows = [
        [
            name,
            f"{r['over_ours']:.2f}",
            f"{r['ms']:.2f}",
            *(f"{r[key]:.4f}" for key in ("median_m", "rms_m", "rms_rad", "lost")),
        ]
        for name, r in matched
    ]
    print_table(
        "one scan",
        ["matcher", "time, ours = 1", "ms", "median m", "RMS m", "RMS rad", "lost"],
        rows,
    )
    print_table(
        "search of the whole map",
        list(results["search"]),
        [[f"{value:.3g}" for value in results["search"].values()]],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

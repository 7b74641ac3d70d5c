"""Drives for the tests of mapping: a vehicle with a scanner on a path in a hall, with the odometry
that wheels and a gyro give."""

from itertools import pairwise
from math import cos, remainder, sin, tau
from pathlib import Path

import numpy as np

from sim_backend.scene.rays import Rays
from sim_backend.scene.reading import load_scene
from sim_backend.scene.scene import Scene
from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.maps.matching import PlanarPose
from vehicled.offline.mapping.drive import MappingDrive, Odometry
from vehicled.offline.recordings.recording import RecordedMotion, unwrapped
from vehicled.paths.catalog import load_course

HALL = """
[[wall]]
points = [[-12, -11], [12, -11], [12, 6], [10.5, 6], [10.5, 11], [-12, 11]]
closed = true
[[body]]
points = [[3.0, 3.4], [5.2, 3.0], [5.6, 4.8], [3.2, 5.2]]
[[body]]
points = [[-5.2, -5.0], [-3.2, -4.6], [-4.0, -3.2]]
[[body]]
points = [[-8, 3], [-4, 3], [-4, 4], [-8, 4]]
[[body]]
points = [[4, -7], [7, -7], [7, -4.5], [4, -4.5]]
[[circle]]
at = [-3, 7]
radius_m = 0.3
[[wall]]
points = [[-6, 11], [-6, 8.8]]
"""
"""A hall around the course ``figure_eight``, whose corners all differ."""
CORRIDOR = (
    "[[wall]]\npoints = [[-100, -1.5], [100, -1.5]]\n[[wall]]\npoints = [[-100, 1.5], [100, 1.5]]\n"
)
TWINS = "[[wall]]\npoints = [[-8, -4], [8, -4], [8, 4], [-8, 4]]\nclosed = true\n"
"""A room that looks the same when it is turned by half a turn."""
SECOND = 1_000_000_000
SCANNER_M = 0.27
RAYS = 271
STEP_RAD = 2.0 * 2.356 / (RAYS - 1)


def scene_of(text: str, folder: Path) -> Scene:
    """Return the scene of a text."""
    (folder / "scene.toml").write_text(text)
    return load_scene(str(folder / "scene.toml"), load_course("figure_eight"))


def scan_at(
    scene: Scene,
    pose: PlanarPose,
    t_ns: int = SECOND,
    seed: int = 0,
    sigma_m: float = 0.01,
    most_m: float = 20.0,
) -> LaserScan:
    """Return what a scanner at the front of a standing vehicle measures."""
    bearings: Array = -2.356 + STEP_RAD * np.arange(RAYS, dtype=np.float64)
    x, y = (
        np.full(RAYS, v)
        for v in (
            pose.x_m + SCANNER_M * cos(pose.yaw_rad),
            pose.y_m + SCANNER_M * sin(pose.yaw_rad),
        )
    )
    found = scene.cast(Rays(x, y, pose.yaw_rad + bearings), np.zeros(RAYS), most_m).range_m
    ranges = found + np.random.default_rng((seed, t_ns)).normal(0.0, sigma_m, RAYS)
    return LaserScan(
        t_ns,
        t_ns,
        -2.356,
        STEP_RAD,
        0.0,
        0.1,
        0.05,
        most_m + 1.0,
        SCANNER_M,
        0.0,
        tuple(ranges.tolist()),
    )


def drive(
    scene: Scene,
    length_m: float = 53.0,
    step_m: float = 0.15,
    seed: int = 0,
    bias: float = 0.02,
    course_name: str = "figure_eight",
    most_m: float = 20.0,
) -> MappingDrive:
    """Return a drive along a course. Its odometry turns by ``bias`` rad per metre too much and
    measures 2 % too far."""
    course = load_course(course_name)
    rng = np.random.default_rng(seed)
    s = np.arange(0.0, length_m, step_m)
    at = np.searchsorted(course.s_m, s % course.length_m).clip(max=len(course.s_m) - 1)
    poses = [
        PlanarPose(float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])) for k in at
    ]
    own = [PlanarPose(0.0, 0.0, 0.0)]
    for a, b in pairwise(poses):
        x, y, yaw = a.to(b)
        own.append(
            own[-1].then(
                PlanarPose(
                    1.02 * x + rng.normal(0, 0.002), y, yaw + bias * step_m + rng.normal(0, 0.002)
                )
            )
        )
    t_ns = SECOND + (s / 1.0 * SECOND).astype(np.int64)
    yaws = unwrapped(np.array([p.yaw_rad for p in poses]))
    own_x, own_y, own_yaw = np.array(own).T
    return MappingDrive(
        name="hall",
        scans=[scan_at(scene, p, int(t), seed, most_m=most_m) for p, t in zip(poses, t_ns)],
        odometry=Odometry(t_ns, own_x, own_y, unwrapped(own_yaw)),
        truth=RecordedMotion(t_ns, np.array([p.x_m for p in poses]),
            np.array([p.y_m for p in poses]), yaws, np.ones(len(s))),
    )  # fmt: skip


def off(a: PlanarPose, b: PlanarPose) -> tuple[float, float]:
    """Return distance and difference of yaw."""
    return float(np.hypot(a.x_m - b.x_m, a.y_m - b.y_m)), abs(remainder(a.yaw_rad - b.yaw_rad, tau))

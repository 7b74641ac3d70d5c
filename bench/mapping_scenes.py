"""Map scenes by hand and drive on the maps: error of the map and of the place on it, by scene,
direction, start and seed.

    python bench/mapping_scenes.py [--only race_track] [--drives 6] [--seeds 1] [--no-lap] [--json]

A person drives the small vehicle with a scanner once around and a fifth further, by stick, in
lockstep and with the bytes of its devices; nothing measures its place. The map is built of that log
alone. Then the vehicle drives the recorded way on the map by itself, located by scanner, wheels and
gyro. The error of the map is that of its keyframes after a rigid alignment; the error of the lap is
not aligned.

The library beside it is KISS-ICP, lidar odometry without loop closures, at the same keyframes: it
has every fourth scan (10 Hz), freed of the motion during its sweep, and voxels of 5 cm. Install it
beside: pip install kiss-icp. Its fair neighbour is the scan matching alone, before loops close.
"""

import argparse
import json
import sys
import tempfile
from math import atan2, cos, hypot, remainder, sin, tau
from pathlib import Path
from typing import Any

import numpy as np

from sim_backend.connection import START_NS
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    Fault,
    Mode,
    OperatorAction,
    OperatorCommand,
    StateEstimate,
    TeleopCommand,
)
from vehicled.maps.localiser import middle_ns
from vehicled.offline.mapping.build import Mapped, build, rigid, trajectory_error
from vehicled.offline.mapping.command import course_text
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.front_end import keyframes_of
from vehicled.offline.mapping.reading import READ, of_messages
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.formats import course_from_bytes
from vehicled.profile import load_profile
from vehicled.run.pair import Pair
from vehicled.run.terminal import print_table

PROFILE = "f1tenth_lidar"
DRIVES = (
    ("race_track", "lap", 1, 0.0),
    ("eight_track", "eight", 1, 0.3),
    ("city_block@0.3", "round", 1, 0.0),
    ("town@0.3", "ring", 1, 0.0),
    ("parking_lot@0.5", "ring", 1, 0.0),
    ("forest_path@0.4", "round", 1, 0.0),
    ("race_track", "lap", -1, 0.0),
    ("race_track", "lap", 1, 0.35),
    ("race_track", "lap", -1, 0.65),
    ("eight_track", "eight", -1, 0.1),
    ("city_block@0.3", "round", -1, 0.5),
    ("town@0.3", "ring", -1, 0.4),
)
"""Scene, its course, direction, and part of the course at which the drive begins."""
SPEED_MPS, AHEAD_M, SWERVE_M, FURTHER = 1.2, 0.9, 0.12, 1.2
LAP_S = 75.0
LIBRARY_STRIDE, LIBRARY_VOXEL_M = 4, 0.05
SECOND = 1_000_000_000


class Drive:
    """One drive in lockstep, and what it recorded."""

    def __init__(self, overrides: list[str], course: Course, seed: int, **given: Any) -> None:
        self.profile = load_profile(PROFILE, overrides)
        self.messages: list[Any] = []
        self.off_m: list[float] = []
        self.codes: list[str] = []
        self._pair: Pair | None = None
        self._pair = Pair(self.profile, course, [], self, seed, **given)

    @property
    def pair(self) -> Pair:
        """Daemon and simulator."""
        assert self._pair is not None
        return self._pair

    @property
    def now_s(self) -> float:
        """Time since the start."""
        return (self.pair.now_ns - START_NS) / SECOND

    def record(self, message: Any, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, READ):
            self.messages.append(message)
        if isinstance(message, Fault) and message.active:
            self.codes.append(message.code)
        if (
            isinstance(message, StateEstimate)
            and self._pair is not None
            and self.pair.machine.mode is Mode.AUTO
        ):
            true = self.pair.world.motion
            self.off_m.append(hypot(message.x_m - true.x_m, message.y_m - true.y_m))

    def step(self) -> None:
        """Go on to the next instant."""
        self.pair.grant()
        self.pair.reply()


def way_of(scene: str, name: str, direction: int, fraction: float) -> Course:
    """Return the closed course of a scene from another start, or the other way round."""
    given = load_course(f"{scene}/{name}")
    points = np.stack((given.x_m, given.y_m), axis=1)
    points = np.roll(points, -int(fraction * len(points)), axis=0)[::direction]
    return course_from_waypoints("by_hand", points[:, 0], points[:, 1], closed=True)


def by_hand(drive: Drive, course: Course, seed: int) -> None:
    """Drive as a person who sees where the vehicle is, and does not steer steadily."""
    rng = np.random.default_rng(seed)
    phase, period_s = rng.uniform(0.0, tau), rng.uniform(4.0, 9.0)
    asked, sequence, due_ns, at, driven_m = 0, 0, 0, 0, 0.0
    ahead = max(round(AHEAD_M * len(course.x_m) / course.length_m), 2)
    while driven_m < FURTHER * course.length_m:
        drive.step()
        now_ns, machine, true = drive.pair.now_ns, drive.pair.machine, drive.pair.world.motion
        if now_ns < due_ns:
            continue
        due_ns = now_ns + SECOND // 30
        driven_m += abs(true.speed_mps) / 30.0
        if asked < 2 and drive.now_s > 1.0 + 0.3 * asked:
            action = (OperatorAction.ARM, OperatorAction.TELEOP)[asked]
            machine.on_message(OperatorCommand(now_ns, now_ns, action, "a person"), now_ns)
            asked += 1
        near = (at + np.arange(40)) % len(course.x_m)
        at = int(near[np.hypot(course.x_m[near] - true.x_m, course.y_m[near] - true.y_m).argmin()])
        goal = (at + ahead) % len(course.x_m)
        aside = SWERVE_M * sin(tau * drive.now_s / period_s + phase)
        yaw = float(course.yaw_rad[goal])
        dx = course.x_m[goal] - aside * sin(yaw) - true.x_m
        dy = course.y_m[goal] + aside * np.cos(yaw) - true.y_m
        bearing = remainder(atan2(dy, dx) - true.yaw_rad, tau)
        wheel = atan2(2.0 * drive.profile.vehicle.wheelbase_m * sin(bearing), hypot(dx, dy))
        drives, lock = machine.mode is Mode.TELEOP, drive.profile.vehicle.steering.max_wheel_rad
        steering = min(max(wheel / lock, -1.0), 1.0) if drives else 0.0
        throttle = min(max(0.1 * (SPEED_MPS - true.speed_mps), 0.0), 0.15) if drives else 0.0
        sequence += 1
        machine.on_message(
            TeleopCommand(now_ns, now_ns, steering, throttle, 0.0, True, "a person", sequence),
            now_ns,
        )


def aligned_error(made: MappingDrive, t_ns: list[int], poses: Array) -> float:
    """Return the RMS error of poses (n, 2 or more) at times after a rigid alignment."""
    assert made.truth is not None
    found = made.truth.at(np.array(t_ns, dtype=np.int64))
    true = np.stack((found.x_m, found.y_m), axis=1)
    known = np.isfinite(true).all(axis=1)
    own = poses[:, :2]
    shift, yaw = rigid(own[known], true[known])
    off = own @ np.array(((cos(yaw), -sin(yaw)), (sin(yaw), cos(yaw)))).T + shift - true
    return float(np.sqrt(np.mean((off[known] ** 2).sum(axis=1))))


def error_of_library(made: MappingDrive, t_ns: list[int]) -> float | None:
    """Return the error of KISS-ICP at these times; None if it is not installed."""
    try:
        from kiss_icp.config import KISSConfig
        from kiss_icp.kiss_icp import KissICP
    except ImportError:
        return None
    config = KISSConfig()
    config.mapping.voxel_size = LIBRARY_VOXEL_M
    config.data.max_range = max(scan.range_max_m for scan in made.scans)
    config.data.deskew = False
    config.registration.max_num_threads = 1
    odometry, rows = KissICP(config), []
    for scan in made.scans[::LIBRARY_STRIDE]:
        x, y = made.points(scan)
        odometry.register_frame(np.stack((x, y, np.zeros(len(x))), axis=1), np.zeros(0))
        rows.append((middle_ns(scan), *odometry.last_pose[:2, 3]))
    table = np.array(rows)
    at = [np.interp(t_ns, table[:, 0], table[:, axis]) for axis in (1, 2)]
    return aligned_error(made, t_ns, np.stack(at, axis=1))


def measured(
    scene: str, name: str, direction: int, fraction: float, seed: int, *, with_lap: bool
) -> dict[str, Any]:
    """Record a drive, build its map and drive on it."""
    course = way_of(scene, name, direction, fraction)
    hand = Drive([f"sim.scene={scene}"], course, seed, scenario=False, start="stand")
    by_hand(hand, course, seed)
    made = of_messages(scene, hand.messages, hand.profile, course.datum)
    mapped = build(made, 0.05)
    error = trajectory_error(made, mapped)
    assert error is not None
    keyframes = keyframes_of(made)
    beside = error_of_library(made, [k.t_ns for k in keyframes])
    alone = aligned_error(made, [k.t_ns for k in keyframes], np.array([k.pose for k in keyframes]))
    found = {
        "scene": scene, "direction": direction, "start": fraction, "seed": seed,
        "path_m": mapped.frames[-1].path_m, "closures": mapped.closures, "refused": mapped.refused,
        "not_closed": len(mapped.quality.open_revisits), "bent": mapped.quality.bent,
        "expected_m": mapped.quality.sigma_m, "map_rms_m": error.rms_m,
        "map_largest_m": error.largest_m, "alone_rms_m": alone, "library_rms_m": beside,
    }  # fmt: skip
    return found | lap_on(made, mapped, scene, seed) if with_lap else found


def lap_on(made: MappingDrive, mapped: Mapped, scene: str, seed: int) -> dict[str, Any]:
    """Drive the recorded way on its map."""
    with tempfile.TemporaryDirectory() as folder:
        line = Path(folder) / "line.csv"
        line.write_text(course_text(made, mapped, "line"))
        way = course_from_bytes(line.read_bytes(), line.name)
    start = f"[{way.x_m[0]}, {way.y_m[0]}, {way.yaw_rad[0]}]"
    lap = Drive(
        [f"sim.scene={scene}", "localisation.map=map.yaml", f"localisation.start={start}"],
        way,
        seed + 1000,
        grid=mapped.grid,
    )
    while lap.now_s < LAP_S:
        lap.step()
    off = np.array(lap.off_m)
    return {
        "lap_rms_m": float(np.sqrt(np.mean(off**2))), "lap_largest_m": float(off.max()),
        "lap_faults": sorted(set(lap.codes)),
    }  # fmt: skip


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="scenes whose name holds this")
    parser.add_argument(
        "--drives", type=int, default=len(DRIVES), help="kinds of drives; the first 6: one a scene"
    )
    parser.add_argument("--seeds", type=int, default=1, help="drives of each kind")
    parser.add_argument("--no-lap", action="store_true", help="do not drive on the maps")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, each drive under its number and seed"
    )
    arguments = parser.parse_args()
    drives: dict[str, dict[str, Any]] = {}
    for number, (scene, name, direction, fraction) in enumerate(DRIVES[: arguments.drives], 1):
        for seed in range(1, arguments.seeds + 1):
            if arguments.only in scene:
                drives[f"{number}_{seed}"] = found = measured(
                    scene, name, direction, fraction, number + 100 * seed,
                    with_lap=not arguments.no_lap,
                )  # fmt: skip
                print(json.dumps(found), file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps(drives))
    elif drives:
        rows = [
            [str(round(v, 3)) if isinstance(v, float) else str(v) for v in found.values()]
            for found in drives.values()
        ]
        print_table("maps by hand, and laps on them", list(next(iter(drives.values()))), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

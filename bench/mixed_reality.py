"""A virtual car cuts in before a real vehicle, or crosses its lane: the table of
docs/mixed_reality.md.

    python -m bench.mixed_reality [--drives 100] [--first 0] [--jobs 2] [--out FILE] [--json]
    python -m bench.mixed_reality --keep FOLDER    # scene and command of one drive of each class
    python -m bench.mixed_reality --first 1 --plot FILE    # picture of one drive

Every number is driven twice: a car cuts in, in three ways by turns, and a car crosses. Results go
to ``--out`` line by line; a second call with the same file goes on where the first one ended.

The seed of a drive draws the sensor noise, where the vehicle is when the virtual car departs, and
how fast the car is. A drive must end in a stop by row 23 of the failsafe matrix, unless the car was
never nearer than a stop and the gap. Judged by the true places of vehicle and car:

- reaction: longest time for which the car is in the lane, nearer than a stop and the gap kept to
  obstacles, until the first actuator frame with a stop or until the vehicle is slow enough.
  The limit is ``react_ms`` of the rule;
- gap: smallest distance from the vehicle to the car until the vehicle stands;
- too near: the car came into the lane nearer than a stop takes, so that nothing could keep the gap.

Exit status 1 if a drive reacted later than its rule allows or not at all, or touched a car that was
not too near.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, to_builtins

from bench.false_alarms import read_results, run_jobs
from sim_backend.contact.geometry import Obstacles
from sim_backend.fleet.bodies import corners
from sim_backend.scene.moving import Departing
from sim_backend.scene.scene import Scene, ScenePose
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    GroundTruth,
    Message,
    Mode,
    Reaction,
    VirtualScan,
)
from vehicled.daemon.machine import Machine
from vehicled.offline.mixed.world import VirtualScene
from vehicled.paths.tracking import PathTracker
from vehicled.run.judge import Judge
from vehicled.run.mixed_frames import ViewPoint
from vehicled.run.output import new_figure, save_figure
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec
from vehicled.safety.matrix import MATRIX
from vehicled.safety.monitors.lane import CourseLane, LaneBody

PROFILE = "art_vesc"
LONGEST_S = 25.0
OUTLINE_STEP_M = 0.02
COURSE = """
[[course]]
name = "straight"
points = [[0, 0], [45, 0]]
speed_mps = 2.0
"""
CAR = "outline = [[0.3, 0.2], [-0.3, 0.2], [-0.3, -0.2], [0.3, -0.2]]\n"
CROSSES = "crosses from the side"
CLASSES = {
    "cuts in and drives on more slowly": (
        "places = [[14, -1.2], [16, -0.5], [17, 0], [30, 0]]\n"
        "start_m = 8.5\nstart_spread_m = 1.0\nspeed_mps = 1.0\nspeed_spread_mps = 0.3\n"
    ),
    "cuts in and stops": (
        "places = [[14, -1.2], [16, -0.5], [17, 0]]\n"
        "start_m = 9.0\nstart_spread_m = 1.0\nspeed_mps = 1.2\nspeed_spread_mps = 0.3\n"
    ),
    "cuts in close and stops": (
        "places = [[14, -1.2], [15.2, -0.4], [16, 0], [17, 0]]\n"
        "start_m = 10.0\nstart_spread_m = 0.8\nspeed_mps = 1.5\nspeed_spread_mps = 0.3\n"
    ),
    CROSSES: (
        "places = [[17, -4], [17, 4]]\n"
        "start_m = 10.0\nstart_spread_m = 1.5\nspeed_mps = 1.2\nspeed_spread_mps = 0.3\n"
    ),
}
"""Virtual cars by class."""
CUT_INS = [kind for kind in CLASSES if kind != CROSSES]
RULES = {rule.code: rule for row in MATRIX if row.number == 23 for rule in row.rules}


class Outcome(Struct, frozen=True):
    """Result of one drive."""

    number: int
    kind: str
    rule: str
    """Rule of row 23 that stopped it; empty if none did."""
    reaction_ms: float
    limit_ms: float
    gap_m: float
    speed_mps: float
    """True speed when the stop was asked for."""
    room_m: float
    """Free distance at the instant from which the reaction counts."""

    too_near: bool
    """True if a stop took more room than that."""

    @property
    def touched(self) -> bool:
        """True if the vehicle touched the car before it stood."""
        return self.gap_m <= 0.0

    @property
    def needed(self) -> bool:
        """True if the car was ever nearer than a stop and the gap."""
        return isfinite(self.room_m)

    @property
    def late(self) -> bool:
        """True if a stop was needed and came later than its rule allows, or not at all."""
        return self.needed and not self.reaction_ms <= self.limit_ms

    @property
    def failed(self) -> bool:
        """True if the vehicle did not stop in time before the car."""
        return self.late or (self.touched and not self.too_near)


def scene_of(kind: str) -> str:
    """Return the text of the scene of a class."""
    head = f'title = "a virtual car {kind}"\n{COURSE}\n[[moving]]\nname = "the car"\n'
    return head + CLASSES[kind] + CAR


def spec_of(number: int, scene: Path) -> RunSpec:
    """Return the run of a drive."""
    return RunSpec(
        profile=PROFILE,
        course=f"{scene}/straight",
        seed=number + 1,
        duration_s=LONGEST_S,
        log_folder=None,
        mixed=str(scene),
        mixed_seed=number + 1,
    )


def command_of(number: int, scene: Path) -> str:
    """Return the command that repeats a drive."""
    words = ["vehicled", "sim", "--profile", PROFILE, "--course", f"{scene}/straight"]
    words += ["--seed", str(number + 1), "--mixed", str(scene), "--mixed-seed", str(number + 1)]
    return shlex.join([*words, "--duration", f"{LONGEST_S:g}"])


class Watched:
    """Messages and distances of a drive, by which it is judged."""

    def __init__(self) -> None:
        self.truth: list[GroundTruth] = []
        self.commands: list[ActuatorCommand] = []
        self.scans: list[VirtualScan] = []
        self.faults: list[Fault] = []
        self.stops_m: list[tuple[int, float]] = []
        """Time, and the distance nearer than which an obstacle stops the vehicle now."""
        self.free_m: list[tuple[int, float]] = []
        """Time, and free distance as the obstacle monitor measures it."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Keep a message."""
        kept: dict[type[Message], list[Any]] = {
            GroundTruth: self.truth, ActuatorCommand: self.commands, VirtualScan: self.scans,
            Fault: self.faults,
        }  # fmt: skip
        kept[type(message)].append(message)

    def turn(self, machine: Machine, judge: Judge, now_ns: int) -> None:
        """Keep how much room a stop takes now."""
        monitors = machine.pipeline.monitors
        inputs = machine.supervisor.inputs
        if isfinite(monitors.obstacle.free_m):
            self.free_m.append((now_ns, monitors.obstacle.free_m))
        if inputs is not None and machine.mode is Mode.AUTO:
            room_m = monitors.stopping.distance_m + inputs.limits.obstacle_gap_m
            self.stops_m.append((now_ns, room_m))


class Drive(NamedTuple):
    """A finished drive, and its virtual car."""

    number: int
    kind: str
    plan: Plan
    watched: Watched
    world: VirtualScene
    car: Departing


def kinds_of(number: int) -> tuple[str, str]:
    """Return the classes that a number drives: one that cuts in, and the one that crosses."""
    return CUT_INS[number % len(CUT_INS)], CROSSES


def drive(kind: str, number: int) -> Drive:
    """Drive one drive, and let its virtual car depart when it did."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Path(folder) / "scene.toml"
        scene.write_text(scene_of(kind))
        spec = spec_of(number, scene)
        plan, watched = Plan.of(spec), Watched()
        kinds = (GroundTruth, ActuatorCommand, VirtualScan, Fault)
        simulate(
            plan,
            SimulationSpec(in_process=True),
            listeners=[(kinds, watched.record)],
            progress=watched.turn,
        )
        outline = plan.loaded.profile.vehicle.outline
        world = VirtualScene(spec.mixed, plan.course, spec.mixed_seed, outline)
    for scan in watched.scans:
        pose = scan.vehicle_x_m, scan.vehicle_y_m, scan.vehicle_yaw_rad
        world.scan(ViewPoint(scan.t_ns, *pose, scan.progress_m))
    ((_, car),) = world.scene.moving
    assert isinstance(car, Departing)
    return Drive(number, kind, plan, watched, world, car)


def driven(job: tuple[str, int]) -> Outcome:
    """Drive and judge the drive of a class and a number."""
    return judged(drive(*job))


def judged(done: Drive) -> Outcome:
    """Judge a drive by the true poses of the vehicle and of the car."""
    plan, watched, world, car = done.plan, done.watched, done.world, done.car
    vehicle, limits = plan.loaded.profile.vehicle, plan.loaded.profile.limits
    body, lane = LaneBody(vehicle, limits.obstacle_side_m), CourseLane(plan.course)
    outline = _outline(car.outline_m)
    obstacles = Obstacles(Scene(moving=[car]), vehicle.outline)
    tracker = PathTracker(plan.course)
    stop_at_ns = next(
        (c.t_ns for c in watched.commands if c.reaction >= Reaction.CONTROLLED_STOP), None
    )
    rule = next((f.code for f in watched.faults if f.active and _stops(f.code)), "")
    times = np.array([t_ns for t_ns, _ in watched.stops_m], dtype=np.int64)
    longest_ns = 0
    blocked_ns, gap_m, room_m, speed_mps, too_near = None, inf, nan, nan, False
    for truth in watched.truth:
        at = tracker.update(truth.x_m, truth.y_m, truth.yaw_rad, truth.speed_mps)
        time_s = world.time_s(truth.t_ns)
        pose = ScenePose(truth.x_m, truth.y_m, truth.yaw_rad)
        if abs(truth.speed_mps) > 0.01 or stop_at_ns is None or truth.t_ns <= stop_at_ns:
            gap_m = min(gap_m, obstacles.gap(pose, time_s))
        if stop_at_ns is not None and truth.t_ns <= stop_at_ns:
            speed_mps = truth.speed_mps
        if not len(times) or not times[0] <= truth.t_ns <= times[-1]:
            continue
        x, y, yaw, _, _ = car.state(time_s)
        c, s = np.cos(yaw), np.sin(yaw)
        ahead, left = outline.T
        stations = lane.ahead(at.s_m, at.cross_track_m, 20.0)
        free_m = body.free_m(stations, x + c * ahead - s * left, y + s * ahead + c * left)
        needed_m = watched.stops_m[int(np.searchsorted(times, truth.t_ns, "right")) - 1][1]
        if free_m > needed_m:
            longest_ns = max(longest_ns, 0 if blocked_ns is None else truth.t_ns - blocked_ns)
            blocked_ns = None
        elif blocked_ns is None:
            blocked_ns, room_m = truth.t_ns, free_m
            too_near = too_near or free_m < needed_m - limits.obstacle_gap_m
    reaction_ms = nan
    if stop_at_ns is not None:
        # A reading that errs to the safe side stops the vehicle before it has to.
        last_ns = 0 if blocked_ns is None else stop_at_ns - blocked_ns
        reaction_ms = max(last_ns, longest_ns, 0) * 1e-6
    limit_ms = RULES[rule].react_ms if rule else nan
    return Outcome(
        done.number, done.kind, rule, reaction_ms, limit_ms, gap_m, speed_mps, room_m, too_near
    )


def plot(done: Drive, file: str) -> None:
    """Plot places at four instants, speed and free distance of a drive."""
    watched, world = done.watched, done.world
    figure = new_figure(10, 5.0)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.2, 1))
    area = figure.add_subplot(grid[0, :])
    speeds, rooms = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
    start_ns = watched.truth[0].t_ns
    times_s = np.array([(each.t_ns - start_ns) * 1e-9 for each in watched.truth])
    stop_s = next(
        (c.t_ns - start_ns) * 1e-9
        for c in watched.commands
        if c.reaction >= Reaction.CONTROLLED_STOP
    )
    departed_s = world.time_s(start_ns) + done.car.departed_s
    area.axhline(0.0, color="#d0d0d0", lw=3.0, zorder=0)
    outline = np.array(corners(done.plan.loaded.profile.vehicle.outline))
    instants = [departed_s, departed_s + 1.0, departed_s + 2.0, times_s[-1]]
    for number, at_s in enumerate(instants):
        truth = watched.truth[int(np.searchsorted(times_s, at_s).clip(max=len(times_s) - 1))]
        x, y, yaw, _, _ = done.car.state(world.time_s(truth.t_ns))
        shade = 0.25 + 0.25 * number
        for colour, label, ring, aside, pose in (
            ("#0072b2", "real vehicle", outline, 14, (truth.x_m, truth.y_m, truth.yaw_rad)),
            ("#d55e00", "virtual car", np.array(done.car.outline_m), -26, (x, y, yaw)),
        ):
            px, py, turn = pose
            c, s = np.cos(turn), np.sin(turn)
            xs, ys = px + c * ring[:, 0] - s * ring[:, 1], py + s * ring[:, 0] + c * ring[:, 1]
            area.fill(xs, ys, color=colour, alpha=shade, label=label if number == 3 else None)
            area.annotate(
                f"{at_s:.1f} s", (px, py), xytext=(0, aside), textcoords="offset points",
                ha="center", fontsize=7,
            )  # fmt: skip
    area.set(xlabel="east (m)", ylabel="north (m)")
    area.set_aspect("equal", adjustable="datalim")
    figure.legend(
        *area.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )
    speeds.plot(times_s, [each.speed_mps for each in watched.truth], color="#0072b2")
    speeds.set(xlabel="time (s)", ylabel="speed (m/s)")
    rooms.plot(
        [(t_ns - start_ns) * 1e-9 for t_ns, _ in watched.free_m],
        [free_m for _, free_m in watched.free_m],
        color="#d55e00",
        label="free distance",
    )
    rooms.plot(
        [(t_ns - start_ns) * 1e-9 for t_ns, _ in watched.stops_m],
        [room_m for _, room_m in watched.stops_m],
        color="#606060",
        ls="--",
        label="stop and gap",
    )
    rooms.set(xlabel="time (s)", ylabel="distance (m)")
    rooms.legend(frameon=False)
    for axes in (speeds, rooms):
        axes.axvline(stop_s, color="#b13c00", lw=0.8, ls=":")
        axes.set_xlim(departed_s - 2.0, times_s[-1])
        axes.set_ylim(bottom=0.0)
    save_figure(figure, file)


def _stops(code: str) -> bool:
    return code in RULES and RULES[code].reaction >= Reaction.CONTROLLED_STOP


def _outline(corners: Sequence[tuple[float, float]]) -> Array:
    """Return points (n, 2) along an outline."""
    ring = np.array([*corners, corners[0]])
    parts = []
    for start, end in pairwise(ring):
        count = max(2, round(float(np.hypot(*(end - start))) / OUTLINE_STEP_M))
        parts.append(start + np.linspace(0.0, 1.0, count, endpoint=False)[:, None] * (end - start))
    return np.concatenate(parts)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of the drives of each class, and of all."""
    found = {}
    for kind, kinds in (*((each, [each]) for each in CLASSES), ("all that cut in", CUT_INS)):
        chosen = [each for each in outcomes if each.kind in kinds]
        reactions = sorted(each.reaction_ms for each in chosen if each.rule)
        found[kind] = {
            "drives": len(chosen),
            "needed": sum(each.needed for each in chosen),
            "stopped": sum(bool(each.rule) for each in chosen),
            "late": sum(each.late for each in chosen),
            "reaction_p50_ms": float(np.median(reactions)) if reactions else nan,
            "reaction_max_ms": max(reactions, default=nan),
            "too_near": sum(each.too_near for each in chosen),
            "contacts": sum(each.touched and not each.too_near for each in chosen),
            "contacts_too_near": sum(each.touched and each.too_near for each in chosen),
            "gap_m": min((each.gap_m for each in chosen if not each.too_near), default=nan),
            "speed_mps": max((each.speed_mps for each in chosen), default=nan),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Drive and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--drives", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first drive")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="file of results, to go on with")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="only write the scenes, and print the commands"
    )
    parser.add_argument("--plot", metavar="FILE", help="plot the first number that cuts in")
    options = parser.parse_args(arguments)
    if options.plot:
        plot(drive(kinds_of(options.first)[0], options.first), options.plot)
        return 0
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        for number, kind in enumerate(CLASSES):
            scene = options.keep.resolve() / f"{kind.replace(' ', '_')}.toml"
            scene.write_text(scene_of(kind))
            print(command_of(number, scene))
        return 0
    done: list[Outcome] = read_results(options.out, Outcome)
    numbers = range(options.first, options.first + options.drives)
    known = {(each.kind, each.number) for each in done}
    jobs = [
        job
        for number in numbers
        for kind in kinds_of(number)
        if (job := (kind, number)) not in known
    ]
    done += run_jobs(driven, jobs, options.jobs, options.out)
    outcomes = sorted(done, key=lambda each: (each.kind == CROSSES, each.number))
    if options.json:
        print(json.dumps({"classes": summary(outcomes), "drives": to_builtins(outcomes)}, indent=1))
    else:
        for each in outcomes:
            print(f"{'FAILED' if each.failed else 'stopped':8}{each}")
        for kind, figures in summary(outcomes).items():
            print(kind, figures)
    return 1 if any(each.failed for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

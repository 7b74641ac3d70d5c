"""Drives past posts, walls and moving bodies that were drawn at random: the table of
docs/measurements.md.

    python -m bench.avoid [--drives 1000] [--first 0] [--controller avoid] [--jobs 1] [--out FILE]
    python -m bench.avoid --first 17 --drives 1 --keep FOLDER  # keep scene and command of a drive
    python -m bench.avoid --markdown --out FILE

A drive is drawn from its number: the vehicle, a random course, its speed, and a scene of one class:
posts on and beside the course, gates about as wide as the vehicle, slaloms, bodies that cross or
come the other way, U-shaped traps, posts behind a corner, posts that leave room at the edge of the
corridor only. ``bench.passage`` says from the true scene whether a passage of one and a half widths
exists. Each drive ends in one of

- passed: behind everything and back on the course, without contact and without a stop;
- stopped: by a rule of the failsafe matrix, whose code is the reason; "late" if it drives still
  when its time is over;
- struck: a moving body, which keeps to its schedule, drove into the vehicle that stood;
- contact, corridor left: a defect in every case.

Results go to ``--out`` line by line, and a second call with the same file goes on where the first
one ended. Each drive that is not passed although it could be, and each contact, is printed with the
command that repeats it. Exit status 1 when there was a contact, the corridor was left, or fewer
than 95 % of what could be passed was.
"""

import argparse
import math
import os
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from random import Random

import numpy as np
from msgspec import Struct

from bench.false_alarms import read_results, run_jobs, share
from bench.passage import PassageSearch, nearest_gap_m, solid_of
from sim_backend.connection import START_NS
from sim_backend.profile_check import resolved_profile
from vehicled.core import shipped
from vehicled.core.messages import Fault, Message, Mode, ObstacleContact, Reaction
from vehicled.core.vehicle import STANDSTILL_MPS, Outline
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import load
from vehicled.profile.schema import Profile
from vehicled.run.judge import truth_tracker
from vehicled.run.plan import course_of, grid_of
from vehicled.run.terminal import Progress

SECOND_NS = 1_000_000_000
PROFILES = (
    "f1tenth",
    "art_vesc",
    "roboracer",
    "hunter_se",
    "f1tenth_lidar",
    "husky_a200",
    "opencav",
    "nigel",
    "rzr",
)
"""One of each kind that can carry a scanner."""
MAPPED, MAP_SPEED_MPS = "race_track", 2.0
WIDTHS = 1.5
"""Width of the passage that must be passed, in widths of the vehicle."""
PASS_SHARE = 0.95
SIDE_SHARE, GAP_SHARE = 0.125, 0.5
"""Clearances of the obstacle stop, beside and ahead, over width and length of the vehicle; never
more than those of the profile."""
BACK_SHARE = 0.15
"""Part of the corridor within which a vehicle is back on its course."""
MOST_COURSES = 40
"""Number of random courses of which one must not come past itself."""
TRUTH_NS = 50_000_000


class Drive(Struct, frozen=True):
    """A drive, in the arguments of ``vehicled sim`` and the text of its scene."""

    number: int
    kind: str
    profile: str
    course: str
    overrides: tuple[str, ...]
    scene: str
    last_m: float
    """Arc length of the last thing in the way."""
    end_m: float
    """Arc length at which the vehicle must be back on its course."""
    speed_mps: float
    limit_s: float

    def command(self, scene: Path, controller: str) -> str:
        """Return the command that repeats the drive."""
        words = [
            "vehicled",
            "sim",
            "--profile",
            self.profile,
            "--course",
            self.course,
            "--controller",
            controller,
        ]
        words += ["--scene", str(scene), "--seed", str(self.number + 1)]
        words += [word for text in self.overrides for word in ("--set", text)]
        return shlex.join(words)

    def again(self, controller: str) -> str:
        """Return the call of this script that repeats the drive."""
        return f"python -m bench.avoid --first {self.number} --drives 1 --controller {controller}"


class Outcome(Struct, frozen=True):
    """Result of a drive."""

    number: int
    kind: str
    profile: str
    controller: str
    passage: str
    """Kind of passage that exists, see :class:`bench.passage.Passage`; empty if none does."""
    end: str
    """passed, stopped, late, struck, contact, corridor or raised."""
    reason: str
    """Code of the rule that stopped the vehicle, or other cause."""
    nearest_m: float
    """Least true distance to anything, m."""
    driven_s: float
    cpu_s: float


# --------------------------------------------------------------------------------------- the scenes


class Sketch:
    """Scene that is being drawn along a course, in widths of the vehicle."""

    def __init__(self, random: Random, profile: Profile) -> None:
        self.random, self.text = random, list[str]()
        vehicle = profile.vehicle
        self.width_m = vehicle.width_m
        self.length_m = vehicle.length_m
        self.corridor_m = profile.limits.corridor_m
        self.room_m = max(4.0 * vehicle.length_m, 3.0 * vehicle.min_turn_radius_m)
        """Distance in which the vehicle can be beside the course."""
        self.last_m = 0.0

    def post(self, s_m: float, left_m: float, radius_m: float | None = None) -> None:
        """Draw a post."""
        radius_m = self.random.uniform(0.12, 0.4) * self.width_m if radius_m is None else radius_m
        self.text.append(f"[[circle]]\nat = {_place(s_m, left_m)}\nradius_m = {radius_m:.3f}\n")
        self.last_m = max(self.last_m, s_m)

    def wall(self, *points: tuple[float, float]) -> None:
        """Draw a wall through points."""
        self.text.append(f"[[wall]]\npoints = [{', '.join(_place(*point) for point in points)}]\n")
        self.last_m = max(self.last_m, max(s_m for s_m, _ in points))

    def moving(self, start_s: float, speed_mps: float, *points: tuple[float, float]) -> None:
        """Draw a round body that moves."""
        places = ", ".join(_place(*point) for point in points)
        radius_m = self.random.uniform(0.25, 0.5) * self.width_m
        self.text.append(
            f"[[moving]]\nplaces = [{places}]\nstart_s = {start_s:.2f}\nspeed_mps = "
            f"{speed_mps:.3f}\nradius_m = {radius_m:.3f}\n"
        )
        self.last_m = max(self.last_m, min(s_m for s_m, _ in points))

    def gate(self, s_m: float, middle_m: float, gap_m: float) -> None:
        """Draw two walls across the corridor with a gap between them."""
        edge_m = self.corridor_m + 2.0 * self.width_m
        self.wall((s_m, -edge_m), (s_m, middle_m - 0.5 * gap_m))
        self.wall((s_m, middle_m + 0.5 * gap_m), (s_m, edge_m))


def _place(s_m: float, left_m: float) -> str:
    return f"{{ s_m = {s_m:.3f}, left_m = {left_m:.3f} }}"


def _posts(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw posts on the course, one after the other."""
    s_m, random = first_m, sketch.random
    for _ in range(random.randint(2, 4)):
        sketch.post(s_m, random.uniform(-1.0, 1.0) * min(sketch.width_m, 0.4 * sketch.corridor_m))
        s_m += sketch.room_m * random.uniform(0.8, 2.0)


def _beside(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw posts beside the course, some of them in the way."""
    s_m, random = first_m, sketch.random
    for _ in range(random.randint(4, 8)):
        sketch.post(
            s_m,
            random.choice((-1.0, 1.0))
            * random.uniform(0.6 * sketch.width_m, sketch.corridor_m + sketch.width_m),
        )
        s_m += sketch.room_m * random.uniform(0.15, 0.9)


def _gate(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw gates about one and a half widths wide."""
    random = sketch.random
    for k in range(random.randint(1, 2)):
        middle_m = random.uniform(-0.6, 0.6) * sketch.corridor_m
        sketch.gate(
            first_m + 2.0 * k * sketch.room_m, middle_m, random.uniform(1.3, 2.2) * sketch.width_m
        )


def _slalom(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw walls from either edge of the corridor beyond the course in turn."""
    random, side = sketch.random, sketch.random.choice((-1.0, 1.0))
    edge_m, s_m = sketch.corridor_m + 2.0 * sketch.width_m, first_m
    for _ in range(random.randint(2, 4)):
        tip_m = random.uniform(-0.3, 0.3) * sketch.width_m
        sketch.wall((s_m, -side * edge_m), (s_m, side * tip_m))
        s_m, side = s_m + sketch.room_m * random.uniform(0.8, 1.6), -side


def _crossing(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw somebody who crosses the course about when the vehicle comes, sometimes out from behind
    a wall."""
    random, side = sketch.random, sketch.random.choice((-1.0, 1.0))
    at_m = first_m + random.uniform(0.0, 1.0) * sketch.room_m
    from_m = sketch.corridor_m + random.uniform(1.0, 3.0) * sketch.width_m
    pace_mps = random.uniform(0.2, 0.8) * speed_mps
    meets_s = 1.5 + (at_m / speed_mps) * random.uniform(0.8, 1.2)
    start_s = max(meets_s - from_m / pace_mps, 0.0)
    sketch.moving(
        start_s,
        pace_mps,
        (at_m, side * from_m),
        (at_m, -side * (sketch.corridor_m + 3.0 * sketch.width_m)),
    )
    if random.random() < 0.3:
        beside_m = side * (sketch.corridor_m + 0.5 * sketch.width_m)
        sketch.wall((at_m - sketch.room_m, beside_m), (at_m - sketch.width_m, beside_m))


def _oncoming(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw somebody who comes the other way on one side, and leaves the corridor before the
    start."""
    random, side = sketch.random, sketch.random.choice((-1.0, 1.0))
    from_m, pace_mps = first_m + 2.0 * sketch.room_m, random.uniform(0.15, 0.5) * speed_mps
    left_m = side * random.uniform(0.1, 0.7) * sketch.corridor_m
    out_m = side * (sketch.corridor_m + 3.0 * sketch.width_m)
    # It has left the corridor before it comes to the start.
    sketch.moving(0.5, pace_mps, (from_m, left_m), (0.5 * first_m, left_m), (0.3 * first_m, out_m))
    sketch.last_m = max(sketch.last_m, first_m + sketch.room_m)


def _trap(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw three walls that open towards the vehicle, which must go round."""
    random, half_m = sketch.random, sketch.random.uniform(0.5, 1.1) * sketch.width_m
    middle_m = random.uniform(-0.3, 0.3) * sketch.corridor_m
    depth_m = random.uniform(0.5, 1.5) * sketch.length_m
    low_m, high_m = middle_m - half_m, middle_m + half_m
    sketch.wall(
        (first_m, low_m), (first_m + depth_m, low_m), (first_m + depth_m, high_m), (first_m, high_m)
    )


def _corner(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw a wall beside the course that hides a post until the vehicle is near."""
    random, side = sketch.random, sketch.random.choice((-1.0, 1.0))
    beside_m = side * random.uniform(1.0, 1.6) * sketch.width_m
    length_m = sketch.room_m * random.uniform(0.5, 1.0)
    sketch.wall(
        (first_m - length_m, beside_m),
        (first_m, beside_m),
        (first_m, side * (sketch.corridor_m + 2.0 * sketch.width_m)),
    )
    sketch.post(
        first_m + random.uniform(0.6, 1.2) * sketch.room_m,
        side * random.uniform(0.0, 1.0) * sketch.width_m,
    )


def _edge(sketch: Sketch, first_m: float, speed_mps: float) -> None:
    """Draw a wall across the course that leaves room at one edge of the corridor, where posts stand
    as well."""
    random, side = sketch.random, sketch.random.choice((-1.0, 1.0))
    room_m = random.uniform(1.3, 2.2) * sketch.width_m
    tip_m = side * min(sketch.corridor_m + 0.5 * sketch.width_m - room_m, 0.6 * sketch.corridor_m)
    sketch.wall((first_m, -side * (sketch.corridor_m + 2.0 * sketch.width_m)), (first_m, tip_m))
    sketch.post(
        first_m + random.uniform(-0.3, 0.3) * sketch.length_m,
        tip_m + side * (room_m + 0.3 * sketch.width_m),
        0.3 * sketch.width_m,
    )


CLASSES: dict[str, Callable[[Sketch, float, float], None]] = {
    "posts": _posts, "beside": _beside, "gate": _gate, "slalom": _slalom, "crossing": _crossing,
    "oncoming": _oncoming, "trap": _trap, "corner": _corner, "edge": _edge,
}  # fmt: skip


def drive_of(
    number: int, profiles: Sequence[str] = PROFILES, kinds: Sequence[str] = tuple(CLASSES)
) -> Drive:
    """Return the drive of a number."""
    name = profiles[number % len(profiles)]
    kind = kinds[(number // len(profiles) + number) % len(kinds)]
    random = Random(f"a way round {name} {kind} {number}")
    profile = load(str(shipped.folder("profiles") / f"{name}.toml")).profile
    vehicle, limits = profile.vehicle, profile.limits
    top = min(limits.max_speed_mps, vehicle.drive.top_speed_mps)
    speed = random.uniform(0.2, 0.5) * top if top < 10.0 else random.uniform(0.15, 0.45) * top
    sketch = Sketch(random, profile)
    first_m = max(1.5 * sketch.room_m, 2.5 * speed) + random.uniform(0.0, 1.0) * sketch.room_m
    CLASSES[kind](sketch, first_m, speed)
    last_m = sketch.last_m + vehicle.length_m
    end_m = last_m + 2.0 * sketch.room_m
    overrides = [
        f"limits.obstacle_side_m={min(SIDE_SHARE * vehicle.width_m, limits.obstacle_side_m):.4g}",
        f"limits.obstacle_gap_m={min(GAP_SHARE * vehicle.length_m, limits.obstacle_gap_m):.4g}",
    ]
    head = ""
    if any("LaserScan" in device.messages for device in profile.devices.values()):
        folder, speed = shipped.folder("profiles") / "scenes", MAP_SPEED_MPS
        course, head = f"{MAPPED}/lap", f'map = "{folder / MAPPED}.yaml"\n\n'
        lap = load_course(course)
        start = f"[{lap.x_m[0]:.2f}, {lap.y_m[0]:.2f}, {lap.yaw_rad[0]:.2f}]"
        overrides += [f"localisation.map={folder / MAPPED}.yaml", f"localisation.start={start}"]
    else:
        lateral = 0.25 * limits.max_lateral_acceleration_mps2
        length = end_m + 3.0 * sketch.room_m
        form = f"length_m={length:.4g},speed_mps={speed:.3g},lateral_mps2={lateral:.3g}"
        clear_m = 2.0 * (limits.corridor_m + 2.0 * vehicle.width_m) + vehicle.length_m
        course = _course(random, form, vehicle.min_turn_radius_m, clear_m)
        far = 12.0 * sketch.room_m
        ahead_m = vehicle.outline.front_m - 0.1 * vehicle.length_m
        overrides += [
            "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
            "devices.scanner.rate_hz=20", f"devices.scanner.lever_arm_m=[{ahead_m:.3f},0.0,0.1]",
            f"sim.lidar.range_max_m={max(far, 12.0):.3g}",
            f"sim.lidar.reach_m={max(1.2 * far, 15.0):.3g}",
        ]  # fmt: skip
    limit_s = 20.0 + 4.0 * end_m / speed
    return Drive(
        number,
        kind,
        name,
        course,
        tuple(overrides),
        head + "\n".join(sketch.text),
        last_m,
        end_m,
        speed,
        round(limit_s, 1),
    )


def _course(random: Random, form: str, turn_radius_m: float, clear_m: float) -> str:
    """Draw a random course that does not come past itself, where its scene would stand twice in the
    way."""
    for _ in range(MOST_COURSES):
        name = f"random:seed={random.randrange(10**6)},{form}"
        course = load_course(name, turn_radius_m=turn_radius_m)
        part = slice(None, None, max(1, int(0.25 * clear_m / (course.length_m / len(course.s_m)))))
        x, y, s = course.x_m[part], course.y_m[part], course.s_m[part]
        apart = np.hypot(x[:, None] - x, y[:, None] - y)
        if not ((apart < clear_m) & (np.abs(s[:, None] - s) > 3.0 * clear_m)).any():
            break
    return name


# ------------------------------------------------------------------------------------- to drive one


class _Reasons:
    """Journal listener that notes contacts, and the faults that stop a drive."""

    def __init__(self) -> None:
        self.stops: list[str] = []
        self.contacts: list[ObstacleContact] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active and message.reaction > Reaction.CAP_SPEED:
            self.stops.append(message.code)
        elif isinstance(message, ObstacleContact):
            self.contacts.append(message)


class Trial:
    """One drive in lockstep, machine and world in this process."""

    def __init__(self, drive: Drive, scene: Path, controller: str) -> None:
        self.drive, self.reasons = drive, _Reasons()
        file = str(shipped.folder("profiles") / f"{drive.profile}.toml")
        loaded = load(
            file, [*drive.overrides, f"sim.scene={scene}", f"controller.name={controller}"]
        )
        self.course: Course = course_of(loaded.profile, drive.course)
        self.profile: Profile = resolved_profile(loaded, self.course)
        self.pair = WrappedPair(
            self.profile, self.course, [], self.reasons, drive.number + 1, link="messages",
            grid=grid_of(loaded)
        )  # fmt: skip
        self.left_s = math.nan
        """Time at which the vehicle set off."""
        self.nearest_m = inf
        self.poses: list[tuple[float, float, float, float]] = []
        """True poses of the rear axle, with the time."""

    @property
    def body(self) -> Outline:
        """The true body."""
        return self.profile.vehicle.outline

    def run(self) -> tuple[str, str]:
        """Drive; return how it ended, and why."""
        pair, drive, machine, course = self.pair, self.drive, self.pair.machine, self.course
        vehicle, corridor_m = self.profile.vehicle, self.profile.limits.corridor_m
        tracker = truth_tracker(course)
        scene = pair.world.scene
        solid = solid_of(
            scene,
            course,
            0.0,
            drive.end_m,
            corridor_m + 2.0 * vehicle.length_m,
            0.15 * vehicle.width_m,
        )
        moving = [thing for _, thing in scene.moving]
        stands = True
        drove = False
        due_ns = START_NS
        end_ns = START_NS + round(drive.limit_s * SECOND_NS)
        off_m = 0.0
        while pair.now_ns < end_ns:
            pair.grant()
            if pair.now_ns >= due_ns:
                due_ns += TRUTH_NS
                true, now_s = pair.world.motion, (pair.now_ns - START_NS) / SECOND_NS
                point = tracker.update(true.x_m, true.y_m, true.yaw_rad, true.speed_mps)
                off_m, pose = abs(point.cross_track_m), (true.x_m, true.y_m, true.yaw_rad)
                stood, stands = stands, abs(true.speed_mps) < 2.0 * STANDSTILL_MPS
                self.poses.append((*pose, now_s))
                self.nearest_m = min(
                    self.nearest_m, nearest_gap_m(self.body, pose, solid, moving, now_s)
                )
                if math.isnan(self.left_s) and true.speed_mps > 0.05 * drive.speed_mps:
                    self.left_s = now_s
                if self.reasons.contacts:
                    first = self.reasons.contacts[0]
                    struck = stood and first.what.startswith("moving")
                    return (
                        "struck" if struck else "contact"
                    ), f"{first.what or 'something'} at {first.speed_mps:.2f} m/s"
                if drove and off_m > corridor_m:
                    return "corridor", f"{off_m / corridor_m:.2f} of it"
                if drove and point.s_m >= drive.end_m and off_m <= BACK_SHARE * corridor_m:
                    return "passed", ""
                if drove and point.s_m >= drive.end_m + drive.end_m - drive.last_m:
                    return "late", f"beside the course, {off_m / corridor_m:.2f} of the corridor"
            drove = drove or machine.mode is Mode.AUTO
            if (
                drove
                and machine.mode is not Mode.AUTO
                and abs(pair.world.motion.speed_mps) < STANDSTILL_MPS
            ):
                codes = self.reasons.stops
                return "stopped", codes[-1] if codes else machine.why
            pair.reply()
        if not drove:
            return "late", f"{machine.mode.name}: {machine.why}"
        return "late", "stands" if abs(pair.world.motion.speed_mps) < STANDSTILL_MPS else "slow"

    def passage(self) -> str:
        """Return the kind of passage that truly exists; empty if none does."""
        drive, profile = self.drive, self.profile
        search = PassageSearch(
            self.course,
            profile.vehicle,
            profile.limits.corridor_m,
            self.pair.world.scene,
            drive.last_m,
            widths=WIDTHS,
        )
        found = search.find(drive.speed_mps, 2.0 if math.isnan(self.left_s) else self.left_s)
        return "" if found is None else found.how


def driven(drive: Drive, controller: str, folder: Path) -> Outcome:
    """Run a drive, and judge it."""
    begin_s, scene = time.process_time(), folder / f"scene_{drive.number}.toml"
    scene.write_text(drive.scene)
    end, reason, passage, nearest_m, driven_s = "raised", "", "", inf, 0.0
    try:
        trial = Trial(drive, scene, controller)
        passage = trial.passage()
        end, reason = trial.run()
        nearest_m, driven_s = trial.nearest_m, (trial.pair.now_ns - START_NS) / SECOND_NS
    except Exception as error:  # noqa: BLE001 - one that cannot be driven is a result, too
        reason = f"{type(error).__name__}: {error}"
    return Outcome(
        drive.number, drive.kind, drive.profile, controller, passage, end, reason,
        round(nearest_m, 4) if nearest_m < inf else -1.0, round(driven_s, 2),
        round(time.process_time() - begin_s, 2),
    )  # fmt: skip


def _run(job: tuple[Drive, str]) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return driven(*job, Path(folder))


# ---------------------------------------------------------------------------------------- the table


def defect(outcome: Outcome) -> bool:
    """Return True for what must never happen."""
    return outcome.end in ("contact", "corridor", "raised")


def reason_of(outcome: Outcome) -> str:
    """Return why a drive was not passed."""
    return outcome.reason if outcome.end == "stopped" else outcome.end


def table(
    outcomes: Sequence[Outcome], key: Callable[[Outcome], str] = lambda each: each.kind
) -> str:
    """Return the drives by class and in all, in Markdown."""
    lines = [
        (
            "| | drives | with a passage | of them passed | others passed | contacts | corridor "
            "left | reasons of the others |"
        ),
        "| --- " * 8 + "|",
    ]
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    for name, drives in (*sorted(groups.items()), ("all", list(outcomes))):
        can = [each for each in drives if each.passage]
        passed = sum(each.end == "passed" for each in can)
        reasons = Counter(reason_of(each) for each in can if each.end != "passed")
        cells = (
            name, str(len(drives)), str(len(can)), f"{100.0 * passed / max(len(can), 1):.1f} %",
            str(sum(each.end == "passed" for each in drives) - passed),
            str(sum(each.end == "contact" for each in drives)),
            str(sum(each.end == "corridor" for each in drives)),
            ", ".join(f"{code} {n}" for code, n in reasons.most_common()) or "-",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--drives", type=int, default=1000)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first drive (default 0)"
    )
    parser.add_argument("--controller", default="avoid")
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        choices=PROFILES,
        help="drives of this vehicle only; repeatable",
    )
    parser.add_argument(
        "--class",
        dest="kinds",
        action="append",
        default=[],
        choices=list(CLASSES),
        help="of this class only; repeatable",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: one per processor)",
    )
    parser.add_argument("--out", type=Path, help="file of results, to go on with")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="only write the scenes there, and print the commands that drive them",
    )
    parser.add_argument("--markdown", action="store_true", help="only print the tables of --out")
    options = parser.parse_args(arguments)
    if min(options.drives, options.jobs) < 1 or options.first < 0:
        parser.error("at least one drive and one process, and a first number of 0 or more")
    drives = map(drive_of, range(options.first, options.first + options.drives))
    chosen = [
        each for each in drives
        if (not options.profile or each.profile in options.profile)
        and (not options.kinds or each.kind in options.kinds)
    ]  # fmt: skip
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        for drive in chosen:
            scene = options.keep / f"scene_{drive.number}.toml"
            scene.write_text(drive.scene)
            print(drive.command(scene.resolve(), options.controller))
        return 0
    numbers = {each.number for each in chosen}
    done = [
        each for each in read_results(options.out, Outcome) if each.number in numbers
        and each.controller == options.controller
    ]  # fmt: skip
    known, progress = {each.number for each in done}, Progress()
    jobs = (
        []
        if options.markdown
        else [(each, options.controller) for each in chosen if each.number not in known]
    )
    for outcome in run_jobs(_run, jobs, options.jobs, options.out):
        done.append(outcome)
        if defect(outcome) or (outcome.passage and outcome.end != "passed"):
            found = f"{outcome.end} {outcome.reason}, passage {outcome.passage or 'none'}"
            print(f"{outcome.number} {outcome.profile} {outcome.kind}: {found}")
            print(f"  {drive_of(outcome.number).again(options.controller)}", flush=True)
        if progress.due():
            progress.show(
                f"{len(done)} of {len(chosen)} drives, "
                f"{sum(each.end == 'passed' for each in done)} passed"
            )
    progress.close()
    print(table(done))
    print()
    print(table(done, lambda each: each.profile))
    can = [each for each in done if each.passage]
    passed = sum(each.end == "passed" for each in can)
    contacts = share(sum(each.end == "contact" for each in done), len(done))
    print(
        f"\npassed, where a passage of {WIDTHS:g} widths exists: {share(passed, len(can))} of "
        f"{len(can)}"
    )
    print(f"contacts: {contacts} of {len(done)} drives")
    print(f"{sum(each.cpu_s for each in done) / 60.0:.1f} min of processor time", file=sys.stderr)
    return 1 if any(map(defect, done)) or passed < PASS_SHARE * len(can) else 0


if __name__ == "__main__":
    sys.exit(main())

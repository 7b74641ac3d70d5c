"""``python -m tests.random_drives``: random drives of every vehicle with up to three faults, judged
by the true state.

    python -m tests.random_drives [--drives 400] [--profile NAME]... [--first 0] [--jobs 2]
        [--out FILE]

A drive is drawn from its number: the vehicle, a healthy drive of ``bench.false_alarms``, an
estimator, and no to three faults of devices, operator, tasks or computer with their times. After a
stop the operator arms it once more. These rules must hold:

- the true vehicle stays in its corridor while it follows the course or is stopped there, unless
  drive or controller are at fault;
- STANDBY, ARMED and "it has stopped" are said only of a vehicle that truly stands, whether it obeys
  or not;
- every stop has a reason, a reported fault, and a misfortune behind it, and a drive without faults
  has no stop and no cap;
- a vehicle does not stand in AUTO for long without a stop; nothing raises, and nothing hangs;
- and the rules of ``tests.closed_loop.fault_judge``.

Results go to ``--out`` line by line; a second call with the same file goes on where the first one
ended. A broken rule is printed with the command that repeats the drive. Exit status 1 when a rule
was broken.
"""

import argparse
import os
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import hypot, inf
from pathlib import Path
from random import Random

from msgspec import Struct

from bench.false_alarms import PROFILES, Drive, drive_of, read_results, run_jobs, share
from sim_backend.connection import START_NS
from sim_backend.emulators.failures import KINDS, Failure, parse_failure
from sim_backend.profile_check import resolved_profile
from tests.closed_loop.fault_judge import ALIGNED, ASKED, DRIVING, FINISHED, SECOND_NS, Judge
from tests.closed_loop.misfortunes import ASKED as REQUESTS
from tests.closed_loop.misfortunes import HOST, OUTSIDE, SAID, SPOILT, end_s, kind
from tests.closed_loop.outside import Outside
from tests.closed_loop.pair_bench import begin
from vehicled.core import shipped
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    GroundTruth,
    Message,
    Mode,
    OperatorAction,
    Reaction,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.maps.grid import OccupancyGrid
from vehicled.paths.course import Course
from vehicled.profile import load
from vehicled.profile.contradictions import LOCATED
from vehicled.profile.schema import Profile
from vehicled.run.judge import truth_tracker
from vehicled.run.plan import course_of, grid_of
from vehicled.run.terminal import Progress
from vehicled.safety.monitors.speed import MOVING_RATIO, STANDING_MPS

ESTIMATORS = ("ekf4", "planar", "ins")
COUNTS = (0, 1, 2, 2, 2, 3, 3)
TOGETHER_S = 1.0
"""Time within which a second fault often follows the first."""
COURSE_S = 5.0, 12.0
"""Times that a course takes at its own speed: faults meet the start, the way and the end."""
BEGINS_S = 0.3, 4.5
"""Times of the first fault: standing, armed, setting off, under way."""
DURATIONS_S = (0.3, 0.3, 1.0, 1.0, 3.0, 6.0)
WATCHED_S, LASTING_S, HEALTHY_S = (1.5, 3.0, 5.0), (5.0, 5.0, 9.0, 17.0), 8.0
"""Times watched after the last fault and after the start of one that lasts, one of which is drawn,
and of a drive without faults. A vehicle that stands in AUTO is watched until another rule ends
it."""
AFTERMATH_S = 12.0
"""Time after a fault in which a stop is still attributed to it: the slowest rule waits 10 s, and
estimates have a memory."""
STANDS_M = 0.1
"""Distance within which a slow vehicle stands, m."""
STANDS_S = 15.0
"""Time for which a vehicle may stand in AUTO: the rule about progress needs 10 s."""
REST_S = 1.0
LONGEST_CPU_S = 240.0
"""Processor time after which a drive counts as hung."""
SEEN_NS = 200_000_000
"""Age of the newest fix at most, ns: a drive that runs away from standstill shows later."""
TOLERANCE_M = 0.01
OBEYED = frozenset({"slip", "heat", "battery"})
"""Faults of a drive that obeys all the same."""


class RandomDrive(Struct, frozen=True):
    """A healthy drive and what happens to it."""

    healthy: Drive
    estimator: str
    failures: tuple[str, ...]
    watched_s: float
    """Time watched after the end of each fault, s."""
    lasting_s: float
    """Time watched after the start of a fault that lasts, s."""

    @property
    def number(self) -> int:
        return self.healthy.index

    @property
    def again(self) -> str:
        """Command that repeats the drive."""
        return (
            f"python -m tests.random_drives --profile {self.healthy.profile} --first "
            f"{self.number} --drives 1"
        )

    @property
    def command(self) -> str:
        """Arguments of a ``vehicled sim`` that resembles the drive; it leaves out what is no fault
        of a device."""
        words = f"{self.healthy.command} --set estimator.name={self.estimator}"
        return " ".join(
            [
                words,
                *(f"--fail {text}" for text in self.failures if text.split(":")[0] not in OUTSIDE),
            ]
        )


class Outcome(Struct, frozen=True):
    """Result of a drive."""

    profile: str
    number: int
    failures: tuple[str, ...]
    broken: tuple[str, ...]
    """Broken rules with their times."""
    end: str
    stops: int
    off_ratio: float
    """Largest distance from the course of an obedient drive, as a fraction of the corridor."""
    simulated_s: float
    cpu_s: float


# --------------------------------------------------------------------------------------- the drives


def faults_of(profile: Profile, link: str, random: Random) -> list[str]:
    """Return one fault of each kind that the vehicle can have, with drawn values."""
    found = [*REQUESTS, *SAID, *SPOILT, *HOST]
    corridor = profile.limits.corridor_m
    metres = f"{corridor * random.uniform(0.2, 3.0):.3g}"
    values = {
        "float": metres, "multipath": metres, "wrong": "",
        "slow": str(random.choice((2, 5, 8, 40))), "delayed": f"{random.uniform(0.05, 1.0):.2g}",
        "intermittent": f"{random.uniform(0.02, 0.6):.2g}",
        "slip": f"{random.choice((-0.6, -0.3, 0.5, 1.0)):g}",
        "heat": f"{random.choice((360, 375))}", "battery": "8.5",
        "runaway": f"{random.uniform(-1.0, 1.0):.2f}", "pull": f"{random.uniform(-2.0, 2.0):.2f}",
        "saturation": "",
    }  # fmt: skip
    wrong = {
        "gnss": metres,
        "heading": f"{random.uniform(-1.5, 1.5):.2f}",
        "imu": f"{random.uniform(-1.0, 1.0):.2f}",
    }
    for port, device in profile.devices.items():
        if port == "operator":
            continue
        sends = set(device.messages)
        for name, what in KINDS.items():
            if (
                (what.needs and not what.needs & sends)
                or name == "baud"
                or (port, name) == ("drive", "wrong")
            ):
                continue
            value = wrong.get(port, "") if name == "wrong" else values.get(name, "")
            found.append(f"{port}:{name}={value}" if value else f"{port}:{name}")
        if link == "wires" and device.driver.name == "ublox" and "GnssFix" in sends:
            found += [f"{port}:jamming", f"{port}:spoofing"]
        if link == "wires" and device.driver.name.startswith("vesc"):
            found += [f"{port}:fault=4", f"{port}:own_timeout"]
    return found


def random_drive(name: str, number: int) -> RandomDrive:
    """Return the drive of a number."""
    random = Random(f"random drive {name} {number}")
    healthy = drive_of(name, number, *COURSE_S)
    profile = load(str(shipped.folder("profiles") / f"{name}.toml")).profile
    estimator = random.choice((profile.estimator.name, profile.estimator.name, *ESTIMATORS))
    heading = profile.sim.heading
    placed = any("GnssFix" in device.messages for device in profile.devices.values())
    if not placed and estimator not in LOCATED:
        # It takes no poses on a map.
        estimator = profile.estimator.name
    if estimator == "ins" and heading is not None and heading.kind == "inertial":
        # Its zero is unknown, so that this filter waits for an alignment drive.
        estimator = profile.estimator.name
    texts = faults_of(profile, healthy.link, random)
    at_s = random.uniform(*BEGINS_S)
    found = list[str]()
    ports = sorted({text.split(":")[0] for text in texts})
    for _ in range(random.choice(COUNTS)):
        port = random.choice(ports)
        chosen = random.choice([text for text in texts if text.split(":")[0] == port])
        lasts = (
            ""
            if random.random() < 0.2 and port not in OUTSIDE
            else f"+{random.choice(DURATIONS_S):g}"
        )
        found.append(f"{chosen}@{at_s:.2f}{lasts or ('+3' if port in OUTSIDE else '')}")
        at_s += random.uniform(0.0, TOGETHER_S if random.random() < 0.6 else 4.0)
    return RandomDrive(
        healthy, estimator, tuple(found), random.choice(WATCHED_S), random.choice(LASTING_S)
    )


# ---------------------------------------------------------------------------------------- the judge


class TruthJudge(Judge):
    """The judge of the safety rules, who also knows the true place and speed of a vehicle on its
    course."""

    def __init__(self, profile: Profile, course: Course, failures: Sequence[Failure]) -> None:
        super().__init__()
        self.raises_expected = any(failure.kind.endswith("_raises") for failure in failures)
        self._failures = failures
        self._course, self._tracker = course, truth_tracker(course)
        self._corridor_m = profile.limits.corridor_m
        self._rolling_mps = max(
            2.0 * STANDSTILL_MPS, min(STANDING_MPS, MOVING_RATIO * profile.limits.max_speed_mps)
        )
        disobeys = [
            failure for failure in failures
            if (failure.port == "drive" and failure.kind not in OBEYED)
            or failure.kind.startswith("command_")
        ]  # fmt: skip
        self._obeys_until_s = min((failure.start_s for failure in disobeys), default=inf)
        self._on_course = False
        self._stands_since_ns: int | None = None
        self._stood_m = 0.0, 0.0
        """True place at that time."""
        self._stopped = False
        self._stood_ns = 0
        """Newest time at which it stood."""
        self.off_ratio = 0.0
        self.drove = False

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        super().record(message, log_time_ns)
        if isinstance(message, GroundTruth):
            self._on_truth(message, log_time_ns)
        elif (
            isinstance(message, Fault)
            and not self._failures
            and message.active
            and message.reaction >= Reaction.CAP_SPEED
        ):
            self._broke(
                f"a false alarm: {message.reaction.name} {message.code}: {message.reason}",
                log_time_ns,
            )

    def _on_command(self, command: ActuatorCommand, now_ns: int) -> None:
        super()._on_command(command, now_ns)
        mode = command.mode
        self.drove |= mode is Mode.AUTO
        if mode is Mode.AUTO and not self._on_course and self.supervisor is not None:
            # Meanwhile it may have been driven by hand.
            self._tracker = truth_tracker(self._course)
            self._tracker.reset(self.supervisor.entry.s_m)
        self._on_course = mode is Mode.AUTO or (
            self._on_course and mode in (Mode.STOPPING, Mode.FAULT)
        )

    def _on_truth(self, truth: GroundTruth, now_ns: int) -> None:
        if self.supervisor is None or self.command is None:
            return
        mode, speed = self.command.mode, abs(truth.speed_mps)
        obeys = self.since_begin_s(now_ns) < self._obeys_until_s
        if self._on_course:
            point = self._tracker.update(truth.x_m, truth.y_m, truth.yaw_rad, truth.speed_mps)
            if obeys and not self._tracker.finished:
                self.off_ratio = max(self.off_ratio, abs(point.cross_track_m) / self._corridor_m)
                if abs(point.cross_track_m) > self._corridor_m + TOLERANCE_M:
                    self._broke("an obedient vehicle left its corridor", now_ns)
        said = mode in (Mode.STANDBY, Mode.ARMED) or (
            self.supervisor.stopped and mode is Mode.FAULT
        )
        # A drive that runs away later, or a brake that a blocked motor has released, is what the
        # next rules are for.
        holds = obeys and mode is not Mode.FAULT
        if speed <= STANDSTILL_MPS:
            self._stood_ns = now_ns
        unseen = self._stopped or now_ns - self._stood_ns <= SEEN_NS
        if said and speed > self._rolling_mps and (holds or not unseen):
            self._broke(f"{mode.name} is said to stand at {speed:.1f} m/s", now_ns)
        self._stopped = said
        moved_m = hypot(truth.x_m - self._stood_m[0], truth.y_m - self._stood_m[1])
        if mode is not Mode.AUTO or speed > STANDSTILL_MPS:
            self._stands_since_ns = None
        elif self._stands_since_ns is None or moved_m > STANDS_M:
            # The slowest vehicles are driven below that speed.
            self._stands_since_ns, self._stood_m = now_ns, (truth.x_m, truth.y_m)
        elif now_ns - self._stands_since_ns > STANDS_S * SECOND_NS:
            self._broke(f"stands in AUTO for {STANDS_S:g} s", now_ns)

    @property
    def stands(self) -> bool:
        """True if the vehicle stands in AUTO, which another rule is to end."""
        return self._stands_since_ns is not None

    def explain(self) -> None:
        """Check that every stop since the last call has a misfortune behind it."""
        while self.stops:
            stop = self.stops.popleft()
            if {ASKED, FINISHED, ALIGNED} & set(stop.codes):
                continue
            if not any(
                failure.start_s <= stop.t_s <= end_s(failure) + AFTERMATH_S
                for failure in self._failures
            ):
                self.broken[f"at {stop.t_s:.2f} s: a stop without a misfortune: {stop.why}"] += 1


# ------------------------------------------------------------------------------------- to drive one


def driven(drive: RandomDrive) -> Outcome:
    """Run a drive in lockstep, machine and world in this process. Never raises on account of the
    daemon."""
    begin_s, healthy = time.process_time(), drive.healthy
    file = str(shipped.folder("profiles") / f"{healthy.profile}.toml")
    overrides = [
        *healthy.overrides,
        f"controller.name={healthy.controller}",
        f"estimator.name={drive.estimator}",
    ]
    failures = [parse_failure(text) for text in (*healthy.failures, *drive.failures)]
    broken, end, stops, off_ratio, simulated_s = list[str](), "raised", 0, 0.0, 0.0
    judge = None
    try:
        loaded = load(file, overrides)
        course = course_of(loaded.profile, healthy.course)
        profile = resolved_profile(loaded, course)
        judge = TruthJudge(profile, course, [parse_failure(text) for text in drive.failures])
        end, simulated_s = _drive(drive, profile, course, failures, judge, grid_of(loaded))
    except Exception as error:  # noqa: BLE001 - whatever it is: it is what was looked for
        trace = "".join(traceback.format_exception(error)[-3:])
        broken.append(f"raised {type(error).__name__}: {error}\n{trace}")
    if judge is not None:
        judge.explain()
        broken += [f"{text} ({n} times)" if n > 1 else text for text, n in judge.broken.items()]
        stops, off_ratio = judge.stopped, judge.off_ratio
    return Outcome(
        healthy.profile, healthy.index, drive.failures, tuple(broken), end, stops,
        round(off_ratio, 3), round(simulated_s, 2), round(time.process_time() - begin_s, 2),
    )  # fmt: skip


def _drive(
    drive: RandomDrive,
    profile: Profile,
    course: Course,
    failures: list[Failure],
    judge: TruthJudge,
    grid: OccupancyGrid | None,
) -> tuple[str, float]:
    """Drive until the course is driven, the vehicle has stopped twice, or enough is seen; return
    the end and the time."""
    healthy = drive.healthy
    pair = begin(profile, course, failures, judge, healthy.seed, healthy.link, grid)
    outside, machine = Outside(pair, failures), pair.machine
    over_s = max((end_s(failure) for failure in failures if end_s(failure) < inf), default=0.0)
    ends_s = [
        end_s(failure) + drive.watched_s
        if end_s(failure) < inf
        else failure.start_s + drive.lasting_s
        for failure in failures
    ]
    watched_s = max(ends_s, default=HEALTHY_S)
    t_s, rests_s, asked = 0.0, 0.0, False
    while t_s < healthy.limit_s:
        pair.grant()
        before_s, t_s = t_s, (pair.now_ns - START_NS) / SECOND_NS
        outside.act(pair.now_ns)
        rests = machine.over(pair.now_ns) and machine.mode not in DRIVING
        rests_s = rests_s + t_s - before_s if rests else 0.0
        waits = t_s > watched_s and machine.mode in (Mode.INIT, Mode.STANDBY, Mode.ARMED)
        if waits or (rests_s > REST_S and t_s > over_s + REST_S):
            if machine.course_driven or asked:
                break
            asked, rests_s, watched_s = True, 0.0, max(watched_s, t_s + drive.watched_s)
            outside.ask(pair.now_ns, OperatorAction.ARM, OperatorAction.DRIVE)
        if t_s > watched_s and machine.mode in DRIVING and not judge.stands:
            break
        pair.reply()
    if not judge.drove and not failures:
        judge.broken[f"never drove: {machine.mode.name}: {machine.why}"] += 1
    if machine.mode not in DRIVING and not machine.why:
        judge.broken[f"{machine.mode.name} at the end, and it does not say why"] += 1
    return f"{machine.mode.name}: {machine.why}", t_s


def _hangs(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"needs more than {LONGEST_CPU_S:g} s of processor time: it hangs")


def run(job: tuple[str, int]) -> Outcome:
    """Run the drive of a vehicle and a number, for a limited time."""
    signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_CPU_S)
    try:
        return driven(random_drive(*job))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


# ---------------------------------------------------------------------------------------- the table


def table(outcomes: Sequence[Outcome]) -> str:
    """Return broken rules by profile and in all, in Markdown."""
    lines = [
        "| profile | drives | faults | simulated | stops | broken (95 %) | nearest to the edge |",
        "| --- " * 7 + "|",
    ]
    by_profile: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_profile[outcome.profile].append(outcome)
    for name, drives in (*sorted(by_profile.items()), ("all", list(outcomes))):
        hours = sum(each.simulated_s for each in drives) / 3600.0
        most = max((each.off_ratio for each in drives if not each.broken), default=0.0)
        cells = (
            name, str(len(drives)), str(sum(len(each.failures) for each in drives)),
            f"{hours:.2f} h", str(sum(each.stops for each in drives)),
            share(sum(bool(each.broken) for each in drives), len(drives)),
            f"{100.0 * most:.0f} % of the corridor",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    kinds = Counter(kind(parse_failure(text)) for each in outcomes for text in each.failures)
    lines.append(
        "faults by kind: "
        + (", ".join(f"{name} {n}" for name, n in sorted(kinds.items())) or "none")
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.random_drives",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--drives", type=int, default=400, help="in all, shared by the vehicles (default 400)"
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        choices=PROFILES,
        help="repeatable (default: every shipped one)",
    )
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first drive of each vehicle (default 0)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: one per processor)",
    )
    parser.add_argument("--out", type=Path, help="file of results, to go on with")
    options = parser.parse_args(arguments)
    if min(options.drives, options.jobs) < 1 or options.first < 0:
        parser.error("at least one drive and one process, and a first number of 0 or more")
    names = options.profile or list(PROFILES)
    # By number, so that a campaign that is cut short has driven every vehicle alike.
    jobs = [(names[k % len(names)], options.first + k // len(names)) for k in range(options.drives)]
    done: list[Outcome] = [
        each
        for each in read_results(options.out, Outcome)
        if (each.profile, each.number) in set(jobs)
    ]
    known = {(each.profile, each.number) for each in done}
    progress = Progress()
    for outcome in run_jobs(
        run, [job for job in jobs if job not in known], options.jobs, options.out
    ):
        done.append(outcome)
        if outcome.broken:
            _say(outcome)
        if progress.due():
            progress.show(
                f"{len(done)} of {len(jobs)} drives, {sum(bool(each.broken) for each in done)} "
                "with a broken rule"
            )
    progress.close()
    for each in done:
        if each.broken and (each.profile, each.number) in known:
            _say(each)
    _print(table(done))
    return 1 if any(each.broken for each in done) else 0


def _say(outcome: Outcome) -> None:
    drive = random_drive(outcome.profile, outcome.number)
    lines = [
        (
            f"{outcome.profile} {outcome.number}: {', '.join(outcome.failures) or 'no fault'}; "
            f"{outcome.end}"
        )
    ]
    lines += [f"  {text}" for text in outcome.broken]
    _print("\n".join([*lines, f"  again: {drive.again}", f"  like: {drive.command}"]))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

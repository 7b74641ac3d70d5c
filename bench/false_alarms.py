"""Rate of false alarms on healthy vehicles: the tables of docs/failsafe_tests.md.

    python -m bench.false_alarms [--drives 200] [--profile NAME]... [--first 0] [--jobs 2]
        [--out FILE] [--set KEY=VALUE]... [--warning CODE]...
    python -m bench.false_alarms --missed 20 [--row NUMBER]... [--rule CODE]... [--first 0]
        [--jobs 2] [--out FILE]
    python -m bench.false_alarms --markdown --out FILE

Every drive is drawn from its profile and number: a random smooth course (``random``), speed,
controller, link, noise of GNSS, a drop-out that the profile bears, a wrong belief about the
vehicle, a slope. Nothing is broken, so every stop and every cap of the speed is a false alarm, and
every warning that ``--warning`` names. Each one prints the command that repeats it. ``--set``
changes the profiles, such as ``vehicle.rear_steering_ratio=-1.0`` of hunter_se. ``--missed``
injects every fault of ``vehicled failsafe test`` on random courses instead and counts those that
are not detected in time.

Results go to ``--out`` line by line; a second call with the same file goes on where the first one
ended. ``--markdown`` drives nothing and prints the table of such a file, complete or not. Exit
status 1 when anything was stopped, capped or missed.
"""

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import ceil, cos, isnan, nan, pi, sin
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from msgspec import json as msgjson
from msgspec.structs import replace
from scipy.special import betaincinv

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from sim_backend.profile_check import resolved_profile
from vehicled.core import shipped
from vehicled.core.messages import Fault, Message, Mode, Reaction
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.failsafe.injections import COURSE, INJECTIONS
from vehicled.offline.failsafe.trial import NOT_SHOWN, run_trial
from vehicled.paths.catalog import load_course
from vehicled.profile import load
from vehicled.profile.schema import Profile
from vehicled.run.judge import Judge
from vehicled.run.plan import course_of, grid_of
from vehicled.run.terminal import Progress
from vehicled.safety.matrix import MATRIX

SECOND_NS = 1_000_000_000
PROFILES = tuple(sorted(path.stem for path in shipped.folder("profiles").glob("*.toml")))
CONTROLLERS = ("pure_pursuit", "regulated_pure_pursuit", "stanley", "flat", "mpc")
ART_CONTROLLERS = ("linear",)
"""Its numbers are those of the ART vehicle. `mpc_published` is left out because it turns the wheels
further and faster than the limits, `pure_pursuit_published` because it leaves the corridor: that
cap and that stop have a cause."""
MAPPED, MAPPED_LAP = "race_track", (83.7, 2.0)
"""Scene of a vehicle whose place comes from a map; length and speed of its lap, m and m/s."""
MOST_COURSES = 20
"""Number of random courses on which a fault that does not show is injected again."""
MOST_SLOPE = 0.05
HILL_M, HILL_STEP_M = 40.0, 2.0


class Drive(Struct, frozen=True):
    """One healthy drive, in the arguments of ``vehicled sim``."""

    profile: str
    index: int
    course: str
    controller: str
    link: str
    seed: int
    overrides: tuple[str, ...]
    failures: tuple[str, ...]
    limit_s: float
    """Limit of simulated time."""

    @property
    def command(self) -> str:
        """Command that repeats the drive."""
        words = [
            "vehicled",
            "sim",
            "--profile",
            self.profile,
            "--course",
            self.course,
            "--controller",
            self.controller,
        ]
        words += ["--link", self.link, "--seed", str(self.seed)]
        words += [word for text in self.overrides for word in ("--set", text)]
        words += [word for text in self.failures for word in ("--fail", text)]
        return shlex.join(words)


class Outcome(Struct, frozen=True):
    """Result of a drive."""

    profile: str
    index: int
    finished: bool
    driving_s: float
    alarms: tuple[tuple[str, str, str], ...]
    """Reaction, code and reason of every stop and cap, in order."""
    why: str
    command: str
    cpu_s: float


# --------------------------------------------------------------------------------------- the drives


def drive_of(name: str, index: int, least_s: float = 12.0, most_s: float = 22.0) -> Drive:
    """Return the drive of a number, whose course takes a time between the two at its own speed."""
    random = Random(f"false alarm {name} {index}")
    profile = load(str(shipped.folder("profiles") / f"{name}.toml")).profile
    vehicle, limits, steering = profile.vehicle, profile.limits, profile.vehicle.steering
    speed = random.uniform(0.2, 0.85) * min(limits.max_speed_mps, vehicle.drive.top_speed_mps)
    lateral = random.uniform(0.15, 0.5) * limits.max_lateral_acceleration_mps2
    radius = max(1.5 * vehicle.min_turn_radius_m, speed * speed / lateral)
    # The wheels need two fifths of their rate at the most.
    bend = max(
        2.5 * speed, 9.4 * speed * vehicle.wheelbase_m / (radius * steering.rate_radps), radius
    )
    length = max(speed * random.uniform(least_s, most_s), 4.0 * vehicle.length_m)
    course = f"random:seed={random.randrange(10**6)},length_m={length:.4g},speed_mps={speed:.3g},"
    course += f"lateral_mps2={lateral:.3g},bend_m={bend:.4g}"
    controllers = CONTROLLERS + (ART_CONTROLLERS if name.startswith("art") and speed < 1.6 else ())
    overrides: list[str] = []
    failures: list[str] = []
    if not any(
        {"GnssFix", "MapPose"} & set(device.messages) for device in profile.devices.values()
    ):
        # Its place comes from a map, so it needs walls.
        scene = shipped.folder("profiles") / "scenes" / MAPPED
        course, length, speed = f"{MAPPED}/lap", *MAPPED_LAP
        lap = load_course(course)
        start = f"[{lap.x_m[0]:.2f}, {lap.y_m[0]:.2f}, {lap.yaw_rad[0]:.2f}]"
        overrides += [
            f"sim.scene={scene}.toml",
            f"localisation.map={scene}.yaml",
            f"localisation.start={start}",
        ]
    for vary, probability in ((_gnss, 0.4), (_beliefs, 0.4), (_ground, 0.25)):
        if random.random() < probability:
            overrides += vary(random, profile)
    if random.random() < 0.25:
        failures.append(random.choice(_bearable(profile)).format(at=random.uniform(3.0, 10.0)))
    wired = any(device.driver.name != "msglink" for device in profile.devices.values())
    link = "wires" if wired and random.random() < 0.25 else "messages"
    limit_s = 25.0 + 3.0 * length / speed
    return Drive(
        name,
        index,
        course,
        random.choice(controllers),
        link,
        index + 1,
        tuple(overrides),
        tuple(failures),
        round(limit_s, 1),
    )


def _gnss(random: Random, profile: Profile) -> list[str]:
    """Draw a receiver worse than the profile's that a third of the corridor still bears."""
    corridor = profile.limits.corridor_m
    sigma, walk = 0.02 * corridor, 0.06 * corridor
    return random.choice(
        [
            [
                'sim.gnss.carrier="float"',
                f"sim.gnss.sigma_m={sigma:.3g}",
                f"sim.gnss.walk_sigma_m={walk:.3g}",
            ],
            [
                'sim.gnss.carrier="none"',
                f"sim.gnss.sigma_m={sigma:.3g}",
                f"sim.gnss.walk_sigma_m={walk:.3g}",
            ],
            # Coloured as plain GNSS was recorded, and smaller: that of the recordings is larger
            # than these corridors.
            [
                'sim.gnss.model="recorded"',
                'sim.gnss.carrier="none"',
                f"sim.gnss.recorded.wander_sigma_m={walk:.3g}",
                f"sim.gnss.recorded.smooth_sigma_m={walk:.3g}",
            ],
        ]
    )


def _beliefs(random: Random, profile: Profile) -> list[str]:
    """Draw a vehicle whose steering and drive differ from its profile."""
    steering, drive = profile.vehicle.steering, profile.vehicle.drive
    gain, torque = random.uniform(0.85, 1.15), random.uniform(0.75, 1.3)
    return random.choice(
        [
            [f"vehicle.steering.gain_rad={gain * steering.gain_rad:.4g}"],
            [f"vehicle.drive.stall_torque_nm={torque * drive.stall_torque_nm:.5g}"],
            [f"vehicle.steering.delay_s={max(steering.delay_s - 0.1, 0.0):.3g}"],
            [f"vehicle.drive.delay_s={max(drive.delay_s - 0.1, 0.0):.3g}"],
            [f"vehicle.drive.delay_s={drive.delay_s + 0.1:.3g}"],
        ]
    )


def _ground(random: Random, profile: Profile) -> list[str]:
    """Draw a slope for a plant that drives on ground; for the others a load of the same force."""
    if profile.sim.twin is None:
        inertia_kgm2 = random.uniform(0.8, 1.25) * profile.vehicle.drive.inertia_kgm2
        return [f"vehicle.drive.inertia_kgm2={inertia_kgm2:.4g}"]
    return [f"sim.terrain.height={_hills(random.choice((0.02, MOST_SLOPE)))}"]


def _hills(slope: float) -> str:
    """Write rolling ground with at most that slope; return its file."""
    folder = Path(tempfile.gettempdir()) / f"vehicled_false_alarms_{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"hills_{slope:g}.csv"
    if not file.exists():
        half = 200
        height = slope * HILL_M / (2.0 * pi * 2**0.5)
        axis = [k * HILL_STEP_M for k in range(-half, half + 1)]
        wave = 2.0 * pi / HILL_M
        rows = [
            ",".join(f"{height * (sin(wave * x) + cos(wave * y) - 1.0):.5f}" for x in axis)
            for y in reversed(axis)
        ]
        _written(
            file.with_name(f"{file.name}.toml"),
            f"step_m = {HILL_STEP_M}\nx_m = {axis[0]}\ny_m = {axis[0]}\n",
        )
        _written(file, "\n".join(rows) + "\n")
    return str(file)


def _written(file: Path, text: str) -> None:
    """Write a file at once, as another process may write the same file."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(file)


def _bearable(profile: Profile) -> list[str]:
    """Draw drop-outs that need no reaction: shorter than the limits of silence, or of an optional
    source."""
    if "mocap" in profile.devices:
        return ["mocap:off@{at:.2f}+0.12"]
    gap_s = min(0.35, 0.7 * profile.limits.gnss_silence_s)
    found = [f"gnss:off@{{at:.2f}}+{gap_s:.2f}"]
    if "heading" in profile.devices:
        found += ["heading:off@{at:.2f}+2", "heading:slow=5@{at:.2f}+3"]
    return found


# ------------------------------------------------------------------------------------- to drive one


class _Alarms:
    """Journal listener that notes the faults that stop a drive or cap its speed, and some
    warnings."""

    def __init__(self, judge: Judge, warnings: Sequence[str]) -> None:
        self._judge, self._warnings = judge, warnings
        self.found: list[tuple[str, str, str]] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault):
            counts = message.reaction >= Reaction.CAP_SPEED or message.code in self._warnings
            if message.active and counts:
                self.found.append((message.reaction.name, message.code, message.reason))
        else:
            self._judge.record(message, log_time_ns)


def driven(drive: Drive, warnings: Sequence[str] = ()) -> Outcome:
    """Run a drive in lockstep, machine and world in this process."""
    begin_s = time.process_time()
    file = str(shipped.folder("profiles") / f"{drive.profile}.toml")
    loaded = load(file, [*drive.overrides, f"controller.name={drive.controller}"])
    course = course_of(loaded.profile, drive.course)
    judge = Judge(course)
    alarms = _Alarms(judge, warnings)
    failures = [parse_failure(text) for text in drive.failures]
    pair = WrappedPair(
        resolved_profile(loaded, course),
        course,
        failures,
        alarms,
        drive.seed,
        link=drive.link,
        grid=grid_of(loaded),
    )
    machine, end_ns, drove = pair.machine, START_NS + round(drive.limit_s * SECOND_NS), False
    while pair.now_ns < end_ns:
        pair.grant()
        drove = drove or machine.mode is Mode.AUTO
        if drove and machine.mode is not Mode.AUTO and (machine.course_driven or alarms.found):
            break
        pair.reply()
    return Outcome(
        drive.profile, drive.index, bool(machine.course_driven), round(judge.driving_s, 2),
        tuple(alarms.found), f"{machine.mode.name}: {machine.why}", drive.command,
        round(time.process_time() - begin_s, 2),
    )  # fmt: skip


def _drive(job: tuple[str, int, tuple[str, ...], tuple[str, ...]]) -> Outcome:
    name, index, overrides, warnings = job
    drive = drive_of(name, index)
    drive = replace(drive, overrides=overrides + drive.overrides)
    try:
        return driven(drive, warnings)
    except Exception as error:  # noqa: BLE001 - one that cannot be driven is a result, too
        why = f"raised {type(error).__name__}: {error}"
        return Outcome(drive.profile, drive.index, False, 0.0, (), why, drive.command, 0.0)


# -------------------------------------------------------------------------------- missed detections


class Trial(Struct, frozen=True):
    """Result of one injection."""

    row: int
    code: str
    fault: str
    seed: int
    link: str
    course: str
    problem: str
    react_ms: float | None
    """None without a reaction."""

    @property
    def injection(self) -> tuple[int, str, str]:
        """Identity of the injected fault."""
        return self.row, self.code, self.fault


def _inject(job: tuple[int, int]) -> Trial:
    number, seed = job
    injection = INJECTIONS[number]
    random = Random(f"missed {injection.key} {seed}")
    link = random.choice(injection.links)
    vehicle = load(injection.profile).profile.vehicle
    problem, react_ms, course = NOT_SHOWN, nan, ""
    # Some faults show on a course of their own only, and one that steers straight on not on every
    # random one.
    for _ in range(MOST_COURSES):
        course = f"random:seed={random.randrange(10**6)},length_m=60,speed_mps=1,lateral_mps2=0.5"
        course = course if injection.course == COURSE else injection.course
        try:
            found = run_trial(
                injection, link, seed, load_course(course, turn_radius_m=vehicle.min_turn_radius_m)
            )
            problem, react_ms = found.problem, found.react_ms
        except Exception as error:  # noqa: BLE001 - as above
            problem = f"raised {type(error).__name__}: {error}"
        if problem != NOT_SHOWN or course == injection.course:
            break
    return Trial(
        injection.row,
        injection.code,
        injection.how,
        seed,
        link,
        course,
        problem,
        None if isnan(react_ms) else round(react_ms, 3),
    )


# ---------------------------------------------------------------------------------------- the table


def bounds(events: int, n: int) -> tuple[float, float]:
    """Return the two-sided 95 % Clopper-Pearson interval of a probability; with no event its end is
    about 3.7 / n."""
    low = betaincinv(events, n - events + 1, 0.025) if events > 0 else 0.0
    high = betaincinv(events + 1, n - events, 0.975) if events < n else 1.0
    return float(low), float(high)


def share(events: int, n: int) -> str:
    low, high = bounds(events, n)
    return f"{events} ({100.0 * low:.1f} to {100.0 * high:.1f} %)"


def _stopped(outcome: Outcome) -> bool:
    stops = (Reaction.CAP_SPEED.name, Reaction.WARN.name)
    return not outcome.finished or any(reaction not in stops for reaction, _, _ in outcome.alarms)


def alarm_table(outcomes: Sequence[Outcome]) -> str:
    """Return false alarms by profile and in all, in Markdown."""
    lines = [
        "| profile | drives | driven | stopped (95 %) | capped (95 %) | by |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    by_profile: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_profile[outcome.profile].append(outcome)
    for name, drives in (*sorted(by_profile.items()), ("all", list(outcomes))):
        stopped = sum(_stopped(each) for each in drives)
        capped = sum(not _stopped(each) and bool(each.alarms) for each in drives)
        counts = Counter(code for each in drives for code in {code for _, code, _ in each.alarms})
        cells = (
            name if name == "all" else f"`{name}`", str(len(drives)),
            f"{sum(each.driving_s for each in drives) / 3600.0:.2f} h", share(stopped, len(drives)),
            share(capped, len(drives)),
            ", ".join(f"`{code}` {n}" for code, n in counts.most_common()) or "-",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def missed_table(trials: Sequence[Trial]) -> str:
    """Return missed or late detections by fault and in all, in Markdown."""
    lines = [
        "| row | code | fault | injected | missed (95 %) | slowest reaction |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    by_injection: dict[tuple[int, str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        by_injection[trial.injection].append(trial)
    known = {rule.code for row in MATRIX for rule in row.rules}
    order = {(each.row, each.code, each.how): k for k, each in enumerate(INJECTIONS)}
    for injection, found in sorted(
        by_injection.items(), key=lambda item: (item[0][0], order.get(item[0], len(order)), item[0])
    ):
        row, code, fault = injection
        lines.append(
            _missed_line(str(row), f"`{code}`" if code in known else code or "-", fault, found)
        )
    lines.append(_missed_line("all", "-", "-", trials))
    return "\n".join(lines)


def _missed_line(row: str, code: str, fault: str, found: Sequence[Trial]) -> str:
    times_ms = [each.react_ms for each in found if each.react_ms is not None]
    missed = share(sum(bool(each.problem) for each in found), len(found))
    slowest = f"{ceil(max(times_ms))} ms" if times_ms and row != "all" else "-"
    return f"| {row} | {code} | {fault} | {len(found)} | {missed} | {slowest} |"


# ------------------------------------------------------------------------------------- the campaign


def read_results(file: Path | None, kind: type[Any]) -> list[Any]:
    """Read the results of an earlier call; an incomplete last line is ignored."""
    found = []
    if file is not None and file.exists():
        for line in file.read_bytes().splitlines():
            with contextlib.suppress(Exception):
                found.append(msgjson.decode(line, type=kind))
    return found


def run_jobs(
    work: Callable[[Any], Any], jobs: Sequence[Any], count: int, file: Path | None
) -> Iterator[Any]:
    """Yield each result as it comes, written to the file at once."""
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(file.open("ab")) if file is not None else None
        if stream is not None and file is not None and file.read_bytes()[-1:] not in (b"", b"\n"):
            # Whatever a call that was cut short has begun to write.
            stream.write(b"\n")
        pool = stack.enter_context(ProcessPoolExecutor(count))
        for future in as_completed([pool.submit(work, job) for job in jobs]):
            result = future.result()
            if stream is not None:
                stream.write(msgjson.encode(result) + b"\n")
                stream.flush()
            yield result


def _campaign(arguments: argparse.Namespace) -> int:
    done: list[Outcome] = [
        each for each in read_results(arguments.out, Outcome) if each.profile in arguments.profile
    ]
    known = {(each.profile, each.index) for each in done}
    indices = range(arguments.first, arguments.first + arguments.drives)
    # By number, so that a campaign that is cut short has driven every profile alike.
    jobs = [
        (name, index, tuple(arguments.set), tuple(arguments.warning))
        for index in indices
        for name in arguments.profile
        if (name, index) not in known
    ]
    progress, total = Progress(), len(done) + len(jobs)
    for outcome in run_jobs(_drive, jobs, arguments.jobs, arguments.out):
        done.append(outcome)
        if outcome.alarms or not outcome.finished:
            what = (
                "; ".join(
                    f"{reaction} {code}: {reason}" for reaction, code, reason in outcome.alarms
                )
                or outcome.why
            )
            print(f"{outcome.profile} {outcome.index}: {what}\n  {outcome.command}", flush=True)
        if progress.due():
            progress.show(
                f"{len(done)} of {total} drives, {sum(bool(each.alarms) for each in done)} "
                "with an alarm"
            )
    progress.close()
    print(alarm_table(done))
    print(f"\n{sum(each.cpu_s for each in done) / 60.0:.1f} min of processor time", file=sys.stderr)
    return 1 if any(each.alarms or not each.finished for each in done) else 0


def _missed(arguments: argparse.Namespace) -> int:
    done: list[Trial] = read_results(arguments.out, Trial)
    known = {(*each.injection, each.seed) for each in done}
    seeds = range(arguments.first, arguments.first + arguments.missed)
    numbers = [
        k for k, each in enumerate(INJECTIONS)
        if (not arguments.row or each.row in arguments.row)
        and (not arguments.rule or each.code in arguments.rule)
    ]  # fmt: skip
    jobs = [
        (k, seed) for seed in seeds for k in numbers
        if (INJECTIONS[k].row, INJECTIONS[k].code, INJECTIONS[k].how, seed) not in known
    ]  # fmt: skip
    progress, total = Progress(), len(done) + len(jobs)
    for trial in run_jobs(_inject, jobs, arguments.jobs, arguments.out):
        done.append(trial)
        if trial.problem:
            print(
                f"row {trial.row} {trial.code} ({trial.fault}), {trial.link}, seed "
                f"{trial.seed}, {trial.course}:"
            )
            print(f"  {trial.problem}", flush=True)
        if progress.due():
            progress.show(
                f"{len(done)} of {total} injections, "
                f"{sum(bool(each.problem) for each in done)} missed"
            )
    progress.close()
    print(missed_table(done))
    return 1 if any(each.problem for each in done) else 0


def _markdown(arguments: argparse.Namespace) -> int:
    """Print the tables of a file of results."""
    outcomes: list[Outcome] = [
        each for each in read_results(arguments.out, Outcome) if each.profile in arguments.profile
    ]
    trials: list[Trial] = [
        each
        for each in read_results(arguments.out, Trial)
        if not arguments.row or each.row in arguments.row
    ]
    if outcomes:
        print(alarm_table(outcomes))
    if trials:
        print(missed_table(trials))
    if not (outcomes or trials):
        print(
            (
                f"{arguments.out} holds no results: name the file that an earlier call wrote with "
                "--out"
            ),
            file=sys.stderr,
        )
        return 1
    return 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--profile", action="append", default=[], help="repeatable (default: every shipped one)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change every profile; repeatable",
    )
    parser.add_argument(
        "--warning",
        action="append",
        default=[],
        metavar="CODE",
        help="count this warning, too; repeatable",
    )
    parser.add_argument("--drives", type=int, default=200, help="per profile (default 200)")
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="number of the first drive, or seed of the first injection",
    )
    parser.add_argument(
        "--missed", type=int, default=0, metavar="N", help="inject every fault N times instead"
    )
    parser.add_argument(
        "--row",
        type=int,
        action="append",
        default=[],
        help="with --missed: only this row; repeatable",
    )
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="CODE",
        help="with --missed: only this rule; repeatable",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: one per processor)",
    )
    parser.add_argument("--out", type=Path, help="file of results, to go on with")
    parser.add_argument("--markdown", action="store_true", help="only print the table of --out")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.profile if name not in PROFILES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no shipped profile; there are {', '.join(PROFILES)}")
    if min(arguments.drives, arguments.jobs) < 1:
        parser.error("at least one drive and one process")
    if arguments.markdown and arguments.out is None:
        parser.error("--markdown prints the results of a file: add --out FILE")
    arguments.profile = arguments.profile or list(PROFILES)
    if arguments.markdown:
        return _markdown(arguments)
    return _missed(arguments) if arguments.missed else _campaign(arguments)


if __name__ == "__main__":
    sys.exit(main())

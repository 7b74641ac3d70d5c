"""``python -m tests.soak``: hours of driving in lockstep with random misfortunes, judged all the
way.

The hours are shared by the seeds in equal parts. A seed is one vehicle on one course: it breaks,
stops, and an operator arms it anew as soon as it stands and nothing is wrong any more. What must
hold is in ``tests.closed_loop.fault_judge``; besides, nothing stops without a misfortune, nothing
stays where it cannot be armed, and the memory of the process does not grow.

Exit status: 0 all is well, 1 something is not.
"""

import argparse
import gc
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure
from tests.closed_loop.fault_judge import ASKED, DRIVING, FINISHED, SECOND_NS, Judge, Stop
from tests.closed_loop.misfortunes import end_s, kind, misfortunes
from tests.closed_loop.outside import Outside
from tests.closed_loop.pair_bench import begin, course_of, profile_of, stands
from vehicled.core.messages import Mode, OperatorAction

COURSES = ("circle_r5_ccw", "circle_r5_cw", "figure_eight", "lot17", "square")
PAUSE_S = (5.0, 12.0)
"""Pause between failures: long enough to stand, be re-armed and drive."""
AFTERMATH_S = 4.0
"""Time after a failure in which a stop is still attributed to it: estimates, means and rules have a
memory."""
STRANDED_S = 60.0
"""Time without driving after which a vehicle counts as stranded."""
ASK_EVERY_S = 2.0
AT_ONCE_S, IN_VAIN = 0.5, 3
"""Duration of a drive too short to be worth arming, and the number of them in a row that counts as
stranded."""
BY_PLACE = ("off the course", "backwards")
"""Reasons for which a stranded vehicle must be carried back."""
GROWTH_MB = 4.0
"""Limit of memory growth over the last three quarters: more is a leak."""
SAMPLES = 8
"""Least number of memory samples to judge."""
REPORT_WIDTH = 132
"""Width of a report that goes into a file."""
SAMPLE_S = 30.0
"""Simulated time between memory samples."""


class Account:
    """Totals of all drives."""

    def __init__(self) -> None:
        self.happened: Counter[str] = Counter()
        self.stopped: Counter[str] = Counter()
        """Stops by the failures that were active or had just ended."""
        self.codes: dict[str, Counter[str]] = {}
        self.broken: list[tuple[int, str]] = []
        """Seed and text of each broken rule."""
        self.stranded: list[tuple[int, str]] = []
        self.stops = 0
        self.explained: Counter[str] = Counter()
        """Stops by cause: a failure, a request, the end of the course, or none."""
        self.why: Counter[str] = Counter()
        """Codes reported in the drives that ended."""
        self.vehicles = 0
        self.driven_s = self.simulated_s = 0.0
        self.memory: list[tuple[float, float]] = []
        """Simulated seconds, resident megabytes."""

    def sample(self) -> None:
        """Measure the memory, at most once per ``SAMPLE_S``."""
        if self.memory and self.simulated_s - self.memory[-1][0] < SAMPLE_S:
            return
        gc.collect()
        megabytes = resident_mb()
        if megabytes is not None:
            self.memory.append((self.simulated_s, megabytes))

    @property
    def growth_mb(self) -> float | None:
        """Memory growth, MB, over the last three quarters by a straight line; None with too few
        samples."""
        points = self.memory[len(self.memory) // 4 :]
        if len(points) < SAMPLES:
            return None
        n = len(points)
        mean_t = sum(t for t, _ in points) / len(points)
        mean_m = sum(m for _, m in points) / len(points)
        spread = sum((t - mean_t) ** 2 for t, _ in points) / n
        slope = sum((t - mean_t) * (m - mean_m) for t, m in points) / n / spread
        return slope * (points[-1][0] - points[0][0])


def resident_mb() -> float | None:
    """Return the resident memory of this process; None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Drive:
    """All drives of one seed."""

    def __init__(self, seed: int, seconds: float, account: Account) -> None:
        random = Random(f"soak {seed}")
        self._seed, self._seconds, self._account = seed, seconds, account
        self.profile = random.choice(("art", "art_vesc"))
        self.link = random.choice(("wires", "messages"))
        self.course = random.choice(COURSES)
        self.failures: Sequence[Failure] = misfortunes(
            random, self.profile, self.link, seconds - AFTERMATH_S, PAUSE_S
        )

    def __str__(self) -> str:
        return (
            f"seed {self._seed}: {self.profile}, {self.link}, {self.course}, "
            f"{len(self.failures)} misfortunes"
        )

    def run(self) -> None:
        """Drive to the end, with a new vehicle whenever one has finished its course or is
        stranded."""
        begun_s = 0.0
        while begun_s < self._seconds - 1.0:
            begun_s += self._run_vehicle(begun_s)
        self._account.happened.update(kind(failure) for failure in self.failures)

    def _run_vehicle(self, begun_s: float) -> float:
        """Drive one vehicle as long as it lasts; return the time, s. Never raises on account of the
        daemon."""
        account, before_s = self._account, self._account.simulated_s
        account.vehicles += 1
        ahead = [
            replace(failure, start_s=failure.start_s - begun_s)
            for failure in self.failures
            if failure.start_s > begun_s
        ]
        judge = Judge(begun_s)
        judge.raises_expected = any(failure.kind.endswith("_raises") for failure in ahead)
        try:
            self._drive(judge, ahead, self._seconds - begun_s)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is what was looked for
            trace = "".join(traceback.format_exception(error)[-3:])
            account.broken.append(
                (
                    self._seed,
                    f"after {begun_s:.2f} s: raised {type(error).__name__}: {error}\n{trace}",
                )
            )
        account.broken += [(self._seed, text) for text in judge.broken]
        # What cannot even begin must not be tried for ever.
        return max(account.simulated_s - before_s, 1.0)

    def _drive(self, judge: Judge, failures: Sequence[Failure], seconds: float) -> None:
        account = self._account
        pair = begin(
            profile_of(self.profile), course_of(self.course), failures, judge, self._seed, self.link
        )
        outside, machine = Outside(pair, failures), pair.machine
        drove_s = t_s = asked_s = begun_s = 0.0
        drives, in_vain = False, 0
        while t_s < seconds:
            pair.grant()
            before_s, t_s = t_s, (pair.now_ns - START_NS) / SECOND_NS
            account.simulated_s += t_s - before_s
            outside.act(pair.now_ns)
            while judge.stops:
                stop = judge.stops.popleft()
                self._explain(stop)
                in_vain = in_vain + 1 if t_s - begun_s < AT_ONCE_S else 0
                if in_vain == IN_VAIN:
                    account.broken.append(
                        (
                            self._seed,
                            (
                                f"at {stop.t_s:.2f} s: armed, and stopped at once, {IN_VAIN} "
                                f"times: {stop.why}"
                            ),
                        )
                    )
                    return
            if machine.mode in DRIVING:
                begun_s = begun_s if drives else t_s
                account.driven_s += t_s - before_s
                drove_s = t_s
            elif t_s - drove_s > STRANDED_S:
                self._strand(
                    judge.since_begin_s(pair.now_ns), f"{machine.mode.name}: {machine.why}"
                )
                return
            drives = machine.mode in DRIVING
            if t_s - asked_s >= ASK_EVERY_S:
                account.sample()
                rests = machine.mode in (Mode.STANDBY, Mode.FAULT, Mode.ARMED) and stands(judge)
                if rests and machine.course_driven:
                    return
                if rests and not self._active(judge.since_begin_s(pair.now_ns), 1.0):
                    asked_s = t_s
                    outside.ask(pair.now_ns, OperatorAction.ARM, OperatorAction.DRIVE)
            pair.reply()

    def _active(self, t_s: float, after_s: float) -> list[Failure]:
        """Return failures that are active, or ended less than ``after_s`` ago."""
        return [
            failure
            for failure in self.failures
            if failure.start_s <= t_s <= end_s(failure) + after_s
        ]

    def _explain(self, stop: Stop) -> None:
        account, active = self._account, self._active(stop.t_s, AFTERMATH_S)
        account.stops += 1
        account.why.update(code for code in stop.codes if code not in (ASKED, FINISHED))
        own = ASKED if ASKED in stop.codes else FINISHED if FINISHED in stop.codes else ""
        account.explained[own or ("a misfortune" if active else "nothing")] += 1
        if not active and ASKED not in stop.codes and FINISHED not in stop.codes:
            latest = max(
                (end_s(failure) for failure in self.failures if failure.start_s <= stop.t_s),
                default=0.0,
            )
            ago = (
                f"{stop.t_s - latest:.1f} s after the last misfortune"
                if latest
                else "before any misfortune"
            )
            account.broken.append((self._seed, f"at {stop.t_s:.2f} s: stopped {ago}: {stop.why}"))
        for name in {kind(failure) for failure in active}:
            account.stopped[name] += 1
            account.codes.setdefault(name, Counter()).update(stop.codes)

    def _strand(self, t_s: float, why: str) -> None:
        text = f"at {t_s:.2f} s: has not driven for {STRANDED_S:g} s: {why}"
        place = any(words in why for words in BY_PLACE)
        (self._account.stranded if place else self._account.broken).append((self._seed, text))


def report(account: Account, console: Console, wall_s: float) -> bool:
    """Print the report; True if all is well."""
    table = Table("misfortune", "times", "stops during or after", "reported then, most often")
    for name, times in sorted(account.happened.items()):
        codes = ", ".join(
            f"{code} {n}" for code, n in account.codes.get(name, Counter()).most_common(3)
        )
        table.add_row(name, str(times), str(account.stopped[name]), codes)
    console.print(table)
    hours, driven = account.simulated_s / 3600.0, account.driven_s / max(account.simulated_s, 1e-9)
    happened = sum(account.happened.values())
    console.print(f"{hours:.2f} h simulated in {wall_s:.0f} s, {100 * driven:.0f} % of it driving")
    carried = (
        f"{account.vehicles} vehicles, {len(account.stranded)} of them carried back to the course"
    )
    console.print(
        f"{happened} misfortunes of {len(account.happened)} kinds, {account.stops} stops, {carried}"
    )
    console.print(
        "stops explained by: "
        + (", ".join(f"{what} {n}" for what, n in account.explained.most_common()) or "-")
    )
    console.print(
        "reported in them: "
        + (", ".join(f"{code} {n}" for code, n in account.why.most_common()) or "-")
    )
    growth = account.growth_mb
    leaks = growth is not None and growth > GROWTH_MB
    if growth is None:
        console.print("memory: too short a run to judge")
    else:
        peak = max(megabytes for _, megabytes in account.memory)
        console.print(
            f"memory: {growth:+.1f} MB over the last three quarters (limit {GROWTH_MB:g} MB), "
            f"{peak:.0f} MB at most"
        )
    kinds = Counter(
        re.sub(r"[-+]?[0-9]+[.][0-9]+", "x", text.split(": ", 1)[-1].split(":")[0])
        for _, text in account.broken
    )
    for text, n in kinds.most_common():
        console.print(f"{n} x {text}", highlight=False, markup=False)
    well = not account.broken and not leaks
    console.print(
        "all is well"
        if well
        else f"FAILED: {len(account.broken)} broken rules{', a leak' if leaks else ''}"
    )
    return well


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Hours of driving in lockstep with random misfortunes.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="drives (default 100)")
    parser.add_argument(
        "--hours",
        type=float,
        default=1.0,
        help="of simulated time, in equal parts over the drives (default 1)",
    )
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or not 0.0 < options.hours < 1e4:
        parser.error("at least one seed and a time above 0")
    seconds = options.hours * 3600.0 / options.seeds
    if seconds < 2.0 * AFTERMATH_S:
        parser.error(f"{seconds:.1f} s for each seed is too short: fewer seeds or more hours")
    account, begun_s = Account(), time.monotonic()
    console = Console() if sys.stdout.isatty() else Console(width=REPORT_WIDTH)
    said = Console(stderr=True)
    for seed in range(options.first, options.first + options.seeds):
        drive, known = Drive(seed, seconds, account), len(account.broken)
        drive.run()
        if len(account.broken) > known:
            said.print(str(drive), highlight=False, markup=False)
            for _, text in account.broken[known:]:
                said.print(f"  {text}", highlight=False, markup=False)
            again = f"--first {seed} --seeds 1 --hours {seconds / 3600.0:.6g}"
            said.print(f"  again: python -m tests.soak {again}", highlight=False, markup=False)
    return 0 if report(account, console, time.monotonic() - begun_s) else 1


if __name__ == "__main__":
    sys.exit(main())

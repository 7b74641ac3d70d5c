"""Speed of a study: drives per core-minute, scaling over cores, cost of the log, and where the time
of a drive goes.

    python bench/study.py [--drives 8] [--rounds 3]
    python bench/study.py --instructions
    make compiled && python bench/study.py --compiled [--instructions]

Each drive is the lap of ``lot17`` at the shipped rates. Arms run in turn; figures are medians over
rounds. The reference of the ratios is the drive with two processes, as ``vehicled sim --no-log``
does it. ``--instructions`` counts instead of timing: it needs valgrind, takes some minutes, and
scatters by a tenth, on a busy machine too. ``--compiled`` drives with the wheel of ``make
compiled`` and with plain Python in turn, and compares CPU time without the set-up, the whole
results and, on demand, instructions.
"""

import argparse
import cProfile
import json
import os
import pstats
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from zipfile import ZipFile

import vehicled as v
from vehicled.offline.studies.conduct import RunRequest, conduct
from vehicled.offline.studies.specification import RunSettings
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.run.terminal import print_table

PARTS: dict[str, tuple[str, ...]] = {
    "simulated world": ("sim_backend",),
    "drivers": ("drivers",),
    "estimation": ("vehicled/estimation",),
    "control, paths": ("vehicled/control", "vehicled/paths"),
    "safety": ("vehicled/safety",),
    "executive, machine, bus": tuple(
        f"vehicled/{name}" for name in ("executive", "machine", "bus", "pipeline", "histogram")
    ),
}


ROOT = Path(__file__).resolve().parent.parent
COUNTED_S = (3.0, 7.0)
"""Lengths of the two counted drives: their difference has no start of the process in it."""
TIMED_S = (10.0, 100.0)
"""Lengths of the two timed drives."""
OF_THE_COMPUTER = ("wall_s", "late_tasks")
"""Fields of a result that are not the drive's."""


def plan(log: str | None, duration_s: float | None = None) -> Plan:
    """Return the plan of the lap, or of its beginning."""
    spec = RunSpec(
        profile="art",
        course="lot17",
        seed=7,
        start_timeout_s=START_TIMEOUT_S,
        log_folder=log,
        duration_s=duration_s,
    )
    return Plan.of(spec)


def lap(arm: str) -> tuple[float, float, float]:
    """Drive the lap; return simulated s per wall s, and CPU ms per simulated s of this process and
    of the others."""
    with tempfile.TemporaryDirectory() as folder:
        lap_plan = plan(folder if arm == "in one process, with log" else None)
        began, before = time.perf_counter(), os.times()
        done = simulate(lap_plan, SimulationSpec(in_process=arm != "two processes"))
        run_s, after = done.result.run_s, os.times()
        here_s = after.user + after.system - before.user - before.system
        others_s = abs(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        return run_s / (time.perf_counter() - began), 1e3 * here_s / run_s, 1e3 * others_s / run_s


def counted(with_log: bool, packages: Path = ROOT) -> float:
    """Return millions of instructions of a drive per simulated second, counted by valgrind."""
    counts, times_s = [], []
    for duration_s in COUNTED_S:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                "valgrind",
                "--tool=cachegrind",
                "--cache-sim=no",
                f"--cachegrind-out-file={os.devnull}",
                sys.executable,
            ]
            command += [
                __file__,
                "--drive",
                str(duration_s),
                *(["--log", folder] if with_log else []),
            ]
            # Hashes of texts are random otherwise, and with them the number of collisions.
            environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(packages)}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
        found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        assert found is not None, done.stderr
        counts.append(int(found[1].replace(",", "")))
        times_s.append(float(done.stdout.split()[-1]))
    return (counts[1] - counts[0]) / (times_s[1] - times_s[0]) * 1e-6


def timed(packages: Path) -> tuple[str, float, float]:
    """Return the results of two drives in processes of their own, CPU seconds per simulated second,
    and CPU seconds of the set-up.

    The difference of the two drives has no set-up in it.
    """
    results, times = [], []
    for duration_s in TIMED_S:
        command = [sys.executable, __file__, "--drive", str(duration_s)]
        environment = os.environ | {"PYTHONPATH": str(packages)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        result, cpu_s, run_s = done.stdout.splitlines()[-1].rsplit(maxsplit=2)
        results.append(result)
        times.append((float(cpu_s), float(run_s)))
    (cpu_1, run_1), (cpu_2, run_2) = times
    per_s = (cpu_2 - cpu_1) / (run_2 - run_1)
    return "\n".join(results), per_s, cpu_1 - run_1 * per_s


def compare_compiled(rounds: int, instructions: bool, as_json: bool) -> None:
    """Print the speed of the compiled wheel beside that of plain Python. Exits if their results
    differ."""
    wheels = sorted(
        (ROOT / "dist").glob(f"vehicled-*-cp{sys.version_info.major}{sys.version_info.minor}-*.whl")
    )
    if not wheels:
        sys.exit("dist/ has no compiled wheel for this Python: run make compiled")
    speeds: dict[str, list[float]] = {"plain": [], "compiled": []}
    set_ups: dict[str, list[float]] = {"plain": [], "compiled": []}
    results = set()
    with tempfile.TemporaryDirectory() as name:
        ZipFile(wheels[-1]).extractall(name)
        packages = {"plain": ROOT, "compiled": Path(name)}
        for _ in range(rounds):
            for arm, folder in packages.items():
                result, per_s, set_up_s = timed(folder)
                results.add(result)
                speeds[arm].append(1.0 / per_s)
                set_ups[arm].append(set_up_s)
        counts = (
            {arm: counted(False, folder) for arm, folder in packages.items()}
            if instructions
            else {}
        )
    ratios = [
        compiled / plain
        for plain, compiled in zip(speeds["plain"], speeds["compiled"], strict=True)
    ]
    found = {
        arm: {
            "x_real_time": median(speeds[arm]),
            "of_plain": median(ratios) if arm == "compiled" else 1.0,
            "set_up_ms": 1e3 * median(set_ups[arm]),
            "instructions": counts.get(arm),
        }
        for arm in speeds
    }
    if as_json:
        print(json.dumps(found | {"of_plain_of_rounds": sorted(ratios)}))
    else:
        rows = [
            [
                arm,
                f"{each['x_real_time']:.1f}",
                f"{each['of_plain']:.2f}",
                f"{each['set_up_ms']:.0f}",
            ]
            + ([f"{counts[arm]:.0f}", f"{counts['plain'] / counts[arm]:.2f}"] if counts else [])
            for arm, each in found.items()
        ]
        heads = [
            "",
            "simulated s per CPU s",
            "of plain",
            "set-up, CPU ms",
            "M instructions per simulated s",
            "plain / this",
        ]
        print_table(
            "90 s of the lap of lot17 in one process, no log, without the set-up",
            heads[: len(rows[0])],
            rows,
        )
    if len(results) > 1:
        sys.exit("the results of the drives differ:\n" + "\n\n".join(sorted(results)))


def beyond() -> dict[str, float]:
    """Return CPU milliseconds of a drive of a study: for each simulated second, and beyond the
    drive (profile, plan, set-up)."""
    times: dict[float, list[float]] = {2.0: [], 12.0: []}
    for number in range(12):
        for duration_s, found in times.items():
            settings = RunSettings(
                profile="art", course="lot17", seed=1 + number, duration_s=duration_s
            )
            before_s = time.process_time()
            conduct(RunRequest(key="", number=number, levels={}, settings=settings))
            # The first drives import and fill caches, as in the worker of a study.
            if number >= 2:
                found.append(time.process_time() - before_s)
    short_s, long_s = (median(found) for found in times.values())
    per_s = (long_s - short_s) / 10.0
    fixed_s = short_s - 2.0 * per_s
    return {
        "per_s_ms": 1e3 * per_s,
        "fixed_ms": 1e3 * fixed_s,
        "of_30_s": fixed_s / (fixed_s + 30.0 * per_s),
    }


def drives_per_minute(drives: int, jobs: int) -> float:
    """Drive a study of short drives; return drives per minute, without the start of the
    processes."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        study = {
            "name": "speed",
            "course": "lot17",
            "duration_s": 30.0,
            "factors": {"seed": {"from": 1, "to": drives * jobs}},
        }
        v.study(
            study,
            output=Path(folder) / "study",
            jobs=jobs,
            progress=lambda state: times.append(time.perf_counter()),
        )
    # The first rows of every process include its start.
    steady = times[jobs:]
    return 60.0 * (len(steady) - 1) / (steady[-1] - steady[0])


def shares() -> list[list[str]]:
    """Return where the time of a drive goes, by package, from a profile of it."""
    profiler = cProfile.Profile()
    lap_plan = plan(None)
    profiler.enable()
    simulate(lap_plan, SimulationSpec(in_process=True))
    profiler.disable()
    found = dict.fromkeys([*PARTS, "other"], 0.0)
    for (file, _, _), (_, _, own_s, _, callers) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        # Time inside built-in functions belongs to whoever calls them.
        places = (
            [(file, own_s)]
            if file != "~"
            else [(caller[0], row[2]) for caller, row in callers.items()]
        )
        for place, seconds in places:
            part = next(
                (name for name, texts in PARTS.items() if any(text in place for text in texts)),
                "other",
            )
            found[part] += seconds
    total = sum(found.values())
    return [
        [name, f"{100 * seconds / total:.0f} %"]
        for name, seconds in sorted(found.items(), key=lambda item: -item[1])
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--drives", type=int, default=8, help="drives of a study for each process (default 8)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions instead of timing"
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="compare the wheel of make compiled with plain Python",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON; not for instructions alone"
    )
    parser.add_argument("--drive", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive_plan, before_s = plan(options.log, options.drive), time.process_time()
        result = simulate(drive_plan, SimulationSpec(in_process=True)).result
        cpu_s = time.process_time() - before_s
        whole = {
            key: value
            for key, value in json.loads(result.to_json()).items()
            if key not in OF_THE_COMPUTER
        }
        print(json.dumps(whole), cpu_s, result.run_s)
        return
    if options.compiled:
        compare_compiled(options.rounds, options.instructions, options.json)
        return
    if options.instructions:
        rows = [
            [name, f"{counted(with_log):.0f}"]
            for name, with_log in (("no log", False), ("with log", True))
        ]
        print_table(
            f"millions of instructions per simulated second, Python {sys.version.split()[0]}",
            ["in one process", ""],
            rows,
        )
        return
    arms = ("two processes", "in one process", "in one process, with log")
    laps: dict[str, list[tuple[float, float, float]]] = {arm: [] for arm in arms}
    for _ in range(options.rounds):
        for arm in arms:
            laps[arm].append(lap(arm))
    found = {
        arm: [median(column) for column in zip(*rows, strict=True)] for arm, rows in laps.items()
    }
    reference = found[arms[0]][0]
    cost = beyond()
    if options.json:
        speeds = {
            arm: {"x_real_time": factor, "ratio": factor / reference}
            for arm, (factor, _, _) in found.items()
        }
        print(json.dumps({"lap": speeds, "beyond": cost}))
        return
    rows = [
        [arm, f"{factor:.1f}", f"{factor / reference:.2f}", f"{here_ms:.0f}", f"{others_ms:.0f}"]
        for arm, (factor, here_ms, others_ms) in found.items()
    ]
    heads = [
        "",
        "x real time",
        "of two processes",
        "CPU ms per simulated s: daemon",
        "other processes",
    ]
    print_table("a lap of lot17", heads, rows)
    share = f"{100.0 * cost['of_30_s']:.0f} %"
    rows = [[f"{cost['per_s_ms']:.1f}", f"{cost['fixed_ms']:.1f}", share]]
    print_table(
        "a drive of a study, CPU ms",
        ["per simulated s", "beyond the drive", "of a drive of 30 s"],
        rows,
    )
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    rates: dict[int, list[float]] = {jobs: [] for jobs in {1, cores}}
    for _ in range(options.rounds):
        for jobs, measured in rates.items():
            measured.append(drives_per_minute(options.drives, jobs))
    one = median(rates[1])
    rows = [
        [str(jobs), f"{median(rate):.1f}", f"{median(rate) / one:.2f}"]
        for jobs, rate in sorted(rates.items())
    ]
    print_table("a study of drives of 30 s", ["processes", "drives per minute", "of one"], rows)
    print_table("where the time of a drive goes (under a profiler)", ["", ""], shares())


if __name__ == "__main__":
    main()

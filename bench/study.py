"""Speed of a study: drives per core-minute, scaling over cores, cost of the log, and where the time of a drive goes.

    python bench/study.py [--drives 8] [--rounds 3]

Each drive is the lap of ``lot17`` at the shipped rates. Arms run in turn; figures are medians over rounds. The reference of the
ratios is the drive with two processes, as ``vehicled sim --no-log`` does it.
"""

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from pathlib import Path
from statistics import median

import vehicled as v
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.terminal import print_table

PARTS: dict[str, tuple[str, ...]] = {
    "simulated world": ("sim_backend",),
    "drivers": ("drivers",),
    "estimation": ("vehicled/estimation",),
    "control, paths": ("vehicled/control", "vehicled/paths"),
    "safety": ("vehicled/safety",),
    "executive, machine, bus": tuple(f"vehicled/{name}" for name in ("executive", "machine", "bus", "pipeline", "histogram")),
}


def plan(log: str | None) -> Plan:
    """Return the plan of the lap."""
    return Plan.of(RunSpec(profile="art", course="lot17", seed=7, start_timeout_s=START_TIMEOUT_S, log_folder=log))


def lap(arm: str) -> float:
    """Drive the lap; return simulated seconds per wall second."""
    with tempfile.TemporaryDirectory() as folder:
        lap_plan = plan(folder if arm == "in one process, with log" else None)
        began = time.perf_counter()
        done = simulate(lap_plan, SimulationSpec(in_process=arm != "two processes"))
        return done.result.run_s / (time.perf_counter() - began)


def drives_per_minute(drives: int, jobs: int) -> float:
    """Drive a study of short drives; return drives per minute, without the start of the processes."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        study = {"name": "speed", "course": "lot17", "duration_s": 30.0, "factors": {"seed": {"from": 1, "to": drives * jobs}}}
        v.study(study, output=Path(folder) / "study", jobs=jobs, progress=lambda state: times.append(time.perf_counter()))
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
        places = [(file, own_s)] if file != "~" else [(caller[0], row[2]) for caller, row in callers.items()]
        for place, seconds in places:
            part = next((name for name, texts in PARTS.items() if any(text in place for text in texts)), "other")
            found[part] += seconds
    total = sum(found.values())
    return [[name, f"{100 * seconds / total:.0f} %"] for name, seconds in sorted(found.items(), key=lambda item: -item[1])]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drives", type=int, default=8, help="drives of a study for each process (default 8)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default 3)")
    options = parser.parse_args()
    arms = ("two processes", "in one process", "in one process, with log")
    factors: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(options.rounds):
        for arm in arms:
            factors[arm].append(lap(arm))
    reference = median(factors[arms[0]])
    rows = [[arm, f"{median(found):.1f}", f"{median(found) / reference:.2f}"] for arm, found in factors.items()]
    print_table("a lap of lot17", ["", "x real time", "of two processes"], rows)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rates: dict[int, list[float]] = {jobs: [] for jobs in {1, cores}}
    for _ in range(options.rounds):
        for jobs, found in rates.items():
            found.append(drives_per_minute(options.drives, jobs))
    one = median(rates[1])
    rows = [[str(jobs), f"{median(found):.1f}", f"{median(found) / one:.2f}"] for jobs, found in sorted(rates.items())]
    print_table("a study of drives of 30 s", ["processes", "drives per minute", "of one"], rows)
    print_table("where the time of a drive goes (under a profiler)", ["", ""], shares())


if __name__ == "__main__":
    main()

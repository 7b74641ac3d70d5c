"""Speed of a lap in lockstep relative to real time, and where the time goes.

    python bench/lockstep.py [--rounds 5] [--cpus 0] [--json] [--profile-daemon]

Drives lot17 at IMU 400, fusion 200, control and actuation 100 Hz, all processes on the given
processors (default: one), in turns:

* full: daemon, simulator and log writer
* no log: the same without a log
* simulator alone (the reference): the same simulator, granted every 2.5 ms by a peer that only says
  DONE; nothing drives

CPU time is the operating system's own account of each process. ``--profile-daemon`` lists the
daemon's time by module.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from vehicled.core.link import LinkFrameKind, encode
from vehicled.run.plan import Plan
from vehicled.run.session import Observer, drive, greet
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.runtime.connection import Link
from vehicled.runtime.simulator import SimulatorProcess

ROOT = Path(__file__).resolve().parents[1]
SEED = 7
GRANT_NS = 2_500_000
ALONE_S = 60.0


class Usage:
    """CPU time (s) of this process and of its ended children since creation."""

    def __init__(self) -> None:
        self._own, self._children = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)

    def own_s(self) -> float:
        """Return the CPU time of this process."""
        return _cpu(resource.RUSAGE_SELF) - self._own

    def children_s(self) -> float:
        """Return the CPU time of the children that ended since."""
        return _cpu(resource.RUSAGE_CHILDREN) - self._children


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def plan(folder: str | None = None) -> Plan:
    """Return the plan of a lap; without a log if ``folder`` is None."""
    return Plan.of(
        RunSpec(
            profile="art",
            course="lot17",
            seed=SEED,
            start_timeout_s=START_TIMEOUT_S,
            log_folder=folder,
        )
    )


def lap(folder: str | None) -> dict[str, float]:
    """Drive one lap; return times in s."""
    lap_plan = plan(folder)
    usage = Usage()
    with SimulatorProcess(lap_plan.loaded.path, [], "lot17", SEED) as simulator:
        done = drive(
            lap_plan, greet(lap_plan, simulator.sock), Observer(), simulator_pid=simulator.pid
        )
    run_s = (done.ending.now_ns - done.started_ns) * 1e-9
    writer_s = done.log.writer_cpu_s if done.log is not None else 0.0
    return {
        "factor": run_s / done.wall_s,
        "daemon": usage.own_s() / run_s,
        "simulator": (usage.children_s() - writer_s) / run_s,
        "writer": writer_s / run_s,
    }


def simulator_alone() -> float:
    """Return the real-time factor of the simulator with a peer that only answers."""
    lap_plan = plan()
    with SimulatorProcess(lap_plan.loaded.path, [], "lot17", SEED) as simulator:
        link = Link(simulator.sock, "lockstep", lap_plan.wiring.ports, 15.0)
        begin = time.monotonic()
        now_ns = start_ns = link.hello.start_ns
        while now_ns < start_ns + ALONE_S * 1e9:
            for kind, _, t_ns, _ in link.receive():
                if kind is LinkFrameKind.GRANT:
                    now_ns = t_ns
                    link.send(encode(LinkFrameKind.DONE, 0, now_ns + GRANT_NS))
        wall_s = time.monotonic() - begin
        link.close("measured")
    return ALONE_S / wall_s


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--cpus", default="0", help="processors to use, comma separated (default 0)"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile-daemon", action="store_true")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments.cpus.split(",")})
    if arguments.profile_daemon:
        _profile()
        return
    full, bare, alone = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            full.append(lap(folder))
            bare.append(lap(None))
            alone.append(simulator_alone())
    median = {key: statistics.median(round_[key] for round_ in full) for key in full[0]}
    result = {
        "cpus": arguments.cpus,
        "factor_full": median["factor"],
        "factor_no_log": statistics.median(round_["factor"] for round_ in bare),
        "factor_simulator_alone": statistics.median(alone),
        "ratio_full_to_simulator_alone": statistics.median(
            f["factor"] / a for f, a in zip(full, alone, strict=True)
        ),
        "cpu_ms_per_s_of_run": {
            key: 1e3 * median[key] for key in ("daemon", "simulator", "writer")
        },
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"lot17 in lockstep, processors {arguments.cpus}, median of {arguments.rounds} rounds")
    print(
        f"  full             {result['factor_full']:6.1f} x real time  (min "
        f"{min(f['factor'] for f in full):.1f})"
    )
    print(f"  no log           {result['factor_no_log']:6.1f} x real time")
    print(f"  simulator alone  {result['factor_simulator_alone']:6.1f} x real time")
    print(f"  full / simulator alone: {result['ratio_full_to_simulator_alone']:.2f}")
    print(
        "CPU ms per second of the run: "
        + ", ".join(f"{key} {ms:.1f}" for key, ms in result["cpu_ms_per_s_of_run"].items())
    )


def _profile() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    lap(None)
    profiler.disable()
    by_module: dict[str, float] = {}
    for (file, _, name), (_, _, own_s, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        where = (
            name
            if file == "~"
            else str(Path(file).relative_to(ROOT))
            if file.startswith(str(ROOT))
            else Path(file).name
        )
        by_module[where] = by_module.get(where, 0.0) + own_s
    total = sum(by_module.values())
    print(
        f"daemon's time by module or builtin, {total:.1f} s under the profiler (which doubles "
        "the cost of small functions)"
    )
    for where, own_s in sorted(by_module.items(), key=lambda item: -item[1])[:30]:
        print(f"  {100 * own_s / total:5.1f} %  {where}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

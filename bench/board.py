"""Missed deadlines of this computer beside those of its recording replayed in lockstep.

    python bench/board.py --seconds 30 --seeds 5

Measures the profile's tasks on this computer without load, with a busy process on every processor,
and with a quota of processor time (a cgroup, where cgroups can be written), each with ``vehicled
doctor --measure-board``; then drives the same profile in lockstep with the recording and several
seeds. The tasks run in the ordinary scheduling class unless ``--fifo`` is given, because a loop at
real-time priority hardly notices the load.

The recorded interval (95 %) is that of the mean over blocks of 0.5 s, resampled: what another
recording of the same length would give if the computer stayed as it is. The replayed interval is
the smallest and the largest of the seeds.
"""

import argparse
import ctypes
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.executive import Executive, TaskSpec
from vehicled.core.messages import TaskTick
from vehicled.core.tasks import PIPELINE
from vehicled.profile import load_profile
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec
from vehicled.runtime.board import facts
from vehicled.runtime.board.recording import BoardRecording, BoardStopwatch, read

PR_CAPBSET_DROP = 24
QUOTA = 0.35
"""Processor time of one processor that daemon and simulator get together in the case with a
quota."""
PERIOD_US = 100_000
BLOCK_NS = 500_000_000
TOLERANCE = 0.2
FEW = 20
"""Below this many late releases a rate is not judged: one burst more or less is already a fifth of
it."""


def ordinary() -> None:
    """Keep the process that follows from real-time priority, also as root."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, 23, 0, 0, 0)


@contextmanager
def busy() -> Iterator[None]:
    """Keep one process per processor busy."""
    load = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


@contextmanager
def quota() -> Iterator[Path]:
    """Make a cgroup with a quota of processor time and yield the file that takes a process in.
    Raises OSError."""
    for root, keys in (
        (
            Path("/sys/fs/cgroup/cpu"),
            {
                "cpu.cfs_period_us": str(PERIOD_US),
                "cpu.cfs_quota_us": str(round(QUOTA * PERIOD_US)),
            },
        ),
        (Path("/sys/fs/cgroup"), {"cpu.max": f"{round(QUOTA * PERIOD_US)} {PERIOD_US}"}),
    ):
        group = root / f"vehicled-bench-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        group.mkdir()
        try:
            for name, value in keys.items():
                (group / name).write_text(value)
            yield group / "cgroup.procs"
        finally:
            with suppress(OSError):
                group.rmdir()
        return
    raise OSError("no cgroup controller of the processor is mounted")


def measure(arguments: argparse.Namespace, file: Path, procs: Path | None = None) -> None:
    """Run the command that measures, in a cgroup if one is given."""

    def before() -> None:
        if not arguments.fifo:
            ordinary()
        if procs is not None:
            procs.write_text(str(os.getpid()))

    command = [sys.executable, "-m", "vehicled", "doctor", "--measure-board", str(file)]
    command += ["--profile", arguments.profile, "--duration", str(arguments.seconds)]
    subprocess.run(
        command, check=True, preexec_fn=before, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def replayed(arguments: argparse.Namespace, file: Path, seed: int) -> dict[str, float]:
    """Return the late share of each task in a lockstep drive with the recording, as ``vehicled sim
    --board`` drives it.

    Unlike there the run goes on after a stop: the recording did, too.
    """
    spec = RunSpec(
        profile=arguments.profile, board=str(file), seed=seed, duration_s=arguments.seconds,
        laps=arguments.laps, stays=True, log_folder=None,
    )  # fmt: skip
    executive = simulate(Plan.of(spec), SimulationSpec()).drive.machine.executive
    found = {name: executive.stats(number) for number, name in enumerate(PIPELINE)}
    return {
        name: (stats.misses + stats.skips) / (stats.n + stats.skips)
        for name, stats in found.items()
    }


def intervals(recording: BoardRecording) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each task's recorded late share, by resampling its blocks."""
    tasks = recording.tasks
    blocks = {name: np.zeros(max(int(recording.duration_s * 1e9) // BLOCK_NS, 1)) for name in tasks}

    def count(tick: TaskTick) -> None:
        late = blocks[PIPELINE[tick.task]]
        late[tick.release_ns // BLOCK_NS % len(late)] += tick.missed + tick.skipped

    stopwatch = BoardStopwatch(recording, PIPELINE, 0, 0)
    table = [
        TaskSpec(
            name=name, rate_hz=row.rate_hz, deadline_ns=round(row.deadline_ms * 1e6),
            phase_ns=round(row.phase_ms * 1e6), run=lambda now_ns: None,
        )
        for name, row in ((name, tasks[name]) for name in PIPELINE)
    ]  # fmt: skip
    executive, now_ns = Executive(table, stopwatch, count), 0
    executive.start(0)
    while now_ns < recording.duration_s * 1e9:
        executive.run(now_ns)
        now_ns = stopwatch.wake_ns(
            executive.next_due_ns(), max(executive.busy_until_ns, now_ns + 1)
        )
    draw, found = np.random.default_rng(1), {}
    for name, late in blocks.items():
        means = draw.choice(late, (2000, len(late))).mean(axis=1) / (
            tasks[name].rate_hz * BLOCK_NS / 1e9
        )
        low, high = np.quantile(means, (0.025, 0.975))
        found[name] = (float(low), float(high))
    return found


def compare(arguments: argparse.Namespace, case: str, file: Path) -> list[dict[str, Any]]:
    """Print recorded and replayed late shares; return the rows."""
    profile = load_profile(arguments.profile)
    recording, _ = read(file, profile.tasks)
    shares = [replayed(arguments, file, seed) for seed in range(1, arguments.seeds + 1)]
    rows, recorded = [], intervals(recording)
    for name, row in recording.tasks.items():
        now = [share[name] for share in shares]
        low, high = recorded[name]
        mean, count = float(np.mean(now)), row.misses + row.skips
        ratio = mean / row.late_share if row.late_share else float("nan")
        verdict = "few" if count < FEW else "ok" if abs(ratio - 1.0) <= TOLERANCE else "OUTSIDE"
        rows.append(
            {
                "case": case,
                "task": name,
                "recorded": row.late_share,
                "replayed": mean,
                "verdict": verdict,
            }
        )
        print(
            f"{case:<9} {name:<10} recorded {row.late_share:8.3%} [{low:.3%}, {high:.3%}]   "
            f"replayed {mean:8.3%} [{min(now):.3%}, {max(now):.3%}]   ratio {ratio:5.2f}  {verdict}"
        )
    sys.stdout.flush()
    return rows


def main() -> int:
    """Measure, replay, compare. Status 1 if a rate is outside the tolerance."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", default="art")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="length of each recording and of each replay"
    )
    parser.add_argument("--seeds", type=int, default=5, help="replays of each recording")
    parser.add_argument(
        "--laps", type=int, default=3, help="laps of the replayed drives; enough for their length"
    )
    parser.add_argument(
        "--fifo",
        action="store_true",
        help="let the loop have real-time priority where it is permitted",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the recordings in this folder"
    )
    arguments = parser.parse_args()
    print(
        f"{facts.model()}, {os.cpu_count()} processors, {platform.platform()}; load before: "
        f"{os.getloadavg()[0]:.1f}"
    )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        measure(arguments, place / "unloaded.json")
        rows += compare(arguments, "unloaded", place / "unloaded.json")
        with busy():
            measure(arguments, place / "loaded.json")
        rows += compare(arguments, "loaded", place / "loaded.json")
        try:
            with quota() as procs:
                measure(arguments, place / "quota.json", procs)
        except OSError as error:
            print(f"quota: not measured, no cgroup can be written here ({error})")
        else:
            rows += compare(arguments, "quota", place / "quota.json")
    judged = [row for row in rows if row["verdict"] != "few"]
    good = sum(row["verdict"] == "ok" for row in judged)
    print(
        f"{good} of {len(judged)} rates are within {TOLERANCE:.0%}; {len(rows) - len(judged)} "
        "had too few misses to judge"
    )
    return int(any(row["verdict"] == "OUTSIDE" for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""``vehicled doctor --measure-board``: records the task times of this computer, to be replayed by
``vehicled sim --board``."""

import os
import platform
import re
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from math import ceil, inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from vehicled import __version__
from vehicled.core.errors import SetupError
from vehicled.log.reader import LogReader, run_parts, ticks
from vehicled.log.schema import RunHeader
from vehicled.paths.course import MAX_SAMPLES
from vehicled.run.output import check_output, write_output
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec
from vehicled.run.terminal import print_table
from vehicled.runtime.board import facts
from vehicled.runtime.board.recording import WARM_UP_S, BoardRecording, TaskTimes, record
from vehicled.runtime.ending import Outcome

DEFAULT_S = 30.0
SILENCE_S = 20.0
"""Simulator timeout, s: on an overloaded computer the simulator is late, too."""
END_S = 1.0
"""Time for the end of the drive, which is not recorded in full."""


def measure_board(arguments: Namespace) -> int:
    """Write the recording of a drive in wall time, or of the log of one."""
    file = Path(arguments.measure_board)
    check_output("--measure-board", file)
    if arguments.log:
        if arguments.duration is not None:
            raise SetupError(
                "--duration is the length of a drive; with --log the recording has the length "
                "of that run"
            )
        recording = from_log(arguments.log)
    else:
        recording = drive(arguments.profile or "art", arguments.duration or DEFAULT_S)
    write_output(file, recording.to_text())
    show(recording)
    print(
        f"written to {file}; replay it with: vehicled sim --profile "
        f"{arguments.profile or recording.profile} --board {file}"
    )
    return 0


def drive(profile: str, duration_s: float) -> BoardRecording:
    """Drive the profile's course in wall time against the simulator on this computer, and return
    the recording."""
    with TemporaryDirectory(prefix="vehicled-board-") as folder:
        spec = RunSpec(
            profile=profile,
            clock="wall",
            duration_s=duration_s + WARM_UP_S + END_S,
            # The drive may end early on an overloaded computer; the tasks go on.
            stays=True,
            link_timeout_s=SILENCE_S,
            log_folder=folder,
        )
        plan = Plan.of(spec)
        course = plan.course
        if course.closed:
            way_m = (duration_s + WARM_UP_S) * float(course.speed_mps.max())
            laps = min(1 + ceil(way_m / course.length_m), MAX_SAMPLES // len(course.x_m))
            plan = Plan.of(msgspec.structs.replace(spec, laps=max(laps, 1)))
        print(
            (
                f"drives {plan.loaded.profile.name} on {course.name} for {duration_s:g} s in real "
                "time ..."
            ),
            file=sys.stderr,
        )
        done = simulate(plan, SimulationSpec())
        if done.drive.ending.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        if not done.result.log:
            raise SetupError(
                "the drive left no log to measure from: "
                f"{done.result.log_problem or done.result.why}"
            )
        recording = from_log(done.result.log, duration_s)
        if done.result.driving_s < 0.5 * duration_s:
            driven = (
                f"drove for {done.result.driving_s:.1f} of {duration_s:g} s ({done.result.why})"
            )
            print(
                (
                    f"warning: the vehicle {driven}; in the rest the controller may have had less "
                    "to do"
                ),
                file=sys.stderr,
            )
        return recording


def from_log(log: str, longest_s: float = inf) -> BoardRecording:
    """Return the recording of a run on the wall clock, from its log. Raises :class:`SetupError` and
    LogError."""
    files = run_parts(log)
    with LogReader(files[0]) as reader:
        header = reader.header
    if header.clock != "wall":
        raise SetupError(
            f"{log}: the tasks of this run took no real time (clock "
            f"{header.clock or 'unknown'}); use a run in wall time"
        )
    if header.host != platform.node():
        print(
            f"note: measured on {header.host}; kernel and model are those of this computer",
            file=sys.stderr,
        )
    found = [rows for file in files for rows in ticks(file)]
    if not found:
        raise SetupError(f"{log}: holds no task ticks; use the log of another run")
    return record(np.concatenate(found), _table(header), _facts(header), longest_s)


def _table(header: RunHeader) -> Mapping[str, TaskTimes]:
    return {
        row.name: TaskTimes(
            rate_hz=row.rate_hz, phase_ms=row.phase_ns / 1e6, deadline_ms=row.deadline_ns / 1e6,
            runs=0, misses=0, skips=0, execution_us=[], lateness_us=[],
        )
        for row in header.tasks
    }  # fmt: skip


def _facts(header: RunHeader) -> dict[str, Any]:
    return {
        "computer": facts.model(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count() or 0,
        "scheduling": re.split(r"[:(]", header.realtime.get("scheduling", ""))[0].strip()
        or "unknown",
        "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(header.start_wall_ns / 1e9)),
        "vehicled": header.vehicled_version or __version__,
        "python": header.python_version,
        "profile": header.profile,
        "controller": header.controller,
        "estimator": header.estimator,
        "link": header.link,
    }


def show(recording: BoardRecording) -> None:
    """Print what was recorded, per task."""
    p50, p99, longest = (recording.quantiles.index(share) for share in (0.5, 0.99, 1.0))
    rows = []
    for name, row in recording.tasks.items():
        times = [
            f"{table[i] / 1e3:.2f}"
            for table in (row.lateness_us, row.execution_us)
            for i in (p50, p99, longest)
        ]
        rows.append(
            [
                name,
                f"{row.rate_hz:g}",
                *times,
                f"{row.misses + row.skips} of {row.runs + row.skips}",
                f"{row.late_share:.3%}",
            ]
        )
    columns = [
        "task",
        "Hz",
        "late (ms) p50",
        "p99",
        "max",
        "runs (ms) p50",
        "p99",
        "max",
        "missed or skipped",
        "",
    ]
    print_table(
        f"{recording.label}, {recording.duration_s:g} s of {recording.profile}", columns, rows
    )

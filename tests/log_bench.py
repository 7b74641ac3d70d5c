"""Small logs of a made-up drive, written without a process beside."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from vehicled.core import shipped
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    Cause,
    ControlCommand,
    EstimatorStatus,
    FixType,
    GnssFix,
    GroundTruth,
    Message,
    Mode,
    StateEstimate,
    TaskTick,
)
from vehicled.log.offline import LogFile
from vehicled.log.schema import Attachment, RunHeader, TaskRow
from vehicled.paths.datum import LOT_17

START_NS = 2_000_000_000
WALL_NS = 1_790_000_000_000_000_000
COURSE = (
    f'{{"datum": {{"latitude_rad": {LOT_17.latitude_rad!r}, "longitude_rad": '
    f'{LOT_17.longitude_rad!r}, "height_m": {LOT_17.height_m!r}}}, "name": "circle", "closed": '
    'true, "x_m": [0.0, 8.0, 0.0], "y_m": [0.0, 8.0, 16.0]}'
)
COVARIANCE = (0.01, 0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.01)


def header(**changes: object) -> RunHeader:
    """Return the header of a lockstep run with one task of 100 Hz."""
    values: dict[str, object] = {
        "run_id": "0123456789abcdef", "start_wall_ns": WALL_NS, "start_monotonic_ns": START_NS,
        "profile": "art", "course": "circle", "clock": "lockstep", "seed": 1,
        "tasks": [TaskRow(name="control", rate_hz=100.0, deadline_ns=5_000_000)],
    }  # fmt: skip
    return RunHeader(**(values | changes))  # type: ignore[arg-type]


def write(
    path: Path,
    messages: Iterable[tuple[int, Message]],
    *,
    profile: str | None = None,
    course: str = COURSE,
    **changes: object,
) -> str:
    """Write a log of (log time, message) pairs; return its path."""
    text = profile if profile is not None else (shipped.folder("profiles") / "art.toml").read_text()
    attachments = [
        Attachment("profile.toml", "application/toml", text.encode()),
        Attachment("course.json", "application/json", course.encode()),
    ]
    with LogFile(path, header(**changes), attachments) as log:
        for t_ns, message in messages:
            log.add(message, t_ns)
        log.finish({"reason": "done", "writer_cpu_s": "0.5"})
    return str(path)


def drive(
    seed: int,
    *,
    seconds: int = 30,
    execution_us: float = 300.0,
    error_m: float = 0.05,
    missed: float = 0.0,
    fixed: bool = True,
) -> Iterable[tuple[int, Message]]:
    """Return a circle at 100 Hz whose noise is correlated over a tenth of a second."""
    rng = np.random.default_rng(seed)
    slow_x, slow_y, load = 0.0, 0.0, 0.0
    for n in range(100 * seconds):
        t_ns = START_NS + 10_000_000 * n
        yaw = 1.5 / 8.0 * n * 0.01
        x, y = 8.0 * math.sin(yaw), 8.0 * (1.0 - math.cos(yaw))
        slow_x, slow_y, load = (
            0.9 * value + 0.436 * rng.normal() for value in (slow_x, slow_y, load)
        )
        yield t_ns, GroundTruth(t_ns, t_ns, x, y, yaw, 1.5, 0.19, 0.1)
        if n % 10 == 0:
            at = LOT_17.to_geodetic(x, y, 0.0)
            carrier = CarrierSolution.FIXED if fixed else CarrierSolution.FLOAT
            yield (
                t_ns,
                GnssFix(t_ns, t_ns, *at, fix_type=FixType.FIX_3D, carrier=carrier, satellites=12),
            )
        ex, ey = error_m * slow_x, error_m * slow_y
        yield (
            t_ns,
            StateEstimate(
                t_ns,
                t_ns - 3_000_000,
                x + ex,
                y + ey,
                yaw,
                1.5,
                0.19,
                COVARIANCE,
                EstimatorStatus.RUNNING,
            ),
        )
        spent_ns = round(execution_us * 1e3 * math.exp(0.1 * load))
        late = rng.random() < missed
        end_ns = t_ns + 20_000 + spent_ns + (10_000_000 if late else 0)
        cause = Cause.COMPUTE if late else Cause.NONE
        yield (
            t_ns,
            ControlCommand(
                t_ns, t_ns - 3_000_000, 0.1, 0.2, 0.0, 1.5, 0.015 * n, ey, 0.0, iterations=5
            ),
        )
        yield t_ns, ActuatorCommand(t_ns, t_ns - 3_000_000, 0.2, 0.0, 0.3, 0.1, Mode.AUTO)
        yield (
            end_ns,
            TaskTick(t_ns, t_ns + 20_000, end_ns, spent_ns, 5_000_000, 0, 0, late, cause, 255),
        )

"""Reads what a sensor measured, and what it should have measured, from a recording of any
format."""

import os
from array import array
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand, GnssFix, GroundTruth, ImuSample, WheelSpeed
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_messages
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.importing import imported
from vehicled.offline.recordings.loading import KIND, RecordingSource, sources
from vehicled.offline.recordings.recording import RecordedMotion, Recording, Times, between, seconds
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import datum_of
from vehicled.profile import profile_in
from vehicled.run.argument_types import LOG
from vehicled.run.command_line import CommandParser

TRUE_APART = ("plain", "bare_plain", "mocap", "plain_start", "path_sim", "ramp", "acceleration")
"""Kinds of recordings whose truth comes from another sensor than their fixes."""


RECEIVER_FILES = (".ubx", ".nmea", ".log", ".bin", ".ulg")
"""Files of other programs that are looked for in folders."""


def add_recordings(parser: CommandParser) -> None:
    """Add the arguments that name recordings."""
    parser.add_argument(
        "run_files",
        nargs="+",
        type=LOG,
        metavar="RUN",
        help="recordings: .mcap, CSV, bags, receiver files, or folders of these",
    )
    parser.add_argument(
        "--kind",
        type=KIND,
        action="append",
        default=[],
        metavar="KIND",
        help="kind of recording to read; repeatable",
    )


class SensorRecording(Struct, frozen=True, kw_only=True):
    """Measurements of one recording. Times are s since its first message."""

    name: str
    fixes: list[GnssFix]
    truth: RecordedMotion | None
    """Truth by another sensor than the fixes; None if no sensor gives it."""
    datum: Datum
    sample_ns: Times = field(default_factory=lambda: np.zeros(0, np.int64))
    samples: Array = field(default_factory=lambda: np.zeros((0, 6)))
    """Angular rates and specific forces (n, 6) of the inertial unit at ``sample_ns``, rad/s and
    m/s^2."""
    lever_arm_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    speeds: list[tuple[int, float]] = field(default_factory=list)
    """Time and speed by wheels."""
    driven: bool = False
    """True if a throttle was given."""


def read(
    paths: Collection[str | os.PathLike[str]], kinds: Collection[str] = (), mapping: str = ""
) -> list[SensorRecording]:
    """Read files and folders. Raises RecordingError and LogError."""
    found: list[SensorRecording] = []
    for path in paths:
        if mapping:
            found.append(_imported(Path(path), mapping))
            continue
        try:
            listed = sources(path)
        except RecordingError:
            found += _foreign(Path(path))
            continue
        found += [drive for source in listed if (drive := _drive(source, kinds)) is not None]
    if not found:
        raise RecordingError(
            f"{', '.join(map(str, paths))}: no recording of the kinds "
            f"{', '.join(kinds) or ', '.join(TRUE_APART)}"
        )
    return found


def _foreign(path: Path) -> list[SensorRecording]:
    """Read one file of another program, or those in a folder that are receiver files or logs of
    ArduPilot and PX4."""
    if not path.is_dir():
        return [_imported(path, "")]
    found, refused = [], []
    for file in sorted(
        each for each in path.rglob("*") if each.suffix.lower() in RECEIVER_FILES and each.is_file()
    ):
        try:
            found.append(_imported(file, ""))
        except (RecordingError, LogError) as error:
            refused.append(str(error))
    if not found:
        raise RecordingError(
            shortened(refused)
            if refused
            else f"{path}: holds no recording that can be read here; see docs/logs.md"
        )
    return found


def _drive(source: RecordingSource, kinds: Collection[str]) -> SensorRecording | None:
    if source.kinds == ("log",):
        return None if kinds and "log" not in kinds else _own(source.path, source.name)
    if source.kinds == ("rosbag",):
        return None if kinds and "rosbag" not in kinds else _imported(source.path, "")
    for kind in kinds or TRUE_APART:
        # Whether a drive is a real or a simulated path is known when it is read.
        if kind in source.kinds and (found := source.load((kind,))):
            return _of_recording(found[0], source.name)
    return None


def _of_recording(recording: Recording, name: str) -> SensorRecording:
    sample_ns, samples = inertial_samples(m for m in recording.inputs if isinstance(m, ImuSample))
    return SensorRecording(
        name=name,
        fixes=[m for m in recording.inputs if isinstance(m, GnssFix)],
        sample_ns=sample_ns,
        samples=samples,
        truth=recording.truth if recording.kind in TRUE_APART else None,
        datum=recording.datum,
        lever_arm_m=recording.lever_arm_m,
        driven=any(isinstance(m, ActuatorCommand) and m.throttle != 0.0 for m in recording.inputs),
    )


def _imported(path: Path, mapping: str) -> SensorRecording:
    with imported(path, mapping) as log:
        return _own(log, path.stem)


def _own(path: Path, name: str) -> SensorRecording:
    fixes: list[GnssFix] = []
    truths: list[GroundTruth] = []
    speeds: list[tuple[int, float]] = []
    driven = False
    with LogReader(path) as log:
        profile = profile_in(log)
        course = log.attachment("course.json")
    sample_ns, samples = inertial_samples(run_messages(path, ImuSample))
    for message in run_messages(path, GnssFix, GroundTruth, WheelSpeed, ActuatorCommand):
        if isinstance(message, GnssFix):
            fixes.append(message)
        elif isinstance(message, GroundTruth):
            truths.append(message)
        elif isinstance(message, WheelSpeed):
            speeds.append((message.t_ns, message.speed_mps))
        elif isinstance(message, ActuatorCommand):
            driven = driven or message.throttle != 0.0
    try:
        datum = datum_of(course)
    except CourseError:  # an imported log without fixes has none
        datum = Datum(0.0, 0.0)
    return SensorRecording(
        name=name,
        fixes=fixes,
        sample_ns=sample_ns,
        samples=samples,
        truth=RecordedMotion.of(truths) if len(truths) > 1 else None,
        datum=datum,
        lever_arm_m=profile.lever_arm_m(GnssFix.__name__) or (0.0, 0.0, 0.0),
        speeds=speeds,
        driven=driven,
    )


def inertial_samples(messages: Iterable[ImuSample]) -> tuple[Times, Array]:
    """Return times (n,) and values (n, 6). They are packed, because a night of standing holds
    millions."""
    times, values = array("q"), array("d")
    for message in messages:
        times.append(message.t_ns)
        values.extend(message.angular_rate_radps)
        values.extend(message.specific_force_mps2)
    return np.array(times, np.int64), np.array(values).reshape(-1, 6)


def shortened(reasons: Sequence[str]) -> str:
    """Return the first reason, and how many more there are."""
    more = f" (and {len(reasons) - 1} more runs)" if len(reasons) > 1 else ""
    return reasons[0] + more


def antenna_m(
    truth: RecordedMotion, at_s: Array, lever_arm_m: tuple[float, float, float], start_ns: int
) -> Array:
    """Return the true place of the antenna (n, 2) at times since ``start_ns``; NaN where the truth
    is not known."""
    truth_s = seconds(truth.t_ns - start_ns)
    known = np.isfinite(truth.x_m) & np.isfinite(truth.y_m)
    turned: Array = np.unwrap(np.nan_to_num(truth.yaw_rad))
    x, y, yaw = (
        between(at_s, truth_s[known], values[known]) for values in (truth.x_m, truth.y_m, turned)
    )
    ahead, left = lever_arm_m[:2]
    c, s = np.cos(yaw), np.sin(yaw)
    return np.column_stack([x + c * ahead - s * left, y + s * ahead + c * left])

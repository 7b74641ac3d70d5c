"""Command ``vehicled sensors simulate``: recorded runs in which some sensors are simulated, and all
else is as it was.

A simulated sensor sees the recorded truth, at the times and with the delays of the recorded one. So
two sets of runs differ by that sensor alone. Rates and accelerations are derivatives of the truth;
if it comes from RTK, its noise is in them.
"""

import hashlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import cos, isfinite, sin
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import vehicled
from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.heading import HeadingSensor
from sim_backend.sensors.imu_detailed import imu_sensor
from sim_backend.sensors.interface import Sensor
from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.core.messages import NAN3, NAN9, GnssFix, GroundTruth, Heading, ImuSample, Message
from vehicled.log.errors import LogError
from vehicled.log.offline import LogFile
from vehicled.log.schema import Attachment, RunHeader
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import RecordingSource, known_kinds, sources
from vehicled.offline.recordings.recording import UNKNOWN_COURSE, Recording, arrival_ns
from vehicled.offline.sensors.reading import TRUE_APART, add_recordings
from vehicled.profile import Profile
from vehicled.profile.loading import Loaded, load
from vehicled.run.argument_types import KEY, PROFILE, whole
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress

TYPES: dict[str, type[Message]] = {"gnss": GnssFix, "imu": ImuSample, "heading": Heading}
_VECTORS = (
    "velocity_enu_mps", "position_covariance_m2", "velocity_covariance_m2ps2", "angular_rate_radps",
    "specific_force_mps2",
)  # fmt: skip
"""Parts that a recorded message may leave open."""
MAX_GAP_S = 1.0
"""Longest gap of the truth across which a sensor is simulated."""


_RUNS = whole(1, 1000, "expected a number of runs from 1 to 1000")
_SEED = whole(0, 2**32, "expected a whole number from 0 to 2^32")


def declare_sensors_simulate(parser: CommandParser) -> None:
    """Write a log for each run with a known truth, in which the chosen sensors are simulated on
    that truth, at the times of the recorded ones, and all else is as recorded. vehicled gap then
    shows the gap of these sensors alone.
    """
    parser.describe(
        examples=(
            "vehicled sensors simulate drives/ --sensor gnss --profile mine.toml -o fitted/",
            "vehicled sensors simulate drives/ --sensor imu --sensor heading -o inertial/",
            "vehicled gap --real drives/ --sim fitted/ --sim inertial/",
        ),
        epilog="Exit status: 0 written; 2 invalid arguments or recordings.",
    )
    add_recordings(parser)
    parser.add_argument(
        "--sensor",
        action="append",
        choices=("gnss", "imu", "heading"),
        required=True,
        help="sensor to simulate; repeatable",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art",
        metavar="P",
        help="profile with the models of the sensors (default art)",
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a profile value; repeatable",
    )
    parser.add_argument(
        "--seed", type=_SEED, default=1, metavar="N", help="seed of the first run (default 1)"
    )
    parser.add_argument(
        "--runs",
        type=_RUNS,
        default=1,
        metavar="N",
        help="runs per recording, each with its own seed (default 1)",
    )
    parser.add_argument(
        "--from-first-fix",
        action="store_true",
        help="the first fix is without error, as in recordings that count from there",
    )
    parser.add_argument(
        "--no-velocity",
        action="store_true",
        help="simulated fixes hold no velocity, as in recordings that have none",
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the logs")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Write a log for each run and seed. Raises SetupError, RecordingError, LogError and
    ProfileError."""
    if find_spec("scipy") is None:
        raise SetupError("sensors simulate needs scipy: pip install 'vehicled[calibrate]'")
    known_kinds(arguments.kind)
    loaded = load(arguments.profile, arguments.set)
    folder = Path(arguments.output)
    replaced = tuple(dict.fromkeys(arguments.sensor))
    progress, written = Progress(), 0
    kinds_read: dict[str, None] = {}
    for path in arguments.run_files:
        for source in sources(path):
            for recording in _recordings(source, tuple(arguments.kind)):
                kinds_read.setdefault(recording.kind)
                for seed in range(arguments.seed, arguments.seed + arguments.runs):
                    inputs = simulated(
                        recording, loaded.profile, replaced, seed,
                        from_first_fix=arguments.from_first_fix, velocity=not arguments.no_velocity,
                    )  # fmt: skip
                    # In the folder of its manoeuvre, as the recording is.
                    file = folder / f"{recording.name}_{recording.kind}_{seed}.mcap"
                    try:
                        file.parent.mkdir(parents=True, exist_ok=True)
                    except OSError as error:
                        raise SetupError(
                            f"-o {folder}: cannot be written ({error.strerror}); choose "
                            "another folder"
                        ) from error
                    write(file, inputs, recording, loaded, replaced, seed)
                    written += 1
                    progress.update(f"{written} runs written")
    progress.close()
    if not written:
        raise RecordingError(f"no recording of the kinds {', '.join(arguments.kind)}")
    words = [
        "vehicled gap --real",
        *map(str, arguments.run_files),
        *(f"--kind {kind}" for kind in kinds_read),
        f"--sim {folder}",
    ]
    print(f"{written} run{'s' if written > 1 else ''} in {folder}\n{' '.join(words)}")
    return 0


def _recordings(source: RecordingSource, kinds: tuple[str, ...]) -> list[Recording]:
    """Return the recordings of the kinds; without any, of the first kind whose truth comes from
    another sensor."""
    if kinds:
        return source.load(kinds)
    for kind in dict.fromkeys((*TRUE_APART, *source.kinds)):
        if kind in source.kinds and (found := source.load((kind,))):
            return found
    return []


def simulated(
    recording: Recording,
    profile: Profile,
    replaced: Sequence[str],
    seed: int,
    *,
    from_first_fix: bool = False,
    velocity: bool = True,
) -> list[Message]:
    """Return the inputs with the messages of ``replaced`` sensors simulated, in order of arrival.
    Raises RecordingError.

    With ``from_first_fix`` the first fix has no error, as if the receiver counted from there.
    Without ``velocity`` fixes hold none.
    """
    kept = [
        m for m in recording.inputs if not isinstance(m, tuple(TYPES[name] for name in replaced))
    ]
    made: list[Message] = []
    motion = motion_of(recording)
    for name in replaced:
        recorded = [m for m in recording.inputs if isinstance(m, TYPES[name])]
        if len(recorded) < 2:
            raise RecordingError(
                f"{recording.source}: holds no {TYPES[name].__name__} that could be simulated "
                "in its place"
            )
        sampled = _sampled(_sensor(name, recording, profile, recorded, seed), recorded, motion)
        if name == "gnss" and from_first_fix:
            begun = _moved(motion, recording, sampled)
            sampled = _sampled(_sensor(name, recording, profile, recorded, seed), recorded, begun)
        if name == "gnss" and not velocity:
            sampled = [
                msgspec.structs.replace(m, velocity_enu_mps=NAN3, velocity_covariance_m2ps2=NAN9)
                for m in sampled
            ]
        made += sampled
    return sorted([*kept, *made], key=arrival_ns)


def _sampled(
    sensor: Sensor, recorded: list[Message], motion: Callable[[int], Motion | None]
) -> list[Message]:
    made = []
    for message in recorded:
        t_ns: int = message.t_ns  # type: ignore[attr-defined]
        true = motion(t_ns)
        if true is None:
            continue
        _, sample = sensor.sample(t_ns, true)
        made.append(_as_recorded(sample, message))
    return made


def _moved(
    motion: Callable[[int], Motion | None], recording: Recording, sampled: list[Message]
) -> Callable[[int], Motion | None]:
    """Return the motion moved by the error of the first fix, so that the receiver's fixes lose
    it."""
    first = next((m for m in sampled if isinstance(m, GnssFix) and isfinite(m.latitude_rad)), None)
    true = motion(first.t_ns) if first is not None else None
    if first is None or true is None:
        return motion
    east, north, _ = recording.datum.to_enu(first.latitude_rad, first.longitude_rad, first.height_m)
    ahead, left = recording.lever_arm_m[:2]
    c, s = cos(true.yaw_rad), sin(true.yaw_rad)
    dx, dy = east - true.x_m - c * ahead + s * left, north - true.y_m - s * ahead - c * left

    def at(t_ns: int) -> Motion | None:
        now = motion(t_ns)
        return (
            None
            if now is None
            else msgspec.structs.replace(now, x_m=now.x_m - dx, y_m=now.y_m - dy)
        )

    return at


def _as_recorded(sample: Message, recorded: Message) -> Message:
    """Return the sample with the recorded arrival, and without what the recorded message leaves
    open (NaN)."""
    changes: dict[str, Any] = {"t_rx_ns": arrival_ns(recorded)}
    for name in _VECTORS:
        values = getattr(recorded, name, ())
        if not all(map(isfinite, values)):
            changes[name] = tuple(
                mine if isfinite(theirs) else theirs
                for mine, theirs in zip(getattr(sample, name), values)
            )
    return msgspec.structs.replace(sample, **changes)


def _sensor(
    name: str, recording: Recording, profile: Profile, recorded: list[Message], seed: int
) -> Sensor:
    times = np.array([m.t_ns for m in recorded]) * 1e-9  # type: ignore[attr-defined]
    span = min(8, len(times) - 1)
    rate_hz = float(np.clip(span / np.median(times[span:] - times[:-span]), 0.1, 1000.0))
    sim, entity = profile.sim, f"{recording.name}/{name}"
    start_ns: int = recorded[0].t_ns  # type: ignore[attr-defined]
    if name == "gnss":
        # The times of the recorded fixes hold the outages already.
        uncut = msgspec.structs.replace(sim.gnss.recorded, outages_per_hour=0.0)
        model = msgspec.structs.replace(sim.gnss, rate_hz=rate_hz, zones=[], recorded=uncut)
        return Gnss(model, recording.lever_arm_m, recording.datum, seed, entity, start_ns, 0)
    if name == "imu":
        # Messages are in the axes of the vehicle, at its reference point.
        return imu_sensor(
            msgspec.structs.replace(sim.imu, rate_hz=rate_hz), (0.0, 0.0, 0.0), seed, entity
        )
    if sim.heading is None:
        raise SetupError(f"profile {profile.name} has no table [sim.heading]; add it")
    return HeadingSensor(
        msgspec.structs.replace(sim.heading, rate_hz=rate_hz, magnetometer=None), seed, entity
    )


def motion_of(recording: Recording) -> Callable[[int], Motion | None]:
    """Return the true motion by time; None where the truth is not known. Raises RecordingError."""
    from scipy.interpolate import CubicSpline

    truth = recording.truth
    known = (
        np.isfinite(truth.x_m)
        & np.isfinite(truth.y_m)
        & np.isfinite(truth.speed_mps)
        & np.isfinite(truth.yaw_rad)
    )
    t_ns = truth.t_ns[known]
    keep = np.concatenate([[True], np.diff(t_ns) > 0]) if len(t_ns) else np.zeros(0, bool)
    t_ns = t_ns[keep]
    if len(t_ns) < 8:
        raise RecordingError(
            f"{recording.source}: holds no true position, heading and speed over 8 steps"
        )
    origin_ns = int(t_ns[0])
    t_s: Array = (t_ns - origin_ns) * 1e-9

    def spline(values: Array) -> CubicSpline:
        return CubicSpline(t_s, values[known][keep])

    x = spline(truth.x_m)
    y = spline(truth.y_m)
    yaw = spline(np.unwrap(np.nan_to_num(truth.yaw_rad)))
    speed = spline(truth.speed_mps)
    rate, turning, acceleration = yaw.derivative(), yaw.derivative(2), speed.derivative()

    def at(time_ns: int) -> Motion | None:
        now = (time_ns - origin_ns) * 1e-9
        right = int(np.searchsorted(t_s, now))
        if (
            now < 0.0
            or now > t_s[-1]
            or (0 < right < len(t_s) and t_s[right] - t_s[right - 1] > MAX_GAP_S)
        ):
            return None
        v, w = float(speed(now)), float(rate(now))
        return Motion(
            float(x(now)),
            float(y(now)),
            float(yaw(now)),
            v,
            0.0,
            w,
            float(acceleration(now)),
            v * w,
            float(turning(now)),
            0.0,
        )

    return at


def write(
    path: Path,
    inputs: list[Message],
    recording: Recording,
    loaded: Loaded,
    replaced: Sequence[str],
    seed: int,
) -> None:
    """Write a log with the inputs and the truth. Raises LogError."""
    truth = recording.truth
    messages: list[tuple[int, Message]] = [(arrival_ns(m), m) for m in inputs]
    for t_ns, x, y, yaw, speed in zip(
        truth.t_ns.tolist(), truth.x_m, truth.y_m, truth.yaw_rad, truth.speed_mps
    ):
        if isfinite(x) and isfinite(y) and isfinite(speed):
            nan = float("nan")
            messages.append(
                (
                    t_ns,
                    GroundTruth(t_ns, t_ns, float(x), float(y), float(yaw), float(speed), nan, nan),
                )
            )
    messages.sort(key=lambda pair: pair[0])
    if path.exists():
        raise LogError(
            f"{path}: there is such a file already, it is not overwritten; give another -o"
        )
    datum = {
        name: getattr(recording.datum, name)
        for name in ("latitude_rad", "longitude_rad", "height_m")
    }
    course = {"name": recording.course or UNKNOWN_COURSE, "closed": False, "datum": datum}
    header = RunHeader(
        run_id=hashlib.sha256(f"{path.stem} {recording.source}".encode()).hexdigest()[:12],
        start_wall_ns=messages[0][0],
        start_monotonic_ns=messages[0][0],
        profile=loaded.profile.name,
        profile_digest=loaded.digest,
        course=str(course["name"]),
        tasks=[],
        vehicled_version=vehicled.__version__,
        clock="imported",
        imported={
            "file": Path(recording.source).name,
            "format": recording.kind,
            "simulated": ", ".join(replaced),
            "seed": str(seed),
        },
    )
    attachments = [
        Attachment("profile.toml", "application/toml", loaded.source.encode()),
        Attachment("course.json", "application/json", msgspec.json.encode(course)),
    ]
    with LogFile(path, header, attachments) as log:
        for t_ns, message in messages:
            log.add(message, t_ns)
        log.finish({"reason": "imported", "not_replayable_after_ns": str(messages[0][0])})

"""Does the twin predict the real drive? Identified from one recorded drive, it drives the published
controllers; its cross-track error stands beside that of the drives it has not seen.

For each path every recorded drive in turn is the one that is known: steering gain, offset, delay,
the response of the speed (:mod:`~vehicled.offline.replications.experiments.drive_response`) and the
gaps of the receiver come from it. The twin then drives the path under each published law of the
same campaign, at 10 Hz, with the published speed estimate, which never sees a measurement, and with
the position one row old and on the grid of the receiver's text, as it was on the vehicle. What no
drive shows of the next, such as the zero of its heading, is taken from the spread over recorded
drives (:mod:`~vehicled.offline.replications.experiments.prediction_spread`): the prediction is a
mean and an interval.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import cos, sin
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.control.error_state import ErrorState, error_state
from vehicled.control.linear import LinearParams, law
from vehicled.core.arrays import Array
from vehicled.offline.learning.dataset import Dataset, DriveNote, Meaning
from vehicled.offline.learning.policy_file import Layer
from vehicled.offline.learning.training import TrainingSpec, forward, train
from vehicled.offline.recordings import table
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.recording import Recording, seconds
from vehicled.offline.recordings.smoothing import is_new
from vehicled.offline.replications.experiments.drive_response import (
    MIN_ROWS,
    MIN_SPEED_MPS,
    DriveResponse,
    ResponseError,
    identify,
)
from vehicled.offline.replications.experiments.prediction_spread import (
    HEADING_SIGMA_RAD,
    NODE,
    Deviation,
    PredictionInterval,
    interval,
    sigmas,
)
from vehicled.offline.replications.published.mpc import (
    COMMAND_PER_RAD,
    LOOK_AHEAD_M,
    MAX_WHEEL_RAD,
    STAGE_S,
    PublishedQp,
    published_speed_mps,
)
from vehicled.offline.twin.validation.processes import mapped

LAWS = {"mpc": "mpc", "pid": "linear", "nn_mpc": "nn_mpc", "nn_mc": "nn_mc"}
"""Published laws by the beginning of the names of the recorded files; ``nn_mpc`` is the network
that imitates the MPC, ``nn_mc`` the one that imitates a person."""
STEERING_FACTOR = {"nn_mc": 1.75}
"""Constant factor of the steering with which a network was driven, and which its recorded commands
hold."""
OTHER_FACTOR = {"syn_path/nn_mc_3": 1.5}
"""Recorded drives with another one."""
LAPS = {"lot17": "lot17_rtk_gps_2023/single_speed"}
"""More drives of a path: those of the networks were logged with other columns."""
COURSES = {
    "lot17": "lot17_sinsquare_sv.csv",
    "rd_path": "rd_path_reconstructed.csv",
    "syn_path": "syn_path_reconstructed.csv",
}
"""Waypoint files in ``reference_paths`` by path; another path's is looked for under its own
name."""
WAITS_S = 1.3
"""The recorded vehicles stood for 11 to 16 rows first."""
GRID_M = (0.01355, 0.01855)
"""Resolution of the positions: the receiver's text has five digits of an arc-minute."""
LAW_TRAINING = TrainingSpec(
    hidden=(32, 32), epochs=150, batch=64, rate=2e-3, validation=0.0, library="numpy"
)
"""Fit of a published network to its logged commands; larger than it was, so that the fit ends in no
poor local minimum."""
MOST_S = 600.0
WITHIN = 0.25


class SimulatedVehicle(Protocol):
    """A simulated vehicle, at rest at the start of its path."""

    def command(self, t_ns: int, throttle: float, steering: float) -> None:
        """Shares of full drive 0..1 and of full steering -1..1 are sent at ``t_ns``."""
        ...

    def advance(self, to_ns: int) -> tuple[float, float, float, float]:
        """Rear axle at that time: x, y (m), yaw (rad), speed (m/s)."""
        ...


TwinMaker = Callable[[DriveResponse, float, float, float], SimulatedVehicle]
"""Twin with that response at a pose x, y (m), yaw (rad)."""


class Prediction(Struct, frozen=True, kw_only=True):
    """One law on one path, predicted from one drive. Figures are mean cross-track errors in m."""

    path: str
    law: str
    known: str
    """Recorded drive that it was identified from."""
    predicted: PredictionInterval
    real_m: list[float]
    """The other recorded drives of this law on this path."""

    @property
    def mean_real_m(self) -> float:
        """Mean over the recorded drives."""
        return float(np.mean(self.real_m))

    @property
    def ratio(self) -> float:
        """Predicted over real."""
        return self.predicted.expected / self.mean_real_m

    @property
    def covered(self) -> int:
        """Number of recorded drives inside the interval."""
        return sum(self.predicted.low <= real <= self.predicted.high for real in self.real_m)


class Waypoints(NamedTuple):
    """A path as the published laws knew it: points as they stand in the file, (n,), m, rad and
    m/s."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array


class RecordedDrive(Struct, frozen=True):
    """A recorded drive: its path and law, its campaign and name, its mean cross-track error, and
    itself."""

    path: str
    law: str
    campaign: str
    """Folder of the drives that were recorded together; the vehicle changed from one to the
    next."""
    name: str
    cross_track_m: float
    recording: Recording


def recorded_drives(folder: Path) -> tuple[dict[str, Waypoints], list[RecordedDrive], list[str]]:
    """Return waypoints by path, the drives of ``folder/path_following_2024/real/PATH/LAW_N.csv``,
    and why a path is left out.

    Raises :class:`~vehicled.offline.recordings.errors.RecordingError`.
    """
    real = folder / "path_following_2024" / "real"
    if not real.is_dir():
        raise RecordingError(
            f"{real}: there is no such folder; name the one that holds path_following_2024 and "
            "reference_paths"
        )
    courses: dict[str, Waypoints] = {}
    drives: list[RecordedDrive] = []
    left_out: list[str] = []
    for place in sorted(path for path in real.iterdir() if path.is_dir()):
        file = folder / "reference_paths" / COURSES.get(place.name, f"{place.name}.csv")
        if not file.is_file():
            left_out.append(f"{file}: the course of {place.name} is missing")
            continue
        course = courses[place.name] = _waypoints(file)
        more = folder / LAPS[place.name] if place.name in LAPS else place
        for source in [
            *sources(place),
            *(sources(more) if more != place and more.is_dir() else ()),
        ]:
            word = source.path.stem.rpartition("_")[0]
            if word not in LAWS:
                continue
            for recording in source.load(("path", "rtk")):
                error = cross_track_m(course, recording.raw_x_m, recording.raw_y_m)
                campaign = str(source.path.parent.relative_to(folder))
                drives.append(
                    RecordedDrive(
                        place.name,
                        LAWS[word],
                        campaign,
                        source.path.stem,
                        float(error.mean()),
                        recording,
                    )
                )
    if not courses:
        raise RecordingError("; ".join(left_out) or f"{real}: holds no drives")
    return courses, drives, left_out


def _waypoints(file: Path) -> Waypoints:
    rows = table.read(file)
    return Waypoints(rows["x_m"], rows["y_m"], rows["heading_rad"], rows["speed_mps"])


def cross_track_m(course: Waypoints, x_m: Array, y_m: Array) -> Array:
    """Distances (n,) of points from the nearest place of the polygon of the waypoints, whatever its
    arc length."""
    x, y = course.x_m, course.y_m
    dx, dy = np.diff(x), np.diff(y)
    square = np.maximum(dx * dx + dy * dy, 1e-12)
    found = np.empty(len(x_m))
    for k, (px, py) in enumerate(zip(x_m.tolist(), y_m.tolist(), strict=True)):
        share = np.clip(((px - x[:-1]) * dx + (py - y[:-1]) * dy) / square, 0.0, 1.0)
        found[k] = np.sqrt(
            ((px - x[:-1] - share * dx) ** 2 + (py - y[:-1] - share * dy) ** 2).min()
        )
    return found


Network = Callable[[ErrorState], tuple[float, float]]
"""Throttle and steering, not limited, for an error state."""


def recorded_pairs(folder: Path, word: str) -> tuple[Array, Array]:
    """Return the error states (n, 4) and commands (n, 2) that a network was logged with, on the
    vehicle and in their simulation.

    Rows of the simulation whose command is at a limit are left out, because there it was logged
    after the limit.
    """
    inputs, outputs = [], []
    for file in sorted((folder / "path_following_2024").glob(f"*/*/{word}*.csv")):
        rows = table.read(file)
        errors = np.column_stack(
            [rows[name] for name in ("e_ahead_m", "e_left_m", "e_heading_rad", "e_speed_mps")]
        )
        throttle, steering = rows["throttle_cmd"], rows["steering_cmd"]
        factor = STEERING_FACTOR.get(word, 1.0)
        free = np.isfinite(errors).all(axis=1) & np.isfinite(throttle) & np.isfinite(steering)
        if file.parent.parent.name == "sim":
            free &= (np.abs(steering) < 0.999) & (throttle < 0.999) & (throttle > 0.001)
        steering = steering * factor / OTHER_FACTOR.get(f"{file.parent.name}/{file.stem}", factor)
        inputs.append(errors[free])
        outputs.append(np.column_stack([throttle, steering])[free])
    if not inputs:
        raise RecordingError(f"{folder}/path_following_2024: no drive of the network {word}")
    return np.concatenate(inputs), np.concatenate(outputs)


def network_law(folder: Path, word: str) -> Network:
    """Return the law of a published network, identified from its logged commands, because its
    weights are not published.

    The logged commands are a function of the logged errors alone, so this is the law and knows
    nothing of the vehicle.
    """
    inputs, outputs = recorded_pairs(folder, word)
    data = Dataset(
        Meaning(drives=[DriveNote(name=word, rows=len(inputs))]), np.zeros(len(inputs), np.int64),
        np.arange(len(inputs), dtype=np.float64), inputs,
        {"throttle": outputs[:, 0], "steering": outputs[:, 1], "wheel_angle_rad": outputs[:, 1]},
    )  # fmt: skip
    return partial(_network, train(data, LAW_TRAINING).layers)


def _network(layers: Sequence[Layer], errors: ErrorState) -> tuple[float, float]:
    throttle, steering = forward(layers, np.array([errors]))[0].tolist()
    return throttle, steering


class PublishedLaw:
    """The laws as they ran: one error at the waypoint nearest to the point ahead, and the speed
    that never saw a measurement."""

    def __init__(
        self, name: str, course: Waypoints, qp: PublishedQp, network: Network | None = None
    ) -> None:
        """``network`` computes the commands of a law that is one."""
        self._name, self._course, self._qp, self._network = name, course, qp, network
        self._linear = LinearParams()
        self.reset()

    def reset(self) -> None:
        """Begin another drive."""
        self._speed_mps = self._throttle = self._throttle_before = self._steering = 0.0

    def command(self, x_m: float, y_m: float, yaw_rad: float) -> tuple[float, float]:
        """Throttle 0..1 and steering -1..1 for the pose seen; called every 0.1 s."""
        self._speed_mps = published_speed_mps(self._speed_mps, self._throttle_before, STAGE_S)
        self._throttle_before = self._throttle
        course = self._course
        off_x = course.x_m - (x_m + LOOK_AHEAD_M * cos(yaw_rad))
        off_y = course.y_m - (y_m + LOOK_AHEAD_M * sin(yaw_rad))
        x, y, yaw, speed_mps = (
            float(column[int(np.argmin(off_x * off_x + off_y * off_y))]) for column in course
        )
        errors = error_state(x_m, y_m, yaw_rad, self._speed_mps, x, y, yaw, speed_mps)
        if self._name == "mpc":
            throttle, wheel, _ = self._qp.solve(errors, MAX_WHEEL_RAD * self._steering, speed_mps)
            steering = COMMAND_PER_RAD * wheel
        elif self._network is not None:
            throttle, steering = self._network(errors)
        else:
            throttle, steering = law(self._linear, errors)
        self._throttle, self._steering = min(max(throttle, 0.0), 1.0), min(max(steering, -1.0), 1.0)
        return self._throttle, self._steering


def heading_drift_radps(recording: Recording) -> float:
    """Return the rate at which the heading on board leaves the true one; 0 for a drive without a
    heading on board."""
    truth, yaw = recording.truth, recording.published.yaw_rad
    if (
        not np.isfinite(yaw).any()
        and recording.source
        and "heading_rad" in (rows := table.read(Path(recording.source)))
    ):
        yaw = rows["heading_rad"]
    if len(yaw) != len(truth.t_ns):
        return 0.0
    error = np.unwrap(np.asarray(yaw) - truth.yaw_rad)
    moves = np.isfinite(error) & (truth.speed_mps > MIN_SPEED_MPS)
    if int(moves.sum()) < MIN_ROWS:
        return 0.0
    rate, _ = np.polyfit(seconds(truth.t_ns)[moves], error[moves], 1)
    return float(rate)


def drive(
    twin: SimulatedVehicle,
    published: PublishedLaw,
    course: Waypoints,
    heading_error_rad: float,
    drift_radps: float,
    fresh: Sequence[bool],
) -> Array:
    """Drive a course once; positions (n, 2) as a receiver shows them every 0.1 s, to its end or to
    where time runs out.

    The heading seen is the true one plus an error that grows with ``drift_radps``. ``fresh`` says
    for each row whether the receiver gave a new position, repeated as often as needed.
    """
    length_m = float(np.hypot(np.diff(course.x_m), np.diff(course.y_m)).sum())
    step_ns = round(STAGE_S * 1e9)
    x, y, yaw, _ = twin.advance(0)
    seen = shown = x, y
    places, way_m = [(x, y)], 0.0
    for k in range(round(MOST_S / STAGE_S)):
        now_ns = k * step_ns
        x, y, yaw, speed_mps = twin.advance(now_ns)
        if fresh[k % len(fresh)]:
            shown = x, y
        places.append(shown)
        way_m += speed_mps * STAGE_S
        if way_m > length_m - 1.0:
            break
        if now_ns >= WAITS_S * 1e9:
            seen_x, seen_y = (
                round(value / grid) * grid for value, grid in zip(seen, GRID_M, strict=True)
            )
            seen_yaw = yaw + heading_error_rad + drift_radps * now_ns * 1e-9
            twin.command(now_ns, *published.command(seen_x, seen_y, seen_yaw))
        seen = shown
    return np.array(places)


def _fresh(recording: Recording) -> list[bool]:
    """Return for each row of a drive whether the receiver gave a new position; rows at standstill
    are left out."""
    new = is_new(recording.raw_x_m, recording.raw_y_m)
    moving = np.flatnonzero(new)
    return [bool(each) for each in new[moving[0] : moving[-1] + 1]] if len(moving) else [True]


class _Task(Struct, frozen=True):
    """Prediction of one law from one known drive."""

    known: RecordedDrive
    course: Waypoints
    law: str
    network: Network | None
    make_twin: TwinMaker
    response: DriveResponse
    real_m: list[float]


def predict(
    courses: dict[str, Waypoints],
    drives: Sequence[RecordedDrive],
    make_twin: TwinMaker,
    progress: Callable[[str], None],
    networks: Mapping[str, Network] | None = None,
    jobs: int = 1,
) -> tuple[list[Prediction], list[str]]:
    """Every prediction there is to make, and what could not be used, in words. The result does not
    depend on the processes."""
    tasks, unused = list[_Task](), []
    for known in drives:
        try:
            response = identify(known.recording)
        except ResponseError as error:
            unused.append(str(error))
            continue
        for name in LAWS.values():
            network = (networks or {}).get(name)
            if name.startswith("nn") and network is None:
                continue
            others = [
                d.cross_track_m
                for d in drives
                if (d.path, d.law, d.campaign) == (known.path, name, known.campaign)
                and d is not known
            ]
            if others:
                tasks.append(
                    _Task(known, courses[known.path], name, network, make_twin, response, others)
                )
    found = []
    for task, prediction in zip(tasks, mapped(_predict, tasks, jobs)):
        found.append(prediction)
        progress(
            f"{len(found)} of {len(tasks)} predictions: {task.known.path} from "
            f"{task.known.name}, drives {task.law}"
        )
    return found, unused


def _predict(task: _Task) -> Prediction:
    known, courses = task.known, {task.known.path: task.course}
    law = PublishedLaw(task.law, task.course, PublishedQp(4000), task.network)
    sigma = sigmas(task.response, heading_drift_radps(known.recording))
    predicted = interval(
        task.response, sigma, lambda changed: _error_m(courses, known, law, task.make_twin, changed)
    )
    return Prediction(
        path=known.path, law=task.law, known=known.name, predicted=predicted, real_m=task.real_m
    )


def _error_m(
    courses: Mapping[str, Waypoints],
    known: RecordedDrive,
    law: PublishedLaw,
    make_twin: TwinMaker,
    changed: Deviation,
) -> float:
    """Return the mean cross-track error of a law on a twin."""
    course = courses[known.path]
    truth = known.recording.truth
    moves = seconds(truth.t_ns)[np.nan_to_num(truth.speed_mps) > MIN_SPEED_MPS]
    start = float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0])
    law.reset()
    # The mean heading error is that of the middle of the drive.
    first_rad = changed.heading_rad - 0.5 * changed.drift_radps * float(moves[-1] - moves[0])
    places = drive(
        make_twin(changed.response, *start),
        law,
        course,
        first_rad,
        changed.drift_radps,
        _fresh(known.recording),
    )
    return float(cross_track_m(course, places[:, 0], places[:, 1]).mean())


def _mean_error_m(
    courses: Mapping[str, Waypoints],
    known: RecordedDrive,
    law: PublishedLaw,
    make_twin: TwinMaker,
    changed: Deviation,
    heading_sigma_rad: float = HEADING_SIGMA_RAD,
) -> float:
    """Return the mean over the heading zero, by the rule of
    :func:`~vehicled.offline.replications.experiments.prediction_spread.interval`."""

    def error_m(nodes: float) -> float:
        return _error_m(
            courses,
            known,
            law,
            make_twin,
            replace(changed, heading_rad=nodes * NODE * heading_sigma_rad),
        )

    middle_m = error_m(0.0)
    return (
        middle_m
        if heading_sigma_rad == 0.0
        else (4.0 * middle_m + error_m(-1.0) + error_m(1.0)) / 6.0
    )


SIMULATED_GAIN_RAD = 0.4545
"""Wheel angle per unit command of the published simulation."""
SLACK_RAD = 0.02
"""Slack of a worn steering linkage, as a test of it as a cause; the recorded drives do not show
theirs."""
CAUSES = (
    "steering gain",
    "steering offset",
    "steering delay",
    "heading error",
    "slack",
    "heading drift",
)
"""Possible causes of a difference between vehicle and simulation: each is taken from the twin, and
the last two are added."""
ADDED = 2
"""Causes, the last, that the prediction leaves out: slack, which no drive shows, and the drift of
the heading, which no two drives share."""


class Explanation(Struct, frozen=True, kw_only=True):
    """Mean cross-track errors of one law on one path, with and without single causes."""

    path: str
    law: str
    simulated_m: float
    """Error in the published simulation; NaN if its drive is not there."""
    real_m: float
    identified_m: float
    """Error on the twin identified from the first drive of the cell."""
    changed_m: dict[str, float]
    """Error on the same twin without one of ``CAUSES``, or with one of the last."""


def explain(
    folder: Path,
    courses: Mapping[str, Waypoints],
    drives: Sequence[RecordedDrive],
    make_twin: Callable[[float], TwinMaker],
    progress: Callable[[str], None],
    networks: Mapping[str, Network],
) -> list[Explanation]:
    """Return which cause makes how much of each error. ``make_twin`` makes a maker of twins with a
    slack (rad)."""
    qp, found = PublishedQp(4000), []
    cells = {(known.path, known.law): known for known in reversed(drives)}
    for (path, name), known in sorted(cells.items()):
        progress(f"{path}, {name}")
        response = identify(known.recording)
        law = PublishedLaw(name, courses[path], qp, networks.get(name))

        def error_m(
            changed: DriveResponse,
            slack_rad: float = 0.0,
            sigma_rad: float = HEADING_SIGMA_RAD,
            drift_radps: float = 0.0,
        ) -> float:
            deviation = Deviation(changed, drift_radps=drift_radps)
            return _mean_error_m(courses, known, law, make_twin(slack_rad), deviation, sigma_rad)  # noqa: B023 - called at once

        found.append(
            Explanation(
                path=path, law=name, simulated_m=_simulated_m(folder, courses[path], path, name),
                real_m=float(np.mean([d.cross_track_m for d in drives
                    if (d.path, d.law) == (path, name)])),
                identified_m=error_m(response),
                changed_m=dict(zip(CAUSES, (
                    error_m(replace(response, gain_rad=SIMULATED_GAIN_RAD)),
                    error_m(replace(response, offset_rad=0.0)),
                    error_m(replace(response, delay_s=0.0)),
                    error_m(response, sigma_rad=0.0),
                    error_m(response, SLACK_RAD),
                    error_m(response, drift_radps=heading_drift_radps(known.recording)),
                ))),
            )
        )  # fmt: skip
    return found


def _simulated_m(folder: Path, course: Waypoints, path: str, law: str) -> float:
    word = next(word for word, name in LAWS.items() if name == law)
    file = folder / "path_following_2024" / "sim" / path / f"{word}.csv"
    if not file.is_file():
        return float("nan")
    rows = table.read(file)
    return float(cross_track_m(course, rows["x_m"], rows["y_m"]).mean())

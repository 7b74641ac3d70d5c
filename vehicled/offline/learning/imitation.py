"""Drives to learn from: an expert's own, and those of the policy that the expert corrects (DAgger,
Ross et al. 2011)."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.control.policy.features import FeatureVector
from vehicled.core.errors import SetupError
from vehicled.offline.learning.dataset import Dataset, DriveNote, Meaning, from_recorder, joined
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.exploring import REFERENCE
from vehicled.offline.learning.policy_file import write_policy
from vehicled.offline.learning.recorder import TYPES, StepRecorder
from vehicled.offline.learning.training import Trained, TrainingEpoch, TrainingSpec, train
from vehicled.offline.studies.conduct import RunRequest
from vehicled.offline.studies.specification import RunSettings
from vehicled.profile.plugins import absolute
from vehicled.profile.problems import Problem
from vehicled.profile.toml_text import assignment, parse_override
from vehicled.run.plan import Plan
from vehicled.run.result import Result
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

COURSES = (
    "circle_r2_ccw",
    "circle_r2_cw",
    "circle_r5_ccw",
    "circle_r5_cw",
    "circle_r25_ccw",
    "circle_r25_cw",
    "straight_30m",
)
"""Courses of the published training data."""
WARM_EPOCHS = 20
"""Epochs of a network that only drives to find where the data are thin."""


class DriveSpec(Struct, frozen=True, kw_only=True):
    """Drives in simulation to learn from."""

    profile: str = "art_published"
    courses: tuple[str, ...] = COURSES
    controller: str = "mpc"
    disturbance_rad: float = 0.0
    """Standard deviation of the angle by which the wheels are turned and held in bursts; 0 for
    none."""
    overrides: tuple[str, ...] = ()
    randomised: tuple[tuple[str, float, float], ...] = ()
    """Keys of the profile with the range from which each drive draws a value (domain
    randomisation)."""
    seed: int = 1
    duration_s: float = 300.0
    """Longest drive."""


class Collected(NamedTuple):
    """One drive."""

    result: Result
    data: Dataset


def requests(spec: DriveSpec, seeds: int, folder: Path) -> list[RunRequest]:
    """Return the drives of the expert on every course with every seed; each leaves its log in the
    folder."""
    drives = [(course, spec.seed + number) for course in spec.courses for number in range(seeds)]
    overrides = dict(parse_overrides(spec.overrides))
    return [
        RunRequest(
            key=f"{Path(course).stem}_{seed}",
            number=number,
            levels={"course": course, "seed": seed},
            settings=RunSettings(
                profile=spec.profile, course=course, seed=seed, duration_s=spec.duration_s,
                controller=REFERENCE if spec.disturbance_rad else spec.controller,
                overrides=overrides
                | dict(parse_overrides(_of_drive(spec, spec.controller, course, seed))),
            ),
            keep_logs="all",
            logs=str(folder),
        )
        for number, (course, seed) in enumerate(drives, 1)
    ]  # fmt: skip


def _of_drive(spec: DriveSpec, controller: str, course: str, seed: int) -> list[str]:
    """Return the overrides of one drive: the vehicle drawn for it, and the disturbance of its
    controller."""
    draws = np.random.default_rng([seed, *course.encode()])
    drawn = [
        f"{key}={low + (high - low) * float(draws.random()):.6g}"
        for key, low, high in spec.randomised
    ]
    if not spec.disturbance_rad:
        return drawn
    values = {
        "controller": absolute(controller, Path()),
        "disturbance_rad": spec.disturbance_rad,
        "seed": seed,
    }
    return [
        *drawn,
        *(f"controller.{assignment(f'Exploring.{key}', value)}" for key, value in values.items()),
    ]


def parse_overrides(overrides: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield key and value of overrides ``key=value``. Raises :class:`SetupError`."""
    for text in overrides:
        parsed = parse_override(text)
        if isinstance(parsed, Problem):
            raise SetupError(f"--set {text}: {parsed.message}")
        yield ".".join(map(str, parsed.path)), parsed.value


def _plan(spec: DriveSpec, course: str, seed: int, controller: str, log_folder: str | None) -> Plan:
    return Plan.of(
        RunSpec(
            profile=spec.profile, course=course,
            controller=REFERENCE if spec.disturbance_rad else controller, seed=seed,
            overrides=(*spec.overrides, *_of_drive(spec, controller, course, seed)),
            duration_s=spec.duration_s, start_timeout_s=START_TIMEOUT_S, log_folder=log_folder,
        )
    )  # fmt: skip


def advised_drive(
    spec: DriveSpec, course: str, seed: int, policy: Path, meaning: Meaning
) -> Collected:
    """Drive a course with a policy; the rows hold what the expert would have done there."""
    vector = FeatureVector(meaning.features)
    plan = _plan(spec, course, seed, str(policy), None)
    recorder = StepRecorder(
        plan.loaded.profile, plan.course, vector, look_ahead_m=meaning.look_ahead_m,
        predicts=meaning.predicts, period_s=meaning.period_s, expert=spec.controller,
    )  # fmt: skip
    result = simulate(
        plan, SimulationSpec(in_process=True), listeners=[(TYPES, recorder.record)]
    ).result
    note = DriveNote(
        name=f"dagger_{course}_{seed}",
        rows=0,
        profile=spec.profile,
        course=course,
        driver="policy",
        expert=spec.controller,
        seed=seed,
    )
    return Collected(result, from_recorder(meaning, note, recorder, vector.width))


class DaggerRound(Struct, frozen=True):
    """A drive of the policy on the way."""

    number: int
    course: str
    finished: bool
    why: str
    cross_track_mean_m: float
    rows: int
    """Rows that it added."""


def dagger(
    data: Dataset,
    training: TrainingSpec,
    spec: DriveSpec,
    drives: int,
    *,
    on_drive: Callable[[DaggerRound], None],
    on_epoch: Callable[[TrainingEpoch], None] | None = None,
) -> tuple[Trained, Dataset]:
    """Return a network trained on the data and on ``drives`` more of its own, corrected by the
    expert, and all the data.

    Each drive is on the next course with another seed, by a network trained on everything so far.
    Raises :class:`LearningError`.
    """
    courses = spec.courses
    if not courses:
        raise LearningError("DAgger needs courses to drive: name them with --course")
    quick = msgspec.structs.replace(training, epochs=min(WARM_EPOCHS, training.epochs))
    with tempfile.TemporaryDirectory(prefix="vehicled_dagger_") as folder:
        for number in range(1, drives + 1):
            trained = train(data, quick)
            policy = Path(folder) / f"policy_{number}.onnx"
            write_policy(policy, trained.layers, trained.description)
            course = courses[(number - 1) % len(courses)]
            result, found = advised_drive(spec, course, spec.seed + number, policy, data.meaning)
            on_drive(
                DaggerRound(
                    number,
                    course,
                    result.finished,
                    result.why,
                    result.cross_track_m.mean,
                    len(found),
                )
            )
            if len(found):
                data = joined([data, found])
    return train(data, training, on_epoch), data

"""Our own logs as recordings: what the devices sent and what the actuators got, to be estimated
anew.

The truth is that of a simulator or of a reference system, where there was one, else the RTK track.
What the daemon believed is the published estimate.
"""

import os
from pathlib import Path

import numpy as np

from vehicled.core.messages import (
    ActuatorCommand,
    GnssFix,
    GroundTruth,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_messages
from vehicled.offline.recordings import track_truth
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import UNKNOWN_COURSE, RecordedMotion, Recording, held
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import datum_of
from vehicled.profile import profile_in

INPUTS = (GnssFix, ImuSample, Heading, MotorStatus, WheelSpeed, SteeringFeedback, ActuatorCommand)
STEP_NS = 20_000_000
"""Estimates are judged at 50 Hz: a vehicle does nothing faster."""
MAX_SPAN_NS = 10_000 * 10**9
"""Largest duration of a foreign log: almost three hours. Beyond it the stamps are wrong."""


def load(path: str | os.PathLike[str], name: str = "") -> Recording:
    """A log of ours, with all its parts. Raises :class:`RecordingError` and
    :class:`~vehicled.log.errors.LogError`."""
    inputs: list[Message] = []
    estimates: list[StateEstimate] = []
    truths: list[GroundTruth] = []
    with LogReader(path) as log:
        imported = bool(log.header.imported)
        course = "" if log.header.course == UNKNOWN_COURSE else log.header.course
        profile = profile_in(log)
        try:
            datum = datum_of(log.attachment("course.json"))
        except CourseError as error:
            raise RecordingError(f"{path}: {error}") from error
    for message in run_messages(path, *INPUTS, StateEstimate, GroundTruth):
        if isinstance(message, StateEstimate):
            estimates.append(message)
        elif isinstance(message, GroundTruth):
            truths.append(message)
        else:
            inputs.append(message)
    fixes = [m for m in inputs if isinstance(m, GnssFix)]
    if not fixes or (not estimates and not imported):
        what = "state estimate" if fixes else "GNSS fix"
        raise RecordingError(f"{path}: holds no {what}: there is nothing to compare in it")
    lever_arm = profile.lever_arm_m(GnssFix.__name__) or (0.0, 0.0, 0.0)
    kept = _thinned(estimates)
    steps = np.array([m.t_ns for m in kept], dtype=np.int64)
    if not kept:
        # A foreign log: nobody on board estimated anything.
        if fixes[-1].t_rx_ns - fixes[0].t_rx_ns > MAX_SPAN_NS:
            raise RecordingError(
                f"{path}: lasts longer than {MAX_SPAN_NS * 1e-9:.0f} s by its stamps: cut it, "
                "or mend its clock"
            )
        steps = np.arange(fixes[0].t_rx_ns, fixes[-1].t_rx_ns + 1, STEP_NS, dtype=np.int64)
    _, east, north = track_truth.places(fixes, datum)
    arrivals = [m.t_rx_ns for m in fixes]
    return Recording(
        name=name or Path(path).stem,
        kind="log",
        vehicle=profile.vehicle,
        datum=datum,
        inputs=inputs,
        steps_ns=steps.tolist(),
        truth=RecordedMotion.of(truths).at(steps)
        if len(truths) > 1
        else track_truth.of_fixes(steps, fixes, datum, lever_arm),
        raw_x_m=held(steps, arrivals, east),
        raw_y_m=held(steps, arrivals, north),
        published=RecordedMotion.of(kept) if kept else RecordedMotion.partly(steps),
        lever_arm_m=lever_arm,
        source=os.fspath(path),
        course=course,
        truth_sigma=_sigma(truths),
    )


def is_ours(path: str | os.PathLike[str]) -> bool:
    """True if vehicled wrote the log; False also for unreadable files."""
    try:
        with LogReader(path) as log:
            return log.is_vehicled_log
    except LogError:
        return False


def _thinned(estimates: list[StateEstimate]) -> list[StateEstimate]:
    kept: list[StateEstimate] = []
    for estimate in estimates:
        if not kept or estimate.t_ns - kept[-1].t_ns >= STEP_NS:
            kept.append(estimate)
    return kept


def _sigma(truths: list[GroundTruth]) -> tuple[float, float, float]:
    """Return the medians of what the truth claims of position, yaw and speed; infinite where it
    claims nothing."""
    claimed = np.array(
        [(m.position_sigma_m, m.yaw_sigma_rad, m.speed_sigma_mps) for m in truths]
        or [(0.0, 0.0, 0.0)]
    )
    position, yaw, speed = np.median(np.nan_to_num(claimed, nan=np.inf), axis=0).tolist()
    return position, yaw, speed

"""One run of a study: drive it in this process and measure it."""

import hashlib
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vehicled.control.policy.network import PolicyError
from vehicled.core.errors import SetupError
from vehicled.core.link import LinkError
from vehicled.log.errors import LogError
from vehicled.offline.studies.exact_drive import drive
from vehicled.offline.studies.fleet_run import drive_study_fleet, measures
from vehicled.offline.studies.metrics import StudyDrive, measure, measure_own
from vehicled.offline.studies.specification import ExactLoop, RunSettings
from vehicled.paths import CourseError
from vehicled.profile import ProfileError
from vehicled.profile.plugins import PluginError, is_reference
from vehicled.profile.registry import UnknownNameError
from vehicled.profile.toml_text import assignment
from vehicled.run.plan import Plan
from vehicled.run.result import Result
from vehicled.run.simulation import Simulated, SimulationSpec, simulate, simulated_profile
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

REFUSALS = (
    ProfileError,
    CourseError,
    SetupError,
    PluginError,
    PolicyError,
    UnknownNameError,
    LinkError,
    LogError,
)
"""Errors of a run that are the user's to mend; their text has place and cure."""


class RunRequest(Struct, frozen=True, kw_only=True):
    """A run to drive."""

    key: str
    number: int
    levels: dict[str, Any]
    settings: RunSettings
    metrics: tuple[str, ...] = ()
    """Metric functions of the user's, as ``FILE.py:NAME``."""
    keep_logs: Literal["none", "failed", "all"] = "none"
    logs: str = ""
    """Folder of the logs."""


class RunRow(Struct, frozen=True, kw_only=True):
    """A run that was driven or refused: one row of the table."""

    key: str
    number: int
    levels: dict[str, Any]
    outcome: Literal["finished", "failed", "refused", "crashed"]
    why: str
    metrics: dict[str, float | None] = {}
    digest: str = ""
    run_s: float = 0.0
    """Simulated time, s."""
    cpu_s: float = 0.0
    """Processor time of the run, s."""
    log: str = ""
    problem: str = ""
    """Problem besides the drive, such as a metric that raised."""
    command: str = ""
    """Command that repeats this run."""


def conduct(request: RunRequest) -> RunRow:
    """Drive one run. Errors of its settings give a row with the outcome ``refused``."""
    if request.settings.exact is not None:
        return _conduct_exact(request, request.settings.exact)
    if request.settings.fleet:
        return _conduct_fleet(request)
    started_s = time.process_time()
    command = command_of(request.settings)
    try:
        log = _log_folder(request) if request.keep_logs == "all" else None
        plan, simulated = _drive(request, log)
        if log is None and request.keep_logs == "failed" and _outcome(simulated.result) == "failed":
            # Lockstep repeats exactly, so only the runs that failed pay for a log.
            plan, simulated = _drive(request, _log_folder(request))
    except REFUSALS as error:
        return RunRow(
            key=request.key, number=request.number, levels=request.levels, outcome="refused",
            why=str(error), cpu_s=time.process_time() - started_s, command=command,
        )  # fmt: skip
    result = simulated.result
    drive = StudyDrive(result, simulated.trace, plan.course, plan.loaded.profile, request.levels)
    own, problem = measure_own([each for each in request.metrics if is_reference(each)], drive)
    return RunRow(
        key=request.key,
        number=request.number,
        levels=request.levels,
        outcome=_outcome(result),
        why=result.why if result.markings_passed is not False else result.markings,
        metrics=measure(result) | own,
        digest=result.digest,
        run_s=result.run_s,
        cpu_s=time.process_time() - started_s,
        log=result.log,
        problem="; ".join(text for text in (problem, result.log_problem) if text),
        command=command,
    )


def _conduct_exact(request: RunRequest, loop: ExactLoop) -> RunRow:
    """Drive one run without the daemon."""
    started_s = time.process_time()
    try:
        plan = plan_of(request.settings)
        profile = simulated_profile(plan)
    except REFUSALS as error:
        return RunRow(
            key=request.key,
            number=request.number,
            levels=request.levels,
            outcome="refused",
            why=str(error),
        )
    done = drive(
        profile,
        plan.course,
        loop.rate_hz,
        physics_hz=loop.physics_hz or None,
        delay_steps=loop.delay_steps,
        arm_m=loop.point_wheelbases * profile.vehicle.wheelbase_m,
        box_m=loop.box_m,
    )
    metrics = {
        "manoeuvre_cross_track_mean_m": done.cross_track_m,
        "manoeuvre_cross_track_max_m": done.cross_track_max_m,
        "manoeuvre_heading_mean_rad": done.heading_rad,
        "manoeuvre_speed_mean_mps": done.speed_mps,
    }
    return RunRow(
        key=request.key,
        number=request.number,
        levels=request.levels,
        outcome="finished" if done.finished else "failed",
        why=done.why
        if done.finished
        else f"{done.why}, {done.place_m:.1f} m after the start of the manoeuvre",
        metrics={name: value if isfinite(value) else None for name, value in metrics.items()},
        digest=hashlib.sha256(msgspec.json.encode(done)).hexdigest(),
        cpu_s=time.process_time() - started_s,
    )


def _conduct_fleet(request: RunRequest) -> RunRow:
    """Drive one run of a fleet."""
    begun = _processor_s()
    command = command_of(request.settings)
    try:
        log = _log_folder(request) if request.keep_logs == "all" else None
        outcome = drive_study_fleet(request.settings, log)
        if log is None and request.keep_logs == "failed" and outcome.status:
            log = _log_folder(request)
            outcome = drive_study_fleet(request.settings, log)
    except REFUSALS as error:
        return RunRow(
            key=request.key, number=request.number, levels=request.levels, outcome="refused",
            why=str(error), cpu_s=_processor_s() - begun, command=command,
        )  # fmt: skip
    failed = [f"{each.name}: {each.why}" for each in outcome.vehicles if not each.finished]
    return RunRow(
        key=request.key,
        number=request.number,
        levels=request.levels,
        outcome="failed" if outcome.status else "finished",
        why=outcome.failure or "; ".join(failed) or "all vehicles reached the end of their courses",
        metrics=measures(outcome),
        digest=outcome.digest,
        run_s=outcome.run_s,
        cpu_s=_processor_s() - begun,
        log=log or "",
        command=command,
    )


def _processor_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def plan_of(settings: RunSettings, log_folder: str | None = None) -> Plan:
    """Return the checked plan of a run. Raises one of ``REFUSALS``."""
    spec = RunSpec(
        profile=settings.profile,
        course=settings.course,
        scene=settings.scene,
        controller=settings.controller,
        estimator=settings.estimator,
        identifier=settings.identifier,
        programme=settings.programme,
        overrides=tuple(assignment(key, value) for key, value in settings.overrides.items()),
        laps=settings.laps,
        latency=settings.latency,
        board=settings.board,
        link=settings.link,
        seed=settings.seed,
        duration_s=settings.duration_s,
        start_timeout_s=START_TIMEOUT_S,
        log_folder=log_folder,
    )
    return Plan.of(spec)


def _drive(request: RunRequest, log_folder: str | None) -> tuple[Plan, Simulated]:
    settings = request.settings
    plan = plan_of(settings, log_folder)
    simulation = SimulationSpec(failures=settings.fail, start=settings.start, in_process=True)
    return plan, simulate(plan, simulation, keep_trace=bool(request.metrics))


def _log_folder(request: RunRequest) -> str:
    folder = Path(request.logs) / request.key
    # A run that was killed may have left half a log.
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)


def _outcome(result: Result) -> Literal["finished", "failed"]:
    return "finished" if result.finished and result.markings_passed is not False else "failed"


_OPTIONS = (
    "course",
    "scene",
    "fleet",
    "controller",
    "estimator",
    "identifier",
    "programme",
    "link",
    "start",
    "latency",
    "board",
)


def command_of(settings: RunSettings) -> str:
    """Return the ``vehicled sim`` command that repeats a run."""
    words = ["vehicled", "sim", "--profile", settings.profile, "--seed", str(settings.seed)]
    for name in _OPTIONS:
        value = getattr(settings, name)
        if value != getattr(RunSettings(), name):
            words += [f"--{name}", value]
    if settings.laps != 1:
        words += ["--laps", str(settings.laps)]
    # The file of a fleet may have a duration of its own.
    if not settings.fleet or settings.duration_s != RunSettings().duration_s:
        words += ["--duration", f"{settings.duration_s:g}"]
    for failure in settings.fail:
        words += ["--fail", failure]
    for key, value in settings.overrides.items():
        words += ["--set", assignment(key, value)]
    return shlex.join(words)


def crashed(request: RunRequest, why: str) -> RunRow:
    """Return the row of a run during which its process died."""
    return RunRow(
        key=request.key, number=request.number, levels=request.levels, outcome="crashed", why=why,
        command=command_of(request.settings),
    )  # fmt: skip


def renumbered(row: RunRow, number: int, levels: Mapping[str, Any]) -> RunRow:
    """Return a row of an earlier call under its number and levels in this one."""
    return replace(row, number=number, levels=dict(levels))

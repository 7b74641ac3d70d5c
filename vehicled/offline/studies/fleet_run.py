"""One run of a study that drives a fleet: each vehicle has a daemon process of its own."""

from pathlib import Path
from tempfile import TemporaryDirectory

from vehicled.offline.studies.metrics import CONTACTS, measure_plain
from vehicled.offline.studies.specification import RunSettings
from vehicled.profile.toml_text import assignment
from vehicled.run.fleet import FleetPlan, plan_fleet, read_fleet, varied
from vehicled.run.fleet_processes import drive_fleet
from vehicled.run.fleet_result import FleetOutcome
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

TIMEOUT_S = 120.0
"""Time of the computer after which a daemon is left behind, s: many runs share it."""


def plan_of_fleet(settings: RunSettings, folder: Path, log_folder: str | None = None) -> FleetPlan:
    """Return the checked plan of a run. ``folder`` takes the courses that begin elsewhere. Raises
    :class:`SetupError`."""
    file = read_fleet(Path(settings.fleet))
    texts = [assignment(key, value) for key, value in settings.overrides.items()]
    entries, radio, overrides = varied(file.vehicle, file.radio, texts)
    default = RunSettings()
    spec = RunSpec(
        profile=settings.profile,
        course=settings.course,
        scene=settings.scene or file.scene,
        controller=settings.controller,
        estimator=settings.estimator,
        programme=settings.programme,
        overrides=overrides,
        laps=settings.laps,
        latency=settings.latency,
        board=settings.board,
        link=settings.link,
        seed=settings.seed,
        duration_s=file.duration_s or settings.duration_s
        if settings.duration_s == default.duration_s
        else settings.duration_s,
        start_timeout_s=START_TIMEOUT_S,
        log_folder=log_folder,
    )
    return plan_fleet(entries, spec, folder, radio)


def drive_study_fleet(settings: RunSettings, log_folder: str | None) -> FleetOutcome:
    """Drive one run. Raises :class:`SetupError`."""
    with TemporaryDirectory(prefix="vehicled_fleet_") as folder:
        plan = plan_of_fleet(settings, Path(folder), log_folder)
        return FleetOutcome.of(plan, drive_fleet(plan, TIMEOUT_S))


def measures(outcome: FleetOutcome) -> dict[str, float | None]:
    """Return the metrics of each vehicle after its name, and that of the fleet."""
    found: dict[str, float | None] = {
        CONTACTS: sum(len(each.contacts) for each in outcome.vehicles)
    }
    for each in outcome.vehicles:
        own = measure_plain(each.figures) if each.figures else {}
        own[CONTACTS] = len(each.contacts)
        found |= {f"{each.name}.{name}": value for name, value in own.items()}
    return found

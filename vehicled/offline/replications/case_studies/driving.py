"""Drive of a case study: the true motion, and what the vehicle does when the commands end."""

from math import hypot

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.core.messages import Gear, GroundTruth, Message
from vehicled.core.vehicle import Outline
from vehicled.offline.replications.case_studies.declarations import CaseDrive
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

STANDS_S = 3.0
"""Time for which the simulator goes on after the last command."""
LONGEST_S = 900.0
MOST_PLACES = 4000
"""Places of a drive that are kept for pictures and distances."""


class CaseDriven(Struct, frozen=True, kw_only=True):
    """A drive and its true motion. Poses are those of the reference point, m and rad."""

    drive: CaseDrive
    finished: bool
    why: str
    digest: str
    driving_s: float
    course_m: float
    backward_m: float
    """Distance driven backward."""
    backward_course_m: float
    """Length of the backward parts of the course."""
    cross_track_mean_m: float
    cross_track_max_m: float
    contacts: list[str]
    """Names of the parts of the scene that were touched."""
    length_m: float
    outline: Outline
    poses: Array
    """(n, 4): time, x, y, yaw."""
    speeds_mps: Array
    """(n,)"""
    end: tuple[float, float, float]
    """Pose ``STANDS_S`` after the last command."""
    moved_m: float
    """Distance moved in that time."""
    gear: str
    """Gear at that time; empty for a vehicle without a gearbox."""


def command_of(drive: CaseDrive) -> str:
    """Return the ``vehicled sim`` command of a drive."""
    words = ["vehicled sim --profile", drive.profile]
    words += [f"--scene {drive.scene}"] if drive.scene else []
    return " ".join([*words, "--course", drive.course, *(f"--set {o}" for o in drive.overrides)])


def drive_case(shared: None, drive: CaseDrive) -> CaseDriven:
    """Drive in lockstep, then let the simulator go on without a daemon. Raises the errors of plans
    and drives."""
    plan = Plan.of(
        RunSpec(
            profile=drive.profile,
            scene=drive.scene,
            course=drive.course,
            overrides=drive.overrides,
            seed=1,
            duration_s=LONGEST_S,
            start_timeout_s=START_TIMEOUT_S,
            log_folder=None,
        )
    )
    truth: list[tuple[float, float, float, float, float]] = []

    def record(message: Message, log_time_ns: int) -> None:
        if isinstance(message, GroundTruth):
            m = message
            truth.append((m.t_ns * 1e-9, m.x_m, m.y_m, m.yaw_rad, m.speed_mps))

    done = simulate(
        plan,
        SimulationSpec(in_process=True),
        listeners=[((GroundTruth,), record)],
        keeps_signal=True,
    )
    world = done.world
    if world is None or not truth:
        raise SetupError(f"{command_of(drive)}: {done.result.why}")
    before = world.motion
    world.advance(world.grid_ns + round(STANDS_S * 1e9))
    after = world.motion
    rows = np.array(truth)
    steps = np.hypot(*np.diff(rows[:, 1:3], axis=0).T)
    course, result = plan.course, done.result
    vehicle = plan.loaded.profile.vehicle
    kept = np.unique(np.linspace(0, len(rows) - 1, MOST_PLACES).astype(int))
    return CaseDriven(
        drive=drive,
        finished=result.finished,
        why=result.why,
        digest=result.digest,
        driving_s=result.driving_s,
        course_m=result.course_m,
        backward_m=float(steps[rows[1:, 4] < 0.0].sum()),
        backward_course_m=float(np.diff(course.s_m)[course.speed_mps[:-1] < 0.0].sum()),
        cross_track_mean_m=result.cross_track_m.mean,
        cross_track_max_m=result.cross_track_m.max,
        contacts=[str(each["what"]) for each in result.contacts],
        length_m=vehicle.length_m,
        outline=vehicle.outline,
        poses=rows[kept, :4],
        speeds_mps=rows[kept, 4],
        end=(after.x_m, after.y_m, after.yaw_rad),
        moved_m=hypot(after.x_m - before.x_m, after.y_m - before.y_m),
        gear=world.gear.name[0] if world.gear is not Gear.UNKNOWN else "",
    )

"""Constants of a set-up for the estimator ``planar``, found in recorded drives without a truth.

The filter estimates these constants as states, so each drive ends with an opinion of them, mean and
variance. They differ between drives, by battery, floor and load, so a set-up is a mean and a spread
over drives: a model with random effects, solved by expectation maximisation (Dempster, Laird and
Rubin 1977). The weights of a t distribution (Lange, Little and Taylor 1989) keep a drive whose
positions wandered off from deciding. The noise of the receiver is not fitted: the likelihood
prefers the law that fits from fix to fix, which says little of what happens over a drive.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct, structs

from vehicled.core.arrays import Array
from vehicled.core.messages import HeadingKind
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.planar.estimator import Planar
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import (
    AUTHORITY,
    FRICTION,
    GAIN,
    MISALIGNMENT,
    OFFSET,
    PlanarState,
)
from vehicled.offline.processes import WorkerPool
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.recordings.runner import run

Report = Callable[[str], None]

STATES = (MISALIGNMENT, AUTHORITY, FRICTION, GAIN, OFFSET)
NAMES = ("heading misalignment", "full drive", "friction", "steering gain", "steering offset")
UNITS = ("rad", "m/s2", "m/s2", "rad", "rad")
USUAL_SPREAD = (0.02, 0.05, 0.05, 0.05, 0.01)
"""Spread between drives of one set-up in the units above, of the full drive and the gain as a
fraction."""
USUAL_DRIVES = 10.0
"""Number of drives that this counts as much as."""
FREEDOM = 4.0
"""Degrees of freedom of the t distribution of a drive's deviation."""
MAX_ROUNDS = 8
LEAST_GAIN = 0.2
"""Gain of the log likelihood in a round, below which the search ends."""
SHOWN = 0.7
"""Largest sigma, as a fraction of the one before the drives, of a constant that they show."""
STEP_NS = 100_000_000
"""Period of the steps; the filter predicts between measurements anyway."""
REASONS = (
    (
        "no heading of an absolute kind was received, or the positions wander more than the drives "
        "are long: drive long straights"
    ),
    (
        "the speed is known from wheels or motor, or the throttle was never held: drive at several "
        "throttles and coast"
    ),
    (
        "the speed is known from wheels or motor, or the throttle was never held: drive at several "
        "throttles and coast"
    ),
    "a gyro measures the yaw rate: the identifier `single_track` learns the steering while driving",
    "a gyro measures the yaw rate: the identifier `single_track` learns the steering while driving",
)


class ConstantSpread(Struct, frozen=True):
    """Mean and spread over drives of the constants, (5,) each, in the order and units of
    ``NAMES``."""

    mean: Array
    sigma: Array


class SetUp(Struct, frozen=True, kw_only=True):
    """Constants found in drives."""

    before: ConstantSpread
    after: ConstantSpread
    shown: tuple[bool, ...]
    """True for constants that the drives show; the others are as before."""
    unused: tuple[str, ...] = ()
    """Drives in which the filter never started, or lost its way, by name."""


class HeldOut(Struct, frozen=True, kw_only=True):
    """One drive, estimated with the constants that the other drives show."""

    name: str
    gain: float
    """Log likelihood of its measurements minus the same with the constants as before; above 0 the
    new ones predict better."""
    raw_m: float
    """Mean error of the measured positions; NaN without a truth."""
    before_m: float
    after_m: float


def prior(params: PlanarParams, vehicle: Vehicle) -> ConstantSpread:
    """Return what the parameters say before any drive."""
    drive, steering, p = vehicle.drive, vehicle.steering, params
    per_nm = _per_nm(vehicle)
    authority = p.authority_scale * drive.stall_torque_nm * per_nm
    friction = drive.friction_nm * per_nm + p.friction_extra_mps2
    return ConstantSpread(
        np.array(
            (p.heading_misalignment_rad, authority, friction, steering.gain_rad,
             steering.offset_rad),
        ),
        np.array(
            (
                p.misalignment_sigma_rad, p.authority_spread * authority, p.friction_spread_mps2,
                p.gain_spread * steering.gain_rad, p.offset_spread_rad,
            )
        ),
    )  # fmt: skip


def applied(
    params: PlanarParams, vehicle: Vehicle, constants: ConstantSpread
) -> tuple[PlanarParams, Vehicle]:
    """Return parameters and vehicle that say these constants."""
    misalignment, authority, friction, gain, offset = constants.mean.tolist()
    sigma = constants.sigma.tolist()
    drive, per_nm = vehicle.drive, _per_nm(vehicle)
    steering = vehicle.steering
    # The mechanical stop must not cut off a larger gain.
    lock = (
        max(steering.max_wheel_rad, min(gain + 0.05, 1.4))
        if gain > steering.gain_rad
        else steering.max_wheel_rad
    )
    return structs.replace(
        params,
        heading_misalignment_rad=misalignment, misalignment_sigma_rad=sigma[0],
        authority_scale=authority / (drive.stall_torque_nm * per_nm),
        authority_spread=sigma[1] / authority,
        friction_extra_mps2=friction - drive.friction_nm * per_nm, friction_spread_mps2=sigma[2],
        gain_spread=sigma[3] / gain, offset_spread_rad=sigma[4],
    ), structs.replace(
        vehicle,
        steering=structs.replace(steering, gain_rad=gain, offset_rad=offset, max_wheel_rad=lock)
    )  # fmt: skip


def find(
    drives: Sequence[Recording], params: PlanarParams, vehicle: Vehicle,
    report: Report = lambda _: None, processes: WorkerPool | None = None,
) -> SetUp:  # fmt: skip
    """Return the set-up in which these drives were driven. They are estimated in ``processes``, if
    given. Raises :class:`RecordingError` if none of them says anything.
    """
    processes = processes or WorkerPool(1)
    processes.share((list(drives), params, vehicle))
    before = now = prior(params, vehicle)
    relative = np.array((1.0, before.mean[1], 1.0, before.mean[3], 1.0))
    usual2 = (relative * USUAL_SPREAD) ** 2
    used = list(range(len(drives)))
    unused: list[str] = []
    shown = np.zeros(len(STATES), dtype=bool)
    uncertainty2 = before.sigma**2
    last = -np.inf
    for number in range(1, MAX_ROUNDS + 1):
        ends: list[PlanarState] = []
        about = f"round {number}, %d of {len(used)} drives"
        report(about % 0)
        found = processes.map(
            _end,
            [(index, now) for index in used],
            lambda done, about=about: report(about % done),  # type: ignore[misc]
        )
        for index, end in zip(list(used), found, strict=True):
            if end is None:
                used.remove(index)
                unused.append(drives[index].name)
            else:
                ends.append(end)
        if not ends:
            raise RecordingError(
                "the estimator planar never found its place in these drives: they need "
                "positions, a heading or motion, and commands"
            )
        total = sum(end.log_likelihood for end in ends)
        if total < last + LEAST_GAIN and number > 3:
            break
        last = total
        means = np.array([end.x[list(STATES)] for end in ends])
        variances = np.array([end.P.diagonal()[list(STATES)] for end in ends])
        if number == 1:
            shown = _shown(ends, variances, before)
            weights = np.ones_like(means)
        else:
            weights = (FREEDOM + 1.0) / (
                FREEDOM + ((means - now.mean) ** 2 + variances) / now.sigma**2
            )
        precision = weights.sum(axis=0) / now.sigma**2 + 1.0 / before.sigma**2
        mean = (
            (weights * means).sum(axis=0) / now.sigma**2 + before.mean / before.sigma**2
        ) / precision
        deviations = weights * (variances + (means - mean) ** 2)
        spread2 = (USUAL_DRIVES * usual2 + deviations.sum(axis=0)) / (USUAL_DRIVES + len(ends))
        uncertainty2 = 1.0 / precision
        now = ConstantSpread(
            np.where(shown, mean, before.mean), np.where(shown, np.sqrt(spread2), before.sigma)
        )
    after = ConstantSpread(
        now.mean,
        np.where(
            shown, np.minimum(np.sqrt(now.sigma**2 + uncertainty2), before.sigma), before.sigma
        ),
    )
    return SetUp(before=before, after=after, shown=tuple(shown.tolist()), unused=tuple(unused))


def cross_validated(
    drives: Sequence[Recording], params: PlanarParams, vehicle: Vehicle, folds: int,
    report: Report = lambda _: None, processes: WorkerPool | None = None,
) -> list[HeldOut]:  # fmt: skip
    """Estimate each drive with the constants of the others. ``folds`` >= 2 parts, of every
    ``folds``-th drive."""
    found = []
    for fold in range(min(folds, len(drives))):
        others = [drive for k, drive in enumerate(drives) if k % folds != fold]

        def report_fold(text: str, fold: int = fold) -> None:
            report(f"fold {fold + 1} of {min(folds, len(drives))}, {text}")

        processes = processes or WorkerPool(1)
        set_up = find(others, params, vehicle, report_fold, processes)
        report_fold("judging")
        processes.share((drives[fold::folds], params, vehicle))
        found += processes.map(
            _judged, [(index, set_up) for index in range(len(drives[fold::folds]))]
        )
    return sorted(found, key=lambda one: one.name)


def judged(drive: Recording, params: PlanarParams, vehicle: Vehicle, set_up: SetUp) -> HeldOut:
    """Estimate a drive that a set-up was not found in."""
    old, before_m = _estimated(drive, params, vehicle, set_up.before)
    new, after_m = _estimated(drive, params, vehicle, set_up.after)
    raw_m = _mean_error_m(drive, drive.raw_x_m, drive.raw_y_m)
    return HeldOut(name=drive.name, gain=new - old, raw_m=raw_m, before_m=before_m, after_m=after_m)


def _end(
    shared: tuple[Sequence[Recording], PlanarParams, Vehicle], task: tuple[int, ConstantSpread]
) -> PlanarState | None:
    drives, params, vehicle = shared
    return _driven(drives[task[0]], params, vehicle, task[1])


def _judged(
    shared: tuple[Sequence[Recording], PlanarParams, Vehicle], task: tuple[int, SetUp]
) -> HeldOut:
    drives, params, vehicle = shared
    return judged(drives[task[0]], params, vehicle, task[1])


def _estimator(
    drive: Recording, params: PlanarParams, vehicle: Vehicle, constants: ConstantSpread
) -> Planar:
    """Return the filter with these constants, for a drive."""
    return Planar(*applied(params, vehicle, constants), drive.datum, drive.lever_arm_m)


def _per_nm(vehicle: Vehicle) -> float:
    drive = vehicle.drive
    return drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def _driven(
    drive: Recording, params: PlanarParams, vehicle: Vehicle, constants: ConstantSpread
) -> PlanarState | None:
    """Return the state at the end of a drive; None if the filter never started, or began anew."""
    steps: list[int] = []
    for t_ns in drive.steps_ns:
        if not steps or t_ns - steps[-1] >= STEP_NS - 1_000_000:
            steps.append(t_ns)
    estimator = _estimator(drive, params, vehicle, constants)
    run(replace(drive, steps_ns=steps), estimator)
    return None if estimator.restarts else estimator.state


def _shown(ends: Sequence[PlanarState], variances: Array, before: ConstantSpread) -> np.ndarray:
    """Return which constants all drives together show: (5,)."""
    information = np.maximum(1.0 / variances - 1.0 / before.sigma**2, 0.0)
    # An integrated gyro starts anew on each drive: its first yaw is no constant of the set-up.
    kinds = [end.heading_kind for end in ends]
    information[:, 0] *= [kind not in (-1, int(HeadingKind.INERTIAL)) for kind in kinds]
    sigma = 1.0 / np.sqrt(information.sum(axis=0) + 1.0 / before.sigma**2)
    return np.asarray(sigma < SHOWN * before.sigma)


def _estimated(
    drive: Recording, params: PlanarParams, vehicle: Vehicle, constants: ConstantSpread
) -> tuple[float, float]:
    """Return log likelihood and mean position error of a drive."""
    estimator = _estimator(drive, params, vehicle, constants)
    track = run(drive, estimator)
    state = estimator.state
    known = np.isfinite(drive.raw_x_m)
    error_m = _mean_error_m(drive, np.where(known, track.x_m, np.nan), track.y_m)
    return (float("nan") if state is None or estimator.restarts else state.log_likelihood), error_m


def _mean_error_m(drive: Recording, x_m: Array, y_m: Array) -> float:
    errors = np.hypot(x_m - drive.truth.x_m, y_m - drive.truth.y_m)
    errors = errors[np.isfinite(errors)]
    return float(errors.mean()) if len(errors) else float("nan")

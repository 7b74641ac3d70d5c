"""Fit of the twin ``hmmwv_chrono`` to recorded Chrono runs: steering and roll steer from the toe of
the front wheels, then six numbers from the motion.

    python bench/chrono_fit.py [DIR]

DIR holds the runs (``*_motion.csv`` with ``*_commands.csv``). It starts from the published tyre set
and from ``hmmwv_chrono`` for all else, fits all runs, then each half of them (``FOLDS``), and
prints the numbers and the errors of every run. Takes minutes.
"""

import sys
from collections.abc import Sequence
from math import degrees, nan
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import Axle, TwinParameters
from sim_backend.plant.twin_file import load_twin
from vehicled.offline.recordings import table
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.twin.validation.drive import drive
from vehicled.offline.twin.validation.metrics import errors_of
from vehicled.offline.twin.validation.reference import ReferenceRun, ReferenceRunError, find, read

PRIOR = {
    "lateral slope": (0.85, 0.15), "grip": (1.07, 0.06), "front roll stiffness": (45e3, 12e3),
    "rear roll stiffness": (25e3, 10e3), "longitudinal grip": (1.0, 0.08),
    "rolling resistance": (0.018, 0.0015),
}  # fmt: skip
"""Mean and standard deviation; the first two and the longitudinal grip relative to the tyre set."""
SLOPE_N, PEAK_N, SLIDING_N = (50931.693, 94293.847), (6615.0404, 12509.947), (6091.5092, 11443.875)
PEAK_SLIP, SLIDING_SLIP = (0.38786, 0.38786), (0.82534, 0.91309)
LONG_PEAK_N, LONG_SLIDING_N = (7575.361, 12808.28), (4657.921, 8625.335)
LONG_PEAK_SLIP, LONG_SLIDING_SLIP = (0.12, 0.15), (0.9, 0.95)
FOLDS = (
    ("acc", "double_lane3", "double_lane5", "st3", "st6"),
    ("acc", "double_lane4", "double_lane6", "st6", "test_set1"),
)
SCALES = {
    "yaw_rate_radps": 0.02,
    "vy_mps": 0.1,
    "roll_rad": 0.01,
    "vx_mps": 0.3,
    "yaw_rad": 0.03,
    "x_m": 1.5,
    "y_m": 1.5,
}
EVERY = 5


def steering(files: Sequence[Path]) -> tuple[float, float, float]:
    """Return the wheel angle's coefficients of command, cubed command and roll, by least squares on
    the recorded toe."""
    rows = [table.read(file) for file in files]
    moving = [row["vx_body_mps"] > 3.0 for row in rows]
    command, roll, toe = (
        np.concatenate([row[name][m] for row, m in zip(rows, moving)])
        for name in ("steering_in", "roll_rad", "front_toe_avg_rad")
    )
    turning = (np.abs(command) > 0.01) | (np.abs(roll) > 0.003)
    basis = np.stack([command, command**3, roll], axis=1)[turning]
    for columns, text in ((slice(0, 2), "command alone"), (slice(0, 3), "command and roll")):
        found = np.linalg.lstsq(basis[:, columns], -toe[turning], rcond=None)[0]
        rest = -toe[turning] - basis[:, columns] @ found
        print(
            f"wheel angle by {text}: {np.round(found, 4).tolist()}, rms {1e3 * rest.std():.2f} mrad"
        )
    return float(found[0]), float(found[1]), float(found[2])


def with_values(p: TwinParameters, z: np.ndarray) -> TwinParameters:
    """Return the twin with scaled values (6,)."""
    slope, grip, front, rear, along, resistance = (
        float(mean + sigma * value) for (mean, sigma), value in zip(PRIOR.values(), z, strict=True)
    )

    def scaled(pair: tuple[float, float], by: float) -> list[float]:
        return [by * value for value in pair]

    def axle(a: Axle, stiffness: float) -> Axle:
        lateral = replace(
            a.tyre.lateral, slope_n=scaled(SLOPE_N, slope), peak_force_n=scaled(PEAK_N, grip),
            peak_slip=scaled(PEAK_SLIP, grip), sliding_force_n=scaled(SLIDING_N, grip),
            sliding_slip=scaled(SLIDING_SLIP, grip),
        )  # fmt: skip
        longitudinal = replace(
            a.tyre.longitudinal, peak_force_n=scaled(LONG_PEAK_N, along),
            peak_slip=scaled(LONG_PEAK_SLIP, along), sliding_force_n=scaled(LONG_SLIDING_N, along),
            sliding_slip=scaled(LONG_SLIDING_SLIP, along),
        )  # fmt: skip
        tyre = replace(
            a.tyre, lateral=lateral, longitudinal=longitudinal, rolling_resistance=resistance
        )
        return replace(a, tyre=tyre, roll_stiffness_nmprad=stiffness)

    return replace(p, front=axle(p.front, front), rear=axle(p.rear, rear))


def residuals(p: TwinParameters, z: np.ndarray, references: Sequence[ReferenceRun]) -> np.ndarray:
    """Return the scaled differences of all rows, and the prior's."""
    parts = []
    for reference in references:
        ours = drive(reference, with_values(p, z), double_track)
        n = len(ours.x_m)
        for name, scale in SCALES.items():
            difference = np.full(len(reference.t_s), 30.0)
            difference[:n] = (getattr(ours, name)[:n] - getattr(reference, name)[:n]) / scale
            parts.append(difference[::EVERY])
    return np.concatenate([*parts, 3.0 * z])


def fit(p: TwinParameters, references: Sequence[ReferenceRun]) -> np.ndarray:
    """Return the scaled values by robust least squares."""
    from scipy.optimize import least_squares

    def jacobian(z: np.ndarray) -> np.ndarray:
        steps = 0.05 * np.eye(len(z))
        return np.stack(
            [
                (residuals(p, z + h, references) - residuals(p, z - h, references)) / 0.1
                for h in steps
            ],
            axis=1,
        )

    found = least_squares(
        lambda z: residuals(p, z, references),
        np.zeros(len(PRIOR)),
        jac=jacobian,
        loss="soft_l1",
        max_nfev=10,
    )
    return np.asarray(found.x)


def show(
    title: str, p: TwinParameters, references: Sequence[ReferenceRun], fitted: Sequence[str]
) -> None:
    """Print the errors of every run."""
    print(
        f"\n{title}\n| run | position (%) | yaw rate (%) | end (m) | end (degrees) "
        "|\n|---|---|---|---|---|"
    )
    for reference in references:
        ours, name = drive(reference, p, double_track), reference.source.manoeuvre
        e, k = errors_of(reference, ours, len(ours.x_m)), len(ours.x_m) - 1
        end_m = np.hypot(ours.x_m[k] - reference.x_m[k], ours.y_m[k] - reference.y_m[k])
        mark = " (fitted)" if any(name.startswith(one) for one in fitted) else ""
        turn = degrees(ours.yaw_rad[k] - reference.yaw_rad[k])
        print(
            f"| {name}{mark} | {e['position']:.2f} | {e.get('yaw rate', nan):.1f} | "
            f"{end_m:.1f} | {turn:.1f} |"
        )


def main(folder: Path) -> None:
    """Fit and print."""
    references = [read(source) for source in find(folder).sources if source.family == "chrono"]
    if not references:
        raise ReferenceRunError(
            f"{folder}: no recorded runs of Chrono; name the folder that holds them"
        )
    steering([Path(reference.source.path) for reference in references])
    p = load_twin("hmmwv_chrono").parameters
    show("hmmwv_evm", load_twin("hmmwv_evm").parameters, references, ())
    show("hmmwv_chrono", p, references, ())
    for fold in (("",), *FOLDS):
        chosen = [r for r in references if any(r.source.manoeuvre.startswith(one) for one in fold)]
        z = fit(p, chosen)
        values = {
            name: mean + sigma * value
            for (name, (mean, sigma)), value in zip(PRIOR.items(), z, strict=True)
        }
        print("\nfit:", ", ".join(f"{name} {value:.4g}" for name, value in values.items()))
        show(
            f"fitted to {', '.join(fold) if fold[0] else 'all runs'}",
            with_values(p, z),
            references,
            fold if fold[0] else (),
        )


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else DATA_FOLDER).expanduser())
    except ReferenceRunError as error:
        print(f"not fitted: {error}")

"""Spread between the recorded drives of a campaign, which ``vehicled twin predict`` adds to the
uncertainty of the identification.

    python bench/prediction_spread.py [DIR]

Of every two drives of a campaign it takes the difference of the identified responses, and of its
square what their own uncertainties explain; half of the rest is the variance between drives. Prints
it, the drift of the heading, and the constants in use.
"""

import sys
from itertools import combinations
from math import log, sqrt
from pathlib import Path

import numpy as np

from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import data_folder
from vehicled.offline.replications.experiments.drive_response import (
    DriveResponse,
    ResponseError,
    identify,
)
from vehicled.offline.replications.experiments.prediction_spread import BETWEEN, DRIFT_SIGMA_RADPS
from vehicled.offline.replications.experiments.twin_prediction import (
    heading_drift_radps,
    recorded_drives,
)

THROTTLE = 0.79
"""Mean throttle of the recorded drives, at which their speeds are compared."""


def main(folder: Path) -> None:
    """Measure and print."""
    _, drives, _ = recorded_drives(folder)
    found: list[tuple[str, DriveResponse]] = []
    drifts = []
    for drive in drives:
        try:
            found.append((drive.campaign, identify(drive.recording)))
        except ResponseError as error:
            print(f"not used: {error}")
            continue
        drifts.append(heading_drift_radps(drive.recording))
    pairs = [
        (one, other) for (here, one), (there, other) in combinations(found, 2) if here == there
    ]
    apart = np.mean([(_values(one) - _values(other)) ** 2 for one, other in pairs], axis=0)
    own = np.mean([_sigmas(one) ** 2 + _sigmas(other) ** 2 for one, other in pairs], axis=0)
    print(f"{len(found)} drives, {len(pairs)} pairs of a campaign")
    print(
        "| cause | pairs differ by | identified within | between drives | constant "
        "|\n|---|---|---|---|---|"
    )
    for k, cause in enumerate(BETWEEN):
        between = sqrt(max(0.5 * (apart[k] - own[k]), 0.0))
        print(
            f"| {cause} | {sqrt(apart[k]):.4f} | {sqrt(0.5 * own[k]):.4f} | {between:.4f} | "
            f"{BETWEEN[cause]:.4f} |"
        )
    print(
        f"drift of the heading: {float(np.sqrt(np.mean(np.square(drifts)))):.5f} rad/s, "
        f"constant {DRIFT_SIGMA_RADPS}"
    )


def _values(r: DriveResponse) -> np.ndarray:
    return np.array([
        log(r.gain_rad), r.offset_rad, r.delay_s, log(r.reach_mps * THROTTLE - r.friction_mps),
        log(r.time_constant_s),
    ])  # fmt: skip


def _sigmas(r: DriveResponse) -> np.ndarray:
    return np.array([
        r.gain_sigma_rad / r.gain_rad, r.offset_sigma_rad, r.delay_sigma_s, r.speed_sigma,
        r.time_constant_sigma,
    ])  # fmt: skip


if __name__ == "__main__":
    try:
        main(
            Path(
                data_folder(
                    sys.argv[1] if len(sys.argv) > 1 else None,
                    "path_following_2024",
                    "reference_paths",
                )
            ).expanduser()
        )
    except (FileNotFoundError, RecordingError) as error:
        print(f"not measured: {error}")

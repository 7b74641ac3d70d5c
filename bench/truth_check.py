"""Coverage of the claims of ``vehicled sensors check-truth``, on simulated protocols whose errors
are known.

Each draw has its own unit: noise, drift, mounting and lever arm are drawn anew. Prints, for each
quantity, the part of the draws in which the true root mean square error is within the claim, and
the claim over the error.

Usage: ``python bench/truth_check.py [DRAWS]``
"""

import sys
from math import isfinite, sqrt

import numpy as np

from tests.reference_bench import ANTENNA_M, ARM_M, drive
from vehicled.offline.sensors.truth import QUANTITIES, check, series
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel
from vehicled.profile.sensors import ReferenceModel


def draw(seed: int, *, receiver: bool) -> dict[str, tuple[float, float]]:
    """Return claim and true error by quantity."""
    chance = np.random.default_rng(seed)
    model = ReferenceModel(
        position_sigma_m=float(chance.uniform(0.002, 0.01)),
        position_drift_m=float(chance.uniform(0.0, 0.03)),
        position_drift_s=float(chance.uniform(20.0, 300.0)),
        lever_arm_error_m=chance.normal(0.0, 0.02, 3).tolist(),
        velocity_sigma_mps=float(chance.uniform(0.005, 0.03)),
        heading_sigma_rad=float(chance.uniform(0.0005, 0.003)),
        heading_drift_rad=float(chance.uniform(0.0, 0.003)),
        misalignment_rad=float(chance.normal(0.0, 0.005)),
        declared_share=float(chance.uniform(0.2, 1.5)),
    )
    rtk = GnssModel(rate_hz=10.0) if receiver else None
    states, fixes, truths = drive(
        model, slip_rad_per_mps2=float(chance.uniform(0.0, 0.005)), receiver=rtk, seed=seed
    )
    run = series("drive", states, fixes, LOT_17, ARM_M, ANTENNA_M)
    true = np.array([(m.x_m, m.y_m, m.yaw_rad, m.speed_mps) for m in truths]).T
    errors = {
        "position": np.hypot(run.x_m - true[0], run.y_m - true[1]) / sqrt(2.0),
        "speed": run.speed_mps - true[3],
        "heading": run.yaw_rad - true[2],
    }
    found = check([run])
    return {
        name: (found.claims[name], float(np.sqrt(np.mean(errors[name] ** 2))))
        for name in QUANTITIES
    }


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{draws} draws; part within the claim, claim over error: median (5 to 95 %)")
    for receiver in (True, False):
        found = [draw(seed, receiver=receiver) for seed in range(draws)]
        for name in QUANTITIES:
            pairs = [each[name] for each in found if isfinite(each[name][0])]
            ratios = np.array([claim / error for claim, error in pairs])
            low, middle, high = np.quantile(ratios, (0.05, 0.5, 0.95))
            held = float(np.mean(ratios >= 1.0))
            beside = "with an RTK receiver beside" if receiver else "alone"
            print(
                f"{beside:28} {name:9} {held:.2f}   {middle:.2f} ({low:.2f} to {high:.2f})   "
                f"{len(pairs)} draws"
            )


if __name__ == "__main__":
    main()

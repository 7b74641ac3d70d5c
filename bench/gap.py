"""False alarms and detections of the test of ``vehicled gap``, on sets of runs drawn from known
distributions.

The quantities E and S are lognormal, as errors of a judge are. Prints the rate of verdicts
"different" over draws of two sets of the same distribution, and of two whose errors differ by a
factor. The interval is Wilson's at 95 %.
"""

import argparse

import numpy as np

from vehicled.offline.gap.statistics import compare
from vehicled.offline.studies.statistics import proportion

SPREAD = (0.3, 0.5)
"""Standard deviations of the logarithms of E and S."""
TYPICAL = (0.3, 0.02)


def verdicts(draws: int, runs: int, factor: float, distance: str) -> int:
    """Return how many of the draws were found to be different."""
    found = 0
    for seed in range(draws):
        random = np.random.default_rng(seed)
        real, simulated = (
            np.exp(random.normal(np.log(TYPICAL), SPREAD, (runs, 2))) * (ratio, 1.0)
            for ratio in (1.0, factor)
        )
        found += compare(real, simulated, ("E", "S"), distance=distance, resamples=199).p <= 0.05
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--distance", default="wasserstein")
    arguments = parser.parse_args()
    print(f"{arguments.draws} draws a cell, {arguments.distance}: part found to be different")
    factors = (1.0, 1.25, 1.5, 2.0)
    print(
        "runs a side  "
        + "  ".join(f"{'same' if factor == 1.0 else f'E x {factor:g}':>20}" for factor in factors)
    )
    for runs in (5, 10, 20):
        cells = []
        for factor in factors:
            count = verdicts(arguments.draws, runs, factor, arguments.distance)
            low, high = proportion(count, arguments.draws)
            cells.append(f"{count / arguments.draws:.3f} ({low:.3f} to {high:.3f})")
        print(f"{runs:11}  " + "  ".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

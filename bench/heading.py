"""Accuracy of the heading: after an alignment by driving, after a push, with a compass, standing
and driving.

    python bench/heading.py [SEEDS] [--json]

In lockstep, profile ``f1tenth_gnss`` on its own course, each way with each estimator. Errors are
against the simulator's truth.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from math import degrees, remainder, sqrt, tau
from statistics import mean

from sim_backend.connection import START_NS
from sim_backend.scenario import Start
from vehicled.core.messages import EstimatorStatus, Message, Mode
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

SECOND_NS = 10**9
COLUMNS = ("start_deg", "start_sigma_deg", "driving_deg", "driving_sigma_deg")
COMPASS = (
    'devices.imu.messages=["ImuSample", "Heading"]',
    "sim.heading.kind=magnetic",
    "sim.heading.rate_hz=100",
    "sim.heading.sigma_rad=0.0",
)
WAYS: dict[str, tuple[Start, tuple[str, ...]]] = {
    "aligned by driving": ("align", ()),
    "pushed 3 m": ("push", ()),
    "aligned, without RTK": (
        "align",
        (
            "limits.corridor_m=4.0",
            "sim.gnss.carrier=none",
            "sim.gnss.sigma_m=0.05",
            "sim.gnss.walk_sigma_m=0.5",
            "sim.gnss.velocity_sigma_mps=0.1",
        ),
    ),
    "compass, clean": ("stand", (*COMPASS, "sim.heading.magnetometer.sigma_ut=0.3")),
    "compass, 5 uT of iron": (
        "stand",
        (*COMPASS, "sim.heading.magnetometer.hard_iron_ut=[3.0, 4.0, 0.0]"),
    ),
}


class Nothing:
    """A log that keeps no record."""

    def record(self, message: Message, now_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""


def measure(way: str, estimator: str, seed: int) -> tuple[float, float, float, float] | None:
    """Return heading error and sigma at the start, RMS error and mean sigma over 20 s of the drive;
    None without one."""
    start, overrides = WAYS[way]
    profile = load_profile("f1tenth_gnss", [f"estimator.name={estimator}", *overrides])
    pair = WrappedPair(
        profile, load_course(profile.course), (), Nothing(), seed, link="messages", start=start
    )
    began: tuple[float, float] | None = None
    squares: list[float] = []
    sigmas: list[float] = []
    next_ns = 0
    while pair.now_ns < START_NS + 45 * SECOND_NS and len(squares) < 200:
        pair.grant()
        pair.reply()
        estimate = pair.machine.estimate
        if (
            pair.machine.mode is not Mode.AUTO
            or estimate is None
            or estimate.status is not EstimatorStatus.RUNNING
        ):
            continue
        error = remainder(estimate.yaw_rad - pair.world.motion.yaw_rad, tau)
        sigma = sqrt(estimate.covariance[10])
        began = began or (error, sigma)
        if pair.now_ns >= next_ns:
            next_ns = pair.now_ns + SECOND_NS // 10
            squares.append(error * error)
            sigmas.append(sigma)
    return (*began, sqrt(sum(squares) / len(squares)), sum(sigmas) / len(sigmas)) if began else None


def main() -> None:
    """Print one line in degrees for each start and estimator."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "seeds",
        nargs="?",
        type=int,
        default=5,
        metavar="SEEDS",
        help="drives of each line (default 5)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    lines: dict[str, dict[str, dict[str, float | None]]] = {way: {} for way in WAYS}
    if not arguments.json:
        print(
            "| heading | estimator | at the start | its sigma | while driving | its sigma | "
            "drives |"
        )
        print("|---|---|---|---|---|---|---|")
    for way, estimator in product(WAYS, ("ekf4", "planar", "ins")):
        seeds = range(1, 1 + arguments.seeds)
        found = [result for seed in seeds if (result := measure(way, estimator, seed)) is not None]
        start, sigma, error, held = zip(*found, strict=True) if found else ((), (), (), ())
        numbers = [rms(start), mean(sigma), rms(error), mean(held)] if found else [None] * 4
        line = {
            name: None if x is None else degrees(x)
            for name, x in zip(COLUMNS, numbers, strict=True)
        }
        lines[way][estimator] = {**line, "began": len(found), "drives": arguments.seeds}
        if not arguments.json:
            cells = " | ".join("-" if x is None else f"{x:.2f}" for x in line.values())
            print(
                f"| {way} | `{estimator}` | {cells} | {len(found)} of {arguments.seeds} |",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(lines, indent=2))


def rms(values: Sequence[float]) -> float:
    """Return the root mean square of the values."""
    return sqrt(sum(x * x for x in values) / len(values))


if __name__ == "__main__":
    main()

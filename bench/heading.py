"""Accuracy of the heading: after an alignment by driving, after a push, with a compass, standing and driving.

    python bench/heading.py [SEEDS]

In lockstep, profile ``f1tenth_gnss`` on its own course, each way with each estimator. Errors are against the simulator's truth.
"""

import sys
from math import degrees, remainder, sqrt, tau

from sim_backend.connection import START_NS
from sim_backend.scenario import Start
from vehicled.lab.failsafe.bench import Pair
from vehicled.messages import EstimatorStatus, Message, Mode
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

SECOND_NS = 10**9
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
    "compass, 5 uT of iron": ("stand", (*COMPASS, "sim.heading.magnetometer.hard_iron_ut=[3.0, 4.0, 0.0]")),
}


class Nothing:
    """A log that keeps no record."""

    def record(self, message: Message, now_ns: int) -> None:
        """See :class:`vehicled.journal.Sink`."""


def measure(way: str, estimator: str, seed: int) -> tuple[float, float, float, float] | None:
    """Return heading error and sigma at the start, RMS error and mean sigma over 20 s of the drive; None without one."""
    start, overrides = WAYS[way]
    profile = load_profile("f1tenth_gnss", [f"estimator.name={estimator}", *overrides])
    pair = Pair(profile, load_course(profile.course), (), Nothing(), seed, link="messages", start=start)
    began: tuple[float, float] | None = None
    squares: list[float] = []
    sigmas: list[float] = []
    next_ns = 0
    while pair.now_ns < START_NS + 45 * SECOND_NS and len(squares) < 200:
        pair.grant()
        pair.reply()
        estimate = pair.machine.estimate
        if pair.machine.mode is not Mode.AUTO or estimate is None or estimate.status is not EstimatorStatus.RUNNING:
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
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 5))
    print("| heading | estimator | at the start | its sigma | while driving | its sigma | drives |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        for estimator in ("ekf4", "planar", "ins"):
            found = [result for seed in seeds if (result := measure(way, estimator, seed)) is not None]
            if not found:
                print(f"| {way} | `{estimator}` | - | - | - | - | 0 of {len(seeds)} |", flush=True)
                continue
            starts, sigmas, drives, held = (list(column) for column in zip(*found, strict=True))
            numbers = [
                sqrt(sum(x * x for x in starts) / len(starts)),
                sum(sigmas) / len(sigmas),
                sqrt(sum(x * x for x in drives) / len(drives)),
                sum(held) / len(held),
            ]
            cells = " | ".join(f"{degrees(x):.2f}" for x in numbers)
            print(f"| {way} | `{estimator}` | {cells} | {len(found)} of {len(seeds)} |", flush=True)


if __name__ == "__main__":
    main()

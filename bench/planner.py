"""Cost of the controller ``avoid``: its scans and its plans, beside the period of the control task.

    python bench/planner.py [--rounds 60]

Each vehicle stands on its course in a corridor of walls with posts. Times are those of the
processor for one scan of 541 rays, for one plan on a free way, and for the two plans of a way that
is closed. Medians, so that a shared machine counts little.
"""

import argparse
import time
from collections.abc import Callable
from math import inf

import numpy as np

from vehicled.control.avoid.controller import Avoid
from vehicled.control.avoid.params import AvoidParams
from vehicled.control.path_follower import FollowerState
from vehicled.control.preview import Preview
from vehicled.core.messages import EstimatorStatus, LaserScan, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.run.terminal import print_table

PROFILES = ("f1tenth", "art_vesc", "husky_a200", "opencav")
RAYS = 541
AT_M = 5.0
SCAN_NS = 50_000_000


def scan_of(
    circles: list[tuple[float, float, float]], walls_m: float, reach_m: float, t_ns: int
) -> LaserScan:
    """Return a scan, from the rear axle, of circles (ahead, left, radius) and two walls beside the
    course."""
    bearing = np.linspace(-2.356, 2.356, RAYS)
    c, s = np.cos(bearing), np.sin(bearing)
    with np.errstate(divide="ignore"):
        ranges = np.where(s != 0.0, walls_m / np.abs(s), inf)
    for x, y, radius in circles:
        along, across = c * x + s * y, c * y - s * x
        hit = (np.abs(across) < radius) & (along > 0.0)
        ranges = np.where(
            hit, np.minimum(ranges, along - np.sqrt(np.maximum(radius**2 - across**2, 0.0))), ranges
        )
    ranges[ranges > reach_m] = inf
    return LaserScan(
        t_ns,
        t_ns,
        -2.356,
        4.712 / (RAYS - 1),
        0.0,
        0.05,
        0.05,
        reach_m,
        0.0,
        0.0,
        tuple(ranges.tolist()),
    )


class Case:
    """A controller on its course, before posts."""

    def __init__(self, name: str, *, closed: bool) -> None:
        profile = load_profile(name)
        vehicle, limits = profile.vehicle, profile.limits
        self.period_s, length = 1.0 / profile.tasks.control.rate_hz, vehicle.length_m
        speed = 0.4 * min(limits.max_speed_mps, vehicle.drive.top_speed_mps)
        course = load_course(
            f"random:seed=1,length_m={60.0 * length:.4g},speed_mps={speed:.3g},lateral_mps2=0.01"
        )
        self.controller = Avoid(AvoidParams(), vehicle, limits, course, self.period_s)
        k = int(np.searchsorted(course.s_m, 5.0 * length))
        x, y, yaw = float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])
        self.estimate = StateEstimate(
            SCAN_NS, SCAN_NS, x, y, yaw, speed, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
        )
        width, corridor = vehicle.width_m, limits.corridor_m
        posts = [
            ((4.0 + 3.0 * i) * length, (-1.0) ** i * 0.5 * width, 0.2 * width) for i in range(3)
        ]
        if closed:
            posts += [
                (5.0 * length, left, 0.3 * width)
                for left in np.arange(-1.5 * corridor, 1.5 * corridor, 0.5 * width).tolist()
            ]
        self.scan = scan_of(posts, corridor + width, 40.0 * length, SCAN_NS)
        self.controller.tracker.reset(5.0 * length)
        here = self.controller.tracker.update(x, y, yaw, speed)
        self.state = FollowerState(
            self.estimate, here, Preview(x, y, yaw, speed, 0.0), self.period_s
        )

    def see(self) -> None:
        """Take in the scan, as before a plan."""
        self.controller._sight.add_motion(self.estimate)
        self.controller._sight.add_scan(self.scan, self.estimate)

    def choose(self) -> None:
        """Plan, from nothing."""
        self.controller._path = None
        self.controller._choose(self.state)


def median_ms(work: Callable[[], None], rounds: int) -> float:
    """Return the median processor time of a call, ms."""
    found = []
    for _ in range(rounds):
        began = time.thread_time()
        work()
        found.append(1e3 * (time.thread_time() - began))
    return float(np.median(found))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    rows = []
    for name in PROFILES:
        free, closed = Case(name, closed=False), Case(name, closed=True)
        scan = median_ms(free.see, rounds)
        closed.see()
        plan, plans = median_ms(free.choose, rounds), median_ms(closed.choose, rounds)
        assert free.controller.plan is not None
        assert closed.controller.plan is not None
        assert free.controller.plan.free_m == inf
        assert closed.controller.plan.free_m < inf
        period = 1e3 * free.period_s
        rows.append(
            [
                name,
                f"{scan:.2f}",
                f"{plan:.1f}",
                f"{plans:.1f}",
                f"{period:.0f}",
                f"{(scan + plans) / period:.2f}",
            ]
        )
    heads = [
        "vehicle",
        "scan, ms",
        "free way, ms",
        "closed way, ms",
        "period, ms",
        "worst over period",
    ]
    print_table(f"processor time, medians of {rounds}", heads, rows)


if __name__ == "__main__":
    main()

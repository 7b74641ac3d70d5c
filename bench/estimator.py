"""Cost of the inertial filter, relative to filterpy's plain linear KalmanFilter of the same size.

    python bench/estimator.py [--rounds 9] [--json]

Both predict once and take one GNSS fix, of position and velocity: six values, 22 states. Blocks of
both in turns in one process, median of the single steps over all blocks. filterpy multiplies
constant matrices and knows no rotation, lever arm, gate or wrapped angle, and it multiplies by
BLAS, whose last bits depend on the processor. Ours mechanises, linearises, gates four times, keeps
the state before, as the history needs it, and has the same bits on every processor. Without
filterpy there is nothing to compare with, and that is said.

Below, what the daemon pays: ``step`` as the fusion task calls it at 200 Hz with two samples of a
400 Hz inertial unit, alone, with a timely fix and with one that is 60 ms late, so that twelve
predictions are done again.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
)
from vehicled.core.vehicle import Drive as Motor
from vehicled.core.vehicle import Steering, Vehicle
from vehicled.estimation.ins.estimator import Ins
from vehicled.estimation.ins.measurements import Fix, Sensors
from vehicled.estimation.ins.mechanisation import InertialInputs, Predictor
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import InsState, N
from vehicled.paths.datum import LOT_17

BLOCK = 200
STEP_NS = 5_000_000
LIMIT = 4.0
"""Largest allowed ratio to filterpy."""
VEHICLE = Vehicle(
    wheelbase_m=0.5, track_m=0.4, length_m=0.8, width_m=0.45, mass_kg=6.0,
    steering=Steering(gain_rad=0.335, max_wheel_rad=0.335, rate_radps=0.67, delay_s=0.4),
    drive=Motor(
        stall_torque_nm=0.09, no_load_speed_radps=161.185, friction_nm=0.02, viscous_nms=1e-4,
        gear_ratio=1 / 3, wheel_radius_m=0.08451952624, inertia_kgm2=1e-3, delay_s=0.1,
    ),
)  # fmt: skip


def ours() -> Callable[[], None]:
    """Return a step of our filter: prediction and GNSS update on the state of the last call."""
    params = InsParams(imu_lever_arm_m=(0.25, 0.0, 0.1))
    predictor, sensors = Predictor(params, 0.5), Sensors(params, (0.2, 0.0, 0.3))
    drive = InertialInputs((0.1, 0.2, 9.8), (0.001, 0.002, 0.003))
    fix = Fix(
        0.0, 0.0, 0.0, (4e-4, 0.0, 4e-4), 1e-3, -1, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0),
        (2.5e-3, 0.0, 2.5e-3), 5e-3
    )  # fmt: skip
    start = InsState([0.0] * N, (1.0, 0.0, 0.0, 0.0), 0.01 * np.eye(N))

    def step() -> None:
        state = predictor.predict(start, drive, 0.005).copy()
        assert not any(state.counters.strikes)
        sensors.fix(state, fix)
        assert state.counters.rejected == 0, (
            "every gate passed, so that all four updates are measured"
        )

    return step


def theirs() -> Callable[[], None] | None:
    """Return the same step with filterpy; None if it is not installed."""
    try:
        kalman: Any = import_module("filterpy.kalman")
    except ImportError:
        return None
    kf = kalman.KalmanFilter(dim_x=N, dim_z=6)
    kf.F = np.eye(N) + np.diag(np.full(N - 3, 0.005), 3)
    kf.H = np.eye(N)[:6]
    kf.R = 4e-4 * np.eye(6)
    kf.Q = 1e-6 * np.eye(N)
    kf.P = 0.01 * np.eye(N)
    z = np.zeros((6, 1))

    def step() -> None:
        kf.predict()
        kf.update(z)

    return step


class Daemon:
    """The estimator as the fusion task drives it."""

    def __init__(self, late_ns: int | None) -> None:
        self._late_ns = late_ns
        self._ins = Ins(InsParams(), VEHICLE, LOT_17, (0.25, 0.0, 0.3))
        self._clock = count(1_000_000_000, STEP_NS)
        for _ in range(20):
            self.prepare(fix=True)
            self.step()

    def prepare(self, *, fix: bool | None = None) -> None:
        """Deliver messages; not measured, as drivers and ingestion do it."""
        self.now_ns = now_ns = next(self._clock)
        for t_ns in (now_ns - STEP_NS // 2, now_ns):
            self._ins.observe(ImuSample(t_ns, t_ns, (0.01, 0.0, 9.8), (0.001, 0.0, 0.002)))
        if fix or (fix is None and self._late_ns is not None):
            t_ns = now_ns - (0 if fix else self._late_ns or 0) - 1_000
            heading = Heading(t_ns, now_ns, 0.3, 0.02, HeadingKind.MOVING_BASE)
            if fix:
                self._ins.observe(heading)
            self._ins.observe(
                GnssFix(
                    t_ns, now_ns, LOT_17.latitude_rad, LOT_17.longitude_rad, LOT_17.height_m,
                    (0.0, 0.0, 0.0), fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED,
                )
            )  # fmt: skip

    def step(self) -> None:
        """Run one release of the fusion task."""
        self._ins.step(self.now_ns)


def block_us(step: Callable[[], None], prepare: Callable[[], None] | None = None) -> list[float]:
    """Return the times of BLOCK calls."""
    clock = time.perf_counter_ns
    times = []
    for _ in range(BLOCK):
        if prepare is not None:
            prepare()
        before = clock()
        step()
        times.append((clock() - before) * 1e-3)
    return times


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    our_step, their_step = ours(), theirs()
    daemons = {
        "step": Daemon(None),
        "step, timely fix": Daemon(0),
        "step, fix 60 ms late": Daemon(60_000_000),
    }
    times: dict[str, list[float]] = {"ins": [], "filterpy": [], **{name: [] for name in daemons}}
    for _ in range(arguments.rounds):
        times["ins"] += block_us(our_step)
        if their_step is not None:
            times["filterpy"] += block_us(their_step)
        for name, daemon in daemons.items():
            times[name] += block_us(daemon.step, daemon.prepare)
    p50 = {name: statistics.median(values) for name, values in times.items() if values}
    ratio = p50["ins"] / p50["filterpy"] if "filterpy" in p50 else None
    if arguments.json:
        print(json.dumps({"p50_us": p50, "ratio": ratio, "limit": LIMIT}))
        return
    print(f"{N} states, p50 over {arguments.rounds} interleaved blocks of {BLOCK}")
    print(f"  ins, predict + GNSS position and velocity   {p50['ins']:7.1f} us")
    if ratio is None:
        print(
            "  filterpy is not installed, so there is nothing to compare with: pip install filterpy"
        )
    else:
        print(f"  filterpy KalmanFilter, predict + update     {p50['filterpy']:7.1f} us")
        verdict = "within" if ratio <= LIMIT else "ABOVE"
        print(
            f"  ratio                                       {ratio:7.2f}     ({verdict} the "
            f"limit of {LIMIT:.1f})"
        )
    for name in daemons:
        print(f"  {name:<42}  {p50[name]:7.1f} us")


if __name__ == "__main__":
    main()

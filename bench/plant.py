"""Cost of a step of the double-track twin, beside the vehicle models of others in the same run.

Every figure is CPU time of this process, the best of several rounds. The others are one evaluation
of the right-hand side (commonroad-vehicle-models, which a Runge-Kutta step asks four times) and one
step (slipx L2, which integrates by itself).

    python bench/plant.py [--twin hmmwv_lfdm] [--json]
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.native_model import NativeDoubleTrack, double_track
from sim_backend.plant.twin_file import load_twin

ROUNDS = 7


def cost_us(work: Callable[[], object], calls: int) -> float:
    """CPU time of one of ``calls`` that ``work`` makes, in microseconds: the best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return 1e6 * best / calls


def repeated(call: Callable[[], object], calls: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(calls):
            call()

    return work


def ours(name: str) -> dict[str, float]:
    """Measure our model in plain Python and as machine code."""
    parameters = load_twin(name).parameters
    vehicle = DoubleTrack(parameters)
    vehicle.reset(speed_mps=8.0)
    found = {"plain Python": cost_us(repeated(lambda: vehicle.step(0.03, 0.3, 0.0), 2000), 2000)}
    native = double_track(parameters)
    native.reset(speed_mps=8.0)
    if isinstance(native, NativeDoubleTrack):
        found["machine code, per call"] = cost_us(
            repeated(lambda: native.step(0.03, 0.3, 0.0), 20_000), 20_000
        )
        commands = np.tile([0.03, 0.3, 0.0], (100_000, 1))
        found["machine code, in its loop"] = cost_us(
            lambda: native.run(commands, 1000), len(commands)
        )
    return found


def others() -> dict[str, float]:
    """Measure one evaluation or step of each other model."""
    found: dict[str, float] = {}
    try:
        from vehiclemodels.init_mb import init_mb
        from vehiclemodels.init_std import init_std
        from vehiclemodels.vehicle_dynamics_mb import vehicle_dynamics_mb
        from vehiclemodels.vehicle_dynamics_st import vehicle_dynamics_st
        from vehiclemodels.vehicle_dynamics_std import vehicle_dynamics_std
        from vehiclemodels.vehicle_parameters import setup_vehicle_parameters

        car: Any = setup_vehicle_parameters(2)
        start = [0.0, 0.0, 0.03, 15.0, 0.0, 0.1, 0.0]
        for label, function, state in (
            ("commonroad ST, right-hand side", vehicle_dynamics_st, start),
            ("commonroad STD, right-hand side", vehicle_dynamics_std, init_std(start, car)),
            ("commonroad MB, right-hand side", vehicle_dynamics_mb, init_mb(start, car)),
        ):
            found[label] = cost_us(repeated(partial(function, state, [0.0, 0.5], car), 1000), 1000)
    except ImportError:
        pass
    try:
        import slipx

        found["slipx L2, step"] = cost_us(_slipx_l2(slipx), 1000)
    except ImportError:
        pass
    return found


def _slipx_l2(slipx: Any) -> Callable[[], None]:
    """Its reference car; the core is C++."""
    tier = next(tier for name, tier in vars(slipx.Tier).items() if name.startswith("L2"))
    model = slipx.VehicleModel.create(tier, slipx.load_reference_car().params)
    state = slipx.VehicleState()
    command = slipx.DriveInput(steer_cmd=0.05)
    found = slipx.StepDiagnostics()
    state.vel_body.x = 5.0
    return repeated(lambda: model.step(state, command, 1e-3, found), 1000)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--twin", default="hmmwv_lfdm", help="vehicle (default hmmwv_lfdm)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    mine, theirs = ours(options.twin), others()
    if options.json:
        print(json.dumps({"twin": options.twin, "us": mine | theirs}))
        return
    reference = theirs.get("commonroad MB, right-hand side")
    print(
        f"{options.twin}: microseconds of CPU time per step"
        + ("; ratio to commonroad MB" if reference else "")
    )
    for label, cost in (mine | theirs).items():
        print(f"  {label:34s} {cost:10.3f}" + (f"  {cost / reference:8.3f}" if reference else ""))


if __name__ == "__main__":
    main()

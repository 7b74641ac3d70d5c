"""The controller ``rollout``: what its control budget buys, and predictions per second beside an MPPI implementation.

    python bench/rollout.py [--seeds 3] [--duration 35]

Drives the car-park lap with posts on and beside the course, at several numbers of predicted paths, and without posts beside plain
pure pursuit. Then predicts the same number of drives over the same horizon with pytorch-mppi on the CPU, where it is installed:
pip install torch pytorch-mppi (into an environment of its own, because torch is large).
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import vehicled as v
from vehicled.control.preview import Preview
from vehicled.control.rollout.simulation import CourseTable, TrackModel, simulate
from vehicled.core.messages import Fault, GroundTruth
from vehicled.paths.catalog import load_course
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.run.terminal import print_table

COURSE = load_course("lot17")
RADIUS_M = 0.2
POSTS = ((7.0, 0.0), (13.0, 0.3), (19.0, -0.3), (25.0, 0.6), (31.0, 0.0))
"""Arc length and offset from the course, m."""
SCANNER: dict[str, Any] = {
    "devices.scanner.driver": "msglink",
    "devices.scanner.messages": ["LaserScan"],
    "devices.scanner.rate_hz": 20,
    "devices.scanner.lever_arm_m": [0.45, 0.0, 0.15],
}
STEPS, STEP_S = 20, 0.2


def drive(posts: bool, seed: int, duration_s: float, controller: str, **parameters: Any) -> tuple[float, float, float, int]:
    """Drive; return nearest clearance to a post, mean cross-track error, distance driven (m), and number of safety events."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Path(folder) / "scene.toml"
        places = [_place(s_m, left_m) for s_m, left_m in POSTS] if posts else []
        scene.write_text("".join(f"[[circle]]\nat = [{x}, {y}]\nradius_m = {RADIUS_M}\n" for x, y in places))
        values = SCANNER | ({"sim.scene": str(scene)} if posts else {})
        values |= {f"controller.{controller}.{name}": value for name, value in parameters.items()}
        run = v.simulate("art_vesc", controller=controller, seed=seed, overrides=values, duration_s=duration_s)
        truth, faults = run.messages(GroundTruth), run.messages(Fault)
        profile = v.load_profile("art_vesc", values).profile
    vehicle = profile.vehicle
    c, s = np.cos(truth["yaw_rad"]), np.sin(truth["yaw_rad"])
    nearest = np.inf
    for x, y in places:
        dx, dy = x - truth["x_m"], y - truth["y_m"]
        ahead, left = c * dx + s * dy - vehicle.centre_m, c * dy - s * dx
        out = np.hypot(np.maximum(np.abs(ahead) - vehicle.length_m / 2, 0.0), np.maximum(np.abs(left) - vehicle.width_m / 2, 0.0))
        nearest = min(nearest, float(out.min()) - RADIUS_M)
    driven = float(np.hypot(np.diff(truth["x_m"]), np.diff(truth["y_m"])).sum())
    return nearest, run.metrics.cross_track_m.mean, driven, int((faults["active"] != 0).sum())


def _place(s_m: float, left_m: float) -> tuple[float, float]:
    k = int(np.searchsorted(COURSE.s_m, s_m))
    yaw = float(COURSE.yaw_rad[k])
    return float(COURSE.x_m[k]) - left_m * np.sin(yaw), float(COURSE.y_m[k]) + left_m * np.cos(yaw)


def ours_per_s(count: int) -> float:
    """Return predicted drives per second, ``count`` at once."""
    table = CourseTable(COURSE, np.ones(len(COURSE.x_m)))
    model = TrackModel(0.5, 0.4, 1.0, 1.0, 1.0, 1.0, 0.6, 20.0)
    offsets = np.linspace(-1.0, 1.0, count)
    ones = np.ones(count)
    paths = LateralOffset(5.0 * ones, 3.0 * ones, 0.0 * ones, 0.0 * ones, offsets, COURSE.length_m)
    x, y = _place(5.0, 0.0)
    start = Preview(x, y, float(COURSE.yaw_rad[int(np.searchsorted(COURSE.s_m, 5.0))]), 1.0, 0.0)
    return _per_s(lambda: simulate(model, table, paths, ones, start, 5.0, STEPS, STEP_S), count)


def mppi_per_s(count: int) -> float:
    """Return the predictions per second of pytorch-mppi with a kinematic single track and a distance as cost; NaN without it."""
    try:
        import torch
        from pytorch_mppi import MPPI  # type: ignore[import-not-found]
    except ImportError:
        return float("nan")
    torch.set_num_threads(1)

    def dynamics(state: Any, action: Any) -> Any:
        speed, wheel = torch.clamp(action[:, 0], 0.0, 2.0), torch.clamp(action[:, 1], -0.4, 0.4)
        middle = state[:, 2] + 0.5 * STEP_S * speed * torch.tan(wheel) / 0.5
        return torch.stack(
            [
                state[:, 0] + STEP_S * speed * torch.cos(middle),
                state[:, 1] + STEP_S * speed * torch.sin(middle),
                state[:, 2] + STEP_S * speed * torch.tan(wheel) / 0.5,
            ],
            dim=1,
        )

    def cost(state: Any, action: Any) -> Any:
        return state[:, 1] ** 2 + (action[:, 0] - 1.0) ** 2

    made = MPPI(dynamics, cost, 3, torch.diag(torch.tensor([0.2, 0.1])), num_samples=count, horizon=STEPS, device="cpu")
    state = torch.zeros(3)
    return _per_s(lambda: made.command(state), count)


def _per_s(predict: Any, count: int) -> float:
    predict()
    rounds, began = 0, time.perf_counter()
    while time.perf_counter() - began < 0.7:
        predict()
        rounds += 1
    return count * rounds / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=38.0)
    parser.add_argument("--only-speed", action="store_true", help="only the predictions per second")
    options = parser.parse_args()
    if not options.only_speed:
        rows = []
        for name in ("pure_pursuit", "rollout"):
            found = [drive(False, seed, options.duration, name) for seed in range(1, options.seeds + 1)]
            rows.append([name, "no posts", "", f"{1000 * np.mean([f[1] for f in found]):.1f}"])
        for paths in (2, 4, 8, 16, 32):
            began = time.process_time()
            found = [drive(True, seed, options.duration, "rollout", paths=paths) for seed in range(1, options.seeds + 1)]
            cpu = (time.process_time() - began) / (options.seeds * options.duration)
            nearest, events, driven = min(f[0] for f in found), sum(f[3] for f in found), np.mean([f[2] for f in found])
            rows.append(["rollout", "posts", str(paths), "", f"{nearest:.2f}", f"{driven:.0f}", str(events), f"{cpu:.2f}"])
        rows = [row + [""] * (8 - len(row)) for row in rows]
        heads = ["controller", "", "paths", "cross-track, mm", "nearest, m", "driven, m", "safety events", "CPU s per s"]
        print_table(f"{options.seeds} drives a row, {len(POSTS)} posts", heads, rows)
    rows = []
    for count in (16, 64, 256, 1024):
        # In turn, so that a slower machine is slower for both.
        ours, other = np.median([(ours_per_s(count), mppi_per_s(count)) for _ in range(3)], axis=0)
        rows.append([str(count), f"{ours:.0f}", "not installed" if np.isnan(other) else f"{other:.0f}", f"{ours / other:.2f}"])
    print_table(f"predictions per second, {STEPS} steps", ["at once", "rollout", "pytorch-mppi", "ratio"], rows)


if __name__ == "__main__":
    main()

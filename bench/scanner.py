"""Racing-v0 beside f1tenth_gym: one map, 1080 rays at 100 Hz, CPU time, in one run.

    python bench/scanner.py [--python ENV/bin/python] [--rounds 5] [--json]

Both drive slowly from the same places of the map ``race_track``, 4.7 rad of it in view to 30 m. A
step is 10 ms of one vehicle with its scan, its collision and its observation; in ours the
double-track vehicle takes ten steps of 1 ms, in theirs the single-track one takes one. Arms
alternate, the median of the rounds counts. "Moving" is one vehicle among two others.

f1tenth_gym asks for an older gymnasium than ours, so it lives in an environment of its own, which
--python names:

    python3.11 -m venv ENV
    ENV/bin/pip install "f1tenth_gym @ git+https://github.com/f1tenth/f1tenth_gym@v1.0.0"

Without it only our own figures are printed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SCENES = ROOT / "profiles" / "scenes"
RAYS, FIELD_RAD, REACH_M, PERIOD_S = 1080, 4.7, 30.0, 0.01
PLACES, STEPS = 12, 25
MOVING = """
[[moving]]
places = [[8.0, 2.6], [10.0, 2.6]]
outline = [[-0.1, -0.15], [0.45, -0.15], [0.45, 0.15], [-0.1, 0.15]]
speed_mps = 0.2

[[moving]]
places = [[12.0, 18.5], [14.0, 18.5]]
outline = [[-0.1, -0.15], [0.45, -0.15], [0.45, 0.15], [-0.1, 0.15]]
speed_mps = 0.2
"""


def ours(count: int, scene: str = "race_track") -> tuple[Callable[[], float], list[list[float]]]:
    """Return a function that measures the CPU time of a vehicle's step, us, and the places at which
    the first vehicle starts."""
    import gymnasium

    overrides = (
        f"sim.lidar.rays={RAYS}",
        f"sim.lidar.angle_min_rad={-FIELD_RAD / 2}",
        f"sim.lidar.angle_max_rad={FIELD_RAD / 2}",
        f"sim.lidar.range_max_m={REACH_M}",
    )
    options: dict[str, Any] = {
        "profile": "f1tenth",
        "scene": scene,
        "period_s": PERIOD_S,
        "start": "anywhere",
        "overrides": overrides,
    }
    name = "vehicled.gym:vehicled/Racing-v0"
    env: Any
    if count == 1:
        env = gymnasium.make(name, disable_env_checker=True, **options).unwrapped
        action = np.array([0.1, 0.0], np.float32)
    else:
        env = gymnasium.make_vec(name, num_envs=count, **options)
        action = np.tile(np.array([0.1, 0.0], np.float32), (count, 1))
    places = []
    for seed in range(PLACES):
        env.reset(seed=seed)
        plant = env.simulation.plant
        places.append([float(plant.x_m[0]), float(plant.y_m[0]), float(plant.yaw_rad[0])])

    def measure() -> float:
        spent = 0.0
        for seed in range(PLACES):
            env.reset(seed=seed)
            begin = time.process_time()
            for _ in range(STEPS):
                env.step(action)
            spent += time.process_time() - begin
        return spent / (PLACES * STEPS * count) * 1e6

    return measure, places


def theirs(agents: int, places: list[list[float]]) -> Callable[[], float]:
    """Return a function that measures the CPU time of a step of one of so many vehicles of
    f1tenth_gym, us."""
    from PIL import Image

    environment = import_module("f1tenth_gym.envs.f110_env")
    track = import_module("f1tenth_gym.envs.track.track")
    image = np.array(
        Image.open(SCENES / "race_track.png").transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    ).astype(np.float32)
    # Its loader needs a server of maps and an older library for the file beside the image, which
    # says the same.
    file = SimpleNamespace(
        name="race_track",
        image="",
        resolution=0.05,
        origin=(0.0, 0.0, 0.0),
        negate=0,
        occupied_thresh=0.65,
        free_thresh=0.25,
    )
    angle = np.linspace(0.0, 2.0 * np.pi, 50)[:-1]
    line = track.Raceline(12.0 + 5.0 * np.cos(angle), 10.0 + 5.0 * np.sin(angle), velxs=np.ones(49))
    place = track.Track(
        file, np.where(image > 128.0, 255.0, 0.0).astype(np.float32), centerline=line, raceline=line
    )
    env = environment.F110Env(config={
        "map": place, "num_agents": agents, "timestep": PERIOD_S,
        "observation_config": {"type": "original"}, "control_input": ["speed", "steering_angle"],
    })  # fmt: skip
    action = np.tile([0.0, 0.5], (agents, 1))

    def measure() -> float:
        spent = 0.0
        for x, y, yaw in places:
            # The others stand behind and before it.
            poses = [
                [x + k * np.cos(yaw), y + k * np.sin(yaw), yaw] for k in (0.0, 1.0, -1.0)[:agents]
            ]
            env.reset(options={"poses": np.array(poses)})
            begin = time.process_time()
            for _ in range(STEPS):
                env.step(action)
            spent += time.process_time() - begin
        return spent / (PLACES * STEPS * agents) * 1e6

    return measure


def serve() -> None:
    """Measure f1tenth_gym as another process asks for it, line by line."""
    places = json.loads(sys.stdin.readline())
    arms = {"one": theirs(1, places), "moving": theirs(3, places)}
    for arm in arms.values():
        arm()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for request in sys.stdin:
        sys.stdout.write(f"{arms[request.strip()]()}\n")
        sys.stdout.flush()


@contextmanager
def rival(python: str, places: list[list[float]]) -> Iterator[dict[str, Callable[[], float]]]:
    """Start f1tenth_gym; none of its arms where it is not installed."""
    process = subprocess.Popen(
        [python, "-W", "ignore", __file__, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    given, said = process.stdin, process.stdout

    def ask(arm: str) -> Callable[[], float]:
        def measure() -> float:
            given.write(f"{arm}\n")
            given.flush()
            return float(said.readline())

        return measure

    try:
        given.write(json.dumps(places) + "\n")
        given.flush()
        if said.readline() == "ready\n":
            yield {f"f1tenth_gym, {name}": ask(name) for name in ("one", "moving")}
        else:
            sys.stderr.write(
                f"f1tenth_gym does not run with {python}; --help says how to install it\n"
            )
            yield {}
    finally:
        process.terminate()
        process.communicate()


def moving_scene(folder: Path) -> str:
    """Write the scene with two other vehicles in it, and return its file."""
    for file in SCENES.glob("race_track.*"):
        shutil.copy(file, folder)
    text = (folder / "race_track.toml").read_text(encoding="utf-8")
    scene = folder / "moving.toml"
    scene.write_text(text + MOVING, encoding="utf-8")
    return str(scene)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PYTHON",
        help="interpreter that has f1tenth_gym (default: this one)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="times that each arm is measured (default: 5)",
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        scene = moving_scene(Path(folder))
        one, places = ours(1)
        arms = {
            "Racing-v0, one": one,
            "Racing-v0, 64": ours(64)[0],
            "Racing-v0, moving": ours(1, scene)[0],
        }
        os.environ["VEHICLED_CC"] = ""
        # The double-track vehicle has no machine code either.
        arms["Racing-v0, one, no compiler"] = ours(1)[0]
        del os.environ["VEHICLED_CC"]
        with rival(options.python, places) as others:
            arms |= others
            found = {
                name: statistics.median(column)
                for name, column in _measured(arms, options.rounds).items()
            }
    rival_us = found.get("f1tenth_gym, one")
    parts = {
        name: {
            "us_per_step": us,
            "x_real_time": PERIOD_S * 1e6 / us,
            "to_f1tenth_gym": rival_us / us if rival_us else None,
        }
        for name, us in found.items()
    }
    if options.json:
        print(json.dumps({"parts": parts}))
        return
    for name, part in parts.items():
        ratio = part["to_f1tenth_gym"]
        print(
            (
                f"{name:30s} {part['us_per_step']:8.0f} us per step  {part['x_real_time']:7.1f} x "
                "real time"
            )
            + (f"  f1tenth_gym, one = 1: {ratio:.2f}" if ratio else "")
        )


def _measured(arms: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the times of each arm, which take turns; a first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds + 1):
        for name, measure in arms.items():
            us = measure()
            if number:
                found[name].append(us)
    return found


if __name__ == "__main__":
    main()

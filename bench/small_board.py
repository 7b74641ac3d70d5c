"""Budget of a small board, computed: what the daemon costs here, times how much slower the board
runs Python.

    python -m bench.small_board [--seconds 5] [--rounds 3] [--json]

The ratio is that of a program that was timed and published for the board: the planets of the
Benchmarks Game (n-body), in plain Python, 5 million steps. It runs here in the same turns as the
daemon. What is computed so is no measurement: caches, memory and the version of Python differ. On
the board itself ``vehicled doctor --measure-board`` measures.

* Raspberry Pi 4 (Cortex-A72, 1.5 GHz): 158.3 s,
  chaitanyamehta.github.io/projects/performance-analysis-of-programming-languages
No such figure was found for a Jetson Nano.
"""

import argparse
import json
import statistics
import time

from bench.wall_cost import LOCKSTEP, WALL, measured

STEPS = 200_000
PUBLISHED_US = {"Raspberry Pi 4": 158.3 / 5.0}
"""Microseconds of a step of the planets."""
DAY = 0.01
MASS = 4.0 * 3.141592653589793**2
BODIES = (
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0),
    ((4.8414, -1.1603, -0.1036), (0.6063, 2.8120, -0.0252), 9.548e-4),
    ((8.3434, 4.1248, -0.4035), (-1.0108, 1.8257, 0.0084), 2.859e-4),
    ((12.8944, -15.1112, -0.2233), (1.0828, 0.8687, -0.0108), 4.366e-5),
    ((15.3797, -25.9193, 0.1793), (0.9791, 0.5947, -0.0348), 5.151e-5),
)
"""Places, velocities per year and masses of the sun and the outer planets."""


def planets_us() -> float:
    """Return the CPU time of a step of the planets, us: the loops of the published program."""
    bodies = [([*place], [*velocity], mass * MASS) for place, velocity, mass in BODIES]
    pairs = [(one, other) for k, one in enumerate(bodies) for other in bodies[k + 1 :]]
    begin = time.process_time()
    for _ in range(STEPS):
        for (place_1, velocity_1, mass_1), (place_2, velocity_2, mass_2) in pairs:
            dx = place_1[0] - place_2[0]
            dy = place_1[1] - place_2[1]
            dz = place_1[2] - place_2[2]
            pull = DAY * ((dx * dx + dy * dy + dz * dz) ** -1.5)
            pull_1, pull_2 = mass_1 * pull, mass_2 * pull
            velocity_1[0] -= dx * pull_2
            velocity_1[1] -= dy * pull_2
            velocity_1[2] -= dz * pull_2
            velocity_2[0] += dx * pull_1
            velocity_2[1] += dy * pull_1
            velocity_2[2] += dz * pull_1
        for place, velocity, _ in bodies:
            place[0] += DAY * velocity[0]
            place[1] += DAY * velocity[1]
            place[2] += DAY * velocity[2]
    return (time.process_time() - begin) / STEPS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="measured time of each drive (default 5)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each part runs (default 3)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    planets, costs = [], {WALL: [], LOCKSTEP: []}  # type: ignore[var-annotated]
    for _ in range(options.rounds):
        planets.append(planets_us())
        for part, found in costs.items():
            found.append(measured(part, options.seconds).cpu_ms_per_s)
    here_us = statistics.median(planets)
    here = {part: statistics.median(found) for part, found in costs.items()}
    boards = {}
    for name, us in {"here": here_us, **PUBLISHED_US}.items():
        ratio = us / here_us
        boards[name] = {
            "ratio": ratio,
            "wall_percent": ratio * here[WALL] / 10.0,
            "lockstep_percent": ratio * here[LOCKSTEP] / 10.0,
        }
    if options.json:
        print(json.dumps({"planets_us": here_us, "boards": boards}))
        return
    print(
        f"{'':<16}{'slower than here':>18}{'of a core, wall clock':>24}{'of a core, lockstep':>22}"
    )
    for name, row in boards.items():
        print(
            f"{name:<16}{row['ratio']:>18.1f}{row['wall_percent']:>22.0f} "
            f"%{row['lockstep_percent']:>20.0f} %"
        )


if __name__ == "__main__":
    main()

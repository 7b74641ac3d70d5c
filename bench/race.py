"""Lap times of our race lines beside those of others, on the same tracks and under the same limits.

    python -m bench.race --tum FOLDER --f1tenth FOLDER [--tracks Monza,...] [--json]

The other sides are

- the published lines of minimum curvature of TUM's racetrack-database, a clone of which ``--tum``
  names (folders ``tracks`` and ``racelines``),
- the published lines of f1tenth_racetracks, a clone of which ``--f1tenth`` names
  (``NAME/NAME_centerline.csv``, ``NAME/NAME_raceline.csv``).

Every line gets its speeds from one and the same speed profile, ours, so that a ratio compares
lines. The cars of TUM have the limits of its ``racecar.ini`` and ``ggv.csv``: 12 m/s2 in a rhombus,
70 m/s, drag, and a straight line through its table of the drive. Those of F1TENTH have the profile
``f1tenth`` at the 8 m/s of the published lines. Both sides keep the clearance that the published
lines keep, 0.75 and 0.28 m from the line to a wall. The data do not ship with vehicled: they are
LGPL and GPL.

A ratio is our lap time over theirs: below 1 we are faster. Bending is the integral of the squared
curvature, which the line of minimum curvature minimises. Exit status 1 if our line of minimum time
is slower than theirs or than ours of minimum curvature, or if that one bends 2 % more than theirs.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.offline.race.limits import RaceLimits, limits_of
from vehicled.offline.race.line import clearances, curvature_of, race_line, resampled
from vehicled.offline.race.speed import lap_time
from vehicled.offline.race.track import RaceTrack
from vehicled.offline.race.track_file import read_track
from vehicled.profile import load

TRACKS = ("Monza", "Oschersleben", "Silverstone", "Spielberg")
TUM_CLEAR_M, F1TENTH_CLEAR_M = 0.75, 0.28
MORE_BENT = 1.02
POINT = Outline(0.0, 0.0, 0.0)


def tum_limits() -> RaceLimits:
    """Return the limits of TUM's racecar.ini, ggv.csv and ax_max_machines.csv."""
    return RaceLimits(
        lateral_mps2=12.0,
        longitudinal_mps2=12.0,
        max_speed_mps=70.0,
        braking_mps2=12.0,
        acceleration_mps2=5.3,
        authority_mps2=10.5,
        damping_per_s=0.125,
        drag_per_m=0.75 / 1200.0,
        max_curvature_per_m=0.12,
        outline=POINT,
        exponent=1.0,
    )


def f1tenth_limits() -> RaceLimits:
    """Return the limits of the profile f1tenth at the top speed of the published lines."""
    profile = load("f1tenth", ["limits.max_speed_mps=8"]).profile
    found = limits_of(profile.vehicle, profile.limits)
    return replace(found, outline=POINT)


def published(path: Path, *, semicolons: bool) -> Array:
    """Return the points of a published race line."""
    rows = np.loadtxt(path, delimiter=";" if semicolons else ",")
    points: Array = rows[:, 1:3] if semicolons else rows[:, :2]
    return points[:-1] if np.hypot(*(points[0] - points[-1])) < 1e-6 else points


def compare(
    track: RaceTrack, theirs: Array, limits: RaceLimits, clear_m: float
) -> dict[str, float]:
    """Return lap times and lengths of a line of others and of ours."""
    ours = {
        objective: race_line(track, limits, objective, margin_m=clear_m)
        for objective in ("curvature", "time")
    }
    n = len(ours["time"].x_m)
    points = resampled(theirs, n)
    kappa, legs = curvature_of(points)
    their_time = lap_time(kappa, legs, limits).time_s
    left, right = clearances(track, points, limits)
    curvature, fastest = ours["curvature"], ours["time"]
    return {
        "theirs_s": their_time,
        "curvature_s": curvature.lap.time_s,
        "time_s": fastest.lap.time_s,
        "curvature_ratio": curvature.lap.time_s / their_time,
        "time_ratio": fastest.lap.time_s / their_time,
        "gain": fastest.lap.time_s / curvature.lap.time_s,
        "bending_ratio": _bending(curvature.points) / _bending(points),
        "their_clearance_m": float(np.minimum(left, right).min()),
        "clearance_m": min(curvature.clearance_m, fastest.clearance_m),
    }


def _bending(points: Array) -> float:
    kappa, legs = curvature_of(points)
    return float((kappa * kappa * legs).sum())


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tum", type=Path, help="clone of TUMFTM/racetrack-database")
    parser.add_argument("--f1tenth", type=Path, help="clone of f1tenth/f1tenth_racetracks")
    parser.add_argument("--tracks", default=",".join(TRACKS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.tum is None and arguments.f1tenth is None:
        parser.error("name at least one of --tum and --f1tenth")
    results: dict[str, Any] = {}
    for name in arguments.tracks.split(","):
        if arguments.tum is not None:
            track = read_track(arguments.tum / "tracks" / f"{name}.csv")
            line = published(arguments.tum / "racelines" / f"{name}.csv", semicolons=False)
            results[f"tum_{name}"] = compare(track, line, tum_limits(), TUM_CLEAR_M)
            _show(results, f"tum_{name}", json_only=arguments.json)
        if arguments.f1tenth is not None:
            folder = arguments.f1tenth / name
            track = read_track(folder / f"{name}_centerline.csv")
            line = published(folder / f"{name}_raceline.csv", semicolons=True)
            results[f"f1tenth_{name}"] = compare(track, line, f1tenth_limits(), F1TENTH_CLEAR_M)
            _show(results, f"f1tenth_{name}", json_only=arguments.json)
    if arguments.json:
        print(json.dumps(results, indent=1))
    broken = [
        name
        for name, row in results.items()
        if row["time_ratio"] > 1.0 or row["gain"] > 1.0 or row["bending_ratio"] > MORE_BENT
    ]
    for name in broken:
        print(f"slower or more bent: {name}", file=sys.stderr)
    return 1 if broken else 0


def _show(results: dict[str, Any], name: str, *, json_only: bool) -> None:
    row = results[name]
    text = (
        f"{name}: theirs {row['theirs_s']:.3f} s, curvature {row['curvature_s']:.3f} s "
        f"({row['curvature_ratio']:.4f}), time {row['time_s']:.3f} s ({row['time_ratio']:.4f}); "
        f"bending {row['bending_ratio']:.3f}; clearance theirs {row['their_clearance_m']:.2f}, "
        f"ours {row['clearance_m']:.2f} m"
    )
    print(text, file=sys.stderr if json_only else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())

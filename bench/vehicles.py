"""Accuracy of each vehicle on its course: the table of docs/vehicles.md.

    python bench/vehicles.py [--seed 1] [--profile NAME]... [--json]

Drives every shipped profile that has a twin (or those that are named) in lockstep on its own course, as ``vehicled sim`` does, and
prints mean and largest cross-track error of the true vehicle as a table in Markdown. A drive that does not reach the end of its
course, or leaves its lanes, is named, and the exit status is 1.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

from vehicled import shipped
from vehicled.profile import load_profile
from vehicled.terminal import Progress

FOLDER = shipped.folder("profiles")
HEADS = ("profile", "twin", "course", "mean", "largest")


def twins() -> dict[str, str]:
    """Return twins by profile, small vehicles first."""
    profiles = {path.stem: load_profile(str(path)) for path in FOLDER.glob("*.toml")}
    ordered = sorted(profiles, key=lambda name: profiles[name].vehicle.length_m)
    return {name: twin.vehicle for name in ordered if (twin := profiles[name].sim.twin) is not None}


def driven(name: str, seed: int) -> dict[str, Any]:
    """Return the result of the run as the command prints it. Raises SystemExit without one."""
    # By its file: a user's own profile of that name would come first.
    profile = str(FOLDER / f"{name}.toml")
    argv = [sys.executable, "-m", "vehicled", "sim", "--profile", profile, "--clock", "lockstep", "--seed", str(seed)]
    done = subprocess.run([*argv, "--no-log", "--quiet", "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    """Drive and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="append", default=[], help="repeatable (default: every one that has a twin)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    known = twins()
    unknown = [name for name in arguments.profile if name not in known]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no profile with a twin; there are {', '.join(known)}")
    progress = Progress()
    results = {}
    for name in arguments.profile or known:
        progress.show(f"driving {name}")
        results[name] = driven(name, arguments.seed)
    progress.close()
    failed = {
        name: result["markings"] if result["finished"] else result["why"]
        for name, result in results.items()
        if not result["finished"] or result["markings"].startswith("failed")
    }
    if arguments.json:
        print(json.dumps({name: {"twin": known[name], **result} for name, result in results.items()}, indent=2))
    else:
        print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
        for name, result in results.items():
            error = result["cross_track_m"]
            cells = (f"`{name}`", f"`{known[name]}`", f"`{result['course']}`", f"{error['mean']:.3f} m", f"{error['max']:.3f} m")
            print(f"| {' | '.join(cells)} |")
    for name, why in failed.items():
        print(f"{name}: {why}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

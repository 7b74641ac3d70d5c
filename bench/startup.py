"""Start-up time of the command line, against Python itself, interleaved in one run.

    python bench/startup.py --rounds 20

Each command is started in turn, again and again, so that a noisy minute of the machine is shared by
all. Read the ratios to ``python -c pass``: the absolute figures are those of the machine and of its
load.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

PYTHON = "python -c pass"
COMMANDS = {
    PYTHON: ["-c", "pass"],
    "vehicled --version": ["-m", "vehicled", "--version"],
    "vehicled --help": ["-m", "vehicled", "--help"],
    "vehicled sim --help": ["-m", "vehicled", "sim", "--help"],
    "vehicled sim --cource x": ["-m", "vehicled", "sim", "--cource", "x"],
    "Tab: commands": ["-m", "vehicled", "completion", "--line", "vehicled si"],
    "Tab: profiles": ["-m", "vehicled", "completion", "--line", "vehicled sim --profile ar"],
    "vehicled profiles": ["-m", "vehicled", "profiles"],
}


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="starts of each command (default 10)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    # An installed package has its modules compiled; without this each command would do it anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    took_s: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, words in COMMANDS.items():
            begin_s = time.perf_counter()
            subprocess.run(
                [sys.executable, *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            took_s[name].append(time.perf_counter() - begin_s)
    medians = {name: statistics.median(values) for name, values in took_s.items()}
    if options.json:
        print(
            json.dumps(
                {
                    name: {"median_s": median, "ratio": median / medians[PYTHON]}
                    for name, median in medians.items()
                }
            )
        )
        return
    for name, median in medians.items():
        print(f"{name:<26}{1e3 * median:8.0f} ms {median / medians[PYTHON]:7.1f} x")


if __name__ == "__main__":
    main()

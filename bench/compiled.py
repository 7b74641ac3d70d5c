"""The compiled wheel beside plain Python: the same lap, in turn, with the same digest.

    make compiled && python bench/compiled.py [--seconds 30] [--rounds 5]

Figures are medians of CPU time of a drive in one process without a log.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from zipfile import ZipFile

from vehicled.terminal import print_table

ROOT = Path(__file__).resolve().parent.parent


def drive(folder: Path, seconds: float) -> tuple[str, float]:
    """Drive the lap with the packages of a folder; return the digest and simulated s per CPU s."""
    command = [sys.executable, str(ROOT / "bench" / "study.py"), "--drive", str(seconds)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True)
    digest, cpu_s, run_s = done.stdout.split()
    return digest, float(run_s) / float(cpu_s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of a drive (default 30)")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions (default 5)")
    options = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob(f"vehicled-*-cp{sys.version_info.major}{sys.version_info.minor}-*.whl"))
    if not wheels:
        print("no wheel for this Python in dist/: make compiled")
        return
    with tempfile.TemporaryDirectory() as name:
        with ZipFile(wheels[-1]) as wheel:
            wheel.extractall(name)
        found: dict[str, list[tuple[str, float]]] = {"plain": [], "compiled": []}
        for _ in range(options.rounds):
            for arm, folder in (("plain", ROOT), ("compiled", Path(name))):
                found[arm].append(drive(folder, options.seconds))
    factors = {arm: median(factor for _, factor in drives) for arm, drives in found.items()}
    rows = [[arm, f"{factor:.1f}", f"{factor / factors['plain']:.2f}"] for arm, factor in factors.items()]
    print_table("CPU time of a lap of lot17", ["", "x real time", "of plain"], rows)
    digests = {digest for drives in found.values() for digest, _ in drives}
    if len(digests) > 1:
        sys.exit(f"the drives differ: {digests}")


if __name__ == "__main__":
    main()

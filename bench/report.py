"""Cost of a report about a run, compared with merely reading its log.

    python bench/report.py [--laps 4] [--rounds 3] [--log FILE] [--json]

Drives the car-park lap so often in lockstep, unless a log is given, and then in turns, each in a
process of its own:

* report: ``vehicled log report``, the whole page
* timing: ``vehicled log timing``
* csv: ``vehicled log export --to csv``, every topic
* replay: ``vehicled replay``, which runs the machine again; beside it the drive itself without a
  log, simulator included
* mcap (the reference): ``mcap.reader``'s ``iter_messages`` over the same file, no record decoded

CPU seconds and the largest resident memory are the operating system's own account of each process.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mcap.reader import make_reader

READ = (
    "import sys; from mcap.reader import make_reader; print(sum(1 for _ in "
    "make_reader(open(sys.argv[1], 'rb')).iter_messages()))"
)


def cost(argv: list[str]) -> tuple[float, float]:
    """Return CPU seconds and largest resident memory (MB) of a command with its children. Raises if
    it fails."""
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(argv[:6])} ... ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0


def drive(laps: int) -> list[str]:
    """Return the command of some laps."""
    return [
        sys.executable,
        "-m",
        "vehicled",
        "sim",
        "--course",
        "lot17",
        "--laps",
        str(laps),
        "--seed",
        "7",
    ]


def driven(folder: Path, laps: int) -> Path:
    """Drive some laps; return the log."""
    subprocess.run([*drive(laps), "--log", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.mcap"))


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--laps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # An installed package has its modules compiled; without this each command would do it anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = arguments.log or driven(folder, arguments.laps)
        vehicled = [sys.executable, "-m", "vehicled", "log"]
        commands = {
            "mcap": [sys.executable, "-c", READ, str(log)],
            "report": [*vehicled, "report", str(log), "-o", str(folder / "report.html")],
            "timing": [*vehicled, "timing", str(log)],
            "csv": [*vehicled, "export", str(log), "--to", "csv", "-o", str(folder / "csv")],
            "replay": [sys.executable, "-m", "vehicled", "replay", "--quiet", str(log)],
        }
        if not arguments.log:
            commands["drive"] = [*drive(arguments.laps), "--no-log", "--quiet"]
        costs: dict[str, list[tuple[float, float]]] = {each: [] for each in commands}
        for _ in range(arguments.rounds):
            for each, argv in commands.items():
                shutil.rmtree(folder / "csv", ignore_errors=True)
                costs[each].append(cost(argv))
        with log.open("rb") as file:
            summary = make_reader(file).get_summary()
        assert summary is not None
        assert summary.statistics is not None
        messages, size_mb = summary.statistics.message_count, log.stat().st_size / 1e6
    reference_s = statistics.median(seconds for seconds, _ in costs["mcap"])
    rows = {
        each: {
            "cpu_s": round(statistics.median(seconds for seconds, _ in found), 2),
            "mcap=1": round(statistics.median(seconds for seconds, _ in found) / reference_s, 2),
            "memory_mb": round(max(memory for _, memory in found)),
        }
        for each, found in costs.items()
    }
    if arguments.json:
        print(json.dumps({"messages": messages, "size_mb": round(size_mb, 1), **rows}, indent=2))
        return
    print(f"{messages} messages, {size_mb:.1f} MB")
    print(f"{'':8}{'CPU s':>8}{'mcap = 1':>10}{'MB':>7}")
    for each, row in rows.items():
        print(f"{each:8}{row['cpu_s']:8.2f}{row['mcap=1']:10.2f}{row['memory_mb']:7d}")


if __name__ == "__main__":
    main()

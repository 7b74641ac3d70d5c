"""Record and replay: twenty kinds of run, each replayed from its log alone. Says for each whether
all of it was the same.

``python bench/replay.py [NAME ...]``: all runs, or those with one of these words in their name.
Status 1 when one differs.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIRES = ("--link", "wires")
VESC = ("--profile", "art_vesc", *WIRES)
WALL = ("--clock", "wall")
LATE = (
    "--set",
    "tasks.fusion.declared_us=2500",
    "--set",
    "tasks.fusion.deadline_ms=2",
    "--set",
    "tasks.ingestion.declared_us=1200",
)
LATE_CONTROL = ("--set", "tasks.control.deadline_ms=3", "--set", "tasks.control.declared_us=3500")

RUNS: dict[str, tuple[str, ...]] = {
    "messages": (),
    "messages ekf4_published": ("--estimator", "ekf4_published"),
    "messages ins stanley": ("--estimator", "ins", "--controller", "stanley"),
    "messages rtk lost and back": ("--fail", "gnss:float@2+1.5"),
    "messages gnss off": ("--fail", "gnss:off@2.5"),
    "messages overrun": LATE,
    "messages mpc": ("--controller", "mpc"),
    "messages mpc fallback by lateness": ("--controller", "mpc", *LATE_CONTROL),
    "messages mpc few iterations": ("--controller", "mpc", "--set", "controller.mpc.iterations=10"),
    "wires": WIRES,
    "wires imu off": (*WIRES, "--fail", "imu:off@2.5"),
    "wires rtk lost and garbage": (
        *WIRES,
        "--fail",
        "gnss:float@2+1",
        "--fail",
        "imu:garbage@3+0.2",
    ),
    "wires overrun": (*WIRES, *LATE),
    "wires brownout of the receiver": (*WIRES, "--fail", "gnss:brownout@2"),
    "vesc": VESC,
    "vesc fault": (*VESC, "--fail", "drive:fault=5@2.5"),
    "wall messages": WALL,
    "wall wires": (*WALL, *WIRES),
    "wall vesc fault": (*WALL, *VESC, "--fail", "drive:fault=5@2.5"),
    "wall wires imu unplugged": (*WALL, *WIRES, "--fail", "imu:usb@2+1"),
}
COURSE = ("--course", "circle_r5_ccw", "--duration", "4", "--quiet")


def command(*arguments: str) -> tuple[int, str, str]:
    """Run the command line as a process of its own; return status, output and messages."""
    done = subprocess.run(
        [sys.executable, "-m", "vehicled", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def main(words: list[str]) -> int:
    """Run all kinds. Status 1 if a replay differs."""
    failed = 0
    for name, options in RUNS.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            begin_s = time.perf_counter()
            _, _, said = command("sim", *COURSE, *options, "--log", folder)
            logs = list(Path(folder).glob("*.mcap"))
            if len(logs) != 1:
                print(f"{name:36} NOT RECORDED: {said.strip().splitlines()[-1:]}")
                failed += 1
                continue
            recorded_s = time.perf_counter() - begin_s
            status, out, said = command("replay", str(logs[0]), "--json", "--quiet")
        if not out.strip():
            print(f"{name:36} NOT REPLAYED: {said.strip().splitlines()[-1:]}")
            failed += 1
            continue
        result = json.loads(out)
        same = (
            status == 0
            and result["verdict"] == "identical"
            and result["digest"] == result["digest_in_log"]
        )
        failed += not same
        first = result["first"]
        print(
            f"{name:36} {'identical' if same else 'DIFFERENT'}  {result['records']:7} records "
            f"{result['frames']:5} frames {result['ticks']:5} ticks  recorded in "
            f"{recorded_s:4.1f} s, replayed at {result['speed']:5.1f} x real time"
            + ("" if same or first is None else f"  {first['what']} at t = {first['t_s']:.3f} s")
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

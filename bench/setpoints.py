"""Cost of a program that streams setpoints at 50 Hz: deadline misses, response, and the age of the
setpoint at the actuator.

    python bench/setpoints.py [--seconds 20] [--rounds 3] [--json]

The same simulated vehicle on the wall clock, in turns: on its course without a program (the
reference), on its course beside a program whose setpoints are not used, and driven by the
setpoints. Per arm, over all rounds: releases that missed their deadline or were skipped, per 10
000; the 99.9 % quantile of the response over the reference's; where setpoints drive, the age of the
setpoint when its command leaves, median and 99 %.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.messages import ActuatorCommand, Mode, TaskTick
from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import ActionRequest, SetpointRequest
from vehicled.live.control_socket.socket_path import SocketPathError
from vehicled.log.reader import LogReader

NONE, BESIDE, DRIVES = "no program", "setpoints, not used", "setpoints drive"
ARMS = (NONE, BESIDE, DRIVES)
PERIOD_S = 0.02


def drive(arm: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Run one drive and return its figures from the log, from the start of the drive on."""
    command = [
        sys.executable,
        "-m",
        "vehicled",
        "sim",
        "--clock",
        "wall",
        "--by-hand",
        "--course",
        "circle_r5_ccw",
        "--quiet",
    ]
    command += ["--laps", "9", "--log", str(folder)]
    # A machine that is busy with others must not end a drive early.
    for key in ("imu_silence_s", "estimate_silence_s", "control_silence_s", "loop_silence_s"):
        command += ["--set", f"limits.{key}=2"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RUNTIME_DIRECTORY": str(folder)},
    )
    with process, _connected(folder / "art.sock") as client:
        _stream(client, 3.0, sends=arm != NONE)
        client.send(ActionRequest("arm"))
        client.send(ActionRequest("offboard" if arm == DRIVES else "drive"))
        _stream(client, seconds, sends=arm != NONE)
        client.send(ActionRequest("disarm"))
        process.wait(30.0)
    (log,) = folder.glob("*.mcap")
    with LogReader(str(log)) as found:
        commands = [record.message for record in found.messages(ActuatorCommand)]
        driven = [
            each
            for each in commands
            if each.mode is (Mode.OFFBOARD if arm == DRIVES else Mode.AUTO)
        ]
        first_ns, last_ns = driven[0].t_ns, driven[-1].t_ns
        ticks = [record.message for record in found.messages(TaskTick)]
    ticks = [tick for tick in ticks if first_ns <= tick.release_ns <= last_ns]
    return {
        "driven_s": (last_ns - first_ns) * 1e-9,
        "releases": len(ticks) + sum(tick.skipped for tick in ticks),
        "lost": sum(tick.missed + tick.skipped for tick in ticks),
        "responses_ms": [(tick.end_ns - tick.release_ns) * 1e-6 for tick in ticks],
        "ages_ms": [(each.t_ns - each.newest_input_ns) * 1e-6 for each in driven]
        if arm == DRIVES
        else [],
    }


def _connected(path: Path) -> Client:
    end_s = time.monotonic() + 30.0
    while True:
        try:
            return Client(path)
        except SocketPathError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def _stream(client: Client, seconds: float, *, sends: bool) -> None:
    begin_s = time.monotonic()
    for sequence in range(round(seconds / PERIOD_S)):
        time.sleep(max(begin_s + sequence * PERIOD_S - time.monotonic(), 0.0))
        if sends:
            # Counts milliseconds, so that it goes on from one stream to the next.
            count = time.monotonic_ns() // 1_000_000 % 2**32
            client.send(
                SetpointRequest(speed_mps=1.0, curvature_per_m=0.2, sequence=count, origin="bench")
            )
        client.arrived()


def run(seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Return all figures by arm."""
    done: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        # Turned round every time, so that no arm always comes after the same other.
        for arm in ARMS[number % 3 :] + ARMS[: number % 3]:
            with tempfile.TemporaryDirectory(prefix="v") as folder:
                done[arm].append(drive(arm, seconds, Path(folder)))
    tails = {
        arm: float(np.quantile([ms for each in drives for ms in each["responses_ms"]], 0.999))
        for arm, drives in done.items()
    }
    figures: dict[str, dict[str, float]] = {}
    for arm, drives in done.items():
        releases = sum(each["releases"] for each in drives)
        ages = [ms for each in drives for ms in each["ages_ms"]]
        figures[arm] = {
            "driven_s": sum(each["driven_s"] for each in drives),
            "releases": releases,
            "lost_per_10000": 1e4 * sum(each["lost"] for each in drives) / releases,
            "response_p999_ratio": tails[arm] / tails[NONE],
        }
        if ages:
            figures[arm] |= {
                "setpoint_age_p50_ms": float(np.median(ages)),
                "setpoint_age_p99_ms": float(np.quantile(ages, 0.99)),
            }
    return figures


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = run(arguments.seconds, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for arm, values in figures.items():
        print(arm)
        for name, value in values.items():
            print(f"  {name:<22} {value:.4g}")


if __name__ == "__main__":
    main()

"""Cost of a bridge for the loop, and age of what it publishes.

    python bench/bridges.py [--bridge ros2 | mavlink] [--seconds 20] [--rounds 3] [--json]

The same drive on the wall clock, in turns: without a bridge (the reference) and with one that a
client reads. Per arm:

* releases that missed their deadline or were skipped, per 10 000, and the 99.9 % quantile of the
  response over the reference's
* share of the loop's time inside the bridges' code, wall and CPU, and the longest single piece, as
  the daemon's own log says
* CPU time of the bridge's own process, as a share of one processor
* age of a message when the client has it: from the stamp of the estimate to the client's clock,
  median and 99 %
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.messages import Event, TaskTick
from vehicled.log.reader import LogReader

WARM_UP_NS = 3 * 10**9
"""Time left out at the start of each drive, while its processes start side by side."""
Client = Callable[[threading.Event, list[float]], None]
"""Function (over, ages in s): reads the bridge until over, and appends the age of every message."""


class Bridge(Struct, frozen=True):
    """A bridge to measure."""

    options: Sequence[str]
    """Options of ``vehicled sim`` that switch it on."""
    module: str
    """Module of its process."""
    client: Client
    environment: dict[str, str] = {}


def ros2() -> Bridge:
    """Return the bridge to ROS 2, read by a node that subscribes ``/odometry``."""
    from vehicled.live.bridges.ros2.dds import DdsParticipant

    domain = 10 + os.getpid() % 200
    participant = DdsParticipant(domain, "127.0.0.1")
    reader = participant.reader("/odometry", "nav_msgs/Odometry")

    def client(over: threading.Event, ages_s: list[float], _: DdsParticipant = participant) -> None:
        while not over.wait(0.001):
            now_s = time.time()
            stamps = [
                message.header.stamp for message in reader.take(1) if hasattr(message, "header")
            ]
            ages_s += [now_s - stamp.sec - stamp.nanosec * 1e-9 for stamp in stamps]

    return Bridge(
        ["--ros2"], "vehicled.live.bridges.ros2.server", client, {"ROS_DOMAIN_ID": str(domain)}
    )


def mavlink() -> Bridge:
    """Return the bridge to ground stations, read by one that asks for the time of the newest
    estimate at 50 Hz."""
    os.environ["MAVLINK20"] = "1"
    from pymavlink import mavutil

    link = mavutil.mavlink_connection("udpin:127.0.0.1:0", source_system=255)
    port = link.port.getsockname()[1]
    wanted = mavutil.mavlink.MAVLINK_MSG_ID_SYSTEM_TIME, 20_000.0

    def client(over: threading.Event, ages_s: list[float]) -> None:
        asked_s = 0.0
        while not over.is_set():
            message = link.recv_match(blocking=True, timeout=0.1)
            if message is None:
                continue
            if message.get_type() == "SYSTEM_TIME":
                ages_s.append(time.time() - message.time_unix_usec * 1e-6)
            if time.monotonic() - asked_s > 2.0:
                asked_s = time.monotonic()
                link.mav.command_long_send(
                    1, 1, mavutil.mavlink.MAV_CMD_SET_MESSAGE_INTERVAL, 0, *wanted, 0, 0, 0, 0, 0
                )

    return Bridge(
        ["--mavlink", f"udp:127.0.0.1:{port}", "--mavlink-commands"],
        "vehicled.live.bridges.mavlink.server", client
    )  # fmt: skip


BRIDGES = {"ros2": ros2, "mavlink": mavlink}


def drive(bridge: Bridge | None, seconds: float, folder: Path) -> dict[str, Any]:
    """Run one drive and return its figures from the log."""
    command = [
        sys.executable,
        "-m",
        "vehicled",
        "sim",
        "--clock",
        "wall",
        "--strict-clock",
        "--profile",
        "art_vesc",
    ]
    command += [
        "--course",
        "circle_r5_ccw",
        "--laps",
        "9",
        "--duration",
        str(seconds),
        "--quiet",
        "--log",
        str(folder),
    ]
    # A machine that is busy with others must not end a drive early.
    for key in (
        "imu_silence_s",
        "estimate_silence_s",
        "control_silence_s",
        "loop_silence_s",
        "telemetry_silence_s",
    ):
        command += ["--set", f"limits.{key}=2"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    ages_s: list[float] = []
    over = threading.Event()
    reading = None
    if bridge is not None:
        command += bridge.options
        environment |= bridge.environment
        reading = threading.Thread(target=bridge.client, args=(over, ages_s))
        reading.start()
    child_s = 0.0
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        while process.poll() is None:
            child_s = (_cpu_s(process.pid, bridge.module) if bridge is not None else 0.0) or child_s
            time.sleep(0.1)
    over.set()
    if reading is not None:
        reading.join()
    (log,) = folder.glob("*.mcap")
    with LogReader(str(log)) as found:
        ticks = [record.message for record in found.messages(TaskTick)]
        ticks = [tick for tick in ticks if tick.release_ns - ticks[0].release_ns > WARM_UP_NS]
        events = [record.message for record in found.messages(Event)]
    return {
        "releases": len(ticks) + sum(tick.skipped for tick in ticks),
        "lost": sum(tick.missed + tick.skipped for tick in ticks),
        "responses_ms": [(tick.end_ns - tick.release_ns) * 1e-6 for tick in ticks],
        "cost": next(
            (msgspec.json.decode(event.fields) for event in events if event.name == "bridge_cost"),
            {},
        ),
        "child_share": child_s / seconds,
        "ages_s": ages_s[len(ages_s) // 10 :],
    }


def _cpu_s(pid: int, module: str) -> float:
    """Return the CPU time of the bridge's process, a child of the daemon; 0 if it is gone."""
    try:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if module.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        pass
    return 0.0


def run(name: str, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Return the figures of both arms."""
    arms: dict[str, Bridge | None] = {"no bridge": None, name: BRIDGES[name]()}
    done: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    for number in range(rounds):
        # Turned round every time, so that no arm always comes after the other.
        for arm in list(arms)[:: 1 if number % 2 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                done[arm].append(drive(arms[arm], seconds, Path(folder)))
    tails = {
        arm: float(np.quantile([ms for each in drives for ms in each["responses_ms"]], 0.999))
        for arm, drives in done.items()
    }
    figures: dict[str, dict[str, float]] = {}
    for arm, drives in done.items():
        figures[arm] = {
            "lost_per_10000": 1e4
            * sum(each["lost"] for each in drives)
            / sum(each["releases"] for each in drives),
            "response_p999_ratio": tails[arm] / tails["no bridge"],
        }
        if arms[arm] is not None:
            costs = [each["cost"] for each in drives]
            ages_ms = 1e3 * np.array([age for each in drives for age in each["ages_s"]])
            figures[arm] |= {
                "loop_wall_share": float(np.mean([cost["wall_share"] for cost in costs])),
                "loop_cpu_share": float(np.mean([cost["cpu_share"] for cost in costs])),
                "longest_us": max(cost["longest_us"] for cost in costs),
                "dropped_frames": sum(sum(cost["dropped"].values()) for cost in costs),
                "child_cpu_share": float(np.mean([each["child_share"] for each in drives])),
                "age_median_ms": float(np.median(ages_ms)),
                "age_p99_ms": float(np.quantile(ages_ms, 0.99)),
            }
    return figures


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--bridge",
        choices=tuple(BRIDGES),
        action="append",
        help="measure only this one; repeatable",
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = {
        name: run(name, arguments.seconds, arguments.rounds) for name in arguments.bridge or BRIDGES
    }
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for arms in figures.values():
        for arm, values in arms.items():
            print(arm)
            for name, value in values.items():
                print(f"  {name:<22} {value:.4g}")


if __name__ == "__main__":
    main()

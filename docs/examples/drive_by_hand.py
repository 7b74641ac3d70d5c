"""Drive by hand, by a script: somebody who looks at the scan and keeps to the middle of the free
room. See docs/mapping.md.

python drive_by_hand.py hall 12     # folder for the log, seconds to drive; 100 close the loop
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import ActionRequest, SubscribeRequest, TeleopRequest
from vehicled.live.control_socket.socket_path import SocketPathError, find

SIMULATION = "sim --profile f1tenth_lidar --scene race_track --clock wall --by-hand --quiet --log"
SPEED_MPS, LOOK_M = 1.2, 2.0
WHEELBASE_M, LOCK_RAD, WHEEL_RADIUS_M = 0.33, 0.4189, 0.049
BEARINGS = np.linspace(-1.0, 1.0, 41)


def steering_of(scan: dict[str, Any]) -> float:
    """Return the steering, -1 to 1, towards the direction with most room on both sides."""
    ranges = np.array(scan["ranges_m"], dtype=float)
    bearing = scan["angle_min_rad"] + scan["angle_increment_rad"] * np.arange(len(ranges))
    met = np.isfinite(ranges) & (ranges < 6.0)
    x, y = ranges[met] * np.cos(bearing[met]), ranges[met] * np.sin(bearing[met])
    room = []
    for way in BEARINGS:
        ahead, aside = x * np.cos(way) + y * np.sin(way), np.abs(y * np.cos(way) - x * np.sin(way))
        beside = aside[(ahead > 0.0) & (ahead < LOOK_M)]
        room.append(min(float(beside.min()), 1.0) if len(beside) else 1.0)
    best = BEARINGS[int(np.argmax(np.array(room) - 0.1 * np.abs(BEARINGS)))]
    return float(
        np.clip(np.arctan(2.0 * WHEELBASE_M * np.sin(best) / LOOK_M) / LOCK_RAD, -1.0, 1.0)
    )


def drive(path: Path, seconds: float) -> None:
    """Take the vehicle behind a control socket, drive it, and give it back. Times are those of the
    scans, because a slow computer pauses the simulated clock."""
    with (
        Client(path) as scans,
        Client(path) as motor,
        Client(path) as modes,
        Client(path) as stick,
    ):
        scans.send(SubscribeRequest("/vehicled/laser_scan", rate_hz=15.0))
        motor.send(SubscribeRequest("/vehicled/motor_status", rate_hz=15.0))
        modes.send(SubscribeRequest("/vehicled/mode_change"))
        steering, speed_mps, mode = 0.0, 0.0, ""
        first_ns, now_s, due_s, asked, sequence = 0, 0.0, 2.0, 0, 0
        while now_s < seconds:
            time.sleep(1.0 / 30.0)
            for reply in scans.arrived():
                if "message" in reply:
                    steering += 0.6 * (steering_of(reply["message"]) - steering)
                    first_ns = first_ns or reply["message"]["t_ns"]
                    now_s = (reply["message"]["t_ns"] - first_ns) * 1e-9
            for reply in motor.arrived():
                if "message" in reply:
                    speed_mps = reply["message"]["motor_speed_radps"] * WHEEL_RADIUS_M
            for reply in modes.arrived():
                if "message" in reply:
                    mode = reply["message"]["after"]
            # It stands still for two seconds first, so that the bias of the gyro is known.
            if mode != "TELEOP" and now_s > due_s:
                stick.send(ActionRequest(("arm", "teleop")[asked % 2], origin="a script"))
                asked, due_s = asked + 1, now_s + 1.0
            throttle = min(
                max(0.1 * (SPEED_MPS * (1.0 - 0.5 * abs(steering)) - speed_mps), 0.0), 0.1
            )
            sequence += 1
            given = (steering, throttle) if mode == "TELEOP" else (0.0, 0.0)
            reading = TeleopRequest(
                steering=given[0],
                throttle=given[1],
                deadman=True,
                sequence=sequence,
                origin="a script",
            )
            stick.send(reading)
        stick.send(ActionRequest("disarm", origin="a script"))


def main(folder: str, seconds: float) -> int:
    """Start the simulator and drive in it."""
    simulation = subprocess.Popen([sys.executable, "-m", "vehicled", *SIMULATION.split(), folder])
    while simulation.poll() is None:
        try:
            drive(find("f1tenth_lidar"), seconds)
            break
        except SocketPathError:
            time.sleep(0.2)
    return 0 if simulation.wait() in (0, 1) and list(Path(folder).glob("*.mcap")) else 1


if __name__ == "__main__":
    raise SystemExit(
        main(
            sys.argv[1] if len(sys.argv) > 1 else "hall",
            float(sys.argv[2]) if len(sys.argv) > 2 else 100.0,
        )
    )

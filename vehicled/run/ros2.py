"""Command-line options ``--ros2`` and ``--ros2-commands``: checks and starts the bridge to ROS 2."""

import os
import socket
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path

from vehicled.core.messages import GnssFix, ImuSample, LaserScan
from vehicled.daemon.app import SetupError
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.bridges.ros2.config import LOOPBACK, MAX_DOMAIN, Ros2Config
from vehicled.ros.projections import GNSS_LINK, IMU_LINK, LASER_LINK
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec

_FRAMES = {GNSS_LINK: GnssFix, IMU_LINK: ImuSample, LASER_LINK: LaserScan}


def open_ros2(plan: Plan, *, offset_ns: int, control_socket: Path | None) -> BridgeProcess:
    """Start the bridge to ROS 2 and print where it publishes. Raises :class:`SetupError` and BridgeError."""
    spec, profile = plan.spec, plan.loaded.profile
    domain = check_ros2(spec)
    interface = spec.ros2 or LOOPBACK
    arms = {frame: profile.lever_arm_m(kind.__name__) for frame, kind in _FRAMES.items()}
    sensors = {frame: arm for frame, arm in arms.items() if arm is not None}
    commands = spec.ros2_commands and control_socket is not None
    process = BridgeProcess.start(
        "ROS 2",
        "vehicled.live.bridges.ros2.server",
        Ros2Config(
            domain=domain,
            interface=interface,
            offset_ns=offset_ns,
            simulated_time=spec.clock == "lockstep",
            sensors=sensors,
            datum=(plan.course.datum.latitude_rad, plan.course.datum.longitude_rad, plan.course.datum.height_m),
            wheelbase_m=profile.vehicle.wheelbase_m,
            max_wheel_rad=profile.vehicle.steering.max_wheel_rad,
            control_socket=str(control_socket) if commands else "",
        ),
    )
    what = "ROS 2 and commands from it" if commands else "ROS 2"
    where = "this computer alone" if interface == LOOPBACK else interface
    print(f"{what}: domain {domain}, {where}", file=sys.stderr, flush=True)
    return process


def check_ros2(spec: RunSpec) -> int:
    """Return the domain, before anything is started. Raises :class:`SetupError`."""
    if spec.ros2_commands and spec.ros2 is None:
        raise SetupError("--ros2-commands needs --ros2")
    if spec.ros2_commands and spec.clock == "lockstep":
        raise SetupError("--ros2-commands needs --clock wall: a lockstep drive takes no requests")
    if find_spec("cyclonedds") is None:
        raise SetupError("--ros2 needs the package cyclonedds: pip install 'vehicled[ros2]' (64-bit ARM Linux: see docs/ros2.md)")
    names = {name for _, name in socket.if_nameindex()}
    interface = spec.ros2
    if interface and interface not in names:
        try:
            ip_address(interface)
        except ValueError:
            raise SetupError(f"--ros2: no network interface {interface}; this computer has {', '.join(sorted(names))}") from None
    text = os.environ.get("ROS_DOMAIN_ID", "") or "0"
    if not text.isdecimal() or int(text) > MAX_DOMAIN:
        raise SetupError(f"ROS_DOMAIN_ID is {text}: use a number from 0 to {MAX_DOMAIN}")
    return int(text)

"""Command-line options ``--mavlink`` and ``--mavlink-commands``: checks and starts the bridge to ground stations."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vehicled import __version__
from vehicled.daemon.app import SetupError
from vehicled.live.bridges.mavlink.config import MavlinkAddressError, MavlinkConfig, parse_address
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.control_socket.console import RunFacts
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec


def open_mavlink(plan: Plan, facts: RunFacts, *, offset_ns: int, control_socket: Path) -> BridgeProcess:
    """Start the bridge and print its address. Raises :class:`SetupError` and BridgeError."""
    spec, profile, datum = plan.spec, plan.loaded.profile, plan.course.datum
    check_mavlink(spec)
    assert spec.mavlink is not None
    process = BridgeProcess.start(
        "MAVLink",
        "vehicled.live.bridges.mavlink.server",
        MavlinkConfig(
            address=spec.mavlink,
            offset_ns=offset_ns,
            started_ns=facts.started_ns,
            datum=(datum.latitude_rad, datum.longitude_rad, datum.height_m),
            turn_radius_m=profile.vehicle.min_turn_radius_m,
            usual_speed_mps=min(float(np.median(np.abs(plan.course.speed_mps))), profile.limits.max_speed_mps),
            control_socket=str(control_socket) if spec.mavlink_commands else "",
            version=__version__,
        ),
    )
    what = "MAVLink and commands from it" if spec.mavlink_commands else "MAVLink"
    print(f"{what}: {spec.mavlink}", file=sys.stderr, flush=True)
    return process


def check_mavlink(spec: RunSpec) -> None:
    """Check the options before anything is started. Raises :class:`SetupError`."""
    if spec.mavlink is None:
        if spec.mavlink_commands:
            raise SetupError("--mavlink-commands needs --mavlink")
        return
    if spec.clock == "lockstep":
        raise SetupError("--mavlink needs --clock wall: ground stations live in real time")
    if find_spec("pymavlink") is None:
        raise SetupError("--mavlink needs the package pymavlink: pip install 'vehicled[mavlink]'")
    try:
        parse_address(spec.mavlink)
    except MavlinkAddressError as error:
        raise SetupError(f"--mavlink: {error}") from None

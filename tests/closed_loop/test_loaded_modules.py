"""``vehicled run`` loads what a drive needs, and nothing of the offline tools, the live view or the
simulator."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.busy_computer import DEADLINE_S
from tests.closed_loop.conftest import ROOT

OFFLINE = ("sim_backend", "vehicled.gym", "vehicled.live.view", "vehicled.offline")
OFFLINE_LIBRARIES = ("cyclonedds", "gymnasium", "matplotlib", "pandas", "scipy", "websockets")
PROGRAM = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), flush=True))
from vehicled.cli import main
sys.exit(main())
"""


def test_a_daemon_on_its_own_ports_loads_only_what_a_drive_needs(tmp_path: Path) -> None:
    devices = ("gnss", "heading", "imu", "drive")
    ports = [
        word
        for name in devices
        for word in ("--set", f'devices.{name}.port="serial:{tmp_path / name}?baud=921600"')
    ]
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "run",
        "--profile",
        "art",
        "--log",
        str(tmp_path),
        *ports,
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stderr is not None
        # The first event, a JSON line, follows from the first turns of the loop: no such device is
        # plugged in.
        said = ""
        while not said.endswith("}\n") and (line := daemon.stderr.readline()):
            said += line
        daemon.send_signal(signal.SIGTERM)
        printed, rest = daemon.communicate(timeout=DEADLINE_S)
    lines = printed.splitlines()
    assert lines, said + rest
    loaded = json.loads(lines[-1])
    assert {"vehicled.daemon.machine", "drivers.ublox.device"} <= set(loaded)
    assert [
        name
        for name in loaded
        if name.startswith(OFFLINE) or name.split(".")[0] in OFFLINE_LIBRARIES
    ] == []

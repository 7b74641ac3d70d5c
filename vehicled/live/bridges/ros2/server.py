"""Process that speaks ROS 2 for a run: ``python -m vehicled.live.bridges.ros2.server``. It ends
with the pipe.

It runs at low priority, so that DDS, slow nodes and strangers' packets take no time from the loop.
"""

import os
import sys
import time

from vehicled.live.bridges.child import be_modest, frames, read_opening, report
from vehicled.live.bridges.frames import ChildReport, FrameKind
from vehicled.live.bridges.process import END_TIMEOUT_S, LOSSLESS_END_S
from vehicled.live.bridges.ros2.config import Ros2Config

DISCOVERY_S = 2.0
"""Time for the nodes that already run to find the writers; virtual time does not wait for them
later, s."""
MARGIN_S = 0.5
"""Part of the time that the daemon waits for this process which is left to end it, s."""


def main() -> int:
    """Run the process."""
    be_modest()
    pipe = sys.stdin.buffer
    config = read_opening(pipe, Ros2Config)
    try:
        # Here, so that a broken installation is reported instead of a traceback.
        from vehicled.live.bridges.ros2.autoware import AutowareVehicle
        from vehicled.live.bridges.ros2.commands import start_commands
        from vehicled.live.bridges.ros2.dds import DdsParticipant
        from vehicled.live.bridges.ros2.publisher import Publisher

        participant = DdsParticipant(config.domain, config.interface)
        autoware = (
            AutowareVehicle(config.autoware, auto=config.autoware_auto) if config.autoware else None
        )
        publisher = Publisher(config, participant, autoware)
        if config.control_socket:
            start_commands(config, participant, publisher.refused, autoware)
    except Exception as error:  # noqa: BLE001 - whatever it is, the user reads it as the reason
        report(ChildReport(state="failed", detail=str(error)))
        return 1
    if config.simulated_time:
        time.sleep(DISCOVERY_S)
    report(ChildReport(state="listening"))
    for kind, data in frames(pipe):
        if kind is FrameKind.RECORDS:
            publisher.records(data)
    publisher.finish(
        LOSSLESS_END_S - MARGIN_S if config.simulated_time else END_TIMEOUT_S - MARGIN_S
    )
    return 0


if __name__ == "__main__":
    status = main()
    # Skip the interpreter's shutdown: threads of DDS may still call into it.
    sys.stdout.flush()
    os._exit(status)

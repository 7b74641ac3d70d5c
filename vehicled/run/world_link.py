"""Simulator in this process: the frames of the simulator link in memory, without a socket, a second
process or an encoding."""

from collections.abc import Sequence

from sim_backend.connection import START_NS
from sim_backend.lockstep import HORIZON_NS
from sim_backend.plant.interface import VehicleLostError
from sim_backend.world import SIMULATED_UTC_NS, World, WorldSetup, port_names
from vehicled.core.link import Frame, Hello, LinkError, LinkFrameKind
from vehicled.core.ports import Pause, Send, SetBaud
from vehicled.daemon.machine import Outgoing
from vehicled.profile.plugins import describe, is_interrupt


class WorldLink:
    """Simulated world behind the surface of :class:`vehicled.runtime.connection.Link` in lockstep.

    It grants the same instants as ``sim_backend.lockstep``, so a drive has the digest of the drive
    with two processes.
    """

    def __init__(self, setup: WorldSetup) -> None:
        """Build the world."""
        self.ports = port_names(setup.profile)
        self.hello = Hello(role="simulator", clock="lockstep", ports=self.ports, start_ns=START_NS)
        self.world: World = setup.world(START_NS, SIMULATED_UTC_NS)
        self._number = {name: i for i, name in enumerate(self.ports)}
        self._granted_ns = START_NS

    def receive(self) -> list[Frame]:
        """Advance the world to the granted instant and return what arrives until then."""
        granted_ns = self._granted_ns
        try:
            arrivals = self.world.advance(granted_ns)
        except VehicleLostError as error:
            return [(LinkFrameKind.BYE, 0, granted_ns, str(error).encode())]
        except BaseException as error:
            raise _failed(error) from error
        frames: list[Frame] = [
            (LinkFrameKind.DATA, port, t_rx_ns, data) for t_rx_ns, port, data in arrivals
        ]
        frames.append((LinkFrameKind.GRANT, 0, granted_ns, b""))
        return frames

    def reply(self, outgoing: Sequence[Outgoing], wake_ns: int | None) -> None:
        """Deliver the daemon's frames to the devices, and grant time up to ``wake_ns``. Raises
        :class:`LinkError`."""
        try:
            deliver(self.world, self._number, outgoing)
        except BaseException as error:
            raise _failed(error) from error
        if wake_ns is not None:
            self._granted_ns = min(wake_ns, self._granted_ns + HORIZON_NS)

    def close(self, reason: str) -> None:
        """Do nothing: no other process waits for the reason."""


def _failed(error: BaseException) -> BaseException:
    """Return the error that ends the run: a plant or an emulator may be the user's code."""
    if is_interrupt(error):
        return error
    return LinkError(f"the simulator ended the run: the simulator failed: {describe(error)}")


def deliver(world: World, number: dict[str, int], outgoing: Sequence[Outgoing]) -> None:
    """Deliver frames of the daemon to the devices on the ports with these numbers."""
    for out in outgoing:
        port, action = number[out.port], out.action
        if isinstance(action, Send):
            world.on_frame(port, out.t_ns, action.data)
        elif not isinstance(action, Pause):
            world.on_line(port, out.t_ns, action.baud if isinstance(action, SetBaud) else 0)

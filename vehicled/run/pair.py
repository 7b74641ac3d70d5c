"""Daemon and simulator in one process, in lockstep: a drive that can be stepped, frozen and
restarted.

Machine and simulated world are those of ``vehicled sim --clock lockstep``. The socket between them
is left out; the frames are the same.
"""

from collections.abc import Callable, Sequence

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure
from sim_backend.lockstep import HORIZON_NS
from sim_backend.scenario import Start
from sim_backend.world import SIMULATED_UTC_NS, World, port_names
from vehicled.control.interface import Controller
from vehicled.core.journal import Sink
from vehicled.core.messages import PortState
from vehicled.daemon.app import build, wire
from vehicled.daemon.machine import Machine, Outgoing
from vehicled.estimation.interface import Estimator
from vehicled.maps.grid import OccupancyGrid
from vehicled.paths.course import Course
from vehicled.profile.schema import Profile
from vehicled.run.world_link import deliver
from vehicled.runtime.board.recording import BoardRecording, BoardStopwatch, virtual_stopwatch
from vehicled.safety.fence import Fence

GRID_NS = 1_000_000
"""Time step at which a frozen daemon's outputs are checked."""


class Pair:
    """Daemon and simulator, granted time in the way that ``sim_backend.lockstep`` and
    ``vehicled.runtime.lockstep`` do together."""

    def __init__(
        self,
        profile: Profile,
        course: Course,
        failures: Sequence[Failure],
        recorder: Sink,
        seed: int,
        *,
        link: str = "wires",
        fence: Fence | None = None,
        scenario: bool = True,
        start: Start | None = None,
        board: BoardRecording | None = None,
        grid: OccupancyGrid | None = None,
    ) -> None:
        """Build both. Without ``scenario`` nothing arms the vehicle. ``start`` is the way in which
        the vehicle finds its heading. With a ``board`` tasks take as long as on that computer.
        ``grid``: the map of the profile.
        """
        self._board, self._seed = board, seed
        self._profile, self._course, self._recorder, self._fence = profile, course, recorder, fence
        self._grid = grid
        self._wiring = wire(profile, link)
        self.world = World(
            profile,
            course,
            seed,
            START_NS,
            SIMULATED_UTC_NS,
            wires=link == "wires",
            failures=failures,
            scenario=scenario,
            start=start,
        )
        self._names = port_names(profile)
        self._number = {name: i for i, name in enumerate(self._names)}
        self.start(START_NS)

    def start(self, now_ns: int) -> None:
        """Start a daemon without memory of earlier drives, whatever the vehicle is doing."""
        self.stopwatch = virtual_stopwatch(self._wiring, self._board, now_ns, self._seed)
        self.machine: Machine = build(
            self._profile,
            self._course,
            self._wiring,
            self.stopwatch,
            self._recorder,
            self.stopwatch if isinstance(self.stopwatch, BoardStopwatch) else None,
            fence=self._fence,
            around=self.around,
            grid=self._grid,
            virtual=self._board is None,
        )
        self.now_ns = self._granted_ns = now_ns
        self.machine.start(now_ns)
        for name in self.machine.ports:
            self.machine.on_port(name, PortState.OPENED, "simulator link", now_ns)

    def around(self, estimator: Estimator, controller: Controller) -> tuple[Estimator, Controller]:
        """Return what takes the places of estimator and controller: they themselves, unless a
        subclass wraps them."""
        return estimator, controller

    @property
    def actuator(self) -> str:
        """Name of the first actuator's port."""
        return self._wiring.actuators[0]

    @property
    def next_ns(self) -> int:
        """Time of the next :meth:`grant`, ns."""
        return self._granted_ns

    def grant(self) -> None:
        """Grant time up to the next instant and run the daemon on what arrives."""
        machine, now_ns = self.machine, self._granted_ns
        for t_rx_ns, port, data in self.world.advance(now_ns):
            machine.on_rx(self._names[port], data, t_rx_ns)
        self.now_ns = now_ns
        machine.on_time(now_ns)

    def reply(self) -> None:
        """Deliver the daemon's frames to the devices and agree on the next instant."""
        self.send(self.machine.take_tx())
        wake_ns = self.stopwatch.wake_ns(
            self.machine.next_due_ns(), max(self.machine.executive.busy_until_ns, self.now_ns + 1)
        )
        self._granted_ns = min(wake_ns, self.now_ns + HORIZON_NS)

    def send(self, outgoing: Sequence[Outgoing]) -> None:
        """Deliver frames to the devices."""
        deliver(self.world, self._number, outgoing)

    def freeze(self, until_ns: int, watch: Callable[[int], None]) -> None:
        """Stop the daemon while the world goes on, then let it process what arrived meanwhile.
        ``watch`` is called with the times.
        """
        waiting: list[tuple[int, bytes]] = []
        for t_ns in range(self.now_ns + GRID_NS, until_ns + 1, GRID_NS):
            waiting += [(port, data) for _, port, data in self.world.advance(t_ns)]
            watch(t_ns)
        self.now_ns = self._granted_ns = until_ns
        for port, data in waiting:
            self.machine.on_rx(self._names[port], data, until_ns)
        self.machine.on_time(until_ns)

"""Description of a run as its user gives it, before anything is loaded or checked."""

import re
from pathlib import PurePath
from typing import Annotated, Literal

from msgspec import Meta, Struct

LONGEST_S = 1e9
"""Longest run, s."""
VEHICLE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
START_TIMEOUT_S = 30.0
"""Longest wait for a drive to start in a simulation, s."""
SHARED_TIMEOUT_S = 5.0
"""Simulator timeout with a shared clock, s: longer than a stall, but short enough to detect a
simulator that hangs."""
STRICT_TIMEOUT_S = 0.5
"""Simulator timeout with a strict clock, s; short, because the vehicle keeps moving."""


class RunSpec(Struct, frozen=True, kw_only=True):
    """A user's choices for one run. :meth:`vehicled.run.plan.Plan.of` loads and checks it."""

    profile: str
    """Name or file of the profile."""
    overrides: tuple[str, ...] = ()
    """Overrides of the profile, ``key=value``."""
    controller: str = ""
    """Name of the controller; empty: the profile's. The same holds for ``estimator`` and
    ``identifier``."""
    estimator: str = ""
    identifier: str = ""
    programme: str = ""
    """Name or file of an open-loop programme, which replaces the controller."""
    course: str = ""
    """Name or file of the course; empty: the profile's."""
    scene: str = ""
    """Name or file of the scene, whose first course is driven unless ``course`` names another;
    empty: the profile's."""
    laps: int = 1
    link: Literal["messages", "wires"] = "messages"
    clock: Literal["lockstep", "wall"] = "lockstep"
    shared_clock: bool = False
    """True if the clock pauses while the simulator or the daemon stalls (wall time only)."""
    latency: str = ""
    """Added latency, as for ``--latency``: ``20ms``, ``5..200ms``, ``sensing=20ms,actuation=50ms``;
    empty: the profile's."""
    noise: bool = False
    """True if the noise of the profile is added to what its sensors measure."""
    board: str = ""
    """File of a measured computer whose task times are replayed (lockstep only); empty: the
    profile's declared costs."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    link_timeout_s: float | None = None
    """Simulator timeout, s; None: see :meth:`silence_s`."""
    own_ports: bool = False
    """True if the run opens the devices' own ports."""
    backend: Literal["asyncio", "trio"] = "asyncio"
    duration_s: Annotated[float, Meta(gt=0.0, le=LONGEST_S)] | None = None
    """Time after which the drive is stopped, s; None for no limit."""
    start_timeout_s: float | None = None
    """Longest wait for a drive to start, s; None for no limit."""
    stays: bool = False
    """True if the end of a drive does not end the run."""
    ends_disarmed: bool = False
    """True if disarming ends a run that stays."""
    log_folder: str | None = ""
    """Folder of the log; empty: the profile's; None writes no log."""
    control_socket: Literal["", "own", "any"] = ""
    """``own`` opens a control socket under the profile's name, ``any`` under another name if that
    is taken (wall clock only)."""
    name: str = ""
    """Name of the vehicle in the place of the profile's, for its control socket."""
    view: str | None = None
    """Address of the live view; empty: the profile's; None opens no view. It needs a control
    socket."""
    ros2: str | None = None
    """Network interface on which ROS 2 topics are published; empty: loopback; None publishes
    none."""
    mavlink: str | None = None
    """Address of the MAVLink link; None opens none. It needs the wall clock."""
    mavlink_commands: bool = False
    """True if ground stations may command the vehicle."""
    mavlink_id: int = 1
    """MAVLink system id of the vehicle."""
    world: dict[str, str] = {}
    """Conditions of the simulated world, for the log."""
    ros2_commands: bool = False
    """True if ROS nodes may command the vehicle. They need a control socket."""
    ros2_autoware: Literal["", "control", "trajectory"] = ""
    """Commands of Autoware that move the vehicle; empty: its vehicle interface is off."""
    ros2_autoware_auto: bool = False
    """True for the types of autoware_auto_msgs, which Autoware used until 2024."""
    mixed: str = ""
    """Name or file of the scene whose bodies are added to the vehicle's world; empty: none."""
    mixed_vehicles: tuple[str, ...] = ()
    """Control sockets of daemons whose vehicles are added (wall clock only)."""
    mixed_loss: Literal["warn", "stop"] = "warn"
    """``stop`` if the loss of the virtual world counts as an obstacle."""
    mixed_seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1
    """Seed of what the scene of mixed reality lets be drawn."""

    @property
    def mixed_name(self) -> str:
        """Scene and virtual vehicles of mixed reality; empty without them."""
        scene = [PurePath(self.mixed).name] if self.mixed else []
        return ", ".join([*scene, *(f"vehicle {name}" for name in self.mixed_vehicles)])

    @property
    def bridged(self) -> bool:
        """True if the run is passed on to other programs, or an option of that was given."""
        asked = self.view is not None or self.mavlink is not None
        return asked or self.asks_ros2 or self.mavlink_commands

    @property
    def asks_ros2(self) -> bool:
        """True if an option of the ROS 2 bridge was given."""
        options = self.ros2_commands or self.ros2_autoware_auto
        return self.ros2 is not None or self.ros2_autoware != "" or options

    def silence_s(self, *, shared_clock: bool) -> float:
        """Return the simulator timeout in s."""
        return self.link_timeout_s or (SHARED_TIMEOUT_S if shared_clock else STRICT_TIMEOUT_S)

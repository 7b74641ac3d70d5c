"""Messages between the command and the simulator of a fleet: JSON on pipes."""

from typing import Literal

from msgspec import Struct

from sim_backend.fleet.radio import RadioModel
from vehicled.core.messages import ObstacleContact

MemberEnding = Literal["goodbye", "lost", "broken", "silent", "absent"]
"""Kind of a daemon's end: with its goodbye; by the simulator, because the vehicle was lost; by a
link that broke; by silence; it never started."""


class VehicleOrder(Struct, frozen=True, kw_only=True):
    """One vehicle: its name, and the options of ``python -m sim_backend`` for it, with an
    inherited socket."""

    name: str
    arguments: list[str]
    delay_s: float = 0.0
    """Time after the start of the run at which the scenario begins to arm it, s."""


class FleetOrder(Struct, frozen=True, kw_only=True):
    """Fleet to simulate."""

    vehicles: list[VehicleOrder]
    timeout_s: float
    """Time of the computer after which a daemon that does not answer is left behind, s."""
    greeting_s: float
    """Longest wait for the greeting of a daemon, s."""
    radio: RadioModel = RadioModel()
    seed: int = 0
    """Seed of the radio channel."""
    clock: Literal["lockstep", "wall"] = "lockstep"
    trace: bool = False
    """True if the report gives the poses of all vehicles."""
    watched: bool = False
    """True if the progress gives the poses of the other traffic, ten times a second."""


class FleetReady(Struct, frozen=True, tag=True):
    """All worlds are built."""


class FleetProgress(Struct, frozen=True, tag=True):
    """Progress of a fleet."""

    time_s: float
    """Simulated time since the start."""
    running: int
    """Number of daemons that run."""
    driven_m: dict[str, float]
    cars: list[tuple[float, float, float]] = []
    """Other traffic: x, y and heading of each car; empty unless watched."""
    car_outline_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Distances from the reference point of a car to front and rear, and half the width."""


class VehicleReport(Struct, frozen=True, kw_only=True):
    """One vehicle as the simulator saw it."""

    name: str
    driven_m: float
    contacts: list[ObstacleContact]
    """Contacts with other vehicles, harder ones of the same touch included, also after the end of
    its daemon."""
    ended_s: float
    """Simulated time since the start at which its daemon ended."""
    why: str
    """Reason that the daemon gave, or why it gave none."""
    ending: MemberEnding
    awaited_s: float
    """Time of the computer for which all others had answered and it had not; lockstep only."""
    speed_mps: float
    """True speed at the end of the run."""
    trace: list[tuple[float, float, float, float, float]] = []
    """Time, x, y, heading and speed, ten times a second."""


class FleetReport(Struct, frozen=True, tag=True):
    """Result of a fleet as the simulator saw it."""

    vehicles: list[VehicleReport]
    cars: list[list[tuple[float, float, float, float, float]]] = []
    """Other traffic: time, x, y, heading and speed of each car, ten times a second."""
    car_outline_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Distances from the reference point of a car to front and rear, and half the width."""

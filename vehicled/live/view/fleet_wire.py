"""Configuration of the process that shows a fleet. Pure."""

from msgspec import Struct

from vehicled.live.view.wire import CourseFacts


class FleetVehicleFacts(Struct, frozen=True):
    """One vehicle of the fleet."""

    name: str
    control_socket: str
    view_port: int
    """TCP port of its own page."""
    course: CourseFacts
    outline_m: tuple[float, float, float]
    """Distances from the reference point to front and rear, and half the width."""


class FleetCars(Struct, frozen=True):
    """Other traffic of a simulation."""

    poses: list[tuple[float, float, float]]
    """x, y and heading of each car."""
    outline_m: tuple[float, float, float]
    """Distances from the reference point to front and rear, and half the width."""


class FleetViewConfig(Struct, frozen=True, kw_only=True):
    """Configuration of the child process."""

    host: str
    port: int
    token: str
    """Token that clients must present."""
    names: list[str]
    """Further host names of the page."""
    vehicles: list[FleetVehicleFacts]

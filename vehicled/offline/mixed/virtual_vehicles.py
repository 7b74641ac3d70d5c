"""Virtual vehicles that other daemons drive: their poses from the control sockets, on the map of
the real vehicle."""

import threading
import time
from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

from msgspec.structs import replace

from sim_backend.plant.interface import Motion
from vehicled.core.errors import UserError
from vehicled.core.messages import EstimatorStatus
from vehicled.core.vehicle import Outline
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.socket_path import find
from vehicled.offline.mixed.world import VirtualScene
from vehicled.paths.datum import Datum
from vehicled.profile import load_profile

RATE_HZ = 20.0
SILENCE_S = 1.0
"""Time without a pose after which a virtual vehicle counts as lost, s; its body stays."""
FARTHEST_M = 10_000.0
"""Largest distance between the origins of both maps, m: beyond it their planes are tilted against
each other by more than a milliradian."""


class VirtualVehicleError(UserError):
    """A virtual vehicle cannot join; the text gives the reason."""


class VirtualVehicle:
    """One virtual vehicle. A thread reads its state, because its daemon may answer at any time."""

    def __init__(self, name: str, datum: Datum, outline: Outline) -> None:
        """Connect to the daemon. ``datum``: origin of the real vehicle's map; ``outline``: body of
        a vehicle whose profile is not known here. Raises
        :class:`~vehicled.core.errors.UserError`."""
        self.name = name
        self._datum = datum
        self._client = Client(find(name))
        status = self._client.status()
        self._origin = _origin(name, status, datum)
        self.outline, self.notes = _outline(status, outline)
        self._newest: tuple[float, Motion] | None = None
        self._taken: Motion | None = None
        self._gone = ""
        self._said = False
        self._take(status)
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def lost(self) -> str:
        """Reason why it has no newer pose; empty while it has."""
        newest = self._newest
        if self._gone or newest is None:
            return self._gone or "it has no pose"
        return "it is silent" if time.monotonic() - newest[0] > SILENCE_S else ""

    def new_motion(self) -> Motion | None:
        """Return the newest motion if it has not been returned yet; a lost vehicle stands."""
        newest = self._newest
        if newest is None:
            return None
        motion = replace(newest[1], speed_mps=0.0) if self.lost else newest[1]
        if motion == self._taken:
            return None
        self._taken = motion
        return motion

    def take_warnings(self) -> list[str]:
        """Return what is to be said, once for each loss."""
        warnings, self.notes = self.notes, []
        lost = self.lost
        if lost and not self._said:
            place = "it is nowhere yet" if self._newest is None else "its body stays where it is"
            warnings = [*warnings, f"virtual vehicle {self.name}: {lost}; {place}"]
        self._said = bool(lost)
        return warnings

    def _read(self) -> None:
        try:
            for status in self._client.watch(RATE_HZ):
                self._take(status)
        except ControlError as error:
            self._gone = str(error)

    def _take(self, status: Mapping[str, Any]) -> None:
        found = status.get("estimate") or {}
        values: list[Any] = [found.get(key) for key in ("x_m", "y_m", "yaw_rad", "speed_mps")]
        if None in values or found.get("status") == EstimatorStatus.UNINITIALISED.name:
            return
        x, y, yaw, speed = (float(value) for value in values)
        latitude, longitude, height = self._origin.to_geodetic(x, y, 0.0)
        east_m, north_m, _ = self._datum.to_enu(latitude, longitude, height)
        motion = Motion(east_m, north_m, yaw, speed, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self._newest = time.monotonic(), motion


class VirtualVehicles:
    """All virtual vehicles of a run."""

    def __init__(self, names: Sequence[str], datum: Datum, outline: Outline) -> None:
        """Connect to all of them; see :class:`VirtualVehicle`."""
        self._vehicles = [VirtualVehicle(name, datum, outline) for name in names]

    def join(self, world: VirtualScene, t_ns: int) -> None:
        """Move the bodies of the virtual vehicles to their newest poses."""
        for vehicle in self._vehicles:
            motion = vehicle.new_motion()
            if motion is not None:
                world.follow(vehicle.name, motion, vehicle.outline, world.time_s(t_ns))

    def take_warnings(self) -> list[str]:
        """Drain what is to be said of virtual vehicles."""
        return [text for vehicle in self._vehicles for text in vehicle.take_warnings()]


def _origin(name: str, status: Mapping[str, Any], datum: Datum) -> Datum:
    """Return the origin of the virtual vehicle's map. Raises :class:`VirtualVehicleError`."""
    place = status.get("datum")
    if not place:
        raise VirtualVehicleError(
            f"virtual vehicle {name}: its daemon does not say where its map lies"
        )
    origin = Datum(place["latitude_rad"], place["longitude_rad"], place["height_m"])
    east_m, north_m, _ = datum.to_enu(origin.latitude_rad, origin.longitude_rad, origin.height_m)
    distance_m = hypot(east_m, north_m)
    if distance_m > FARTHEST_M:
        raise VirtualVehicleError(
            f"virtual vehicle {name}: its map lies {distance_m / 1e3:.0f} km from that of this "
            "run; give both a course of the same place"
        )
    return origin


def _outline(status: Mapping[str, Any], own: Outline) -> tuple[Outline, list[str]]:
    profile = str(status.get("profile", ""))
    try:
        return load_profile(profile).vehicle.outline, []
    except UserError:
        return own, [f"profile {profile!r} is not known here: its vehicle is as large as this one"]

"""Configuration of the bridge's process. Pure."""

from msgspec import Struct

SYSTEM_ID = 1
"""System id by default."""
MOST_SYSTEM_ID = 250
"""Largest system id of a vehicle: ground stations use those above."""


class MavlinkConfig(Struct, frozen=True, kw_only=True):
    """Configuration of the bridge's process."""

    address: str
    """``udp:HOST:PORT``, ``udpin:HOST:PORT`` or ``serial:PATH?baud=RATE``."""
    offset_ns: int
    """UTC minus the daemon's clock, ns."""
    started_ns: int
    """Start of the run on the daemon's clock, ns."""
    datum: tuple[float, float, float]
    """Origin of the map frame: latitude, longitude in rad, height in m."""
    turn_radius_m: float
    """Smallest turning radius of the vehicle."""
    usual_speed_mps: float
    """Speed of a mission that gives none."""
    control_socket: str
    """Control socket of the daemon; empty if commands are not taken."""
    version: str
    system_id: int = SYSTEM_ID


class MavlinkAddressError(ValueError):
    """The address of the link cannot be used; the text gives the cure."""


class MavlinkAddress(Struct, frozen=True):
    """Parsed address of the link."""

    kind: str
    """``udp`` sends to a ground station, ``udpin`` waits for one, ``serial`` is a radio."""
    place: str
    number: int
    """Port, or baud rate."""


FORMS = "udp:HOST:PORT, udpin:HOST:PORT or serial:PATH?baud=RATE"


def parse_address(text: str) -> MavlinkAddress:
    """Parse the address of the link. Raises :class:`MavlinkAddressError`."""
    kind, _, rest = text.partition(":")
    if kind == "serial":
        path, _, query = rest.partition("?")
        baud = query.removeprefix("baud=") if query else "57600"
        if path and baud.isdecimal() and int(baud) > 0 and (not query or query.startswith("baud=")):
            return MavlinkAddress("serial", path, int(baud))
    elif kind in ("udp", "udpin"):
        host, _, port = rest.rpartition(":")
        if host and port.isdecimal() and 0 < int(port) < 65536:
            return MavlinkAddress(kind, host.strip("[]"), int(port))
    raise MavlinkAddressError(f"{text[:80]!r} is no address of a MAVLink link: use {FORMS}")

"""Output of an importer: our messages in order of arrival, on the clock of the file."""

from collections.abc import Iterator
from math import nan, pi, radians

from msgspec import Struct, field

from vehicled.core.messages import Message
from vehicled.paths.datum import Datum

Stamped = tuple[int, Message]
"""Arrival in ns on the clock of the file, message. Stamps in the messages are on the same clock."""


class ForeignFile(Struct, kw_only=True):
    """An opened file. ``notes`` and ``counts`` may grow while ``messages`` is read."""

    format: str
    messages: Iterator[Stamped]
    utc_offset_ns: int | None = None
    """UTC minus the clock of the file; None where it follows from the fixes in it."""
    datum: Datum | None = None
    """Origin of its local coordinates; None: the first fix."""
    about: dict[str, str] = field(default_factory=dict)
    """Description of the file's origin."""
    notes: list[str] = field(default_factory=list)
    """Assumptions, for the user and the header."""


def yaw_of_compass(heading_rad: float) -> float:
    """Yaw counter-clockwise from east, in (-pi, pi], of a heading clockwise from north."""
    yaw = (pi / 2.0 - heading_rad) % (2.0 * pi)
    return yaw - 2.0 * pi if yaw > pi else yaw


def flu(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Forward, left, up of forward, right, down."""
    return x, -y, -z


def diagonal(east: float, north: float, up: float) -> tuple[float, ...]:
    """Covariance (3 x 3, row-major) of three standard deviations; NaN where one is unknown."""
    return east * east, 0.0, 0.0, 0.0, north * north, 0.0, 0.0, 0.0, up * up


def positive(value: float) -> float:
    """NaN for what is not positive: loggers write 0 for an accuracy they do not know."""
    return value if value > 0.0 else nan


def place(latitude_deg: float, longitude_deg: float) -> tuple[float, float]:
    """Latitude and longitude in rad."""
    return radians(latitude_deg), radians(longitude_deg)

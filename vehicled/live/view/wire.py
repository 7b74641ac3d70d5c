"""Configuration of the view's process. Pure."""

from typing import Any

from msgspec import Struct


class TaskFacts(Struct, frozen=True):
    """One row of the rate table."""

    name: str
    rate_hz: float
    deadline_ms: float


class CourseFacts(Struct, frozen=True):
    """Course line in the map frame."""

    name: str
    length_m: float
    closed: bool
    x_m: list[float]
    y_m: list[float]


class RingFacts(Struct, frozen=True):
    """Polygon of the fence."""

    corners: list[tuple[float, float]]
    keep_out: bool


class ViewConfig(Struct, frozen=True, kw_only=True):
    """Configuration of the child process."""

    host: str
    port: int
    """TCP port; 0 for any free one."""
    token: str
    """Token that clients must present; empty if none is required."""
    names: list[str]
    """Further host names of the page."""
    foxglove: bool
    teleop: bool
    control_socket: str
    """Control socket for teleop; empty without ``teleop``."""
    most_throttle: float
    silence_s: float
    """Age from which a teleop reading is discarded, s."""
    started_ns: int
    """Start of the run on the daemon's clock."""
    offset_ns: int
    """UTC minus the daemon's clock, ns."""
    session: str
    """Identity of the run."""
    profile: str
    estimator: str
    controller: str
    simulated: bool
    version: str
    log: str
    """Path of the log; empty if none is written."""
    max_speed_mps: float
    corridor_m: float
    max_wheel_rad: float
    wheelbase_m: float
    matrix: list[dict[str, Any]]
    """Failsafe matrix, see :func:`~vehicled.safety.margins.rows`; sent, so that the child starts
    without numpy."""
    tasks: list[TaskFacts]
    course: CourseFacts
    fence: list[RingFacts]
    mixed: str = ""
    """Scene and virtual vehicles of mixed reality; empty without them."""

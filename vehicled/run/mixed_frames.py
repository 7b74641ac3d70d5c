"""Protocol between the daemon and the process of its virtual world. Pure.

Frames as to a bridge: the opening, then one :class:`ViewPoint` for each scan that is wanted. The
child answers with a :class:`~vehicled.live.bridges.frames.ChildReport` as a JSON line, then with
one frame for each request: a :class:`VirtualView` as MessagePack.
"""

from msgspec import Struct

from vehicled.core.messages import VirtualScan
from vehicled.core.vehicle import Outline


class WorldOpening(Struct, frozen=True, kw_only=True):
    """Configuration of the virtual world."""

    scene: str
    """Reference of a scene; empty for none."""
    course: bytes
    """Course of the run, as :func:`vehicled.paths.stored.to_bytes` gives it."""
    seed: int
    outline: Outline
    """Outline of the real vehicle."""
    vehicles: list[str] = []
    """Control sockets of the daemons whose vehicles are added."""


class ViewPoint(Struct, frozen=True, array_like=True, gc=False):
    """Pose and progress of the real vehicle, as its daemon estimates them."""

    t_ns: int
    x_m: float
    y_m: float
    yaw_rad: float
    progress_m: float
    """Arc length on its course; NaN while it is on none."""


class VirtualView(Struct, frozen=True):
    """Scan from one view point, and what happened in the virtual world since the last one."""

    scan: VirtualScan
    warnings: list[str] = []

"""Configuration of the child that speaks ROS 2."""

from typing import Literal

from msgspec import Struct

LOOPBACK = "127.0.0.1"
"""Interface of a bridge that serves this computer alone."""
MAX_DOMAIN = 232
"""Largest domain whose ports are below 65536 (DDSI-RTPS 2.5, 9.6.2.3)."""


class Ros2Config(Struct, frozen=True, kw_only=True):
    """Facts of the run that the child needs, sent in its first frame."""

    domain: int
    """``ROS_DOMAIN_ID``."""
    interface: str
    """Name or address of the network interface."""
    offset_ns: int
    """UTC minus the daemon's clock, ns."""
    simulated_time: bool
    """True in lockstep: publish ``/clock``, and lose nothing however slow a reader is."""
    sensors: dict[str, tuple[float, float, float]]
    """Positions of the sensors in ``base_link`` by frame, m."""
    datum: tuple[float, float, float]
    """Origin of ``map``: latitude and longitude in rad, height in m."""
    wheelbase_m: float
    max_wheel_rad: float
    control_socket: str
    """Path of the control socket; empty: ROS nodes may not command the vehicle."""
    autoware: Literal["", "control", "trajectory"] = ""
    """Commands of Autoware that move the vehicle; empty: its vehicle interface is off."""
    autoware_auto: bool = False
    """True for the types of autoware_auto_msgs."""

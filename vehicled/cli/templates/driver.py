"""A driver: an IMU that sends lines of text, ``$IMU,wx,wy,wz,fx,fy,fz*CS`` (rad/s, m/s^2; CS: two
hexadecimal digits, the XOR of all characters between ``$`` and ``*``).

In a profile::

    [devices.imu]
    driver = "./template_file.py:TemplateClass"
    port = "serial:/dev/serial/by-id/...?baud=115200"
    messages = ["ImuSample"]
    rate_hz = 100

A driver only converts bytes to messages. It reads no clock, opens no port and never waits, so that
its log can be replayed; the daemon opens the port, opens it again when it is lost, and notes when
each byte arrived. An exception here becomes a fault, and the vehicle stops. With ``--link
messages`` the simulator needs no emulator of the protocol; for ``--link wires`` write one.
"""

from collections.abc import Sequence
from functools import reduce
from math import isfinite
from operator import xor
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from vehicled.core.messages import ImuSample, Message
from vehicled.core.ports import Device

LONGEST = 256
"""Bytes without a line end after which they are noise."""


class TemplateClassParams(Struct, frozen=True):
    """Parameters, checked with the profile: ``driver = { name = "./template_file.py:TemplateClass",
    TemplateClass = { ... } }``."""

    delay_ms: Annotated[float, Meta(ge=0.0, le=100.0)] = 2.0
    """Time from the measurement to the arrival of its line."""


class TemplateClass(Device):
    """The protocol; one method has to be written."""

    Params: ClassVar[type[TemplateClassParams]] = TemplateClassParams
    produces: ClassVar[tuple[type[Message], ...]] = (ImuSample,)

    def __init__(
        self,
        params: TemplateClassParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
    ) -> None:
        """``messages`` are the types that the profile expects. ``command_lifetime_ns`` matters to
        actuators only."""
        self._delay_ns = round(params.delay_ms * 1e6)
        self._buffer = b""
        self.bad_lines = 0
        """Lines with a wrong checksum or a wrong number of fields."""

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Take received bytes, cut anywhere, and return the messages that they complete."""
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest if len(rest) <= LONGEST else b""
        return [
            sample
            for line in lines
            if line.strip() and (sample := self._sample(line, t_rx_ns)) is not None
        ]

    def _sample(self, line: bytes, t_rx_ns: int) -> ImuSample | None:
        body, _, checksum = line.strip().rpartition(b"*")
        body = body.rpartition(b"$")[2]
        try:
            name, *fields = body.decode("ascii").split(",")
            wx, wy, wz, fx, fy, fz = map(float, fields)
            sound = name == "IMU" and int(checksum, 16) == reduce(xor, body, 0)
        except ValueError:
            sound = False
        if not sound or not isfinite(wx + wy + wz + fx + fy + fz):
            self.bad_lines += 1
            return None
        return ImuSample(t_rx_ns - self._delay_ns, t_rx_ns, (fx, fy, fz), (wx, wy, wz))

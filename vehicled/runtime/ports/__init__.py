"""Ports: serial lines, TCP and TLS, CAN, opened, watched and reopened, each behind the same few methods.

:mod:`~vehicled.runtime.ports.contract` says what a port is, :mod:`~vehicled.runtime.ports.address` how it is named in a profile,
:mod:`~vehicled.runtime.ports.factory` makes one, :mod:`~vehicled.runtime.ports.supervised` is the one implementation. It owns a
*channel*, an open descriptor: one module for each kind. :mod:`~vehicled.runtime.ports.discover` lists what is plugged in.
"""

from vehicled.runtime.ports.contract import AddressError, Port, PortCounts, PortError, PortHost
from vehicled.runtime.ports.factory import make_port

__all__ = ["AddressError", "Port", "PortCounts", "PortError", "PortHost", "make_port"]

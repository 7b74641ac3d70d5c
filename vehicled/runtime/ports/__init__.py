"""Ports of the devices: serial lines, TCP and TLS, CAN; opened, monitored and reopened behind one
interface.

:mod:`~vehicled.runtime.ports.contract` defines the interface,
:mod:`~vehicled.runtime.ports.address` the addresses in a profile.
:mod:`~vehicled.runtime.ports.factory` creates ports. :mod:`~vehicled.runtime.ports.supervised`
implements them on a *channel*, an open descriptor; each kind has its own module.
:mod:`~vehicled.runtime.ports.discover` lists the ports of the computer.
"""

from vehicled.runtime.ports.contract import AddressError, Port, PortCounts, PortError, PortHost
from vehicled.runtime.ports.factory import make_port

__all__ = ["AddressError", "Port", "PortCounts", "PortError", "PortHost", "make_port"]

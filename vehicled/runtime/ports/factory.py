"""Creates ports from their addresses. Modules of a port kind are imported only if needed."""

from functools import partial
from typing import TYPE_CHECKING

from vehicled.core.ports import Transport
from vehicled.runtime.ports.address import (
    Address,
    CounterAddress,
    I2cAddress,
    PpsAddress,
    SerialAddress,
    SlcanAddress,
    SocketCanAddress,
    TcpAddress,
    UdpAddress,
    UdpCanAddress,
    note,
    parse,
)
from vehicled.runtime.ports.arrival import Arrival, arrival_of
from vehicled.runtime.ports.backoff import POLITE, Retry
from vehicled.runtime.ports.contract import AddressError, Channel, Opener, PortCounts

if TYPE_CHECKING:
    from vehicled.runtime.ports.supervised import SupervisedPort


def make_port(name: str, url: str, transport: Transport = "") -> "SupervisedPort":
    """Return an unopened port for a driver that needs ``transport``.

    Raises :class:`~vehicled.runtime.ports.contract.AddressError` for an invalid URL.
    """
    # Imported here, because it brings an event loop that lockstep does not need.
    from vehicled.runtime.ports.supervised import SupervisedPort

    address = parse(url, transport)
    retry = Retry(min_s=address.retry_min_s, max_s=address.retry_max_s)
    opener = _opener(address)
    hint = note(address)
    # Who states the bounds of the pauses, states those for a server that closes the connection,
    # too.
    polite = POLITE if isinstance(address, TcpAddress) and retry == Retry() else None
    return SupervisedPort(
        name,
        partial(_open_with_note, opener, hint) if hint else opener,
        retry=retry,
        closed_retry=polite,
        arrival=partial(_watch, address),
    )


def _watch(address: Address) -> Arrival | None:
    """Watch for the device of an address; None for one of the network."""
    if isinstance(address, SerialAddress | SlcanAddress | I2cAddress | PpsAddress):
        return arrival_of(path=address.path)
    return (
        arrival_of(interface=address.interface) if isinstance(address, SocketCanAddress) else None
    )


async def _open_with_note(opener: Opener, hint: str, counts: PortCounts) -> Channel:
    channel = await opener(counts)
    channel.detail += f"; {hint}"
    return channel


def _opener(address: Address) -> Opener:
    match address:
        case SerialAddress():
            from vehicled.runtime.ports.serial_channel import open_serial

            return partial(open_serial, address)
        case TcpAddress():
            from vehicled.runtime.ports.tcp_channel import open_tcp

            return partial(open_tcp, address)
        case I2cAddress():
            from vehicled.runtime.ports.i2c_channel import open_i2c

            return partial(open_i2c, address)
        case CounterAddress():
            from vehicled.runtime.ports.counter_channel import open_counter

            return partial(open_counter, address)
        case PpsAddress():
            from vehicled.runtime.ports.pps_channel import open_pps

            return partial(open_pps, address)
        case UdpAddress():
            from vehicled.runtime.ports.udp_channel import open_udp

            return partial(open_udp, address)
        case SlcanAddress():
            from vehicled.runtime.ports.slcan_channel import open_slcan

            return partial(open_slcan, address)
        case SocketCanAddress():
            from vehicled.runtime.ports.can_channel import open_socketcan

            return partial(open_socketcan, address)
        case UdpCanAddress():
            from vehicled.runtime.ports.can_channel import open_udp_can

            return partial(open_udp_can, address)
    raise AddressError(f"no port implementation for {type(address).__name__}")

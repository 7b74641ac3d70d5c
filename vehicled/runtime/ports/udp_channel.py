"""UDP channel, unicast and multicast. Each datagram is a record of
:mod:`vehicled.core.wire.datagram`, in both directions."""

import ipaddress
import os
import socket
import time
from contextlib import suppress
from functools import partial

import anyio

from vehicled.core.wire.datagram import pack, unpack
from vehicled.runtime.ports.address import UdpAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.read_budget import ReadBudget
from vehicled.runtime.readable import while_readable

RECEIVE_BYTES = 1 << 20
"""Buffer asked of the kernel: frames of a crowded room are large, and come in bursts."""
_LONGEST_BYTES = 65_535
_DATAGRAMS_PER_WAKE = 16
_MULTICAST_ALL = getattr(socket, "IP_MULTICAST_ALL", 49)
"""Option of Linux, which Python has no name for."""
RESOLVE_S = 5.0


class UdpChannel:
    """Bound socket with the host that it talks to."""

    retry_s: float | None = None
    owes = False

    def __init__(
        self,
        sock: socket.socket,
        host: tuple[str, int],
        detail: str,
        counts: PortCounts,
        address: UdpAddress,
    ) -> None:
        """Take ownership of ``sock``, which is bound and non-blocking."""
        self.detail = detail
        self._sock = sock
        self._host = host
        self._any = address.source == "any"
        self._counts = counts
        self._budget = ReadBudget(address.bytes_per_s, 2 * _LONGEST_BYTES)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._sock.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver the datagrams of each wake-up together."""
        await while_readable(self._sock.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """Send whole records; return the number of bytes accepted. What is no record is dropped."""
        datagrams, size = unpack(data)
        sent = 0
        for datagram in datagrams:
            try:
                self._sock.sendto(datagram, self._host)
            except BlockingIOError:
                return sent
            except OSError as error:
                # Without a route the host may come back as the cable does; the port is fine.
                if error.errno is None:
                    raise LostError(f"the socket is gone ({error})") from None
                self._counts.refused += 1
            sent += len(pack(datagram))
        return len(data) if size < len(data) else sent

    async def change_baud(self, baud: int) -> None:
        """Do nothing: a network has no baud rate."""

    async def aclose(self, *, drain: bool) -> None:
        """Close. What was sent is the kernel's."""
        self._sock.close()

    def _drain(self, deliver: Deliver) -> float | None:
        """Deliver what has arrived; return the pause before the next, None if nothing waits."""
        records: list[bytes] = []
        taken, allowed = 0, self._budget.allowance()
        more = False
        for _ in range(_DATAGRAMS_PER_WAKE):
            try:
                data, (source, *_) = self._sock.recvfrom(_LONGEST_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                raise LostError(f"the socket is gone ({os.strerror(error.errno or 0)})") from None
            taken += len(data)
            if self._any or source == self._host[0]:
                records.append(pack(data))
            else:
                self._counts.bad_frames += 1
            if taken >= allowed:
                more = True
                break
        else:
            more = True
        if records:
            deliver(b"".join(records), time.monotonic_ns())
        pause_s = self._budget.spend(taken)
        self._counts.throttled += pause_s > 0.0
        return pause_s or (0.0 if more else None)


async def open_udp(address: UdpAddress, counts: PortCounts) -> UdpChannel:
    """Bind a socket, and join the group. Raises :class:`OpenError`."""
    place = f"udp:{address.host}:{address.port}"
    host = await _resolve(address, place)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        if address.group:
            # Other programs on this computer may listen to the same group.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(sock, address, place)
        if address.group:
            _join(sock, address, place, host[0])
        if address.group == host[0]:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, address.ttl)
    except BaseException:
        sock.close()
        raise
    detail = f"{place} ({host[0]}), here at port {sock.getsockname()[1]}"
    if address.group:
        detail += f", group {address.group}"
    return UdpChannel(sock, host, detail, counts, address)


async def _resolve(address: UdpAddress, place: str) -> tuple[str, int]:
    try:
        with anyio.fail_after(RESOLVE_S):
            found = await anyio.getaddrinfo(
                address.host, address.port, family=socket.AF_INET, type=socket.SOCK_DGRAM
            )
    except TimeoutError:
        raise OpenError(
            f"{place}: no answer from a name server within {RESOLVE_S:g} s; check the network"
        ) from None
    except (OSError, UnicodeError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise OpenError(f"{place}: unknown host ({text}); check the name and the network") from None
    where = found[0][4]
    return str(where[0]), int(where[1])


def _bind(sock: socket.socket, address: UdpAddress, place: str) -> None:
    # On the address of an interface no datagram of a group arrives.
    local = "" if address.group else address.interface
    try:
        sock.bind((local, address.listen))
    except OSError as error:
        if local:
            raise OpenError(
                f"{place}: interface {local}: {error.strerror}; 'ip -4 addr' lists the addresses "
                "of this computer"
            ) from None
        raise OpenError(
            f"{place}: port {address.listen} here: {error.strerror}; another program, such as "
            "another client of the same stream, has it"
        ) from None


def _join(sock: socket.socket, address: UdpAddress, place: str, host: str) -> None:
    """Join the group on the interface that is named, else on the one that leads to the host."""
    local = address.interface or _interface_to(host)
    try:
        group = ipaddress.IPv4Address(address.group).packed
        interface = socket.inet_aton(local)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + interface)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        with suppress(OSError):
            # Otherwise the groups that other programs have joined arrive too.
            sock.setsockopt(socket.IPPROTO_IP, _MULTICAST_ALL, 0)
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise OpenError(
            f"{place}: cannot join group {address.group} on {local} ({text}); write "
            "&interface= with the address that this computer has in that network"
        ) from None


def _interface_to(host: str) -> str:
    """Return the address of this computer from which a host is reached; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return "0.0.0.0"
        return str(probe.getsockname()[0])

"""Addresses of ports, as they stand in a profile.

=============================================  =================================================
``serial:/dev/serial/by-id/NAME?baud=460800``  a serial port, best by a name that does not depend
                                               on the order of plugging
``serial:PATH?baud=100000&frame=8E2``          the same with even parity and two stop bits, as
                                               SBUS has them
``pty:/tmp/vehicled/gnss``                     a pseudo terminal; the same code
``tcp:HOST:PORT``                              a TCP server
``counter:/sys/bus/counter/devices/counter0/count0``  a quadrature decoder of the processor;
                                               ``second`` is that of the other wheel
``udp:HOST:PORT?listen=1511``                  datagrams of a host; ``listen`` is the port here
``udp:HOST:PORT?listen=1511&group=239.255.42.99``  the same, of a multicast group; ``interface`` is
                                               an address of this computer
``udp:239.255.76.86:7686?interface=192.168.1.5&ttl=1``  a multicast group of equals, to which this
                                               computer sends, too
``tls:HOST:PORT?verify=yes``                   the same through TLS; also written ``tcp+tls:``.
                                               ``verify``: yes, no, or a file
``i2c:/dev/i2c-1?device=0x40``                 a device on an I2C bus, by its address
``pps:/dev/pps0?shm=2``                        pulses that the kernel stamps, and where chrony or
                                               ntpd takes the time: a segment of shared memory,
                                               or ``sock``, the socket of a ``refclock SOCK``
``can:can0``                                   an interface of the kernel
``can:slcan:/dev/ttyACM0?bitrate=500000``      a serial CAN adapter
``can:udp:239.74.163.2:43113?hop_limit=0``     a multicast group that stands in for a bus
=============================================  =================================================

Each takes ``retry_min_s`` and ``retry_max_s``, the bounds of the pause between two attempts to open
it. Without them, 10 to 300 s pass after a server has closed the connection within its first minute.
A network address also takes ``bytes_per_s``, the most that is read of it.
"""

import difflib
import ipaddress
import re
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.core.ports import Transport
from vehicled.core.wire.slcan import BITRATES
from vehicled.runtime.ports.contract import AddressError
from vehicled.runtime.ports.read_budget import LINE_BYTES_PER_S

FORMS = (
    "serial:PATH, pty:PATH, tcp:HOST:PORT, tls:HOST:PORT, udp:HOST:PORT, "
    "i2c:PATH?device=ADDRESS, pps:PATH, counter:PATH, can:INTERFACE, "
    "can:slcan:PATH or can:udp:GROUP:PORT"
)
_UNSTABLE = re.compile(r"/dev/tty(USB|ACM)\d+$")
_INTERFACE = re.compile(r"[^\s/:]{1,15}$")
_PORTS = 65_535

Baud = Annotated[int, Meta(ge=50, le=12_000_000)]
Kind = TypeVar("Kind", bound="Address")
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class Address(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options that all addresses have."""

    retry_min_s: Seconds = 0.1
    retry_max_s: Seconds = 3.0


class SerialAddress(Address, frozen=True, kw_only=True):
    """Serial port by its path."""

    path: str
    baud: Baud = 115_200
    frame: Literal["8N1", "8N2", "8E1", "8E2", "8O1", "8O2"] = "8N1"
    """Data bits, parity (none, even, odd) and stop bits."""
    dtr: Literal["on", "off"] = "on"
    """State of the line DTR while the port is open; some scanners start or stop their motor by
    it."""


class TcpAddress(Address, frozen=True, kw_only=True):
    """TCP server."""

    host: str
    port: int
    timeout_s: Seconds = 5.0
    """Timeout of a connection attempt and of the TLS handshake, s."""
    bytes_per_s: Annotated[int, Meta(ge=1_000, le=100_000_000)] = LINE_BYTES_PER_S
    """Most bytes that are read in a second; a server that sends more is slowed down."""


class TlsAddress(TcpAddress, frozen=True, kw_only=True):
    """TCP server with TLS."""

    verify: str = "yes"
    """Verification of the certificate: ``yes`` by the system's authorities, ``no``, or a file of
    trusted authorities."""


class I2cAddress(Address, frozen=True, kw_only=True):
    """Device on an I2C bus of the kernel."""

    path: str
    device: Annotated[int, Meta(ge=0x08, le=0x77)] = 0x40
    """Address of the device, 7 bits."""


class PpsAddress(Address, frozen=True, kw_only=True):
    """Source of pulses per second, and the outputs for chrony or ntpd."""

    path: str
    """``/dev/pps0``, or ``/sys/class/pps/pps0``, which every user may read."""
    shm: Annotated[int, Meta(ge=-1, le=255)] = -1
    """Unit of the shared memory segment, as in ``refclock SHM 2``; -1: none."""
    sock: str = ""
    """Path of chrony's socket, as in ``refclock SOCK PATH``; empty: none."""


class CounterAddress(Address, frozen=True, kw_only=True):
    """Counters of the kernel: ``/sys/bus/counter/devices/counter0/count0``."""

    path: str
    second: str = ""
    """Folder of a second one; empty: none."""


class UdpAddress(Address, frozen=True, kw_only=True):
    """Host that sends datagrams and takes them, or a multicast group of equals."""

    host: str
    port: int
    """Port of the host that takes requests."""
    listen: Annotated[int, Meta(ge=0, le=_PORTS)] = 0
    """Port of this computer; 0: any, as for a host that answers where it was asked from."""
    group: str = ""
    """Multicast group to join; empty: none."""
    interface: str = ""
    """IPv4 address of the network interface of this computer; empty: as the routes say."""
    source: Literal["host", "any"] = "host"
    """``host`` takes datagrams from the host alone; ``any``: from everybody."""
    ttl: Annotated[int, Meta(ge=0, le=255)] = 1
    """Most hops of what is sent to a multicast group; 0: to this computer alone."""
    bytes_per_s: Annotated[int, Meta(ge=1_000, le=100_000_000)] = 4_000_000
    """Most bytes that are read in a second; what is more is lost."""


class SocketCanAddress(Address, frozen=True, kw_only=True):
    """CAN interface of the kernel."""

    interface: str


class SlcanAddress(Address, frozen=True, kw_only=True):
    """CAN adapter on a serial port."""

    path: str
    bitrate: int = 500_000
    baud: Baud = 115_200
    """Baud rate of the serial line; USB adapters ignore it."""


class UdpCanAddress(Address, frozen=True, kw_only=True):
    """Multicast group with python-can's frames."""

    group: str
    port: int
    hop_limit: Annotated[int, Meta(ge=0, le=255)] = 0
    """Multicast hop limit: 0 keeps the frames on this computer, 1 in its network."""


def parse(url: str, transport: Transport = "") -> Address:
    """Parse the URL of a port. Raises :class:`AddressError`, whose text names the form for a driver
    that needs ``transport``."""
    place, _, query = url.partition("?")
    scheme, _, rest = place.partition(":")
    match scheme, rest.partition(":")[0]:
        case "serial" | "pty", _:
            return _struct(SerialAddress, url, query, path=_path(url, rest))
        case "tcp", _:
            host, port = _host_port(url, rest)
            return _struct(TcpAddress, url, query, host=host, port=port)
        case "udp", _:
            host, port = _host_port(url, rest)
            udp = _struct(UdpAddress, url, query, host=host, port=port)
            if is_multicast(host):
                # Equals: they listen where they send.
                udp = replace(udp, listen=port, group=host, source="any")
            _check_udp(url, udp)
            return udp
        case "tls" | "tcp+tls", _:
            host, port = _host_port(url, rest)
            return _struct(TlsAddress, url, query, host=host, port=port)
        case "i2c", _:
            return _i2c(url, rest, query)
        case "counter", _:
            return _struct(CounterAddress, url, query, path=_path(url, rest))
        case "pps", _:
            return _struct(PpsAddress, url, query, path=_path(url, rest))
        case "can", "slcan":
            slcan = _struct(SlcanAddress, url, query, path=_path(url, rest.partition(":")[2]))
            if slcan.bitrate not in BITRATES:
                known = ", ".join(map(str, BITRATES))
                raise AddressError(
                    f"{url!r}: slcan adapters do not support bitrate {slcan.bitrate}; use one "
                    f"of {known}"
                )
            return slcan
        case "can", "udp":
            group, port = _host_port(url, rest.partition(":")[2])
            _check_group(url, group)
            return _struct(UdpCanAddress, url, query, group=group, port=port)
        case "can", _ if _INTERFACE.match(rest) and not re.fullmatch(r"COM\d+|tty\w+", rest):
            return _struct(SocketCanAddress, url, query, interface=rest)
    near = _nearest_form(url)
    if transport == "frames" and near.startswith("serial:/"):
        near = f"can:slcan:{near.removeprefix('serial:').partition('?')[0]}?bitrate=500000"
    # A password in the text is not repeated.
    shown = repr(re.sub(r"(?<=//)[^/@]*@", "", url))
    raise AddressError(
        f"{shown} is not a port address: {f'write {near}' if near else f'use {FORMS}'}"
    )


def _i2c(url: str, rest: str, query: str) -> I2cAddress:
    """Return the address of a device on a bus: ``/dev/i2c-1?device=0x40``. ``1:0x40``, as others
    write it, is refused with the same in our form."""
    match = re.fullmatch(r"(?:/dev/i2c-)?(\d+)(?:[:@,](\w+))?", rest)
    path = f"/dev/i2c-{match[1]}" if match else rest
    options = dict(parse_qsl(query, keep_blank_values=True))
    written = options.pop("device", (match[2] if match else "") or "0x40")
    if match and rest != path:
        near = f"i2c:{path}?device={written if written.startswith('0x') else f'0x{written}'}"
        raise AddressError(f"{url!r} is not a port address: write {near}")
    if not re.fullmatch(r"0x[0-9a-f]{1,2}", written, re.I):
        near = f"0x{written}" if re.fullmatch(r"[0-9a-f]{2}", written, re.I) else "0x40"
        raise AddressError(
            f"{url!r}: device: write it in hexadecimal as i2cdetect shows it, such as {near}"
        )
    others = "&".join(part for part in query.split("&") if not part.startswith("device="))
    return _struct(I2cAddress, url, others, path=_path(url, path), device=int(written, 16))


def _nearest_form(url: str) -> str:
    """Return the address that was probably meant, with what else to write; empty if nothing comes
    to mind."""
    if match := re.fullmatch(r"(?:(?:socket)?can:?(?://)?)?((?:v|sl|vx)?can\d+)", url, re.I):
        return f"can:{match[1].lower()}"
    if match := re.fullmatch(
        r"(?:serial|usb|uart|tty|file)?:?/*(?:dev/)?((?:tty|rfcomm|cu\.|serial/)[^\s?,;@:]*)(.*)",
        url,
        re.I,
    ):
        baud = re.search(r"\d{4,}", match[2])
        return f"serial:/dev/{match[1]}{f'?baud={baud[0]}' if baud else ''}"
    if re.fullmatch(r"(?:serial:)?(?:\\\\\.\\)?COM\d+.*", url, re.I):
        return (
            "serial:/dev/ttyUSB0, or the stable name that 'vehicled doctor' lists: a COM port "
            "is one of Windows"
        )
    if match := re.fullmatch(r"slcan:(?://)?(/.+)", url, re.I):
        return f"can:slcan:{match[1]}"
    if match := re.fullmatch(
        r"(ntrip|https?|ntrips)://(?:[^/@\s]*@)?([^/?#\s:]+)(?::(\d+))?(?:/([^?#\s]*))?.*",
        url,
        re.I,
    ):
        secure = match[1].lower() in ("https", "ntrips")
        port = match[3] or {"http": "80", "https": "443"}.get(match[1].lower(), "2101")
        mountpoint = f', and mountpoint = "{match[4]}" in the driver\'s table' if match[4] else ""
        return f"{'tls' if secure else 'tcp'}:{match[2]}:{port}{mountpoint}"
    if match := re.fullmatch(r"(?:ssl|tcps)://?(\S+:\d+)", url, re.I):
        return f"tls:{match[1].lstrip('/')}"
    if match := re.fullmatch(r"can:/*(?:dev/)?(tty\S+)", url, re.I):
        return f"can:slcan:/dev/{match[1]}"
    other = r"(?!(?:usb|udp|uart|rs\d+|spi|i2c|can|bluetooth):)"
    host = rf"{other}[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:]+\]"
    if re.fullmatch(rf"(?:{host}):\d{{1,5}}", url):
        return f"tcp:{url}"
    if url.startswith("/"):
        return f"serial:{url}"
    return ""


def note(address: Address) -> str:
    """Return advice about a valid address; usually empty."""
    path = getattr(address, "path", "")
    if _UNSTABLE.match(path):
        return (
            f"the name {path} depends on the order of plugging in: use the stable name that "
            "'vehicled doctor' lists"
        )
    return ""


def _struct(kind: type[Kind], url: str, query: str, **place: str | int) -> Kind:
    given: dict[str, str | int] = dict(place)
    known = [name for name in kind.__struct_fields__ if name not in place]
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            cure = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            raise AddressError(f"{url!r} has an unknown option {name!r}: {cure}")
        given[name] = value
    try:
        address = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise AddressError(f"{url!r}: {_plain(str(error))}") from None
    if address.retry_min_s > address.retry_max_s:
        raise AddressError(
            f"{url!r}: retry_min_s ({address.retry_min_s:g}) is longer than retry_max_s "
            f"({address.retry_max_s:g})"
        )
    return address


def _plain(message: str) -> str:
    """Turn ``Expected `int` <= 9 - at `$.baud``` into ``baud: expected int <= 9``."""
    what, _, where = message.replace("`", "").partition(" - at $.")
    return f"{where}: {what[:1].lower()}{what[1:]}" if where else what


def _path(url: str, path: str) -> str:
    if path.startswith("//"):  # serial:///dev/..., as other programs have it
        path = "/" + path.lstrip("/")
    if near := "" if path.startswith("/") else _nearest_form(url):
        raise AddressError(f"{url!r}: a device path begins with a slash; write {near}")
    if match := re.fullmatch(r"(/dev/[^,@:]+)[,@:](\d{3,8})(?:[,8N1]*)", path, re.I):
        raise AddressError(f"{url!r}: write {url[: url.find(':') + 1]}{match[1]}?baud={match[2]}")
    if not path.startswith("/"):
        raise AddressError(
            f"{url!r}: a device path begins with a slash, such as serial:/dev/serial/by-id/NAME"
        )
    return path


def _host_port(url: str, rest: str) -> tuple[str, int]:
    host, _, port = rest.removeprefix("//").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= _PORTS):
        raise AddressError(
            f"{url!r} needs a host and a port from 1 to {_PORTS}, such as tcp:192.0.2.7:2101"
        )
    return host, int(port)


def _check_udp(url: str, udp: UdpAddress) -> None:
    if udp.group:
        _check_group(url, udp.group)
        if not udp.listen:
            raise AddressError(
                f"{url!r}: a multicast group needs the port of its datagrams, such as &listen=1511"
            )
    if udp.interface:
        try:
            local = ipaddress.IPv4Address(udp.interface)
        except ValueError:
            raise AddressError(
                f"{url!r}: interface is an IPv4 address of this computer, such as 192.168.1.5 "
                "('ip -4 addr' lists them)"
            ) from None
        if local.is_multicast or local.is_unspecified:
            raise AddressError(f"{url!r}: {local} is no address of an interface")


def is_multicast(host: str) -> bool:
    """Return True for the address of a multicast group."""
    try:
        return ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False  # a host name: checking it would need the network


def _check_group(url: str, group: str) -> None:
    if is_multicast(group):
        return
    raise AddressError(f"{url!r}: {group} is not a multicast address; use one such as 239.74.163.2")

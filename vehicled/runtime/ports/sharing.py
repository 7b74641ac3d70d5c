"""Checks the ports of a profile together: shared ports, unstable names, and lines too slow for
their messages."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from vehicled.core.ports import Transport
from vehicled.profile.plugins import PluginError
from vehicled.profile.problems import Note
from vehicled.profile.registry import UnknownNameError, names, resolve
from vehicled.profile.schema import DeviceTable
from vehicled.runtime.ports.address import (
    Address,
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
from vehicled.runtime.ports.contract import AddressError

SAMPLE_BYTES = {
    "ublox": 160, "n100": 64, "witmotion": 33, "bno08x": 19, "xsens": 45, "vectornav": 40,
    "mip": 45, "sbg": 41, "pwm_board": 12,
}  # fmt: skip
"""Fewest bytes per message at ``rate_hz``, by driver."""
BAUD_TOLERANCE = 0.02
"""Relative difference of line rates at which a receiver is read all the same: CRSF has 416666 and
420000 baud."""
_CARRIED = {
    "frames": "frames of a CAN bus",
    "stream": "a byte stream",
    "datagrams": "datagrams",
}
_WHERE = {
    "frames": "can:can0, or can:slcan:/dev/ttyACM0 for a serial adapter",
    "stream": "serial:/dev/serial/by-id/NAME or tcp:HOST:PORT",
    "datagrams": "udp:HOST:PORT",
}
BITS_PER_BYTE = 10
"""Bits on the line per byte, with start and stop bit."""


def judge_ports(devices: Mapping[str, DeviceTable]) -> Iterator[Note]:
    """Iterate over the problems of a vehicle's ports. Links are followed; invalid addresses are
    skipped."""
    addresses: dict[str, Address] = {}
    for name, device in devices.items():
        if device.port:
            try:
                addresses[name] = parse(device.port)
            except AddressError:
                continue
    users: dict[tuple[Any, ...], str] = {}
    for name, address in addresses.items():
        place = _place(address)
        other = users.setdefault(place, name)
        if other != name:
            found = _shared(place, devices, name, other)
            if found is not None:
                yield Note(f"devices.{name}.port", found[1], level=found[0])
    for name, address in addresses.items():
        yield from _unfit(name, devices[name], address)
        yield from _unstable(name, address)
        yield from _too_slow(name, devices[name], address)
        yield from _scanner_line(name, devices[name], address)
        yield from _rc_line(name, devices[name], address)


def _place(address: Address) -> tuple[Any, ...]:
    """Return what an address really opens, equal for all its names."""
    match address:
        case SerialAddress() | SlcanAddress():
            # A relative path, a udev link and the device itself are one line.
            return "line", os.path.realpath(address.path)
        case I2cAddress():
            return "i2c", os.path.realpath(address.path), address.device
        case PpsAddress():
            return "pps", os.path.basename(os.path.realpath(address.path))
        case TcpAddress():
            return "tcp", address.host.lower().rstrip("."), address.port
        case UdpAddress():
            # Without a port of its own, several may ask one host.
            return ("udp", address.listen) if address.listen else ("udp", id(address))
        case SocketCanAddress():
            return "can", address.interface
        case UdpCanAddress():
            return "can", address.group.lower(), address.port
    return (address,)


def _shared(
    place: tuple[Any, ...], devices: Mapping[str, DeviceTable], name: str, other: str
) -> tuple[Any, str] | None:
    mine, theirs = devices[name], devices[other]
    same = (
        f'"{other}" is on the same port ({mine.port})'
        if mine.port == theirs.port
        else f'"{other}" is on the same port by another name'
    )
    if place[0] == "can":
        drivers = mine.driver, theirs.driver
        ids = [_id_on_bus(driver.selected) for driver in drivers]
        if drivers[0].name != drivers[1].name or None in ids or ids[0] == ids[1]:
            what = (
                f"controller_id = {ids[0]} of both"
                if ids[0] == ids[1] and ids[0] is not None
                else "both"
            )
            return "error", (
                f"{same}, and {what} would receive the same frames; give them different "
                "controller ids or buses"
            )
        hosts = [getattr(driver.selected, "host_id", None) for driver in drivers]
        if hosts[0] is not None and hosts[0] == hosts[1]:
            # The parts of a long answer name the host alone, so two answers at once would be mixed
            # up.
            return (
                "error",
                f"{same}, and the answers to both go to host_id = {hosts[0]}: give each its own",
            )
        return None
    if place[0] == "tcp" and mine.driver.name == theirs.driver.name == "ntrip":
        if mine.driver.selected == theirs.driver.selected:
            return "warning", f"{same} and requests the same mountpoint: remove one of them"
        return None
    return "error", f"{same}: only one device can use a port; 'vehicled doctor' lists the ports"


def _id_on_bus(params: Any) -> int | None:
    """Return the identifier of a device on its bus; None if it has none."""
    found = getattr(params, "controller_id", None)
    return getattr(params, "node_id", None) if found is None else found


def transport_of(device: DeviceTable) -> Transport:
    """Return what the driver of a device needs; empty if it does not say so."""
    try:
        needed: Transport = getattr(resolve("driver", device.driver.name), "transport", "")
    except (UnknownNameError, PluginError):
        return ""
    return needed


def _unfit(name: str, device: DeviceTable, address: Address) -> Iterator[Note]:
    """Yield an error if the port carries something else than the driver needs."""
    needed = transport_of(device)
    frames = isinstance(address, SocketCanAddress | SlcanAddress | UdpCanAddress)
    datagrams = isinstance(address, UdpAddress)
    carried = "frames" if frames else "datagrams" if datagrams else "stream"
    if not needed or needed == carried:
        return
    driver = device.driver.name
    has, lacks, where = _CARRIED[carried], _CARRIED[needed], _WHERE[needed]
    stem, _, wire = driver.rpartition("_")
    other = f"{stem}_{'can' if wire == 'uart' else 'uart'}"
    choice = f', or choose driver = "{other}"' if other in names("driver") else ""
    text = (
        f"{device.port} carries {has}, and the driver {driver} needs {lacks}: write {where}{choice}"
    )
    yield Note(f"devices.{name}.port", text, level="error")


def _unstable(name: str, address: Address) -> Iterator[Note]:
    if text := note(address):
        cure = (
            "use the name under /dev/serial/by-id, or define a name with a udev rule "
            "('vehicled doctor' prints one)"
        )
        yield Note(f"devices.{name}.port", f"{text}; {cure}", level="warning")


def _scanner_line(name: str, device: DeviceTable, address: Address) -> Iterator[Note]:
    """Yield what a scanner needs of its serial line: the rate at which its model is delivered, and
    DTR for its motor."""
    try:
        models = getattr(resolve("driver", device.driver.name), "models", {})
    except (UnknownNameError, PluginError):
        return
    name_of_model = getattr(device.driver.selected, "model", "")
    model = models.get(name_of_model)
    if model is None or not isinstance(address, SerialAddress):
        return
    if model.baud and model.baud != address.baud:
        text = (
            f"{name_of_model} is delivered with {model.baud} baud, and the line has "
            f"{address.baud}: write ?baud={model.baud}"
        )
        yield Note(f"devices.{name}.port", text, level="warning")
    if (device.driver.name, name_of_model) == ("rplidar", "a1") and address.dtr == "on":
        text = "the motor of an a1 stands still while DTR is on: add dtr=off to the address"
        yield Note(f"devices.{name}.port", text, level="warning")


def _rc_line(name: str, device: DeviceTable, address: Address) -> Iterator[Note]:
    """Yield what an RC receiver needs of its serial line."""
    try:
        options = getattr(resolve("driver", device.driver.name), "line", "")
    except (UnknownNameError, PluginError):
        return
    if not options or not isinstance(address, SerialAddress):
        return
    needed = parse(f"serial:{address.path}?{options}")
    assert isinstance(needed, SerialAddress)
    if (
        abs(address.baud - needed.baud) > BAUD_TOLERANCE * needed.baud
        or address.frame != needed.frame
    ):
        text = (
            f"{device.driver.name} has {needed.baud} baud {needed.frame}, and the line "
            f"{address.baud} {address.frame}"
        )
        yield Note(f"devices.{name}.port", f"{text}: write ?{options}", level="warning")


def _too_slow(name: str, device: DeviceTable, address: Address) -> Iterator[Note]:
    params = device.driver.selected
    rate_hz = getattr(params, "rate_hz", None) or device.rate_hz
    size = SAMPLE_BYTES.get(device.driver.name)
    if (
        not isinstance(address, SerialAddress)
        or size is None
        or not rate_hz
        or getattr(params, "port", "") == "usb"
    ):
        return
    baud = getattr(params, "baud", None) or address.baud
    needed = BITS_PER_BYTE * size * rate_hz
    if needed > baud:
        yield Note(
            f"devices.{name}.port",
            f"{rate_hz:g} messages of {size} bytes per second need {needed:.0f} baud, the line "
            f"has {baud}: raise ?baud= and the device's own rate, or lower rate_hz (a pure USB "
            "port has no baud rate)",
            level="warning",
        )

"""What is wrong with the ports of a profile taken together: two devices on one port, names that change, lines that are too slow."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from vehicled.profile.problems import Note
from vehicled.profile.schema import Device
from vehicled.runtime.ports.address import (
    Address,
    SerialAddress,
    SlcanAddress,
    SocketCanAddress,
    TcpAddress,
    UdpCanAddress,
    note,
    parse,
)
from vehicled.runtime.ports.contract import AddressError

SAMPLE_BYTES = {
    "ublox": 160, "n100": 64, "witmotion": 33, "bno08x": 19, "xsens": 45, "vectornav": 40, "mip": 45, "pwm_board": 12,
}  # fmt: skip
"""Least bytes on the line for each message at ``rate_hz``, by driver."""
BITS_PER_BYTE = 10
"""With start and stop bit."""


def judge_ports(devices: Mapping[str, Device]) -> Iterator[Note]:
    """Iterate over what is wrong between the ports of a vehicle. Links are followed; an address that is none is passed over."""
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
        yield from _unstable(name, address)
        yield from _too_slow(name, devices[name], address)


def _place(address: Address) -> tuple[Any, ...]:
    """Return what an address opens in the end, the same for all its names."""
    match address:
        case SerialAddress() | SlcanAddress():
            # "/dev/../dev/x", a link of udev and the device itself are one line.
            return "line", os.path.realpath(address.path)
        case TcpAddress():
            return "tcp", address.host.lower().rstrip("."), address.port
        case SocketCanAddress():
            return "can", address.interface
        case UdpCanAddress():
            return "can", address.group.lower(), address.port
    return (address,)


def _shared(place: tuple[Any, ...], devices: Mapping[str, Device], name: str, other: str) -> tuple[Any, str] | None:
    mine, theirs = devices[name], devices[other]
    same = (
        f'"{other}" is on the same port ({mine.port})'
        if mine.port == theirs.port
        else f'"{other}" is on the same port by another name'
    )
    if place[0] == "can":
        drivers = mine.driver, theirs.driver
        ids = [getattr(driver.selected, "controller_id", None) for driver in drivers]
        if drivers[0].name != drivers[1].name or None in ids or ids[0] == ids[1]:
            what = f"controller_id = {ids[0]} of both" if ids[0] == ids[1] and ids[0] is not None else "both"
            return "error", f"{same}, and {what} would take the same frames; give them controller ids or buses of their own"
        return None
    if place[0] == "tcp" and mine.driver.name == theirs.driver.name == "ntrip":
        if mine.driver.selected == theirs.driver.selected:
            return "warning", f"{same} and asks for the same mountpoint: one of them is enough"
        return None
    return "error", f"{same}: a port is opened by one device only; 'vehicled doctor' lists the ports there are"


def _unstable(name: str, address: Address) -> Iterator[Note]:
    if said := note(address):
        cure = "use the one under /dev/serial/by-id, or a name of your own by a udev rule ('vehicled doctor' prints it)"
        yield Note(f"devices.{name}.port", f"{said}; {cure}", level="warning")


def _too_slow(name: str, device: Device, address: Address) -> Iterator[Note]:
    params = device.driver.selected
    rate_hz = getattr(params, "rate_hz", None) or device.rate_hz
    size = SAMPLE_BYTES.get(device.driver.name)
    if not isinstance(address, SerialAddress) or size is None or not rate_hz or getattr(params, "port", "") == "usb":
        return
    baud = getattr(params, "baud", None) or address.baud
    needed = BITS_PER_BYTE * size * rate_hz
    if needed > baud:
        yield Note(
            f"devices.{name}.port",
            f"{rate_hz:g} messages of {size} bytes each second need {needed:.0f} baud, the line has {baud}: "
            "raise ?baud= and the device's own rate, or lower rate_hz (a port on USB alone has no line rate)",
            level="warning",
        )

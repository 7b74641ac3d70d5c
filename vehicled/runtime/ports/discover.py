"""Lists serial ports with their stable names, CAN interfaces and I2C buses. Reads ``/dev`` and
``/sys``, opens nothing."""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_CAN_HARDWARE = 280
"""``ARPHRD_CAN`` of ``linux/if_arp.h``."""
_INTERFACE_UP = 1
_USB_LEVELS = 6
"""Levels from a tty up to its USB device: tty, port, interface, device, plus a hub or two."""


class SerialDevice(Struct, frozen=True, kw_only=True):
    """Serial port. Texts are empty if unknown."""

    path: str
    """Kernel name, which depends on the order of plugging in."""
    by_id: str = ""
    """Stable name by manufacturer, product and serial number."""
    by_path: str = ""
    """Stable name by the USB socket."""
    driver: str = ""
    vendor_id: str = ""
    """USB vendor id, four lower-case hexadecimal digits; empty for ports that are not on USB."""
    product_id: str = ""
    serial_number: str = ""
    manufacturer: str = ""
    product: str = ""
    interface: str = ""
    """Number of the USB interface, for devices with several ports."""
    latency_ms: int | None = None
    """Latency timer of the adapter, ms; only FTDI."""
    accessible: bool = False
    """True if this process may read and write the port."""

    @property
    def url(self) -> str:
        """Address for a profile, by the most stable name."""
        return f"serial:{self.by_id or self.by_path or self.path}"


class CanInterface(Struct, frozen=True, kw_only=True):
    """CAN interface of the kernel."""

    name: str
    driver: str = ""
    up: bool = False
    carrier: bool | None = None
    """False while bus-off; None while the interface is down."""
    queue_length: int | None = None
    """Length of the kernel's send queue, frames; the default of 10 is short for bursts."""
    rx_errors: int | None = None
    tx_errors: int | None = None
    vendor_id: str = ""
    product_id: str = ""
    serial_number: str = ""

    @property
    def url(self) -> str:
        """Address for a profile."""
        return f"can:{self.name}"


class I2cAdapter(Struct, frozen=True, kw_only=True):
    """I2C bus of the kernel."""

    path: str
    name: str = ""
    """Name of its adapter."""
    accessible: bool = False
    """True if this process may read and write it."""

    @property
    def url(self) -> str:
        """Address for a profile, of a device at 0x40."""
        return f"i2c:{self.path}?device=0x40"


class DiscoveredPorts(Struct, frozen=True):
    """Ports found on this computer, ordered by name."""

    serial: tuple[SerialDevice, ...]
    can: tuple[CanInterface, ...]
    i2c: tuple[I2cAdapter, ...] = ()


def discover(dev: Path = Path("/dev"), sysfs: Path = Path("/sys")) -> DiscoveredPorts:
    """List the ports of this computer. Never raises: unreadable ones are left out."""
    by_id, by_path = _links(dev / "serial" / "by-id"), _links(dev / "serial" / "by-path")
    serial = [
        _serial(folder, dev, by_id, by_path)
        for folder in _folders(sysfs / "class" / "tty")
        if _is_hardware(folder)
    ]
    can = [
        _can(folder)
        for folder in _folders(sysfs / "class" / "net")
        if _number(folder / "type") == _CAN_HARDWARE
    ]
    i2c = [
        I2cAdapter(
            path=str(path),
            name=_text(folder, "name"),
            accessible=os.access(path, os.R_OK | os.W_OK),
        )
        for folder in _folders(sysfs / "class" / "i2c-dev")
        if (path := dev / folder.name).exists()
    ]
    return DiscoveredPorts(tuple(serial), tuple(can), tuple(i2c))


def udev_rule(device: SerialDevice, link: str) -> str:
    """Return a udev rule that names a USB serial port ``/dev/LINK``; empty if the port has no
    stable property.

    The rule uses the serial number or, since many adapters have none, the USB socket. Its file must
    sort after ``60-serial.rules``, which sets the compared properties:
    ``/etc/udev/rules.d/70-vehicled-names.rules``.
    """
    if not device.vendor_id:
        return ""
    match = [
        'SUBSYSTEM=="tty"',
        f'ENV{{ID_VENDOR_ID}}=="{device.vendor_id}"',
        f'ENV{{ID_MODEL_ID}}=="{device.product_id}"',
    ]
    if device.serial_number:
        match.append(f'ENV{{ID_SERIAL_SHORT}}=="{_literal(device.serial_number)}"')
    elif device.by_path:
        match.append(f'ENV{{ID_PATH}}=="{_literal(_path_tag(device.by_path))}"')
    else:
        return ""
    if device.interface:
        match.append(f'ENV{{ID_USB_INTERFACE_NUM}}=="{device.interface}"')
    return ", ".join([*match, f'SYMLINK+="{link}"'])


def _serial(
    folder: Path, dev: Path, by_id: dict[str, str], by_path: dict[str, str]
) -> SerialDevice:
    name = folder.name
    path = dev / name
    hardware = (folder / "device").resolve()
    usb, interface = _usb(hardware)
    return SerialDevice(
        path=str(path),
        by_id=by_id.get(name, ""),
        by_path=by_path.get(name, ""),
        driver=_driver(hardware),
        vendor_id=_text(usb, "idVendor"),
        product_id=_text(usb, "idProduct"),
        serial_number=_text(usb, "serial"),
        manufacturer=_text(usb, "manufacturer"),
        product=_text(usb, "product"),
        interface=interface,
        latency_ms=_number(hardware / "latency_timer"),
        accessible=os.access(path, os.R_OK | os.W_OK),
    )


def _can(folder: Path) -> CanInterface:
    hardware = (folder / "device").resolve()
    usb, _ = _usb(hardware)
    flags = _number(folder / "flags", 16)
    carrier = _number(folder / "carrier")
    return CanInterface(
        name=folder.name,
        driver=_driver(hardware),
        up=bool(flags and flags & _INTERFACE_UP),
        carrier=None if carrier is None else bool(carrier),
        queue_length=_number(folder / "tx_queue_len"),
        rx_errors=_number(folder / "statistics" / "rx_errors"),
        tx_errors=_number(folder / "statistics" / "tx_errors"),
        vendor_id=_text(usb, "idVendor"),
        product_id=_text(usb, "idProduct"),
        serial_number=_text(usb, "serial"),
    )


def _is_hardware(folder: Path) -> bool:
    """Return True for real ports. Consoles and ptys have no device; the four ttyS of every PC have
    type 0 without a chip."""
    return (folder / "device").exists() and _number(folder / "type") != 0


def _usb(hardware: Path) -> tuple[Path | None, str]:
    """Return the USB device above a port and the number of its interface."""
    interface = ""
    for folder in [hardware, *hardware.parents][:_USB_LEVELS]:
        interface = interface or _text(folder, "bInterfaceNumber")
        if (folder / "idVendor").exists():
            return folder, interface
    return None, ""


def _driver(hardware: Path) -> str:
    link = hardware / "driver"
    return link.resolve().name if link.exists() else ""


def _links(folder: Path) -> dict[str, str]:
    """Return stable names by the kernel name that they point to; the alphabetically first if there
    are several."""
    found: dict[str, str] = {}
    for link in _folders(folder):
        found.setdefault(os.path.realpath(link).rpartition("/")[2], str(link))
    return found


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(folder: Path | None, name: str) -> str:
    if folder is not None:
        with suppress(OSError):
            return (folder / name).read_text(errors="replace").strip()
    return ""


def _number(file: Path, base: int = 10) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text(), base)
    return None


def _path_tag(by_path: str) -> str:
    """Return ``ID_PATH`` of a name in ``by-path``, which ends in the number of the port."""
    return by_path.rpartition("/")[2].partition("-port")[0]


def _literal(text: str) -> str:
    """Escape a text for udev rules: blanks are underscores in its database, and pattern characters
    must be literal."""
    return "".join("?" if c in '*?[]|"\\' else c for c in text.replace(" ", "_"))

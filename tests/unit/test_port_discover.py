"""Discovery of connected devices on a simulated machine: ``/dev`` and ``/sys`` as Linux lays them
out."""

from pathlib import Path

import pytest

from vehicled.runtime.ports.address import I2cAddress, parse
from vehicled.runtime.ports.discover import CanInterface, SerialDevice, discover, udev_rule

RECEIVER = "usb-u-blox_AG_-_www.u-blox.com_u-blox_GNSS_receiver-if00"
CABLE = "usb-FTDI_FT232R_USB_UART_A10K-if00-port0"


class Machine:
    """A folder that looks like a machine."""

    def __init__(self, root: Path) -> None:
        self.dev = root / "dev"
        self.sysfs = root / "sys"
        (self.dev / "serial" / "by-id").mkdir(parents=True)
        (self.dev / "serial" / "by-path").mkdir()
        (self.sysfs / "class" / "tty").mkdir(parents=True)
        (self.sysfs / "class" / "net").mkdir()

    def usb(self, where: str, **attributes: str) -> Path:
        """A USB device with its first interface; returns the interface."""
        device = self.sysfs / "devices" / "pci0" / "usb1" / where
        interface = device / f"{where}:1.0"
        interface.mkdir(parents=True)
        for name, text in attributes.items():
            (device / name).write_text(text + "\n")
        (interface / "bInterfaceNumber").write_text("00\n")
        return interface

    def driver(self, hardware: Path, name: str) -> None:
        folder = self.sysfs / "bus" / "drivers" / name
        folder.mkdir(parents=True, exist_ok=True)
        (hardware / "driver").symlink_to(folder)

    def tty(self, name: str, hardware: Path | None, **attributes: str) -> None:
        """A tty in its class, and its node."""
        folder = (hardware or self.sysfs / "devices" / "virtual") / "tty" / name
        folder.mkdir(parents=True)
        for attribute, text in attributes.items():
            (folder / attribute).write_text(text + "\n")
        if hardware is not None:
            (folder / "device").symlink_to(hardware)
        (self.sysfs / "class" / "tty" / name).symlink_to(folder)
        (self.dev / name).touch()

    def net(self, name: str, hardware: Path | None, **attributes: str) -> None:
        """A network interface."""
        folder = (hardware or self.sysfs / "devices" / "virtual") / "net" / name
        (folder / "statistics").mkdir(parents=True)
        for attribute, text in attributes.items():
            (folder / attribute).write_text(text + "\n")
        (folder / "statistics" / "rx_errors").write_text("3\n")
        if hardware is not None:
            (folder / "device").symlink_to(hardware)
        (self.sysfs / "class" / "net" / name).symlink_to(folder)

    def link(self, kind: str, name: str, target: str) -> None:
        (self.dev / "serial" / kind / name).symlink_to(f"../../{target}")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A vehicle's computer: receiver, FTDI cable, nameless CH341, the chip's own UART, four ttyS
    without one, a CAN adapter."""
    machine = Machine(tmp_path)
    receiver = machine.usb(
        "1-1",
        idVendor="1546",
        idProduct="01a9",
        manufacturer="u-blox AG",
        product="u-blox GNSS receiver",
    )
    machine.driver(receiver, "cdc_acm")
    machine.tty("ttyACM0", receiver)
    machine.link("by-id", RECEIVER, "ttyACM0")
    machine.link("by-path", "pci-0000:00:14.0-usb-0:1:1.0", "ttyACM0")
    cable = (
        machine.usb(
            "1-2", idVendor="0403", idProduct="6001", serial="A10K", product="FT232R USB UART"
        )
        / "ttyUSB0"
    )
    cable.mkdir()
    (cable / "latency_timer").write_text("16\n")
    machine.driver(cable, "ftdi_sio")
    machine.tty("ttyUSB0", cable)
    machine.link("by-id", CABLE, "ttyUSB0")
    nameless = machine.usb("1-3", idVendor="1a86", idProduct="7523") / "ttyUSB1"
    nameless.mkdir()
    machine.tty("ttyUSB1", nameless)
    machine.link("by-path", "pci-0000:00:14.0-usb-0:3:1.0-port0", "ttyUSB1")
    soc = machine.sysfs / "devices" / "platform" / "fe201000.serial"
    soc.mkdir(parents=True)
    machine.tty("ttyAMA0", soc, type="32")
    for k in range(4):
        platform = machine.sysfs / "devices" / "platform" / f"serial8250.{k}"
        platform.mkdir(parents=True)
        machine.tty(f"ttyS{k}", platform, type="0")
    machine.tty("tty0", None)
    machine.tty("ptmx", None)
    adapter = machine.usb("1-4", idVendor="1d50", idProduct="606f", serial="0028")
    machine.driver(adapter, "gs_usb")
    machine.net("can0", adapter, type="280", flags="0x40081", carrier="1", tx_queue_len="10")
    machine.net("can1", None, type="280", flags="0x40080")
    machine.net("eth0", None, type="1", flags="0x1003")
    return machine


def test_all_ports_and_nothing_else(machine):
    found = discover(machine.dev, machine.sysfs)
    dev = str(machine.dev)
    assert found.serial == (
        SerialDevice(
            path=f"{dev}/ttyACM0",
            by_id=f"{dev}/serial/by-id/{RECEIVER}",
            by_path=f"{dev}/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0",
            driver="cdc_acm",
            vendor_id="1546",
            product_id="01a9",
            manufacturer="u-blox AG",
            product="u-blox GNSS receiver",
            interface="00",
            accessible=True,
        ),
        SerialDevice(path=f"{dev}/ttyAMA0", accessible=True),
        SerialDevice(
            path=f"{dev}/ttyUSB0",
            by_id=f"{dev}/serial/by-id/{CABLE}",
            driver="ftdi_sio",
            vendor_id="0403",
            product_id="6001",
            serial_number="A10K",
            product="FT232R USB UART",
            interface="00",
            latency_ms=16,
            accessible=True,
        ),
        SerialDevice(
            path=f"{dev}/ttyUSB1",
            by_path=f"{dev}/serial/by-path/pci-0000:00:14.0-usb-0:3:1.0-port0",
            vendor_id="1a86",
            product_id="7523",
            interface="00",
            accessible=True,
        ),
    )
    assert found.can == (
        CanInterface(
            name="can0", driver="gs_usb", up=True, carrier=True, queue_length=10, rx_errors=3,
            vendor_id="1d50", product_id="606f", serial_number="0028",
        ),
        CanInterface(name="can1", rx_errors=3),
    )  # fmt: skip


def test_every_url_is_an_address(machine):
    found = discover(machine.dev, machine.sysfs)
    urls = [device.url for device in found.serial] + [interface.url for interface in found.can]
    assert [parse(url) for url in urls]
    assert "by-id" in urls[0]
    assert urls[1].endswith("ttyAMA0")
    assert "by-path" in urls[3]
    assert urls[4:] == ["can:can0", "can:can1"]


def test_rules_go_by_what_is_stable(machine):
    receiver, soc, cable, nameless = discover(machine.dev, machine.sysfs).serial
    assert udev_rule(cable, "imu") == (
        'SUBSYSTEM=="tty", ENV{ID_VENDOR_ID}=="0403", ENV{ID_MODEL_ID}=="6001", '
        'ENV{ID_SERIAL_SHORT}=="A10K", ENV{ID_USB_INTERFACE_NUM}=="00", SYMLINK+="imu"'
    )
    assert 'ENV{ID_PATH}=="pci-0000:00:14.0-usb-0:1:1.0"' in udev_rule(receiver, "gnss")
    assert 'ENV{ID_PATH}=="pci-0000:00:14.0-usb-0:3:1.0"' in udev_rule(nameless, "drive")
    assert udev_rule(soc, "drive") == ""


def test_a_serial_number_cannot_break_a_rule():
    device = SerialDevice(
        path="/dev/ttyUSB0", vendor_id="0403", product_id="6001", serial_number='A "x*" [1]'
    )
    assert 'ENV{ID_SERIAL_SHORT}=="A_?x??_?1?"' in udev_rule(device, "imu")


def test_a_machine_without_any(tmp_path):
    found = discover(tmp_path / "dev", tmp_path / "sys")
    assert (found.serial, found.can) == ((), ())


def test_this_machine():
    for device in discover().serial:
        assert Path(device.path).parent == Path("/dev")
        parse(device.url)


def test_an_i2c_bus_with_its_adapter_and_not_one_without_a_node(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for number, name in ((1, "bcm2835 (i2c@7e804000)"), (20, "fef04500.i2c")):
        folder = machine.sysfs / "class" / "i2c-dev" / f"i2c-{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
    (machine.dev / "i2c-1").touch()
    (found,) = discover(machine.dev, machine.sysfs).i2c
    assert (found.name, found.accessible) == ("bcm2835 (i2c@7e804000)", True)
    assert parse(found.url) == I2cAddress(path=str(machine.dev / "i2c-1"))

"""Emulators by the name of the driver that they answer."""

from importlib import import_module

from sim_backend.emulators.interface import Emulator
from sim_backend.emulators.msglink import MsgLinkEmulator
from vehicled.profile.schema import Device, Profile

EMULATORS: dict[str, str] = {"msglink": "sim_backend.emulators.msglink:MsgLinkEmulator"}
"""Driver to "module:class". A class takes the name of the port, the device's table, the seed and the start time."""


CAN_DRIVERS = frozenset({"vesc_can"})
"""Drivers whose port is a bus of frames, not a stream of bytes."""


class UnknownEmulatorError(LookupError):
    """No device here speaks the protocol of a driver."""


def check_emulators(profile: Profile) -> None:
    """Raises :class:`UnknownEmulatorError` for the first device that no emulator answers."""
    for port, device in profile.devices.items():
        _target(port, device)


def emulator(port: str, device: Device | None, seed: int, start_ns: int, *, wires: bool) -> Emulator:
    """The device on a port. Ports without a table, and all without ``wires``, speak messages."""
    if device is None or not wires or device.driver.name == "msglink":
        return MsgLinkEmulator(actuator=device is not None and device.capabilities is not None)
    module, _, name = _target(port, device).partition(":")
    found: Emulator = getattr(import_module(module), name)(port, device, seed, start_ns)
    return found


def _target(port: str, device: Device) -> str:
    try:
        return EMULATORS[device.driver.name]
    except KeyError:
        driver = device.driver.name
        raise UnknownEmulatorError(f'devices.{port}: no emulator speaks the protocol of driver "{driver}"') from None

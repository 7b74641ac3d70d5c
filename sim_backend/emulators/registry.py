"""Emulators by the name of the driver that they answer."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import Failure, FailureError
from sim_backend.emulators.interface import Emulator
from sim_backend.emulators.msglink import MsgLinkEmulator
from vehicled.profile.schema import Device, Profile

EMULATORS: dict[str, str] = {
    "bno08x": "sim_backend.emulators.bno08x:bno08x",
    "mip": "sim_backend.emulators.mip:mip",
    "msglink": "sim_backend.emulators.msglink:MsgLinkEmulator",
    "n100": "sim_backend.emulators.n100:n100",
    "pwm_board": "sim_backend.emulators.pwm_board:pwm_board",
    "ublox": "sim_backend.emulators.ublox:ublox",
    "vectornav": "sim_backend.emulators.vectornav:vectornav",
    "vesc_can": "sim_backend.emulators.vesc:VescCanEmulator",
    "vesc_uart": "sim_backend.emulators.vesc:VescUartEmulator",
    "witmotion": "sim_backend.emulators.witmotion:witmotion",
    "xsens": "sim_backend.emulators.xsens:xsens",
}
"""Driver to "module:name". What is named there makes an emulator of the port's name, the device's table, seed and start time."""


CAN_DRIVERS = frozenset({"vesc_can"})
"""Drivers whose port is a bus of frames, not a stream of bytes."""


class UnknownEmulatorError(LookupError):
    """No device here speaks the protocol of a driver."""


def check_emulators(profile: Profile) -> None:
    """Raises :class:`UnknownEmulatorError` for the first device that no emulator answers."""
    for port, device in profile.devices.items():
        _target(port, device)


def check_failures(profile: Profile, failures: Sequence[Failure], *, wires: bool) -> None:
    """Raises :class:`sim_backend.emulators.failures.FailureError` for the first failure that nothing here can have.

    The emulators have to be there, see :func:`check_emulators`.
    """
    for failure in failures:
        device = profile.devices.get(failure.port)
        if device is None:
            close = get_close_matches(failure.port, profile.devices, n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? There' if close else "there"
            raise FailureError(f'{failure}: there is no device "{failure.port}"; {hint} is {", ".join(profile.devices)}')
        emulator(failure.port, device, 0, 0, wires=wires, failures=(failure,))


def emulator(
    port: str, device: Device | None, seed: int, start_ns: int, *, wires: bool, failures: Sequence[Failure] = ()
) -> Emulator:
    """The device on a port. Ports without a table, and all without ``wires``, speak messages.

    Of ``failures`` those of this port happen to it. Raises :class:`sim_backend.emulators.failures.FailureError` where they cannot.
    """
    sound = _sound(port, device, seed, start_ns, wires)
    own = [failure for failure in failures if failure.port == port]
    if not own:
        return sound
    return FailingEmulator(sound, own, device.messages if device is not None else (), seed, start_ns)


def _sound(port: str, device: Device | None, seed: int, start_ns: int, wires: bool) -> Emulator:
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

"""Emulators by the name of their driver."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import Failure, FailureError
from sim_backend.emulators.interface import Emulator
from sim_backend.emulators.line import baud_of
from sim_backend.emulators.msglink import MsgLinkEmulator
from vehicled.core.errors import UserError
from vehicled.profile import plugins
from vehicled.profile.schema import DeviceTable, Profile

EMULATORS: dict[str, str] = {
    "bno08x": "sim_backend.emulators.bno08x:bno08x",
    "crsf": "sim_backend.emulators.rc:crsf_unit",
    "encoder": "sim_backend.emulators.encoder:encoder_board",
    "hokuyo": "sim_backend.emulators.hokuyo:hokuyo",
    "ibus": "sim_backend.emulators.rc:ibus_unit",
    "ldrobot": "sim_backend.emulators.ldrobot:ldrobot",
    "mavlink_autopilot": "sim_backend.emulators.autopilot:ardupilot",
    "mavlink_px4": "sim_backend.emulators.autopilot:px4",
    "maestro": "sim_backend.emulators.maestro:maestro",
    "pca9685": "sim_backend.emulators.pca9685:pca9685",
    "mip": "sim_backend.emulators.mip:mip",
    "msglink": "sim_backend.emulators.msglink:MsgLinkEmulator",
    "ntrip": "sim_backend.emulators.caster:Caster",
    "natnet": "sim_backend.emulators.mocap:NatNetServer",
    "n100": "sim_backend.emulators.n100:n100",
    "odrive_ascii": "sim_backend.emulators.odrive:odrive_ascii",
    "odrive_can": "sim_backend.emulators.odrive:odrive_can",
    "ouster": "sim_backend.emulators.point_lidar:OusterUnit",
    "pps": "sim_backend.emulators.pps:pulse_source",
    "pwm_board": "sim_backend.emulators.pwm_board:pwm_board",
    "roboclaw": "sim_backend.emulators.roboclaw:roboclaw",
    "rplidar": "sim_backend.emulators.rplidar:rplidar",
    "sabertooth": "sim_backend.emulators.sabertooth:sabertooth",
    "sbg": "sim_backend.emulators.sbg:sbg",
    "sbus": "sim_backend.emulators.rc:sbus_unit",
    "septentrio": "sim_backend.emulators.septentrio:septentrio",
    "sick": "sim_backend.emulators.sick:sick",
    "ublox": "sim_backend.emulators.ublox:ublox",
    "unicore": "sim_backend.emulators.unicore:unicore_unit",
    "v2v": "sim_backend.emulators.v2v:V2vRadio",
    "vectornav": "sim_backend.emulators.vectornav:vectornav",
    "vicon": "sim_backend.emulators.mocap:ViconTracker",
    "vrpn": "sim_backend.emulators.mocap:VrpnServer",
    "velodyne": "sim_backend.emulators.point_lidar:VelodyneUnit",
    "vesc_can": "sim_backend.emulators.vesc:VescCanEmulator",
    "vesc_uart": "sim_backend.emulators.vesc:VescUartEmulator",
    "vesc_forward": "sim_backend.emulators.vesc_forward:VescForwardEmulator",
    "witmotion": "sim_backend.emulators.witmotion:witmotion",
    "ydlidar": "sim_backend.emulators.ydlidar:ydlidar",
    "xsens": "sim_backend.emulators.xsens:xsens",
}
"""Maps a driver to "module:name", a function that makes an emulator of port name, device table,
seed and start time."""

CONTRACT = plugins.Contract(
    "sim_backend.emulators.interface:Emulator", ("port", "device", "seed", "start_ns")
)
"""Requirements on an emulator that is a plugin."""
_CAN_DRIVERS = frozenset({"odrive_can", "vesc_can"})
"""Drivers whose port carries CAN frames instead of a byte stream."""
_NETWORK_DRIVERS = frozenset({"ntrip"})
"""Drivers that always connect to a server; others do if the address says so."""


class UnknownEmulatorError(UserError, LookupError):
    """No emulator implements the protocol of a driver."""


def wired_ports(profile: Profile) -> tuple[dict[str, int], list[str]]:
    """Return the line rates of all devices with a wire, 0 without one in the address (USB), and
    which of them are on CAN."""
    wired = {
        name: device
        for name, device in profile.devices.items()
        if device.driver.name != "msglink"
        and not _is_networked(device)
        and not _by_datagrams(device)
    }
    rates = {
        name: baud_of(device.port) if "baud=" in device.port else 0
        for name, device in wired.items()
    }
    return rates, [name for name, device in wired.items() if device.driver.name in _CAN_DRIVERS]


def network_ports(profile: Profile) -> dict[str, bool]:
    """Return the devices that connect to a server, and whether by TLS."""
    return {
        name: device.port.startswith(("tls:", "tcp+tls:"))
        for name, device in profile.devices.items()
        if _is_networked(device)
    }


def datagram_ports(profile: Profile) -> dict[str, bool]:
    """Return the devices that exchange datagrams, and whether they send without being asked: to a
    port that the address names."""
    return {
        name: "listen=" in device.port
        for name, device in profile.devices.items()
        if _by_datagrams(device)
    }


def _by_datagrams(device: DeviceTable) -> bool:
    return device.port.startswith("udp:") and device.driver.name != "msglink"


def _is_networked(device: DeviceTable) -> bool:
    by_address = (
        device.port.startswith(("tcp:", "tls:", "tcp+tls:")) and device.driver.name != "msglink"
    )
    return device.driver.name in _NETWORK_DRIVERS or by_address


def check_emulators(profile: Profile) -> None:
    """Raise :class:`UnknownEmulatorError` for the first device without an emulator."""
    for port, device in profile.devices.items():
        _target(port, device)


def check_failures(profile: Profile, failures: Sequence[Failure], *, wires: bool) -> None:
    """Raise :class:`sim_backend.emulators.failures.FailureError` for the first failure that is
    impossible here.

    The emulators must exist, see :func:`check_emulators`.
    """
    for failure in failures:
        device = profile.devices.get(failure.port)
        if device is None:
            close = get_close_matches(failure.port, profile.devices, n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? Use' if close else "use"
            raise FailureError(
                f'{failure}: no device "{failure.port}"; {hint} one of {", ".join(profile.devices)}'
            )
        emulator(failure.port, device, 0, 0, wires=wires, failures=(failure,))


def emulator(
    port: str,
    device: DeviceTable | None,
    seed: int,
    start_ns: int,
    *,
    wires: bool,
    failures: Sequence[Failure] = (),
) -> Emulator:
    """Return the emulator of a port. Ports without a table, and all ports without ``wires``, carry
    messages.

    Applies those of ``failures`` that name this port. Raises
    :class:`sim_backend.emulators.failures.FailureError` for impossible ones.
    """
    sound = _sound(port, device, seed, start_ns, wires)
    own = [failure for failure in failures if failure.port == port]
    if not own:
        return sound
    return FailingEmulator(
        sound, own, device.messages if device is not None else (), seed, start_ns
    )


def _sound(
    port: str, device: DeviceTable | None, seed: int, start_ns: int, wires: bool
) -> Emulator:
    if device is None or not wires or device.driver.name == "msglink":
        return MsgLinkEmulator(actuator=device is not None and device.capabilities is not None)
    if plugins.is_reference(device.emulator):
        kind = plugins.load("emulator", device.emulator, CONTRACT, EMULATORS).implementation
    else:
        module, _, name = _target(port, device).partition(":")
        kind = getattr(import_module(module), name)
    found: Emulator = kind(port, device, seed, start_ns)
    return found


def _target(port: str, device: DeviceTable) -> str:
    name = device.emulator or device.driver.name
    if name in EMULATORS or plugins.is_reference(device.emulator):
        return EMULATORS.get(name, name)
    raise UnknownEmulatorError(
        f'devices.{port}: no emulator has the protocol of driver "{device.driver.label}"; '
        f"simulate it with --link messages, or write one: [devices.{port}] emulator = "
        '"FILE.py:NAME"'
    )

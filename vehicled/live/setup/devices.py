"""Drivers of a vehicle without a daemon: bytes and times in, messages and bytes out. Pure."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from vehicled.core.messages import ActuatorCommand, Corrections, Message, PortState
from vehicled.core.mixing import Mixing
from vehicled.core.ports import NEVER_NS, Device
from vehicled.daemon.actuation import Actuation
from vehicled.daemon.app import actuator_roles, corrections_routes, make_device
from vehicled.daemon.machine import Outgoing
from vehicled.daemon.recognition import UnreadBytes
from vehicled.live.setup.steps import MotorOutput, devices_of
from vehicled.profile.mixing import mixings_of
from vehicled.profile.schema import Profile

LACKS = "nothing arrives: is it switched on and plugged in, and is the port right?"


@runtime_checkable
class ReadsConfiguration(Protocol):
    """Driver that can read its device's own configuration."""

    def ask_configuration(self, now_ns: int) -> None:
        """Begin to read it."""

    def configuration(self) -> tuple[list[str], list[str]]:
        """Return what was read, and where it contradicts the profile."""
        ...


class SelectableMixing(Mixing):
    """Mixing that may give the throttle to one output only. Directions and servos stay."""

    def __init__(self, mixing: Mixing) -> None:
        super().__init__(mixing.rows)
        self._whole = mixing
        self.only: int | None = None
        """Number of the output that gets the throttle, -1 for none of this device; None: all."""

    def outputs(self, throttle: float, steering: float) -> tuple[float, ...]:
        values = self._whole.outputs(throttle, steering)
        return tuple(
            value if self.only in (None, number) or not row.drive else 0.0
            for number, (row, value) in enumerate(zip(self.rows, values, strict=True))
        )


class Devices:
    """The devices of a profile that have a port, with their own drivers."""

    def __init__(self, profile: Profile, listener: Callable[[str, Message], None]) -> None:
        """``listener`` gets each message with the name of its device."""
        tables = devices_of(profile)
        self._mixings = {
            name: SelectableMixing(mixing) for name, mixing in mixings_of(profile).items()
        }
        self._devices: dict[str, Device] = {
            name: make_device(name, profile.devices, "wires", self._mixings.get(name))
            for name in tables
        }
        drivers = {
            name: table.driver.name
            for name, table in tables.items()
            if self._devices[name].transport == "stream"
        }
        self._unread = {
            name: UnreadBytes(
                driver, {each: other for other, each in drivers.items() if other != name}
            )
            for name, driver in drivers.items()
        }
        self._routes = corrections_routes(tables, self._devices)
        self._expected = {
            name: {
                each for each in table.messages if each not in ("ActuatorCommand", "Corrections")
            }
            for name, table in tables.items()
        }
        self._seen: dict[str, set[str]] = {name: set() for name in tables}
        self._trouble: dict[str, str] = {}
        roles = {name: role for name, role in actuator_roles(profile).items() if name in tables}
        self._actuation = Actuation(self._devices, roles)
        self._listener = listener
        self._out: list[Outgoing] = []

    @property
    def names(self) -> list[str]:
        """Names of the devices."""
        return list(self._devices)

    @property
    def all(self) -> dict[str, Device]:
        """Drivers by name."""
        return self._devices

    @property
    def refusal(self) -> str:
        """Reason why the actuators would not drive now; empty if they would, or if there is
        none."""
        return self._actuation.refusal

    def sent(self, message: str) -> bool:
        """True if a device has sent a type of message."""
        return any(message in seen for seen in self._seen.values())

    def arrived(self) -> dict[str, str]:
        """Return by device: empty if all that the profile expects has arrived, else what is
        wrong."""
        found = {}
        for name, expected in self._expected.items():
            lacking = expected - self._seen[name]
            unread = self._unread[name].described() if name in self._unread else ""
            silent = (
                not lacking
                and not expected
                and name in self._actuation.ports
                and self._unread_count(name) > 0
            )
            found[name] = ""
            if lacking or silent:
                found[name] = (
                    unread
                    or self._trouble.get(name, "")
                    or ("" if expected & self._seen[name] else LACKS)
                )
                found[name] = found[name] or f"{', '.join(sorted(lacking))} does not arrive"
        return found

    def _unread_count(self, name: str) -> int:
        return self._unread[name].count if name in self._unread else 0

    def on_port(self, name: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that was opened, lost or failed."""
        self._trouble[name] = "" if state is PortState.OPENED else detail
        self._take(name, self._devices[name].on_port(state, detail, now_ns), now_ns)

    def on_rx(self, name: str, data: bytes, t_rx_ns: int) -> None:
        """Handle received bytes."""
        messages = self._devices[name].on_rx(data, t_rx_ns)
        if name in self._unread:
            self._unread[name].on_rx(data, messages)
        self._take(name, messages, t_rx_ns)

    def on_time(self, now_ns: int) -> None:
        """Run what is due."""
        for name, device in self._devices.items():
            if device.next_due_ns() <= now_ns:
                self._take(name, device.on_time(now_ns), now_ns)

    def next_due_ns(self) -> int:
        """Return when :meth:`on_time` must be called."""
        return min((device.next_due_ns() for device in self._devices.values()), default=NEVER_NS)

    def command(self, command: ActuatorCommand, now_ns: int) -> None:
        """Give the actuators a command, and the listener too."""
        for name in self._actuation.ports:
            self._devices[name].on_command(command, now_ns)
            self._collect(name, now_ns)
        for name in self._actuation.ports[:1]:
            self._listener(name, command)

    def ask_configurations(self, now_ns: int) -> None:
        """Begin to read the configurations that the devices hold themselves."""
        for device in self._devices.values():
            if isinstance(device, ReadsConfiguration):
                device.ask_configuration(now_ns)

    def configurations(self) -> dict[str, tuple[list[str], list[str]]]:
        """Return what was read of each device, and where it contradicts the profile."""
        return {
            name: device.configuration()
            for name, device in self._devices.items()
            if isinstance(device, ReadsConfiguration)
        }

    def drive_only(self, motor: MotorOutput | None) -> None:
        """Give the throttle to one motor, and to no other; None: to all again."""
        for name, mixing in self._mixings.items():
            if motor is None:
                mixing.only = None
            else:
                mixing.only = motor.output if motor.device == name else -1

    def take_tx(self) -> list[Outgoing]:
        """Drain what is to be done at the ports."""
        out, self._out = self._out, []
        return out

    def _take(self, name: str, messages: Sequence[Message], now_ns: int) -> None:
        for message in messages:
            self._seen[name].add(type(message).__name__)
            record, joined = self._actuation.joined(name, message)
            for each in {id(each): each for each in (record, joined)}.values():
                if each is not None:
                    self._listener(name, each)
            if isinstance(message, Corrections):
                for receiver, sources in self._routes.items():
                    if name in sources:
                        self._devices[receiver].on_command(message, now_ns)
                        self._collect(receiver, now_ns)
        self._collect(name, now_ns)

    def _collect(self, name: str, now_ns: int) -> None:
        self._out += [Outgoing(now_ns, name, action) for action in self._devices[name].take_tx()]

"""The actuator devices of a vehicle, seen as one: what each of them lacks stops all, and their
telemetry becomes one status.

A status is made when every device has reported anew. So as soon as one of them is silent there is
none, and the rules about lost telemetry act as they do for a single controller.
"""

from collections.abc import Mapping
from math import isfinite, sqrt

from msgspec import Struct

from vehicled.core.messages import ActuatorStatus, Message, MotorStatus, PortState, WheelSpeed
from vehicled.core.messages.base import NAN
from vehicled.core.ports import Device


class ActuatorRole(Struct, frozen=True, kw_only=True):
    """Part that one device has in the vehicle's motion."""

    drives: bool = True
    """False for a device that only steers."""
    reports: frozenset[type[Message]] = frozenset()
    """Telemetry that the profile expects from it."""


class Actuation:
    """Actuator devices by port."""

    def __init__(self, devices: Mapping[str, Device], roles: Mapping[str, ActuatorRole]) -> None:
        self._devices = {port: devices[port] for port in roles}
        self._roles = dict(roles)
        self._unreachable = dict.fromkeys(roles, "its port is not open yet")
        self._joint = len(roles) > 1
        self._newest: dict[type[Message], dict[str, Message]] = {MotorStatus: {}, WheelSpeed: {}}
        self._awaited: dict[type[Message], set[str]] = {
            kind: self._expected(kind) for kind in self._newest
        }

    @property
    def ports(self) -> tuple[str, ...]:
        """Ports of the devices, in the order of the profile."""
        return tuple(self._devices)

    def on_port(self, port: str, state: PortState, detail: str) -> None:
        """Note the state of a port, of any device."""
        if port in self._unreachable:
            self._unreachable[port] = "" if state is PortState.OPENED else detail

    @property
    def unreachable(self) -> str:
        """Reason why a port is not open, of every device that has one; empty if all can be
        reached."""
        return self._joined(self._unreachable)

    @property
    def refusal(self) -> str:
        """Reason why a throttle would be refused, of every device that has one; empty if all would
        drive."""
        return self._joined(self.refusals)

    @property
    def refusals(self) -> dict[str, str]:
        """Reason of each device; empty for one that would drive."""
        return {port: device.refusal for port, device in self._devices.items()}

    @property
    def awaited(self) -> str:
        """Names of the devices that have not reported since the last status of all; empty for a
        single device."""
        waiting = self._awaited[MotorStatus]
        return ", ".join(port for port in self._devices if port in waiting) if self._joint else ""

    def joined(self, port: str, message: Message) -> tuple[Message | None, Message | None]:
        """Return the record of a device's message, and what the tasks receive in its place; None
        for nothing.

        Messages that are no telemetry, and all of a single device, pass unchanged.
        """
        kind = type(message)
        if not self._joint or port not in self._roles or kind not in self._newest:
            return message, message
        newest, awaited = self._newest[kind], self._awaited[kind]
        newest[port] = message
        awaited.discard(port)
        # A wheel speed of one device alone is no speed of the vehicle, and has no record of its
        # own.
        record = _record(port, message) if isinstance(message, MotorStatus) else None
        if awaited or not self._expected(kind):
            return record, None
        self._awaited[kind] = self._expected(kind)
        return record, self._motor_status() if kind is MotorStatus else self._wheel_speed()

    def _expected(self, kind: type[Message]) -> set[str]:
        return {port for port, role in self._roles.items() if kind in role.reports}

    def _joined(self, reasons: Mapping[str, str]) -> str:
        if not self._joint:
            return next(iter(reasons.values()), "")
        return "; ".join(f"{port}: {reason}" for port, reason in reasons.items() if reason)

    def _motor_status(self) -> MotorStatus:
        found = {
            port: each
            for port, each in self._newest[MotorStatus].items()
            if isinstance(each, MotorStatus)
        }
        driving = [each for port, each in found.items() if self._roles[port].drives]
        every = list(found.values())
        return MotorStatus(
            min(each.t_ns for each in every),
            max(each.t_rx_ns for each in every),
            _mean([each.motor_speed_radps for each in driving]),
            _sum([each.motor_current_a for each in driving]),
            _sum([each.input_current_a for each in every]),
            min(
                (each.input_voltage_v for each in every if isfinite(each.input_voltage_v)),
                default=NAN,
            ),
            _mean([each.duty for each in driving]),
            max(
                (
                    each.controller_temperature_k
                    for each in every
                    if isfinite(each.controller_temperature_k)
                ),
                default=NAN,
            ),
            max(
                (each.motor_temperature_k for each in every if isfinite(each.motor_temperature_k)),
                default=NAN,
            ),
            next((each.fault_code for each in every if each.fault_code), 0),
        )

    def _wheel_speed(self) -> WheelSpeed:
        every = [each for each in self._newest[WheelSpeed].values() if isinstance(each, WheelSpeed)]
        return WheelSpeed(
            min(each.t_ns for each in every),
            max(each.t_rx_ns for each in every),
            _mean([each.speed_mps for each in every]),
            sqrt(sum(each.sigma_mps**2 for each in every)) / len(every),
        )


def _record(port: str, status: MotorStatus) -> ActuatorStatus:
    return ActuatorStatus(
        status.t_ns,
        status.t_rx_ns,
        port,
        status.motor_speed_radps,
        status.motor_current_a,
        status.input_current_a,
        status.input_voltage_v,
        status.duty,
        status.controller_temperature_k,
        status.motor_temperature_k,
        status.fault_code,
    )


def _mean(values: list[float]) -> float:
    """Return the mean; NaN if one is not known, because half of the sides is no speed of the
    vehicle."""
    return sum(values) / len(values) if values else NAN


def _sum(values: list[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return sum(known) if known else NAN

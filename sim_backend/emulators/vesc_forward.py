"""Emulator of a VESC on a serial line that forwards for others on its CAN bus.

Forwarded packets pass the bus without delay; a reply does not name its sender, as in the firmware.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from drivers.vesc.comm import Forward, decode_comm
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import SerialLine, baud_of
from sim_backend.emulators.vesc import VescUartUnit, configuration
from vehicled.core.messages import Message
from vehicled.profile.schema import Choice, DeviceTable

MOTORS = ("motor", "motor_2", "motor_3", "motor_4")


class VescForwardUnit(VescUartUnit):
    """The controller on the line, and those behind it."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        params: Any = device.driver.selected
        tables = [
            (number, _table(device, each, MOTORS[k]))
            for k, (number, each) in enumerate(params.one_by_one)
        ]
        (number, table), *others = tables
        super().__init__(port, table, seed, start_ns, conf=_conf(table, number))
        self.behind = {
            each: VescUartUnit(f"{port}/{each}", own, seed, start_ns, conf=_conf(own, each))
            for each, own in others
        }
        """Controllers behind it, by their id."""
        self._now = [DriveCommand(start_ns, 0.0, 0.0, 0.0)] * len(tables)

    @property
    def _units(self) -> list[VescUartUnit]:
        return [self, *self.behind.values()]

    def on_message(self, message: Message, now_ns: int) -> None:
        super().on_message(message, now_ns)
        for unit in self.behind.values():
            unit.on_message(message, now_ns)

    def next_due_ns(self) -> int:
        return min(super().next_due_ns(), *(unit.next_due_ns() for unit in self.behind.values()))

    def on_time(self, now_ns: int) -> None:
        super().on_time(now_ns)
        for unit in self.behind.values():
            unit.on_time(now_ns)

    def restart(self, now_ns: int) -> None:
        super().restart(now_ns)
        for unit in self.behind.values():
            unit.restart(now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Inject a failure into the last controller behind it."""
        list(self.behind.values())[-1].inject(kind, value, active, now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drain the commands as outputs of all controllers."""
        taken = [list(super().take_commands())]
        taken += [list(unit.take_commands()) for unit in self.behind.values()]
        if not any(taken):
            return []
        for k, commands in enumerate(taken):
            self._now[k] = commands[-1] if commands else self._now[k]
        first, *others = self._now
        throttles = [command.throttle for command in self._now]
        return [
            DriveCommand(
                max(command.t_ns for command in self._now),
                sum(throttles) / len(throttles),
                sum(command.brake for command in self._now) / len(self._now),
                first.steering,
                (first.throttle, first.steering, *(command.throttle for command in others)),
            )
        ]

    def _answer(self, payload: bytes, now_ns: int) -> bytes | None:
        message = decode_comm(payload)[1]
        if isinstance(message, Forward) and message.controller_id in self.behind:
            return self.behind[message.controller_id].reply_to(message.payload, now_ns)
        return super()._answer(payload, now_ns)


def _conf(table: DeviceTable, number: int) -> Any:
    return structs.replace(configuration(table), controller_id=number)


def _table(device: DeviceTable, params: Any, motor: str) -> DeviceTable:
    """Return the table of one controller, as if it were alone."""
    mix = {"motor": device.mix[motor]} if motor in device.mix else {}
    driver = Choice(name="vesc_uart", params={"vesc_uart": params})
    return structs.replace(device, driver=driver, mix=mix)


class VescForwardEmulator(SerialLine):
    """VESC on a serial port with others behind it."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        self.unit = VescForwardUnit(port, device, seed, start_ns)
        """Controller without its wire."""
        super().__init__(self.unit, port, seed, start_ns, host_baud=baud_of(device.port))

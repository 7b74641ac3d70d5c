"""Emulator of a Sabertooth by packet serial: powers of two channels and its timeout; it sends
nothing.

Facts: drivers/motor/NOTES.md.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from drivers.motor.sabertooth import (
    BACKWARD,
    FULL_POWER,
    MOTOR_1,
    MOTOR_2,
    SERIAL_TIMEOUT,
    TIMEOUT_STEP_MS,
    SabertoothParams,
    SabertoothReader,
)
from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.line import LineDevice, baud_of, on_its_line
from sim_backend.emulators.motor_stage import OWN_TIMEOUT
from sim_backend.emulators.vesc_motor import HOLD_NS
from vehicled.profile.schema import DeviceTable


class SabertoothUnit(LineDevice):
    """Motor driver as a :class:`sim_backend.emulators.line.LineDevice`. Its timeout is off until it
    is set, as after power-on."""

    kinds: Mapping[str, float] = MappingProxyType({OWN_TIMEOUT: 1.0})

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(baud_of(device.port))
        self._params: SabertoothParams = device.driver.selected
        self._deaf = False
        self.restart(start_ns)

    def restart(self, now_ns: int) -> None:
        self._reader = SabertoothReader()
        self.timeout_ns = 0
        """Command timeout, ns; 0 for none."""
        self._powers = [0.0, 0.0]
        self._expiry_ns = NEVER_NS
        self._hold_ns = now_ns

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Lose commands inside the motor driver."""
        self._deaf = active

    def next_due_ns(self) -> int:
        return min(self._hold_ns, self._expiry_ns)

    def on_time(self, now_ns: int) -> None:
        """Repeat the outputs, and stop the motors at the timeout."""
        if now_ns >= self._expiry_ns:
            self._powers, self._expiry_ns = [0.0, 0.0], NEVER_NS
        self._emit(now_ns)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for packet in self._reader.feed(data):
            if packet.address != self._params.address or self._deaf:
                continue
            if packet.command == SERIAL_TIMEOUT:
                self.timeout_ns = packet.data * TIMEOUT_STEP_MS * 1_000_000
            elif packet.command & ~BACKWARD in (MOTOR_1, MOTOR_2):
                power = packet.data / FULL_POWER / self._params.max_power
                self._powers[packet.command >> 2] = -power if packet.command & BACKWARD else power
            self._expiry_ns = now_ns + self.timeout_ns if self.timeout_ns else NEVER_NS
        self._emit(now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        taken, self._commands = self._commands[-1:], []
        return taken

    def _emit(self, now_ns: int) -> None:
        first, second = self._powers
        self._commands.append(
            DriveCommand(now_ns, 0.5 * (first + second), 0.0, 0.0, (first, second))
        )
        self._hold_ns = now_ns + HOLD_NS


sabertooth = on_its_line(SabertoothUnit)

"""Emulator of a RoboClaw by packet serial: duties and speeds of two channels, answers, command
timeout, errors.

Facts: drivers/motor/NOTES.md.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from drivers.motor.roboclaw import (
    ACK,
    CURRENTS,
    DUTIES,
    ERRORS,
    FULL_DUTY,
    GET_TIMEOUT,
    MAIN_BATTERY,
    RAW_SPEEDS,
    SPEEDS,
    TEMPERATURE,
    TIMEOUT_STEP_MS,
    WRITES,
    RoboclawParams,
    RoboclawReader,
    encode_answer,
)
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import AnsweringDevice, baud_of, on_its_line
from sim_backend.emulators.motor_stage import FAULT, OWN_TIMEOUT, MotorScales, MotorStages, signs_of
from vehicled.core.messages import Message, MotorStatus
from vehicled.profile.schema import DeviceTable

ESTOP = 1
PACKET_NS = 10_000_000
"""Pause after which an incomplete packet is forgotten."""
ANSWER_NS = 500_000


class RoboclawUnit(AnsweringDevice):
    """Controller as a :class:`sim_backend.emulators.line.LineDevice`, set up as the driver's table
    expects."""

    kinds: Mapping[str, float] = MappingProxyType({FAULT: float(ESTOP), OWN_TIMEOUT: 1.0})

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(baud_of(device.port))
        params: RoboclawParams = device.driver.selected
        self._params = params
        self.timeout_steps = params.timeout_ms // TIMEOUT_STEP_MS
        """Command timeout in steps of 100 ms; 0 for none."""
        self._reader = RoboclawReader(params.address)
        scales = MotorScales(
            max_duty=params.max_duty,
            max_speed_mps=params.max_speed_mps,
            erpm_per_mps=params.counts_per_m,
        )
        timeout_ms = self.timeout_steps * TIMEOUT_STEP_MS
        self.stages = MotorStages(scales, signs_of(("m1", "m2"), device.mix), timeout_ms, start_ns)
        self.errors = 0
        self._received_ns = 0

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, MotorStatus):
            self.stages.observe(message, self._params.counts_per_turn, now_ns)

    def next_due_ns(self) -> int:
        return min(super().next_due_ns(), self.stages.next_due_ns())

    def on_time(self, now_ns: int) -> None:
        self.stages.on_time(now_ns)
        super().on_time(now_ns)

    def restart(self, now_ns: int) -> None:
        self._reader.clear()
        self.errors = 0
        self.stages.restart(now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        if kind == OWN_TIMEOUT:
            self.stages.lose(active)
        else:
            self.errors = round(value) if active else 0
            self.stages.release(now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        return self.stages.take_commands()

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        if now_ns - self._received_ns > PACKET_NS:
            self._reader.clear()
        self._received_ns = now_ns
        if not self.stages.sampled:
            return
        for command, values in self._reader.feed(data):
            if command in WRITES:
                self._obey(command, values, now_ns)
                self.answer(ACK, now_ns, ANSWER_NS)
            else:
                # Any packet restarts the timeout.
                self.stages.feed(now_ns)
                self.answer(
                    encode_answer(self._params.address, command, self._values(command)),
                    now_ns,
                    ANSWER_NS,
                )

    def _obey(self, command: int, values: tuple[int, ...], now_ns: int) -> None:
        for channel, value in enumerate(values):
            if self.errors:
                self.stages.duty(channel, 0.0, now_ns)
            elif command == DUTIES:
                self.stages.duty(channel, value / FULL_DUTY, now_ns)
            elif command == SPEEDS:
                self.stages.speed(channel, float(value), now_ns)

    def _values(self, command: int) -> tuple[int, ...]:
        stages, per_turn = self.stages, self._params.counts_per_turn
        current = round(50.0 * stages.current_a)
        values: dict[int, tuple[int, ...]] = {
            GET_TIMEOUT: (self.timeout_steps,),
            MAIN_BATTERY: (round(10.0 * stages.voltage_v),),
            CURRENTS: (current, current),
            RAW_SPEEDS: tuple(round(per_turn * turns) for turns in stages.turns_per_s),
            TEMPERATURE: (300,),
            ERRORS: (self.errors,),
        }
        return values[command]


roboclaw = on_its_line(RoboclawUnit)

"""Emulator of a PCA9685 board behind an I2C bus: registers, sleep, prescaler, the pulses of two
channels. Facts: drivers/motor/NOTES.md.

Its outputs repeat the last pulse for ever. A dip of its supply, the failure ``fault``, puts it to
sleep with the registers of its start.
"""

from collections.abc import Mapping
from types import MappingProxyType

from drivers.motor.pca9685 import (
    AUTO_INCREMENT,
    CHANNELS,
    LED0_ON_L,
    MODE1,
    MODE2,
    PRE_SCALE,
    RESTART,
    SLEEP,
    TICKS,
    TOTEM_POLE,
    Pca9685Params,
    pulse_of,
)
from sim_backend.emulators.line import on_its_line
from sim_backend.emulators.motor_stage import FAULT
from sim_backend.emulators.pwm_board import PwmBoardUnit
from sim_backend.emulators.vesc_motor import HOLD_NS
from vehicled.core.wire.i2c import I2cRequest, I2cRequestReader
from vehicled.profile.schema import DeviceTable

ALL_CALL = 0x01
STARTS = {MODE1: SLEEP | ALL_CALL, MODE2: TOTEM_POLE, PRE_SCALE: 30}
"""Registers after power on; all others are 0."""
LAST_LED = LED0_ON_L + 4 * CHANNELS - 1


class Pca9685Unit(PwmBoardUnit):
    """Board as a :class:`sim_backend.emulators.line.LineDevice`; its line is the bus."""

    kinds: Mapping[str, float] = MappingProxyType({FAULT: 0.0})

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        params: Pca9685Params = device.driver.selected
        self._own = params
        self._hold_ns = start_ns
        super().__init__(port, device, seed, start_ns)
        self._baud = 0

    def _begin(self) -> None:
        super()._begin()
        self._reader = I2cRequestReader()
        self.registers = dict(STARTS)
        """Registers that differ from 0, by number."""

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Let the supply dip: the registers are those of the start."""
        if active:
            self.registers = dict(STARTS)
            self._emit(now_ns)

    def next_due_ns(self) -> int:
        return self._hold_ns

    def on_time(self, now_ns: int) -> None:
        """Repeat the outputs."""
        self._emit(now_ns)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for request in self._reader.feed(data):
            self._take(request)
        self._emit(now_ns)

    def _take(self, request: I2cRequest) -> None:
        at, *values = request.written or b"\0"
        if pulse_of(request) is not None:
            self.frames += 1
        for value in values:
            # The prescaler is taken asleep only.
            if at != PRE_SCALE or self.registers.get(MODE1, 0) & SLEEP:
                self.registers[at] = value & ~RESTART if at == MODE1 else value
            if self.registers.get(MODE1, 0) & AUTO_INCREMENT:
                at = MODE1 if at == LAST_LED else (at + 1) % 256
        if request.read:
            self._tx.append(
                bytes(self.registers.get((at + k) % 256, 0) for k in range(request.read))
            )

    def _pulse_us(self, channel: int) -> float:
        """Return the pulse of a channel, us; 0 for none."""
        if self.registers.get(MODE1, 0) & SLEEP:
            return 0.0
        first = LED0_ON_L + 4 * channel
        on, off = (
            self.registers.get(first + k, 0) | (self.registers.get(first + k + 1, 0) & 0x0F) << 8
            for k in (0, 2)
        )
        prescale = self.registers.get(PRE_SCALE, 0)
        return (off - on) % TICKS * (prescale + 1) / self._own.oscillator_hz * 1e6

    def _emit(self, now_ns: int) -> None:
        own = self._own
        drive_us, servo_us = self._pulse_us(own.drive_channel), self._pulse_us(own.servo_channel)
        # Without pulses the speed controller stops by its own failsafe, and the servo stays.
        self._drive_us = drive_us or own.drive_neutral_us
        self._servo_us = servo_us or self._servo_us
        self._commands.append(self._command(now_ns))
        self._hold_ns = now_ns + HOLD_NS


pca9685 = on_its_line(Pca9685Unit)

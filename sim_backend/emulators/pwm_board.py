"""The ART's board at the far end of its line: two pulse widths in, nothing out.

The pulses become normalised commands again by the calibration in the driver's table. What the board and the servo then make of them
in time (neutral after silence, following in steps) is in ``[sim]``: it was identified on the vehicle with the board in between.
"""

from collections.abc import Sequence

from drivers.pwm_board.codec import BAUD, BOARD_MAX_US, BOARD_MIN_US, Decoder
from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.line import SerialLine, baud_of
from vehicled.messages import Message
from vehicled.profile.schema import Device


class PwmBoardUnit:
    """See :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, device: Device) -> None:
        self._params = device.driver.selected
        self._commands: list[DriveCommand] = []
        self.frames = 0
        """Frames understood."""
        self.ignored_pulses = 0
        """Pulse widths outside of what the board obeys."""
        self._dropped_bytes = 0
        self._decoder = Decoder()
        self._begin()

    def _begin(self) -> None:
        self._dropped_bytes += self._decoder.dropped_bytes
        self._decoder = Decoder()
        self._servo_us = self._params.steering_center_us
        self._drive_us = self._params.drive_neutral_us

    @property
    def baud(self) -> int:
        """Compiled into the board."""
        return BAUD

    @property
    def dropped_bytes(self) -> int:
        """Bytes of the daemon that the board skipped, those that were sent to be skipped included."""
        return self._dropped_bytes + self._decoder.dropped_bytes

    def restart(self, now_ns: int) -> None:
        """It waits for pulses again."""
        self._begin()

    def on_message(self, message: Message, now_ns: int) -> None:
        """Senses nothing."""

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Frames to commands. A width that the board does not obey leaves that output where it was."""
        for pulses in self._decoder.feed(data):
            self.frames += 1
            if BOARD_MIN_US <= pulses.servo_us <= BOARD_MAX_US:
                self._servo_us = float(pulses.servo_us)
            else:
                self.ignored_pulses += 1
            if BOARD_MIN_US <= pulses.drive_us <= BOARD_MAX_US:
                self._drive_us = float(pulses.drive_us)
            else:
                self.ignored_pulses += 1
            self._commands.append(self._command(now_ns))

    def next_due_ns(self) -> int:
        """Acts on frames only."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> None:
        """No duties."""

    def take_tx(self) -> Sequence[bytes]:
        """It never answers."""
        return ()

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands understood."""
        if not self._commands:
            return ()
        commands, self._commands = self._commands, []
        return commands

    def _command(self, now_ns: int) -> DriveCommand:
        params = self._params
        drive_us = self._drive_us - params.drive_neutral_us
        throttle = _share(drive_us, params.throttle_range_us)
        brake = _share(drive_us, params.brake_range_us)
        steering = _share(self._servo_us - params.steering_center_us, params.steering_range_us)
        return DriveCommand(now_ns, max(throttle, 0.0), max(brake, 0.0), steering)


def _share(pulse_us: float, range_us: float) -> float:
    """Part of the range, -1 to 1; 0 of an output without a range."""
    return min(max(pulse_us / range_us, -1.0), 1.0) if range_us else 0.0


def pwm_board(port: str, device: Device, seed: int, start_ns: int) -> SerialLine:
    """A board on its line, as the registry wants it."""
    return SerialLine(PwmBoardUnit(device), port, seed, start_ns, host_baud=baud_of(device.port))

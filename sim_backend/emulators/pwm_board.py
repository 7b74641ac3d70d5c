"""Emulator of the ART's PWM board: takes two pulse widths, sends nothing.

The driver's calibration converts pulses back to normalised commands. The dynamics of board and
servo (neutral after silence, rate limits) are in ``[sim]``: they were identified on the vehicle
with the board included.
"""

from drivers.pwm_board.codec import BAUD, BOARD_MAX_US, BOARD_MIN_US, PwmDecoder
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import LineDevice, on_its_line
from vehicled.profile.schema import DeviceTable

FELT_SHARE = 0.1
"""Dead band of the speed controller around neutral, relative to the range."""
ARMING_NS = 100_000_000
"""Time at neutral after braking that arms reverse."""


class PwmBoardUnit(LineDevice):
    """PWM board as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(BAUD)
        self._params = device.driver.selected
        self.frames = 0
        """Number of decoded frames."""
        self._dropped_bytes = 0
        self._decoder = PwmDecoder()
        self._begin()

    def _begin(self) -> None:
        self._dropped_bytes += self._decoder.dropped_bytes
        self._decoder = PwmDecoder()
        self._servo_us = self._params.steering_center_us
        self._drive_us = self._params.drive_neutral_us
        # State of the speed controller: braked, then neutral since, then armed to reverse.
        self._braked = self._armed = False
        self._neutral_ns: int | None = None

    @property
    def dropped_bytes(self) -> int:
        """Number of the daemon's bytes that the board skipped, including intended padding."""
        return self._dropped_bytes + self._decoder.dropped_bytes

    def restart(self, now_ns: int) -> None:
        """Forget the pulses."""
        self._begin()

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Decode frames to commands. An output keeps its value if its pulse width is out of
        range."""
        for pulses in self._decoder.feed(data):
            self.frames += 1
            if BOARD_MIN_US <= pulses.servo_us <= BOARD_MAX_US:
                self._servo_us = float(pulses.servo_us)
            if BOARD_MIN_US <= pulses.drive_us <= BOARD_MAX_US:
                self._drive_us = float(pulses.drive_us)
            self._commands.append(self._command(now_ns))

    def _command(self, now_ns: int) -> DriveCommand:
        params = self._params
        drive_us = self._drive_us - params.drive_neutral_us
        throttle = max(_fraction(drive_us, params.throttle_range_us), 0.0)
        brake = max(_fraction(drive_us, params.brake_range_us), 0.0)
        steering = _fraction(self._servo_us - params.steering_center_us, params.steering_range_us)
        back = max(_fraction(drive_us, params.reverse_range_us), 0.0)
        if params.reverse_range_us:
            self._remember(throttle, back, now_ns)
        if back and (self._armed or not params.reverse_pull_s):
            return DriveCommand(now_ns, -back, 0.0, steering)
        return DriveCommand(now_ns, throttle, brake, steering)

    def _remember(self, throttle: float, back: float, now_ns: int) -> None:
        """Apply the logic of a speed controller that brakes on the first pull and reverses on the
        second."""
        if throttle > FELT_SHARE:
            self._braked = self._armed = False
        elif back > FELT_SHARE:
            self._braked, self._neutral_ns = True, None
        elif self._neutral_ns is None:
            self._neutral_ns = now_ns
        if self._braked and self._neutral_ns is not None and now_ns - self._neutral_ns >= ARMING_NS:
            self._armed = True


def _fraction(pulse_us: float, range_us: float) -> float:
    """Return the fraction of the range, -1 to 1; 0 if the output has no range."""
    return min(max(pulse_us / range_us, -1.0), 1.0) if range_us else 0.0


pwm_board = on_its_line(PwmBoardUnit)

"""A Wheeltec N100 at the far end of its line: talks by itself, by its own clock, in its own axes.

With every inertial sample it sends an IMU packet (0x40) and its attitude (AHRS, 0x41). Where the profile expects a heading of it,
the attitude comes with every value of the heading model instead; otherwise it is the integrated gyro, which nobody is meant to use.
"""

from collections.abc import Sequence
from math import atan2, cos, isfinite, pi, sin, tau

from drivers.imu.n100 import AhrsPacket, ImuPacket, encode_ahrs, encode_imu
from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.line import SerialLine, baud_of
from sim_backend.sensors.noise import stream
from vehicled.messages import Heading, ImuSample, Message
from vehicled.profile.schema import Device

BAUD = 921_600
CRYSTAL_PPM = 15.0
"""Standard deviation of the error of its clock, as of a cheap crystal."""
LONGEST_UPTIME_S = 60.0
"""It was switched on before the run began, at most so long ago."""
CASE_CELSIUS = 40.0
ZERO_CELSIUS_K = 273.15
NO_BAROMETER_PA = 101_325.0
"""What it reports for ever without one."""
EARTH_FIELD_MG = (200.0, 0.0, 450.0)
"""North, east, down."""

Vector = tuple[float, ...]


class N100Unit:
    """See :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int) -> None:
        params = device.driver.selected
        self._columns = _columns(params.mounting_roll_rad, params.mounting_pitch_rad, params.mounting_yaw_rad)
        # The yaw of the body is that of the case's x axis, less where the mounting has turned it to, plus the offset.
        x_axis = self._columns[0]
        self._yaw_shift_rad = atan2(x_axis[1], x_axis[0]) - params.yaw_offset_rad
        self._follows_headings = "Heading" in device.messages
        chance = stream(seed, f"{port}/clock")
        self._rate = 1.0 + CRYSTAL_PPM * 1e-6 * float(chance.standard_normal())
        self._boot_ns = start_ns - round(float(chance.uniform(1.0, LONGEST_UPTIME_S)) * 1e9)
        self._sn = 0
        self._yaw_rad = 0.0
        self._sampled_ns = start_ns
        self._turning: Vector = (0.0, 0.0, 0.0)
        self._tx: list[bytes] = []

    @property
    def baud(self) -> int:
        """Set with the vendor's tool, never by the daemon."""
        return BAUD

    @property
    def rate_ppm(self) -> float:
        """How much faster its clock runs than ours."""
        return (self._rate - 1.0) * 1e6

    def restart(self, now_ns: int) -> None:
        """Clock, serial numbers and attitude begin anew."""
        self._boot_ns = now_ns
        self._sn = 0
        self._yaw_rad = 0.0
        self._tx.clear()

    def on_message(self, message: Message, now_ns: int) -> None:
        """Samples and headings, stamped with the device's time of validity."""
        if isinstance(message, ImuSample):
            self._sample(message)
        elif isinstance(message, Heading) and isfinite(message.yaw_rad):
            self._attitude(message.yaw_rad + self._yaw_shift_rad, message.t_ns)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Takes no orders that matter here."""

    def next_due_ns(self) -> int:
        """Its samples come from the model of the sensor."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> None:
        """No duties."""

    def take_tx(self) -> Sequence[bytes]:
        """Packets."""
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drives nothing."""
        return ()

    def _sample(self, sample: ImuSample) -> None:
        self._turning = gyro = self._device_axes(sample.angular_rate_radps)
        celsius = sample.temperature_k - ZERO_CELSIUS_K if isfinite(sample.temperature_k) else CASE_CELSIUS
        force = self._device_axes(sample.specific_force_mps2)
        heading_rad = pi / 2 - self._yaw_rad
        north, _, down = EARTH_FIELD_MG
        field = (north * cos(heading_rad), -north * sin(heading_rad), down)
        packet = ImuPacket(gyro, force, field, celsius, NO_BAROMETER_PA, celsius, self._clock_us(sample.t_ns))
        self._tx.append(encode_imu(packet, self._number()))
        if not self._follows_headings:
            self._yaw_rad += -gyro[2] * (sample.t_ns - self._sampled_ns) * 1e-9
            self._attitude(self._yaw_rad, sample.t_ns)
        self._sampled_ns = sample.t_ns

    def _attitude(self, yaw_rad: float, t_ns: int) -> None:
        """``yaw_rad`` of the case's x axis, from east."""
        self._yaw_rad = yaw_rad
        heading_rad = (pi / 2 - yaw_rad) % tau
        quaternion = (cos(heading_rad / 2), 0.0, 0.0, sin(heading_rad / 2))
        packet = AhrsPacket(self._turning, 0.0, 0.0, heading_rad, quaternion, self._clock_us(t_ns))
        self._tx.append(encode_ahrs(packet, self._number()))

    def _clock_us(self, t_ns: int) -> int:
        return max(0, round((t_ns - self._boot_ns) * self._rate / 1000.0))

    def _number(self) -> int:
        number, self._sn = self._sn, (self._sn + 1) & 0xFF
        return number

    def _device_axes(self, body: Vector) -> Vector:
        """From the vehicle's forward, left, up to the case's forward, right, down."""
        x, y, z = (column[0] * body[0] + column[1] * body[1] + column[2] * body[2] for column in self._columns)
        return x, -y, -z


def _columns(roll: float, pitch: float, yaw: float) -> tuple[Vector, Vector, Vector]:
    """Axes of the case in the vehicle: columns of Rz(yaw) Ry(pitch) Rx(roll)."""
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    return (
        (cy * cp, sy * cp, -sp),
        (cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr),
        (cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr),
    )


def n100(port: str, device: Device, seed: int, start_ns: int) -> SerialLine:
    """A unit on its line, as the registry wants it."""
    return SerialLine(N100Unit(port, device, seed, start_ns), port, seed, start_ns, host_baud=baud_of(device.port))

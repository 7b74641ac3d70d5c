"""Emulator of a Wheeltec N100: sends unasked, by its own clock, in its own axes.

Each inertial sample sends an IMU packet (0x40) and the attitude (AHRS, 0x41). If the profile
expects a heading, the attitude comes with each value of the heading model instead; otherwise it is
the integrated gyro, which must not be used.
"""

from math import cos, sin, tau

from drivers.imu.n100 import AhrsPacket, ImuPacket, encode_ahrs, encode_imu
from sim_backend.emulators.inertial import (
    ImuReading,
    InertialUnit,
    Vector,
    clockwise_from_north,
    euler,
    frd,
)
from sim_backend.emulators.line import on_its_line
from vehicled.profile.schema import DeviceTable

BAUD = 921_600
"""Line rate, set with the vendor's tool, never by the daemon."""
NO_BAROMETER_PA = 101_325.0
"""Constant pressure reported without a barometer."""
EARTH_FIELD_MG = (200.0, 0.0, 450.0)
"""Field of the earth, north, east, down."""


class N100Unit(InertialUnit):
    """N100 as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns, BAUD)
        self._turning: Vector = (0.0, 0.0, 0.0)
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._sn = 0

    def _sample(self, measured: ImuReading) -> None:
        self._turning = gyro = frd(measured.rate_radps)
        heading_rad = clockwise_from_north(euler(self.attitude())[2])
        north, _, down = EARTH_FIELD_MG
        field = (north * cos(heading_rad), -north * sin(heading_rad), down)
        celsius, clock_us = measured.celsius, round(self.clock_ns(measured.t_ns) / 1000)
        packet = ImuPacket(
            gyro, frd(measured.force_mps2), field, celsius, NO_BAROMETER_PA, celsius, clock_us
        )
        self.send(encode_imu(packet, self._number()))
        if not self._follows_headings:
            self._on_heading(measured.t_ns, self._turned_rad)

    def _on_heading(self, t_ns: int, turned_rad: float) -> None:
        quaternion = self.attitude(ned=True, turned_rad=turned_rad)
        roll_rad, pitch_rad, yaw_rad = euler(quaternion)
        attitude = (self._turning, roll_rad, pitch_rad, yaw_rad % tau, quaternion)
        self.send(
            encode_ahrs(AhrsPacket(*attitude, round(self.clock_ns(t_ns) / 1000)), self._number())
        )

    def _number(self) -> int:
        number, self._sn = self._sn, (self._sn + 1) & 0xFF
        return number


n100 = on_its_line(N100Unit)

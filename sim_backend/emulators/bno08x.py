"""Emulator of a BNO08x in UART-RVC mode: 100 frames a second by its own clock, without gyro; it
takes no commands.

Its yaw is relative to its direction at switch-on: the profile's ``yaw_offset_rad`` gives the
reference, which is wrong after a brown-out.
"""

from drivers.imu.bno08x import PERIOD_NS, RvcPacket, encode
from sim_backend.emulators.inertial import ImuReading, InertialUnit, Vector, euler
from sim_backend.emulators.line import on_its_line
from vehicled.core.messages import Heading, Message
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
"""Fixed line rate."""


class Bno08xUnit(InertialUnit):
    """BNO08x as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns, BAUD)
        self._clockwise = self.params.yaw_positive == "right"
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._index = 0
        self._frames = 0
        self._begun_ns = now_ns
        self._force: Vector = self._in_case((0.0, 0.0, STANDARD_GRAVITY_MPS2))
        self._zero_rad: float | None = None
        self._plan()

    def on_message(self, message: Message, now_ns: int) -> None:
        """Take a sensor value; its first direction is the yaw zero."""
        super().on_message(message, now_ns)
        if self._zero_rad is None and (isinstance(message, Heading) or not self._follows_headings):
            self._zero_rad = euler(self.attitude())[2]

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> None:
        """Send a frame with the newest values."""
        roll_rad, pitch_rad, yaw_rad = euler(self.attitude())
        turned_rad = yaw_rad - (yaw_rad if self._zero_rad is None else self._zero_rad)
        if self._clockwise:
            turned_rad = -turned_rad
        self.send(encode(RvcPacket(self._index, turned_rad, pitch_rad, roll_rad, self._force)))
        self._index = (self._index + 1) & 0xFF
        self._plan()

    def _plan(self) -> None:
        self._frames += 1
        self._due_ns = self._begun_ns + round(self._frames * PERIOD_NS / self._rate)

    def _sample(self, measured: ImuReading) -> None:
        self._force = measured.force_mps2


bno08x = on_its_line(Bno08xUnit)

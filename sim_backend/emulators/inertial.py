"""Common part of the IMU emulators: own clock, own axes, attitude, and samples sent in step.

A unit receives its sensor's measurement in the vehicle's axes when it is ready to leave. Its
attitude is the integrated gyro; if the profile expects a heading, the heading model corrects it, as
a compass would.
"""

from abc import ABC, abstractmethod
from collections import deque
from math import asin, atan2, cos, isfinite, pi, sin, sqrt
from typing import NamedTuple

from drivers.imu.base import deviation
from sim_backend.emulators.line import AnsweringDevice
from sim_backend.sensors.noise import stream
from vehicled.core.messages import Heading, ImuSample, Message
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K
from vehicled.profile.schema import DeviceTable

CRYSTAL_PPM = 15.0
"""Standard deviation of its clock error, as of a cheap crystal."""
LONGEST_UPTIME_S = 60.0
"""Longest time since switch-on at the start of the run."""
CASE_CELSIUS = 40.0
DEVIATION_STEPS = 30
"""Steps of the fixed point for the yaw that a compass shows; each is nearer by the size of the
deviation in radians."""
STILL_NOISE = 0.02
"""Noise of a sample without a model, m/s2 and rad/s."""
_RANGE_SHARE = 0.99
_REMEMBERED = 256
"""Number of samples with remembered yaw increments, because headings arrive later than samples."""
_EAST_NORTH = (0.0, sqrt(0.5), sqrt(0.5), 0.0)
_UPSIDE_DOWN = (0.0, 1.0, 0.0, 0.0)

Vector = tuple[float, ...]
Quaternion = tuple[float, float, float, float]
"""Quaternion w, x, y, z."""


class ImuReading(NamedTuple):
    """One sample. Axes of the case: forward, left, up."""

    t_ns: int
    force_mps2: Vector
    rate_radps: Vector
    celsius: float
    clipped: int
    """Saturated axes: bits 0 to 2 accelerometer, 3 to 5 gyro."""


class InertialUnit(AnsweringDevice, ABC):
    """IMU as a :class:`sim_backend.emulators.line.LineDevice`. Subclasses add the protocol."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int, baud: int) -> None:
        """``baud``: line rate of the unit, which the daemon never changes."""
        super().__init__(baud)
        self.params = device.driver.selected
        """Table of the driver: mounting and configuration of the unit."""
        roll, pitch, yaw = (
            getattr(self.params, f"mounting_{angle}_rad") for angle in ("roll", "pitch", "yaw")
        )
        self._mounting = quaternion_product(
            quaternion_product(_about(3, yaw), _about(2, pitch)), _about(1, roll)
        )
        self._columns = rotation_columns(self._mounting)
        self._follows_headings = Heading.__name__ in device.messages
        self._senses = ImuSample.__name__ in device.messages
        chance = stream(seed, f"{port}/clock")
        self._rate = 1.0 + CRYSTAL_PPM * 1e-6 * float(chance.standard_normal())
        self._boot_ns = start_ns - round(float(chance.uniform(1.0, LONGEST_UPTIME_S)) * 1e9)
        self.chance = stream(seed, f"{port}/habits")
        """Random source for differences between units."""
        self._sampled_ns = start_ns
        self._turned_rad = 0.0
        self._turns: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._heading_rad = 0.0

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def _sample(self, measured: ImuReading) -> None:
        """Take a new sample."""

    @abstractmethod
    def _begin(self, now_ns: int) -> None:
        """Reset everything outside the flash to the factory state."""

    def _on_heading(self, t_ns: int, turned_rad: float) -> None:
        """Take the yaw correction of a heading at ``t_ns``, when the integrated gyro was at
        ``turned_rad``."""
        return

    # ---------------------------------------------------------------- helpers of subclasses

    def clock_ns(self, t_ns: int) -> int:
        """Return the time since switch-on by its own clock."""
        return max(0, round((t_ns - self._boot_ns) * self._rate))

    def attitude(self, *, ned: bool = False, turned_rad: float | None = None) -> Quaternion:
        """Return the rotation from case to world: forward, left, up to east, north, up; or forward,
        right, down to north, east, down.

        ``turned_rad``: position of the integrated gyro, instead of the present one.
        """
        found = quaternion_product(
            _about(3, self._heading_rad + (self._turned_rad if turned_rad is None else turned_rad)),
            self._mounting,
        )
        return _in_ned(found) if ned else found

    def case_in_ned(self, roll_rad: float, pitch_rad: float, yaw_rad: float) -> Quaternion:
        """Return the rotation from case to north, east, down for an attitude of the vehicle, nose
        down positive."""
        body = quaternion_product(
            quaternion_product(_about(3, yaw_rad), _about(2, pitch_rad)), _about(1, roll_rad)
        )
        return _in_ned(quaternion_product(body, self._mounting))

    def send(self, frame: bytes) -> None:
        self._tx.append(frame)

    # ---------------------------------------------------------------- LineDevice interface

    def restart(self, now_ns: int) -> None:
        """Reset clock and attitude; a compass finds its direction again."""
        self._boot_ns = self._sampled_ns = now_ns
        self._turned_rad = 0.0
        if not self._follows_headings:
            self._heading_rad = 0.0
        self._turns.clear()
        self._tx.clear()
        self._answers.clear()
        self._begin(now_ns)

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, ImuSample):
            force = self._with_errors(self._in_case(message.specific_force_mps2))
            rate = self._in_case(message.angular_rate_radps)
            # Integrate about the vehicle's axis, because the vehicle turns on level ground.
            self._turned_rad += (
                message.angular_rate_radps[2] * (message.t_ns - self._sampled_ns) * 1e-9
            )
            self._sampled_ns = message.t_ns
            self._turns.append((message.t_ns, self._turned_rad))
            celsius = (
                message.temperature_k - ZERO_CELSIUS_K
                if isfinite(message.temperature_k)
                else CASE_CELSIUS
            )
            clipped = self._clipped(force, rate) if message.saturated else 0
            self._sample(ImuReading(message.t_ns, force, rate, celsius, clipped))
        elif isinstance(message, Heading) and isfinite(message.yaw_rad):
            then_rad = next(
                (turned for t_ns, turned in reversed(self._turns) if t_ns <= message.t_ns),
                self._turned_rad,
            )
            self._heading_rad = (
                self._shown_yaw(message.yaw_rad - self.params.yaw_offset_rad) - then_rad
            )
            self._on_heading(message.t_ns, then_rad)
            if not self._senses:
                # No model feeds this unit; it still sends samples, which are never identical.
                noise = self.chance.normal(0.0, STILL_NOISE, 6).tolist()
                force = self._in_case((noise[0], noise[1], STANDARD_GRAVITY_MPS2 + noise[2]))
                self._sample(ImuReading(message.t_ns, force, tuple(noise[3:]), CASE_CELSIUS, 0))

    def _in_case(self, body: Vector) -> Vector:
        """Rotate from the vehicle's axes to the case's."""
        x, y, z = self._columns
        return (
            x[0] * body[0] + x[1] * body[1] + x[2] * body[2],
            y[0] * body[0] + y[1] * body[1] + y[2] * body[2],
            z[0] * body[0] + z[1] * body[1] + z[2] * body[2],
        )

    def _with_errors(self, force: Vector) -> Vector:
        """Return what an accelerometer with the errors that the driver's table corrects
        measures."""
        scale, bias = self.params.accelerometer_scale, self.params.accelerometer_bias_mps2
        return (
            force[0] / scale[0] + bias[0],
            force[1] / scale[1] + bias[1],
            force[2] / scale[2] + bias[2],
        )

    def _shown_yaw(self, yaw_rad: float) -> float:
        """Return the yaw that a compass with the deviation in the driver's table shows."""
        shown_rad = yaw_rad
        if any(self.params.compass_deviation_rad):
            for _ in range(DEVIATION_STEPS):
                shown_rad = yaw_rad + deviation(self.params.compass_deviation_rad, shown_rad)
        return shown_rad

    def _clipped(self, force: Vector, rate: Vector) -> int:
        limits = (self.params.accelerometer_range_mps2,) * 3 + (self.params.gyro_range_radps,) * 3
        found = sum(
            [
                1 << i
                for i, (value, most) in enumerate(zip((*force, *rate), limits))
                if abs(value) >= _RANGE_SHARE * most
            ]
        )
        # The driver knows no range for it, so report all axes.
        return found or 0b111_111


class OutputSchedule:
    """Output at a fixed rate: it goes out with the first sample after each period."""

    def __init__(self, rate_hz: float) -> None:
        """``rate_hz`` 0 disables the output."""
        self.rate_hz = rate_hz
        self._period_ns = 1e9 / rate_hz if rate_hz > 0 else 0.0
        self._due_ns = 0.0

    def due(self, t_ns: int) -> bool:
        # Tolerate sample times rounded to the nanosecond.
        if not self._period_ns or t_ns + self._period_ns / 16 < self._due_ns:
            return False
        self._due_ns = max(self._due_ns + self._period_ns, t_ns)
        return True


def quaternion_product(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the product of two quaternions: first ``b``, then ``a``."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def rotation_columns(q: Quaternion) -> tuple[Vector, Vector, Vector]:
    """Return the columns of the rotation matrix: the rotated axes in the original frame."""
    w, x, y, z = q
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
        (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
        (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
    )


def euler(q: Quaternion) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of the sequence yaw, pitch, roll."""
    w, x, y, z = q
    return (
        atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


def frd(flu: Vector) -> Vector:
    """Convert forward, left, up to forward, right, down."""
    return flu[0], -flu[1], -flu[2]


def clockwise_from_north(yaw_rad: float) -> float:
    """Convert a yaw counter-clockwise from east to clockwise from north, 0 to 2 pi."""
    return (pi / 2 - yaw_rad) % (2 * pi)


def _in_ned(flu_to_enu: Quaternion) -> Quaternion:
    """Return the same rotation from forward, right, down to north, east, down."""
    return quaternion_product(quaternion_product(_EAST_NORTH, flu_to_enu), _UPSIDE_DOWN)


def _about(axis: int, angle_rad: float) -> Quaternion:
    q = [cos(angle_rad / 2), 0.0, 0.0, 0.0]
    q[axis] = sin(angle_rad / 2)
    return q[0], q[1], q[2], q[3]

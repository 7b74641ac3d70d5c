"""Monitor of the IMU: stuck, saturated, biased at standstill, and turned against its mounting."""

from math import acos, asin, atan2, cos, hypot, isfinite, nan, pi, sin, sqrt

from msgspec import Struct

from vehicled.core.clamp import clamp
from vehicled.core.messages import ImuSample
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2

STUCK_NS = 500_000_000
STUCK_SAMPLES = 20
MAX_VALUE = 1e3
STILL_TIME_S = 0.5
"""Time constant of the smoothed rate and force, s."""


SQUARE_RAD = 0.35
"""Largest angle, rad, from a mounting in right angles that counts as one: slope and mounting plate
are not exactly level."""


class Mounting(Struct, frozen=True, kw_only=True):
    """Mounting of the IMU by the profile: the rotation from its axes to those of the body, Rz(yaw)
    Ry(pitch) Rx(roll)."""

    table: str = ""
    """Table of the profile with ``mounting_roll_rad`` and so on; empty if its driver has none."""
    roll_rad: float = 0.0
    pitch_rad: float = 0.0
    yaw_rad: float = 0.0


class InertialMonitor:
    """Monitor of identical and saturated samples, with smoothed values for the arming check."""

    def __init__(self, mounting: Mounting | None = None) -> None:
        self._mounting = mounting or Mounting()
        self.stuck = False
        """True if accelerometer and gyro have not changed for half a second and twenty samples."""
        self.saturated_since_ns: int | None = None
        self.mean_rate_radps = 0.0
        """Magnitude of the smoothed angular rate, rad/s."""
        self.mean_force_mps2 = STANDARD_GRAVITY_MPS2
        """Magnitude of the smoothed specific force, m/s^2."""
        self.has_samples = False
        self.has_force = False
        self._last: tuple[tuple[float, ...], tuple[float, ...]] | None = None
        self._same = 0
        self._changed_ns = 0
        self._before_ns: int | None = None
        self._rate = (0.0, 0.0, 0.0)
        self._force = (0.0, 0.0, 0.0)
        self.forward_mps2 = nan
        """Mean specific force along the vehicle since the last tick, m/s^2; NaN without a sample in
        that time."""
        self.rest_mps2 = nan
        """The same at rest, before the present drive; NaN before the first drive."""
        self._forward_sum, self._forward_count = 0.0, 0

    def on_message(self, sample: ImuSample, now_ns: int) -> None:
        """Update from a sample. Its rates are finite; its forces are all finite or all missing."""
        has_force = isfinite(sample.specific_force_mps2[0])
        values = (sample.specific_force_mps2 if has_force else (), sample.angular_rate_radps)
        if values == self._last:
            self._same += 1
        else:
            self._last, self._same, self._changed_ns = values, 0, sample.t_rx_ns
        self.stuck = self._same >= STUCK_SAMPLES and sample.t_rx_ns - self._changed_ns >= STUCK_NS
        if not sample.saturated:
            self.saturated_since_ns = None
        elif self.saturated_since_ns is None:
            self.saturated_since_ns = sample.t_rx_ns
        before_ns, self._before_ns = self._before_ns, sample.t_rx_ns
        share = (
            1.0
            if before_ns is None
            else clamp((sample.t_rx_ns - before_ns) * 1e-9 / STILL_TIME_S, 0.0, 1.0)
        )
        self._rate = _towards(self._rate, sample.angular_rate_radps, share)
        if has_force:
            self._force = _towards(self._force, sample.specific_force_mps2, share)
            self._forward_sum += clamp(sample.specific_force_mps2[0], -MAX_VALUE, MAX_VALUE)
            self._forward_count += 1
        self.has_samples = True
        self.has_force = has_force

    @property
    def tilt_rad(self) -> float:
        """Angle between the smoothed specific force and up, rad, 0 to pi; 0 before the first sample
        with a force."""
        size = hypot(*self._force)
        return acos(clamp(self._force[2] / size, -1.0, 1.0)) if size > 0.0 else 0.0

    @property
    def roll_rad(self) -> float:
        """Angle between up and the smoothed specific force, seen from behind, rad, right side down
        positive."""
        return atan2(self._force[1], self._force[2])

    @property
    def pitch_rad(self) -> float:
        """The same seen from the side, rad, nose up positive."""
        return atan2(self._force[0], hypot(self._force[1], self._force[2]))

    @property
    def upward(self) -> str:
        """Name of the axis that points up, by gravity, in the axes of the body: x forward, y left,
        z up."""
        axis, direction = max(enumerate(self._force), key=lambda part: abs(part[1]))
        return f"{'-' if direction < 0.0 else '+'}{'xyz'[axis]}"

    @property
    def remedy(self) -> str:
        """Text with the lines of the profile that would turn gravity upright."""
        return rotation_to_write(self._mounting, self._force)

    def saturated_ns(self, now_ns: int) -> int:
        """Return the time for which all samples have been saturated; 0 if the newest is not."""
        return 0 if self.saturated_since_ns is None else now_ns - self.saturated_since_ns

    def reset(self) -> None:
        """Begin a drive from rest."""
        self.rest_mps2 = self._force[0] if self.has_force else nan

    def update(self) -> None:
        """Update the magnitudes, once per tick instead of once per sample."""
        self.forward_mps2 = self._forward_sum / self._forward_count if self._forward_count else nan
        self._forward_sum, self._forward_count = 0.0, 0
        if self.has_samples:
            x, y, z = self._rate
            self.mean_rate_radps = sqrt(x * x + y * y + z * z)
            fx, fy, fz = self._force
            self.mean_force_mps2 = hypot(fx, fy, fz)


Vector = tuple[float, float, float]


def rotation_to_write(mounting: Mounting, force: Vector) -> str:
    """Return a text with the lines of the profile that would turn a specific force, now in body
    axes, upright."""
    angles = zip(("roll", "pitch", "yaw"), corrected(mounting, force), strict=True)
    if mounting.table:
        lines = ", ".join(f"mounting_{name}_rad = {angle:.4f}" for name, angle in angles)
        return f"write {lines} in [{mounting.table}]"
    return (
        "turn its samples where they are sent, by "
        f"{', '.join(f'{name} {angle:.4f} rad' for name, angle in angles)}"
    )


def corrected(mounting: Mounting, force: Vector) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of the mounting with which a specific force, now in body axes,
    would point up.

    A correction by about a right angle, or two, is taken for one. Gravity says nothing of the yaw,
    so the forward axis stays forward where that is possible.
    """
    # With the x axis vertical the other two say nothing.
    level = hypot(force[1], force[2]) < sin(SQUARE_RAD) * hypot(*force)
    roll = 0.0 if level else atan2(force[1], force[2])
    pitch = atan2(-force[0], hypot(force[1], force[2]))
    if _squared(roll) or _squared(pitch):
        roll, pitch = _squared(roll), _squared(pitch)
    turn = _product(
        _rotation(roll, pitch, 0.0),
        _rotation(mounting.roll_rad, mounting.pitch_rad, mounting.yaw_rad),
    )
    sine = clamp(-turn[2][0], -1.0, 1.0)
    if abs(sine) > 1.0 - 1e-9:
        # The x axis is vertical, so roll and yaw are one; take it for the yaw.
        angles = 0.0, asin(sine), atan2(-turn[0][1], turn[1][1])
    else:
        angles = atan2(turn[2][1], turn[2][2]), asin(sine), atan2(turn[1][0], turn[0][0])
    # Rounded towards 0: the profile takes angles up to pi, and 3.1416 is more. Half a turn is one
    # to either side.
    return tuple(int((angle if angle > 1e-3 - pi else pi) * 1e4) / 1e4 for angle in angles)  # type: ignore[return-value]


def _squared(angle_rad: float) -> float:
    near = round(angle_rad / (0.5 * pi)) * 0.5 * pi
    return near if abs(angle_rad - near) < SQUARE_RAD else angle_rad


def _rotation(roll: float, pitch: float, yaw: float) -> tuple[Vector, Vector, Vector]:
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def _product(
    a: tuple[Vector, Vector, Vector], b: tuple[Vector, Vector, Vector]
) -> list[list[float]]:
    return [[sum(row[k] * b[k][column] for k in range(3)) for column in range(3)] for row in a]


def _towards(mean: Vector, value: tuple[float, ...], share: float) -> Vector:
    """Return the mean after one more value. Values are clipped, as one absurd sample would stay in
    the mean for minutes.

    The components are written out because this runs twice per sample.
    """
    x, y, z = value
    if not (
        -MAX_VALUE <= x <= MAX_VALUE
        and -MAX_VALUE <= y <= MAX_VALUE
        and -MAX_VALUE <= z <= MAX_VALUE
    ):
        x, y, z = (min(max(part, -MAX_VALUE), MAX_VALUE) for part in value)
    mx, my, mz = mean
    return mx + share * (x - mx), my + share * (y - my), mz + share * (z - mz)

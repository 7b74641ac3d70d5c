"""Limits of a vehicle on a race line, out of its profile."""

from math import hypot, sqrt

from msgspec import Struct

from vehicled.control.speed import drive_authority_mps2
from vehicled.core.vehicle import Drive, Limits, Outline, Vehicle

FRACTION = 0.9
"""Fraction of the accelerations that the line uses by default: the rest is for the controller."""
MARGIN_RATIO = 0.5
"""Distance that the body keeps from the walls by default, in widths of the vehicle."""


class RaceLimits(Struct, frozen=True, kw_only=True):
    """Limits of a vehicle on a race line. Jerk is not limited."""

    lateral_mps2: float
    """Largest lateral acceleration: semi-axis of the friction ellipse."""
    longitudinal_mps2: float
    """Largest acceleration and deceleration that the tyres transmit: the other semi-axis."""
    max_speed_mps: float
    braking_mps2: float
    """Largest deceleration of brake and rolling friction at low speed."""
    acceleration_mps2: float = float("inf")
    """Largest acceleration that is asked for."""
    authority_mps2: float
    """Acceleration of the drive at standstill and full throttle, without friction."""
    damping_per_s: float
    """Loss of acceleration per speed: back electromotive force and viscous friction."""
    friction_mps2: float = 0.0
    """Deceleration by dry friction of the drive."""
    drag_per_m: float = 0.0
    """Deceleration by drag per square of the speed."""
    max_curvature_per_m: float
    """Curvature at full lock."""
    steering_rate_radps: float = float("inf")
    """Slew rate of the wheels; it limits the speed where the curvature changes."""
    wheelbase_m: float = 1.0
    outline: Outline
    """Body about the point that follows the line."""
    exponent: float = 2.0
    """Exponent of the combined limit: 2 for the friction ellipse, 1 for a rhombus."""

    def drive_mps2(self, speed_mps: float) -> float:
        """Return the largest acceleration of the drive at a speed."""
        free = self.authority_mps2 - self.friction_mps2 - self.damping_per_s * speed_mps
        return min(free - self.drag_per_m * speed_mps * speed_mps, self.acceleration_mps2)

    @property
    def top_speed_mps(self) -> float:
        """Highest speed that limit and drive allow."""
        low, high = 0.0, self.max_speed_mps
        if self.drive_mps2(high) >= 0.0:
            return high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.drive_mps2(middle) > 0.0 else (low, middle)
        return low

    def swing_m(self, curvature_per_m: float) -> float:
        """Return how far the body reaches beyond half its width on the outside of a bend."""
        if curvature_per_m == 0.0:
            return 0.0
        radius = 1.0 / abs(curvature_per_m)
        ahead = max(abs(self.outline.front_m), abs(self.outline.rear_m))
        return hypot(radius + self.outline.half_m, ahead) - radius - self.outline.half_m


def limits_of(
    vehicle: Vehicle, limits: Limits, *, fraction: float = FRACTION, lateral_mps2: float = 0.0
) -> RaceLimits:
    """Return the limits of a profile for a race line that uses a fraction of its accelerations.

    The tyres transmit along the vehicle what ``limits.max_lateral_acceleration_mps2`` allows across
    it; ``lateral_mps2`` > 0 stands in its place.
    """
    drive = vehicle.drive
    grip = fraction * (lateral_mps2 or limits.max_lateral_acceleration_mps2)
    rolling = -drive.acceleration_mps2(0.0, 0.0)
    return RaceLimits(
        lateral_mps2=grip,
        longitudinal_mps2=grip,
        max_speed_mps=min(limits.max_speed_mps, drive.top_speed_mps),
        braking_mps2=fraction * (drive.brake_deceleration_mps2 + rolling),
        acceleration_mps2=fraction * limits.max_acceleration_mps2,
        authority_mps2=fraction * drive_authority_mps2(drive),
        damping_per_s=fraction * damping_per_s(drive),
        friction_mps2=fraction * rolling,
        max_curvature_per_m=1.0 / vehicle.min_turn_radius_m,
        steering_rate_radps=fraction * vehicle.steering.rate_radps,
        wheelbase_m=vehicle.wheelbase_m,
        outline=vehicle.outline,
    )


def damping_per_s(drive: Drive) -> float:
    """Return the loss of acceleration per speed by back electromotive force and viscous
    friction."""
    slope = drive.stall_torque_nm / drive.no_load_speed_radps + drive.viscous_nms
    return slope / drive.inertia_kgm2


def grip_left(ratio: float, exponent: float) -> float:
    """Return the fraction of the longitudinal limit that is left at a fraction of the lateral
    one."""
    if ratio >= 1.0:
        return 0.0
    if exponent == 2.0:
        return sqrt(1.0 - ratio * ratio)
    return float((1.0 - ratio**exponent) ** (1.0 / exponent))

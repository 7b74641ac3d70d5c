"""Check that a filter's yaw is not off by 180 degrees.

Course over ground and the path between fixes look the same forward and backward, and without an
accelerometer a filter cannot distinguish the two. Three signals can: an absolute heading (also that
of a pose on a map), the sign of a wheel or motor speed, and the sign of the throttle, each compared
with the displacement that GNSS measures along the estimated yaw.
"""

from math import cos, hypot, isfinite, pi, remainder, sin, tau

from msgspec.structs import replace

from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    MapPose,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.measurements import enu_m, is_coloured
from vehicled.paths.datum import Datum

HEADING_FRESH_NS = 2_000_000_000
WHEEL_FRESH_NS = 300_000_000
WHEEL_MPS = 0.1
"""Below this wheel speed the sign is noise."""
SLOW_MPS = 0.3
"""Once the vehicle has been slower than this under a throttle, it moves in the direction of that
throttle."""
SETTLED_NS = 5_000_000_000
"""A throttle that has kept its sign for this long also gives the direction of motion."""
PROOF_M = 0.5
COLOURED_PROOF_M = 2.0
"""Displacement with or against the drive that proves the sign; plain GNSS drifts by a metre at
standstill."""
MAX_FIX_GAP_S = 1.0
TURN_LEAK_PER_S = 0.05
MAX_DEPARTURE_RAD = 1.2
"""A yaw this far from the integral of its own rate was flipped by measurements, so its sign is
unknown again."""
OPPOSITE_RAD = 0.5 * pi


class DirectionMonitor:
    """Collects evidence for the sign of a filter's yaw, from the inputs of the filter;
    :meth:`judge` withholds RUNNING without proof."""

    def __init__(
        self, datum: Datum, vehicle: Vehicle, kinds: frozenset[HeadingKind] = frozenset(HeadingKind)
    ) -> None:
        """``kinds`` are the headings that measure an absolute yaw, not only its changes."""
        self._datum = datum
        drive = vehicle.drive
        self._delay_ns = int(drive.delay_s * 1e9)
        self._metres_per_rad = drive.gear_ratio * drive.wheel_radius_m
        self._kinds = kinds
        self._heading: Heading | MapPose | None = None
        self._wheel_ns = 0
        self._wheel_sign = 0
        self._throttle_sign = 0
        self._throttle_since_ns = 0
        self._throttle_moves = False
        self._fix: tuple[int, float, float] | None = None
        self._carrier: CarrierSolution | None = None
        self._step: tuple[int, float, float, float] | None = None
        """Newest displacement: time, east, north (m), and the distance that proves a sign (m)."""
        self.restarted()

    def restarted(self) -> None:
        """Reset the state that belongs to the previous run of the filter."""
        self._proven = False
        self._along_m = 0.0
        self._along_sign = 0
        self._turned_rad = 0.0
        self._offset_rad: float | None = None
        self._judged_ns: int | None = None
        self.contradicted = False
        """True if the vehicle drives opposite to the yaw: the filter must restart."""

    # ---------------------------------------------------------------- inputs

    def command(self, command: ActuatorCommand) -> None:
        """Record the throttle, which acts after the delay of the drive."""
        sign = (command.throttle > 0.0) - (command.throttle < 0.0)
        if sign != self._throttle_sign:
            self._throttle_sign = sign
            self._throttle_since_ns = command.t_ns + self._delay_ns
            self._throttle_moves = False

    def observe(self, message: Message) -> None:
        """Record a measurement that gives evidence of the direction."""
        if isinstance(message, GnssFix):
            self._on_fix(message)
        elif isinstance(message, Heading):
            if message.kind in self._kinds and isfinite(message.yaw_rad):
                self._heading = message
        elif isinstance(message, MapPose):
            if isfinite(message.yaw_rad):
                self._heading = message
        elif isinstance(message, WheelSpeed | MotorStatus):
            if isinstance(message, WheelSpeed):
                speed = message.speed_mps
            else:
                speed = message.motor_speed_radps * self._metres_per_rad
            if isfinite(speed):
                self._wheel_ns = message.t_ns
                self._wheel_sign = 0 if abs(speed) < WHEEL_MPS else 1 if speed > 0.0 else -1

    def _on_fix(self, fix: GnssFix) -> None:
        if fix.fix_type < FixType.FIX_2D or not isfinite(fix.latitude_rad + fix.longitude_rad):
            return
        east, north, _ = enu_m(self._datum, fix)
        before, self._fix = self._fix, (fix.t_ns, east, north)
        same, self._carrier = fix.carrier is self._carrier, fix.carrier
        # The jump from one kind of solution to another is no displacement; without a velocity it
        # would prove any sign.
        if not same and not isfinite(fix.velocity_enu_mps[0] + fix.velocity_enu_mps[1]):
            return
        if before is None or not 0.0 < (dt_s := (fix.t_ns - before[0]) * 1e-9) <= MAX_FIX_GAP_S:
            return
        ve, vn, _ = fix.velocity_enu_mps
        if isfinite(ve + vn):
            dx, dy, needed = ve * dt_s, vn * dt_s, PROOF_M
        else:
            dx = east - before[1]
            dy = north - before[2]
            needed = COLOURED_PROOF_M if is_coloured(fix) else PROOF_M
        if self._throttle_sign and fix.t_ns >= self._throttle_since_ns:
            slow = hypot(dx, dy) < SLOW_MPS * dt_s
            self._throttle_moves = (
                self._throttle_moves or slow or fix.t_ns - self._throttle_since_ns > SETTLED_NS
            )
        self._step = (fix.t_ns, dx, dy, needed)

    def sign(self, t_ns: int) -> int:
        """Return +1 if the vehicle is driven forward at a time, -1 backward, 0 if unknown."""
        if t_ns - self._wheel_ns <= WHEEL_FRESH_NS and self._wheel_ns:
            return self._wheel_sign
        return (
            self._throttle_sign if self._throttle_moves and t_ns >= self._throttle_since_ns else 0
        )

    # ---------------------------------------------------------------- result

    def judge(self, estimate: StateEstimate) -> StateEstimate:
        """Return the estimate, with ALIGNING and a yaw sigma of pi while the yaw may be
        reversed."""
        now_ns, yaw = estimate.t_ns, estimate.yaw_rad
        if not isfinite(yaw):
            return estimate
        dt_s = 0.0 if self._judged_ns is None else (now_ns - self._judged_ns) * 1e-9
        self._judged_ns = now_ns
        heading = self._heading
        if heading is not None and now_ns - heading.t_ns <= HEADING_FRESH_NS:
            self._proven = abs(remainder(heading.yaw_rad - yaw, tau)) < OPPOSITE_RAD
            self._offset_rad = None
        else:
            self._turn(yaw, estimate.yaw_rate_radps, dt_s)
            self._weigh(yaw)
        if self._proven:
            return estimate
        c = list(estimate.covariance)
        for at in (2, 6, 8, 9, 11, 14):
            c[at] = 0.0
        c[10] = pi * pi
        status = (
            EstimatorStatus.ALIGNING
            if estimate.status is EstimatorStatus.RUNNING
            else estimate.status
        )
        return replace(estimate, covariance=tuple(c), status=status)

    def _turn(self, yaw: float, rate_radps: float, dt_s: float) -> None:
        """Compare the yaw with the integral of its own rate."""
        if isfinite(rate_radps):
            self._turned_rad += rate_radps * dt_s
        offset = yaw - self._turned_rad
        if self._offset_rad is None:
            self._offset_rad = offset
        departed = remainder(offset - self._offset_rad, tau)
        if abs(departed) > MAX_DEPARTURE_RAD:
            self._proven, self._along_m, self._offset_rad = False, 0.0, offset
        else:
            self._offset_rad += min(TURN_LEAK_PER_S * dt_s, 1.0) * departed

    def _weigh(self, yaw: float) -> None:
        """Sum the displacement along the yaw, signed by the drive direction."""
        if self._step is None:
            return
        t_ns, dx, dy, needed = self._step
        self._step = None
        sign = self.sign(t_ns)
        if sign == 0 or sign != self._along_sign:
            self._along_sign, self._along_m = sign, 0.0
        if sign == 0:
            return
        self._along_m += sign * (dx * cos(yaw) + dy * sin(yaw))
        if self._along_m >= needed:
            self._proven, self._along_m = True, 0.0
        elif self._along_m <= -needed:
            self.contradicted = True

"""Open-loop controller: drives wheel angle, speed or throttle by time, for identification and
manoeuvres.

First comes the entry: straight ahead until the entry speed has settled. Then follows the programme,
through the same command gate and safety rules as any drive. It ends after its last row, or when the
vehicle has turned far enough; the vehicle then brakes with its wheels held. No corridor applies. A
programme that was stopped starts again from the beginning.
"""

from bisect import bisect_right
from itertools import pairwise
from math import atan, cos, isfinite, remainder, sin, tan, tau
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from vehicled.control.interface import Controller
from vehicled.control.speed import (
    Demand,
    PidState,
    SpeedParams,
    SpeedTarget,
    speed_noise_mps,
    speed_step,
)
from vehicled.control.stop import brake_command, is_drivable
from vehicled.core.messages import ControlCommand, ControlLevel, StateEstimate
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course

MAX_ROWS = 20_000
COLUMNS = ("wheel_angle_rad", "steering", "speed_mps", "throttle", "brake")
ENTRY_LOOK_AHEAD_S = 1.5
END_BRAKE = 0.3
"""Brake until the stop that follows the end; the gate then brakes at least with its own
fraction."""
SETTLED_FRACTION, SETTLED_MPS = 0.03, 0.05
"""Entry speed tolerance, as a fraction and in m/s; the larger one applies."""


class ProgrammeParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Programme as columns, each (n,) or left out. ``vehicled sim --programme`` fills them in from
    a file or a name."""

    name: str = ""
    """Name of the programme or of its file."""
    t_s: list[float] = field(default_factory=list)
    """Time since the end of the entry, s; increasing."""
    wheel_angle_rad: list[float] = field(default_factory=list)
    """Angle of the virtual front wheel, rad, left positive. Give this, ``steering`` or neither
    (straight ahead)."""
    steering: list[float] = field(default_factory=list)
    """Wheel angle as a fraction of the mechanical stop, -1 to 1."""
    speed_mps: list[float] = field(default_factory=list)
    """Speed held where ``holds_speed`` is true, m/s; negative in reverse."""
    throttle: list[float] = field(default_factory=list)
    """Fraction of full drive, -1 to 1."""
    brake: list[float] = field(default_factory=list)
    """Fraction of the brake, 0 to 1."""
    holds_speed: list[bool] = field(default_factory=list)
    """True: hold the speed from this row to the next; false: use throttle and brake. Default: true
    if speeds are given."""
    interpolation: Literal["linear", "hold"] = "linear"
    """Interpolation between rows."""
    entry_speed_mps: NonNegative = 0.0
    """Speed reached before the programme begins, m/s; 0 begins at standstill."""
    entry_s: Positive = 60.0
    """Timeout of the entry, s; the programme is then given up."""
    settle_s: NonNegative = 1.0
    """Time at the entry speed before the first row, s."""
    end_turn_rad: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0
    """Yaw change that ends the programme, rad; 0 ends it with its last row."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed control, for programmes that give speeds."""

    def __post_init__(self) -> None:
        n = len(self.t_s)
        if n > MAX_ROWS:
            raise ValueError(f"t_s has {n} rows; at most {MAX_ROWS} are allowed; remove some")
        for name in (*COLUMNS, "holds_speed"):
            column = getattr(self, name)
            if column and len(column) != n:
                raise ValueError(
                    f"{name} has {len(column)} rows, t_s has {n}; give one value for each time"
                )
            if not all(isfinite(value) for value in column):
                raise ValueError(f"{name} contains a value that is not finite")
        if any(not isfinite(t) or t < 0.0 for t in self.t_s) or any(
            b <= a for a, b in pairwise(self.t_s)
        ):
            raise ValueError("t_s must begin at 0 or later and increase")
        if self.wheel_angle_rad and self.steering:
            raise ValueError("wheel_angle_rad and steering are both given; remove one")
        if n and not (self.speed_mps or self.throttle):
            raise ValueError("neither speed_mps nor throttle: give one of them")


class Programme(Controller):
    """Controller that drives a programme open loop."""

    Params: ClassVar[type[ProgrammeParams]] = ProgrammeParams
    follows_course: ClassVar[bool] = False

    def __init__(
        self,
        params: ProgrammeParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._p = params
        self._period_s = period_s
        self.adapt(vehicle)
        self.reset()

    def adapt(self, vehicle: Vehicle) -> None:
        """Use new vehicle parameters; see :class:`~vehicled.control.interface.Controller`."""
        self._vehicle = vehicle

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """Start the programme again, at any arc length."""
        self._pid = PidState()
        self._wheel_rad = wheel_rad
        self._last_ns: int | None = None
        self._begun_ns: int | None = None
        """Start of the entry."""
        self._line = 0.0, 0.0, 0.0
        self._settled_ns: int | None = None
        self._start_ns: int | None = None
        """Start of the programme."""
        self._yaw_rad = self._turned_rad = 0.0
        self._given_up = False
        self._finished = False

    @property
    def finished(self) -> bool:
        """True once the programme has ended."""
        return self._finished

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Return wheel angle, throttle and brake for this instant."""
        if not is_drivable(estimate):
            return brake_command(now_ns, estimate.newest_input_ns, self._wheel_rad)
        dt_s = self._elapsed_s(now_ns)
        if self._begun_ns is None:
            self._begun_ns, self._line = now_ns, (estimate.x_m, estimate.y_m, estimate.yaw_rad)
        if self._start_ns is None:
            self._enter(estimate, now_ns)
        if self._start_ns is None:
            wheel, target, demand = self._entry(estimate, dt_s)
        else:
            wheel, target, demand = self._programme(estimate, now_ns, dt_s)
        self._wheel_rad = wheel
        level = ControlLevel.STOP if self._given_up else ControlLevel.PRIMARY
        curvature = tan(wheel) / self._vehicle.wheelbase_m
        return ControlCommand(
            now_ns, estimate.newest_input_ns, wheel, demand.throttle, demand.brake, target,
            cross_track_m=0.0, heading_error_rad=0.0, curvature_per_m=curvature, level=level,
        )  # fmt: skip

    def _elapsed_s(self, now_ns: int) -> float:
        last_ns, self._last_ns = self._last_ns, now_ns
        if last_ns is None:
            return self._period_s
        return min(max((now_ns - last_ns) * 1e-9, 0.2 * self._period_s), 5.0 * self._period_s)

    # ---------------------------------------------------------------- entry

    def _enter(self, estimate: StateEstimate, now_ns: int) -> None:
        """Begin the programme when the entry speed has settled; give up at the timeout."""
        wanted = self._p.entry_speed_mps
        near = max(SETTLED_FRACTION * wanted, SETTLED_MPS)
        if wanted > 0.0 and abs(estimate.speed_mps - wanted) > near:
            self._settled_ns = None
        elif self._settled_ns is None:
            self._settled_ns = now_ns
        assert self._begun_ns is not None
        if wanted == 0.0 or (
            self._settled_ns is not None and now_ns - self._settled_ns >= self._p.settle_s * 1e9
        ):
            self._start_ns, self._yaw_rad, self._turned_rad = now_ns, estimate.yaw_rad, 0.0
        elif now_ns - self._begun_ns > self._p.entry_s * 1e9:
            self._given_up = True

    def _entry(self, estimate: StateEstimate, dt_s: float) -> tuple[float, float, Demand]:
        """Return the command that pursues the initial line at the entry speed."""
        if self._given_up:
            return self._wheel_rad, 0.0, Demand(0.0, 1.0)
        x, y, yaw = self._line
        along_m = cos(yaw) * (estimate.x_m - x) + sin(yaw) * (estimate.y_m - y)
        left_m = cos(yaw) * (estimate.y_m - y) - sin(yaw) * (estimate.x_m - x)
        ahead_m = max(ENTRY_LOOK_AHEAD_S * abs(estimate.speed_mps), 2.0 * self._vehicle.wheelbase_m)
        dx = x + cos(yaw) * (along_m + ahead_m) - estimate.x_m
        dy = y + sin(yaw) * (along_m + ahead_m) - estimate.y_m
        aside = cos(estimate.yaw_rad) * dy - sin(estimate.yaw_rad) * dx
        lock = self._vehicle.steering.max_wheel_rad
        wheel = atan(
            self._vehicle.wheelbase_m * 2.0 * aside / (ahead_m * ahead_m + left_m * left_m)
        )
        speed = self._p.entry_speed_mps
        return (
            min(max(wheel, -lock), lock),
            speed,
            self._held(estimate, SpeedTarget(speed, 0.0), dt_s),
        )

    # ---------------------------------------------------------------- programme

    def _programme(
        self, estimate: StateEstimate, now_ns: int, dt_s: float
    ) -> tuple[float, float, Demand]:
        p = self._p
        assert self._start_ns is not None
        t_s = (now_ns - self._start_ns) * 1e-9
        self._turned_rad += remainder(estimate.yaw_rad - self._yaw_rad, tau)
        self._yaw_rad = estimate.yaw_rad
        if (
            not p.t_s
            or t_s > p.t_s[-1]
            or (p.end_turn_rad > 0.0 and abs(self._turned_rad) >= p.end_turn_rad)
        ):
            self._finished = True
        if self._finished:
            return self._wheel_rad, 0.0, Demand(0.0, END_BRAKE)
        k = max(bisect_right(p.t_s, t_s) - 1, 0)
        fraction = 0.0
        if p.interpolation == "linear" and k + 1 < len(p.t_s) and t_s > p.t_s[k]:
            fraction = (t_s - p.t_s[k]) / (p.t_s[k + 1] - p.t_s[k])

        def at(column: list[float]) -> float:
            return column[k] + fraction * (column[k + 1] - column[k]) if fraction else column[k]

        wheel = 0.0
        lock = self._vehicle.steering.max_wheel_rad
        if p.wheel_angle_rad:
            wheel = min(max(at(p.wheel_angle_rad), -lock), lock)
        elif p.steering:
            wheel = min(max(at(p.steering), -1.0), 1.0) * lock
        if p.holds_speed[k] if p.holds_speed else bool(p.speed_mps):
            both = not p.holds_speed or k + 1 == len(p.t_s) or p.holds_speed[k + 1]
            speed = at(p.speed_mps) if both else p.speed_mps[k]
            slope = 0.0
            if both and fraction:
                slope = (p.speed_mps[k + 1] - p.speed_mps[k]) / (p.t_s[k + 1] - p.t_s[k])
            return wheel, speed, self._held(estimate, SpeedTarget(speed, slope), dt_s)
        self._pid = PidState()
        throttle = min(
            max(at(p.throttle) if p.throttle else 0.0, -self._vehicle.drive.reverse_share), 1.0
        )
        brake = min(max(at(p.brake) if p.brake else 0.0, 0.0), 1.0)
        return wheel, float("nan"), Demand(throttle, brake)

    def _held(self, estimate: StateEstimate, target: SpeedTarget, dt_s: float) -> Demand:
        # Uses the present speed: a prediction over the drive delay would turn the model error into
        # a steady-state error.
        self._pid, demand = speed_step(
            self._p.speed,
            self._vehicle.drive,
            self._pid,
            estimate.speed_mps,
            target,
            dt_s,
            noise_mps=speed_noise_mps(estimate),
        )
        if not (isfinite(demand.throttle) and isfinite(demand.brake)):
            return Demand(0.0, 1.0)
        return demand

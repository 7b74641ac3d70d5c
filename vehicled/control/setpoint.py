"""Control by the setpoints of another program: speed control, and the wheel angle for a
curvature."""

from math import atan, isnan

from vehicled.control.drive_observer import DriveObserver
from vehicled.control.path_follower import CAP_MARGIN_MPS, CAP_MARGIN_RATIO
from vehicled.control.speed import (
    Demand,
    PidState,
    SpeedParams,
    SpeedTarget,
    planned_deceleration_mps2,
    runaway_mps,
    speed_noise_mps,
    speed_step,
)
from vehicled.control.stop import brake_command, is_drivable
from vehicled.core.messages import ControlCommand, Setpoint, StateEstimate
from vehicled.core.vehicle import MAX_DELAY_NS, STANDSTILL_MPS, Vehicle
from vehicled.estimation.history import CommandHistory

HIGHEST_MPS = 100.0
NO_DEMAND = Demand(0.0, 0.0)
LONGEST_AGE_NS = 400_000_000
"""Age of the oldest estimate that is compared with the commands, ns."""


class SetpointControl:
    """Turns setpoints into commands. The command gate limits steering rate, acceleration and jerk,
    as for every controller."""

    def __init__(self, speed: SpeedParams, vehicle: Vehicle) -> None:
        self._speed = speed
        self._vehicle = vehicle
        self._observer = DriveObserver()
        self._demands: CommandHistory[Demand] = CommandHistory(
            NO_DEMAND, MAX_DELAY_NS + LONGEST_AGE_NS
        )
        self._target_mps = 0.0
        self._pid = PidState()
        self._before_ns: int | None = None

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        self._vehicle = vehicle

    def begin(self) -> None:
        """Forget the last drive."""
        self._pid, self._before_ns, self._target_mps = PidState(), None, 0.0
        self._observer.reset()
        self._demands.clear(NO_DEMAND)

    def on_command_sent(self, now_ns: int, throttle: float, brake: float) -> None:
        """Report the command that was sent, which the gate may have cut."""
        self._demands.append(now_ns, Demand(throttle, brake))

    def step(
        self, setpoint: Setpoint, estimate: StateEstimate | None, cap_mps: float, now_ns: int
    ) -> ControlCommand:
        """Return the command of this tick; without a usable estimate it is the brake. ``cap_mps``:
        highest speed allowed now."""
        before_ns, self._before_ns = self._before_ns, now_ns
        wheel_rad = setpoint.wheel_angle_rad
        speed_mps = estimate.speed_mps if estimate is not None else 0.0
        if isnan(wheel_rad):
            wheel_rad = atan(
                self._vehicle.effective_wheelbase_m(speed_mps) * setpoint.curvature_per_m
            )
        most_rad = self._vehicle.steering.max_wheel_rad
        wheel_rad = min(max(wheel_rad, -most_rad), most_rad)
        if (
            estimate is None
            or not is_drivable(estimate)
            or before_ns is None
            or now_ns <= before_ns
        ):
            return brake_command(now_ns, setpoint.t_ns, wheel_rad)
        drive = self._vehicle.drive
        # Below the cap by a margin, because at the cap the gate would react to the noise of the
        # estimate.
        most_mps = min(
            max((1.0 - CAP_MARGIN_RATIO) * cap_mps, cap_mps - CAP_MARGIN_MPS), HIGHEST_MPS
        )
        least_mps = -min(most_mps, drive.top_reverse_speed_mps)
        wanted_mps = min(max(setpoint.speed_mps, least_mps), most_mps)
        # A lower setpoint first gets the time to slow down, or braking hard would look as if a
        # slope pushed the vehicle.
        dt_s = (now_ns - before_ns) * 1e-9
        slower_mps = (
            min(self._target_mps, abs(speed_mps))
            - planned_deceleration_mps2(self._speed, drive) * dt_s
        )
        self._target_mps = max(slower_mps, abs(wanted_mps))
        runs_away = abs(speed_mps) > runaway_mps(self._target_mps)
        answers = self._pid.answers(drive)
        self._observer.observe(
            drive, self._demands, estimate.t_ns, speed_mps, answers=answers, runs_away=runs_away
        )
        if wanted_mps == 0.0 and abs(speed_mps) <= STANDSTILL_MPS:
            self._pid = PidState()
            return ControlCommand(now_ns, setpoint.t_ns, wheel_rad, 0.0, 1.0, target_speed_mps=0.0)
        self._pid, demand = speed_step(
            self._speed, drive, self._pid, speed_mps, SpeedTarget(wanted_mps, 0.0), dt_s,
            self._observer.surplus_mps2, noise_mps=speed_noise_mps(estimate),
        )  # fmt: skip
        return ControlCommand(
            now_ns, setpoint.t_ns, wheel_rad, demand.throttle, demand.brake,
            target_speed_mps=wanted_mps, curvature_per_m=setpoint.curvature_per_m,
        )  # fmt: skip

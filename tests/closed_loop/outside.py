"""Injector for the failures of :mod:`tests.closed_loop.misfortunes` that no simulated device can
have."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan
from typing import Any

from msgspec.structs import replace

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure
from tests.closed_loop.misfortunes import OUTSIDE, end_s
from vehicled.core.messages import (
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    Heartbeat,
    HostHealth,
    ImuSample,
    Message,
    MotorStatus,
    ObstacleRange,
    OperatorAction,
    OperatorCommand,
    TeleopCommand,
    WheelSpeed,
)
from vehicled.core.ports import NEVER_NS
from vehicled.core.tasks import PIPELINE
from vehicled.offline.failsafe.bench import WrappedPair

SECOND_NS = 1_000_000_000
READING_NS = 20_000_000
HEARTBEAT_NS = 500_000_000
NEUTRAL_NS = 300_000_000
"""Time for which the stick is held neutral before it is pushed."""
NAN3, ZERO3 = (nan, nan, nan), (0.0, 0.0, 0.0)
EXACT = (1e-4, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 1e-4)


def _fix(t_ns: int, rx_ns: int, latitude_rad: float, **more: Any) -> GnssFix:
    fixed: dict[str, Any] = {
        "fix_type": FixType.FIX_3D,
        "carrier": CarrierSolution.FIXED,
        "position_covariance_m2": EXACT,
        **more,
    }
    return GnssFix(t_ns, rx_ns, latitude_rad, 0.1, 100.0, ZERO3, **fixed)


HOUR_NS = 3600 * SECOND_NS
MESSAGES: Mapping[str, Callable[[int], Message]] = {
    "gnss_nan": lambda t: GnssFix(t, t, nan, inf, nan, NAN3),
    "gnss_far": lambda t: _fix(t, t, 1e6),
    "gnss_future": lambda t: _fix(t + HOUR_NS, t + HOUR_NS, 0.8),
    "gnss_past": lambda t: _fix(t - HOUR_NS, t - HOUR_NS, 0.8),
    "gnss_no_covariance": lambda t: _fix(
        t, t, 0.8, position_covariance_m2=(-1.0, nan, 0.0, 0.0, 0.0, inf, 0.0, 0.0, 0.0)
    ),
    "imu_nan": lambda t: ImuSample(t, t, (0.0, nan, 9.8), (0.0, 0.0, nan)),
    "imu_huge": lambda t: ImuSample(t, t, (1e30, -1e30, 1e30), (0.0, 0.0, 1e30)),
    "heading_nan": lambda t: Heading(t, t, nan, nan),
    "heading_huge": lambda t: Heading(t, t, 1e300, 0.01),
    "heading_certain": lambda t: Heading(t, t, 1.0, 0.0),
    "motor_nan": lambda t: MotorStatus(t, t),
    "motor_huge": lambda t: MotorStatus(t, t, 1e300, 1e300, -1e300, 1e300, 7.0, 1e300, -1.0),
    "wheel_nan": lambda t: WheelSpeed(t, t, nan, nan),
    "wheel_huge": lambda t: WheelSpeed(t, t, -1e300, 0.0),
    "stick_nan": lambda t: TeleopCommand(t, t, nan, inf, nan, True, "somebody", t % 1000),
    "stick_full": lambda t: TeleopCommand(t, t, 1.0, 1.0, 0.0, True, "somebody", t % 1000),
    "range_nan": lambda t: ObstacleRange(t, t, nan),
}
HEALTH: Mapping[str, Callable[[int], HostHealth]] = {
    "nan": lambda t: HostHealth(t, clock_step_s=nan, suspended_s=nan, log_backlog_share=nan),
    "slept": lambda t: HostHealth(t, suspended_s=12.0),
    "clock_back": lambda t: HostHealth(t, clock_step_s=-3600.0),
    "disk_full": lambda t: HostHealth(
        t, disk_free_share=0.0, log_failure="No space left on device"
    ),
    "throttled": lambda t: HostHealth(t, throttled=True, cpu_busy_share=1.0),
}
COSTS_NS = {"fusion_slow": ("fusion", 30_000_000), "control_slow": ("control", 20_000_000)}


class Outside:
    """Applies failures to the machine when they are due."""

    def __init__(self, pair: WrappedPair, failures: Sequence[Failure]) -> None:
        self._pair = pair
        self._failures = sorted(
            (f for f in failures if f.port in OUTSIDE), key=lambda failure: failure.start_s
        )
        self._active: list[Failure] = []
        self._usual = list(pair.stopwatch.costs_ns)
        self._readings = 0
        self._due_ns = START_NS
        self._heartbeat_ns = NEVER_NS

    def act(self, now_ns: int) -> None:
        """Apply due failures. Call once per grant."""
        t_s = (now_ns - START_NS) / SECOND_NS
        while self._failures and self._failures[0].start_s <= t_s:
            failure = self._failures.pop(0)
            self._begin(failure, now_ns)
            self._active.append(failure)
        for failure in [failure for failure in self._active if end_s(failure) <= t_s]:
            self._active.remove(failure)
            self._end(failure, now_ns)
        if now_ns >= self._heartbeat_ns:
            self._heartbeat_ns = now_ns + HEARTBEAT_NS
            self._say(Heartbeat(now_ns, now_ns, "ground"), now_ns)
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + READING_NS
            for failure in self._active:
                self._go_on(failure, now_ns)

    def ask(self, now_ns: int, *actions: OperatorAction) -> None:
        """Send requests of the operator."""
        for action in actions:
            self._pair.machine.on_message(
                OperatorCommand(now_ns, now_ns, action, "the test"), now_ns
            )

    def _begin(self, failure: Failure, now_ns: int) -> None:
        match failure.port:
            case "asks":
                if failure.kind == "hand":
                    self._read(now_ns, 0.0, 0.0, held=True)
                    self.ask(now_ns, OperatorAction.TELEOP)
                elif failure.kind == "everything":
                    self.ask(now_ns, *OperatorAction)
                else:
                    self.ask(now_ns, OperatorAction[failure.kind.upper()])
            case "spoils":
                self._spoil(failure.kind)
            case "host" if failure.kind == "ground_lost":
                # After its first heartbeat it must not be missing any more.
                self._say(Heartbeat(now_ns, now_ns, "ground"), now_ns)
                self._heartbeat_ns = NEVER_NS
            case "host":
                self._say(HEALTH[failure.kind](now_ns), now_ns)

    def _go_on(self, failure: Failure, now_ns: int) -> None:
        if failure.port == "says":
            self._say(MESSAGES[failure.kind](now_ns), now_ns)
        elif failure.port == "asks" and failure.kind == "hand":
            pushes = (now_ns - START_NS) / SECOND_NS - failure.start_s > NEUTRAL_NS / SECOND_NS
            self._read(now_ns, 0.2 if pushes else 0.0, 0.4 if pushes else 0.0, held=True)

    def _end(self, failure: Failure, now_ns: int) -> None:
        if failure.port == "asks" and failure.kind == "hand":
            self._read(now_ns, 0.0, 0.0, held=False)
        elif failure.kind == "ground_lost":
            self._heartbeat_ns = now_ns
        elif failure.port == "host":
            self._say(HostHealth(now_ns), now_ns)
        elif failure.port == "spoils":
            if failure.kind in COSTS_NS:
                self._pair.stopwatch.costs_ns[:] = self._usual
            elif failure.kind.startswith("estimate"):
                self._pair.estimator.spoil = None
            else:
                self._pair.controller.spoil = None

    def _say(self, message: Message, now_ns: int) -> None:
        self._pair.machine.on_message(message, now_ns)

    def _read(self, now_ns: int, steering: float, throttle: float, *, held: bool) -> None:
        self._readings += 1
        self._say(
            TeleopCommand(now_ns, now_ns, steering, throttle, 0.0, held, "gamepad", self._readings),
            now_ns,
        )

    def _spoil(self, what: str) -> None:
        estimator, controller = self._pair.estimator, self._pair.controller
        match what:
            case "estimate_nan":
                estimator.spoil = lambda e: replace(e, x_m=nan, speed_mps=inf)
            case "estimate_jumps":
                estimator.spoil = lambda e: replace(e, x_m=e.x_m + 30.0)
            case "estimate_diverged":
                estimator.spoil = lambda e: replace(e, status=EstimatorStatus.DIVERGED)
            case "estimate_raises":
                estimator.spoil = self._raises(estimator)
            case "command_nan":
                controller.spoil = lambda c: replace(c, throttle=nan, wheel_angle_rad=nan)
            case "command_huge":
                controller.spoil = lambda c: replace(
                    c, throttle=1e300, wheel_angle_rad=-1e300, brake=-1e300
                )
            case "command_raises":
                controller.spoil = self._raises(controller)
            case _:
                task, cost_ns = COSTS_NS[what]
                self._pair.stopwatch.costs_ns[PIPELINE.index(task)] = cost_ns

    @staticmethod
    def _raises(part: Any) -> Callable[[Any], Any]:
        """Once."""

        def spoil(answer: Any) -> Any:
            part.spoil = None
            raise ArithmeticError("a mistake in a task, made on purpose")

        return spoil

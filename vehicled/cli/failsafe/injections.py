"""What is injected for each row of the matrix, as data: the fault, how it is made, and by which code it must be told.

``fail`` breaks a device of the twin, as ``--fail`` does; ``act`` does something else at the instant. Either happens to a drive as
in ``scene``. Times count from the injection, or from the instant at which ``since`` first holds of the true vehicle, after which
``grace_s`` more are granted.
"""

from collections.abc import Callable
from math import inf, nan

from msgspec import Struct
from msgspec.structs import replace

from vehicled.cli.failsafe.stage import READING_NS, SECOND_NS, STICK, Scene, Stage
from vehicled.machine import PIPELINE
from vehicled.messages import (
    ControlCommand,
    ControlLevel,
    ControlReason,
    EstimatorStatus,
    HostHealth,
    OperatorAction,
    StateEstimate,
    TeleopCommand,
)
from vehicled.runtime.run import Run
from vehicled.safety.monitors.motion import MOVING_MPS
from vehicled.vehicle import Limits

BOTH = ("wires", "messages")
WIRES = ("wires",)


class Injection(Struct, frozen=True, kw_only=True):
    """One way to bring a row of the matrix about."""

    row: int
    code: str
    """Of the rule that must trip; empty where something outside the daemon answers."""
    how: str
    """What is done, in words."""
    simulated: bool = False
    """It cannot happen on a development machine: it is injected at the edge of the daemon."""
    fail: str = ""
    """``port:kind=value``: broken in the twin."""
    fail_s: float = 60.0
    """For so long."""
    act: Callable[[Stage], None] | None = None
    prepare: Callable[[Stage], None] | None = None
    """Before anything happens."""
    scene: Scene = Scene.COURSE
    also: tuple[str, ...] = ()
    """Codes by which a device may tell the same in its own words, earlier or instead."""
    since: Callable[[Stage], bool] | None = None
    grace_s: Callable[[Limits], float] = lambda limits: 0.0
    refused: str = ""
    """Arming must be refused for this reason; part of the text."""
    links: tuple[str, ...] = BOTH
    profile: str = "art_vesc"
    overrides: tuple[str, ...] = ()
    patience_s: float = 8.0
    """How long it may take altogether until the vehicle has reacted and stands."""

    @property
    def key(self) -> str:
        """Identity."""
        return f"{self.row} {self.code or self.refused or 'outside'} {self.profile}"


def _task(name: str) -> int:
    return PIPELINE.index(name)


def _costs(task: str, cost_ms: float) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.pair.stopwatch.costs_ns[_task(task)] = round(cost_ms * 1e6)

    return act


def _now_and_then(stage: Stage) -> None:
    """Every fourth run of control is too long."""
    costs, stats = stage.pair.stopwatch.costs_ns, stage.pair.machine.executive.stats(_task("control"))
    usual = costs[_task("control")]

    def duty() -> None:
        costs[_task("control")] = 6_500_000 if stats.n % 4 == 0 else usual

    stage.duties.append(duty)


def _estimate(change: Callable[[StateEstimate], StateEstimate]) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.estimator.spoil = change

    return act


def _command(change: Callable[[ControlCommand], ControlCommand]) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.controller.spoil = change

    return act


def _raise_once(stage: Stage) -> None:
    def spoil(command: ControlCommand) -> ControlCommand:
        stage.controller.spoil = None
        raise ArithmeticError("a mistake in a task, made on purpose")

    stage.controller.spoil = spoil


def _ask(action: OperatorAction) -> Callable[[Stage], None]:
    return lambda stage: stage.ask(action)


def _stick(*, plugged: bool = True, deadman: bool = True, unplugged: bool = False) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.stick_plugged, stage.deadman = plugged, deadman
        if unplugged:
            now_ns = stage.now_ns
            stage.say(TeleopCommand(now_ns, now_ns, nan, nan, nan, False, STICK, unplugged=True))

    return act


def _push(stage: Stage) -> None:
    stage.pushes = True


def _deflected(stage: Stage) -> None:
    """A stick that was never neutral asks for the vehicle, again and again."""
    counts = iter(range(1, 1_000_000))
    due_ns = stage.now_ns
    stage.ask(OperatorAction.ARM)

    def duty() -> None:
        nonlocal due_ns
        now_ns = stage.now_ns
        if now_ns >= due_ns:
            due_ns = now_ns + READING_NS
            stage.say(TeleopCommand(now_ns, now_ns, 0.0, 0.6, 0.0, True, STICK, next(counts)))
            stage.ask(OperatorAction.TELEOP)

    stage.duties.append(duty)


def _not_calibrated(stage: Stage) -> None:
    stage.pair.machine.refuse_arming("the profile is not the one that was calibrated")
    stage.ask(OperatorAction.ARM, OperatorAction.DRIVE)


def _ground(speaks: bool) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.ground_speaks = speaks

    return act


def _host(**reading: float | bool | str) -> Callable[[Stage], None]:
    """Readings of the host, once a second, beginning at any time within the next."""

    def act(stage: Stage) -> None:
        due_ns = stage.now_ns + stage.now_ns % SECOND_NS
        once = "suspended_s" in reading or "clock_step_s" in reading
        told = False

        def duty() -> None:
            nonlocal due_ns, told
            if stage.now_ns >= due_ns:
                due_ns += SECOND_NS
                stage.say(HostHealth(stage.now_ns) if once and told else HostHealth(stage.now_ns, **reading))  # type: ignore[arg-type]
                told = True

        stage.duties.append(duty)

    return act


class _NoLog:
    def pump(self, now_ns: int) -> None:
        """Nothing is written."""


def _lose_simulator(stage: Stage) -> None:
    """What both pumps do when the link ends."""
    pair = stage.pair
    Run(pair.machine, _NoLog(), until_ns=2**62).lost("the simulator is gone", pair.now_ns)


def _moves(stage: Stage) -> bool:
    return stage.speed_mps > 2.0 * MOVING_MPS


def _stands(stage: Stage) -> bool:
    return stage.speed_mps < MOVING_MPS


def _left(stage: Stage) -> bool:
    return stage.off_course_m > stage.profile.limits.corridor_m


def _too_fast(stage: Stage) -> bool:
    limits = stage.profile.limits
    return stage.speed_mps > limits.max_speed_mps + limits.overspeed_mps


def _diverged(estimate: StateEstimate) -> StateEstimate:
    return replace(estimate, status=EstimatorStatus.DIVERGED)


def _not_finite(estimate: StateEstimate) -> StateEstimate:
    return replace(estimate, x_m=nan, yaw_rad=inf)


def _uncertain(estimate: StateEstimate) -> StateEstimate:
    covariance = list(estimate.covariance)
    covariance[0] = covariance[5] = 4.0
    return replace(estimate, covariance=tuple(covariance))


def _knows_nothing(command: ControlCommand) -> ControlCommand:
    failed = ControlReason.INFEASIBLE
    return replace(command, throttle=0.0, brake=1.0, level=ControlLevel.STOP, reason=failed)


RANGE = ("devices.range.driver=msglink", 'devices.range.messages=["ObstacleRange"]', "devices.range.rate_hz=20")
"""A sensor of obstacles, which the shipped profiles do not have."""
SCAN = (
    "devices.scanner.driver=msglink",
    'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20",
    "devices.scanner.lever_arm_m=[0.45,0.0,0.15]",
)
"""A planar scanner, which they do not have either."""

INJECTIONS: tuple[Injection, ...] = (
    Injection(row=1, code="loop_frozen", how="the daemon stands still for 1 s, its frames with it", act=lambda s: s.freeze(1.0)),
    Injection(
        row=1, code="loop_frozen", how="the same, with a board that knows no brake and tells nothing",
        act=lambda s: s.freeze(1.0), profile="art", links=WIRES,
    ),
    Injection(row=2, code="deadlines_missed", how="control needs 6.5 ms, its deadline is 6 ms", act=_costs("control", 6.5)),
    Injection(row=2, code="deadlines_share", how="every fourth run of control needs 6.5 ms", act=_now_and_then),
    Injection(row=2, code="estimate_stale", how="fusion needs 30 ms", act=_costs("fusion", 30.0)),
    Injection(row=2, code="control_stale", how="control needs 60 ms", act=_costs("control", 60.0)),
    Injection(row=3, code="task_raised", how="the controller raises once", act=_raise_once),
    Injection(row=4, code="emergency_stop", how="the operator asks for it", act=_ask(OperatorAction.EMERGENCY_STOP)),
    Injection(
        row=5, code="hand_gone", how="the stick is not read any more", simulated=True, scene=Scene.HAND, act=_stick(plugged=False)
    ),
    Injection(
        row=5, code="deadman_released", how="the deadman is let go", simulated=True, scene=Scene.HAND, act=_stick(deadman=False)
    ),
    Injection(
        row=6, code="hand_unplugged", how="the stick is pulled out", simulated=True, scene=Scene.HAND,
        act=_stick(plugged=False, unplugged=True),
    ),
    Injection(
        row=6, code="", how="a pushed stick asks for the vehicle", simulated=True, scene=Scene.PARKED, act=_deflected,
        refused="centre the stick",
    ),
    Injection(
        row=7, code="ground_lost", how="its heartbeats end", simulated=True, prepare=_ground(True), act=_ground(False)
    ),
    Injection(row=8, code="gnss_silent", how="no byte of the receiver passes", fail="gnss:off"),
    Injection(row=9, code="rtk_lost", how="fixed to float, drifting to 0.4 m", fail="gnss:float"),
    Injection(
        row=9, code="rtk_lost_long", how="fixed to float, for good", fail="gnss:float",
        grace_s=lambda limits: limits.rtk_lost_stop_s, overrides=("limits.rtk_lost_stop_s=5",), patience_s=12.0,
    ),
    Injection(row=10, code="gnss_refused", how="the position jumps 5 m aside, called fixed", fail="gnss:multipath=5"),
    Injection(row=10, code="gnss_stuck", how="the same position again and again, fresh stamps", fail="gnss:stuck"),
    Injection(row=11, code="estimate_not_finite", how="the filter gives NaN and infinity", act=_estimate(_not_finite)),
    Injection(row=11, code="estimator_diverged", how="the filter says that it diverged", act=_estimate(_diverged)),
    Injection(row=11, code="position_uncertain", how="the filter's sigma is 2 m", act=_estimate(_uncertain)),
    Injection(row=11, code="heading_against_gyro", how="the heading jumps by 0.5 rad", fail="heading:wrong=0.5"),
    Injection(row=11, code="heading_against_course", how="the heading jumps by 0.5 rad", fail="heading:wrong=0.5"),
    Injection(row=11, code="heading_stuck", how="the same heading again and again", fail="heading:stuck"),
    Injection(row=12, code="imu_silent", how="no byte of the unit passes", fail="imu:off"),
    Injection(row=12, code="imu_stuck", how="the same sample again and again", fail="imu:stuck", also=("imu_silent",)),
    Injection(row=12, code="imu_saturated", how="the unit is at the end of its range, and says so", fail="imu:saturation"),
    Injection(row=12, code="gyro_against_course", how="0.5 rad/s of yaw too much", fail="imu:wrong=0.5"),
    Injection(
        row=13, code="speed_mismatch", how="the wheels spin: they tell twice the speed", fail="drive:slip=1",
        # An estimate that believes the wheels is where no fix is: whichever has lasted long enough first stops it, both alike.
        also=("gnss_refused",),
    ),
    Injection(row=13, code="speed_mismatch", how="the wheels slide: they tell 0.4 of the speed", fail="drive:slip=-0.6"),
    Injection(row=14, code="stalled", how="the wheels are held under way", fail="drive:blocked", since=_stands),
    Injection(
        row=14, code="stalled", how="no frame reaches the board any more, which tells nothing", fail="drive:off", since=_stands,
        profile="art", links=WIRES,
    ),
    Injection(
        row=14, code="not_moving", how="the wheels are held before it moves off", fail="drive:blocked", scene=Scene.HELD, act=_push
    ),
    Injection(
        row=14, code="not_moving", how="no frame reaches the board from the start", fail="drive:off", scene=Scene.HELD, act=_push,
        profile="art", links=WIRES,
    ),
    Injection(
        row=15, code="uncommanded_motion", how="the drive pushes by itself from a standstill, for 3 s", fail="drive:runaway",
        fail_s=3.0, since=_moves, scene=Scene.HELD,
    ),
    Injection(
        row=15, code="uncommanded_motion_lasts", how="it goes on pushing against the brake", fail="drive:runaway", fail_s=3.0,
        since=_moves, scene=Scene.HELD,
    ),
    Injection(
        row=15, code="overspeed", how="the drive pushes beyond the limit, for 3 s", fail="drive:runaway=1", fail_s=3.0,
        since=_too_fast, overrides=("limits.max_speed_mps=1.2", "limits.overspeed_mps=0.3"),
    ),
    Injection(row=16, code="motor_fault", how="fault 4, over-current", fail="drive:fault=4", also=("vesc_abs_over_current",)),
    Injection(row=16, code="motor_hot", how="its thermometers say 87 degrees", simulated=True, fail="drive:heat=360"),
    Injection(row=16, code="motor_too_hot", how="its thermometers say 102 degrees", simulated=True, fail="drive:heat=375"),
    Injection(row=17, code="actuator_lost", how="nothing passes in either direction", fail="drive:off", also=("vesc_silent",)),
    Injection(row=18, code="battery_low", how="the supply falls to 9.7 V", simulated=True, fail="drive:battery=9.7"),
    Injection(row=18, code="battery_empty", how="the supply falls to 8.5 V", simulated=True, fail="drive:battery=8.5"),
    Injection(
        row=19, code="fence_ahead", how="a fence is put up nearer than a stop takes",
        act=lambda s: s.put_up_fence(0.25, beyond=True),
    ),
    Injection(
        row=19, code="fence_left", how="a fence is put up on whose wrong side it drives, the edge 2 m ahead",
        act=lambda s: s.put_up_fence(2.0, beyond=False),
    ),
    Injection(row=19, code="corridor_left", how="the steering pulls to the right", fail="drive:pull=-2", since=_left),
    Injection(row=20, code="controller_failed", how="the controller knows nothing but the stop", act=_command(_knows_nothing)),
    Injection(
        row=21, code="commands_clipped", how="the controller wants 1 rad of wheel and twice the drive",
        act=_command(lambda c: replace(c, wheel_angle_rad=1.0, throttle=2.0)),
    ),
    Injection(
        row=22, code="path_lost", how="the controller does not know where on its path it is",
        act=_command(lambda c: replace(c, cross_track_m=nan, progress_m=nan)),
    ),
    Injection(
        row=23, code="obstacle_in_sight", how="a post is put up where rolling out ends, ranges", act=lambda s: s.put_up_post(0.9),
        overrides=RANGE,
    ),
    Injection(
        row=23, code="obstacle_in_sight", how="the same, scans", act=lambda s: s.put_up_post(0.9), overrides=SCAN
    ),
    Injection(
        row=23, code="obstacle_ahead", how="a post is put up where a stop ends, ranges", act=lambda s: s.put_up_post(0.65),
        overrides=RANGE,
    ),
    Injection(row=23, code="obstacle_ahead", how="the same, scans", act=lambda s: s.put_up_post(0.65), overrides=SCAN),
    Injection(
        row=23, code="obstacle_too_near", how="a post is put up nearer than a controlled stop, ranges",
        act=lambda s: s.put_up_post(0.4), overrides=RANGE,
    ),
    Injection(row=23, code="obstacle_too_near", how="the same, scans", act=lambda s: s.put_up_post(0.4), overrides=SCAN),
    Injection(row=23, code="obstacle_sensor_silent", how="no byte of the ranges passes", fail="range:off", overrides=RANGE),
    Injection(row=23, code="obstacle_sensor_silent", how="no byte of the scans passes", fail="scanner:off", overrides=SCAN),
    Injection(
        row=23, code="obstacle_sensor_blind", how="something lies on the scanner's window", act=lambda s: s.cover_scanner(),
        overrides=SCAN,
    ),
    Injection(
        row=24, code="log_failing", how="the log says that its disk is full", simulated=True,
        act=_host(log_failure="No space left on device"),
    ),
    Injection(row=25, code="host_strained", how="the processor is throttled", simulated=True, act=_host(throttled=True)),
    Injection(
        row=26, code="clock_stepped", how="the wall clock is put back by an hour", simulated=True, act=_host(clock_step_s=-3600.0)
    ),
    Injection(row=26, code="woke_up", how="the machine has slept for 20 s", simulated=True, act=_host(suspended_s=20.0)),
    Injection(
        row=27, code="", how="the profile is not the one that was calibrated", simulated=True, scene=Scene.PARKED,
        act=_not_calibrated, refused="calibrated",
    ),
    Injection(row=28, code="", how="the daemon is started anew while the vehicle drives", act=lambda s: s.pair.start(s.now_ns)),
    Injection(row=29, code="", how="the link to the simulator ends", act=_lose_simulator),
)  # fmt: skip
"""In the order of the matrix; every rule of it at least once."""

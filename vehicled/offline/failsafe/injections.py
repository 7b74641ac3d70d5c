"""Table of the faults injected in lockstep, for each row of the matrix: the fault, how it is made,
and the code that must detect it.

``fail`` breaks a simulated device as ``--fail`` does; ``act`` does something else at that instant.
Both happen in a drive described by ``scene``. Times count from the injection, or from the instant
at which ``since`` first holds for the true vehicle plus ``grace_s``.
"""

from collections.abc import Callable
from math import inf, nan

from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.messages import (
    ControlCommand,
    ControlLevel,
    ControlReason,
    EstimatorStatus,
    HostHealth,
    OperatorAction,
    Setpoint,
    StateEstimate,
    TeleopCommand,
)
from vehicled.core.tasks import PIPELINE
from vehicled.core.vehicle import MOVING_MPS, Limits
from vehicled.offline.failsafe.stage import (
    PROGRAM,
    READING_NS,
    SECOND_NS,
    STICK,
    InjectionScene,
    TrialStage,
)
from vehicled.runtime.ending import EndConditions
from vehicled.safety.monitors.place import OVERRUN_SHARE
from vehicled.safety.monitors.yaw import STUCK_RAD

COURSE = "circle_r5_ccw"
DRIFT_MPS = 2.0
BOTH = ("wires", "messages")
WIRES = ("wires",)


class Injection(Struct, frozen=True, kw_only=True):
    """A fault that triggers one row of the matrix, with the expected detection."""

    row: int
    code: str
    """Code of the rule that must trip; empty if a reaction outside the daemon is expected."""
    how: str
    """Description of the fault for the report."""
    simulated: bool = False
    """True if a development machine cannot produce the fault; it is then injected at the edge of
    the daemon."""
    fail: str = ""
    """Failures of simulated devices, each ``port:kind=value``, with spaces in between."""
    fail_s: float = 60.0
    """Duration of those failures, s."""
    act: Callable[[TrialStage], None] | None = None
    prepare: Callable[[TrialStage], None] | None = None
    """Function called before the drive."""
    scene: InjectionScene = InjectionScene.COURSE
    also: tuple[str, ...] = ()
    """Codes by which a device may report the same fault, earlier or instead."""
    since: Callable[[TrialStage], bool] | None = None
    grace_s: Callable[[Limits], float] = lambda limits: 0.0
    refused: str = ""
    """Part of the reason with which arming must be refused."""
    links: tuple[str, ...] = BOTH
    profile: str = "art_vesc"
    overrides: tuple[str, ...] = ()
    course: str = COURSE
    timeout_s: float = 8.0
    """Longest time until the vehicle has reacted and stopped, s."""

    @property
    def key(self) -> str:
        """Identity of the injection in seeds and reports."""
        return f"{self.row} {self.code or self.refused or 'outside'} {self.profile}"


def _task(name: str) -> int:
    return PIPELINE.index(name)


def _costs(task: str, cost_ms: float) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.pair.stopwatch.costs_ns[_task(task)] = round(cost_ms * 1e6)

    return act


def _now_and_then(stage: TrialStage) -> None:
    """Make every fourth run of control too long."""
    costs = stage.pair.stopwatch.costs_ns
    stats = stage.pair.machine.executive.stats(_task("control"))
    usual = costs[_task("control")]

    def duty() -> None:
        costs[_task("control")] = 6_500_000 if stats.n % 4 == 0 else usual

    stage.duties.append(duty)


def _estimate(change: Callable[[StateEstimate], StateEstimate]) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.estimator.spoil = change

    return act


def _command(change: Callable[[ControlCommand], ControlCommand]) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.controller.spoil = change

    return act


def _raise_once(stage: TrialStage) -> None:
    def spoil(command: ControlCommand) -> ControlCommand:
        stage.controller.spoil = None
        raise ArithmeticError("injected defect in a task")

    stage.controller.spoil = spoil


def _ask(action: OperatorAction) -> Callable[[TrialStage], None]:
    return lambda stage: stage.ask(action)


def _stick(
    *, plugged: bool = True, deadman: bool = True, unplugged: bool = False
) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.stick_plugged, stage.deadman = plugged, deadman
        if unplugged:
            now_ns = stage.now_ns
            stage.say(TeleopCommand(now_ns, now_ns, nan, nan, nan, False, STICK, unplugged=True))

    return act


def _program(*, released: bool) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.program_sends = False
        if released:
            stage.say(Setpoint(stage.now_ns, stage.now_ns, 0.0, 0.0, origin=PROGRAM, released=True))

    return act


def _push(stage: TrialStage) -> None:
    stage.pushes = True


def _deflected(stage: TrialStage) -> None:
    """Request teleop repeatedly with an input device that was never neutral."""
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


def _not_calibrated(stage: TrialStage) -> None:
    stage.pair.machine.pipeline.setup_fault = "the profile is not the calibrated one"
    stage.ask(OperatorAction.ARM, OperatorAction.DRIVE)


def _ground(speaks: bool) -> Callable[[TrialStage], None]:
    def act(stage: TrialStage) -> None:
        stage.ground_speaks = speaks

    return act


def _host(**reading: float | bool | str) -> Callable[[TrialStage], None]:
    """Send readings of the host once a second, at a random phase."""

    def act(stage: TrialStage) -> None:
        due_ns = stage.now_ns + stage.now_ns % SECOND_NS
        once = "suspended_s" in reading or "clock_step_s" in reading
        sent = False

        def duty() -> None:
            nonlocal due_ns, sent
            if stage.now_ns >= due_ns:
                due_ns += SECOND_NS
                stage.say(
                    HostHealth(stage.now_ns)
                    if once and sent
                    else HostHealth(stage.now_ns, **reading)  # type: ignore[arg-type]
                )
                sent = True

        stage.duties.append(duty)

    return act


def _lose_simulator(stage: TrialStage) -> None:
    """End the run in the way of both pumps when the link ends."""
    pair = stage.pair
    EndConditions(pair.machine, None, until_ns=2**62).lost("the simulator is gone", pair.now_ns)


def _moves(stage: TrialStage) -> bool:
    return stage.speed_mps > 2.0 * MOVING_MPS


def _stands(stage: TrialStage) -> bool:
    return stage.speed_mps < MOVING_MPS


def _says_finished(stage: TrialStage, finished: bool) -> None:
    vars(stage.controller)["finished"] = finished


def _drives_on(stage: TrialStage) -> None:
    """Let the controller drive for ever."""
    _says_finished(stage, False)
    stage.controller.spoil = lambda command: replace(command, throttle=0.45, brake=0.0)


def _beyond(stage: TrialStage) -> bool:
    return stage.beyond_m > OVERRUN_SHARE * stage.profile.limits.corridor_m


def _left(stage: TrialStage) -> bool:
    return stage.off_course_m > stage.profile.limits.corridor_m


def _too_fast(stage: TrialStage) -> bool:
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


def _shifted(estimate: StateEstimate) -> StateEstimate:
    return replace(estimate, x_m=estimate.x_m + 1.0)


def _drift(stage: TrialStage) -> None:
    """Let the filter's place drift to the east."""
    begin_ns = stage.now_ns
    stage.estimator.spoil = lambda e: replace(
        e, x_m=e.x_m + DRIFT_MPS * max(0, e.t_ns - begin_ns) * 1e-9
    )


def _slower(estimate: StateEstimate) -> StateEstimate:
    return replace(estimate, speed_mps=0.25 * estimate.speed_mps)


def _certain(estimate: StateEstimate) -> StateEstimate:
    covariance = list(estimate.covariance)
    covariance[0] = covariance[5] = 1e-4
    return replace(estimate, covariance=tuple(covariance))


def _knows_nothing(command: ControlCommand) -> ControlCommand:
    failed = ControlReason.INFEASIBLE
    return replace(command, throttle=0.0, brake=1.0, level=ControlLevel.STOP, reason=failed)


RANGE = (
    "devices.range.driver=msglink",
    'devices.range.messages=["ObstacleRange"]',
    "devices.range.rate_hz=20",
)
"""Overrides that add a range sensor, which the shipped profiles do not have."""
SCAN = (
    "devices.scanner.driver=msglink",
    'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20",
    "devices.scanner.lever_arm_m=[0.45,0.0,0.15]",
)
"""Overrides that add a planar scanner, which the shipped profiles do not have."""

_RC_TABLE = (
    "steering={channel=1},throttle={channel=3},mode={channel=5},kill={channel=7},required=true"
)
RC = (
    "devices.rc.driver=crsf",
    'devices.rc.messages=["RcChannels"]',
    "devices.rc.rate_hz=50",
    f"rc={{{_RC_TABLE}}}",
)
"""Overrides that add an RC receiver whose handset is required, which the shipped profiles do not
have."""

INJECTIONS: tuple[Injection, ...] = (
    Injection(
        row=1, code="loop_frozen", how="the daemon freezes for 1 s and sends no frames",
        act=lambda s: s.freeze(1.0),
    ),
    Injection(
        row=1, code="loop_frozen", how="the same, with a board that has no brake and no telemetry",
        act=lambda s: s.freeze(1.0), profile="art", links=WIRES,
    ),
    Injection(
        row=2, code="deadlines_missed", how="control needs 6.5 ms, its deadline is 6 ms",
        act=_costs("control", 6.5),
    ),
    Injection(
        row=2, code="deadlines_share", how="every fourth run of control needs 6.5 ms",
        act=_now_and_then,
    ),
    Injection(row=2, code="estimate_stale", how="fusion needs 30 ms", act=_costs("fusion", 30.0)),
    Injection(row=2, code="control_stale", how="control needs 60 ms", act=_costs("control", 60.0)),
    Injection(row=3, code="task_raised", how="the controller raises once", act=_raise_once),
    Injection(
        row=4, code="emergency_stop", how="the operator requests it",
        act=_ask(OperatorAction.EMERGENCY_STOP),
    ),
    Injection(
        row=4, code="rc_killed", how="the kill switch of the RC handset is moved", fail="rc:kill",
        overrides=RC,
    ),
    Injection(
        row=5, code="teleop_lost", how="the readings stop", simulated=True,
        scene=InjectionScene.MANUAL, act=_stick(plugged=False)
    ),
    Injection(
        row=5, code="deadman_released", how="the deadman is released",
        simulated=True, scene=InjectionScene.MANUAL, act=_stick(deadman=False)
    ),
    Injection(
        row=5, code="setpoint_stale", how="the setpoints stop",
        simulated=True, scene=InjectionScene.SETPOINTS, act=_program(released=False)
    ),
    Injection(
        row=5, code="setpoints_ended", how="the program ends",
        simulated=True, scene=InjectionScene.SETPOINTS, act=_program(released=True)
    ),
    Injection(
        row=6, code="teleop_unplugged", how="the input device is unplugged", simulated=True,
        scene=InjectionScene.MANUAL, act=_stick(plugged=False, unplugged=True),
    ),
    Injection(
        row=6, code="", how="a deflected stick requests teleop", simulated=True,
        scene=InjectionScene.PARKED, act=_deflected, refused="centre the stick",
    ),
    Injection(
        row=7, code="ground_lost", how="the heartbeats stop", simulated=True, prepare=_ground(True),
        act=_ground(False)
    ),
    Injection(
        row=7, code="rc_lost", how="the RC receiver sends nothing", fail="rc:off", overrides=RC,
    ),
    Injection(
        row=7, code="rc_lost", how="the RC receiver reports that it has lost its handset",
        fail="rc:rc_failsafe", overrides=RC, also=("rc_link_poor",),
    ),
    Injection(
        row=7, code="rc_lost", how="the RC receiver sends the centre of every channel",
        fail="rc:centred", overrides=RC,
    ),
    Injection(
        row=7, code="rc_lost",
        how="the RC receiver repeats its last frame without a mark, and the profile states still_s",
        fail="rc:stuck", grace_s=lambda limits: 1.0,
        overrides=(*RC[:3], f"rc={{{_RC_TABLE},still_s=1.0}}"),
    ),
    Injection(
        row=7, code="rc_link_poor", how="30 % of the handset's packets arrive",
        fail="rc:link_quality=0.3", overrides=RC,
    ),
    Injection(row=8, code="gnss_silent", how="the receiver sends nothing", fail="gnss:off"),
    Injection(
        row=8, code="speed_unmeasured",
        how="the receiver sends nothing, and nothing else measures a speed", fail="gnss:off",
        profile="art",
    ),
    Injection(
        row=8, code="speed_unmeasured_long", how="the same, and the filter claims a sigma of 1 cm",
        fail="gnss:off",
        # The drive of `art` goes to rest on a throttle that nothing corrects, before the rule acts.
        act=_estimate(_certain), profile="art_published", timeout_s=12.0,
    ),
    Injection(
        row=9, code="rtk_lost", how="RTK fixed to float, drifting to 0.4 m", fail="gnss:float",
    ),
    Injection(
        row=9, code="rtk_lost_long", how="RTK fixed to float, permanently", fail="gnss:float",
        grace_s=lambda limits: limits.rtk_lost_stop_s, overrides=("limits.rtk_lost_stop_s=5",),
        timeout_s=12.0,
    ),
    Injection(
        row=10, code="gnss_refused", how="the position jumps 5 m sideways, reported as RTK fixed",
        fail="gnss:multipath=5",
    ),
    Injection(
        row=10, code="gnss_stuck", how="the same position repeats with fresh stamps",
        fail="gnss:stuck",
    ),
    Injection(
        row=11, code="estimate_not_finite", how="the filter returns NaN and infinity",
        act=_estimate(_not_finite),
    ),
    Injection(
        row=11, code="estimator_diverged", how="the filter reports divergence",
        act=_estimate(_diverged),
    ),
    Injection(
        row=11, code="position_uncertain", how="the filter's sigma is 2 m",
        act=_estimate(_uncertain),
    ),
    Injection(
        row=11, code="place_against_gnss", how="the filter's place drifts away at 2 m/s",
        act=_drift, grace_s=lambda limits: limits.corridor_m / 3.0 / DRIFT_MPS,
    ),
    Injection(
        row=11, code="place_jumped", how="the filter's place jumps by 1 m", act=_estimate(_shifted),
    ),
    Injection(
        row=11, code="speed_against_gnss", how="the filter says a quarter of the speed",
        act=_estimate(_slower), profile="art",
    ),
    Injection(
        row=11, code="heading_against_gyro", how="the heading jumps by 0.5 rad",
        fail="heading:wrong=0.5",
    ),
    Injection(
        row=11, code="heading_against_course", how="the heading jumps by 0.5 rad",
        fail="heading:wrong=0.5",
    ),
    Injection(
        row=11, code="heading_stuck", how="the same heading repeats; from a turn of 0.1 rad on",
        fail="heading:stuck", act=TrialStage.measure_turn, since=lambda s: s.turned_rad > STUCK_RAD,
        timeout_s=60.0,
    ),
    Injection(row=12, code="imu_silent", how="the IMU sends nothing", fail="imu:off"),
    Injection(
        row=12, code="imu_stuck", how="the same sample repeats", fail="imu:stuck",
        also=("imu_silent",),
    ),
    Injection(
        row=12, code="imu_saturated", how="the IMU is at the end of its range and reports it",
        fail="imu:saturation",
    ),
    Injection(
        row=12, code="imu_tilted", how="the IMU looks 17 degrees upward", profile="hunter_se",
        links=("messages",), overrides=("sim.imu.mounting_error_rad=[0.0, 0.3, 0.0]",),
        timeout_s=20.0,
    ),
    Injection(
        row=12, code="gyro_against_course", how="gyro offset of 0.5 rad/s", fail="imu:wrong=0.5",
    ),
    Injection(
        row=12, code="gyro_against_steering",
        how="gyro offset of 0.5 rad/s, in a tunnel without a heading",
        fail="gnss:no_fix heading:off imu:wrong=0.5",
    ),
    Injection(
        row=19, code="steering_unfollowed", how="the wheels turn the other way",
        fail="drive:steering_reversed",
    ),
    Injection(
        row=19, code="steering_unfollowed", how="the steering pulls to the right",
        fail="drive:pull=-2",
    ),
    Injection(
        row=19, code="rear_steering", how="the servo of the rear wheels stays straight",
        fail="drive:rear_steering=0", profile="hunter_se", links=("messages",),
        overrides=("vehicle.rear_steering_ratio=-1.0",), timeout_s=20.0,
    ),
    Injection(
        row=19, code="rear_steering", how="the servo of the rear wheels turns the wrong way",
        fail="drive:rear_steering=-1", profile="hunter_se", links=("messages",),
        overrides=("vehicle.rear_steering_ratio=-1.0",), timeout_s=20.0,
    ),
    Injection(
        row=13, code="speed_mismatch", how="wheel spin: measured speed doubles",
        fail="drive:slip=1",
        # The estimate follows the wheels away from the fixes, so either rule may trip first; both
        # stop the vehicle in the same way.
        also=("gnss_refused",),
    ),
    Injection(
        row=13, code="speed_mismatch", how="wheel lock: measured speed is 0.4 of the true one",
        fail="drive:slip=-0.6",
    ),
    Injection(
        row=14, code="stalled", how="the wheels are blocked while driving", fail="drive:blocked",
        since=_stands,
    ),
    Injection(
        row=14, code="stalled", how="frames no longer reach a board without telemetry",
        fail="drive:off", since=_stands, profile="art", links=WIRES,
    ),
    Injection(
        row=14, code="not_moving", how="the wheels are blocked at standstill",
        fail="drive:blocked", scene=InjectionScene.HELD, act=_push
    ),
    Injection(
        row=14, code="not_moving", how="no frame ever reaches the board", fail="drive:off",
        scene=InjectionScene.HELD, act=_push, profile="art", links=WIRES,
    ),
    Injection(
        row=14, code="no_progress", how="the controller drives with too little throttle",
        since=_stands, timeout_s=12.0,
        act=_command(lambda command: replace(command, throttle=min(command.throttle, 0.1),
            brake=0.0)),
        overrides=("limits.no_progress_s=3",),
    ),
    Injection(
        row=15, code="rolling_back",
        how="the drive creeps backward, whatever the command; from 0.3 m on",
        fail="drive:runaway=-0.29", fail_s=6.0,
        since=lambda s: s.way_m > s.profile.limits.roll_back_m, scene=InjectionScene.HELD,
        act=_push, overrides=("limits.not_moving_s=10",), timeout_s=12.0,
    ),
    Injection(
        row=15, code="faster_than_asked", how="the controller drives faster than it states",
        act=_command(lambda command: replace(command, target_speed_mps=0.3)),
    ),
    Injection(
        row=15, code="uncommanded_motion", how="the drive runs away from standstill for 3 s",
        fail="drive:runaway", fail_s=3.0, since=_moves, scene=InjectionScene.HELD,
    ),
    Injection(
        row=15, code="uncommanded_motion_lasts", how="the drive runs away against the brake",
        fail="drive:runaway", fail_s=3.0, since=_moves, scene=InjectionScene.HELD,
    ),
    Injection(
        row=15, code="rollaway", how="the drive creeps while the vehicle stands by",
        fail="drive:runaway=0.3", fail_s=4.0, since=lambda s: s.speed_mps > MOVING_MPS,
        scene=InjectionScene.PARKED,
    ),
    Injection(
        row=15, code="overspeed", how="the drive runs away beyond the speed limit for 3 s",
        fail="drive:runaway=1", fail_s=3.0, since=_too_fast,
        overrides=("limits.max_speed_mps=1.2", "limits.overspeed_mps=0.3"),
    ),
    Injection(
        row=16, code="motor_fault", how="fault 4, over-current", fail="drive:fault=4",
        also=("vesc_abs_over_current",),
    ),
    Injection(
        row=16, code="motor_hot", how="the temperature sensors read 87 degrees", simulated=True,
        fail="drive:heat=360",
    ),
    Injection(
        row=16, code="motor_too_hot", how="the temperature sensors read 102 degrees",
        simulated=True, fail="drive:heat=375",
    ),
    Injection(
        row=17, code="actuator_lost", how="no bytes pass in either direction", fail="drive:off",
        also=("vesc_silent",),
    ),
    Injection(
        row=18, code="battery_low", how="the supply falls to 9.7 V", simulated=True,
        fail="drive:battery=9.7",
    ),
    Injection(
        row=18, code="battery_empty", how="the supply falls to 8.5 V", simulated=True,
        fail="drive:battery=8.5",
    ),
    Injection(
        row=19, code="fence_ahead", how="a fence appears within the stopping distance",
        act=lambda s: s.put_up_fence(s.profile.vehicle.outline.front_m + 0.1, beyond=True),
        also=("fence_left",),
    ),
    Injection(
        row=19, code="fence_left", how="a fence appears with the vehicle outside, edge 2 m ahead",
        act=lambda s: s.put_up_fence(2.0, beyond=False),
    ),
    Injection(
        row=19, code="corridor_left",
        how="the controller drives straight on and says that it is on its course", since=_left,
        act=_command(lambda c: replace(c, wheel_angle_rad=0.0, throttle=0.4, brake=0.0,
            cross_track_m=0.0, heading_error_rad=0.0)),
        timeout_s=12.0,
    ),
    Injection(
        row=20, code="controller_failed", how="the controller fails and only commands a stop",
        act=_command(_knows_nothing),
    ),
    Injection(
        row=21, code="commands_clipped",
        how="the controller commands a wheel angle of 1 rad and twice the drive",
        act=_command(lambda c: replace(c, wheel_angle_rad=1.0, throttle=2.0)),
    ),
    Injection(
        row=22, code="path_lost", how="the controller loses its place on the course",
        act=_command(lambda c: replace(c, cross_track_m=nan, progress_m=nan)),
    ),
    Injection(
        row=22, code="course_cut_short",
        how="the controller says in mid-course that it is finished",
        act=lambda s: _says_finished(s, True),
    ),
    Injection(
        row=22, code="course_overrun", how="the controller drives on beyond the end of the course",
        act=_drives_on, since=_beyond, course="straight_20m", timeout_s=30.0,
    ),
    Injection(
        row=22, code="course_backward",
        how="the controller drives backward and says that all is well",
        act=_command(lambda c: replace(c, throttle=-0.5, brake=0.0)),
        since=lambda s: s.backward_m > s.profile.limits.corridor_m, course="straight_20m",
        overrides=("limits.corridor_m=1.0",), timeout_s=12.0,
    ),
    Injection(
        row=23, code="obstacle_in_sight", how="a post at the coasting distance, range sensor",
        act=lambda s: s.put_up_post(0.9), overrides=RANGE,
    ),
    Injection(
        row=23, code="obstacle_in_sight", how="the same, scanner", act=lambda s: s.put_up_post(0.9),
        overrides=SCAN
    ),
    Injection(
        row=23, code="obstacle_ahead", how="a post at the stopping distance, range sensor",
        act=lambda s: s.put_up_post(0.65), overrides=RANGE,
    ),
    Injection(
        row=23, code="obstacle_ahead", how="the same, scanner", act=lambda s: s.put_up_post(0.65),
        overrides=SCAN,
    ),
    Injection(
        row=23, code="obstacle_too_near",
        how="a post appears within the controlled stopping distance, range sensor",
        act=lambda s: s.put_up_post(0.4), overrides=RANGE,
    ),
    Injection(
        row=23, code="obstacle_too_near", how="the same, scanner", act=lambda s: s.put_up_post(0.4),
        overrides=SCAN,
    ),
    Injection(
        row=23, code="obstacle_sensor_silent", how="the range sensor sends nothing",
        fail="range:off", overrides=RANGE,
    ),
    Injection(
        row=23, code="obstacle_sensor_silent", how="the scanner sends nothing", fail="scanner:off",
        overrides=SCAN,
    ),
    Injection(
        row=23, code="obstacle_sensor_blind", how="the scanner's window is covered",
        act=lambda s: s.cover_scanner(), overrides=SCAN,
    ),
    Injection(
        row=30, code="map_lost", how="scans fit the map no more", act=lambda s: s.leave_map(),
    ),
    Injection(
        row=30, code="map_lost_long", how="the same, for longer", act=lambda s: s.leave_map(),
        also=("map_lost",),
    ),
    Injection(
        row=24, code="log_failing", how="the log writer reports a full disk", simulated=True,
        act=_host(log_failure="No space left on device"),
    ),
    Injection(
        row=25, code="host_strained", how="the processor is throttled", simulated=True,
        act=_host(throttled=True),
    ),
    Injection(
        row=26, code="clock_stepped", how="the wall clock steps back by an hour", simulated=True,
        act=_host(clock_step_s=-3600.0)
    ),
    Injection(
        row=26, code="woke_up", how="the computer was suspended for 20 s", simulated=True,
        act=_host(suspended_s=20.0),
    ),
    Injection(
        row=27, code="", how="the profile is not the calibrated one", simulated=True,
        scene=InjectionScene.PARKED, act=_not_calibrated, refused="calibrated",
    ),
    Injection(
        row=28, code="", how="the daemon restarts while the vehicle drives",
        act=lambda s: s.pair.start(s.now_ns),
    ),
    Injection(row=29, code="", how="the link to the simulator ends", act=_lose_simulator),
)  # fmt: skip
"""All injections in the order of the matrix; every rule occurs at least once."""

"""Modes, arming and reactions."""

from collections.abc import Callable
from math import isfinite

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Fault,
    GnssFix,
    HostHealth,
    ImuSample,
    Message,
    Mode,
    MotorStatus,
    OperatorAction,
    OperatorCommand,
    Reaction,
    StateEstimate,
    TeleopCommand,
    WheelSpeed,
)
from vehicled.core.messages.decisions import ControlCommand
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import Limits
from vehicled.paths.formulas import straight
from vehicled.safety.matrix import MATRIX, RULES
from vehicled.safety.modes import TRANSITIONS, Trigger, after
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.reason import Reason
from vehicled.safety.rule import RuleInputs
from vehicled.safety.supervisor import ARM_REQUEST_VALID_NS, Supervisor

MS = 1_000_000
LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
MOVING = replace(ESTIMATE, speed_mps=1.0)
CONTROL = ControlCommand(0, 0, 0.0, 0.3, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0)
SOURCES = (
    MonitoredSource(name="gnss", message=GnssFix, silence_ns=500 * MS),
    MonitoredSource(name="imu", message=ImuSample, silence_ns=50 * MS),
)


def fix(now_ns: int, speed_mps: float) -> GnssFix:
    return GnssFix(now_ns, now_ns, 0.0, 0.0, 0.0, velocity_enu_mps=(speed_mps, 0.0, 0.0))


class Bench:
    """A supervisor with its detectors, fed every 10 ms with sensors that speak."""

    def __init__(self) -> None:
        self.supervisor = Supervisor()
        self.monitors = Monitors(LIMITS, VEHICLE, SOURCES, straight(20.0))
        self.now_ns = 10**9
        self.speaks: set[type[Message]] = {GnssFix, ImuSample}
        self.measures = True
        """True while the receiver measures the speed of the estimate."""
        self.estimate = ESTIMATE

    def step(self, times: int = 1, **broken: object) -> None:
        for _ in range(times):
            self.now_ns += 10 * MS
            for kind in self.speaks:
                self.monitors.sources.received(kind, self.now_ns)
            if self.measures and GnssFix in self.speaks and isfinite(self.estimate.speed_mps):
                for noise_mps in (0.0, 0.01, -0.01):
                    self.monitors.speed.on_message(
                        fix(self.now_ns, self.estimate.speed_mps + noise_mps), self.now_ns
                    )
            values: dict[str, object] = {"estimate": self.estimate, "control": CONTROL, **broken}
            situation = RuleInputs(
                now_ns=self.now_ns,
                mode=self.supervisor.mode,
                limits=LIMITS,
                monitors=self.monitors,
                **values,  # type: ignore[arg-type]
            )
            self.supervisor.step(situation)

    def go(self, x_m: float) -> None:
        """Drive along the course to a place."""
        from_m = self.estimate.x_m
        for k in range(1, 41):
            self.estimate = replace(self.estimate, x_m=from_m + (x_m - from_m) * k / 40)
            self.step()

    def finish(self) -> None:
        """Drive to the end of the course; the controller says that it is finished."""
        self.go(19.95)
        self.step(1, controller_finished=True)

    def ask(self, *actions: OperatorAction) -> None:
        for action in actions:
            self.supervisor.on_operator(
                OperatorCommand(self.now_ns, self.now_ns, action, "test"), self.now_ns
            )

    @property
    def state(self) -> tuple[Mode, Reaction]:
        return self.supervisor.mode, self.supervisor.reaction

    def codes(self, active: bool = True) -> list[str]:
        return [fault.code for fault in self.supervisor.take_faults() if fault.active is active]


def driving() -> Bench:
    bench = Bench()
    bench.step()
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step()
    assert bench.supervisor.mode is Mode.AUTO
    bench.estimate = MOVING
    bench.step()
    return bench


def silence(bench: Bench, kind: type[Message]) -> None:
    bench.speaks.discard(kind)


# ---------------------------------------------------------------------------------------- the table


def test_every_row_of_the_matrix_is_there_and_says_how_fast_it_must_be() -> None:
    assert [row.number for row in MATRIX] == list(range(1, 31))
    for row in MATRIX:
        assert row.rules or row.outside, f"row {row.number} has nobody who answers it"
        for rule in row.rules:
            assert rule.react_ms >= rule.detect_ms + rule.persist_ms, (
                f"{rule.code} cannot react before it has tripped"
            )
            assert 0.0 < rule.react_ms < 1e5
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_only_nan_and_what_leaves_no_doubt_trips_on_a_single_sample() -> None:
    at_once = {rule.code for rule in RULES if rule.persist_ms == 0.0 and rule.detect_ms == 0.0}
    assert at_once == {
        "estimate_not_finite",
        "task_raised",
        "deadman_released",
        "teleop_unplugged",
        "setpoints_ended",
        "loop_frozen",
    }


def test_no_way_leads_to_driving_but_through_armed() -> None:
    into_auto = [way.before for way in TRANSITIONS if way.after is Mode.AUTO]
    assert into_auto == [frozenset({Mode.ARMED})]
    into_armed = [(way.before, way.trigger) for way in TRANSITIONS if way.after is Mode.ARMED]
    assert into_armed == [(frozenset({Mode.STANDBY}), Trigger.ARM)]
    assert all(
        after(mode, Trigger.DISABLE) is Mode.FAULT for mode in Mode if mode is not Mode.FAULT
    )


# ------------------------------------------------------------------------------------------- arming


def test_nothing_arms_itself() -> None:
    bench = Bench()
    bench.step(1000)
    assert bench.supervisor.mode is Mode.STANDBY
    bench.ask(OperatorAction.DRIVE)
    bench.step(5)
    assert bench.supervisor.mode is Mode.STANDBY
    bench.ask(OperatorAction.ARM)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED, (
        "what was refused in another mode must not come true later"
    )


def test_a_restart_on_the_move_brakes_first() -> None:
    bench = Bench()
    bench.estimate = replace(ESTIMATE, speed_mps=0.8)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(50)
    assert bench.supervisor.mode is Mode.INIT
    bench.estimate = ESTIMATE
    bench.step(3)
    assert bench.supervisor.mode is Mode.AUTO


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"estimate": None}, "has not started"),
        ({"estimate": replace(ESTIMATE, status=EstimatorStatus.ALIGNING)}, "aligning"),
        ({"estimate": replace(ESTIMATE, x_m=float("nan"))}, "not finite"),
        ({"estimate": replace(ESTIMATE, speed_mps=0.5)}, "let it stand"),
        ({"estimate": replace(ESTIMATE, covariance=(4.0,) * 16)}, "known to 2.83 m only"),
        ({"estimate": replace(ESTIMATE, rejected_in_a_row=5)}, "5 fixes contradict the estimate"),
        ({"estimate": replace(ESTIMATE, y_m=5.0)}, "5.0 m off the course"),
        ({"estimate": replace(ESTIMATE, yaw_rad=3.0)}, "backwards"),
        ({"actuator_lost": "unplugged"}, "unplugged"),
        ({"setup_fault": "calibrated for another vehicle"}, "another vehicle"),
    ],
)
def test_arming_waits_for_what_is_missing_and_names_it(
    broken: dict[str, object], named: str
) -> None:
    bench = Bench()
    bench.step()
    bench.ask(OperatorAction.ARM)
    bench.step(2, **broken)
    assert bench.supervisor.mode is Mode.STANDBY
    assert named in bench.supervisor.why
    assert any(named in text for text in bench.supervisor.waiting)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED


def test_a_silent_sensor_and_an_arming_request_that_does_not_wait_for_ever() -> None:
    bench = Bench()
    bench.step()
    silence(bench, ImuSample)
    bench.step(10)
    bench.ask(OperatorAction.ARM)
    bench.step(ARM_REQUEST_VALID_NS // (10 * MS) + 1)
    assert "refused" in bench.supervisor.why
    assert "imu is silent" in bench.supervisor.why
    assert bench.codes() == ["arming_refused"]
    bench.speaks.add(ImuSample)
    bench.step(10)
    assert bench.supervisor.mode is Mode.STANDBY


@pytest.mark.parametrize(("share", "armed"), [(0.01, False), (0.5, True), (float("nan"), True)])
def test_without_room_for_a_log_nothing_is_armed(share: float, armed: bool) -> None:
    bench = Bench()
    bench.step()
    bench.monitors.on_message(HostHealth(bench.now_ns, disk_free_share=share), bench.now_ns)
    bench.ask(OperatorAction.ARM)
    bench.step()
    assert (bench.supervisor.mode is Mode.ARMED) is armed
    assert ("make room" in bench.supervisor.why) is not armed


def test_an_imu_that_turns_at_rest_is_not_armed_with() -> None:
    bench = Bench()
    bench.step()
    for k in range(400):
        bench.monitors.on_message(
            ImuSample(
                bench.now_ns, bench.now_ns + k * MS, (0.0, 0.0, 9.8), (0.0, 0.0, 0.1 + 1e-6 * k)
            ),
            bench.now_ns,
        )
    bench.ask(OperatorAction.ARM)
    bench.step()
    assert "rad/s at rest" in bench.supervisor.why


# ---------------------------------------------------------------------------------------- reactions


@pytest.mark.parametrize(
    ("broken", "reaction", "named"),
    [
        ({"actuator_lost": "unplugged"}, Reaction.BRAKE, "unplugged"),
        ({"estimate": replace(MOVING, yaw_rad=float("inf"))}, Reaction.BRAKE, "not finite"),
        ({"estimate_age_ns": 30 * MS}, Reaction.BRAKE, "no state estimate for 30 ms"),
        ({"estimate": replace(MOVING, y_m=-2.5)}, Reaction.BRAKE, "-2.50 m off the course"),
        (
            {"controller_finished": True},
            Reaction.CONTROLLED_STOP,
            "ends the drive 20.0 m before the end of the course",
        ),
        (
            {"control": replace(CONTROL, cross_track_m=float("nan"))},
            Reaction.CONTROLLED_STOP,
            "its place on the path",
        ),
        (
            {"estimate": replace(MOVING, status=EstimatorStatus.DIVERGED)},
            Reaction.CONTROLLED_STOP,
            "diverged",
        ),
        (
            {"estimate": replace(MOVING, covariance=(1.0,) * 16)},
            Reaction.CONTROLLED_STOP,
            "known to 1.41 m only",
        ),
        (
            {"estimate": replace(MOVING, rejected_in_a_row=6)},
            Reaction.CONTROLLED_STOP,
            "6 fixes in a row",
        ),
        ({"task_raised": "control raised ValueError: no"}, Reaction.BRAKE, "ValueError"),
        ({"estimate": replace(MOVING, speed_mps=9.0)}, Reaction.BRAKE, "the limit is 3.00 m/s"),
    ],
)
def test_a_fault_stops_the_drive_and_says_why(
    broken: dict[str, object], reaction: Reaction, named: str
) -> None:
    bench = driving()
    bench.step(60, **broken)
    assert bench.state == (Mode.STOPPING, reaction)
    assert named in bench.supervisor.why
    assert any(named in link.reason.text() for link in bench.supervisor.chain)
    # No resuming by itself, however well things look afterwards.
    bench.step(100)
    assert bench.supervisor.mode is Mode.STOPPING
    bench.estimate = ESTIMATE
    bench.step()
    assert bench.supervisor.mode is Mode.STANDBY
    assert bench.supervisor.stopped
    assert named in bench.supervisor.why, "the reason outlives the stop"


def test_imu_silence_stops() -> None:
    bench = driving()
    silence(bench, ImuSample)
    bench.step(12)
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)


class Account(Struct):
    """Return the executive's counts of a task."""

    n: int
    misses: int
    consecutive_misses: int


def missed(bench: Bench) -> None:
    bench.monitors.deadlines.update(bench.now_ns, [("control", Account(100, 3, 3))])


def punctual(bench: Bench) -> None:
    bench.monitors.deadlines.update(bench.now_ns, [("control", Account(10_000, 3, 0))])


@pytest.mark.parametrize(
    ("begin", "end", "code"),
    [
        (lambda b: silence(b, GnssFix), lambda b: b.speaks.add(GnssFix), "gnss_silent"),
        (missed, punctual, "deadlines_missed"),
    ],
)
def test_a_cap_lasts_as_long_as_its_cause(
    begin: Callable[[Bench], object], end: Callable[[Bench], object], code: str
) -> None:
    bench = driving()
    begin(bench)
    bench.step(60)
    assert bench.state == (Mode.AUTO, Reaction.CAP_SPEED)
    assert bench.supervisor.speed_cap_mps == LIMITS.capped_speed_mps
    end(bench)
    bench.step(150)
    assert bench.state == (Mode.AUTO, Reaction.NONE)
    assert bench.supervisor.speed_cap_mps > LIMITS.max_speed_mps
    states = [fault.active for fault in bench.supervisor.take_faults() if fault.code == code]
    assert states == [True, False], "one record per episode"


def test_the_most_severe_reaction_wins_and_a_worse_one_can_follow() -> None:
    bench = driving()
    bench.speaks.clear()
    bench.step(60)
    assert bench.supervisor.reaction is Reaction.CONTROLLED_STOP
    bench.step(3, actuator_lost="unplugged")
    assert bench.supervisor.reaction is Reaction.BRAKE
    assert "IMU" in bench.supervisor.why
    assert "unplugged" in bench.supervisor.why
    assert [link.code for link in bench.supervisor.chain] == [
        "imu_silent",
        "gnss_silent",
        "actuator_lost",
    ]


@pytest.mark.parametrize(
    "broken",
    [
        {"estimate": replace(ESTIMATE, y_m=3.0)},
        {"estimate": replace(ESTIMATE, status=EstimatorStatus.DIVERGED)},
    ],
)
def test_a_single_glimpse_trips_nothing(broken: dict[str, object]) -> None:
    # After a stall the first tick may run before the bytes that piled up have been read.
    bench = driving()
    for k in range(20):
        bench.step(1, **(broken if k % 2 else {}))
    assert bench.state == (Mode.AUTO, Reaction.NONE)
    assert not bench.codes()


def test_the_fault_of_a_device_counts_like_a_rule() -> None:
    bench = driving()
    fault = Fault(0, "vesc_over_temperature", "drive", Reaction.DISABLE, True, "95 degrees")
    bench.monitors.on_message(replace(fault, reaction=Reaction.CAP_SPEED), 0)
    bench.step()
    assert bench.state == (Mode.AUTO, Reaction.CAP_SPEED)
    bench.monitors.on_message(replace(fault, active=False), 0)
    bench.step()
    assert bench.supervisor.reaction is Reaction.NONE
    bench.monitors.on_message(fault, 0)
    bench.step()
    assert bench.state == (Mode.FAULT, Reaction.DISABLE)
    assert "95 degrees" in bench.supervisor.why
    bench.estimate = ESTIMATE
    bench.step()
    assert bench.supervisor.stopped
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(3)
    assert bench.state == (Mode.FAULT, Reaction.DISABLE), "the cause lasts"
    assert bench.supervisor.refusal(OperatorAction.ARM) == "the cause lasts: drive: 95 degrees"
    bench.monitors.on_message(replace(fault, active=False), 0)
    bench.ask(OperatorAction.ARM)
    bench.step(2)
    assert bench.supervisor.mode is Mode.ARMED


def test_a_fault_code_in_the_telemetry_disables_the_drive() -> None:
    bench = driving()
    bench.monitors.on_message(MotorStatus(0, 0, fault_code=4), 0)
    bench.step(3)
    assert bench.state == (Mode.FAULT, Reaction.DISABLE)


def test_standing_is_not_believed_from_a_stale_estimate() -> None:
    bench = driving()
    bench.estimate = ESTIMATE
    bench.step(5, estimate_age_ns=NEVER_NS)
    assert bench.supervisor.mode is Mode.STOPPING


# ---------------------------------------------------------------------------------------- operators


def test_emergency_stop_is_latched_until_the_vehicle_stands_and_is_armed_anew() -> None:
    bench = driving()
    bench.ask(OperatorAction.EMERGENCY_STOP)
    assert bench.state == (Mode.FAULT, Reaction.DISABLE), "without waiting for a tick"
    bench.step(200)
    assert bench.state == (Mode.FAULT, Reaction.DISABLE)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(5)
    assert bench.supervisor.mode is Mode.FAULT, "it still moves"
    bench.estimate = ESTIMATE
    bench.step(3)
    assert bench.supervisor.mode is Mode.AUTO


def test_an_emergency_stop_in_fault_cancels_what_is_asked_for_within_the_same_step() -> None:
    bench = driving()
    bench.ask(OperatorAction.EMERGENCY_STOP)
    bench.estimate = ESTIMATE
    bench.step(200)
    bench.ask(
        OperatorAction.EMERGENCY_STOP,
        OperatorAction.RESET,
        OperatorAction.ARM,
        OperatorAction.DRIVE,
    )
    bench.step(200)
    assert bench.state == (Mode.FAULT, Reaction.DISABLE)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(3)
    assert bench.supervisor.mode is Mode.AUTO


def test_the_end_of_the_course_is_a_controlled_stop() -> None:
    bench = driving()
    bench.finish()
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)
    assert bench.supervisor.course_driven


def test_only_the_end_of_the_course_is_its_end_whatever_the_controller_says() -> None:
    bench = driving()
    bench.go(18.9)
    bench.step(10, controller_finished=True)
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)
    assert [link.code for link in bench.supervisor.chain] == ["course_cut_short"]
    assert not bench.supervisor.course_driven
    bench = driving()
    bench.go(20.9)
    assert bench.state == (Mode.AUTO, Reaction.NONE)
    bench.go(21.1)
    bench.step(6)
    assert [link.code for link in bench.supervisor.chain] == ["course_overrun"]
    bench = driving()
    bench.go(8.0)
    bench.go(6.1)
    assert bench.state == (Mode.AUTO, Reaction.NONE)
    bench.go(5.9)
    assert (bench.supervisor.reaction, bench.supervisor.reason.code) == (
        Reaction.BRAKE,
        "course_backward",
    )
    bench = driving()
    bench.go(20.9)
    bench.estimate = replace(MOVING, x_m=22.5)
    bench.step(6)
    assert bench.supervisor.reaction is Reaction.BRAKE
    assert "+2.50 m off the course (corridor 2.00 m)" in bench.supervisor.why


def test_stop_by_the_operator_brakes_and_disarm_disarms() -> None:
    bench = driving()
    bench.ask(OperatorAction.STOP)
    assert bench.state == (Mode.STOPPING, Reaction.BRAKE)
    bench = Bench()
    bench.step()
    bench.ask(OperatorAction.ARM)
    bench.step()
    bench.ask(OperatorAction.DISARM)
    assert bench.supervisor.mode is Mode.STANDBY


def stick(
    bench: Bench,
    sequence: int,
    steering: float = 0.0,
    throttle: float = 0.0,
    *,
    deadman: bool = True,
) -> None:
    bench.monitors.on_message(
        TeleopCommand(
            bench.now_ns, bench.now_ns, steering, throttle, 0.0, deadman, "pad", sequence
        ),
        bench.now_ns,
    )


def armed() -> Bench:
    bench = Bench()
    bench.step()
    bench.ask(OperatorAction.ARM)
    bench.step()
    return bench


def test_driving_by_hand_begins_with_a_neutral_stick_that_is_held() -> None:
    bench = armed()
    bench.ask(OperatorAction.TELEOP)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED
    stick(bench, 1, throttle=0.5)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED
    stick(bench, 2, deadman=False)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED
    assert "centre the stick" in bench.supervisor.waiting[0]
    stick(bench, 3)
    bench.step()
    assert bench.supervisor.mode is Mode.TELEOP


@pytest.mark.parametrize("ends", ["silence", "released", "repeated"])
def test_releasing_the_deadman_brakes(ends: str) -> None:
    bench = armed()
    bench.ask(OperatorAction.TELEOP)
    stick(bench, 1)
    bench.step()
    for k in range(25):
        if ends == "repeated":
            stick(bench, 1)
        elif ends == "released":
            stick(bench, 2 + k, deadman=False)
        bench.step()
    assert bench.state[1] is Reaction.BRAKE
    assert bench.supervisor.mode in (Mode.STOPPING, Mode.STANDBY)


def test_waking_up_stops_and_disarms() -> None:
    bench = driving()
    bench.monitors.on_message(HostHealth(bench.now_ns, suspended_s=3.0), bench.now_ns)
    bench.step()
    assert bench.state == (Mode.STOPPING, Reaction.BRAKE)
    bench = armed()
    bench.monitors.on_message(HostHealth(bench.now_ns, suspended_s=3.0), bench.now_ns)
    bench.step(3)
    assert bench.supervisor.mode is Mode.STANDBY


def test_nobody_is_reset_out_of_a_stop_on_the_move_or_before_it_was_acted_upon() -> None:
    bench = driving()
    bench.ask(OperatorAction.EMERGENCY_STOP, OperatorAction.RESET)
    bench.step(20)
    bench.estimate = ESTIMATE
    bench.step(20)
    assert bench.supervisor.mode is Mode.FAULT, "asked before it was acted upon"
    bench.estimate = MOVING
    bench.ask(OperatorAction.RESET)
    bench.step(20)
    assert bench.supervisor.mode is Mode.FAULT
    bench.estimate = ESTIMATE
    bench.step(2)
    assert bench.supervisor.mode is Mode.STANDBY, "the request waits for the vehicle to stand"


def test_a_measured_speed_outweighs_an_estimate_that_believes_in_its_brakes() -> None:
    bench = driving()
    bench.ask(OperatorAction.STOP)
    bench.estimate = ESTIMATE
    for _ in range(10):
        bench.monitors.on_message(WheelSpeed(bench.now_ns, bench.now_ns, 0.8, 0.1), bench.now_ns)
        bench.step()
    assert bench.supervisor.mode is Mode.STOPPING
    bench.step(40)
    assert bench.supervisor.mode is Mode.STANDBY


def test_a_finished_course_can_be_driven_again_and_every_stop_has_a_cause() -> None:
    bench = driving()
    bench.finish()
    assert [link.code for link in bench.supervisor.chain] == ["course_finished"]
    bench.estimate = ESTIMATE
    bench.step(2, controller_finished=True)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(1, controller_finished=True)
    bench.step()
    assert bench.supervisor.mode is Mode.AUTO, "the controller begins anew with the drive"
    bench.ask(OperatorAction.STOP)
    assert [link.code for link in bench.supervisor.chain] == ["stop_requested"]


def test_a_receiver_in_doubt_is_used_for_a_while_and_a_stuck_one_not_at_all() -> None:
    """An estimate that stands because it believes in brakes that get no command refuses the
    receiver that says otherwise."""
    bench = driving()
    bench.ask(OperatorAction.STOP)
    bench.estimate, bench.measures = replace(ESTIMATE, rejected_in_a_row=2), False
    for _ in range(3):
        bench.monitors.speed.on_message(fix(bench.now_ns, 0.6), bench.now_ns)
    for _ in range(250):
        bench.monitors.on_message(fix(bench.now_ns, 0.6), bench.now_ns)
        bench.step()
    assert bench.supervisor.mode is Mode.STOPPING
    braked = ActuatorCommand(0, 0, 0.0, 1.0, 0.0, 0.0)
    for _ in range(600):
        bench.monitors.on_message(fix(bench.now_ns, 0.6), bench.now_ns)
        bench.step(sent=braked)
    assert bench.supervisor.mode is Mode.STANDBY, "a jammed receiver must not keep it for ever"
    assert bench.supervisor.reason.code == "standstill_assumed"
    assert "standstill_assumed" in bench.codes()

    bench = driving()
    for _ in range(12):
        bench.monitors.on_message(fix(bench.now_ns, 0.6), bench.now_ns)
        bench.step()
    assert bench.supervisor.in_force("gnss_stuck")
    bench.estimate, bench.measures = ESTIMATE, False
    bench.step(2, sent=braked)
    assert bench.supervisor.mode is Mode.STOPPING, "nothing measures a speed"
    bench.step(600, sent=braked)
    assert bench.supervisor.mode is Mode.STANDBY


def test_a_receiver_that_flickers_is_one_episode() -> None:
    bench = driving()
    bench.codes()
    silence(bench, GnssFix)
    for _ in range(5):
        bench.step(70)
        bench.monitors.sources.received(GnssFix, bench.now_ns)
        bench.monitors.speed.on_message(fix(bench.now_ns, bench.estimate.speed_mps), bench.now_ns)
        bench.step(30)
        assert bench.supervisor.reaction is Reaction.CAP_SPEED
    assert bench.codes() == ["gnss_silent", "speed_unmeasured"]
    bench.speaks.add(GnssFix)
    bench.step(110)
    assert bench.supervisor.reaction is Reaction.NONE


def test_a_drive_that_is_resumed_says_where() -> None:
    bench = driving()
    bench.go(7.5)
    bench.ask(OperatorAction.STOP)
    bench.estimate = replace(ESTIMATE, x_m=7.5)
    bench.step(2)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step()
    assert bench.supervisor.mode is Mode.AUTO
    assert bench.supervisor.why == "driving the course, resumed at 7.5 m of 20 m"
    bench.ask(OperatorAction.STOP)
    bench.estimate = replace(ESTIMATE, x_m=7.5, y_m=4.0)
    bench.step(2)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step()
    assert bench.supervisor.mode is Mode.STANDBY
    assert "4.0 m off the course at 7.5 m of 20 m, where its drive ended" in bench.supervisor.why


def test_a_place_that_has_jumped_is_accepted_by_a_reset_of_a_vehicle_that_stands() -> None:
    bench = driving()
    bench.monitors.consistency._jump_m = (1.5, 0.0)
    bench.ask(OperatorAction.RESET)
    assert bench.monitors.consistency.jumped, "it drives"
    bench.ask(OperatorAction.EMERGENCY_STOP)
    bench.estimate = ESTIMATE
    bench.step(20)
    bench.ask(OperatorAction.RESET)
    bench.step(20)
    assert bench.supervisor.mode is Mode.STANDBY
    assert bench.monitors.consistency.jumped, "that reset was the answer to the emergency stop"
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(20)
    assert bench.supervisor.mode is Mode.STANDBY
    assert any("has jumped by 1.50 m" in text for text in bench.supervisor.waiting)
    bench.ask(OperatorAction.RESET, OperatorAction.ARM, OperatorAction.DRIVE)
    bench.step(3)
    assert bench.supervisor.mode is Mode.AUTO


@pytest.mark.parametrize("stuck", [True, False])
@pytest.mark.parametrize("unbraked", [True, False])
def test_a_standstill_is_judged_by_what_is_in_force(
    stuck: bool, unbraked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver whose place repeats is no witness of a standstill, and a brake that fails ends no
    stop after a time."""
    bench, seen = Bench(), list[dict[str, bool]]()
    bench.step()
    supervisor, s = bench.supervisor, bench.supervisor.inputs
    assert s is not None
    forced = {"gnss_stuck": stuck, "uncommanded_motion_lasts": unbraked}
    monkeypatch.setattr(
        supervisor, "in_force", lambda code: Reason(code) if forced.get(code) else None
    )

    def stands(_: RuleInputs, **judged: bool) -> bool:
        seen.append(judged)
        return False

    monkeypatch.setattr(supervisor._rest, "stands", stands)
    assert not supervisor._stands(s)
    assert seen == [{"gnss_stuck": stuck, "brake_fails": unbraked}]

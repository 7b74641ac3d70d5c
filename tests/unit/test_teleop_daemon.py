"""Teleop in the daemon, beyond rows 5 and 6 of the matrix: which device has control, and when
teleop may be armed."""

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE, Rig
from vehicled.core.messages import (
    EstimatorStatus,
    GnssFix,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    StateEstimate,
    TeleopCommand,
)
from vehicled.paths.formulas import straight
from vehicled.profile import load_profile
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.speed import FIXES
from vehicled.safety.monitors.teleop import TeleopMonitor
from vehicled.safety.rule import RuleInputs
from vehicled.safety.supervisor import Supervisor

PROFILE = load_profile("art")
LIMITS = replace(PROFILE.limits, corridor_m=2.0)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)


class Bench:
    """A supervisor of a vehicle that stands, ticking every 10 ms."""

    def __init__(self, cross_track_m: float = 0.0) -> None:
        self.supervisor = Supervisor()
        self.monitors = Monitors(LIMITS, PROFILE.vehicle, course=straight(20.0))
        self.now_ns = 10**9
        self.cross_track_m = cross_track_m
        self.step(FIXES)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            now_ns = self.now_ns = self.now_ns + 10_000_000
            velocity = (0.01 * (now_ns // 10_000_000 % 3), 0.0, 0.0)
            self.monitors.speed.on_message(
                GnssFix(now_ns, now_ns, 0.0, 0.0, 0.0, velocity_enu_mps=velocity), now_ns
            )
            self.supervisor.step(
                RuleInputs(
                    now_ns=self.now_ns,
                    mode=self.supervisor.mode,
                    limits=LIMITS,
                    monitors=self.monitors,
                    estimate=replace(ESTIMATE, y_m=self.cross_track_m),
                )
            )

    def ask(self, *actions: OperatorAction) -> None:
        for action in actions:
            self.supervisor.on_operator(
                OperatorCommand(self.now_ns, self.now_ns, action, "test"), self.now_ns
            )
        self.step()

    def receive(
        self, sequence: int, *, deadman: bool = True, unplugged: bool = False, origin: str = "pad"
    ) -> None:
        now_ns = self.now_ns
        self.monitors.on_message(
            TeleopCommand(now_ns, now_ns, 0.0, 0.0, 0.0, deadman, origin, sequence, unplugged),
            now_ns,
        )


def armed(cross_track_m: float = 0.0) -> Bench:
    bench = Bench()
    bench.ask(OperatorAction.ARM)
    assert bench.supervisor.mode is Mode.ARMED
    bench.cross_track_m = cross_track_m
    return bench


def reading(
    sequence: int, origin: str = "pad", *, unplugged: bool = False, throttle: float = 0.0
) -> TeleopCommand:
    return TeleopCommand(0, 0, 0.0, throttle, 0.0, True, origin, sequence, unplugged)


def test_an_unplugged_stick_is_gone_until_it_reads_again() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(reading(1), 0)
    teleop.on_message(reading(1, unplugged=True), 0)
    assert teleop.unplugged
    assert not teleop.ready(0)
    teleop.on_message(reading(2), 0)
    assert teleop.ready(0)


def test_what_an_unplugged_stick_says_is_not_listened_to() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(reading(1), 0)
    teleop.on_message(reading(2, unplugged=True, throttle=1.0), 0)
    assert teleop.command == reading(1)


def test_another_input_device_takes_nothing_from_the_active_one() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(reading(1), 0)
    teleop.driver = "pad"
    teleop.on_message(reading(7, "page", throttle=1.0), 0)
    teleop.on_message(reading(7, "page", unplugged=True), 0)
    assert teleop.command == reading(1)
    assert not teleop.unplugged
    teleop.reset()
    teleop.on_message(replace(reading(2), deadman=False), 0)
    teleop.on_message(reading(8, "page"), 0)
    assert teleop.command == reading(8, "page")


def test_of_two_sticks_the_one_held_first_is_listened_to_until_it_is_let_go() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(reading(1), 0)
    teleop.on_message(reading(7, "page", throttle=1.0), 0)
    assert teleop.ready(0)
    assert teleop.command == reading(1)
    teleop.on_message(replace(reading(2), deadman=False), 0)
    teleop.on_message(reading(8, "page"), 0)
    assert teleop.command == reading(8, "page")
    teleop.on_message(replace(reading(3), t_rx_ns=201_000_000), 201_000_000)
    assert teleop.command is not None
    assert teleop.command.origin == "pad", "the other has been silent for 0.2 s"


def test_the_unplugging_brakes_in_the_same_tick() -> None:
    bench = armed()
    bench.receive(1)
    bench.ask(OperatorAction.TELEOP)
    assert bench.supervisor.mode is Mode.TELEOP
    bench.receive(1, deadman=False, unplugged=True)
    bench.step()
    assert bench.supervisor.reaction is Reaction.BRAKE
    assert "unplugged" in bench.supervisor.why


def test_whoever_took_the_vehicle_drives_it_until_it_is_armed_anew() -> None:
    bench = armed()
    bench.receive(1)
    bench.ask(OperatorAction.TELEOP)
    bench.receive(1, origin="page", deadman=False)
    bench.step()
    assert bench.supervisor.mode is Mode.TELEOP
    bench.ask(OperatorAction.STOP, OperatorAction.ARM)
    bench.step()
    bench.ask(OperatorAction.ARM)
    assert bench.supervisor.mode is Mode.ARMED
    bench.receive(2, deadman=False)
    bench.receive(2, origin="page")
    bench.ask(OperatorAction.TELEOP)
    assert bench.supervisor.why == "driven by hand: page"


@pytest.mark.parametrize("last", ["pad", "page"])
def test_of_two_sticks_that_are_held_the_one_that_asked_drives(last: str) -> None:
    bench = armed()
    bench.receive(1, origin="page", deadman=False)
    bench.receive(1)
    for sequence in range(2, 6):
        for origin in ("page", "pad") if last == "pad" else ("pad", "page"):
            bench.receive(sequence, origin=origin)
        bench.step()
    bench.supervisor.on_operator(
        OperatorCommand(bench.now_ns, bench.now_ns, OperatorAction.TELEOP, "page"), bench.now_ns
    )
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED
    assert "the deadman of pad is held: let it go, or ask there" in bench.supervisor.why
    bench.receive(6, deadman=False)
    bench.receive(6, origin="page")
    bench.step()
    assert bench.supervisor.why == "driven by hand: page"
    bench.supervisor.on_operator(
        OperatorCommand(bench.now_ns, bench.now_ns, OperatorAction.STOP, "pad"), bench.now_ns
    )
    assert bench.supervisor.mode is Mode.STOPPING, "any stick stops it"


def test_a_request_without_input_device_selects_the_one_held_first() -> None:
    bench = armed()
    bench.receive(1)
    bench.receive(1, origin="page")
    bench.ask(OperatorAction.TELEOP)
    assert bench.supervisor.why == "driven by hand: pad"


@pytest.mark.parametrize("unplugged", [True, False])
def test_a_letting_go_is_not_taken_back_within_a_tick(unplugged: bool) -> None:
    bench = armed()
    bench.receive(1)
    bench.ask(OperatorAction.TELEOP)
    bench.receive(2, deadman=False, unplugged=unplugged)
    bench.receive(3)
    bench.step()
    assert bench.supervisor.reaction is Reaction.BRAKE


@pytest.mark.parametrize("by_hand", [True, False])
def test_off_the_course_only_manual_driving_is_armed(by_hand: bool) -> None:
    bench = Bench(cross_track_m=50.0)
    bench.ask(OperatorAction.ARM, OperatorAction.TELEOP if by_hand else OperatorAction.DRIVE)
    assert bench.supervisor.mode is (Mode.ARMED if by_hand else Mode.STANDBY)


def test_armed_for_manual_driving_off_the_course_it_does_not_drive_the_course() -> None:
    bench = armed(cross_track_m=50.0)
    bench.ask(OperatorAction.DRIVE)
    assert bench.supervisor.mode is Mode.ARMED
    assert "50.0 m off the course" in bench.supervisor.waiting[0]
    bench.cross_track_m = 0.0
    bench.step()
    assert bench.supervisor.mode is Mode.AUTO


def test_it_is_known_that_somebody_disarmed() -> None:
    bench = armed()
    assert bench.supervisor.disarmed_by == ""
    bench.ask(OperatorAction.STOP)
    assert bench.supervisor.disarmed_by == ""
    bench.ask(OperatorAction.DISARM)
    assert bench.supervisor.disarmed_by == "test"
    bench.ask(OperatorAction.ARM)
    assert bench.supervisor.disarmed_by == ""


def test_manual_driving_has_the_lock_that_is_known_by_now() -> None:
    """Half of a stick's way would do nothing where the wheels turn half as far as the profile
    says."""
    pipeline = Rig().pipeline()
    short = replace(
        VEHICLE,
        steering=replace(VEHICLE.steering, max_wheel_rad=0.5 * VEHICLE.steering.max_wheel_rad),
    )
    pipeline._adapt(short)
    pipeline.supervisor.mode = Mode.TELEOP
    pipeline.monitors.teleop.on_message(replace(reading(1), steering=1.0), 0)
    wanted = pipeline._demand(pipeline._rule_inputs(0, ""))
    assert wanted is not None
    assert wanted.wheel_angle_rad == pytest.approx(short.steering.max_wheel_rad)


def test_a_stick_that_repeats_one_reading_is_no_stick_after_arming_either() -> None:
    teleop = TeleopMonitor(0.5)
    for t_ns in range(0, 2_000_000_000, 40_000_000):
        teleop.on_message(replace(reading(7), t_rx_ns=t_ns), t_ns)
    teleop.reset()
    teleop.on_message(replace(reading(7), t_rx_ns=t_ns), t_ns)
    assert not teleop.ready(t_ns)
    teleop.on_message(replace(reading(8), t_rx_ns=t_ns), t_ns)
    assert teleop.ready(t_ns)


def test_the_rc_operator_takes_control_by_holding_his_deadman_only() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(replace(reading(1, "rc"), deadman=False), 0, rc=True)
    assert (teleop.command, teleop.by_rc) == (None, False)
    teleop.on_message(reading(1), 0)
    teleop.driver = "pad"
    teleop.on_message(replace(reading(2, "rc"), deadman=False), 0, rc=True)
    assert (teleop.command, teleop.by_rc, teleop.driver) == (reading(1), False, "pad")
    teleop.on_message(reading(2, "rc"), 0, rc=True)
    assert (teleop.command, teleop.by_rc, teleop.driver) == (reading(2, "rc"), True, "rc")


def test_before_a_drive_his_reading_gives_nobody_the_wheel() -> None:
    teleop = TeleopMonitor(0.2)
    teleop.on_message(reading(1, "rc"), 0, rc=True)
    assert (teleop.by_rc, teleop.driver) == (True, None)


def test_the_rc_operators_control_ends_as_the_vehicle_is_armed_or_another_takes_it() -> None:
    for ends in ("armed", "silent"):
        teleop = TeleopMonitor(0.2)
        teleop.on_message(reading(1, "rc"), 0, rc=True)
        now_ns = 0 if ends == "armed" else 201_000_000
        if ends == "armed":
            teleop.reset()
        else:
            teleop.on_message(replace(reading(1), t_rx_ns=now_ns), now_ns)
        assert not teleop.by_rc
        held = teleop.command
        teleop.on_message(replace(reading(2, "rc"), deadman=False), now_ns, rc=True)
        assert teleop.command == held

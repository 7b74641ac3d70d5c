"""A vehicle with one GNSS antenna learns its heading: by driving, by a push, by hand; and what goes
wrong meanwhile is safe."""

from collections.abc import Callable, Sequence
from itertools import count
from math import hypot, pi, remainder, sin, tau
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sim_backend.emulators.failures import Failure
from sim_backend.emulators.msglink import MsgLinkEmulator
from sim_backend.scenario import Start
from tests.closed_loop.fault_judge import SECOND_NS
from tests.grid import sampled
from vehicled.cli import main
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Fault,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    OperatorAction,
    OperatorCommand,
    Reaction,
    TeleopCommand,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.profile import load_profile
from vehicled.run.judge import Judge
from vehicled.safety.fence import Fence, Polygon
from vehicled.safety.gate import Gate

PROFILE = "f1tenth_gnss"


def bend() -> Course:
    u = [0.1 * k for k in range(31)]
    return course_from_waypoints(
        "bend",
        [3.0 * v for v in u],
        [0.75 * sin(v) for v in u],
        default_speed_mps=1.0,
        closed=False,
    )


class Drive:
    """One vehicle on a bend, with everything that its supervisor says."""

    def __init__(
        self,
        *overrides: str,
        failures: Sequence[Failure] = (),
        fence: Fence | None = None,
        link: str = "messages",
        start: Start | None = None,
        scenario: bool = True,
        seed: int = 1,
    ) -> None:
        self.course = bend()
        self.judge = Judge(self.course)
        self.modes: list[ModeChange] = []
        self.faults: list[Fault] = []
        profile = load_profile(PROFILE, list(overrides))
        self.pair = WrappedPair(
            profile,
            self.course,
            failures,
            self,
            seed,
            link=link,
            fence=fence,
            scenario=scenario,
            start=start,
        )
        self.machine = self.pair.machine
        self.began = self.pair.world.motion

    def record(self, message: Message, now_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.judge.record(message, now_ns)
        if isinstance(message, ModeChange):
            self.modes.append(message)
        elif isinstance(message, Fault):
            self.faults.append(message)

    def run(self, until: Callable[[], bool], within_s: float = 40.0) -> None:
        """Go on until something holds; it must within a time."""
        end_ns = self.pair.now_ns + round(within_s * SECOND_NS)
        while not until():
            assert self.pair.now_ns < end_ns, (
                f"{self.machine.mode.name}: {self.machine.why}; {self.modes}; {self.faults}"
            )
            self.pair.grant()
            self.pair.reply()

    def run_s(self, seconds: float) -> None:
        """Go on for some seconds."""
        end_ns = self.pair.now_ns + round(seconds * SECOND_NS)
        self.run(lambda: self.pair.now_ns >= end_ns)

    def ask(self, action: OperatorAction) -> None:
        """The operator asks for something."""
        now_ns = self.pair.now_ns
        self.machine.on_message(OperatorCommand(now_ns, now_ns, action, "test"), now_ns)

    @property
    def heading_error_rad(self) -> float:
        """Estimated minus true heading."""
        estimate = self.machine.estimate
        assert estimate is not None
        return remainder(estimate.yaw_rad - self.pair.world.motion.yaw_rad, tau)

    @property
    def moved_m(self) -> float:
        """Distance of the vehicle from its start."""
        motion = self.pair.world.motion
        return hypot(motion.x_m - self.began.x_m, motion.y_m - self.began.y_m)

    def stands(self) -> bool:
        """True if an alignment has ended, successfully or not."""
        return self.machine.mode in (Mode.STANDBY, Mode.FAULT) and any(
            change.after is Mode.ALIGN for change in self.modes
        )


@pytest.mark.parametrize(
    "estimator", sampled(["ekf4", "planar", "ins"], lambda estimator: estimator == "ekf4")
)
def test_it_aligns_behind_the_start_and_drives_the_course(estimator: str) -> None:
    drive = Drive(f"estimator.name={estimator}")
    drive.run(drive.stands)
    assert "the heading is known to" in drive.machine.why
    estimate = drive.machine.estimate
    assert estimate is not None
    assert abs(drive.heading_error_rad) < min(0.05, 4.0 * estimate.covariance[10] ** 0.5)
    assert 2.0 <= drive.moved_m < 5.0
    drive.run(lambda: drive.machine.mode is Mode.AUTO, 5.0)
    drive.run(lambda: drive.judge.finished)
    assert drive.judge.cross_track_m.max < 0.1
    assert drive.faults == []


def test_it_aligns_over_the_wires_of_its_devices() -> None:
    drive = Drive(link="wires")
    drive.run(lambda: drive.machine.mode is Mode.AUTO)
    drive.run_s(3.0)
    assert abs(drive.heading_error_rad) < 0.05
    assert [fault for fault in drive.faults if fault.reaction > Reaction.WARN] == []


@pytest.mark.parametrize(
    "estimator", sampled(["ekf4", "planar", "ins"], lambda estimator: estimator != "ekf4")
)
def test_a_push_shows_the_heading(estimator: str) -> None:
    drive = Drive(f"estimator.name={estimator}", start="push")
    drive.run(lambda: drive.machine.mode is Mode.AUTO)
    assert drive.moved_m == pytest.approx(3.0, abs=0.1)
    assert abs(drive.heading_error_rad) < 0.05
    assert not any(change.after is Mode.ALIGN for change in drive.modes)
    drive.run_s(4.0)
    assert drive.machine.mode is Mode.AUTO


def test_arming_says_what_a_vehicle_without_a_heading_needs() -> None:
    drive = Drive(scenario=False)
    drive.run_s(1.0)
    drive.ask(OperatorAction.ARM)
    drive.run_s(11.0)
    assert drive.machine.mode is Mode.STANDBY
    assert (
        "align it by driving (vehicled mode align), push it 3 m forward, or drive it by hand"
        in drive.machine.why
    )


def test_alignment_needs_permission() -> None:
    drive = Drive("alignment.allowed=false", scenario=False)
    drive.run_s(1.0)
    drive.ask(OperatorAction.ALIGN)
    drive.run_s(11.0)
    assert drive.machine.mode is Mode.STANDBY
    assert "alignment by driving is not allowed" in drive.machine.why
    assert drive.moved_m < 0.01


def test_the_fence_must_leave_room_in_every_direction() -> None:
    began = Drive().began
    side = [
        (began.x_m + dx, began.y_m + dy) for dx, dy in ((-30, -30), (30, -30), (30, 4), (-30, 4))
    ]
    drive = Drive(fence=Fence([Polygon(tuple(side), name="yard")]))
    drive.run_s(12.0)
    assert drive.modes[1:] == []
    assert "the fence is 4.0 m away" in drive.machine.why


def test_a_vehicle_that_comes_near_the_fence_is_stopped() -> None:
    """A zone that appears where the check at the start has seen none: a fence behind the checked
    circle cannot be reached."""
    drive = Drive()
    drive.run(lambda: drive.machine.mode is Mode.ALIGN)
    stopping = drive.pair.machine.pipeline.monitors.stopping
    x, y = drive.began.x_m, drive.began.y_m
    stopping._fence = Fence(
        [Polygon(tuple((x + dx, y + dy) for dx, dy in ((-9, -9), (2.5, -9), (2.5, 9), (-9, 9))))]
    )
    drive.run(drive.stands)
    assert "beyond the fence if it points that way" in drive.machine.why
    assert drive.moved_m < 2.5


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure("gnss", "off", 1.2), "alignment failed: no GNSS fix for 0.5 s"),
        (Failure("gnss", "stuck", 1.2), "fixes in a row"),
        (Failure("imu", "stuck", 1.2), "have not changed for"),
        (Failure("imu", "off", 1.2), "no IMU sample"),
        (Failure("drive", "off", 1.2), "does not answer on its serial line"),
    ],
    ids=["GNSS lost", "GNSS stuck", "gyro stuck", "gyro lost", "drive lost"],
)
def test_what_fails_during_the_alignment_stops_it(failure: Failure, said: str) -> None:
    drive = Drive(failures=[failure], link="wires" if failure.port == "drive" else "messages")
    drive.run(drive.stands)
    assert said in drive.machine.why, drive.machine.why
    drive.run_s(3.0)
    assert drive.machine.mode in (Mode.STANDBY, Mode.FAULT, Mode.STOPPING)
    assert drive.moved_m < 4.0


def test_the_operator_stops_it() -> None:
    drive = Drive()
    drive.run(lambda: drive.moved_m > 0.5)
    drive.ask(OperatorAction.STOP)
    drive.run(drive.stands, 3.0)
    assert drive.machine.why == "stopped by test"
    assert drive.machine.over(drive.pair.now_ns), "a run in simulation ends with it"


def test_wheels_that_are_held_disable_the_drive() -> None:
    drive = Drive('sim.twin.changes={"powertrain.full_acceleration_mps2" = 0.001}')
    drive.run(drive.stands)
    assert drive.machine.mode is Mode.FAULT
    assert "commanded to drive for 2.0 s, and it stands" in drive.machine.why


def test_a_motor_that_turns_the_wrong_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reversed(MsgLinkEmulator):
        def on_message(self, message: Message, ready_ns: int) -> None:
            super().on_message(_scaled(message, -1.0), ready_ns)

    monkeypatch.setattr("sim_backend.emulators.registry.MsgLinkEmulator", Reversed)
    drive = Drive()
    drive.run(drive.stands)
    assert "the motor turns the wrong way, or its telemetry has the wrong sign" in drive.machine.why
    assert drive.moved_m < 2.5


def test_a_steering_that_is_wired_the_wrong_way_round_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Crossed(Gate):
        def apply(self, *arguments: Any, **named: Any) -> ActuatorCommand:
            command = super().apply(*arguments, **named)
            return replace(command, steering=-command.steering)

    monkeypatch.setattr("vehicled.daemon.app.Gate", Crossed)
    drive = Drive("vehicle.steering.offset_rad=0.03")
    drive.run(drive.stands)
    assert (
        "although it is steered straight: check the sign and the trim of the steering"
        in drive.machine.why
    )
    assert drive.moved_m < 5.5


def test_wheels_that_slip_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slipping(MsgLinkEmulator):
        def on_message(self, message: Message, ready_ns: int) -> None:
            super().on_message(_scaled(message, 3.0), ready_ns)

    monkeypatch.setattr("sim_backend.emulators.registry.MsgLinkEmulator", Slipping)
    drive = Drive()
    drive.run(drive.stands)
    assert "wheels say" in drive.machine.why


def test_a_reversed_estimate_is_no_heading() -> None:
    drive = Drive()
    drive.run(lambda: drive.machine.mode is Mode.ALIGN)
    drive.pair.estimator.spoil = lambda e: replace(e, yaw_rad=remainder(e.yaw_rad + pi, tau))
    drive.run(drive.stands)
    assert "degrees off the line that was driven" in drive.machine.why


def test_a_heading_that_is_too_old_must_be_found_anew() -> None:
    drive = Drive("estimator.ekf4.yaw_density_rad=0.08")
    drive.run(drive.stands)
    drive.run(lambda: drive.machine.mode is Mode.AUTO)
    drive.ask(OperatorAction.STOP)
    drive.run_s(14.0)
    drive.ask(OperatorAction.ARM)
    drive.run_s(11.0)
    assert "the heading is known to" in drive.machine.why
    assert "degrees only" in drive.machine.why
    drive.ask(OperatorAction.ALIGN)
    drive.run(lambda: drive.machine.mode is Mode.ALIGN, 3.0)
    drive.run(lambda: drive.machine.mode is Mode.STANDBY)
    estimate = drive.machine.estimate
    assert estimate is not None
    assert estimate.status is EstimatorStatus.RUNNING
    assert "arm and drive" in drive.machine.why


@pytest.mark.parametrize(
    ("estimator", "throttle"),
    sampled(
        [
            (estimator, throttle)
            for throttle in (0.08, -0.08)
            for estimator in ("ekf4", "planar", "ins")
        ],
        lambda case: case in (("ekf4", -0.08), ("planar", 0.08), ("ins", -0.08)),
    ),
)
def test_teleop_may_drive_first_forward_or_backward(estimator: str, throttle: float) -> None:
    drive = Drive(f"estimator.name={estimator}", scenario=False, start="stand")
    drive.run_s(1.0)
    readings = count(1)

    def steer(share: float) -> None:
        now_ns = drive.pair.now_ns
        drive.machine.on_message(
            TeleopCommand(now_ns, now_ns, 0.0, share, 0.0, True, "test", next(readings)), now_ns
        )

    def held(share: float, seconds: float) -> None:
        end_ns = drive.pair.now_ns + round(seconds * SECOND_NS)
        while drive.pair.now_ns < end_ns:
            steer(share)
            drive.run_s(0.05)

    held(0.0, 0.3)
    drive.ask(OperatorAction.ARM)
    drive.ask(OperatorAction.TELEOP)
    held(0.0, 0.3)
    assert drive.machine.mode is Mode.TELEOP, drive.machine.why
    held(throttle, 2.5)
    assert drive.machine.mode is Mode.TELEOP, drive.machine.why
    assert abs(drive.pair.world.motion.speed_mps) > 0.5
    assert drive.pair.world.motion.speed_mps * throttle > 0.0
    estimate = drive.machine.estimate
    assert estimate is not None
    assert estimate.status is EstimatorStatus.RUNNING
    assert abs(drive.heading_error_rad) < 0.1
    drive.ask(OperatorAction.STOP)
    drive.run(lambda: drive.machine.mode is Mode.STANDBY, 5.0)


def test_an_aligned_drive_is_replayed(tmp_path: Path) -> None:
    options = ["--profile", PROFILE, "--duration", "7", "--quiet", "--log", str(tmp_path)]
    assert main(["sim", *options]) == 1, "the time limit ends it"
    (log,) = tmp_path.glob("*.mcap")
    with Journal(str(log)) as journal:
        result = Replay(journal).run()
    assert result.first is None
    assert result.verdict == "identical"
    assert result.digest == result.digest_in_log


def test_a_profile_with_a_heading_device_stands_at_the_start() -> None:
    pair = WrappedPair(load_profile("art"), bend(), (), Judge(bend()), 1, link="messages")
    assert pair.world.motion.x_m == pytest.approx(0.0)


def _scaled(message: Message, factor: float) -> Message:
    if isinstance(message, MotorStatus):
        return replace(message, motor_speed_radps=factor * message.motor_speed_radps)
    return message

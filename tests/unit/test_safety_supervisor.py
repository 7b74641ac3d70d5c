"""Modes, arming and reactions."""

import pytest
from msgspec.structs import replace

from vehicled.messages import EstimatorStatus, Fault, Mode, OperatorAction, OperatorCommand, Reaction, StateEstimate
from vehicled.ports import NEVER_NS
from vehicled.safety.supervisor import ARM_REQUEST_VALID_NS, Situation, Supervisor
from vehicled.vehicle import Limits

MS = 1_000_000
LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 1.0, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING)
FINE = Situation(10**9, ESTIMATE, (), False, False, 0, "", 0.1, 0.0, False, 0)


def ask(supervisor: Supervisor, *actions: OperatorAction, at_ns: int = 10**9) -> None:
    for action in actions:
        supervisor.on_operator(OperatorCommand(at_ns, at_ns, action, "test"), at_ns)


def hold(supervisor: Supervisor, **broken: object) -> None:
    """Something lasts for a tenth of a second, seen every 10 ms."""
    for k in range(11):
        supervisor.step(replace(FINE, now_ns=FINE.now_ns + 10 * MS * k, **broken))


def driving() -> Supervisor:
    supervisor = Supervisor(LIMITS)
    ask(supervisor, OperatorAction.ARM, OperatorAction.DRIVE)
    supervisor.step(FINE)
    assert supervisor.mode is Mode.AUTO
    return supervisor


def test_nothing_arms_itself() -> None:
    supervisor = Supervisor(LIMITS)
    for _ in range(1000):
        supervisor.step(FINE)
    assert supervisor.mode is Mode.STANDBY
    ask(supervisor, OperatorAction.DRIVE)
    supervisor.step(FINE)
    assert supervisor.mode is Mode.STANDBY


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"silent": ("gnss",)}, "gnss is silent"),
        ({"estimate": None}, "has not started"),
        ({"estimate": replace(ESTIMATE, status=EstimatorStatus.ALIGNING)}, "aligning"),
        ({"estimate": replace(ESTIMATE, x_m=float("nan"))}, "not finite"),
        ({"cross_track_m": 5.0}, "5.0 m off the course"),
        ({"heading_error_rad": 3.0}, "backwards"),
        ({"actuator_lost": "unplugged"}, "unplugged"),
    ],
)
def test_arming_waits_for_what_is_missing_and_names_it(broken: dict[str, object], named: str) -> None:
    supervisor = Supervisor(LIMITS)
    ask(supervisor, OperatorAction.ARM)
    supervisor.step(replace(FINE, **broken))
    assert supervisor.mode is Mode.STANDBY
    assert named in supervisor.why
    supervisor.step(FINE)
    assert supervisor.mode is Mode.ARMED


def test_an_arming_request_does_not_wait_for_ever() -> None:
    supervisor = Supervisor(LIMITS)
    ask(supervisor, OperatorAction.ARM)
    supervisor.step(replace(FINE, silent=("imu",), now_ns=FINE.now_ns + ARM_REQUEST_VALID_NS + 1))
    assert "refused" in supervisor.why
    supervisor.step(FINE)
    assert supervisor.mode is Mode.STANDBY


@pytest.mark.parametrize(
    ("broken", "reaction", "named"),
    [
        ({"actuator_lost": "unplugged"}, Reaction.BRAKE, "unplugged"),
        ({"estimate": replace(ESTIMATE, yaw_rad=float("inf"))}, Reaction.BRAKE, "not finite"),
        ({"estimate_age_ns": 30 * MS}, Reaction.BRAKE, "no state estimate for 30 ms"),
        ({"cross_track_m": -2.5}, Reaction.BRAKE, "-2.50 m off the course"),
        ({"estimate": replace(ESTIMATE, status=EstimatorStatus.DIVERGED)}, Reaction.CONTROLLED_STOP, "diverged"),
        ({"imu_silent": True}, Reaction.CONTROLLED_STOP, "IMU"),
    ],
)
def test_a_fault_stops_the_drive_and_says_why(broken: dict[str, object], reaction: Reaction, named: str) -> None:
    supervisor = driving()
    hold(supervisor, **broken)
    assert (supervisor.mode, supervisor.reaction) == (Mode.STOPPING, reaction)
    assert named in supervisor.why
    assert any(named in fault.reason and fault.active for fault in supervisor.take_faults())
    # No resuming by itself, however well things look afterwards.
    for _ in range(100):
        supervisor.step(FINE)
    assert supervisor.mode is Mode.STOPPING
    supervisor.step(replace(FINE, estimate=replace(ESTIMATE, speed_mps=0.0)))
    assert supervisor.mode is Mode.STANDBY
    assert supervisor.stopped


@pytest.mark.parametrize("broken", [{"gnss_silent": True}, {"missing_in_a_row": 3}])
def test_a_cap_lasts_as_long_as_its_cause(broken: dict[str, object]) -> None:
    supervisor = driving()
    for _ in range(3):
        hold(supervisor, **broken)
        assert (supervisor.mode, supervisor.reaction) == (Mode.AUTO, Reaction.CAP_SPEED)
    supervisor.step(FINE)
    assert supervisor.reaction is Reaction.NONE
    assert [fault.active for fault in supervisor.take_faults()] == [True, False], "one record per episode"


def test_the_most_severe_reaction_wins_and_a_worse_one_can_follow() -> None:
    supervisor = driving()
    hold(supervisor, gnss_silent=True, imu_silent=True)
    assert supervisor.reaction is Reaction.CONTROLLED_STOP
    supervisor.step(replace(FINE, imu_silent=True, actuator_lost="unplugged"))
    assert supervisor.reaction is Reaction.BRAKE
    assert "IMU" in supervisor.why
    assert "unplugged" in supervisor.why


@pytest.mark.parametrize("broken", [{"imu_silent": True}, {"cross_track_m": 3.0}, {"gnss_silent": True}])
def test_a_single_glimpse_trips_nothing(broken: dict[str, object]) -> None:
    # After a stall the first tick may run before the bytes that piled up have been read.
    supervisor = driving()
    for k in range(20):
        supervisor.step(replace(FINE, now_ns=FINE.now_ns + 20 * MS * k, **(broken if k % 2 else {})))
    assert (supervisor.mode, supervisor.reaction) == (Mode.AUTO, Reaction.NONE)
    assert not supervisor.take_faults()


def test_what_a_device_tells_counts_like_a_rule() -> None:
    supervisor = driving()
    told = Fault(0, "vesc_over_temperature", "drive", Reaction.DISABLE, True, "95 degrees")
    supervisor.on_fault(replace(told, reaction=Reaction.CAP_SPEED))
    supervisor.step(FINE)
    assert (supervisor.mode, supervisor.reaction) == (Mode.AUTO, Reaction.CAP_SPEED)
    supervisor.on_fault(replace(told, active=False))
    supervisor.step(FINE)
    assert supervisor.reaction is Reaction.NONE
    supervisor.on_fault(told)
    supervisor.step(FINE)
    assert (supervisor.mode, supervisor.reaction) == (Mode.STOPPING, Reaction.DISABLE)
    assert "95 degrees" in supervisor.why
    supervisor.step(replace(FINE, estimate=replace(ESTIMATE, speed_mps=0.0)))
    ask(supervisor, OperatorAction.ARM)
    supervisor.step(FINE)
    assert supervisor.mode is Mode.STANDBY
    assert "95 degrees" in supervisor.why


def test_standing_is_not_believed_from_a_stale_estimate() -> None:
    supervisor = driving()
    still = replace(FINE, estimate=replace(ESTIMATE, speed_mps=0.0))
    supervisor.step(replace(still, estimate_age_ns=NEVER_NS))
    supervisor.step(replace(still, estimate_age_ns=NEVER_NS))
    assert supervisor.mode is Mode.STOPPING


def test_emergency_stop_is_latched() -> None:
    supervisor = driving()
    ask(supervisor, OperatorAction.EMERGENCY_STOP)
    ask(supervisor, OperatorAction.ARM, OperatorAction.DRIVE)
    for _ in range(10):
        supervisor.step(FINE)
    assert (supervisor.mode, supervisor.reaction) == (Mode.FAULT, Reaction.DISABLE)


def test_the_end_of_the_course_is_a_controlled_stop() -> None:
    supervisor = driving()
    supervisor.step(replace(FINE, course_finished=True))
    assert (supervisor.mode, supervisor.reaction, supervisor.course_driven) == (Mode.STOPPING, Reaction.CONTROLLED_STOP, True)


def test_stop_by_the_operator_brakes_and_disarm_disarms() -> None:
    supervisor = driving()
    ask(supervisor, OperatorAction.STOP)
    assert (supervisor.mode, supervisor.reaction) == (Mode.STOPPING, Reaction.BRAKE)
    supervisor = Supervisor(LIMITS)
    ask(supervisor, OperatorAction.ARM)
    supervisor.step(FINE)
    ask(supervisor, OperatorAction.DISARM)
    assert supervisor.mode is Mode.STANDBY

"""Observers of the controllers: a drive and a heading that differ from the vehicle model."""

from math import atan, cos, pi, sin

import msgspec
import pytest

from tests.closed_loop.exact_state import LIMITS, VEHICLE
from vehicled.control.drift import DriftAngle
from vehicled.control.drive_observer import DriveObserver
from vehicled.control.flat import Slip, slip_step
from vehicled.control.preview import predict_speed
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.speed import Demand
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.estimation.history import CommandHistory
from vehicled.paths.catalog import load_course

TICK_NS = 10_000_000
DRIVE = VEHICLE.drive
SLIPPING = msgspec.structs.replace(
    VEHICLE, wheelbase_m=3.378, understeer_rad_per_mps2=0.002, rear_slip_rad_per_mps2=0.017
)


@pytest.mark.parametrize("surplus_mps2", [-0.4, 0.3])
def test_a_steady_speed_is_predicted_to_stay(surplus_mps2: float) -> None:
    """The drive is better or worse than its model: at the throttle that holds the speed, the
    prediction must hold it, too."""
    throttle = DRIVE.steady_throttle(1.0) - surplus_mps2 / (
        DRIVE.acceleration_mps2(1.0, 0.0) - DRIVE.acceleration_mps2(0.0, 0.0)
    )
    demands: CommandHistory[Demand] = CommandHistory(Demand(throttle, 0.0), 10**9)
    observer = DriveObserver()
    for k in range(1000):
        observer.observe(DRIVE, demands, k * TICK_NS, 1.0)
    assert observer.surplus_mps2 == pytest.approx(surplus_mps2, rel=0.02)
    later = predict_speed(DRIVE, demands, 1.0, 1000 * TICK_NS, 5 * 10**8, observer.surplus_mps2)
    assert later == pytest.approx(1.0, abs=0.005)
    assert abs(predict_speed(DRIVE, demands, 1.0, 1000 * TICK_NS, 5 * 10**8) - 1.0) > 0.05


@pytest.mark.parametrize(("throttle", "speed", "answers"), [(1.0, 0.0, True), (1.0, 0.1, False)])
def test_nothing_is_learnt_at_rest_or_of_a_vehicle_that_is_held(
    throttle: float, speed: float, answers: bool
) -> None:
    observer = DriveObserver()
    demands: CommandHistory[Demand] = CommandHistory(Demand(throttle, 0.0), 10**9)
    for k in range(200):
        observer.observe(DRIVE, demands, k * TICK_NS, speed, answers=answers)
    assert observer.surplus_mps2 == 0.0


@pytest.mark.parametrize("runs_away", [False, True])
def test_the_brake_is_learnt_apart_unless_a_slope_pushes(runs_away: bool) -> None:
    observer = DriveObserver()
    drive = msgspec.structs.replace(DRIVE, brake_deceleration_mps2=3.0)
    demands: CommandHistory[Demand] = CommandHistory(Demand(0.0, 0.3), 10**9)
    # The brake holds the speed, so something pushes, or the brake is weaker than its model.
    pushes_mps2 = -drive.acceleration_mps2(0.0, 1.0, 0.3)
    for k in range(1000):
        observer.observe(drive, demands, k * TICK_NS, 1.0, runs_away=runs_away)
    assert observer.surplus_mps2 == pytest.approx(pushes_mps2, rel=0.02)
    demands.append(1000 * TICK_NS, Demand(0.0, 0.0))
    for k in range(1000, 1040):
        observer.observe(drive, demands, k * TICK_NS, 1.0)
    assert (observer.surplus_mps2 > 0.5 * pushes_mps2) is runs_away


def test_what_was_learnt_of_a_drive_ends_where_it_turns_round() -> None:
    """An estimate rests at exactly 0 between the two directions."""
    observer, demands = DriveObserver(), CommandHistory(Demand(0.0, 0.0), 10**9)
    for k, speed in enumerate([0.5] * 300 + [0.0] * 50):
        observer.observe(DRIVE, demands, k * TICK_NS, speed)
    assert observer.surplus_mps2 > 0.2
    for k in (350, 351):
        observer.observe(DRIVE, demands, k * TICK_NS, -0.2)
    assert abs(observer.surplus_mps2) < 0.05


def test_what_the_gate_cuts_is_no_fault_of_the_drive() -> None:
    controller = PurePursuit(
        PurePursuitParams(), VEHICLE, LIMITS, load_course("straight_30m"), 0.01
    )
    for k in range(400):
        now_ns = k * TICK_NS
        at = StateEstimate(
            now_ns, now_ns, 0.005 * k, 0.0, 0.0, 0.5, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
        )
        assert controller.step(at, now_ns).throttle > 1.1 * DRIVE.steady_throttle(0.5)
        controller.on_command_sent(DRIVE.steady_throttle(0.5), 0.0)
    assert abs(controller._observer.surplus_mps2) < 0.05


def test_an_estimate_that_is_corrected_is_no_drift() -> None:
    drift, y = DriftAngle(), 0.0
    for k in range(400):
        y += 0.003 if 100 <= k < 300 else 0.0
        drift.observe(k * TICK_NS, 0.01 * k, y, 0.0, 1.0)
    assert abs(drift.angle_rad) < 0.03


@pytest.mark.parametrize("speed_mps", [12.0, -1.0])
def test_a_heading_that_is_read_wrong_is_found(speed_mps: float) -> None:
    drift, yaw, wrong = DriftAngle(), 3.0, 0.02
    for k in range(2000):
        way = speed_mps * k * 0.01
        # The yaw passes through pi.
        drift.observe(
            k * TICK_NS,
            way * cos(yaw),
            way * sin(yaw),
            yaw - wrong - (2 * pi if k % 2 else 0.0),
            speed_mps,
        )
    # A fifth is held back by the prior.
    assert drift.angle_rad == pytest.approx(0.8 * wrong, rel=0.05)


def test_slip_settles_where_a_steady_turn_is() -> None:
    v, wheel, slip = 12.0, 0.05, Slip(0.0, 0.0)
    for _ in range(500):
        slip = slip_step(SLIPPING, slip, v, wheel, 0.01)
    assert atan(slip.yaw_rate_radps / v * SLIPPING.effective_wheelbase_m(v)) == pytest.approx(
        wheel, rel=1e-3
    )
    assert slip.left_mps / v == pytest.approx(-0.017 * v * slip.yaw_rate_radps, rel=1e-3)

"""Predictive control on whole courses, with an exact state of the vehicle and with wrong beliefs
about it."""

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from tests.closed_loop.exact_state import STEERING, VEHICLE, drive
from tests.grid import sampled
from vehicled.control.interface import Controller
from vehicled.control.mpc.controller import Mpc, MpcParams
from vehicled.control.speed import SpeedParams
from vehicled.core.messages import ControlCommand, ControlLevel, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.offline.replications.published.mpc import MpcPublished, MpcPublishedParams
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course

Build = Callable[[Vehicle, Limits, Course, float], Controller]
WEAK = replace(
    VEHICLE,
    steering=replace(STEERING, gain_rad=0.225, offset_rad=0.0, delay_s=0.4, max_wheel_rad=0.225),
)
STRONG = replace(
    VEHICLE,
    steering=replace(STEERING, gain_rad=0.455, offset_rad=0.0, delay_s=0.2, max_wheel_rad=0.455),
)


def mpc(**params: object) -> Build:
    chosen = MpcParams(speed=SpeedParams(p=1.5), **params)  # type: ignore[arg-type]
    return lambda vehicle, limits, course, period_s: Mpc(chosen, vehicle, limits, course, period_s)


@pytest.mark.parametrize(
    ("course", "mean_m", "max_m"),
    sampled(
        [
            ("circle_r2_ccw", 0.006, 0.05),
            ("circle_r5_cw", 0.003, 0.02),
            ("sine_tight", 0.004, 0.012),
            ("figure_eight", 0.004, 0.015),
            ("double_lane_change", 0.003, 0.01),
            ("straight_20m", 0.001, 0.002),
            ("parallel_parking", 0.008, 0.05),
            ("three_point_turn", 0.008, 0.05),
        ],
        lambda case: case[0] in ("circle_r2_ccw", "parallel_parking"),
    ),
)
def test_follows_a_course_to_its_end(course: str, mean_m: float, max_m: float) -> None:
    drawn = load_course(course)
    result = drive(drawn, mpc())
    assert result.finished
    error = np.abs(result.cross_track_m)
    assert error.mean() < mean_m
    assert error.max() < max_m
    assert abs(result.speed_mps[-1]) < 0.01
    assert {command.level for command in result.commands} == {ControlLevel.PRIMARY}
    assert all(0 < command.iterations <= 400 for command in result.commands)
    if drawn.cusps:
        distance, angle = result.end_error(drawn)
        assert distance < 0.04
        assert angle < 0.03


def test_both_backends_drive_alike() -> None:
    course = load_course("circle_r2_ccw")
    osqp = drive(course, mpc(), rate_hz=20.0)
    daqp = drive(course, mpc(backend="daqp"), rate_hz=20.0)
    n = min(len(osqp.cross_track_m), len(daqp.cross_track_m))
    assert np.abs(osqp.cross_track_m[:n] - daqp.cross_track_m[:n]).max() < 1e-3


def test_a_gain_of_half_what_is_believed_is_followed_from_the_yaw_rate() -> None:
    """Twice the delay and half the gain of the belief, nobody identifying anything: the bends are
    still driven."""
    course = load_course("sine_tight")
    followed = np.abs(drive(course, mpc(), truth=WEAK, believed=STRONG).cross_track_m)
    trusted = np.abs(
        drive(course, mpc(turn_memory_s=0.0), truth=WEAK, believed=STRONG).cross_track_m
    )
    assert followed.mean() * 2 < trusted.mean()
    assert followed.mean() < 0.1


def test_what_is_identified_is_driven_with_at_once() -> None:
    class InformedMpc(Mpc):
        """Learns the truth after five seconds."""

        def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
            if now_ns == 5_000_000_000:
                self.adapt(WEAK)
            command = super().step(estimate, now_ns)
            # The small simulator maps angles by the first belief, where the gate would map them by
            # the new one.
            share = (
                1.0 if now_ns < 5_000_000_000 else STRONG.steering.gain_rad / WEAK.steering.gain_rad
            )
            return replace(command, wheel_angle_rad=share * command.wheel_angle_rad)

    params = MpcParams(speed=SpeedParams(p=1.5))
    course = load_course("sine")
    result = drive(course, lambda *parts: InformedMpc(params, *parts), truth=WEAK, believed=STRONG)
    assert np.abs(result.cross_track_m[-500:]).mean() < 0.02


def test_the_published_controller_drives_a_prompt_vehicle_round_its_circle() -> None:
    prompt = replace(
        VEHICLE,
        steering=replace(
            STEERING, gain_rad=0.6, offset_rad=0.0, max_wheel_rad=0.6, delay_s=0.0, rate_radps=20.0
        ),
    )
    params = MpcPublishedParams(speed="estimate")
    result = drive(
        load_course("circle_r5_ccw"),
        lambda *parts: MpcPublished(params, *parts),
        truth=prompt,
        believed=prompt,
    )
    assert result.finished
    assert 0.001 < np.abs(result.cross_track_m).mean() < 0.15

"""The controller's pose: continuous through jumps of the estimate, on it otherwise."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.examples import examples
from vehicled.core.messages import NAN, EstimatorStatus, StateEstimate
from vehicled.core.vehicle import ControlFrameParams
from vehicled.estimation.control_frame import ControlFrame, follow

PARAMS = ControlFrameParams()
STEP_NS = 5_000_000


def _at(
    t_ns: int, x: float, y: float, yaw: float, v: float = 1.0, rate: float = 0.2
) -> StateEstimate:
    return StateEstimate(
        t_ns, t_ns, x, y, yaw, v, rate, (0.01,) * 16, EstimatorStatus.RUNNING, 1.0, 3
    )


def _drive(
    jumps: dict[int, tuple[float, float, float]], steps: int, v: float = 1.0, rate: float = 0.2
) -> list[StateEstimate]:
    """Estimates of a vehicle on an arc; at some steps they jump by (x, y, yaw) and stay there."""
    x = y = yaw = 0.0
    found = []
    for k in range(steps):
        jump = jumps.get(k, (0.0, 0.0, 0.0))
        x, y, yaw = x + jump[0], y + jump[1], yaw + jump[2]
        found.append(_at(k * STEP_NS, x, y, math.remainder(yaw, math.tau), v, rate))
        middle = yaw + 0.5 * rate * STEP_NS * 1e-9
        x, y = x + v * math.cos(middle) * STEP_NS * 1e-9, y + v * math.sin(middle) * STEP_NS * 1e-9
        yaw += rate * STEP_NS * 1e-9
    return found


def test_without_jumps_it_is_the_estimate() -> None:
    frame = ControlFrame(PARAMS)
    for estimate in _drive({50: (0.003, 0.0, 0.002), 60: (0.0, -0.003, -0.002)}, 200):
        assert frame.step(estimate) is estimate
        assert frame.lag_m == 0.0


jump = st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(-1, 1))


@examples(40)
@given(
    st.dictionaries(st.integers(1, 300), jump, max_size=6),
    st.floats(-1.0, 2.0),
    st.floats(-0.5, 0.5),
)
def test_the_pose_never_jumps_and_arrives_in_time(
    jumps: dict[int, tuple[float, float, float]], v: float, rate: float
) -> None:
    p = PARAMS
    estimates = _drive(jumps, 300 + int(p.max_time_s * 1e9) // STEP_NS + 2, v, rate)
    frame = ControlFrame(p)
    dt_s = STEP_NS * 1e-9
    # What a jump of the yaw makes of the way of one step adds to the jump.
    total = sum(math.hypot(x, y) + abs(v) * dt_s for x, y, _ in jumps.values())
    total_yaw = sum(abs(yaw) for _, _, yaw in jumps.values())
    largest = (
        max(p.immediate_m, dt_s * max(p.position_rate_mps, total / p.max_time_s)) + abs(v) * dt_s
    )
    largest_yaw = (
        max(p.immediate_rad, dt_s * max(p.yaw_rate_radps, total_yaw / p.max_time_s))
        + abs(rate) * dt_s
    )
    before = None
    for estimate in estimates:
        seen = frame.step(estimate)
        assert replace(seen, x_m=0.0, y_m=0.0, yaw_rad=0.0) == replace(
            estimate, x_m=0.0, y_m=0.0, yaw_rad=0.0
        )
        assert -math.pi <= seen.yaw_rad <= math.pi
        if before is not None:
            assert math.hypot(seen.x_m - before.x_m, seen.y_m - before.y_m) <= largest + 1e-9
            assert (
                abs(math.remainder(seen.yaw_rad - before.yaw_rad, math.tau)) <= largest_yaw + 1e-9
            )
        before = seen
    assert frame.lag_m == 0.0
    assert before is not None
    assert before.yaw_rad == pytest.approx(estimates[-1].yaw_rad, abs=1e-6)


def test_a_jump_is_worked_off_at_the_rate() -> None:
    estimates = _drive({100: (0.0, 0.15, 0.0)}, 400)
    frame = ControlFrame(PARAMS)
    lags = []
    for estimate in estimates:
        frame.step(estimate)
        lags.append(frame.lag_m)
    step = PARAMS.position_rate_mps * 0.005
    assert lags[99] == 0.0
    assert lags[100] == pytest.approx(0.15 - step)
    assert next(k for k in range(100, 400) if lags[k] == 0.0) == pytest.approx(
        100 + (0.15 - PARAMS.immediate_m) / step, abs=2
    )


def test_a_large_jump_takes_the_time_that_it_is_given() -> None:
    estimates = _drive({100: (6.0, -8.0, 0.0)}, 800, rate=0.0)
    frame = ControlFrame(PARAMS)
    arrived = [
        k for k, estimate in enumerate(estimates) if frame.step(estimate) is estimate and k > 100
    ]
    assert arrived[0] * 0.005 == pytest.approx(0.5 + PARAMS.max_time_s, abs=0.02)


def test_what_is_not_finite_passes_and_ends_the_frame() -> None:
    frame, _ = follow(PARAMS, None, _at(0, 0.0, 0.0, 0.0))
    for bad in (
        _at(STEP_NS, NAN, 0.0, 0.0),
        _at(STEP_NS, 0.0, 0.0, math.inf),
        _at(STEP_NS, 0.0, 0.0, 0.0, v=NAN),
    ):
        after, seen = follow(PARAMS, frame, bad)
        assert after is None
        assert seen is bad
    far = _at(2 * STEP_NS, 50.0, 0.0, 0.0)
    assert follow(PARAMS, None, far)[1] is far


def test_a_pause_or_a_reset_begins_anew() -> None:
    frame, _ = follow(PARAMS, None, _at(0, 0.0, 0.0, 0.0))
    for later in (_at(2_000_000_000, 5.0, 0.0, 0.0), _at(-1, 5.0, 0.0, 0.0)):
        assert follow(PARAMS, frame, later)[1] is later
    kept = ControlFrame(PARAMS)
    kept.step(_at(0, 0.0, 0.0, 0.0))
    moved = _at(STEP_NS, 5.0, 0.0, 0.0)
    assert kept.step(moved) is not moved
    kept.reset()
    assert kept.lag_m == 0.0
    assert kept.step(moved) is moved


def test_a_rate_that_is_not_known_counts_as_none() -> None:
    frame, _ = follow(PARAMS, None, _at(0, 0.0, 0.0, 0.0))
    _, seen = follow(PARAMS, frame, _at(STEP_NS, 1.0, 0.0, 0.0, rate=NAN))
    assert math.isfinite(seen.x_m)
    assert seen.x_m < 0.02

"""Whatever the identifier is shown, its results stay finite, within its bounds, and of positive
variance."""

from math import isfinite, pi

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.identification_bench import BELIEVED, identifier
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Heading,
    HeadingKind,
    Identification,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.identification.identifier import SingleTrackIdentifier
from vehicled.estimation.identification.integral import SlewedCommands

START_NS = 1_000_000_000
anything = st.one_of(
    st.floats(-3.0, 3.0), st.floats(allow_nan=True, allow_infinity=True), st.just(0.0)
)
stamps = st.one_of(st.integers(-300_000_000, 100_000_000), st.integers(-(2**62), 2**62))


@st.composite
def garbage(draw: st.DrawFn) -> tuple[int, Message]:
    """A message of any kind with any content; its time is relative to the step."""
    offset = draw(stamps)
    a, b, c = draw(anything), draw(anything), draw(anything)
    kind = draw(st.integers(0, 4))
    messages: list[Message] = [
        ImuSample(0, 0, (a, b, c), (a, b, c), saturated=draw(st.booleans())),
        Heading(0, 0, a, b, draw(st.sampled_from(HeadingKind))),
        WheelSpeed(0, 0, a, b),
        MotorStatus(0, 0, motor_speed_radps=a),
        ActuatorCommand(0, 0, a, b, c, a),
    ]
    return offset, messages[kind]


def stamped(message: Message, t_ns: int) -> Message:
    """The message at another time."""
    values = [getattr(message, name) for name in message.__struct_fields__]
    values[0] = t_ns
    return type(message)(*values)


steps: SearchStrategy[list[tuple[int, float, float, list[tuple[int, Message]], bool]]] = st.lists(
    st.tuples(
        st.one_of(st.integers(1_000_000, 120_000_000), st.integers(0, 5_000_000_000)),
        st.floats(-2.0, 2.0),
        anything,
        st.lists(garbage(), max_size=3),
        st.booleans(),
    ),
    max_size=40,
)


def check(found: Identification) -> None:
    p, s = SingleTrackIdentifier.Params(), BELIEVED.steering
    for name in found.__struct_fields__:
        value = getattr(found, name)
        if "sigma" in name:
            assert not isfinite(value) or value >= 0.0, name
            assert value != float("inf"), name
        else:
            assert isfinite(value), name
    assert (
        s.gain_rad / p.gain_bounds - 1e-9
        <= found.steering_gain_rad
        <= s.gain_rad * p.gain_bounds + 1e-9
    )
    assert abs(found.steering_offset_rad) <= p.offset_bound_rad + 1e-9
    assert 0.0 <= found.steering_delay_s <= p.max_delay_s
    assert 0.0 <= found.steering_dead_zone < 0.9
    assert found.drive_authority_mps2 > 0.0
    assert found.drive_damping_per_s > 0.0
    assert found.drive_friction_mps2 >= 0.0
    assert 1.0 / p.scale_bound <= found.wheel_scale <= p.scale_bound
    assert abs(found.heading_misalignment_rad) <= pi
    vehicle = BELIEVED.identified(found)
    assert isfinite(vehicle.drive.acceleration_mps2(0.5, 1.0))
    assert abs(vehicle.steering.command(0.1)) <= 1.0


@given(steps)
def test_any_sequence(sequence):
    identified = identifier()
    bank, drive = identified._bank, identified._drive
    now = START_NS
    x = 0.0
    for forward_ns, speed, wild, messages, sane in sequence:
        now += forward_ns
        for offset, message in messages:
            fed = stamped(message, now + offset)
            if isinstance(fed, ActuatorCommand):
                identified.command(fed)
            else:
                identified.observe(fed)
        identified.observe(ImuSample(now, now, (0.0, 0.0, 9.8), (0.0, 0.0, 0.3 * speed)))
        x += speed * forward_ns * 1e-9
        shown = speed if sane else wild
        variance = 1e-4 if sane else abs(wild)
        estimate = StateEstimate(
            now, now, x, 0.0, shown, shown, 0.0, (variance,) * 16, EstimatorStatus.RUNNING
        )
        found = identified.step(estimate, now)
        if found is not None:
            check(found)
    assert np.all(bank._p00 > 0.0)
    assert np.all(bank._p11 > 0.0)
    assert np.all(bank._p00 * bank._p11 - bank._p01**2 > 0.0)
    assert np.all(np.linalg.eigvalsh(drive._covariance) > 0.0)


@given(steps)
def test_same_input_same_answer(sequence):
    answers = []
    for _ in range(2):
        identified, now, results = identifier(), START_NS, []
        for forward_ns, speed, _, messages, _ in sequence:
            now += forward_ns
            for offset, message in messages:
                fed = stamped(message, now + offset)
                (identified.command if isinstance(fed, ActuatorCommand) else identified.observe)(
                    fed  # type: ignore[arg-type]
                )
            estimate = StateEstimate(
                now, now, 0.0, 0.0, 0.0, speed, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING
            )
            results.append(repr(identified.step(estimate, now)))
        answers.append(results)
    assert answers[0] == answers[1]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(-1.0, 1.0)), min_size=1, max_size=60),
    st.floats(0.5, 10.0),
    st.sampled_from([0.0, 0.1, 0.3]),
)
def test_slewed_commands_against_a_fine_simulation(commands, rate, dead_zone):
    slewed = SlewedCommands(np.array([dead_zone]), 3.0)
    now = START_NS
    timeline = []
    for ticks, command in commands:
        slewed.command(now, command, rate)
        timeline.append((now, command))
        now += 10_000_000 * ticks
    slewed.advance(now, rate)
    begin = max(START_NS, now - 2_000_000_000)
    # Milliseconds, by the definition of dead zone and slew.
    value, total, count, k = None, 0.0, 0, 0
    for t in range(START_NS, now, 1_000_000):
        while k + 1 < len(timeline) and timeline[k + 1][0] <= t:
            k += 1
        target = (
            max(abs(timeline[k][1]) - dead_zone, 0.0)
            / (1.0 - dead_zone)
            * (1.0 if timeline[k][1] >= 0.0 else -1.0)
        )
        value = (
            target if value is None else value + min(max(target - value, -rate * 1e-3), rate * 1e-3)
        )
        if t >= begin:
            total, count = total + value, count + 1
    got = slewed.mean(begin, now, np.array([0]))[0, 0]
    # The grid is 10 ms: a slewing wheel is ahead by up to a tick, half of one on the mean.
    assert abs(got - total / count) <= 0.006 * rate

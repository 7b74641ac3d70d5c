"""Radio between vehicles: the own state is sent at a fixed rate, and the channel delays, loses and
limits it."""

import runpy
from math import inf, isnan, nan
from pathlib import Path

import pytest
from msgspec.structs import replace

from drivers.msglink.codec import MsglinkDecoder, encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from drivers.neighbours import OLDEST_NS, PERIOD_NS
from sim_backend.fleet.radio import RadioChannel, RadioModel
from vehicled.core.messages import (
    ActuatorCommand,
    ImuSample,
    NeighbourState,
    PortState,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

STATE = NeighbourState(5, 0, "", 1.0, 2.0, 0.5, 0.9, 0.0, 0.02)
PLACES = {"a": (0.0, 0.0), "b": (10.0, 0.0), "c": (100.0, 0.0)}
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "convoy"


def arrivals(channel, count=1000, step_ns=PERIOD_NS):
    return [
        each for k in range(count) for each in channel.broadcast("a", k * step_ns, STATE, PLACES)
    ]


def test_everyone_else_gets_a_broadcast_after_the_delay_with_the_name_of_its_sender():
    found = arrivals(RadioChannel(RadioModel(delay_ms=20.0), 1), 1)
    assert [each.receiver for each in found] == ["b", "c"]
    assert {each.arrival_ns for each in found} == {20_000_000}
    assert {each.state.sender for each in found} == {"a"}


def test_loss_jitter_and_range_are_those_of_the_model_and_repeat():
    model = RadioModel(delay_ms=10.0, jitter_ms=5.0, loss=0.25, range_m=50.0)
    found = arrivals(RadioChannel(model, 1))
    assert {each.receiver for each in found} == {"b"}
    assert len(found) == pytest.approx(750, abs=60)
    late_ms = [each.arrival_ns % PERIOD_NS * 1e-6 for each in found]
    assert 10.0 <= min(late_ms) < 10.2
    assert 14.8 < max(late_ms) <= 15.0
    assert found == arrivals(RadioChannel(model, 1))
    assert found != arrivals(RadioChannel(model, 2))
    assert arrivals(RadioChannel(RadioModel(loss=1.0), 1)) == []


def test_a_loss_does_not_shift_the_delays_of_other_messages():
    jitter = RadioModel(delay_ms=10.0, jitter_ms=5.0)
    lossy = RadioModel(delay_ms=10.0, jitter_ms=5.0, loss=0.5)
    whole = {each.arrival_ns for each in arrivals(RadioChannel(jitter, 1))}
    assert {each.arrival_ns for each in arrivals(RadioChannel(lossy, 1))} < whole


def radio():
    device = MsgLinkDevice(MsgLinkParams(), [NeighbourState], 50_000_000)
    device.on_port(PortState.OPENED, "", 0)
    return device


def sent(device, now_ns):
    device.on_time(now_ns)
    return [
        message for action in device.take_tx() for message in MsglinkDecoder().feed(action.data)
    ]


def estimate(t_ns, x_m=1.0):
    return StateEstimate(t_ns, t_ns, x_m, 2.0, 0.5, 0.9, 0.1, (0.0004, 0.0, 0.0, 0.0) * 4)


def test_the_own_state_is_sent_at_a_fixed_rate():
    device = radio()
    assert StateEstimate in device.consumes
    assert not device.command_only
    assert device.next_due_ns() == PERIOD_NS
    assert sent(device, PERIOD_NS) == [], "nothing is known yet"
    device.on_command(estimate(2 * PERIOD_NS), 2 * PERIOD_NS)
    (state,) = sent(device, 2 * PERIOD_NS + 3)
    assert (state.t_ns, state.x_m, state.speed_mps, state.sender) == (2 * PERIOD_NS, 1.0, 0.9, "")
    assert isnan(state.throttle)
    assert device.next_due_ns() == 3 * PERIOD_NS, "a late call does not shift those that follow"
    command = ActuatorCommand(3, 3, 0.4, 0.0, 0.1, 0.05)
    device.on_command(command, 3)
    (state,) = sent(device, 3 * PERIOD_NS)
    assert (state.throttle, state.brake, state.wheel_angle_rad) == (0.4, 0.0, 0.05)
    assert sent(device, 2 * PERIOD_NS + OLDEST_NS + PERIOD_NS) == [], "the estimate is too old"


def test_only_a_device_with_nothing_else_is_a_radio():
    actuator = MsgLinkDevice(MsgLinkParams(), [NeighbourState, ImuSample], 50_000_000)
    assert actuator.next_due_ns() == NEVER_NS
    assert actuator.command_only
    actuator.on_command(ActuatorCommand(3, 3, 0.4, 0.0, 0.1, 0.05), 3)
    assert actuator.take_tx()


@pytest.mark.parametrize("field", ["x_m", "y_m", "yaw_rad", "speed_mps"])
def test_what_is_not_known_is_neither_sent_nor_received(field):
    """A follower that took a NaN drove at full speed."""
    device = radio()
    device.on_command(replace(estimate(PERIOD_NS), **{field: nan}), PERIOD_NS)
    assert sent(device, PERIOD_NS) == []
    device.on_command(estimate(2 * PERIOD_NS), 2 * PERIOD_NS)
    assert len(sent(device, 2 * PERIOD_NS)) == 1
    odd = encode(replace(STATE, **{field: nan}))
    assert not any(isinstance(each, NeighbourState) for each in device.on_rx(odd, 9))


def test_a_state_that_cannot_be_true_is_refused():
    device = radio()
    (state,) = device.on_rx(encode(STATE), 9)
    assert state.t_rx_ns == 9
    odd = NeighbourState(5, 0, "x", 1e9, 2.0, 0.5, 0.9, 0.0, 0.02)
    assert not any(isinstance(each, NeighbourState) for each in device.on_rx(encode(odd), 9))


@pytest.fixture
def follower():
    profile = load_profile("art")
    convoy = runpy.run_path(str(EXAMPLES / "convoy.py"))
    params = convoy["ConvoyParams"](predecessor="v0", gap_m=3.0, headway_s=1.0, gain_ps=0.5)
    course = load_course(str(EXAMPLES / "course.csv"))
    return convoy["Convoy"](params, profile.vehicle, profile.limits, course, 0.01)


def received(x_m, speed_mps=1.0, sender="v0", t_ns=10**9):
    return NeighbourState(t_ns, t_ns, sender, x_m, 0.0, 0.0, speed_mps, 0.0, 0.02)


def test_the_follower_keeps_its_set_gap(follower):
    follower._now_ns = 10**9
    assert follower.speed_cap_mps(5.0) == 0.0, "it has received nothing"
    rear_m = follower._spacing.predecessor_rear_m
    set_m = 3.0 + 1.0 + follower.vehicle.outline.front_m + rear_m
    follower.on_neighbour(received(5.0 + set_m, sender="another"))
    assert follower.speed_cap_mps(5.0) == 0.0, "that was not its predecessor"
    follower.on_neighbour(received(5.0 + set_m))
    assert follower.speed_cap_mps(5.0) == pytest.approx(1.0, abs=1e-6)
    follower.on_neighbour(received(5.0 + set_m + 1.0))
    assert follower.speed_cap_mps(5.0) == pytest.approx(4.0 / 3.0, abs=1e-6)
    follower.on_neighbour(received(5.0 + set_m - 6.0))
    assert follower.speed_cap_mps(5.0) == 0.0
    follower.on_neighbour(received(70.0))
    assert follower.speed_cap_mps(5.0) == inf, "it is beyond the course"
    follower._now_ns = 3 * 10**9
    assert follower.speed_cap_mps(5.0) == 0.0, "it has received nothing for too long"

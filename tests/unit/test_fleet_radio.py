"""Radio between vehicles: the own state is sent at a fixed rate, and the channel delays, loses and
limits it."""

import dataclasses
import runpy
from itertools import pairwise
from math import inf, isnan, nan, pi
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from drivers.msglink.codec import MsglinkDecoder, encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from drivers.neighbours import OLDEST_NS, PERIOD_NS
from sim_backend.fleet.radio import RadioChannel, RadioModel
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.core.messages import (
    ActuatorCommand,
    ImuSample,
    NeighbourState,
    PlannedMotion,
    PortState,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.run.fleet import course_from

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


def test_the_plan_is_sent_with_times_from_the_state_on():
    device = radio()
    plan = PlannedMotion(
        PERIOD_NS - 50_000_000, (0.0, 0.5), (1.0, 2.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)
    )
    device.on_command(plan, PERIOD_NS)
    device.on_command(estimate(PERIOD_NS), PERIOD_NS)
    (state,) = sent(device, PERIOD_NS)
    assert state.plan_time_s == pytest.approx((-0.05, 0.45))
    assert (state.plan_x_m, state.sequence) == ((1.0, 2.0), 1)
    later_ns = 2 * PERIOD_NS + OLDEST_NS
    device.on_command(estimate(later_ns), later_ns)
    (state,) = sent(device, later_ns)
    assert (state.plan_time_s, state.sequence) == ((), 2), "a plan that is old is none"


def test_a_plan_that_cannot_be_is_refused_with_its_state():
    good = replace(
        STATE,
        plan_time_s=(0.0,),
        plan_x_m=(0.0,),
        plan_y_m=(0.0,),
        plan_yaw_rad=(0.0,),
        plan_speed_mps=(1.0,),
    )
    assert len(radio().on_rx(encode(good), 9)) == 1
    for odd in (
        {"plan_x_m": (nan,)},
        {"plan_y_m": ()},
        {"plan_time_s": (nan,)},
        {"plan_speed_mps": (1e4,)},
    ):
        assert not any(
            isinstance(each, NeighbourState)
            for each in radio().on_rx(encode(replace(good, **odd)), 9)
        )


def test_a_state_of_a_log_without_plan_is_read():
    """Fields are appended with defaults: what an older version wrote has fewer."""
    old = msgspec.msgpack.encode(list(msgspec.to_builtins(STATE))[:13])
    read = msgspec.msgpack.decode(old, type=NeighbourState)
    assert (read.sender, read.plan_time_s, read.sequence) == ("", (), 0)
    assert read.plan.problem == ""


def planned(vehicle_speed_mps, *, cap_mps=inf, from_m=0.0, reverse=False):
    """Motion that a pure pursuit plans at the start of a course."""
    profile = load_profile("hunter_se" if reverse else "art")
    course = course_from(load_course(str(EXAMPLES / "leader.csv")), from_m)
    if reverse:
        course = dataclasses.replace(
            course, speed_mps=-course.speed_mps, yaw_rad=course.yaw_rad + pi
        )
    params = PurePursuitParams()
    controller = PurePursuit(params, profile.vehicle, profile.limits, course, 0.01)
    assert controller.planned_motion(0) is None, "it has not stepped"
    controller.limit_speed(cap_mps)
    controller.step(
        replace(
            estimate(10**9, from_m), y_m=0.0, yaw_rad=pi * reverse, speed_mps=vehicle_speed_mps
        ),
        10**9,
    )
    return controller.planned_motion(10**9)


def test_the_plan_follows_course_and_speeds():
    plan = planned(0.5)
    assert plan.problem == ""
    assert plan.t_ns == 10**9
    assert (plan.time_s[0], plan.time_s[-1]) == (0.0, 5.0)
    assert plan.speed_mps[0] == 0.5
    assert plan.speed_mps[-1] == pytest.approx(1.5, abs=0.05), "that of the course"
    way_m = sum(0.25 * (a + b) for a, b in pairwise(plan.speed_mps))
    assert plan.x_m[-1] - plan.x_m[0] == pytest.approx(way_m, abs=0.1)
    assert max(map(abs, plan.y_m)) < 1e-6
    assert max(planned(0.5, cap_mps=0.8).speed_mps) < 0.8


def test_the_plan_of_a_reversing_vehicle_goes_the_way_it_drives():
    plan = planned(-0.5, reverse=True)
    assert plan.problem == ""
    assert max(plan.speed_mps) < 0.0
    assert plan.x_m[-1] > plan.x_m[0] + 2.0
    assert abs(plan.yaw_rad[-1]) == pytest.approx(pi)


def test_the_plan_stops_at_the_end_of_the_course():
    plan = planned(1.0, from_m=57.0)
    assert plan.speed_mps[-1] < 0.1
    assert 2.9 < plan.x_m[-1] - plan.x_m[0] <= 3.01
    assert plan.problem == ""
    assert planned(0.0).speed_mps[1] > 0.2, "it starts"


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
    follower.on_neighbour(
        replace(
            received(5.0 + set_m),
            plan_time_s=(0.0, 1.0),
            plan_x_m=(0.0,) * 2,
            plan_y_m=(0.0,) * 2,
            plan_yaw_rad=(0.0,) * 2,
            plan_speed_mps=(1.0, 0.6),
        )
    )
    assert follower.speed_cap_mps(5.0) == pytest.approx(0.8 / 1.5 + 1.0 / 3.0, abs=1e-6)
    follower._now_ns = 3 * 10**9
    assert follower.speed_cap_mps(5.0) == 0.0, "it has received nothing for too long"

"""A VESC on a line that forwards for others on its CAN bus: each controller has its own checks, and
replies without a sender find it."""

import json
from typing import Any

import pytest
from msgspec import structs

from drivers.vesc.appconf import SIGNATURES
from drivers.vesc.params import ForwardedParams, ForwardingParams
from tests.motor_bench import Bench
from vehicled.core.messages import Event, Fault, Mode, MotorStatus
from vehicled.core.mixing import Mix

BEHIND = [ForwardedParams(controller_id=7)]
MIX = {"motor": Mix(left=1.0), "servo": Mix(steering=1.0), "motor_2": Mix(right=-1.0)}


@pytest.fixture
def bench() -> Bench:
    return Bench("vesc_forward", controller_id=3, behind=BEHIND)


def second(bench: Bench) -> Any:
    """Return the emulated controller behind the first."""
    return bench.emulator.unit.behind[7]


def ready(bench: Bench) -> None:
    bench.run(800)
    assert bench.driver.refusal == ""


def test_both_controllers_are_driven_and_report_as_one(bench: Bench) -> None:
    bench.turns_per_s = 10.0
    ready(bench)
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.faults == []
    assert bench.commands[-1].outputs == pytest.approx((0.5, 0.0, 0.5), abs=0.01)
    status = bench.newest(MotorStatus)
    # Emulated controllers report the same motor each: the currents are summed, the speeds not.
    assert status.motor_speed_radps == pytest.approx(62.8, abs=0.5)
    assert status.motor_current_a == pytest.approx(6.0, abs=0.1)


def test_the_rows_of_mix_reach_their_motors() -> None:
    bench = Bench("vesc_forward", mix=MIX, controller_id=3, behind=BEHIND)
    ready(bench)
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].outputs == pytest.approx((0.5, 0.0, -0.5), abs=0.01)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"timeout_ms": 0}, "its command time-out is off"),
        ({"timeout_ms": 1000}, "its command time-out is 1000 ms"),
        ({"timeout_brake_current_a": 0.0}, "on time-out it coasts"),
    ],
)
def test_each_proves_its_own_time_out(bench: Bench, changes: dict[str, Any], why: str) -> None:
    unit = second(bench)
    unit.conf = structs.replace(unit.conf, **changes)
    bench.run(800)
    assert bench.faults == ["vesc_config"]
    assert bench.driver.refusal.startswith("controller 7: ")
    assert why in bench.driver.refusal
    bench.run(200, 0.5, mode=Mode.AUTO)
    # The first one is ready, and brakes all the same.
    assert bench.commands[-1].outputs[0] == 0.0
    assert bench.commands[-1].brake > 0.0


def test_a_controller_that_dies_behind_the_first_brakes_both(bench: Bench) -> None:
    ready(bench)
    bench.run(300, 0.5, mode=Mode.AUTO)
    bench.emulator.unit.behind[7].reply_to = lambda payload, now_ns: None
    bench.run(600, 0.5, mode=Mode.AUTO)
    assert "vesc_silent" in bench.faults
    fault = next(m for m in bench.messages if isinstance(m, Fault) and m.code == "vesc_silent")
    assert fault.reason.startswith("controller 7: controller 7 behind it on CAN does not answer")
    assert bench.commands[-1].outputs[0] == 0.0


def test_a_fault_is_over_when_no_controller_has_it(bench: Bench) -> None:
    ready(bench)
    unit = bench.emulator.unit
    for each in (unit, second(bench)):
        each._stage.set_fault(4, bench.now_ns)
    bench.run(200)
    assert bench.faults == ["vesc_abs_over_current"]
    unit._stage.set_fault(0, bench.now_ns)
    bench.run(1000)
    assert bench.faults == ["vesc_abs_over_current"]
    second(bench)._stage.set_fault(0, bench.now_ns)
    bench.run(1000)
    assert bench.faults == []


def test_replies_without_a_sender_find_their_controller(bench: Bench) -> None:
    unit = second(bench)
    unit.firmware = (6, 5)
    unit.conf = structs.replace(unit.conf, signature=SIGNATURES[6, 5])
    ready(bench)
    events = [each for each in bench.messages if isinstance(each, Event)]
    firmware = [json.loads(each.fields)["firmware"] for each in events if each.name == "vesc_ready"]
    assert sorted(firmware) == ["6.00", "6.05"]


def test_the_set_up_reads_both_configurations(bench: Bench) -> None:
    ready(bench)
    bench.driver.ask_configuration(bench.now_ns)
    bench.run(500)
    said, wrong = bench.driver.configuration()
    assert [line.split(": ")[0] for line in said] == ["controller 3"] * 2 + ["controller 7"] * 2
    assert all("motor poles" in line for line in said[1::2])
    assert wrong == []


def test_each_motor_times_out_without_commands(bench: Bench) -> None:
    ready(bench)
    bench.run(300, 0.5, mode=Mode.AUTO)
    bench.run(400, None)
    assert bench.emulator.unit.timed_out
    assert second(bench).timed_out
    assert bench.commands[-1].outputs == (0.0, 0.0, 0.0)


def test_an_id_belongs_to_one_controller() -> None:
    with pytest.raises(ValueError, match="each controller_id must be another one"):
        ForwardingParams(controller_id=7, behind=BEHIND)

"""Motor configuration of a VESC over the wire: places by signature, hostile bytes, contradictions
with the profile."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.vesc.appconf import AppConf, RawAppConf, Unreadable, encode_appconf
from drivers.vesc.comm import Comm, FwVersion, Request, decode_comm, encode_comm
from drivers.vesc.mcconf import (
    MCCONF_SIGNATURES,
    McConf,
    RawMcConf,
    encode_mcconf,
    read_mcconf,
)
from drivers.vesc.params import UartParams
from drivers.vesc.report import app_text, facts_of, motor_contradictions
from tests.motor_bench import Bench

# Places of the parameters by the files of VESC Tool: res/config/VERSION/parameters_mcconf.xml.
PLACES = {
    (5, 1): (437, 24, (89, ">f", 1.0), 397, 422),
    (5, 2): (457, 24, (89, ">f", 1.0), 407, 433),
    (5, 3): (484, 24, (75, ">h", 1e4), 429, 455),
    (6, 0): (481, 24, (75, ">h", 1e4), 420, 451),
    (6, 5): (477, 28, (71, ">h", 1e4), 410, 441),
    (6, 6): (483, 28, (71, ">h", 1e4), 416, 447),
    (7, 0): (488, 28, (71, ">h", 1e4), 421, 452),
}


def conf(signature: int, **changes) -> McConf:
    values = {
        "motor_type": 2, "motor_current_max_a": 60.0, "motor_current_min_a": -40.0,
        "input_current_max_a": 30.0, "input_current_min_a": -10.0, "absolute_current_max_a": 150.0,
        "min_erpm": -90_000.0, "max_erpm": 100_000.0, "max_duty": 0.95, "inverted": True,
        "motor_poles": 4, "gear_ratio": 9.5, "wheel_diameter_m": 0.125, "battery_cells": 3,
    }  # fmt: skip
    return McConf(signature=signature, **values | changes)


@pytest.mark.parametrize("firmware", PLACES)
def test_the_places_are_those_of_the_signature(firmware) -> None:
    length, absolute, (duty, form, scale), inverted, poles = PLACES[firmware]
    data = bytearray(b"\xa5" * length)
    struct.pack_into(">I", data, 0, MCCONF_SIGNATURES[firmware])
    data[6] = 2
    struct.pack_into(">4f", data, 8, 60.0, -40.0, 30.0, -10.0)
    struct.pack_into(">3f", data, absolute, 150.0, -90_000.0, 100_000.0)
    struct.pack_into(form, data, duty, 0.95 if form == ">f" else round(0.95 * scale))
    data[inverted] = 1
    struct.pack_into(">BffBB", data, poles, 4, 9.5, 0.125, 0, 3)
    found = read_mcconf(RawMcConf(bytes(data)))
    assert isinstance(found, McConf)
    assert found.max_duty == pytest.approx(0.95)
    expected = conf(MCCONF_SIGNATURES[firmware], max_duty=found.max_duty)
    assert found == expected


@pytest.mark.parametrize("firmware", MCCONF_SIGNATURES)
def test_motor_configurations_come_back_as_they_went(firmware) -> None:
    made = conf(MCCONF_SIGNATURES[firmware], max_duty=0.5)
    name, message = decode_comm(encode_comm(RawMcConf(encode_mcconf(made))))
    assert name == "GET_MCCONF"
    assert isinstance(message, RawMcConf)
    assert read_mcconf(message) == made


GOOD = encode_mcconf(conf(MCCONF_SIGNATURES[6, 0]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes"),
        (b"\0\0\0\1" + GOOD[4:], "unknown signature 1: export the motor configuration as XML"),
        (GOOD[:-1], "480 bytes, and its signature has 481"),
        (GOOD + b"\0", "482 bytes"),
        (GOOD[:8] + b"\x7f\xc0\0\0" + GOOD[12:], "implausible"),
        (GOOD[:452] + bytes(4) + GOOD[456:], "implausible"),
        (GOOD[:12] + struct.pack(">f", 5.0) + GOOD[16:], "implausible"),
    ],
)
def test_a_motor_configuration_that_is_not_known_is_not_read(data, why) -> None:
    found = read_mcconf(RawMcConf(data))
    assert isinstance(found, Unreadable)
    assert why in found.reason


@given(st.binary(max_size=512))
def test_bytes_of_any_kind_raise_nothing(data) -> None:
    assert isinstance(read_mcconf(RawMcConf(data)), Unreadable)
    for length, firmware in ((len(GOOD), (6, 0)), (488, (7, 0))):
        head = struct.pack(">I", MCCONF_SIGNATURES[firmware])
        read_mcconf(RawMcConf((head + data).ljust(length, b"\xff")[:length]))


def test_contradictions_with_the_profile_are_named() -> None:
    params = UartParams(pole_pairs=2, erpm_per_mps=2903.0, max_brake_current_a=20.0)
    assert motor_contradictions(conf(1), params) == []
    wrong = "; ".join(
        motor_contradictions(
            conf(1, motor_poles=14, motor_current_min_a=-5.0, max_duty=0.1), params
        )
    )
    assert "14 motor poles in the controller, 2 pole pairs in the profile" in wrong
    assert "give 10160 ERPM per m/s, the profile has 2903" in wrong
    assert "the full brake is 20 A in the profile, and the controller allows 5 A" in wrong
    assert "full throttle is a duty of 0.2 in the profile, and the controller allows 0.1" in wrong
    current = UartParams(control="current", max_current_a=80.0, erpm_per_mps=2903.0)
    assert "full throttle is 80 A" in motor_contradictions(conf(1), current)[0]


def test_the_answers_to_the_questions_are_facts_of_a_vehicle() -> None:
    app = AppConf(
        signature=486_554_156, controller_id=7, timeout_ms=1000, timeout_brake_current_a=0.0,
        status_rate_hz=50, status_rate_2_hz=5, status_mask=1, status_mask_2=0, can_mode=0,
        servo_output=1, app=3, can_baud=2, uart_baud=115_200,
    )  # fmt: skip
    answers = {
        "FW_VERSION": FwVersion(6, 0, "60", bytes(12), 0, 0, 0),
        "GET_MCCONF": RawMcConf(GOOD),
        "GET_APPCONF": RawAppConf(encode_appconf(app, (6, 0))),
    }
    facts, lines = facts_of(answers)
    assert facts == {
        "motor_current_a": 60.0, "brake_current_a": 40.0, "cells": 3, "gear": 9.5,
        "wheel_radius_m": 0.0625, "pole_pairs": 2,
    }  # fmt: skip
    assert lines[1] == app_text(app)
    assert "CAN id 7, CAN 500 kbit/s, UART 115200 baud, servo output on" in lines[1]
    assert "time-out of 1000 ms is long: set 200 ms" in lines[2]
    _, lines = facts_of({**answers, "GET_MCCONF": RawMcConf(b"\0\0\0\1")})
    assert "export the motor configuration as XML in VESC Tool" in lines[0]


@pytest.mark.parametrize("driver", ["vesc_uart", "vesc_can"])
def test_the_driver_reads_it_when_it_is_asked_and_not_before(driver) -> None:
    bench = Bench(driver)
    ask = encode_comm(Request(Comm.GET_MCCONF))
    bench.run(500)
    assert not any(ask in data for data in bench.sent)
    assert bench.driver.configuration()[0][1:] == []
    bench.driver.ask_configuration(bench.now_ns)
    bench.run(500)
    said, wrong = bench.driver.configuration()
    assert "motor poles, gear" in said[1]
    assert wrong == []
    assert sum(ask in data for data in bench.sent) == 1


def test_a_controller_that_does_not_know_the_question_is_named() -> None:
    bench = Bench("vesc_uart", steering=False)
    bench.emulator.unit.firmware = (4, 0)
    bench.run(500)
    bench.driver.ask_configuration(bench.now_ns)
    bench.run(3000)
    assert "its motor configuration was asked for and never came" in bench.driver.configuration()[0]

"""Facts of a vehicle in the configurations of its VESC, and contradictions with its profile, for
``vehicled setup`` and ``vehicled new profile``."""

from collections.abc import Mapping
from math import pi
from typing import Any

from drivers.vesc.appconf import CAN_BAUDS, UNREAD, AppConf, RawAppConf, Unreadable, read_appconf
from drivers.vesc.comm import FwVersion, MotorSetup
from drivers.vesc.mcconf import McConf, RawMcConf, read_mcconf
from drivers.vesc.params import VescParams

SCALE_RATIO = 0.05
"""Ratio by which poles, gear and wheel may differ from ``erpm_per_mps``: wheels are measured with a
ruler."""


def app_text(conf: AppConf) -> str:
    """Return the application configuration in one line."""
    parts = [
        f"command time-out {conf.timeout_ms} ms",
        f"then {conf.timeout_brake_current_a:g} A of brake current",
        f"CAN id {conf.controller_id}",
    ]
    if 0 <= conf.can_baud < len(CAN_BAUDS):
        parts.append(f"CAN {CAN_BAUDS[conf.can_baud]} kbit/s")
    if conf.uart_baud > 0:
        parts.append(f"UART {conf.uart_baud} baud")
    if conf.servo_output != UNREAD:
        parts.append(f"servo output {'on' if conf.servo_output else 'off'}")
    return ", ".join(parts)


def motor_text(conf: McConf) -> str:
    """Return the motor configuration in one line."""
    return (
        f"{conf.motor_poles} motor poles, gear {conf.gear_ratio:g}, wheel "
        f"{1e3 * conf.wheel_diameter_m:g} mm, motor {conf.motor_current_min_a:g} to "
        f"{conf.motor_current_max_a:g} A, battery {conf.input_current_min_a:g} to "
        f"{conf.input_current_max_a:g} A, duty up to {conf.max_duty:g}"
    )


def motor_contradictions(conf: McConf, params: VescParams) -> list[str]:
    """Return where the motor configuration contradicts the driver's parameters."""
    found = []
    if conf.motor_poles % 2 or conf.motor_poles // 2 != params.pole_pairs:
        found.append(
            f"{conf.motor_poles} motor poles in the controller, {params.pole_pairs} pole pairs in "
            "the profile: count the magnets, and correct the wrong one"
        )
    scale = 0.5 * conf.motor_poles * conf.gear_ratio * 60.0 / (pi * conf.wheel_diameter_m)
    if abs(scale - abs(params.erpm_per_mps)) > SCALE_RATIO * abs(params.erpm_per_mps):
        found.append(
            f"poles, gear and wheel in the controller give {scale:.5g} ERPM per m/s, the profile "
            f"has {abs(params.erpm_per_mps):.5g}: the step push measures it"
        )
    if params.control == "current" and params.max_current_a > conf.motor_current_max_a:
        found.append(
            f"full throttle is {params.max_current_a:g} A in the profile, and the controller "
            f"allows {conf.motor_current_max_a:g} A"
        )
    if params.control == "duty" and params.max_duty > conf.max_duty:
        found.append(
            f"full throttle is a duty of {params.max_duty:g} in the profile, and the controller "
            f"allows {conf.max_duty:g}"
        )
    if params.max_brake_current_a > -conf.motor_current_min_a:
        found.append(
            f"the full brake is {params.max_brake_current_a:g} A in the profile, and the "
            f"controller allows {-conf.motor_current_min_a:g} A: it brakes less than expected"
        )
    return found


def facts_of(answers: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return the facts of a vehicle by the answers of its controller to the questions of
    ``uart.QUESTIONS``, and lines for the user."""
    facts: dict[str, float] = {}
    lines = []
    version, motor, setup, app = (
        answers.get(name) for name in ("FW_VERSION", "GET_MCCONF", "GET_MCCONF_TEMP", "GET_APPCONF")
    )
    conf = read_mcconf(motor) if isinstance(motor, RawMcConf) else None
    if isinstance(conf, McConf):
        facts = {
            "motor_current_a": conf.motor_current_max_a,
            "brake_current_a": -conf.motor_current_min_a,
            "cells": conf.battery_cells,
        }
        lines.append(motor_text(conf))
    elif isinstance(conf, Unreadable):
        lines.append(conf.reason)
    source = conf if isinstance(conf, McConf) else setup
    if isinstance(source, McConf | MotorSetup):
        facts |= {
            "gear": source.gear_ratio,
            "wheel_radius_m": 0.5 * source.wheel_diameter_m,
            "pole_pairs": source.motor_poles // 2,
        }
    if isinstance(version, FwVersion) and isinstance(app, RawAppConf):
        found = read_appconf(
            app, (version.major, version.minor), test_build=version.test_version > 0
        )
        lines.append(found.reason if isinstance(found, Unreadable) else app_text(found))
        if isinstance(found, AppConf) and (found.timeout_ms == 0 or found.timeout_ms > 200):
            lines.append(
                f"its command time-out of {found.timeout_ms} ms is "
                + ("off" if found.timeout_ms == 0 else "long")
                + ": set 200 ms and a brake current in VESC Tool (App Settings > General)"
            )
    return facts, lines

"""Numbers of the actuator's driver that contradict the vehicle: each is in range, and is usual for
another vehicle or unit."""

from collections.abc import Callable, Iterator, Set
from functools import partial
from math import degrees, pi
from typing import Any

from vehicled.profile.collect import TableView
from vehicled.profile.problems import KeyPath, Level

Verdict = tuple[KeyPath, Level, str]
Get = Callable[..., Any]
"""Value at a key path, with defaults; None if it is missing or invalid."""

_RPM_PER_RADPS = 30.0 / pi
_ERPM = (0.6, 1.7)
"""Usual ratio of ``erpm_per_mps`` to what pole pairs, gear and wheel make of it."""
_FULL_SPEED = (0.6, 3.0)
"""Usual ratio of the speed at full command to ``limits.max_speed_mps``."""
_TRAVEL = (0.25, 1.6)
"""Usual ratio of ``servo_gain`` to the travel between the limits of the linkage."""
_LEAST_PULSE_US = 25.0
"""Pulse at full command below which a servo hardly moves."""
_LEAST_VESC_V = 6.0
"""Below the lowest supply of any VESC, which is 8 V for most."""
_LIKE = 0.15
"""Part by which a ratio may differ from a usual slip."""


def judge_actuators(profile: TableView, wrong: Set[KeyPath]) -> Iterator[Verdict]:
    """Iterate over the doubtful numbers of the drivers that drive and steer; ``wrong`` numbers make
    none doubtful."""

    def vehicle(*keys: str) -> Any:
        return None if keys in wrong else profile.get(*keys)

    devices: Any = profile.written.get("devices")
    for name in profile.names("devices"):
        table = devices[name].get("driver") if isinstance(devices[name], dict) else None
        driver = str(table.get("name") if isinstance(table, dict) else table)
        own = table.get(driver) if isinstance(table, dict) else None
        get = partial(profile.get, "devices", name, "driver", driver)
        found: list[tuple[str, str]] = []
        if driver.startswith("vesc_"):
            found = [*_erpm(get, vehicle), *_servo(get, vehicle)]
            if get("control") == "speed" or (isinstance(own, dict) and "max_speed_mps" in own):
                found += _full_speed(get, vehicle)
            yield from _cells(vehicle)
        elif driver == "pwm_board":
            found = [*_pulses(get, vehicle)]
        for key, message in found:
            yield ("devices", name, "driver", driver, key), "warning", message


def _erpm(get: Get, vehicle: Get) -> Iterator[tuple[str, str]]:
    erpm, pairs = get("erpm_per_mps"), get("pole_pairs")
    radius_m, gear = (vehicle("vehicle", "drive", key) for key in ("wheel_radius_m", "gear_ratio"))
    if not erpm or not pairs or not radius_m or not gear:
        return
    usual = pairs * _RPM_PER_RADPS / (radius_m * gear)
    ratio = abs(erpm) / usual
    if _ERPM[0] <= ratio <= _ERPM[1]:
        return
    slips = (
        (10.0, "it has a digit too many"),
        (0.1, "it lacks a digit"),
        (0.5, "pole_pairs is the number of pairs, not of poles"),
        (2.0, "pole_pairs is the number of pairs, not of poles"),
        (1.0 / pairs, "these are revolutions of the motor, so multiply them by pole_pairs"),
        (gear, "the gear is left out, so divide it by vehicle.drive.gear_ratio"),
        (1.0 / 3.6, "this is for 1 km/h, so multiply it by 3.6"),
        (1.0 / _RPM_PER_RADPS, "these are radians per second, so multiply them by 9.549"),
        (1e3, "this is for 1 m/s with a wheel_radius_m in millimetres"),
    )
    why = next(
        (text for slip, text in slips if abs(ratio / slip - 1.0) < _LIKE),
        "drive a known distance and measure it",
    )
    made_of = (
        f"pole_pairs = {pairs}, vehicle.drive.gear_ratio = {gear:.4g} and wheel_radius_m = "
        f"{radius_m:.4g}"
    )
    sign = "-" if erpm < 0.0 else ""
    yield (
        "erpm_per_mps",
        (
            f"{erpm:g} is {ratio:.3g} times what {made_of} make of it, {sign}{usual:.4g} "
            f"(9.549 x pole_pairs / (wheel_radius_m x gear_ratio)): {why}"
        ),
    )


def _full_speed(get: Get, vehicle: Get) -> Iterator[tuple[str, str]]:
    full_mps, limit_mps = get("max_speed_mps"), vehicle("limits", "max_speed_mps")
    if not full_mps or not limit_mps or _FULL_SPEED[0] <= full_mps / limit_mps <= _FULL_SPEED[1]:
        return
    much = full_mps > limit_mps
    consequence = (
        "a full command would drive so fast" if much else "a full command drives no faster"
    )
    unit = ""
    for name, factor in (("km/h", 3.6), ("cm/s", 100.0)):
        if abs(full_mps / (factor * limit_mps) - 1.0) < _LIKE:
            unit = f" ({full_mps:g} {name})"
    yield (
        "max_speed_mps",
        (
            f"{full_mps:g} is {full_mps / limit_mps:.3g} times limits.max_speed_mps = "
            f"{limit_mps:g}: {consequence}; write about {limit_mps:g}{unit}, the speed at "
            "throttle 1"
        ),
    )


def _servo(get: Get, vehicle: Get) -> Iterator[tuple[str, str]]:
    center, gain, low, high = (get(f"servo_{key}") for key in ("center", "gain", "min", "max"))
    full_rad = vehicle("vehicle", "steering", "gain_rad")
    if not get("steering") or None in (center, gain, low, high) or not full_rad:
        return
    travel = max(high - center, center - low)
    if travel <= 0.0 or _TRAVEL[0] <= abs(gain) / travel <= _TRAVEL[1]:
        return
    much = abs(gain) > travel
    unit, meant = ("radian", gain * full_rad) if much else ("degree", gain * degrees(full_rad))
    likely = _TRAVEL[0] <= abs(meant) / travel <= _TRAVEL[1]
    advice = (
        f"did you mean {meant:.3g} ({gain:g} per {unit})?"
        if likely
        else "write the change from straight to full lock"
    )
    consequence = (
        f"the wheels are at their stop from {travel / abs(gain):.0%} of the command on"
        if much
        else f"a full command moves the servo over {abs(gain) / travel:.0%} of its travel"
    )
    yield (
        "servo_gain",
        (
            f"{gain:g} is the change of servo position at full steering, and servo_center, "
            f"servo_min and servo_max leave {travel:g}: {consequence}; {advice}"
        ),
    )


def _pulses(get: Get, vehicle: Get) -> Iterator[tuple[str, str]]:
    full_rad = vehicle("vehicle", "steering", "gain_rad")
    for key in ("steering_range_us", "throttle_range_us"):
        pulse_us = get(key)
        if pulse_us is None or abs(pulse_us) >= _LEAST_PULSE_US:
            continue
        meant = pulse_us * degrees(full_rad) if full_rad and key == "steering_range_us" else 0.0
        advice = (
            f"; did you mean {meant:.3g} ({pulse_us:g} per degree)?"
            if abs(meant) >= 2.0 * _LEAST_PULSE_US
            else ""
        )
        yield (
            key,
            (
                f"{pulse_us:g} microseconds at full command hardly move anything: usual is 50 to "
                f"500{advice}"
            ),
        )


def _cells(vehicle: Get) -> Iterator[Verdict]:
    for key in ("battery_low_v", "battery_empty_v"):
        volts = vehicle("limits", key)
        if volts and volts < _LEAST_VESC_V:
            text = (
                f"{volts:g} V is no supply of a VESC, which needs 8: write the voltage of the "
                "pack, times its cells in series"
            )
            yield ("limits", key), "warning", text

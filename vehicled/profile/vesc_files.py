"""Reads what is known of a vehicle from the files of its motor controller: F1TENTH's ``vesc.yaml``
and the XML of VESC Tool."""

import re
from collections.abc import Iterator
from math import isfinite, pi
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from msgspec import Struct, structs

from vehicled.core.errors import SetupError

MAX_BYTES = 1024 * 1024
_LINE = re.compile(
    r"^(?P<indent>\s*)(?P<key>[A-Za-z_*/][\w*/.-]*)\s*:\s*(?P<value>[^#]*?)\s*(?:#.*)?$"
)
APART = 0.03
"""Relative difference from which on two figures of the same quantity contradict each other."""


class VehicleFacts(Struct, frozen=True, kw_only=True):
    """Known figures of a vehicle. SI units; None: not known."""

    wheelbase_m: float | None = None
    mass_kg: float | None = None
    wheel_radius_m: float | None = None
    gear: float | None = None
    """Turns of the motor for one of the wheel."""
    motor_kv: float | None = None
    """Speed of the motor without load per supply voltage, revolutions per minute and volt."""
    cells: int | None = None
    """Lithium cells of the battery in series."""
    pole_pairs: int | None = None
    erpm_per_mps: float | None = None
    erpm_offset: float | None = None
    servo_center: float | None = None
    servo_per_rad: float | None = None
    """Servo position per wheel angle, positive if a larger position turns left."""
    servo_min: float | None = None
    servo_max: float | None = None
    motor_current_a: float | None = None
    brake_current_a: float | None = None
    steering_rate_radps: float | None = None

    def scale(self) -> float | None:
        """Return the electrical speed per speed that poles, gear and wheel give; None if one is not
        known."""
        if self.pole_pairs is None or self.gear is None or self.wheel_radius_m is None:
            return None
        return self.pole_pairs * self.gear * 60.0 / (2.0 * pi * self.wheel_radius_m)


class FactsOfFile(Struct, frozen=True):
    """Result of reading one file."""

    facts: VehicleFacts
    remarks: tuple[str, ...]
    """Values that were not used."""


YAML_FACTS = {
    "speed_to_erpm_gain": "erpm_per_mps",
    "speed_to_erpm_offset": "erpm_offset",
    "steering_angle_to_servo_gain": "servo_per_rad",
    "steering_angle_to_servo_offset": "servo_center",
    "servo_min": "servo_min",
    "servo_max": "servo_max",
    "wheelbase": "wheelbase_m",
    "chassis_length": "wheelbase_m",
    "max_servo_speed": "steering_rate_radps",
}
"""Keys of ``vesc.yaml`` (f1tenth_system, MuSHR) by the fact that they state."""
XML_FACTS = {
    "si_motor_poles": ("pole_pairs", 0.5),
    "si_gear_ratio": ("gear", 1.0),
    "si_wheel_diameter": ("wheel_radius_m", 0.5),
    "si_battery_cells": ("cells", 1.0),
    "l_current_max": ("motor_current_a", 1.0),
    "l_current_min": ("brake_current_a", -1.0),
}
"""Elements of VESC Tool's motor configuration by the fact that they state, and the factor of their
unit."""
RANGES = {
    "wheelbase_m": (0.05, 10.0), "mass_kg": (0.05, 20_000.0), "wheel_radius_m": (0.01, 1.0),
    "gear": (0.05, 200.0), "motor_kv": (5.0, 20_000.0), "cells": (1, 30), "pole_pairs": (1, 100),
    "erpm_per_mps": (-1e6, 1e6), "erpm_offset": (-1e5, 1e5), "servo_center": (0.0, 1.0),
    "servo_per_rad": (-20.0, 20.0), "servo_min": (0.0, 1.0), "servo_max": (0.0, 1.0),
    "motor_current_a": (0.5, 500.0), "brake_current_a": (0.5, 500.0),
    "steering_rate_radps": (0.05, 100.0),
}  # fmt: skip
"""Least and largest value that a vehicle of this project can have."""
WHOLE = ("cells", "pole_pairs")


def read_vesc_file(name: str) -> FactsOfFile:
    """Return what a file states. Raises SetupError for a file that is none of the two kinds, or has
    a value that cannot be."""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SetupError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise SetupError(
            f"{name}: is larger than {MAX_BYTES // 1024} KiB; this is no configuration of a VESC"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SetupError(
            f"{name}: is no text; export the motor configuration as XML in VESC Tool"
        ) from None
    return _of_xml(text, name) if text.lstrip().startswith("<") else _of_yaml(text, name)


def _of_yaml(text: str, name: str) -> FactsOfFile:
    found: dict[str, tuple[float, str]] = {}
    remarks = []
    for key, value, line in _assignments(text):
        place = f"{name}, line {line}: {key}"
        if key not in YAML_FACTS:
            # Other limits of the ROS driver say nothing about the vehicle.
            if _number(value) is not None and key.startswith(
                ("servo_m", "steering_angle", "speed_to", "erpm")
            ):
                remarks.append(f"{place} = {value} is not used")
            continue
        fact = YAML_FACTS[key]
        number = _number(value)
        if number is None:
            raise SetupError(f'{place}: "{value[:40]}" is no number')
        if fact in found and abs(found[fact][0] - number) > APART * abs(number):
            raise SetupError(
                f"{place} = {value} contradicts {found[fact][1]} = {found[fact][0]:g}: remove "
                "the wrong one"
            )
        found[fact] = (_in_range(fact, number, place), key)
    if "erpm_per_mps" not in found and "servo_per_rad" not in found:
        raise SetupError(
            f"{name}: is no vesc.yaml: neither speed_to_erpm_gain nor "
            "steering_angle_to_servo_gain is in it"
        )
    if "servo_center" in found and not _between(found, "servo_min", "servo_center", "servo_max"):
        low, centre, high = (
            found[key][0] if key in found else None
            for key in ("servo_min", "servo_center", "servo_max")
        )
        text = (
            f"steering_angle_to_servo_offset = {centre} is not between servo_min = {low} and "
            f"servo_max = {high}"
        )
        raise SetupError(f"{name}: {text}")
    for fact in ("erpm_per_mps", "servo_per_rad"):
        if fact in found and found[fact][0] == 0.0:
            raise SetupError(f"{name}: {found[fact][1]} is 0, which no vehicle has")
    return FactsOfFile(_facts({fact: value for fact, (value, _) in found.items()}), tuple(remarks))


def _between(found: dict[str, tuple[float, str]], low: str, middle: str, high: str) -> bool:
    value = found[middle][0]
    return (low not in found or found[low][0] <= value) and (
        high not in found or value <= found[high][0]
    )


def _assignments(text: str) -> Iterator[tuple[str, str, int]]:
    """Iterate over ``key: value`` lines with their number. Sections and lists have no value."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.match(line)
        if found and found["value"]:
            yield found["key"].rpartition("/")[2], found["value"].strip("\"'"), number


def _of_xml(text: str, name: str) -> FactsOfFile:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise SetupError(f"{name}: declares a document type, which no file of VESC Tool does")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - no entities: refused above; the size is bounded
    except ElementTree.ParseError as error:
        raise SetupError(f"{name}: is no valid XML: {error}") from None
    if root.tag == "APPConfiguration":
        raise SetupError(
            f"{name}: is the application configuration; export the motor configuration (Motor "
            "Settings) as XML"
        )
    if root.tag != "MCConfiguration":
        raise SetupError(f"{name}: is {root.tag[:40]}, not the MCConfiguration of VESC Tool")
    found: dict[str, float] = {}
    remarks = []
    for element in root:
        if element.tag not in XML_FACTS:
            continue
        fact, factor = XML_FACTS[element.tag]
        value = _number((element.text or "").strip())
        if value is None:
            raise SetupError(f'{name}: {element.tag}: "{(element.text or "")[:40]}" is no number')
        if element.tag == "si_motor_poles" and value % 2:
            raise SetupError(
                f"{name}: si_motor_poles = {value:g}: poles come in pairs; count the magnets "
                "of the motor"
            )
        if fact in found:
            raise SetupError(f"{name}: {element.tag} is there twice: export it anew")
        found[fact] = _in_range(fact, value * factor, f"{name}: {element.tag}")
    missing = [
        tag for tag, (fact, _) in XML_FACTS.items() if fact not in found and tag.startswith("si_")
    ]
    if missing:
        remarks.append(
            f"{name}: has no {', '.join(missing)}: firmware before 5; give them as options"
        )
    return FactsOfFile(_facts(found), tuple(remarks))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _in_range(fact: str, value: float, place: str) -> float:
    low, high = RANGES[fact]
    if not low <= value <= high:
        raise SetupError(f"{place}: {value:g} cannot be (from {low:g} to {high:g})")
    return value


def _facts(found: dict[str, float]) -> VehicleFacts:
    values: dict[str, Any] = {
        fact: int(value) if fact in WHOLE else value for fact, value in found.items()
    }
    return VehicleFacts(**values)


def joined(sources: list[tuple[str, VehicleFacts]]) -> tuple[VehicleFacts, list[str]]:
    """Return the facts of several sources, the first having precedence, and where they contradict
    each other."""
    found: dict[str, Any] = {}
    by: dict[str, str] = {}
    remarks = []
    for source, facts in sources:
        for fact, value in structs.asdict(facts).items():
            if value is None:
                continue
            if fact not in found:
                found[fact], by[fact] = value, source
            elif abs(value - found[fact]) > APART * abs(found[fact]):
                remarks.append(
                    f"{fact} is {found[fact]:g} by {by[fact]} and {value:g} by {source}: the "
                    "first is used; measure it"
                )
    facts = VehicleFacts(**found)
    scale = facts.scale()
    if (
        scale is not None
        and facts.erpm_per_mps is not None
        and abs(scale - abs(facts.erpm_per_mps)) > APART * scale
    ):
        remarks.append(
            f"erpm_per_mps is {facts.erpm_per_mps:g} by {by['erpm_per_mps']}, and poles, gear "
            f"and wheel give {scale:.5g}: the first is used; push the vehicle 5 m and measure it"
        )
    return facts, remarks

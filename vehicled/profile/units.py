"""Conversions that repair a value written in the wrong unit: degrees in a key that ends in
``_rad``, milliseconds in ``_s``."""

from collections.abc import Callable
from math import pi
from typing import NamedTuple

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K


class Conversion(NamedTuple):
    """One unit that is often written by mistake: ``value * factor + shift`` is the value in the
    unit of the key."""

    unit: str
    factor: float
    shift: float = 0.0


_DEGREE = pi / 180.0

CONVERSIONS: dict[str, tuple[Conversion, ...]] = {
    "rad": (Conversion("degrees", _DEGREE),),
    "radps": (
        Conversion("degrees per second", _DEGREE),
        Conversion("revolutions per minute", pi / 30.0),
    ),
    "m": (Conversion("millimetres", 1e-3), Conversion("centimetres", 1e-2)),
    "mps": (Conversion("km/h", 1.0 / 3.6), Conversion("mph", 0.44704)),
    "mps2": (Conversion("g", STANDARD_GRAVITY_MPS2),),
    "s": (Conversion("milliseconds", 1e-3),),
    "ms": (Conversion("seconds", 1e3), Conversion("microseconds", 1e-3)),
    "us": (Conversion("milliseconds", 1e3),),
    "hz": (Conversion("kilohertz", 1e3),),
    "kg": (Conversion("grams", 1e-3), Conversion("tonnes", 1e3)),
    "nm": (Conversion("newton millimetres", 1e-3),),
    "k": (Conversion("degrees Celsius", 1.0, ZERO_CELSIUS_K),),
    "v": (Conversion("millivolts", 1e-3),),
    "a": (Conversion("milliamperes", 1e-3),),
    "ah": (Conversion("milliampere hours", 1e-3),),
    "ohm": (Conversion("milliohms", 1e-3),),
    **dict.fromkeys(("share", "duty", "throttle", "zone", "limit"), (Conversion("percent", 1e-2),)),
    **dict.fromkeys(
        ("servo_center", "servo_min", "servo_max"),
        (Conversion("percent", 1e-2), Conversion("microseconds", 1e-3, -1.0)),
    ),
}
"""Usual slips by the key, or by its last word."""


def did_you_mean(key: str, value: float, fits: Callable[[float], bool]) -> str:
    """Return "; did you mean 0.419 (24 degrees)?" for the first conversion whose result ``fits``;
    empty if none does."""
    name = key.rpartition(".")[2]
    for unit, factor, shift in CONVERSIONS.get(name) or CONVERSIONS.get(
        name.rpartition("_")[2], ()
    ):
        meant = value * factor + shift
        if fits(meant):
            return f"; did you mean {meant:.4g} ({value:g} {unit})?"
    return ""

"""Limits of the telemetry of a controller, beyond which a value is none. Sources: NOTES.md."""

from math import isfinite
from typing import NamedTuple

from drivers.vesc.values import NAN
from vehicled.core.wire.usage import MessageUsage, Unused


class Limit(NamedTuple):
    """Possible values of one quantity."""

    low: float
    high: float
    unit: str


LIMITS = {
    # The firmware's own default limit is 100,000; the fastest motors in use turn at 150,000.
    "erpm": Limit(-300_000.0, 300_000.0, ""),
    "duty": Limit(-1.01, 1.01, ""),
    "motor_current_a": Limit(-2_000.0, 2_000.0, "A"),
    "input_current_a": Limit(-2_000.0, 2_000.0, "A"),
    "input_voltage_v": Limit(0.0, 300.0, "V"),
    # A transistor's thermistor that is not connected reads far outside; a motor's does in
    # NOTES.md's range.
    "fet_temperature_c": Limit(-60.0, 250.0, "C"),
    "motor_temperature_c": Limit(-100.0, 400.0, "C"),
}


def possible(usage: MessageUsage, message: str, field: str, value: float) -> float:
    """Return a value of telemetry; NaN, counted, if it is none."""
    limit = LIMITS[field]
    if limit.low <= value <= limit.high or not isfinite(value):
        return value if isfinite(value) else NAN
    usage.lose(message, Unused.OUT_OF_RANGE, field, f"{value:g} {limit.unit}".rstrip())
    return NAN

"""Added latency of a simulated vehicle: ``[sim.latency]``, and the text of ``--latency``."""

import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from vehicled.profile.table import Table

LONGEST_MS = 5_000.0
Milliseconds = Annotated[float, Meta(ge=0.0, le=LONGEST_MS)]
Range = Annotated[list[Milliseconds], Meta(min_length=2, max_length=2)]

SIDES = ("sensing", "actuation")
EXAMPLES = "20ms, 5..200ms, or sensing=20ms,actuation=5..50ms"
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_LATENCY = re.compile(rf"(?P<low>{_NUMBER})(?:\.\.(?P<high>{_NUMBER}))?(?P<unit>ms|s)")


class LatencyModel(Table, frozen=True, kw_only=True):
    """Latency beside that of the sensor and actuator models: of a bus, a radio, or another
    computer.

    A number is constant; two are the bounds of a uniform distribution, drawn for each transmission.
    A port keeps its order.
    """

    sensing_ms: Milliseconds | Range = 0.0
    """Delay of everything that the devices send, ms."""
    actuation_ms: Milliseconds | Range = 0.0
    """Delay of everything that the daemon sends to the actuator, ms."""

    def __str__(self) -> str:
        """Return the latency as ``--latency`` takes it; empty without any."""
        return ",".join(
            f"{side}={_text(bounds)}"
            for side in SIDES
            if (bounds := self.bounds_ms(side)) != (0.0, 0.0)
        )

    def bounds_ms(self, side: str) -> tuple[float, float]:
        """Return the shortest and the longest latency of ``sensing`` or ``actuation``, ms."""
        value: float | list[float] = getattr(self, f"{side}_ms")
        return (value[0], value[1]) if isinstance(value, list) else (value, value)


def _text(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low:g}ms" if low == high else f"{low:g}..{high:g}ms"


def latency_overrides(text: str) -> list[str]:
    """Return the overrides of a profile that ``--latency text`` stands for. Raises ValueError with
    the cure."""
    if not text:
        return []
    values: dict[str, str] = {}
    parts = text.split(",")
    for part in parts:
        side, named, value = part.rpartition("=")
        if (named and side.strip() not in SIDES) or (not named and len(parts) > 1):
            raise ValueError(f"{part[:40]!r}: name sensing or actuation; use {EXAMPLES}")
        for each in [side.strip()] if named else SIDES:
            if each in values:
                raise ValueError(f"{each} is given twice; use {EXAMPLES}")
            values[each] = _value(value.strip())
    return [f"sim.latency.{side}_ms={value}" for side, value in values.items()]


def _value(text: str) -> str:
    found = _LATENCY.fullmatch(text)
    if found is None:
        hint = ": the unit is missing" if re.fullmatch(rf"{_NUMBER}(\.\.{_NUMBER})?", text) else ""
        raise ValueError(f"{text[:40]!r} is not a latency{hint}; use {EXAMPLES}")
    scale = 1000.0 if found["unit"] == "s" else 1.0
    bounds_ms = [
        round(float(number) * scale, 9)
        for number in (found["low"], found["high"])
        if number is not None
    ]
    return latency_value(bounds_ms, text)


def latency_value(bounds_ms: Sequence[float], text: str) -> str:
    """Return one or two bounds in ms as TOML. Raises ValueError for bounds that are too large or in
    the wrong order."""
    if bounds_ms[0] > bounds_ms[-1]:
        raise ValueError(
            f"{text!r}: the first bound is above the second; write the smaller one first"
        )
    if bounds_ms[-1] > LONGEST_MS:
        raise ValueError(f"{text!r} is more than {LONGEST_MS:g} ms: choose less")
    return repr(bounds_ms[0]) if len(bounds_ms) == 1 else repr(list(bounds_ms))

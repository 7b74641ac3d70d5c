"""Conversion from the units of foreign files to those of our fields, which their names give."""

from collections.abc import Callable
from math import pi

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K
from vehicled.offline.recordings.foreign.source import yaw_of_compass

_LINEAR: dict[str, dict[str, float]] = {
    "m": {"m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1000.0, "ft": 0.3048},
    "rad": {"rad": 1.0, "deg": pi / 180.0, "mrad": 0.001, "deg_e7": 1e-7 * pi / 180.0},
    "mps": {
        "mps": 1.0,
        "kmh": 1.0 / 3.6,
        "cmps": 0.01,
        "mmps": 0.001,
        "mph": 0.44704,
        "knots": 1852.0 / 3600.0,
    },
    "mps2": {
        "mps2": 1.0,
        "g": STANDARD_GRAVITY_MPS2,
        "mg": 1e-3 * STANDARD_GRAVITY_MPS2,
        "cmps2": 0.01,
    },
    "radps": {"radps": 1.0, "degps": pi / 180.0, "mradps": 0.001, "rpm": 2.0 * pi / 60.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0},
    "m2": {"m2": 1.0, "cm2": 1e-4, "mm2": 1e-6},
    "m2ps2": {"m2ps2": 1.0},
    "a": {"a": 1.0, "ma": 1e-3},
    "v": {"v": 1.0, "mv": 1e-3},
    "ns": {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    "": {"": 1.0, "percent": 0.01, "permille": 0.001},
}
"""Conversion factor of each unit, by the suffix of our field's name. ``g`` is standard gravity."""
_OTHER: dict[str, dict[str, Callable[[float], float]]] = {
    "rad": {
        "deg_compass": lambda value: yaw_of_compass(value * pi / 180.0),
        "rad_compass": yaw_of_compass,
    },
    "k": {
        "k": lambda value: value,
        "degc": lambda value: value + ZERO_CELSIUS_K,
        "degf": lambda value: (value + 459.67) / 1.8,
    },
}
"""Conversions that are not a factor. A compass counts clockwise from north, a yaw counter-clockwise
from east."""
SIGMA_OF = {"m2": "m", "m2ps2": "mps"}
"""Dimension of the standard deviations of a covariance."""


def dimension_of(field: str) -> str:
    """End of a field's name that says its unit, as ``mps2`` of ``specific_force_mps2``; empty where
    it has none."""
    end = field.rsplit("_", 1)[-1]
    return end if end in _LINEAR or end in _OTHER else ""


def converter(dimension: str, unit: str) -> Callable[[float], float]:
    """Function to our unit. Raises ``ValueError`` that names the units there are."""
    unit = unit.lower()
    if unit in (other := _OTHER.get(dimension, {})):
        return other[unit]
    linear = _LINEAR.get(dimension, {})
    if unit not in linear:
        raise ValueError(
            f'unit "{unit[:40]}" is not one of {", ".join((*linear, *other))}'.replace(
                "of ,", "of none,"
            )
        )
    factor = linear[unit]
    return lambda value: value * factor

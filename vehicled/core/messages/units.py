"""Constants that convert other units to those of the messages."""

ZERO_CELSIUS_K = 273.15
STANDARD_GRAVITY_MPS2 = 9.80665
KNOT_MPS = 1852.0 / 3600.0

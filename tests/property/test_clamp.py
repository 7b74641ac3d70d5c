"""The limit of a number is that of the built-in functions, to the bit."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.clamp import clamp

EDGES = st.sampled_from((0.0, -0.0, 1.0, -1.0))
LIMITS = EDGES | st.floats(allow_nan=False)


@given(EDGES | st.floats(), LIMITS, LIMITS)
def test_clamp_gives_the_bits_of_min_and_max(value: float, low: float, high: float) -> None:
    assert struct.pack("d", clamp(value, low, high)) == struct.pack("d", min(max(value, low), high))

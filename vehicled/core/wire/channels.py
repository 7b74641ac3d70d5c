"""Ends of the channels of an RC receiver, in the units of its frames."""

from typing import NamedTuple


class ChannelEnds(NamedTuple):
    """Values of a channel at its ends and its centre, as a family of receivers sends them."""

    low: float
    centre: float
    high: float


TICKS = ChannelEnds(172.0, 992.0, 1811.0)
"""Ends of a channel of 11 bits, 988 to 2012 us, in CRSF and SBUS alike."""

"""Jamming as the receiver reports it."""

from drivers.ublox.layouts import MonRf
from vehicled.core.messages import Reaction

ORIGIN = "ublox"
"""Name of the driver in events and faults."""


def jamming(report: MonRf) -> tuple[str, Reaction] | None:
    """Return reason (empty for none) and reaction; None if the receiver does not monitor jamming."""
    level = max((block.jamming for block in report.blocks), default=0)
    if level == 0:
        return None
    if level == 1:
        return "", Reaction.NONE
    indicator = max(block.jamming_indicator for block in report.blocks)
    if level == 2:
        return f"interference, the fix is still there (indicator {indicator} of 255 at its start)", Reaction.WARN
    return f"interference, no fix possible (indicator {indicator} of 255 at its start)", Reaction.CAP_SPEED

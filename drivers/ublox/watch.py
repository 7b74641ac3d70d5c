"""Jamming, and the fusion with an inertial sensor, as the receiver reports them."""

from collections.abc import Sequence

from drivers.gnss.watch import event
from drivers.ublox.layouts import EsfStatus, MonRf, SecSig
from vehicled.core.messages import Message, Reaction

ORIGIN = "ublox"
"""Name of the driver in events and faults."""


def jamming(report: MonRf) -> tuple[str, Reaction] | None:
    """Return reason (empty for none) and reaction; None if the receiver does not monitor
    jamming."""
    level = max((block.jamming for block in report.blocks), default=0)
    if level == 0:
        return None
    if level == 1:
        return "", Reaction.NONE
    indicator = max(block.jamming_indicator for block in report.blocks)
    if level == 2:
        return (
            f"interference, the fix is still there (indicator {indicator} of 255 at its start)",
            Reaction.WARN,
        )
    return (
        f"interference, no fix possible (indicator {indicator} of 255 at its start)",
        Reaction.CAP_SPEED,
    )


def jamming_of(report: SecSig) -> tuple[str, Reaction]:
    """Return reason (empty for none) and reaction of a known level."""
    if report.jamming == 2:
        return "interference, the fix is still there", Reaction.WARN
    return (
        ("interference, no fix possible", Reaction.CAP_SPEED)
        if report.jamming == 3
        else ("", Reaction.NONE)
    )


FUSION_MODES = ("initialising", "working", "suspended", "disabled")
SENSORS = {
    5: "gyro z", 6: "front left wheel", 7: "front right wheel", 8: "rear left wheel",
    9: "rear right wheel", 10: "wheel ticks", 11: "speed", 12: "gyro temperature", 13: "gyro y",
    14: "gyro x", 16: "accelerometer x", 17: "accelerometer y", 18: "accelerometer z",
}  # fmt: skip
"""Names of the sensors in ESF-STATUS by type."""


class FusionEpisodes:
    """Monitor of ESF-STATUS: reports a change of the mode, and of the sensors with faults."""

    def __init__(self) -> None:
        self._mode: int | None = None
        self._faulty: tuple[str, ...] = ()

    @property
    def working(self) -> bool | None:
        """True while the fusion works; None before the first report."""
        return None if self._mode is None else self._mode == 1

    def update(self, status: EsfStatus, t_ns: int) -> Sequence[Message]:
        """Return the event of a change, usually none."""
        faulty = tuple(
            sorted(
                {
                    SENSORS.get(each.status1 & 0x3F, "other")
                    for each in status.sensors
                    if each.faults & 0xF
                }
            )
        )
        if (status.fusion_mode, faulty) == (self._mode, self._faulty):
            return ()
        self._mode, self._faulty = status.fusion_mode, faulty
        known = status.fusion_mode < len(FUSION_MODES)
        mode = FUSION_MODES[status.fusion_mode] if known else f"mode {status.fusion_mode}"
        level = "info" if status.fusion_mode == 1 and not faulty else "warning"
        return (event(t_ns, level, "sensor_fusion", mode=mode, faulty=faulty),)

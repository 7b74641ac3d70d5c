"""Pulses per second that the kernel stamps (``/dev/pps0``, ...): how far its clock is from the
second of a GNSS receiver.

The kernel stamps each pulse with the clock of the computer. The pulse marks a whole second, so the
fraction of the stamp is the error of that clock, as far as it is below half a second. Only files
are read: a program such as chrony corrects the clock.
"""

import re
import time
from pathlib import Path

from msgspec import Struct

FOLDER = Path("/sys/class/pps")
FRESH_S = 2.5
"""Age of the newest pulse up to which they come every second."""
_STAMP = re.compile(r"(\d{1,12})\.(\d{9})#(\d{1,12})\s*\Z")


class PulseSource(Struct, frozen=True):
    """One source of pulses."""

    device: str
    """Path of the device, such as /dev/pps0."""
    name: str
    """Name of the driver, and the line that it belongs to: ``serial0 /dev/ttyS0``,
    ``pps@12.-1``."""
    pulses: int
    """Pulses since the source was opened; 0 before the first."""
    age_s: float | None
    """Time since the newest pulse; None before the first."""
    offset_s: float | None
    """Computer's clock less the second of the pulse, from -0.5 to 0.5; None while none comes."""
    edge: str = "assert"
    """Edge that marks the second, as the kernel calls it: pulses are shorter than the pauses."""

    @property
    def text(self) -> str:
        """Return a line for a person."""
        if self.age_s is None:
            return (
                "no pulse yet: check the wire from the receiver's PPS pin, and that the "
                "receiver has a fix"
            )
        if self.offset_s is None:
            return f"no pulse for {self.age_s:.0f} s"
        folder, edge = FOLDER / self.device.rpartition("/")[2], self.edge
        return (
            f"pulses every second; this computer's clock is {self.offset_s * 1e6:+.0f} us from "
            f'them; in a profile: port = "pps:{folder}", driver = "pps"'
            + (f', edge = "{edge}"' if edge != "assert" else "")
        )


def sources(folder: Path = FOLDER, now_s: float | None = None) -> list[PulseSource]:
    """Return the sources of this computer; empty without one."""
    now_s = time.time() if now_s is None else now_s
    return [_source(each, now_s) for each in sorted(folder.glob("pps*"))]


def _source(folder: Path, now_s: float) -> PulseSource:
    name = " ".join(filter(None, (_read(folder / "name"), _read(folder / "path"))))
    stamps = {}
    for edge in ("assert", "clear"):
        found = _STAMP.match(_read(folder / edge))
        if found and int(found[3]):
            stamps[edge] = int(found[1]), int(found[2]), int(found[3])
    if not stamps:
        return PulseSource(f"/dev/{folder.name}", name, 0, None, None)
    edge = _edge_of({key: seconds + 1e-9 * part for key, (seconds, part, _) in stamps.items()})
    seconds, fraction_ns, count = stamps[edge]
    age_s = now_s - seconds - fraction_ns * 1e-9
    offset_ns = fraction_ns - (1_000_000_000 if fraction_ns >= 500_000_000 else 0)
    return PulseSource(
        f"/dev/{folder.name}",
        name,
        count,
        age_s,
        offset_ns * 1e-9 if abs(age_s) <= FRESH_S else None,
        edge,
    )


def _edge_of(stamps_s: dict[str, float]) -> str:
    """Return the edge that begins a pulse: the newest where only one is stamped now, else that
    before the shorter time."""
    newest = max(stamps_s, key=stamps_s.__getitem__)
    if len(stamps_s) < 2 or abs(stamps_s["assert"] - stamps_s["clear"]) >= 1.0:
        return newest
    return "assert" if (stamps_s["clear"] - stamps_s["assert"]) % 1.0 <= 0.5 else "clear"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""

"""Identity of a receiver from MON-VER, and the differences of its firmware from HPG 1.32 of a ZED-F9P. Sources: NOTES.md."""

import re
from typing import NamedTuple

from drivers.ublox.layouts import MonVer

_PROTOCOL = re.compile(r"PROTVER[= ](\d+)\.(\d+)")
GENERATION_10, GENERATION_20 = "000A0000", "000B0000"
"""Hardware of M10 and F10, and of X20."""
_SEPARATE = (50, 0)
"""Protocol version from which RXM-COR alone reports on corrections."""


class ReceiverIdentity(NamedTuple):
    """Model and firmware of a receiver."""

    model: str
    """Module as it names itself, such as ZED-F9P; empty if it does not, as many of generation 10 and 8."""
    firmware: str
    """Kind and version of the firmware, such as HPG 1.32: HPG high precision, HPS and ADR with an inertial sensor, TIM timing, SPG
    standard precision; empty if unknown."""
    protocol: tuple[int, int]
    """Version of the protocol; 0, 0 if unknown."""
    hardware: str
    """Generation of the chip: 00080000, 00190000 (F9), 000A0000 (M10, F10), 000B0000 (X20)."""

    @property
    def newer(self) -> bool:
        """True for generations after F9, which are not those that the driver takes for granted."""
        return self.hardware in (GENERATION_10, GENERATION_20)

    @property
    def standard_precision(self) -> bool:
        """True for receivers that take no corrections and know no position below a centimetre."""
        return self.firmware.startswith("SPG")

    @property
    def security_messages(self) -> bool:
        """True if SEC-SIG reports jamming and spoofing, which MON-RF and NAV-STATUS then do not, and RXM-COR the corrections."""
        return self.protocol >= (27, 50) and self.protocol[0] not in (32, 33)

    def lacks(self, item: str) -> bool:
        """True for a configuration item that this receiver is known not to have."""
        if item == "CFG-ITFM-ENABLE":
            return self.security_messages
        if "RXM_RTCM" in item:
            return self.protocol >= _SEPARATE or self.standard_precision
        if "HPPOSLLH" in item or "RTCM3X" in item or "RXM_COR" in item:
            return self.standard_precision
        return False


def identify(version: MonVer) -> ReceiverIdentity:
    """Return the identity that a version message states."""
    named = dict(extension.split("=", 1) for extension in version.extensions if "=" in extension)
    found = next(filter(None, (_PROTOCOL.search(each) for each in (*version.extensions, version.software))), None)
    protocol = (int(found[1]), int(found[2])) if found else (0, 0)
    return ReceiverIdentity(named.get("MOD", ""), named.get("FWVER", ""), protocol, version.hardware)

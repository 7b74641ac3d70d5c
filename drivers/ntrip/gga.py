"""GGA sentence that gives a rover's position to a caster (NMEA 0183, GGA as in version 2.3)."""

from math import degrees, isfinite, pi
from typing import Final

from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.core.wire.crc import xor8

MINUTE_DECIMALS: Final = 5
"""Decimals of a minute, 2 cm on the ground; keeps sentences within the standard's 82 characters."""

_DAY_NS: Final = 86_400 * 10**9


def is_usable(fix: GnssFix) -> bool:
    """True if a fix has a position."""
    return (
        fix.fix_type in {FixType.DEAD_RECKONING, FixType.FIX_2D, FixType.FIX_3D}
        and abs(fix.latitude_rad) <= pi / 2.0
        and abs(fix.longitude_rad) <= 2.0 * pi
    )


def encode_gga(fix: GnssFix, talker: str = "GP") -> bytes:
    """Return the sentence with checksum and line end, for a usable ``fix``.

    Unknown time, dilution, height and age of corrections are empty. The height is ellipsoidal with
    a geoid separation of zero, because casters use the sum of both.
    """
    if fix.utc_ns > 0:
        # Rounded down, because rounding up could give second 60.
        hundredths = fix.utc_ns % _DAY_NS // 10**7
        minutes, rest = divmod(hundredths, 6_000)
        time = f"{minutes // 60:02d}{minutes % 60:02d}{rest // 100:02d}.{rest % 100:02d}"
    else:
        time = ""
    east_rad = fix.longitude_rad - 2.0 * pi if fix.longitude_rad > pi else fix.longitude_rad
    east_rad = east_rad + 2.0 * pi if east_rad < -pi else east_rad
    height_known = isfinite(fix.height_m)
    body = ",".join(
        (
            f"{talker}GGA",
            time,
            _angle(fix.latitude_rad, 2),
            "S" if fix.latitude_rad < 0.0 else "N",
            _angle(east_rad, 3),
            "W" if east_rad < 0.0 else "E",
            str(_quality(fix)),
            f"{min(fix.satellites, 99):02d}",
            f"{min(max(fix.hdop, 0.0), 99.99):.2f}" if isfinite(fix.hdop) else "",
            f"{min(max(fix.height_m, -9_999.0), 99_999.0):.2f}" if height_known else "",
            "M",
            "0.0" if height_known else "",
            "M",
            f"{min(max(fix.correction_age_s, 0.0), 999.9):.1f}"
            if isfinite(fix.correction_age_s)
            else "",
            "",
        )
    ).encode("ascii")
    return b"$%b*%02X\r\n" % (body, xor8(body))


def _angle(angle_rad: float, degree_digits: int) -> str:
    """Return degrees and minutes without sign, rounded as one integer so that minutes stay below
    60."""
    unit = 10**MINUTE_DECIMALS
    whole = round(abs(degrees(angle_rad)) * 60 * unit)
    minutes, fraction = divmod(whole, unit)
    return f"{minutes // 60:0{degree_digits}d}{minutes % 60:02d}.{fraction:0{MINUTE_DECIMALS}d}"


def _quality(fix: GnssFix) -> int:
    """Return 0 no fix, 1 single, 2 differential, 4 RTK fixed, 5 RTK float, 6 dead reckoning."""
    if fix.fix_type is FixType.DEAD_RECKONING:
        return 6
    if fix.fix_type not in {FixType.FIX_2D, FixType.FIX_3D}:
        return 0
    if fix.carrier is not CarrierSolution.NONE:
        return 4 if fix.carrier is CarrierSolution.FIXED else 5
    return 2 if fix.differential else 1

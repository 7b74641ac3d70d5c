"""The GGA sentence by which a rover tells a caster where it is (NMEA 0183, GGA in the form of version 2.3)."""

from math import degrees, isfinite, pi
from typing import Final

from vehicled.messages import CarrierSolution, FixType, GnssFix
from vehicled.wire.crc import xor8

MINUTE_DECIMALS: Final = 5
"""2 cm on the ground: more than any network needs, and sentences stay within the 82 characters of the standard."""

_DAY_NS: Final = 86_400 * 10**9


def is_usable(fix: GnssFix) -> bool:
    """Whether a fix has a place to tell."""
    return (
        fix.fix_type in {FixType.DEAD_RECKONING, FixType.FIX_2D, FixType.FIX_3D}
        and abs(fix.latitude_rad) <= pi / 2.0
        and abs(fix.longitude_rad) <= 2.0 * pi
    )


def encode_gga(fix: GnssFix, talker: str = "GP") -> bytes:
    """The sentence with check sum and line end. ``fix`` must be usable.

    Blank is what the fix does not know: time, dilution, age of corrections. The height goes out as it is, over the ellipsoid, with
    a geoid separation of zero: their sum is what a caster computes with, and the sum is right.
    """
    if fix.utc_ns > 0:
        # Hundredths rounded down: rounding up could name the sixtieth second.
        hundredths = fix.utc_ns % _DAY_NS // 10**7
        minutes, rest = divmod(hundredths, 6_000)
        time = f"{minutes // 60:02d}{minutes % 60:02d}{rest // 100:02d}.{rest % 100:02d}"
    else:
        time = ""
    east_rad = fix.longitude_rad - 2.0 * pi if fix.longitude_rad > pi else fix.longitude_rad
    east_rad = east_rad + 2.0 * pi if east_rad < -pi else east_rad
    height_m = fix.height_m if isfinite(fix.height_m) else 0.0
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
            f"{min(max(height_m, -9_999.0), 99_999.0):.2f}",
            "M",
            "0.0",
            "M",
            f"{min(max(fix.correction_age_s, 0.0), 999.9):.1f}" if isfinite(fix.correction_age_s) else "",
            "",
        )
    ).encode("ascii")
    return b"$%b*%02X\r\n" % (body, xor8(body))


def _angle(angle_rad: float, degree_digits: int) -> str:
    """Degrees and minutes without sign. Rounded as one whole number of the last digit, so that minutes never reach sixty."""
    unit = 10**MINUTE_DECIMALS
    whole = round(abs(degrees(angle_rad)) * 60 * unit)
    minutes, fraction = divmod(whole, unit)
    return f"{minutes // 60:0{degree_digits}d}{minutes % 60:02d}.{fraction:0{MINUTE_DECIMALS}d}"


def _quality(fix: GnssFix) -> int:
    """0 no fix, 1 single, 2 differential, 4 RTK fixed, 5 RTK float, 6 dead reckoning."""
    if fix.fix_type is FixType.DEAD_RECKONING:
        return 6
    if fix.fix_type not in {FixType.FIX_2D, FixType.FIX_3D}:
        return 0
    if fix.carrier is not CarrierSolution.NONE:
        return 4 if fix.carrier is CarrierSolution.FIXED else 5
    return 2 if fix.differential else 1

"""Encoder of one receiver epoch into UBX and NMEA: SI to the receiver's units, ENU to NED.

Ranges, rounding and pitfalls follow the real receiver: high-precision digits beside the coarse
ones, a fraction of a second that may be negative, saturating accuracies.
"""

from collections import deque
from collections.abc import Callable
from datetime import date, timedelta
from math import atan2, cos, degrees, hypot, isfinite, nan, pi, sin, sqrt, tau
from typing import Any, NamedTuple

from drivers.ublox.codec import encode
from drivers.ublox.layouts import (
    EsfSensor,
    EsfStatus,
    NavAtt,
    NavCov,
    NavDop,
    NavEoe,
    NavHpposllh,
    NavPvt,
    NavRelposned,
    NavStatus,
    NavTimels,
)
from drivers.ublox.nmea import Gga, Gst, Rmc, Ths, Vtg
from vehicled.core.messages import NAN3, CarrierSolution, FixType, GnssFix, Heading, Message
from vehicled.core.messages.units import KNOT_MPS
from vehicled.core.wire.crc import xor8
from vehicled.profile.schema import DeviceTable

LEAP_S = 18
GPS_EPOCH_S = 315_964_800
"""6 January 1980 in Unix time."""
WEEK_MS = 604_800_000
DAY_NS = 86_400_000_000_000
GEOID_SEPARATION_M = -34.0
"""Geoid separation: altitude is height minus this. Value for Wisconsin; any constant would do."""
DEFAULT_BASELINE_M = 0.5
UTC_BEFORE_KNOWN_NS = 1_767_225_600_000_000_000
"""UTC at the start of a receiver without positions, so that its time of week can run."""
SAME_EPOCH_NS = 1_000_000
"""Largest time difference of a heading and a position of one epoch, because the two models sample
on their own grids."""
KEPT_HEADINGS = 16
_LARGEST = 2**32 - 1
_UNIX_DAY = date(1970, 1, 1)
_COURSE_MPS = 0.05
"""Speed below which a receiver reports no course."""
_ROUNDED_UP_NS = 995_000_000
"""Fraction from which the second is rounded up, which makes the fraction negative."""
_FIX_TYPES = {
    FixType.NONE: 0,
    FixType.DEAD_RECKONING: 1,
    FixType.FIX_2D: 2,
    FixType.FIX_3D: 3,
    FixType.TIME: 5,
}
_AGES_S = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0)
_TALKER = "GN"


class Instant(NamedTuple):
    """Receiver state at one epoch."""

    utc_ns: int
    time_known: bool
    fix: GnssFix | None
    """Fix; None if the simulation has no position for this receiver: it then reports an invalid
    position."""
    heading: Heading | None
    """Heading; None without a moving base."""
    baseline_m: float = DEFAULT_BASELINE_M
    baseline_yaw_rad: float = 0.0
    spoofing: int = 1
    high_precision: bool = True
    """Precision of NMEA sentences: seven decimals of a minute instead of five."""

    @property
    def gps_ms(self) -> int:
        """GPS time since its epoch."""
        return round((self.utc_ns - GPS_EPOCH_S * 1_000_000_000) / 1_000_000) + LEAP_S * 1000

    @property
    def itow_ms(self) -> int:
        """Time of week."""
        return self.gps_ms % WEEK_MS

    @property
    def solved(self) -> bool:
        """True if it has a solution, with or without position."""
        return self.fix is None or self.fix.fix_type not in (FixType.NONE, FixType.TIME)


class FixPairing:
    """Joins a position with the heading of its instant; without positions every heading is an
    epoch."""

    def __init__(self, device: DeviceTable, start_ns: int) -> None:
        self._follows_fixes = GnssFix.__name__ in device.messages
        self._utc_offset_ns = UTC_BEFORE_KNOWN_NS - start_ns
        # A fix is ready later than its heading, so headings of other instants may come in between.
        self._headings: deque[Heading] = deque(maxlen=KEPT_HEADINGS)

    def clear(self) -> None:
        """Forget the headings, because the receiver restarted."""
        self._headings.clear()

    def on_message(self, message: Message) -> Instant | None:
        """Return the epoch that a sensor value completes."""
        if isinstance(message, GnssFix):
            if message.utc_ns:
                self._utc_offset_ns = message.utc_ns - message.t_ns
            same = (
                each for each in self._headings if abs(each.t_ns - message.t_ns) <= SAME_EPOCH_NS
            )
            return Instant(
                message.t_ns + self._utc_offset_ns, message.utc_ns != 0, message, next(same, None)
            )
        if isinstance(message, Heading):
            self._headings.append(message)
            if not self._follows_fixes:
                return Instant(message.t_ns + self._utc_offset_ns, True, None, message)
        return None


def _clipped(value: float, limit: int = _LARGEST) -> int:
    """Clip to an unsigned integer; the largest value stands for unknown or too large."""
    return min(round(value), limit) if isfinite(value) else limit


def _whole(value: float) -> int:
    return round(value) if isfinite(value) else 0


def _split(value: float, ratio: int) -> tuple[int, int]:
    """Split a value in fine units into coarse units and a signed remainder below one."""
    if not isfinite(value):
        return 0, 0
    total = round(value)
    coarse = round(total / ratio)
    return coarse, total - coarse * ratio


def _sigma(*variances: float) -> float:
    total = sum(variances)
    return sqrt(total) if total >= 0.0 else nan


def _position(instant: Instant) -> tuple[float, float, float]:
    fix = instant.fix
    if fix is None or not instant.solved:
        return nan, nan, nan
    return degrees(fix.latitude_rad), degrees(fix.longitude_rad), fix.height_m


def _course(fix: GnssFix) -> tuple[float, float]:
    """Return speed over ground in m/s and course in degrees, clockwise from north."""
    east, north, _ = fix.velocity_enu_mps
    return hypot(east, north), degrees(atan2(east, north)) % 360.0


def _age_code(age_s: float) -> int:
    return 1 + sum(age_s >= limit for limit in _AGES_S) if isfinite(age_s) else 0


def pvt(instant: Instant) -> NavPvt:
    """Encode NAV-PVT."""
    day, rest_ns = divmod(instant.utc_ns, DAY_NS)
    seconds, nano = divmod(rest_ns, 1_000_000_000)
    if nano >= _ROUNDED_UP_NS:
        seconds, nano = seconds + 1, nano - 1_000_000_000
        if seconds == 86_400:
            day, seconds = day + 1, 0
    when = _UNIX_DAY + timedelta(days=day)
    fix = instant.fix
    latitude_deg, longitude_deg, height_m = _position(instant)
    shared: tuple[Any, ...] = (
        instant.itow_ms, when.year, when.month, when.day, seconds // 3600, seconds // 60 % 60,
        seconds % 60, 0x37 if instant.time_known else 0, 20 if instant.time_known else _LARGEST,
        nano,
    )  # fmt: skip
    confirmed = 0xE0 if instant.time_known else 0x20
    if fix is None:
        nothing = (0, 0, 0, 0, _LARGEST, _LARGEST, 0, 0, 0, 0, 0, _LARGEST, 18_000_000, 9999)
        return NavPvt._make((*shared, 3, 0x83, confirmed, 24, *nothing, 1, 0, 0, 0))
    solved = instant.solved
    flags = (solved | fix.differential << 1 | fix.carrier << 6) if solved else 0
    covariance, speeds = fix.position_covariance_m2, fix.velocity_covariance_m2ps2
    east, north, up = fix.velocity_enu_mps if solved else NAN3
    speed_mps, course_deg = _course(fix) if solved else (nan, nan)
    speed_sigma = _sigma(speeds[0], speeds[4]) if solved else nan
    return NavPvt._make(
        (
            *shared,
            _FIX_TYPES[fix.fix_type],
            flags,
            confirmed,
            fix.satellites,
            _split(longitude_deg * 1e9, 100)[0],
            _split(latitude_deg * 1e9, 100)[0],
            _split(height_m * 1e4, 10)[0],
            _split((height_m - GEOID_SEPARATION_M) * 1e4, 10)[0],
            _clipped(_sigma(covariance[0], covariance[4]) * 1e3) if solved else _LARGEST,
            _clipped(_sigma(covariance[8]) * 1e3) if solved else _LARGEST,
            _whole(north * 1e3),
            _whole(east * 1e3),
            _whole(-up * 1e3),
            _whole(speed_mps * 1e3),
            _whole(course_deg * 1e5),
            _clipped(speed_sigma * 1e3),
            _clipped(degrees(speed_sigma / max(speed_mps, 1e-3)) * 1e5, 18_000_000),
            _clipped(hypot(fix.hdop, fix.vdop) * 100.0, 9999),
            (0 if solved else 1)
            | _age_code(fix.correction_age_s if fix.differential else nan) << 1,
            0,
            0,
            0,
        )
    )


def hpposllh(instant: Instant) -> NavHpposllh:
    """Encode NAV-HPPOSLLH."""
    latitude_deg, longitude_deg, height_m = _position(instant)
    known = isfinite(latitude_deg)
    longitude, longitude_e9 = _split(longitude_deg * 1e9, 100)
    latitude, latitude_e9 = _split(latitude_deg * 1e9, 100)
    height, height_e1 = _split(height_m * 1e4, 10)
    sea, sea_e1 = _split((height_m - GEOID_SEPARATION_M) * 1e4, 10)
    horizontal, vertical = _LARGEST, _LARGEST
    if instant.fix is not None and known:
        covariance = instant.fix.position_covariance_m2
        horizontal = _clipped(_sigma(covariance[0], covariance[4]) * 1e4)
        vertical = _clipped(_sigma(covariance[8]) * 1e4)
    return NavHpposllh(
        0, 0 if known else 1, instant.itow_ms, longitude, latitude, height, sea,
        longitude_e9, latitude_e9, height_e1, sea_e1, horizontal, vertical,
    )  # fmt: skip


def cov(instant: Instant) -> NavCov:
    """Encode NAV-COV."""
    if instant.fix is None or not instant.solved:
        return NavCov(instant.itow_ms, 0, 0, 0, *(0.0,) * 12)
    valid, values = [], []
    for matrix in (instant.fix.position_covariance_m2, instant.fix.velocity_covariance_m2ps2):
        ee, en, eu, _, nn, nu, _, _, uu = matrix
        known = isfinite(sum(matrix))
        valid.append(int(known))
        values += [nn, en, -nu, ee, -eu, uu] if known else [0.0] * 6
    return NavCov(instant.itow_ms, 0, *valid, *values)


def dop(instant: Instant) -> NavDop:
    """Encode NAV-DOP. Time DOP and the north-east split are not modelled: plausible ratios of the
    others replace them."""
    fix = instant.fix
    hdop, vdop = (fix.hdop, fix.vdop) if fix is not None and instant.solved else (nan, nan)
    pdop, tdop, axis = hypot(hdop, vdop), 0.6 * vdop, hdop / sqrt(2.0)
    return NavDop(
        instant.itow_ms,
        *(
            _clipped(each * 100.0, 9999)
            for each in (hypot(pdop, tdop), pdop, tdop, vdop, hdop, axis, axis)
        ),
    )


def relposned(instant: Instant) -> NavRelposned:
    """Encode NAV-RELPOSNED of a moving base's two antennas; invalid without a finite yaw."""
    heading = instant.heading
    known = heading is not None and isfinite(heading.yaw_rad)
    if heading is None or not known:
        return NavRelposned._make(
            (1, 0, instant.itow_ms, *(0,) * 9, *(_LARGEST,) * 4, 18_000_000, int(instant.solved))
        )
    line_rad = heading.yaw_rad + instant.baseline_yaw_rad
    length = instant.baseline_m
    parts = [
        _split(part * 1e4, 100)
        for part in (length * sin(line_rad), length * cos(line_rad), 0.0, length)
    ]
    heading_deg_e5 = round(degrees((pi / 2 - line_rad) % tau) * 1e5) % 36_000_000
    across = _clipped(heading.sigma_rad * length * 1e4)
    carrier = instant.fix.carrier if instant.fix is not None else CarrierSolution.FIXED
    # Valid, corrected, relative position valid, moving, heading valid.
    flags = (0x127 if instant.solved else 0x001) | carrier << 3
    return NavRelposned._make(
        (
            1,
            0,
            instant.itow_ms,
            *(coarse for coarse, _ in parts),
            heading_deg_e5,
            *(rest for _, rest in parts),
            *(across,) * 4,
            _clipped(degrees(heading.sigma_rad) * 1e5, 18_000_000),
            flags,
        )
    )


def att(instant: Instant) -> NavAtt:
    """Encode NAV-ATT; accuracies of 180 degrees without a heading."""
    heading = instant.heading
    if heading is None or not isfinite(heading.yaw_rad) or not instant.solved:
        return NavAtt(instant.itow_ms, 0, 0, 0, 0, 18_000_000, 18_000_000, 18_000_000)
    heading_deg_e5 = round(degrees((pi / 2 - heading.yaw_rad) % tau) * 1e5) % 36_000_000
    accuracy = _clipped(degrees(heading.sigma_rad) * 1e5, 18_000_000)
    return NavAtt(instant.itow_ms, 0, 0, 0, heading_deg_e5, accuracy, accuracy, accuracy)


def fusion(instant: Instant, with_speed: bool) -> EsfStatus:
    """Encode ESF-STATUS: the inertial sensor, and the wheel speed once it has come."""
    kinds = (5, 13, 14, 16, 17, 18, *((11,) if with_speed else ()))
    mode = 1 if instant.heading is not None and instant.solved else 0
    return EsfStatus(
        instant.itow_ms,
        2,
        0,
        2,
        mode,
        tuple(EsfSensor(0xC0 | kind, 0x07, 100, 0) for kind in kinds),
    )


def status(instant: Instant) -> NavStatus:
    """Encode NAV-STATUS."""
    fix_type = 3 if instant.fix is None else _FIX_TYPES[instant.fix.fix_type]
    flags = 0x0D if instant.solved else 0
    return NavStatus(instant.itow_ms, fix_type, flags, 0, instant.spoofing << 3, 24_000, 60_000)


def timels(instant: Instant) -> NavTimels:
    """Encode NAV-TIMELS, without a near leap second."""
    return NavTimels(instant.itow_ms, 0, 2, LEAP_S, 0, 0, 0, 0, 0, 3 if instant.time_known else 0)


NAV: dict[str, Callable[[Instant], Any]] = {
    "NAV-PVT": pvt,
    "NAV-HPPOSLLH": hpposllh,
    "NAV-COV": cov,
    "NAV-DOP": dop,
    "NAV-RELPOSNED": relposned,
    "NAV-ATT": att,
    "NAV-STATUS": status,
    "NAV-TIMELS": timels,
    "NAV-EOE": lambda instant: NavEoe(instant.itow_ms),
}
"""UBX messages of an epoch by name, in sending order."""


# ---------------------------------------------------------------- sentences


def _time_ms(instant: Instant) -> int | None:
    return round(instant.utc_ns % DAY_NS / 1_000_000) % 86_400_000 if instant.time_known else None


def _angles(instant: Instant) -> tuple[float, float]:
    latitude_deg, longitude_deg, _ = _position(instant)
    if instant.high_precision or not isfinite(latitude_deg):
        return latitude_deg, longitude_deg
    return round(latitude_deg * 6e6) / 6e6, round(longitude_deg * 6e6) / 6e6


def _states(instant: Instant) -> tuple[int, str, str]:
    """Return GGA quality, RMC mode and VTG mode; VTG reports D for every kind of correction."""
    fix = instant.fix
    if fix is None or not instant.solved:
        return 0, "N", "N"
    if fix.fix_type is FixType.DEAD_RECKONING:
        return 6, "E", "E"
    if fix.carrier is CarrierSolution.FIXED:
        return 4, "R", "D"
    if fix.carrier is CarrierSolution.FLOAT:
        return 5, "F", "D"
    return (2, "D", "D") if fix.differential else (1, "A", "A")


def _motion(instant: Instant) -> tuple[float, float]:
    """Return speed in m/s and course in degrees; NaN if not reported."""
    if instant.fix is None or not instant.solved:
        return nan, nan
    speed_mps, course_deg = _course(instant.fix)
    return speed_mps, course_deg if speed_mps >= _COURSE_MPS else nan


def _gga(instant: Instant) -> bytes:
    fix = instant.fix
    latitude_deg, longitude_deg = _angles(instant)
    height_m = _position(instant)[2]
    quality = _states(instant)[0]
    satellites, hdop = (min(fix.satellites, 12), fix.hdop) if fix is not None else (0, 99.99)
    age_s = fix.correction_age_s if fix is not None and fix.differential and quality else nan
    separation_m = GEOID_SEPARATION_M if isfinite(height_m) else nan
    return encode(
        Gga(
            _TALKER, _time_ms(instant), latitude_deg, longitude_deg, quality, satellites, hdop,
            height_m - separation_m, separation_m, age_s, 0,
        )
    )  # fmt: skip


def _rmc(instant: Instant) -> bytes:
    latitude_deg, longitude_deg = _angles(instant)
    speed_mps, course_deg = _motion(instant)
    day = _UNIX_DAY + timedelta(days=instant.utc_ns // DAY_NS) if instant.time_known else None
    mode = _states(instant)[1]
    valid = mode != "N"
    return encode(
        Rmc(
            _TALKER,
            _time_ms(instant),
            valid,
            latitude_deg,
            longitude_deg,
            speed_mps / KNOT_MPS,
            course_deg,
            day,
            mode,
        )
    )


def _vtg(instant: Instant) -> bytes:
    speed_mps, course_deg = _motion(instant)
    return encode(
        Vtg(_TALKER, course_deg, speed_mps / KNOT_MPS, speed_mps * 3.6, _states(instant)[2])
    )


def _gst(instant: Instant) -> bytes:
    if instant.fix is None or not instant.solved:
        return encode(Gst(_TALKER, _time_ms(instant), nan, nan, nan, nan))
    covariance = instant.fix.position_covariance_m2
    sigmas = (_sigma(covariance[4]), _sigma(covariance[0]), _sigma(covariance[8]))
    return encode(Gst(_TALKER, _time_ms(instant), _sigma(covariance[0], covariance[4]), *sigmas))


def _ths(instant: Instant) -> bytes:
    heading = instant.heading
    if heading is None or not isfinite(heading.yaw_rad) or not instant.solved:
        return encode(Ths(_TALKER, nan, "V"))
    return encode(
        Ths(
            _TALKER,
            degrees((pi / 2 - heading.yaw_rad - instant.baseline_yaw_rad) % tau) % 360.0,
            "A",
        )
    )


def _other(body: str) -> bytes:
    return f"${body}*{xor8(body.encode()):02X}\r\n".encode()


def _gsa(instant: Instant) -> bytes:
    fix = instant.fix
    if fix is None or not instant.solved:
        return _other("GNGSA,A,1,,,,,,,,,,,,,99.99,99.99,99.99,1")
    dops = f"{hypot(fix.hdop, fix.vdop):.2f},{fix.hdop:.2f},{fix.vdop:.2f}"
    return _other(f"GNGSA,A,3,02,05,07,13,15,,,,,,,,{dops},1")


def _gsv(instant: Instant) -> bytes:
    return _other("GPGSV,1,1,04,02,41,291,45,05,22,233,42,07,66,120,47,13,80,310,48,1")


def _gll(instant: Instant) -> bytes:
    clock, *angles = _gga(instant).decode().split(",")[1:6]
    mode = _states(instant)[1]
    return _other(f"GNGLL,{','.join(angles)},{clock},{'V' if mode == 'N' else 'A'},{mode}")


SENTENCES: dict[str, Callable[[Instant], bytes]] = {
    "RMC": _rmc,
    "VTG": _vtg,
    "GGA": _gga,
    "GSA": _gsa,
    "GSV": _gsv,
    "GLL": _gll,
    "GST": _gst,
    "THS": _ths,
}
"""NMEA sentences of an epoch by name, in sending order."""

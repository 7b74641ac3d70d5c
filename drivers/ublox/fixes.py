"""Conversion of receiver data to messages: degrees to radians, north-east-down to east-north-up,
flags to states.

Pure functions. Missing and invalid values are NaN.
"""

from datetime import date
from math import cos, isfinite, nan, radians, remainder, sin

from drivers.gnss.epochs import WEEK_MS, Epoch
from drivers.gnss.solution import Covariance, Lost, agreeing, diagonal, enu, yaw_rad
from drivers.ublox import content
from drivers.ublox.layouts import (
    CORRECTION_AGE_S,
    NavCov,
    NavDop,
    NavHpposllh,
    NavPvt,
    NavRelposned,
)
from drivers.ublox.nmea import Gga, Gns, Gsa, Gst, Rmc, Vel, Vtg
from vehicled.core.messages import (
    NAN3,
    NAN9,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
)
from vehicled.core.messages.units import KNOT_MPS
from vehicled.core.wire.usage import Unused, UsageProblem

_UNIX_EPOCH = date(1970, 1, 1).toordinal()
# The 10-bit GPS week rolls over every 19.6 years. These receivers are newer than 2013, so earlier
# dates are roll-overs.
_OLDEST_YEAR = 2013
_CARRIERS = {4: CarrierSolution.FIXED, 5: CarrierSolution.FLOAT}

UBX_ANCHORS = ("PVT",)
"""Messages with a position: one per epoch makes a fix."""
NMEA_ANCHORS = ("GGA", "GNS")
_DAY_MS = 86_400_000

_MIN_HEIGHT_M, _MAX_HEIGHT_M = content.MIN_HEIGHT_MM * 1e-3, content.MAX_HEIGHT_MM * 1e-3


class Calendar:
    """UTC date from the few sentences that have it, for the time of day in the others."""

    def __init__(self) -> None:
        self._day_ns: int | None = None
        self._time_ms = 0

    def set(self, day: date | None, time_ms: int | None) -> None:
        """Set date and time of day from a sentence; either may be missing."""
        if day is not None and time_ms is not None:
            self._day_ns, self._time_ms = _day_ns(day.year, day.month, day.day), time_ms

    def utc_ns(self, time_ms: int) -> int:
        """Return UTC of a time of day within half a day of the newest date; 0 without a date."""
        if self._day_ns is None:
            return 0
        half = _DAY_MS // 2
        step_ms = (time_ms - self._time_ms + half) % _DAY_MS - half
        return self._day_ns + (self._time_ms + step_ms) * 1_000_000


def _day_ns(year: int, month: int, day: int) -> int | None:
    try:
        ordinal = date(year, month, day).toordinal()
    except ValueError:
        return None
    return (ordinal - _UNIX_EPOCH) * 86_400_000_000_000 if year >= _OLDEST_YEAR else None


def utc_ns(pvt: NavPvt, leap_s: int | None = None) -> int:
    """Return UTC of the epoch; 0 if unknown.

    ``nano_ns`` is often negative. With ``leap_s`` (GPS minus UTC) the result must agree with the
    time of week, which it does not while the receiver uses the leap seconds of its firmware. A leap
    second is given as the second after it.
    """
    day_ns = _day_ns(pvt.year, pvt.month, pvt.day) if pvt.utc_known else None
    if (
        day_ns is None
        or pvt.hour > 23
        or pvt.minute > 59
        or pvt.second > 60
        or abs(pvt.nano_ns) > 1_000_000_000
    ):
        return 0
    found = day_ns + ((pvt.hour * 60 + pvt.minute) * 60 + pvt.second) * 1_000_000_000 + pvt.nano_ns
    if leap_s is not None:
        # The GPS week began on Sunday 6 January 1980, day 3657 of Unix.
        of_week_ms = found / 1e6 + leap_s * 1000.0 - 3657 * 86_400_000.0
        if abs(remainder(of_week_ms - pvt.itow_ms, WEEK_MS)) > 500.0:
            return 0
    return found


def correction_age_s(pvt: NavPvt, since_used_s: float) -> float:
    """Return the age of the corrections: the time since one was used, within the bounds from
    NAV-PVT; else their upper end."""
    code = pvt.correction_age_code
    if not pvt.differential or code == 0:
        return nan
    if code >= len(CORRECTION_AGE_S):
        oldest = CORRECTION_AGE_S[-1]
        return max(since_used_s, oldest) if isfinite(since_used_s) else oldest
    low, high = CORRECTION_AGE_S[code - 1], CORRECTION_AGE_S[code]
    return min(max(since_used_s, low), high) if isfinite(since_used_s) else high


def ubx_fix(
    epoch: Epoch, lost: Lost, since_used_s: float = nan, leap_s: int | None = None
) -> GnssFix | None:
    """Return the fix of an epoch with ``PVT`` and optional ``HPPOSLLH``, ``COV`` and ``DOP``. None
    without ``PVT``."""
    pvt: NavPvt | None = epoch.parts.get("PVT")
    if pvt is None:
        return None
    precise: NavHpposllh | None = epoch.parts.get("HPPOSLLH")
    covariances: NavCov | None = epoch.parts.get("COV")
    dop: NavDop | None = epoch.parts.get("DOP")
    fix_type = (
        content.FIX_TYPES[pvt.fix_type] if pvt.fix_type < len(content.FIX_TYPES) else FixType.NONE
    )
    latitude = longitude = height = nan
    position, velocity, velocity_covariance, carrier = NAN9, NAN3, NAN9, CarrierSolution.NONE
    if content.position_problem(pvt) is not None:
        fix_type = FixType.TIME if fix_type is FixType.TIME else FixType.NONE
    else:
        horizontal_m = pvt.horizontal_accuracy_mm * 1e-3
        vertical_m = pvt.vertical_accuracy_mm * 1e-3
        problem = None if precise is None else content.precise_problem(precise, pvt)
        if problem is not None:
            lost.append(("HPPOSLLH", problem))
        if precise is not None and problem is None:
            latitude = radians((precise.latitude_deg_e7 * 100 + precise.latitude_deg_e9) * 1e-9)
            longitude = radians((precise.longitude_deg_e7 * 100 + precise.longitude_deg_e9) * 1e-9)
            height = (precise.height_mm * 10 + precise.height_mm_e1) * 1e-4
            horizontal_m = precise.horizontal_accuracy_mm_e1 * 1e-4
            vertical_m = precise.vertical_accuracy_mm_e1 * 1e-4
        else:
            latitude = radians(pvt.latitude_deg_e7 * 1e-7)
            longitude = radians(pvt.longitude_deg_e7 * 1e-7)
            height = pvt.height_mm * 1e-3
        if not _MIN_HEIGHT_M <= height <= _MAX_HEIGHT_M:
            lost.append(("PVT", UsageProblem(Unused.OUT_OF_RANGE, "height", f"{height:.0f} m")))
            height = nan
        # hAcc squared is the sum of both variances, as NAV-COV of the same epoch shows; one axis
        # has half.
        if horizontal_m > 0.0:
            position = diagonal(
                horizontal_m**2 / 2, horizontal_m**2 / 2, vertical_m**2 if vertical_m > 0.0 else nan
            )
        else:
            lost.append(("PVT", UsageProblem(Unused.OUT_OF_RANGE, "hAcc", 0)))
        problem = content.velocity_problem(pvt)
        if problem is not None:
            lost.append(("PVT", problem))
        else:
            velocity = (
                pvt.velocity_east_mmps * 1e-3,
                pvt.velocity_north_mmps * 1e-3,
                -pvt.velocity_down_mmps * 1e-3,
            )
            speed_m2 = (pvt.speed_accuracy_mmps * 1e-3) ** 2
            velocity_covariance = (
                diagonal(speed_m2 / 2, speed_m2 / 2, speed_m2) if speed_m2 > 0.0 else NAN9
            )
        if covariances is not None and covariances.position_valid:
            position = enu("COV", "position", covariances[4:10], position, lost)
        if covariances is not None and covariances.velocity_valid and problem is None:
            velocity_covariance = enu(
                "COV", "velocity", covariances[10:16], velocity_covariance, lost
            )
        carrier = _ubx_carrier(pvt, position, lost)
    return GnssFix(
        epoch.t_ns,
        epoch.last_rx_ns,
        latitude,
        longitude,
        height,
        velocity,
        position,
        velocity_covariance,
        fix_type,
        carrier,
        pvt.differential,
        correction_age_s(pvt, since_used_s),
        pvt.satellites,
        _dilution(dop.hdop_e2) if dop is not None else nan,
        _dilution(dop.vdop_e2) if dop is not None else nan,
        utc_ns(pvt, leap_s),
    )


def _ubx_carrier(pvt: NavPvt, position: Covariance, lost: Lost) -> CarrierSolution:
    """Return the carrier solution, which needs corrections, and a stated error that agrees."""
    if pvt.carrier > 2:
        lost.append(("PVT", UsageProblem(Unused.UNKNOWN_STATE, "carrSoln", pvt.carrier)))
        return CarrierSolution.NONE
    if pvt.carrier and not pvt.differential:
        lost.append(("PVT", UsageProblem(Unused.CONTRADICTION, "carrSoln", "without diffSoln")))
        return CarrierSolution.NONE
    return agreeing("PVT", CarrierSolution(pvt.carrier), position, lost)


def _dilution(value_e2: int) -> float:
    """Return a dilution; NaN for the largest value, which stands for unknown."""
    return value_e2 * 1e-2 if value_e2 < 9999 else nan


def nmea_fix(
    epoch: Epoch, lost: Lost, calendar: Calendar, gsa: Gsa | None = None
) -> GnssFix | None:
    """Return the fix of an epoch with ``GGA`` or ``GNS``, optional ``RMC``, ``GST``, ``VTG``,
    ``VEL``; None without position."""
    gga: Gga | Gns | None = epoch.parts.get("GGA") or epoch.parts.get("GNS")
    if gga is None:
        return None
    gst: Gst | None = epoch.parts.get("GST")
    quality, rmc = gga.quality, epoch.parts.get("RMC")
    fix_type = FixType.NONE if content.sentence_problem(gga, ()) else content.QUALITIES[quality]
    if fix_type is not FixType.NONE and rmc is not None and rmc.valid is False:
        # So a receiver says that the limits of its user are exceeded.
        lost.append(
            (type(gga).__name__.upper(), UsageProblem(Unused.INVALID, "position", "V in RMC"))
        )
        fix_type = FixType.NONE
    latitude = longitude = height = nan
    position, velocity, carrier = NAN9, NAN3, CarrierSolution.NONE
    if fix_type is FixType.FIX_3D and gsa is not None and gsa.dimensions == 2:
        fix_type = FixType.FIX_2D
    if fix_type is not FixType.NONE:
        latitude, longitude = radians(gga.latitude_deg), radians(gga.longitude_deg)
        height = gga.altitude_msl_m + gga.geoid_separation_m
        # Some receivers send zeros where they know no error.
        if gst is not None and gst.longitude_sigma_m > 0.0 and gst.latitude_sigma_m > 0.0:
            position = diagonal(
                gst.longitude_sigma_m**2, gst.latitude_sigma_m**2, gst.altitude_sigma_m**2
            )
        elif isinstance(gga, Gga) and gga.horizontal_sigma_m > 0.0:
            position = diagonal(
                gga.horizontal_sigma_m**2 / 2,
                gga.horizontal_sigma_m**2 / 2,
                gga.vertical_sigma_m**2,
            )
        velocity = _motion(rmc, epoch.parts.get("VTG"))
        vel: Vel | None = epoch.parts.get("VEL")
        if vel is not None and isfinite(vel.east_mps + vel.north_mps + vel.down_mps):
            velocity = vel.east_mps, vel.north_mps, -vel.down_mps
        carrier = agreeing(
            type(gga).__name__.upper(), _CARRIERS.get(quality, CarrierSolution.NONE), position, lost
        )
    corrected = quality in content.CORRECTED
    return GnssFix(
        epoch.t_ns,
        epoch.last_rx_ns,
        latitude,
        longitude,
        height,
        velocity,
        position,
        NAN9,
        fix_type,
        carrier,
        corrected,
        gga.correction_age_s if corrected else nan,
        min(gga.satellites, 255),
        gga.hdop,
        gsa.vdop if gsa is not None else nan,
        calendar.utc_ns(epoch.counter_ms),
    )


def _motion(rmc: Rmc | None, vtg: Vtg | None) -> tuple[float, float, float]:
    """Return the velocity of the sentence that has one. At standstill the course is empty, so no
    component is known."""
    if rmc is not None and rmc.valid and isfinite(rmc.speed_kn):
        knots, course_deg = rmc.speed_kn, rmc.course_deg
    elif vtg is not None and vtg.mode not in ("N", "M", "S"):
        knots = vtg.speed_kn if isfinite(vtg.speed_kn) else vtg.speed_kmh / 3.6 / KNOT_MPS
        course_deg = vtg.course_deg
    else:
        return nan, nan, nan
    speed, course = knots * KNOT_MPS, radians(course_deg)
    return speed * sin(course), speed * cos(course), nan


def moving_base_heading(
    vector: NavRelposned, t_ns: int, t_rx_ns: int, baseline_yaw_rad: float, unknown_rad: float
) -> Heading:
    """Return the heading of the antenna baseline as yaw of the body. ``unknown_rad``: error where
    the receiver states none."""
    sigma = radians(vector.heading_accuracy_deg_e5 * 1e-5) or unknown_rad
    return Heading(
        t_ns,
        t_rx_ns,
        yaw_rad(vector.heading_deg_e5 * 1e-5, baseline_yaw_rad),
        sigma,
        HeadingKind.MOVING_BASE,
    )

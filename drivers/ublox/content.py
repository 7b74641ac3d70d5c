"""Usability of the messages of a receiver: one function for each message returns the problem of one
that is not usable.

A checksum protects the way, not the content. Each rule is from the maker's document; NOTES.md names
document and page.
"""

from math import atan2, hypot, isfinite, nan, radians, remainder, tau
from typing import NamedTuple

from drivers.gnss.baseline import MAX_HEADING_SIGMA_RAD
from drivers.ublox.layouts import NavAtt, NavHpposllh, NavPvat, NavPvt, NavRelposned
from drivers.ublox.nmea import Avr, Hdt, HeadingSentence, Hpr, Pashr, Position, Tar, Ths
from vehicled.core.messages import FixType
from vehicled.core.wire.usage import Unused, UsageProblem

MAX_POSITION_SIGMA_MM = 1_000_000
"""Stated error beyond which a position is none."""
MAX_SPEED_MMPS = 500_000
"""Speed limit of the receivers."""
MIN_HEIGHT_MM, MAX_HEIGHT_MM = -12_000_000, 100_000_000
COMPONENTS_M = 0.02
"""Most by which components differ from length and heading by rounding; some firmware sends
centimetres only."""

FIX_TYPES = (
    FixType.NONE,
    FixType.DEAD_RECKONING,
    FixType.FIX_2D,
    FixType.FIX_3D,
    FixType.FIX_3D,
    FixType.TIME,
)
"""Kinds of solution by ``fixType`` of NAV-PVT."""
QUALITIES = dict.fromkeys((1, 2, 3, 4, 5, 9), FixType.FIX_3D) | {6: FixType.DEAD_RECKONING}
"""Kinds of solution by the quality of GGA. 9 is the SBAS solution of NovAtel and its kin."""
CORRECTED = (2, 4, 5, 9)
"""Qualities with corrections."""
_NO_POSITION = {0: Unused.NO_SOLUTION, 7: Unused.MANUAL, 8: Unused.SIMULATED}

# ---------------------------------------------------------------- UBX


def position_problem(pvt: NavPvt) -> UsageProblem | None:
    """Return why NAV-PVT gives no position."""
    if pvt.fix_type >= len(FIX_TYPES):
        return UsageProblem(Unused.UNKNOWN_STATE, "fixType", pvt.fix_type)
    if FIX_TYPES[pvt.fix_type] in (FixType.NONE, FixType.TIME):
        return UsageProblem(Unused.NO_SOLUTION)
    if not pvt.fix_ok:
        return UsageProblem(Unused.INVALID, "gnssFixOK")
    if pvt.position_invalid:
        return UsageProblem(Unused.INVALID, "invalidLlh")
    if not (pvt.latitude_deg_e7 or pvt.longitude_deg_e7):
        return UsageProblem(Unused.ALL_ZERO, "position")
    if abs(pvt.latitude_deg_e7) > 900_000_000:
        return UsageProblem(Unused.OUT_OF_RANGE, "latitude", pvt.latitude_deg_e7 * 1e-7)
    if abs(pvt.longitude_deg_e7) > 1_800_000_000:
        return UsageProblem(Unused.OUT_OF_RANGE, "longitude", pvt.longitude_deg_e7 * 1e-7)
    if pvt.horizontal_accuracy_mm > MAX_POSITION_SIGMA_MM:
        return UsageProblem(
            Unused.TOO_INACCURATE, "hAcc", f"{pvt.horizontal_accuracy_mm * 1e-3:.0f} m"
        )
    return None


def precise_problem(precise: NavHpposllh, pvt: NavPvt) -> UsageProblem | None:
    """Return why the digits of NAV-HPPOSLLH do not belong to the position of NAV-PVT of the same
    epoch."""
    if precise.position_invalid:
        return UsageProblem(Unused.INVALID, "invalidLlh")
    fine = precise.latitude_deg_e9, precise.longitude_deg_e9
    if max(map(abs, fine)) > 99:
        return UsageProblem(Unused.OUT_OF_RANGE, "high-precision digits", max(fine, key=abs))
    away = (
        abs(precise.latitude_deg_e7 - pvt.latitude_deg_e7),
        abs(precise.longitude_deg_e7 - pvt.longitude_deg_e7),
    )
    return UsageProblem(Unused.CONTRADICTION, "position") if max(away) > 2 else None


def velocity_problem(pvt: NavPvt) -> UsageProblem | None:
    """Return why NAV-PVT gives no velocity."""
    speeds = pvt.velocity_north_mmps, pvt.velocity_east_mmps, pvt.velocity_down_mmps
    if max(map(abs, speeds)) > MAX_SPEED_MMPS:
        return UsageProblem(
            Unused.OUT_OF_RANGE, "velocity", f"{max(speeds, key=abs) * 1e-3:.0f} m/s"
        )
    if pvt.speed_accuracy_mmps > MAX_SPEED_MMPS:
        return UsageProblem(
            Unused.TOO_INACCURATE, "sAcc", f"{pvt.speed_accuracy_mmps * 1e-3:.0f} m/s"
        )
    return None


def vector_problem(vector: NavRelposned, *, needs_fixed: bool) -> UsageProblem | None:
    """Return why the vector of NAV-RELPOSNED is no heading, apart from its length."""
    for name, valid in (
        ("gnssFixOK", vector.fix_ok), ("relPosValid", vector.position_valid),
        ("relPosHeadingValid", vector.heading_valid),
    ):  # fmt: skip
        if not valid:
            return UsageProblem(Unused.INVALID, name)
    if not vector.moving:
        return UsageProblem(Unused.NOT_MOVING, value=f"{vector.length_m:.1f} m")
    if vector.extrapolated:
        return UsageProblem(Unused.BASE_DATA_MISSING)
    if vector.carrier != 2 and (needs_fixed or vector.carrier == 0):
        return UsageProblem(Unused.NOT_FIXED)
    return (
        _heading_problem(vector.heading_deg_e5)
        or _contradiction(vector)
        or _inaccurate(radians(vector.heading_accuracy_deg_e5 * 1e-5))
    )


def _contradiction(vector: NavRelposned) -> UsageProblem | None:
    """Return why the components of a vector are not those of its length and heading. Without a
    length they are of another unit."""
    north_m, east_m, down_m = vector.components_m
    if (
        not vector.normalised
        and abs(hypot(north_m, east_m, down_m) - vector.length_m) > COMPONENTS_M
    ):
        return UsageProblem(
            Unused.CONTRADICTION,
            "length",
            f"{vector.length_m:.3f} m of {hypot(north_m, east_m, down_m):.3f} m",
        )
    away_rad = remainder(atan2(east_m, north_m) - radians(vector.heading_deg_e5 * 1e-5), tau)
    if not vector.normalised and abs(away_rad) * hypot(north_m, east_m) > COMPONENTS_M:
        return UsageProblem(
            Unused.CONTRADICTION, "heading", f"{vector.heading_deg_e5 * 1e-5:.1f} deg"
        )
    return None


def attitude_problem(pvat: NavPvat) -> UsageProblem | None:
    """Return why NAV-PVAT gives no heading."""
    if not pvat.flags & 1:
        return UsageProblem(Unused.INVALID, "gnssFixOK")
    if not pvat.heading_valid:
        return UsageProblem(Unused.INVALID, "vehHeadingValid")
    return _heading_problem(pvat.heading_deg_e5) or _inaccurate(
        radians(pvat.heading_accuracy_deg_e2 * 1e-2)
    )


def inertial_problem(
    attitude: NavAtt, *, valid: bool | None, working: bool | None
) -> UsageProblem | None:
    """Return why NAV-ATT gives no heading. ``valid``: validity of the vehicle's heading in NAV-PVT,
    ``working``: state of the fusion in ESF-STATUS; None before the message has come."""
    if working is False:
        return UsageProblem(Unused.INVALID, "fusionMode")
    if valid is False:
        return UsageProblem(Unused.INVALID, "headVehValid")
    if valid is None and working is None:
        return UsageProblem(Unused.STATUS_MISSING, "headVehValid")
    if attitude.heading_accuracy_deg_e5 == 0:
        return UsageProblem(Unused.ALL_ZERO, "accHeading")
    return _heading_problem(attitude.heading_deg_e5) or _inaccurate(
        radians(attitude.heading_accuracy_deg_e5 * 1e-5)
    )


def _heading_problem(heading_deg_e5: int) -> UsageProblem | None:
    # The fields are signed: -90 is 270 degrees.
    if not -18_000_000 <= heading_deg_e5 <= 36_000_000:
        return UsageProblem(Unused.OUT_OF_RANGE, "heading", f"{heading_deg_e5 * 1e-5:.1f} deg")
    return None


def _inaccurate(sigma_rad: float) -> UsageProblem | None:
    if sigma_rad > MAX_HEADING_SIGMA_RAD:
        return UsageProblem(Unused.TOO_INACCURATE, "heading", f"{sigma_rad:.2f} rad")
    return None


# ---------------------------------------------------------------- NMEA


def sentence_problem(sentence: Position, lost: tuple[UsageProblem, ...]) -> UsageProblem | None:
    """Return why GGA or GNS gives no position. ``lost``: its unreadable fields."""
    quality = sentence.quality
    if quality in _NO_POSITION:
        return UsageProblem(_NO_POSITION[quality])
    if quality not in QUALITIES:
        shown = getattr(sentence, "modes", quality)
        return next(
            (each for each in lost if each.field == "quality"),
            UsageProblem(Unused.UNKNOWN_STATE, "quality", shown),
        )
    if not isfinite(sentence.latitude_deg):
        unreadable = (each for each in lost if each.field.endswith(("latitude", "longitude")))
        return next(unreadable, UsageProblem(Unused.UNREADABLE, "latitude"))
    if not (sentence.latitude_deg or sentence.longitude_deg):
        return UsageProblem(Unused.ALL_ZERO, "position")
    return (
        next((each for each in lost if each.field == "time"), UsageProblem(Unused.NO_TIME))
        if sentence.time_ms is None
        else None
    )


class SentenceHeading(NamedTuple):
    """Content of a heading sentence."""

    heading_deg: float
    sigma_rad: float = nan
    """Standard deviation that the sentence states; NaN for none."""
    estimated: bool = False
    """True if the device holds the heading without GNSS."""


_THS_MODES = {"V": Unused.NO_SOLUTION, "M": Unused.MANUAL, "S": Unused.SIMULATED}
_HPR_STATES = {
    "0": Unused.NO_SOLUTION,
    "1": Unused.NOT_FIXED,
    "2": Unused.NOT_FIXED,
    "7": Unused.MANUAL,
    "8": Unused.SIMULATED,
}
RANKS: dict[type[HeadingSentence], int] = {Hdt: 0, Ths: 1, Hpr: 2, Avr: 3, Pashr: 4, Tar: 5}
"""Order of the heading sentences by what they say of their state. The best that comes counts,
because all give one heading."""
STATED_RANK = RANKS[Hpr]
"""Rank from which a sentence states the quality of its solution. One that says that there is none
still stands for those below."""


def heading_of(
    sentence: HeadingSentence, lost: tuple[UsageProblem, ...], *, needs_fixed: bool
) -> SentenceHeading | UsageProblem:
    """Return the heading of a sentence, or why it gives none."""
    if not isfinite(sentence.heading_deg):
        return next(
            (each for each in lost if each.field.endswith("heading")),
            UsageProblem(Unused.NO_SOLUTION),
        )
    match sentence:
        case Ths(mode=mode):
            if mode not in ("A", "E"):
                return UsageProblem(_THS_MODES.get(mode, Unused.UNKNOWN_STATE), "mode", mode)
            return SentenceHeading(sentence.heading_deg, estimated=mode == "E")
        case Hdt():
            return SentenceHeading(sentence.heading_deg)
        case Hpr(state=state):
            if state in ("4", "N") or (state == "5" and not needs_fixed):
                return SentenceHeading(sentence.heading_deg)
            if state in ("6", "G"):
                return SentenceHeading(sentence.heading_deg, estimated=True)
            return UsageProblem(
                Unused.NOT_FIXED if state == "5" else _HPR_STATES.get(state, Unused.UNKNOWN_STATE),
                "quality",
                state,
            )
        case Pashr(quality=quality, aligned=aligned):
            if quality == "0":
                return UsageProblem(Unused.NO_SOLUTION)
            if aligned == "0":
                return UsageProblem(Unused.INVALID, "alignment")
            sigma_rad = radians(sentence.heading_sigma_deg)
            return _inaccurate(sigma_rad) or SentenceHeading(
                sentence.heading_deg, sigma_rad if sigma_rad > 0.0 else nan
            )
        case Tar(state=state):
            sigma_rad = radians(sentence.heading_sigma_deg)
            if state == "4" or (state == "5" and not needs_fixed):
                return _inaccurate(sigma_rad) or SentenceHeading(
                    sentence.heading_deg, sigma_rad if sigma_rad > 0.0 else nan
                )
            if state == "6":
                return SentenceHeading(sentence.heading_deg, estimated=True)
            return UsageProblem(
                Unused.NOT_FIXED if state == "5" else _HPR_STATES.get(state, Unused.UNKNOWN_STATE),
                "quality",
                state,
            )
        case Avr(quality=quality):
            if quality == "3" or (quality == "2" and not needs_fixed):
                return SentenceHeading(sentence.heading_deg)
            known = {
                "0": Unused.NO_SOLUTION,
                "1": Unused.NOT_FIXED,
                "2": Unused.NOT_FIXED,
                "4": Unused.NOT_FIXED,
            }
            return UsageProblem(known.get(quality, Unused.UNKNOWN_STATE), "quality", quality)

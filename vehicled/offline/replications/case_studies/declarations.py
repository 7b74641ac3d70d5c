"""The case studies as data: vehicle, place, and the limits by which each is judged.

A kind of study is a type; :mod:`.judging` has one function for each.
"""

from msgspec import Struct
from msgspec.structs import asdict

from vehicled.core.errors import SetupError
from vehicled.profile.problems import nearest


class CaseDrive(Struct, frozen=True, kw_only=True):
    """One drive of a study, from standstill in lockstep."""

    profile: str
    scene: str = ""
    course: str
    overrides: tuple[str, ...] = ()


class ParkingStudy(Struct, frozen=True, kw_only=True):
    """Park backward in a free space and stay there."""

    name: str
    title: str
    drive: CaseDrive
    space: str
    """Name of the parking space of the scene."""
    heading_deg: float = 3.0
    """Largest angle between the vehicle and the heading of the space."""
    moved_m: float = 0.01
    """Largest distance that the vehicle moves after the last command."""


class RacingStudy(Struct, frozen=True, kw_only=True):
    """Find the fastest line of a track and drive it."""

    name: str
    title: str
    profile: str
    track: str
    over_ideal: float = 1.25
    """Largest lap time over the ideal lap time of the line."""


class OffRoadStudy(Struct, frozen=True, kw_only=True):
    """Drive a lane over rolling ground between vegetation."""

    name: str
    title: str
    drive: CaseDrive
    lane: str
    """Name of the lane of the scene."""
    slope_deg: float = 5.0
    """The ground under the course must be at least this steep somewhere."""


class TrackingStudy(Struct, frozen=True, kw_only=True):
    """Follow the same shape, built in the size of each vehicle, with the same gains."""

    name: str
    title: str
    drives: tuple[CaseDrive, ...]
    mean_lengths: float = 0.05
    """Largest mean cross-track error, in lengths of the vehicle."""
    largest_lengths: float = 0.1


CaseStudy = ParkingStudy | RacingStudy | OffRoadStudy | TrackingStudy

GAINS = (
    'controller.name="pure_pursuit"',
    "controller.pure_pursuit.look_ahead_min_s=0.6",
    "controller.pure_pursuit.look_ahead_max_s=0.9",
    "controller.pure_pursuit.speed.p=0.4",
    "controller.pure_pursuit.speed.i=0.05",
)
"""Gains of the tracking study, the same for every vehicle. The least look-ahead stays 1.3
wheelbases of each, as in its profile."""


def _parking(vehicle: str, profile: str, scale: str) -> ParkingStudy:
    return ParkingStudy(
        name=f"parking_{profile}",
        title=f"{vehicle} backs into a bay",
        drive=CaseDrive(profile=profile, scene=f"parking_lot{scale}", course="bay_reverse"),
        space="bay",
    )


def _off_road(vehicle: str, profile: str) -> OffRoadStudy:
    return OffRoadStudy(
        name=f"off_road_{profile}",
        title=f"{vehicle} on a forest path",
        drive=CaseDrive(profile=profile, scene="forest_path", course="round"),
        lane="path",
    )


STUDIES: tuple[CaseStudy, ...] = (
    # The bay is 1.45 times as wide as the vehicle.
    _parking("Nigel", "nigel", "@0.1"),
    _parking("Hunter SE", "hunter_se", "@0.357"),
    _parking("OpenCAV", "opencav", ""),
    RacingStudy(
        name="racing_f1tenth",
        title="F1TENTH on its race line",
        profile="f1tenth",
        track="race_track",
    ),
    _off_road("Hunter SE", "hunter_se"),
    _off_road("RZR", "rzr"),
    _off_road("Husky", "husky_a200"),
    TrackingStudy(
        name="tracking",
        title="the same gains at every scale",
        # The eight is 67 times as long as the vehicle.
        drives=tuple(
            CaseDrive(profile=profile, course=f"eight_track@{scale}/eight", overrides=GAINS)
            for profile, scale in (
                ("nigel", 0.44),
                ("roboracer", 1.1),
                ("f1tenth", 1.28),
                ("art_twin", 1.32),
                ("hunter_se", 1.8),
                ("husky_a200", 2.2),
                ("rzr", 9.24),
                ("opencav", 9.9),
                ("hmmwv", 10.12),
            )
        ),
    ),
)


def study_of(name: str) -> CaseStudy:
    """Return the study of a name. Raises :class:`SetupError` for another, with the nearest."""
    known = {study.name: study for study in STUDIES}
    if name in known:
        return known[name]
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
    raise SetupError(f"no case study {name[:60]!r}; {hint}")


def drives_of(study: CaseStudy) -> tuple[CaseDrive, ...]:
    """Return the drives of a study in the scenes; none for a race, which makes its own course."""
    found = asdict(study)
    return found.get("drives") or ((found["drive"],) if "drive" in found else ())

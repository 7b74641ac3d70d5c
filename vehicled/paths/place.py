"""Places of courses on the earth as texts for people: exchanged or foreign coordinates are seen at
a glance."""

from math import atan2, cos, degrees, pi, sin, sqrt

from vehicled.paths.course import Course
from vehicled.paths.datum import Datum

EARTH_RADIUS_M = 6_371_000.0
FAR_M = 100_000.0
"""Two places that are further apart belong to two sites."""


def position_text(latitude_rad: float, longitude_rad: float) -> str:
    """Return a position to a metre, such as ``48.20000 N, 16.40000 E``."""
    latitude, longitude = degrees(latitude_rad), degrees(longitude_rad)
    return (
        f"{abs(latitude):.5f} {'N' if latitude >= 0.0 else 'S'}, {abs(longitude):.5f} "
        f"{'E' if longitude >= 0.0 else 'W'}"
    )


def place_of(course: Course) -> str:
    """Return where a course starts and how far it extends; for one without a place on the earth
    only the latter."""
    east_m, north_m = (float(axis.max() - axis.min()) for axis in (course.x_m, course.y_m))
    extent = f"{east_m:.1f} m east to west, {north_m:.1f} m north to south"
    if not course.surveyed:
        return f"extent: {extent}"
    latitude, longitude, _ = course.datum.to_geodetic(
        float(course.x_m[0]), float(course.y_m[0]), 0.0
    )
    return f"place: starts at {position_text(latitude, longitude)}; extent {extent}"


def distance_m(one: Datum, other: Datum) -> float:
    """Return the distance along the surface, to 0.5 %: the earth is taken as a sphere."""
    lat1, lat2 = one.latitude_rad, other.latitude_rad
    half = (
        sin((lat2 - lat1) / 2.0) ** 2
        + cos(lat1) * cos(lat2) * sin((other.longitude_rad - one.longitude_rad) / 2.0) ** 2
    )
    return 2.0 * EARTH_RADIUS_M * atan2(sqrt(half), sqrt(max(1.0 - half, 0.0)))


def start_of(course: Course) -> Datum:
    """Return the start of a course as a datum."""
    latitude, longitude, height = course.datum.to_geodetic(
        float(course.x_m[0]), float(course.y_m[0]), 0.0
    )
    return Datum(
        latitude, longitude, course.datum.height_m if not -1000.0 <= height <= 10_000.0 else height
    )


def exchanged(place: Datum) -> Datum | None:
    """Return the place with latitude and longitude exchanged; None where that is not on the
    earth."""
    if abs(place.longitude_rad) > pi / 2.0:
        return None
    return Datum(place.longitude_rad, place.latitude_rad, place.height_m)


def seen_from(course: Course, site: Datum, whose: str) -> str:
    """Return how far a course on the earth lies from a site; more if its coordinates look
    exchanged."""
    place = start_of(course)
    away_m = distance_m(place, site)
    how_far = (
        f"{away_m / 1000.0:,.0f} km"
        if away_m >= FAR_M
        else f"{away_m / 1000.0:.1f} km"
        if away_m >= 1000.0
        else f"{away_m:.0f} m"
    )
    text = f"{how_far} from {whose} ({position_text(site.latitude_rad, site.longitude_rad)})"
    turned = exchanged(place)
    if away_m > FAR_M and turned is not None and distance_m(turned, site) < FAR_M:
        return (
            f"{text}: latitude and longitude look exchanged, with them the other way round it "
            "is at that site"
        )
    return text

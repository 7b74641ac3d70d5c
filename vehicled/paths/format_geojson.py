"""GeoJSON courses (RFC 7946): one LineString, bare, in a Feature or in a FeatureCollection. Positions are longitude, latitude.

A feature's properties may carry ``name``, ``speed_mps`` (a number, or one per position; negative from each position that is left
backward) and ``closed`` (true or false).
"""

from collections.abc import Mapping

from vehicled.paths.columns import column_of
from vehicled.paths.course_file import DEFAULT_SPEED_MPS, CourseFile, number, shown
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import Feature, degrees_of, features_of
from vehicled.paths.read_summary import ReadSummary

KIND = "GeoJSON with one LineString"
ORDER = "GeoJSON writes longitude first, then latitude"


def read(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of the only line in a GeoJSON file; heights are ignored. Raises CourseError."""
    where, geometry, properties = _line(file_name, features_of(data, file_name, KIND))
    points = [(latitude, longitude) for longitude, latitude in degrees_of(f"{file_name}, {where}", geometry.get("coordinates"))]
    closed, name = properties.get("closed"), properties.get("name")
    if closed is not None and not isinstance(closed, bool):
        raise CourseError(f'{file_name}, {where}: property "closed" is {shown(closed)}; write true or false')
    return CourseFile(
        file_name=file_name,
        points=points,
        places=[f"{where} position {index}" for index in range(1, len(points) + 1)],
        geodetic=True,
        order=ORDER,
        speeds_mps=_speeds(file_name, where, properties.get("speed_mps"), len(points)),
        closed=closed,
        name=name[:60] if isinstance(name, str) else "",
        account=_account(file_name, where, properties),
    )


def _account(file_name: str, where: str, properties: Mapping[str, object]) -> ReadSummary:
    """Check that no property gives a speed in another unit. Raises CourseError."""
    used = [("coordinates", "longitude, latitude, deg")]
    remarks = []
    for key in properties:
        column = column_of(key)
        if column.role == "speed" and key != "speed_mps" and column.unit != "m/s":
            # A colour or a note may be ignored; a speed that is not heeded surprises on the road.
            raise CourseError(f'{file_name}, {where}: property "{key[:40]}" has no known unit; give it in m/s as "speed_mps"')
    if properties.get("speed_mps") is None:
        remarks.append(f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along")
    else:
        used.append(("speed_mps", "speed, m/s"))
    ignored = tuple((key[:40], "") for key in properties if key not in ("name", "speed_mps", "closed"))
    return ReadSummary("GeoJSON", tuple(used), (*ignored, ("heights", "")), tuple(remarks))


def _line(file_name: str, features: list[Feature]) -> Feature:
    """Return the only line. Raises CourseError."""
    lines = [feature for feature in features if feature.geometry.get("type") == "LineString"]
    if len(lines) > 1:
        places = ", ".join(line.place for line in lines[:5])
        raise CourseError(f"{file_name}: {len(lines)} lines ({places}); a course is one line: delete the others or join them")
    if not lines:
        others = sorted({shown(feature.geometry.get("type"), 30) for feature in features if feature.geometry})
        found = ", ".join(others[:5]) or "none"
        raise CourseError(f"{file_name}: no LineString (geometries found: {found}); draw the course as one line")
    return lines[0]


def _speeds(file_name: str, where: str, value: object, n: int) -> list[float] | None:
    if value is None:
        return None
    single = number(value)
    if single is not None:
        return [single] * n
    if isinstance(value, list) and len(value) == n:
        speeds = [number(v) for v in value]
        if None not in speeds:
            return [v for v in speeds if v is not None]
    raise CourseError(f'{file_name}, {where}: property "speed_mps" is {shown(value)}; give one number, or a list of {n} numbers')

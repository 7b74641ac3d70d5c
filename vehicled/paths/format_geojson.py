"""GeoJSON courses (RFC 7946): one LineString, bare, in a Feature or in a FeatureCollection. Positions are longitude, latitude.

A feature's properties may carry ``name``, ``speed_mps`` (a number, or one per position; negative from each position that is left
backward) and ``closed`` (true or false).
"""

from collections.abc import Mapping
from typing import Any

from vehicled.paths.drawing import Drawing, json_of, number, shown
from vehicled.paths.errors import CourseError

KIND = "GeoJSON with one LineString"
ORDER = "GeoJSON writes longitude first, then latitude"


def read(data: bytes, file_name: str) -> Drawing:
    """The waypoints of the one line in a GeoJSON file; heights are ignored. Raises CourseError."""
    root = json_of(data, file_name, KIND)
    crs = root.get("crs")
    if crs is not None and not any(known in repr(crs) for known in ("CRS84", "4326", "4979")):
        raise CourseError(f'{file_name}: "crs" is {shown(crs)}; export the file in WGS 84 (longitude, latitude in degrees)')
    where, geometry, properties = _line(file_name, root)
    positions = geometry.get("coordinates")
    if not isinstance(positions, list):
        raise CourseError(f"{file_name}, {where}: coordinates is {shown(positions)}; expected a list of [longitude, latitude]")
    points, places = [], []
    for i, position in enumerate(positions):
        place = f"{where} position {i + 1}"
        pair = [number(v) for v in position[:2]] if isinstance(position, list) else []
        if len(pair) != 2 or pair[0] is None or pair[1] is None:
            raise CourseError(f"{file_name}, {place}: {shown(position)} is not [longitude, latitude]; correct or delete it")
        points.append((pair[1], pair[0]))
        places.append(place)
    closed, name = properties.get("closed"), properties.get("name")
    if closed is not None and not isinstance(closed, bool):
        raise CourseError(f'{file_name}, {where}: property "closed" is {shown(closed)}; write true or false')
    return Drawing(
        file_name=file_name,
        points=points,
        places=places,
        geodetic=True,
        order=ORDER,
        speeds_mps=_speeds(file_name, where, properties.get("speed_mps"), len(points)),
        closed=closed,
        name=name[:60] if isinstance(name, str) else "",
    )


def _line(file_name: str, root: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """Place, geometry and properties of the only line."""
    kind = root.get("type")
    if kind == "FeatureCollection":
        features = root.get("features")
        if not isinstance(features, list):
            raise CourseError(f"{file_name}: the FeatureCollection has no list of features; expected {KIND}")
    elif kind == "Feature":
        features = [root]
    else:
        features = [{"geometry": root, "properties": None}]
    lines, others = [], []
    for i, feature in enumerate(features):
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict):
            continue
        properties = feature.get("properties")
        where = f"feature {i + 1}" if kind == "FeatureCollection" else "LineString"
        if geometry.get("type") == "LineString":
            lines.append((where, geometry, properties if isinstance(properties, dict) else {}))
        else:
            others.append(shown(geometry.get("type"), 30))
    if len(lines) > 1:
        places = ", ".join(where for where, _, _ in lines[:5])
        raise CourseError(f"{file_name}: {len(lines)} lines ({places}); a course is one line: delete the others or join them")
    if not lines:
        seen = ", ".join(sorted(set(others))[:5]) or "none"
        raise CourseError(f"{file_name}: no LineString (geometries found: {seen}); draw the course as one line")
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

"""GeoJSON courses (RFC 7946): one line, the outline of an area, or single points in their order.
Positions are longitude, latitude.

A feature's properties may carry ``name``, ``speed_mps`` (a number, or one per position; negative
from each position that is left backward), ``closed`` (true or false) and ``coordTimes`` (a time per
position, which shows gaps).
"""

from collections.abc import Iterator, Mapping

from vehicled.paths.columns import column_of, scale_of
from vehicled.paths.course_file import DEFAULT_SPEED_MPS, CourseFile, ReadOptions, number, shown
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import GeoFeature, degrees_of, features_of
from vehicled.paths.lines import MapLine, only_line
from vehicled.paths.read_summary import ReadSummary

KIND = "GeoJSON with one LineString"
ORDER = "GeoJSON writes longitude first, then latitude"
_DEPTHS = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}
_SPOTS = ("Point", "MultiPoint")
_TIMES = ("coordTimes", "times", "coordinateTimes")
_MOST_NESTED = 16


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only line in a GeoJSON file; heights are ignored. Raises
    CourseError."""
    features = features_of(data, file_name, KIND)
    lines, spots = list[MapLine](), MapLine("points", "the file")
    owners: list[GeoFeature] = []
    for feature in features:
        for geometry in _geometries(feature.geometry):
            found = list(_lines(file_name, feature, geometry, spots))
            lines += found
            owners += [feature] * len(found)
    if not lines and spots.points:
        lines, owners = [spots], [GeoFeature("the points", {}, {})]
    if not lines:
        others = sorted(
            {shown(feature.geometry.get("type"), 30) for feature in features if feature.geometry}
        )
        listed = ", ".join(others[:5]) or "none"
        raise CourseError(
            f"{file_name}: no LineString (geometries found: {listed}); draw the course as one line"
        )
    line, remarks = only_line(file_name, lines, options)
    chosen = [owner for owner, each in zip(owners, lines, strict=True) if each is line]
    where, _, properties = chosen[0] if chosen else owners[0]
    closed = properties.get("closed")
    if closed is not None and not isinstance(closed, bool):
        raise CourseError(
            f'{file_name}, {where}: property "closed" is {shown(closed)}; write true or false'
        )
    name = properties.get("name")
    speeds, account = _speeds(file_name, where, properties, len(line.points))
    return CourseFile(
        file_name=file_name,
        points=line.points,
        places=line.places,
        geodetic=True,
        order=ORDER,
        speeds_mps=speeds,
        times=line.times(),
        keeps_speeds=False,
        closed=line.closed if closed is None else closed,
        name=name[:60] if isinstance(name, str) else "",
        account=ReadSummary(
            account.form, account.used, account.ignored, (*account.remarks, *remarks)
        ),
    )


def _geometries(geometry: Mapping[str, object], depth: int = 0) -> Iterator[Mapping[str, object]]:
    """Iterate over a geometry, or those of a collection."""
    inner = geometry.get("geometries")
    if geometry.get("type") != "GeometryCollection" or not isinstance(inner, list):
        yield geometry
    elif depth < _MOST_NESTED:
        for each in inner:
            if isinstance(each, dict):
                yield from _geometries(each, depth + 1)


def _lines(
    file_name: str, feature: GeoFeature, geometry: Mapping[str, object], spots: MapLine
) -> Iterator[MapLine]:
    """Iterate over the lines of a geometry; single points are added to ``spots``. Raises
    CourseError."""
    kind = geometry.get("type")
    coordinates = geometry.get("coordinates")
    name = feature.properties.get("name")
    at = f"{file_name}, {feature.place}"
    if kind in _SPOTS:
        positions = degrees_of(at, [coordinates] if kind == "Point" else coordinates)
        spots.points += [(latitude, longitude) for longitude, latitude in positions]
        spots.places += [feature.place] * len(positions)
        return
    depth = _DEPTHS.get(kind) if isinstance(kind, str) else None
    if depth is None:
        return
    area = str(kind).endswith("Polygon")
    stamps: list[object] = next(
        (
            feature.properties[key]
            for key in _TIMES
            if isinstance(feature.properties.get(key), list)
        ),
        [],
    )
    for k, part in enumerate(_parts(at, coordinates, depth, outlines=area)):
        line = MapLine(
            "outline" if area else "LineString",
            f"{feature.place} part {k + 1}"
            if kind in ("MultiLineString", "MultiPolygon") and k
            else feature.place,
            name[:60] if isinstance(name, str) else "",
            feature.place,
            closed=True if area else None,
        )
        line.points = [(latitude, longitude) for longitude, latitude in degrees_of(at, part)]
        line.places = [f"{feature.place} position {i}" for i in range(1, len(line.points) + 1)]
        # Of several lines, each has a list of its own.
        own = stamps[k] if k < len(stamps) else None
        line.stamps = [str(stamp)[:60] for stamp in (own if isinstance(own, list) else stamps)]
        yield line


def _parts(at: str, coordinates: object, depth: int, *, outlines: bool) -> Iterator[object]:
    """Iterate over the lists of positions at a depth; of an area only over its outline."""
    if depth == 0:
        yield coordinates
        return
    if not isinstance(coordinates, list):
        raise CourseError(f"{at}: coordinates is {shown(coordinates)}; expected a list of lines")
    for part in coordinates[:1] if outlines and depth == 1 else coordinates:
        yield from _parts(at, part, depth - 1, outlines=outlines)


def _speeds(
    file_name: str, where: str, properties: Mapping[str, object], n: int
) -> tuple[list[float] | None, ReadSummary]:
    """Return the speeds of the line's positions in m/s, and the account. Raises CourseError for a
    speed that cannot be used."""
    used, remarks = [("coordinates", "longitude, latitude, deg")], list[str]()
    speeds: list[float] | None = None
    for key, value in properties.items():
        column = column_of(key)
        if column.role != "speed" or value is None:
            continue
        if (
            not column.unit
            or speeds is not None
            or scale_of(column) == 1.0 != (column.unit == "m/s")
        ):
            # A colour or a note may be ignored; a speed that is not heeded surprises on the road.
            raise CourseError(
                f'{file_name}, {where}: property "{key[:40]}" has no known unit; give it in '
                'm/s as "speed_mps"'
            )
        speeds = [scale_of(column) * speed for speed in _numbers(file_name, where, key, value, n)]
        used.append(
            (
                key[:40],
                "speed, m/s" if column.unit == "m/s" else f"speed, {column.unit}, converted to m/s",
            )
        )
    if speeds is None:
        remarks.append(f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along")
    known = ("name", "closed", *_TIMES, *(key for key, _ in used))
    ignored = tuple((key[:40], "") for key in properties if key[:40] not in known)
    return speeds, ReadSummary("GeoJSON", tuple(used), (*ignored, ("heights", "")), tuple(remarks))


def _numbers(file_name: str, where: str, key: str, value: object, n: int) -> list[float]:
    single = number(value)
    if single is not None:
        return [single] * n
    if isinstance(value, list) and len(value) == n:
        speeds = [number(v) for v in value]
        if None not in speeds:
            return [v for v in speeds if v is not None]
    raise CourseError(
        f'{file_name}, {where}: property "{key[:40]}" is {shown(value)}; give one number, or a '
        f"list of {n} numbers"
    )

"""Lanelet2 maps made of the points of their bounds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

Point = tuple[float, float]


class Lane(NamedTuple):
    """One lanelet: its bounds from start to end, in m, and tags of its relation."""

    left: Sequence[Point]
    right: Sequence[Point]
    tags: Mapping[str, str] = {}
    centre: Sequence[Point] = ()


class OsmMap:
    """Text of a map; nodes at the same place are one node, as in a map that a person drew."""

    def __init__(self, *, place: str = "local", origin: tuple[float, float] = (48.1, 11.5)) -> None:
        """``place``: ``local`` writes local_x and local_y beside a latitude and longitude of 0,
        ``degrees`` the true latitude and longitude, ``both`` both, ``none`` neither."""
        self._place = place
        self._origin = origin
        self._nodes: dict[Point, int] = {}
        self._ways: list[str] = []
        self._relations: list[str] = []
        self._next = 1

    def add(self, number: str, lane: Lane, *, turned: Sequence[str] = ()) -> None:
        """Add a lanelet; the ways of the roles in ``turned`` are written from their end."""
        ways = {"left": lane.left, "right": lane.right, "centerline": lane.centre}
        members = []
        for role, points in ways.items():
            if points:
                way = self._way(points[::-1] if role in turned else points)
                members.append(f'<member type="way" ref="{way}" role="{role}"/>')
        tags = {"type": "lanelet", "subtype": "road", **lane.tags}
        written = "".join(f'<tag k="{key}" v="{value}"/>' for key, value in tags.items())
        self._relations.append(f'<relation id="{number}">{"".join(members)}{written}</relation>')

    def text(self) -> str:
        """Return the file."""
        nodes = "\n".join(self._node(point, number) for point, number in self._nodes.items())
        rest = "\n".join([*self._ways, *self._relations])
        return f'<?xml version="1.0"?>\n<osm generator="JOSM">\n{nodes}\n{rest}\n</osm>\n'

    def _way(self, points: Sequence[Point]) -> int:
        refs = []
        for point in points:
            if point not in self._nodes:
                self._nodes[point] = self._number()
            refs.append(f'<nd ref="{self._nodes[point]}"/>')
        number = self._number()
        self._ways.append(f'<way id="{number}">{"".join(refs)}</way>')
        return number

    def _node(self, point: Point, number: int) -> str:
        from vehicled.paths.datum import Datum

        x_m, y_m = point
        latitude, longitude = "0", "0"
        if self._place in ("degrees", "both"):
            found = Datum.from_degrees(*self._origin).to_geodetic(x_m, y_m, 0.0)
            latitude, longitude = (f"{np.degrees(value):.11f}" for value in found[:2])
        if self._place == "none":
            latitude = longitude = ""
        tags = '<tag k="ele" v="3.0"/>'
        if self._place in ("local", "both"):
            # Grids of maps begin far away.
            tags += f'<tag k="local_x" v="{x_m + 89000.0}"/><tag k="local_y" v="{y_m + 43000.0}"/>'
        return f'<node id="{number}" lat="{latitude}" lon="{longitude}">{tags}</node>'

    def _number(self) -> int:
        self._next += 1
        return self._next


def straight(begin_m: float, end_m: float, **tags: str) -> Lane:
    """Return a lane of 3 m width along the x axis."""
    return Lane(((begin_m, 1.5), (end_m, 1.5)), ((begin_m, -1.5), (end_m, -1.5)), tags)


def ring(parts: int, radius_m: float = 20.0) -> list[Lane]:
    """Return the lanes of a ring around the origin, driven counter-clockwise."""
    angles = np.linspace(0.0, 2.0 * np.pi, parts * 12 + 1)
    angles[-1] = 0.0

    def arc(part: int, radius_m: float) -> list[Point]:
        return [
            (round(radius_m * np.cos(a), 6), round(radius_m * np.sin(a), 6))
            for a in angles[12 * part : 12 * part + 13].tolist()
        ]

    return [Lane(arc(k, radius_m - 1.5), arc(k, radius_m + 1.5)) for k in range(parts)]

"""Headings and curvatures of a course file against its own line.

A course is driven along its line, so a heading or a curvature in the file changes nothing. It
shows, however, whether the file was understood: rows in the wrong order, degrees for radians,
another zero or another sense of rotation.
"""

from collections.abc import Callable
from math import pi

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, hypotenuse

ALIGNED = 0.9
"""Mean resultant length of the differences from which on a heading follows the line."""
OFFSET_RAD = 0.4
"""Published headings are up to 0.25 rad off their line."""
MIN_LEG_M = 1e-3
CORRELATED = 0.7
TURNED_RAD = 0.3
"""A line that turns less than this says nothing about a curvature."""
WINDOWS = 40

_CONVENTIONS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("counter-clockwise from east", lambda angle: angle),
    ("counter-clockwise from north", lambda angle: angle + 0.5 * pi),
    ("clockwise from north, a compass heading", lambda angle: 0.5 * pi - angle),
)


def heading_as_yaw(
    points: Array, heading: Array, backward: npt.NDArray[np.bool_], unit: str
) -> tuple[Array | None, list[str]]:
    """Return the headings as yaw (rad, counter-clockwise from east), and remarks on them for the
    user.

    points (n, 2): m; heading (n,): in ``unit``, "rad", "deg" or "" where the file does not say;
    backward (n,): legs that are driven backward. The zero and the sense of rotation are those that
    fit the line. None where no convention does; headings that fit one but point against the order
    of the rows are returned as they are.
    """
    along = np.diff(points, axis=0)
    kept = (hypotenuse(along[:, 0], along[:, 1]) > MIN_LEG_M) & np.isfinite(heading[:-1])
    if not kept.any():
        return None, ["headings: none to compare with the line"]
    tangent = np.arctan2(along[kept, 1], along[kept, 0]) + np.where(backward[:-1][kept], pi, 0.0)
    # Beyond a turn and a half radians are rare, up to one degrees are: only such values can be of
    # the other unit.
    large = float(np.abs(heading[:-1][kept]).max()) > 3.0 * pi
    likely = "deg" if large else "rad"
    units = (unit, likely) if unit else (likely, "rad")
    readings = [
        (used, name, to_yaw(np.radians(heading) if used == "deg" else heading))
        for used in units
        for name, to_yaw in _CONVENTIONS
    ]
    for against in (False, True):
        for used, name, yaw in readings:
            mean = np.exp(1j * (yaw[:-1][kept] - tangent - (pi if against else 0.0))).mean()
            if abs(mean) >= ALIGNED and abs(np.angle(mean)) <= OFFSET_RAD:
                if against:
                    return yaw, []
                return yaw, _heading_remarks(name, used, unit)
    if float(np.ptp(heading[np.isfinite(heading)])) == 0.0:
        return None, [
            f"headings are all {heading[0]:g}, which the line is not: taken for a place holder"
        ]
    off_deg = np.degrees(
        np.median(np.abs(np.angle(np.exp(1j * (readings[0][2][:-1][kept] - tangent)))))
    )
    text = (
        "headings contradict the line in every convention (half of them by more than "
        f"{off_deg:.0f} deg)"
    )
    return None, [f"{text}: check the order of the rows, and what the column holds"]


def _heading_remarks(convention: str, used: str, named: str) -> list[str]:
    unit = "degrees" if used == "deg" else "radians"
    if named and used != named:
        return [f"headings hold {unit}, not what the column's name says; they count {convention}"]
    return [f"headings follow the line; in {unit}, {convention}"]


def curvature_remarks(points: Array, curvature: Array) -> list[str]:
    """Return remarks for the user on the curvatures (n,) of a file, per m, positive left; nothing
    where they fit the line.

    Turns over windows of the line are compared, not single values: a second derivative of waypoints
    is mostly rounding.
    """
    legs = np.diff(points, axis=0)
    lengths = hypotenuse(legs[:, 0], legs[:, 1])
    kept = lengths > MIN_LEG_M
    if kept.sum() < 8 or not np.isfinite(curvature).all():
        return []
    middle = np.concatenate(([0.0], np.cumsum(lengths[kept])))
    tangent = np.unwrap(np.arctan2(legs[kept, 1], legs[kept, 0]))
    integrated = np.concatenate(
        ([0.0], np.cumsum(0.5 * (curvature[:-1] + curvature[1:])[kept] * lengths[kept]))
    )
    # A tangent belongs to the middle of its leg.
    integrated = np.interp(0.5 * (middle[:-1] + middle[1:]), middle, integrated)
    if np.ptp(tangent) < TURNED_RAD and np.ptp(integrated) < TURNED_RAD:
        return []
    lag = max(1, len(tangent) // WINDOWS)
    turned, declared = tangent[lag:] - tangent[:-lag], integrated[lag:] - integrated[:-lag]
    power = float(np.sqrt((turned**2).sum() * (declared**2).sum()))
    match = float((turned * declared).sum()) / power if power > 0.0 else 0.0
    scale = float((turned * declared).sum() / (turned**2).sum()) if turned.any() else 0.0
    if match < -CORRELATED:
        return [
            (
                "curvatures have the opposite sign of the line's turns: positive to the right, or "
                "the rows run backwards"
            )
        ]
    if match < CORRELATED:
        return [
            (
                "curvatures do not follow the line: check the order of the rows, and what the "
                "column holds"
            )
        ]
    if not 0.5 < scale < 2.0:
        hint = (
            ": degrees per metre"
            if 40.0 < scale < 80.0
            else ": check the unit of the positions and of the curvatures"
        )
        return [f"curvatures are {scale:.3g} times those of the line{hint}"]
    return []

"""Scan matching: the pose at which the points of a scan lie on known surfaces, and how well each
direction of it is known.

Point-to-line registration (Censi 2008) by iterated least squares with Cauchy weights. The
information matrix of the result is that of the matched lines: along a corridor whose end is out of
sight it is nearly 0, and the pose stays there what it was predicted to be.
"""

from math import atan2, cos, hypot, remainder, sin, sqrt, tau
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.maps.surface import Elements, Index

ITERATIONS = 12
"""Most steps of one match: the bound of its time."""
FINE_M = 0.05
"""Scale of the residuals in the last steps."""
SETTLED_M, SETTLED_RAD = 2e-4, 1e-4
FIT_SCALES = 3.0
"""Distance, in fine scales, within which a point fits."""
INDEPENDENT = 120.0
"""Number of points that count as independent: neighbours share the errors of the map and of the
surface."""
LEAST_SIGMA_M = 0.01
BESIDE_M = 0.3
"""Distance along a wall from its nearest element beyond which a point does not belong to it."""
POINT_WEIGHT = 0.1
"""Weight of a point on an element without a direction. The nearest of such elements holds a scan
where it is, right or wrong."""
NORMAL_VARIANCE = 0.008
"""Variance of a normal, rad2: so much of what is known across a wall is only seemingly known along
it."""


class NearestElement(Protocol):
    """Surfaces that know the nearest element to a place."""

    elements: Elements

    def nearest(self, x_m: Array, y_m: Array) -> Index:
        """Return the number of the nearest element to each place, -1 where none is within reach."""
        ...


class PlanarPose(NamedTuple):
    """MeasuredPlace and yaw in a plane."""

    x_m: float
    y_m: float
    yaw_rad: float

    def then(self, other: "PlanarPose") -> "PlanarPose":
        """Return the pose that ``other`` is when it counts from this one."""
        c, s = cos(self.yaw_rad), sin(self.yaw_rad)
        x, y, yaw = other
        return PlanarPose(
            self.x_m + c * x - s * y, self.y_m + s * x + c * y, remainder(self.yaw_rad + yaw, tau)
        )

    def to(self, other: "PlanarPose") -> "PlanarPose":
        """Return ``other`` as it is seen from this pose."""
        c, s = cos(self.yaw_rad), sin(self.yaw_rad)
        dx, dy = other.x_m - self.x_m, other.y_m - self.y_m
        return PlanarPose(
            c * dx + s * dy, c * dy - s * dx, remainder(other.yaw_rad - self.yaw_rad, tau)
        )

    def place(self, x_m: Array, y_m: Array) -> tuple[Array, Array]:
        """Return points that are given from this pose."""
        c, s = cos(self.yaw_rad), sin(self.yaw_rad)
        return self.x_m + c * x_m - s * y_m, self.y_m + s * x_m + c * y_m


class Match(NamedTuple):
    """Result of one match."""

    pose: PlanarPose
    information: Array
    """(3, 3) over x, y and yaw, of the scan alone."""
    fit: float
    """Fraction of the points that lie on a surface."""
    rms_m: float
    """Root mean square distance of those."""


def align(
    surface: NearestElement,
    x_m: Array,
    y_m: Array,
    guess: PlanarPose,
    *,
    prior: npt.NDArray[np.float64] | None = None,
    coarse_m: float = 0.3,
    iterations: int = ITERATIONS,
) -> Match:
    """Return the pose near ``guess`` at which the points (n,), given from the pose, lie on the
    surface.

    ``prior``: information (3, 3) of the guess; without one the pose still stays where nothing
    determines it. ``coarse_m``: scale of the residuals in the first step, which the guess may be
    off by. Never raises.
    """
    e = surface.elements
    x, y, yaw = guess
    keeps = np.diag((1.0, 1.0, 10.0)) if prior is None else prior
    scale, count = coarse_m, len(x_m)
    information, fit, rms = np.zeros((3, 3)), 0.0, 0.0
    for _ in range(iterations):
        c, s = cos(yaw), sin(yaw)
        rx, ry = c * x_m - s * y_m, s * x_m + c * y_m
        index = surface.nearest(x + rx, y + ry)
        found = index >= 0
        index = index[found]
        rx, ry = rx[found], ry[found]
        dx, dy = x + rx - e.x_m[index], y + ry - e.y_m[index]
        nx, ny, point = e.nx[index], e.ny[index], e.isotropy[index]
        across, beside = nx * dx + ny * dy, nx * dy - ny * dx
        along = point * beside
        distance2 = across * across + along * along
        # A beam does not meet the far side of a wall. Beyond the end of what is known a wall need
        # not go on straight.
        faced = (rx * e.out_x[index] + ry * e.out_y[index] <= 0.0) & (np.abs(beside) <= BESIDE_M)
        near = faced & (distance2 <= (FIT_SCALES * FINE_M) ** 2)
        fit = float(near.sum()) / count if count else 0.0
        rms = sqrt(float(distance2[near].mean())) if near.any() else 0.0
        weight = (
            faced * (1.0 - (1.0 - POINT_WEIGHT) * point) / (1.0 + distance2 / (scale * scale)) ** 2
        )
        # Rows of the derivative by x, y, yaw; the turn moves a point by (-ry, rx).
        a = np.stack((nx, ny, nx * -ry + ny * rx))
        t = np.stack((-ny, nx, ny * ry + nx * rx)) * point
        wa, wt = a * weight, t * weight
        information = wa @ a.T + wt @ t.T
        gradient = wa @ across + wt @ along
        T = _known(information)
        information, gradient = T @ information @ T, T @ gradient
        off = np.array((x - guess.x_m, y - guess.y_m, remainder(yaw - guess.yaw_rad, tau)))
        normal = information / FINE_M**2 * _share(count) + keeps
        shift = -np.linalg.solve(normal, gradient / FINE_M**2 * _share(count) + keeps @ off)
        moved = hypot(shift[0], shift[1])
        limit = min(1.0, 0.5 / moved) if moved > 0.5 else 1.0
        x = x + limit * shift[0]
        y = y + limit * shift[1]
        yaw = yaw + limit * min(max(shift[2], -0.3), 0.3)
        if scale <= FINE_M and moved < SETTLED_M and abs(shift[2]) < SETTLED_RAD:
            break
        scale = max(FINE_M, scale * 0.6)
    sigma = max(rms, LEAST_SIGMA_M)
    pose = PlanarPose(float(x), float(y), remainder(float(yaw), tau))
    return Match(pose, information / (sigma * sigma) * _share(count), fit, rms)


def _known(information: Array) -> Array:
    """Return the map (3, 3) that takes out of a step what noise in the normals alone seems to show
    of the weakest direction."""
    (a, b, _), (_, d, _), _ = information.tolist()
    half, root = 0.5 * (a + d), hypot(0.5 * (a - d), b)
    most, least = half + root, max(half - root, 0.0)
    share = max(least - NORMAL_VARIANCE * most, 0.0) / least if least > 0.0 else 0.0
    # Eigenvector of the smaller eigenvalue.
    angle = 0.5 * atan2(2.0 * b, a - d)
    x, y = -sin(angle), cos(angle)
    k = 1.0 - sqrt(share)
    return np.array(
        ((1.0 - k * x * x, -k * x * y, 0.0), (-k * x * y, 1.0 - k * y * y, 0.0), (0.0, 0.0, 1.0))
    )


def _share(count: int) -> float:
    """Return the information of one of so many points over that of an independent one."""
    return min(1.0, INDEPENDENT / count) if count else 0.0

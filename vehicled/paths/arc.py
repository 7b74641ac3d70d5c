"""Poses on a circle: the way of a vehicle with its wheels held."""

import numpy as np

from vehicled.core.arrays import Array


def on_arc(
    x_m: float | Array,
    y_m: float | Array,
    yaw_rad: float | Array,
    curvature_per_m: float | Array,
    way_m: Array,
) -> tuple[Array, Array, Array]:
    """Return the poses (k,) on a circle after distances from a pose, negative ones backward; all
    arguments broadcast."""
    turned = way_m * curvature_per_m
    chord = way_m * np.sinc(turned / (2.0 * np.pi))
    middle = yaw_rad + 0.5 * turned
    return x_m + chord * np.cos(middle), y_m + chord * np.sin(middle), yaw_rad + turned

"""Tracks for tests, drawn by formula."""

from math import inf, pi

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.offline.race.limits import RaceLimits
from vehicled.offline.race.track import RaceTrack, track_of

POINT = Outline(0.0, 0.0, 0.0)
"""Body of a point mass."""


def ring(radius_m: float, width_m: float, n: int = 120) -> RaceTrack:
    """Return a circular track."""
    angle = np.arange(n) * 2.0 * pi / n
    half = np.full(n, 0.5 * width_m)
    return track_of("ring", radius_m * np.cos(angle), radius_m * np.sin(angle), half, half)


def rounded_square(side_m: float, corner_m: float, width_m: float, step_m: float) -> RaceTrack:
    """Return a square track whose centre line has corners of a radius."""
    straight = side_m - 2.0 * corner_m
    x, y = [], []
    for k in range(4):
        c, s = np.cos(0.5 * pi * k), np.sin(0.5 * pi * k)
        along = np.arange(0.0, straight, step_m) - 0.5 * straight
        local = [(a, -0.5 * side_m) for a in along.tolist()]
        turn = np.arange(0.0, 0.5 * pi, step_m / corner_m)
        local += [
            (0.5 * straight + corner_m * np.sin(t), -0.5 * side_m + corner_m * (1.0 - np.cos(t)))
            for t in turn.tolist()
        ]
        x += [c * a - s * b for a, b in local]
        y += [s * a + c * b for a, b in local]
    half = np.full(len(x), 0.5 * width_m)
    return track_of("square", x, y, half, half)


def wavy(
    radius_m: float, amplitudes: list[float], phases: list[float], width_m: Array | float, n: int
) -> RaceTrack:
    """Return a track round the origin, whose radius is a sum of waves."""
    angle = np.arange(n) * 2.0 * pi / n
    radius = np.full(n, 1.0)
    for k, (amplitude, phase) in enumerate(zip(amplitudes, phases, strict=True), start=2):
        radius += amplitude * np.cos(k * angle + phase)
    radius *= radius_m
    half = np.broadcast_to(0.5 * np.asarray(width_m), (n,))
    return track_of("wavy", radius * np.cos(angle), radius * np.sin(angle), half, half)


def point_limits(
    *,
    lateral_mps2: float = 4.0,
    longitudinal_mps2: float = 4.0,
    acceleration_mps2: float = inf,
    braking_mps2: float = inf,
    max_speed_mps: float = 100.0,
    max_curvature_per_m: float = 10.0,
    outline: Outline = POINT,
) -> RaceLimits:
    """Return the limits of a vehicle with a drive that is as strong at every speed."""
    return RaceLimits(
        lateral_mps2=lateral_mps2,
        longitudinal_mps2=longitudinal_mps2,
        max_speed_mps=max_speed_mps,
        braking_mps2=braking_mps2,
        acceleration_mps2=acceleration_mps2,
        authority_mps2=1e3,
        damping_per_s=0.0,
        max_curvature_per_m=max_curvature_per_m,
        outline=outline,
    )

"""Ground truth from RTK fixes, if a drive has no better: converted to the times of the steps and to
the rear axle."""

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, GnssFix, stated_carrier
from vehicled.estimation.measurements import enu_m
from vehicled.offline.recordings import smoothing
from vehicled.offline.recordings.recording import RecordedMotion, Times, between, seconds
from vehicled.paths.datum import Datum


def places(fixes: list[GnssFix], datum: Datum) -> tuple[Array, Array, Array]:
    """Times (s) of validity, east and north (m) of fixes."""
    found = [enu_m(datum, fix) for fix in fixes]
    return (
        np.array([m.t_ns for m in fixes], dtype=np.float64) * 1e-9,
        np.array([east for east, _, _ in found], dtype=np.float64),
        np.array([north for _, north, _ in found], dtype=np.float64),
    )


def of_fixes(
    steps_ns: Times, fixes: list[GnssFix], datum: Datum, lever_arm_m: tuple[float, float, float]
) -> RecordedMotion:
    """Truth at steps from those fixes that are RTK fixed by label and covariance. Heading is the
    course of the antenna, known where it moves."""
    t_s, east, north = places(
        [
            m
            for m in fixes
            if stated_carrier(m.carrier, m.position_covariance_m2) is CarrierSolution.FIXED
        ],
        datum,
    )
    steps_s = seconds(steps_ns)
    x, y = between(steps_s, t_s, east), between(steps_s, t_s, north)
    vx, vy = smoothing.velocity(steps_s, x, y, np.isfinite(x))
    yaw = smoothing.course_rad(vx, vy)
    ahead, left = lever_arm_m[:2]
    if ahead or left:
        x = x - ahead * np.cos(yaw) + left * np.sin(yaw)
        y = y - ahead * np.sin(yaw) - left * np.cos(yaw)
    return RecordedMotion(steps_ns, x, y, yaw, np.hypot(vx, vy))

"""Metrics of the study ``transfer``: how smoothly the wheels were turned, and where on the course
the errors are."""

import numpy as np

BINS = 20


def steering(drive):
    """Return the RMS rate of the commanded wheel angle, and the share of its power above 1 Hz."""
    t_s = np.array([point.t_s for point in drive.trace])
    wheel = np.array([point.wheel_angle_rad for point in drive.trace])
    known = np.isfinite(wheel)
    if known.sum() < 100:
        return {}
    even_s = np.arange(t_s[known][0], t_s[known][-1], 0.02)
    wheel = np.interp(even_s, t_s[known], wheel[known])
    power = np.abs(np.fft.rfft((wheel - wheel.mean()) * np.hanning(len(wheel)))) ** 2
    fast = np.fft.rfftfreq(len(wheel), 0.02) > 1.0
    return {
        "rate_rms_radps": float(np.sqrt(np.mean(np.diff(wheel) ** 2)) / 0.02),
        "fast_share": float(power[fast].sum() / max(power.sum(), 1e-12)),
    }


def place(drive):
    """Return the mean cross-track error (m) of each twentieth of the course."""
    course = drive.course
    points = np.array([(point.x_m, point.y_m, abs(point.cross_track_m)) for point in drive.trace])
    if not len(points):
        return {}
    # Every tenth instant is enough, and a thousandth of the products.
    x, y, error = points[::10].T
    nearest = np.array(
        [np.argmin((course.x_m - a) ** 2 + (course.y_m - b) ** 2) for a, b in zip(x, y)]
    )
    bins = np.minimum((BINS * course.s_m[nearest] / course.length_m).astype(int), BINS - 1)
    return {
        f"{k:02d}_m": float(error[bins == k].mean())
        for k in range(BINS)
        if np.isfinite(error[bins == k]).any()
    }

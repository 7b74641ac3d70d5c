"""Fitted sensors as the tables of a profile."""

from math import sqrt

from vehicled.offline.sensors.inertial import InertialFit, gravity_error_mps2
from vehicled.offline.sensors.positions import PositionFit
from vehicled.profile.gnss import GnssModel

Values = dict[str, str]


def of_positions(found: PositionFit) -> Values:
    """Return TOML values by key: the fitted model, and the published models with the numbers that
    come nearest."""
    form, interrupted, sigma_m = found.form, found.interrupted, found.form.sigma_m
    values = {
        "model": '"recorded"',
        "rate_hz": _number(found.rate_hz),
        "carrier": f'"{found.carrier}"',
        "recorded.white_sigma_m": _number(form.white_m),
        "recorded.wander_sigma_m": _number(form.wander_m),
        "recorded.wander_time_s": _number(form.wander_s),
        "recorded.smooth_sigma_m": _number(form.smooth_m),
        "recorded.smooth_time_s": _number(form.smooth_s),
        "recorded.step_m": _number(interrupted.step_m),
        "recorded.hold_share": _number(min(interrupted.hold_share, 0.95)),
        "recorded.hold_s": _number(interrupted.hold_s),
        "recorded.outages_per_hour": _number(interrupted.outages_per_hour),
        "recorded.outage_s": _number(interrupted.outage_s),
        "gauss.sigma_m": _number(sigma_m),
    }
    for name in (
        "sigma",
        "pull",
        "pull_range_m",
        "acceleration_cut",
        "speed_cut",
        "settled_sigma_m",
    ):
        values[f"random_walk.{name}"] = _number(getattr(found.walk, name))
    usual = GnssModel()
    hdop, vdop = found.dilution or (usual.hdop, usual.vdop)
    if found.dilution is not None or found.reported_m is not None:
        values |= {"hdop": _number(hdop), "vdop": _number(vdop)}
        values["user_range_error_m"] = values["airsim.user_range_error_m"] = _number(
            (found.reported_m or sigma_m) / hdop
        )
    if found.reported_m is not None:
        values["covariance"] = '"hdop"'
    if found.settling is not None:
        first, last, time_s = found.settling
        values |= {
            "airsim.initial_hdop": _number(first),
            "airsim.final_hdop": _number(last),
            "airsim.settling_s": _number(time_s),
        }
    return {f"sim.gnss.{key}": value for key, value in values.items()}


def of_inertial(found: InertialFit) -> Values:
    """Return TOML values by key. Scale, axes, bandwidth, range and vibration do not show at
    standstill and are left as they are."""
    values = {"model": '"table"', "rate_hz": _number(found.rate_hz)}
    for sensor, axes, unit in (
        ("gyro", found.gyro, "radps"),
        ("accelerometer", found.accelerometer, "mps2"),
    ):
        if not axes:
            continue
        steps = [axis.step for axis in axes if axis.step > 0.0]
        bias = (
            sqrt(sum(axis.mean**2 for axis in axes) / len(axes))
            if sensor == "gyro"
            else gravity_error_mps2(found)
        )
        values |= {
            f"{sensor}_density": _number(found.root_mean_square(sensor, "white")),
            f"{sensor}_instability_{unit}": _number(found.root_mean_square(sensor, "instability")),
            f"{sensor}_bias_walk": _number(found.root_mean_square(sensor, "walk")),
            f"{sensor}_bias_{unit}": _number(bias),
            f"{sensor}_step_{unit}": _number(min(steps, default=0.0)),
        }
    return {f"sim.imu.{key}": value for key, value in values.items()}


def tables(values: Values) -> str:
    """Return the values as TOML tables."""
    found: dict[str, list[str]] = {}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        found.setdefault(table, []).append(f"{name} = {value}")
    return "\n".join(f"[{table}]\n" + "\n".join(lines) + "\n" for table, lines in found.items())


def _number(value: float) -> str:
    return repr(float(f"{value:.4g}"))

"""PX4 ULog files (.ulg) through pyulog: GPS, IMU, and what goes to the actuators.

Topics as in PX4 1.10 to 1.15: ``sensor_gps`` or ``vehicle_gps_position``, ``sensor_combined``;
``actuator_motors`` with ``actuator_servos``, or the older ``actuator_controls_0``. Stamps are
microseconds since boot; UTC by the receiver. Axes are forward-right-down, velocities
north-east-down.
"""

from collections.abc import Iterator
from heapq import merge
from math import isfinite, nan
from pathlib import Path
from typing import Any

from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    ImuSample,
    Mode,
)
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.source import (
    ForeignFile,
    Stamped,
    diagonal,
    flu,
    place,
    positive,
)

_FIXES = {
    2: (FixType.FIX_2D, CarrierSolution.NONE), 3: (FixType.FIX_3D, CarrierSolution.NONE),
    4: (FixType.FIX_3D, CarrierSolution.NONE), 5: (FixType.FIX_3D, CarrierSolution.FLOAT),
    6: (FixType.FIX_3D, CarrierSolution.FIXED), 8: (FixType.DEAD_RECKONING, CarrierSolution.NONE),
}  # fmt: skip
"""Fix types by ``fix_type``: 4 is differential, 5 RTK float, 6 RTK fixed, 8 extrapolated."""
_GPS = ("sensor_gps", "vehicle_gps_position")
_TOPICS = [*_GPS, "sensor_combined", "actuator_motors", "actuator_servos", "actuator_controls_0"]


def read(path: Path, vehicle: Vehicle) -> ForeignFile:
    """A log, read as a whole: PX4 writes topics interleaved and the library sorts them. Raises
    :class:`RecordingError`."""
    try:
        from pyulog import ULog
    except ImportError:
        raise RecordingError(
            f"{path}: ULog files are read by the library pyulog, which is not installed: pip "
            'install "vehicled[px4]"'
        ) from None
    try:
        with path.open("rb") as stream:
            log: Any = ULog(stream, _TOPICS)
    except Exception as error:
        raise RecordingError(
            f"{path}: cannot be read as a ULog: {type(error).__name__}: {error}"
        ) from error
    notes: list[str] = []
    instances: dict[str, dict[int, Any]] = {}
    for found in log.data_list:
        instances.setdefault(found.name, {})[found.multi_id] = found.data
    topics = {name: several[min(several)] for name, several in instances.items()}
    for name in _GPS:
        if len(several := instances.get(name, {})) > 1:
            best = max(sorted(several), key=lambda number: _mean_fix(several[number]))
            topics[name] = several[best]
            others = ", ".join(
                f"{number}: {len(several[number]['timestamp'])} fixes"
                for number in sorted(several)
                if number != best
            )
            notes.append(f"{name} {best} is read, whose fixes are the best; not read: {others}")
    streams = []
    gps = next((topics[name] for name in _GPS if name in topics), None)
    if gps is not None:
        streams.append(_fixes(gps))
    if "sensor_combined" in topics:
        streams.append(_samples(topics["sensor_combined"]))
    if "actuator_motors" in topics and "actuator_servos" in topics:
        streams.append(_commands(topics["actuator_motors"], topics["actuator_servos"], vehicle))
        notes.append("commands: throttle is motor 1, steering servo 1")
    elif "actuator_controls_0" in topics:
        streams.append(_controls(topics["actuator_controls_0"], vehicle))
        notes.append("commands: throttle and yaw of actuator_controls_0")
    about = {
        key: str(log.msg_info_dict[key])
        for key in ("sys_name", "ver_hw", "ver_sw")
        if key in log.msg_info_dict
    }
    messages = merge(*streams, key=lambda entry: entry[0])
    return ForeignFile(format="PX4 ULog", messages=messages, about=about, notes=notes)


def _mean_fix(data: Any) -> float:
    # Beyond 6 a position is extrapolated.
    kinds = [float(kind) if kind <= 6 else 1.0 for kind in data.get("fix_type", ())]
    return sum(kinds) / len(kinds) if kinds else 0.0


class _Rows:
    """Columns that may be missing, and had other names and units in older versions."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.stamps_ns = [int(t) * 1000 for t in data["timestamp"]]

    def column(self, *names: tuple[str, float]) -> list[float]:
        """The first of (name, scale) that there is; NaN where there is none."""
        for name, scale in names:
            if name in self._data:
                return [float(value) * scale for value in self._data[name]]
        return [nan] * len(self.stamps_ns)

    def vector(self, name: str) -> list[tuple[float, float, float]]:
        """Three elements of an array."""
        return list(zip(*(self.column((f"{name}[{i}]", 1.0)) for i in range(3))))


def _fixes(data: Any) -> Iterator[Stamped]:
    rows = _Rows(data)
    latitude = rows.column(("latitude_deg", 1.0), ("lat", 1e-7))
    longitude = rows.column(("longitude_deg", 1.0), ("lon", 1e-7))
    height = rows.column(
        ("altitude_ellipsoid_m", 1.0),
        ("alt_ellipsoid", 1e-3),
        ("altitude_msl_m", 1.0),
        ("alt", 1e-3),
    )
    north, east, down = (rows.column((f"vel_{axis}_m_s", 1.0)) for axis in "ned")
    horizontal, vertical, speed = (
        rows.column((name, 1.0)) for name in ("eph", "epv", "s_variance_m_s")
    )
    kinds, satellites, utc_us = (
        rows.column((name, 1.0)) for name in ("fix_type", "satellites_used", "time_utc_usec")
    )
    hdop, vdop = rows.column(("hdop", 1.0)), rows.column(("vdop", 1.0))
    for k, t_ns in enumerate(rows.stamps_ns):
        kind, carrier = _FIXES.get(
            int(kinds[k]) if isfinite(kinds[k]) else 0, (FixType.NONE, CarrierSolution.NONE)
        )
        h, v, s = positive(horizontal[k]) / 2**0.5, positive(vertical[k]), positive(speed[k])
        utc_ns = round(utc_us[k]) * 1000 if isfinite(utc_us[k]) and utc_us[k] > 0.0 else 0
        yield t_ns, GnssFix(
            t_ns, t_ns, *place(latitude[k], longitude[k]), height[k],
            velocity_enu_mps=(east[k], north[k], -down[k]),
            position_covariance_m2=diagonal(h, h, v), velocity_covariance_m2ps2=diagonal(s, s, s),
            fix_type=kind, carrier=carrier, differential=kinds[k] in (4, 5, 6),
            satellites=min(int(satellites[k]), 255) if isfinite(satellites[k]) else 0, hdop=hdop[k],
            vdop=vdop[k], utc_ns=utc_ns,
        )  # fmt: skip


def _samples(data: Any) -> Iterator[Stamped]:
    rows = _Rows(data)
    for t_ns, force, rate in zip(
        rows.stamps_ns, rows.vector("accelerometer_m_s2"), rows.vector("gyro_rad")
    ):
        yield t_ns, ImuSample(t_ns, t_ns, flu(*force), flu(*rate))


def _commands(motors: Any, servos: Any, vehicle: Vehicle) -> Iterator[Stamped]:
    """A command for each of the motors, with the newest of the servos."""
    throttle, steering = _Rows(motors), _Rows(servos)
    shares, turns = throttle.column(("control[0]", 1.0)), steering.column(("control[0]", 1.0))
    at = -1
    for t_ns, share in zip(throttle.stamps_ns, shares):
        while at + 1 < len(turns) and steering.stamps_ns[at + 1] <= t_ns:
            at += 1
        yield t_ns, _command(t_ns, share, turns[at] if at >= 0 else 0.0, vehicle)


def _controls(data: Any, vehicle: Vehicle) -> Iterator[Stamped]:
    rows = _Rows(data)
    for t_ns, share, turn in zip(
        rows.stamps_ns, rows.column(("control[3]", 1.0)), rows.column(("control[2]", 1.0))
    ):
        yield t_ns, _command(t_ns, share, turn, vehicle)


def _command(t_ns: int, throttle: float, turn: float, vehicle: Vehicle) -> ActuatorCommand:
    """PX4 writes NaN for a motor that is not to turn, and steers to the right with a positive
    value."""
    steering = -min(max(turn, -1.0), 1.0) if isfinite(turn) else 0.0
    share = min(max(throttle, -1.0), 1.0) if isfinite(throttle) else 0.0
    return ActuatorCommand(
        t_ns, t_ns, share, 0.0, steering, vehicle.steering.wheel_angle_rad(steering), Mode.AUTO
    )

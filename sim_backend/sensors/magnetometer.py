"""Magnetic heading model: three axes in the field of earth and vehicle, levelled, converted to
yaw."""

from math import atan2, cos, exp, hypot, pi, remainder, sin

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from sim_backend.sensors.attitude import Vector, to_body, to_level
from sim_backend.sensors.geomagnetism import earth_field_ut, horizontal_ut, year_of
from sim_backend.sensors.heading import LEAST_SIGMA_RAD, HeadingSensor
from sim_backend.sensors.imu import specific_force
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import Heading, HeadingKind
from vehicled.paths.datum import Datum
from vehicled.profile.sensors import HeadingModel, Magnetometer


class MagneticHeading:
    """Compass at the rear axle. ``measured = S B + hard iron + current field + noise``.

    The device takes the mean of its accelerometers over ``level_time_s`` as up, so braking and
    turning tilt it, and magnetic dip turns tilt into a heading error. It subtracts its configured
    declination. Misalignment, white noise and walk of the heading model are added.
    """

    def __init__(
        self,
        heading: HeadingModel,
        model: Magnetometer,
        actuators: Actuators,
        datum: Datum,
        seed: int,
        entity: str,
        utc_ns: int,
    ) -> None:
        """Noise comes from the stream ``entity``; ``utc_ns`` dates the field."""
        self.rate_hz = heading.rate_hz
        self.least_latency_ns = self._latency_ns = round(heading.latency_ms * 1e6)
        self._heading = heading
        self._model = model
        self._actuators = actuators
        self._normals = Normals(stream(seed, entity), 5)
        self.field_ut = earth_field_ut(
            datum.latitude_rad, datum.longitude_rad, datum.height_m, year_of(utc_ns)
        )
        """Field of the earth: east, north, up."""
        east, north, _ = self.field_ut
        declination_rad = atan2(east, north)
        assumed_rad = model.assumed_declination_rad
        self._north_rad = 0.5 * pi - (declination_rad if assumed_rad is None else assumed_rad)
        self._error_rad = heading.misalignment_rad
        self._walk_rad = heading.walk_rad_per_root_s / heading.rate_hz**0.5
        noise_rad = model.sigma_ut / max(horizontal_ut(self.field_ut), 1e-9)
        self._sigma_rad = min(max(hypot(heading.sigma_rad, noise_rad), LEAST_SIGMA_RAD), pi)
        self._forget = (
            exp(-1.0 / (heading.rate_hz * model.level_time_s)) if model.level_time_s > 0.0 else 0.0
        )
        self._up: Vector | None = None

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, Heading]:
        """Return the heading valid at ``t_ns``, see
        :class:`sim_backend.sensors.interface.Sensor`."""
        white, walk, *noise = self._normals()
        self._error_rad += self._walk_rad * walk
        x, y, _ = self._levelled(motion, self._measured_ut(motion, noise))
        bearing_rad = atan2(y, x)
        yaw_rad = self._north_rad - bearing_rad + self._error_rad + self._heading.sigma_rad * white
        return t_ns + self._latency_ns, Heading(
            t_ns, 0, remainder(yaw_rad, 2.0 * pi), self._sigma_rad, HeadingKind.MAGNETIC
        )

    def _measured_ut(self, motion: Motion, noise: list[float]) -> Vector:
        """Return the field as the three axes measure it."""
        east, north, up = self.field_ut
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        body = to_body(
            motion.roll_rad, motion.pitch_rad, (c * east + s * north, c * north - s * east, up)
        )
        model, current_a = self._model, self._actuators.supply.motor_current_a
        measured = [
            row[0] * body[0]
            + row[1] * body[1]
            + row[2] * body[2]
            + hard
            + per_a * current_a
            + model.sigma_ut * normal
            for row, hard, per_a, normal in zip(
                model.soft_iron, model.hard_iron_ut, model.current_ut_per_a, noise
            )
        ]
        return measured[0], measured[1], measured[2]

    def _levelled(self, motion: Motion, body: Vector) -> Vector:
        """Return the field levelled by the up axis of the accelerometers."""
        now = specific_force(motion, (0.0, 0.0, 0.0))
        keep = self._forget
        before = self._up or now
        self._up = up = (
            keep * before[0] + (1.0 - keep) * now[0],
            keep * before[1] + (1.0 - keep) * now[1],
            keep * before[2] + (1.0 - keep) * now[2],
        )
        return to_level(atan2(up[1], up[2]), atan2(-up[0], hypot(up[1], up[2])), body)


def heading_sensor(
    model: HeadingModel, actuators: Actuators, datum: Datum, seed: int, entity: str, utc_ns: int
) -> Sensor:
    """Return the sensor of ``[sim.heading]``: a compass if it is magnetic and has a magnetometer,
    else the truth with errors."""
    if model.kind == "magnetic" and model.magnetometer is not None:
        return MagneticHeading(model, model.magnetometer, actuators, datum, seed, entity, utc_ns)
    return HeadingSensor(model, seed, entity)

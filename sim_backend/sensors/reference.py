"""Reference system: position, velocity and attitude of its output point, with the errors of the
profile and what it declares."""

from math import cos, hypot, pi, remainder, sin

from sim_backend.plant.interface import Motion
from sim_backend.sensors.attitude import lever_velocity, to_level
from sim_backend.sensors.gnss_reception import CARRIERS
from sim_backend.sensors.noise import GaussMarkov, Normals, stream
from vehicled.core.messages import ReferenceState
from vehicled.paths.datum import Datum
from vehicled.profile.sensors import ReferenceModel

UPWARDS = 2.0
"""Vertical errors over horizontal ones."""


class Reference:
    """Reference system at ``lever_arm_m``. It declares noise and drift, but no constant error,
    which it does not know."""

    def __init__(
        self,
        model: ReferenceModel,
        lever_arm_m: tuple[float, float, float],
        datum: Datum,
        seed: int,
        entity: str,
    ) -> None:
        """Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._model = model
        forward, left, up = model.lever_arm_error_m
        self._arm_m = (lever_arm_m[0] + forward, lever_arm_m[1] + left, lever_arm_m[2] + up)
        self._to_geodetic = datum.to_geodetic
        self._normals = Normals(stream(seed, entity), 11)
        step_s = 1.0 / model.rate_hz
        start = self._normals()
        scale = (1.0, 1.0, UPWARDS)
        self._drifts = [
            GaussMarkov(model.position_drift_m * by, model.position_drift_s, step_s, n)
            for by, n in zip(scale, start)
        ]
        self._heading = GaussMarkov(
            model.heading_drift_rad, model.heading_drift_s, step_s, start[3]
        )
        position = hypot(model.position_sigma_m, model.position_drift_m) * model.declared_share
        speed = model.velocity_sigma_mps * model.declared_share
        self._position_sigma_m = (position, position, UPWARDS * position)
        self._velocity_sigma_mps = (speed, speed, UPWARDS * speed)
        self._yaw_sigma_rad = (
            hypot(model.heading_sigma_rad, model.heading_drift_rad) * model.declared_share
        )
        self._carrier = CARRIERS[model.carrier]
        self._height_m: float | None = None

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, ReferenceState]:
        """Return the state valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        n, model = self._normals(), self._model
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        ahead, aside, up = to_level(motion.roll_rad, motion.pitch_rad, self._arm_m)
        rate = (motion.roll_rate_radps, motion.pitch_rate_radps, motion.yaw_rate_radps)
        turn_ahead, turn_aside, turn_up = to_level(
            motion.roll_rad, motion.pitch_rad, lever_velocity(rate, self._arm_m)
        )
        climb_mps = 0.0 if self._height_m is None else (motion.z_m - self._height_m) * self.rate_hz
        self._height_m = motion.z_m
        ahead_mps = motion.speed_mps * cos(motion.pitch_rad) + turn_ahead
        left_mps = motion.lateral_speed_mps * cos(motion.roll_rad) + turn_aside
        white, speed = model.position_sigma_m, model.velocity_sigma_mps
        drift_e, drift_n, drift_u = [drift.step(normal) for drift, normal in zip(self._drifts, n)]
        latitude_rad, longitude_rad, height_m = self._to_geodetic(
            motion.x_m + c * ahead - s * aside + drift_e + white * n[3],
            motion.y_m + s * ahead + c * aside + drift_n + white * n[4],
            motion.z_m + up + drift_u + UPWARDS * white * n[5],
        )
        yaw_rad = (
            motion.yaw_rad
            + model.misalignment_rad
            + self._heading.step(n[9])
            + model.heading_sigma_rad * n[10]
        )
        return t_ns + self._latency_ns, ReferenceState(
            t_ns,
            0,
            latitude_rad,
            longitude_rad,
            height_m,
            (
                c * ahead_mps - s * left_mps + speed * n[6],
                s * ahead_mps + c * left_mps + speed * n[7],
                climb_mps + turn_up + UPWARDS * speed * n[8],
            ),
            motion.roll_rad,
            motion.pitch_rad,
            remainder(yaw_rad, 2.0 * pi),
            motion.yaw_rate_radps,
            self._position_sigma_m,
            self._velocity_sigma_mps,
            self._yaw_sigma_rad,
            self._carrier,
        )

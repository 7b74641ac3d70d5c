"""GNSS receiver: position and velocity of the antenna, white plus slowly wandering error, latency with jitter."""

from math import cos, sin

from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import GaussMarkov, Normals, stream
from vehicled.messages import NAN, CarrierSolution, FixType, GnssFix
from vehicled.paths.datum import Datum
from vehicled.profile.schema import GnssModel

_CARRIER = {"none": CarrierSolution.NONE, "float": CarrierSolution.FLOAT, "fixed": CarrierSolution.FIXED}
_CORRECTION_PERIOD_NS = 1_000_000_000
_CORRECTION_LATENCY_S = 0.3
# Receivers report accuracy in whole millimetres and mm/s, never 0: a model without noise must not claim certainty.
_LEAST_SIGMA = 0.001


class Gnss:
    """Receiver of the twin. The reported covariance is the variance of the whole error, coloured part included.

    Vertical errors are ``vdop / hdop`` times the horizontal ones. Corrections arrive once a second.
    """

    def __init__(
        self,
        model: GnssModel,
        lever_arm_m: tuple[float, float, float],
        datum: Datum,
        seed: int,
        entity: str,
        start_ns: int,
        utc_ns: int,
    ) -> None:
        """``utc_ns`` is the UTC at ``start_ns``. Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = 0
        self._lever_arm_m = lever_arm_m
        self._to_geodetic = datum.to_geodetic
        self._start_ns = start_ns
        self._utc_offset_ns = utc_ns - start_ns
        self._latency_ms = model.latency_ms
        self._jitter_ms = model.latency_jitter_ms
        self._newest_arrival_ns = 0
        self._normals = Normals(stream(seed, entity), 10)
        vertical = model.vdop / model.hdop
        self._sigma_m = (model.sigma_m, model.sigma_m, model.sigma_m * vertical)
        self._velocity_sigma_mps = (model.velocity_sigma_mps, model.velocity_sigma_mps, model.velocity_sigma_mps * vertical)
        first = self._normals()
        interval_s = 1.0 / model.rate_hz
        walk_sigma_m = (model.walk_sigma_m, model.walk_sigma_m, model.walk_sigma_m * vertical)
        self._walk = [GaussMarkov(walk_sigma_m[axis], model.walk_time_s, interval_s, first[axis]) for axis in range(3)]
        self._position_covariance_m2 = _diagonal([max(s * s + w * w, _LEAST_SIGMA**2) for s, w in zip(self._sigma_m, walk_sigma_m)])
        self._velocity_covariance_m2ps2 = _diagonal([max(s * s, _LEAST_SIGMA**2) for s in self._velocity_sigma_mps])
        self._carrier = _CARRIER[model.carrier]
        self._satellites = model.satellites
        self._hdop = model.hdop
        self._vdop = model.vdop

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, GnssFix]:
        """See :class:`sim_backend.sensors.interface.Sensor`."""
        n = self._normals()
        walk_e, walk_n, walk_u = self._walk
        sigma_e, sigma_n, sigma_u = self._sigma_m
        forward, left, up = self._lever_arm_m
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        latitude_rad, longitude_rad, height_m = self._to_geodetic(
            motion.x_m + c * forward - s * left + sigma_e * n[0] + walk_e.step(n[3]),
            motion.y_m + s * forward + c * left + sigma_n * n[1] + walk_n.step(n[4]),
            up + sigma_u * n[2] + walk_u.step(n[5]),
        )
        ahead_mps = motion.speed_mps - motion.yaw_rate_radps * left
        left_mps = motion.lateral_speed_mps + motion.yaw_rate_radps * forward
        sigma_e, sigma_n, sigma_u = self._velocity_sigma_mps
        velocity_enu_mps = (
            c * ahead_mps - s * left_mps + sigma_e * n[6],
            s * ahead_mps + c * left_mps + sigma_n * n[7],
            sigma_u * n[8],
        )
        latency_ns = int(max(0.0, self._latency_ms + self._jitter_ms * n[9]) * 1e6)
        # One cable: a late fix holds up the next one, it is not overtaken.
        arrival_ns = self._newest_arrival_ns = max(t_ns + latency_ns, self._newest_arrival_ns)
        corrected = self._carrier is not CarrierSolution.NONE
        age_s = _CORRECTION_LATENCY_S + (t_ns - self._start_ns) % _CORRECTION_PERIOD_NS * 1e-9 if corrected else NAN
        return arrival_ns, GnssFix(
            t_ns,
            0,
            latitude_rad,
            longitude_rad,
            height_m,
            velocity_enu_mps,
            self._position_covariance_m2,
            self._velocity_covariance_m2ps2,
            FixType.FIX_3D,
            self._carrier,
            corrected,
            age_s,
            self._satellites,
            self._hdop,
            self._vdop,
            t_ns + self._utc_offset_ns,
        )


def _diagonal(variances: list[float]) -> tuple[float, ...]:
    e, n, u = variances
    return (e, 0.0, 0.0, 0.0, n, 0.0, 0.0, 0.0, u)

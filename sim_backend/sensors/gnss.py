"""GNSS receiver model: position and velocity of the antenna, the profile's error model, latency,
reported accuracy."""

from math import cos, exp, inf, sin, sqrt

from sim_backend.plant.interface import Motion
from sim_backend.sensors.attitude import lever_velocity, to_level
from sim_backend.sensors.gnss_errors import MODELS_THAT_SETTLE, position_error
from sim_backend.sensors.gnss_interruptions import interruptions
from sim_backend.sensors.gnss_reception import (
    CARRIERS,
    CORRECTION_LATENCY_S,
    CORRECTION_PERIOD_NS,
    EpochReception,
    ReceptionModel,
)
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import NAN, NAN3, NAN9, CarrierSolution, FixType, GnssFix
from vehicled.paths.datum import Datum
from vehicled.profile.gnss import GnssModel

# Receivers report accuracy in whole mm and mm/s, never 0, so a model without noise must not claim
# certainty.
_LEAST_SIGMA = 0.001
_WORST_DILUTION = 99.99
_NO_EXTRA = (0.0, 0.0, 0.0)


class Gnss:
    """GNSS receiver. With ``covariance = "error"`` it reports the variance of its whole error
    including the coloured part, but not multipath, which no receiver knows.

    Vertical errors are ``vdop / hdop`` times the horizontal ones. Corrections arrive once a second.
    Dilution grows with the root of the satellite ratio. Without a fix everything but time is
    unknown.
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
        """``utc_ns`` is the UTC at ``start_ns``. Noise comes from the stream ``entity`` and its
        sub-streams."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = 0
        self._model = model
        self._lever_arm_m = lever_arm_m
        self._to_geodetic = datum.to_geodetic
        self._start_ns = start_ns
        self._utc_offset_ns = utc_ns - start_ns
        self._latency_ms = model.latency_ms
        self._jitter_ms = model.latency_jitter_ms
        self._newest_arrival_ns = 0
        self._normals = Normals(stream(seed, entity), 10)
        self._error = position_error(model, seed, entity, self._normals())
        self._sky = ReceptionModel(model, seed, entity) if model.zones else None
        self._interruptions = interruptions(model, seed, entity)
        self._settles = model.model in MODELS_THAT_SETTLE
        vertical = model.vdop / model.hdop
        speed = model.velocity_sigma_mps
        self._velocity_sigma_mps = (speed, speed, speed * vertical)
        self._velocity_covariance_m2ps2 = _diagonal(
            [max(s * s, _LEAST_SIGMA**2) for s in self._velocity_sigma_mps]
        )
        self._carrier = CARRIERS[model.carrier]
        self._height_m: float | None = None
        self._covariance_of = (inf, 0.0, 0.0)
        self._position_covariance_m2 = NAN9

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, GnssFix]:
        """Return the fix valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        n = self._normals()
        forward, left, up = self._lever_arm_m
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        # Keep this order of sums: a level vehicle then gives the same bits as the planar model.
        if motion.roll_rad or motion.pitch_rad:
            forward, left, up = to_level(motion.roll_rad, motion.pitch_rad, (forward, left, up))
        x_m = motion.x_m + c * forward - s * left
        y_m = motion.y_m + s * forward + c * left
        ahead_mps, left_mps, up_mps = self._velocity(motion)
        elapsed_ns = t_ns - self._start_ns
        white_e, white_n, white_u, coloured_e, coloured_n, coloured_u = self._error.step(
            elapsed_ns * 1e-9, n
        )
        latency_ns = int(max(0.0, self._latency_ms + self._jitter_ms * n[9]) * 1e6)
        # Fixes share one cable: a late one delays the next, which cannot overtake it.
        arrival_ns = self._newest_arrival_ns = max(t_ns + latency_ns, self._newest_arrival_ns)
        model, sky = self._model, self._sky
        reception: EpochReception | None = None
        extra_e, extra_n, extra_u = _NO_EXTRA
        if sky is not None:
            reception = sky.at(elapsed_ns, x_m, y_m)
            if not reception.fix:
                return arrival_ns, self._nothing(t_ns, reception.satellites)
            extra_e, extra_n, extra_u = reception.error_m
        place_m = (
            x_m + white_e + coloured_e + extra_e,
            y_m + white_n + coloured_n + extra_n,
            motion.z_m + up + white_u + coloured_u + extra_u,
        )
        if self._interruptions is not None:
            kept = self._interruptions.step(place_m)
            if kept is None:
                return arrival_ns, self._nothing(t_ns, 0)
            place_m = kept
        latitude_rad, longitude_rad, height_m = self._to_geodetic(*place_m)
        sigma_e, sigma_n, sigma_u = self._velocity_sigma_mps
        velocity_enu_mps = (
            c * ahead_mps - s * left_mps + sigma_e * n[6],
            s * ahead_mps + c * left_mps + sigma_n * n[7],
            up_mps + sigma_u * n[8],
        )
        hdop, vdop = self._dilution(elapsed_ns)
        carrier, satellites, extra_sigma_m = self._carrier, model.satellites, 0.0
        age_s = CORRECTION_LATENCY_S + elapsed_ns % CORRECTION_PERIOD_NS * 1e-9
        corrected = carrier is not CarrierSolution.NONE
        if reception is not None:
            carrier = reception.carrier
            satellites = reception.satellites
            extra_sigma_m = reception.extra_sigma_m
            age_s = reception.correction_age_s
            corrected = corrected and age_s <= model.rtk.correction_timeout_s
            if satellites != model.satellites:
                poorer = sqrt(model.satellites / satellites)
                hdop = min(hdop * poorer, _WORST_DILUTION)
                vdop = min(vdop * poorer, _WORST_DILUTION)
        return arrival_ns, GnssFix(
            t_ns,
            0,
            latitude_rad,
            longitude_rad,
            height_m,
            velocity_enu_mps,
            self._covariance(hdop, vdop, extra_sigma_m),
            NAN9 if model.covariance == "unknown" else self._velocity_covariance_m2ps2,
            FixType.FIX_3D,
            carrier,
            corrected,
            age_s if corrected else NAN,
            satellites,
            hdop,
            vdop,
            t_ns + self._utc_offset_ns,
        )

    def _velocity(self, motion: Motion) -> tuple[float, float, float]:
        """Return the antenna's velocity along the heading, to its left and up: that of the
        reference point plus the rotation.

        Speeds are in the plane of the road, but roll and pitch belong to the body, so the vertical
        speed comes from the heights of this fix and the previous one.
        """
        forward, left, up = self._lever_arm_m
        climb_mps = 0.0 if self._height_m is None else (motion.z_m - self._height_m) * self.rate_hz
        self._height_m = motion.z_m
        if not (
            motion.roll_rad or motion.pitch_rad or motion.roll_rate_radps or motion.pitch_rate_radps
        ):
            return (
                motion.speed_mps - motion.yaw_rate_radps * left,
                motion.lateral_speed_mps + motion.yaw_rate_radps * forward,
                climb_mps,
            )
        rate = (motion.roll_rate_radps, motion.pitch_rate_radps, motion.yaw_rate_radps)
        x, y, z = to_level(
            motion.roll_rad, motion.pitch_rad, lever_velocity(rate, (forward, left, up))
        )
        return (
            motion.speed_mps * cos(motion.pitch_rad) + x,
            motion.lateral_speed_mps * cos(motion.roll_rad) + y,
            climb_mps + z,
        )

    def _dilution(self, elapsed_ns: int) -> tuple[float, float]:
        model = self._model
        if not self._settles:
            return model.hdop, model.vdop
        form = model.airsim
        hdop = form.final_hdop + (form.initial_hdop - form.final_hdop) * exp(
            -elapsed_ns * 1e-9 / form.settling_s
        )
        return min(hdop, _WORST_DILUTION), min(hdop * form.vertical_ratio, _WORST_DILUTION)

    def _covariance(self, hdop: float, vdop: float, extra_sigma_m: float) -> tuple[float, ...]:
        """Return the reported position covariance; cached until an input changes."""
        of = (hdop, vdop, extra_sigma_m)
        if of == self._covariance_of:
            return self._position_covariance_m2
        self._covariance_of = of
        model = self._model
        if model.covariance == "unknown":
            self._position_covariance_m2 = NAN9
            return NAN9
        if self._settles or model.covariance == "hdop":
            metres = model.airsim.user_range_error_m if self._settles else model.user_range_error_m
            horizontal_m2 = (metres * hdop) ** 2
            variances = (horizontal_m2, horizontal_m2, (metres * vdop) ** 2)
        else:
            variances = self._error.variances_m2
        # Include the error of a lost carrier solution.
        extra_m2 = extra_sigma_m * extra_sigma_m
        extra = (extra_m2, extra_m2, extra_m2 * (model.vdop / model.hdop) ** 2)
        self._position_covariance_m2 = _diagonal(
            [max(v + more, _LEAST_SIGMA**2) for v, more in zip(variances, extra)]
        )
        return self._position_covariance_m2

    def _nothing(self, t_ns: int, satellites: int) -> GnssFix:
        """Return an epoch without a position. The receiver's clock goes on."""
        return GnssFix(
            t_ns,
            0,
            NAN,
            NAN,
            NAN,
            NAN3,
            NAN9,
            NAN9,
            FixType.NONE,
            CarrierSolution.NONE,
            False,
            NAN,
            satellites,
            _WORST_DILUTION,
            _WORST_DILUTION,
            t_ns + self._utc_offset_ns,
        )


def _diagonal(variances: list[float]) -> tuple[float, ...]:
    e, n, u = variances
    return (e, 0.0, 0.0, 0.0, n, 0.0, 0.0, 0.0, u)

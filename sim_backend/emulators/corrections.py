"""RTCM messages of an emulated base station. Its observations are noise in sound frames: no
simulated receiver reads them."""

from collections.abc import Callable, Iterable
from math import inf, sqrt

from drivers.rtcm.codec import encode
from vehicled.core.wire.geodesy import geodetic_to_ecef

SIZES = {4: {107: 120, 108: 90, 109: 100, 112: 110}, 7: {107: 180, 108: 130, 109: 150, 112: 160}}
"""Bytes of the observations of each constellation, by the kind of MSM and the first digits of the
type."""
BIASES, BIASES_BYTES = 1230, 8
MOVING_BASE, MOVING_BASE_BYTES = 4072, 60
STATION = 1005
SURVEY_SIGMA_M = 6.0
"""Error of one position of a survey, which its mean reduces."""


def station_message(
    ecef_m: tuple[float, float, float], number: int, *, virtual: bool = False
) -> bytes:
    """Return message 1005 of a station at a place."""
    x, y, z = (round(each * 1e4) & (1 << 38) - 1 for each in ecef_m)
    # Type, station, year 0, GPS alone, virtual; then X, oscillator and a reserved bit, Y, two bits,
    # Z.
    bits = ((((STATION << 12 | number) << 10 | 0b1000 | virtual) << 38 | x) << 40 | y) << 40 | z
    return encode(bits.to_bytes(19, "big"))


def noise_message(kind: int, number: int, size: int, noise: Callable[[int], bytes]) -> bytes:
    """Return a message whose content is noise behind its type and the number of the station."""
    return encode((kind << 12 | number).to_bytes(3, "big") + noise(size))


def content_bytes(kind: int) -> int:
    """Return the bytes of content of a message other than 1005; 0 for one that the emulated
    stations do not send."""
    if kind == MOVING_BASE:
        return MOVING_BASE_BYTES
    return BIASES_BYTES if kind == BIASES else SIZES.get(kind % 10, {}).get(kind // 10, 0)


class EmulatedBase:
    """Base mode of an emulated receiver: a survey that averages its positions, or a fixed position,
    and the messages of both."""

    def __init__(self, noise: Callable[[int], bytes]) -> None:
        self._noise = noise
        self.off()

    def off(self) -> None:
        """Be a rover."""
        self.place: tuple[float, float, float] | None = None
        """Position of the station; None while it is not known."""
        self.surveys = False
        self._least_s, self._limit_m = 0.0, 0.0
        self._begin_ms: int | None = None
        self._sum = [0.0, 0.0, 0.0]
        self.observations = 0
        self.seconds = 0

    def survey(self, least_s: float, limit_m: float = inf) -> None:
        """Begin a survey, which ends after ``least_s`` at an error of ``limit_m``."""
        self.off()
        self.surveys, self._least_s, self._limit_m = True, least_s, limit_m

    def fix(self, ecef_m: tuple[float, float, float]) -> None:
        """Take a given position."""
        self.off()
        self.place = ecef_m

    @property
    def mean(self) -> tuple[float, float, float]:
        """Mean of the surveyed positions; 0 before the first."""
        x, y, z = (each / max(self.observations, 1) for each in self._sum)
        return x, y, z

    @property
    def sigma_m(self) -> float:
        """Error of the mean."""
        return SURVEY_SIGMA_M / sqrt(max(self.observations, 1))

    def on_instant(self, gps_ms: int, position: tuple[float, float, float] | None) -> None:
        """Take an epoch with latitude, longitude and height, rad and m, if it has a position."""
        if not self.surveys or position is None:
            return
        if self._begin_ms is None:
            self._begin_ms = gps_ms
        self.seconds = (gps_ms - self._begin_ms) // 1000
        for axis, value in enumerate(geodetic_to_ecef(*position)):
            self._sum[axis] += value
        self.observations += 1
        if self.seconds >= self._least_s and self.sigma_m <= self._limit_m:
            self.surveys, self.place = False, self.mean

    def messages(self, kinds: Iterable[int], station: int) -> list[bytes]:
        """Return the messages of these types; that of the station only once its position is
        known."""
        frames = []
        for kind in sorted(kinds):
            if kind == STATION and self.place is not None:
                frames.append(station_message(self.place, station))
            elif size := content_bytes(kind):
                frames.append(noise_message(kind, station, size, self._noise))
        return frames

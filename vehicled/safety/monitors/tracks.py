"""Track of a body that may move, from the middle of its points in consecutive scans.

A Kalman filter of constant velocity (Bar-Shalom, Li and Kirubarajan 2001, section 6.2).
"""

from math import hypot, sqrt

SURE_SIGMAS = 3.0
SURE_S = 0.3
"""A body moves if its speed is that many standard deviations, and it has been followed for so
long."""


class BodyTrack:
    """Kalman filter of the middle of a body, with one covariance for both axes."""

    def __init__(
        self,
        t_s: float,
        x_m: float,
        y_m: float,
        extent_m: float,
        sigma_m: float,
        speed_sigma_mps: float,
    ) -> None:
        self.t_s, self.first_s, self.seen_s = t_s, t_s, t_s
        self.x, self.y, self.vx, self.vy = x_m, y_m, 0.0, 0.0
        self._first_m, self._first_extent_m, self.extent_m = (x_m, y_m), extent_m, extent_m
        self._pp, self._pv, self._vv = sigma_m * sigma_m, 0.0, speed_sigma_mps * speed_sigma_mps

    def predict(self, t_s: float, density: float) -> None:
        """Predict to a time, with white noise of the acceleration."""
        dt = max(t_s - self.t_s, 0.0)
        self.t_s = max(self.t_s, t_s)
        self.x, self.y = self.x + self.vx * dt, self.y + self.vy * dt
        q = density * density
        self._pp += 2.0 * dt * self._pv + dt * dt * self._vv + q * dt**3 / 3.0
        self._pv += dt * self._vv + q * dt * dt / 2.0
        self._vv += q * dt

    def correct(self, x_m: float, y_m: float, extent_m: float, sigma_m: float) -> None:
        """Correct by the middle and the extent of a segment."""
        self.seen_s, self.extent_m = self.t_s, extent_m
        total = self._pp + sigma_m * sigma_m
        gain, gain_v = self._pp / total, self._pv / total
        dx, dy = x_m - self.x, y_m - self.y
        self.x = self.x + gain * dx
        self.y = self.y + gain * dy
        self.vx = self.vx + gain_v * dx
        self.vy = self.vy + gain_v * dy
        self._pp, self._pv, self._vv = (
            (1.0 - gain) * self._pp,
            (1.0 - gain) * self._pv,
            self._vv - gain_v * self._pv,
        )

    def deviation(self, t_s: float, x_m: float, y_m: float, sigma_m: float) -> float:
        """Return how far a measurement lies from the predicted place, in standard deviations."""
        dt = max(t_s - self.t_s, 0.0)
        variance = self._pp + 2.0 * dt * self._pv + dt * dt * self._vv + sigma_m * sigma_m
        return hypot(x_m - self.x - self.vx * dt, y_m - self.y - self.vy * dt) / sqrt(variance)

    @property
    def speed_sigma_mps(self) -> float:
        """Standard deviation of each component of the velocity, m/s."""
        return sqrt(max(self._vv, 0.0))

    def moves(self, least_mps: float, least_m: float) -> bool:
        """Return True if the body surely moves: fast enough, and further than a wall that comes
        into view seems to move."""
        if self.t_s - self.first_s < SURE_S or hypot(self.vx, self.vy) <= max(
            SURE_SIGMAS * self.speed_sigma_mps, least_mps
        ):
            return False
        return self.moved_m > least_m + abs(self.extent_m - self._first_extent_m)

    @property
    def moved_m(self) -> float:
        """Distance from where it was seen first."""
        return hypot(self.x - self._first_m[0], self.y - self._first_m[1])

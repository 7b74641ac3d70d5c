"""``[devices.NAME.noise]``: noise that is added to what a sensor has measured, so that one sensor
imitates another, such as motion capture a GNSS receiver."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.profile.gnss import InnerWalk, RandomWalk, SimulatorWalk, WhiteError
from vehicled.profile.table import Rate, Table

NOISED = frozenset({"GnssFix", "Heading", "MapPose"})
"""Messages that noise can be added to."""
PositionForm = Literal[
    "none", "gauss", "walk", "random_walk", "art_inner", "art_simulator", "art_judge"
]


class CorrelatedError(Table, frozen=True, kw_only=True):
    """``walk``: white noise plus a first-order Gauss-Markov process per axis."""

    sigma_m: NonNegative = 0.1
    """White noise, m per horizontal axis."""
    walk_sigma_m: NonNegative = 0.3
    """Standard deviation of the coloured part, m per horizontal axis."""
    walk_time_s: Positive = 30.0
    """Correlation time of the coloured part, s."""


class SensorNoise(Table, frozen=True, kw_only=True):
    """Noise of one sensor. It advances with the time of the measurements, however often they are
    read, and is added only while ``inject_noise`` of the profile is true."""

    position: PositionForm = "none"
    """Form of the position error. ``art_inner`` is what was added to motion capture indoors on the
    ART vehicle, 2023."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Seed of the noise; runs with equal seeds have the same."""
    gauss: WhiteError = field(default_factory=WhiteError)
    """Parameters of ``gauss``."""
    walk: CorrelatedError = field(default_factory=CorrelatedError)
    """Parameters of ``walk``."""
    random_walk: RandomWalk = field(default_factory=RandomWalk)
    """Parameters of ``random_walk``."""
    art_inner: InnerWalk = field(default_factory=InnerWalk)
    """Parameters of ``art_inner``."""
    art_simulator: SimulatorWalk = field(default_factory=SimulatorWalk)
    """Parameters of ``art_simulator``."""
    art_judge: RandomWalk = field(default_factory=RandomWalk)
    """Parameters of ``art_judge``."""
    step_m: NonNegative = 0.0
    """Step to which east and north are rounded; 0: none."""
    velocity_sigma_mps: NonNegative = 0.0
    """White noise of the velocity of fixes, m/s per axis."""
    yaw_sigma_rad: NonNegative = 0.0
    """White noise of the yaw, rad."""
    yaw_drift_rad: NonNegative = 0.0
    """Standard deviation of the coloured error of the yaw, rad."""
    yaw_drift_s: Positive = 30.0
    """Correlation time of the coloured error of the yaw, s."""
    yaw_step_rad: NonNegative = 0.0
    """Step to which the yaw is rounded; 0: none."""
    delay_s: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.0
    """Time by which messages come later; their stamps stay, s."""
    rate_hz: Rate | None = None
    """Most messages of a type per second; left out: all."""
    declared: bool = True
    """Add the variance of the noise to the covariance that the sensor states. False: it does not
    know its error."""

    def described(self) -> str:
        """Return what is added, in words; empty for nothing."""
        parts = [f"position {self.position}"] if self.position != "none" else []
        parts += [
            f"{name} {value:g}"
            for name, value in (
                ("step_m", self.step_m),
                ("velocity_sigma_mps", self.velocity_sigma_mps),
                ("yaw_sigma_rad", self.yaw_sigma_rad),
                ("yaw_drift_rad", self.yaw_drift_rad),
                ("yaw_step_rad", self.yaw_step_rad),
                ("delay_s", self.delay_s),
                ("rate_hz", self.rate_hz or 0.0),
            )
            if value
        ]
        return ", ".join(parts)


def injected(profile: Any) -> str:
    """Return the noise that a profile injects, by device; empty if it injects none."""
    if not profile.inject_noise:
        return ""
    return "; ".join(
        f"{name}: {text}"
        for name, device in profile.devices.items()
        if device.noise is not None and (text := device.noise.described())
    )

"""Tuning of the identifier."""

from typing import Annotated

from msgspec import Meta, Struct

from vehicled.core.vehicle import NonNegative, Positive

Ratio = Annotated[float, Meta(gt=1.0)]


class IdentifierParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. ``*_prior`` is the error of the profile (one sigma), ``*_density`` the random walk of
    the parameter (per root s)."""

    steering: bool = True
    drive: bool = True

    gain_prior: Positive = 0.5
    """Relative to the profile's gain: between two campaigns the gain of one vehicle halved."""
    gain_density: NonNegative = 0.012
    """Relative to the profile's gain; acts only while turning. A change is followed within 10 s of
    turning."""
    gain_bounds: Ratio = 3.0
    """Bound of the ratio between gain and profile, either way; beyond it the linkage is broken."""
    offset_prior_rad: Positive = 0.02
    offset_density_rad: NonNegative = 0.003
    """Acts only while moving. Fast enough (seconds) to follow slack and camber, which act as an
    offset."""
    offset_bound_rad: Positive = 0.1
    delay_prior_s: Positive = 0.1
    max_delay_s: Annotated[float, Meta(ge=0.1, le=1.5)] = 0.8
    """Longest steering delay of the bank."""
    dead_zones: tuple[Annotated[float, Meta(ge=0.0, lt=0.9)], ...] = (0.03, 0.06, 0.1, 0.2)
    """Dead zones tried besides the profile's."""
    dead_zone_evidence: NonNegative = 2.0
    """Log odds for the profile's dead zone against one that differs by 0.1 or more, proportional
    below. Slack of a linkage hides small commands like a dead zone, so without a prior the data
    favour a dead zone."""
    memory_s: Positive = 60.0
    """Time constant, in seconds of turning, with which the evidence for a delay fades."""
    window_s: Annotated[float, Meta(ge=0.2, le=2.0)] = 0.3
    """Interval over which turn and commands are compared. A short one gives results sooner and does
    not average out changing turns.
    """
    wheel_sigma_rad: Positive = 0.014
    """Error of the single-track model as a wheel angle, mean over a window."""
    correlation_s: Positive = 1.5
    """Correlation time of that error under a constant command: a long bend gives as much
    information as a short one."""
    correlation_command: Positive = 0.7
    """Change of the command over which that error is correlated, because it belongs to the linkage
    at one angle."""
    evidence_s: Positive = 1.0
    """Time that counts as one independent sample for delay and dead zone."""
    gyro_sigma_radps: Positive = 0.02
    heading_sigma_rad: Positive = 0.01
    """Sigma of a heading that reports none."""
    min_speed_mps: Positive = 0.2
    """Lowest speed for learning."""
    max_lateral_mps2: Positive = 5.0
    """Highest lateral acceleration for learning; beyond it the tyres slip, unlike the model."""

    authority_prior: Positive = 0.3
    """Relative to the profile's, as are the damping and both densities."""
    damping_prior: Positive = 0.5
    friction_prior_mps2: Positive = 1.0
    authority_density: NonNegative = 0.002
    damping_density: NonNegative = 0.002
    friction_density_mps2: NonNegative = 0.1
    """Battery, slope and ground show here first, within a second or two."""
    drive_bounds: Ratio = 4.0
    """Bound of the ratio between authority or damping and the profile's, either way."""
    drive_window_s: Annotated[float, Meta(ge=0.1, le=2.0)] = 0.3
    speed_sigma_mps: Positive = 0.1
    """Error of the estimated speed, at either end of a window."""

    chord_m: Positive = 1.5
    """Distance over which wheel scale and heading misalignment are compared with estimated
    positions."""
    scale_prior: Positive = 0.2
    scale_density: NonNegative = 0.001
    scale_bound: Ratio = 2.0
    misalignment_prior_rad: Positive = 0.3
    misalignment_density_rad: NonNegative = 0.003
    chord_sigma_rad: Positive = 0.02
    """Difference between a chord's direction and the mean heading along it: slip, changing turn
    rate."""

    period_s: Annotated[float, Meta(ge=0.5, le=60.0)] = 0.5
    """Shortest time between two reports."""

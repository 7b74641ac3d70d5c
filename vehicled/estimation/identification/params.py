"""Tuning of the identifier."""

from typing import Annotated

from msgspec import Meta, Struct

from vehicled.vehicle import NonNegative, Positive

Ratio = Annotated[float, Meta(gt=1.0)]


class IdentifierParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. ``*_prior`` is how far the profile may be wrong (one sigma), ``*_density`` how fast truth wanders (per root s)."""

    steering: bool = True
    drive: bool = True

    gain_prior: Positive = 0.5
    """Of the gain, as a share of the profile's: between two campaigns on one vehicle it halved."""
    gain_density: NonNegative = 0.012
    """Share of the profile's gain; counts only while turning. Followed within 10 s of turning."""
    gain_bounds: Ratio = 3.0
    """The gain stays between the profile's divided by this and times this: beyond it the linkage is broken."""
    offset_prior_rad: Positive = 0.02
    offset_density_rad: NonNegative = 0.003
    """Counts only while moving. Fast enough (seconds) to follow slack and camber as well, which act as an offset."""
    offset_bound_rad: Positive = 0.1
    delay_prior_s: Positive = 0.1
    max_delay_s: Annotated[float, Meta(ge=0.1, le=1.5)] = 0.8
    """Longest steering delay of the bank."""
    dead_zones: tuple[Annotated[float, Meta(ge=0.0, lt=0.9)], ...] = (0.03, 0.06, 0.1, 0.2)
    """Tried beside the profile's."""
    dead_zone_evidence: NonNegative = 2.0
    """Log odds for the profile's dead zone against one that differs by a tenth or more, in proportion below. Slack of a linkage
    swallows small commands just as a dead zone does, and the turn is predicted better by calling it one."""
    memory_s: Positive = 60.0
    """Seconds of turning within which the evidence for a delay fades."""
    window_s: Annotated[float, Meta(ge=0.2, le=2.0)] = 0.3
    """The turn over this long is compared with the commands: short, for it begins to tell that much sooner, and turns that change
    within it are not averaged out."""
    wheel_sigma_rad: Positive = 0.014
    """Error of the single-track model in wheel angle, mean over a window."""
    correlation_s: Positive = 1.5
    """Time over which that error stays the same under an unchanged command: a bend teaches a gain once, however long it is."""
    correlation_command: Positive = 0.7
    """Change of the command over which it stays the same: the error is one of the linkage at that angle."""
    evidence_s: Positive = 1.0
    """Time that counts as one independent piece of evidence for a delay or a dead zone."""
    gyro_sigma_radps: Positive = 0.02
    heading_sigma_rad: Positive = 0.01
    """For a heading that comes without sigma."""
    min_speed_mps: Positive = 0.2
    """Slower than this nothing is learnt."""
    max_lateral_mps2: Positive = 5.0
    """Harder turns slip, which the single-track model does not know."""

    authority_prior: Positive = 0.3
    """As a share of the profile's, as the next ones."""
    damping_prior: Positive = 0.5
    friction_prior_mps2: Positive = 1.0
    authority_density: NonNegative = 0.002
    damping_density: NonNegative = 0.002
    friction_density_mps2: NonNegative = 0.1
    """Battery, slope and ground all show here first, within a second or two."""
    drive_bounds: Ratio = 4.0
    """Authority and damping stay between the profile's divided by this and times this."""
    drive_window_s: Annotated[float, Meta(ge=0.1, le=2.0)] = 0.3
    speed_sigma_mps: Positive = 0.1
    """Error of the estimated speed, at either end of a window."""

    chord_m: Positive = 1.5
    """Way over which wheel scale and heading misalignment are compared with the estimated positions."""
    scale_prior: Positive = 0.2
    scale_density: NonNegative = 0.001
    scale_bound: Ratio = 2.0
    misalignment_prior_rad: Positive = 0.3
    misalignment_density_rad: NonNegative = 0.003
    chord_sigma_rad: Positive = 0.02
    """Slip and uneven turning: direction of a chord against the mean heading along it."""

    period_s: Annotated[float, Meta(ge=0.5, le=60.0)] = 0.5
    """Shortest time between two answers."""

"""``[sim.gnss]``: receiver of the twin with its position error, reported accuracy and zones of bad
reception."""

from typing import Annotated, Literal

from msgspec import Meta, field

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.profile.table import Rate, Table

Point = Annotated[list[float], Meta(min_length=2, max_length=2)]
HoldShare = Annotated[float, Meta(ge=0.0, le=0.95)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e6)]
ErrorModel = Literal[
    "walk", "gauss", "random_walk", "airsim", "gauss_airsim", "random_walk_airsim", "art_inner",
    "art_simulator", "art_judge", "recorded", "replayed",
]  # fmt: skip


class WhiteError(Table, frozen=True, kw_only=True):
    """``gauss``: errors independent from fix to fix. Number of system VEPD, 2024."""

    sigma_m: NonNegative = 0.03
    """Standard deviation of the error, m per horizontal axis."""


class RandomWalk(Table, frozen=True, kw_only=True):
    """A random walk in the second derivative, pulled to zero, and cut. Per axis and step:

    a from N(-pull sigma clip(p / pull_range_m, 1), sigma); v += a step_s; p += v step_s. The
    numbers are what ran as VEPD's random walk, and in the later simulator of the ART vehicle.
    """

    rate_hz: Rate = 100.0
    """Rate of the steps, independent of the rate of the fixes, Hz."""
    sigma: NonNegative = 0.047
    """Standard deviation of the acceleration's noise, m per ``step_s`` squared."""
    pull: NonNegative = 0.2
    """Largest mean of the drawn acceleration, over sigma."""
    pull_range_m: Positive = 1.0
    """Distance at which the pull to zero is full, m."""
    acceleration_cut: NonNegative = 0.152
    """Largest acceleration, in the unit of ``sigma``."""
    speed_cut: NonNegative = 0.016
    """Largest speed of the error, m per ``step_s``."""
    step_s: Positive = 0.01
    """1 where speed and acceleration are counted per step."""
    settled_sigma_m: NonNegative = 0.103
    """Standard deviation in the steady state, by simulation of the walk; the receiver reports
    it."""


class InnerWalk(RandomWalk, frozen=True, kw_only=True):
    """Random walk used indoors on the ART vehicle, 2023."""

    rate_hz: Rate = 50.0
    sigma: NonNegative = 0.016289174978068626
    pull: NonNegative = 0.15
    pull_range_m: Positive = 0.25
    acceleration_cut: NonNegative = 5.46875e-4
    speed_cut: NonNegative = 0.005
    step_s: Positive = 1.0
    settled_sigma_m: NonNegative = 0.25


class SimulatorWalk(InnerWalk, frozen=True, kw_only=True):
    """Random walk of the ART vehicle's simulator, 2023."""

    rate_hz: Rate = 1.0
    acceleration_cut: NonNegative = 0.005
    speed_cut: NonNegative = 0.03
    settled_sigma_m: NonNegative = 0.94


class Settling(Table, frozen=True, kw_only=True):
    """``airsim``: dilution that settles after switch-on, ``H' = a H + (1 - a) final_hdop``, ``a =
    exp(-dt / settling_s)``. The reported covariance follows it. Numbers of system VEPD, 2024."""

    initial_hdop: Positive = 100.0
    """Dilution at switch-on."""
    final_hdop: Positive = 0.85
    """Dilution in the steady state."""
    settling_s: Positive = 12.4
    """Time constant, s."""
    user_range_error_m: Positive = 0.02
    """Error per unit of dilution, m."""
    vertical_ratio: Positive = 2.0
    """Vertical over horizontal dilution."""


class RecordedError(Table, frozen=True, kw_only=True):
    """``recorded``: a receiver as ``vehicled sensors fit`` finds it. White noise, plus a
    first-order Gauss-Markov process, plus one of second order (autocorrelation ``(1 + t / T) exp(-t
    / T)``), and what interrupts the fixes. The numbers are those of plain GNSS against RTK on
    twelve laps of the ART vehicle, except ``wander_time_s``, which laps of 150 s do not show."""

    white_sigma_m: NonNegative = 0.016
    """Sigma of the white noise, m per horizontal axis."""
    wander_sigma_m: NonNegative = 0.95
    """Sigma of the first-order process, m per horizontal axis."""
    wander_time_s: Positive = 100.0
    """Correlation time of the first-order process, s."""
    smooth_sigma_m: NonNegative = 1.05
    """Sigma of the second-order process, m per horizontal axis."""
    smooth_time_s: Positive = 16.4
    """Time constant of the second-order process, s."""
    step_m: NonNegative = 0.0
    """Step to which east and north are rounded; 0: none."""
    hold_share: HoldShare = 0.0
    """Part of the fixes that repeat the position of the one before, until it jumps to where it
    should be."""
    hold_s: Positive = 1.0
    """Mean duration of such a hold."""
    outages_per_hour: NonNegative = 0.0
    """Outages per hour."""
    outage_s: Positive = 1.0
    """Mean duration of an outage; durations are exponential."""


class ReplayedError(Table, frozen=True, kw_only=True):
    """``replayed``: the error of a recorded receiver itself, as ``vehicled sensors fit --errors
    FILE`` writes it."""

    file: str = ""
    """CSV file with the columns run, t_s, east_m, north_m. The path is relative to the profile."""
    run: str = ""
    """Run of the file; empty: the seed chooses one."""


class Rtk(Table, frozen=True, kw_only=True):
    """Loss and recovery of the carrier solution in zones, and the larger position error
    meanwhile."""

    float_sigma_m: NonNegative = 0.3
    """Additional error while the solution is floating, per horizontal axis."""
    none_sigma_m: NonNegative = 1.2
    """Additional error without a carrier solution, per horizontal axis."""
    wander_time_s: Positive = 20.0
    """Correlation time of these two errors."""
    reacquire_s: Seconds = 3.0
    """Time from reception of satellites to a position."""
    float_after_s: Seconds = 5.0
    """Time from a position to a floating solution."""
    fixed_after_s: Seconds = 15.0
    """Time from a floating to a fixed solution."""
    float_age_s: Positive = 20.0
    """Age of corrections from which the solution is no longer fixed."""
    correction_timeout_s: Positive = 60.0
    """Age from which corrections are not used."""


class GnssZone(Table, frozen=True, kw_only=True):
    """Zone of bad reception: a circle, a polygon or everywhere, from ``from_s`` to ``until_s`` of
    the run.

    ``no_fix``: no position. ``no_carrier``: a position without carrier solution. ``float``: the
    solution cannot be fixed. ``no_corrections``: none arrive. ``multipath``: the position has an
    error that depends on the place.
    """

    effect: Literal["no_fix", "no_carrier", "float", "no_corrections", "multipath"]
    """Effect on the receiver, see above."""
    center_m: Point | None = None
    """East, north in ``map``."""
    radius_m: Positive | None = None
    """Radius of a circle, m."""
    corners_m: Annotated[list[Point], Meta(min_length=3, max_length=10_000)] | None = None
    """Corners of a polygon, m east and north in ``map``."""
    from_s: Seconds = 0.0
    """Begin, s of the run."""
    until_s: Seconds = 1e6
    """End, s of the run."""
    bias_m: NonNegative = 1.0
    """Multipath: standard deviation of the bias over places, per horizontal axis."""
    correlation_m: Positive = 5.0
    """Multipath: correlation length of the bias."""
    satellites_lost: Annotated[int, Meta(ge=0, le=60)] = 0
    """Satellites that are hidden."""

    def __post_init__(self) -> None:
        if (self.center_m is None) != (self.radius_m is None):
            raise ValueError("a circle has both center_m and radius_m: write the other one too")
        if self.center_m is not None and self.corners_m is not None:
            raise ValueError(
                "a zone is a circle or a polygon: remove center_m and radius_m, or corners_m"
            )
        if self.until_s <= self.from_s:
            raise ValueError(f"until_s = {self.until_s:g} is not after from_s = {self.from_s:g}")


class GnssModel(Table, frozen=True, kw_only=True):
    """Receiver of the twin. ``model`` names the position error; each has a table of its own, but
    for ``walk``: white noise plus a first-order Gauss-Markov walk, whose numbers stand here."""

    model: ErrorModel = "walk"
    """Model of the position error."""
    rate_hz: Rate = 10.0
    """Fixes per second, Hz."""
    latency_ms: NonNegative = 60.0
    """Time from the measurement to its last byte, ms."""
    latency_jitter_ms: NonNegative = 5.0
    """Standard deviation of the latency, ms."""
    carrier: Literal["none", "float", "fixed"] = "fixed"
    """Best possible solution; zones degrade it."""
    sigma_m: NonNegative = 0.01
    """White noise of ``walk``, per horizontal axis."""
    walk_sigma_m: NonNegative = 0.01
    """Standard deviation of the coloured part of ``walk``, per horizontal axis."""
    walk_time_s: Positive = 60.0
    """Correlation time of the coloured part of ``walk``."""
    velocity_sigma_mps: NonNegative = 0.03
    """White noise of the velocity, m/s per axis."""
    satellites: Annotated[int, Meta(ge=0, le=60)] = 24
    """Satellites used without obstruction."""
    hdop: Positive = 0.7
    """Horizontal dilution of precision."""
    vdop: Positive = 1.1
    """Vertical dilution of precision."""
    covariance: Literal["error", "hdop", "unknown"] = "error"
    """Reported covariance: the variance of the error, the square of dilution times
    ``user_range_error_m``, or none."""
    user_range_error_m: Positive = 0.02
    """Error per unit of dilution, m, for ``covariance = "hdop"``."""
    gauss: WhiteError = field(default_factory=WhiteError)
    """Parameters of ``gauss``."""
    random_walk: RandomWalk = field(default_factory=RandomWalk)
    """Parameters of ``random_walk``."""
    art_inner: InnerWalk = field(default_factory=InnerWalk)
    """Parameters of ``art_inner``."""
    art_simulator: SimulatorWalk = field(default_factory=SimulatorWalk)
    """Parameters of ``art_simulator``."""
    art_judge: RandomWalk = field(default_factory=RandomWalk)
    """Parameters of ``art_judge``."""
    airsim: Settling = field(default_factory=Settling)
    """Parameters of ``airsim``."""
    recorded: RecordedError = field(default_factory=RecordedError)
    """Parameters of ``recorded``."""
    replayed: ReplayedError = field(default_factory=ReplayedError)
    """Parameters of ``replayed``."""
    rtk: Rtk = field(default_factory=Rtk)
    """Loss and recovery of the carrier solution."""
    zones: list[GnssZone] = field(default_factory=list)
    """Zones of bad reception."""
    zones_file: str = ""
    """GeoJSON of further zones: each Polygon is a zone, its properties are the keys of a zone. The
    path is relative to the profile.
    """

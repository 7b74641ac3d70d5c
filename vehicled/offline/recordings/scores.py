"""Errors of a track against the ground truth of its recording."""

from collections.abc import Collection

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from vehicled.core.arrays import Array, wrapped
from vehicled.core.messages import Heading
from vehicled.offline.recordings import least_squares, smoothing
from vehicled.offline.recordings.least_squares import SteeringFit
from vehicled.offline.recordings.outages import Outage, outages
from vehicled.offline.recordings.prediction import RecordedCommands, predict
from vehicled.offline.recordings.recording import (
    RecordedMotion,
    Recording,
    Times,
    Track,
    held,
    seconds,
)

HORIZON_NS = 1_000_000_000
MOVING_MPS = 0.3
"""Open-loop predictions start while the vehicle moves faster than this: a standing one is no feat
to predict."""
SIGMAS3_PAIR = 11.829
"""Chi-square with two degrees of freedom at the probability of 3 sigma, 0.9973."""
MATCH_NS = 60_000_000
"""A prediction ends at the row nearest to its horizon; without one this near there is no truth for
it."""


class ErrorSpread(Struct, frozen=True, kw_only=True):
    """Statistics of errors. NaN without any."""

    mean: float
    rms: float
    max: float
    count: int

    @classmethod
    def of(cls, errors: Array) -> "ErrorSpread":
        """Statistics of the absolute values of the finite values."""
        e = np.abs(errors[np.isfinite(errors)])
        if not len(e):
            return cls(mean=np.nan, rms=np.nan, max=np.nan, count=0)
        return cls(
            mean=float(e.mean()),
            rms=float(np.sqrt((e * e).mean())),
            max=float(e.max()),
            count=len(e),
        )


class PoseErrors(Struct, frozen=True, kw_only=True):
    """Errors of one source of poses: the estimate, the measurement or the published filter. None:
    it says nothing of the kind."""

    position_m: ErrorSpread | None = None
    heading_rad: ErrorSpread | None = None
    speed_mps: ErrorSpread | None = None


class Bridge(Struct, frozen=True, kw_only=True):
    """An outage of RTK, and how far the prediction was from the first fix after it."""

    duration_s: float
    error_m: float


class Beyond(Struct, frozen=True, kw_only=True):
    """Fraction of the rows whose error is beyond 3 sigma of the estimate: 0.003 if errors are
    normal and the filter is consistent. NaN without a row.
    """

    position: float
    """Judged by the Mahalanobis distance of east and north, at the same probability."""
    heading: float
    speed: float


class Score(Struct, frozen=True, kw_only=True):
    """One recording, judged. Rows count where the truth, the estimate and the measurement are
    known."""

    name: str
    kind: str
    estimator: str
    duration_s: float
    known: float
    """Share of the rows that could be judged, measurement known, for which the estimator gave a
    position."""
    estimate: PoseErrors
    raw: PoseErrors
    published: PoseErrors
    beyond: Beyond | None = None
    steady_speed_mps: ErrorSpread | None = None
    """Speed error of the estimate, without rows whose true speed is disturbed by a jump of the
    receiver."""
    bridges: list[Bridge] = field(default_factory=list)
    ahead_position_m: ErrorSpread | None = None
    """One-second open-loop prediction, by what was identified until its start."""
    ahead_yaw_rad: ErrorSpread | None = None
    ahead_turn_rad: ErrorSpread | None = None
    """The same of the change of yaw within that second: what remains when the heading at the start
    is forgiven."""
    identified: SteeringFit | None = None
    """Steering at the end of the drive; ``r2`` is NaN. None where nothing was identified."""
    least_squares: SteeringFit | None = None
    rejected: int = 0


def ahead_of(recording: Recording) -> list[int]:
    """Return the steps at which the prediction must be known before the fix: the first fix after
    each outage of RTK."""
    return [outage.fix_ns for outage in outages(recording)]


def score(
    recording: Recording,
    track: Track,
    estimator: str,
    bridged: tuple[Recording, Track] | None = None,
) -> Score:
    """Judge a track; it must have been run with ``ahead_of(recording)`` for outages to count.

    ``bridged`` is another run of the same drive with RTK withheld: only these outages are counted
    then, not the drive's own.
    """
    truth = recording.truth
    measured = np.isfinite(recording.raw_x_m) & np.isfinite(truth.x_m)
    estimated = np.isfinite(track.x_m)
    rows = measured & estimated
    beside = rows if rows.any() else measured
    position, yaw, turn = ahead_errors(recording, track)
    return Score(
        name=recording.name,
        kind=recording.kind,
        estimator=estimator,
        duration_s=float(truth.t_ns[-1] - truth.t_ns[0]) * 1e-9,
        known=float(rows.sum() / max(measured.sum(), 1)),
        estimate=_errors(truth, rows, track),
        raw=_errors(
            truth,
            beside,
            RecordedMotion.partly(
                truth.t_ns,
                x_m=recording.raw_x_m,
                y_m=recording.raw_y_m,
                yaw_rad=measured_yaw(recording),
            ),
        ),
        published=_errors(truth, beside, recording.published),
        beyond=_beyond(truth, track),
        steady_speed_mps=_spread(
            np.where(
                smoothing.near_jump(seconds(truth.t_ns - truth.t_ns[0]), truth.x_m, truth.y_m),
                np.nan,
                track.speed_mps - truth.speed_mps,
            )
        ),
        bridges=_bridges(*bridged, own=outages(recording))
        if bridged
        else _bridges(recording, track),
        ahead_position_m=_spread(position),
        ahead_yaw_rad=_spread(yaw),
        ahead_turn_rad=_spread(turn),
        identified=identified(track),
        least_squares=least_squares.steering(recording),
        rejected=track.rejected,
    )


def ahead_errors(
    recording: Recording, track: Track, horizon_ns: int = HORIZON_NS
) -> tuple[Array, Array, Array]:
    """Errors of position (m), yaw and turn (rad) of the prediction begun at each step, each (n,);
    NaN without truth at its end."""
    truth = recording.truth
    n = len(truth.t_ns)
    end = nearest(truth.t_ns, truth.t_ns + horizon_ns)
    lasts_ns = truth.t_ns[end] - truth.t_ns
    with np.errstate(invalid="ignore"):
        starts = np.flatnonzero(
            (np.abs(lasts_ns - horizon_ns) <= MATCH_NS)
            & np.isfinite(track.x_m)
            & (truth.speed_mps > MOVING_MPS)
        )
    position, yaw, turn = (np.full(n, np.nan) for _ in range(3))
    if not len(starts):
        return position, yaw, turn
    state = np.stack([track.x_m, track.y_m, track.yaw_rad, track.speed_mps], axis=1)[starts]
    vehicles = [track.vehicles[k] for k in starts.tolist()]
    found = predict(
        vehicles,
        RecordedCommands.of(recording.inputs),
        truth.t_ns[starts],
        state,
        seconds(lasts_ns[starts]),
    )
    goal = end[starts]
    position[starts] = np.hypot(found[:, 0] - truth.x_m[goal], found[:, 1] - truth.y_m[goal])
    yaw[starts] = wrapped(found[:, 2] - truth.yaw_rad[goal])
    turn[starts] = wrapped(
        found[:, 2] - state[:, 2] - (truth.yaw_rad[goal] - truth.yaw_rad[starts])
    )
    return position, yaw, turn


def identified(track: Track) -> SteeringFit | None:
    """Return the identified steering parameters at the end."""
    if not track.identified or not np.isfinite(track.identified[-1].steering_gain_sigma_rad):
        return None
    last = track.identified[-1]
    return SteeringFit(
        gain_rad=last.steering_gain_rad,
        offset_rad=last.steering_offset_rad,
        delay_s=last.steering_delay_s,
        r2=np.nan,
    )


def measured_yaw(recording: Recording) -> Array | None:
    """Measured heading in force at each step, NaN before the first; None where none is measured."""
    headings = [m for m in recording.inputs if isinstance(m, Heading)]
    if not headings:
        return None
    return held(
        recording.truth.t_ns, [m.t_rx_ns for m in headings], np.array([m.yaw_rad for m in headings])
    )


def nearest(t_ns: Times, wanted_ns: Times) -> NDArray[np.intp]:
    """Index of the row nearest in time, for each of the wanted times."""
    right = (
        np.clip(np.searchsorted(t_ns, wanted_ns), 1, max(len(t_ns) - 1, 1))
        if len(t_ns) > 1
        else np.zeros(len(wanted_ns), int)
    )
    if len(t_ns) < 2:
        return np.asarray(right, dtype=np.intp)
    left = right - 1
    return np.where(np.abs(t_ns[left] - wanted_ns) <= np.abs(t_ns[right] - wanted_ns), left, right)


def _spread(errors: Array) -> ErrorSpread | None:
    found = ErrorSpread.of(errors)
    return found if found.count else None


def _errors(truth: RecordedMotion, rows: NDArray[np.bool_], motion: RecordedMotion) -> PoseErrors:
    return PoseErrors(
        position_m=_spread(
            np.where(rows, np.hypot(motion.x_m - truth.x_m, motion.y_m - truth.y_m), np.nan)
        ),
        heading_rad=_spread(wrapped(motion.yaw_rad - truth.yaw_rad)),
        speed_mps=_spread(motion.speed_mps - truth.speed_mps),
    )


def _bridges(recording: Recording, track: Track, own: Collection[Outage] = ()) -> list[Bridge]:
    index = {int(t_ns): k for k, t_ns in enumerate(track.t_ns)}
    found = []
    for outage in outages(recording):
        if outage in own:
            continue
        k = index.get(outage.fix_ns)
        if k is not None and np.isfinite(track.ahead_x_m[k]):
            error_m = float(
                np.hypot(track.ahead_x_m[k] - outage.x_m, track.ahead_y_m[k] - outage.y_m)
            )
            found.append(Bridge(duration_s=outage.duration_s, error_m=error_m))
    return found


def _beyond(truth: RecordedMotion, track: Track) -> Beyond:
    """Compare errors with the covariance, where truth and estimate are known; the heading only
    while the vehicle moves.

    An error with a variance of zero, or with a covariance that is none, is beyond.
    """
    C = track.covariance
    x, y = track.x_m - truth.x_m, track.y_m - truth.y_m
    yaw, speed = wrapped(track.yaw_rad - truth.yaw_rad), track.speed_mps - truth.speed_mps
    determinant = C[:, 0, 0] * C[:, 1, 1] - C[:, 0, 1] ** 2
    distance2 = (
        C[:, 1, 1] * x * x - 2.0 * C[:, 0, 1] * x * y + C[:, 0, 0] * y * y
    )  # times the determinant
    with np.errstate(invalid="ignore"):
        far = (distance2 > SIGMAS3_PAIR * determinant) | (
            (determinant <= 0.0) & (np.hypot(x, y) > 0.0)
        )
        turned, faster = yaw * yaw > 9.0 * C[:, 2, 2], speed * speed > 9.0 * C[:, 3, 3]
        moves = truth.speed_mps > MOVING_MPS
    return Beyond(
        position=_fraction(far, np.isfinite(x + y + determinant)),
        heading=_fraction(turned, np.isfinite(yaw + C[:, 2, 2]) & moves),
        speed=_fraction(faster, np.isfinite(speed + C[:, 3, 3])),
    )


def _fraction(holds: NDArray[np.bool_], known: NDArray[np.bool_]) -> float:
    return float(holds[known].mean()) if known.any() else np.nan

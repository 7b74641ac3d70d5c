"""Tables that summarise the scores of estimators over recorded drives."""

from collections.abc import Callable, Sequence
from math import degrees, isfinite, nan, sqrt

from msgspec import Struct

from vehicled.offline.recordings.scores import ErrorSpread, Score

Figure = Callable[[Score], float | None]
"""One number of a score; None where it is not known."""
Column = tuple[str, Callable[[Sequence[Score]], str]]
"""Heading, and the cell for some scores."""
Columns = Sequence[Column]

EXACT_M = 1e-6
"""A measurement that never is further from the truth than this is the truth."""


class ReportTable(Struct, frozen=True):
    """A table ready to be printed."""

    title: str
    columns: list[str]
    rows: list[list[str]]


class Overall(Struct, frozen=True, kw_only=True):
    """All recordings of one kind. Means are over recordings, so that a long one does not outvote
    the others. None: not known."""

    kind: str
    estimator: str
    recordings: int
    known: float
    """Least share of rows with an estimate."""
    position_m: float | None
    raw_position_m: float | None
    published_position_m: float | None
    below_raw: float | None
    """Share of recordings whose mean position error is below that of the raw measurement; None
    where raw is the truth."""
    worst_to_raw: float | None
    """Largest ratio of the two."""
    heading_rad: float | None
    """RMS, as are the speeds."""
    worst_heading_rad: float | None
    speed_mps: float | None
    worst_speed_mps: float | None
    pooled_speed_mps: float | None
    """RMS over all rows of all recordings."""
    worst_steady_speed_mps: float | None
    """The worst again, without the rows at which the receiver jumped."""
    published_speed_mps: float | None
    worst_beyond_position: float | None
    """Largest fraction of a recording's rows beyond 3 sigma of the estimate."""
    worst_beyond_heading: float | None
    worst_beyond_speed: float | None
    bridges: int
    bridged_m: float | None
    """Largest error of a prediction at the first fix after an outage of RTK."""
    bridged_mean_m: float | None
    ahead_position_m: float | None
    ahead_yaw_rad: float | None
    """RMS over all predictions of all recordings, as the next."""
    ahead_turn_rad: float | None


def overall(scores: Sequence[Score]) -> list[Overall]:
    """One row for each kind, in the order in which they appear."""
    return [
        _overall([s for s in scores if (s.kind, s.estimator) == which]) for which in _kinds(scores)
    ]


def _kinds(scores: Sequence[Score]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((score.kind, score.estimator) for score in scores))


def _overall(scores: Sequence[Score]) -> Overall:
    ratios = [ratio for score in scores if (ratio := to_raw(score)) is not None]
    errors = _bridged(scores)
    return Overall(
        kind=scores[0].kind,
        estimator=scores[0].estimator,
        recordings=len(scores),
        known=min(score.known for score in scores),
        position_m=_average(scores, _POSITION),
        raw_position_m=_average(scores, _stat("raw", "position_m", "mean")),
        published_position_m=_average(scores, _PUBLISHED_POSITION),
        below_raw=sum(ratio < 1.0 for ratio in ratios) / len(ratios) if ratios else None,
        worst_to_raw=max(ratios, default=None),
        heading_rad=_average(scores, _HEADING),
        worst_heading_rad=_largest(scores, _HEADING),
        speed_mps=_average(scores, _SPEED),
        worst_speed_mps=_largest(scores, _SPEED),
        pooled_speed_mps=_pooled([score.estimate.speed_mps for score in scores]),
        worst_steady_speed_mps=_largest(scores, _steady),
        published_speed_mps=_average(scores, _PUBLISHED_SPEED),
        worst_beyond_position=_largest(scores, _beyond("position")),
        worst_beyond_heading=_largest(scores, _beyond("heading")),
        worst_beyond_speed=_largest(scores, _beyond("speed")),
        bridges=sum(len(score.bridges) for score in scores),
        bridged_m=max(errors, default=None),
        bridged_mean_m=sum(errors) / len(errors) if errors else None,
        ahead_position_m=_average(scores, _ahead),
        ahead_yaw_rad=_pooled([score.ahead_yaw_rad for score in scores]),
        ahead_turn_rad=_pooled([score.ahead_turn_rad for score in scores]),
    )


def _stat(source: str, quantity: str, statistic: str) -> Figure:
    """Return the function that takes one statistic of a source's errors from a score."""

    def of(score: Score) -> float | None:
        value: float | None = getattr(getattr(getattr(score, source), quantity), statistic, None)
        return value

    return of


_POSITION, _PUBLISHED_POSITION = (
    _stat(source, "position_m", "mean") for source in ("estimate", "published")
)
_HEADING = _stat("estimate", "heading_rad", "rms")
_SPEED, _PUBLISHED_SPEED = (
    _stat(source, "speed_mps", "rms") for source in ("estimate", "published")
)


def _beyond(quantity: str) -> Figure:
    """Return the function that takes the fraction of rows beyond 3 sigma from a score."""

    def of(score: Score) -> float | None:
        value: float = getattr(score.beyond, quantity, nan)
        return value if isfinite(value) else None

    return of


def _steady(score: Score) -> float | None:
    return None if score.steady_speed_mps is None else score.steady_speed_mps.rms


def _ahead(score: Score) -> float | None:
    return None if score.ahead_position_m is None else score.ahead_position_m.mean


def _known(scores: Sequence[Score], of: Figure) -> list[float]:
    return [value for score in scores if (value := of(score)) is not None]


def _average(scores: Sequence[Score], of: Figure) -> float | None:
    values = _known(scores, of)
    return sum(values) / len(values) if values else None


def _largest(scores: Sequence[Score], of: Figure) -> float | None:
    return max(_known(scores, of), default=None)


def _bridged(scores: Sequence[Score]) -> list[float]:
    return [bridge.error_m for score in scores for bridge in score.bridges]


def _pooled(spreads: Sequence[ErrorSpread | None]) -> float | None:
    known = [spread for spread in spreads if spread is not None]
    count = sum(spread.count for spread in known)
    return (
        sqrt(sum(spread.rms * spread.rms * spread.count for spread in known) / count)
        if count
        else None
    )


def to_raw(score: Score) -> float | None:
    """Mean position error of the estimate over that of the raw measurement; None where raw is the
    truth itself, or not known.

    An estimator must not shine by keeping silent where it is hard: silent in more than a tenth of
    the rows, it counts as infinite.
    """
    raw, estimate = _measured(score), _POSITION(score)
    if raw is None:
        return None
    return estimate / raw if estimate is not None and score.known >= 0.9 else float("inf")


def sheets(scores: Sequence[Score]) -> list[ReportTable]:
    """Per kind: errors of every recording with the whole kind below; then prediction and steering
    where there are any."""
    found: list[ReportTable] = []
    for kind, estimator in _kinds(scores):
        mine = [s for s in scores if (s.kind, s.estimator) == (kind, estimator)]
        heading = f"{kind}, {estimator}"
        found.append(_sheet(f"{heading}: position mean, heading and speed RMS", mine, _ERRORS))
        if any(s.ahead_position_m is not None for s in mine):
            title = (
                f"{heading}: one second ahead, open loop; steering identified and by least "
                "squares (LS)"
            )
            found.append(_sheet(title, mine, _AHEAD, _STEERING))
    return found


def _sheet(title: str, scores: Sequence[Score], columns: Columns, own: Columns = ()) -> ReportTable:
    """Return a row for each recording and one for all of them, without empty columns. The last row
    lacks the columns ``own``."""
    names = short_names([score.name for score in scores])
    rows = [
        [name, *(text([score]) for _, text in (*columns, *own))]
        for score, name in zip(scores, names)
    ]
    rows.append([f"all {len(scores)}", *(text(scores) for _, text in columns), *("" for _ in own)])
    heads = ["recording", *(head for head, _ in (*columns, *own))]
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    return ReportTable(title, [heads[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _measured(score: Score) -> float | None:
    """Mean error of the measured position; None where it is the truth itself."""
    raw = score.raw.position_m
    return None if raw is None or raw.max < EXACT_M else raw.mean


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without folders that all share; two parts at least, if there are as many."""
    parts = [name.split("/") for name in names]
    for kept in range(2, max(map(len, parts), default=2) + 1):
        short = ["/".join(part[-kept:]) for part in parts]
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.{digits}f}"


def _angle(value_rad: float | None) -> str:
    return _number(None if value_rad is None else degrees(value_rad), 2)


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100.0 * fraction:.1f}"


def _outages(scores: Sequence[Score]) -> str:
    errors = _bridged(scores)
    return f"{max(errors):.2f} ({len(errors)})" if errors else ""


def _known_share(scores: Sequence[Score]) -> str:
    known = min(score.known for score in scores)
    return "" if known > 0.995 else f"{known:.0%}"


def _mean_column(head: str, of: Figure, digits: int = 3) -> Column:
    return head, lambda scores: _number(_average(scores, of), digits)


def _heading_column(head: str, source: str) -> Column:
    return head, lambda scores: _angle(_average(scores, _stat(source, "heading_rad", "rms")))


def _steering_column(head: str, fit: str, field: str, digits: int) -> Column:
    return head, lambda scores: _number(getattr(getattr(scores[0], fit), field, None), digits)


_ERRORS: Columns = (
    _mean_column("position m", _POSITION),
    ("max", lambda scores: _number(_largest(scores, _stat("estimate", "position_m", "max")))),
    _mean_column("raw", _measured),
    _mean_column("publ.", _PUBLISHED_POSITION),
    _heading_column("yaw deg", "estimate"),
    _heading_column("raw", "raw"),
    _heading_column("publ.", "published"),
    _mean_column("speed m/s", _SPEED, 2),
    _mean_column("steady", _steady, 2),
    _mean_column("publ.", _PUBLISHED_SPEED, 2),
    (
        "> 3 sigma %",
        lambda scores: "/".join(
            _percent(_average(scores, _beyond(q))) for q in ("position", "heading", "speed")
        ),
    ),
    ("outages m", _outages),
    ("known", _known_share),
)
_AHEAD: Columns = (
    _mean_column("1 s ahead m", _ahead),
    ("yaw deg", lambda scores: _angle(_pooled([score.ahead_yaw_rad for score in scores]))),
    ("turn deg", lambda scores: _angle(_pooled([score.ahead_turn_rad for score in scores]))),
)
_STEERING: Columns = tuple(
    _steering_column(head, fit, field, digits)
    for name, field, digits in (
        ("gain rad", "gain_rad", 3),
        ("offset rad", "offset_rad", 3),
        ("delay s", "delay_s", 2),
    )
    for head, fit in ((name, "identified"), ("LS", "least_squares"))
)

"""Tables of scores, and their summary for a kind of recordings."""

from collections.abc import Callable, Sequence
from math import degrees, isfinite, sqrt

from msgspec import Struct

from vehicled.lab.recordings.scores import Errors, Score, Spread

EXACT_M = 1e-6
"""A measurement that never is further from the truth than this is the truth."""


class ReportTable(Struct, frozen=True):
    """A table ready to be printed."""

    title: str
    columns: list[str]
    rows: list[list[str]]


class Overall(Struct, frozen=True, kw_only=True):
    """All recordings of one kind. Means are over recordings, so that a long one does not outvote the others. None: not known."""

    kind: str
    estimator: str
    recordings: int
    known: float
    """Least share of rows with an estimate."""
    position_m: float | None
    raw_position_m: float | None
    published_position_m: float | None
    below_raw: float | None
    """Share of recordings whose mean position error is below that of the raw measurement; None where raw is the truth."""
    worst_to_raw: float | None
    """Largest ratio of the two."""
    heading_rad: float | None
    """RMS, as are the speeds."""
    speed_mps: float | None
    worst_speed_mps: float | None
    pooled_speed_mps: float | None
    """RMS over all rows of all recordings."""
    worst_steady_speed_mps: float | None
    """The worst again, without the rows at which the receiver jumped."""
    published_speed_mps: float | None
    bridges: int
    bridged_m: float | None
    """Largest error of a prediction at one of the first two fixes after an outage of RTK."""
    bridged_mean_m: float | None
    ahead_position_m: float | None
    ahead_yaw_rad: float | None
    """RMS over all predictions of all recordings, as the next."""
    ahead_turn_rad: float | None


def overall(scores: Sequence[Score]) -> list[Overall]:
    """One row for each kind, in the order in which they appear."""
    kinds = list(dict.fromkeys((score.kind, score.estimator) for score in scores))
    return [_overall([s for s in scores if (s.kind, s.estimator) == which]) for which in kinds]


def _overall(scores: Sequence[Score]) -> Overall:
    def mean(get: Callable[[Score], float | None]) -> float | None:
        found = [value for score in scores if (value := get(score)) is not None]
        return sum(found) / len(found) if found else None

    def worst(get: Callable[[Score], float | None]) -> float | None:
        return max((value for score in scores if (value := get(score)) is not None), default=None)

    ratios = [ratio for score in scores if (ratio := to_raw(score)) is not None]
    errors = [error for score in scores for bridge in score.bridges for error in bridge.errors_m]
    return Overall(
        kind=scores[0].kind,
        estimator=scores[0].estimator,
        recordings=len(scores),
        known=min(score.known for score in scores),
        position_m=mean(lambda s: _mean(s.estimate.position_m)),
        raw_position_m=mean(lambda s: _mean(s.raw.position_m)),
        published_position_m=mean(lambda s: _mean(s.published.position_m)),
        below_raw=sum(ratio < 1.0 for ratio in ratios) / len(ratios) if ratios else None,
        worst_to_raw=max(ratios, default=None),
        heading_rad=mean(lambda s: _rms(s.estimate.heading_rad)),
        speed_mps=mean(lambda s: _rms(s.estimate.speed_mps)),
        worst_speed_mps=worst(lambda s: _rms(s.estimate.speed_mps)),
        pooled_speed_mps=_pooled([score.estimate.speed_mps for score in scores]),
        worst_steady_speed_mps=worst(lambda s: _rms(s.steady_speed_mps)),
        published_speed_mps=mean(lambda s: _rms(s.published.speed_mps)),
        bridges=sum(len(score.bridges) for score in scores),
        bridged_m=max(errors, default=None),
        bridged_mean_m=sum(errors) / len(errors) if errors else None,
        ahead_position_m=mean(lambda s: _mean(s.ahead_position_m)),
        ahead_yaw_rad=_pooled([score.ahead_yaw_rad for score in scores]),
        ahead_turn_rad=_pooled([score.ahead_turn_rad for score in scores]),
    )


def _pooled(spreads: Sequence[Spread | None]) -> float | None:
    known = [spread for spread in spreads if spread is not None]
    count = sum(spread.count for spread in known)
    return sqrt(sum(spread.rms * spread.rms * spread.count for spread in known) / count) if count else None


def to_raw(score: Score) -> float | None:
    """Mean position error of the estimate over that of the raw measurement; None where raw is the truth itself, or not known.

    An estimator must not shine by keeping silent where it is hard: silent in more than a tenth of the rows, it counts as infinite.
    """
    raw, estimate = _measured(score), _mean(score.estimate.position_m)
    if raw is None:
        return None
    return estimate / raw if estimate is not None and score.known >= 0.9 else float("inf")


def sheets(scores: Sequence[Score]) -> list[ReportTable]:
    """Per kind: errors of every recording with the whole kind below; then prediction and steering where there are any."""
    found: list[ReportTable] = []
    for whole in overall(scores):
        mine = [s for s in scores if (s.kind, s.estimator) == (whole.kind, whole.estimator)]
        found.append(_errors_sheet(mine, whole))
        if any(s.ahead_position_m is not None for s in mine):
            found.append(_vehicle_sheet(mine, whole))
    return found


def _errors_sheet(scores: Sequence[Score], whole: Overall) -> ReportTable:
    rows = []
    for score, name in zip(scores, short_names([s.name for s in scores])):
        e, raw, published = score.estimate, score.raw, score.published
        rows.append(
            [
                name,
                _number(_mean(e.position_m)),
                _number(_max(e.position_m)),
                _number(_measured(score)),
                _number(_mean(published.position_m)),
                *(_angle(_rms(source.heading_rad)) for source in (e, raw, published)),
                _number(_rms(e.speed_mps), 2),
                _number(_rms(score.steady_speed_mps), 2),
                _number(_rms(published.speed_mps), 2),
                _bridged([error for bridge in score.bridges for error in bridge.errors_m]),
                "" if score.known > 0.995 else f"{score.known:.0%}",
            ]
        )
    heading = [_angle(_average([_rms(source(s).heading_rad) for s in scores])) for source in (_estimate, _raw, _published)]
    rows.append(
        [
            f"all {whole.recordings}",
            _number(whole.position_m),
            _number(max((m for s in scores if (m := _max(s.estimate.position_m)) is not None), default=None)),
            _number(_average([_measured(s) for s in scores])),
            _number(whole.published_position_m),
            *heading,
            _number(whole.speed_mps, 2),
            _number(_average([_rms(s.steady_speed_mps) for s in scores]), 2),
            _number(whole.published_speed_mps, 2),
            _bridged([error for s in scores for bridge in s.bridges for error in bridge.errors_m]),
            "" if whole.known > 0.995 else f"{whole.known:.0%}",
        ]
    )
    columns = [
        "recording", "position m", "max", "raw", "publ.", "yaw deg", "raw", "publ.", "speed m/s", "steady", "publ.", "outages m",
        "known",
    ]  # fmt: skip
    return _without_empty(ReportTable(f"{whole.kind}, {whole.estimator}: position mean, heading and speed RMS", columns, rows))


def _vehicle_sheet(scores: Sequence[Score], whole: Overall) -> ReportTable:
    rows = []
    for score, name in zip(scores, short_names([s.name for s in scores])):
        mine, theirs = score.identified, score.least_squares
        rows.append(
            [
                name,
                _number(_mean(score.ahead_position_m)),
                _angle(_rms(score.ahead_yaw_rad)),
                _angle(_rms(score.ahead_turn_rad)),
                *(
                    _number(None if fit is None else getattr(fit, name), digits)
                    for name, digits in (("gain_rad", 3), ("offset_rad", 3), ("delay_s", 2))
                    for fit in (mine, theirs)
                ),
            ]
        )
    rows.append(
        [
            f"all {whole.recordings}",
            _number(whole.ahead_position_m),
            _angle(whole.ahead_yaw_rad),
            _angle(whole.ahead_turn_rad),
            *[""] * 6,
        ]
    )
    columns = ["recording", "1 s ahead m", "yaw deg", "turn deg", "gain rad", "LS", "offset rad", "LS", "delay s", "LS"]
    title = f"{whole.kind}, {whole.estimator}: one second ahead, open loop; steering identified and by least squares (LS)"
    return _without_empty(ReportTable(title, columns, rows))


def _measured(score: Score) -> float | None:
    """Mean error of the measured position; None where it is the truth itself."""
    raw = score.raw.position_m
    return None if raw is None or raw.max < EXACT_M else raw.mean


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the folders that are not needed to tell them apart; two parts at least, if there are as many."""
    parts = [name.split("/") for name in names]
    for kept in range(2, max(map(len, parts), default=2) + 1):
        short = ["/".join(part[-kept:]) for part in parts]
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


def _without_empty(sheet: ReportTable) -> ReportTable:
    kept = [i for i in range(len(sheet.columns)) if any(row[i] for row in sheet.rows)]
    return ReportTable(sheet.title, [sheet.columns[i] for i in kept], [[row[i] for i in kept] for row in sheet.rows])


def _estimate(score: Score) -> Errors:
    return score.estimate


def _raw(score: Score) -> Errors:
    return score.raw


def _published(score: Score) -> Errors:
    return score.published


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _bridged(errors: Sequence[float]) -> str:
    return f"{max(errors):.2f} ({len(errors)})" if errors else ""


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.{digits}f}"


def _angle(value_rad: float | None) -> str:
    return _number(None if value_rad is None else degrees(value_rad), 2)


def _mean(spread: Spread | None) -> float | None:
    return None if spread is None else spread.mean


def _rms(spread: Spread | None) -> float | None:
    return None if spread is None else spread.rms


def _max(spread: Spread | None) -> float | None:
    return None if spread is None else spread.max

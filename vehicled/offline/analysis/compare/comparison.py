"""Compares two sides of one or more runs each: differences, confidence intervals, verdicts.

Each metric gets a difference (new minus old) with a 95 % interval from a block bootstrap: time
blocks of each run are resampled with replacement; a side with several runs resamples its runs
first. A verdict other than noise needs both:

- significance in spite of many metrics: Holm's step-down method at a family-wise 5 %, on the
  bootstrap's standard error.
- relevance: above the threshold (5 % of the old value) and above the metric's floor.

One run per side shows the noise within a run, but not between runs (another machine state, another
drive). In wall time the latter is larger: two runs of one build differ, and only several runs per
side separate builds.
"""

import os
from collections.abc import Sequence
from itertools import zip_longest
from math import erfc, isfinite, sqrt

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.log.errors import LogError
from vehicled.offline.analysis.compare.gather import Measure, RunStatistics, gather

SEED = 1
RESAMPLES = 1000
LEVEL = 0.95
THRESHOLD = 0.05
MIN_BLOCKS = 8
MIN_TAIL = 10
"""Least number of samples beyond a quantile to judge it."""
VERDICTS = ("regression", "improvement", "noise", "unknown")


class MetricComparison(Struct, frozen=True, kw_only=True):
    """Comparison of one metric."""

    group: str
    metric: str
    unit: str
    old: float | None
    """Value on the old side; None if missing."""
    new: float | None
    difference: float | None = None
    """New minus old."""
    low: float | None = None
    """Lower end of the 95 % interval of the difference."""
    high: float | None = None
    relative: float | None = None
    """Difference divided by the old value; None if that is 0."""
    p_value: float | None = None
    """P-value of the difference, before the correction for several metrics."""
    verdict: str
    """``regression``, ``improvement``, ``noise``, or ``unknown`` if there are too few samples;
    ``note`` gives the reason."""
    note: str = ""


class Comparison(Struct, frozen=True, kw_only=True):
    """Result of a comparison of two sides."""

    old: list[list[str]]
    """Files of each run."""
    new: list[list[str]]
    block_s: list[float]
    """Length of the blocks of each run, old runs first."""
    resamples: int
    seed: int
    level: float
    threshold: float
    rows: list[MetricComparison]
    notes: list[str]

    def count(self, verdict: str) -> int:
        """Return the number of metrics with a verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self, *, every: bool = True) -> str:
        """Return a plain-text table: verdict, changes, then the key metrics; with ``every`` all
        metrics."""
        return _text(self, every)


def compare(
    old: Sequence[str | os.PathLike[str]],
    new: Sequence[str | os.PathLike[str]],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    threshold: float = THRESHOLD,
) -> Comparison:
    """Compare runs, each given by its first file. Raises :class:`LogError`."""
    before, after = [gather(path) for path in old], [gather(path) for path in new]
    return judge(before, after, seed=seed, resamples=resamples, threshold=threshold)


def judge(
    old: Sequence[RunStatistics],
    new: Sequence[RunStatistics],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    threshold: float = THRESHOLD,
) -> Comparison:
    """Compare runs that were already gathered. Raises :class:`LogError` when a side is empty."""
    if not old or not new:
        raise LogError("a comparison has two sides, with at least one run on each")
    rng = np.random.default_rng(seed)
    weights_old, weights_new = _weights(old, resamples, rng), _weights(new, resamples, rng)
    measures = dict.fromkeys(m for run in (*old, *new) for m in (*run.statistics, *run.singles))
    drafts = []
    for measure in measures:
        a, samples_a = _side(old, measure, weights_old)
        b, samples_b = _side(new, measure, weights_new)
        drafts.append(
            (_row(measure, a, b, samples_a, samples_b, _too_little(old, new, measure)), measure)
        )
    rows = _verdicts(drafts, threshold)
    return Comparison(
        old=[run.files for run in old],
        new=[run.files for run in new],
        block_s=[run.block_ns * 1e-9 for run in (*old, *new)],
        resamples=resamples,
        seed=seed,
        level=LEVEL,
        threshold=threshold,
        rows=rows,
        notes=_notes(old, new),
    )


def _weights(
    runs: Sequence[RunStatistics], resamples: int, rng: np.random.Generator
) -> list[Array]:
    """Return the weight of each block; (1 + resamples, blocks) per run, the first row being the run
    itself."""
    drawn = np.ones((resamples, 1), np.int64)
    if len(runs) > 1:
        drawn = rng.multinomial(len(runs), np.full(len(runs), 1.0 / len(runs)), size=resamples)
    weights = []
    for number, run in enumerate(runs):
        n = run.blocks
        blocks = rng.multinomial(drawn[:, number] * n, np.full(n, 1.0 / n))
        weights.append(np.concatenate([np.ones((1, n)), blocks]).astype(np.float64))
    return weights


def _side(
    runs: Sequence[RunStatistics], measure: Measure, weights: list[Array]
) -> tuple[float | None, Array]:
    """Return (value, its resamples) of a side; None if no run has the metric."""
    singles = [(run.singles[measure], w) for run, w in zip(runs, weights) if measure in run.singles]
    if singles:
        shares = np.array([w.sum(axis=1) / w.shape[1] for _, w in singles])
        values = (
            np.array([value for value, _ in singles])
            @ shares
            / np.maximum(shares.sum(axis=0), 1e-300)
        )
        return float(values[0]), _widened(values[1:], len(singles))
    found = [
        (run.statistics[measure], w) for run, w in zip(runs, weights) if measure in run.statistics
    ]
    if not found:
        return None, np.empty(0)
    statistics = [statistic for statistic, _ in found]
    values = statistics[0].evaluate(statistics, [w for _, w in found])
    return (float(values[0]) if isfinite(values[0]) else None), _widened(values[1:], len(found))


def _widened(samples: Array, runs: int) -> Array:
    """Correct the spread of resamples of few runs, which is too small by (n - 1) / n in the
    variance."""
    if runs < 2 or not np.isfinite(samples).all():
        return samples
    middle = samples.mean()
    widened: Array = middle + (samples - middle) * sqrt(runs / (runs - 1))
    return widened


def _too_little(
    old: Sequence[RunStatistics], new: Sequence[RunStatistics], measure: Measure
) -> str:
    for name, runs in (("old", old), ("new", new)):
        if any(measure in run.singles for run in runs):
            if len(runs) < 3:
                return (
                    "one number per run: three runs on each side are needed to estimate its noise"
                )
            continue
        if sum(run.blocks for run in runs) < MIN_BLOCKS:
            return f"too short: the {name} side has fewer than {MIN_BLOCKS} blocks of a second"
        tail = sum(run.statistics[measure].n for run in runs if measure in run.statistics)
        if 0 < tail < MIN_TAIL:
            return f"too few samples on the {name} side: {tail} beyond it"
    return ""


def _row(
    measure: Measure,
    a: float | None,
    b: float | None,
    samples_a: Array,
    samples_b: Array,
    doubt: str,
) -> MetricComparison:
    row = MetricComparison(
        group=measure.group,
        metric=measure.quantity,
        unit=measure.unit,
        old=a,
        new=b,
        verdict="unknown",
    )
    if a is None or b is None:
        return msgspec.structs.replace(row, note=f"not in the {'old' if a is None else 'new'} side")
    difference = b - a
    spread = samples_b - samples_a
    spread = spread[np.isfinite(spread)]
    if doubt or len(spread) < 2:
        note = doubt or "too few samples"
        return msgspec.structs.replace(
            row, difference=difference, relative=_share(difference, a), note=note
        )
    low, high = np.quantile(spread, [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2]).tolist()
    sigma = float(spread.std(ddof=1))
    p_value = (
        0.0
        if difference and not sigma
        else erfc(abs(difference) / sigma / sqrt(2.0))
        if sigma
        else 1.0
    )
    return msgspec.structs.replace(
        row,
        difference=difference,
        low=low,
        high=high,
        relative=_share(difference, a),
        p_value=p_value,
        verdict="noise",
    )


def _share(difference: float, old: float) -> float | None:
    return difference / abs(old) if old else None


def _verdicts(
    drafts: Sequence[tuple[MetricComparison, Measure]], threshold: float
) -> list[MetricComparison]:
    judged = [
        (row.p_value, number) for number, (row, _) in enumerate(drafts) if row.p_value is not None
    ]
    standing: set[int] = set()
    for rank, (p_value, number) in enumerate(sorted(judged)):
        if p_value > (1.0 - LEVEL) / (len(judged) - rank):
            break
        standing.add(number)
    rows = []
    for number, (row, measure) in enumerate(drafts):
        difference = row.difference
        if (
            number in standing
            and difference is not None
            and row.old is not None
            and row.low is not None
            and row.high is not None
        ):
            large = abs(difference) > max(threshold * abs(row.old), measure.floor)
            if large and not row.low <= 0.0 <= row.high:
                better = (difference > 0.0) == measure.higher_is_better
                row = msgspec.structs.replace(
                    row, verdict="improvement" if better else "regression"
                )
        rows.append(row)
    return rows


def _notes(old: Sequence[RunStatistics], new: Sequence[RunStatistics]) -> list[str]:
    notes = [note for run in (*old, *new) for note in run.notes]
    for name in (
        "profile",
        "course",
        "clock",
        "link",
        "estimator",
        "controller",
        "host",
        "vehicled_version",
        "profile_digest",
    ):
        sides = [sorted({str(getattr(run.header, name)) for run in runs}) for runs in (old, new)]
        if sides[0] != sides[1]:
            notes.append(f"{name.replace('_', ' ')} differs: {_few(sides[0])} | {_few(sides[1])}")
    if len(old) == 1 or len(new) == 1:
        notes.append(
            "one run on a side: the intervals cover the noise within a run, not that between runs"
        )
        if any(run.header.clock == "wall" for run in (*old, *new)):
            notes.append(
                "in wall time two runs of one build differ: the verdict holds for these runs "
                "only; take three or more per side"
            )
    return notes


def _few(names: Sequence[str]) -> str:
    return ", ".join(name[:16] or "none" for name in names[:3]) + (
        ", ..." if len(names) > 3 else ""
    )


# ------------------------------------------------------------------ text


SUMMARY = (
    ("tracking", "true cross-track RMS"), ("tracking", "cross-track RMS"),
    ("estimate", "position RMS"), ("age", "actuation p99"), ("loop", "lateness p99"),
)  # fmt: skip
"""Metrics shown besides the changes; the missed deadlines of each task are added."""


def _text(found: Comparison, every: bool) -> str:
    counts = ", ".join(
        f"{found.count(verdict)} {verdict}" for verdict in VERDICTS if found.count(verdict)
    )
    order = {verdict: number for number, verdict in enumerate(VERDICTS)}
    ranked = sorted(
        found.rows,
        key=lambda row: (
            order[row.verdict],
            -abs(row.relative or 0.0) if _changed(row) else _rank(row),
        ),
    )
    shown = ranked if every else [row for row in ranked if _changed(row) or _summary(row)]
    lines = [f"{len(found.rows)} metrics: {counts}"]
    for old, new in zip_longest(found.old, found.new):
        lines.append(
            f"{'old ' + old[0] if old else '':<60}  {'new ' + new[0] if new else ''}".rstrip()
        )
    lines += [*(f"note: {note}" for note in found.notes), ""]
    head = ["", "metric", "unit", "old", "new", "difference", "interval", "share", "verdict"]
    rows = [head, *(_cells(row) for row in shown)]
    width = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
    for row in rows:
        cells = [
            cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, width))
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    blocks = sorted({f"{length:.3g}" for length in found.block_s}, key=float)
    how = f"blocks of {', '.join(blocks)} s, {found.resamples} resamples, seed {found.seed}"
    hidden = len(found.rows) - len(shown)
    lines += [
        "",
        *(
            [f"{hidden} more metrics have no significant change: --all shows them"]
            if hidden
            else []
        ),
        f"difference: new minus old, {found.level:.0%} interval by a block bootstrap ({how})",
        f"verdict: significant over all metrics together, and above {found.threshold:.0%}",
    ]
    return "\n".join(lines) + "\n"


def _rank(row: MetricComparison) -> int:
    return (
        SUMMARY.index((row.group, row.metric))
        if (row.group, row.metric) in SUMMARY
        else len(SUMMARY)
    )


def _changed(row: MetricComparison) -> bool:
    return row.verdict in ("regression", "improvement")


def _summary(row: MetricComparison) -> bool:
    # A metric missing on one side is a change of another kind.
    missing = row.old is None or row.new is None
    missed = row.metric == "missed" and bool(row.old or row.new)
    return (row.group, row.metric) in SUMMARY or missing or missed


def _cells(row: MetricComparison) -> list[str]:
    interval = f"{_number(row.low)} .. {_number(row.high)}" if row.low is not None else ""
    share = f"{row.relative:+.1%}" if row.relative is not None else ""
    verdict = row.verdict + (f": {row.note}" if row.note else "")
    values = [_number(row.old), _number(row.new), _number(row.difference)]
    return [row.group, row.metric, row.unit, *values, interval, share, verdict]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"

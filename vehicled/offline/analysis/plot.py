"""``vehicled log plot``: numeric fields of any message over time, thinned to the resolution of a
picture."""

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

import numpy as np

from vehicled.core.messages import Message
from vehicled.log.cat import kinds_of
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import CHANNELS
from vehicled.offline.analysis.report.thin import Thinned, TimeAxis, gap_columns
from vehicled.ros.cdr import numpy_dtype
from vehicled.ros.fields import PRIMITIVES, SCALAR, Field, fields_of
from vehicled.run.output import new_figure, save_figure

_NAME = re.compile(r"(?P<topic>[\w/]+)\.(?P<field>\w+)(?:\[(?P<index>\d+)\])?")
_COLOURS = ("#0072b2", "#d98200", "#009067", "#a8518a", "#4aa3d8", "#c44601", "#8a949e")
_UNITS = {
    "mps": "m/s", "mps2": "m/s²", "rad": "rad", "radps": "rad/s", "m": "m", "s": "s", "ns": "ns",
    "v": "V", "a": "A", "k": "K", "share": "share", "m2": "m²", "nm": "N m",
}  # fmt: skip


class _WantedCurve:
    """One requested curve."""

    def __init__(self, text: str) -> None:
        found = _NAME.fullmatch(text)
        if found is None:
            raise LogError(
                f'"{text[:80]}" names no field: give topic.field, as state_estimate.speed_mps '
                "or gnss_fix.velocity_enu_mps[0]"
            )
        self.text = text
        (self.kind,) = kinds_of([found["topic"]])
        fields = {
            field.name: field
            for field in fields_of(self.kind)
            if field.base in PRIMITIVES and field.is_fixed
        }
        name = found["field"]
        if name not in fields:
            close = get_close_matches(name, fields, n=1, cutoff=0.5)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise LogError(
                f'{found["topic"]} has no numeric field "{name}"{hint} (there are: '
                f"{', '.join(fields)})"
            )
        self.field: Field = fields[name]
        length = self.field.length
        self.index = int(found["index"]) if found["index"] is not None else None
        if (self.index is None) != (length == SCALAR) or (
            self.index is not None and self.index >= length
        ):
            what = (
                "is one number"
                if length == SCALAR
                else f"has {length} numbers: give one of {name}[0] to {name}[{length - 1}]"
            )
            raise LogError(f'"{text[:80]}": {name} {what}')
        self.series = Thinned()

    @property
    def unit(self) -> str:
        """Unit, derived from the field's name."""
        return _UNITS.get(self.field.name.rsplit("_", 1)[-1], "")

    def values(self, rows: Any) -> Any:
        """Return the values of an array of messages; NaN if an older log lacks the field."""
        if self.field.name not in rows.dtype.names:
            return np.full(len(rows), np.nan)
        values = rows[self.field.name]
        return values if self.index is None else values[:, self.index]

    def value(self, message: Message) -> float:
        value = getattr(message, self.field.name)
        return float(value if self.index is None else value[self.index])


def plot(
    path: str | os.PathLike[str], fields: Sequence[str], output: str | os.PathLike[str]
) -> None:
    """Draw ``topic.field`` of a run into a PNG, SVG or PDF file. Raises :class:`LogError`,
    :class:`SetupError`."""
    wanted = [_WantedCurve(text) for text in dict.fromkeys(fields)]
    if not wanted:
        raise LogError(
            "nothing to draw: give at least one --topic, as --topic state_estimate.speed_mps"
        )
    if find_spec("matplotlib") is None:
        raise LogError(
            "drawing needs matplotlib: pip install 'vehicled[plot]'; `vehicled log report` "
            "does without"
        )
    readers = []
    try:
        readers += [LogReader(file) for file in run_parts(path)]
        axis, origin_ns = _axis(readers)
        for log in readers:
            _read(log, wanted, axis)
    finally:
        for log in readers:
            log.close()
    empty = [curve.text for curve in wanted if not curve.series.n]
    if len(empty) == len(wanted):
        raise LogError(f"{os.fspath(path)}: no finite value of {', '.join(empty)} in this log")
    _draw(wanted, axis, origin_ns, os.path.basename(os.fspath(path)), output)


def _axis(readers: Sequence[LogReader]) -> tuple[TimeAxis, int]:
    bounds = []
    for log in readers:
        chunks = log.layout.chunks
        if len(chunks):
            bounds.append(
                (
                    int(chunks["start_ns"].min()) - log.offset_ns,
                    int(chunks["end_ns"].max()) - log.offset_ns,
                )
            )
    if not bounds:
        raise LogError(f"{readers[0].path}: the log has no messages")
    start = min(low for low, _ in bounds)
    origin = readers[0].header.start_monotonic_ns if readers[0].is_vehicled_log else start
    return TimeAxis(start, max(high for _, high in bounds)), origin


def _read(log: LogReader, wanted: Sequence[_WantedCurve], axis: TimeAxis) -> None:
    fixed, loose = set(), set()
    for curve in wanted:
        try:
            numpy_dtype(curve.kind)
            fixed.add(curve.kind)
        except TypeError:
            loose.add(curve.kind)
    if fixed:
        for kind, rows in log.arrays(*fixed):
            columns = axis.columns(rows["t_ns" if "t_ns" in rows.dtype.names else "release_ns"])
            for curve in wanted:
                if curve.kind is kind:
                    curve.series.add(columns, curve.values(rows))
    if loose:
        for record in log.messages(*loose):
            columns = axis.columns(np.array([record.t_ns]))
            for curve in wanted:
                if curve.kind is type(record.message):
                    curve.series.add(columns, np.array([curve.value(record.message)]))


def _draw(
    wanted: Sequence[_WantedCurve],
    axis: TimeAxis,
    origin_ns: int,
    title: str,
    output: str | os.PathLike[str],
) -> None:
    units = list(dict.fromkeys(curve.unit for curve in wanted))
    figure = new_figure(10, 1.2 + 2.4 * len(units))
    rows = figure.subplots(len(units), 1, sharex=True, squeeze=False)[:, 0]
    start_s = (axis.start_ns - origin_ns) * 1e-9
    for unit, area in zip(units, rows):
        curves = [curve for curve in wanted if curve.unit == unit]
        for curve, colour in zip(curves, _COLOURS * (len(curves) // len(_COLOURS) + 1)):
            t, values = _points(curve.series)
            label = curve.text + ("" if curve.series.n else " (no finite value)")
            area.plot(start_s + t * axis.column_s, values, color=colour, lw=1, label=label)
        area.set_ylabel(unit or curves[0].field.name)
        area.legend(loc="best", frameon=False, fontsize="small")
        area.grid(alpha=0.25)
    rows[-1].set_xlabel("time of the run (s)")
    kinds = ", ".join(dict.fromkeys(CHANNELS[curve.kind].topic for curve in wanted))
    figure.suptitle(
        f"{title}\n{kinds}: smallest and largest value in every {axis.column_s:.3g} s",
        fontsize="medium",
    )
    save_figure(figure, output)


def _points(series: Thinned) -> tuple[Any, Any]:
    """Return columns and values of a curve, broken by NaN at long gaps."""
    known = np.flatnonzero(np.isfinite(series.low))
    t = np.repeat(known.astype(np.float64), 2)
    values = np.stack([series.low[known], series.high[known]], axis=1).reshape(-1)
    breaks = np.flatnonzero(np.diff(known) > gap_columns(known)) * 2 + 2
    return np.insert(t, breaks, np.nan), np.insert(values, breaks, np.nan)

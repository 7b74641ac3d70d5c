"""Single samples of a run, for a look closer than the columns of the page.

A short run keeps every sample. A longer one keeps those at its start and end, and around missed
deadlines and changes of mode or reaction, so that memory and page stay small for any length.
"""

import base64
import gzip
import json
from html import escape
from typing import Any

import numpy as np

from vehicled.offline.analysis.report.thin import TimeAxis

WHOLE_S = 300.0
"""Longest run that keeps every sample, s."""
ENDS_S = 10.0
"""Time that a longer run keeps at its start and at its end, s."""
BEFORE_S, AFTER_S = 2.0, 1.0
"""Time that it keeps around an instant of interest, s."""
MOST = 60
"""Largest number of instants of interest that keep their samples."""


class KeptSamples:
    """Values of the series in spans of the run."""

    def __init__(self, axis: TimeAxis) -> None:
        self._axis = axis
        self.whole = axis.duration_s <= WHOLE_S
        ends_ns = round(ENDS_S * 1e9)
        self._edges = np.array(
            [axis.start_ns, axis.start_ns + ends_ns, axis.stop_ns - ends_ns, axis.stop_ns + 1]
        )
        if self.whole:
            self._edges = np.array([axis.start_ns, axis.stop_ns + 1])
        self._instants = 0
        self._kept: dict[str, list[tuple[Any, Any]]] = {}

    def look_at(self, instants_ns: Any) -> None:
        """Keep what happens around instants, of shape (n,); call it before the samples around them
        are added."""
        if self.whole:
            return
        for t_ns in instants_ns.tolist():
            inside = np.searchsorted(self._edges, t_ns, side="right") % 2 == 1
            if (
                inside
                or self._instants >= MOST
                or not self._axis.start_ns <= t_ns <= self._axis.stop_ns
            ):
                continue
            self._instants += 1
            self._open(t_ns - round(BEFORE_S * 1e9), t_ns + round(AFTER_S * 1e9))

    def _open(self, start_ns: int, stop_ns: int) -> None:
        spans = sorted([*self._edges.reshape(-1, 2).tolist(), [start_ns, stop_ns]])
        merged = [spans[0]]
        for start, stop in spans[1:]:
            if start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        self._edges = np.array(merged).reshape(-1)

    def add(self, name: str, t_ns: Any, values: Any) -> None:
        """Keep the values of a series that lie in the spans, both of shape (n,)."""
        inside = np.searchsorted(self._edges, t_ns.astype(np.int64), side="right") % 2 == 1
        if inside.any():
            self._kept.setdefault(name, []).append(
                (t_ns[inside].astype(np.int64), values[inside].astype(np.float32))
            )

    def html(self) -> str:
        """Return the block of data that the script of the page reads.

        Times are differences in units of ``unit_us``, so that they fit into 32 bits; series with
        the same times share them.
        """
        unit_ns = 1_000 * max(
            1, -(-(self._axis.stop_ns - self._axis.start_ns) // (1_000 * (2**31 - 1)))
        )
        numbers: dict[bytes, int] = {}
        blocks: list[bytes] = []
        counts: list[int] = []
        series: dict[str, int] = {}
        values: list[bytes] = []
        for name, pieces in self._kept.items():
            t_ns, found = (np.concatenate(part) for part in zip(*pieces))
            order = np.argsort(t_ns, kind="stable")
            ticks = (t_ns[order] - self._axis.start_ns) // unit_ns
            key = ticks.tobytes()
            if key not in numbers:
                numbers[key] = len(counts)
                counts.append(len(ticks))
                blocks.append(_shuffled(np.diff(ticks, prepend=0).astype("<i4")))
            series[name] = numbers[key]
            values.append(_shuffled(_rounded(found[order])))
        spans = [round(float(self._axis.place(int(edge))), 4) for edge in self._edges]
        head = {"unit_us": unit_ns // 1_000, "counts": counts, "series": series, "spans": spans}
        described = escape(json.dumps(head, separators=(",", ":")))
        data = base64.b64encode(gzip.compress(b"".join(blocks + values), 6, mtime=0)).decode()
        return f'<script type="text/plain" id="samples" data-head="{described}">{data}</script>'


def _rounded(values: Any) -> Any:
    """Return float32 values with 12 bits of fraction, four digits as the page prints them: the rest
    would not compress."""
    return ((values.view(np.uint32) + 0x400) & 0xFFFFF800).view("<f4")


def _shuffled(numbers: Any) -> bytes:
    """Return the first bytes of all numbers, then the second ones, and so on: they compress
    better."""
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 4).T).tobytes()

"""Rows of states and marks along the time axis: modes, faults, events, missed deadlines."""

import json
from typing import Any

import numpy as np

from vehicled.core.messages import (
    CarrierSolution,
    Cause,
    ControlLevel,
    ControlReason,
    EstimatorStatus,
    Event,
    Fault,
    Mode,
    ObstacleContact,
    OperatorCommand,
    PortEvent,
    Reaction,
    contact_text,
)
from vehicled.core.plain_text import escape, shorten
from vehicled.offline.analysis.report.chart import key, strip, time_axis
from vehicled.offline.analysis.report.panel import MissingPanel, Panel, PanelOrMissing
from vehicled.offline.analysis.report.scan import Findings
from vehicled.offline.analysis.report.thin import COLUMNS

_GREY, _BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED, _YELLOW = range(8)
_COLOURS: dict[str, dict[Any, int]] = {
    "mode": {
        Mode.INIT: 0, Mode.STANDBY: 0, Mode.ARMED: 5, Mode.AUTO: 3, Mode.TELEOP: 1,
        Mode.STOPPING: 2, Mode.FAULT: 6, Mode.ALIGN: 4,
    },
    "reaction": {
        Reaction.NONE: 3, Reaction.WARN: 7, Reaction.CAP_SPEED: 7, Reaction.CONTROLLED_STOP: 2,
        Reaction.BRAKE: 4, Reaction.DISABLE: 6,
    },
    "carrier": {CarrierSolution.FIXED: 3, CarrierSolution.FLOAT: 7, CarrierSolution.NONE: 6},
    "estimator": {
        EstimatorStatus.RUNNING: 3, EstimatorStatus.ALIGNING: 5, EstimatorStatus.UNINITIALISED: 0,
        EstimatorStatus.DIVERGED: 6,
    },
    "level": {ControlLevel.PRIMARY: 3, ControlLevel.SHIFTED_PLAN: 5, ControlLevel.PURE_PURSUIT: 7,
        ControlLevel.STOP: 6},
    "reason": {
        ControlReason.NONE: 3, ControlReason.STATE_UNUSABLE: 6, ControlReason.NOT_CONVERGED: 7,
        ControlReason.INFEASIBLE: 2, ControlReason.NOT_FINITE: 4, ControlReason.LATE: 1,
        ControlReason.PLAN_USED_UP: 5,
    },
}  # fmt: skip
_ROWS = {
    "mode": "mode", "reaction": "reaction", "estimator": "estimator",
    "carrier": "RTK carrier solution", "level": "fallback level of the controller",
    "reason": "why not the primary level",
}  # fmt: skip


def word(state: object) -> str:
    """Return the name of an enumeration value as text."""
    return str(getattr(state, "name", state)).lower().replace("_", " ")


def states_panel(f: Findings) -> PanelOrMissing:
    """Draw modes, reactions, and the states of estimator, receiver and controller as bands."""
    rows = []
    for name, title in _ROWS.items():
        found = f.states[name]
        if not found.n:
            continue
        colours = _COLOURS[name]
        seen = [state for state in colours if found.counts[int(state)]]
        keys = "".join(key(word(state), colours[state], box=True) for state in seen)
        members = {int(state): state for state in colours}
        bands = [(a, b, colours[members[s]], word(members[s])) for a, b, s in found.bands()]
        rows.append(strip(title, keys, bands))
    if not rows:
        return MissingPanel(
            "states", "Mode and safety", "The log has neither commands nor estimates."
        )
    body = "".join(rows) + time_axis(f.axis, f.seconds(f.axis.start_ns))
    return Panel(
        "states",
        "Mode and safety",
        "",
        body,
        note="Each pixel shows the worst state that occurred in it.",
    )


def marks_panel(f: Findings) -> PanelOrMissing:
    """Draw faults as bars from trip to clearance; events, requests and ports as marks."""
    rows: dict[str, list[tuple[float, float, int, str]]] = {}
    opened: dict[str, tuple[float, int, str]] = {}
    for fault in f.rare[Fault]:
        label = f"{fault.code} ({fault.origin})" if fault.origin else fault.code
        colour = _COLOURS["reaction"][fault.reaction] if fault.reaction else 1
        at = f.axis.place(fault.t_ns)
        if fault.active:
            opened.setdefault(label, (at, colour, fault.reason))
        else:
            start, tint, reason = opened.pop(label, (at, colour, fault.reason))
            rows.setdefault(label, []).append((start, at, tint, reason))
    # Faults that never cleared are drawn as marks, because the log does not say how long they
    # lasted.
    for label, (at, colour, reason) in opened.items():
        rows.setdefault(label, []).append((at, at + COLUMNS / 200, colour, reason))
    for event in f.rare[Event]:
        at = f.axis.place(event.t_ns)
        rows.setdefault(f"event {event.name}", []).append(
            (at, at + 4, 6 if event.level == "error" else 2, said(event.fields))
        )
    for event in f.rare[PortEvent]:
        if event.state:
            at = f.axis.place(event.t_ns)
            rows.setdefault(f"port {event.port} lost", []).append((at, at + 4, 6, event.detail))
    for request in f.rare[OperatorCommand]:
        at = f.axis.place(request.t_ns)
        rows.setdefault("operator", []).append(
            (at, at + 4, 1, f"{word(request.action)} ({request.origin})")
        )
    for touch in f.rare[ObstacleContact]:
        at = f.axis.place(touch.t_ns)
        rows.setdefault("contact", []).append((at, at + 4, 6, contact_text(touch)))
    if not rows:
        return MissingPanel(
            "faults", "Faults and events", "There is no fault, no event and no request in the log."
        )
    ordered = sorted(rows.items(), key=lambda item: min(band[0] for band in item[1]))
    strips = []
    for label, bands in ordered[:16]:
        words = "; ".join(dict.fromkeys(band[3] for band in bands[:40]))
        strips.append(
            strip(
                label,
                f'<span class="said">{len(bands)} × {escape(shorten(words, 140))}</span>',
                bands,
            )
        )
    note = "A bar ends where the log says that it is over; a short mark has no end in the log."
    if len(ordered) > 16:
        note += f" {len(ordered) - 16} further kinds are only in the list of faults and events."
    body = "".join(strips) + time_axis(f.axis, f.seconds(f.axis.start_ns))
    return Panel("faults", "Faults and events", "", body, note=note)


def said(fields: str) -> str:
    """Return the fields of an event as text."""
    try:
        found = json.loads(fields)
    except ValueError:
        return fields
    if not isinstance(found, dict):
        return fields
    words = {
        name.replace("_", " "): ", ".join(map(str, v)) if isinstance(v, list) else v
        for name, v in found.items()
    }
    return ", ".join(f"{name} {value}" for name, value in words.items())


def misses_panel(f: Findings) -> PanelOrMissing:
    """Draw one row of misses per cause, or return a sentence if there were none."""
    if not f.misses and not f.skips.any():
        ticks = f.seen.get("/vehicled/task_tick", 0)
        reason = (
            f"None of {ticks} releases missed its deadline."
            if ticks
            else "The log has no task ticks."
        )
        return MissingPanel("misses", "Missed deadlines and their causes", reason)
    strips = []
    for cause, counts in sorted(f.misses.items(), key=lambda item: -int(item[1].sum())):
        held = ", ".join(
            f"{name} {count}"
            for name, count in sorted(f.holders.get(cause, {}).items(), key=lambda item: -item[1])
        )
        said = f"{int(counts.sum())} missed" + (f"; held by {held}" if held else "")
        strips.append(
            strip(
                f.cause_name(cause), f'<span class="said">{escape(said)}</span>', _blips(counts, 6)
            )
        )
    if f.skips.any():
        strips.append(
            strip(
                "skipped releases",
                f'<span class="said">{int(f.skips.sum())} skipped</span>',
                _blips(f.skips, 2),
            )
        )
    body = "".join(strips) + time_axis(f.axis, f.seconds(f.axis.start_ns))
    return Panel("misses", "Missed deadlines and their causes", "", body)


def ticks_panel(f: Findings) -> PanelOrMissing:
    """Return the rows in which the script of the page draws single releases of the tasks, where a
    reader looks closely."""
    tasks = sorted({task for task, _ in f.bins})
    if not tasks:
        return MissingPanel("ticks", "Single releases", "The log has no task ticks.")
    rows = "".join(
        f'<div class="row"><b>{escape(f.task_name(task))}</b></div><div class="chart thin"><div '
        f'class="y"></div><div class="area" data-task="{task}" '
        f'data-name="{escape(f.task_name(task))}"></div></div>'
        for task in tasks
    )
    keys = (
        key("waits", 0, box=True)
        + key("runs", 3, box=True)
        + key("misses its deadline", 6, box=True)
    )
    causes = escape(json.dumps({int(cause): f.cause_name(cause) for cause in Cause}))
    body = f'<div data-causes="{causes}">{rows}</div>' + time_axis(
        f.axis, f.seconds(f.axis.start_ns)
    )
    kept = (
        ""
        if f.samples.whole
        else " Kept at the start, at the end, and around misses and changes of mode."
    )
    note = (
        f'<span class="hint">Zoom in until single releases are apart.</span>{kept} A mark '
        "stands at each deadline."
    )
    return Panel("ticks", "Single releases", "", body, keys, note)


_PAUSES = ((5.0, _RED, "5 ms and more"), (1.0, _ORANGE, "1 to 5 ms"), (0.0, _SKY, "shorter"))
"""Garbage collections by duration in ms, rated by their cost to a 400 Hz task."""


def collector_panel(f: Findings) -> PanelOrMissing:
    """Draw the runs of Python's garbage collector, by the longest collection in each column."""
    name, title = "collector", "Garbage collector"
    found = f.series.get("collector.ms")
    if found is None or not found.n:
        return MissingPanel(
            name,
            title,
            "The log has no garbage collection of 0.1 ms or more; in lockstep none is logged.",
        )
    bands = []
    for column in np.flatnonzero(np.isfinite(found.high)).tolist():
        longest_ms = float(found.high[column])
        colour = next(colour for least_ms, colour, _ in _PAUSES if longest_ms >= least_ms)
        bands.append((float(column), float(column) + 3, colour, f"{longest_ms:.2f} ms"))
    seen = {band[2] for band in bands}
    keys = "".join(key(text, colour, box=True) for _, colour, text in _PAUSES if colour in seen)
    body = strip("GC", keys, bands) + time_axis(f.axis, f.seconds(f.axis.start_ns))
    note = (
        f"{found.n} collections of 0.1 ms and more, {found.mean * found.n:.0f} ms in all, the "
        f"longest {found.max:.1f} ms."
    )
    return Panel(name, title, "", body, note=f"{note} The loop stands still meanwhile.")


def _blips(counts: "np.ndarray", colour: int) -> list[tuple[float, float, int, str]]:
    return [
        (float(c), float(c) + 3, colour, str(int(counts[c])))
        for c in np.flatnonzero(counts).tolist()
    ]

"""The page: verdict, panels along one axis of time, diagrams, map, tables. All of it in one file,
nothing fetched."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from vehicled.core.messages import (
    Event,
    Fault,
    ModeChange,
    ObstacleContact,
    OperatorCommand,
    PortEvent,
    contact_text,
)
from vehicled.core.messages.records import Direction
from vehicled.core.plain_text import escape
from vehicled.core.wire.usage import decode_rows
from vehicled.log.errors import LogError, why
from vehicled.log.schema import MESSAGES_KEY, RunHeader
from vehicled.offline.analysis import html
from vehicled.offline.analysis.report.chart import moment, number
from vehicled.offline.analysis.report.diagrams import histograms, waterfalls
from vehicled.offline.analysis.report.drive_map import drive_map, speed_map
from vehicled.offline.analysis.report.panel import MissingPanel, Panel, PanelOrMissing
from vehicled.offline.analysis.report.panels import panels
from vehicled.offline.analysis.report.rows import said
from vehicled.offline.analysis.report.scan import KEPT, Findings
from vehicled.offline.analysis.report.thin import COLUMNS
from vehicled.offline.analysis.report.verdict import Verdict, describe_change, stop_story, verdict

_LISTED = 300
_STOPS = 5


def write_report(path: str | os.PathLike[str], output: str | os.PathLike[str]) -> Verdict:
    """Write the report of a run to a file. Raises :class:`LogError` for what is no log, or where it
    cannot be written."""
    findings = Findings(path)
    judged = verdict(findings)
    try:
        with open(output, "w", encoding="utf-8") as stream:
            stream.write(render(findings, judged))
    except OSError as error:
        raise LogError(why(error)) from error
    return judged


def render(f: Findings, judged: Verdict | None = None) -> str:
    """The page of what was found."""
    judged = judged or verdict(f)
    title = f"{f.header.profile} on {f.header.course}" if f.header else os.path.basename(f.path)
    made = [] if f.empty else panels(f)
    diagrams: list[PanelOrMissing] = [] if f.empty else [*waterfalls(f), *histograms(f)]
    maps: list[PanelOrMissing] = [] if f.empty else [drive_map(f), speed_map(f)]
    parts = [
        _verdict(f, judged, title),
        _section("drive", "Map", maps),
        _section("time", "Along the drive", made, before=_thinning(f)) + f.samples.html()
        if made
        else "",
        _section("ways", "Timing in all", diagrams),
        _tables(f),
    ]
    missing = [m for m in [*made, *diagrams, *maps] if isinstance(m, MissingPanel)]
    if missing:
        rows = "".join(f"<li><b>{escape(m.title)}</b>: {escape(m.reason)}</li>" for m in missing)
        parts.append(f'<section id="absent"><h2>Not shown, and why</h2><ul>{rows}</ul></section>')
    style, script = (
        html.resource("vehicled.offline.analysis.report", name) for name in ("page.css", "page.js")
    )
    body = (
        f' data-start="{f.seconds(f.axis.start_ns)!r}" data-span="{f.axis.duration_s!r}" '
        f'data-columns="{COLUMNS}"'
    )
    return html.page(
        title, style, parts, f" from {os.path.basename(f.path)}", script=script, body=body
    )


def _section(name: str, title: str, made: Sequence[PanelOrMissing], before: str = "") -> str:
    figures = "".join(panel.html() for panel in made if isinstance(panel, Panel))
    if not figures:
        return ""
    return (
        f'<section id="{name}"><h2>{escape(title)}</h2>{before}<div '
        f'class="panels">{figures}</div></section>'
    )


# ------------------------------------------------------------------ verdict


def _verdict(f: Findings, judged: Verdict, title: str) -> str:
    state = {True: "good", False: "bad", None: "open"}
    when = ""
    if f.header is not None and f.header.start_wall_ns > 0:
        when = datetime.fromtimestamp(f.header.start_wall_ns / 1e9, UTC).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        )
    how = [moment(f.axis.duration_s)] if not f.empty else []
    if f.header is not None:
        how += [
            f.header.controller,
            f.header.estimator,
            f.header.clock and f"{f.header.clock} clock",
            f.header.link,
        ]
        how += [f"seed {f.header.seed}" if f.header.seed is not None else ""]
    facts = ", ".join(escape(text) for text in [when, *how] if text)
    said_notes = list(f.notes)
    if f.header is not None and f.header.mixed:
        said_notes.insert(0, f"Mixed reality: virtual bodies were added ({f.header.mixed}).")
    notes = "".join(f'<li class="open">{escape(note)}</li>' for note in said_notes)
    sentences = "".join(
        f'<li class="{state[good]}">{escape(text)}</li>' for good, text in judged.sentences
    )
    stops = _stops(f, judged)
    return (
        f'<header><p class="run">{escape(title)}</p><h1 '
        f'class="{state[judged.good]}">{escape(judged.headline)}</h1><p '
        f'class="facts">{facts}</p><ul class="verdict">{sentences}{notes}</ul>{stops}</header>'
    )


def _stops(f: Findings, judged: Verdict) -> str:
    """Return the story of the last stop, and the stops before it."""
    ends = [stop for stop in judged.stops if not stop.aligned]
    # The only stop of a successful drive needs no history.
    if not ends or (judged.good and len(ends) == 1 and not ends[0].chain):
        return ""
    last = ends[-1]
    before = [stop for stop in judged.stops if stop is not last]
    story = stop_story(f, last)
    # A successful drive stopped at its end, so earlier faults were not the cause.
    heading = "What happened on the way" if judged.good else "Why it stopped"
    text = (
        f'<h2>{heading}</h2><div class="chains"><div class="stop"><p><b>Cause</b> '
        f"{escape(story.cause)}</p>"
    )
    parts = (
        ("Injected", story.injected),
        ("Before it", story.chain),
        ("What followed", story.consequences),
    )
    for label, lines in (
        *parts,
        ("Stops before", [describe_change(f, stop.change) for stop in before[-_STOPS:]]),
    ):
        links = "".join(f"<li>{escape(line)}</li>" for line in lines)
        text += f"<p>{label}</p><ol>{links}</ol>" if lines else ""
    more = (
        f"<p>{len(before) - _STOPS} more stops are in the list below.</p>"
        if len(before) > _STOPS
        else ""
    )
    return f"{text}</div></div>{more}"


def _thinning(f: Findings) -> str:
    where = (
        "" if f.samples.whole else " at the start, at the end and around misses and changes of mode"
    )
    return (
        '<p class="note">One axis of time for all. Times are m:ss or s of the run. Thinned to '
        f"{COLUMNS} columns of "
        f"{number(f.axis.column_s * 1e3)} ms: each shows the smallest and the largest value in "
        "it, so no spike is lost. "
        f'<span class="scripted">Drag across a panel to zoom, down to single samples{where}; '
        "double-click for all.</span></p>"
    )


# ------------------------------------------------------------------ tables


def _tables(f: Findings) -> str:
    return _tasks(f) + _events(f) + _ports(f) + _messages(f) + _topics(f) + _facts(f)


def _table(
    name: str,
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    *,
    folded: bool = False,
) -> str:
    if not rows:
        return ""
    table = html.table(head, map(html.row, rows))
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    if folded:
        return (
            f'<section id="{name}"><details><summary>{escape(title)} '
            f"({len(rows)})</summary>{table}{note}</details></section>"
        )
    return f'<section id="{name}"><h2>{escape(title)}</h2>{table}{note}</section>'


def _tasks(f: Findings) -> str:
    if f.timing is None:
        return ""
    rows = []
    for t in f.timing.tasks:
        causes = ", ".join(
            f"{name.replace('_', ' ')} {share:.0%}" for name, share in t.causes.items()
        )
        held = ", ".join(f"{name} {count}" for name, count in t.holders.items())
        r = t.response
        rows.append(
            [
                t.name, str(t.n), f"{t.rate_hz:.2f}", number(t.deadline_us),
                number(t.lateness.p50_us), number(t.lateness.p99_us), number(t.lateness.max_us),
                number(r.p50_us), number(r.p99_us), number(r.max_us), str(t.misses), str(t.skips),
                str(t.longest_miss_run), f"{t.late_share:.3%} of {t.budget:.1%}", (causes or "none")
                + (f"; held by {held}" if held else ""),
            ]
        )  # fmt: skip
    head = [
        "task", "releases", "Hz", "deadline µs", "lateness p50", "p99", "largest", "response p50",
        "p99", "largest", "missed", "skipped",
        "longest run", "late of budget", "causes",
    ]  # fmt: skip
    note = (
        "Lateness: start minus release. Response: end minus release. Missed: response beyond "
        "the deadline. In µs."
    )
    return _table("tasks", "Tasks and their deadlines", head, rows, note)


def _events(f: Findings) -> str:
    rows: list[tuple[int, str, str, str]] = []
    for fault in f.rare[Fault]:
        grade = fault.reaction.name.lower().replace("_", " ") if fault.reaction else ""
        origin = f" ({fault.origin})" if fault.origin else ""
        name = f"{fault.code} {'begins' if fault.active else 'is over'}{origin}"
        rows.append((fault.t_ns, name, grade, fault.reason))
    for change in f.rare[ModeChange]:
        grade = change.reaction.name.lower().replace("_", " ") if change.reaction else ""
        rows.append(
            (change.t_ns, f"mode {change.before.name} -> {change.after.name}", grade, change.reason)
        )
    rows += [(event.t_ns, event.name, event.level, said(event.fields)) for event in f.rare[Event]]
    rows += [
        (event.t_ns, f"port {event.port}", event.state.name.lower(), event.detail)
        for event in f.rare[PortEvent]
    ]
    rows += [
        (request.t_ns, "operator", request.action.name.lower(), request.origin)
        for request in f.rare[OperatorCommand]
    ]
    rows += [(each.t_ns, "contact", "", contact_text(each)) for each in f.rare[ObstacleContact]]
    rows.sort(key=lambda row: row[0])
    shown = [[f"{f.seconds(t_ns):.3f}", *rest] for t_ns, *rest in rows[:_LISTED]]
    total = sum(
        f.rare_counts[kind]
        for kind in (Fault, ModeChange, Event, PortEvent, OperatorCommand, ObstacleContact)
    )
    note = f"The first {_LISTED} of {total}." if total > len(shown) else ""
    if any(count > KEPT for count in f.rare_counts.values()):
        note += (
            f" Of each kind the first {KEPT} are drawn and listed; `vehicled log cat` gives all."
        )
    return _table(
        "events",
        "Faults, events, requests",
        ["s", "what", "grade", "in words"],
        shown,
        note.strip(),
        folded=True,
    )


def _ports(f: Findings) -> str:
    rows = []
    for (name, way), port in sorted(
        f.ports.items(), key=lambda item: (item[0][0], item[0][1].value)
    ):
        span_s = (port.last_ns - port.first_ns) * 1e-9
        rate = number((port.chunks - 1) / span_s) if span_s > 0 else "0"
        kind = "received" if way is Direction.RX else "sent"
        silence = f"{port.longest_silence_ns * 1e-6:.1f}"
        rows.append([name, kind, str(port.chunks), str(port.bytes), rate, silence])
    head = ["port", "way", "chunks", "bytes", "chunks per s", "longest silence ms"]
    return _table("ports", "Ports", head, rows)


def _messages(f: Findings) -> str:
    found = decode_rows(f.end.get(MESSAGES_KEY, ""))
    rows = [[row.port, row.message, str(row.arrived), str(row.used), row.text()] for row in found]
    head = ["port", "message", "arrived", "used", "not used, remarks"]
    note = "A valid checksum is not a valid content: each driver says what it did not use, and why."
    return _table("messages", "Messages of the devices", head, rows, note, folded=True)


def _topics(f: Findings) -> str:
    counts = {topic: f.counts.get(topic, f.seen.get(topic, 0)) for topic in f.types}
    rows = [
        [
            topic,
            f.types[topic],
            str(count),
            number(count / f.axis.duration_s) if f.axis.duration_s > 1e-3 else "",
        ]
        for topic, count in sorted(counts.items())
    ]
    return _table("topics", "Topics", ["topic", "type", "messages", "per s"], rows, folded=True)


def _facts(f: Findings) -> str:
    h: RunHeader | None = f.header
    facts: dict[str, str] = {"file": os.path.basename(f.path)}
    if len(f.files) > 1:
        facts["parts"] = str(len(f.files))
    if h is not None:
        facts |= {
            "run": h.run_id, "profile": h.profile, "digest of the profile": h.profile_digest,
            "course": h.course, "seed": "" if h.seed is None else str(h.seed), "clock": h.clock,
            "link": h.link, "latency": h.latency,
            "noise injected": h.noise, "mixed reality": h.mixed, "computer": h.board,
            "estimator": h.estimator,
            "controller": h.controller, "vehicled": h.vehicled_version, "Python": h.python_version,
            "numpy": h.numpy_version, "msgspec": h.msgspec_version,
            "numeric fingerprint": h.fingerprint,
            **{f"fingerprint: {k}": v for k, v in h.fingerprint_of.items()},
            "host": h.host, "event loop": h.loop, **h.realtime, "command": " ".join(h.argv),
        }  # fmt: skip
    facts |= {
        key.replace("_", " "): value
        for key, value in f.end.items()
        if key not in ("why", "outcome", MESSAGES_KEY)
    }
    return _table(
        "facts", "The run", ["", ""], [[key, value] for key, value in facts.items() if value]
    )

"""``vehicled log info``: header, topics, state and damage of a log file."""

import os
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from vehicled.core.wire.usage import decode_rows, usage_lines
from vehicled.log.mcapfile import message_heads
from vehicled.log.quota import is_being_written
from vehicled.log.reader import LogReader
from vehicled.log.schema import MESSAGES_KEY, RunHeader

_CHECK_LIMIT_BYTES = 200_000_000
"""Largest complete file whose chunks are checked; takes a second or two."""


class TopicInfo(Struct, frozen=True, kw_only=True):
    """Statistics of one topic."""

    topic: str
    type: str
    messages: int
    rate_hz: float
    """Mean rate over the duration of the file, Hz."""


class LogInfo(Struct, frozen=True, kw_only=True):
    """Description of one log file."""

    path: str
    size_bytes: int
    state: str
    """``complete``, ``being written``, or ``incomplete`` with the reason and the number of damaged
    chunks."""
    ended: str
    """Reason for the end of the run, as the daemon wrote it."""
    library: str
    start_utc: str
    """UTC time of the first message; empty if there is no message."""
    duration_s: float
    messages: int
    chunks: int
    damaged_chunks: int
    """Number of chunks that cannot be read or whose record head is wrong."""
    topics: list[TopicInfo]
    attachments: dict[str, int]
    """Size of each attachment, bytes."""
    header: RunHeader | None
    end: dict[str, str]
    checked: bool = True
    """True if the chunks were read; large complete files are not checked."""
    unreadable_chunks: int = 0
    """Number of damaged chunks whose content is lost."""

    def to_json(self) -> str:
        """Return the description as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self) -> str:
        """Return the description as plain text."""
        lines = [
            self.path,
            self.state,
            self._amount(),
            f"ended: {self.ended}",
        ]
        if (header := self.header) is not None:
            facts = {
                "run": header.run_id + (f", part {header.part}" if header.part > 1 else ""),
                "profile": f"{header.profile} {header.profile_digest[:16]}".strip(),
                "course": header.course,
                "seed": "" if header.seed is None else str(header.seed),
                "clock": header.clock,
                "link": header.link,
                "latency": header.latency,
                "computer": header.board,
                "estimator": header.estimator,
                "controller": header.controller,
                "vehicled": header.vehicled_version,
                "python": header.python_version,
                "numpy": header.numpy_version,
                "fingerprint": header.fingerprint,
                "host": header.host,
                "noise injected": header.noise,
                "mixed reality": header.mixed,
                "command": " ".join(header.argv),
                "event loop": header.loop,
                **header.realtime,
            }
            lines += [f"{key}: {value}" for key, value in facts.items() if value]
        elif self.library or self.topics:
            lines.append("not written by vehicled" + (f" ({self.library})" if self.library else ""))
        else:
            lines.append(
                "an MCAP start and nothing that can be read behind it: no header, no topic, no "
                "message"
            )
        lines += [
            f"{key}: {value}"
            for key, value in self.end.items()
            if key not in ("reason", MESSAGES_KEY) and value
        ]
        lines += [
            f"messages: {line}" for line in usage_lines(decode_rows(self.end.get(MESSAGES_KEY, "")))
        ]
        if self.damaged_chunks:
            lines.append(
                f"{self.damaged_chunks} of {self.chunks} chunks damaged, "
                f"{self.unreadable_chunks} of them unreadable"
            )
        elif not self.checked:
            lines.append(
                f"chunks not checked: the file is larger than {_CHECK_LIMIT_BYTES / 1e6:.0f} MB"
            )
        lines += [f"attachment {name}, {size} bytes" for name, size in self.attachments.items()]
        width = max((len(t.topic) for t in self.topics), default=0)
        lines += [""] if self.topics else []
        lines += [
            f"{t.topic:<{width}}  {t.messages:>9}  {t.rate_hz:>8.1f} Hz  {t.type}"
            for t in self.topics
        ]
        return "\n".join(lines) + "\n"

    def _amount(self) -> str:
        if not self.messages:
            size = (
                f"{self.size_bytes} bytes"
                if self.size_bytes < 100_000
                else f"{self.size_bytes / 1e6:.1f} MB"
            )
            return f"{size}, no messages"
        amount = (
            f"{self.size_bytes / 1e6:.1f} MB, {self.messages} messages in {self.chunks} "
            f"chunks, {self.duration_s:.1f} s"
        )
        return f"{amount} from {self.start_utc}" if self.start_utc else amount


def info(path: str | os.PathLike[str]) -> LogInfo:
    """Describe a file. Large complete files are read by their summary, others completely. Raises
    :class:`LogError`."""
    with LogReader(path) as log:
        layout = log.layout
        checked = layout.statistics is None or layout.size <= _CHECK_LIMIT_BYTES
        found = _count(log) if checked else {}
        if layout.statistics is not None and not log.faults:
            counts = dict(layout.statistics.channel_message_counts)
            start_ns = layout.statistics.message_start_time
            stop_ns = layout.statistics.message_end_time
        else:
            counts = found
            chunks = layout.chunks
            start_ns = int(chunks["start_ns"].min()) if len(chunks) else 0
            stop_ns = int(chunks["end_ns"].max()) if len(chunks) else 0
        duration_s = (stop_ns - start_ns) / 1e9
        topics = [
            TopicInfo(
                topic=channel.topic,
                type=layout.schemas[channel.schema_id].name
                if channel.schema_id in layout.schemas
                else "",
                messages=counts.get(channel.id, 0),
                rate_hz=counts.get(channel.id, 0) / duration_s if duration_s else 0.0,
            )
            for channel in sorted(layout.channels.values(), key=lambda channel: channel.topic)
        ]
        header = log.header if log.is_vehicled_log else None
        return LogInfo(
            path=log.path,
            size_bytes=layout.size,
            state=_state(log),
            ended=_ended(log),
            library=layout.library,
            start_utc=_utc(start_ns) if sum(counts.values()) and start_ns < 2**62 else "",
            duration_s=duration_s,
            messages=sum(counts.values()),
            chunks=len(layout.chunks),
            damaged_chunks=len(log.faults.keys() | log.bad_heads),
            checked=checked,
            unreadable_chunks=len(log.faults),
            topics=topics,
            attachments={entry.name: entry.data_size for entry in layout.attachments},
            header=header,
            end=log.end,
        )


def _utc(t_ns: int) -> str:
    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="seconds")


def _count(log: LogReader) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in range(len(log.layout.chunks)):
        try:
            for _, _, channel, _, _ in message_heads(log.records(number)):
                counts[channel] = counts.get(channel, 0) + 1
        except ValueError as error:
            log.faults[number] = str(error)
    return counts


def _state(log: LogReader) -> str:
    layout = log.layout
    damaged = len(log.faults.keys() | log.bad_heads)
    what = f"{damaged} of {len(layout.chunks)} chunks damaged" if damaged else ""
    if layout.complete:
        return (
            f"damaged: {what}, otherwise complete; `vehicled log recover` saves the intact part"
            if damaged
            else "complete"
        )
    if is_being_written(log.path):
        return "being written"
    state = f"incomplete: {layout.problem}" + (f", {what}" if damaged else "")
    if not log.is_vehicled_log and len(log.faults) == len(layout.chunks):
        return f"{state}; there is nothing to recover"
    return f"{state}; `vehicled log recover` completes it"


def _ended(log: LogReader) -> str:
    if log.end:
        return log.end.get("reason", "") or (
            "after a crash" if log.end.get("outcome") == "crashed" else "orderly"
        )
    if log.layout.complete and log.is_vehicled_log:
        return "the daemon was killed or crashed, or the run continues in the next part"
    return "unknown" if log.layout.complete else "not yet, or cut off"

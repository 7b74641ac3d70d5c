"""What ``vehicled log info`` tells of a log."""

import os
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from vehicled.log.mcapfile import message_heads
from vehicled.log.quota import is_being_written
from vehicled.log.reader import LogReader
from vehicled.log.schema import RunHeader


class TopicInfo(Struct, frozen=True, kw_only=True):
    """One topic."""

    topic: str
    type: str
    messages: int
    rate_hz: float
    """Over the duration of the whole file."""


class LogInfo(Struct, frozen=True, kw_only=True):
    """One file."""

    path: str
    size_bytes: int
    state: str
    """``complete``, ``being written``, or ``incomplete`` with the reason."""
    ended: str
    """How the daemon ended the run."""
    library: str
    start_utc: str
    duration_s: float
    messages: int
    chunks: int
    damaged_chunks: int
    topics: list[TopicInfo]
    attachments: dict[str, int]
    """Size by name."""
    header: RunHeader | None
    end: dict[str, str]

    def to_json(self) -> str:
        """As JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self) -> str:
        """As plain text."""
        lines = [
            self.path,
            self.state,
            (
                f"{self.size_bytes / 1e6:.1f} MB, {self.messages} messages in {self.chunks} chunks, "
                f"{self.duration_s:.1f} s from {self.start_utc}"
            ),
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
                "estimator": header.estimator,
                "controller": header.controller,
                "vehicled": header.vehicled_version,
                "python": header.python_version,
                "numpy": header.numpy_version,
                "fingerprint": header.fingerprint,
                "host": header.host,
                "command": " ".join(header.argv),
                "event loop": header.loop,
                **header.realtime,
            }
            lines += [f"{key}: {value}" for key, value in facts.items() if value]
        else:
            lines.append(f"not written by vehicled ({self.library})")
        lines += [f"{key}: {value}" for key, value in self.end.items() if key != "reason" and value]
        if self.damaged_chunks:
            lines.append(f"{self.damaged_chunks} damaged chunks")
        lines += [f"attachment {name}, {size} bytes" for name, size in self.attachments.items()]
        width = max((len(t.topic) for t in self.topics), default=0)
        lines += [""] if self.topics else []
        lines += [f"{t.topic:<{width}}  {t.messages:>9}  {t.rate_hz:>8.1f} Hz  {t.type}" for t in self.topics]
        return "\n".join(lines) + "\n"


def info(path: str | os.PathLike[str]) -> LogInfo:
    """What is in a file. Complete files are answered from their summary, others read through. Raises :class:`LogError`."""
    with LogReader(path) as log:
        layout = log.layout
        if layout.statistics is not None:
            counts = dict(layout.statistics.channel_message_counts)
            start_ns, stop_ns = layout.statistics.message_start_time, layout.statistics.message_end_time
        else:
            counts = _count(log)
            chunks = layout.chunks
            start_ns = int(chunks["start_ns"].min()) if len(chunks) else 0
            stop_ns = int(chunks["end_ns"].max()) if len(chunks) else 0
        duration_s = (stop_ns - start_ns) / 1e9
        topics = [
            TopicInfo(
                topic=channel.topic,
                type=layout.schemas[channel.schema_id].name if channel.schema_id in layout.schemas else "",
                messages=counts.get(channel.id, 0),
                rate_hz=counts.get(channel.id, 0) / duration_s if duration_s else 0.0,
            )
            for channel in sorted(layout.channels.values(), key=lambda channel: channel.topic)
        ]
        header = log.header if log.is_vehicled_log else None
        if layout.complete:
            state = "complete"
        elif is_being_written(log.path):
            state = "being written"
        else:
            state = f"incomplete: {layout.problem}; `vehicled log recover` completes it"
        return LogInfo(
            path=log.path,
            size_bytes=layout.size,
            state=state,
            ended=_ended(log),
            library=layout.library,
            start_utc=datetime.fromtimestamp(start_ns / 1e9, UTC).isoformat(timespec="seconds") if start_ns < 2**62 else "",
            duration_s=duration_s,
            messages=sum(counts.values()),
            chunks=len(layout.chunks),
            damaged_chunks=log.damaged_chunks,
            topics=topics,
            attachments={entry.name: entry.data_size for entry in layout.attachments},
            header=header,
            end=log.end,
        )


def _count(log: LogReader) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in range(len(log.layout.chunks)):
        for _, _, channel, _, _ in message_heads(log.records(number)):
            counts[channel] = counts.get(channel, 0) + 1
    return counts


def _ended(log: LogReader) -> str:
    if log.end:
        return log.end.get("reason", "") or "orderly"
    if log.layout.complete and log.is_vehicled_log:
        return "the daemon ended without a word (killed or crashed), or the run goes on in the next part"
    return "unknown" if log.layout.complete else "not yet, or cut off"

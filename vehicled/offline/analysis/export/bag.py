"""Exports a log as a rosbag2 folder: MCAP files with the ``metadata.yaml`` that ROS 2 tools need
(version 5, ROS 2 Humble)."""

import json
import os
import shutil
from typing import Any

from mcap.records import Statistics

from vehicled.log.errors import LogError
from vehicled.log.mcapfile import MESSAGE_HEAD, McapFile, compressor, message_heads
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import CHANNELS, MCAP_PROFILE, MESSAGE_ENCODING
from vehicled.offline.analysis.export.exporting import ExportRequest, ExportResult


def write(request: ExportRequest) -> ExportResult:
    """Write all topics, or a choice of ours; standard ROS types are copied from the log. Raises
    :class:`LogError`."""
    parts = run_parts(request.path)
    topics = {CHANNELS[kind].topic for kind in request.kinds}
    os.mkdir(request.out)
    found = []
    for number, part in enumerate(parts):
        name = f"{os.path.basename(os.path.normpath(request.out))}_{number}.mcap"
        target = os.path.join(request.out, name)
        with LogReader(part) as log:
            if topics or not log.layout.complete or log.layout.statistics is None:
                _rewrite(log, target, topics)
            else:
                shutil.copyfile(part, target)
        found.append((name, _summary(target)))
    types: dict[str, str] = {}
    counts: dict[str, int] = {}
    for _, (topic_types, topic_counts, _) in found:
        types |= topic_types
        for topic, count in topic_counts.items():
            counts[topic] = counts.get(topic, 0) + count
    if not sum(counts.values()):
        raise LogError(f"{request.path}: holds no messages of these topics; delete {request.out}")
    path = os.path.join(request.out, "metadata.yaml")
    # JSON is valid YAML, and quoted strings are unambiguous.
    with open(path, "x", encoding="utf-8") as stream:
        json.dump(
            _metadata([(name, statistics) for name, (_, _, statistics) in found], types, counts),
            stream,
            indent=1,
        )
        stream.write("\n")
    return ExportResult(
        files=[path, *(os.path.join(request.out, name) for name, _ in found)],
        counts=counts,
        notes=[],
    )


def _rewrite(log: LogReader, target: str, topics: set[str]) -> None:
    """Copy the chosen topics, or all intact messages of an incomplete file, chunk by chunk."""
    layout = log.layout
    wanted = {
        channel.id: channel
        for channel in layout.channels.values()
        if not topics or channel.topic in topics
    }
    name, compress = compressor("zstd")
    with open(target, "xb") as stream:
        file = McapFile(stream, MCAP_PROFILE, layout.library)
        for metadata, values in layout.metadata.items():
            file.add_metadata(metadata, values)
        for channel in wanted.values():
            file.add_schema(layout.schemas[channel.schema_id])
            file.add_channel(channel)
        for number in range(len(layout.chunks)):
            records = log.records(number)
            try:
                heads = list(message_heads(records))
            except ValueError:
                continue
            size = MESSAGE_HEAD.size
            kept = b"".join(
                records[at : at + size + length]
                for at, length, channel, _, _ in heads
                if channel in wanted
            )
            if kept:
                file.add_chunk(kept, name, compress(kept))
        file.finish()


def _summary(path: str) -> tuple[dict[str, str], dict[str, int], Statistics]:
    """Return (type by topic, messages by topic, statistics) of a complete file."""
    with LogReader(path) as log:
        statistics = log.layout.statistics
        if statistics is None:
            raise LogError(f"{path}: was not completed")
        channels = {
            c.id: c
            for c in log.layout.channels.values()
            if statistics.channel_message_counts.get(c.id)
        }
        types = {
            channel.topic: log.layout.schemas[channel.schema_id].name
            for channel in channels.values()
        }
        counts: dict[str, int] = {}
        for number, channel in channels.items():
            counts[channel.topic] = (
                counts.get(channel.topic, 0) + statistics.channel_message_counts[number]
            )
        return types, counts, statistics


def _metadata(
    files: list[tuple[str, Statistics]], types: dict[str, str], counts: dict[str, int]
) -> dict[str, Any]:
    starts = [statistics.message_start_time for _, statistics in files if statistics.message_count]
    ends = [statistics.message_end_time for _, statistics in files if statistics.message_count]
    topics = [
        {
            "topic_metadata": {
                "name": topic, "type": types[topic], "serialization_format": MESSAGE_ENCODING,
                "offered_qos_profiles": "",
            },
            "message_count": count,
        }
        for topic, count in sorted(counts.items())
    ]  # fmt: skip
    information = {
        "version": 5,
        "storage_identifier": "mcap",
        "relative_file_paths": [name for name, _ in files],
        "duration": {"nanoseconds": max(ends) - min(starts)},
        "starting_time": {"nanoseconds_since_epoch": min(starts)},
        "message_count": sum(counts.values()),
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "files": [
            {
                "path": name,
                "starting_time": {"nanoseconds_since_epoch": statistics.message_start_time},
                "duration": {
                    "nanoseconds": statistics.message_end_time - statistics.message_start_time
                },
                "message_count": statistics.message_count,
            }
            for name, statistics in files
        ],
    }
    return {"rosbag2_bagfile_information": information}

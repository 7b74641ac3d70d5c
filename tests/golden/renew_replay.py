"""Records the golden logs of the replay anew: ``python -m tests.golden.renew_replay``.

To be run when the machine is meant to act otherwise than before. What the logs were recorded with
is in their headers; projections are left out and the rest is packed tightly, so that the files stay
small.
"""

import glob
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import msgspec
import zstandard

from vehicled.log.layout import open_file
from vehicled.log.mcapfile import MESSAGE_HEAD, McapFile, message_heads
from vehicled.log.reader import LogReader
from vehicled.log.schema import CHANNELS, HEADER_RECORD, RunHeader

FOLDER = Path(__file__).resolve().parent / "replay"
SMALL = (
    "--quiet", "--course", "circle_r5_ccw", "--duration", "2",
    "--set", "devices.imu.rate_hz=100", "--set", "tasks.ingestion.rate_hz=200", "--set",
    "tasks.fusion.rate_hz=100", "--set", "tasks.control.rate_hz=50", "--set",
    "tasks.actuation.rate_hz=50",
)  # fmt: skip
RUNS = {
    "messages": ("--profile", "art", "--link", "messages", "--fail", "gnss:float@1+0.5"),
    "wires": ("--profile", "art", "--link", "wires", "--fail", "imu:off@1.6"),
    "wall": ("--profile", "art_vesc", "--link", "wires", "--clock", "wall"),
}
CHUNK_BYTES = 1 << 20


def record(name: str, folder: Path) -> Path:
    """One run, as the command line makes it. Returns the golden file."""
    from vehicled.cli import main

    argv = ["sim", *SMALL, *RUNS[name]]
    with (
        tempfile.TemporaryDirectory() as scratch,
        patch("platform.node", return_value="golden"),
        patch.object(sys, "argv", ["vehicled", *argv]),
    ):
        main([*argv, "--log", scratch])
        (log,) = glob.glob(f"{scratch}/*.mcap")
        return pack(Path(log), folder / f"{name}.mcap")


def pack(source: Path, target: Path) -> Path:
    """The log without projections, each stream in large chunks."""
    streams = {channel.id: channel.stream for channel in CHANNELS.values()}
    compress = zstandard.ZstdCompressor(level=19).compress
    with LogReader(source) as log, open(target, "wb") as out, open_file(source):
        layout = log.layout
        file = McapFile(out, layout.mcap_profile, layout.library)
        for metadata_name, metadata in layout.metadata.items():
            if metadata_name == HEADER_RECORD:
                header = msgspec.structs.replace(
                    RunHeader.from_metadata(metadata), realtime={}, loop=""
                )
                metadata = header.to_metadata()
            file.add_metadata(metadata_name, metadata)
        for entry in layout.attachments:
            file.add_attachment(
                entry.name,
                entry.media_type,
                log.attachment(entry.name),
                entry.log_time,
                entry.create_time,
            )
        ours = {number: channel for number, channel in layout.channels.items() if number in streams}
        for channel in ours.values():
            file.add_schema(layout.schemas[channel.schema_id])
            file.add_channel(channel)
        open_chunks = {stream: bytearray() for stream in streams.values()}
        for number in range(len(layout.chunks)):
            records = log.records(number)
            for at, length, channel_id, _, _ in message_heads(records):
                if channel_id in ours:
                    open_chunks[streams[channel_id]] += records[
                        at : at + MESSAGE_HEAD.size + length
                    ]
        for chunk in open_chunks.values():
            if chunk:
                file.add_chunk(bytes(chunk), "zstd", compress(bytes(chunk)))
        file.finish()
    return target


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for run in RUNS:
        print(record(run, FOLDER))  # noqa: T201 - the command line of this file

"""Flipped bytes in whole and in cut logs: what is reported of them, and that they cost no more than
the chunk they are in."""

import random
import struct
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from mcap.reader import make_reader
from mcap.writer import Writer as McapWriter

from tests.grid import sampled
from tests.harms import HARMS, zeroes
from vehicled.core.messages import ImuSample
from vehicled.log import info as info_module
from vehicled.log.damage import DamageKind, find_damage
from vehicled.log.errors import LogError
from vehicled.log.info import info
from vehicled.log.mcapfile import message_heads
from vehicled.log.pipe import WriterProcess
from vehicled.log.reader import LogReader
from vehicled.log.recover import recover
from vehicled.log.schema import Attachment, RunHeader

STEP_NS = 10_000_000
HIT = 10
"""The chunk that is damaged."""
UNCOMPRESSED_CRC = 9 + 24
DATA_BYTES = 9 + 24 + 4 + 4 + 4
"""Offset of the data length in a zstd chunk."""


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=5_000, profile="art", course="lot17", tasks=[],
    )  # fmt: skip
    attachments = [Attachment("a.txt", "text/plain", b"hello")]
    writer = WriterProcess.start(
        header, folder=str(tmp_path_factory.mktemp("log")), blocking=True, attachments=attachments
    )
    noise = random.Random(1)
    t_ns = 0
    for n in range(2_000):
        t_ns = 10_000 + n * STEP_NS
        writer.sink.record(
            ImuSample(t_ns, t_ns, (float(n), noise.random(), 9.8), (noise.random(), 0.0, 0.0)), t_ns
        )
        writer.pump(t_ns)
    result = writer.close({"reason": "done"}, t_ns)
    assert result.finished
    return Path(result.path)


def places(log_file):
    """(offset, length) of the chunks."""
    with LogReader(log_file) as log:
        return [(int(row["offset"]), int(row["length"])) for row in log.layout.chunks]


def messages(log_file):
    """Return the number of all records: those sent and the writer's projections."""
    return int(info(log_file).messages)


def in_chunk(log_file, number):
    with LogReader(log_file) as log:
        return len(list(message_heads(log.records(number))))


def damaged(log_file, folder, *flips, size=None):
    data = bytearray(log_file.read_bytes()[:size])
    for at, flip in flips:
        data[at] ^= flip
    path = folder / "bad.mcap"
    path.write_bytes(data)
    return path


HEADS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 0x80)] + [
    (byte, 1 << bit) for byte in range(1, 9) for bit in (0, 3, 7)
]
HEADS += [(DATA_BYTES + 3, 0x10)]


@pytest.mark.parametrize(
    ("byte", "flip", "cut"),
    sampled(
        [(*head, cut) for head in HEADS for cut in (False, True)],
        lambda case: case[1] in (1, 0x80) and case[2] is bool(case[0] % 2),
    ),
)
def test_a_flipped_opcode_or_length_of_a_chunk_costs_nothing(log_file, tmp_path, byte, flip, cut):
    chunks = places(log_file)
    stop = sum(chunks[-1]) if cut else None
    bad = damaged(log_file, tmp_path, (chunks[HIT][0] + byte, flip), size=stop)
    summary = info(bad)
    assert summary.damaged_chunks == 1
    assert summary.unreadable_chunks == 0
    assert f"1 of {len(chunks)} chunks damaged" in summary.state
    report = recover(bad)
    assert (report.messages, report.damaged_chunks, report.mended_chunks, report.lost_bytes) == (
        messages(log_file),
        0,
        1,
        0,
    )
    assert "damaged record head" in report.to_text()
    assert not report.loses
    with LogReader(report.path) as log:
        assert [
            record.message.specific_force_mps2[0] for record in log.messages(ImuSample)
        ] == list(range(2_000))
        assert log.attachment("a.txt") == b"hello"
        assert not log.bad_heads
    assert info(report.path).state == "complete"


@pytest.mark.parametrize("at", [UNCOMPRESSED_CRC, DATA_BYTES + 30, DATA_BYTES - 2])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_a_flipped_byte_inside_costs_its_chunk_and_is_reported(log_file, tmp_path, at, cut):
    chunks = places(log_file)
    offset, length = chunks[HIT]
    bad = damaged(log_file, tmp_path, (offset + at, 0x10), size=sum(chunks[-1]) if cut else None)
    kept = messages(log_file) - in_chunk(log_file, HIT)
    summary = info(bad)
    assert (summary.damaged_chunks, summary.unreadable_chunks, summary.messages) == (1, 1, kept)
    assert "chunks damaged" in summary.state
    assert summary.state != "complete"
    report = recover(bad)
    assert (report.messages, report.chunks, report.damaged_chunks) == (kept, len(chunks) - 1, 1)
    assert report.lost_bytes == length
    assert report.loses
    assert list(report.reasons.values()) == [1]
    text = report.to_text()
    assert f"LOST: 1 of {len(chunks)} chunks" in text
    assert f"LOST: {length} bytes" in text


def test_a_wiped_stretch_without_a_summary_costs_the_chunks_it_touches(log_file, tmp_path):
    chunks = places(log_file)
    offset = chunks[HIT][0]
    stop = chunks[HIT + 1][0] + 20
    noise = random.Random(2)
    bad = damaged(
        log_file,
        tmp_path,
        *((at, noise.randrange(1, 256)) for at in range(offset, stop)),
        size=sum(chunks[-1]),
    )
    report = recover(bad)
    assert report.messages == messages(log_file) - in_chunk(log_file, HIT) - in_chunk(
        log_file, HIT + 1
    )
    assert report.lost_bytes >= stop - offset


def test_a_changed_attachment_is_not_believed_and_not_recovered(log_file, tmp_path):
    whole = log_file.read_bytes()
    harmed = tmp_path / "harmed.mcap"
    harmed.write_bytes(whole.replace(b"hello", b"hallo", 1))
    with LogReader(harmed) as log, pytest.raises(LogError, match=r"a\.txt is damaged: wrong"):
        log.attachment("a.txt")
    harmed.write_bytes(harmed.read_bytes()[:-30])
    report = recover(harmed)
    assert report.lost_attachments == ["a.txt"]
    with LogReader(report.path) as log, pytest.raises(LogError, match="no attachment"):
        log.attachment("a.txt")


def test_a_damaged_summary_is_not_believed(log_file, tmp_path):
    data = log_file.read_bytes()
    (summary_start,) = struct.unpack_from("<Q", data, len(data) - 28)
    bad = damaged(log_file, tmp_path, (summary_start + 200, 0x10))
    assert "summary is damaged" in info(bad).state
    report = recover(bad)
    assert (report.messages, report.damaged_chunks, report.lost_bytes) == (messages(log_file), 0, 0)


@pytest.mark.parametrize("seed", sampled(range(60), lambda seed: seed < 16))
def test_any_flipped_byte_costs_at_most_one_chunk(log_file, tmp_path, seed):
    noise = random.Random(seed)
    chunks = places(log_file)
    stop = sum(chunks[-1])
    cut = stop if seed % 2 else None
    bad = damaged(
        log_file, tmp_path, (noise.randrange(chunks[0][0], stop), noise.randrange(1, 256)), size=cut
    )
    report = recover(bad)
    if report.path:
        assert report.messages >= messages(log_file) - max(
            in_chunk(log_file, number) for number in range(len(chunks))
        )
        assert report.chunks + report.damaged_chunks >= len(chunks) - 1


def test_chunks_of_large_files_are_reported_as_not_checked(log_file, tmp_path, monkeypatch):
    bad = damaged(log_file, tmp_path, (places(log_file)[HIT][0] + 1, 1))
    monkeypatch.setattr(info_module, "_CHECK_LIMIT_BYTES", 1_000)
    summary = info(bad)
    assert not summary.checked
    assert "not checked" in summary.to_text()
    monkeypatch.undo()
    assert "not checked" not in info(bad).to_text()


@pytest.mark.parametrize(
    "behind", [b"", bytes(50), random.Random(3).randbytes(5_000)], ids=["nothing", "zeros", "noise"]
)
def test_an_empty_start_is_called_what_it_is_and_makes_no_log(tmp_path, behind):
    path = tmp_path / "start.mcap"
    path.write_bytes(b"\x89MCAP0\r\n" + behind)
    text = info(path).to_text()
    assert "1970" not in text
    assert "()" not in text
    assert "no messages" in text
    assert "nothing to recover" in text
    with pytest.raises(LogError, match="nothing to recover"):
        recover(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_foreign_file_of_which_no_chunk_can_be_read_makes_no_log(tmp_path):
    path = tmp_path / "other.mcap"
    with open(path, "wb") as stream:
        writer = McapWriter(stream)
        writer.start()
        channel = writer.register_channel(
            "/x", "json", writer.register_schema("X", "jsonschema", b"{}")
        )
        writer.add_message(channel, 5, b"{}", 5)
        writer.finish()
    with LogReader(path) as log:
        offset = int(log.layout.chunks[0]["offset"])
    bad = damaged(path, tmp_path, (offset + UNCOMPRESSED_CRC, 1))
    with pytest.raises(LogError, match="nothing to recover"):
        recover(bad)
    assert sorted(tmp_path.iterdir()) == [bad, path]


# ------------------------------------------------------------------ damage anywhere


def said(path: Path) -> str:
    """Return what is said of a file's damage; empty if nothing is."""
    try:
        with LogReader(path) as log:
            found = find_damage(log)
            return "; ".join(each.to_text() for each in found) or (
                log.layout.problem if log.layout.cut else ""
            )
    except LogError as error:
        return str(error)


@pytest.mark.parametrize("checksum", [True, False], ids=["with a checksum", "of an older version"])
@given(
    harm=st.sampled_from(HARMS),
    at=st.floats(0.0, 0.9999),
    size=st.one_of(st.integers(1, 64), st.integers(1, 20_000)),
)
def test_damage_of_any_kind_at_any_place_is_found(
    log_file, tmp_path_factory, checksum, harm, at, size
):
    path = tmp_path_factory.mktemp("harmed") / "harmed.mcap"
    data = log_file.read_bytes()
    with LogReader(log_file) as log:
        data_end, chunks = log.layout.data_end, log.layout.chunks
        first = int(chunks["offset"].min())
        last = int((chunks["offset"] + chunks["length"] + chunks["index_length"]).max())
    if not checksum:
        # Only what a chunk, its index or the summary say of themselves can be checked then.
        data = data[: data_end + 9] + bytes(4) + data[data_end + 13 :]
        place = first + int(at * (last - first))
        size = min(size, last - place)
    else:
        place = int(at * len(data))
    harmed = harm(data, place, size)
    path.write_bytes(harmed)
    if harmed != data:
        assert said(path)
    else:
        assert said(path) == ""
    path.unlink()


def test_damage_has_its_place_and_its_time(log_file, tmp_path):
    offset, length = places(log_file)[HIT]
    path = tmp_path / "zeros.mcap"
    path.write_bytes(zeroes(log_file.read_bytes(), offset + 100, 300))
    with LogReader(path) as log:
        (damage,) = find_damage(log)
        row = log.layout.chunks[HIT]
    assert (damage.kind, damage.offset, damage.length) == (DamageKind.CHUNK, offset, length)
    assert damage.topics == ("/imu/data", "/vehicled/imu_sample")
    assert damage.from_s == pytest.approx((int(row["start_ns"]) - 1_790_000_000_000_000_000) * 1e-9)
    assert damage.to_text().startswith(f"bytes {offset} to {offset + length}, t = ")


def test_records_that_are_there_twice_and_counts_that_do_not_fit_are_damage(log_file, tmp_path):
    twice = rewritten(log_file, tmp_path / "twice.mcap", 2)
    assert "1000 records are there more than once, the first is record 2" in said(twice)
    assert said(rewritten(log_file, tmp_path / "once.mcap", 1)) == ""


def rewritten(log_file, path, times):
    """Write the log anew by another library, every second of our messages several times."""
    with open(log_file, "rb") as old, open(path, "wb") as new:
        reader = make_reader(old)
        writer = McapWriter(new)
        writer.start(profile="ros2", library="another")
        for metadata in reader.iter_metadata():
            writer.add_metadata(metadata.name, metadata.metadata)
        channels = {}
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            if channel.id not in channels:
                assert schema is not None
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(
                    channel.topic, channel.message_encoding, number
                )
            for _ in range(
                times
                if message.sequence % 2 == 0 and channel.topic == "/vehicled/imu_sample"
                else 1
            ):
                writer.add_message(
                    channels[channel.id],
                    message.log_time,
                    message.data,
                    message.publish_time,
                    message.sequence,
                )
        writer.finish()
    return path

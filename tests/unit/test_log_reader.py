"""Reading whole, cut and foreign files; recovering the cut ones."""

import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import Writer as McapWriter

from tests.grid import sampled
from vehicled.core.messages import ActuatorCommand, Cause, Direction, ImuSample, TaskTick, WireChunk
from vehicled.log import reader as reader_module
from vehicled.log.errors import LogError
from vehicled.log.info import info
from vehicled.log.mcapfile import message_heads
from vehicled.log.pipe import WriterProcess
from vehicled.log.reader import LogReader, ticks
from vehicled.log.recover import recover
from vehicled.log.schema import LOG_VERSION, Attachment, RunHeader, TaskRow, schema_of
from vehicled.offline.analysis.timing import timing

STEP_NS = 10_000_000
COUNT = 800


def header():
    return RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=5_000, profile="art", course="lot17",
        tasks=[TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)],
    )  # fmt: skip


def sent(count):
    """[(log time, message)] in the order of the journal."""
    messages = []
    for n in range(count):
        t_ns = 10_000 + n * STEP_NS
        messages += [
            (t_ns, WireChunk(t_ns, "imu", Direction.RX, bytes([n % 256]) * (n % 40))),
            (t_ns, ImuSample(t_ns, t_ns, (float(n), 0.0, 9.8), (0.0, 0.0, 0.0))),
            (
                t_ns,
                TaskTick(t_ns, t_ns + 1, t_ns + 2, 1, 10, 0, n % 3, n % 7 == 0, Cause.COMPUTE, 255),
            ),
            (t_ns, ActuatorCommand(t_ns, t_ns - 3_000, 0.1, 0.0, 0.2, 0.3)),
        ]
    return messages


ALL_SENT = {str(message) for _, message in sent(COUNT)}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    attachments = [Attachment("a.txt", "text/plain", b"hello")]
    writer = WriterProcess.start(
        header(), folder=str(tmp_path_factory.mktemp("log")), blocking=True, attachments=attachments
    )
    t_ns = 0
    for t_ns, message in sent(COUNT):
        writer.sink.record(message, t_ns)
        writer.pump(t_ns)
    result = writer.close({"reason": "done"}, t_ns)
    assert result.finished
    return Path(result.path)


def test_messages_come_back_equal_and_in_the_order_of_the_journal(log_file):
    with LogReader(log_file) as log:
        assert log.layout.complete
        assert len(log.layout.chunks) > 40
        # NaN differs from itself; text does not.
        assert [(record.t_ns, str(record.message)) for record in log.messages()] == [
            (t, str(m)) for t, m in sent(COUNT)
        ]
        assert [record.sequence for record in log.messages()] == list(range(1, 4 * COUNT + 1))
        assert log.damaged_chunks == 0


def test_messages_of_one_type_and_of_an_interval(log_file):
    with LogReader(log_file) as log:
        found = list(
            log.messages(ImuSample, start_ns=10_000 + 5 * STEP_NS, stop_ns=10_000 + 700 * STEP_NS)
        )
    assert [record.message.specific_force_mps2[0] for record in found] == list(range(5, 700))


def test_arrays_are_the_messages(log_file):
    columns: dict[Any, list[Any]] = {}
    with LogReader(log_file) as log:
        for kind, found in log.arrays(TaskTick, ImuSample, ActuatorCommand):
            columns.setdefault(kind, []).append(found)
        with pytest.raises(TypeError):
            next(log.arrays(WireChunk))
    for kind, parts in columns.items():
        table = np.concatenate(parts)
        messages = [message for _, message in sent(COUNT) if type(message) is kind]
        assert len(table) == len(messages) == COUNT
        for name in kind.__struct_fields__:
            np.testing.assert_array_equal(
                table[name], np.array([getattr(message, name) for message in messages])
            )
    assert sum(len(found) for found in ticks(log_file)) == COUNT


def test_arrays_without_message_indexes(log_file):
    with LogReader(log_file) as log:
        expected = np.concatenate([found for _, found in log.arrays(ImuSample)])
        log.layout.chunks = log.layout.chunks.copy()
        log.layout.chunks["index_length"] = 0
        # NaN differs from itself; bytes do not.
        assert (
            np.concatenate([found for _, found in log.arrays(ImuSample)]).tobytes()
            == expected.tobytes()
        )


def test_sequence_wraps_without_disorder(log_file, monkeypatch):
    shift = 2**32 - 1500
    original = message_heads

    def wrapped(records):
        for offset, length, channel, sequence, log_time in original(records):
            yield offset, length, channel, (sequence + shift) % 2**32, log_time

    monkeypatch.setattr(reader_module, "message_heads", wrapped)
    with LogReader(log_file) as log:
        assert [str(record.message) for record in log.messages()] == [
            str(m) for _, m in sent(COUNT)
        ]


@pytest.mark.parametrize("seed", sampled(range(50), lambda seed: seed < 12))
def test_cut_anywhere_everything_up_to_the_last_whole_chunk_comes_back(log_file, tmp_path, seed):
    with LogReader(log_file) as log:
        chunks = log.layout.chunks
        whole = (chunks["offset"] + chunks["length"]).astype(np.int64)
        data_start = int(chunks["offset"][0])
    size = random.Random(seed).randrange(data_start, log_file.stat().st_size)
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(log_file.read_bytes()[:size])
    kept = int((whole <= size).sum())

    with LogReader(cut) as log:
        assert not log.layout.complete
        assert len(log.layout.chunks) == kept
        salvaged = [str(record.message) for record in log.messages()]
    assert "incomplete" in info(cut).state
    report = recover(cut)
    assert (report.chunks, report.damaged_chunks) == (kept, 0)
    assert cut.stat().st_size == size
    with LogReader(report.path) as log:
        assert log.layout.complete
        assert log.header == header()
        assert [str(record.message) for record in log.messages()] == salvaged
    with open(report.path, "rb") as stream:
        mcap = make_reader(stream, validate_crcs=True)
        summary = mcap.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert (
            sum(1 for _ in mcap.iter_messages())
            == report.messages
            == summary.statistics.message_count
        )
    assert ALL_SENT.issuperset(salvaged)


def test_recovering_a_complete_file_does_nothing(log_file):
    report = recover(log_file)
    assert (report.path, report.messages, report.lost_bytes) == ("", info(log_file).messages, 0)
    assert "nothing to recover" in report.to_text()


def test_recovering_never_overwrites(log_file, tmp_path):
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(log_file.read_bytes()[:-20])
    out = tmp_path / "out.mcap"
    out.write_text("mine")
    with pytest.raises(LogError, match="already"):
        recover(cut, out)
    assert out.read_text() == "mine"


def test_flipped_byte_costs_its_chunk_and_is_counted(log_file, tmp_path):
    data = bytearray(log_file.read_bytes())
    with LogReader(log_file) as log:
        chunk = log.layout.chunks[10]
        lost = len(list(message_heads(log.records(10))))
        total = info(log_file).messages
    data[int(chunk["offset"]) + int(chunk["length"]) - 30] ^= 0x10
    bad = tmp_path / "bad.mcap"
    bad.write_bytes(data)
    with LogReader(bad) as log:
        list(log.messages())
        assert log.damaged_chunks == 1
    report = recover(bad)
    assert (report.damaged_chunks, report.messages) == (1, total - lost)
    assert recover(report.path).path == ""


def test_zeros_behind_the_data_as_a_power_cut_leaves_them(log_file, tmp_path):
    data = log_file.read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(data[: len(data) // 2] + bytes(100_000))
    report = recover(cut)
    assert report.chunks > 10
    # The torn chunk reaches into the zeros and fails its checksum.
    assert report.damaged_chunks == 1
    assert report.lost_bytes > 90_000


def foreign(path, *, version=None):
    with open(path, "wb") as stream:
        writer = McapWriter(stream)
        writer.start()
        if version is not None:
            writer.add_metadata(
                "vehicled", {"log_version": str(version), "vehicled_version": "7.0"}
            )
        channel = writer.register_channel(
            "/x", "json", writer.register_schema("X", "jsonschema", b"{}")
        )
        writer.add_message(channel, 5, b"{}", 5)
        writer.finish()
    return path


GARBAGE = {
    "empty.mcap": (b"", "empty"),
    "picture.mcap": (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG image"),
    "text.mcap": (b"hello world, this is text", "not an MCAP file"),
    "start.mcap": (b"\x89MCAP", "nothing to recover"),
    "next.mcap": (b"\x89MCAP1\r\n" + bytes(100), "major version"),
    "noise.mcap": (b"\x89MCAP0\r\n" + random.Random(1).randbytes(10_000), "no run header"),
    "magic.mcap": (b"\x89MCAP0\r\n", "no run header"),
    "huge.mcap": (b"\x89MCAP0\r\n\x06" + struct.pack("<Q", 2**63) + bytes(100), "no run header"),
    "tail.mcap": (
        b"\x89MCAP0\r\n"
        + bytes(50)
        + b"\x02"
        + struct.pack("<QQQI", 20, 9, 9, 0)
        + b"\x89MCAP0\r\n",
        "no run header",
    ),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_log_error_that_says_what_it_is(tmp_path, name):
    data, expected = GARBAGE[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(LogError, match=expected) as failure:
        timing(path)
    assert name in str(failure.value)


def test_newer_log_missing_file_folder_and_foreign_file(tmp_path):
    with pytest.raises(LogError, match="update"):
        LogReader(foreign(tmp_path / "newer.mcap", version=LOG_VERSION + 1))
    with pytest.raises(LogError, match="no such file"):
        LogReader(tmp_path / "missing.mcap")
    with pytest.raises(LogError, match="folder"):
        LogReader(tmp_path)
    other = foreign(tmp_path / "other.mcap")
    assert info(other).topics[0].topic == "/x"
    assert "not written by vehicled" in info(other).to_text()
    with pytest.raises(LogError, match="not written by vehicled"):
        timing(other)
    with LogReader(other) as log:
        assert list(log.messages()) == []


def test_recovering_a_foreign_file_keeps_the_channels_inside_its_chunks(tmp_path):
    whole = foreign(tmp_path / "other.mcap").read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole[:-40])
    report = recover(cut)
    with open(report.path, "rb") as stream:
        assert [channel.topic for _, channel, _ in make_reader(stream).iter_messages()] == ["/x"]


def test_log_of_an_older_layout_is_read_with_defaults(log_file, tmp_path):
    """A field appended since: the file's own definition says how many fields its records have."""
    name, text = schema_of(ImuSample)
    older = "\n".join(line for line in text.splitlines() if "saturated" not in line).encode()
    path = tmp_path / "older.mcap"
    with open(path, "wb") as stream:
        writer = McapWriter(stream)
        writer.start("ros2")
        writer.add_metadata("vehicled", header().to_metadata())
        channel = writer.register_channel(
            "/vehicled/imu_sample", "cdr", writer.register_schema(name, "ros2msg", older)
        )
        body = struct.pack("<HHqq7d", 256, 0, 1, 2, *(0.5,) * 7)
        writer.add_message(channel, 1, body, 1)
        writer.finish()
    with LogReader(path) as log:
        (record,) = log.messages()
        assert record.message == ImuSample(1, 2, (0.5,) * 3, (0.5,) * 3, 0.5, False)
        ((_, table),) = log.arrays(ImuSample)
        assert table["temperature_k"].tolist() == [0.5]


def test_summary_crc_is_right(log_file):
    data = log_file.read_bytes()
    start, _, crc = struct.unpack_from("<QQI", data, len(data) - 28)
    assert zlib.crc32(data[start:-12]) == crc


def test_info_counts_alike_with_and_without_a_summary(log_file, tmp_path):
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(log_file.read_bytes()[:-30])
    whole, salvaged = info(log_file), info(cut)
    assert {t.topic: t.messages for t in whole.topics} == {
        t.topic: t.messages for t in salvaged.topics
    }
    assert whole.topics
    assert whole.duration_s == salvaged.duration_s
    assert whole.attachments == salvaged.attachments == {"a.txt": 5}
    for text in (whole.to_text(), whole.to_json()):
        assert "/vehicled/task_tick" in text

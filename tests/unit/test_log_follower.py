"""A log that is read while it is being written: each message once, in order, however its bytes
arrive."""

import pytest

from tests.log_bench import drive, write
from vehicled.core.messages import GnssFix, GroundTruth, Message
from vehicled.log import follow
from vehicled.log.errors import LogError
from vehicled.log.follow import LogFollower
from vehicled.log.layout import CHUNK_PEEK_BYTES
from vehicled.log.quota import lock
from vehicled.log.reader import LogReader, run_messages
from vehicled.log.schema import END_RECORD

KINDS = GroundTruth, GnssFix


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A complete log, and its messages."""
    path = write(tmp_path_factory.mktemp("log") / "whole.mcap", drive(1, seconds=6))
    return path, list(run_messages(path, *KINDS))


@pytest.mark.parametrize("step", [997, 40_000])
def test_a_log_that_grows_by_any_number_of_bytes_is_read_once(log, tmp_path, step):
    path, expected = log
    with open(path, "rb") as whole:
        data = whole.read()
    growing = tmp_path / "growing.mcap"
    growing.write_bytes(data[:step])
    found: list[Message] = []
    with open(growing, "ab") as out, LogFollower(growing, *KINDS) as follower:
        for at in range(step, len(data) + step, step):
            found += follower.read()
            out.write(data[at : at + step])
            out.flush()
        found += follower.read()
        assert follower.ended
        assert follower.orderly
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_the_next_part_of_a_run_follows(log, tmp_path):
    path, expected = log
    with open(path, "rb") as whole:
        data = whole.read()
    first = tmp_path / "run.mcap"
    # The first part ends, and its run does not: the record of the end has another name.
    first.write_bytes(data.replace(END_RECORD.encode(), b"x" * len(END_RECORD)))
    found: list[Message] = []
    with LogFollower(first, *KINDS) as follower:
        found += follower.read()
        found += follower.read()
        assert not follower.ended
        (tmp_path / "run_part2.mcap").write_bytes(data)
        found += follower.read()
        assert follower.orderly
    assert len(found) == 2 * len(expected)


def test_a_log_whose_writer_is_gone_ends(log, tmp_path, monkeypatch):
    path, _ = log
    with open(path, "rb") as whole:
        data = whole.read()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(data[: len(data) // 2])
    monkeypatch.setattr(follow, "IDLE_S", -1.0)
    with open(cut, "ab") as writer, LogFollower(cut, *KINDS) as follower:
        assert lock(writer.fileno())
        assert list(follower.read())
        for _ in range(3):
            assert not list(follower.read())
        assert not follower.ended
        writer.close()
        list(follower.read())
        assert follower.ended
        assert not follower.orderly


def test_a_damaged_chunk_is_counted_and_left_out(log, tmp_path):
    path, expected = log
    with LogReader(path) as reader:
        at = int(reader.layout.chunks[0]["offset"]) + CHUNK_PEEK_BYTES + 200
    with open(path, "rb") as whole:
        data = bytearray(whole.read())
    data[at] ^= 0xFF
    (tmp_path / "bad.mcap").write_bytes(data)
    with LogFollower(tmp_path / "bad.mcap", *KINDS) as follower:
        found = list(follower.read())
        assert follower.damaged_chunks == 1
        assert follower.ended
    assert 0 < len(found) < len(expected)


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "some.mcap").write_bytes(b"PK not a log")
    with pytest.raises(LogError, match="not an MCAP file"):
        LogFollower(tmp_path / "some.mcap", *KINDS)

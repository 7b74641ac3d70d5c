"""The loop's side: what is packed, when chunks close, and what is given up first."""

import json

from vehicled.core.messages import (
    Cause,
    Direction,
    Event,
    ImuSample,
    OperatorAction,
    OperatorCommand,
    TaskTick,
    WireChunk,
)
from vehicled.log.frames import FrameDecoder, LogFrameKind
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.outbox import FrameQueue
from vehicled.log.schema import CHANNELS
from vehicled.log.sink import CHUNK_AGE_NS, CHUNK_BYTES, LogSink
from vehicled.ros.cdr import packer, unpacker

OFFSET = 10**18
BY_ID = {channel.id: message for message, channel in CHANNELS.items()}


def imu(t_ns):
    return ImuSample(t_ns, t_ns, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0))


def drain(sink):
    data = bytearray()
    while (head := sink.outbox.head()) is not None:
        data += head
        sink.outbox.advance(len(head))
    return data


def content(data):
    """[(frame number, sequence, log time, message)] of all frames."""
    found = []
    for number, (kind, payload) in enumerate(FrameDecoder().feed(bytes(data))):
        assert kind is LogFrameKind.RECORDS
        for at, length, channel, sequence, log_time in message_heads(payload):
            body = payload[at + MESSAGE_HEAD.size :][:length]
            found.append((number, sequence, log_time, unpacker(BY_ID[channel])(body)))
    return found


def test_records_keep_message_time_and_journal_order_across_streams():
    sink = LogSink(OFFSET)
    sent = [
        (5, WireChunk(5, "gnss", Direction.RX, b"\x00\xff")), (6, imu(6)),
        (7, TaskTick(1, 2, 3, 1, 10, 0, 2, True, Cause.QUEUED, 1)),
        (8, OperatorCommand(8, 8, OperatorAction.ARM, "x")),
    ]  # fmt: skip
    for t_ns, message in sent:
        sink.record(message, t_ns)
    sink.close_chunks(9)
    found = sorted(content(drain(sink)), key=lambda item: item[1])
    assert [(t - OFFSET, message) for _, _, t, message in found[:1]] == sent[:1]
    assert [t - OFFSET for _, _, t, _ in found] == [t for t, _ in sent]
    assert [sequence for _, sequence, _, _ in found] == [1, 2, 3, 4]
    for (_, message), (_, _, _, back) in zip(sent, found):
        assert packer(type(message))(message) == packer(type(back))(back)
    assert len({frame for frame, *_ in found}) == 3


def test_chunk_closes_by_age_and_by_size_only():
    sink = LogSink(0)
    sink.flush(0)
    sink.record(imu(1), 1)
    sink.flush(CHUNK_AGE_NS - 1)
    assert len(sink.outbox) == 0
    sink.flush(CHUNK_AGE_NS)
    assert len(sink.outbox) == 1
    sink.flush(5 * CHUNK_AGE_NS)
    assert len(sink.outbox) == 1
    count = 0
    while len(sink.outbox) == 1:
        sink.record(imu(2), 2)
        count += 1
    # 31 bytes of record head and 77 of CDR.
    assert CHUNK_BYTES // 108 <= count <= CHUNK_BYTES // 108 + 1


def test_derived_topics_go_first_and_the_marker_counts_them():
    sink = LogSink(0, derived_limit_bytes=3 * CHUNK_BYTES)
    for n in range(20_000):
        sink.record(imu(n), n)
        sink.record(OperatorCommand(n, n, OperatorAction.NONE), n) if n % 100 == 0 else None
    assert sink.outbox.waiting_bytes < 4 * CHUNK_BYTES + 20_000
    first = content(drain(sink))
    sink.record(imu(20_000), 20_000)
    sink.finish(20_001)
    found = first + content(drain(sink))
    kept = sum(isinstance(message, ImuSample) for *_, message in found)
    dropped = [
        json.loads(message.fields)
        for *_, message in found
        if isinstance(message, Event) and message.name == "log_dropped"
    ]
    began = [
        message
        for *_, message in found
        if isinstance(message, Event) and message.name == "log_dropping"
    ]
    assert len(began) == len(dropped) == 1
    assert dropped[0]["records"] == sink.derived_losses.records == 20_001 - kept > 0
    assert dropped[0]["from_ns"] < dropped[0]["to_ns"]
    assert sum(isinstance(message, OperatorCommand) for *_, message in found) == 200
    assert sink.not_replayable_after_ns is None


def test_journal_overflow_is_marked_at_once_and_bounded():
    sink = LogSink(0, journal_limit_bytes=4 * CHUNK_BYTES)
    data = bytes(1000)
    for n in range(1, 2001):
        sink.record(WireChunk(n, "imu", Direction.RX, data), n)
    assert sink.outbox.waiting_bytes < 5 * CHUNK_BYTES
    gap = sink.not_replayable_after_ns
    assert gap is not None
    found = content(drain(sink))
    marker = [
        message
        for *_, message in found
        if isinstance(message, Event) and message.name == "not_replayable_after"
    ]
    assert [json.loads(m.fields)["complete_to_ns"] for m in marker] == [gap]
    # Everything up to the stated time is there, and what follows is not.
    times = {t for _, _, t, message in found if isinstance(message, WireChunk)}
    assert times == set(range(1, gap + 1))
    sink.finish(3000)
    rest = content(drain(sink))
    total = [
        json.loads(m.fields)["records"]
        for *_, m in rest
        if isinstance(m, Event) and m.name == "journal_dropped"
    ]
    assert total == [sink.journal_losses.records]
    assert (
        len(times) + sink.journal_losses.records + sum(isinstance(m, WireChunk) for *_, m in rest)
        == 2000
    )


def test_message_that_does_not_fit_costs_itself_and_one_event():
    sink = LogSink(0)
    for n in range(3):
        sink.record(WireChunk(2**70, "imu", Direction.RX, b""), n)
        sink.record(imu(n), n)
    sink.record(imu(-5), -5)
    sink.close_chunks(10)
    found = [message for *_, message in content(drain(sink))]
    assert sum(isinstance(message, ImuSample) for message in found) == 3
    assert [message.name for message in found if isinstance(message, Event)] == ["log_unpackable"]
    assert sink.unpackable == 4


def test_sink_that_was_stopped_keeps_nothing():
    sink = LogSink(0)
    sink.record(imu(1), 1)
    sink.stop()
    for n in range(5000):
        sink.record(imu(n), n)
    sink.finish(10**12)
    assert sink.outbox.waiting_bytes == 0
    assert sink.outbox.head() is None


def test_outbox_takes_partial_writes_in_order():
    outbox = FrameQueue(1000, 1000)
    assert outbox.offer(b"abcdef", lossless=True)
    assert outbox.offer(b"ghi", lossless=False)
    out = b""
    while (head := outbox.head()) is not None:
        out += bytes(head[:2])
        outbox.advance(min(2, len(head)))
    assert out == b"abcdefghi"
    assert outbox.waiting_bytes == 0


def test_frames_cut_anywhere_are_the_same_frames():
    sink = LogSink(0)
    for n in range(50):
        sink.record(imu(n), n)
    sink.close_chunks(60)
    data = bytes(drain(sink)) * 3
    whole = list(FrameDecoder().feed(data))
    for step in (1, 7, 4096):
        decoder = FrameDecoder()
        assert [
            frame
            for at in range(0, len(data), step)
            for frame in decoder.feed(data[at : at + step])
        ] == whole
        assert decoder.rest == 0

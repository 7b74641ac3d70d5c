"""``vehicled log cat``: every message, in order, as JSON that any reader takes."""

import json
from math import inf, nan

import pytest

from vehicled.core import messages
from vehicled.log.cat import kinds_of, lines, plain_fields
from vehicled.log.errors import LogError
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import CHANNELS, RunHeader, TaskRow

START_NS = 7_000_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=START_NS, profile="art", course="sine",
        tasks=[TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)],
    )  # fmt: skip
    writer = WriterProcess.start(header, folder=str(tmp_path_factory.mktemp("log")), blocking=True)
    for k in range(20):
        t_ns = START_NS + k * 100_000_000
        writer.sink.record(
            messages.WheelSpeed(t_ns, t_ns + 1, 0.1 * k, nan if k == 3 else 0.1), t_ns
        )
        writer.sink.record(
            messages.WireChunk(t_ns, "gnss", messages.Direction.RX, bytes([k, 255])), t_ns
        )
        writer.sink.record(messages.ObstacleRange(t_ns, t_ns, inf), t_ns)
        writer.pump(t_ns)
    return str(writer.close({"reason": "done"}, START_NS + 3 * 10**9).path)


def test_all_of_it_in_order(log: str) -> None:
    found = [json.loads(line) for line in lines(log)]
    assert len(found) == 60
    assert [entry["topic"] for entry in found[:3]] == [
        "wheel_speed",
        "wire_chunk",
        "obstacle_range",
    ]
    assert [entry["t_s"] for entry in found] == sorted(entry["t_s"] for entry in found)
    chunk = {
        "t_s": 0.0,
        "topic": "wire_chunk",
        "t_ns": START_NS,
        "port": "gnss",
        "direction": "RX",
        "data": "00ff",
        "checksum": 0,
    }
    assert found[1] == chunk
    assert found[2]["distance_m"] is None
    assert found[9]["sigma_mps"] is None
    assert found[9]["speed_mps"] == pytest.approx(0.3)


def test_topics_times_and_a_limit(log: str) -> None:
    some = [json.loads(line) for line in lines(log, ["wheel_speed"], start_s=0.5, stop_s=1.0)]
    assert [round(entry["t_s"], 6) for entry in some] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert len(list(lines(log, ["WheelSpeed", "/vehicled/wire_chunk"], limit=7))) == 7


@pytest.mark.parametrize("kind", messages.ALL)
def test_every_topic_goes_by_three_names(kind: type[messages.Message]) -> None:
    topic = CHANNELS[kind].topic
    assert kinds_of([kind.__name__, topic, topic.rsplit("/", 1)[-1]]) == (kind,) * 3


def test_an_unknown_topic_is_reported_with_the_nearest(log: str) -> None:
    with pytest.raises(LogError, match='did you mean "wheel_speed"'):
        list(lines(log, ["wheel_sped"]))


def test_a_scan_says_why_a_range_is_null() -> None:
    scan = messages.LaserScan(0, 0, 0.0, 0.1, 0.0, 0.1, 0.1, 10.0, 0.0, 0.0, (1.5, inf, -inf, nan))
    fields = plain_fields(scan)
    assert fields["ranges_m"] == [1.5, None, None, None]
    assert fields["rays"] == "ronx"
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert "rays" not in plain_fields(
        messages.OperatorCommand(0, 0, messages.OperatorAction.ARM, "a")
    )

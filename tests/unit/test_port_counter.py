"""Counters of the kernel as a port: lines for the driver of encoders, and counters that do not
count."""

from pathlib import Path

import pytest

from drivers.encoder.codec import EncoderCounts, decode, encode, parse
from tests.conformance.port_kit import now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.ports import make_port

RETRY = "retry_min_s=0.001&retry_max_s=0.005"


def counter(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in ({"count": "7", "enable": "1", "ceiling": "4294967295"} | files).items():
        (folder / name).write_text(text + "\n")
    return folder


@pytest.mark.anyio
async def test_two_counters_are_the_lines_of_a_board(tmp_path: Path) -> None:
    left, right = counter(tmp_path / "left"), counter(tmp_path / "right", count="4294967290")
    port = make_port("encoder", f"counter:{left}?second={right}&{RETRY}")
    async with serving(port) as host:
        await host.reached(PortState.OPENED)
        assert "counter_bits = 32" in host.details[0]
        port.send(b"c5\n", NEVER_NS, now_ns())
        await until(lambda: host.received.count(b"\n") >= 2)
        (left / "count").write_text("12\n")
        await until(lambda: b"12," in host.received)
    found = [parse(line, "donkeycar") for line in host.received.splitlines()]
    assert found[0] is not None
    assert found[0].ticks == (7, 4_294_967_290)
    assert found[-1] is not None
    assert found[-1].ticks[0] == 12


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"enable": "0"}, "does not count: write 1 into"),
        ({"ceiling": "0"}, "stays at 0, its ceiling"),
        ({"ceiling": "1999"}, "wraps at 1999"),
    ],
)
async def test_a_counter_that_does_not_count_says_why(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    port = make_port("encoder", f"counter:{counter(tmp_path / 'count0', **files)}?{RETRY}")
    async with serving(port) as host:
        await until(lambda: bool(host.details))
    assert words in host.details[0]


@pytest.mark.anyio
async def test_a_counter_that_is_not_there_says_where_to_look(tmp_path: Path) -> None:
    port = make_port("encoder", f"counter:{tmp_path}/none?{RETRY}")
    async with serving(port) as host:
        await until(lambda: bool(host.details))
    assert "/sys/bus/counter/devices" in host.details[0]


def test_recordings_of_both_programs_are_read() -> None:
    counts = [EncoderCounts((k, -k), 50 * k) for k in range(5)]
    lines = b"".join(encode(each, "donkeycar") for each in counts)
    assert [each for _, each in decode(b"boot\n" + lines)] == counts
    plain = b"".join(encode(each, "ros_arduino_bridge") for each in counts)
    assert [each.ticks for _, each in decode(plain)] == [each.ticks for each in counts]

"""``vehicled log compare --messages``: the first difference of each topic, by bytes or by
fields."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests import log_bench as bench
from vehicled import cli
from vehicled.core.messages import GnssFix, Message, StateEstimate
from vehicled.offline.analysis.compare.messages import compare_messages

Stamped = tuple[int, Message]


def altered(
    messages: Iterable[Stamped], kind: type[Message], number: int, **changes: object
) -> Iterable[Stamped]:
    seen = 0
    for t_ns, message in messages:
        if type(message) is kind:
            seen += 1
            if seen > number:
                message = msgspec.structs.replace(message, **changes)
        yield t_ns, message


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diff")
    bench.write(folder / "a.mcap", bench.drive(1, seconds=3))
    return folder


def test_equal_logs(folder: Path) -> None:
    bench.write(folder / "b.mcap", bench.drive(1, seconds=3), run_id="fedcba9876543210")
    found = compare_messages(folder / "a.mcap", folder / "b.mcap")
    assert found.same
    assert not found.header
    assert {topic.topic: topic.a for topic in found.topics}["gnss_fix"] == 30
    assert "all messages are equal" in found.to_text()


def test_the_first_difference_and_its_fields(folder: Path) -> None:
    messages = altered(bench.drive(1, seconds=3), StateEstimate, 120, yaw_rad=9.0)
    bench.write(folder / "c.mcap", altered(messages, GnssFix, 25, satellites=3), seed=2)
    found = compare_messages(folder / "a.mcap", folder / "c.mcap")
    first, second = found.topics[:2]
    assert (first.topic, first.number, first.t_s) == ("state_estimate", 120, pytest.approx(1.2))
    assert first.fields.keys() == {"yaw_rad"}
    assert first.fields["yaw_rad"][1] == 9.0
    assert (second.topic, second.number, second.fields) == ("gnss_fix", 25, {"satellites": (12, 3)})
    assert all(topic.number is None for topic in found.topics[2:])
    assert found.header == {"seed": ("1", "2")}
    only = compare_messages(folder / "a.mcap", folder / "c.mcap", ("gnss_fix",))
    assert [topic.topic for topic in only.topics] == ["gnss_fix"]


def test_one_log_ends_earlier(folder: Path) -> None:
    bench.write(folder / "d.mcap", bench.drive(1, seconds=2))
    found = compare_messages(folder / "a.mcap", folder / "d.mcap")
    fix = next(topic for topic in found.topics if topic.topic == "gnss_fix")
    assert (fix.a, fix.b, fix.number, fix.fields) == (30, 20, 20, {})
    assert fix.t_s == pytest.approx(2.0)


def test_runs_on_clocks_of_their_own_are_compared_from_their_start(folder: Path) -> None:
    later_ns = 5_000_000_123
    shifted = []
    for t_ns, message in bench.drive(1, seconds=1):
        stamps = {
            name: getattr(message, name) + later_ns
            for name in message.__struct_fields__
            if name.endswith("_ns")
        }
        stamps = {
            name: value
            for name, value in stamps.items()
            if name not in ("cpu_ns", "deadline_ns", "utc_ns")
        }
        stamps = {name: value for name, value in stamps.items() if not name.endswith("age_ns")}
        shifted.append((t_ns + later_ns, msgspec.structs.replace(message, **stamps)))
    bench.write(folder / "e.mcap", shifted, start_monotonic_ns=bench.START_NS + later_ns)
    bench.write(folder / "f.mcap", bench.drive(1, seconds=1))
    found = compare_messages(folder / "e.mcap", folder / "f.mcap")
    assert found.same, found.to_text()
    assert "from the start of each" in found.to_text()


def test_profiles_are_compared_key_by_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write(
        folder / "g.mcap",
        bench.drive(1, seconds=1),
        profile="name = 'x'\n[a]\nb = 1\nc = 2\n",
        course="{}",
    )
    bench.write(
        folder / "h.mcap", bench.drive(1, seconds=1), profile="name = 'x'\n[a]\nb = 3\nd = [4]\n"
    )
    assert (
        cli.main(
            [
                "log",
                "compare",
                "--messages",
                str(folder / "g.mcap"),
                str(folder / "h.mcap"),
                "--json",
            ]
        )
        == 0
    )
    shown = json.loads(capsys.readouterr().out)
    assert shown["profile"] == {"a.b": [1, 3], "a.c": [2, None], "a.d": [None, [4]]}
    assert shown["attachments"] == ["course.json"]
    bench.write(
        folder / "i.mcap", altered(bench.drive(1, seconds=1), StateEstimate, 20, yaw_rad=9.0)
    )
    assert (
        cli.main(["log", "compare", "--messages", str(folder / "g.mcap"), str(folder / "i.mcap")])
        == 1
    )
    assert "yaw_rad" in capsys.readouterr().out

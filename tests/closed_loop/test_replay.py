"""A run is recorded, then the machine runs again from its log alone: the same frames, or the place
where they differ."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from mcap.reader import make_reader

from tests.closed_loop.conftest import ROOT, Daemon, sim
from tests.grid import sampled
from tests.harms import HARMS
from vehicled.cli import main
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    ControlLevel,
    Direction,
    Fault,
    Message,
    StateEstimate,
    TaskTick,
    WireChunk,
)
from vehicled.log.errors import LogError
from vehicled.log.layout import open_file
from vehicled.log.mcapfile import MESSAGE_HEAD, McapFile, compressor, message_heads
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.recover import recover
from vehicled.log.schema import CHANNELS, HEADER_RECORD
from vehicled.offline.replay.drive import Replay, ReplayResult
from vehicled.offline.replay.journal import Journal
from vehicled.paths.datum import LOT_17
from vehicled.profile.registry import resolve
from vehicled.ros.cdr import unpacker

pytestmark = pytest.mark.xdist_group("replay")  # the logs are recorded once

COURSE = ("--course", "circle_r5_ccw", "--quiet")
LATE = (
    "--set",
    "tasks.fusion.declared_us=2500",
    "--set",
    "tasks.fusion.deadline_ms=2",
    "--set",
    "tasks.ingestion.declared_us=1200",
)
LATE_CONTROL = ("--set", "tasks.control.deadline_ms=3", "--set", "tasks.control.declared_us=3500")


def record(folder: Path, *options: str) -> Path:
    """Record a run; its log, or the first part of it."""
    said = sim(*COURSE, *options, "--log", str(folder))[2]
    logs = sorted(path for path in folder.glob("*.mcap") if "_part" not in path.name)
    assert logs, said
    return logs[0]


def replayed(log: Path, *overrides: str, **options: Any) -> ReplayResult:
    with Journal(str(log)) as journal:
        return Replay(journal, overrides, **options).run()


@pytest.fixture(scope="module")
def messages_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RTK is lost for a moment."""
    return record(
        tmp_path_factory.mktemp("messages"), "--duration", "2.5", "--fail", "gnss:float@1.5+0.5"
    )


@pytest.fixture(scope="module")
def wires_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("wires"), "--link", "wires", "--duration", "2")


@pytest.fixture(scope="module")
def driven_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("driven"), "--duration", "4.5")


def check_identical(result: ReplayResult) -> None:
    assert result.first is None, result.first.to_text()
    assert result.verdict == "identical"
    assert result.incomplete == ""
    assert result.digest == result.digest_in_log
    assert result.ok


# ---------------------------------------------------------------- identity


def test_what_was_recorded_is_replayed(messages_log: Path, wires_log: Path) -> None:
    for log in (messages_log, wires_log):
        result = replayed(log)
        check_identical(result)
        assert result.frames > 50
        with LogReader(log) as reader:
            commands = sum(1 for _ in reader.messages(ActuatorCommand))
        assert result.records > 10 * commands


@pytest.mark.parametrize(
    ("options", "shows"),
    [
        (("--link", "wires", "--duration", "2.2", "--fail", "imu:off@1.5"), "imu_silent"),
        (
            (
                "--profile",
                "art_vesc",
                "--link",
                "wires",
                "--duration",
                "2.2",
                "--fail",
                "drive:fault=5@1.5",
            ),
            "vesc_over_temp_fet",
        ),
        (("--link", "wires", "--duration", "1.5", *LATE), "deadlines_missed"),
    ],
    ids=["imu off", "vesc fault", "overruns"],
)
def test_failures_and_overruns_are_replayed(
    tmp_path: Path, options: tuple[str, ...], shows: str
) -> None:
    log = record(tmp_path, *options)
    check_identical(replayed(log))
    with LogReader(log) as reader:
        codes = {fault.message.code for fault in reader.messages(Fault)}
    assert any(shows in code for code in codes), codes


def test_a_fallback_that_lateness_forces_is_replayed(tmp_path: Path) -> None:
    log = record(tmp_path, "--controller", "mpc", *LATE_CONTROL, "--duration", "2")
    with LogReader(log) as reader:
        levels = {command.message.level for command in reader.messages(ControlCommand)}
    assert levels > {ControlLevel.PRIMARY}
    check_identical(replayed(log))


def test_a_run_on_the_wall_clock_and_real_ports_is_replayed(start: Callable[..., Daemon]) -> None:
    daemon = start(*COURSE, "--link", "wires", "--clock", "wall", "--duration", "1.5")
    daemon.end()
    check_identical(replayed(daemon.log()))


def test_parts_of_a_rotated_log_are_one_run_and_the_fence_is_in_it(tmp_path: Path) -> None:
    corners = [
        LOT_17.to_geodetic(x, y, 0.0)[:2]
        for x, y in ((-90, -90), (90, -90), (90, 90), (-90, 90), (-90, -90))
    ]
    ring = [[lon * 57.29577951308232, lat * 57.29577951308232] for lat, lon in corners]
    fence = tmp_path / "fence.geojson"
    fence.write_text(
        json.dumps(
            {
                "type": "Feature",
                "properties": {},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
        )
    )
    log = record(
        tmp_path, "--duration", "4", "--set", "log.rotate_mb=1", "--set", f'fence="{fence}"'
    )
    fence.unlink()
    parts = run_parts(log)
    assert len(parts) > 1
    result = replayed(log)
    check_identical(result)
    assert main(["replay", parts[1]]) == 2
    Path(parts[-1]).unlink()
    short = replayed(log)
    assert short.verdict == "identical"
    assert "a later part is missing" in short.incomplete
    assert 0 < short.records < result.records


FAILING = """
from vehicled.profile.registry import resolve
controller = resolve("controller", "pure_pursuit")
sent, count = controller.on_command_sent, 0

def fails(self, throttle, brake):
    global count
    count += 1
    if count in (150, 160) or count > 200:
        raise RuntimeError("this controller cannot")
    sent(self, throttle, brake)

"""
RUN = (
    "controller.on_command_sent = fails\nimport sys\nfrom vehicled.cli import "
    "main\nmain(sys.argv[1:])"
)


def test_tasks_that_raise_raise_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["sim", *COURSE, "--duration", "5", "--log", str(tmp_path)]
    # A process of its own: the crash leaves the simulator to the system.
    crash = subprocess.run(
        [sys.executable, "-c", FAILING + RUN, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RuntimeError: this controller cannot" in crash.stderr
    (log,) = tmp_path.glob("*.mcap")
    space: dict[str, Any] = {}
    exec(FAILING, space)
    monkeypatch.setattr(resolve("controller", "pure_pursuit"), "on_command_sent", space["fails"])
    with LogReader(log) as reader:
        assert reader.end["outcome"] == "crashed"
        assert reader.end["why"] == "RuntimeError: this controller cannot"
    check_identical(replayed(log))
    # The last command is the brake after the end.
    assert space["count"] == 201 + 1, "the task that ended the run was run again too"


# ---------------------------------------------------------------- differences


def copied(
    source: Path,
    target: Path,
    change: Callable[[bytes], bytes],
    metadata: Callable[[dict[str, str]], dict[str, str]] = dict,
) -> Path:
    """A copy with right checksums and counts, in which ``change`` has edited the records of each
    chunk."""
    name, compress = compressor("zstd")
    with LogReader(source) as log, open(target, "wb") as out, open_file(source):
        file = McapFile(out, log.layout.mcap_profile, "another tool")
        for schema in log.layout.schemas.values():
            file.add_schema(schema)
        for each in log.layout.channels.values():
            file.add_channel(each)
        for title, fields in log.layout.metadata.items():
            file.add_metadata(title, metadata(fields) if title == HEADER_RECORD else fields)
        for entry in log.layout.attachments:
            file.add_attachment(
                entry.name,
                entry.media_type,
                log.attachment(entry.name),
                entry.log_time,
                entry.create_time,
            )
        for number in range(len(log.layout.chunks)):
            if records := change(log.records(number)):
                file.add_chunk(records, name, compress(records))
        file.finish()
    return target


def altered(source: Path, target: Path, change: Callable[[WireChunk, bytearray, int], bool]) -> int:
    """A copy with right checksums, in which ``change`` has altered the bytes of one chunk; the
    sequence number of that record."""
    channel, unpack, done = CHANNELS[WireChunk].id, unpacker(WireChunk), 0

    def edited(chunk: bytes) -> bytes:
        nonlocal done
        records = bytearray(chunk)
        for at, length, found, sequence, _ in message_heads(chunk) if not done else ():
            start = at + MESSAGE_HEAD.size
            if found == channel and not done:
                message = unpack(bytes(records[start : start + length]))
                place = records.find(message.data, start, start + length)
                if message.data and change(message, records, place):
                    done = sequence
        return bytes(records)

    copied(source, target, edited)
    return done


@pytest.mark.parametrize("port", ["gnss", "imu"])
def test_one_flipped_byte_is_found_and_located(wires_log: Path, tmp_path: Path, port: str) -> None:
    copy = tmp_path / "flipped.mcap"

    def flip(message: WireChunk, records: bytearray, place: int) -> bool:
        if (
            message.port != port
            or message.direction is Direction.TX
            or message.t_ns < 2_000_000_000
            or len(message.data) < 20
        ):
            return False
        records[place + 12] ^= 0x04
        return True

    number = altered(wires_log, copy, flip)
    result = replayed(copy)
    assert not result.ok
    assert [f"record {number}" in text and port in text for text in result.altered] == [True]
    assert result.first is not None
    assert 0 < result.first.record - number < 200, "what follows from it comes soon after it"
    stopped = replayed(copy, until_difference=True)
    assert stopped.first == result.first
    assert stopped.replayed_s < result.replayed_s


def test_an_altered_frame_is_the_first_difference_with_bytes_and_task(
    messages_log: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "frame.mcap"
    truth: list[WireChunk] = []

    def flip(message: WireChunk, records: bytearray, place: int) -> bool:
        if (
            message.port != "drive"
            or message.direction is Direction.RX
            or message.t_ns < 2_500_000_000
        ):
            return False
        truth.append(message)
        records[place + 9] ^= 0x01
        return True

    number = altered(messages_log, copy, flip)
    result = replayed(copy)
    assert result.first is not None
    assert result.first_frame is not None
    assert (result.first.record, result.first.task, result.first.topic) == (
        number,
        "actuation",
        "/vehicled/wire_chunk",
    )
    assert result.first_frame.first_byte == 9
    assert result.first_frame.t_s == pytest.approx((truth[0].t_ns - 1_000_000_000) * 1e-9)
    assert result.numbers is not None
    assert result.numbers.frames_differ == 1
    assert result.numbers.position_m.unequal == 0
    assert result.altered == []


def test_a_damaged_chunk_and_a_cut_file_are_replayed_as_far_as_they_go(
    wires_log: Path, tmp_path: Path
) -> None:
    whole = wires_log.read_bytes()
    total = replayed(wires_log).records
    with wires_log.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    chunk = summary.chunk_indexes[len(summary.chunk_indexes) // 2]
    at = chunk.chunk_start_offset + chunk.chunk_length // 2
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    result = replayed(damaged)
    assert result.first is None
    assert not result.ok
    assert result.verdict == "damaged"
    (place,) = result.damage
    begin, end = map(int, re.search(r"bytes (\d+) to (\d+), t = ", place).groups())  # type: ignore[union-attr]
    assert begin <= at < end
    assert "not replayable after" in result.incomplete
    assert "cannot be read" in result.incomplete
    for share in (0.7,):
        cut = tmp_path / f"cut_{share}.mcap"
        cut.write_bytes(whole[: int(len(whole) * share)])
        result = replayed(cut)
        assert result.first is None, result.first.to_text()
        assert result.ok
        assert result.incomplete
        assert share * total * 0.5 < result.records < total
        recovered = replayed(Path(recover(cut).path))
        assert recovered.records == result.records


def some_of(kinds: tuple[type[Message], ...], times: int) -> Callable[[bytes], bytes]:
    """Return an edit that repeats the records of some types, or leaves them out."""
    channels = {CHANNELS[kind].id for kind in kinds}

    def edited(records: bytes) -> bytes:
        out = b""
        for at, length, channel, _, _ in message_heads(records):
            out += records[at : at + MESSAGE_HEAD.size + length] * (
                times if channel in channels else 1
            )
        return out

    return edited


@pytest.mark.parametrize("kind", [TaskTick, ActuatorCommand])
def test_records_that_are_there_twice_are_damage_and_replayed_once(
    messages_log: Path, tmp_path: Path, kind: type[Message]
) -> None:
    total = replayed(messages_log)
    result = replayed(copied(messages_log, tmp_path / "twice.mcap", some_of((kind,), 2)))
    assert result.verdict == "damaged"
    assert not result.ok
    assert (result.records, result.frames, result.ticks) == (
        total.records,
        total.frames,
        total.ticks,
    )
    assert "are there more than once" in result.damage[0]


def test_records_that_a_tool_removed_are_counted(messages_log: Path, tmp_path: Path) -> None:
    with LogReader(messages_log) as log:
        estimates = log.count(StateEstimate)
    result = replayed(copied(messages_log, tmp_path / "less.mcap", some_of((StateEstimate,), 0)))
    assert result.verdict == "identical"
    assert result.missing == estimates
    assert result.digest == result.digest_in_log


def test_a_log_of_which_nothing_can_be_compared_is_not_identical(
    replay: Callable[..., tuple[int, str, str]], messages_log: Path, tmp_path: Path
) -> None:
    """The first chunks are whole, and no frame was sent so early."""
    with LogReader(messages_log) as log:
        third = log.layout.chunks[2]
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(messages_log.read_bytes()[: int(third["offset"])])
    emptied = copied(messages_log, tmp_path / "none.mcap", lambda _: b"")
    for path in (cut, emptied):
        status, out, _ = replay(path)
        assert status == 1
        assert "NOTHING COMPARED: " in out


def test_a_log_of_other_tasks_names_both_tables(
    replay: Callable[..., tuple[int, str, str]], messages_log: Path, tmp_path: Path
) -> None:
    def other(fields: dict[str, str]) -> dict[str, str]:
        tasks = json.loads(fields["tasks"])
        tasks[0]["name"] = "gathering"
        return fields | {"tasks": json.dumps(tasks)}

    status, _, said = replay(copied(messages_log, tmp_path / "other.mcap", bytes, other))
    assert status == 2
    assert "the log has the tasks gathering " in said
    assert "this version runs ingestion " in said
    assert "replay it with the version that wrote it" in said


@given(
    harm=st.sampled_from(HARMS),
    at=st.floats(0.0, 0.9999),
    size=st.one_of(st.integers(1, 64), st.integers(1, 20_000)),
)
def test_a_log_harmed_anywhere_is_never_called_identical(
    tmp_path_factory, wires_log, harm, at, size
) -> None:
    whole = wires_log.read_bytes()
    path = tmp_path_factory.mktemp("harmed") / "harmed.mcap"
    path.write_bytes(harm(whole, int(at * len(whole)), size))
    try:
        result = replayed(path)
    except LogError:
        return
    # Of a file that ends too early, all that is there is the same.
    assert not result.ok or result.incomplete or path.read_bytes() == whole
    assert result.verdict != "identical" or (result.records and result.frames)


def test_a_log_that_lost_journal_records_ends_there(messages_log: Path, tmp_path: Path) -> None:
    with Journal(str(messages_log)) as journal:
        journal.limit_ns, journal.loss = journal.start_ns + 1_000_000_000, "the disk was too slow"
        result = Replay(journal).run()
    assert result.first is None
    assert result.incomplete.startswith("not replayable after t = ")
    assert 0.98 < result.replayed_s <= 1.0
    assert "the disk was too slow" in result.incomplete


# ---------------------------------------------------------------- the command


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["replay", *map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_the_command_prints_the_what_if_numbers_and_draws_them(
    replay: Callable[..., tuple[int, str, str]], messages_log: Path, tmp_path: Path
) -> None:
    status, out, _ = replay(messages_log)
    assert status == 0
    assert "IDENTICAL" in out
    assert "x real time" in out
    plot = tmp_path / "what_if.png"
    status, out, _ = replay(
        messages_log, "--set", "estimator.planar.gnss_sigma_floor_m=0.3", "--plot", plot, "--json"
    )
    assert status == 0
    found = json.loads(out)
    assert found["verdict"] == "what-if"
    assert found["numbers"]["position_m"]["max"] > 1e-4
    assert found["numbers"]["now_error_m"]["n"] > 100
    assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    status, out, _ = replay(
        messages_log, "--estimator", "ins", "--controller", "stanley", "--from", "1.5"
    )
    assert "open loop" in out
    assert "command: wheel angle" in out


def test_a_what_if_that_changes_nothing_differs_in_nothing(messages_log: Path) -> None:
    result = replayed(messages_log, "controller.name=pure_pursuit")
    assert result.numbers is not None
    assert result.numbers.frames > 50
    assert (
        result.numbers.frames_differ
        == result.numbers.position_m.unequal
        == result.numbers.other_mode
        == 0
    )
    assert result.digest == result.digest_in_log


@pytest.mark.parametrize(
    "change",
    sampled(
        ["estimator.name=ins", "controller.name=stanley", "limits.max_speed_mps=0.7"],
        lambda change: "controller" not in change,
    ),
)
def test_the_commands_of_the_log_move_the_vehicle_of_a_what_if(
    driven_log: Path, change: str
) -> None:
    result = replayed(driven_log, change)
    assert result.partings == []
    numbers = result.numbers
    assert numbers is not None
    assert numbers.frames_differ > 150
    assert numbers.other_mode <= 2
    assert numbers.wheel_angle_rad.rms < 0.1
    assert "estimator" in change or numbers.position_m.unequal == numbers.speed_mps.unequal == 0


def test_the_place_where_a_what_if_stops_or_that_it_never_starts_is_reported(
    replay: Callable[..., tuple[int, str, str]], driven_log: Path
) -> None:
    status, out, _ = replay(
        driven_log, "--set", "limits.max_speed_mps=0.3", "--set", "limits.overspeed_mps=0.1"
    )
    assert status == 0
    assert re.search(
        r"from \d\.\d{3} s on the machine here does not drive \(overspeed: 0\.\d\d m/s", out
    ), out
    (never,) = replayed(driven_log, "limits.still_force_mps2=1e-9").partings
    assert never.log_drives
    assert "arming" in never.reason
    assert "feels" in never.reason


def test_the_place_where_a_what_if_drives_on_is_reported(tmp_path: Path) -> None:
    log = record(
        tmp_path, "--duration", "4", "--fail", "gnss:off@1.5", "--set", "limits.corridor_m=0.3"
    )
    (parting,) = replayed(log, "limits.corridor_m=3.0").partings
    assert not parting.log_drives
    assert parting.code == "position_uncertain"


@pytest.mark.parametrize(
    "what_if", [(), ("--set", "limits.corridor_m=1.9")], ids=["as it was", "what if"]
)
def test_lines_are_shown_from_the_given_time_on(
    replay: Callable[..., tuple[int, str, str]], messages_log: Path, what_if: tuple[str, ...]
) -> None:
    _, out, _ = replay(messages_log, "--from", "2.0", *what_if)
    lines = [
        line
        for line in out.splitlines()
        if line[:10].strip().replace(".", "").isdigit() and " s  " in line[:14]
    ]
    assert len(lines) > 5
    assert min(float(line[:9]) for line in lines) >= 2.0
    assert any("STOPPING" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "tasks.control.rate_hz=50"), "part of what was recorded"),
        (("--set", "estimator.ekf4.nonsense=1"), "unknown key"),
        (("--estimator", "nonsense"), "nonsense"),
        (("--set", "limits.corridor_m=1", "--until-diff"), "differs on purpose"),
        (("--plot", "no/such/folder.png"), "folder"),
    ],
)
def test_contradictory_options_are_reported(
    replay: Callable[..., tuple[int, str, str]],
    messages_log: Path,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    status, _, said = replay(messages_log, *arguments)
    assert status == 2
    assert says in said


def test_a_file_that_is_no_log_is_reported(
    replay: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    for name, data in (
        ("empty.mcap", b""),
        ("picture.mcap", b"\x89PNG\r\n\x1a\n" + bytes(100)),
        ("cut.mcap", b"\x89MCAP0\r\n"),
    ):
        (tmp_path / name).write_bytes(data)
        status, _, said = replay(tmp_path / name)
        assert status == 2
        assert name in said


def test_differences_of_version_numbers_and_profile_are_named(
    messages_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vehicled.offline.replay.setup.__version__", "9.9")
    monkeypatch.setattr(
        "vehicled.offline.replay.setup.numeric_fingerprint",
        lambda: ("0123456789abcdef", {"libm": "another"}),
    )
    with Journal(str(messages_log)) as journal:
        assert HEADER_RECORD in journal.parts[0].layout.metadata
        notes = Replay(journal, ["limits.corridor_m=1.5"]).notes
    assert any(note.startswith("vehicled: ") and "9.9" in note for note in notes)
    assert any("fingerprint" in note and "libm" in note for note in notes)

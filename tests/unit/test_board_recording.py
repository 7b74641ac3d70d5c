"""Recorded task times of a computer: what the file keeps, what its replay repeats, and which files
are refused."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import bursty
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.core.messages import TaskTick
from vehicled.core.tasks import PIPELINE
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec
from vehicled.runtime.board.recording import BoardRecording, BoardStopwatch, period_us, read, record

GOLDEN = Path(__file__).parents[1] / "golden" / "replay"
MS = 1_000_000
SECOND = 1_000_000_000
UNEVEN = [
    "tasks.ingestion.rate_hz=300",
    "tasks.fusion.rate_hz=150",
    "tasks.control.rate_hz=70",
    "tasks.control.phase_ms=1.5",
]


@pytest.fixture(scope="module")
def art() -> Profile:
    return load_profile("art")


@pytest.fixture(scope="module")
def text() -> str:
    return bursty.recording().to_text()


@pytest.fixture
def board(text: str, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the recording with changes."""

    def write(change: Callable[[dict[str, Any]], object] = lambda plain: None) -> Path:
        plain = json.loads(text)
        change(plain)
        file = tmp_path / "board.json"
        file.write_text(json.dumps(plain))
        return file

    return write


def unturned(recording: BoardRecording, start_ns: int) -> BoardStopwatch:
    """Return the stopwatch of a seed with which the replay begins where the recording does."""
    for seed in range(100_000):
        stopwatch = BoardStopwatch(recording, PIPELINE, start_ns, seed)
        if stopwatch._origin_ns == start_ns:
            return stopwatch
    raise AssertionError("no seed begins at the beginning")


def late(ticks: list[TaskTick]) -> Iterator[tuple[int, int, int]]:
    """Yield runs, misses and skips of each task."""
    for number in range(len(PIPELINE)):
        own = [tick for tick in ticks if tick.task == number]
        yield len(own), sum(tick.missed for tick in own), sum(tick.skipped for tick in own)


def test_the_replay_repeats_every_tick_of_the_recording(art: Profile) -> None:
    recording = bursty.recording(art, seconds=4.0)
    then = bursty.run(art, bursty.Bursty(1, 0.01), bursty.START, 4.0)
    wait_ns = SECOND
    length_ns = round(recording.duration_s * 1e9)
    then = [
        tick
        for tick in then
        if wait_ns <= tick.release_ns - bursty.START < wait_ns + length_ns - 50 * MS
    ]
    now = bursty.run(art, unturned(recording, 0), 0, recording.duration_s - 0.06)
    assert sum(tick.missed for tick in now) > 10
    # All times are kept in whole microseconds; where a release is reached by a hair, one more task
    # may belong to a wake-up.
    same = [
        (a.task, a.release_ns, a.skipped, a.missed)
        == (b.task, b.release_ns - bursty.START - wait_ns, b.skipped, b.missed)
        for a, b in zip(now, then, strict=False)
    ]
    assert len(same) > 1500
    assert sum(same) / len(same) > 0.995
    assert (
        max(
            abs(a.start_ns - (b.start_ns - bursty.START - wait_ns))
            for a, b in zip(now[:1000], then[:1000], strict=True)
        )
        < MS
    )


@pytest.mark.parametrize("overrides", [[], UNEVEN])
@pytest.mark.parametrize("bursts", [0.001, 0.01, 0.1])
def test_the_miss_rate_is_the_recorded_one_for_every_seed(
    overrides: list[str], bursts: float
) -> None:
    profile = load_profile("art", overrides)
    recording = bursty.recording(profile, seconds=12.0, bursts=bursts)
    rows = list(recording.tasks.values())
    for seed in range(3):
        ticks = bursty.run(
            profile, BoardStopwatch(recording, PIPELINE, SECOND, seed), SECOND, recording.duration_s
        )
        for row, (runs, misses, skips) in zip(rows, late(ticks), strict=True):
            count, recorded = misses + skips, row.misses + row.skips
            # A burst that the turn cuts in two may count a few releases more or fewer.
            assert abs(count - recorded) <= max(0.2 * recorded, 8), (row, runs, misses, skips)


def test_bursts_stay_bursts(art: Profile) -> None:
    recording = bursty.recording(art, seconds=12.0)

    def follows(ticks: list[TaskTick]) -> float:
        """Probability that a missed release of ingestion is followed by another."""
        missed = [tick.missed for tick in ticks if tick.task == 0]
        return sum(a and b for a, b in pairwise(missed)) / max(sum(missed), 1)

    then = follows(bursty.run(art, bursty.Bursty(1, 0.01), bursty.START, 12.0))
    now = follows(bursty.run(art, BoardStopwatch(recording, PIPELINE, SECOND, 5), SECOND, 11.0))
    assert then > 0.4
    assert now == pytest.approx(then, rel=0.2)


def test_the_seed_turns_the_recording_by_whole_cycles(art: Profile) -> None:
    recording = bursty.recording(art, seconds=4.0)
    origins = {BoardStopwatch(recording, PIPELINE, SECOND, seed)._origin_ns for seed in range(20)}
    assert len(origins) > 15
    assert all(
        (SECOND - origin) % (period_us([400.0, 200.0, 100.0]) * 1000) == 0 for origin in origins
    )
    assert (
        BoardStopwatch(recording, PIPELINE, SECOND, 3)._origin_ns
        == BoardStopwatch(recording, PIPELINE, SECOND, 3)._origin_ns
    )


def test_releases_of_uneven_rates_repeat_after_a_whole_cycle() -> None:
    assert period_us([400.0, 200.0, 100.0]) == 10_000
    assert period_us([3.0]) == 1_000_000
    assert period_us([300.0, 150.0, 70.0, 100.0]) == 100_000


def test_a_device_that_is_due_between_two_releases_is_served_in_time(art: Profile) -> None:
    recording = bursty.recording(art, seconds=4.0, bursts=0.0)
    stopwatch = BoardStopwatch(recording, PIPELINE, 0, 0)
    assert stopwatch.wake_ns(1_700_000, 0) == 1_700_000
    assert 2_500_000 <= stopwatch.wake_ns(2_500_000, 0) < 2_800_000


def test_file_and_recording_are_the_same(
    board: Callable[..., Path], art: Profile, text: str
) -> None:
    recording, data = read(board(), art.tasks)
    assert recording.to_text() == text
    assert json.loads(data) == json.loads(text)
    assert len(text) < 40 * len(recording.wakes.after)


def test_a_long_run_is_cut_and_a_short_one_refused(art: Profile) -> None:
    ticks = bursty.run(art, bursty.Bursty(1, 0.0), bursty.START, 4.0)
    cut = record(bursty.rows(ticks), bursty.empty_table(art), bursty.FACTS, 1.234)
    assert cut.duration_s == 1.23
    assert cut.tasks["ingestion"].runs == 492
    with pytest.raises(SetupError, match=r"too short for a recording: it needs more than 1\.02 s"):
        record(bursty.rows(ticks[:100]), bursty.empty_table(art), bursty.FACTS)


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda p: p.update(format="profile"), '"format" is not "vehicled board"'),
    "no format": (lambda p: p.pop("format"), '"format" is not'),
    "newer": (lambda p: p.update(version=2), "version 2, this vehicled reads version 1: update it"),
    "no wakes": (lambda p: p.pop("wakes"), "wakes"),
    "text for a number": (
        lambda p: p["wakes"]["late"].__setitem__(7, "x"),
        r"Expected `int`, got `str` - at `\$\.wakes\.late\[7\]`",
    ),
    "fraction": (lambda p: p["wakes"]["late"].__setitem__(7, 1.5), r"\$\.wakes\.late"),
    "unknown key": (lambda p: p.update(more=1), "unknown field `more`"),
    "short column": (
        lambda p: p["wakes"]["late"].pop(),
        r"wakes\.late: \d+ entries, but wakes\.after has",
    ),
    "short task": (
        lambda p: p["wakes"]["execution"]["fusion"].pop(),
        r"wakes\.execution\.fusion: \d+ entries",
    ),
    "negative": (
        lambda p: p["wakes"]["late"].__setitem__(7, -1),
        r"wakes\.late\[7\]: -1 us is out of range",
    ),
    "negative execution": (
        lambda p: p["wakes"]["execution"]["control"].__setitem__(3, -2),
        r"execution\.control\[3\]: -2 us",
    ),
    "huge": (lambda p: p["wakes"]["late"].__setitem__(9, 10**15), r"wakes\.late\[9\]"),
    "twice": (lambda p: p["wakes"]["after"].__setitem__(5, 0), r"wakes\.after\[5\]: two wake-ups"),
    "empty": (lambda p: p["wakes"].update(after=[]), r"wakes\.after: 0 entries"),
    "missing task": (
        lambda p: p["tasks"].pop("control"),
        "tasks: has actuation, fusion, ingestion instead of",
    ),
    "foreign task": (lambda p: p["wakes"]["execution"].update(x=[]), r"wakes\.execution: has"),
    "never ran": (
        lambda p: p["wakes"]["execution"].update(control=[-1] * len(p["wakes"]["after"])),
        r"wakes\.execution\.control: the task never ran",
    ),
    "no rate": (
        lambda p: p["tasks"]["control"].update(rate_hz=0.0),
        r"tasks\.control: a rate of 0 Hz",
    ),
    "too short": (lambda p: p.update(duration_s=1.0), r"duration_s: 1 s, but the wake-ups last"),
    "other rates": (
        lambda p: p["tasks"]["control"].update(rate_hz=50.0),
        "measured at 50 Hz .* the profile has 100 Hz",
    ),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_damaged_and_foreign_files_are_refused(
    board: Callable[..., Path], art: Profile, change: tuple[Callable[[dict[str, Any]], object], str]
) -> None:
    file = board(change[0])
    with pytest.raises(SetupError, match=change[1]) as refusal:
        read(file, art.tasks)
    assert str(file) in str(refusal.value)
    assert "--measure-board" in str(refusal.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe\x00", b"[1, 2]", b"{}", b'{"format": 7}', b"schema = 1\n", b"\x89MCAP0\r\n"],
)
def test_other_files_are_refused(tmp_path: Path, art: Profile, data: bytes) -> None:
    file = tmp_path / "board.json"
    file.write_bytes(data)
    with pytest.raises(SetupError, match="not a recording of a computer"):
        read(file, art.tasks)


def test_every_cut_of_the_file_is_refused(tmp_path: Path, art: Profile, text: str) -> None:
    file = tmp_path / "board.json"
    for length in range(0, len(text) - 2, len(text) // 40):
        file.write_text(text[:length])
        with pytest.raises(SetupError):
            read(file, art.tasks)


def test_a_missing_file_and_the_wrong_clock_are_refused(
    tmp_path: Path, art: Profile, board: Callable[..., Path]
) -> None:
    for path, why in ((tmp_path / "none.json", "No such file"), (tmp_path, "is a folder")):
        with pytest.raises(SetupError, match=why):
            read(path, art.tasks)
    with pytest.raises(SetupError, match="leave out --clock wall"):
        Plan.of(RunSpec(profile="art", board=str(board()), clock="wall"))


def test_another_controller_than_the_measured_one_is_a_warning(board: Callable[..., Path]) -> None:
    plan = Plan.of(
        RunSpec(profile="art", board=str(board()), controller="stanley", estimator="ekf4")
    )
    assert [str(note) for note in plan.findings if note.path == "--board"] == [
        (
            "--board: the task times are those of controller pure_pursuit, not of stanley: measure "
            "with it"
        )
    ]


def test_the_log_of_a_run_in_wall_time_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "board.json"
    assert main(["doctor", "--measure-board", str(file), "--log", str(GOLDEN / "wall.mcap")]) == 0
    assert f"vehicled sim --profile art_vesc --board {file}" in capsys.readouterr().out
    rates = ["tasks.ingestion.rate_hz=200", "tasks.fusion.rate_hz=100"]
    rates += [
        f"tasks.{name}.rate_hz={json.loads(file.read_text())['tasks'][name]['rate_hz']}"
        for name in ("control", "actuation")
    ]
    recording, _ = read(file, load_profile("art_vesc", rates).tasks)
    assert recording.profile == "art_vesc"
    assert recording.tasks["ingestion"].runs > 150


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--measure-board", "{}/b.json", "--log", str(GOLDEN / "messages.mcap")],
            "took no real time (clock lockstep)",
        ),
        (["--measure-board", "{}/b.json", "--log", "{}/none.mcap"], "none.mcap"),
        (
            ["--measure-board", "{}/b.json", "--log", str(GOLDEN / "wall.mcap"), "--duration", "5"],
            "--duration is the length",
        ),
        (["--measure-board", "{}/none/b.json"], "cannot be written"),
        (["--measure-board", "{}/b.json", "--profile", "nope"], "no profile of that name"),
        (["--duration", "5"], "belong to --measure-board"),
        (
            ["--measure-board", "{}/b.json", "--duration", "0"],
            "expected a number of seconds from 1 to 450",
        ),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["doctor", *(argument.format(tmp_path) for argument in arguments)])
    except SystemExit as ending:
        status = int(str(ending))
    assert status == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_tables_are_of_the_recorded_part_only(art: Profile) -> None:
    recording = bursty.recording(art, seconds=4.0)
    n = {name: sum(us >= 0 for us in column) for name, column in recording.wakes.execution.items()}
    assert n == {name: row.runs for name, row in recording.tasks.items()}
    assert all(row.execution_us == sorted(row.execution_us) for row in recording.tasks.values())
    assert replace(recording, computer="x").label.startswith("x, Linux, other, measured 2026")


def test_a_file_with_wrong_bytes_is_refused_or_replayed(tmp_path: Path, art: Profile) -> None:
    recording = bursty.recording(art, seconds=1.2)
    sound, file, draw = recording.to_text().encode(), tmp_path / "board.json", random.Random(1)
    refused = 0
    for _ in range(400):
        data = bytearray(sound)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.choice(b'0123456789-.,[]{}"e\x00\xff x')
        file.write_bytes(data)
        try:
            found, _ = read(file, art.tasks)
        except SetupError:
            refused += 1
            continue
        bursty.run(art, BoardStopwatch(found, PIPELINE, SECOND, draw.randrange(1000)), SECOND, 0.05)
    assert refused > 50

"""Files that commands write: refused before the work, and never half there."""

import json
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.core.messages import PortEvent, PortState
from vehicled.core.plain_text import printable_lines
from vehicled.core.safe_text import safe_streams
from vehicled.run.output import write_output
from vehicled.run.terminal import Progress, print_table
from vehicled.runtime.events import EventLog

HOSTILE = "a\x1b]0;title\x07b\rc\x9b2Jd\u202ee\u2028f\x00g\x7fh"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x80-\x9f\u2028-\u202e]")


def test_a_disk_that_is_full_costs_the_new_file_and_not_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "course.csv"
    write_output(file, "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(
            SetupError, match=r"cannot write .*course\.csv \(File too large\): choose another place"
        ):
            write_output(file, "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["course.csv"]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    place, link, pipe = tmp_path / "new" / "place.txt", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(place)
    place.parent.mkdir()
    write_output(link, "text")
    assert place.read_text() == "text"
    assert link.is_symlink()
    os.mkfifo(pipe)
    received: list[str] = []
    reader = Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_output(pipe, "text")
    reader.join()
    assert received == ["text"]
    assert pipe.is_fifo()


def test_a_course_that_is_there_is_not_recorded_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "course.csv"
    course.write_text("mine")
    assert main(["record-path", "none.mcap", "-o", str(course)]) == 2
    assert (
        f"{course}: exists already and is not overwritten: choose another name"
        in capsys.readouterr().err
    )
    assert course.read_text() == "mine"


def test_a_recording_of_nothing_waits_aloud_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "devices",
                "record",
                "serial:/dev/nosuch",
                "-o",
                str(tmp_path / "x.ubx"),
                "--duration",
                "0.3",
            ]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert "/dev/nosuch does not exist" in said
    assert "retrying, Ctrl-C to stop" in said
    assert "nothing was received, no file was written" in said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        ["record-path", "none.mcap", "-o", "/nowhere/course.csv"],
        ["twin", "validate", "none", "-o", "/nowhere/page.html"],
        ["sim", "--plot", "/nowhere/lap.png"],
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert (
        f"{words[-1]}: cannot be written; choose a file in an existing" in capsys.readouterr().err
    )


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_long_title_is_one_line_over_a_narrow_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    title = "/a/long/path/" * 5 + "recording[1].ubx, 9283 bytes"
    print_table(title, ["message", "count"], [["NAV-PVT", "10"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].rstrip() == title
    assert any(line.split() == ["NAV-PVT", "10"] for line in lines)


def test_brackets_of_others_are_printed_and_not_read_as_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cure = "add [safety.independent_stop] [/bold] :warning: [link=file:///x]here"
    print_table("a [red]title", ["[bold]name", "cure"], [["art", cure]])
    out = capsys.readouterr().out
    assert cure in out
    assert "a [red]title" in out
    assert "[bold]name" in out


@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_paths_in_tables_are_not_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    path = "/a/place/of/some/length/" * 6 + "run.mcap"
    print_table(
        "", ["log", "why"], [[path, "the course was driven to its end " * 4], ["short", ""]]
    )
    lines = capsys.readouterr().out.splitlines()
    assert sum(path in line for line in lines) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_a_terminal_gets_tables_folded_at_blanks_and_words_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "/a/place/of/some/length/" * 3 + "run.mcap"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_table(path, ["log", "why"], [[path, "driven to its end " * 9], ["b", HOSTILE]])
    data = b""
    with suppress(OSError):  # the end of what a closed terminal holds
        while more := os.read(master, 4096):
            data += more
    os.close(master)
    shown = data.decode().replace("\r\n", "\n")
    assert shown.count(path) == 2
    assert shown.count("driven") == 9
    assert "2Jd\\u202ee" in shown
    assert max(map(len, shown.splitlines())) < len(path) + 80
    assert "\x1b]" not in shown


def test_control_characters_of_others_are_printed_escaped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def shown() -> str:
        both = "".join(capsys.readouterr())
        assert not UNSAFE.search(both)
        return both

    # A file name, a file's content, and a word of the command line.
    name = HOSTILE.replace("\x00", "").replace("/", "")
    profile = tmp_path / f"{name}.toml"
    profile.write_text(f'name = "{HOSTILE.replace(chr(0), "")}"\n')
    assert main(["check", str(profile)]) == 1
    assert "a\\u001b]0;title" in shown()
    assert main(["courses", str(profile)]) == 1
    assert "\\u202ee" in shown()
    assert main(["sim", "--course", HOSTILE]) == 2
    shown()
    with pytest.raises(SystemExit):
        main([HOSTILE])
    shown()
    with safe_streams():
        print_table(HOSTILE, [HOSTILE], [[HOSTILE]])
        sys.stdout.writelines([HOSTILE, HOSTILE])
    assert shown().count("\\u202ee") == 5


def test_a_json_text_stays_one_when_it_is_escaped() -> None:
    text = msgspec.json.encode({"origin": HOSTILE}).decode()
    assert json.loads(printable_lines(text)) == {"origin": HOSTILE}
    assert printable_lines(text).isascii()


@pytest.mark.parametrize("as_json", [False, True])
def test_lines_of_the_log_of_events_are_escaped(as_json: bool, tmp_path: Path) -> None:
    with (tmp_path / "lines").open("w+") as stream:
        EventLog(stream, json=as_json).record(PortEvent(0, HOSTILE, PortState.LOST, HOSTILE), 0)
        stream.seek(0)
        said = stream.read()
    assert said.count("\\u202ee") == 2
    assert not UNSAFE.search(said)


def test_a_progress_line_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "lines").open("w+") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        Progress().show(HOSTILE)
        stream.seek(0)
        said = stream.read()
    assert "\\u202ee" in said
    assert not UNSAFE.search(said)

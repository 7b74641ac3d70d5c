"""Files that commands write: refused before the work, and never half there."""

import os
import resource
from pathlib import Path
from threading import Thread

import pytest

from vehicled.app import SetupError
from vehicled.cli import main
from vehicled.output import write_output
from vehicled.terminal import print_table


def test_a_disk_that_is_full_costs_the_new_file_and_not_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "course.csv"
    write_output(file, "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(SetupError, match=r"cannot write .*course\.csv \(File too large\): choose another place"):
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
    heard: list[str] = []
    reader = Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_output(pipe, "text")
    reader.join()
    assert heard == ["text"]
    assert pipe.is_fifo()


def test_a_course_that_is_there_is_not_recorded_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = tmp_path / "course.csv"
    course.write_text("mine")
    assert main(["record-path", "none.mcap", "-o", str(course)]) == 2
    assert f"{course}: exists already and is not overwritten: choose another name" in capsys.readouterr().err
    assert course.read_text() == "mine"


def test_a_recording_of_nothing_waits_aloud_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "record", "serial:/dev/nosuch", "-o", str(tmp_path / "x.ubx"), "--duration", "0.3"]) == 1
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
def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"{words[-1]}: cannot be written; choose a file in an existing" in capsys.readouterr().err


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

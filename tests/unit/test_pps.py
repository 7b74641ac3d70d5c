"""Pulses per second as the kernel lists them."""

from pathlib import Path

import pytest

from vehicled.runtime.board.pps import PulseSource, sources


def source(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.rstrip("_")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("stamp", "offset_s"),
    [
        ("1520598954.000012500#3\n", 12.5e-6),
        ("1520598953.999990000#3\n", -10e-6),
        ("1520598954.000000000#1\n", 0.0),
        ("1520598954.499999999#9\n", 0.499999999),
    ],
)
def test_the_fraction_of_the_newest_pulse_is_the_error_of_the_clock(
    tmp_path: Path, stamp: str, offset_s: float
) -> None:
    source(
        tmp_path / "pps0",
        name="serial0\n",
        path="/dev/ttyS0\n",
        assert_=stamp,
        clear="0.000000000#0\n",
    )
    (found,) = sources(tmp_path, 1_520_598_955.0)
    assert found.device == "/dev/pps0"
    assert found.name == "serial0 /dev/ttyS0"
    assert found.offset_s == pytest.approx(offset_s, abs=1e-12)
    assert "us from them" in found.text


def test_a_source_on_the_other_edge_is_read_too(tmp_path: Path) -> None:
    source(
        tmp_path / "pps1",
        name="ktimer",
        assert_="0.000000000#0\n",
        clear="1520598954.000000250#7\n",
    )
    (found,) = sources(tmp_path, 1_520_598_955.0)
    assert (found.pulses, found.name) == (7, "ktimer")
    assert found.offset_s == pytest.approx(250e-9)


def test_pulses_that_stopped_or_never_came_have_no_offset(tmp_path: Path) -> None:
    source(tmp_path / "pps0", assert_="1520598900.000000000#3\n")
    source(tmp_path / "pps1", assert_="0.000000000#0\n")
    source(tmp_path / "pps2")
    source(tmp_path / "pps3", assert_="nonsense")
    found = sources(tmp_path, 1_520_598_955.0)
    assert [each.offset_s for each in found] == [None] * 4
    assert found[0].text == "no pulse for 55 s"
    assert all("no pulse yet" in each.text for each in found[1:])


@pytest.mark.parametrize(("begins", "edge"), [("assert", "assert"), ("clear", "clear")])
def test_the_edge_before_the_shorter_time_marks_the_second(
    tmp_path: Path, begins: str, edge: str
) -> None:
    ends = "clear" if begins == "assert" else "assert"
    stamps = {begins: "1520598954.000012500#3\n", ends: "1520598954.100012500#3\n"}
    source(tmp_path / "pps0", assert_=stamps["assert"], clear=stamps["clear"])
    (found,) = sources(tmp_path, 1_520_598_955.0)
    assert (found.edge, found.offset_s) == (edge, pytest.approx(12.5e-6, abs=1e-9))
    assert ('edge = "clear"' in found.text) == (edge == "clear")


def test_a_computer_without_pulses_has_no_source(tmp_path: Path) -> None:
    assert sources(tmp_path / "none") == []
    text = PulseSource("/dev/pps0", "", 1, 0.5, -1e-6).text
    assert '-1 us from them; in a profile: port = "pps:/sys/class/pps/pps0"' in text

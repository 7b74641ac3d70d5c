"""``vehicled base`` on the port of an emulated receiver: survey, rovers, the saved position, and
what it refuses."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.rtcm.codec import FrameReader, message_type
from tests.busy_computer import wait_until
from tests.closed_loop.conftest import ROOT
from vehicled.cli import main

VEHICLED = [sys.executable, "-m", "vehicled"]


class Station:
    """A base station in a process, and its output so far."""

    def __init__(self, output: Path, *options: str) -> None:
        self._output = output
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                [*VEHICLED, "base", *options], cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.said, lambda: self.said)

    def end(self) -> int:
        """Wait until it has ended by itself."""
        wait_until(lambda: self.process.poll() is not None, lambda: self.said)
        return self.process.wait()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an emulated ZED-F9P that stands still."""
    folder = tmp_path_factory.mktemp("base")
    output = folder / "simulator"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [*VEHICLED, "simulator", "--ptys", str(folder / "devices"), "--course",
             "circle_r5_ccw"],
            cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_until(lambda: "ready" in output.read_text(), output.read_text)
        yield f"serial:{folder / 'devices' / 'gnss'}?retry_max_s=0.2"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.xdist_group("wall")
def test_it_surveys_saves_serves_and_takes_the_saved_position_again(
    receiver: str, tmp_path: Path
) -> None:
    file, port = tmp_path / "base.toml", free_port()
    station = Station(
        tmp_path / "survey",
        receiver,
        "--survey",
        "10",
        "--accuracy",
        "3",
        "--save",
        str(file),
        "--tcp",
        f"127.0.0.1:{port}",
    )
    try:
        station.wait_for("serving corrections for 43.07")
        with socket.create_connection(("127.0.0.1", port)) as rover:
            reader, kinds = FrameReader(), set[int]()

            def received() -> bool:
                kinds.update(map(message_type, reader.feed(rover.recv(4096))))
                return kinds >= {1005, 1077, 1087, 1097, 1127, 1230}

            wait_until(received, lambda: kinds)
    finally:
        station.kill()
    text = file.read_text()
    assert re.search(r"^latitude_deg = 43\.07\d+$", text, re.MULTILINE)
    assert re.search(r"^surveyed = \d{4}-", text, re.MULTILINE)

    again = Station(
        tmp_path / "again", receiver, "--position", str(file), "--tcp", f"127.0.0.1:{port}"
    )
    try:
        again.wait_for("serving corrections for 43.07")
        assert "which is near enough" in again.said
        taken = Station(
            tmp_path / "taken", receiver, "--position", str(file), "--tcp", f"127.0.0.1:{port}"
        )
        assert taken.end() == 2
        assert "another program uses the port" in taken.said
        assert "Traceback" not in taken.said
    finally:
        again.kill()

    wrong = Station(
        tmp_path / "wrong", receiver, "--position=43.07,89.41,230", "--tcp", f"127.0.0.1:{port}"
    )
    assert wrong.end() == 1
    assert "km from where the receiver measures itself (43.07" in wrong.said


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "nothing would be done"),
        (("--ntrip", "2101", "--user", "me"), "belong together"),
        (
            ("--tcp", "5015", "--user", "me", "--password-file", "{here}/password"),
            "--user needs --ntrip",
        ),
        (
            ("--ntrip", "2101", "--user", "me", "--password-file", "{here}/nothing"),
            "cannot read the password",
        ),
        (("--tcp", "5015", "--position", "43.07,-89.41"), "expected LAT,LON,HEIGHT or a file"),
        (("--tcp", "5015", "--position", "143.07,-89.41,230"), "latitude must be"),
        (("--tcp", "5015", "--position", "43.07,-89.41,23000"), "the height must be"),
        (("--tcp", "5015", "--position", "{here}/nothing"), "cannot read"),
        (("--tcp", "5015", "--position", "{here}/password"), "give a file of --save"),
        (("--save", "{here}/password"), "exists already"),
        (("--tcp", "99999"), "expected PORT or HOST:PORT"),
        (("--ntrip", "2101", "--mountpoint", "a b"), "expected letters"),
    ],
)
def test_mistakes_are_named_before_anything_opens(
    options: tuple[str, ...], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").write_text("secret\n")
    words = [each.replace("{here}", str(tmp_path)) for each in options]
    try:
        status = main(["base", "serial:/dev/null", *words])
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    assert status == 2
    said = capsys.readouterr()
    assert text in " ".join((said.out + said.err).split())
    assert "secret" not in said.out + said.err

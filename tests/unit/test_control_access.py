"""Programs in other languages: listen addresses, the token, the first line, points of a course."""

from pathlib import Path

import pytest

from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.live.control_socket.access import ServerAddress, hello_refusal, token_in
from vehicled.live.control_socket.path_points import COLUMNS, path_points
from vehicled.live.control_socket.protocol import VERSION
from vehicled.paths.catalog import load_course

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tcp:127.0.0.1:7714", "tcp:127.0.0.1:7714"),
        ("tcp:localhost:0", "tcp:127.0.0.1:0"),
        ("tcp:[::1]:7714", "tcp:[::1]:7714"),
        ("unix:/tmp/step.sock", "unix:/tmp/step.sock"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(ServerAddress.of(text)) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "use tcp"),
        ("7714", "use tcp"),
        ("tcp:127.0.0.1", "use tcp"),
        ("tcp:127.0.0.1:http", "use tcp"),
        ("udp:127.0.0.1:7714", "use tcp"),
        ("unix:", "use tcp"),
        ("unix:" + "x" * 200, "use tcp"),
        ("tcp:127.0.0.1:70000", "only this computer"),
        ("tcp:0.0.0.0:7714", "ssh -L"),
        ("tcp:192.0.2.1:7714", "ssh -L"),
        ("tcp::7714", "only this computer"),
    ],
)
def test_addresses_that_are_none_or_open_to_others_are_refused(text: str, why: str) -> None:
    with pytest.raises(SetupError, match=why):
        ServerAddress.of(text)


def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    address = ServerAddress.of(f"unix:{tmp_path / 's'}")
    with address.listen(), pytest.raises(SetupError, match="in use"):
        address.listen()
    address.listen().close()


def test_a_file_is_never_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(SetupError, match="in use"):
        ServerAddress.of(f"unix:{tmp_path / 's'}").listen()
    assert (tmp_path / "s").read_text() == "mine"


def test_a_token_file_is_made_once_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = token_in(str(file))
    assert len(token) >= 16
    assert file.stat().st_mode & 0o777 == 0o600
    assert token_in(str(file)) == token
    assert token_in("") != token_in("")


@pytest.mark.parametrize("content", [b"short", b"two words of text here", b"\xff\xfe", b""])
def test_a_token_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(SetupError, match="--token-file"):
        token_in(str(tmp_path / "token"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f'{{"do":"hello","version":{VERSION},"token":"{TOKEN}"}}', ""),
        (f'{{"do":"hello","version":{VERSION + 1},"token":"{TOKEN}"}}', "speaks version"),
        (f'{{"do":"hello","version":{VERSION},"token":"{TOKEN}x"}}', "wrong token"),
        (f'{{"do":"hello","version":{VERSION}}}', "wrong token"),
        (f'{{"do":"hello","version":{VERSION + 1}}}', "wrong token"),
        (f'{{"do":"hello","version":{VERSION},"token":"\u00e9"}}', "wrong token"),
        ('{"do":"status"}', "begin with"),
        ("GET / HTTP/1.1", "begin with"),
        ("", "begin with"),
    ],
)
def test_first_lines(line: str, why: str) -> None:
    found = hello_refusal(line.encode(), TOKEN)
    assert why in found
    assert bool(why) is bool(found)


def test_a_unix_socket_needs_no_token() -> None:
    assert hello_refusal(b'{"do":"hello","version":1}', "") == ""


@pytest.mark.parametrize("points", [2, 7, 500, 2000])
@pytest.mark.parametrize("name", ["circle_r5_ccw", "double_lane_change"])
def test_a_path_has_at_most_the_points_asked_for(name: str, points: int) -> None:
    course = load_course(name)
    found = path_points(course, points)
    sizes = {len(found[column]) for column in COLUMNS}
    assert sizes == {min(points, course.x_m.size)}
    assert found["s_m"][0] == 0.0
    if not course.closed:
        assert found["x_m"][-1] == pytest.approx(course.x_m[-1], abs=1e-4)
    steps = [b - a for a, b in zip(found["s_m"], found["s_m"][1:], strict=False)]
    assert min(steps) > 0.0
    if course.closed:
        # The last leg, back to the first point, is as long as the others.
        assert course.length_m - found["s_m"][-1] <= max(steps) + 0.11


def test_a_relay_to_a_unix_socket_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "control", "--listen", "unix:/tmp/x.sock"]) == 2
    assert "Unix socket already" in capsys.readouterr().err

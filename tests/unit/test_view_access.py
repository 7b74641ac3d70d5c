"""Access to the live view: addresses, names, origins, tokens, and the files that are served."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.errors import SetupError
from vehicled.live.view.access import Access, is_loopback, new_token, parse_address, url_of
from vehicled.live.view.assets import PAGE_FOLDER, headers, load_assets
from vehicled.profile.schema import ViewTable
from vehicled.run.bridges import LEAST_TOKEN, _token, check_view

OPEN = Access("", ["rover.local"])
CLOSED = Access("s3cret-token", [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8765",
        "localhost",
        "LOCALHOST:1",
        "[::1]:8765",
        "192.168.1.20",
        "rover.local:8765",
    ],
)
def test_addresses_and_own_names_are_ours(host: str) -> None:
    assert OPEN.ours(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "localhost.evil.example:8765",
        "127.0.0.1.evil.example",
        "rover.local.",
        "x" * 300,
        "[",
        "::",
        "[::1]evil.example:8765",
        "localhost:80@evil.example",
        "127.0.0.1:",
        "[::1",
    ],
)
def test_names_of_others_that_point_here_are_refused(host: str | None) -> None:
    assert not OPEN.ours(host)


def test_a_socket_is_opened_by_a_page_of_ours_only() -> None:
    assert OPEN.same_site("http://127.0.0.1:8765", "127.0.0.1:8765")
    assert OPEN.same_site("https://Rover.local", "rover.local")
    assert OPEN.same_site(None, "127.0.0.1:8765")
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "",
        "http://127.0.0.1:8765.evil.example",
    ):
        assert not OPEN.same_site(origin, "127.0.0.1:8765")


def test_foxglove_may_read_where_no_token_is_asked_for_and_with_it_from_anywhere() -> None:
    assert OPEN.reads_foxglove("https://app.foxglove.dev", "localhost", None)
    assert not OPEN.reads_foxglove("https://evil.example", "localhost", None)
    assert not CLOSED.reads_foxglove("https://app.foxglove.dev", "localhost", "")
    assert CLOSED.reads_foxglove("https://my-own.example", "localhost", "s3cret-token")


@given(st.text())
def test_only_the_token_is_the_token(text: str) -> None:
    assert CLOSED.knows(text) is (text == "s3cret-token")
    assert OPEN.knows(text)


def test_new_tokens_differ_and_are_long() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 20


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        ("0.0.0.0", ("0.0.0.0", 8765)),
        (":9000", ("127.0.0.1", 9000)),
        ("[::]:0", ("::", 0)),
        ("rover.local:80", ("rover.local", 80)),
    ],
)
def test_addresses_to_listen_on(text: str, place: tuple[str, int]) -> None:
    assert parse_address(text) == place


@given(st.one_of(st.text(), st.from_regex(r"[\[\]0-9a-f:.]{1,20}", fullmatch=True)))
def test_any_text_is_an_address_or_a_clear_refusal(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ValueError as error:
        assert "HOST:PORT" in str(error)  # noqa: PT017
    else:
        assert 0 <= port <= 65535
        assert url_of(host, port).startswith("http://")


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "rover.local")))


def test_a_token_is_made_where_one_is_needed_and_read_where_one_is_named(tmp_path: Path) -> None:
    assert _token(ViewTable(), needed=False) == ""
    assert len(_token(ViewTable(), needed=True)) >= 20
    file = tmp_path / "token"
    file.write_text("a-long-enough-one\n")
    assert _token(ViewTable(token_file=str(file)), needed=False) == "a-long-enough-one"


def test_the_command_line_counts_before_the_profile_and_each_is_named_for_its_mistakes() -> None:
    profile = ViewTable(address="127.0.0.1:7000")
    assert check_view(profile, "") == ("127.0.0.1", 7000, "")
    assert check_view(profile, "[::1]:7001") == ("::1", 7001, "")
    assert check_view(ViewTable(teleop=True), "")[2]
    assert check_view(ViewTable(), "0.0.0.0")[2]
    with pytest.raises(SetupError, match=r"^--view: 'x:y' is not a listen address"):
        check_view(profile, "x:y")
    with pytest.raises(SetupError, match=r"^view\.address: 'odd place' is not a listen address"):
        check_view(ViewTable(address="odd place"), "")


@pytest.mark.parametrize(
    "text", ["", "short", "two words here", "tab\there-and-more", "ünicode-token"]
)
def test_a_poor_token_is_refused_by_its_file_and_is_not_printed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(
        Exception,
        match=(
            f"{re.escape(str(file))} (must be one line of at least {LEAST_TOKEN}|is empty; write)"
        ),
    ) as caught:
        _token(ViewTable(token_file=str(file)), needed=True)
    assert not text or text not in str(caught.value)


def test_the_page_loads_nothing_from_elsewhere_and_refers_to_nothing_that_is_not_served() -> None:
    assets = load_assets(PAGE_FOLDER)
    scripts = {"main", "link", "map", "plot", "canvas", "uplot", "panels", "teleop"}
    assert {"/", "/style.css", "/icon.svg", *(f"/{name}.js" for name in scripts)} == set(assets)
    for path, asset in assets.items():
        # A library names its origin in its first line.
        text = re.sub(r"^/\*!.*\*/", "", asset.body.decode())
        foreign = re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"']+", text)
        assert not foreign, (path, foreign)
        for name in re.findall(r"""(?:href|src)="([^"#]+)"|from "\./([^"]+)\"""", text):
            assert f"/{name[0] or name[1]}" in assets, (path, name)
        # The policy allows neither.
        assert "style=" not in text
        assert "<script>" not in text


def test_headers_keep_everything_at_home() -> None:
    found = dict(headers("127.0.0.1:8765", "text/html"))
    policy = found["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert found["X-Content-Type-Options"] == "nosniff"

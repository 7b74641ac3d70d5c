"""``vehicled data``: public recordings, fetched over a real socket from a server of this test."""

import hashlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import recordings_bench as bench
from vehicled.cli import main
from vehicled.offline.recordings import public_data, table
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import (
    DATA_SETS,
    DataSet,
    PublicFile,
    download,
    fetch,
    with_header,
)


class Server:
    """Serves what a test puts into ``pages``: bytes, a status, or a place to redirect to."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []
        pages, asked = self.pages, self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                page = pages.get(self.path, 404)
                if isinstance(page, int):
                    self.send_error(page)
                    return
                if isinstance(page, str):
                    self.send_response(302)
                    self.send_header("Location", page)
                    self.end_headers()
                    return
                cut, page = (page[1], page[0]) if isinstance(page, tuple) else (len(page), page)
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page[:cut])

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.http.shutdown()
    made.thread.join()
    made.http.server_close()


def served(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """Return the data set whose files are those of the server."""
    data = DATA_SETS[name]
    files = (
        replace(file, sha256=hashlib.sha256(server.pages[f"/{file.origin}"]).hexdigest())
        for file in data.files
    )
    monkeypatch.setitem(DATA_SETS, name, replace(data, files=tuple(files)))
    return DATA_SETS[name]


def serve_lap(server: Server, file: PublicFile, rows: int = 80) -> None:
    """A lap as its authors publish it: no header, no times."""
    width = len(file.columns) - (0 if file.columns[0] == "time_s" else 1)
    cells = np.column_stack([np.linspace(0.0, k + 1.0, rows) for k in range(width)])
    server.pages[f"/{file.origin}"] = "\n".join(
        ",".join(map(repr, row)) for row in cells.tolist()
    ).encode()


def test_a_set_is_fetched_and_read_as_a_recording(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for file in DATA_SETS["art_circle_2023"].files:
        serve_lap(server, file)
    data = served("art_circle_2023", server, monkeypatch)
    assert main(["data", "fetch", data.name, "--mirror", server.url, "--to", str(tmp_path)]) == 2
    assert "--accept-unknown-licence" in capsys.readouterr().err
    assert server.asked == []
    arguments = [
        "data",
        "fetch",
        data.name,
        "--mirror",
        server.url,
        "--to",
        str(tmp_path),
        "--accept-unknown-licence",
    ]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "2 files downloaded, 2 in total" in out
    assert "none stated" in err
    rows = table.read(tmp_path / data.name / "circle_r1.csv")
    assert rows["time_nominal_s"][-1] == pytest.approx(7.9)
    assert rows["steering_cmd"][-1] == 10.0
    assert {each.kind for each in bench.load(tmp_path)} == {"bare_rtk", "bare_plain"}
    assert "none stated" in (tmp_path / data.name / "ORIGIN.txt").read_text()
    asked = len(server.asked)
    assert main(arguments) == 0
    assert len(server.asked) == asked, "what is there is not fetched again"
    assert not list(tmp_path.rglob("*.part"))


def test_a_fetch_that_was_broken_off_goes_on(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = {
        f"/{file.origin}": b"0,0,0,1\n1,0,0,1\n" for file in DATA_SETS["reference_paths"].files
    }
    server.pages |= pages
    data = served("reference_paths", server, monkeypatch)
    for file in data.files[3:]:
        del server.pages[f"/{file.origin}"]
    arguments = ["data", "fetch", data.name, "--mirror", server.url + "/", "--to", str(tmp_path)]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "404" in said
    assert data.files[3].origin in said
    server.pages |= pages
    assert main(arguments) == 0
    assert len(server.asked) == len(data.files) + 1
    assert (
        tmp_path / data.name / "u_shape.csv"
    ).read_text() == "x_m,y_m,heading_rad,speed_mps\n0,0,0,1\n1,0,0,1\n"


def test_a_table_that_was_changed_is_not_kept(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in DATA_SETS["reference_paths"].files:
        server.pages[f"/{file.origin}"] = b"0,0,0,1\n1,0,0,1\n"
    assert (
        main(["data", "fetch", "reference_paths", "--mirror", server.url, "--to", str(tmp_path)])
        == 2
    )
    assert "known by its hash" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.csv"))


def test_without_a_network_the_message_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A port that nobody listens on.
    assert (
        main(
            [
                "data",
                "fetch",
                "reference_paths",
                "--mirror",
                "http://127.0.0.1:1",
                "--to",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "is there a network?" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.csv"))


def test_the_list_names_licences_and_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "list", "--json", "--to", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in rows} == set(DATA_SETS)
    assert next(row for row in rows if row["name"] == "reference_paths")["licence"] == "MIT"
    assert main(["data", "list", "--to", str(tmp_path)]) == 0
    assert "none stated" in capsys.readouterr().out
    assert main(["data", "fetch", "nothing", "--to", str(tmp_path)]) == 2
    assert "there are lot17_rtk_gps_2023" in capsys.readouterr().err


ONE = DataSet(
    "one",
    "one file",
    "MIT",
    "",
    0.1,
    (PublicFile("a/b.bin", "o/r/c/b.bin", sha256=hashlib.sha256(b"right").hexdigest()),),
)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (b"wrong", "known by its hash"),
        (500, "the server answers 500"),
        ((b"right" * 100, 20), "broke after 20 of 500"),
        ("file:///etc/hostname", "cannot be fetched|answers 302"),
        ("ftp://127.0.0.1/x", "cannot be fetched|answers 302"),
        ("/o/r/c/b.bin", "answers 302|cannot be fetched"),
        (b"x" * 3000, "more than"),
    ],
)
def test_hostile_and_broken_servers_leave_nothing(
    server: Server, tmp_path: Path, page: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(page, bytes) and len(page) == 3000:
        monkeypatch.setattr(public_data, "MAX_FILE_BYTES", 2999)
    server.pages["/o/r/c/b.bin"] = page
    with pytest.raises(RecordingError, match=why):
        fetch(ONE, tmp_path, lambda _: None, source=server.url)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_redirect_on_the_same_footing_is_followed(server: Server, tmp_path: Path) -> None:
    server.pages |= {"/o/r/c/b.bin": "/elsewhere", "/elsewhere": b"right"}
    assert fetch(ONE, tmp_path, lambda _: None, source=server.url) == 1
    assert (tmp_path / "one" / "a" / "b.bin").read_bytes() == b"right"


def test_https_is_never_left_for_something_unencrypted() -> None:
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(RecordingError, match="not encrypted"):
        public_data._SafeRedirects().redirect_request(
            request,
            None,  # type: ignore[arg-type]
            302,
            "",
            None,  # type: ignore[arg-type]
            "http://example.org/a",
        )


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/a", "/etc/hostname", ""])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(RecordingError, match="begins with https"):
        download(url)


def test_stamped_tables_begin_at_zero() -> None:
    made = with_header(
        b"1,2,1679615962.5\n3,4,1679615962.75\n", ("time_s", "x_m", "y_m", "stamp_s"), "a.csv"
    )
    assert made == b"time_s,x_m,y_m\n0.000000,1,2\n0.250000,3,4\n"


@given(
    st.one_of(st.binary(max_size=60), st.text("0123456789.,-\nena<", max_size=60).map(str.encode))
)
def test_any_page_is_a_table_or_an_error(data: bytes) -> None:
    try:
        made = with_header(data, ("time_nominal_s", "x_m", "y_m"), "a.csv")
    except RecordingError as error:
        said = str(error)
    else:
        rows = made.decode().splitlines()
        assert rows[0] == "time_nominal_s,x_m,y_m"
        assert all(
            np.isfinite([float(cell) for cell in row.split(",")]).all() and row.count(",") == 2
            for row in rows[1:]
        )
        return
    assert said.startswith("a.csv: ")


def test_every_file_of_the_table_has_a_place_and_a_commit_of_its_own() -> None:
    """Targets stay below their folder, and an address cannot change what it gives."""
    for data in DATA_SETS.values():
        places = [file.path for file in data.files]
        assert len(set(places)) == len(places)
        for file in data.files:
            path = PurePosixPath(file.path)
            assert not path.is_absolute()
            assert ".." not in path.parts
            commit = file.origin.split("/")[2]
            assert len(commit) == 40
            assert int(commit, 16) >= 0
            assert len(bytes.fromhex(file.sha256)) == 32


@pytest.mark.parametrize("command", [["bench", "recorded"], ["twin", "predict"]])
def test_commands_say_how_to_get_data(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(command) == 2
    assert "vehicled data fetch " in capsys.readouterr().err
    assert main(["twin", "validate"]) == 2
    assert "docs/twin_validation.md" in capsys.readouterr().err

"""The view's process: what it answers, whom it refuses, and that nobody who reads slowly, or not at
all, is in another's way."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.busy_computer import DEADLINE_S
from tests.unit.view_facts import STARTED_NS, estimate, opening, packed
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeError, BridgeProcess
from vehicled.live.view.connection import BURST
from vehicled.live.view.page_server import MOST_SOCKETS, MOST_STRANGERS

pytestmark = pytest.mark.xdist_group("view")  # what the tests look at is made once

TOKEN = "t0ken-of-the-test"
STATE = json.dumps(
    {"status": {"mode": "STANDBY", "why": "waiting to be armed"}, "rules": [], "view": {}}
).encode()


@contextmanager
def served(**changes: Any) -> Iterator[BridgeProcess]:
    process = BridgeProcess.start("the live view", "vehicled.live.view.server", opening(**changes))
    try:
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def view() -> Iterator[BridgeProcess]:
    """One that asks for no token."""
    with served() as process:
        yield process


@pytest.fixture(scope="module")
def closed() -> Iterator[BridgeProcess]:
    """One that asks for a token, and from which nobody could drive if they had one: there is no
    daemon behind it."""
    with served(token=TOKEN, teleop=True, control_socket="/nonexistent/vehicled.sock") as process:
        yield process


def get(view: BridgeProcess, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    request = Request(
        f"http://127.0.0.1:{view.port}{path}",
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    )
    try:
        with urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def page(view: BridgeProcess, *, token: str = "", **options: Any) -> Any:
    query = f"?token={token}" if token else ""
    # Nobody here reads to the end, so nobody waits for the last words either.
    return connect(
        f"ws://127.0.0.1:{view.port}/socket{query}", compression=None, close_timeout=0.05, **options
    )


def foxglove(view: BridgeProcess, *names: str, token: str = "") -> Any:
    query = f"?token={token}" if token else ""
    return connect(
        f"ws://127.0.0.1:{view.port}/{query}",
        subprotocols=[Subprotocol(name) for name in names],
        close_timeout=0.05,
    )


def receive(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of a kind."""
    while True:
        message: dict[str, Any] = json.loads(socket.recv(timeout=DEADLINE_S))
        if message["k"] == kind:
            return message


def test_the_page_and_its_parts_are_served_with_their_policy(view: BridgeProcess) -> None:
    for path, start in (("/", b"<!doctype html>"), ("/style.css", b"/*"), ("/main.js", b"//")):
        status, body, headers = get(view, path)
        assert status == 200
        assert body.startswith(start)
        assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../server.py",
        "/index.html%00",
        "//main.js",
        "/main.js/",
        "/%2e%2e/view/server.py",
    ],
)
def test_nothing_else_is(view: BridgeProcess, path: str) -> None:
    assert get(view, path)[0] == 404


def test_a_name_of_somebody_else_is_refused_even_for_a_file(view: BridgeProcess) -> None:
    assert get(view, "/", Host="evil.example")[0] == 421
    assert get(view, "/", Host=f"localhost:{view.port}")[0] == 200


def test_a_page_receives_what_the_daemon_sends(view: BridgeProcess) -> None:
    with page(view) as first, page(view) as second:
        for reader in (first, second):
            hello = receive(reader, "hello")
            assert hello["teleop"] is False
        view.offer(FrameKind.RECORDS, packed([(estimate(4.25), STARTED_NS)]))
        view.offer(FrameKind.STATE, STATE)
        for reader in (first, second):
            seen: dict[str, Any] = {}
            while not ("state" in seen and seen["now"]):
                seen |= receive(reader, "tick")
            assert seen["now"]["estimate"]["x"] == 4.25
            assert seen["state"]["status"]["mode"] == "STANDBY"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_other_sites_open_no_socket(view: BridgeProcess, origin: str) -> None:
    with pytest.raises(InvalidStatus) as caught, page(view, origin=origin):
        pass
    assert caught.value.response.status_code == 403


def test_without_the_token_there_is_no_socket(closed: BridgeProcess) -> None:
    for token in ("", "wrong", TOKEN + "x", TOKEN[:-1]):
        with pytest.raises(InvalidStatus) as caught, page(closed, token=token):
            pass
        assert caught.value.response.status_code == 401
        with (
            pytest.raises(InvalidStatus) as caught,
            foxglove(closed, "foxglove.websocket.v1", token=token),
        ):
            pass
        assert caught.value.response.status_code == 403
    assert json.loads(get(closed, "/access")[1]) == {"known": False}
    assert json.loads(get(closed, "/access", Authorization=f"Bearer {TOKEN}")[1]) == {"known": True}
    with page(closed, token=TOKEN) as socket:
        assert receive(socket, "hello")["teleop"] is True


def test_a_page_that_may_only_look_moves_nothing(view: BridgeProcess) -> None:
    with page(view) as socket:
        socket.send('{"do": "request", "action": "teleop"}')
        assert receive(socket, "note")["text"] == "this page is read-only"


def test_a_request_without_a_daemon_is_reported(closed: BridgeProcess) -> None:
    with page(closed, token=TOKEN) as socket:
        socket.send('{"do": "request", "action": "stop"}')
        assert "no daemon answers" in receive(socket, "note")["text"]


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "null",
        "[" * 3000,
        "{}",
        b"\x00\xff" * 100,
        '{"do": "request", "action": "fly"}',
        "é" * 1000,
    ],
)
def test_garbage_is_answered_and_the_page_lives_on(
    closed: BridgeProcess, garbage: str | bytes
) -> None:
    with page(closed, token=TOKEN) as socket:
        socket.send(garbage)
        assert receive(socket, "note")["text"] == "not understood"
        receive(socket, "tick")


def test_a_flood_slows_the_flooder_only(closed: BridgeProcess) -> None:
    with page(closed, token=TOKEN) as flooder, page(closed, token=TOKEN) as other:
        for _ in range(int(BURST) + 30):
            flooder.send("x")
        before = receive(other, "tick")["n"]
        assert receive(other, "tick")["n"] == before + 1


def test_a_message_that_is_too_long_ends_its_connection_alone(closed: BridgeProcess) -> None:
    with page(closed, token=TOKEN) as greedy, page(closed, token=TOKEN) as other:
        greedy.send("x" * 100_000)
        with pytest.raises(ConnectionClosed):
            receive(greedy, "never")
        receive(other, "tick")


def test_strangers_never_fill_the_places_of_those_who_may_read(closed: BridgeProcess) -> None:
    with ExitStack() as stack:
        # Far more than are let in: half requests, garbage, nothing at all.
        for k in range(2 * MOST_STRANGERS):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", closed.port)))
            with suppress(OSError):
                raw.sendall((b"GET / HTT", b"\x16\x03\x01\x00" * 5, b"")[k % 3])
        assert get(closed, "/")[0] == 200
        pages = [stack.enter_context(page(closed, token=TOKEN)) for _ in range(MOST_SOCKETS)]
        for each in pages:
            assert receive(each, "hello")["teleop"] is True


def test_a_new_page_takes_the_place_of_the_oldest_reader(closed: BridgeProcess) -> None:
    with ExitStack() as stack:
        first, *others = [
            stack.enter_context(page(closed, token=TOKEN)) for _ in range(MOST_SOCKETS)
        ]
        late = stack.enter_context(page(closed, token=TOKEN))
        assert receive(late, "hello")["teleop"] is True
        receive(first, "displaced")
        with pytest.raises(ConnectionClosed):
            receive(first, "never")
        for each in (late, *others):
            receive(each, "tick")
        # A reader of another kind takes no page's place.
        with (
            pytest.raises(InvalidStatus) as caught,
            foxglove(closed, "foxglove.websocket.v1", token=TOKEN),
        ):
            pass
        assert caught.value.response.status_code == 503


def test_more_readers_than_there_is_room_for_are_reported(view: BridgeProcess) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_SOCKETS):
            stack.enter_context(page(view))
        with pytest.raises(InvalidStatus) as caught:
            stack.enter_context(page(view))
        assert caught.value.response.status_code == 503


def test_a_reader_that_never_reads_blocks_no_other() -> None:
    with served() as view, socket.create_connection(("127.0.0.1", view.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        raw.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{view.port}\r\nUpgrade: "
            "websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: foxglove.websocket.v1\r\n\r\n".encode()
        )
        subscribe = json.dumps(
            {"op": "subscribe", "subscriptions": [{"id": k, "channelId": k} for k in range(1, 25)]}
        ).encode()
        raw.sendall(b"\x81\xfe" + len(subscribe).to_bytes(2, "big") + bytes(4) + subscribe)
        with page(view) as reader:
            before = 0
            for k in range(12):
                # More than any buffer between here and there holds.
                view.send(
                    FrameKind.RECORDS,
                    packed((estimate(k + n / 1e3), STARTED_NS + k) for n in range(3000)),
                )
                tick = receive(reader, "tick")
                assert before == 0 or tick["n"] == before + 1, "a picture was lost"
                before = tick["n"]
            assert view.alive


def test_the_end_of_the_daemon_is_reported_and_ends_the_process() -> None:
    with served() as view, page(view) as reader:
        receive(reader, "hello")
        assert view._process.stdin is not None
        view._process.stdin.close()
        receive(reader, "over")
        assert view._process.wait(DEADLINE_S) == 0


def test_a_place_that_is_taken_is_reported_before_anything_drives() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BridgeError, match="cannot listen on"):
            BridgeProcess.start(
                "the live view", "vehicled.live.view.server", opening(port=taken.getsockname()[1])
            )


def test_foxglove_is_spoken_on_the_same_port_and_may_be_switched_off(view: BridgeProcess) -> None:
    for name in ("foxglove.sdk.v1", "foxglove.websocket.v1"):
        with foxglove(view, "odd", name) as client:
            assert client.subprotocol == name
            assert json.loads(client.recv(timeout=DEADLINE_S))["op"] == "serverInfo"
            assert json.loads(client.recv(timeout=DEADLINE_S))["op"] == "advertise"
    with (
        served(foxglove=False) as silent,
        pytest.raises(InvalidStatus),
        foxglove(silent, "foxglove.sdk.v1"),
    ):
        pass


def test_the_child_gives_way_to_the_daemon(view: BridgeProcess) -> None:
    with open(f"/proc/{view.pid}/stat") as stat:
        nice = int(stat.read().rpartition(")")[2].split()[16])
    assert nice == min(os.nice(0) + 10, 19)

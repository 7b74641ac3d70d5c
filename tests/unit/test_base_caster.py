"""The NTRIP caster of a base station: its dialogue, its sockets, and rovers of our own and of other
programs behind them."""

import asyncio
import base64
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.client import parse_headers
from io import BytesIO
from typing import Any

import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from drivers.rtcm.codec import FrameReader
from tests.ntrip_caster import rtcm
from vehicled.core.errors import SetupError
from vehicled.core.messages import Corrections, Fault, PortState
from vehicled.core.ports import Send
from vehicled.live.base_station.caster import (
    MAX_HEAD_BYTES,
    CasterConfig,
    CasterSession,
    SourceRecord,
)
from vehicled.live.base_station.servers import (
    MAX_CONNECTIONS,
    ListenAddress,
    RoverNews,
    RoverServers,
)

S = 1_000_000_000
CONFIG = CasterConfig("BASE", "rover", "pass:wörd")
RECORD = SourceRecord("BASE", ((1005, 5), (1077, 1)), 43.07, -89.41, password=True)
LOGIN = base64.b64encode("rover:pass:wörd".encode()).decode()
V1 = "GET /BASE HTTP/1.0\r\nUser-Agent: NTRIP test\r\n"
V2 = "GET /BASE HTTP/1.1\r\nHost: base\r\nNtrip-Version: Ntrip/2.0\r\nUser-Agent: NTRIP test\r\n"


def session(config: CasterConfig = CONFIG, *, ready: bool = True) -> CasterSession:
    return CasterSession(config, lambda: RECORD, lambda: ready)


def ask(
    text: str, authorization: str | None = f"Basic {LOGIN}", **options: Any
) -> tuple[CasterSession, bytes]:
    found = session(**options)
    more = "" if authorization is None else f"Authorization: {authorization}\r\n"
    return found, found.receive(f"{text}{more}\r\n".encode())


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_both_versions_get_a_stream_however_the_request_is_cut(cut: int) -> None:
    for text, version, begin in ((V1, 1, b"ICY 200 OK\r\n\r\n"), (V2, 2, b"HTTP/1.1 200 OK\r\n")):
        found, request = session(), f"{text}Authorization: Basic {LOGIN}\r\n\r\n".encode()
        reply = b"".join(
            found.receive(request[at : at + cut]) for at in range(0, len(request), cut)
        )
        assert found.streaming
        assert found.version == version
        assert found.agent == "NTRIP test"
        assert reply.startswith(begin)
        assert found.chunk(b"abc") == (b"abc" if version == 1 else b"3\r\nabc\r\n")
        assert found.receive(b"$GPGGA,...\r\n") == b""


@pytest.mark.parametrize(
    ("text", "authorization", "status"),
    [
        (V2, None, "401"),
        (V1, None, "401"),
        (V2, "Basic !!!", "401"),
        (V2, "Basic " + base64.b64encode(b"rover:wrong").decode(), "401"),
        (V2, f"Digest {LOGIN}", "401"),
        (V2.replace("BASE ", "OTHER "), f"Basic {LOGIN}", "404"),
        (V2.replace("GET", "POST"), f"Basic {LOGIN}", "400"),
        ("SOURCE secret /BASE\r\n", None, "400"),
        ("\x16\x03\x01\r\n", None, "400"),
    ],
)
def test_a_refusal_has_a_status_and_ends_the_connection(
    text: str, authorization: str | None, status: str
) -> None:
    found, reply = ask(text, authorization)
    head, _, _ = reply.partition(b"\r\n")
    assert head.split(b" ")[1].decode() == status
    assert found.outcome
    assert not found.streaming
    assert b"W\xc3" not in reply


def test_before_the_position_is_known_a_rover_is_refused_and_may_come_again() -> None:
    found, reply = ask(V2, ready=False)
    assert reply.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After" in reply
    assert found.outcome == "not_ready"


def test_the_source_table_can_be_read_without_a_password() -> None:
    for text in (
        V1.replace("/BASE", "/"),
        V1.replace("/BASE", "/nosuch"),
        V2.replace("/BASE", "/"),
    ):
        found, reply = ask(text, None)
        head, _, body = reply.partition(b"\r\n\r\n")
        fields = parse_headers(BytesIO(head.partition(b"\r\n")[2] + b"\r\n\r\n"))
        assert int(fields["Content-Length"]) == len(body)
        record = body.decode().splitlines()[0].split(";")
        assert (record[0], record[1], record[4]) == ("STR", "BASE", "1005(5),1077(1)")
        assert (float(record[9]), float(record[10])) == (43.07, 270.59)
        assert record[15] == "B"
        assert len(record) == 19
        assert body.endswith(b"ENDSOURCETABLE\r\n")
        assert found.outcome in ("table", "unknown_mountpoint")


def test_an_endless_request_is_refused_after_its_limit() -> None:
    found, replies = session(), b""
    for _ in range(MAX_HEAD_BYTES // 64 + 2):
        replies += found.receive(b"GET /" + b"x" * 59)
    assert found.outcome == "bad_request"
    assert replies.startswith(b"HTTP/1.0 400 ")
    assert found.receive(b"x" * 1_000_000) == b""


def test_the_password_is_in_no_text() -> None:
    assert "pass" not in repr(CONFIG)


# ---------------------------------------------------------------- sockets

STATION, OBSERVATIONS = rtcm(1005, bytes(16)), rtcm(1077, b"x" * 100)


@asynccontextmanager
async def serving(
    caster: CasterConfig | None = CONFIG,
) -> AsyncIterator[tuple[RoverServers, int, list[RoverNews]]]:
    news: list[RoverNews] = []
    servers = RoverServers(news.append, lambda: True, lambda: RECORD)
    try:
        yield servers, await servers.listen(ListenAddress("127.0.0.1", 0), caster), news
    finally:
        servers.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60.0))


@asynccontextmanager
async def rover(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.005)


def test_rovers_of_both_kinds_get_the_station_first_and_then_every_message() -> None:
    async def test() -> None:
        async with serving() as (servers, port, news):
            plain_port = await servers.listen(ListenAddress("127.0.0.1", 0))
            servers.publish(STATION)
            async with rover(plain_port) as (plain, _), rover(port) as (reader, writer):
                writer.write(f"{V1}Authorization: Basic {LOGIN}\r\n\r\n".encode())
                await until(lambda: servers.rovers == 2)
                servers.publish(OBSERVATIONS)
                assert (
                    await plain.readexactly(len(STATION + OBSERVATIONS)) == STATION + OBSERVATIONS
                )
                head = b"ICY 200 OK\r\n\r\n"
                assert (
                    await reader.readexactly(len(head + STATION + OBSERVATIONS))
                    == head + STATION + OBSERVATIONS
                )
            assert servers.sent_bytes == 2 * len(STATION + OBSERVATIONS)
            assert {("joined", 0), ("joined", 1)} <= {(each.kind, each.version) for each in news}

    run(test)


def test_a_port_that_is_taken_is_named_with_its_option() -> None:
    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            servers = RoverServers(lambda _: None, lambda: True)
            with pytest.raises(
                SetupError,
                match=r"cannot listen on 127\.0\.0\.1:\d+: another program uses the port.*--ntrip",
            ):
                await servers.listen(
                    ListenAddress("127.0.0.1", taken.getsockname()[1]), CONFIG, option="--ntrip"
                )

    run(test)


def test_a_rover_that_takes_nothing_is_disconnected_and_the_others_go_on() -> None:
    async def test() -> None:
        async with serving(None) as (servers, port, news):
            # The kernel accepts some megabytes before the program has to wait.
            with socket.socket() as slow:
                slow.connect(("127.0.0.1", port))
                async with rover(port) as (reader, _):
                    await until(lambda: servers.rovers == 2)
                    while not any(each.kind == "too_slow" for each in news):
                        for _ in range(100):
                            servers.publish(OBSERVATIONS)
                        await reader.readexactly(100 * len(OBSERVATIONS))
                    await until(lambda: servers.rovers == 1)
                    servers.publish(STATION)

    run(test)


def test_too_many_connections_are_refused() -> None:
    async def test() -> None:
        async with serving() as (_, port, news), AsyncExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                await stack.enter_async_context(rover(port))
            reader, _ = await stack.enter_async_context(rover(port))
            with suppress(ConnectionError):
                assert await reader.read(1) == b""
            assert news[-1].kind == "too_many"

    run(test)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("password", ["pass:wörd", "wrong"])
def test_the_driver_ntrip_is_a_rover_of_it(version: Any, password: str) -> None:
    """Both sides were written apart: the client reads answers of many casters."""

    async def test() -> None:
        async with serving() as (servers, port, news):
            servers.publish(STATION)
            device = NtripDevice(
                NtripParams(mountpoint="BASE", version=version, user="rover", password_file="/x"),
                [Corrections],
                S,
            )
            device.set_secret(password)
            async with rover(port) as (reader, writer):
                got: list[Any] = [*device.on_port(PortState.OPENED, "", time.monotonic_ns())]
                while not any(isinstance(each, Corrections | Fault) for each in got):
                    for action in device.take_tx():
                        if isinstance(action, Send):
                            writer.write(action.data)
                    got += device.on_rx(await reader.read(4096), time.monotonic_ns())
                    got += device.on_time(time.monotonic_ns())
            if password == "wrong":
                assert (
                    next(each.code for each in got if isinstance(each, Fault))
                    == "ntrip_credentials"
                )
                assert news[-1].kind == "wrong_password"
            else:
                assert [each.data for each in got if isinstance(each, Corrections)] == [STATION]

    run(test)


STR2STR = next(
    (path for path in ("/usr/bin/str2str", "/usr/local/bin/str2str") if os.access(path, os.X_OK)),
    "",
)


@pytest.mark.skipif(not STR2STR, reason="the program str2str is not installed")
@pytest.mark.parametrize("scheme", ["ntrip", "tcpcli"])
def test_rtklib_is_a_rover_of_it(scheme: str, tmp_path: Any) -> None:
    async def test() -> None:
        config = CasterConfig("BASE", "rover", "secret")
        async with serving(config if scheme == "ntrip" else None) as (servers, port, news):
            servers.publish(STATION)
            target = tmp_path / "rover.rtcm3"
            source = (
                f"ntrip://rover:secret@127.0.0.1:{port}/BASE"
                if scheme == "ntrip"
                else f"tcpcli://127.0.0.1:{port}"
            )
            program = await asyncio.create_subprocess_exec(
                STR2STR, "-in", source, "-out", f"file://{target}", cwd=tmp_path,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await until(lambda: servers.rovers == 1)
                read: list[bytes] = []
                while len(read) < 10:
                    servers.publish(OBSERVATIONS)
                    await asyncio.sleep(0.05)
                    read = FrameReader().feed(target.read_bytes()) if target.exists() else []
            finally:
                program.kill()
                await program.wait()
            assert read[0] == STATION
            assert set(read[1:]) == {OBSERVATIONS}
            if scheme == "ntrip":
                assert (news[0].kind, news[0].version) == ("joined", 1)
                assert "RTKLIB" in news[0].agent

    run(test)


@pytest.mark.skipif(not STR2STR, reason="the program str2str is not installed")
def test_rtklib_with_a_wrong_password_gets_nothing(tmp_path: Any) -> None:
    async def test() -> None:
        async with serving() as (servers, port, news):
            program = await asyncio.create_subprocess_exec(
                STR2STR, "-in", f"ntrip://rover:wrong@127.0.0.1:{port}/BASE", "-out",
                f"file://{tmp_path / 'rover'}", cwd=tmp_path, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await until(lambda: bool(news))
            finally:
                program.kill()
                await program.wait()
            assert {each.kind for each in news} == {"wrong_password"}
            assert servers.rovers == 0

    run(test)

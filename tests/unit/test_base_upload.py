"""Upload of a base station's corrections to a caster: requests of both versions, answers, and what
happens when the caster refuses, closes or takes nothing."""

import asyncio
import os
import socket
import subprocess
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from tests.ntrip_caster import rtcm
from vehicled.live.base_station import upload
from vehicled.live.base_station.upload import Uploader, UploadNews, UploadTarget, refusal

STR2STR = next(
    (path for path in ("/usr/bin/str2str", "/usr/local/bin/str2str") if os.access(path, os.X_OK)),
    "",
)
FRAMES = [rtcm(1005, bytes(13)), rtcm(1077, bytes(40)), rtcm(1087, bytes(30))]
WAIT_S = 20.0


def target(port: int = 1, version: int = 1) -> UploadTarget:
    user = "base" if version == 2 else ""
    return UploadTarget("127.0.0.1", port, "MOUNT", "secret", user, version)  # type: ignore[arg-type]


def test_the_requests() -> None:
    assert target().request.startswith(b"SOURCE secret MOUNT\r\nSource-Agent: NTRIP ")
    assert target().request.endswith(b"\r\n\r\n")
    second = target(2101, 2).request.decode()
    assert second.startswith("POST /MOUNT HTTP/1.1\r\nHost: 127.0.0.1:2101\r\n")
    login = b64encode(b"base:secret").decode()
    for line in ("Ntrip-Version: Ntrip/2.0", f"Authorization: Basic {login}"):
        assert f"\r\n{line}\r\n" in second
    assert target(1, 2).framed(bytes(17)) == b"11\r\n" + bytes(17) + b"\r\n"


def test_a_password_is_in_no_text() -> None:
    for text in (repr(target()), str(target())):
        assert "secret" not in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"ICY 200 OK\r\n", ""),
        (b"OK\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n", None),
        (b"ICY 200", None),
        (b"ERROR - Bad Password\r\n", "wrong password"),
        (b"ERROR - Mount Point Taken or Invalid\r\n", "the mountpoint is taken"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "wrong name or password"),
        (b"HTTP/1.1 409 Conflict\r\n\r\n", "the mountpoint is taken by another source"),
        (b"HTTP/1.1 503 Busy\r\n\r\n", "the caster answers 'HTTP/1.1 503 Busy'"),
        (b"\r\n", "the answer is no NTRIP"),
        (b"x" * 3000, "the caster answers"),
        (b"\xff\x00\x1b[31m\n", "the caster answers"),
    ],
)
def test_answers(answer: bytes, why: str | None) -> None:
    found = refusal(answer)
    assert found == why if not why else found is not None and found.startswith(why)
    assert found is None or "\x1b" not in found


class Caster:
    """Takes uploads, and answers each with the next of its answers."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.bodies: list[bytearray] = []
        self.close_after: int | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        body = bytearray()
        self.bodies.append(body)
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        while data := await reader.read(4096):
            body += data
            if self.close_after is not None and len(body) >= self.close_after:
                self.close_after = None
                break
        writer.close()


def run(caster: Caster, until: Callable[[Any], bool], version: int = 1) -> list[UploadNews]:
    news: list[UploadNews] = []

    async def work() -> None:
        server = await asyncio.start_server(caster.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        uploader = Uploader(target(port, version), news.append, lambda: FRAMES[0], 0.01)
        task = asyncio.ensure_future(uploader.run())
        try:
            async with asyncio.timeout(WAIT_S):
                while not until(news):
                    uploader.send(FRAMES[1])
                    uploader.send(FRAMES[2])
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            server.close()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())
    return news


@pytest.mark.parametrize(
    ("version", "answer"), [(1, b"ICY 200 OK\r\n"), (2, b"HTTP/1.1 200 OK\r\n\r\n")]
)
def test_corrections_arrive_and_begin_with_the_station(version: int, answer: bytes) -> None:
    caster = Caster(answer)
    news = run(
        caster, lambda _: bool(caster.bodies) and len(caster.bodies[0]) > 500, version=version
    )
    assert [each.kind for each in news] == ["begun"]
    body = bytes(caster.bodies[0])
    wire = target(1, version)
    assert body.startswith(wire.framed(FRAMES[0]))
    assert wire.framed(FRAMES[1]) in body
    assert wire.framed(FRAMES[2]) in body


def test_a_refusal_is_said_once_and_tried_again() -> None:
    caster = Caster(b"ERROR - Bad Password\r\n", b"ERROR - Bad Password\r\n", b"ICY 200 OK\r\n")
    news = run(caster, lambda news: any(each.kind == "begun" for each in news))
    assert [(each.kind, each.reason) for each in news] == [
        ("failed", "wrong password"), ("begun", ""),
    ]  # fmt: skip
    assert len(caster.heads) == 3


def test_a_lost_connection_is_made_again() -> None:
    caster = Caster(b"ICY 200 OK\r\n")
    caster.close_after = 200
    news = run(caster, lambda news: [each.kind for each in news].count("begun") == 2)
    assert [each.kind for each in news][:3] == ["begun", "ended", "begun"]


def test_no_caster_there() -> None:
    news: list[UploadNews] = []

    async def work() -> None:
        said = asyncio.Event()

        def report(each: UploadNews) -> None:
            news.append(each)
            said.set()

        uploader = Uploader(target(1), report, lambda: b"", 0.01)
        uploader.send(FRAMES[1])
        task = asyncio.ensure_future(uploader.run())
        async with asyncio.timeout(WAIT_S):
            await said.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())
    assert news[0].kind == "failed"
    assert news[0].reason


def test_what_waits_is_bounded() -> None:
    async def work() -> None:
        uploader = Uploader(target(), lambda news: None, lambda: b"")
        for _ in range(1000):
            uploader.send(FRAMES[1])
        assert len(uploader._waiting) == 1
        uploader._begun = True
        for _ in range(5000):
            uploader.send(FRAMES[1])
        assert uploader._waiting_bytes <= upload.MAX_WAITING_BYTES

    asyncio.run(work())


@pytest.mark.skipif(not STR2STR, reason="the program str2str is not installed")
def test_the_request_of_version_1_is_that_of_rtklib() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as feed,
    ):
        port, source = server.getsockname()[1], feed.getsockname()[1]
        process = subprocess.Popen(
            [STR2STR, "-in", f"tcpcli://127.0.0.1:{source}",
             "-out", f"ntrips://:secret@127.0.0.1:{port}/MOUNT"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            server.settimeout(WAIT_S)
            connection, _ = server.accept()
            connection.settimeout(WAIT_S)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            connection.close()
        finally:
            process.kill()
            process.wait()
    theirs, ours = head.split(b"\r\n"), target().request.split(b"\r\n")
    assert theirs[0] == ours[0]
    assert theirs[1].startswith(b"Source-Agent: NTRIP ")
    assert [line.partition(b":")[0] for line in theirs] == [
        line.partition(b":")[0] for line in ours
    ]

"""Uploads the corrections of a base station to a caster elsewhere, as an NTRIP server of version 1
(``SOURCE``) or 2 (``POST``).

The connection is made with the first correction, because casters drop sources that send nothing,
and again after it was lost. Casters ban sources that return too soon: the pauses grow.
"""

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec import Struct

from vehicled.core.plain_text import printable

AGENT = "NTRIP vehicled"
TIMEOUT_S = 10.0
"""Time for the connection, and for the answer."""
MAX_HEAD_BYTES = 2048
MAX_WAITING_BYTES = 65_536
"""Corrections that may wait for a slow network; beyond, the connection is made anew."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
STEADY_S = 60.0
"""Time of a connection after which the next pause is the first one again."""

_WORDS = {
    "401": "wrong name or password",
    "403": "the caster does not admit this name",
    "404": "the caster has no such mountpoint",
    "409": "the mountpoint is taken by another source",
    "bad password": "wrong password",
    "mount point taken": "the mountpoint is taken by another source, or does not exist",
    "mountpoint taken": "the mountpoint is taken by another source, or does not exist",
}


class UploadTarget(Struct, frozen=True):
    """Caster, mountpoint and login of a source."""

    host: str
    port: int
    mountpoint: str
    password: str
    user: str = ""
    """Name, of version 2 only."""
    version: Literal[1, 2] = 1

    def __repr__(self) -> str:
        return f"UploadTarget({self.host!r}, {self.port}, {self.mountpoint!r}, ***)"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.mountpoint}"

    @property
    def request(self) -> bytes:
        """The request that begins an upload."""
        if self.version == 1:
            lines = [f"SOURCE {self.password} {self.mountpoint}", f"Source-Agent: {AGENT}", "STR: "]
        else:
            login = b64encode(f"{self.user}:{self.password}".encode()).decode()
            lines = [
                f"POST /{self.mountpoint} HTTP/1.1",
                f"Host: {self.host}:{self.port}",
                "Ntrip-Version: Ntrip/2.0",
                f"User-Agent: {AGENT}",
                f"Authorization: Basic {login}",
                "Content-Type: gnss/data",
                "Connection: close",
                "Transfer-Encoding: chunked",
            ]
        return ("\r\n".join([*lines, "", ""])).encode()

    def framed(self, data: bytes) -> bytes:
        """Return corrections as the version has them on the wire."""
        return data if self.version == 1 else b"%x\r\n%b\r\n" % (len(data), data)


def refusal(answer: bytes) -> str | None:
    """Return why a caster refuses by its answer; empty if it takes the upload, None while the
    answer is not complete."""
    line, end, _ = answer.partition(b"\n")
    if not end and len(answer) < MAX_HEAD_BYTES:
        return None
    text = printable(line.decode("utf-8", "replace").strip())
    words = text.split()
    if words[:2] == ["ICY", "200"] or words == ["OK"]:
        return ""
    if words[:1] and words[0].startswith("HTTP/"):
        if words[1:2] == ["200"]:
            # The head ends at an empty line; corrections follow it at once all the same.
            whole = b"\r\n\r\n" in answer or len(answer) >= MAX_HEAD_BYTES
            return "" if whole else None
        return _WORDS.get(" ".join(words[1:2]), f"the caster answers {text!r}")
    for word, meaning in _WORDS.items():
        if word in text.lower():
            return meaning
    return f"the caster answers {text!r}" if text else "the answer is no NTRIP"


class UploadNews(NamedTuple):
    """Event of an upload."""

    kind: Literal["begun", "ended", "failed"]
    reason: str = ""
    pause_s: float = 0.0


class Uploader:
    """One upload. :meth:`send` takes corrections, :meth:`run` carries them."""

    def __init__(
        self,
        target: UploadTarget,
        report: Callable[[UploadNews], None],
        station: Callable[[], bytes],
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """``station``: newest messages about the station, which begin an upload."""
        self.target = target
        self._report, self._station, self._first_pause_s = report, station, first_pause_s
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._news = asyncio.Event()
        self._begun = False
        self._reported = ""

    def send(self, frame: bytes) -> None:
        """Queue a message; without a connection the newest ones wait."""
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        while self._waiting_bytes > MAX_WAITING_BYTES or (
            not self._begun and len(self._waiting) > 1
        ):
            self._waiting_bytes -= len(self._waiting.popleft())
        self._news.set()

    async def run(self) -> None:
        """Upload until it is cancelled."""
        pause_s = self._first_pause_s
        loop = asyncio.get_running_loop()
        while True:
            await self._news.wait()
            began_s = loop.time()
            try:
                reason = await self._once()
            except (OSError, TimeoutError) as error:
                reason = str(error) or "no answer"
            finally:
                was_begun, self._begun = self._begun, False
            if loop.time() - began_s >= STEADY_S:
                pause_s = self._first_pause_s
            if was_begun or reason != self._reported:
                # The same reason is said once, however often it is tried.
                self._reported = reason
                self._report(UploadNews("ended" if was_begun else "failed", reason, pause_s))
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
            self._waiting.clear()
            self._waiting_bytes = 0
            self._news.clear()

    async def _once(self) -> str:
        """Connect and upload; return why it ended."""
        target = self.target
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(target.host, target.port)
        try:
            writer.write(target.request)
            answer, refused = b"", None
            async with asyncio.timeout(TIMEOUT_S):
                while refused is None:
                    data = await reader.read(MAX_HEAD_BYTES)
                    if not data:
                        return "the caster closes the connection without an answer"
                    answer += data
                    refused = refusal(answer)
            if refused:
                return refused
            self._begun, self._reported = True, ""
            self._report(UploadNews("begun"))
            writer.write(target.framed(station) if (station := self._station()) else b"")
            ended = asyncio.ensure_future(self._drain(reader))
            try:
                while not ended.done():
                    self._news.clear()
                    while self._waiting:
                        frame = self._waiting.popleft()
                        self._waiting_bytes -= len(frame)
                        writer.write(target.framed(frame))
                    if writer.transport.get_write_buffer_size() > MAX_WAITING_BYTES:
                        return "the network takes too little"
                    news = asyncio.ensure_future(self._news.wait())
                    await asyncio.wait((news, ended), return_when=asyncio.FIRST_COMPLETED)
                    news.cancel()
                return ended.result()
            finally:
                ended.cancel()
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    @staticmethod
    async def _drain(reader: asyncio.StreamReader) -> str:
        """Read what the caster sends, which nobody needs, until it closes."""
        try:
            while await reader.read(MAX_HEAD_BYTES):
                pass
        except OSError as error:
            return str(error)
        return "the caster has closed the connection"

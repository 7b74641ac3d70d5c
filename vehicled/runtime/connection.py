"""Opening of the simulator link: addresses, sockets, handshake. Blocking, before anything runs in
real time."""

import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vehicled.core.link import (
    Frame,
    Hello,
    LinkDecoder,
    LinkError,
    LinkFrameKind,
    decode_hello,
    decode_reason,
    encode,
    encode_hello,
    encode_line,
)
from vehicled.core.ports import Pause, Send, SetBaud
from vehicled.daemon.machine import Outgoing

RECEIVE_BYTES = 1 << 18
MAX_UNSENT_BYTES = 1 << 20
"""Most bytes that are kept for a simulator that does not read, some minutes of frames."""
_CONNECT_TIMEOUT_S = 10.0
_RETRY_S = 0.2


class LinkClosedError(LinkError):
    """The simulator is gone or silent."""


def boot_id() -> str:
    """Return the boot id of this computer; processes that share it share the monotonic clock. Empty
    if the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def connect(address: str, timeout_s: float = 0.0) -> socket.socket:
    """Connect to ``fd:N``, ``unix:PATH`` or ``tcp:HOST:PORT``; try again for ``timeout_s`` while
    no simulator listens. Raises :class:`LinkError` with the remedy."""
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            return _connect(address)
        except LinkError as error:
            if not error.passing or time.monotonic() >= end_s:
                raise
        time.sleep(_RETRY_S)


def _connect(address: str) -> socket.socket:
    scheme, _, rest = address.partition(":")
    try:
        if scheme == "fd" and rest.isdecimal():
            return socket.socket(fileno=int(rest))
        if scheme == "unix" and rest:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(_CONNECT_TIMEOUT_S)
                sock.connect(rest)
            except OSError:
                sock.close()
                raise
            return sock
        host, _, port = rest.rpartition(":")
        if scheme == "tcp" and host and port.isdecimal() and int(port) < 1 << 16:
            sock = socket.create_connection(
                (host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S
            )
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    except (OSError, OverflowError) as error:
        absent = LinkError(
            f"no simulator answers at {address!r} ({error}): start it with 'vehicled simulator "
            f"--listen {address}'"
        )
        absent.passing = True
        raise absent from error
    raise LinkError(f"{address!r} is not a simulator address: use unix:PATH or tcp:HOST:PORT")


class Link:
    """Connection to a simulator after the handshake: its ports and their frames."""

    def __init__(
        self,
        sock: socket.socket,
        clock: str,
        wanted: list[str],
        timeout_s: float,
        *,
        shared_clock: bool = False,
    ) -> None:
        """Do the handshake; ``shared_clock`` asks for a clock without the time that the computer
        takes from either.

        Raises :class:`LinkError` if the peer is silent, has another version, or lacks a port of the
        profile.
        """
        self.sock = sock
        self._decoder = LinkDecoder()
        self._backlog: list[Frame] = []
        self._timeout_s = 0.0
        self._unsent = bytearray()
        self.opened_ns = time.monotonic_ns()
        """Time of the greeting on the monotonic clock."""
        kind, _, _, payload = self._first_frame(timeout_s)
        if kind is LinkFrameKind.BYE:
            raise LinkError(f"the simulator refused the connection: {decode_reason(payload)}")
        if kind is not LinkFrameKind.HELLO:
            raise LinkError(f"the peer sent {kind.name} instead of HELLO: is it a simulator?")
        self.hello = decode_hello(payload)
        self.ports = self.hello.ports
        missing = [port for port in wanted if port not in self.ports]
        if missing:
            raise LinkError(
                f"the simulator has no port for {', '.join(missing)}: start it with the same "
                "profile"
            )
        self.number = {port: i for i, port in enumerate(self.ports)}
        self.shared_clock = shared_clock and self.hello.shared_clock
        """True if simulator and daemon share a clock."""
        start_ns = self.hello.start_ns
        shared = self.shared_clock
        answer = Hello(
            role="daemon",
            clock=clock,
            ports=self.ports,
            shared_clock=shared,
            start_ns=start_ns,
            boot_id=boot_id(),
        )
        self.send(encode_hello(answer))

    def _first_frame(self, timeout_s: float) -> Frame:
        deadline_s = time.monotonic() + timeout_s
        while True:
            # One timeout for all of it: a peer that sends a byte now and then must not begin it
            # anew.
            self.sock.settimeout(max(deadline_s - time.monotonic(), 1e-3))
            frames = self.receive()
            if frames:
                self._backlog = frames[1:]
                return frames[0]

    def receive(self) -> list[Frame]:
        """Read frames. Raises :class:`LinkClosedError` at the end of the stream or on a timeout."""
        if self._backlog:
            frames, self._backlog = self._backlog, []
            return frames
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise LinkClosedError("the simulator does not answer") from None
        except BlockingIOError:
            if self._timeout_s > 0.0:
                raise LinkClosedError(
                    f"the simulator has been silent for {self._timeout_s:.1f} s"
                ) from None
            return []
        except OSError as error:
            raise LinkClosedError(
                f"the simulator is gone ({os.strerror(error.errno or 0)})"
            ) from None
        if not data:
            raise LinkClosedError("the simulator is gone (end of stream)")
        return self._decoder.feed(data)

    def block(self, timeout_s: float) -> None:
        """Switch to blocking reads and writes with a timeout, for lockstep.

        The kernel keeps the timeout: Python's own would cost two more system calls for every read
        and write.
        """
        self._timeout_s = timeout_s
        self.sock.setblocking(True)
        limit = struct.pack("@ll", int(timeout_s), int(timeout_s % 1.0 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, limit)

    def send(self, data: bytes) -> None:
        """Write all data. Raises :class:`LinkClosedError` if the peer does not accept it."""
        try:
            self.sock.sendall(data)
        except ConnectionError as error:
            raise LinkClosedError(
                f"the simulator is gone ({os.strerror(error.errno or 0)})"
            ) from None
        except OSError as error:
            raise LinkClosedError(f"the simulator does not accept commands ({error})") from None

    def offer(self, data: bytes) -> None:
        """Write without waiting; what the kernel does not take now goes first the next time.

        A simulator that is stopped fills the kernel's buffer within two seconds; how long it may be
        silent is the caller's limit. Raises :class:`LinkClosedError` if the peer is gone or keeps
        sending but never reads.
        """
        self._unsent += data
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            if len(self._unsent) > MAX_UNSENT_BYTES:
                raise LinkClosedError(
                    f"the simulator does not read: {len(self._unsent)} bytes wait for it"
                ) from None
        except OSError as error:
            raise LinkClosedError(
                f"the simulator is gone ({os.strerror(error.errno or 0)})"
            ) from None

    def reply(self, outgoing: Sequence[Outgoing], wake_ns: int | None) -> None:
        """Send the frames of a lockstep grant, and DONE unless ``wake_ns`` is None. Raises
        :class:`LinkClosedError`."""
        frames = [self.encode(each) for each in outgoing]
        if wake_ns is not None:
            frames.append(encode(LinkFrameKind.DONE, 0, wake_ns))
        self.send(b"".join(frames))

    def encode(self, outgoing: Outgoing) -> bytes:
        """Encode an output of the machine as a frame of the link."""
        number, action = self.number[outgoing.port], outgoing.action
        if isinstance(action, Pause):
            return b""
        if isinstance(action, Send):
            return encode(LinkFrameKind.DATA, number, outgoing.t_ns, action.data)
        return encode_line(number, outgoing.t_ns, action.baud if isinstance(action, SetBaud) else 0)

    def close(self, reason: str) -> None:
        """Send BYE and close; never raises."""
        with suppress(OSError, LinkError):
            self.sock.setblocking(False)
            self.sock.send(encode(LinkFrameKind.BYE, 0, 0, reason.encode()))
        self.sock.close()

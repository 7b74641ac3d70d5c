"""NTRIP driver: requests corrections from a caster, sends the position, detects stalls, and decides
when to connect again.

The port connects and encrypts. Casters ban clients that return too soon, so a connection that
brought no corrections is followed by a pause, which doubles with each further one. What arrives is
worked off in turns of bounded size, because it comes from the internet."""

import re
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import ClassVar, Final
from zlib import crc32

from drivers.ntrip.body import BodyDecoder, IdentityBody
from drivers.ntrip.codec import Credentials, Head, HeadReader, Version, encode_request
from drivers.ntrip.gga import encode_gga, is_usable
from drivers.ntrip.params import NtripParams
from drivers.ntrip.sourcetable import Closest, SourceTableReader
from drivers.rtcm.feed import CorrectionFeed
from drivers.rtcm.watch import StallWatch
from vehicled.core.messages import Corrections, Event, Fault, GnssFix, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS, Action, Device, Pause, Reopen, SecretRef, Send, Transport

GGA_LIFETIME_NS: Final = 2_000_000_000
"""Lifetime of a queued position, ns; a newer one replaces it on a congested connection."""

TURN_BYTES: Final = 8_192
"""Bytes of the body, as they came and decoded, that are worked off in one turn."""
TURN_MESSAGES: Final = 32
"""Messages of a turn, after which the rest waits. Networks send some fifteen at once."""
SLICE_BYTES: Final = 512
"""Received bytes that are decoded at a time."""
TURN_PAUSE_NS: Final = 5_000_000
WAITING_LIMIT_BYTES: Final = 262_144
"""Received bytes that may wait for their turn; beyond, the caster is not one."""
FIRST_PAUSE_S: Final = 10.0
LAST_PAUSE_S: Final = 300.0
STEADY_NS: Final = 60_000_000_000
"""Time with corrections after which a lost connection is an accident of the network."""
SHORT_STREAMS: Final = 2
"""Connections that ended early before that is a fault: one may be an accident."""
VERSION_PAUSE_NS: Final = 1_000_000_000
REST_TURNS: Final = 8
"""Turns of work when a connection ends."""
PIECE_COST_BYTES: Final = 64
"""Cost of a decoded piece, or of a row of a table, beyond its bytes. Chunks may hold one byte
each."""
SAID_BYTES: Final = 80
"""Text in place of corrections that is repeated in a fault."""

_NOT_UNDERSTOOD: Final = frozenset({400, 405, 426, 501, 505})
"""Replies of version 1 servers to a version 2 request."""
_ADDRESS: Final = re.compile(
    r"(?:tcp|tls|tcp\+tls):(?://)?(?:[^/@\s]*@)?\[?([^/?#\s\]]+?)\]?:(\d+)(?![^\s,/?#])"
)


class ConnectionStage(Enum):
    """Stage of a connection."""

    HEAD = auto()
    """The response header is incomplete."""
    STREAM = auto()
    TABLE = auto()
    OVER = auto()
    """The connection is no longer used."""


class NtripDevice(Device):
    """NTRIP client of versions 1 and 2. It consumes fixes, because network casters need the
    position."""

    Params: ClassVar = NtripParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (Corrections, Fault, Event)
    consumes: tuple[type[Message], ...] = (GnssFix,)

    def __init__(
        self, params: NtripParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Produce the types in ``messages`` that the profile expects. Positions have their own
        lifetime."""
        self._params = params
        if not params.gga_period_s:
            self.consumes = ()
        self._origin = f"ntrip:{params.mountpoint}"
        self._credentials = Credentials(params.user, "") if params.user else None
        self._has_secret = params.secret_ref is None
        self._feed = CorrectionFeed(self._origin, Corrections in messages, params.protocol)
        self.usage = self._feed.usage
        self._watch = StallWatch(round(params.stall_s * 1e9))
        self._version: Version = 1 if params.version == "1" else 2
        self._fix: GnssFix | None = None
        self._fault: tuple[str, str] | None = None
        self._tx: list[Action] = []
        self._vain = 0
        self._begin()

    def _begin(self) -> None:
        """Reset the state of the connection."""
        self._stage = ConnectionStage.HEAD
        self._asked = False
        self._head = HeadReader()
        self._body: BodyDecoder = IdentityBody()
        self._body_bytes = 0
        self._table = SourceTableReader()
        self._closest = Closest("")
        self._gga_due_ns = NEVER_NS
        self._gga_sent = False
        self._retry_ns = NEVER_NS
        self._answer = ""
        self._said = b""
        self._first_ns = NEVER_NS
        self._resume_ns = NEVER_NS
        self._waiting = bytearray()
        self._decoded: deque[bytes] = deque()
        self._work_due_ns = NEVER_NS
        self._feed.reset()
        self._watch.stop()
        self._tx.clear()

    # ---------------------------------------------------------------- what others may ask

    @property
    def secret_ref(self) -> SecretRef | None:
        return self._params.secret_ref

    def set_secret(self, text: str) -> None:
        """Set the password, and reconnect at once if the connection was refused for lack of it."""
        self._credentials = Credentials(self._params.user, text.rstrip("\r\n"))
        self._has_secret = True
        if (
            self._stage is ConnectionStage.OVER
            and self._fault is not None
            and self._fault[0] == "ntrip_credentials"
        ):
            self._retry_ns = 0

    # ---------------------------------------------------------------- Device

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Send the request when the port opens; evaluate the connection when it closes."""
        if state is not PortState.OPENED:
            messages = self._on_closed(now_ns)
            pause_s = (self._resume(now_ns) - now_ns) * 1e-9
            self._begin()
            if pause_s > 0.0:
                self._tx.append(Pause(pause_s, LAST_PAUSE_S))
            return messages
        self._begin()
        if not self._has_secret:
            reason = f"the password of {self._params.user} has not been read: {self.secret_ref}"
            return self._refuse("ntrip_credentials", reason, now_ns)
        host = self._params.host or _host_of(detail)
        gga = (
            encode_gga(self._fix, self._params.gga_talker)
            if self._fix and self._params.gga_period_s
            else b""
        )
        data, redacted = encode_request(
            self._version,
            host,
            self._params.mountpoint,
            self._params.agent,
            self._credentials,
            gga if self._version == 2 else b"",
        )
        self._gga_sent = bool(gga) and self._version == 2
        self._gga_due_ns = now_ns + self._gga_period_ns if self._gga_sent else now_ns
        self._asked = True
        self._tx.append(Send(data, redacted=redacted))
        self._watch.expect(now_ns)
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        if self._stage is ConnectionStage.OVER:
            return []
        self._waiting += data
        if len(self._waiting) > WAITING_LIMIT_BYTES:
            reason = (
                f"the caster sends faster than its data can be read: {len(self._waiting)} "
                "bytes wait"
            )
            return self._refuse("ntrip_protocol", reason, t_rx_ns)
        # While work waits for its turn, the new bytes wait behind it.
        return [] if self._work_due_ns != NEVER_NS else self._work(t_rx_ns)

    def _work(self, now_ns: int) -> list[Message]:
        """Work off what has arrived, up to the limits of a turn."""
        messages: list[Message] = []
        self._work_due_ns = NEVER_NS
        worked = 0
        while self._stage is not ConnectionStage.OVER and (self._waiting or self._decoded):
            if worked >= TURN_BYTES or len(messages) >= TURN_MESSAGES:
                self._work_due_ns = now_ns + TURN_PAUSE_NS
                break
            if self._decoded:
                worked += self._on_body(self._decoded.popleft(), now_ns, messages)
                continue
            data = bytes(self._waiting[:SLICE_BYTES])
            del self._waiting[:SLICE_BYTES]
            if self._stage is ConnectionStage.HEAD:
                data = self._on_answer(data, now_ns, messages)
            if data and self._stage in (ConnectionStage.STREAM, ConnectionStage.TABLE):
                worked += len(data)
                self._decoded.extend(self._body.feed(data))
            if not self._decoded and self._stage in (ConnectionStage.STREAM, ConnectionStage.TABLE):
                self._on_body_end(now_ns, messages)
        return messages

    def _on_answer(self, data: bytes, now_ns: int, messages: list[Message]) -> bytes:
        """Read the response header; return the beginning of the body."""
        answer = self._head.feed(data)
        if answer is None:
            if self._head.error:
                messages += self._refuse("ntrip_protocol", self._clean(self._head.error), now_ns)
            return b""
        head, body = answer
        self._answer = self._clean(
            f"{head.protocol} {head.status or ''} {head.text}".replace("  ", " ")
        )
        messages += self._on_head(head, now_ns)
        return body

    def _on_body(self, piece: bytes, now_ns: int, messages: list[Message]) -> int:
        """Read decoded bytes of the body; return their cost in bytes."""
        if self._stage is ConnectionStage.STREAM:
            self._on_stream(piece, now_ns, messages)
            cost = len(piece) + PIECE_COST_BYTES
        else:
            before = len(self._table.streams)
            self._closest.add(self._table.feed(piece))
            cost = len(piece) + PIECE_COST_BYTES * (1 + len(self._table.streams) - before)
        if not self._decoded:
            self._on_body_end(now_ns, messages)
        return cost

    def on_command(self, command: Message, now_ns: int) -> None:
        """Take a fix: send the first position at once, then one every ``gga_period_s``."""
        if isinstance(command, GnssFix) and is_usable(command):
            self._fix = command
            self._send_position(now_ns)

    def next_due_ns(self) -> int:
        due = min(self._watch.due_ns, self._retry_ns, self._work_due_ns)
        if self._stage is ConnectionStage.STREAM:
            due = min(due, self._feed.due_ns)
            if self._fix is not None and self._params.gga_period_s:
                due = min(due, self._gga_due_ns)
        return due

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Send the position; close a stalled or refused connection."""
        messages: list[Message] = self._work(now_ns) if self._work_due_ns <= now_ns else []
        if self._stage is ConnectionStage.STREAM and self._feed.due_ns <= now_ns:
            before = self._feed.frames
            late = self._feed.on_silence()
            if self._feed.frames > before:
                messages += self._flowing(now_ns)
            messages += late
        self._send_position(now_ns)
        if self._watch.due_ns <= now_ns:
            messages += self._on_stall(now_ns)
        if self._retry_ns <= now_ns:
            self._close(self._fault[1] if self._fault else "asking again", now_ns, 0)
        return messages

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    # ---------------------------------------------------------------- the answer

    def _on_head(self, head: Head, t_ns: int) -> list[Message]:
        text = self._clean(f"{head.status or head.protocol} {head.text}")
        what = f"mountpoint {self._params.mountpoint}"
        if head.is_table or (head.is_stream and not self._params.mountpoint):
            body = head.decoder()
            if isinstance(body, str):
                return self._refuse(
                    "ntrip_protocol",
                    f"the caster uses {self._clean(body)}, which is not understood",
                    t_ns,
                )
            self._stage, self._body = ConnectionStage.TABLE, body
            where = (self._fix.latitude_rad, self._fix.longitude_rad) if self._fix else ()
            self._closest = Closest(self._params.mountpoint, *where)
            return []
        if head.is_stream:
            return self._on_stream_head(head, t_ns)
        if self._not_understood(head):
            self._version = 1
            self._close(
                f"the caster answers {text} to version 2: asking in version 1",
                t_ns,
                VERSION_PAUSE_NS,
            )
            return []
        if self._params.version == "auto":
            self._version = 2
        if head.status == 401 or "password" in text.casefold():
            return self._refuse("ntrip_credentials", self._credentials_refused(head), t_ns)
        if head.status == 404 or (head.protocol == "ERROR" and "mount" in text.casefold()):
            return self._refuse(
                "ntrip_mountpoint", f"the caster does not serve {what}: {text}", t_ns
            )
        place = self._clean(head.fields.get("location", ""))
        moved = f"; it moved to {place}" if 300 <= head.status < 400 and place else ""
        return self._refuse("ntrip_refused", f"the caster refuses {what}: {text}{moved}", t_ns)

    def _on_stream_head(self, head: Head, t_ns: int) -> list[Message]:
        body = head.decoder()
        kind = head.fields.get("content-type", "").lower()
        if isinstance(body, str):
            return self._refuse(
                "ntrip_protocol",
                f"the caster uses {self._clean(body)}, which is not understood",
                t_ns,
            )
        if kind.startswith("text/html"):
            return self._refuse(
                "ntrip_protocol",
                "the reply is a web page: this is not a caster, or a proxy answered",
                t_ns,
            )
        self._stage, self._body = ConnectionStage.STREAM, body
        if head.protocol == "ICY" and self._asked:
            self._gga_due_ns = (
                t_ns  # a version 1 server has not read the position in the request header
            )
        self._send_position(t_ns)
        fields = {
            "origin": self._origin,
            "protocol": "NTRIP 1" if head.protocol == "ICY" else "NTRIP 2",
            "server": self._clean(head.fields.get("server", "")),
        }
        return [Event.of(t_ns, "info", "corrections_connected", **fields)]

    def _not_understood(self, head: Head) -> bool:
        if self._params.version != "auto" or self._version != 2:
            return False
        return head.status in _NOT_UNDERSTOOD or (
            head.protocol == "ERROR" and "bad request" in head.text.casefold()
        )

    def _credentials_refused(self, head: Head) -> str:
        if "digest" in head.fields.get("www-authenticate", "").casefold():
            return "the caster requires digest authentication, which is not supported"
        if self._credentials is None:
            return (
                f"the caster requires a password for {self._params.mountpoint}: set user and "
                "password_file or password_credential"
            )
        source = f"the password in {self.secret_ref}" if self.secret_ref else "an empty password"
        return f"the caster refuses user {self._params.user} with {source}"

    def _on_stream(self, piece: bytes, t_ns: int, messages: list[Message]) -> None:
        self._body_bytes += len(piece)
        before = self._feed.frames
        fresh = self._feed.feed(piece, t_ns)
        if self._feed.frames > before:
            messages += self._flowing(t_ns)
        elif not self._feed.frames and len(self._said) < SAID_BYTES:
            self._said += piece[:SAID_BYTES]
        messages += fresh

    def _on_body_end(self, t_ns: int, messages: list[Message]) -> None:
        """Judge a body that is complete or damaged."""
        if self._stage is ConnectionStage.TABLE:
            if self._table.complete or self._body.ended or self._body.error:
                messages += self._on_table_end(t_ns)
        elif self._body.error:
            messages += self._refuse("ntrip_protocol", self._body.error, t_ns)
        elif self._body.ended:
            if self._feed.frames:
                self._close("the caster ended the stream", t_ns)
            else:
                reason = (
                    f"the caster answered {self._answer} and ended the stream before its first "
                    "RTCM 3 message"
                )
                messages += self._refuse("ntrip_refused", reason + self._said_instead(), t_ns)

    def _on_table_end(self, t_ns: int) -> list[Message]:
        self._closest.add(self._table.end())
        table = self._table
        wanted = self._params.mountpoint
        if not wanted:
            self._over(NEVER_NS)
            fields = {
                "origin": self._origin,
                "mountpoints": len(table.streams),
                "complete": table.complete,
            }
            return [Event.of(t_ns, "info", "ntrip_sourcetable", **fields)]
        if any(stream.mountpoint == wanted for stream in table.streams):
            return self._refuse(
                "ntrip_mountpoint",
                f"the caster lists mountpoint {wanted} but does not serve it at present",
                t_ns,
            )
        reason = f"the caster does not know mountpoint {wanted} (it lists {len(table.streams)})"
        if names := self._closest.names():
            reason += f"; closest by name: {', '.join(map(self._clean, names))}"
        if near := self._closest.nearest():
            places = (f"{self._clean(name)} ({metres / 1e3:.0f} km)" for name, metres in near)
            reason += f"; nearest: {', '.join(places)}"
        return self._refuse("ntrip_mountpoint", reason, t_ns)

    # ---------------------------------------------------------------- timeouts

    def _on_closed(self, now_ns: int) -> list[Message]:
        messages = self._rest(now_ns)
        if self._stage is ConnectionStage.TABLE:
            return [*messages, *self._on_table_end(now_ns)]
        if self._stage is ConnectionStage.HEAD and self._asked:
            if not self._head.begun:
                return [
                    *messages,
                    *self._unanswered("the caster closed the connection without a reply", now_ns),
                ]
            if self._vain:
                reason = "the caster closed the connection in the middle of its reply"
                return [*messages, *self._raise("ntrip_refused", reason, now_ns)]
        if self._stage is ConnectionStage.STREAM and not self._feed.frames and self._vain:
            reason = (
                f"the caster answered {self._answer} and closed the connection before its "
                "first RTCM 3 message"
            )
            return [
                *messages,
                *self._raise(
                    "ntrip_refused", reason + self._said_instead() + self._no_position(), now_ns
                ),
            ]
        if (
            self._stage is ConnectionStage.STREAM
            and self._vain >= SHORT_STREAMS
            and now_ns - self._first_ns < STEADY_NS
        ):
            after_s = (now_ns - self._first_ns) * 1e-9
            reason = (
                f"the caster closes every connection soon, the last one {after_s:.0f} s after "
                "its first RTCM 3 message"
            )
            return [*messages, *self._raise("ntrip_refused", reason, now_ns)]
        return messages

    def _rest(self, now_ns: int) -> list[Message]:
        """Work off what waits when a connection ends, because a refusal may be the last that it
        brought."""
        messages: list[Message] = []
        for _ in range(REST_TURNS):
            if self._work_due_ns == NEVER_NS:
                break
            messages += self._work(now_ns)
        return messages

    def _said_instead(self) -> str:
        """Return a text that came in place of corrections, as the end of a reason; empty if none
        did."""
        if (
            self._feed.frames
            or not self._said
            or not all(0x20 <= byte < 0x7F or byte in b"\r\n\t" for byte in self._said)
        ):
            return ""
        return f"; it said {self._clean(' '.join(self._said.decode('ascii').split()))!r}"

    def _no_position(self) -> str:
        if self._gga_sent or not self._params.gga_period_s:
            return ""
        return (
            "; network casters wait for a position, and none was sent because the receiver has "
            "no fix"
        )

    def _unanswered(self, reason: str, now_ns: int) -> list[Message]:
        """Alternate the version, because some version 1 servers do not answer version 2 at all."""
        if self._params.version == "auto":
            self._version = 1 if self._version == 2 else 2
            if self._version == 1:
                return []
        return self._raise("ntrip_refused", reason, now_ns)

    def _on_stall(self, now_ns: int) -> list[Message]:
        if self._stage is ConnectionStage.TABLE:
            return self._on_table_end(now_ns)
        silence = f"{self._watch.timeout_ns / 1e9:.0f} s"
        if self._stage is ConnectionStage.HEAD and not self._head.begun:
            reason = f"no reply from the caster for {silence}"
            if self._params.version == "auto":
                self._version = 1 if self._version == 2 else 2
        elif self._stage is ConnectionStage.HEAD:
            reason = f"incomplete reply from the caster, then silence for {silence}"
        elif self._feed.frames:
            reason = f"no RTCM 3 message for {silence}"
        elif self._body_bytes:
            reason = (
                f"no RTCM 3 message for {silence}; {self._body_bytes} bytes of other data "
                f"arrived{self._said_instead()}"
            )
        else:
            reason = f"no data for {silence}{self._no_position()}"
        self._watch.expire()
        self._close(reason, now_ns)
        return self._raise("corrections_stalled", reason, now_ns)

    def _refuse(self, code: str, reason: str, now_ns: int) -> list[Message]:
        """Report the refusal and schedule a reconnection, in case the caster keeps the connection
        open."""
        self._over(self._resume(now_ns, round(self._params.retry_s * 1e9)))
        return self._raise(code, reason, now_ns)

    def _close(self, reason: str, now_ns: int, pause_ns: int | None = None) -> None:
        """Close the connection and come back after the pause."""
        if pause_ns is not None:
            self._resume_ns = now_ns + pause_ns
        pause_s = (self._resume(now_ns) - now_ns) * 1e-9
        self._over(NEVER_NS)
        self._tx += [Pause(pause_s, LAST_PAUSE_S), Reopen(reason)]

    def _resume(self, now_ns: int, least_ns: int = 0) -> int:
        """Return when to connect again after this connection: sooner if it brought corrections for
        a while.

        The jitter follows from what the journal holds, so that a replay decides the same.
        """
        if self._resume_ns == NEVER_NS:
            jitter = crc32(f"{self._origin} {self._params.user} {now_ns}".encode()) / 2**32
            if now_ns - self._first_ns >= STEADY_NS:
                self._vain = 0
                pause_s = 1.0 + jitter
            else:
                self._vain += 1
                longest_s = min(1.5 * FIRST_PAUSE_S * 2 ** min(self._vain - 1, 16), LAST_PAUSE_S)
                pause_s = longest_s * (2.0 + jitter) / 3.0
            self._resume_ns = now_ns + max(round(pause_s * 1e9), least_ns)
        return self._resume_ns

    def _over(self, retry_ns: int) -> None:
        self._stage = ConnectionStage.OVER
        self._watch.stop()
        self._retry_ns = retry_ns
        self._waiting.clear()
        self._decoded.clear()
        self._work_due_ns = NEVER_NS

    def _raise(self, code: str, reason: str, now_ns: int) -> list[Message]:
        """Raise a fault once, replacing any other."""
        before = self._fault
        if before is not None and before[0] == code:
            self._fault = (code, reason)
            return []
        self._fault = (code, reason)
        messages: list[Message] = []
        if before is not None:
            messages.append(
                Fault(
                    now_ns,
                    before[0],
                    self._origin,
                    Reaction.WARN,
                    False,
                    f"replaced by another fault: {before[1]}",
                )
            )
        messages.append(Fault(now_ns, code, self._origin, Reaction.WARN, True, reason))
        return messages

    def _flowing(self, now_ns: int) -> list[Message]:
        """Clear fault and timeout after a complete message."""
        self._watch.on_frame(now_ns)
        self._first_ns = min(self._first_ns, now_ns)
        if self._fault is None:
            return []
        (code, reason), self._fault = self._fault, None
        return [
            Fault(
                now_ns,
                code,
                self._origin,
                Reaction.WARN,
                False,
                f"corrections flow again after: {reason}",
            )
        ]

    # ---------------------------------------------------------------- words and places

    @property
    def _gga_period_ns(self) -> int:
        return round(self._params.gga_period_s * 1e9)

    def _send_position(self, now_ns: int) -> None:
        if (
            self._stage is not ConnectionStage.STREAM
            or self._fix is None
            or not self._params.gga_period_s
            or now_ns < self._gga_due_ns
        ):
            return
        # A queued position was not sent yet; the newest one replaces it.
        self._tx = [
            action for action in self._tx if not (isinstance(action, Send) and action.droppable)
        ]
        self._tx.append(
            Send(
                encode_gga(self._fix, self._params.gga_talker),
                now_ns + GGA_LIFETIME_NS,
                droppable=True,
            )
        )
        self._gga_sent = True
        self._gga_due_ns = now_ns + self._gga_period_ns

    def _clean(self, text: str) -> str:
        """Return a received text for the log: short, printable, with the secret masked."""
        if self._credentials is not None:
            text = self._credentials.hide(text)
        return "".join(letter for letter in text if letter.isprintable())[:120]


def _host_of(detail: str) -> str:
    """Return host and port for a request from the TCP port's description; empty if absent."""
    found = _ADDRESS.match(detail)
    if found is None:
        return ""
    return f"[{found[1]}]:{found[2]}" if ":" in found[1] else f"{found[1]}:{found[2]}"

"""Teleop from the page: messages of a page become requests on the daemon's control socket.

Without I/O and clock: times are arguments.

Only one page has control. Each reading carries the newest beat that the page had received, so that
a delayed reading is recognised and discarded; nothing is repeated. When the page's socket ends, its
control connection is closed, which the daemon treats as an unplugged input device: the vehicle
brakes.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import Action, ActionRequest, Request
from vehicled.live.control_socket.socket_path import SocketPathError
from vehicled.live.teleop.reading import Reading, TeleopRequestKind
from vehicled.live.teleop.state import TeleopState

Normalised = Annotated[float, Meta(ge=-1.0, le=1.0)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
MOST_TEXT = 120
IDLE_MS = 5_000
"""Silence after which a page loses control, ms."""


class PageRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="request"):
    """Button pressed on the page."""

    action: Literal["teleop", "stop", "emergency_stop", "disarm"]


class PageReading(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="teleop"):
    """Teleop reading of the page."""

    steering: Normalised
    throttle: Normalised
    brake: Annotated[float, Meta(ge=0.0, le=1.0)]
    deadman: bool
    n: Count
    """Sequence number of the reading."""
    beat: Count
    """Number of the newest beat that the page has received."""


PageMessage = PageRequest | PageReading
_decoder = msgspec.json.Decoder(PageMessage)
_KINDS = {
    "teleop": TeleopRequestKind.TAKE,
    "stop": TeleopRequestKind.STOP,
    "emergency_stop": TeleopRequestKind.EMERGENCY,
    "disarm": TeleopRequestKind.LEAVE,
}


def parse_message(text: str | bytes) -> PageMessage | None:
    """Parse a message of a page; None if it is invalid."""
    try:
        message: PageMessage = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return message


class PageTeleop:
    """Control of the vehicle by at most one page."""

    def __init__(
        self, connect: Callable[[], Client], max_throttle: float, silence_s: float
    ) -> None:
        """Take the connection function, which opens the control socket or raises ControlError or
        SocketPathError.

        Readings older than ``silence_s`` are discarded.
        """
        self._connect = connect
        self._max_throttle = max_throttle
        self._silence_ms = silence_s * 1e3
        self._request_client: Client | None = None
        """Connection for requests; it stays open when a page's socket ends."""
        self._reading_client: Client | None = None
        """Connection for the readings of the page in control; when it closes, the daemon treats the
        input device as unplugged."""
        self.holder: PageDriver | None = None

    def request(self, action: Action, origin: str) -> str:
        """Send a request to the daemon. Return the error text, else empty."""
        for _ in range(2):
            try:
                if self._request_client is None:
                    self._request_client = self._connect()
                refused = [
                    str(answer.get("why"))
                    for answer in self._request_client.arrived()
                    if not answer.get("ok")
                ]
                if not self._request_client.offer(ActionRequest(action, origin)):
                    return "the daemon does not read its control socket: it may be frozen"
                return refused[0][:MOST_TEXT] if refused else ""
            except (ControlError, SocketPathError) as error:
                # The daemon closed the connection, so open a new one for the second attempt.
                _close(self._request_client)
                self._request_client = None
                why = str(error)
        return why[:MOST_TEXT]

    def acquire(self, driver: "PageDriver") -> str:
        """Give control to a page. Return the reason for a refusal, else empty."""
        if self.holder is not None and self.holder is not driver:
            return f"{self.holder.origin} is in control"
        if self.holder is None:
            # Use a separate connection, because its end is a signal to the daemon.
            try:
                self._reading_client = self._connect()
            except (ControlError, SocketPathError) as error:
                return str(error)[:MOST_TEXT]
            self._reading_client.hurry()
            self.holder = driver
        return ""

    def release(self, driver: "PageDriver") -> None:
        """Take control from a page. The daemon notices by the end of the connection."""
        if self.holder is driver:
            _close(self._reading_client)
            self.holder = self._reading_client = None

    def send_reading(self, driver: "PageDriver", request: Request) -> str:
        """Send one reading, at once or not at all. Return the error text, else empty."""
        if self.holder is not driver or self._reading_client is None:
            return ""
        try:
            self._reading_client.offer(request)
            refused = [answer for answer in self._reading_client.arrived() if not answer.get("ok")]
        except (ControlError, SocketPathError) as error:
            self.release(driver)
            return str(error)[:MOST_TEXT]
        with suppress(ControlError, SocketPathError):
            # Requests are answered later on the other connection.
            refused += [
                answer
                for answer in (
                    self._request_client.arrived() if self._request_client is not None else []
                )
                if not answer.get("ok")
            ]
        return str(refused[0].get("why"))[:MOST_TEXT] if refused else ""

    def limited(self, reading: PageReading) -> Reading:
        """Return the reading for the daemon, within the limits of this page."""
        return Reading(
            reading.steering,
            reading.throttle * self._max_throttle + 0.0,
            reading.brake,
            reading.deadman,
        )

    def fresh(self, reading: PageReading, now_ms: int) -> bool:
        """Return True if a reading is recent, judged by its beat."""
        return 0 <= now_ms - reading.beat <= self._silence_ms

    def close(self) -> None:
        """Close the connections."""
        _close(self._reading_client)
        _close(self._request_client)
        self.holder = self._reading_client = self._request_client = None


class PageDriver:
    """Page that may request control."""

    def __init__(self, teleop: PageTeleop, origin: str) -> None:
        self._teleop = teleop
        self._state = TeleopState(origin[:64])
        self.origin = self._state.origin
        self._n = self._beat = -1
        self._received_ms = 0
        self.late = 0
        """Number of readings that arrived too late."""

    @property
    def in_control(self) -> bool:
        """True if this page has control."""
        return self._teleop.holder is self

    def on_page_message(self, message: PageMessage, now_ms: int) -> str:
        """Process a message of the page. Return a text for its user, else empty."""
        self._received_ms = now_ms
        return (
            self._request(_KINDS[message.action])
            if isinstance(message, PageRequest)
            else self._send(message, now_ms)
        )

    def _request(self, kind: TeleopRequestKind) -> str:
        if kind is TeleopRequestKind.TAKE and (why := self._teleop.acquire(self)):
            return why
        errors = [
            self._teleop.request(action, self.origin) for action in self._state.actions_for([kind])
        ]
        if kind is not TeleopRequestKind.TAKE:
            self.release()
        return next(filter(None, errors), "")

    def _send(self, reading: PageReading, now_ms: int) -> str:
        if not self.in_control or reading.n <= self._n:
            return ""
        self._n = reading.n
        if reading.beat < self._beat or not self._teleop.fresh(reading, now_ms):
            self.late += 1
            return ""
        self._beat = reading.beat
        request = self._state.request(self._teleop.limited(reading))
        return "" if request is None else self._teleop.send_reading(self, request)

    def on_message(self, status: dict[str, Any], now_ms: int) -> None:
        """Process the state of the run. If the daemon ended the drive, it must be requested
        again."""
        self._state.on_message(status)
        if self.in_control and (not self._state.active or now_ms - self._received_ms > IDLE_MS):
            self.release()

    def release(self) -> None:
        """Give up control, because the page released it or its socket ended."""
        self._state.active = False
        self._teleop.release(self)


def _close(client: Client | None) -> None:
    if client is not None:
        client.__exit__()

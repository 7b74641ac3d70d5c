"""Teleop from the page: messages of a page become requests on the daemon's control socket. Pure: gets times.

Only one page has control. Each reading carries the newest beat that the page had received, so that a delayed reading is recognised
and discarded; nothing is repeated. When the page's socket ends, its control connection is closed, which the daemon treats as an
unplugged input device: the vehicle brakes.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.control_socket.client import Client, ControlError
from vehicled.control_socket.place import PlaceError
from vehicled.teleop.reading import Reading, TeleopRequestKind
from vehicled.teleop.seat import TeleopState

Share = Annotated[float, Meta(ge=-1.0, le=1.0)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
MOST_TEXT = 120
IDLE_MS = 5_000
"""Silence after which a page loses control, ms."""


class PageRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="wish"):
    """Button pressed on the page."""

    what: Literal["take", "stop", "emergency", "disarm"]


class PageReading(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="hand"):
    """Teleop reading of the page."""

    steering: Share
    throttle: Share
    brake: Annotated[float, Meta(ge=0.0, le=1.0)]
    deadman: bool
    n: Count
    """Sequence number of the reading."""
    beat: Count
    """Number of the newest beat that the page has received."""


Said = PageRequest | PageReading
_decoder = msgspec.json.Decoder(Said)
_WISHES = {
    "take": TeleopRequestKind.TAKE,
    "stop": TeleopRequestKind.STOP,
    "emergency": TeleopRequestKind.EMERGENCY,
    "disarm": TeleopRequestKind.LEAVE,
}


def understand(text: str | bytes) -> Said | None:
    """Parse a message of a page; None if it is invalid."""
    try:
        said: Said = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return said


class Wheel:
    """Control of the vehicle by at most one page."""

    def __init__(self, connect: Callable[[], Client], most_throttle: float, silence_s: float) -> None:
        """Take the connection function, which opens the control socket or raises ControlError or PlaceError.

        Readings older than ``silence_s`` are discarded.
        """
        self._connect = connect
        self._most_throttle = most_throttle
        self._silence_ms = silence_s * 1e3
        self._line: Client | None = None
        """Connection for requests; it stays open when a page's socket ends."""
        self._hand: Client | None = None
        """Connection for the readings of the page in control; closing it tells the daemon that the input device is gone."""
        self.holder: Driver | None = None

    def request(self, action: str, origin: str) -> str:
        """Send a request to the daemon. Return the error text, else empty."""
        for _ in range(2):
            try:
                if self._line is None:
                    self._line = self._connect()
                refused = [str(answer.get("why")) for answer in self._line.arrived() if not answer.get("ok")]
                if not self._line.offer(do="request", action=action, origin=origin):
                    return "the daemon does not read its control socket: it may be frozen"
                return refused[0][:MOST_TEXT] if refused else ""
            except (ControlError, PlaceError) as error:
                # The daemon closed the connection, so open a new one for the second attempt.
                _close(self._line)
                self._line = None
                why = str(error)
        return why[:MOST_TEXT]

    def take(self, driver: "Driver") -> str:
        """Give control to a page. Return the reason for a refusal, else empty."""
        if self.holder is not None and self.holder is not driver:
            return f"{self.holder.origin} is in control"
        if self.holder is None:
            # Use a separate connection, because its end is a signal to the daemon.
            try:
                self._hand = self._connect()
            except (ControlError, PlaceError) as error:
                return str(error)[:MOST_TEXT]
            self._hand.hurry()
            self.holder = driver
        return ""

    def leave(self, driver: "Driver") -> None:
        """Take control from a page. The end of its connection tells the daemon."""
        if self.holder is driver:
            _close(self._hand)
            self.holder = self._hand = None

    def pass_on(self, driver: "Driver", request: dict[str, Any]) -> str:
        """Send one reading, at once or not at all. Return the error text, else empty."""
        if self.holder is not driver or self._hand is None:
            return ""
        try:
            self._hand.offer(**request)
            refused = [answer for answer in self._hand.arrived() if not answer.get("ok")]
        except (ControlError, PlaceError) as error:
            self.leave(driver)
            return str(error)[:MOST_TEXT]
        with suppress(ControlError, PlaceError):
            # Requests are answered later on the other connection.
            refused += [answer for answer in (self._line.arrived() if self._line is not None else []) if not answer.get("ok")]
        return str(refused[0].get("why"))[:MOST_TEXT] if refused else ""

    def reading(self, hand: PageReading) -> Reading:
        """Return the reading for the daemon, within the limits of this page."""
        return Reading(hand.steering, hand.throttle * self._most_throttle + 0.0, hand.brake, hand.deadman)

    def fresh(self, hand: PageReading, now_ms: int) -> bool:
        """Return True if a reading is recent, judged by its beat."""
        return 0 <= now_ms - hand.beat <= self._silence_ms

    def close(self) -> None:
        """Close the connections."""
        _close(self._hand)
        _close(self._line)
        self.holder = self._hand = self._line = None


class Driver:
    """Page that may request control."""

    def __init__(self, wheel: Wheel, origin: str) -> None:
        self._wheel = wheel
        self._seat = TeleopState(origin[:64])
        self.origin = self._seat.origin
        self._n = self._beat = -1
        self._said_ms = 0
        self.late = 0
        """Number of readings that arrived too late."""

    @property
    def seated(self) -> bool:
        """True if this page has control."""
        return self._wheel.holder is self

    def say(self, said: Said, now_ms: int) -> str:
        """Process a message of the page. Return a text for its user, else empty."""
        self._said_ms = now_ms
        return self._ask(_WISHES[said.what]) if isinstance(said, PageRequest) else self._read(said, now_ms)

    def _ask(self, wish: TeleopRequestKind) -> str:
        if wish is TeleopRequestKind.TAKE and (why := self._wheel.take(self)):
            return why
        told = [self._wheel.request(action, self.origin) for action in self._seat.actions_for([wish])]
        if wish is not TeleopRequestKind.TAKE:
            self.gone()
        return next(filter(None, told), "")

    def _read(self, hand: PageReading, now_ms: int) -> str:
        if not self.seated or hand.n <= self._n:
            return ""
        self._n = hand.n
        if hand.beat < self._beat or not self._wheel.fresh(hand, now_ms):
            self.late += 1
            return ""
        self._beat = hand.beat
        request = self._seat.request(self._wheel.reading(hand))
        return "" if request is None else self._wheel.pass_on(self, request)

    def on_message(self, status: dict[str, Any], now_ms: int) -> None:
        """Process the state of the run. If the daemon ended the drive, it must be requested again."""
        self._seat.on_message(status)
        if self.seated and (not self._seat.seated or now_ms - self._said_ms > IDLE_MS):
            self.gone()

    def gone(self) -> None:
        """Give up control, because the page released it or its socket ended."""
        self._seat.seated = False
        self._wheel.leave(self)


def _close(client: Client | None) -> None:
    if client is not None:
        client.__exit__()

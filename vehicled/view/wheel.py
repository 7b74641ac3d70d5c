"""Driving from the page: what a page says becomes requests on the daemon's control socket, or nothing. Times are handed in.

One page at a time holds the wheel. A reading is passed on once, when it comes, or never: each carries the newest beat of ours that
the page had heard when it was made, so that one that waited anywhere on its way is older than it may be, and is thrown away. When
the page's socket ends, so does the connection that carried its readings, which the daemon takes for an unplugged stick. Silence is
the brake; nothing here repeats anything.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.control_socket.client import Client, ControlError
from vehicled.control_socket.place import PlaceError
from vehicled.teleop.reading import Reading, Wish
from vehicled.teleop.seat import Seat

Share = Annotated[float, Meta(ge=-1.0, le=1.0)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
MOST_TEXT = 120
IDLE_MS = 5_000
"""A page that takes the wheel and says nothing for so long has lost it again."""


class Ask(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="wish"):
    """Somebody pressed a button."""

    what: Literal["take", "stop", "emergency", "disarm"]


class Hand(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="hand"):
    """What the hand on the page does now."""

    steering: Share
    throttle: Share
    brake: Annotated[float, Meta(ge=0.0, le=1.0)]
    deadman: bool
    n: Count
    """Rises from reading to reading."""
    beat: Count
    """Newest beat that the page has heard."""


Said = Ask | Hand
_decoder = msgspec.json.Decoder(Said)
_WISHES = {"take": Wish.TAKE, "stop": Wish.STOP, "emergency": Wish.EMERGENCY, "disarm": Wish.LEAVE}


def understand(text: str | bytes) -> Said | None:
    """What a page said; None for what it cannot have said."""
    try:
        said: Said = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return said


class Wheel:
    """The only one there is."""

    def __init__(self, connect: Callable[[], Client], most_throttle: float, silence_s: float) -> None:
        """``connect`` opens the control socket or raises ControlError or PlaceError.

        A reading that is older than ``silence_s`` counts no more.
        """
        self._connect = connect
        self._most_throttle = most_throttle
        self._silence_ms = silence_s * 1e3
        self._line: Client | None = None
        """For requests, which end with nobody's socket."""
        self._hand: Client | None = None
        """For the readings of the page that holds the wheel: when it hangs up, the stick is gone."""
        self.holder: Driver | None = None

    def request(self, action: str, origin: str) -> str:
        """Ask the daemon for something. What went wrong, in words, else empty."""
        for _ in range(2):
            try:
                if self._line is None:
                    self._line = self._connect()
                refused = [str(answer.get("why")) for answer in self._line.arrived() if not answer.get("ok")]
                if not self._line.offer(do="request", action=action, origin=origin):
                    return "the daemon does not read its control socket"
                return refused[0][:MOST_TEXT] if refused else ""
            except (ControlError, PlaceError) as error:
                # Hung up by a daemon that was slow once: the second time it is opened anew.
                _close(self._line)
                self._line = None
                why = str(error)
        return why[:MOST_TEXT]

    def take(self, driver: "Driver") -> str:
        """Give a page the wheel. Why not, in words, else empty."""
        if self.holder is not None and self.holder is not driver:
            return f"{self.holder.origin} has the wheel"
        if self.holder is None:
            # A connection of its own, for its end to mean something.
            try:
                self._hand = self._connect()
            except (ControlError, PlaceError) as error:
                return str(error)[:MOST_TEXT]
            self._hand.hurry()
            self.holder = driver
        return ""

    def leave(self, driver: "Driver") -> None:
        """A page lets go of the wheel, or is gone. The daemon hears of it by the connection's end."""
        if self.holder is driver:
            _close(self._hand)
            self.holder = self._hand = None

    def pass_on(self, driver: "Driver", request: dict[str, Any]) -> str:
        """One reading, at once or not at all. What went wrong, in words, else empty."""
        if self.holder is not driver or self._hand is None:
            return ""
        try:
            self._hand.offer(**request)
            refused = [answer for answer in self._hand.arrived() if not answer.get("ok")]
        except (ControlError, PlaceError) as error:
            self.leave(driver)
            return str(error)[:MOST_TEXT]
        with suppress(ControlError, PlaceError):
            # What was asked for is answered after it was asked.
            refused += [answer for answer in (self._line.arrived() if self._line is not None else []) if not answer.get("ok")]
        return str(refused[0].get("why"))[:MOST_TEXT] if refused else ""

    def reading(self, hand: Hand) -> Reading:
        """As the daemon takes it, within what this page may do."""
        return Reading(hand.steering, hand.throttle * self._most_throttle + 0.0, hand.brake, hand.deadman)

    def fresh(self, hand: Hand, now_ms: int) -> bool:
        """Whether a reading was made a short while ago: after the beat that it has heard."""
        return 0 <= now_ms - hand.beat <= self._silence_ms

    def close(self) -> None:
        """The view ends."""
        _close(self._hand)
        _close(self._line)
        self.holder = self._hand = self._line = None


class Driver:
    """One page that may ask for the wheel."""

    def __init__(self, wheel: Wheel, origin: str) -> None:
        self._wheel = wheel
        self._seat = Seat(origin[:64])
        self.origin = self._seat.origin
        self._n = self._beat = -1
        self._said_ms = 0
        self.late = 0
        """Readings that had waited too long on their way."""

    @property
    def seated(self) -> bool:
        """It holds the wheel."""
        return self._wheel.holder is self

    def say(self, said: Said, now_ms: int) -> str:
        """Something that the page said. What to tell its user, else empty."""
        self._said_ms = now_ms
        return self._ask(_WISHES[said.what]) if isinstance(said, Ask) else self._read(said, now_ms)

    def _ask(self, wish: Wish) -> str:
        if wish is Wish.TAKE and (why := self._wheel.take(self)):
            return why
        told = [self._wheel.request(action, self.origin) for action in self._seat.wish([wish])]
        if wish is not Wish.TAKE:
            self.gone()
        return next(filter(None, told), "")

    def _read(self, hand: Hand, now_ms: int) -> str:
        if not self.seated or hand.n <= self._n:
            return ""
        self._n = hand.n
        if hand.beat < self._beat or not self._wheel.fresh(hand, now_ms):
            self.late += 1
            return ""
        self._beat = hand.beat
        request = self._seat.request(self._wheel.reading(hand))
        return "" if request is None else self._wheel.pass_on(self, request)

    def hear(self, status: dict[str, Any], now_ms: int) -> None:
        """The state of the run. A drive that the daemon ended is over: to drive again is to ask again."""
        self._seat.hear(status)
        if self.seated and (not self._seat.seated or now_ms - self._said_ms > IDLE_MS):
            self.gone()

    def gone(self) -> None:
        """It lets go of the wheel, or its socket ended."""
        self._seat.seated = False
        self._wheel.leave(self)


def _close(client: Client | None) -> None:
    if client is not None:
        client.__exit__()

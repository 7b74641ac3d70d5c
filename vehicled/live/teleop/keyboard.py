"""Keyboard of a terminal as a teleop source, with the key repeat as deadman. Pure: gets bytes and
times.

A terminal sends presses and repeats but no releases, and only the last pressed key repeats. The
deadman therefore depends on a steady flow of bytes of driving keys:

* It is held once a key repeats. A single press does not hold it.
* While a key repeats, ``RELEASE_NS`` without a byte releases it and resets throttle and steering.
* A newly pressed key does not repeat yet. The deadman stays held for the terminal's repeat delay,
  which is measured at each long
press, but the throttle is cut after ``RELEASE_NS``.
* Any other key, a paste, or a window that loses its focus releases it at once.

The arrow keys set throttle and steering, which stay set while the deadman is held: with one
repeating key the driver could not steer and drive at the same time otherwise.
"""

from vehicled.live.teleop.keys import Key, KeyDecoder
from vehicled.live.teleop.reading import RELEASED, Reading, TeleopRequestKind

RELEASE_NS = 300_000_000
"""Time without a byte after which a repeating key counts as released."""
REPEAT_NS = 150_000_000
"""Longest interval between repeats; keyboards repeat 10 to 40 times a second."""
USUAL_DELAY_NS = 500_000_000
LONGEST_DELAY_NS = 700_000_000
DELAY_MARGIN_NS = 100_000_000
ESCAPE_NS = 60_000_000
"""Timeout of an incomplete escape sequence; a terminal sends the bytes of one key together."""

DRIVING = frozenset(
    {Key.HOLD, Key.FORWARD, Key.SLOWER, Key.LEFT, Key.RIGHT, Key.CENTRE, Key.TURN_ROUND}
)
_REQUESTS = {
    Key.TAKE: TeleopRequestKind.TAKE,
    Key.STOP: TeleopRequestKind.STOP,
    Key.EMERGENCY: TeleopRequestKind.EMERGENCY,
    Key.LEAVE: TeleopRequestKind.LEAVE,
}

THROTTLE_STEP = 0.1
THROTTLE_PER_S = 0.6
STEERING_STEP = 0.15
STEERING_PER_S = 1.2


class KeyRepeat:
    """Detects a held key from the times of its bytes."""

    def __init__(self) -> None:
        self.held = False
        self.delay_ns = USUAL_DELAY_NS
        """Repeat delay of this terminal, measured."""
        self._key: Key | None = None
        self._last_ns = 0
        self._repeats = False
        self._gap_before_ns = 0
        self._lets_go_ns = 0

    def press(self, key: Key, now_ns: int) -> int:
        """Process a byte of a driving key. Return the time since the last one if it repeats, else
        0."""
        self.expire(now_ns)
        gap_ns = now_ns - self._last_ns
        again = key is self._key
        repeats = again and gap_ns <= REPEAT_NS
        if repeats and not self._repeats and REPEAT_NS < self._gap_before_ns <= LONGEST_DELAY_NS:
            # Press, delay, first repeat, second repeat: the delay is between the first two.
            self.delay_ns = self._gap_before_ns
        self._gap_before_ns = gap_ns if again else 0
        self._key, self._last_ns, self._repeats = key, now_ns, repeats
        self.held = self.held or repeats
        self._lets_go_ns = now_ns + (
            RELEASE_NS if repeats else max(RELEASE_NS, self.delay_ns + DELAY_MARGIN_NS)
        )
        return gap_ns if repeats else 0

    def expire(self, now_ns: int) -> bool:
        """Check the time; return True at the moment of the release."""
        if self.held and now_ns > self._lets_go_ns:
            self.held = False
            return True
        return False

    def silent(self, now_ns: int) -> bool:
        """Return True if no byte has come for so long that the throttle must be cut."""
        return now_ns - self._last_ns > RELEASE_NS

    def let_go(self) -> None:
        """Release the deadman."""
        self.held = self._repeats = False
        self._key = None


class Keyboard:
    """Teleop source for the keys of a terminal."""

    def __init__(self, most_throttle: float, name: str = "keyboard") -> None:
        """Take the largest throttle, ``most_throttle``, 0 to 1."""
        self.name = name
        self.trouble = ""
        self._most = most_throttle
        self._decoder = KeyDecoder()
        self._repeat = KeyRepeat()
        self._escape_ns = 0
        self._requests: list[TeleopRequestKind] = []
        self._steering = self._throttle = self._brake = 0.0
        self._direction = 1.0

    def feed(self, data: bytes, now_ns: int) -> None:
        """Process bytes of the terminal. Bytes that arrive together count as one press, as in a
        burst after a stall."""
        keys = self._decoder.feed(data)
        self._escape_ns = now_ns
        for key in dict.fromkeys(keys):
            self._press(key, now_ns)

    def lost(self, why: str) -> None:
        """Note the loss of the terminal."""
        self.trouble = why
        self.let_go()

    def read(self, now_ns: int) -> Reading:
        """Return the present reading."""
        if self._decoder.waits and now_ns - self._escape_ns > ESCAPE_NS:
            for key in self._decoder.give_up():
                self._press(key, now_ns)
        if self._repeat.expire(now_ns):
            self._forget()
        if not self._repeat.held:
            return RELEASED
        throttle = (
            0.0 if self._repeat.silent(now_ns) else self._direction * self._throttle * self._most
        )
        return Reading(self._steering, throttle + 0.0, self._brake, True)

    def drain_requests(self) -> list[TeleopRequestKind]:
        """Return the requests since the last call."""
        requests, self._requests = self._requests, []
        return requests

    def let_go(self) -> None:
        """Release the deadman."""
        self._repeat.let_go()
        self._forget()

    def hint(self, now_ns: int) -> str:
        """Return the state of the deadman for the status line."""
        if not self._repeat.held:
            return "released: hold space"
        gear = "" if self._direction > 0.0 else ", backward"
        return (
            "held" if not self._repeat.silent(now_ns) else "held, no throttle until the key repeats"
        ) + gear

    @property
    def delay_s(self) -> float:
        """Return the terminal's repeat delay, s, measured so far."""
        return self._repeat.delay_ns * 1e-9

    def _press(self, key: Key, now_ns: int) -> None:
        if key not in DRIVING:
            if key is not Key.TAKE:
                self.let_go()
            if key in _REQUESTS:
                self._requests.append(_REQUESTS[key])
            return
        held = self._repeat.held
        repeat_s = self._repeat.press(key, now_ns) * 1e-9
        if held and not self._repeat.held:
            self._forget()
        self._brake = 0.0
        if self._repeat.held:
            self._set(key, repeat_s)

    def _set(self, key: Key, repeat_s: float) -> None:
        """Change the value by a step for a press, or at a rate while the key repeats."""
        match key:
            case Key.FORWARD:
                self._throttle = min(
                    1.0, self._throttle + (THROTTLE_PER_S * repeat_s or THROTTLE_STEP)
                )
            case Key.SLOWER:
                self._throttle = 0.0
                self._brake = 1.0 if repeat_s else 0.3
            case Key.LEFT | Key.RIGHT:
                side = 1.0 if key is Key.LEFT else -1.0
                if side * self._steering < 0.0 and not repeat_s:
                    # The first press towards the other side centres the steering.
                    self._steering = 0.0
                else:
                    moved = self._steering + side * (STEERING_PER_S * repeat_s or STEERING_STEP)
                    self._steering = min(1.0, max(-1.0, moved))
            case Key.CENTRE:
                self._steering = 0.0
            case Key.TURN_ROUND:
                if self._throttle == 0.0 and not repeat_s:
                    self._direction = -self._direction
            case _:
                pass

    def _forget(self) -> None:
        self._steering = self._throttle = self._brake = 0.0
        self._direction = 1.0

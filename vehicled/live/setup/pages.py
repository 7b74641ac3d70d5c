"""The set-up on web pages: what they are sent, and what they may do. Pure: messages and times in,
texts out.

One page has control, the others look on; the stop of every page is followed. A held button counts
for ``RELEASE_NS`` after the beat that its reading echoes, as a key does after its last repeat, so
that a reading that a network kept back moves nothing. A button whose time ran out, or during whose
press something else was chosen, must be pressed anew.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.live.setup.checklist import CheckItem
from vehicled.live.setup.session import Stage, StepChoice, StepSession
from vehicled.live.setup.steps import Measured, SetupStep, Wording, toml_values
from vehicled.live.teleop.keyboard import RELEASE_NS
from vehicled.live.teleop.keys import Key

MS = 1_000_000
_BUSY = (Stage.WAITING, Stage.RECORDING)
MOST_LINES = 200
MOST_SAMPLES = 600
Count = Annotated[int, Meta(ge=0, le=2**53)]
BUTTONS = Wording("press the button", "the button", "the button for left", "the one for right")
_KEYS = {"drive": Key.HOLD, "left": Key.LEFT, "right": Key.RIGHT}


class TakeControl(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="take"):
    """Request for control."""


class StopAll(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="stop"):
    """End what moves, and what is recorded."""


class Choose(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="choose"):
    """Button of a choice."""

    choice: StepChoice
    turn: Count
    """Number of the state in which the button was shown."""


class PageAnswer(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="answer"):
    """Answer to a question."""

    text: Annotated[str, Meta(max_length=20)]
    turn: Count


class Hold(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="hold"):
    """Reading of the dead-man button."""

    key: Literal["", "drive", "left", "right"]
    press: Count
    """Number of this press of a button."""
    n: Count
    """Sequence number of the reading."""
    beat: Count
    """Newest beat that the page has received."""


PageMessage = TakeControl | StopAll | Choose | PageAnswer | Hold
_decoder = msgspec.json.Decoder(PageMessage)


def parse_message(text: str | bytes) -> PageMessage | None:
    """Parse a message of a page; None if it is invalid."""
    try:
        message: PageMessage = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return message


class StepProgress(Struct):
    """One row of the list of steps."""

    name: str
    title: str
    motion: str
    state: Literal["to do", "now", "done", "skipped", "left out"] = "to do"
    note: str = ""
    """Date of the last measurement, or why the step is left out."""


class SetupPages:
    """State of all pages of one set-up, and the control by one of them."""

    def __init__(self, changes: Callable[[SetupStep, Measured], str]) -> None:
        """``changes`` returns the changes of the profile's text that a result would make, as a
        unified diff."""
        self.progress: Sequence[StepProgress] = ()
        self.holder: object | None = None
        """Page in control."""
        self.over = False
        """True once the user has read the checklist."""
        self._changes = changes
        self._session: StepSession | None = None
        self._checklist: Sequence[CheckItem] = ()
        self._commands: Sequence[str] = ()
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._said = 0
        self._samples: deque[list[float | None]] = deque(maxlen=MOST_SAMPLES)
        self._turn = 0
        self._turn_of: tuple[object, ...] = ()
        self._result: tuple[Measured | None, dict[str, Any] | None] = None, None
        self._n = self._press = self._barred = -1
        self._held_until_ns = 0
        self._begun_ns = 0

    # ---------------------------------------------------------------- engine

    def begin(self, session: StepSession) -> None:
        """Show a step."""
        self._session = session
        self._samples.clear()

    def finish(self, items: Sequence[CheckItem], commands: Sequence[str]) -> None:
        """Show the checklist, and the commands of the first lap."""
        self._session = None
        self._checklist, self._commands = items, commands

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._lines.append(text)
        self._said += 1

    # ---------------------------------------------------------------- to the pages

    def hello(self, now_ns: int) -> dict[str, Any]:
        """Return the first message to a page."""
        return {
            **self.state(now_ns),
            "k": "hello",
            "lines": list(self._lines),
            "samples": list(self._samples),
            "lease_ms": RELEASE_NS // MS,
            "steps": msgspec.to_builtins(self.progress),
        }

    def tick(self, now_ns: int) -> dict[str, Any]:
        """Return the message of one tick: state, new lines and the newest sample."""
        new, self._said = self._said, 0
        if self._session is not None:
            live = self._session.live()
            rate = live.rate_radps or (None, None, None)
            row = (live.steering, live.throttle, live.brake, live.speed_mps, *rate)
            self._begun_ns = self._begun_ns or now_ns
            values = [None if each is None else round(each, 4) for each in row]
            self._samples.append([(now_ns - self._begun_ns) * 1e-9, *values])
        return {
            **self.state(now_ns),
            "k": "tick",
            "lines": list(self._lines)[len(self._lines) - new :] if new else [],
            "sample": self._samples[-1] if self._samples else None,
            "steps": msgspec.to_builtins(self.progress),
        }

    def state(self, now_ns: int) -> dict[str, Any]:
        """Return where the set-up is."""
        session = self._session
        if session is None:
            return {
                "turn": self._turned(None),
                "stage": "checklist" if self._checklist else "beginning",
                "choices": [StepChoice.QUIT.value] if self._checklist else [],
                "checklist": msgspec.to_builtins(self._checklist),
                "commands": list(self._commands),
            }
        question = session.question
        return {
            "turn": self._turned(session),
            "stage": session.stage.value,
            "choices": [choice.value for choice in session.choices],
            "step": session.step.name,
            "title": session.step.title,
            "motor": "" if session.motor is None else session.motor.label,
            "motion": session.step.motion,
            "do": BUTTONS.instructions(session.step),
            "status": session.status(now_ns) if session.stage in _BUSY else "",
            "drives": session.drives,
            "jogs": session.jogs,
            "held": session.drives and session.held(now_ns),
            "question": None if question is None else msgspec.to_builtins(question),
            "result": self._shown(session),
        }

    def _turned(self, session: StepSession | None) -> int:
        """Return the number of the present state, in which a button means what it showed."""
        now = (
            () if session is None else (id(session), session.stage, session.question),
            bool(self._checklist),
        )
        if now != self._turn_of:
            self._turn, self._turn_of = self._turn + 1, now
        return self._turn

    def _shown(self, session: StepSession) -> dict[str, Any] | None:
        """Return the result of a step; its changes of the profile are computed once."""
        measured = session.measured
        if measured is None:
            return {"failure": session.failure} if session.failure else None
        if self._result[0] is not measured:
            values = {
                key: text.partition("  # ")[::2]
                for key, text in toml_values(measured, session.day).items()
            }
            self._result = (
                measured,
                {
                    "failure": "",
                    "wrong": measured.wrong,
                    "found": measured.verdicts,
                    "values": [[key, value, note] for key, (value, note) in values.items()],
                    "diff": self._changes(session.step, measured) if measured.values else "",
                },
            )
        return self._result[1]

    # ---------------------------------------------------------------- from the pages

    def on_open(self) -> None:
        """A page was opened. Nothing drives on under the eyes of somebody who has just come."""
        if self._session is not None and self._session.drives:
            self.stop("stopped: another page was opened")

    def on_close(self, page: object) -> None:
        """A page has lost its connection."""
        if page is self.holder:
            self.holder = None
            if self._session is not None and self._session.drives:
                self.stop("stopped: the page in control has lost its connection")

    def on_message(self, page: object, message: PageMessage, now_ns: int) -> str:
        """Follow a message of a page. Return a text for its user, else empty."""
        match message:
            case StopAll():
                self.stop("stopped on a page; the actuator is at neutral")
                return ""
            case TakeControl():
                self._take(page)
                return ""
            case _ if page is not self.holder:
                return "" if isinstance(message, Hold) else "another page is in control"
            case Hold():
                self._hold(message, now_ns)
                return ""
        self._barred = self._press
        if message.turn != self._turned(self._session):
            return "the step has moved on meanwhile: look again"
        if isinstance(message, PageAnswer):
            if self._session is not None:
                self._session.answer(message.text)
        elif self._session is not None:
            self._session.choose(message.choice, now_ns)
        elif self._checklist and message.choice is StepChoice.QUIT:
            self.over = True
        return ""

    def stop(self, why: str) -> None:
        """End what moves and what is recorded at once."""
        self._barred = self._press
        if self._session is not None:
            self._session.abort(why)

    def _take(self, page: object) -> None:
        if self.holder is page:
            return
        if self._session is not None and self._session.drives:
            self.stop("stopped: another page took control")
        self.holder = page
        self._n = self._press = self._barred = -1
        self._held_until_ns = 0

    def _hold(self, reading: Hold, now_ns: int) -> None:
        """Take a reading of the button, unless it is old, or its press has ended."""
        until_ns = reading.beat * MS + RELEASE_NS
        fresh = now_ns < until_ns <= now_ns + RELEASE_NS + MS and reading.n > self._n
        if self._session is None or not fresh:
            return
        self._n = reading.n
        if reading.press == self._press and reading.key and now_ns >= self._held_until_ns:
            self._barred = self._press
        self._press = max(self._press, reading.press)
        if reading.key and reading.press > self._barred:
            self._held_until_ns = until_ns
            self._session.hold(_KEYS[reading.key], until_ns)
        else:
            self._held_until_ns = 0
            self._session.hold(None, 0)

    @property
    def beats(self) -> bool:
        """True while the page in control needs beats."""
        return self._session is not None and self._session.stage in _BUSY

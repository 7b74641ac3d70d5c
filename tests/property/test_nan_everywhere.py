"""Values that are no numbers, and numbers that are not of this world, in every field of every
message, while the vehicle drives."""

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache, partial
from math import inf, isfinite, nan
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from drivers.msglink.codec import MsglinkDecoder, encode
from tests.examples import examples
from tests.forked import branch
from tests.grid import sampled
from vehicled.core.messages import (
    ALL,
    ActuatorCommand,
    Direction,
    Event,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    TeleopCommand,
    WireChunk,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile

pytestmark = pytest.mark.xdist_group("nan")  # the way to the first value is driven once

MS = 1_000_000
PORTS = {GnssFix: "gnss", ImuSample: "imu", Heading: "heading", OperatorCommand: "operator"}
"""Port of each message type; types without a port come from the console, the stick or the
runtime."""
BAD_FLOATS = (nan, inf, -inf, 1e308, -1e308)
UNDER_WAY_MS = 1500
AFTER_MS = 30
PATIENCE_MS = 1500


class Recorder:
    """Keeps the newest message of each kind, and looks at every command and every frame."""

    def __init__(self) -> None:
        self.newest: dict[type[Message], Message] = {}
        self.raised: list[str] = []
        self._decoder = MsglinkDecoder()

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.newest[type(message)] = message
        if isinstance(message, Event) and message.name == "task_raised":
            self.raised.append(message.fields)
        elif (
            isinstance(message, WireChunk)
            and message.direction is Direction.TX
            and message.port == "drive"
        ):
            for sent in self._decoder.feed(message.data):
                assert isinstance(sent, ActuatorCommand)
                assert 0.0 <= sent.throttle <= 1.0
                assert 0.0 <= sent.brake <= 1.0
                assert -1.0 <= sent.steering <= 1.0
                assert isfinite(sent.wheel_angle_rad)


class Drive:
    """The machine of the profile ``art``, on its way round a circle in the simulator."""

    def __init__(self) -> None:
        self.log = Recorder()
        self.pair = WrappedPair(_profile(), _course(), [], self.log, 3, link="messages")
        self.until(UNDER_WAY_MS)
        assert self.pair.machine.mode is Mode.AUTO

    def until(self, after_ms: float) -> None:
        """Go on for so long."""
        end_ns = self.pair.now_ns + round(after_ms * MS)
        while self.pair.now_ns < end_ns:
            self.pair.grant()
            self.pair.reply()

    def send(self, message: Message) -> None:
        """A message arrives now, where such messages arrive."""
        machine, now_ns = self.pair.machine, self.pair.now_ns
        port = PORTS.get(type(message))
        if port is None:
            machine.on_message(message, now_ns)
        else:
            machine.on_rx(port, encode(message), now_ns)

    def sound(self) -> None:
        """The machine raises nothing; it goes on, or it stops and gives the reason."""
        machine = self.pair.machine
        assert self.log.raised == []
        command = self.log.newest[ActuatorCommand]
        assert isinstance(command, ActuatorCommand)
        if machine.mode not in (Mode.AUTO, Mode.TELEOP):
            assert command.throttle == 0.0
            assert command.reaction >= Reaction.CONTROLLED_STOP or machine.mode in (
                Mode.INIT,
                Mode.STANDBY,
                Mode.ARMED,
            )
            assert machine.why

    def go(self) -> bool:
        """Arm and drive again if it has stopped; whether it drives."""
        machine = self.pair.machine
        for _ in range(PATIENCE_MS // 500):
            if machine.mode is Mode.AUTO:
                return True
            if machine.mode in (Mode.STANDBY, Mode.ARMED, Mode.FAULT):
                for action in (OperatorAction.ARM, OperatorAction.DRIVE):
                    self.send(
                        OperatorCommand(self.pair.now_ns, self.pair.now_ns, action, "the test")
                    )
            elif machine.mode is Mode.TELEOP:
                self.send(
                    OperatorCommand(
                        self.pair.now_ns, self.pair.now_ns, OperatorAction.STOP, "the test"
                    )
                )
            self.until(500)
        return False


@lru_cache(maxsize=1)
def _profile() -> Profile:
    return load_profile("art")


@lru_cache(maxsize=1)
def _course() -> Course:
    return load_course("circle_r5_ccw")


def plain(kind: type[Message], t_ns: int) -> Message:
    """A message of a kind that has not been seen in the drive."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        hint = get_type_hints(kind, include_extras=True)[field.name]
        values[field.name] = (
            t_ns if field.name.endswith("t_ns") or field.name == "t_rx_ns" else _plain(hint)
        )
    return kind(**values)


def _plain(hint: Any) -> Any:
    base, bounds = _base(hint)
    if base is tuple:
        return (0.5,) * (bounds.min_length or 3)
    if isinstance(base, type) and issubclass(base, IntEnum):
        return next(iter(base))
    return base(1) if base is not str and base is not bytes else base()


def _base(hint: Any) -> tuple[Any, Any]:
    """The type behind an annotation, and its bounds."""
    if hasattr(hint, "__metadata__"):
        base, bounds = hint.__origin__, hint.__metadata__[0]
        return (tuple if get_args(base) else base), bounds
    return hint, None


def bad_values(kind: type[Message], name: str) -> tuple[Any, ...]:
    """Invalid values for a field."""
    base, bounds = _base(get_type_hints(kind, include_extras=True)[name])
    if base is float:
        return BAD_FLOATS
    if base is tuple:
        count = bounds.min_length or 3
        return (
            *((bad, *(0.0,) * (count - 1)) for bad in BAD_FLOATS),
            (nan,) * count,
            (1e308,) * count,
        )
    if isinstance(base, type) and issubclass(base, IntEnum):
        return tuple(base)
    if base is bool:
        return (False, True)
    if base is int:
        return (bounds.ge, bounds.le)
    return ("\0" * 300, "nan") if base is str else (b"\xff" * 300,)


def every_field() -> Iterator[tuple[type[Message], str]]:
    for kind in ALL:
        for field in msgspec.structs.fields(kind):
            yield kind, field.name


def poisoned(drive: Drive, kind: type[Message], values: dict[str, Any]) -> Message:
    """The newest message of the kind, at this time, with other values in it."""
    now_ns = drive.pair.now_ns
    message = drive.log.newest.get(kind) or plain(kind, now_ns)
    stamps = {f.name: now_ns for f in msgspec.structs.fields(kind) if f.name in ("t_ns", "t_rx_ns")}
    return replace(message, **{**stamps, **values})


@pytest.mark.parametrize("every", sampled([3, 1], lambda every: every == 3), ids=["a third", "all"])
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_field_alone(kind: type[Message], every: int) -> None:
    """Send the drive every bad value of every field, twice; or every third one, once: no number,
    and one that is too large."""
    values = [
        (field.name, bad)
        for field in msgspec.structs.fields(kind)
        for bad in bad_values(kind, field.name)[::every]
    ]

    def send_from(first: int, drive: Drive) -> int:
        """Go on until the drive does not drive again; return the number of the next value."""
        for number in range(first, len(values)):
            name, bad = values[number]
            for _ in range(1 if every > 1 else 2):
                drive.send(poisoned(drive, kind, {name: bad}))
                drive.until(AFTER_MS)
                drive.sound()
            if not drive.go():
                # What it received lasts, such as a fault that nobody clears.
                drive.sound()
                assert drive.pair.machine.why
                return number + 1
        return len(values)

    following = 0
    while following < len(values):
        following = branch(Drive, (), partial(send_from, following))


@st.composite
def poison(draw: st.DrawFn) -> tuple[type[Message], dict[str, Any], float]:
    kind = draw(st.sampled_from(ALL))
    names = [field.name for field in msgspec.structs.fields(kind)]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    values = {name: draw(st.sampled_from(bad_values(kind, name))) for name in chosen}
    return kind, values, draw(st.floats(0.0, 60.0))


@examples(10)
@given(st.lists(poison(), min_size=1, max_size=8))
def test_any_fields_of_any_messages_in_any_order(
    poisons: list[tuple[type[Message], dict[str, Any], float]],
) -> None:
    def send(drive: Drive) -> None:
        for kind, values, after_ms in poisons:
            drive.send(poisoned(drive, kind, values))
            drive.until(after_ms)
            drive.sound()
        drive.until(300.0)
        drive.sound()

    branch(Drive, (), send)


@examples(10)
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                name: st.sampled_from(bad_values(TeleopCommand, name))
                for name in TeleopCommand.__struct_fields__
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_by_hand_a_bad_reading_keeps_nothing_alive(readings: list[dict[str, Any]]) -> None:
    def send(drive: Drive) -> None:
        for values in readings:
            drive.send(poisoned(drive, TeleopCommand, values))
            drive.until(20.0)
            drive.sound()
        # The stick has been let go, whatever its last stamp says.
        drive.until(300.0)
        drive.sound()
        assert drive.pair.machine.mode is not Mode.TELEOP
        command = drive.log.newest[ActuatorCommand]
        assert isinstance(command, ActuatorCommand)
        assert command.throttle == 0.0

    branch(by_hand, (), send)


def by_hand() -> Drive:
    """A drive that a stick has taken over."""
    drive = Drive()
    reading = TeleopCommand(0, 0, 0.0, 0.0, 0.0, True, "a stick", 0)
    drive.send(
        OperatorCommand(drive.pair.now_ns, drive.pair.now_ns, OperatorAction.TELEOP, "the test")
    )
    for sequence in range(10):
        throttle = 0.4 if drive.pair.machine.mode is Mode.TELEOP else 0.0
        drive.send(reading_at(drive, replace(reading, throttle=throttle, sequence=sequence)))
        drive.until(50.0)
    assert drive.pair.machine.mode is Mode.TELEOP
    return drive


def reading_at(drive: Drive, reading: TeleopCommand) -> TeleopCommand:
    """The reading, made now."""
    return replace(reading, t_ns=drive.pair.now_ns, t_rx_ns=drive.pair.now_ns)


def test_no_message_is_left_out() -> None:
    assert {kind for kind, _ in every_field()} == set(ALL)
    assert sum(len(bad_values(kind, name)) for kind, name in every_field()) > 400

"""Account of the messages on one port: which were used, which were not, and why.

A valid checksum says that a message arrived as it was sent, not that its content is usable. Each
driver states in one place what makes a message of its protocol usable, refuses everything else with
a reason of :class:`Unused`, and keeps this account. Status, report and ``vehicled devices decode``
show it; the log has one event for each defect of a message.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct

from vehicled.core.events import MessageUnused
from vehicled.core.messages import Event, Message

MAX_NAMES = 200
"""Message names kept apart; more are counted together. Damaged input must not grow the account."""
MAX_EVENTS = 64
"""Events in one run; later ones are only counted."""
MAX_VALUE_CHARS = 40
OTHERS = "others"


class Unused(StrEnum):
    """Reason why a message, or one of its fields, was not used."""

    NOT_READ = "not_read"
    NOT_WANTED = "not_wanted"
    DUPLICATE = "duplicate"
    REPEATED = "repeated"
    LATE = "late"
    OTHER_PROTOCOL = "other_protocol"
    FOREIGN = "foreign"
    NO_SOLUTION = "no_solution"
    NO_CHECKSUM = "no_checksum"
    UNREADABLE = "unreadable"
    OUT_OF_RANGE = "out_of_range"
    NOT_FINITE = "not_finite"
    NOT_A_ROTATION = "not_a_rotation"
    ALL_ZERO = "all_zero"
    CONTRADICTION = "contradiction"
    UNKNOWN_STATE = "unknown_state"
    INVALID = "invalid"
    STATUS_MISSING = "status_missing"
    NO_TIME = "no_time"
    NO_GGA = "no_gga"
    MANUAL = "manual"
    SIMULATED = "simulated"
    NOT_FIXED = "not_fixed"
    NOT_MOVING = "not_moving"
    BASE_DATA_MISSING = "base_data_missing"
    LENGTH_UNKNOWN = "length_unknown"
    WRONG_LENGTH = "wrong_length"
    BASELINE_NOT_STATED = "baseline_not_stated"
    TOO_INACCURATE = "too_inaccurate"
    SELF_TEST = "self_test"
    INCOMPLETE = "incomplete"
    STUCK = "stuck"
    NAME_TAKEN = "name_taken"
    ONE_WAY = "one_way"
    TOO_OLD = "too_old"
    TOO_MANY = "too_many"


ORDINARY = frozenset(
    (
        Unused.NOT_READ, Unused.NOT_WANTED, Unused.DUPLICATE, Unused.REPEATED, Unused.LATE,
        Unused.OTHER_PROTOCOL, Unused.FOREIGN, Unused.NO_SOLUTION, Unused.NO_TIME,
    )
)  # fmt: skip
"""Reasons that are no defect of the message: counted, and no event."""

_TEXTS = {
    Unused.NOT_READ: "the driver does not read it",
    Unused.NOT_WANTED: "the profile does not ask for it: add its type to the device's messages",
    Unused.DUPLICATE: "the same comes in another message",
    Unused.REPEATED: "it repeats an instant that was used already",
    Unused.LATE: "it came when its epoch had been used already: raise epoch_timeout_ms",
    Unused.OTHER_PROTOCOL: "it is of another protocol than the profile's",
    Unused.FOREIGN: "it is from or for another device",
    Unused.NO_SOLUTION: "the device says that it has no solution",
    Unused.NO_CHECKSUM: "it has no checksum: switch checksums on in the device",
    Unused.UNREADABLE: "it cannot be read",
    Unused.OUT_OF_RANGE: "it is outside its possible range",
    Unused.NOT_FINITE: "it is not a finite number",
    Unused.ALL_ZERO: "all its values are zero, as before the device is ready",
    Unused.NOT_A_ROTATION: "it is not of length one, so it is no attitude",
    Unused.CONTRADICTION: "it contradicts another field",
    Unused.UNKNOWN_STATE: "its value is not documented",
    Unused.INVALID: "the device marks it as invalid",
    Unused.STATUS_MISSING: (
        "the status that says if it is valid does not come: switch it on in the device"
    ),
    Unused.NO_TIME: "the device does not know the time yet",
    Unused.NO_GGA: "positions are read from GGA or GNS, and none comes: switch one of them on",
    Unused.MANUAL: "the position was typed in, not measured",
    Unused.SIMULATED: "the receiver simulates it",
    Unused.NOT_FIXED: "its carrier-phase solution is not fixed",
    Unused.NOT_MOVING: "the base does not move with the vehicle, so the vector to it is no heading",
    Unused.BASE_DATA_MISSING: "data of the base are missing for this instant",
    Unused.LENGTH_UNKNOWN: "the length of its baseline is unknown",
    Unused.WRONG_LENGTH: "its baseline has not the length baseline_m",
    Unused.BASELINE_NOT_STATED: (
        "its baseline is long for a vehicle: state baseline_m if it is right"
    ),
    Unused.TOO_INACCURATE: "the device states too large an error",
    Unused.SELF_TEST: "a self-test of the device failed",
    Unused.INCOMPLETE: "the other half of the measurement is missing",
    Unused.STUCK: "the sensor repeats one value",
    Unused.NAME_TAKEN: "another vehicle has the same name: give each a name of its own",
    Unused.ONE_WAY: "its sender does not receive us, so its age is not known",
    Unused.TOO_OLD: "it is too old",
    Unused.TOO_MANY: "more arrive than are read",
}


class UsageProblem(NamedTuple):
    """Reason why a message or a field cannot be used, with the field and what was in it."""

    reason: Unused
    field: str = ""
    value: object = ""


class Loss(Struct, frozen=True):
    """Reason, and the field that it concerns; empty for the message as a whole."""

    reason: Unused
    field: str = ""

    def text(self) -> str:
        """Return the reason in words."""
        return f"{self.field}: {_TEXTS[self.reason]}" if self.field else _TEXTS[self.reason]


class MessageUse(Struct):
    """Use of the messages of one name."""

    used: int = 0
    refused: dict[Loss, int] = {}
    """Messages that were not used, by reason."""
    lost: dict[Loss, int] = {}
    """Fields that stayed unknown in messages that were used otherwise."""
    remark: str = ""
    """Assumption of the driver about them, in words."""

    @property
    def arrived(self) -> int:
        """Number of messages."""
        return self.used + sum(self.refused.values())

    def text(self) -> str:
        """Return what was not used, and what was assumed, in words; empty for nothing of both."""
        whole = [f"{count} not used ({loss.text()})" for loss, count in self.refused.items()]
        fields: dict[tuple[Unused, int], list[str]] = {}
        for loss, count in self.lost.items():
            fields.setdefault((loss.reason, count), []).append(loss.field)
        parts = [
            f"{', '.join(names)} of {count} not used ({_TEXTS[reason]})"
            for (reason, count), names in fields.items()
        ]
        return "; ".join([*whole, *parts, *([self.remark] if self.remark else [])])


def _ignore(_: BaseException) -> None:
    """Do nothing."""


class MessageUsage:
    """Account of the messages of one port since the start of the driver. It only explains: what
    drivers call never raises."""

    def __init__(self) -> None:
        self.on_failure: Callable[[BaseException], object] = _ignore
        """Function called with each error of the account itself."""
        self._uses: dict[str, MessageUse] = {}
        self.news: list[tuple[str, Loss, str]] = []
        """Defects that came for the first time and are not reported yet: message, reason and
        value."""
        self._events = 0

    def __iter__(self) -> Iterator[tuple[str, MessageUse]]:
        return iter(self._uses.items())

    def __bool__(self) -> bool:
        return bool(self._uses)

    def of(self, name: str) -> MessageUse:
        """Return the use of the messages of a name; empty if none came."""
        return self._uses.get(name) or MessageUse()

    def use(self, name: str) -> None:
        """Count a message that was used."""
        try:
            (self._uses.get(name) or self._of(name)).used += 1
        except Exception as error:  # noqa: BLE001 - the message counts, not its count
            self.on_failure(error)

    def refuse(
        self,
        name: str,
        reason: Unused,
        field: str = "",
        value: object = "",
        *,
        reported: bool = False,
    ) -> None:
        """Count a message that was not used.

        ``value``: what was in ``field``, for the event; ``reported``: the driver makes an event of
        its own.
        """
        try:
            self._count(
                self._of(name).refused, name, Loss(reason, field), None if reported else value
            )
        except Exception as error:  # noqa: BLE001 - the same
            self.on_failure(error)

    def lose(self, name: str, reason: Unused, field: str, value: object = "") -> None:
        """Count a field that is unknown in a message that is used otherwise."""
        try:
            self._count(self._of(name).lost, name, Loss(reason, field), value)
        except Exception as error:  # noqa: BLE001 - the same
            self.on_failure(error)

    def remark(self, name: str, text: str) -> None:
        """Set what the driver assumed of the messages of a name, in words."""
        try:
            self._of(name).remark = text
        except Exception as error:  # noqa: BLE001 - the same
            self.on_failure(error)

    def take_events(self, t_ns: int, origin: str) -> list[Message]:
        """Return the warnings of defects that came for the first time since the last call."""
        new, self.news = self.news, []
        try:
            return [
                MessageUnused(origin, name, loss.reason.value, loss.field, value).event(t_ns)
                for name, loss, value in new
            ]
        except Exception as error:  # noqa: BLE001 - the same
            self.on_failure(error)
            return []

    def _of(self, name: str) -> MessageUse:
        if name not in self._uses:
            if len(self._uses) >= MAX_NAMES:
                name = OTHERS
            self._uses.setdefault(name, MessageUse())
        return self._uses[name]

    def _count(self, counts: dict[Loss, int], name: str, loss: Loss, value: object) -> None:
        before = counts.get(loss, 0)
        counts[loss] = before + 1
        if (
            not before
            and value is not None
            and loss.reason not in ORDINARY
            and self._events < MAX_EVENTS
        ):
            self._events += 1
            self.news.append((name, loss, str(value)[:MAX_VALUE_CHARS]))


def warning_of(event: Event) -> str:
    """Return the warning in an event of :meth:`MessageUsage.take_events` in words; empty for other
    events."""
    if (found := MessageUnused.read(event)) is None:
        return ""
    value = f" ({found.value})" if found.value else ""
    return (
        f"{found.device}: {found.message} is not used as it should be: "
        f"{Loss(Unused(found.reason), found.field).text()}{value}"
    )


class UsageRow(Struct, frozen=True):
    """Use of the messages of one name on one port, as plain values for status, log and report."""

    port: str
    message: str
    arrived: int
    used: int
    unused: list[tuple[Unused, str, int]] = []
    """Reason, field (empty for the whole message) and count of the messages that were not used."""
    lost: list[tuple[Unused, str, int]] = []
    """Reason, field and count of the fields that were not used in messages that were."""
    remark: str = ""

    def text(self) -> str:
        """Return what was not used, and what was assumed, in words; empty for nothing of both."""
        refused, lost = (
            {Loss(reason, field): n for reason, field, n in each}
            for each in (self.unused, self.lost)
        )
        return MessageUse(self.used, refused, lost, self.remark).text()


def rows(port: str, usage: MessageUsage) -> list[UsageRow]:
    """Return the account of one port, in the order of first arrival."""

    def plain(counts: dict[Loss, int]) -> list[tuple[Unused, str, int]]:
        return [(loss.reason, loss.field, count) for loss, count in counts.items()]

    return [
        UsageRow(port, name, use.arrived, use.used, plain(use.refused), plain(use.lost), use.remark)
        for name, use in usage
    ]


def usage_lines(found: list[UsageRow]) -> list[str]:
    """Return one line for each port on which something was not used or assumed. Messages with one
    fate stand together."""
    by_port: dict[str, dict[str, list[str]]] = {}
    for row in found:
        if text := row.text():
            by_port.setdefault(row.port, {}).setdefault(text, []).append(row.message)
    return [
        f"{port}: "
        + "; ".join(
            f"{', '.join(names)}: {'each ' if len(names) > 1 else ''}{text}"
            for text, names in texts.items()
        )
        for port, texts in by_port.items()
    ]


def encode_rows(found: list[UsageRow]) -> str:
    """Return the rows as text for the end of a log."""
    return msgspec.json.encode(found).decode()


def decode_rows(text: str) -> list[UsageRow]:
    """Return the rows of the end of a log; none if it has none, or a newer version wrote others."""
    try:
        return msgspec.json.decode(text, type=list[UsageRow]) if text else []
    except msgspec.MsgspecError:
        return []

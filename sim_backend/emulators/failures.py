"""Failures on command: what fails, when, and how much, as text ``port:kind[=value]@start[+duration]`` in seconds.

====================  =============================================================================  =====================
kind                  what happens                                                                   value
====================  =============================================================================  =====================
``off``               nothing passes, in either direction
``stuck``             the same values again and again, with new stamps; an actuator holds its last
``garbage``           random bytes in the place of the device's and the daemon's
``wrong``             plausible values that are not true                                             how far off
``slow``              one value or command of n passes                                               n
``delayed``           everything comes late, in both directions                                      seconds
``intermittent``      a loose contact: nothing passes in a random half of the time                   seconds per turn
``usb``               the port is gone, and the device comes back as it was switched on
``brownout``          the same without the port going: the device restarts and forgets
``baud``              the device speaks and hears at another line rate                               baud
``no_fix``            the receiver loses its position: a tunnel
``cold_start``        the receiver restarts, forgets, and has no position for the duration
``float``             the receiver falls back from fixed to float and drifts off, and says so        metres
``multipath``         the position jumps aside while the receiver still calls it fixed               metres
``saturation``        the inertial unit is at the end of its range                                   share of the range
``slip``              wheels spin or slide: motor and wheels tell a speed that is not the vehicle's  share of the speed
``heat``              motor and controller are hot                                                   kelvin
``battery``           the supply tells another voltage                                               volts
``blocked``           the wheels are held, whatever is commanded
``runaway``           the drive pushes by itself, whatever is commanded                              share of full drive
``pull``              the steering pulls to the left                                                 share of full steering
====================  =============================================================================  =====================

The first seven are those of PX4's ``failure`` command. A device may add kinds of its own.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import inf, isfinite
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

SECOND_NS = 1_000_000_000
_LONGEST_S = 1e6
_TEXT = re.compile(
    r"(?P<port>[a-z][a-z0-9_]{0,31}):(?P<kind>[a-z_]{1,32})(?:=(?P<value>[-+.0-9e]{1,24}))?"
    r"@(?P<start>[.0-9]{1,16})(?:\+(?P<duration>[.0-9]{1,16}))?"
)


class FailureError(ValueError):
    """A failure that cannot be: the text is malformed, or nothing on that port can fail so."""


class Failure(Struct, frozen=True):
    """One episode. ``start_s`` counts from the start of the run; without an end it lasts for ever."""

    port: str
    kind: str
    start_s: float
    duration_s: float = inf
    value: float | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value:g}"
        duration = f"+{self.duration_s:g}" if isfinite(self.duration_s) else ""
        return f"{self.port}:{self.kind}{value}@{self.start_s:g}{duration}"


class Kind(NamedTuple):
    """What a kind needs."""

    needs: frozenset[str] = frozenset()
    """One of these message types must come from the device; none is needed if empty."""
    value: float | None = None
    """Unless another is named; None takes no value, NaN has one of its own for every type of message."""
    low: float = -inf
    high: float = inf


_POSITIONED = frozenset({"GnssFix", "Heading"})
_WHEELS = frozenset({"MotorStatus", "WheelSpeed"})
_MOTOR = frozenset({"MotorStatus"})
_ACTUATOR = frozenset({"ActuatorCommand"})
_NAN = float("nan")

KINDS: Mapping[str, Kind] = {
    "off": Kind(),
    "stuck": Kind(),
    "garbage": Kind(),
    "wrong": Kind(value=_NAN),
    "slow": Kind(value=5.0, low=2.0, high=1000.0),
    "delayed": Kind(value=0.5, low=0.001, high=60.0),
    "intermittent": Kind(value=0.2, low=0.01, high=60.0),
    "usb": Kind(),
    "brownout": Kind(),
    "baud": Kind(value=9600.0, low=300.0, high=4_000_000.0),
    "no_fix": Kind(_POSITIONED),
    "cold_start": Kind(_POSITIONED),
    "float": Kind(frozenset({"GnssFix"}), 0.4, 0.01, 100.0),
    "multipath": Kind(frozenset({"GnssFix"}), 1.5, 0.01, 1000.0),
    "saturation": Kind(frozenset({"ImuSample"}), 1.0, 0.01, 1.0),
    "slip": Kind(_WHEELS, 1.0, -1.0, 10.0),
    "heat": Kind(_MOTOR, 360.0, 200.0, 500.0),
    "battery": Kind(_MOTOR, 9.0, 0.0, 100.0),
    "blocked": Kind(_ACTUATOR),
    "runaway": Kind(_ACTUATOR, 0.6, -1.0, 1.0),
    "pull": Kind(_ACTUATOR, 1.0, -2.0, 2.0),
}
"""Kinds that any device may suffer."""


@runtime_checkable
class Restarts(Protocol):
    """An emulator of a device that has a power supply."""

    def restart(self, now_ns: int) -> None:
        """The power was away and is back."""
        ...


@runtime_checkable
class Detunes(Protocol):
    """An emulator of a device on a line with a rate."""

    def force_baud(self, baud: int) -> None:
        """The device keeps to this rate; 0 sets it free."""
        ...


@runtime_checkable
class Suffers(Protocol):
    """An emulator of a device with failures of its own."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """Their names, each with the value unless another is named."""
        ...

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """One of them begins or ends."""
        ...


def parse_failure(text: str) -> Failure:
    """Of a text such as ``gnss:stuck@20+5``. Raises :class:`FailureError`; whether the port can fail so is not judged yet."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise FailureError(f"{text[:80]!r} is no failure: write port:kind@start+duration in seconds, such as gnss:stuck@20+5")
    try:
        start_s = float(found["start"])
        duration_s = inf if found["duration"] is None else float(found["duration"])
        value = None if found["value"] is None else float(found["value"])
    except ValueError:
        raise FailureError(f"{text[:80]!r}: a number in it cannot be read") from None
    if not (start_s <= _LONGEST_S and duration_s > 0.0 and (value is None or isfinite(value))):
        raise FailureError(f"{text[:80]!r}: the start must be below {_LONGEST_S:g} s, the duration above 0, and the value finite")
    return Failure(found["port"], found["kind"], start_s, duration_s, value)


def value_of(failure: Failure, messages: Sequence[str], emulator: object) -> float:
    """Size of a failure on a port with these messages. Raises :class:`FailureError` where the port cannot fail so."""
    own = emulator.kinds if isinstance(emulator, Suffers) else {}
    kind = KINDS.get(failure.kind)
    if kind is None:
        if failure.kind not in own:
            close = get_close_matches(failure.kind, [*KINDS, *own], n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? There' if close else "there"
            raise FailureError(f"{failure}: no such failure here; {hint} is {', '.join([*KINDS, *own])}")
        kind = Kind(value=own[failure.kind])
    if kind.needs and not kind.needs & set(messages):
        raise FailureError(f'{failure}: only where {" or ".join(sorted(kind.needs))} passes, and not at "{failure.port}"')
    if failure.kind == "baud" and not isinstance(emulator, Detunes):
        raise FailureError(f"{failure}: there is no line with a rate; run with wires")
    if failure.value is None:
        return _NAN if kind.value is None else kind.value
    if kind.value is None:
        raise FailureError(f'{failure}: "{failure.kind}" takes no value')
    if not kind.low <= failure.value <= kind.high:
        raise FailureError(f"{failure}: the value must be from {kind.low:g} to {kind.high:g}")
    return failure.value

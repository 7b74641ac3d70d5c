"""Injected failures as text ``port:kind[=value]@start[+duration]``, times in seconds.

================  =======================================================================  =========================
kind              what happens                                                             value
================  =======================================================================  =========================
``off``           nothing passes, in either direction
``stuck``         the same values repeat, with new stamps; an actuator holds its last
``garbage``       random bytes replace those of device and daemon
``wrong``         plausible but wrong values                                               error
``slow``          one value or command of n passes                                         n
``delayed``       everything comes late, in both directions                                seconds
``intermittent``  loose contact: nothing passes in a random half of the time               seconds per interval
``usb``           the port vanishes, and the device returns as after power-on
``brownout``      the device restarts and forgets; the port stays
``baud``          the device uses another line rate                                        baud
``no_fix``        the receiver loses its position: a tunnel
``cold_start``    the receiver restarts, forgets, and has no position for the duration
``float``         the receiver falls back from fixed to float, drifts off, and reports it  metres
``multipath``     the position jumps aside while the receiver reports fixed                metres
``saturation``    the IMU is at the end of its range                                       fraction of the range
``slip``          wheels spin or slide: motor and wheels report a wrong speed              fraction of the speed
``heat``          motor and controller are hot                                             kelvin
``battery``       the supply reports another voltage                                       volts
``blocked``       the wheels are held, whatever is commanded
``runaway``       the drive pushes, whatever is commanded                                  fraction of full drive
``pull``          the steering pulls to the left                                           fraction of full steering
================  =======================================================================  =========================

The first seven are those of PX4's ``failure`` command. A device may add its own kinds.
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
    """Invalid failure: the text is malformed, or the port cannot fail like this."""


class Failure(Struct, frozen=True):
    """One episode. ``start_s`` counts from the start of the run; without a duration it lasts for ever."""

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
    """Requirements of a failure kind."""

    needs: frozenset[str] = frozenset()
    """Message types of which the device must send one; empty: any device."""
    value: float | None = None
    """Default value; None: takes no value, NaN: the default depends on the message type."""
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
    """Emulator of a device with a power supply."""

    def restart(self, now_ns: int) -> None:
        """Restart after a power cut."""
        ...


@runtime_checkable
class Detunes(Protocol):
    """Emulator of a device on a line with a rate."""

    def force_baud(self, baud: int) -> None:
        """Keep the device at this rate; 0 releases it."""
        ...


@runtime_checkable
class Suffers(Protocol):
    """Emulator of a device with failures of its own."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """Failure names with their default values."""
        ...

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end one of them."""
        ...


def parse_failure(text: str) -> Failure:
    """Parse a text such as ``gnss:stuck@20+5``. Raises :class:`FailureError`; the port is not checked here."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise FailureError(f"{text[:80]!r} is not a failure: write port:kind@start+duration in seconds, such as gnss:stuck@20+5")
    try:
        start_s = float(found["start"])
        duration_s = inf if found["duration"] is None else float(found["duration"])
        value = None if found["value"] is None else float(found["value"])
    except ValueError:
        raise FailureError(f"{text[:80]!r}: one of its numbers is malformed") from None
    if not (start_s <= _LONGEST_S and duration_s > 0.0 and (value is None or isfinite(value))):
        raise FailureError(f"{text[:80]!r}: the start must be below {_LONGEST_S:g} s, the duration above 0, and the value finite")
    return Failure(found["port"], found["kind"], start_s, duration_s, value)


def value_of(failure: Failure, messages: Sequence[str], emulator: object) -> float:
    """Return the value of a failure on a port with these messages. Raises :class:`FailureError` if the port cannot have it."""
    own = emulator.kinds if isinstance(emulator, Suffers) else {}
    kind = KINDS.get(failure.kind)
    if kind is None:
        if failure.kind not in own:
            close = get_close_matches(failure.kind, [*KINDS, *own], n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? Use' if close else "use"
            raise FailureError(f"{failure}: no such failure here; {hint} one of {', '.join([*KINDS, *own])}")
        kind = Kind(value=own[failure.kind])
    if kind.needs and not kind.needs & set(messages):
        raise FailureError(f'{failure}: needs {" or ".join(sorted(kind.needs))}, which "{failure.port}" does not send')
    if failure.kind == "baud" and not isinstance(emulator, Detunes):
        raise FailureError(f"{failure}: messages have no line rate; run with --link wires")
    if failure.value is None:
        return _NAN if kind.value is None else kind.value
    if kind.value is None:
        raise FailureError(f'{failure}: "{failure.kind}" takes no value')
    if not kind.low <= failure.value <= kind.high:
        raise FailureError(f"{failure}: the value must be from {kind.low:g} to {kind.high:g}")
    return failure.value

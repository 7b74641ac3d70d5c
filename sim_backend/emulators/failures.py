"""Injected failures as text ``port:kind[=value]@start[+duration]``, times in seconds.

``KINDS`` lists what each kind does and to which devices; ``DEVICE_KINDS`` lists the kinds of
certain devices. The parser, its error messages and the table of docs/devices.md are made from them.
The first seven are those of PX4's ``failure`` command.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import inf, isfinite
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from vehicled.core.errors import UserError

SECOND_NS = 1_000_000_000
_LONGEST_S = 1e6
_TEXT = re.compile(
    r"(?P<port>[a-z][a-z0-9_]{0,31}):(?P<kind>[a-z_]{1,32})(?:=(?P<value>[-+.0-9e]{1,24}))?"
    r"@(?P<start>[.0-9]{1,16})(?:\+(?P<duration>[.0-9]{1,16}))?"
)


class FailureError(UserError, ValueError):
    """Invalid failure: the text is malformed, or the port cannot fail like this."""


class Failure(Struct, frozen=True):
    """One episode. ``start_s`` counts from the start of the run; without a duration it lasts for
    ever."""

    port: str
    kind: str
    start_s: float
    duration_s: float = inf
    value: float | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value:g}"
        duration = f"+{self.duration_s:g}" if isfinite(self.duration_s) else ""
        return f"{self.port}:{self.kind}{value}@{self.start_s:g}{duration}"


class FailureKind(NamedTuple):
    """Effect and requirements of a failure kind."""

    what: str
    """Effect of the failure."""
    needs: frozenset[str] = frozenset()
    """Message types of which the device must send one; empty: any device."""
    value: float | None = None
    """Default value; None: takes no value, NaN: the default depends on the message type."""
    low: float = -inf
    high: float = inf
    unit: str = ""
    """Unit of the value."""


_POSITIONED = frozenset({"GnssFix", "Heading", "ReferenceState"})
_WHEELS = frozenset({"MotorStatus", "WheelSpeed"})
_MOTOR = frozenset({"MotorStatus"})
_SCANNER = frozenset({"LaserScan"})
_RC = frozenset({"RcChannels"})
_ACTUATOR = frozenset({"ActuatorCommand"})
_NAN = float("nan")

KINDS: Mapping[str, FailureKind] = {
    "off": FailureKind("no data passes in either direction"),
    "stuck": FailureKind(
        "the device repeats its last values with new stamps; an actuator holds its last command"
    ),
    "garbage": FailureKind("random bytes replace the data in both directions"),
    "wrong": FailureKind("plausible but wrong values", value=_NAN, unit="error"),
    "slow": FailureKind(
        "only every n-th value or command passes", value=5.0, low=2.0, high=1000.0, unit="n"
    ),
    "delayed": FailureKind(
        "all data is delayed, in both directions", value=0.5, low=0.001, high=60.0, unit="seconds"
    ),
    "intermittent": FailureKind(
        "a loose contact: no data passes in a random half of the intervals",
        value=0.2,
        low=0.01,
        high=60.0,
        unit="seconds per interval",
    ),
    "usb": FailureKind(
        "the plug is pulled and returns: in wall time the port disappears, and the device restarts"
    ),
    "brownout": FailureKind(
        "the device loses power and its settings, and restarts; the port stays"
    ),
    "baud": FailureKind(
        "the device changes its line rate", value=9600.0, low=300.0, high=4_000_000.0, unit="baud"
    ),
    "no_fix": FailureKind("the receiver has no position, as in a tunnel", _POSITIONED),
    "cold_start": FailureKind(
        "the receiver restarts, loses its settings, and has no position for the duration",
        _POSITIONED,
    ),
    "float": FailureKind(
        "the receiver falls back from fixed to float, drifts, and reports it",
        frozenset({"GnssFix"}),
        0.4,
        0.01,
        100.0,
        unit="metres",
    ),
    "multipath": FailureKind(
        "the position jumps sideways while the receiver still reports a fixed solution",
        frozenset({"GnssFix"}),
        1.5,
        0.01,
        1000.0,
        unit="metres",
    ),
    "saturation": FailureKind(
        "the inertial unit saturates",
        frozenset({"ImuSample"}),
        1.0,
        0.01,
        1.0,
        unit="fraction of the range",
    ),
    "slip": FailureKind(
        "wheels spin or slide: the reported speed of motor and wheels is not that of the vehicle",
        _WHEELS,
        1.0,
        -1.0,
        10.0,
        unit="fraction of the speed",
    ),
    "heat": FailureKind(
        "motor and controller report this temperature", _MOTOR, 360.0, 200.0, 500.0, unit="kelvin"
    ),
    "battery": FailureKind(
        "the supply reports this voltage", _MOTOR, 9.0, 0.0, 100.0, unit="volts"
    ),
    "no_returns": FailureKind(
        "no ray returns: glass, a black wall, or a cover over the window", _SCANNER
    ),
    "rain": FailureKind(
        "rays return from drops anywhere before what they would meet",
        _SCANNER,
        0.1,
        0.0,
        1.0,
        unit="fraction of the rays",
    ),
    "mirror": FailureKind(
        "half of the rays meet a mirror, which shows its surroundings as far behind it", _SCANNER
    ),
    "takeover": FailureKind(
        (
            "the RC operator moves the mode switch to manual and drives with this throttle; "
            "afterwards back"
        ),
        _RC,
        0.3,
        -1.0,
        1.0,
        unit="fraction of full throttle",
    ),
    "stick": FailureKind(
        "the RC operator pushes the throttle stick alone",
        _RC,
        0.5,
        -1.0,
        1.0,
        unit="fraction of full throttle",
    ),
    "auto": FailureKind("the RC operator moves the mode switch to auto; afterwards back", _RC),
    "arm": FailureKind("the RC operator moves the arming switch on; afterwards off", _RC),
    "kill": FailureKind("the RC operator moves the kill switch on; afterwards off", _RC),
    "rc_failsafe": FailureKind(
        "the receiver loses its handset and says so in the way of its protocol", _RC
    ),
    "frame_lost": FailureKind("the receiver repeats its last frame and marks it", _RC),
    "link_quality": FailureKind(
        "so many packets of the handset arrive", _RC, 0.3, 0.0, 1.0, unit="fraction"
    ),
    "centred": FailureKind(
        "the receiver loses its handset and sends the centre of every channel, without a mark", _RC
    ),
    "stuck_channel": FailureKind(
        "one channel keeps its value", _RC, 3.0, 1.0, 18.0, unit="number of the channel"
    ),
    "swapped": FailureKind(
        "steering and throttle are exchanged, as with another channel order in the handset", _RC
    ),
    "blocked": FailureKind("the wheels are blocked, whatever the command", _ACTUATOR),
    "runaway": FailureKind(
        "the drive accelerates, whatever the command",
        _ACTUATOR,
        0.6,
        -1.0,
        1.0,
        unit="fraction of full drive",
    ),
    "pull": FailureKind(
        "the steering pulls to the left",
        _ACTUATOR,
        1.0,
        -2.0,
        2.0,
        unit="fraction of full steering",
    ),
    "rear_steering": FailureKind(
        "the servo of the rear wheels turns them by this fraction of their angle: 0 stays "
        "straight, -1 turns the wrong way; on a double-track twin",
        _ACTUATOR,
        0.0,
        -1.0,
        1.0,
        unit="fraction of the angle",
    ),
    "steering_reversed": FailureKind(
        "the wheels turn the other way: a servo wired or set up backward, or two exchanged motors",
        _ACTUATOR,
    ),
    "steering_stuck": FailureKind("the wheels keep their angle, whatever the command", _ACTUATOR),
}
"""Kinds of every device that sends the needed messages."""

DEVICE_KINDS: Mapping[str, tuple[str, str]] = {
    "jamming": (
        "u-blox and Septentrio receivers",
        "interference: the receiver reports a jamming state, 2 warning or 3 critical",
    ),
    "spoofing": (
        "u-blox and Septentrio receivers",
        "false signals: the receiver reports a spoofing state, 2 indicated or 3 multiple",
    ),
    "fault": ("VESC", "the controller reports the fault of this code and stops the motor"),
    "own_timeout": (
        "VESC",
        "motor commands are lost while telemetry continues: the controller's own timeout acts",
    ),
    "bus_off": ("VESC on CAN", "no frame passes on the bus"),
    "autopilot_mode": (
        "autopilots on wires",
        "somebody else changes its mode to this number, 4 (HOLD) if not given",
    ),
    "autopilot_sticks": (
        "autopilots on wires",
        "it acts on the sticks of a transmitter, which are in the middle",
    ),
    "motor_stops": (
        "scanners on wires",
        "the motor stops; what the device still measures has one bearing",
    ),
    "lidar_fault": (
        "scanners on wires",
        "the device reports a fault, with this code if it has codes, and stops to measure",
    ),
    "lidar_loses_packets": (
        "3-D scanners on wires",
        "this fraction of the packets is lost, 0.3 if not given",
    ),
    "lidar_other_mode": (
        "3-D scanners on wires",
        "somebody sets another UDP profile (Ouster) or dual returns (Velodyne)",
    ),
    "mocap_flip": (
        "motion capture on wires",
        "the body flips by this angle, rad, half a turn if not given",
    ),
    "mocap_exchange": ("motion capture on wires", "another body is taken for the vehicle's"),
    "mocap_occluded": (
        "motion capture on wires",
        (
            "the cameras do not see the body: NatNet repeats its last pose and says so, Vicon and "
            "VRPN leave it out"
        ),
    ),
    "mocap_frozen": (
        "motion capture on wires",
        "the last pose is repeated, and nothing says so",
    ),
    "mocap_loses_frames": (
        "motion capture on wires",
        "this fraction of the frames is lost, 0.3 if not given",
    ),
    "pps_doubled": (
        "sources of pulses on wires",
        "a second pulse follows each after this time, us, 300000 if not given",
    ),
    "pps_inverted": ("sources of pulses on wires", "the line is inverted: both edges exchanged"),
    "pps_shifted": (
        "sources of pulses on wires",
        "pulses come by this much later, us, 5000 if not given",
    ),
    "encoder_stands": ("wheel encoders on wires", "the first encoder counts no more"),
    "encoder_turned": ("wheel encoders on wires", "the first encoder counts the other way"),
    "encoder_missing": ("wheel encoders on wires", "the last encoder is not on the line"),
    "encoder_jumps": (
        "wheel encoders on wires",
        "the count of the first encoder jumps by this number, 100000 if not given",
    ),
    "encoder_resets": (
        "wheel encoders on wires",
        "the board restarts: counts and clock begin at 0",
    ),
    "half_frames": (
        "RC receivers on wires",
        "the second half of this fraction of the frames is lost, 0.5 if not given",
    ),
    "caster_status": (
        "NTRIP casters",
        "every request is answered with this status, 401 if not given",
    ),
    "caster_closes": (
        "NTRIP casters",
        "every connection is closed at once (1), or after the answer (2)",
    ),
    "caster_table": ("NTRIP casters", "the mountpoint is unknown: the source table is the answer"),
    "caster_page": (
        "NTRIP casters",
        "a web page is the answer, as of a network that asks for a login",
    ),
    "caster_mute": ("NTRIP casters", "the connection stays, and nothing comes"),
    "caster_flood": (
        "NTRIP casters",
        "false starts of messages come as fast as the line takes them",
    ),
    "caster_needs_position": ("NTRIP casters", "nothing comes before a position was sent"),
}
"""Kinds that emulators of certain devices add, with the devices."""


def markdown() -> str:
    """Return the table of docs/devices.md."""
    rows = ["| kind | on | what happens | value |", "| --- | --- | --- | --- |"]
    for name, kind in KINDS.items():
        on = (
            "ports of " + ", ".join(f"`{message}`" for message in sorted(kind.needs))
            if kind.needs
            else "any device"
        )
        default = (
            ""
            if kind.value is None or kind.value != kind.value
            else f", {kind.value:g} if not given"
        )
        rows.append(f"| `{name}` | {on} | {kind.what} | {kind.unit + default} |")
    rows += [f"| `{name}` | {on} | {what} | |" for name, (on, what) in DEVICE_KINDS.items()]
    return "\n".join(rows) + "\n"


@runtime_checkable
class Restartable(Protocol):
    """Emulator of a device with a power supply."""

    def restart(self, now_ns: int) -> None:
        """Restart after a power cut."""
        ...


@runtime_checkable
class BaudForcible(Protocol):
    """Emulator of a device on a line with a rate."""

    def force_baud(self, baud: int) -> None:
        """Keep the device at this rate; 0 releases it."""
        ...


@runtime_checkable
class FailureInjectable(Protocol):
    """Emulator of a device with failures of its own."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """Failure names with their default values."""
        ...

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end one of them."""
        ...


def parse_failure(text: str) -> Failure:
    """Parse a text such as ``gnss:stuck@20+5``. Raises :class:`FailureError`; the port is not
    checked here."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise FailureError(
            f"{text[:80]!r} is not a failure: write port:kind@start+duration in seconds, such "
            "as gnss:stuck@20+5"
        )
    try:
        start_s = float(found["start"])
        duration_s = inf if found["duration"] is None else float(found["duration"])
        value = None if found["value"] is None else float(found["value"])
    except ValueError:
        raise FailureError(f"{text[:80]!r}: one of its numbers is malformed") from None
    if not (start_s <= _LONGEST_S and duration_s > 0.0 and (value is None or isfinite(value))):
        raise FailureError(
            f"{text[:80]!r}: the start must be below {_LONGEST_S:g} s, the duration above 0, "
            "and the value finite"
        )
    return Failure(found["port"], found["kind"], start_s, duration_s, value)


def value_of(failure: Failure, messages: Sequence[str], emulator: object) -> float:
    """Return the value of a failure on a port with these messages. Raises :class:`FailureError` if
    the port cannot have it."""
    own = emulator.kinds if isinstance(emulator, FailureInjectable) else {}
    kind = KINDS.get(failure.kind)
    if kind is None:
        if failure.kind not in own:
            close = get_close_matches(failure.kind, [*KINDS, *own], n=1, cutoff=0.5)
            hint = f'did you mean "{close[0]}"? Use' if close else "use"
            raise FailureError(
                f"{failure}: no such failure here; {hint} one of {', '.join([*KINDS, *own])}"
            )
        kind = FailureKind(DEVICE_KINDS.get(failure.kind, ("", ""))[1], value=own[failure.kind])
    if kind.needs and not kind.needs & set(messages):
        raise FailureError(
            f'{failure}: needs {" or ".join(sorted(kind.needs))}, which "{failure.port}" does '
            "not send"
        )
    if failure.kind == "baud" and not isinstance(emulator, BaudForcible):
        raise FailureError(f"{failure}: messages have no line rate; run with --link wires")
    if failure.value is None:
        return _NAN if kind.value is None else kind.value
    if kind.value is None:
        raise FailureError(f'{failure}: "{failure.kind}" takes no value')
    if not kind.low <= failure.value <= kind.high:
        raise FailureError(f"{failure}: the value must be from {kind.low:g} to {kind.high:g}")
    return failure.value

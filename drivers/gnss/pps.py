"""Driver of a GNSS receiver's PPS pin: names the second of each pulse that the kernel stamped, and
hands the pair to chrony or ntpd. Sources: NOTES-pps.md.

The receiver's messages name the second: they arrive after their instant, and in less than a second.
Pulses that are not a second apart, that stay high for longer than low, or whose second does not
follow the one before are counted and named, and nothing is set by them.
"""

import os
from collections import deque
from collections.abc import Sequence
from math import ceil, isfinite, log2, nan, sqrt
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from vehicled.core.messages import Event, Fault, GnssFix, Message, PortState, TimePulse
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport
from vehicled.core.wire import pps
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.framing import Framer
from vehicled.core.wire.usage import MessageUsage, Unused

ORIGIN = "pps"
SECOND_NS = 1_000_000_000
SILENCE_NS = 1_700_000_000
"""Time without a pulse after which one is missing."""
FIRST_NS = 10_000_000_000
"""Time for the first pulse, and for the first named second, before their absence is reported."""
DRIFT = 300e-6
"""Largest rate of the computer's clock against the pulses."""
CONFIRMING = 3
"""Pulses in a row, a second apart, that begin a series or end a doubt."""
LOST_NS = 2_500_000_000
"""Age of the series after which another one may take its place."""
NEWEST_S = 3
"""Age of the newest fix that still names a pulse, s."""
WINDOW = 10
"""Fixes whose earliest arrival names the second."""
LATEST = 0.85
"""Delay of the receiver's messages, s, from which they might belong to the second before."""
LONGEST_PULSE_NS = 500_000_000
NEAR_WHOLE_S = 0.02
LEAP_S = 37
"""Whole seconds between time scales, such as GPS time and UTC, lie below this."""
SEVERAL = 16


class PpsParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a source of pulses."""

    edge: Literal["assert", "clear"] = "assert"
    """Edge that marks the second, as the kernel calls it: ``clear`` where the line is inverted."""
    tolerance_us: Annotated[float, Meta(gt=0.0, le=50_000.0)] = 500.0
    """Largest deviation of a pulse from a second after the one before, us; a pin at a USB adapter
    needs 2000."""
    delay_ns: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0
    """Time from the second to the stamp, ns: cable, interrupt."""


class PpsDevice(Device):
    """Driver; see the module."""

    Params: ClassVar[type[PpsParams]] = PpsParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (TimePulse, Fault, Event)
    consumes: tuple[type[Message], ...] = (GnssFix,)

    def __init__(
        self, params: PpsParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self.params = params
        self.usage = MessageUsage()
        self._framer = Framer(pps.PROTOCOLS, pps.LONGEST_BYTES)
        self._lifetime_ns = command_lifetime_ns
        self._tx: list[Action] = []
        self._silent = FaultEpisode("pps_silent", ORIGIN)
        self._wrong = FaultEpisode("pps_pulses", ORIGIN)
        self._second = FaultEpisode("pps_second", ORIGIN)
        self._refused = FaultEpisode("pps_refclock", ORIGIN)
        self._forget()

    def _forget(self) -> None:
        self._sequence: int | None = None
        self._accepted_ns: int | None = None
        self._series_ns: int | None = None
        self._series = 0
        self._errors_ns: deque[float] = deque(maxlen=SEVERAL)
        self._delays: deque[tuple[int, int]] = deque(maxlen=WINDOW)
        self._named: tuple[int, int] | None = None
        self._following = 0
        self._stepped = False
        self._due_ns = NEVER_NS
        self._name_due_ns = NEVER_NS

    @property
    def bad_frames(self) -> int:
        """Frames of the port with a wrong checksum."""
        return self._framer.bad_frames

    # ---------------------------------------------------------------- device interface

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Begin a new series of pulses."""
        self._framer.clear()
        self._tx.clear()
        self._forget()
        if state is PortState.OPENED:
            self._due_ns = self._name_due_ns = now_ns + FIRST_NS
        return ()

    def on_command(self, command: Message, now_ns: int) -> None:
        """Keep how late a fix with a time arrived."""
        if isinstance(command, GnssFix) and command.utc_ns > 0:
            self._delays.append((command.t_rx_ns, command.t_rx_ns - command.utc_ns))

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        for _, frame in self._framer.feed(data):
            record = pps.parse(frame)
            if isinstance(record, pps.PulseStamps):
                found += self._on_stamps(record, t_rx_ns)
            elif isinstance(record, pps.RefclockErrors):
                found += self._refused.set(_refusal(record), t_rx_ns)
        if self.usage.news:
            found += self.usage.take_events(t_rx_ns, ORIGIN)
        return found

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Report that pulses are missing."""
        if now_ns < self._due_ns:
            return ()
        self._due_ns = NEVER_NS
        never = self._sequence is None
        text = (
            "no pulse yet: check the wire from the receiver's PPS pin, and that it has a fix"
            if never
            else "no pulse: the receiver has lost its fix, or the wire is open"
        )
        return self._silent.set(text, now_ns)

    def take_tx(self) -> Sequence[Action]:
        sent, self._tx = self._tx, []
        return sent

    # ---------------------------------------------------------------- pulses

    def _on_stamps(self, stamps: pps.PulseStamps, t_rx_ns: int) -> list[Message]:
        edges = (
            (stamps.assert_sequence, stamps.assert_ns),
            (stamps.clear_sequence, stamps.clear_ns),
        )
        (sequence, stamp_ns), (other, other_ns) = (
            edges if self.params.edge == "assert" else edges[::-1]
        )
        if sequence == self._sequence or not sequence:
            # The other edge, or a source that stamps only that one.
            return [] if sequence or not other else self._refuse_edge(t_rx_ns)
        self._sequence = sequence
        age_ns = stamps.read_ns - stamp_ns
        t_ns = t_rx_ns - age_ns - round(self.params.delay_ns)
        found = self._silent.set("", t_rx_ns)
        self._due_ns = t_rx_ns + SILENCE_NS
        if not 0 <= age_ns < SECOND_NS + SILENCE_NS:
            self._refuse(Unused.CONTRADICTION, "the clock of this computer was set")
            return found
        length_ns = (other_ns - stamp_ns) % SECOND_NS
        if other and abs(other_ns - stamp_ns) < SECOND_NS and length_ns > LONGEST_PULSE_NS:
            return found + self._refuse_edge(t_rx_ns)
        problem = self._problem(t_ns)
        found += self._wrong.set(problem, t_rx_ns)
        if problem:
            self._refuse(Unused.OUT_OF_RANGE, problem)
            return found
        if self._series < CONFIRMING:
            return found
        return found + self._on_pulse(t_ns, t_rx_ns, stamp_ns - round(self.params.delay_ns))

    def _refuse(self, reason: Unused, text: str) -> None:
        self.usage.refuse("PULSE", reason, "stamp", text, reported=True)

    def _refuse_edge(self, t_rx_ns: int) -> list[Message]:
        """Say that the other edge marks the second: receivers hold their pulse for 0.1 s."""
        other = "clear" if self.params.edge == "assert" else "assert"
        self._refuse(Unused.CONTRADICTION, "edge")
        text = f'the wrong edge: pulses begin at the other one, write edge = "{other}"'
        return self._wrong.set(text, t_rx_ns)

    def _problem(self, t_ns: int) -> str:
        """Return what is wrong with the interval before a pulse; empty if it goes on in the
        series."""
        accepted_ns = self._accepted_ns
        if accepted_ns is not None:
            gap_ns = t_ns - accepted_ns
            seconds = round(gap_ns / SECOND_NS)
            error_ns = gap_ns - seconds * SECOND_NS
            if seconds >= 1 and abs(error_ns) <= self._limit_ns(seconds):
                if seconds == 1:
                    self._errors_ns.append(error_ns)
                self._accepted_ns = self._series_ns = t_ns
                self._series = min(self._series + 1, CONFIRMING)
                return ""
            if gap_ns < LOST_NS:
                return (
                    "doubled pulses: noise on the wire, or both edges count"
                    if gap_ns < SECOND_NS
                    else f"a pulse {error_ns * 1e-3:+.0f} us beside its second"
                )
        before_ns, self._series_ns = self._series_ns, t_ns
        apart = before_ns is not None and (abs(t_ns - before_ns - SECOND_NS) > self._limit_ns(1))
        self._series = 1 if apart or before_ns is None else self._series + 1
        if self._series >= CONFIRMING:
            # A first series, or another one after the old one has ended.
            self._accepted_ns = t_ns
            self._errors_ns.clear()
            self._named, self._following, self._stepped = None, 0, False
        return "pulses are not one second apart" if apart else ""

    def _limit_ns(self, seconds: int) -> float:
        return self.params.tolerance_us * 1e3 + DRIFT * seconds * SECOND_NS

    # ---------------------------------------------------------------- seconds

    def _on_pulse(self, t_ns: int, t_rx_ns: int, clock_ns: int) -> list[Message]:
        jitter_s = self._jitter_s()
        utc_ns, problem = self._name(t_ns)
        offset_s = (clock_ns - utc_ns) * 1e-9 if utc_ns else nan
        if (
            utc_ns
            and 0.5 < abs(offset_s) < LEAP_S
            and (abs(offset_s - round(offset_s)) < NEAR_WHOLE_S)
        ):
            problem = (
                f"the clock of this computer and the receiver differ by {round(offset_s):+d} s, a "
                "whole number: one of them counts other leap seconds or names the second beside"
            )
            utc_ns = 0
        found: list[Message] = []
        if utc_ns:
            self._name_due_ns = t_rx_ns + FIRST_NS
        if utc_ns or problem or t_rx_ns >= self._name_due_ns:
            found += self._second.set(
                "" if utc_ns else problem or "no receiver gives the time: pulses have no name",
                t_rx_ns,
            )
        if not utc_ns:
            self._refuse(Unused.NO_TIME, "")
        else:
            self.usage.use("PULSE")
            jitter = f" +- {jitter_s * 1e6:.1f}" if isfinite(jitter_s) else ""
            text = f"the clock of this computer is {offset_s * 1e6:+.1f}{jitter} us from UTC"
            self.usage.remark("PULSE", text)
            precision = round(log2(max(jitter_s, 1e-9))) if isfinite(jitter_s) else -10
            sample = pps.RefclockSample(clock_ns, utc_ns, max(-30, min(-1, precision)))
            self._tx.append(Send(pps.encode(sample), t_rx_ns + self._lifetime_ns, droppable=True))
        return [
            *found,
            TimePulse(t_ns, t_rx_ns, utc_ns, offset_s if utc_ns else nan, jitter_s),
        ]

    def _jitter_s(self) -> float:
        """Return the standard deviation of one stamp: that of the intervals over the root of
        two."""
        errors = self._errors_ns
        if len(errors) < CONFIRMING:
            return nan
        mean = sum(errors) / len(errors)
        return sqrt(sum((each - mean) ** 2 for each in errors) / (2.0 * len(errors))) * 1e-9

    def _name(self, t_ns: int) -> tuple[int, str]:
        """Return UTC of a pulse, 0 if it has no sure one, and what is wrong."""
        recent = [late for rx_ns, late in self._delays if t_ns - rx_ns < NEWEST_S * SECOND_NS]
        if not recent:
            return 0, ""
        # A message arrives after its instant: the least second that allows that.
        earliest_ns = t_ns - min(recent)
        second = ceil(earliest_ns / SECOND_NS)
        delay_s = second - earliest_ns / SECOND_NS
        utc_ns = second * SECOND_NS
        if delay_s > LATEST:
            text = (
                f"messages of the receiver come {delay_s:.2f} s after their second, so they may "
                "belong to another one: a faster line or fewer messages cure it"
            )
            return 0, text
        named, self._named = self._named, (t_ns, utc_ns)
        if named is not None:
            step_s = round((t_ns - named[0]) / SECOND_NS) - (utc_ns - named[1]) // SECOND_NS
            if step_s:
                self._following, self._stepped = 0, True
        self._following += 1
        if self._following < CONFIRMING:
            return 0, "the receiver names another second than before" if self._stepped else ""
        self._stepped = False
        return utc_ns, ""


def _refusal(errors: pps.RefclockErrors) -> str:
    """Return why chrony or ntpd gets nothing; empty while it does."""
    parts = [
        f"{name}: {os.strerror(number)}; {cure}"
        for name, number, cure in (
            ("shared memory", errors.shm, "use shm=2 or above without root"),
            ("socket", errors.sock, "chronyd makes it with 'refclock SOCK PATH' in chrony.conf"),
        )
        if number
    ]
    return "; ".join(parts)

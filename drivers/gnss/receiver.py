"""Common part of the receivers that are set up by commands in text: epochs, headings, corrections,
set-up, silence.

A family adds its frames, what they mean, and its set-up script.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta, Struct

from drivers.gnss.baseline import MAX_HEADING_SIGMA_RAD, Baseline
from drivers.gnss.epochs import LAST, WEEK_MS, Epoch, EpochClock, Epochs
from drivers.gnss.solution import Lost, yaw_rad
from drivers.gnss.watch import GapWatch, HeadingWatch, RtkWatch, event
from drivers.rtcm.outgoing import TxQueue
from drivers.set_up import Script, SetUpResult, SetUpRunner
from vehicled.core.messages import (
    Corrections,
    Event,
    Fault,
    GnssFix,
    Heading,
    HeadingKind,
    Message,
    PortState,
    Reaction,
    TimePulse,
)
from vehicled.core.ports import Action, Device, Send, Transport
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, Framer, Protocol, Shape
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

STALE_NS = 200_000_000
"""Timeout of an incomplete frame, ns."""
MAX_SPEED_MPS = 500.0
"""Speed beyond which a velocity is none; receivers stop there by law."""
MAX_TEXT_BYTES = 1024
"""Longest line of a dialogue."""
GPS_EPOCH_NS = 315_964_800_000_000_000
"""6 January 1980 in Unix time."""


class TextShape(Shape):
    """Text of a pattern, without a checksum. ``begun`` matches what may become one with more
    bytes."""

    def __init__(self, pattern: bytes, begun: bytes) -> None:
        self._whole, self._begun = re.compile(pattern), re.compile(begun)

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        stop = min(end, at + MAX_TEXT_BYTES)
        found = self._whole.match(buffer, at, stop)
        if found:
            return found.end() - at
        return (
            INCOMPLETE
            if end - at < MAX_TEXT_BYTES and self._begun.match(buffer, at, stop)
            else NO_FRAME
        )

    def valid(self, buffer: bytes | bytearray, at: int, stop: int) -> bool:
        return True


class ReceiverParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a receiver."""

    rate_hz: Annotated[float, Meta(ge=0.2, le=50.0)] = 5.0
    """Epochs per second: one of 50, 25, 20, 10, 5, 2, 1, 0.5, 0.2."""
    configure: bool = True
    """Switch the messages on when the port opens; false only listens and never sends commands."""
    answer_timeout_s: Annotated[float, Meta(ge=0.05, le=10.0)] = 1.0
    """Longest wait for an answer of the receiver, s."""
    tries: Annotated[int, Meta(ge=1, le=20)] = 3
    """Attempts per command before the set-up fails."""
    retry_s: Annotated[float, Meta(ge=0.1, le=600.0)] = 5.0
    """Pause between a failed set-up and the next, s."""
    silence_s: Annotated[float, Meta(ge=0.2, le=60.0)] = 3.0
    """Time without epochs after which the receiver is set up again, s; at least two and a half
    epochs."""
    stale_corrections_s: Annotated[float, Meta(gt=0.0, le=255.0)] = 10.0
    """Age of the corrections reported as an event, s."""
    latency_ms: Annotated[float, Meta(ge=0.0, le=1_000.0)] = 20.0
    """Least time from an epoch to the arrival of its first byte, ms; the clock regression cannot
    observe it."""
    epoch_timeout_ms: Annotated[float, Meta(gt=0.0, le=1_000.0)] = 100.0
    """Longest wait for the rest of an epoch after its position, ms, if its end does not arrive."""
    baseline_m: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """Distance of the two antennas, m; vectors of another length are refused. 0 learns it from the
    first ones, up to 5 m, and reports it."""
    baseline_tolerance_m: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.05
    """Largest difference from ``baseline_m``, m."""
    baseline_yaw_rad: Annotated[float, Meta(ge=-3.15, le=3.15)] = 0.0
    """Direction from the main antenna to the second one in body axes, rad: 0 second one ahead, pi/2
    on the left."""
    heading_needs_fixed: bool = True
    """Reject headings of a float solution."""
    heading_sigma_rad: Annotated[float, Meta(gt=0.0, le=3.15)] = 0.02
    """Error of a heading whose message states none, rad."""


class AntennaDirection(NamedTuple):
    """Direction from the main antenna to the second one, clockwise from true north."""

    heading_deg: float
    sigma_rad: float = nan
    """Standard deviation that the receiver states; NaN or 0 for none."""
    length_m: float = nan
    """Length of the vector; NaN where the receiver does not state it."""
    fixed: bool = True
    """True for a solution with fixed ambiguities."""


class GnssReceiver(Device):
    """Receiver on one port. A subclass adds :meth:`_on_frame`, :meth:`fix_of`, :meth:`direction_of`
    and :meth:`script`."""

    name: ClassVar[str]
    protocols: ClassVar[tuple[Protocol, ...]]
    longest_frame: ClassVar[int]
    anchors: ClassVar[tuple[str, str]]
    """Message with the position, and the one with the heading."""
    of_attitude: ClassVar[frozenset[str]]
    """Messages of the attitude, which have epochs of their own."""
    ends: ClassVar[frozenset[str]] = frozenset()
    """Messages that end an epoch."""
    Params: ClassVar[type[ReceiverParams]] = ReceiverParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (GnssFix, Heading, Event, Fault)
    consumes: tuple[type[Message], ...] = (Corrections, TimePulse)

    def __init__(
        self, params: ReceiverParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Give those of ``GnssFix`` and ``Heading`` that are in ``messages``."""
        self.params = params
        self.wants_fix, self.wants_heading = GnssFix in messages, Heading in messages
        self.usage = MessageUsage()
        self.replies: list[Any] = []
        """Answers of the receiver in the frames of one reception."""
        self._framer = Framer(self.protocols, limit=self.longest_frame)
        self._tx = TxQueue(command_lifetime_ns)
        self._set_up = SetUpRunner(_Times(params), self.script, self._send)
        self._set_up_fault = FaultEpisode("gnss_configuration", self.name)
        self.jamming = FaultEpisode("gnss_jamming", self.name)
        self.spoofing = FaultEpisode("gnss_spoofing", self.name)
        self._headings = HeadingWatch(
            Baseline(params.baseline_m, params.baseline_tolerance_m), self.usage
        )
        self._bytes_ns = 0
        self._begin()

    def _begin(self) -> None:
        """Forget what the receiver said, because it may have restarted."""
        timeout_ns = round(self.params.epoch_timeout_ms * 1e6)
        self._clock = EpochClock(WEEK_MS, round(self.params.latency_ms * 1e6))
        self._positions = Epochs(self.anchors[:1], timeout_ns, self._clock.time_of)
        self._attitudes = Epochs(self.anchors[1:], timeout_ns, self._near)
        self._gaps = GapWatch(WEEK_MS)
        self._rtk = RtkWatch(self.params.stale_corrections_s)
        self.leap_s: int | None = None
        """GPS time minus UTC, once the receiver knows it."""

    def _near(self, tow_ms: int, t_rx_ns: int) -> int:
        """Return the time of an attitude, whose arrival teaches the clock nothing: it comes after
        its position."""
        latest_ns = t_rx_ns - round(self.params.latency_ms * 1e6)
        t_ns = self._clock.near(tow_ms)
        return latest_ns if t_ns is None else min(t_ns, latest_ns)

    # ---------------------------------------------------------------- for families

    @abstractmethod
    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        """Take a valid frame: positions and headings by :meth:`take`, answers to ``replies``, and
        account for it."""

    @abstractmethod
    def fix_of(self, epoch: Epoch, lost: Lost) -> GnssFix:
        """Return the fix of an epoch that has its position; one without a solution has none.
        ``lost``: fields not used."""

    @abstractmethod
    def direction_of(self, epoch: Epoch) -> AntennaDirection | UsageProblem:
        """Return the heading of an epoch that has one, or why it cannot be used."""

    @abstractmethod
    def script(self) -> Script:
        """Return the set-up script, which works in any state of the receiver."""

    def take(
        self,
        name: str,
        tow_ms: int,
        part: Any,
        t_rx_ns: int,
        messages: list[Message],
        problem: UsageProblem | None = None,
    ) -> None:
        """Add a message of one epoch; ``problem`` says why it gives no solution of its own, but its
        epoch goes on."""
        attitude = name in self.of_attitude
        if attitude and not self.wants_heading:
            self.usage.refuse(name, Unused.NOT_WANTED)
            return
        collector = self._attitudes if attitude else self._positions
        for epoch in collector.add(LAST if name in self.ends else name, tow_ms, part, t_rx_ns):
            (self._finish_attitude if attitude else self._finish)(epoch, messages)
        for _, reason in collector.take_unused():
            problem = problem or UsageProblem(reason)
        if name == self.anchors[1]:
            return  # :meth:`_finish_attitude` accounts for it
        if name == self.anchors[0]:
            self._set_up.alive(t_rx_ns)
            problem = problem if self.wants_fix else None
        self.account(name, problem)

    def account(self, name: str, problem: UsageProblem | None) -> None:
        """Account for a message: used, or why not."""
        if problem is None:
            self.usage.use(name)
        else:
            self.usage.refuse(name, *problem)

    def utc_ns(self, week: int | None, tow_ms: int) -> int:
        """Return UTC of an instant of GPS time; 0 if unknown."""
        if week is None or self.leap_s is None:
            return 0
        return GPS_EPOCH_NS + (week * WEEK_MS + tow_ms - 1000 * self.leap_s) * 1_000_000

    # ---------------------------------------------------------------- what the daemon may ask

    @property
    def configured(self) -> bool:
        """True once the receiver sends what is wanted."""
        return self._set_up.configured

    @property
    def rtk_state(self) -> str:
        """State of the solution: none, single, dgps, float or fixed."""
        return self._rtk.state

    @property
    def baseline_m(self) -> float:
        """Length of the baseline in force, m; 0 while it is unknown."""
        return self._headings.baseline.length_m

    # ---------------------------------------------------------------- the verbs of a device

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Set the receiver up whenever the port opens, because it may have lost power."""
        messages = [*self._rtk.lost(now_ns, f"port {state.name.lower()}: {detail}")]
        messages += [*self.jamming.set("", now_ns), *self.spoofing.set("", now_ns)]
        self._framer.clear()
        self._tx.clear()
        self._begin()
        self._set_up.reset()
        if state is PortState.OPENED and self.params.configure:
            self._run(self._set_up.start, now_ns, messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        self._bytes_ns = t_rx_ns
        self._take_frames(self._framer.feed(data), t_rx_ns, messages)
        return messages

    def on_command(self, command: Message, now_ns: int) -> None:
        """Queue corrections for the receiver, unread; a pulse gives the time of its epochs."""
        if isinstance(command, Corrections):
            self._tx.correct(command.data, now_ns)
        elif isinstance(command, TimePulse):
            self._clock.on_pulse(command)

    def next_due_ns(self) -> int:
        due = self._set_up.due_ns
        for each in (self._positions.due_ns, self._attitudes.due_ns):
            due = due if each is None else min(due, each)
        return min(due, self._bytes_ns + STALE_NS) if self._framer.buffered_bytes else due

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Hand over epochs at their timeout; repeat a command, give up, retry, or detect
        silence."""
        messages: list[Message] = []
        if self._framer.buffered_bytes and now_ns >= self._bytes_ns + STALE_NS:
            self._take_frames(self._framer.flush(), self._bytes_ns, messages)
        for collector, finish in (
            (self._positions, self._finish),
            (self._attitudes, self._finish_attitude),
        ):
            if (
                collector.due_ns is not None
                and now_ns >= collector.due_ns
                and (epoch := collector.expire()) is not None
            ):
                finish(epoch, messages)
        attempts, settled = self._set_up.attempts, self._set_up.configured
        self._run(self._set_up.on_time, now_ns, messages)
        if settled and self._set_up.attempts > attempts:
            messages += self._rtk.lost(now_ns, "receiver silent")
            messages.append(
                event(now_ns, "warning", "epochs_absent", absent_s=_Times(self.params).silence_s)
            )
        if self.usage.news:
            messages += self.usage.take_events(now_ns, self.name)
        return messages

    def take_tx(self) -> Sequence[Action]:
        return self._tx.take()

    # ---------------------------------------------------------------- frames

    def _take_frames(
        self, frames: Sequence[tuple[str, bytes]], t_rx_ns: int, messages: list[Message]
    ) -> None:
        for protocol, frame in frames:
            self._on_frame(protocol, frame, t_rx_ns, messages)
            while self.replies:
                reply = self.replies.pop(0)
                self._run(partial(self._set_up.offer, reply), t_rx_ns, messages)
            if self.usage.news:
                messages += self.usage.take_events(t_rx_ns, self.name)

    def _finish(self, epoch: Epoch, messages: list[Message]) -> None:
        lost: Lost = []
        fix = self.fix_of(epoch, lost)
        self._clock.on_utc(epoch.counter_ms, fix.utc_ns)
        if self.wants_fix:
            for kind, problem in lost:
                self.usage.lose(kind, *problem)
            messages.append(fix)
        messages += self._gaps.on_epoch(epoch.counter_ms, epoch.last_rx_ns)
        self._gaps.take_missed()
        messages += self._rtk.on_fix(fix)

    def _finish_attitude(self, epoch: Epoch, messages: list[Message]) -> None:
        name, t_rx_ns, params = self.anchors[1], epoch.last_rx_ns, self.params
        found = self.direction_of(epoch)
        problem = found if isinstance(found, UsageProblem) else self._doubt(found)
        messages += [
            *self._headings.relearnt(name, t_rx_ns),
            *self._headings.update(problem, t_rx_ns),
        ]
        if problem is not None or isinstance(found, UsageProblem):
            # A lost heading is an event of its own.
            self.usage.refuse(name, *(problem or found), reported=True)
            return
        self.usage.use(name)
        sigma_rad = found.sigma_rad if found.sigma_rad > 0.0 else params.heading_sigma_rad
        body_rad = yaw_rad(found.heading_deg, params.baseline_yaw_rad)
        messages.append(Heading(epoch.t_ns, t_rx_ns, body_rad, sigma_rad, HeadingKind.MOVING_BASE))

    def _doubt(self, found: AntennaDirection) -> UsageProblem | None:
        """Return why a direction that the receiver calls valid is no heading."""
        if not -180.0 <= found.heading_deg <= 360.0:
            return UsageProblem(Unused.OUT_OF_RANGE, "heading", f"{found.heading_deg:.1f} deg")
        if not found.fixed and self.params.heading_needs_fixed:
            return UsageProblem(Unused.NOT_FIXED)
        if found.sigma_rad > MAX_HEADING_SIGMA_RAD:
            return UsageProblem(Unused.TOO_INACCURATE, "heading", f"{found.sigma_rad:.2f} rad")
        if found.length_m != found.length_m:
            return None
        return self._headings.baseline.problem(found.length_m, known=True, fixed=found.fixed)

    # ---------------------------------------------------------------- set-up

    def _send(self, data: bytes, now_ns: int) -> None:
        self._tx.add((Send(data, now_ns + round(self.params.answer_timeout_s * 1e9)),))

    def _run(
        self, step: Callable[[int], SetUpResult | None], now_ns: int, messages: list[Message]
    ) -> None:
        result = step(now_ns)
        if result is None:
            return
        messages += self._set_up_fault.set(
            result.reason if result.fields is None else "", now_ns, Reaction.WARN
        )
        if result.fields is not None:
            self._gaps.expect(round(1000.0 / self.params.rate_hz))
            messages.append(event(now_ns, "info", "gnss_configured", **result.fields))


class _Times:
    """Times of a set-up. A slow receiver must not count as silent."""

    def __init__(self, params: ReceiverParams) -> None:
        self.configure = params.configure
        self.answer_timeout_s = params.answer_timeout_s
        self.tries = params.tries
        self.retry_s, self.silence_s = params.retry_s, max(params.silence_s, 2.5 / params.rate_hz)

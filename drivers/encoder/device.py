"""Driver of wheel encoders behind a microcontroller: counts of one encoder, or of several whose
mean counts, to a wheel speed.

Only differences of counts are used, so that a board that begins anew, and a counter that wraps
round, cost one interval. What cannot be a motion is withheld and named: more than the vehicle can
drive, one encoder that stands or turns the other way while another moves, one that is missing.
"""

from collections.abc import Sequence
from math import hypot, pi, sqrt
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.encoder.codec import MOST_ENCODERS, Dialect, EncoderCounts, encode_request, parse
from drivers.motor.lines import BoundedLines
from vehicled.core.messages import Event, Fault, Message, PortState, WheelSpeed
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage, Unused

ASK_NS = 500_000_000
"""Interval of the request until counts arrive: a board that the opened port has reset is busy for
up to two seconds."""
APPEARS_NS = 4_000_000_000
"""Time for the first counts before their absence is reported."""
RESTARTED_MS = 60_000
"""Time between two counts by the board's clock beyond which it has begun anew."""
JUDGED_M = 1.0
"""Distance of one wheel after which another that stands, or turns the other way, is named."""
STILL_S = 1.0
"""Time without a count of any wheel after which encoders are judged anew: a vehicle that may not
drive without them would never show that they are right again."""
STANDING = 0.02
"""Fraction of that distance up to which a wheel stands."""
ROUNDING_MS = 0.5
"""Standard deviation of an interval between two whole milliseconds, and of the sketch's loop."""


class EncoderParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of wheel encoders on a serial line."""

    ticks_per_revolution: Annotated[float, Meta(gt=0.0, le=1e7)]
    """Counts per revolution of the wheel: turn it ten times by hand and divide. A quadrature
    decoder counts four for each line of the disc, and the gear multiplies."""
    wheel_radius_m: Annotated[float, Meta(gt=0.0, le=5.0)]
    """Rolling radius of the wheel, m."""
    dialect: Dialect = "donkeycar"
    """Program of the board."""
    signs: Annotated[tuple[Annotated[int, Meta(ge=-1, le=1)], ...], Meta(min_length=1)] = (1,)
    """One number for each encoder in the order of its line: 1, -1 for one that counts down as the
    vehicle drives forward, 0 for one that is left out."""
    rate_hz: Annotated[float, Meta(ge=1.0, le=200.0)] = 20.0
    """Counts per second that are asked for."""
    counter_bits: Annotated[int, Meta(ge=8, le=64)] = 32
    """Width of the board's counter, which wraps round."""
    max_speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] = 15.0
    """Speed beyond which a difference of counts is no motion."""
    latency_ms: Annotated[float, Meta(ge=0.0, le=500.0)] = 2.0
    """Age of counts on arrival, ms."""
    speed_sigma_mps: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.02
    """Standard deviation of the speed beside the resolution of counts and clock: slip, radius."""
    silence_s: Annotated[float, Meta(ge=0.05, le=10.0)] = 0.5
    """Time without counts after which a fault says so and they are asked for again."""

    def __post_init__(self) -> None:
        if len(self.signs) > MOST_ENCODERS:
            raise ValueError(f"signs has more than {MOST_ENCODERS} encoders")
        if not any(self.signs):
            raise ValueError("signs leaves every encoder out: write 1 or -1 for those that count")


class EncoderDevice(Device):
    """Driver; see the module."""

    Params: ClassVar[type[EncoderParams]] = EncoderParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (WheelSpeed, Fault, Event)

    def __init__(
        self, params: EncoderParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self.params = params
        self.usage = MessageUsage()
        self._wanted = WheelSpeed in messages
        self._lifetime_ns = command_lifetime_ns
        self._lines = BoundedLines()
        self._used = [i for i, sign in enumerate(params.signs) if sign]
        self._tick_m = 2.0 * pi * params.wheel_radius_m / params.ticks_per_revolution
        self._period_ns = round(1e9 / params.rate_hz)
        self._silent = FaultEpisode("encoder_silent", "encoder")
        self._wrong = FaultEpisode("encoder_wrong", "encoder")
        self._tx: list[Action] = []
        self._asks_ns = self._silent_ns = NEVER_NS
        self._forget()

    def _forget(self) -> None:
        self._before: EncoderCounts | None = None
        self._before_ns = 0
        self._ways_m = [0.0] * MOST_ENCODERS
        self._contradicts = ""
        self._still_s = 0.0

    @property
    def bad_frames(self) -> int:
        """Lines that are no counts, since start."""
        return self._lines.bad_lines

    @property
    def dropped_bytes(self) -> int:
        """Bytes of lines that are too long, since start."""
        return self._lines.dropped_bytes

    # ---------------------------------------------------------------- device interface

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Ask for counts on an opened port."""
        self._lines.clear()
        self._forget()
        self._tx.clear()
        opened = state is PortState.OPENED
        self._asks_ns = now_ns if opened else NEVER_NS
        self._silent_ns = now_ns + APPEARS_NS if opened else NEVER_NS
        return ()

    def next_due_ns(self) -> int:
        return min(self._asks_ns, self._silent_ns)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Ask for counts, and report silence."""
        found: list[Message] = []
        if now_ns >= self._silent_ns:
            found = self._silent.set(
                "no counts arrive: check the program of the board, dialect, line rate and power",
                now_ns,
            )
            self._forget()
            self._silent_ns, self._asks_ns = NEVER_NS, now_ns
        if now_ns >= self._asks_ns:
            request = encode_request(self.params.dialect, round(1e3 / self.params.rate_hz))
            self._tx.append(Send(request, now_ns + self._lifetime_ns, droppable=True))
            streams = self.params.dialect == "donkeycar" or self._before is None
            self._asks_ns = now_ns + (ASK_NS if streams else self._period_ns)
        return found

    def take_tx(self) -> Sequence[Action]:
        sent, self._tx = self._tx, []
        return sent

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        for line in self._lines.feed(data):
            counts = parse(line, self.params.dialect)
            if counts is None:
                self._lines.bad_lines += 1
                continue
            found += self._on_counts(counts, t_rx_ns)
        if self.usage.news:
            found += self.usage.take_events(t_rx_ns, "encoder")
        return found

    # ---------------------------------------------------------------- counts

    def _on_counts(self, counts: EncoderCounts, t_rx_ns: int) -> list[Message]:
        p = self.params
        if self._asks_ns != NEVER_NS and self._before is None:
            self._asks_ns = NEVER_NS if p.dialect == "donkeycar" else t_rx_ns + self._period_ns
        found = self._silent.set("", t_rx_ns)
        if self._silent_ns != NEVER_NS or self._asks_ns != NEVER_NS or found:
            self._silent_ns = t_rx_ns + round(p.silence_s * 1e9)
        if len(counts.ticks) < len(p.signs):
            self.usage.refuse("COUNTS", Unused.INCOMPLETE)
            text = f"{len(counts.ticks)} encoders are on the line, signs names {len(p.signs)}"
            return [*found, *self._wrong.set(text, t_rx_ns)]
        before, before_ns = self._before, self._before_ns
        self._before, self._before_ns = counts, t_rx_ns
        if before is None or len(before.ticks) != len(counts.ticks):
            return found
        interval_s = self._interval_s(before, counts, t_rx_ns - before_ns)
        if interval_s == 0.0:
            # Lines that arrive together without a clock: the newest counts from the same instant.
            self._before, self._before_ns = before, before_ns
            return found
        ways_m = [self._way_m(i, before, counts) for i in range(len(p.signs))]
        if interval_s < 0.0:
            self.usage.refuse("COUNTS", Unused.CONTRADICTION, "clock_ms", counts.clock_ms)
            restarted = Event.of(t_rx_ns, "warning", "encoder_restarted")
            self._ways_m = [0.0] * MOST_ENCODERS
            return [*found, restarted]
        fastest_mps = max(abs(ways_m[i]) for i in self._used) / interval_s
        if fastest_mps > p.max_speed_mps:
            self.usage.refuse("COUNTS", Unused.OUT_OF_RANGE, "ticks", str(counts.ticks)[:40])
            text = f"counts jump by {fastest_mps:.0f} m/s: lost bytes, a reset, or noise on a wire"
            return [*found, *self._wrong.set(text, t_rx_ns)]
        self._still_s = 0.0 if any(ways_m) else self._still_s + interval_s
        if self._still_s >= STILL_S:
            self._ways_m, self._contradicts = [0.0] * MOST_ENCODERS, ""
        contradiction = self._contradiction(ways_m)
        found += self._wrong.set(contradiction, t_rx_ns)
        if contradiction:
            self.usage.refuse("COUNTS", Unused.CONTRADICTION, "ticks")
            return found
        self.usage.use("COUNTS")
        if self._wanted:
            found.append(self._speed(ways_m, interval_s, t_rx_ns))
        return found

    def _interval_s(self, before: EncoderCounts, after: EncoderCounts, arrived_ns: int) -> float:
        """Return the time between two counts by the board's clock, or by their arrival; negative
        where the board has begun anew."""
        if before.clock_ms is None or after.clock_ms is None:
            return arrived_ns * 1e-9
        passed_ms = (after.clock_ms - before.clock_ms) & 0xFFFFFFFF
        if passed_ms > RESTARTED_MS:
            return -1.0
        return passed_ms * 1e-3

    def _way_m(self, index: int, before: EncoderCounts, after: EncoderCounts) -> float:
        """Return the distance of a wheel between two counts, forward positive, modulo the
        counter."""
        whole = 1 << self.params.counter_bits
        turned = (after.ticks[index] - before.ticks[index]) % whole
        if turned >= whole >> 1:
            turned -= whole
        return self.params.signs[index] * turned * self._tick_m

    def _contradiction(self, ways_m: Sequence[float]) -> str:
        """Return what the distances of the wheels since the last judgement contradict."""
        if len(self._used) < 2:
            return ""
        for i in self._used:
            self._ways_m[i] += ways_m[i]
        farthest = max(self._used, key=lambda i: abs(self._ways_m[i]))
        way_m = self._ways_m[farthest]
        if abs(way_m) < JUDGED_M:
            return self._contradicts
        found = ""
        for i in self._used:
            ratio = self._ways_m[i] / way_m
            if abs(ratio) < STANDING:
                found = (
                    f"encoder {i + 1} stands while encoder {farthest + 1} turns: check its wires"
                )
            elif ratio < -0.5:
                found = (
                    f"encoder {i + 1} turns against encoder {farthest + 1}: exchange A and B of "
                    "one, or its number in signs"
                )
        self._ways_m = [0.0] * MOST_ENCODERS
        self._contradicts = found
        return found

    def _speed(self, ways_m: Sequence[float], interval_s: float, t_rx_ns: int) -> WheelSpeed:
        n = len(self._used)
        speed_mps = sum(ways_m[i] for i in self._used) / (n * interval_s)
        sigma_mps = hypot(
            self.params.speed_sigma_mps,
            self._tick_m / (interval_s * sqrt(6.0 * n)),
            speed_mps * ROUNDING_MS * 1e-3 / interval_s,
        )
        age_ns = round(self.params.latency_ms * 1e6 + 0.5e9 * min(interval_s, 1.0))
        return WheelSpeed(t_rx_ns - age_ns, t_rx_ns, speed_mps, sigma_mps)

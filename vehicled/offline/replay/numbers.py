"""Differences between two runs of the machine as numbers, for a what-if and after a first
difference."""

from collections import deque
from collections.abc import Iterator
from math import hypot, nan, pi, remainder, sqrt

from msgspec import Struct

from vehicled.core.messages import (
    ActuatorCommand,
    Direction,
    GroundTruth,
    Message,
    StateEstimate,
    WireChunk,
)
from vehicled.offline.replay.compare import FieldDifference, different_fields, hex_of


class DifferenceStats(Struct):
    """RMS and largest magnitude of a difference."""

    n: int = 0
    rms: float = nan
    max: float = nan
    max_t_s: float = nan
    """Time of the largest difference since the start of the run, s."""
    unequal: int = 0
    """Number of values that were not exactly 0."""

    def add(self, t_s: float, value: float) -> None:
        """Count one value. The caller must pass NaN only if the other side has a value."""
        size = abs(value)
        self.n += 1
        self.rms = (
            sqrt((self.rms * self.rms * (self.n - 1) + size * size) / self.n)
            if self.n > 1
            else size
        )
        if value != 0.0:
            self.unequal += 1
        if not size <= self.max:
            self.max, self.max_t_s = size, t_s


class FrameDifference(Struct, frozen=True, kw_only=True):
    """First frame that differs, or that only one side has (the other is empty)."""

    t_s: float
    port: str
    log: str
    now: str
    first_byte: int
    command: list[FieldDifference]
    """Differences in the command of that instant."""

    def to_text(self) -> str:
        """Return the difference as a few lines of text."""
        lines = [
            (
                f"first frame that differs: {self.port} at t = {self.t_s:.6f} s, from byte "
                f"{self.first_byte}"
            ),
            f"  log {self.log or 'no frame'}",
            f"  now {self.now or 'no frame'}",
        ]
        return "\n".join(
            [
                *lines,
                *(
                    f"  command.{each.field}: log {each.log}, now {each.now}"
                    for each in self.command
                ),
            ]
        )


class ReplayDifferences(Struct, kw_only=True):
    """Differences, now minus log, in SI units; estimates after each fusion, commands after each
    actuation."""

    position_m: DifferenceStats
    yaw_rad: DifferenceStats
    speed_mps: DifferenceStats
    wheel_angle_rad: DifferenceStats
    throttle: DifferenceStats
    brake: DifferenceStats
    steering: DifferenceStats
    log_error_m: DifferenceStats
    """Position error of the estimate in the log against ground truth, if simulated."""
    now_error_m: DifferenceStats
    """Position error of the estimate made now."""
    other_mode: int = 0
    """Number of commands whose mode or reaction differs."""
    frames: int = 0
    """Number of frames compared."""
    frames_differ: int = 0
    """Number of frames whose bytes differ, or that only one side has."""


class ReplayPoint(Struct, frozen=True, gc=False):
    """Both sides after one fusion, for the plot. SI."""

    t_s: float
    log_x_m: float
    log_y_m: float
    now_x_m: float
    now_y_m: float
    position_m: float
    yaw_rad: float
    speed_mps: float


class CommandPoint(Struct, frozen=True, gc=False):
    """Command of both sides, for the plot."""

    t_s: float
    log_wheel_rad: float
    now_wheel_rad: float
    log_throttle: float
    now_throttle: float
    log_brake: float
    now_brake: float


class DifferenceMeter:
    """Pairs the outputs of both sides by time. Unpaired ones are ignored, except frames."""

    def __init__(self, start_ns: int, *, from_ns: int, keep: bool) -> None:
        """Count nothing before ``from_ns``; ``keep`` stores every pair for the plot."""
        self._start_ns, self._from_ns = start_ns, from_ns
        self.numbers = ReplayDifferences(
            **{name: DifferenceStats() for name in ReplayDifferences.__struct_fields__[:9]}  # type: ignore[arg-type]
        )
        self.first_frame: FrameDifference | None = None
        self.trace: list[ReplayPoint] | None = [] if keep else None
        self.commands: list[CommandPoint] | None = [] if keep else None
        self.truth: list[GroundTruth] = []
        """Two newest ground-truth messages; all with ``keep``."""
        self._keep = keep
        self._command: list[FieldDifference] = []
        self._then: dict[type[Message], deque[Message]] = {
            kind: deque() for kind in (StateEstimate, ActuatorCommand, WireChunk)
        }
        self._made: dict[type[Message], deque[Message]] = {kind: deque() for kind in self._then}

    def log(self, message: Message) -> None:
        """Add a record of the log."""
        if isinstance(message, GroundTruth):
            self.truth.append(message)
            if not self._keep and len(self.truth) > 2:
                del self.truth[0]
        elif type(message) in self._then:
            self._take(self._then, message)

    def now(self, message: Message) -> None:
        """Add a record of the replay."""
        if type(message) in self._made:
            self._take(self._made, message)

    def finish(self) -> None:
        """Finish the comparison once both sides are complete."""
        for side, other in ((self._then, self._made), (self._made, self._then)):
            for message in side[WireChunk]:
                self._frame(
                    message if side is self._then else None,
                    message if other is self._then else None,
                )
            side[WireChunk].clear()

    def _take(self, side: dict[type[Message], deque[Message]], message: Message) -> None:
        kind = type(message)
        if isinstance(message, WireChunk) and message.direction is Direction.RX:
            return
        side[kind].append(message)
        then, made = self._then[kind], self._made[kind]
        while then and made:
            a, b = then[0], made[0]
            if isinstance(a, WireChunk) and isinstance(b, WireChunk):
                early = (a.t_ns, a.port) < (b.t_ns, b.port)
                late = (a.t_ns, a.port) > (b.t_ns, b.port)
                if early or late:
                    self._frame(None if late else then.popleft(), None if early else made.popleft())
                    continue
                self._frame(then.popleft(), made.popleft())
                continue
            t_then, t_made = a.t_ns, b.t_ns  # type: ignore[attr-defined]
            if t_then != t_made:
                (then if t_then < t_made else made).popleft()
                continue
            then.popleft()
            made.popleft()
            if t_then < self._from_ns:
                continue
            if isinstance(a, StateEstimate) and isinstance(b, StateEstimate):
                self._estimates(a, b)
            elif isinstance(a, ActuatorCommand) and isinstance(b, ActuatorCommand):
                self._commands(a, b)

    def _frame(self, then: Message | None, made: Message | None) -> None:
        some = then or made
        assert isinstance(some, WireChunk)
        if some.t_ns < self._from_ns:
            return
        self.numbers.frames += 1
        a = then.data if isinstance(then, WireChunk) else b""
        b = made.data if isinstance(made, WireChunk) else b""
        if a == b and then is not None and made is not None:
            return
        self.numbers.frames_differ += 1
        if self.first_frame is None:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            self.first_frame = FrameDifference(
                t_s=self._s(some.t_ns),
                port=some.port,
                log=hex_of(a),
                now=hex_of(b),
                first_byte=at,
                command=self._command,
            )

    def _estimates(self, a: StateEstimate, b: StateEstimate) -> None:
        t_s, found = self._s(a.t_ns), self.numbers
        off = hypot(b.x_m - a.x_m, b.y_m - a.y_m)
        yaw = _turn(b.yaw_rad - a.yaw_rad)
        speed = b.speed_mps - a.speed_mps
        for spread, value in (
            (found.position_m, off),
            (found.yaw_rad, yaw),
            (found.speed_mps, speed),
        ):
            # The estimate is NaN until the estimator has started.
            if value == value:
                spread.add(t_s, value)
        if self.trace is not None:
            self.trace.append(ReplayPoint(t_s, a.x_m, a.y_m, b.x_m, b.y_m, off, yaw, speed))
        truth = self._truth_at(a.t_ns)
        if truth is not None and off == off:
            x, y = truth
            found.log_error_m.add(t_s, hypot(a.x_m - x, a.y_m - y))
            found.now_error_m.add(t_s, hypot(b.x_m - x, b.y_m - y))

    def _commands(self, a: ActuatorCommand, b: ActuatorCommand) -> None:
        t_s, found = self._s(a.t_ns), self.numbers
        if self.first_frame is None:
            self._command = different_fields(a, b)
        for name in ("wheel_angle_rad", "throttle", "brake", "steering"):
            value = getattr(b, name) - getattr(a, name)
            if value == value:
                getattr(found, name).add(t_s, value)
        if a.mode is not b.mode or a.reaction is not b.reaction:
            found.other_mode += 1
        if self.commands is not None:
            self.commands.append(
                CommandPoint(
                    t_s,
                    a.wheel_angle_rad,
                    b.wheel_angle_rad,
                    a.throttle,
                    b.throttle,
                    a.brake,
                    b.brake,
                )
            )

    def _truth_at(self, t_ns: int) -> tuple[float, float] | None:
        """Return the position by the newest two ground-truth messages; None if they are too far
        from that time."""
        if len(self.truth) < 2:
            return None
        a, b = self.truth[-2], self.truth[-1]
        span = b.t_ns - a.t_ns
        share = (t_ns - a.t_ns) / span if span > 0 else 0.0
        if not 0.0 <= share <= 4.0:
            return None
        return a.x_m + share * (b.x_m - a.x_m), a.y_m + share * (b.y_m - a.y_m)

    def _s(self, t_ns: int) -> float:
        return (t_ns - self._start_ns) * 1e-9


def _turn(angle_rad: float) -> float:
    return remainder(angle_rad, 2.0 * pi) if angle_rad - angle_rad == 0.0 else nan


def rows(numbers: ReplayDifferences) -> Iterator[tuple[str, DifferenceStats, str]]:
    """Yield name, values and unit of each difference, for tables."""
    yield "estimate: position", numbers.position_m, "m"
    yield "estimate: heading", numbers.yaw_rad, "rad"
    yield "estimate: speed", numbers.speed_mps, "m/s"
    yield "command: wheel angle", numbers.wheel_angle_rad, "rad"
    yield "command: throttle", numbers.throttle, ""
    yield "command: brake", numbers.brake, ""

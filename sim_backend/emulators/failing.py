"""Fault injection: an emulator that wraps another. :mod:`sim_backend.emulators.failures` lists the
kinds.

Wrong values are put into the messages before the device encodes them, so that frames stay valid;
connection failures act on the bytes. The true vehicle is affected through its actuators only.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import cos, exp, inf, isnan, nan, pi, sin, tau
from typing import TypeVar

from msgspec.structs import replace

from sim_backend.emulators.failures import (
    SECOND_NS,
    BaudForcible,
    Failure,
    FailureInjectable,
    Restartable,
    value_of,
)
from sim_backend.emulators.interface import NEVER_NS, DriveCommand, Emulator, Transmission
from sim_backend.sensors.noise import stream
from vehicled.core.messages import (
    CarrierSolution,
    GnssFix,
    Heading,
    ImuSample,
    LaserScan,
    MapPose,
    Message,
    MotorStatus,
    ReferenceState,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2

HOLD_NS = 50_000_000
"""Interval at which a stuck actuator board repeats its pulse, so that no timeout behind it
triggers."""
DRIFT_S = 5.0
"""Time constant of the drift of a float solution."""
WRONG = {
    GnssFix: 10.0, ImuSample: 0.5, Heading: 0.5, MotorStatus: 0.5, WheelSpeed: 0.5,
    SteeringFeedback: 0.2, DriveCommand: 0.3, ReferenceState: 10.0, LaserScan: 1.0,
    MapPose: 1.0,
}  # fmt: skip
"""Default errors of a wrong value: m, rad/s of yaw, rad, ratio, ratio, rad, fraction of full
steering, m, m, m."""
FULL_SCALE_MPS2 = 16 * STANDARD_GRAVITY_MPS2
FULL_SCALE_RADPS = 2000 * pi / 180
_EARTH_RADIUS_M = 6_371_000.0
_GONE = frozenset({"off", "usb", "brownout"})
_BLIND = frozenset({"no_fix", "cold_start"})


Positioned = TypeVar("Positioned", GnssFix, ReferenceState)


def _turned(command: DriveCommand, off: float) -> DriveCommand:
    """Return a command whose steering is off, of several motors the last one."""
    outputs = (*command.outputs[:-1], command.outputs[-1] + off) if command.outputs else ()
    return command._replace(steering=command.steering + off, outputs=outputs)


class _Episode:
    """One failure with its random stream."""

    def __init__(self, failure: Failure, value: float, seed: int, start_ns: int) -> None:
        self.kind = failure.kind
        self.value = value
        self.start_ns = start_ns + round(failure.start_s * SECOND_NS)
        end_s = failure.start_s + failure.duration_s
        self.end_ns = (
            start_ns + round(end_s * SECOND_NS) if end_s < NEVER_NS / SECOND_NS / 2 else NEVER_NS
        )
        self.chance = stream(seed, f"failure {failure}")
        self.direction_rad = float(self.chance.uniform(0.0, tau))
        self.held: dict[type[Message], Message] = {}
        self.passed = 0
        self._turns: list[bool] = []

    def active(self, t_ns: int) -> bool:
        return self.start_ns <= t_ns < self.end_ns

    def open_contact(self, t_ns: int) -> bool:
        """True while the loose contact interrupts. Depends on the time only, not on the past."""
        turn = int((t_ns - self.start_ns) // (self.value * SECOND_NS))
        while len(self._turns) <= turn:
            self._turns.append(bool(self.chance.random() < 0.5))
        return self._turns[turn]

    def lets_pass(self) -> bool:
        """Count a value; True for every n-th."""
        self.passed += 1
        return self.passed % round(self.value) == 0


class FailingEmulator:
    """Emulator with failures, see :class:`sim_backend.emulators.interface.Emulator`."""

    def __init__(
        self,
        emulator: Emulator,
        failures: Sequence[Failure],
        messages: Sequence[str],
        seed: int,
        start_ns: int,
    ) -> None:
        """``failures`` are those of this port; ``messages`` are the types it sends.

        Raises :class:`sim_backend.emulators.failures.FailureError` for a failure that this port
        cannot have.
        """
        self._emulator = emulator
        self.failures = tuple(failures)
        """Failures of this port; those of an RC handset are done by its sensor."""
        self._episodes = [
            _Episode(failure, value_of(failure, messages, emulator), seed, start_ns)
            for failure in failures
        ]
        self._edges: list[tuple[int, int, bool]] = []
        for i, episode in enumerate(self._episodes):
            heappush(self._edges, (episode.start_ns, i, True))
            if episode.end_ns != NEVER_NS:
                heappush(self._edges, (episode.end_ns, i, False))
        self._newest: dict[type[Message], Message] = {}
        self._late_rx: deque[tuple[int, bytes]] = deque()
        self._arrived_ns = start_ns
        self._command: DriveCommand | None = None
        self._commands: list[DriveCommand] = []
        self._hold_ns = NEVER_NS

    @property
    def emulator(self) -> Emulator:
        """Wrapped emulator without failures."""
        return self._emulator

    def plugged(self, now_ns: int) -> bool:
        """True unless the port has vanished from the daemon's machine."""
        return not any(
            episode.kind == "usb" and episode.active(now_ns) for episode in self._episodes
        )

    # ---------------------------------------------------------------- Emulator interface

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Corrupt or withhold the value."""
        t_ns = getattr(message, "t_ns", ready_ns)
        passed_on: Message | None = message
        for episode in self._episodes:
            if passed_on is not None and episode.active(t_ns):
                passed_on = self._spoilt(passed_on, episode, t_ns)
        self._newest[type(message)] = message
        if passed_on is not None:
            self._emulator.on_message(passed_on, ready_ns)

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Corrupt or withhold the daemon's bytes."""
        late_ns = 0
        for episode in self._episodes:
            if episode.active(t_ns):
                if episode.kind == "delayed":
                    late_ns += round(episode.value * SECOND_NS)
                data = _spoilt_bytes(data, episode, t_ns)
        if not data:
            return
        if late_ns or self._late_rx:
            # A cable keeps its order.
            due_ns = t_ns + late_ns
            self._late_rx.append(
                (max(due_ns, self._late_rx[-1][0]) if self._late_rx else due_ns, data)
            )
        else:
            self._emulator.on_rx(data, t_ns)

    def on_line(self, baud: int, t_ns: int) -> None:
        """Pass the line rate on; the daemon's end of the line never fails."""
        self._emulator.on_line(baud, t_ns)

    def next_due_ns(self) -> int:
        """Time of the device's next duty or of the next begin or end."""
        return min(self._emulator.next_due_ns(), self._own_due_ns())

    def on_time(self, now_ns: int) -> None:
        """Run in order: the device's duties up to the event, then the event."""
        while (due_ns := self._own_due_ns()) <= now_ns:
            if self._emulator.next_due_ns() <= due_ns:
                self._emulator.on_time(due_ns)
                self._take_commands()
            if self._edges and self._edges[0][0] == due_ns:
                _, i, begins = heappop(self._edges)
                self._turn(self._episodes[i], begins, due_ns)
            elif self._late_rx and self._late_rx[0][0] == due_ns:
                self._emulator.on_rx(self._late_rx.popleft()[1], due_ns)
            else:
                if self._command is not None:
                    self._commands.append(self._command._replace(t_ns=due_ns))
                self._hold_ns = due_ns + HOLD_NS
        self._emulator.on_time(now_ns)

    def take_tx(self) -> Sequence[Transmission]:
        sent = []
        for arrives_ns, data in self._emulator.take_tx():
            t_ns, hangs_up = arrives_ns, not data
            for episode in self._episodes:
                if episode.active(arrives_ns):
                    if episode.kind == "delayed":
                        t_ns += round(episode.value * SECOND_NS)
                    data = _spoilt_bytes(data, episode, arrives_ns)
            if data or hangs_up:
                self._arrived_ns = max(t_ns, self._arrived_ns)
                sent.append((self._arrived_ns, data))
        return sent

    def take_commands(self) -> Sequence[DriveCommand]:
        self._take_commands()
        commands, self._commands = self._commands, []
        return commands

    # ---------------------------------------------------------------- begin and end of failures

    def _own_due_ns(self) -> int:
        due_ns = self._edges[0][0] if self._edges else NEVER_NS
        if self._late_rx:
            due_ns = min(due_ns, self._late_rx[0][0])
        return min(due_ns, self._hold_ns)

    def _turn(self, episode: _Episode, begins: bool, now_ns: int) -> None:
        emulator, kind = self._emulator, episode.kind
        if kind == "stuck":
            self._hold_ns = now_ns if begins and self._command is not None else NEVER_NS
        elif kind == "baud" and isinstance(emulator, BaudForcible):
            emulator.force_baud(round(episode.value) if begins else 0)
        elif begins is (kind == "cold_start") and kind in ("usb", "brownout", "cold_start"):
            if isinstance(emulator, Restartable):
                emulator.restart(now_ns)
        elif isinstance(emulator, FailureInjectable) and kind in emulator.kinds:
            emulator.inject(kind, episode.value, begins, now_ns)

    # ---------------------------------------------------------------- values

    def _take_commands(self) -> None:
        for command in self._emulator.take_commands():
            passes = True
            for episode in self._episodes:
                if not episode.active(command.t_ns):
                    continue
                if episode.kind == "stuck":
                    passes = False
                elif episode.kind == "slow":
                    passes = passes and episode.lets_pass()
                elif episode.kind == "wrong":
                    off = WRONG[DriveCommand] if isnan(episode.value) else episode.value
                    command = _turned(command, off)
                elif episode.kind == "pull":
                    command = _turned(command, episode.value)
                elif episode.kind == "steering_reversed":
                    command = command._replace(steered=-1.0)
                elif episode.kind == "steering_stuck":
                    command = command._replace(steered=0.0)
                elif episode.kind == "rear_steering":
                    command = command._replace(rear=episode.value)
                elif episode.kind == "blocked":
                    command = command._replace(
                        throttle=0.0, brake=1.0, outputs=(0.0,) * len(command.outputs)
                    )
                elif episode.kind == "runaway":
                    runaway = (episode.value,) * len(command.outputs)
                    command = command._replace(throttle=episode.value, brake=0.0, outputs=runaway)
            if passes:
                self._command = command
                self._commands.append(command)

    def _spoilt(self, message: Message, episode: _Episode, t_ns: int) -> Message | None:
        kind = episode.kind
        if kind == "stuck":
            held = episode.held.setdefault(type(message), self._newest.get(type(message), message))
            now = {
                name: getattr(message, name)
                for name in ("t_ns", "t_rx_ns", "utc_ns")
                if hasattr(message, name)
            }
            return replace(held, **now)
        if kind == "wrong":
            value = WRONG.get(type(message), 0.0) if isnan(episode.value) else episode.value
            return _wrong(message, value, episode.direction_rad)
        if kind == "slow":
            return message if episode.lets_pass() else None
        if kind in _BLIND:
            return _blind(message, knows_time=kind == "no_fix")
        if kind == "float" and isinstance(message, GnssFix):
            return _float(message, episode, t_ns)
        if kind == "multipath" and isinstance(message, GnssFix):
            return _aside(message, episode.value, episode.direction_rad)
        if kind == "saturation" and isinstance(message, ImuSample):
            force, rate = episode.value * FULL_SCALE_MPS2, episode.value * FULL_SCALE_RADPS
            x, y, _ = message.angular_rate_radps
            _, side, up = message.specific_force_mps2
            return replace(
                message,
                specific_force_mps2=(force, side, up),
                angular_rate_radps=(x, y, rate),
                saturated=True,
            )
        if kind == "slip":
            return (
                _wrong(message, episode.value, 0.0)
                if isinstance(message, MotorStatus | WheelSpeed)
                else message
            )
        if kind == "heat" and isinstance(message, MotorStatus):
            return replace(
                message, motor_temperature_k=episode.value, controller_temperature_k=episode.value
            )
        if isinstance(message, LaserScan) and kind in _SCENERY:
            return replace(message, ranges_m=_SCENERY[kind](message, episode))
        if kind == "battery" and isinstance(message, MotorStatus):
            return replace(message, input_voltage_v=episode.value)
        return message


def _spoilt_bytes(data: bytes, episode: _Episode, t_ns: int) -> bytes:
    if episode.kind in _GONE or (episode.kind == "intermittent" and episode.open_contact(t_ns)):
        return b""
    return episode.chance.bytes(len(data)) if episode.kind == "garbage" else data


def _aside(fix: Positioned, distance_m: float, direction_rad: float) -> Positioned:
    """Shift the position horizontally; what is reported of its accuracy does not change."""
    north = distance_m * sin(direction_rad) / _EARTH_RADIUS_M
    east = distance_m * cos(direction_rad) / _EARTH_RADIUS_M
    return replace(
        fix,
        latitude_rad=fix.latitude_rad + north,
        longitude_rad=fix.longitude_rad + east / max(cos(fix.latitude_rad), 1e-6),
    )


def _wrong(message: Message, off: float, direction_rad: float) -> Message:
    if isinstance(message, GnssFix):
        return _aside(message, off, direction_rad)
    if isinstance(message, ReferenceState):
        return _aside(message, off, direction_rad)
    if isinstance(message, MapPose):
        return replace(
            message,
            x_m=message.x_m + off * cos(direction_rad),
            y_m=message.y_m + off * sin(direction_rad),
        )
    if isinstance(message, ImuSample):
        x, y, z = message.angular_rate_radps
        return replace(message, angular_rate_radps=(x, y, z + off))
    if isinstance(message, Heading):
        return replace(message, yaw_rad=message.yaw_rad + off)
    if isinstance(message, MotorStatus):
        return replace(message, motor_speed_radps=message.motor_speed_radps * (1.0 + off))
    if isinstance(message, WheelSpeed):
        return replace(message, speed_mps=message.speed_mps * (1.0 + off))
    if isinstance(message, SteeringFeedback):
        return replace(message, wheel_angle_rad=message.wheel_angle_rad + off)
    if isinstance(message, LaserScan):
        return replace(message, ranges_m=tuple([each + off for each in message.ranges_m]))
    return message


def _rain(scan: LaserScan, episode: _Episode) -> tuple[float, ...]:
    hit, where = episode.chance.random((2, len(scan.ranges_m))).tolist()
    most = [
        min(each, scan.range_max_m) if each > 0.0 else scan.range_max_m for each in scan.ranges_m
    ]
    return tuple(
        scan.range_min_m + at * max(far - scan.range_min_m, 0.0) if met < episode.value else each
        for each, far, met, at in zip(scan.ranges_m, most, hit, where)
    )


def _mirror(scan: LaserScan, episode: _Episode) -> tuple[float, ...]:
    half = len(scan.ranges_m) // 2
    return tuple([each * 2.0 if i < half else each for i, each in enumerate(scan.ranges_m)])


_SCENERY: dict[str, Callable[[LaserScan, _Episode], tuple[float, ...]]] = {
    "no_returns": lambda scan, _: (inf,) * len(scan.ranges_m),
    "rain": _rain,
    "mirror": _mirror,
}
"""Ranges that a scanner measures in surroundings that deceive it."""


def _blind(message: Message, *, knows_time: bool) -> Message:
    if isinstance(message, GnssFix):
        return GnssFix(
            message.t_ns, message.t_rx_ns, nan, nan, nan, utc_ns=message.utc_ns if knows_time else 0
        )
    if isinstance(message, Heading):
        return replace(message, yaw_rad=nan, sigma_rad=nan)
    if isinstance(message, ReferenceState):
        return replace(message, latitude_rad=nan, longitude_rad=nan, height_m=nan)
    return message


def _float(fix: GnssFix, episode: _Episode, t_ns: int) -> GnssFix:
    """Drift off, up to ``value``; the reported covariance grows at once."""
    drifted_m = episode.value * (1.0 - exp(-(t_ns - episode.start_ns) / SECOND_NS / DRIFT_S))
    covariance = list(fix.position_covariance_m2)
    for at, factor in ((0, 1.0), (4, 1.0), (8, 4.0)):
        covariance[at] += factor * episode.value**2
    moved = _aside(fix, drifted_m, episode.direction_rad)
    carrier = min(fix.carrier, CarrierSolution.FLOAT)
    return replace(moved, carrier=carrier, position_covariance_m2=tuple(covariance))

"""State of the page: its content, from log records and the state of the run. Without I/O and clock:
bytes and times are arguments.

A page gets the full content with its history once, then changes ten times a second. All history is
bounded.
"""

from collections import deque
from collections.abc import Callable
from math import atan2, hypot, isfinite, sqrt
from typing import Any

import msgspec

from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    GnssFix,
    GroundTruth,
    HostHealth,
    Message,
    MotorStatus,
    StateEstimate,
    TaskTick,
    TimePulse,
    VirtualScan,
    virtual_returns,
)
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.live.view.deadlines import DeadlineWindow
from vehicled.live.view.log_tail import KINDS, LogTail
from vehicled.live.view.wire import ViewConfig
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.schema import CHANNELS
from vehicled.ros.cdr import CdrError, unpacker

NEWEST: tuple[type[Message], ...] = (
    StateEstimate,
    ControlCommand,
    ActuatorCommand,
    GnssFix,
    TimePulse,
    MotorStatus,
    HostHealth,
    GroundTruth,
    VirtualScan,
)
"""Message types of which only the newest is kept."""
PLOT_SAMPLES = 600
"""Length of the plots: a minute at ten samples a second."""
MOST_TRAIL = 4_000
TRAIL_STEP_M = 0.05


class PageState:
    """Newest messages and a bounded history."""

    def __init__(self, opening: ViewConfig) -> None:
        self._opening = opening
        kinds: tuple[type[Message], ...] = (*NEWEST, *KINDS, TaskTick)
        self._decode: dict[int, tuple[type[Message], Callable[[bytes], Any]]] = {
            CHANNELS[kind].id: (kind, unpacker(kind)) for kind in kinds
        }
        self._newest: dict[type[Message], bytes] = {}
        self._deadlines = DeadlineWindow(opening.tasks)
        self.log = LogTail()
        self._trail: deque[tuple[float, float]] = deque(maxlen=MOST_TRAIL)
        self._fresh_trail: list[tuple[float, float]] = []
        self._plot: deque[list[float | None]] = deque(maxlen=PLOT_SAMPLES)
        self._status: dict[str, Any] = {}
        self._snapshot: dict[str, Any] = {}
        self._fresh_snapshot = False
        self._last_line = 0
        self._ticks = 0
        self.t_s = 0.0
        """Newest time of the run, s."""
        self.torn = 0
        """Number of frames with invalid records."""

    @property
    def status(self) -> dict[str, Any]:
        """Return the newest state of the run; empty before the first."""
        return self._status

    def records(self, data: bytes) -> None:
        """Process records of the log. Never raises."""
        decode = self._decode
        try:
            for offset, length, channel, _, log_time in message_heads(data):
                route = decode.get(channel)
                if route is None:
                    continue
                start = offset + MESSAGE_HEAD.size
                kind, unpack = route
                self.t_s = max(self.t_s, self._run_s(log_time))
                if kind is TaskTick:
                    self._deadlines.add(unpack(data[start : start + length]))
                elif kind in KINDS:
                    self.log.add(unpack(data[start : start + length]), self._run_s(log_time))
                else:
                    self._newest[kind] = data[start : start + length]
        except (ValueError, CdrError):
            self.torn += 1
        self._follow()

    def snapshot(self, data: bytes) -> None:
        """Process a state of the run, as JSON. Never raises."""
        try:
            snapshot = msgspec.json.decode(data, type=dict[str, Any])
            self._status = snapshot["status"]
        except (msgspec.DecodeError, KeyError):
            self.torn += 1
            return
        self._snapshot, self._fresh_snapshot = snapshot, True

    # # ------------------------------------------------------------------ output for pages

    def hello(self, **more: Any) -> str:
        """Return all constant facts and the history."""
        opening = self._opening
        facts = {
            name: getattr(opening, name)
            for name in (
                "profile", "estimator", "controller", "simulated", "version", "log", "session",
                "max_speed_mps", "corridor_m", "max_wheel_rad", "wheelbase_m", "tasks", "course",
                "fence", "silence_s", "mixed",
            )
        }  # fmt: skip
        history = {
            "trail": list(self._trail),
            "plot": list(self._plot),
            "log": list(self.log.lines),
        }
        return _text(
            {
                "k": "hello",
                "facts": facts,
                "matrix": opening.matrix,
                "history": history,
                "state": self._snapshot or None,
                **more,
            }
        )

    def tick(self, silent_s: float) -> str:
        """Return the changes. ``silent_s`` is the time since the last data from the daemon."""
        self._ticks += 1
        newest = {kind: self._value(kind) for kind in NEWEST}
        message: dict[str, Any] = {
            "k": "tick",
            "n": self._ticks,
            "t": round(self.t_s, 3),
            "silent_s": round(silent_s, 2),
        }
        message |= {
            "now": _now(newest),
            "trail": self._fresh_trail,
            "log": self.log.since(self._last_line),
        }
        self._fresh_trail = []
        self._last_line = self.log.lines[-1][0] if self.log.lines else 0
        sample = [round(self.t_s, 3), *_plotted(newest), *self._deadlines.take_worst_ms()]
        if not self._plot or self._plot[-1][0] != sample[0]:
            self._plot.append(sample)
            message["plot"] = sample
        if self._ticks % 5 == 1:
            message["tasks"] = self._deadlines.rows()
        if self._fresh_snapshot:
            self._fresh_snapshot = False
            message["state"] = self._snapshot
        return _text(message)

    # # ------------------------------------------------------------------ private

    def _run_s(self, utc_ns: int) -> float:
        return (utc_ns - self._opening.offset_ns - self._opening.started_ns) * 1e-9

    def _value(self, kind: type[Message]) -> Any:
        payload = self._newest.get(kind)
        return None if payload is None else self._decode[CHANNELS[kind].id][1](payload)

    def _follow(self) -> None:
        """Extend the driven path."""
        payload = self._newest.get(StateEstimate)
        if payload is None:
            return
        try:
            estimate: StateEstimate = self._value(StateEstimate)
        except CdrError:
            del self._newest[StateEstimate]
            return
        place = round(estimate.x_m, 3), round(estimate.y_m, 3)
        if isfinite(place[0] + place[1]) and (
            not self._trail
            or hypot(place[0] - self._trail[-1][0], place[1] - self._trail[-1][1]) >= TRAIL_STEP_M
        ):
            self._trail.append(place)
            self._fresh_trail = [*self._fresh_trail, place][-MOST_TRAIL:]


def _now(newest: dict[type[Message], Any]) -> dict[str, Any]:
    """Return the newest values, in units for people."""
    return {name: make(newest[kind]) for name, kind, make in _MAKERS if newest[kind] is not None}


def _estimate(m: StateEstimate) -> dict[str, Any]:
    return {
        "x": _r(m.x_m), "y": _r(m.y_m), "yaw": _r(m.yaw_rad), "v": _r(m.speed_mps),
        "status": m.status.name,
        "ellipse": ellipse(m.covariance[0], m.covariance[1], m.covariance[5]),
        "sigma_yaw": _r(sqrt(max(m.covariance[10], 0.0))) if isfinite(m.covariance[10]) else None,
    }  # fmt: skip


def _control(m: ControlCommand) -> dict[str, Any]:
    return {
        "target": _r(m.target_speed_mps), "off": _r(m.cross_track_m), "progress": _r(m.progress_m),
        "level": m.level.name.lower(), "reason": m.reason.name.lower(),
    }  # fmt: skip


def _actuator(m: ActuatorCommand) -> dict[str, Any]:
    ages = (m.gnss_age_ns, m.imu_age_ns, m.odometry_age_ns)
    return {
        "throttle": _r(m.throttle), "brake": _r(m.brake), "wheel": _r(m.wheel_angle_rad),
        "ages": [None if age < 0 else round(age * 1e-6, 1) for age in ages],
    }  # fmt: skip


def _gnss(m: GnssFix) -> dict[str, Any]:
    return {
        "carrier": m.carrier.name.lower(), "fix": m.fix_type.name.lower(),
        "satellites": m.satellites, "correction_s": _r(m.correction_age_s),
    }  # fmt: skip


def _pulse(m: TimePulse) -> dict[str, Any]:
    known = isfinite(m.clock_offset_s)
    return {"clock_us": round(1e6 * m.clock_offset_s, 1) if known else None}


def _motor(m: MotorStatus) -> dict[str, Any]:
    temperatures = [
        t - ZERO_CELSIUS_K
        for t in (m.motor_temperature_k, m.controller_temperature_k)
        if isfinite(t)
    ]
    return {
        "volts": _r(m.input_voltage_v), "amperes": _r(m.input_current_a), "fault": m.fault_code,
        "celsius": _r(max(temperatures)) if temperatures else None,
    }  # fmt: skip


def _host(m: HostHealth) -> dict[str, Any]:
    return {
        "cpu": _r(m.cpu_busy_share), "memory_free": _r(m.memory_free_share),
        "disk_free": _r(m.disk_free_share), "celsius": _r(m.temperature_k - ZERO_CELSIUS_K),
        "throttled": m.throttled,
    }  # fmt: skip


def _truth(m: GroundTruth) -> dict[str, Any]:
    return {"x": _r(m.x_m), "y": _r(m.y_m), "yaw": _r(m.yaw_rad)}


def _virtual(m: VirtualScan) -> dict[str, Any]:
    return {"points": [(round(x, 2), round(y, 2)) for x, y in virtual_returns(m)]}


_MAKERS: tuple[tuple[str, type[Message], Callable[[Any], dict[str, Any]]], ...] = (
    ("estimate", StateEstimate, _estimate),
    ("control", ControlCommand, _control),
    ("actuator", ActuatorCommand, _actuator),
    ("gnss", GnssFix, _gnss),
    ("pulse", TimePulse, _pulse),
    ("motor", MotorStatus, _motor),
    ("host", HostHealth, _host),
    ("truth", GroundTruth, _truth),
    ("virtual", VirtualScan, _virtual),
)


def _plotted(newest: dict[type[Message], Any]) -> list[float | None]:
    """Return speed, target speed, cross-track error, wheel angle, throttle, brake."""
    estimate = newest[StateEstimate]
    control = newest[ControlCommand]
    actuator = newest[ActuatorCommand]
    return [
        _r(estimate.speed_mps) if estimate is not None else None,
        _r(control.target_speed_mps) if control is not None else None,
        _r(control.cross_track_m) if control is not None else None,
        _r(actuator.wheel_angle_rad) if actuator is not None else None,
        _r(actuator.throttle) if actuator is not None else None,
        _r(actuator.brake) if actuator is not None else None,
    ]


def ellipse(xx: float, xy: float, yy: float) -> tuple[float, float, float] | None:
    """Return the half axes (m, one sigma) and the direction (rad) of the larger one; None for an
    invalid covariance."""
    if not isfinite(xx + xy + yy):
        return None
    mean, spread = (xx + yy) / 2.0, hypot((xx - yy) / 2.0, xy)
    if mean - spread < -1e-12:
        return None
    return (
        round(sqrt(mean + spread), 5),
        round(sqrt(max(mean - spread, 0.0)), 5),
        round(atan2(2.0 * xy, xx - yy) / 2.0, 4),
    )


def _r(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


def _text(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()

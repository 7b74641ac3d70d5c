"""An opening of the live view for tests, and records as the log packs them."""

import struct
from collections.abc import Iterable
from typing import Any

from vehicled.core.messages import Cause, EstimatorStatus, Message, StateEstimate, TaskTick
from vehicled.live.view.wire import CourseFacts, RingFacts, TaskFacts, ViewConfig
from vehicled.log.sink import LogSink
from vehicled.safety.margins import rows

OFFSET_NS = 1_700_000_000 * 10**9
STARTED_NS = 5 * 10**9


def opening(**changes: Any) -> ViewConfig:
    """Return the opening of a read-only view on this machine."""
    facts: dict[str, Any] = {
        "host": "127.0.0.1", "port": 0, "token": "", "names": [], "foxglove": True, "teleop": False,
        "control_socket": "", "most_throttle": 0.5, "silence_s": 0.2, "started_ns": STARTED_NS,
        "offset_ns": OFFSET_NS, "session": "a", "profile": "art", "estimator": "ekf4",
        "controller": "mpc", "simulated": True, "version": "0", "log": "", "max_speed_mps": 3.0,
        "corridor_m": 0.8, "max_wheel_rad": 0.4, "wheelbase_m": 0.5,
        "tasks": [TaskFacts("control", 100.0, 6.0), TaskFacts("actuation", 100.0, 8.0)],
        "course": CourseFacts("line", 10.0, False, [0.0, 10.0], [0.0, 0.0]), "matrix": rows(),
        "fence": [RingFacts([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], True)],
    }  # fmt: skip
    return ViewConfig(**(facts | changes))


def packed(messages: Iterable[tuple[Message, int]]) -> bytes:
    """Messages with their times on the daemon's clock, as the loop delivers them."""
    sink = LogSink(OFFSET_NS)
    sink.copy_records()
    for message, t_ns in messages:
        sink.record(message, t_ns)
    return b"".join(sink.take_copy())


def estimate(x_m: float, y_m: float = 0.0, t_ns: int = STARTED_NS) -> StateEstimate:
    """A running estimate with a sigma of 3 by 1 cm."""
    covariance = (9e-4, 0.0, 0.0, 0.0, 0.0, 1e-4, *(0.0,) * 4, 4e-4, *(0.0,) * 5)
    return StateEstimate(t_ns, t_ns, x_m, y_m, 0.3, 1.5, 0.1, covariance, EstimatorStatus.RUNNING)


def tick(
    t_ns: int,
    response_ms: float,
    task: int = 0,
    *,
    missed: bool = False,
    cause: Cause = Cause.NONE,
    holder: int = 255,
) -> TaskTick:
    """A release of a task."""
    end_ns = t_ns + round(response_ms * 1e6)
    return TaskTick(t_ns, t_ns, end_ns, -1, 6_000_000, 0, task, missed, cause, holder)


def frame(kind: int, data: bytes) -> bytes:
    """Return a frame as it goes through the pipe."""
    return struct.pack("<IB", len(data), kind) + data

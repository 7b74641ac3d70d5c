"""Log records beside measurements and decisions: wire bytes, task ticks, machine calls, faults,
events, ports and the course."""

from enum import IntEnum
from typing import Any

from msgspec import json

from vehicled.core.messages.base import NAN, Float64s, Int64, Message, UInt8, UInt32
from vehicled.core.messages.decisions import Mode, Reaction


class Direction(IntEnum):
    """Direction of bytes on a port, seen from the daemon."""

    RX = 0
    TX = 1


class WireChunk(Message, frozen=True):
    """Bytes as they crossed a port."""

    t_ns: Int64
    port: str
    direction: Direction
    data: bytes
    checksum: UInt32 = 0
    """CRC-32 of received bytes, which locates an altered byte of a journal; 0 for sent bytes."""


class Cause(IntEnum):
    """Cause of a missed deadline."""

    NONE = 0
    COMPUTE = 1
    """The task used more CPU time than its deadline allows."""
    BLOCKED = 2
    """The task blocked: a call that waits."""
    PREEMPTED = 3
    """Another thread, process or the hypervisor used the processor."""
    GARBAGE_COLLECTION = 4
    PAGE_FAULT = 5
    QUEUED = 6
    """An earlier task of the same instant held the loop."""
    LOOP_HELD = 7
    """A callback of the runtime held the loop."""
    WAKE_UP = 8
    """The loop slept and the kernel woke it late."""
    DECLARED = 9
    """Simulation only: declared or injected costs exceed the deadline."""
    SIMULATOR = 10
    """Simulation only: the clock waited for the simulator and then jumped over the release."""
    STOPPED = 11
    """A stop signal, as of job control or a debugger, stopped the process."""
    NO_SCHEDSTAT = 12
    """No cause: blocked or preempted, which only a kernel with scheduler statistics
    distinguishes."""
    NO_LOOP_RECORD = 13
    """No cause: this event loop does not record its sleeps."""
    EVIDENCE_FAILED = 14
    """No cause, because looking for it raised."""
    UNKNOWN = 15
    """No cause, although all evidence was there."""


class TaskTick(Message, frozen=True):
    """One release of a fixed-rate task. ``task`` indexes the rate table in the log's header."""

    release_ns: Int64
    start_ns: Int64
    end_ns: Int64
    cpu_ns: Int64
    """Thread CPU time between start and end; -1 if not measured."""
    deadline_ns: Int64
    """Largest allowed response."""
    skipped: UInt32
    """Releases after this one that were skipped because it was late."""
    task: UInt8
    missed: bool
    cause: Cause
    holder: UInt8
    """Number of the task (QUEUED) or runtime callback (LOOP_HELD) that held the loop. For BLOCKED
    and PAGE_FAULT in another run: the task or, from 128 on, the callback. 255: none."""


class GarbageCollection(Message, frozen=True):
    """One long run of Python's garbage collector, which stops the whole daemon."""

    t_ns: Int64
    """Start of the collection."""
    duration_ns: Int64
    generation: UInt8
    """0 to 2; 2 scans all objects that are not frozen."""
    collected: UInt32
    """Number of objects freed."""


class Fault(Message, frozen=True):
    """Start or end of a fault episode, never one line per tick."""

    t_ns: Int64
    code: str
    origin: str
    reaction: Reaction
    active: bool
    reason: str
    """Text for people; programs use the other fields."""
    value: float = NAN
    """Value that the rule compares, in ``unit``, at this moment; NaN if the fault is not a
    comparison of numbers."""
    limit: float = NAN
    unit: str = ""


class ModeChange(Message, frozen=True):
    """Change of the daemon's mode, with its reason. Older logs have a :class:`Fault` with the code
    ``mode`` in its place."""

    t_ns: Int64
    before: Mode
    after: Mode
    reaction: Reaction
    code: str
    """Code of the reason: of a rule, of a fault that a device reports, or of
    :class:`~vehicled.safety.reason.ReasonCode`."""
    origin: str
    """Origin of the request or of the device's fault; empty if the supervisor acts on its own."""
    first_code: str
    """Code of the reason that began the stop; equal to ``code`` unless a later reason made the stop
    harder."""
    reason: str
    """Text for people; programs use the other fields."""
    value: float = NAN
    """Value that the rule compared when it tripped, in ``unit``; NaN if the reason is not a
    comparison of numbers."""
    limit: float = NAN
    unit: str = ""


def as_text(facts: Any) -> str:
    """Return the facts of an event as JSON, numbers of numpy as numbers and anything unknown as
    text."""
    return json.encode(
        facts, enc_hook=lambda value: value.item() if hasattr(value, "item") else str(value)
    ).decode()


class Event(Message, frozen=True):
    """Line of the event log, also sent to the system journal. ``fields`` is JSON."""

    t_ns: Int64
    level: str
    name: str
    fields: str

    @classmethod
    def of(cls, t_ns: int, level: str, name: str, /, **facts: Any) -> "Event":
        """Return an event with its facts; those that a program reads have a type in
        :mod:`vehicled.core.events`."""
        return cls(t_ns, level, name, as_text(facts))


class PortState(IntEnum):
    """Life of a port."""

    OPENED = 0
    LOST = 1
    ERROR = 2


class PortEvent(Message, frozen=True):
    """A port opened, was lost, or could not be opened."""

    t_ns: Int64
    port: str
    state: PortState
    detail: str


class Path(Message, frozen=True):
    """The course being driven, sampled, in the ``map`` frame."""

    t_ns: Int64
    name: str
    closed: bool
    x_m: Float64s
    y_m: Float64s
    yaw_rad: Float64s
    curvature_per_m: Float64s
    speed_mps: Float64s


class Verb(IntEnum):
    """Call of a machine verb that no other record shows."""

    START = 0
    """The rate table began."""
    TIME = 1
    """Duties of devices were run; tasks that were due too."""
    MESSAGE = 2
    """The message that follows came from a request, an input device or the host, not from a
    port."""
    BRAKE = 3
    """The safe command was sent, outside the rate table."""


class MachineCall(Message, frozen=True):
    """A call of the machine, at its own time: with the bytes, ports and ticks, everything that a
    replay needs.

    Turns that only ran tasks have none, because their ticks record them.
    """

    t_ns: Int64
    verb: Verb


class HostHealth(Message, frozen=True):
    """Health of the host computer. NaN for quantities that it does not report."""

    t_ns: Int64
    disk_free_share: float = NAN
    """Free fraction of the log's file system."""
    memory_free_share: float = NAN
    cpu_busy_share: float = NAN
    """Load of all processors since the last reading."""
    temperature_k: float = NAN
    """Temperature of the hottest zone."""
    throttled: bool = False
    """True if heat or low power slows the processor."""
    clock_step_s: float = 0.0
    """Step of the wall clock against the monotonic clock since the last reading."""
    suspended_s: float = 0.0
    """Suspended time since the last reading."""
    log_backlog_share: float = 0.0
    """Fill level of the queue to the log writer."""
    log_dropped: UInt32 = 0
    """Log records lost since the start."""
    log_failure: str = ""
    """Reason why the log is no longer written; empty while it is."""
    wall_clock_s: float = NAN
    """Wall clock of the computer, s since 1970 UTC."""
    log_lost: str = ""
    """Text that says what others did to the log while it was written; it goes on in another
    file."""
    unread_s: float = 0.0
    """Time for which disk, memory and temperature gave no answer, s; 0 if they were read."""

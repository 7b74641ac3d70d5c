"""What the log keeps besides: bytes, ticks, calls, faults, events, ports and the course."""

from enum import IntEnum

from vehicled.messages.base import NAN, Float64s, Int64, Message, UInt8, UInt32
from vehicled.messages.decisions import Reaction


class Direction(IntEnum):
    """Of bytes on a port, seen from the daemon."""

    RX = 0
    TX = 1


class WireChunk(Message, frozen=True):
    """Bytes as they crossed a port."""

    t_ns: Int64
    port: str
    direction: Direction
    data: bytes
    checksum: UInt32 = 0
    """CRC-32 of what was received, so that one altered byte of a journal is found where it stands; 0 for what was sent."""


class Cause(IntEnum):
    """Why a release missed its deadline."""

    NONE = 0
    COMPUTE = 1
    """The task itself needed more CPU than its deadline allows."""
    BLOCKED = 2
    """The task gave up the processor: a blocking call."""
    PREEMPTED = 3
    """Another thread or process, or the hypervisor, had the processor."""
    GARBAGE_COLLECTION = 4
    PAGE_FAULT = 5
    QUEUED = 6
    """An earlier task of the same instant held the loop."""
    LOOP_HELD = 7
    """A callback of the runtime held the loop."""
    WAKE_UP = 8
    """The loop slept and the kernel woke it late."""
    DECLARED = 9
    """Simulated: the declared or injected costs do not fit."""
    UNKNOWN = 15


class TaskTick(Message, frozen=True):
    """One release of a fixed-rate task. Fixed size; ``task`` indexes the rate table in the log's header."""

    release_ns: Int64
    start_ns: Int64
    end_ns: Int64
    cpu_ns: Int64
    """Thread CPU time between start and end; -1 where it was not measured."""
    deadline_ns: Int64
    """Allowed response, relative to the release."""
    skipped: UInt32
    """Releases after this one that passed unrun because it was late."""
    task: UInt8
    missed: bool
    cause: Cause
    holder: UInt8
    """Who held the loop: for QUEUED the task, for LOOP_HELD the callback of the runtime by its number in the header; for BLOCKED
    and PAGE_FAULT suffered in another run the task or, from 128 on, the callback. 255 for nobody."""


class GarbageCollection(Message, frozen=True):
    """One run of Python's garbage collector that took noticeably long. Nothing else runs in the daemon meanwhile."""

    t_ns: Int64
    """Its beginning."""
    duration_ns: Int64
    generation: UInt8
    """2 looks at all objects but the frozen ones."""
    collected: UInt32
    """Objects that were found to be garbage."""


class Fault(Message, frozen=True):
    """Start or end of a fault episode, never one line per tick."""

    t_ns: Int64
    code: str
    origin: str
    reaction: Reaction
    active: bool
    reason: str


class Event(Message, frozen=True):
    """A line of the human event log, also sent to the journal of the system. ``fields`` is JSON."""

    t_ns: Int64
    level: str
    name: str
    fields: str


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
    """What was called of the machine, where no other record says so."""

    START = 0
    """The rate table began."""
    TIME = 1
    """Duties of devices were run; tasks that were due too."""
    MESSAGE = 2
    """The message that follows was handed over by a request, a stick or the host; by no port."""
    BRAKE = 3
    """The safe command was sent, outside the rate table."""


class MachineCall(Message, frozen=True):
    """A call of the machine, at its own time: with the bytes, ports and ticks, everything that a replay needs.

    Turns that only ran tasks have none: their ticks tell.
    """

    t_ns: Int64
    verb: Verb


class HostHealth(Message, frozen=True):
    """State of the computer that drives, as the runtime measured it. NaN where this machine does not tell."""

    t_ns: Int64
    disk_free_share: float = NAN
    """Of the file system that takes the log."""
    memory_free_share: float = NAN
    cpu_busy_share: float = NAN
    """Of all processors, since the last reading."""
    temperature_k: float = NAN
    """Of the hottest zone."""
    throttled: bool = False
    """The processor runs slower than it could, for heat or want of power."""
    clock_step_s: float = 0.0
    """How far the wall clock was moved against the monotonic one since the last reading."""
    suspended_s: float = 0.0
    """Time that the machine slept since the last reading."""
    log_backlog_share: float = 0.0
    """Of the queue to the log's writer."""
    log_dropped: UInt32 = 0
    """Records of the log lost since start."""
    log_failure: str = ""
    """Why the log is not written any more; empty while it is."""
    wall_clock_s: float = NAN
    """UTC since 1970 as the machine's clock has it, right or wrong."""

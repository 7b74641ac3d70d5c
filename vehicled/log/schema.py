"""Contents of a log: channels, header, attachments, file names. No I/O.

Every message type of :data:`vehicled.core.messages.ALL` has a channel, ``/vehicled/<snake_name>``,
encoding ``cdr``, schema encoding ``ros2msg``, in a file of MCAP profile ``ros2``. ``log_time`` is
UTC: the daemon's monotonic clock plus ``offset_ns`` of the header. ``sequence`` counts the records
of a run in the order in which the machine saw or made them, across all channels, modulo 2**32:
sorted by it the journal replays.

The channels are written as three interleaved streams of chunks, so that a reader of task ticks need
not unpack the rest:

=======  ==============================================  ==========================================
stream   what                                            when the disk is too slow
=======  ==============================================  ==========================================
TICKS    TaskTick                                        lossless; overflow ends replayability
JOURNAL  all other inputs of the machine, faults, events lossless; overflow ends replayability
DERIVED  what the machine makes of them                  dropped first, with a marker in the journal
=======  ==============================================  ==========================================
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache
from typing import Any, Self

import msgspec
from msgspec import Struct, field

from vehicled.core import messages
from vehicled.core.messages import Message
from vehicled.log.errors import LogError

LOG_VERSION = 1
"""Raised when an older reader would misunderstand a newer log. New fields and new channels do not
raise it."""
HEADER_RECORD = "vehicled"
"""Name of the metadata record that opens every part of a log."""
END_RECORD = "vehicled_end"
"""Name of the metadata record that an orderly end writes."""
MCAP_PROFILE = "ros2"
MESSAGE_ENCODING = "cdr"
SCHEMA_ENCODING = "ros2msg"
PROJECTION_CHANNEL_BASE = 1000
"""First channel number of the standard ROS types made by the writer."""


class ChunkStream(IntEnum):
    """Stream of chunks that a channel belongs to."""

    TICKS = 0
    JOURNAL = 1
    DERIVED = 2


_STREAMS: dict[type[Message], ChunkStream] = {
    messages.TaskTick: ChunkStream.TICKS,
    messages.WireChunk: ChunkStream.JOURNAL,
    messages.OperatorCommand: ChunkStream.JOURNAL,
    messages.TeleopCommand: ChunkStream.JOURNAL,
    messages.Heartbeat: ChunkStream.JOURNAL,
    messages.Setpoint: ChunkStream.JOURNAL,
    messages.CourseCommand: ChunkStream.JOURNAL,
    messages.SpeedCommand: ChunkStream.JOURNAL,
    messages.ParameterCommand: ChunkStream.JOURNAL,
    messages.HostHealth: ChunkStream.JOURNAL,
    messages.VirtualWorld: ChunkStream.JOURNAL,
    messages.VirtualScan: ChunkStream.JOURNAL,
    messages.MachineCall: ChunkStream.JOURNAL,
    messages.PortEvent: ChunkStream.JOURNAL,
    messages.Fault: ChunkStream.JOURNAL,
    messages.ModeChange: ChunkStream.JOURNAL,
    messages.Event: ChunkStream.JOURNAL,
}


class LogChannel(Struct, frozen=True):
    """Channel of one message type."""

    id: int
    topic: str
    message: type[Message]
    stream: ChunkStream


def topic_of(message: type[Message]) -> str:
    """Return the topic of a message type: ``ImuSample`` goes to ``/vehicled/imu_sample``."""
    return "/vehicled/" + re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).lower()


CHANNELS: dict[type[Message], LogChannel] = {
    message: LogChannel(
        number, topic_of(message), message, _STREAMS.get(message, ChunkStream.DERIVED)
    )
    for number, message in enumerate(messages.ALL, start=1)
}
"""Channel by message type. Numbers follow ``messages.ALL``, which is only ever appended to."""


@cache
def schema_of(message: type[Message]) -> tuple[str, str]:
    """Return ROS 2 type name and message definition of a message type."""
    from vehicled.ros.definition import definition

    found = definition(message)
    return found.name, found.text


class TaskRow(Struct, frozen=True, kw_only=True):
    """One row of the rate table. ``TaskTick.task`` counts these from 0."""

    name: str
    rate_hz: float
    deadline_ns: int
    phase_ns: int = 0
    policy: str = "skip"
    criticality: str = "critical"
    declared_ns: int = 0
    max_miss_share: float = 0.01
    """Budget: largest fraction of releases that may be missed or skipped."""


class PluginRow(Struct, frozen=True, kw_only=True):
    """Code of the user's in a run: a controller, estimator, identifier or driver."""

    kind: str
    reference: str
    """File with its whole path, or module; then a colon and the name. A network has no name."""
    hashes: dict[str, str]
    """SHA-256 of its source files by path relative to its folder, its own first. Attachments:
    :func:`plugin_attachment`."""

    @property
    def text_file(self) -> str:
        """Path of its own source file; empty for a module."""
        place = (
            self.reference
            if self.reference.endswith(".onnx")
            else self.reference.rpartition(":")[0]
        )
        return place if place.endswith((".py", ".onnx")) else ""


def plugin_attachment(row: int, file: str) -> str:
    """Return the name of the attachment with a source file of the header's plugin number
    ``row``."""
    return f"plugins/{row}/{file}"


class FileRow(Struct, frozen=True, kw_only=True):
    """A file of the simulated world, which the profile names."""

    key: str
    """Dotted key of the profile, such as ``sim.scene``."""
    name: str
    """Value of the key: a file, or a plugin of the simulator."""
    path: str
    """File with its whole path."""
    hashes: dict[str, str]
    """SHA-256 of it and of the files that belong to it, by path relative to its folder, its own
    first."""
    attached: bool = True
    """False if they were too large for the log. Attachments: :func:`file_attachment`."""


def file_attachment(row: int, file: str) -> str:
    """Return the name of the attachment with a file of the header's row number ``row``."""
    return f"files/{row}/{file}"


class RunHeader(Struct, frozen=True, kw_only=True):
    """Description of a run: everything that its digest depends on, and how to read its times and
    tasks."""

    run_id: str
    """Hexadecimal, at least 6 digits."""
    start_wall_ns: int
    """UTC at the start of the run."""
    start_monotonic_ns: int
    """Daemon clock at the same moment, ns; in lockstep the start time of the run."""
    profile: str
    course: str
    tasks: list[TaskRow]
    log_version: int = LOG_VERSION
    vehicled_version: str = ""
    python_version: str = ""
    numpy_version: str = ""
    msgspec_version: str = ""
    fingerprint: str = ""
    """Numeric fingerprint; digests are comparable only if it is equal."""
    fingerprint_of: dict[str, str] = field(default_factory=dict)
    """Versions that the fingerprint depends on."""
    profile_digest: str = ""
    seed: int | None = None
    clock: str = ""
    """``lockstep`` or ``wall``."""
    link: str = ""
    """``messages`` or ``wires``."""
    latency: str = ""
    """Latency that the simulator added, as ``--latency`` takes it."""
    noise: str = ""
    """Noise that was added to what sensors measured, by device; empty for none."""
    board: str = ""
    """Computer whose task times a lockstep run replays; its file is attached. Empty: declared
    costs."""
    estimator: str = ""
    controller: str = ""
    argv: list[str] = field(default_factory=list)
    host: str = ""
    loop: str = ""
    """Timing method of the event loop, with the reason if it is not precise."""
    realtime: dict[str, str] = field(default_factory=dict)
    """Results of the real-time set-up."""
    holders: list[str] = field(default_factory=list)
    """Runtime callbacks by the number in ``TaskTick.holder``, for ``LOOP_HELD``."""
    part: int = 1
    """Number of the file of a rotated log, from 1."""
    setup_fault: str = ""
    """Reason that forbids arming with this profile on this board; empty if allowed."""
    plugins: list[PluginRow] = field(default_factory=list)
    """Code of the user's that the run used; its text is attached."""
    imported: dict[str, str] = field(default_factory=dict)
    """Origin and assumptions of an imported log; empty for our own runs."""
    files: list[FileRow] = field(default_factory=list)
    """Files of the simulated world; empty for a run on the devices of a vehicle."""
    world: dict[str, str] = field(default_factory=dict)
    """Conditions of a simulated run: ``failures`` (JSON list), ``start``, ``duration_s``; missing
    where none was given."""
    mixed: str = ""
    """Mixed reality: scene and virtual vehicles that were added to the vehicle's world; empty for
    none."""

    @property
    def offset_ns(self) -> int:
        """UTC minus the daemon's clock, ns."""
        return self.start_wall_ns - self.start_monotonic_ns

    def to_metadata(self) -> dict[str, str]:
        """Return the header as an MCAP metadata record: strings as they are, the rest as JSON,
        secrets masked."""
        masked = msgspec.structs.replace(self, argv=redact_arguments(self.argv))
        values = {name: getattr(masked, name) for name in self.__struct_fields__}
        return {
            name: v if isinstance(v, str) else msgspec.json.encode(v).decode()
            for name, v in values.items()
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, str]) -> Self:
        """Parse the result of :meth:`to_metadata`. Ignores unknown keys. Raises :class:`LogError`
        for a newer log or a malformed record.
        """
        try:
            version = int(metadata.get("log_version", "0"))
        except ValueError:
            version = 0
        if version > LOG_VERSION:
            raise LogError(
                f"written by vehicled {metadata.get('vehicled_version', 'of a later date')} as "
                f"log version {version}; this one reads versions up to {LOG_VERSION}: update "
                "vehicled to read it"
            )
        values: dict[str, Any] = {}
        try:
            for spec in msgspec.structs.fields(cls):
                if spec.name in metadata:
                    text = metadata[spec.name]
                    values[spec.name] = (
                        text
                        if spec.type is str
                        else msgspec.json.decode(text.encode(), type=spec.type)
                    )
            return msgspec.convert(values, cls)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise LogError(f"the header record cannot be read: {error}") from error


FENCE_NAME = "fence.geojson"
"""Name of the attachment with the fence."""
BOARD_NAME = "board.json"
"""Name of the attachment with the task times of a recorded computer."""
MESSAGES_KEY = "messages"
"""Key of the end record: what arrived on the ports, as :func:`vehicled.core.wire.usage.encode_rows`
writes it."""


class Attachment(Struct, frozen=True):
    """File carried in the log: profile text, course or fence."""

    name: str
    media_type: str
    data: bytes


# ------------------------------------------------------------------ names of files

_NAME = re.compile(r"^[a-z0-9_-]+_\d{8}T\d{6}Z_[0-9a-f]{6}(?:_part(?P<part>\d+))?\.mcap$")
_STAMP = re.compile(r"_(\d{8}T\d{6}Z_[0-9a-f]{6})(?:_part(\d+))?\.mcap$")


def log_stem(profile: str, course: str, start_wall_ns: int, run_id: str) -> str:
    """Return ``<profile>_<course>_<YYYYmmddTHHMMSSZ>_<6 hex of the run id>``; of a course file only
    the name is used."""
    stamp = datetime.fromtimestamp(start_wall_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{_slug(profile)}_{_slug(course)}_{stamp}_{run_id[:6].lower()}"


def part_name(stem: str, part: int) -> str:
    """Return the file name of a part; the first has no number."""
    return f"{stem}.mcap" if part == 1 else f"{stem}_part{part}.mcap"


def is_log_name(name: str) -> bool:
    """True if a file name has our pattern, so that the quota may remove it."""
    return _NAME.match(name) is not None


def age_key(name: str) -> tuple[str, int]:
    """Return the sort key of a log name: oldest run first, parts in order."""
    found = _STAMP.search(name)
    return (found.group(1), int(found.group(2) or 1)) if found else ("", 0)


def _slug(text: str) -> str:
    base = re.split(r"[/\\]", text)[-1].rsplit(".", 1)[0] if re.search(r"[/\\.]", text) else text
    return re.sub(r"[^a-z0-9]+", "_", base.lower()).strip("_")[:60] or "unnamed"


# ------------------------------------------------------------------ secrets

_KEY = r"[\w.-]*(?:password|passwd|passphrase|secret|token|api_?key)"
_ASSIGNED = re.compile(rf"(?i)(\b{_KEY}[\"']?[ \t]*[=:][ \t]*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,}}\]]+)")
_IN_URL = re.compile(r"(\w+://)[^/@\s\"']+@")
_FLAG = re.compile(rf"(?i)^--?{_KEY}$")
_REFERENCE = re.compile(r"^[\"']?(?:file|credential|env):")
_WORDS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "api_key")
"""One of these is in every match of ``_KEY``."""
MASK = "***"


def redact(text: str) -> str:
    """Mask values of secret-looking keys and user names in URLs. References (``file:``,
    ``credential:``) stay."""
    # The patterns try every number of a course anew, seconds for one of many laps.
    folded = text.casefold()
    if any(word in folded for word in _WORDS):
        text = _ASSIGNED.sub(
            lambda m: m.group(0) if _REFERENCE.match(m.group(2)) else f'{m.group(1)}"{MASK}"', text
        )
    return _IN_URL.sub(rf"\g<1>{MASK}@", text) if "://" in text else text


def redact_arguments(argv: Sequence[str]) -> list[str]:
    """Mask secrets in a command line, including separate values after their flag."""
    result: list[str] = []
    for argument in argv:
        after_flag = bool(result) and _FLAG.match(result[-1]) is not None
        result.append(MASK if after_flag else redact(argument))
    return result

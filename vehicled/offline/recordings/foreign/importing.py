"""Finds out what a file is, reads it, writes our log.

The clock of an imported log is that of its file: ``t_ns`` are its stamps, whatever clock made them,
and nothing says how late anything was. So it has no ticks, and cannot be replayed. Its header says
so: ``clock`` is ``imported``, ``imported`` says from where and what was assumed. It carries the
profile that is believed of the vehicle and a course that is only a datum, the first fix, so that
estimators, reports and ``vehicled bench recorded`` take it as one of ours.
"""

import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from math import hypot, isfinite, nan
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import vehicled
from vehicled.core.messages import (
    FIXED_SIGMA_LIMIT_M,
    CarrierSolution,
    FixType,
    GnssFix,
    GroundTruth,
    Message,
    StateEstimate,
    is_place,
    stated_carrier,
)
from vehicled.core.vehicle import Vehicle
from vehicled.log.errors import LogError
from vehicled.log.offline import LogFile
from vehicled.log.schema import CHANNELS, Attachment, RunHeader
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.recognise import recognise
from vehicled.offline.recordings.foreign.source import ForeignFile, Stamped
from vehicled.offline.recordings.recording import UNKNOWN_COURSE
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.profile.loading import load

FORMATS = ("rosbag", "csv", "ublox", "ardupilot", "px4")
_YEAR_NS = 365.25 * 86_400e9
_LATEST_UTC_NS = 130 * _YEAR_NS
"""A later stamp is in another unit than the one that was stated."""
_HEAD_BYTES = 1 << 20
"""Bytes in which a foreign format is looked for."""
_LOOK_AHEAD = 20_000
"""Messages in which the first fix is looked for."""


class Imported(Struct, frozen=True, kw_only=True):
    """Summary of an import."""

    source: str
    format: str
    path: str
    counts: dict[str, int]
    """Messages by topic."""
    duration_s: float
    notes: list[str]

    def to_text(self) -> str:
        """Return the summary as plain text."""
        lines = [
            f"{self.source}: {self.format}",
            *(f"{topic}: {count}" for topic, count in self.counts.items()),
        ]
        return (
            "\n".join(
                [
                    *lines,
                    *(f"note: {note}" for note in self.notes),
                    f"{self.path}: {self.duration_s:.1f} s",
                ]
            )
            + "\n"
        )


def import_log(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    mapping: str | os.PathLike[str] | None = None,
    profile: str = "art_published",
    format_name: str | None = None,
) -> Imported:
    """Write a foreign log as ours. ``mapping`` is for CSV. Raises :class:`RecordingError`,
    :class:`LogError`, ProfileError."""
    path = Path(source)
    if not path.exists():
        raise RecordingError(f"{path}: there is no such file or folder")
    if os.path.exists(out):
        raise LogError(f"{out}: there is such a file or folder already, it is not overwritten")
    name = format_name or format_of(path, mapping is not None)
    loaded = load(profile)
    foreign = _open(name, path, mapping, loaded.profile.vehicle)
    messages = iter(foreign.messages)
    head = list(islice(messages, _LOOK_AHEAD))
    if not head:
        raise RecordingError(
            f"{path}: holds no message that can be used "
            f"({'; '.join(foreign.notes) or 'nothing was recognised'})"
        )
    start_ns = head[0][0]
    offset_ns = _utc_offset(foreign, head)
    if foreign.utc_offset_ns is not None and start_ns + offset_ns > _LATEST_UTC_NS:
        years = round((start_ns + offset_ns) / _YEAR_NS)
        raise RecordingError(
            f"{path}: the first stamp is {years} years after 1970: correct the unit or clock "
            "of time in the mapping"
        )
    header = RunHeader(
        run_id=_run_id(path),
        start_wall_ns=start_ns + offset_ns,
        start_monotonic_ns=start_ns,
        profile=loaded.profile.name,
        profile_digest=loaded.digest,
        course=UNKNOWN_COURSE,
        tasks=[],
        vehicled_version=vehicled.__version__,
        clock="imported",
        imported={
            "file": path.name,
            "format": foreign.format,
            "clock": "unknown: the stamps of the file",
            **foreign.about,
        },
    )
    attachments = [
        Attachment("profile.toml", "application/toml", loaded.source.encode()),
        Attachment("course.json", "application/json", _course(foreign, head)),
    ]
    counts: Counter[str] = Counter()
    first_ns = last_ns = start_ns
    with LogFile(out, header, attachments) as log:
        contradicted = nowhere = 0
        for t_ns, raw in chain(head, messages):
            message = _usable(raw)
            if isinstance(message, GnssFix) and isinstance(raw, GnssFix):
                nowhere += message.fix_type is not raw.fix_type
                contradicted += (
                    message.fix_type is raw.fix_type and message.carrier is not raw.carrier
                )
            log.add(message, t_ns)
            counts[CHANNELS[type(message)].topic.rsplit("/", 1)[-1]] += 1
            first_ns, last_ns = min(first_ns, t_ns), max(last_ns, t_ns)
        log.finish({"reason": "imported", "not_replayable_after_ns": str(start_ns)})
        if contradicted:
            foreign.notes.append(
                f"{contradicted} fixes are called RTK fixed but state an error beyond "
                f"{FIXED_SIGMA_LIMIT_M} m: taken as floating"
            )
        if nowhere:
            foreign.notes.append(
                f"{nowhere} fixes are called valid but lie at 0, 0 or nowhere on the earth: "
                "taken as no fix"
            )
        if log.refused:
            foreign.notes.append(
                f"{log.refused} messages did not fit into their fields and are left out"
            )
    if not offset_ns and start_ns < 10**17:
        foreign.notes.append("it holds no UTC: the log begins in 1970")
    duration_s = (last_ns - first_ns) * 1e-9
    return Imported(
        source=str(path), format=foreign.format, path=os.fspath(out),
        counts=dict(sorted(counts.items())), duration_s=duration_s, notes=foreign.notes,
    )  # fmt: skip


def _usable(message: Message) -> Message:
    """Return a fix that has a place, and whose carrier solution agrees with its covariance, or is
    none; others as they are."""
    if not isinstance(message, GnssFix):
        return message
    if message.fix_type not in (FixType.NONE, FixType.TIME) and not is_place(
        message.latitude_rad, message.longitude_rad
    ):
        return replace(
            message,
            latitude_rad=nan,
            longitude_rad=nan,
            fix_type=FixType.NONE,
            carrier=CarrierSolution.NONE,
        )
    carrier = stated_carrier(message.carrier, message.position_covariance_m2)
    return message if carrier is message.carrier else replace(message, carrier=carrier)


@contextmanager
def imported(path: Path, mapping: str = "", profile: str = "art_published") -> Iterator[Path]:
    """Import a foreign log for the time of the block, and give its file. Raises as
    :func:`import_log`."""
    with tempfile.TemporaryDirectory(prefix="vehicled_import_") as folder:
        log = Path(folder) / "run.mcap"
        import_log(path, log, mapping=mapping or None, profile=profile)
        yield log


def format_of(path: Path, mapped: bool) -> str:
    """Return the format of a file, by its first bytes, else by its name. Raises
    :class:`RecordingError`."""
    if path.is_dir():
        if (path / "metadata.yaml").is_file():
            return "rosbag"
        if mapped:
            return "csv"
        raise RecordingError(
            f"{path}: a folder without metadata.yaml is no ROS 2 bag; CSV files need --map"
        )
    try:
        with path.open("rb") as stream:
            start = stream.read(4096)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    if not start:
        raise RecordingError(f"{path}: the file is empty")
    for magic, name in (
        (b"ULog", "px4"),
        (b"\xa3\x95\x80", "ardupilot"),
        (b"#ROSBAG", "rosbag"),
        (b"SQLite f", "rosbag"),
    ):
        if start.startswith(magic):
            return name
    if start.startswith(b"\x89MCAP"):
        from vehicled.offline.recordings.mcap import is_ours

        if is_ours(path):
            raise RecordingError(f"{path}: is a log of ours already")
        return "rosbag"
    suffix = path.suffix.lower()
    if mapped or suffix in (".csv", ".tsv"):
        return "csv"
    if b"\xb5\x62" in start or b"$G" in start or suffix in (".ubx", ".nmea"):
        return "ublox"
    for known in recognise(path.read_bytes()[:_HEAD_BYTES]):
        raise RecordingError(f"{path}: holds {known}")
    raise RecordingError(
        f"{path}: is of no format that can be imported ({', '.join(FORMATS)}); say which with "
        "--format"
    )


def _open(
    name: str, path: Path, mapping: str | os.PathLike[str] | None, vehicle: Vehicle
) -> ForeignFile:
    if mapping is not None and name != "csv":
        raise RecordingError(
            f"{path}: is read as {name}, for which there is no mapping; --map is for CSV"
        )
    # Imported here: each wants a library of its own.
    if name == "rosbag":
        from vehicled.offline.recordings.foreign import bag

        return bag.read(path, vehicle)
    if name == "csv":
        from vehicled.offline.recordings.foreign import table

        if mapping is None:
            raise RecordingError(
                f"{path}: CSV needs --map MAP.toml, which says what its columns are: see "
                "docs/logs.md"
            )
        return table.read(path, Path(mapping))
    if name == "ublox":
        from vehicled.offline.recordings.foreign import ublox

        return ublox.read(path)
    if name == "ardupilot":
        from vehicled.offline.recordings.foreign import dataflash

        return dataflash.read(path, vehicle)
    if name == "px4":
        from vehicled.offline.recordings.foreign import ulog

        return ulog.read(path, vehicle)
    raise RecordingError(f'unknown format "{name[:40]}": there are {", ".join(FORMATS)}')


def _utc_offset(foreign: ForeignFile, head: list[Stamped]) -> int:
    if foreign.utc_offset_ns is not None:
        return foreign.utc_offset_ns
    for _, message in head:
        if isinstance(message, GnssFix) and message.utc_ns > 0:
            return message.utc_ns - message.t_ns
    return 0


def _course(foreign: ForeignFile, head: list[Stamped]) -> bytes:
    """Return a course that is only a datum, if there is one; a note says what local coordinates are
    taken to count from."""
    datum = foreign.datum or _first_place(head)
    local = next(
        (message for _, message in head if isinstance(message, GroundTruth | StateEstimate)), None
    )
    if foreign.datum is None and local is not None and isfinite(local.x_m) and isfinite(local.y_m):
        kind, away_m = type(local).__name__, hypot(local.x_m, local.y_m)
        if datum is None:
            foreign.notes.append(
                f"x_m, y_m of {kind} have no place on the earth: give datum_deg = [latitude, "
                "longitude, height] in the mapping"
            )
        else:
            foreign.notes.append(
                f"x_m, y_m of {kind} are taken to count from the first fix, from which the first "
                f"of them lies {away_m:.2f} m: if their origin is another place, give datum_deg "
                "= [latitude, longitude, height] in the mapping"
            )
    if datum is None:
        return msgspec.json.encode({"name": UNKNOWN_COURSE, "closed": False})
    place = {
        "latitude_rad": datum.latitude_rad,
        "longitude_rad": datum.longitude_rad,
        "height_m": datum.height_m,
    }
    return msgspec.json.encode({"name": UNKNOWN_COURSE, "closed": False, "datum": place})


def _first_place(head: list[Stamped]) -> Datum | None:
    for fix in _fixes(head):
        try:
            return Datum(
                fix.latitude_rad, fix.longitude_rad, fix.height_m if isfinite(fix.height_m) else 0.0
            )
        except CourseError:
            continue
    return None


def _fixes(head: list[Stamped]) -> Iterator[GnssFix]:
    for _, message in head:
        if isinstance(message, GnssFix) and message.fix_type >= FixType.FIX_2D:
            yield message


def _run_id(path: Path) -> str:
    """Return a run id derived from the content, so that the same file gives the same log."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]

"""``vehicled log export``: checks the request and calls the writer of the format."""

import os
import shutil
from collections.abc import Callable, Sequence

from msgspec import Struct

from vehicled.core.messages import Message
from vehicled.log.cat import kinds_of
from vehicled.log.errors import LogError, why

FORMATS = ("csv", "parquet", "gpx", "geojson", "kml", "rosbag2")


class ExportRequest(Struct, frozen=True, kw_only=True):
    """Validated export request."""

    path: str
    """First file of the run."""
    out: str
    kinds: tuple[type[Message], ...] = ()
    """Message types to export; empty for all."""
    rate_hz: float | None = None


class ExportResult(Struct, frozen=True, kw_only=True):
    """Summary of a finished export."""

    files: list[str]
    counts: dict[str, int]
    """Number of messages, rows or points by name."""
    notes: list[str]

    def to_text(self) -> str:
        """Return the summary as plain text."""
        lines = [f"{name}: {count}" for name, count in self.counts.items()]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes), *self.files]) + "\n"


def export(
    path: str | os.PathLike[str],
    to: str,
    out: str | os.PathLike[str],
    *,
    topics: Sequence[str] = (),
    rate_hz: float | None = None,
) -> ExportResult:
    """Write a run in the format ``to``, one of :data:`FORMATS`. Existing files are never
    overwritten. Raises :class:`LogError`.

    ``topics`` applies to CSV, Parquet and rosbag2. ``rate_hz`` joins CSV and Parquet into one table
    of that rate; for tracks it is the rate of the estimate's points (10 Hz by default).
    """
    if to not in FORMATS:
        raise LogError(f'unknown format "{to[:40]}": there are {", ".join(FORMATS)}')
    request = ExportRequest(
        path=os.fspath(path), out=os.fspath(out), kinds=kinds_of(topics), rate_hz=rate_hz
    )
    if topics and to in ("gpx", "geojson", "kml"):
        raise LogError(f"{to} is a map of the drive and takes no topics")
    if rate_hz is not None and to == "rosbag2":
        raise LogError("a rosbag2 folder holds the messages as they are: it takes no rate")
    if os.path.exists(request.out):
        raise LogError(
            f"{request.out}: there is such a file or folder already, it is not overwritten"
        )
    try:
        return _writer(to)(request)
    except (LogError, KeyboardInterrupt):
        _remove(request.out)
        raise
    except OSError as error:
        _remove(request.out)
        raise LogError(f"the export cannot be written: {why(error)}") from error


def _remove(out: str) -> None:
    """Remove a partial export, which would look complete."""
    if os.path.isdir(out):
        shutil.rmtree(out, ignore_errors=True)
    elif os.path.exists(out):
        os.unlink(out)


def _writer(to: str) -> Callable[[ExportRequest], ExportResult]:
    if to in ("csv", "parquet"):
        from vehicled.offline.analysis.export import tables

        return tables.write_csv if to == "csv" else tables.write_parquet
    if to == "rosbag2":
        from vehicled.offline.analysis.export import bag

        return bag.write
    from vehicled.offline.analysis.export import tracks

    return {"gpx": tracks.write_gpx, "geojson": tracks.write_geojson, "kml": tracks.write_kml}[to]

"""Lines found in a course file of a map program, of which the course is one: several are chosen
from by name or number."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from vehicled.paths.course_file import CourseFile, ReadOptions
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.times import Times, from_cells

_LISTED = 6


@dataclass(slots=True)
class MapLine:
    """One line with its points in degrees."""

    kind: str
    """Name that the file has for it, such as "track segment"."""
    place: str
    """Place for messages, such as "line 12" or "feature 2"."""
    name: str = ""
    whole: str = ""
    """Whole that it is a part of; parts of one whole may be joined."""
    points: list[tuple[float, float]] = field(default_factory=list)
    """Latitude and longitude of each point."""
    places: list[str] = field(default_factory=list)
    """Place of each point."""
    stamps: list[str] = field(default_factory=list)
    """Time of each point as written, empty for none; times are ignored unless there is one per
    point."""
    closed: bool | None = None
    """True for the outline of an area."""

    def times(self) -> Times | None:
        """Return the times of the points; None if some have none."""
        return (
            from_cells("times", self.stamps)
            if any(self.stamps) and len(self.stamps) == len(self.points)
            else None
        )

    def course(
        self,
        file_name: str,
        order: str,
        account: ReadSummary,
        *,
        name: str = "",
        geodetic: bool = True,
    ) -> CourseFile:
        """Return the line as a course. Speeds that a map program recorded are no targets."""
        return CourseFile(
            file_name=file_name,
            points=self.points,
            places=self.places,
            geodetic=geodetic,
            order=order,
            times=self.times(),
            keeps_speeds=False,
            closed=self.closed,
            name=name or self.name,
            account=account,
        )


def only_line(
    file_name: str, lines: Sequence[MapLine], options: ReadOptions
) -> tuple[MapLine, list[str]]:
    """Return the line to drive and remarks: the only one, the user's choice, or segments joined on
    request. Raises CourseError."""
    if options.line:
        return _chosen(file_name, lines, options.line), []
    if len(lines) == 1:
        return lines[0], []
    parts = len({line.whole for line in lines}) == 1 and lines[0].whole != ""
    if parts and options.bridge_gaps:
        return _joined(lines), [f"{len(lines)} segments joined by straight lines"]
    listed = ", ".join(f"{n}: {_title(line)}" for n, line in enumerate(lines[:_LISTED], start=1))
    more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    join = f", or join them by straight lines with {file_name}:gaps=bridge" if parts else ""
    raise CourseError(
        f"{file_name}: {len(lines)} lines ({listed}{more}); a course is one line: choose with "
        f"{file_name}:line=2{join}"
    )


def _title(line: MapLine) -> str:
    named = f' "{line.name}"' if line.name else ""
    return f"{line.kind}{named} in {line.place}"


def _chosen(file_name: str, lines: Sequence[MapLine], wanted: str) -> MapLine:
    named = [line for line in lines if line.name == wanted]
    if len(named) == 1:
        return named[0]
    if wanted.isdecimal() and 1 <= int(wanted[:6]) <= len(lines):
        return lines[int(wanted) - 1]
    if named:
        numbers = ", ".join(str(n) for n, line in enumerate(lines, start=1) if line.name == wanted)
        raise CourseError(
            f'{file_name}: {len(named)} lines are named "{wanted[:40]}"; choose by number: '
            f"{numbers}"
        )
    close = get_close_matches(
        wanted[:64], [line.name for line in lines if line.name], n=1, cutoff=0.5
    )
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise CourseError(
        f'{file_name}: no line "{wanted[:40]}"; {hint}there are {len(lines)}, choose by name '
        "or number from 1"
    )


def _joined(lines: Sequence[MapLine]) -> MapLine:
    first = lines[0]
    return MapLine(
        first.kind,
        first.place,
        first.name,
        points=[point for line in lines for point in line.points],
        places=[place for line in lines for place in line.places],
        stamps=[stamp for line in lines for stamp in line.stamps],
    )

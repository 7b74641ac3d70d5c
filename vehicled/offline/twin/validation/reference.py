"""Reader of reference runs: search in a folder, and one run as arrays."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.errors import UserError
from vehicled.offline.recordings import table
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.twin.validation.families import FAMILIES, Family


class ReferenceRunError(UserError):
    """Unusable file: place, reason and what to do."""


class ReferenceSource(Struct, frozen=True):
    """Found file, before it is read."""

    family: str
    vehicle: str
    """Vehicle name in the file."""
    twin: str
    """Name of our vehicle file."""
    model: str
    manoeuvre: str
    path: str

    @property
    def name(self) -> str:
        """Family and file name without its ending: unique in a report."""
        return f"{self.family}/{Path(self.path).stem}"

    @property
    def group(self) -> tuple[str, str, str]:
        """Family, model and our vehicle: runs that are judged together."""
        return self.family, self.model, self.twin


class ReferenceRun(Struct, frozen=True, eq=False):
    """Run of a reference model. Arrays of shape (n,), SI, ISO 8855 signs; a missing quantity is
    None."""

    source: ReferenceSource
    t_s: Any
    x_m: Any
    y_m: Any
    yaw_rad: Any
    vx_mps: Any
    vy_mps: Any
    yaw_rate_radps: Any
    roll_rad: Any
    command_t_s: Any
    steer: Any
    """Steering in the unit of the family's commands."""
    throttle: Any
    """Throttle 0..1, or acceleration in m/s2 if the family commands that."""
    brake: Any
    lateral_acceleration_mps2: Any
    """vx times yaw rate, plus the derivative of vy."""
    wheel_radps: Any = None
    """Wheel speeds (4, n): front left, front right, rear left, rear right."""
    load_n: Any = None
    """Wheel loads (4, n)."""

    @property
    def family(self) -> Family:
        """Family that describes its format."""
        return family_named(self.source.family)


def family_named(name: str) -> Family:
    """Return a family of the table. Raises KeyError."""
    return {family.name: family for family in FAMILIES}[name]


class FoundRuns(Struct, frozen=True):
    """Reference runs found in a folder."""

    sources: list[ReferenceSource]
    problems: list[str]
    """Messages about files that do not fit their family, and missing families."""


def find(folder: str | Path) -> FoundRuns:
    """Find the reference runs below a folder, sorted by name. Raises :class:`ReferenceRunError` if
    the folder does not exist."""
    root = Path(folder)
    if not root.is_dir():
        raise ReferenceRunError(
            f"{root}: no such folder; name the one that holds {FAMILIES[0].folder}/, "
            f"{FAMILIES[1].folder}/, ..."
        )
    sources: list[ReferenceSource] = []
    problems: list[str] = []
    for path in sorted(root.resolve().rglob("*.csv")):
        own = next((family for family in FAMILIES if path.parent.name == family.folder), None)
        source = _match(path, own)
        if source is not None:
            sources.append(source)
        elif own is not None and not _is_commands(path, own):
            problems.append(
                f"{path}: not named like a file of {own.folder}/ ({own.pattern}); rename or "
                "remove it"
            )
    present = {source.family for source in sources}
    problems += [
        (
            f"{family.folder}: no run of {family.title} below {root}; put its folder there to have "
            "it compared"
        )
        for family in FAMILIES
        if family.name not in present
    ]
    return FoundRuns(sorted(sources, key=lambda source: (source.family, source.path)), problems)


def _is_commands(path: Path, family: Family) -> bool:
    return bool(family.commands.file) and path.name.endswith(family.commands.file)


def _match(path: Path, own: Family | None) -> ReferenceSource | None:
    for family in [own] if own is not None else [family for family in FAMILIES if family.anywhere]:
        match = re.fullmatch(family.pattern, path.name)
        if (
            match is None
            or _is_commands(path, family)
            or (own is None and not _has_columns(path, family))
        ):
            continue
        names = match.groupdict()
        vehicle = names.get("vehicle") or family.vehicle
        twin = family.twins.get(vehicle, vehicle)
        return ReferenceSource(
            family.name,
            vehicle,
            twin,
            names.get("model") or family.name,
            names["manoeuvre"],
            str(path),
        )
    return None


def _has_columns(path: Path, family: Family) -> bool:
    """True if the first line has the family's columns. An unreadable file is not recognised."""
    try:
        names = table.header(path)
    except RecordingError:
        return False
    c = family.columns
    wanted = {
        c.time,
        c.x,
        c.y,
        c.yaw,
        c.vx,
        c.vy,
        c.yaw_rate,
        c.speed,
        c.sideslip,
        *family.marks,
    } - {""}
    return wanted <= set(names)


def read(source: ReferenceSource) -> ReferenceRun:
    """Read a run. Raises :class:`ReferenceRunError` with the file, the reason and what to do."""
    family = family_named(source.family)
    path = Path(source.path)
    columns, commands = family.columns, family.commands
    motion = _table(path)
    t = _rising(path, motion, columns.time)
    yaw_rate = _column(path, motion, columns.yaw_rate)
    x, y, yaw = (_column(path, motion, name) for name in (columns.x, columns.y, columns.yaw))
    if columns.vx:
        vx, vy = _column(path, motion, columns.vx), _column(path, motion, columns.vy)
    elif columns.sideslip:
        speed = _column(path, motion, columns.speed)
        sideslip = _column(path, motion, columns.sideslip)
        vx, vy = speed * np.cos(sideslip), speed * np.sin(sideslip)
    else:
        vx, vy = _column(path, motion, columns.speed), None
    order_path = path
    orders = motion
    if commands.file:
        order_path = path.with_name(re.sub(r"_motion\.csv$", "", path.name) + commands.file)
        orders = _table(order_path)
    order_t = _rising(order_path, orders, commands.time)
    steer = _column(
        order_path, orders, commands.wheel_angle or commands.steer or commands.steer_rad
    )
    throttle = _column(order_path, orders, commands.acceleration or commands.throttle)
    brake = (
        _column(order_path, orders, commands.brake) if commands.brake else np.zeros_like(throttle)
    )
    lateral = vx * yaw_rate + (np.gradient(vy, t) if vy is not None else 0.0)
    return ReferenceRun(
        source,
        t,
        x,
        y,
        np.unwrap(yaw),
        vx,
        vy,
        yaw_rate,
        _column(path, motion, columns.roll) if columns.roll in motion else None,
        order_t,
        steer,
        throttle,
        brake,
        lateral,
        next((_four(path, motion, names) for names in columns.wheels if names[0] in motion), None),
        _four(path, motion, columns.loads)
        if columns.loads and columns.loads[0] in motion
        else None,
    )


def _table(path: Path) -> dict[str, Any]:
    """Read the columns of a CSV file by name, each of shape (n,)."""
    try:
        columns = table.read(path).columns
    except RecordingError as error:
        raise ReferenceRunError(f"{error}; download the file again") from error
    if (rows := len(next(iter(columns.values())))) < 2:
        raise ReferenceRunError(f"{path}: {rows} rows are too few; download the file again")
    return columns


def _column(path: Path, table: dict[str, Any], name: str) -> Any:
    if name not in table:
        raise ReferenceRunError(
            f"{path}: no column {name!r} (there are {', '.join(table)}); name it in the table "
            "of families"
        )
    values = table[name]
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ReferenceRunError(
            f"{path}: line {row + 2}, column {name!r} is not a finite number; download the "
            "file again"
        )
    return values


def _four(path: Path, table: dict[str, Any], names: tuple[str, ...]) -> Any:
    return np.stack([_column(path, table, name) for name in names])


def _rising(path: Path, table: dict[str, Any], name: str) -> Any:
    t = _column(path, table, name)
    if not (np.diff(t) > 0).all():
        row = int(np.flatnonzero(np.diff(t) <= 0)[0])
        raise ReferenceRunError(
            f"{path}: line {row + 3}: time does not increase; sort the rows by {name!r}"
        )
    return t

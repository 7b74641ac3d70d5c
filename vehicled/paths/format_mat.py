"""MATLAB courses: vectors of one length in a MAT-file, known by their names as the columns of a
table are.

The vectors may be variables or fields of a structure; one matrix without names takes them from the
user, as ``trace.mat:columns=lat,lon,time,speed``. Versions 4 to 7 are read, with scipy. Version 7.3
is HDF5 and is refused.
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.paths import times
from vehicled.paths.columns import DRIVEN, column_of, quantities, scale_of
from vehicled.paths.course_file import CourseFile, ReadOptions, check_count
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary

ORDER = "name the variables lat and lon for what they hold"
HDF5 = b"\x89HDF\r\n\x1a\n"
MAX_VALUES = 20_000_000
"""Largest number of values in a file; it is compressed, so its own size says little."""
_TABLE = (
    "a MATLAB table is not readable outside: save s = table2struct(T, 'ToScalar', true) instead"
)


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of a MAT-file. Raises CourseError."""
    if HDF5 in (data[:8], data[512:520]):
        raise CourseError(
            f"{file_name}: a MAT-file of version 7.3; save it in MATLAB with save(..., '-v7'), "
            "or as CSV"
        )
    vectors, matrices, tables = _contents(data, file_name)
    if options.columns:
        vectors = _named(file_name, matrices, options.columns)
    known = [(name, values) for name, values in vectors if column_of(name.rpartition(".")[2]).role]
    known = [
        (name, scale_of(column_of(name.rpartition(".")[2])) * values) for name, values in known
    ]
    if not known:
        listed = ", ".join(
            f"{name} ({len(values)} x {values.shape[1]})" for name, values in matrices[:3]
        )
        cure = (
            f"name the columns of {listed} with {file_name}:columns=lat,lon,time,speed"
            if matrices
            else ""
        )
        cure = cure or (
            _TABLE if tables else "save vectors named x_m, y_m or lat, lon, with time and speed"
        )
        raise CourseError(f"{file_name}: no vector with a known name; {cure}")
    names = [name for name, _ in known]
    found = quantities(file_name, [column_of(name.rpartition(".")[2]) for name in names])
    values: dict[str, Array] = {role: known[i][1] for role, i in found.items()}
    first, second = ("lat", "lon") if "lat" in values else ("x", "y")
    n = len(values[first])
    check_count(file_name, n)
    for role, column in values.items():
        if len(column) != n:
            raise CourseError(
                f"{file_name}: {names[found[role]]} has {len(column)} values, "
                f"{names[found[first]]} has {n}; save vectors of one length"
            )
    units = {role: column_of(names[i].rpartition(".")[2]).unit for role, i in found.items()}
    taken = {role: names[i] for role, i in found.items() if role in DRIVEN and role != "gear"}
    meanings = {
        "x": "east, m",
        "y": "north, m",
        "lat": "latitude, deg",
        "lon": "longitude, deg",
        "speed": "speed, m/s",
    }
    account = ReadSummary(
        "variables of a MAT-file",
        tuple((name, meanings[role]) for role, name in taken.items()),
        tuple((name, "") for name, _ in vectors if name not in taken.values()),
    )
    lists = {role: column.tolist() for role, column in values.items()}
    stamps, speeds = values.get("time"), lists.get("speed")
    if stamps is not None and "week" in values:
        stamps, units["time"] = times.gps_seconds(values["week"], stamps), "s"
    return CourseFile(
        file_name=file_name,
        points=list(zip(lists[first], lists[second], strict=True)),
        places=[f"row {k}" for k in range(1, n + 1)],
        geodetic=first == "lat",
        order=ORDER,
        account=account,
        speeds_mps=speeds,
        headings=lists.get("heading"),
        heading_unit=units.get("heading", ""),
        curvatures_per_m=lists.get("curvature"),
        times=None
        if stamps is None
        else times.from_numbers(names[found["time"]], stamps, units["time"], options.time),
    )


Named = list[tuple[str, Array]]


def _contents(data: bytes, file_name: str) -> tuple[Named, Named, bool]:
    """Return the vectors, the matrices, and whether there are tables. Raises CourseError."""
    try:
        from scipy.io import loadmat, whosmat
    except ImportError:
        raise CourseError(
            f"{file_name}: MAT-files need scipy: pip install 'vehicled[calibrate]', or save "
            "the trace as CSV"
        ) from None
    try:
        sizes = [int(np.prod(shape, dtype=float)) for _, shape, _ in whosmat(BytesIO(data))]
        if sum(sizes) > MAX_VALUES:
            raise CourseError(
                f"{file_name}: {sum(sizes)} values; at most {MAX_VALUES} are read: save the "
                "trace alone"
            )
        variables: dict[str, Any] = loadmat(BytesIO(data))
    except CourseError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file makes the reader raise anything
        reason = type(error).__name__
        raise CourseError(
            f"{file_name}: no readable MAT-file ({reason}); save it again with save(..., '-v7')"
        ) from None
    vectors: Named = []
    matrices: Named = []
    tables = False
    for name, value in _flat(
        {key: each for key, each in variables.items() if not key.startswith("__")}
    ):
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            tables |= isinstance(value, np.ndarray) and value.dtype.names is not None
        elif value.ndim == 2 and min(value.shape) == 1 and value.size > 1:
            vectors.append((name, value.ravel().astype(float)))
        elif value.ndim == 2 and min(value.shape) > 1:
            matrices.append(
                (name, (value if len(value) >= value.shape[1] else value.T).astype(float))
            )
    return vectors, matrices, tables or any(not key for key in variables) or "None" in variables


def _flat(variables: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over variables and the fields of single structures."""
    for name, value in variables.items():
        fields = value.dtype.names if isinstance(value, np.ndarray) else None
        if fields and value.size == 1 and len(prefix) < 100:
            yield from _flat(
                {field: value.ravel()[0][field] for field in fields}, f"{prefix}{name}."
            )
        else:
            yield prefix + name, value


def _named(file_name: str, matrices: Named, columns: Sequence[str]) -> Named:
    """Return the columns of the only matrix under the user's names. Raises CourseError."""
    if len(matrices) != 1:
        listed = ", ".join(name for name, _ in matrices) or "none"
        raise CourseError(
            f"{file_name}: columns= is for a file with one matrix; this one has {listed}: "
            "leave it out, or save one"
        )
    name, matrix = matrices[0]
    if matrix.shape[1] != len(columns):
        raise CourseError(
            f"{file_name}: {name} has {matrix.shape[1]} columns, but columns= names "
            f"{len(columns)}; name every column, with - for one to ignore"
        )
    return [
        (column, matrix[:, k]) for k, column in enumerate(columns) if column not in ("", "-", "_")
    ]

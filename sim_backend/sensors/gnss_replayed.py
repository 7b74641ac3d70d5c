"""Errors of a recorded receiver, added to the simulated truth: the model ``replayed``."""

import csv
import io
from bisect import bisect_right
from math import isfinite

from sim_backend.scene.anchor import bytes_of, expanded
from sim_backend.scene.errors import SceneError
from vehicled.profile.gnss import GnssModel

COLUMNS = ("run", "t_s", "east_m", "north_m")
KEY = "sim.gnss.replayed.file"
Row = tuple[float, float, float]


class ReplayedGnssError:
    """The recorded error by the time since the start. After its end it runs backwards and forwards
    again, so it never jumps."""

    def __init__(self, model: GnssModel, seed: int) -> None:
        """Raises :class:`sim_backend.scene.errors.SceneError`."""
        if not model.replayed.file:
            raise SceneError(
                f'{KEY} is empty, but model = "replayed" needs it: vehicled sensors fit RUNS '
                "--errors FILE"
            )
        path = expanded(model.replayed.file)
        runs = read_errors(bytes_of(path, KEY), str(path))
        wanted = model.replayed.run or sorted(runs)[seed % len(runs)]
        if wanted not in runs:
            raise SceneError(
                f"{path}: holds no run {wanted!r}; there are {', '.join(sorted(runs)[:8])}"
            )
        self._rows = runs[wanted]
        self._times = [t_s for t_s, _, _ in self._rows]
        variances = [sum(row[axis] ** 2 for row in self._rows) / len(self._rows) for axis in (1, 2)]
        self.variances_m2 = (variances[0], variances[1], 0.0)

    def step(
        self, elapsed_s: float, normals: list[float]
    ) -> tuple[float, float, float, float, float, float]:
        """Return the error at a time, see
        :class:`sim_backend.sensors.gnss_errors.PositionError`."""
        times, rows = self._times, self._rows
        length = times[-1] - times[0]
        at = elapsed_s % (2.0 * length)
        at = times[0] + (at if at <= length else 2.0 * length - at)
        right = min(max(bisect_right(times, at), 1), len(times) - 1)
        (t0, east0, north0), (t1, east1, north1) = rows[right - 1], rows[right]
        share = (at - t0) / (t1 - t0)
        return (
            0.0,
            0.0,
            0.0,
            east0 + share * (east1 - east0),
            north0 + share * (north1 - north0),
            0.0,
        )


def read_errors(data: bytes, name: str) -> dict[str, list[Row]]:
    """Return the errors (time, east, north) of each run. Raises
    :class:`sim_backend.scene.errors.SceneError`."""
    runs: dict[str, list[Row]] = {}
    reader = csv.DictReader(io.StringIO(data.decode("utf-8", errors="replace")))
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise SceneError(f"{name}: has no column {missing[0]}; needed are {', '.join(COLUMNS)}")
    for number, line in enumerate(reader, start=2):
        try:
            t_s, east_m, north_m = (float(line[column]) for column in COLUMNS[1:])
        except (TypeError, ValueError):
            raise SceneError(
                f"{name}: line {number} holds no numbers in {', '.join(COLUMNS[1:])}"
            ) from None
        if not isfinite(t_s + east_m + north_m):
            raise SceneError(
                f"{name}: line {number} holds a number that is not finite; leave the line out"
            )
        rows = runs.setdefault(line["run"], [])
        if rows and t_s <= rows[-1][0]:
            raise SceneError(f"{name}: line {number}: t_s does not grow within run {line['run']!r}")
        rows.append((t_s, east_m, north_m))
    runs = {run: rows for run, rows in runs.items() if len(rows) > 1}
    if not runs:
        raise SceneError(f"{name}: holds no run of two lines or more")
    return runs

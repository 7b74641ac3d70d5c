"""Logs that a study kept, by the levels of its factors."""

from collections.abc import Sequence
from pathlib import Path

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.report import Finished, read_study
from vehicled.offline.studies.table import FILE


def selected(path: str) -> tuple[Finished, dict[str, str]] | None:
    """Return the study of a text ``DIR`` or ``DIR:FACTOR=LEVEL,...``, and the chosen level by
    factor; None for another path.

    Raises :class:`StudyError` for a factor or level that the study has not.
    """
    folder, colon, given = path.rpartition(":")
    if not colon or "=" not in given or Path(path).exists():
        folder, given = path, ""
    if not (Path(folder) / FILE).is_file():
        return None
    study = read_study(Path(folder))
    chosen = {}
    for item in filter(None, given.split(",")):
        factor, _, level = item.partition("=")
        known = levels(study, factor)
        if level not in known:
            raise StudyError(
                f"{folder}", [f"{factor} has no level {level!r:.60}: it has {', '.join(known)}"]
            )
        chosen[factor] = level
    return study, chosen


def levels(study: Finished, factor: str) -> list[str]:
    """Return the levels of a factor as texts, in their order. Raises :class:`StudyError` for an
    unknown factor."""
    name = study.check_factor(factor)
    return list(dict.fromkeys(str(row.levels[name]) for row in study.rows))


def logs_of(study: Finished, chosen: dict[str, str]) -> list[str]:
    """Return the logs of the finished runs at these levels. Raises :class:`StudyError` if one of
    them kept none."""
    found = []
    for row in study.rows:
        if row.outcome == "finished" and all(
            str(row.levels[factor]) == level for factor, level in chosen.items()
        ):
            file = _log(study.folder, row)
            if file is None:
                cure = 'put keep_logs = "all" into the study, and drive it into another --output'
                raise StudyError(str(study.folder), [f"run {row.number} kept no log: {cure}"])
            found.append(str(file))
    if not found:
        shown = ", ".join(f"{factor} = {level}" for factor, level in chosen.items())
        raise StudyError(
            str(study.folder), [f"no run{f' at {shown}' if shown else ''} has finished"]
        )
    return found


def grouped(paths: Sequence[str], factor: str) -> dict[str, list[str]]:
    """Return the logs of studies by the level of a factor. Raises :class:`StudyError`."""
    found: dict[str, list[str]] = {}
    for path in paths:
        study = selected(path)
        if study is None:
            raise StudyError(
                path,
                [
                    (
                        f"is no folder of a study, so it cannot be split by {factor}: name one, or "
                        "leave --by out"
                    )
                ],
            )
        for level in levels(study[0], factor):
            if study[1].get(factor, level) == level:
                found.setdefault(level, []).extend(logs_of(study[0], {**study[1], factor: level}))
    return found


def expanded(paths: Sequence[str]) -> list[str]:
    """Return the paths with each ``DIR:FACTOR=LEVEL`` replaced by the logs of these runs; other
    paths stay."""
    found = []
    for path in paths:
        study = selected(path)
        found += logs_of(*study) if study is not None and study[1] else [path]
    return found


def _log(folder: Path, row: RunRow) -> Path | None:
    """Return the log of a run, also if the folder was moved since."""
    if row.log and Path(row.log).is_file():
        return Path(row.log)
    return next(iter(sorted((folder / "logs" / row.key).glob("*.mcap"))), None)

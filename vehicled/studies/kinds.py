"""Kinds of reports: the general one, and those of shipped studies with figures of their own."""

from collections.abc import Callable
from pathlib import Path

from vehicled.profile.problems import choices
from vehicled.studies.errors import StudyError
from vehicled.studies.report import Finished, write_report


def write_page(study: Finished, output: Path) -> None:
    """Write the report of the kind that the study asks for."""
    kind = study.specification.report
    if kind not in KINDS:
        raise StudyError(study.specification.path, [f"report = {kind!r:.60}: use one of {choices(KINDS)}, or leave it out"])
    KINDS[kind](study, output)


KINDS: dict[str, Callable[[Finished, Path], None]] = {"": write_report}
"""Functions that write a report, by the name in a study file."""

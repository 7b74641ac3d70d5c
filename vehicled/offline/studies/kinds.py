"""Kinds of reports: the general one, and those of shipped studies with figures of their own."""

from pathlib import Path

from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.report import Finished, write_report
from vehicled.profile.problems import choices


def write_page(study: Finished, output: Path, published: Path | None = None) -> None:
    """Write the report of the kind that the study asks for. ``published``: numbers of others, for a
    kind that draws them beside."""
    kind = study.specification.report
    if kind and kind not in KINDS:
        raise StudyError(
            study.specification.path,
            [f"report = {kind!r:.60}: use one of {choices(KINDS)}, or leave it out"],
        )
    if kind == "low_rate":
        # Imported here, because its figures need more libraries.
        from vehicled.offline.studies.low_rate import write_low_rate

        write_low_rate(study, output, published)
    elif kind == "matrix":
        from vehicled.offline.studies.matrix import write_matrix

        write_matrix(study, output)
    elif published is not None:
        raise StudyError(
            study.specification.path,
            ["--published needs a study with a report of its own, such as low_rate"],
        )
    else:
        write_report(study, output)


KINDS = ("low_rate", "matrix")
"""Kinds of reports besides the general one."""

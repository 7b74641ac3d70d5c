"""Writer of calibrated profiles: replaces numbers in the text and keeps all other lines, including comments."""

from collections.abc import Sequence

from vehicled.lab.calibration.quantity import CalibratedNumber
from vehicled.profile import Problem, ProfileError
from vehicled.profile.toml_text import Places


def written_profile(source: str, figures: Sequence[CalibratedNumber], text: str) -> str:
    """Return ``source`` with each number replaced, marked as calibrated with its standard deviation.

    A number that has only a default is added below the header of its table. Raises ProfileError if that header is missing.
    """
    lines = source.split("\n")
    places = Places(source, ())
    problems = []
    for figure in figures:
        line = places.line(tuple(figure.key.split(".")))
        table, _, name = figure.key.rpartition(".")
        shown = f"{name} = {figure.value:.7g}  # calibrated, sigma {figure.sigma:.2g}"
        if line is not None and lines[line - 1].lstrip().startswith(name):
            lines[line - 1] = shown
            continue
        header = places.line(tuple(table.split(".")))
        if header is None or not lines[header - 1].lstrip().startswith(f"[{table}]"):
            problems.append(Problem(figure.key, f"the profile has no header [{table}]; add it"))
            continue
        lines[header - 1] += f"\n{shown}"
    if problems:
        raise ProfileError(problems, "the profile")
    return f"# Numbers marked calibrated: {text}\n" + "\n".join(lines)

"""A profile's text with numbers found by calibration; everything else in it stays, comments too."""

from collections.abc import Sequence

from sim_backend.calibration.quantity import Figure
from vehicled.profile import Problem, ProfileError
from vehicled.profile.toml_text import Places


def written_profile(source: str, figures: Sequence[Figure], text: str) -> str:
    """``source`` with each number in its place, marked as calibrated with its standard deviation.

    Raises ProfileError for a number that the file does not hold itself, because it has it by default.
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
        if header is None or not lines[header - 1].lstrip().startswith("["):
            problems.append(Problem(figure.key, f"the profile has no table [{table}] to write it to; give it one"))
            continue
        lines[header - 1] += f"\n{shown}"
    if problems:
        raise ProfileError(problems, "the profile")
    return f"# Numbers marked calibrated: {text}\n" + "\n".join(lines)

"""Writer of calibrated profiles: replaces numbers in the text and keeps all other lines, including comments."""

from collections.abc import Mapping, Sequence

from vehicled.offline.twin.calibration.quantity import CalibratedNumber
from vehicled.profile import Problem, ProfileError
from vehicled.profile.toml_text import Places


def written_profile(source: str, figures: Sequence[CalibratedNumber], text: str) -> str:
    """Return ``source`` with each number replaced, marked as calibrated with its standard deviation.

    A number that has only a default is added below the header of its table. Raises ProfileError if that header is missing.
    """
    shown = {figure.key: f"{figure.value:.7g}  # calibrated, sigma {figure.sigma:.2g}" for figure in figures}
    return f"# Numbers marked calibrated: {text}\n" + with_values(source, shown)


def with_values(source: str, values: Mapping[str, str], *, appends: bool = False) -> str:
    """Return the text of a profile with values, as TOML by dotted key, replaced or added below the header of their table.

    A missing table is appended if ``appends``, else it raises ProfileError.
    """
    lines = source.split("\n")
    places = Places(source, ())
    problems = []
    appended: dict[str, list[str]] = {}
    for key, value in values.items():
        line = places.line(tuple(key.split(".")))
        table, _, name = key.rpartition(".")
        shown = f"{name} = {value}"
        if line is not None and lines[line - 1].lstrip().startswith(name):
            lines[line - 1] = shown
            continue
        header = places.line(tuple(table.split(".")))
        if header is not None and lines[header - 1].lstrip().startswith(f"[{table}]"):
            lines[header - 1] += f"\n{shown}"
        elif appends:
            appended.setdefault(table, []).append(shown)
        else:
            problems.append(Problem(key, f"the profile has no header [{table}]; add it"))
    if problems:
        raise ProfileError(problems, "the profile")
    tables = [f"\n[{table}]\n" + "\n".join(shown) for table, shown in appended.items()]
    return "\n".join([*lines, *tables]) + ("\n" if tables else "")

"""Command ``vehicled gap``."""

import csv
import io
import os
from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.gap import Gap, describe, gap
from vehicled.offline.gap.quantities import PUBLISHED
from vehicled.offline.gap.runs import JudgingTask
from vehicled.offline.studies.logs import expanded, grouped
from vehicled.run.output import check_output, check_plot_file, write_output
from vehicled.run.terminal import Progress, print_table


def run(arguments: Namespace) -> int:
    """Judge and compare; print table, verdicts and notes."""
    pictures = {"--plot": arguments.plot, "--histograms": arguments.histograms, "--speeds": arguments.speeds}
    for option, file in pictures.items():
        if file:
            check_plot_file(Path(file), option)
    if arguments.runs:
        check_output("--runs", Path(arguments.runs))
    task = JudgingTask(
        judge=arguments.judge,
        overrides=tuple(arguments.set),
        profile=arguments.profile,
        kinds=tuple(arguments.kind),
        mapping=arguments.map,
        manoeuvres=tuple(arguments.manoeuvre),
    )
    line = Progress()
    found = gap(
        expanded([path for paths in arguments.real for path in paths]),
        _by_level(arguments.sim, arguments.by) if arguments.by else _labelled(arguments.sim),
        task,
        quantities=tuple(dict.fromkeys(arguments.quantity)) or PUBLISHED,
        distance=arguments.distance,
        jobs=arguments.jobs or os.cpu_count() or 1,
        progress=(lambda text: None) if arguments.quiet else line.update,
    )
    line.close()
    for file, draw in zip(pictures.values(), (found.plot, found.plot_histograms, found.plot_speeds), strict=True):
        if file:
            draw(file)
    if arguments.runs:
        write_output(Path(arguments.runs), _csv(found))
    if arguments.json:
        print(msgspec.json.encode(_summary(found)).decode())
    else:
        _print(found, list(filter(None, pictures.values())))
    if all(model.different is None for model in found.models):
        return 2
    return int(any(model.different for model in found.models))


def _labelled(options: list[list[str]]) -> dict[str, list[str]]:
    """Return the files and folders of each model by its label. Raises :class:`GapError` for a label that is used twice."""
    found: dict[str, list[str]] = {}
    for paths in options:
        label, equals, first = paths[0].partition("=")
        if not equals or ":" in label or os.path.exists(paths[0]):
            label, first = Path(paths[0]).resolve().stem, paths[0]
        if label in found or label == "real":
            raise GapError(f"--sim {paths[0]}: the label {label!r} is taken; write --sim ANOTHER={first}")
        found[label] = expanded([first, *paths[1:]])
    return found


def _by_level(options: list[list[str]], factor: str) -> dict[str, list[str]]:
    """Return the logs of each level of a factor."""
    return grouped([path for paths in options for path in paths], factor)


def _print(found: Gap, pictures: list[str]) -> None:
    if any(model.manoeuvres for model in found.models):
        print_table(f"Judge {found.judge}: simulated against {len(found.real.runs)} real runs", *found.table())
        print("\n".join(describe(found.quantities)))
        print(f"{found.name}: mean of the distances. floor: median distance between random halves of the real runs.")
    print(found.text(), end="")
    for file in pictures:
        print(f"picture: {file}")


def _csv(found: Gap) -> str:
    rows = found.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["set", "run"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _summary(found: Gap) -> dict[str, object]:
    return {
        "judge": found.judge,
        "distance": found.distance,
        "quantities": found.quantities,
        "real_runs": len(found.real.runs),
        "ranks": found.ranks(),
        "notes": found.notes,
        "models": {
            model.simulated.label: {
                "verdict": model.verdict,
                "different": model.different,
                "comparisons": model.manoeuvres,
                "notes": model.notes,
            }
            for model in found.models
        },
    }

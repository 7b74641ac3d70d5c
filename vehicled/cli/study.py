"""Commands ``vehicled study run | report | export | list``."""

import sys
from argparse import Namespace
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from vehicled.offline.studies import specification
from vehicled.offline.studies.campaign import Campaign, StudyState
from vehicled.offline.studies.kinds import write_page
from vehicled.offline.studies.pool import LocalPool, Pool
from vehicled.offline.studies.report import Finished, read_study
from vehicled.offline.studies.table import write_table
from vehicled.run.argument_types import JOBS, STUDY, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import Progress, print_table

INTERRUPTED_STATUS = 130


def declare_study(parser: CommandParser) -> None:
    """Drive every combination of the factors in a study file, in parallel. A second call drives
    what is missing."""
    parser.describe(
        examples=(
            "vehicled study my_study.toml      drive all runs, write the report",
            "vehicled study my_study.toml --on dask://host:8786",
            "vehicled study report study_my_study --figure effect.pdf --x rate",
            "vehicled study list               studies that ship with vehicled",
        ),
        epilog="'vehicled study FILE' is short for 'vehicled study run FILE'. Exit status: 0 "
        "every run was driven; 1 a run was "
        "refused or its process died, or a metric failed; 130 interrupted. See docs/studies.md.",
    )


def declare_study_run(parser: CommandParser) -> None:
    """Drive what is missing of a study, and write its report."""
    parser.add_argument(
        "study", type=STUDY, metavar="FILE", help="study file, or the name of a shipped study"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder of the results (default: ./study_NAME)"
    )
    parser.add_argument(
        "--jobs", type=JOBS, metavar="N", help="processes on this computer (default: one per core)"
    )
    parser.add_argument(
        "--on",
        type=TEXT,
        metavar="WHERE",
        help="drive on a Dask cluster: dask://HOST:PORT, or its scheduler file",
    )
    parser.add_argument(
        "--extend",
        action="store_true",
        help="the study or the software changed: keep the runs that still belong, drive the others",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    parser.set_defaults(run=run)


def declare_study_report(parser: CommandParser) -> None:
    """Write the report of a study, or a figure for a paper."""
    parser.add_argument("folder", metavar="DIR", help="folder of the results")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="page to write (default: report.html in the folder)"
    )
    parser.add_argument(
        "--published",
        metavar="FILE",
        help="published runs to draw beside the study's (study low_rate)",
    )
    parser.add_argument(
        "--figure",
        metavar="FILE",
        help="write a figure instead (.pdf, .svg, .png; needs matplotlib)",
    )
    parser.add_argument(
        "--metric",
        type=TEXT,
        action="append",
        default=[],
        metavar="NAME",
        help="metric of the figure; repeatable",
    )
    parser.add_argument(
        "--x",
        type=TEXT,
        metavar="FACTOR",
        help="factor along the axis of the figure (default: the first numeric one)",
    )
    parser.add_argument(
        "--lines",
        type=TEXT,
        metavar="FACTOR",
        help="factor with a line for each level in the figure",
    )
    parser.set_defaults(run=report)


def declare_study_export(parser: CommandParser) -> None:
    """Write the table of a study as CSV or Parquet."""
    parser.add_argument("folder", metavar="DIR", help="folder of the results")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="file to write: .csv, or .parquet (needs pyarrow)",
    )
    parser.set_defaults(run=export)


def declare_study_list(parser: CommandParser) -> None:
    """List the studies that ship with vehicled."""
    parser.set_defaults(run=list_studies)


def run(arguments: Namespace) -> int:
    """Drive what is missing, write the report, print what to look at."""
    chosen = specification.load(arguments.study)
    folder = Path(arguments.output or f"study_{chosen.name}")
    line = _StudyProgress()
    with Campaign(chosen, folder, extend=arguments.extend) as campaign:
        pool: Pool
        if arguments.on:
            from vehicled.offline.studies.cluster import DaskPool

            pool = cluster = DaskPool(arguments.on)
            if cluster.notice:
                print(f"vehicled: {cluster.notice}", file=sys.stderr)
        else:
            pool = LocalPool(arguments.jobs)
            line.set_jobs(pool.size)
        try:
            rows = campaign.run(pool, (lambda state: None) if arguments.quiet else line.show)
        except KeyboardInterrupt:
            line.progress.close()
            print(
                (
                    f"vehicled: interrupted; finished runs are kept in {folder}: the same command "
                    "goes on"
                ),
                file=sys.stderr,
            )
            return INTERRUPTED_STATUS
        finally:
            pool.close()
    line.progress.close()
    page = folder / "report.html"
    finished = read_study(folder)
    write_page(finished, page)
    count = {
        name: sum(row.outcome == name for row in rows)
        for name in ("finished", "failed", "refused", "crashed")
    }
    print(
        f"{len(rows)} run{'s' if len(rows) > 1 else ''}: "
        + ", ".join(f"{number} {name}" for name, number in count.items() if number)
    )
    reasons = Counter(row.why for row in rows if row.outcome == "failed").most_common(1)
    if reasons:
        print(f"most failures: {reasons[0][0]} ({reasons[0][1]} of {count['failed']})")
    shown = [row for row in rows if row.outcome in ("refused", "crashed") or row.problem]
    for row in shown[:5]:
        print(f"run {row.number} {row.outcome}: {row.problem or row.why}", file=sys.stderr)
    if len(shown) > 5:
        print(f"... and {len(shown) - 5} more: see the report", file=sys.stderr)
    print(f"report: {page}\ntable:  {folder / 'study.sqlite'} (table runs)")
    return 1 if shown else 0


HINT_S = 2.0 * 3600.0
"""Processor time that must be left for the compiled wheel to be named, s."""


class _StudyProgress:
    """Runs done, their rate and the time left."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._jobs = 0
        self._hinted = False

    def set_jobs(self, jobs: int) -> None:
        """Set the number of processes on this computer, whose speed a compiled wheel would
        change."""
        self._jobs = jobs

    def show(self, state: StudyState) -> None:
        """Update the line if it is due."""
        if not self.progress.due():
            return
        bar = "#" * round(24 * state.done / max(state.size, 1))
        text = f"[{bar:<24}] {state.done} of {state.size} runs"
        if state.failed:
            text += f", {state.failed} not finished"
        if state.driven:
            rate_hz = state.driven / max(self.progress.elapsed_s, 1e-3)
            left_s = (state.size - state.done) / rate_hz
            self._hint(left_s, state.driven)
            text += f", {60 * rate_hz:.1f} per minute, {_duration(left_s)} left"
        if state.best is not None:
            text += f", best {state.best:.4g}"
        self.progress.show(text)

    def _hint(self, left_s: float, driven: int) -> None:
        """Name the compiled wheel once, where a study takes hours of processor time without it."""
        if (
            self._hinted
            or driven < 2 * self._jobs
            or left_s * self._jobs < HINT_S
            or find_spec("vehicled__mypyc")
        ):
            return
        self._hinted = True
        self.progress.close()
        hours = f"about {left_s * self._jobs / 3600.0:.1f} hours of processor time left"
        cure = (
            "with the wheel of `make compiled` a drive takes about half of it: "
            "docs/studies.md. Ctrl-C keeps the runs so far"
        )
        print(f"vehicled: {hours}; {cure}.", file=sys.stderr)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def report(arguments: Namespace) -> int:
    """Write the page of a study, or a figure."""
    study = read_study(Path(arguments.folder))
    if arguments.figure:
        from vehicled.offline.studies.report import write_figure

        output = Path(arguments.figure)
        check_plot_file(output, "--figure")
        metrics = [study.check_metric(name) for name in arguments.metric] or study.metrics[:2]
        x = study.check_factor(arguments.x) if arguments.x else _first_numeric(study)
        write_figure(
            study,
            output,
            metrics,
            x,
            study.check_factor(arguments.lines) if arguments.lines else "",
        )
        print(f"figure: {output}")
        return 0
    output = Path(arguments.output) if arguments.output else study.folder / "report.html"
    write_page(study, output, Path(arguments.published) if arguments.published else None)
    print(f"report: {output}")
    return 0


def _first_numeric(study: Finished) -> str:
    names = [name for name in study.specification.columns if name != "seed"] or ["seed"]
    numeric = (
        name
        for name in names
        if all(isinstance(row.levels.get(name), int | float) for row in study.rows)
    )
    return next(numeric, names[0])


def export(arguments: Namespace) -> int:
    """Write the table of a study as CSV or Parquet."""
    study = read_study(Path(arguments.folder))
    write_table(study.rows, Path(arguments.output))
    print(f"{len(study.rows)} runs: {arguments.output}")
    return 0


def list_studies(arguments: Namespace) -> int:
    """Print the shipped studies."""
    rows = []
    for name in specification.names():
        found = specification.load(name)
        rows.append([name, str(found.size), found.description])
    print_table("", ["study", "runs", ""], rows)
    return 0

"""The eight case studies of the published AutoDRIVE work, each judged by the criteria of its task.

Parking of Nigel, Hunter SE and OpenCAV; racing of F1TENTH; a forest path for Hunter SE, RZR and
Husky; tracking with the same gains at every scale. Each drives its twin in lockstep, from
standstill and with the noise of the profile's sensors, and is judged by the true motion. Samak et
al. 2023, "AutoDRIVE: A Comprehensive, Flexible and Integrated Digital Twin Ecosystem for Autonomous
Driving Research & Education", and its successors show studies of these kinds; their scenes and
figures are not public, so nothing of theirs stands beside ours.
"""

from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.core.errors import SetupError
from vehicled.offline.replications.case_studies.conducting import conduct
from vehicled.offline.replications.case_studies.declarations import STUDIES, drives_of, study_of
from vehicled.offline.replications.case_studies.driving import command_of
from vehicled.offline.replications.case_studies.judging import CaseVerdict, judge
from vehicled.offline.replications.experiments.common import ExperimentConsole, on_terminal
from vehicled.run.argument_types import JOBS, NameType
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file

NAME = NameType(lambda text, before: [study.name for study in STUDIES])


def declare_experiment_case_study(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(
        __doc__ or "",
        examples=(
            "vehicled experiment case-study parking_nigel",
            "vehicled experiment case-study --all --output studies",
        ),
        epilog=(
            "Exit status: 0 every study passed; 1 one failed; 2 invalid arguments. See "
            "docs/case_studies.md."
        ),
    )
    parser.add_argument(
        "names",
        type=NAME,
        nargs="*",
        metavar="NAME",
        help=f"studies: {', '.join(study.name for study in STUDIES)}",
    )
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument(
        "--output", metavar="DIR", help="folder of the pictures, one for each study (default: none)"
    )
    parser.add_argument(
        "--jobs", type=JOBS, metavar="N", help="processes (default: one for each core)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Drive, judge, draw and show. Raises :class:`SetupError` for arguments that cannot be used,
    and the errors of drives."""
    if bool(arguments.names) == arguments.all:
        raise SetupError("name one study or several, or give --all")
    named = dict.fromkeys(arguments.names)
    studies = STUDIES if arguments.all else tuple(study_of(name) for name in named)
    folder = Path(arguments.output) if arguments.output else None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"--output {folder}: {error.strerror or error}") from None
        check_plot_file(folder / "study.png", "--output")
    outcomes = conduct(
        studies,
        arguments.jobs,
        lambda done, size: console.progress(f"{done} of {size} drives"),
    )
    verdicts = [judge(study, found) for study, found in zip(studies, outcomes, strict=True)]
    if folder is not None:
        from vehicled.offline.replications.case_studies.picture import draw

        for study, found in zip(studies, outcomes, strict=True):
            draw(study, found, str(folder / f"case_{study.name}.png"))
    if arguments.json:
        by_name = {verdict.name: verdict for verdict in verdicts}
        console.text(msgspec.json.format(msgspec.json.encode(by_name)).decode())
    else:
        for verdict in verdicts:
            _show(verdict, console)
        for study in studies:
            for drive in drives_of(study):
                console.text(f"drive alone: {command_of(drive)} --seed 1")
        if folder is not None:
            console.text(f"pictures: {folder}")
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _show(verdict: CaseVerdict, console: ExperimentConsole) -> None:
    rows = [
        [check.name, check.found, check.wanted, "passed" if check.passed else "FAILED"]
        for check in verdict.checks
    ]
    result = "passed" if verdict.passed else "FAILED"
    console.table(
        f"{verdict.name}: {verdict.title}: {result}", ["criterion", "found", "wanted", ""], rows
    )

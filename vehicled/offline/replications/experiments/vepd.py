"""The receiver models of Mahajan et al. 2024, judged by the error of a state estimator (VEPD):
three manoeuvres, five models, ten drives each.

The vehicle drives a line, a half sine and a circle by RTK, each with ten seeds. Afterwards each
model takes the place of the receiver in every drive, so that the 150 runs differ in nothing else.
The real runs are yours (--real). The authors' are not public; without any, the receiver as it was
recorded on the same vehicle in 2023 stands for the real one: the model that `vehicled sensors fit`
found.

A judge with default parameters runs over all of them. Shown are W1, W2, VEPD and the ranks by
manoeuvre beside the published ones; histograms, quantiles and speeds are drawn into the output
folder. A second call drives what is missing.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from vehicled.core.errors import SetupError
from vehicled.offline.gap.gap import ALL, Gap, compare_sets
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.runs import JudgedRun, JudgingTask, RunSet, find, judge_run, judge_set
from vehicled.offline.recordings.loading import KIND, sources
from vehicled.offline.replications.experiments.common import (
    ExperimentConsole,
    add_drives,
    check_drives,
    driven,
    on_terminal,
)
from vehicled.offline.sensors.simulate import simulated
from vehicled.offline.studies.logs import logs_of
from vehicled.profile import load_profile
from vehicled.run.argument_types import ESTIMATOR, TEXT
from vehicled.run.command_line import CommandParser

MANOEUVRES = {"line": "straight_30m", "circle": "circle_r5_ccw", "sine": "half_sine"}
MODELS = ("gauss", "random_walk", "airsim", "gauss_airsim", "random_walk_airsim")
STAND_IN = "recorded"
"""Model that stands for the real receiver."""
PUBLISHED = {
    "gauss": {ALL: (0.2242, 0.0859, 0.155), "line": 0.1387, "circle": 0.1763, "sine": 0.1501},
    "random_walk": {ALL: (0.0836, 0.0025, 0.043), "line": 0.0048, "circle": 0.0488, "sine": 0.0796},
    "airsim": {ALL: (0.0725, 0.0054, 0.039), "line": 0.0066, "circle": 0.0459, "sine": 0.066},
    "gauss_airsim": {
        ALL: (0.1069, 0.0185, 0.0627),
        "line": 0.026,
        "circle": 0.0842,
        "sine": 0.0796,
    },
    "random_walk_airsim": {
        ALL: (0.092, 0.0044, 0.0482),
        "line": 0.0085,
        "circle": 0.0574,
        "sine": 0.0799,
    },
}
"""Mahajan et al. 2024, "Quantifying the sim2real gap for GPS and IMU sensors": W1, W2, VEPD of all
runs, and VEPD by manoeuvre."""
PLACES = (ALL, *MANOEUVRES)
RATES = ("sim.gnss.rate_hz=10", "sim.imu.rate_hz=100", "devices.imu.rate_hz=100")
"""Rates of the published vehicle's sensors."""


def declare_experiment_vepd(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "--real",
        nargs="+",
        default=[],
        metavar="DIR",
        help="real runs (default: a stand-in, see above)",
    )
    parser.add_argument(
        "--kind",
        type=KIND,
        action="append",
        default=[],
        metavar="KIND",
        help="kind of the recordings of --real; repeatable",
    )
    parser.add_argument(
        "--manoeuvre", type=TEXT, action="append", default=[], metavar="NAME=PATTERN",
        help=(
            "real runs with PATTERN in their path or course drive NAME: line, circle or sine; "
            "repeatable"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--judge",
        type=ESTIMATOR,
        action="append",
        default=[],
        metavar="NAME",
        help="as for vehicled gap; repeatable (default ekf4)",
    )
    add_drives(parser, "vepd", 10)
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Drive, judge, show. Raises :class:`SetupError` for arguments that cannot be used."""
    check_drives(arguments, least=2)
    if find_spec("scipy") is None or find_spec("matplotlib") is None:
        raise SetupError(
            "experiment vepd needs scipy and matplotlib: pip install 'vehicled[calibrate,plot]'"
        )
    judges = tuple(dict.fromkeys(arguments.judge)) or ("ekf4",)
    for judge in judges:
        make_judge(judge)
    folder = Path(arguments.output)
    drives = drive(arguments, folder / "drives", console)
    found = {judge: judged(judge, drives, arguments, console) for judge in judges}
    pictures = [file for gap in found.values() for file in _pictures(gap, folder)]
    if arguments.json:
        console.text(
            msgspec.json.encode({judge: _summary(gap) for judge, gap in found.items()}).decode()
        )
        return 0
    if not arguments.real:
        console.text(
            f"real: no runs given; the receiver model {STAND_IN!r} stands for them (--real "
            "names yours)"
        )
    for gap in found.values():
        _show(gap, console)
    console.text("pictures: " + ", ".join(pictures))
    return 0


def drive(arguments: Namespace, folder: Path, console: ExperimentConsole) -> dict[str, list[str]]:
    """Drive what is missing; return the logs by manoeuvre. Raises StudyError."""
    overrides = {key: int(value) for key, _, value in (text.partition("=") for text in RATES)}
    factors = {"course": list(MANOEUVRES.values())}
    study = driven(
        arguments, console, folder, "vepd", duration_s=200, set=overrides, factors=factors
    )
    return {name: logs_of(study, {"course": course}) for name, course in MANOEUVRES.items()}


def judged(
    judge: str, drives: dict[str, list[str]], arguments: Namespace, console: ExperimentConsole
) -> Gap:
    """Judge every drive with every receiver, and compare with the real runs."""
    labels = MODELS if arguments.real else (STAND_IN, *MODELS)
    sets = {label: RunSet(label, []) for label in labels}
    jobs = [
        (name, log, number)
        for name, logs in drives.items()
        for number, log in enumerate(logs, start=1)
    ]
    with ProcessPoolExecutor(
        min(arguments.jobs, len(jobs)), mp_context=get_context("spawn")
    ) as pool:
        for done, runs in enumerate(
            pool.map(partial(_receivers, judge, labels, arguments.profile), jobs), start=1
        ):
            console.progress(
                f"judge {judge}: {done * len(labels)} of {len(jobs) * len(labels)} runs"
            )
            for label, each in runs.items():
                sets[label].runs.append(each)
    if arguments.real:
        task = JudgingTask(
            judge=judge, kinds=tuple(arguments.kind), manoeuvres=tuple(arguments.manoeuvre)
        )
        real = judge_set(
            "real", find(arguments.real, task), task, jobs=arguments.jobs, progress=console.progress
        )
    else:
        real = RunSet("real", sets.pop(STAND_IN).runs)
    return compare_sets(real, list(sets.values()), judge=judge)


def _receivers(
    judge: str, labels: Sequence[str], profile: str, job: tuple[str, str, int]
) -> dict[str, JudgedRun]:
    """Judge one drive with each receiver. The noise differs between models as between drives."""
    manoeuvre, log, number = job
    recording = sources(log)[0].load(None)[0]
    found = {}
    for label in labels:
        # As the published receivers, it gives no velocity.
        sensors = load_profile(profile, [*RATES, f"sim.gnss.model={label}"])
        inputs = simulated(
            recording,
            sensors,
            ("gnss",),
            1000 * number + [STAND_IN, *MODELS].index(label),
            velocity=False,
        )
        found[label] = judge_run(replace(recording, inputs=inputs), make_judge(judge), manoeuvre)
    return found


def _pictures(gap: Gap, folder: Path) -> Iterator[str]:
    name = gap.judge.partition("=")[0].replace("/", "_")
    for kind, draw in (
        ("histograms", gap.plot_histograms),
        ("speeds", gap.plot_speeds),
        ("quantiles", gap.plot),
    ):
        file = folder / f"{kind}_{name}.png"
        draw(file)
        yield str(file)


def agreement(gap: Gap) -> dict[str, float]:
    """Return Kendall's tau between our order of the models and the published one, by manoeuvre."""
    from scipy.stats import kendalltau

    totals = {place: _totals(gap, place) for place in PLACES}
    return {
        place: float(
            kendalltau(
                [_published(model, place) for model in MODELS], [found[model] for model in MODELS]
            ).statistic
        )
        for place, found in totals.items()
        if len(found) == len(MODELS)
    }


def _totals(gap: Gap, place: str) -> dict[str, float]:
    return {
        m.simulated.label: m.manoeuvres[place].total for m in gap.models if place in m.manoeuvres
    }


def _published(model: str, place: str) -> float:
    value: Any = PUBLISHED[model][place]
    return float(value[2]) if place == ALL else float(value)


def _ranks(values: dict[str, float]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(sorted(values, key=values.__getitem__), start=1)}


def _summary(gap: Gap) -> dict[str, Any]:
    return {
        "real_runs": len(gap.real.runs),
        "models": {model.simulated.label: model.manoeuvres for model in gap.models},
        "ranks": gap.ranks(),
        "tau": agreement(gap),
        "published": PUBLISHED,
        "notes": gap.notes + [note for model in gap.models for note in model.notes],
    }


def _show(gap: Gap, console: ExperimentConsole) -> None:
    columns = ["model", "W1", "W2", "VEPD", "95 %", "x floor", "p", "", "W1", "W2", "VEPD"]
    rows = []
    for model in gap.models:
        found = model.manoeuvres.get(ALL)
        if found is None:
            continue
        ours = [f"{found.distances['E']:.4f}", f"{found.distances['S']:.4f}", f"{found.total:.4f}"]
        spread = [
            f"{found.interval.low:.4f} to {found.interval.high:.4f}",
            f"{found.floors:.1f}",
            f"{found.p:.3f}",
        ]
        theirs = [f"{value:.4f}" for value in PUBLISHED[model.simulated.label][ALL]]  # type: ignore[attr-defined]
        rows.append([model.simulated.label, *ours, *spread, "", *theirs])
    console.table(
        f"All runs, judge {gap.judge}, {len(gap.real.runs)} real runs: ours | published",
        columns,
        rows,
    )
    ranks, rows = gap.ranks(), []
    published = {
        place: _ranks({model: _published(model, place) for model in MODELS}) for place in PLACES
    }
    for label in MODELS:
        cells = [label]
        for place in PLACES:
            rank = ranks.get(place, {}).get(label)
            cells.append("" if rank is None else f"{_totals(gap, place)[label]:.4f} ({rank})")
        rows.append(
            [
                *cells,
                "",
                *(
                    f"{_published(label, place):.4f} ({published[place][label]})"
                    for place in PLACES
                ),
            ]
        )
    rows.append(
        [
            "Kendall's tau",
            *(f"{agreement(gap).get(place, float('nan')):+.2f}" for place in PLACES),
            "",
            *[""] * len(PLACES),
        ]
    )
    console.table(
        "VEPD (rank) by manoeuvre: ours | published", ["model", *PLACES, "", *PLACES], rows
    )
    for note in dict.fromkeys(
        [*gap.notes, *(note for model in gap.models for note in model.notes)]
    ):
        console.text(f"note: {note}")

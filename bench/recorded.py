"""Recorded drives against their targets: required and reached accuracy of each estimator.

    python bench/recorded.py [--data ~/vehicled/data] [--estimator NAME]...
        [--identifier NAME|none] [--calibrated] [--json]

Every figure is computed on all recordings of its kind. Means are over runs; speed, yaw and turn
(change of yaw) are RMS. "Out" is RTK taken away for 3.7 s every 15 s, judged by the prediction of
the first fix after it. "Beyond" is the worst run's share of rows whose error of position, heading
or speed is beyond 3 sigma of the estimate. Steering is the median over the runs of a path:
identified at the end of each / least squares over the whole of it. Where a folder is absent the
targets that need it are skipped, and say so.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from vehicled.offline.recordings.benchmark import BenchmarkTask, chosen, default_identifier, run_all
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.report import Overall, overall, sheets, to_raw
from vehicled.offline.recordings.scores import Score
from vehicled.profile.registry import names
from vehicled.run.terminal import Progress, print_table

KINDS = ("mocap", "rtk", "plain_start", "plain", "path")

BEYOND = 0.05
"""Allowed share of rows beyond 3 sigma. The truth of a recording has errors of its own: 0.003 would
judge them as well."""
HONEST = (
    ("mocap", 0.14, 0.2),
    ("rtk", 0.05, 0.15),
    ("plain_start", 0.14, 0.3),
    ("plain", 0.14, 0.3),
    ("path", 0.05, 0.2),
)
"""Limits of the worst run by kind: heading, rad, and speed, m/s."""

Verdict = tuple[str, str, bool | None]
"""Target, measured value, True if met; None if it could not be measured."""


def targets(scores: Sequence[Score]) -> list[Verdict]:
    """Return all targets for one estimator."""
    by_kind = {whole.kind: whole for whole in overall(scores)}

    def of(kind: str) -> list[Score]:
        return [score for score in scores if score.kind == kind]

    def at_most(
        text: str, kind: str, limit: float, get: Callable[[Overall], float | None], digits: int = 3
    ) -> Verdict:
        value = get(by_kind[kind]) if kind in by_kind else None
        return (
            text,
            "" if value is None else f"{value:.{digits}f}",
            None if value is None else value <= limit,
        )

    def share(text: str, kind: str, limit: float, allowed: float) -> Verdict:
        ratios = [ratio for score in of(kind) if (ratio := to_raw(score)) is not None]
        good = sum(ratio < limit for ratio in ratios)
        return (
            text,
            f"{good} of {len(ratios)}" if ratios else "",
            good >= allowed * len(ratios) if ratios else None,
        )

    mocap, start = by_kind.get("mocap"), by_kind.get("plain_start")
    gain = None
    if start is not None and start.position_m is not None and start.raw_position_m is not None:
        gain = 1.0 - start.position_m / start.raw_position_m
    rows = [
        share("mocap: every run below raw", "mocap", 1.0, 1.0),
        at_most(f"mocap: mean <= 0.17 m{_beside(mocap)}", "mocap", 0.17, lambda o: o.position_m),
        at_most("rtk: speed <= 0.10 m/s, mean run", "rtk", 0.10, lambda o: o.speed_mps),
        at_most("rtk: speed <= 0.10 m/s, worst run", "rtk", 0.10, lambda o: o.worst_speed_mps),
        at_most("rtk: out for 3.7 s, worst <= 0.5 m", "rtk", 0.5, lambda o: o.bridged_m, 2),
        at_most("rtk: out for 3.7 s, mean <= 0.5 m", "rtk", 0.5, lambda o: o.bridged_mean_m, 2),
        (
            f"plain, start: 30 % below raw{_beside(start)}",
            "" if gain is None else f"{gain:.0%}",
            None if gain is None else gain >= 0.30,
        ),
        share("plain, start: 90 % of runs below raw", "plain_start", 1.0, 0.9),
        at_most(
            "plain, start: worst <= 1.1 x raw", "plain_start", 1.1, lambda o: o.worst_to_raw, 2
        ),
        at_most("plain: worst <= 1.05 x raw", "plain", 1.05, lambda o: o.worst_to_raw, 2),
        at_most("path: 1 s ahead, mean <= 0.09 m", "path", 0.09, lambda o: o.ahead_position_m),
        at_most("path: 1 s ahead, yaw <= 0.042 rad", "path", 0.042, lambda o: o.ahead_yaw_rad),
        at_most("path: 1 s ahead, turn <= 0.042 rad", "path", 0.042, lambda o: o.ahead_turn_rad),
    ]
    for kind, heading_rad, speed_mps in HONEST:
        rows += [
            at_most(
                f"{kind}: heading <= {heading_rad:g} rad, worst run",
                kind,
                heading_rad,
                lambda o: o.worst_heading_rad,
            ),
            at_most(
                f"{kind}: speed <= {speed_mps:g} m/s, worst run",
                kind,
                speed_mps,
                lambda o: o.worst_speed_mps,
            ),
            at_most(
                f"{kind}: beyond, position <= {BEYOND:.0%}",
                kind,
                BEYOND,
                lambda o: o.worst_beyond_position,
            ),
            at_most(
                f"{kind}: beyond, heading <= {BEYOND:.0%}",
                kind,
                BEYOND,
                lambda o: o.worst_beyond_heading,
            ),
            at_most(
                f"{kind}: beyond, speed <= {BEYOND:.0%}",
                kind,
                BEYOND,
                lambda o: o.worst_beyond_speed,
            ),
        ]
    for folder in sorted({score.name.rsplit("/", 1)[0] for score in of("path")}):
        rows += _steering(
            [s for s in of("path") if s.name.startswith(folder + "/")], folder.rsplit("/", 1)[-1]
        )
    return rows


def _beside(whole: Overall | None) -> str:
    if whole is None or whole.raw_position_m is None:
        return ""
    published = (
        f", publ. {whole.published_position_m:.2f}"
        if whole.published_position_m is not None
        else ""
    )
    return f" (raw {whole.raw_position_m:.2f}{published})"


def _steering(scores: Sequence[Score], path: str) -> list[Verdict]:
    known = [score.least_squares for score in scores if score.least_squares is not None]
    found = [score.identified for score in scores if score.identified is not None]
    texts = (f"{path}: gain within 5 %", f"{path}: delay within 0.05 s")
    if not known or not found:
        return [(text, "", None) for text in texts]
    gain, delay = median(fit.gain_rad for fit in known), median(fit.delay_s for fit in known)
    mine, late = median(fit.gain_rad for fit in found), median(fit.delay_s for fit in found)
    return [
        (texts[0], f"{mine:.3f}/{gain:.3f}", abs(mine / gain - 1.0) <= 0.05),
        (texts[1], f"{late:.2f}/{delay:.2f}", abs(late - delay) <= 0.05),
    ]


def _show(progress: Progress, text: str) -> None:
    if progress.due():
        progress.show(text)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=str(Path(DATA_FOLDER).expanduser()))
    parser.add_argument(
        "--estimator",
        action="append",
        default=[],
        help="repeatable (default: all that are registered)",
    )
    parser.add_argument("--identifier", help="name, or none (default: the registered one)")
    parser.add_argument(
        "--calibrated",
        action="store_true",
        help="planar with the constants found in the other recordings of a kind",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", action="store_true", help="also print every recording")
    arguments = parser.parse_args()
    identifier = arguments.identifier or default_identifier()
    results: dict[str, list[Verdict]] = {}
    for estimator in arguments.estimator or names("estimator"):
        folds = 4 if arguments.calibrated and estimator == "planar" else 0
        task = BenchmarkTask(
            estimator=estimator,
            identifier=None if identifier == "none" else identifier,
            kinds=KINDS,
            folds=folds,
        )
        progress = Progress()
        try:
            found = chosen(arguments.data, task)
            scores = [score for _, _, score in run_all(found, task, partial(_show, progress))]
        except RecordingError as error:
            print(
                f"skipped: {error}; vehicled data fetch lot17_rtk_gps_2023 mocap_ekf_mpc_2023 "
                "path_following_2024"
            )
            return 0
        finally:
            progress.close()
        if arguments.runs:
            for sheet in sheets(scores):
                print_table(sheet.title, sheet.columns, sheet.rows)
        results[estimator] = targets(scores)
        absent = sorted(set(KINDS) - {score.kind for score in scores})
        if absent:
            print(
                f"skipped: no recordings of kind {', '.join(absent)} in {arguments.data}",
                file=sys.stderr,
            )
    if arguments.json:
        print(
            json.dumps(
                {
                    name: [{"target": t, "measured": m, "met": ok} for t, m, ok in rows]
                    for name, rows in results.items()
                }
            )
        )
        return 0
    marks = {True: " +", False: " -", None: "not measured"}
    texts = [text for text, _, _ in next(iter(results.values()))]
    rows = [
        [text, *(f"{verdicts[i][1]}{marks[verdicts[i][2]]}" for verdicts in results.values())]
        for i, text in enumerate(texts)
    ]
    beside = f"identifier {identifier or 'none'}"
    print_table(f"Recorded drives, {beside}: + target met, - not met", ["target", *results], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

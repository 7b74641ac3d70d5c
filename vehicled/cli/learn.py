"""Commands ``vehicled learn collect | dataset | train | features``."""

import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path

from vehicled.control.policy.features import PARAMETRISED, SCALARS, SETS, FeatureVector
from vehicled.offline.learning.dataset import Dataset, Meaning, load, read_drives, save
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.imitation import COURSES, DaggerRound, DriveSpec, dagger, requests
from vehicled.offline.learning.policy_file import write_policy
from vehicled.offline.learning.training import TrainingEpoch, TrainingSpec
from vehicled.offline.learning.training import train as train_network
from vehicled.offline.studies.pool import LocalPool
from vehicled.run.output import check_output, check_plot_file
from vehicled.run.terminal import Progress, print_table

INTERRUPTED_STATUS = 130


def collect(arguments: Namespace) -> int:
    """Drive every course with every seed; the logs stay."""
    folder = Path(arguments.output)
    wanted = requests(_drives(arguments, arguments.profile, arguments.controller), arguments.seeds, folder)
    progress, rows = Progress(), []
    pool = LocalPool(arguments.jobs)
    try:
        progress.show(f"{len(wanted)} drives")
        for row in pool.run(wanted):
            rows.append(row)
            progress.show(f"[{'#' * round(24 * len(rows) / len(wanted)):<24}] {len(rows)} of {len(wanted)} drives")
    except KeyboardInterrupt:
        progress.close()
        print(f"vehicled: interrupted; {len(rows)} drives are in {folder}", file=sys.stderr)
        return INTERRUPTED_STATUS
    finally:
        pool.close()
        progress.close()
    if all(row.outcome == "refused" for row in rows):
        raise LearningError(rows[0].why)
    table = []
    for row in sorted(rows, key=lambda each: each.number):
        error_m = row.metrics.get("cross_track_mean_m")
        shown = "" if error_m is None else f"{error_m:.3f} m"
        end = row.outcome if row.outcome == "finished" else row.why
        table.append([row.levels["course"], str(row.levels["seed"]), end, shown])
    print_table(f"{arguments.controller} on {arguments.profile}", ["course", "seed", "drive", "mean cross-track error"], table)
    print(f"logs: {folder}\nnext: vehicled learn dataset {folder} -o data.parquet")
    return 0 if all(row.outcome == "finished" or row.run_s >= arguments.duration for row in rows) else 1


def _only(found: set[str], what: str, option: str) -> str:
    """Return the one name that all drives of the data have. Raises :class:`LearningError`."""
    if len(found) == 1:
        return found.pop()
    which = ", ".join(sorted(found)) or "none"
    raise LearningError(f"--dagger: the data name {len(found)} {what} ({which}); say which with {option}")


def _drives(arguments: Namespace, profile: str, expert: str) -> DriveSpec:
    return DriveSpec(
        profile=profile,
        courses=tuple(arguments.course or COURSES),
        controller=expert,
        disturbance_rad=arguments.disturb,
        overrides=tuple(arguments.set),
        randomised=tuple(arguments.randomise),
        seed=arguments.first_seed,
        duration_s=arguments.duration,
    )


def dataset(arguments: Namespace) -> int:
    """Write the rows of all drives named."""
    file = _output(arguments.output, ".parquet")
    meaning = Meaning(
        features=[name for word in arguments.features or ("published",) for name in SETS.get(word, (word,))],
        look_ahead_m=arguments.look_ahead,
        predicts=not arguments.no_prediction,
        period_s=arguments.period,
    )
    progress = Progress()
    try:
        data, notes = read_drives(arguments.source, meaning, arguments.expert, progress.show)
    finally:
        progress.close()
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    save(data, file)
    _show(data)
    print(f"data set: {file}, {len(data)} rows of {len(data.meaning.drives)} drives")
    return 0


def _show(data: Dataset) -> None:
    names = FeatureVector(data.meaning.features).columns
    columns = {**dict(zip(names, data.features.T)), **data.commands}
    rows = [
        [name, f"{values.mean():.4g}", f"{values.std():.4g}", f"{values.min():.4g}", f"{values.max():.4g}"]
        for name, values in columns.items()
    ]
    print_table("", ["column", "mean", "deviation", "least", "most"], rows[:40])


def train(arguments: Namespace) -> int:
    """Train, and write the network."""
    file = _output(arguments.output, ".onnx")
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    saved = _output(arguments.save_data, ".parquet") if arguments.save_data else None
    data = load(Path(arguments.data))
    spec = TrainingSpec(
        hidden=arguments.hidden, commands=arguments.commands, epochs=arguments.epochs, batch=arguments.batch, rate=arguments.rate,
        scaling=not arguments.no_scaling, validation=arguments.validation, seed=arguments.seed, library=arguments.library,
    )  # fmt: skip
    progress = Progress()

    def show(epoch: TrainingEpoch) -> None:
        progress.update(f"epoch {epoch.number} of {spec.epochs}: error {epoch.training:.4f}, held back {epoch.validation:.4f}")

    def show_drive(done: DaggerRound) -> None:
        progress.close()
        end = "finished" if done.finished else done.why
        error = f"mean cross-track error {done.cross_track_mean_m:.3f} m"
        print(f"drive {done.number}, {done.course}: {end}, {error}, {done.rows} rows")

    try:
        if arguments.dagger:
            notes = data.meaning.drives
            profile = arguments.profile or _only({note.profile for note in notes} - {""}, "vehicles", "--profile")
            expert = arguments.expert or _only({note.expert or note.driver for note in notes} - {"person"}, "experts", "--expert")
            drives = _drives(arguments, profile, expert)
            trained, data = dagger(data, spec, drives, arguments.dagger, on_drive=show_drive, on_epoch=show)
        else:
            trained = train_network(data, spec, show)
    finally:
        progress.close()
    write_policy(file, trained.layers, trained.description)
    if saved is not None:
        save(data, saved)
    if arguments.plot:
        from vehicled.offline.learning.plot import plot_training

        plot_training(data, trained, arguments.plot)
    last = trained.curve[-1]
    rows = [["error, mean square of the scaled commands", f"{last.training:.5f}", f"{last.validation:.5f}"]]
    drivers = Counter(drive.expert or drive.driver for drive in data.meaning.drives)
    print_table(f"imitates {', '.join(drivers)}: {len(data)} rows", ["", "training", "drives held back"], rows)
    for name, value in trained.rms.items():
        print(f"{name}: RMS error {value:.4f}{'' if trained.held_back else ' (no drive is held back)'}")
    if trained.held_back:
        print(f"held back: {', '.join(trained.held_back)}")
    print(f"policy: {file}\nnext: vehicled sim --controller {file if file.is_absolute() else f'./{file}'}")
    return 0


def _output(text: str, suffix: str) -> Path:
    file = Path(text)
    if file.suffix != suffix:
        raise LearningError(f"-o {file}: the name must end in {suffix}")
    check_output("-o", file)
    return file


def features(arguments: Namespace) -> int:
    """Print the features by name."""
    rows = [[name, about] for name, (about, _) in SCALARS.items()] + [[name, about] for name, about in PARAMETRISED.items()]
    print_table("", ["feature", "meaning"], rows)
    for name, names in SETS.items():
        print(f"set {name}: {', '.join(names)}")
    return 0

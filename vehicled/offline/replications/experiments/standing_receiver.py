"""The standing receiver of Unjhawala et al. 2023: how far positions wander from the first one,
recorded and simulated.

Recordings of standing receivers stand beside the three forms of the wandering error that the
publication used. Both count from their first position, because nobody knows where exactly a
receiver stands and the simulated error begins at zero. The published recording is not public: give
your own, or those of ``vehicled data fetch captures``.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.replications.experiments.common import ExperimentConsole, on_terminal
from vehicled.offline.replications.experiments.gps_noise import FORMS, GpsNoise
from vehicled.offline.sensors import positions
from vehicled.offline.sensors.reading import read
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file, new_figure, save_figure

PUBLISHED = {"simulated": 0.73, "real": 0.46}
"""Mean errors of the measurement in the published tests, m."""
STEP_S = 0.1


class Stand(Struct, frozen=True):
    """A receiver at its place: times (n,) in s, and distances east and north of its first position
    (n, 2), m."""

    name: str
    t_s: Array
    error_m: Array

    @property
    def distance_m(self) -> Array:
        """Distances from the first position (n,), m."""
        found: Array = np.hypot(*self.error_m.T)
        return found


class ReceiverRow(Struct, frozen=True):
    """Distances from the first position in m; of a simulated error over all its draws, with 5 and
    95 % of their means."""

    name: str
    seconds: float
    mean_m: float
    end_m: float
    low_m: float
    high_m: float


def declare_experiment_standing_receiver(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help=f"standing receivers (default {DATA_FOLDER}/captures)",
    )
    parser.add_argument(
        "--duration",
        type=float,
        default=60.0,
        metavar="S",
        help="longest time looked at (default 60)",
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=40,
        metavar="N",
        help="simulated errors of each form (default 40)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the simulated errors (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--plot", metavar="PNG", help="draw recorded and simulated receivers into this file"
    )
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Compare, print and draw. Raises :class:`SetupError` and RecordingError for what cannot be
    used."""
    if (
        not 5.0 <= arguments.duration <= 3600.0
        or not 1 <= arguments.draws <= 1000
        or arguments.seed < 0
    ):
        raise SetupError(
            "--duration takes 5 to 3600 s, --draws 1 to 1000, --seed a whole number from 0 on"
        )
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    captures = Path(DATA_FOLDER).expanduser() / "captures"
    named = arguments.recordings or ([str(captures)] if captures.is_dir() else [])
    recorded, left_out = recorded_stands(named, arguments.duration)
    if arguments.recordings and not recorded:
        raise RecordingError("no recording of a standing receiver: " + "; ".join(left_out))
    simulated = simulated_stands(arguments.duration, arguments.draws, arguments.seed)
    real = [_row(stand.name, [stand]) for stand in recorded]
    forms = {form: _row(f"simulated, {form}", stands) for form, stands in simulated.items()}
    if arguments.json:
        found = {"published": PUBLISHED, "recorded": real, "simulated": forms, "left_out": left_out}
        console.text(msgspec.json.encode(found).decode())
    else:
        lines = [
            [
                row.name,
                f"{row.seconds:.0f} s",
                f"{row.mean_m:.3f}",
                f"{row.end_m:.3f}",
                f"{row.low_m:.3f} to {row.high_m:.3f}",
            ]
            for row in [*real, *forms.values()]
        ]
        lines += [
            [f"published tests, {name}", "", f"{mean:.2f}", "", ""]
            for name, mean in PUBLISHED.items()
        ]
        console.table(
            "distance from the first position (m)",
            ["receiver", "time", "mean", "at the end", "5 to 95 %"],
            lines,
        )
        for reason in left_out:
            console.text(f"left out: {reason}")
        if not recorded:
            console.text(
                "no recording: name files of a standing receiver, or run: vehicled data fetch "
                "captures"
            )
    if arguments.plot:
        plot(recorded, simulated, arguments.plot)
        if not arguments.json:
            console.text(f"drawn: {arguments.plot}")
    return 0


def recorded_stands(paths: Sequence[str], longest_s: float) -> tuple[list[Stand], list[str]]:
    """Return the recordings that stand, and why the others are left out."""
    found, left_out = [], []
    for drive in read(paths) if paths else ():
        try:
            errors = positions.errors(drive, 0.0)
        except RecordingError as error:
            left_out.append(str(error))
            continue
        if drive.truth is not None:
            left_out.append(f"{drive.name}: the vehicle moves")
            continue
        known = np.flatnonzero(np.isfinite(errors.error_m[:, 0]))
        known = known[known * errors.period_s <= longest_s]
        found.append(
            Stand(
                drive.name,
                errors.period_s * known.astype(np.float64),
                errors.error_m[known] - errors.error_m[known[0]],
            )
        )
    return found, left_out


def simulated_stands(duration_s: float, draws: int, seed: int) -> dict[str, list[Stand]]:
    """Return draws of each form of the error, from zero on."""
    t_s: Array = np.linspace(0.0, duration_s, round(duration_s / STEP_S) + 1)
    found = {}
    for form, table in FORMS.items():
        noises = [GpsNoise(table, np.random.default_rng((seed, k))) for k in range(draws)]
        found[form] = [
            Stand(form, t_s, np.array([noise.at(t) for t in t_s.tolist()])) for noise in noises
        ]
    return found


def _row(name: str, stands: Sequence[Stand]) -> ReceiverRow:
    means = [float(stand.distance_m.mean()) for stand in stands]
    ends = [float(stand.distance_m[-1]) for stand in stands]
    low, high = np.quantile(means, (0.05, 0.95)).tolist()
    return ReceiverRow(
        name, float(stands[0].t_s[-1]), float(np.mean(means)), float(np.mean(ends)), low, high
    )


def plot(recorded: Sequence[Stand], simulated: dict[str, list[Stand]], file: str) -> None:
    """Draw the places of the first draws and the distances over time. Raises :class:`SetupError`
    when it cannot be written."""
    figure = new_figure(12, 5.4)
    area, distance = figure.subplots(1, 2)
    for stand, colour in zip(
        recorded, ("#111111", "#5b6770", "#8a5a44", "#a3a300", "#9aa5b1", "#c77dff") * 9
    ):
        area.plot(*stand.error_m.T, color=colour, lw=1.4, label=stand.name)
        distance.plot(stand.t_s, stand.distance_m, color=colour, lw=1.6, label=stand.name)
    for (name, stands), colour in zip(
        simulated.items(), ("#d1495b", "#2e5eaa", "#0b6e4f"), strict=True
    ):
        each = np.array([stand.distance_m for stand in stands])
        area.plot(
            *stands[0].error_m.T,
            color=colour,
            lw=1.0,
            ls="--",
            label=f"simulated, {name}: first draw",
        )
        distance.plot(
            stands[0].t_s,
            each.mean(axis=0),
            color=colour,
            lw=1.4,
            ls="--",
            label=f"simulated, {name}: mean of {len(stands)}",
        )
        low, high = np.quantile(each, (0.05, 0.95), axis=0)
        distance.fill_between(stands[0].t_s, low, high, color=colour, alpha=0.12, lw=0)
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="east (m)", ylabel="north (m)", title="positions, from the first one")
    distance.set(
        xlabel="time (s)",
        ylabel="distance from the first position (m)",
        title="bands: 5 to 95 % of the draws",
    )
    distance.set_ylim(0.0, None)
    for axes in (area, distance):
        axes.grid(alpha=0.25)
    figure.legend(
        *distance.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize="small",
        frameon=False,
    )
    save_figure(figure, file)

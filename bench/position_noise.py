"""Growth of position errors with time: recorded receivers beside the models, which need no judge.

    python bench/position_noise.py [--data ../shared/data] [--plot noise.png]

For each recording: the root mean square change of the error over lags, and of each model the factor
between its mean square changes and the recorded ones (geometric mean over the lags), with the part
p of 100 simulated sets of the same runs that are as far from their own model. A model with p below
0.05 does not explain the recording. The three forms of the random walk of the ART vehicle are among
the models. Recordings that are not there are named and left out.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.sensors import positions
from vehicled.offline.sensors.allan import overlapping
from vehicled.offline.sensors.positions import Form, walk_places
from vehicled.offline.sensors.reading import read
from vehicled.profile.gnss import InnerWalk, RandomWalk, RecordedError, SimulatorWalk, WhiteError

DRAWS = 100
SETTLE_S = 200.0
LONGEST_S = 60.0
LAGS_S = (1.0, 4.0, 10.0, 20.0, 60.0)


class Recorded(NamedTuple):
    """Errors of one receiver."""

    name: str
    period_s: float
    runs: list[Array]
    """Errors (n, 2) of each run."""
    from_zero: bool
    """True if the error begins at zero: noise that somebody added to motion capture."""


RECORDINGS = {
    "plain GNSS, 12 laps": ("lot17_rtk_gps_2023", False),
    "NEO-M9N standing, 61 s": ("captures2/gnss/gpsd__ublox-neo-m9n-nmea.log", False),
    "M8 standing, 39 s": ("captures/gnss/pyubx2__pygpsdata-MIXED.log", False),
    "ZED-F9P standing, 29 s": ("captures/gnss/gpsd__ublox-zed-f9p-nmea.log", False),
    "NetR9 standing, 625 s": ("captures2/gnss/INSTINCT__putty_nmea_netr9.log", False),
    "added to motion capture": ("mocap_ekf_mpc_2023", True),
}
WALKS = {"art_inner": InnerWalk(), "art_simulator": SimulatorWalk(), "art_judge": RandomWalk()}
Draw = Callable[[int, int, float, bool, np.random.Generator], Array]
"""Errors (n, axes) from n, axes, period, whether they begin at zero, chance."""


def walk(form: RandomWalk) -> Draw:
    """Return the errors of a random walk, settled unless it begins at zero."""

    def draw(
        length: int, axes: int, period_s: float, from_zero: bool, chance: np.random.Generator
    ) -> Array:
        settle_s = 0.0 if from_zero else SETTLE_S
        places = walk_places(form, settle_s + length * period_s + 1.0, axes, chance)
        at = ((settle_s + np.arange(length) * period_s) * form.rate_hz + 1e-6).astype(int)
        found: Array = np.vstack([np.zeros((1, axes)), places])[at]
        return found

    return draw


def white(sigma_m: float) -> Draw:
    """Return white noise."""
    return lambda length, axes, period_s, from_zero, chance: (
        sigma_m * chance.standard_normal((length, axes))
    )


def recorded(form: Form) -> Draw:
    """Return the three parts of the model ``recorded``."""

    def draw(
        length: int, axes: int, period_s: float, from_zero: bool, chance: np.random.Generator
    ) -> Array:
        # The covariance decides it; a run has few enough fixes for its root.
        t_s = np.arange(length) * period_s
        d = form.increments(np.maximum(np.abs(t_s[:, None] - t_s[None, :]), 1e-9))
        covariance = form.sigma_m**2 - 0.5 * d
        np.fill_diagonal(covariance, form.sigma_m**2)
        # The root of a covariance that is smooth needs a little on its diagonal.
        root = np.linalg.cholesky(covariance + 1e-9 * form.sigma_m**2 * np.eye(length))
        found: Array = root @ chance.standard_normal((length, axes))
        return found - found[0] if from_zero else found

    return draw


def shipped() -> Form:
    """Return the shipped numbers of ``recorded``."""
    table = RecordedError()
    return Form(
        table.white_sigma_m,
        table.wander_sigma_m,
        table.wander_time_s,
        table.smooth_sigma_m,
        table.smooth_time_s,
    )


MODELS: dict[str, Draw] = {
    "gauss": white(WhiteError().sigma_m),
    **{name: walk(form) for name, form in WALKS.items()},
    "recorded": recorded(shipped()),
}


def load(root: Path) -> list[Recorded]:
    """Return the recordings that are there; names the others."""
    found = []
    for name, (place, from_zero) in RECORDINGS.items():
        if not (root / place).exists():
            sys.stdout.write(f"skipped: no {root / place}\n")
            continue
        runs = []
        for drive in read([root / place]):
            try:
                runs.append(positions.errors(drive, 0.0))
            except RecordingError as error:
                sys.stdout.write(f"left out: {error}\n")
        if runs:
            found.append(
                Recorded(
                    name,
                    float(np.median([run.period_s for run in runs])),
                    [run.error_m for run in runs],
                    from_zero,
                )
            )
    return found


def increments(runs: Sequence[Array], lags: Sequence[int]) -> Array:
    """Return D at lags, pooled over runs and axes."""
    return np.array(
        [
            np.nanmean(
                np.concatenate(
                    [((run[lag:] - run[:-lag]) ** 2).ravel() for run in runs if len(run) > lag]
                )
            )
            for lag in lags
        ]
    )


def factors(
    found: Recorded, draw: Draw, lags: list[int], seed: int = 1
) -> tuple[float, float, Array]:
    """Return the factor between recorded and modelled D, p, and the modelled D."""
    chance = np.random.default_rng(seed)
    drawn = []
    for run in found.runs:
        errors = draw(len(run), 2 * DRAWS, found.period_s, found.from_zero, chance)
        drawn.append(errors.reshape(len(run), DRAWS, 2))
        drawn[-1][~np.isfinite(run[:, 0])] = np.nan
    each = np.array([increments([errors[:, k] for errors in drawn], lags) for k in range(DRAWS)])
    mean = each.mean(axis=0)

    def factor(d: Array) -> float:
        return float(np.exp(np.abs(np.log(d / mean)).mean()))

    measured = factor(increments(found.runs, lags))
    return measured, (1 + sum(factor(d) >= measured for d in each)) / (1 + DRAWS), mean


def deviation(runs: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the overlapping Allan deviation of positions, over the longest stretch without a gap
    in each run."""
    found = []
    for size in sizes:
        squares = []
        for run in runs:
            gaps = np.flatnonzero(~np.isfinite(run[:, 0]))
            edges = np.concatenate([[-1], gaps, [len(run)]])
            k = int(np.argmax(np.diff(edges)))
            whole = run[edges[k] + 1 : edges[k + 1]]
            if len(whole) > 3 * size:
                squares += [
                    overlapping(np.concatenate([[0.0], np.cumsum(whole[:, axis])]), size) ** 2
                    for axis in (0, 1)
                ]
        found.append(np.sqrt(np.mean(squares)) if squares else np.nan)
    return np.array(found)


def main() -> None:
    """Print the tables, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    loaded = load(arguments.data)
    if not loaded:
        return
    print(
        "root mean square change of the error, m, after  "
        + "  ".join(f"{lag:5g} s" for lag in LAGS_S)
    )
    for found in loaded:
        print(f"  {found.name:44}  " + _row(found.runs, found.period_s))
    models = {
        name: draw(4 * 600, 60, 0.25, False, np.random.default_rng(1))
        for name, draw in MODELS.items()
    }
    for name, errors in models.items():
        print(f"  model {name:38}  " + _row([errors], 0.25))
    print("\nfactor between mean square changes of model and recording, p")
    print(f"  {'':26}" + "".join(f"{name:>18}" for name in MODELS))
    for found in loaded:
        longest = int(max(map(len, found.runs)) / 3.0)
        lags = np.unique(
            np.geomspace(1, min(longest, LONGEST_S / found.period_s), 12).astype(int)
        ).tolist()
        cells = []
        for draw in MODELS.values():
            factor, p, _ = factors(found, draw, lags)
            cells.append(f"{factor:10.3g} p {p:.3f}")
        print(f"  {found.name:26}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
    if arguments.plot:
        draw_picture(arguments.plot, loaded, models)


def _row(runs: Sequence[Array], period_s: float) -> str:
    cells = []
    for lag_s in LAGS_S:
        lag = round(lag_s / period_s)
        known = max(map(len, runs)) > 2.5 * lag
        cells.append(f"{np.sqrt(increments(runs, [lag])[0]):7.3g}" if known else "      -")
    return "  ".join(cells)


def draw_picture(file: Path, loaded: Sequence[Recorded], models: dict[str, Array]) -> None:
    """Draw increments and Allan deviations, recorded and modelled."""
    from matplotlib.figure import Figure

    from vehicled.run.output import save_figure

    figure = Figure(figsize=(12.0, 5.2), dpi=110, layout="constrained")
    panels = [figure.add_subplot(1, 2, k + 1) for k in range(2)]
    colours = ("#111111", "#d1495b", "#2e86ab", "#45b8ac", "#8a5a44", "#3a7d44")
    for found, colour in zip(loaded, colours):
        longest = max(map(len, found.runs))
        lags = np.unique(
            np.geomspace(1, min(longest / 2.5, LONGEST_S / found.period_s), 24).astype(int)
        ).tolist()
        t_s = np.array(lags) * found.period_s
        for panel, values in zip(
            panels, (np.sqrt(increments(found.runs, lags)), deviation(found.runs, lags))
        ):
            panel.loglog(t_s, values, "o-", ms=3, lw=1.2, color=colour, label=found.name)
    for (name, errors), colour in zip(
        models.items(), ("#999999", "#3a7d44", "#e08e1b", "#7a4fbf", "#111111")
    ):
        lags = np.unique(np.geomspace(1, len(errors) / 4, 40).astype(int)).tolist()
        t_s = np.array(lags) * 0.25
        for panel, values in zip(
            panels, (np.sqrt(increments([errors], lags)), deviation([errors], lags))
        ):
            panel.loglog(t_s, values, ls="--", lw=1.4, color=colour, label=f"model {name}")
    panels[0].set(
        xlabel="time between two fixes, s", ylabel="root mean square change of the error, m"
    )
    panels[1].set(xlabel="averaging time, s", ylabel="Allan deviation, m")
    for panel in panels:
        panel.grid(which="both", alpha=0.2)
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    save_figure(figure, file)
    print(f"picture: {file}")


if __name__ == "__main__":
    main()

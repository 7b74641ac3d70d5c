"""Fit of the receiver model ``recorded``: plain GNSS against RTK on the laps of the ART vehicle.

    python bench/gnss_fit.py [--data ~/vehicled/data/lot17_rtk_gps_2023] [--resamples 200] [--json]

The error is plain minus RTK position at the instants of new plain positions, RTK on straight lines between its own new ones (none
over gaps above 0.3 s). Both count from their own first position, so that a constant is unknown: the model is fitted to increments,

    D(t) = mean (e(s + t) - e(s))^2 = 2 [white^2 + wander^2 (1 - exp(-t / w)) + smooth^2 (1 - (1 + t / T) exp(-t / T))],

pooled over runs and both axes, by least squares of log D at lags of 0.25 to 64 s. Laps of 150 s cannot tell a wander of w = 100 s
from a random walk, so w is given (``--wander-time``) and the rest fitted. Intervals are 5 to 95 % over runs drawn anew.
Judged by what was not fitted: the autocorrelation within a lap, against that of simulated laps of the same lengths, and the
increments of each half of the runs against the fit to the other half. Without the recordings it says so and ends with status 0.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sim_backend.sensors.gnss_errors import RecordedGnssError
from sim_backend.sensors.noise import Normals, stream
from vehicled.profile.gnss import GnssModel, RecordedError
from vehicled.recordings.public_data import DATA_FOLDER

RATE_HZ = 4.0
LAGS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256])
MAX_GAP_S = 0.3
DELAYS_S = np.arange(-0.3, 0.61, 0.05)
CHECKED_S = (1.0, 5.0, 10.0, 20.0)
SIMULATED = 30
"""Simulated laps per recorded one."""
Array = NDArray[np.float64]


class Lap(NamedTuple):
    """One recording: times of new positions and the positions (n, 2) of the plain and of the RTK receiver."""

    name: str
    plain_s: Array
    plain_m: Array
    rtk_s: Array
    rtk_m: Array


def read(file: Path) -> Lap:
    """Read a lap from its table."""
    rows = np.genfromtxt(file, delimiter=",", names=True)
    t_s = np.asarray(rows["time_nominal_s"], dtype=np.float64)
    found: list[Array] = []
    for receiver in ("gps", "rtk"):
        place_m = np.column_stack([rows[f"{receiver}_x_m"], rows[f"{receiver}_y_m"]])
        new = np.flatnonzero(np.any(np.diff(place_m, axis=0) != 0.0, axis=1)) + 1
        found += [t_s[new], place_m[new]]
    return Lap(f"{file.parent.name}/{file.stem}", *found)


def errors(lap: Lap, delay_s: float) -> Array:
    """Return plain minus RTK (n, 2) in m; NaN without RTK."""
    wanted_s = lap.plain_s - delay_s
    right = np.clip(np.searchsorted(lap.rtk_s, wanted_s), 1, len(lap.rtk_s) - 1)
    away = (lap.rtk_s[right] - lap.rtk_s[right - 1] > MAX_GAP_S) | (wanted_s < lap.rtk_s[0]) | (wanted_s > lap.rtk_s[-1])
    there = np.column_stack([np.interp(wanted_s, lap.rtk_s, lap.rtk_m[:, axis]) for axis in (0, 1)])
    there[away] = np.nan
    off: Array = lap.plain_m - there
    return off


def increments(laps: Sequence[Array]) -> Array:
    """Return D (m^2) by lag, pooled over laps and axes."""
    pooled = []
    for lag in LAGS:
        squares = [((e[lag:] - e[:-lag]) ** 2).ravel() for e in laps if len(e) > lag]
        pooled.append(np.nanmean(np.concatenate(squares)))
    return np.array(pooled)


def modelled(form: Array) -> Array:
    """Return the model's D (m^2) by lag. ``form``: white, wander, its time, smooth, its time."""
    white, wander, wander_s, smooth, smooth_s = form
    t = LAGS / RATE_HZ
    d: Array = 2.0 * (
        white**2 + wander**2 * -np.expm1(-t / wander_s) + smooth**2 * (1.0 - (1.0 + t / smooth_s) * np.exp(-t / smooth_s))
    )
    return d


def fit(found: Array, wander_s: float) -> Array:
    """Fit the five numbers to increments, one of them given. Starts from several places and keeps the best."""

    def form(logarithms: Array) -> Array:
        white, wander, smooth, smooth_s = np.exp(logarithms)
        return np.array([white, wander, wander_s, smooth, smooth_s])

    starts = [np.log([0.03, 0.5, 1.0, smooth_s]) for smooth_s in (8.0, 20.0, 60.0)]
    bounds = np.log([[1e-3, 1e-2, 1e-2, 2.0], [0.2, 20.0, 10.0, 300.0]])
    done = [least_squares(lambda p: np.log(modelled(form(p)) / found), start, bounds=bounds) for start in starts]
    return form(min(done, key=lambda result: float(result.cost)).x)


def autocorrelation(laps: Sequence[Array]) -> Array:
    """Return the autocorrelation about the mean of each lap at the checked times, averaged over laps and axes."""
    rows = []
    for e in laps:
        centred = e - np.nanmean(e, axis=0)
        rows.append([np.nanmean(centred[lag:] * centred[:-lag], axis=0) / np.nanmean(centred**2, axis=0) for lag in _lags()])
    found: Array = np.mean(rows, axis=(0, 2))
    return found


def _lags() -> list[int]:
    return [round(t_s * RATE_HZ) for t_s in CHECKED_S]


def simulated(form: Array, lengths: Sequence[int], seed: int) -> list[Array]:
    """Simulate laps of given lengths with the simulator's own model."""
    white, wander, wander_s, smooth, smooth_s = form.tolist()
    table = RecordedError(
        white_sigma_m=white, wander_sigma_m=wander, wander_time_s=wander_s, smooth_sigma_m=smooth, smooth_time_s=smooth_s
    )
    model = GnssModel(model="recorded", rate_hz=RATE_HZ, recorded=table)
    laps = []
    for index, length in enumerate(lengths):
        error = RecordedGnssError(model, 1.0 / RATE_HZ, 1.0, Normals(stream(seed, f"lap/{index}"), 12))
        steps = np.array([error.step(0.0, []) for _ in range(length)])
        laps.append(steps[:, :2] + steps[:, 3:5])
    return laps


def main() -> None:
    """Run the fit and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path(DATA_FOLDER).expanduser() / "lot17_rtk_gps_2023")
    parser.add_argument("--wander-time", type=float, default=100.0, metavar="S")
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    files = sorted(arguments.data.rglob("*.csv"))
    if not files:
        sys.stdout.write(f"skipped: no recordings in {arguments.data}: vehicled data fetch lot17_rtk_gps_2023\n")
        return
    laps = [read(file) for file in files]
    delay_s = min(DELAYS_S, key=lambda d: float(increments([errors(lap, d) for lap in laps])[: len(LAGS) // 2].sum()))
    found = [errors(lap, delay_s) for lap in laps]
    wander_s = arguments.wander_time
    form = fit(increments(found), wander_s)
    chance = np.random.default_rng(1)
    drawn = [
        fit(increments([found[k] for k in chance.integers(len(found), size=len(found))]), wander_s)
        for _ in range(arguments.resamples)
    ]
    low, high = np.percentile(drawn, [5, 95], axis=0)
    halves = [found[0::2], found[1::2]]
    held_out = [
        float(np.exp(np.abs(np.log(modelled(fit(increments(a), wander_s)) / increments(b))).mean()))
        for a, b in (halves, halves[::-1])
    ]
    ours = simulated(form, [len(e) for e in found] * SIMULATED, 1)
    names = ("white_sigma_m", "wander_sigma_m", "wander_time_s", "smooth_sigma_m", "smooth_time_s")
    result: dict[str, Any] = {
        "laps": len(laps),
        "delay_s": round(float(delay_s), 2),
        "fit": {name: [float(a), float(b), float(c)] for name, a, b, c in zip(names, form, low, high)},
        "increments_m": {
            f"{lag / RATE_HZ:g} s": [float(np.sqrt(a)), float(np.sqrt(b))]
            for lag, a, b in zip(LAGS, increments(found), modelled(form))
        },
        "held_out_factor_of_D": held_out,
        "autocorrelation": {
            f"{t_s:g} s": [float(a), float(b)] for t_s, a, b in zip(CHECKED_S, autocorrelation(found), autocorrelation(ours))
        },
        "deviation_within_a_lap_m": [float(np.sqrt(np.mean([np.nanvar(e, axis=0) for e in laps_]))) for laps_ in (found, ours)],
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{len(laps)} laps; plain positions are {delay_s:.2f} s later than RTK's")
    for name, (value, least, most) in result["fit"].items():
        print(f"  {name:14} {value:8.4f}   5 to 95 %: {least:.3f} to {most:.3f}")
    print("root of mean squared increment, m: recorded, model")
    for lag, (a, b) in result["increments_m"].items():
        print(f"  {lag:>6}  {a:.3f}  {b:.3f}")
    print(f"D of the half that was not fitted is off by factors of {held_out[0]:.2f} and {held_out[1]:.2f} on the geometric mean")
    print("autocorrelation within a lap: recorded, simulated laps of the same lengths")
    for lag, (a, b) in result["autocorrelation"].items():
        print(f"  {lag:>6}  {a:.3f}  {b:.3f}")
    a, b = result["deviation_within_a_lap_m"]
    print(f"standard deviation within a lap: recorded {a:.2f} m, simulated {b:.2f} m")


if __name__ == "__main__":
    main()

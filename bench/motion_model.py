"""Noise of positions from which on a motion model helps: the gain of estimators over raw positions,
per vehicle.

    python bench/motion_model.py [--seeds 2] [--plot gain.png] [--json FILE]

Each vehicle drives once in simulation, on a twin that is not the model of any estimator. The fixes
of that drive are simulated again with white noise, and with first-order Gauss-Markov noise of 20 s,
from 1 mm to 1 m; the estimators know the true size of the noise. The vehicle that they believe has
steering and drive that are off by 10 %, as recorded vehicles were from campaign to campaign. The
gain is the root mean square error of the fixes over that of the estimate. Where it is below 1 the
motion model only adds noise.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

import vehicled as v
from vehicled.core.arrays import Array
from vehicled.core.messages import GnssFix, ImuSample
from vehicled.core.vehicle import Vehicle
from vehicled.offline.gap.judges import driven_ns
from vehicled.offline.gap.making import make_judge
from vehicled.offline.recordings import mcap
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.sensors.simulate import motion_of, simulated
from vehicled.profile import Profile, load_profile

DRIVES = {
    "art_published": ("art_published", "figure_eight"),
    "f1tenth_gnss": ("f1tenth_gnss", "figure_eight"),
    "hmmwv": ("hmmwv", "double_lane_change_fast"),
}
SIGMAS_M = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
KINDS = {
    "white": ("sim.gnss.sigma_m={sigma}", "sim.gnss.walk_sigma_m=0"),
    "walk": ("sim.gnss.sigma_m=0", "sim.gnss.walk_sigma_m={sigma}", "sim.gnss.walk_time_s=20"),
}
JUDGES = ("ekf4", "planar", "robot_localization")
OFF = 0.1
"""Relative error of the steering gain and of the drive that are believed."""
MANUAL = Path(__file__).parents[1] / "docs" / "gap.md"


def drive(profile: str, course: str, folder: str) -> Recording:
    """Return one simulated drive as a recording."""
    run = v.simulate(profile, course, duration_s=40.0, log=folder)
    recording = mcap.load(run.metrics.log, profile)
    # These filters need no more than 50 samples of the inertial unit per second.
    newest_ns, inputs = 0, []
    for message in recording.inputs:
        if isinstance(message, ImuSample):
            if message.t_ns - newest_ns < 20_000_000:
                continue
            newest_ns = message.t_ns
        inputs.append(message)
    return replace(recording, inputs=inputs)


def noisy_profile(name: str, kind: str, sigma_m: float) -> Profile:
    """Return the profile with one kind of noise."""
    settings = [text.format(sigma=sigma_m) for text in KINDS[kind]]
    return load_profile(name, ["sim.gnss.model=walk", "sim.gnss.covariance=error", *settings])


def believed(vehicle: Vehicle, seed: int) -> Vehicle:
    """Return the vehicle with steering and drive that are off, by signs that the seed chooses."""
    steering, driving = (1.0 + OFF * (-1) ** (seed // part) for part in (1, 2))
    return structs.replace(
        vehicle,
        steering=structs.replace(vehicle.steering, gain_rad=vehicle.steering.gain_rad * steering),
        drive=structs.replace(
            vehicle.drive, no_load_speed_radps=vehicle.drive.no_load_speed_radps * driving
        ),
    )


def errors(recording: Recording, judge: str, vehicle: Vehicle) -> tuple[float, float]:
    """Return the root mean square errors of the fixes and of the estimate while driving, in m."""
    motion, span = motion_of(recording), driven_ns(recording)
    first_ns, last_ns = span if span is not None else (0, 2**62)
    arm = recording.lever_arm_m

    def off(t_ns: int, x_m: float, y_m: float, antenna: tuple[float, float]) -> float:
        true = motion(t_ns) if first_ns <= t_ns <= last_ns else None
        if true is None:
            return float("nan")
        c, s = np.cos(true.yaw_rad), np.sin(true.yaw_rad)
        ahead, left = antenna
        return float(
            np.hypot(x_m - true.x_m - c * ahead + s * left, y_m - true.y_m - s * ahead - c * left)
        )

    raw = []
    for fix in (m for m in recording.inputs if isinstance(m, GnssFix)):
        east, north, _ = recording.datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)
        raw.append(off(fix.t_ns, east, north, arm[:2]))
    track = make_judge(judge, (), vehicle).track(recording)
    estimated = [
        off(int(t_ns), x, y, (0.0, 0.0)) for t_ns, x, y in zip(track.t_ns, track.x_m, track.y_m)
    ]
    return _rms(raw), _rms(estimated)


def threshold(sigmas: Sequence[float], gains: Sequence[float]) -> float:
    """Return the least noise at which the gain is 1, between two levels on logarithms; infinite if
    no gain is above 1."""
    first = next((k for k, gain in enumerate(gains) if gain > 1.0), None)
    if not first:
        return float("inf") if first is None else 0.0
    pair = slice(first - 1, first + 1)
    return float(np.exp(np.interp(0.0, np.log(gains[pair]), np.log(sigmas[pair]))))


def _rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.nanmean(np.square(values))))


def main() -> None:
    """Drive, sweep, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        yaml = Path(folder) / "ekf.yaml"
        yaml.write_text(
            MANUAL.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0],
            encoding="utf-8",
        )
        for name, (profile, course) in DRIVES.items():
            recording = drive(profile, course, folder)
            for kind in KINDS:
                for sigma_m in SIGMAS_M:
                    for judge in JUDGES:
                        full = f"{judge}={yaml}" if judge == JUDGES[2] else judge
                        pairs = []
                        for seed in range(1, arguments.seeds + 1):
                            inputs = simulated(
                                recording, noisy_profile(profile, kind, sigma_m), ("gnss",), seed
                            )
                            pairs.append(
                                errors(
                                    replace(recording, inputs=inputs),
                                    full,
                                    believed(recording.vehicle, seed),
                                )
                            )
                        raw, estimated = (_rms([pair[k] for pair in pairs]) for k in (0, 1))
                        row = {"vehicle": name, "noise": kind, "sigma_m": sigma_m, "judge": judge}
                        rows.append(
                            {**row, "raw_m": raw, "estimate_m": estimated, "gain": raw / estimated}
                        )
            sys.stderr.write(f"{name} done\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(
        "gain over raw positions by noise per axis; threshold below which the model only adds noise"
    )
    print(f"  {'':37}" + "".join(f"{sigma:>8g}" for sigma in SIGMAS_M) + "  threshold")
    for name, kind, judge in dict.fromkeys(
        (row["vehicle"], row["noise"], row["judge"]) for row in rows
    ):
        gains = _gains(rows, name, kind, judge)
        from_m = threshold(SIGMAS_M, gains)
        text = (
            "below all" if from_m == 0.0 else "above all" if np.isinf(from_m) else f"{from_m:.3g} m"
        )
        print(
            f"  {name:12} {kind:5} {judge:18}"
            + "".join(f"{gain:8.2f}" for gain in gains)
            + f"  {text}"
        )
    if arguments.plot:
        draw(arguments.plot, rows)


def _gains(rows: Sequence[dict[str, Any]], name: str, kind: str, judge: str) -> list[float]:
    return [
        row["gain"]
        for row in rows
        if (row["vehicle"], row["noise"], row["judge"]) == (name, kind, judge)
    ]


def draw(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the gain over the noise, a panel for each vehicle."""
    from matplotlib.figure import Figure

    from vehicled.run.output import save_figure

    names = list(dict.fromkeys(row["vehicle"] for row in rows))
    figure = Figure(figsize=(4.2 * len(names), 4.0), dpi=110, layout="constrained")
    colours = dict(zip(JUDGES, ("#d1495b", "#2e86ab", "#3a7d44")))
    for k, name in enumerate(names):
        panel = figure.add_subplot(1, len(names), k + 1)
        panel.axhspan(1e-3, 1.0, color="#d1495b", alpha=0.08)
        panel.axhline(1.0, color="black", lw=0.8)
        for judge in JUDGES:
            for kind, style in (("white", "o-"), ("walk", "s--")):
                gains: Array = np.array(_gains(rows, name, kind, judge))
                panel.loglog(
                    SIGMAS_M,
                    gains,
                    style,
                    ms=3.5,
                    lw=1.3,
                    color=colours[judge],
                    label=f"{judge}, {kind}",
                )
        panel.set(title=name, xlabel="noise of positions per axis, m", ylim=(0.003, 30.0))
        panel.grid(which="both", alpha=0.2)
        if k == 0:
            panel.set_ylabel("error of raw positions / error of estimate")
            panel.text(0.012, 0.0045, "the model only adds noise", fontsize=8, color="#d1495b")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, loc="outside lower center", ncols=len(JUDGES))
    save_figure(figure, file)
    print(f"picture: {file}")


if __name__ == "__main__":
    main()

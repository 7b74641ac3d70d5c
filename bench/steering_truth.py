"""Least squares and identifier against a known steering: simulated laps with the commands and
speeds of recorded ones.

    python bench/steering_truth.py [--data ~/vehicled/data/path_following_2024] [--runs 3]

A kinematic single track of gain 0.21 rad, offset 0.006 rad and delay 0.35 s drives by the recorded
commands; RTK noise of 0.01 m on the receiver's grid, a gyro that drifts. Both then see what they
would see of a recorded drive.
"""

import argparse
from dataclasses import replace
from math import copysign, cos, sin, tan
from pathlib import Path

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand, CarrierSolution, HeadingKind
from vehicled.offline.recordings import art, least_squares, messages, smoothing
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.recording import Recording, arrival_ns, seconds
from vehicled.offline.recordings.runner import make_estimator, make_identifier, run
from vehicled.run.terminal import print_table

GAIN_RAD, OFFSET_RAD, DELAY_S, RATE_RADPS = 0.21, 0.006, 0.35, 0.67
NOISE_M, GYRO_DRIFT_RAD = 0.01, 0.0006
GRID_M = (0.0136, art.NMEA_GRID_M)
PATHS = ("lot17", "rd_path", "syn_path")
CASES = {"as the model": (0.0, 0.0), "slack 0.01 rad": (0.01, 0.0), "dead zone 0.06": (0.0, 0.06)}
PARTS = 10


def simulated(
    recording: Recording, slack_rad: float, dead_zone: float, rng: np.random.Generator
) -> Recording:
    """The recording of a vehicle of known steering that was given the same commands."""
    t_ns, t_s = recording.truth.t_ns, seconds(recording.truth.t_ns)
    known = np.isfinite(recording.truth.speed_mps)
    speed = np.interp(t_s, t_s[known], recording.truth.speed_mps[known])
    commands = [m for m in recording.inputs if isinstance(m, ActuatorCommand)]
    command_s = seconds(np.array([m.t_ns for m in commands]))
    x = y = yaw = 0.0
    servo = wheel = OFFSET_RAD
    rows = [(x, y, yaw)]
    for k, dt in enumerate((np.diff(t_s) / PARTS).tolist()):
        for part in range(PARTS):
            ratio = (part + 0.5) / PARTS
            at = (
                int(np.searchsorted(command_s, t_s[k] + ratio * PARTS * dt - DELAY_S, side="right"))
                - 1
            )
            command = commands[at].steering if at >= 0 else 0.0
            effective = copysign(max(abs(command) - dead_zone, 0.0) / (1.0 - dead_zone), command)
            servo += min(
                max(GAIN_RAD * effective + OFFSET_RAD - servo, -RATE_RADPS * dt), RATE_RADPS * dt
            )
            wheel = min(max(wheel, servo - slack_rad), servo + slack_rad)
            v = (1.0 - ratio) * speed[k] + ratio * speed[k + 1]
            rate = v * tan(wheel) / recording.vehicle.wheelbase_m
            x = x + dt * v * cos(yaw + 0.5 * dt * rate)
            y = y + dt * v * sin(yaw + 0.5 * dt * rate)
            yaw = yaw + dt * rate
        rows.append((x, y, yaw))
    columns: Array = np.array(rows).T
    east, north = (
        grid * np.round((c + NOISE_M * rng.standard_normal(len(c))) / grid)
        for c, grid in zip(columns, GRID_M)
    )
    gyro = columns[2] + np.cumsum(GYRO_DRIFT_RAD * np.sqrt(0.1) * rng.standard_normal(len(rows)))
    inputs = [
        *messages.headings(t_ns, gyro, np.nan, HeadingKind.INERTIAL),
        *messages.rates(t_ns, gyro),
        *messages.fixes(
            t_ns,
            east,
            north,
            smoothing.is_new(east, north),
            recording.datum,
            CarrierSolution.FIXED,
            art.RTK_SIGMA_M,
        ),
        *commands,
    ]
    truth = art.truth_of_rtk(t_s - t_s[0], t_ns, east, north, gyro)
    return replace(
        recording, inputs=sorted(inputs, key=arrival_ns), truth=truth, raw_x_m=east, raw_y_m=north
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default=str(Path(DATA_FOLDER).expanduser() / "path_following_2024")
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each path")
    arguments = parser.parse_args()
    drives = [
        recording for source in sources(arguments.data) for recording in source.load(("path",))
    ]
    rng, rows = np.random.default_rng(1), []
    for path in PATHS:
        for recording in [drive for drive in drives if f"{path}/" in drive.name][: arguments.runs]:
            for case, parameters in CASES.items():
                drive = simulated(recording, *parameters, rng)
                fit = least_squares.steering(drive)
                identifier = make_identifier("single_track", (), drive)
                found = run(drive, make_estimator("planar", (), drive), identifier).identified[-1]
                batch = "" if fit is None else f"{fit.gain_rad:.3f}, {fit.delay_s:.2f}"
                mine = f"{found.steering_gain_rad:.3f}, {found.steering_delay_s:.2f}"
                rows.append([recording.name, case, batch, mine, f"{found.steering_dead_zone:.3f}"])
    heads = [
        "drive",
        "steering",
        "least squares: gain, delay",
        "identified: gain, delay",
        "dead zone",
    ]
    print_table(f"Known gain {GAIN_RAD} rad and delay {DELAY_S} s", heads, rows)


if __name__ == "__main__":
    try:
        main()
    except RecordingError as error:
        print(f"skipped: {error}; vehicled data fetch path_following_2024")

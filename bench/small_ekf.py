"""A small EKF on recorded laps with plain GNSS, beside ``planar``: does a filter of six states do
better?

    python bench/small_ekf.py [--data ~/vehicled/data/lot17_rtk_gps_2023] [--speed-noise 0.2]
        [--planar]

States: position, yaw, speed, and per axis an error of GNSS that is first-order Gauss-Markov. Gyro
and throttle predict. The drive is that of the profile, or fitted to the RTK speed of the odd runs.
Each row is the mean ratio of the position error to the raw one, the worst run, and the means of odd
and even runs, for a known start and for an unknown one.
"""

import argparse
from collections.abc import Callable, Sequence
from math import cos, exp, sin
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, GnssFix, Heading, ImuSample
from vehicled.estimation.four_dof import drive_rate
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.prediction import RecordedCommands
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.recording import Recording, arrival_ns, seconds
from vehicled.offline.recordings.runner import make_estimator, run
from vehicled.run.terminal import print_table

KINDS = ("plain_start", "plain")
SIZE_M, WHITE_M, YAW_DENSITY = 1.8, 0.05, 0.02


def speeds(recording: Recording, full_mps2: float, friction_mps2: float) -> Array:
    """Speed at each step from the throttle alone."""
    rate = drive_rate(recording.vehicle.drive)
    throttle = throttles(recording)
    dt_s = np.diff(steps_s(recording))
    found = [0.0]
    for u, dt in zip(throttle, dt_s):
        found.append(advanced(found[-1], u, dt, rate, full_mps2, friction_mps2))
    return np.array(found)


def advanced(
    v: float, throttle: float, dt_s: float, rate: float, full_mps2: float, friction_mps2: float
) -> float:
    """Speed after a step of the drive."""
    decay = exp(-rate * dt_s)
    return max(0.0, v * decay + (full_mps2 * throttle - friction_mps2) * (1.0 - decay) / rate)


def steps_s(recording: Recording) -> Array:
    """Times of the steps."""
    return seconds(np.array(recording.steps_ns, dtype=np.int64))


def throttles(recording: Recording) -> Array:
    """Throttle in force in the middle of each step."""
    commands, drive = RecordedCommands.of(recording.inputs), recording.vehicle.drive
    t_ns = np.array(recording.steps_ns, dtype=np.float64)
    return commands.at(commands.throttle, 0.5 * (t_ns[1:] + t_ns[:-1]) - drive.delay_s * 1e9)


def profile_drive(recording: Recording) -> tuple[float, float]:
    """Acceleration at full drive and friction of the profile."""
    drive = recording.vehicle.drive
    per_nm = drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2
    return drive.stall_torque_nm * per_nm, drive.friction_nm * per_nm


def fitted_drive(recordings: Sequence[Recording]) -> tuple[float, float]:
    """The same, fitted to the speed by RTK."""

    def cost(p: Array) -> float:
        errors = np.concatenate([speeds(r, p[0], p[1]) - r.truth.speed_mps for r in recordings])
        return float(np.nanmean(errors**2))

    found = minimize(
        cost, profile_drive(recordings[0]), method="Nelder-Mead", options={"maxiter": 80}
    ).x
    return float(found[0]), float(found[1])


def small_ekf(
    recording: Recording, drive: tuple[float, float], time_s: float, speed_density: float
) -> tuple[Array, Array]:
    """Positions (n,), (n,) at the steps of a recording; NaN before the first heading and fix."""
    inputs, rate = sorted(recording.inputs, key=arrival_ns), drive_rate(recording.vehicle.drive)
    throttle, t_s = throttles(recording), steps_s(recording)
    x, P, place, found, gyro, yaw, plain = None, np.eye(6), 0, [], 0.0, None, False
    for k, now_ns in enumerate(recording.steps_ns):
        fixes = []
        while place < len(inputs) and arrival_ns(inputs[place]) <= now_ns:
            message = inputs[place]
            place += 1
            if isinstance(message, GnssFix):
                fixes.append(message)
            elif isinstance(message, ImuSample):
                gyro = message.angular_rate_radps[2]
            elif isinstance(message, Heading):
                yaw = message.yaw_rad
        if x is not None:
            dt = float(t_s[k] - t_s[k - 1])
            v, middle, fade = float(x[3]), float(x[2]) + 0.5 * dt * gyro, exp(-dt / time_s)
            F = np.diag((1.0, 1.0, 1.0, exp(-rate * dt), fade, fade))
            F[0, 2:4] = (-v * dt * sin(middle), dt * cos(middle))
            F[1, 2:4] = (v * dt * cos(middle), dt * sin(middle))
            after = advanced(v, float(throttle[k - 1]), dt, rate, *drive)
            x = np.array(
                (
                    x[0] + v * dt * cos(middle),
                    x[1] + v * dt * sin(middle),
                    x[2] + gyro * dt,
                    after,
                    *(fade * x[4:]),
                )
            )
            q = (YAW_DENSITY**2 * dt, speed_density**2 * dt) if after > 0.05 else (0.0, 1e-6)
            P = F @ P @ F.T + np.diag((0.0, 0.0, *q, *(2 * [SIZE_M**2 * (1.0 - fade * fade)])))
        for fix in fixes:
            z = np.array(
                recording.datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)[:2]
            )
            fixed = fix.carrier is CarrierSolution.FIXED
            if x is None:
                if yaw is None:
                    continue
                x = np.array((*z, yaw, 0.0, 0.0, 0.0))
                P = np.diag((0.0, 0.0, 0.0025, 0.01, 0.0, 0.0))
                if not fixed:
                    P[:2, :2], P[4:, 4:], P[:2, 4:], P[4:, :2] = (
                        s * SIZE_M**2 * np.eye(2) for s in (1.0, 1.0, -1.0, -1.0)
                    )
                    plain = True
            if not (fixed or plain):
                plain, P[4:, 4:] = True, SIZE_M**2 * np.eye(2)
            H = np.zeros((2, 6))
            H[0, 0] = H[1, 1] = 1.0
            H[0, 4] = H[1, 5] = 0.0 if fixed else 1.0
            K = P @ H.T @ np.linalg.inv(H @ P @ H.T + (0.02 if fixed else WHITE_M) ** 2 * np.eye(2))
            x, P = x + K @ (z - H @ x), (np.eye(6) - K @ H) @ P
        found.append((np.nan, np.nan) if x is None else (x[0], x[1]))
    east, north = np.array(found).T
    return east, north


def first_error_removed(recording: Recording, time_s: float) -> tuple[Array, Array]:
    """Raw positions less the first error, which fades: what a known start is worth without a model
    of the motion."""
    ex, ey = recording.raw_x_m - recording.truth.x_m, recording.raw_y_m - recording.truth.y_m
    first, t_s = int(np.flatnonzero(np.isfinite(ex))[0]), steps_s(recording)
    fade = np.exp(-(t_s - t_s[first]) / time_s)
    return recording.raw_x_m - fade * ex[first], recording.raw_y_m - fade * ey[first]


def ratio(recording: Recording, x_m: Array, y_m: Array) -> float:
    """Mean position error over that of the raw positions."""
    truth, raw_x, raw_y = recording.truth, recording.raw_x_m, recording.raw_y_m
    ok = np.isfinite(x_m) & np.isfinite(raw_x) & np.isfinite(truth.x_m)
    errors = np.hypot(x_m - truth.x_m, y_m - truth.y_m)
    raw = np.hypot(raw_x - truth.x_m, raw_y - truth.y_m)
    return float(errors[ok].mean() / raw[ok].mean())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default=str(Path(DATA_FOLDER).expanduser() / "lot17_rtk_gps_2023")
    )
    parser.add_argument("--speed-noise", type=float, default=0.2, help="m/s per root second")
    parser.add_argument(
        "--planar", action="store_true", help="run planar with its defaults, too (minutes)"
    )
    arguments = parser.parse_args()
    laps = {
        kind: [r for source in sources(arguments.data) for r in source.load((kind,))]
        for kind in KINDS
    }
    some = laps[KINDS[0]]
    fitted, rows = fitted_drive(some[::2]), []

    def add(
        name: str,
        positions: Callable[[Recording], tuple[Array, Array]],
        kinds: Sequence[str] = KINDS,
    ) -> None:
        cells = []
        for kind in kinds:
            q = [ratio(recording, *positions(recording)) for recording in laps[kind]]
            cells.append(
                f"{np.mean(q):.2f}, {max(q):.2f} ({np.mean(q[::2]):.2f}, {np.mean(q[1::2]):.2f})"
            )
        rows.append([name, *cells, *([""] * (len(KINDS) - len(kinds)))])

    def planar(recording: Recording) -> tuple[Array, Array]:
        track = run(recording, make_estimator("planar", (), recording))
        return track.x_m, track.y_m

    if arguments.planar:
        add("planar", planar)
    for name, drive in (("profile", profile_drive(some[0])), ("fitted", fitted)):
        for time_s in (30.0, 100.0, 300.0, 1000.0):
            add(
                f"EKF, {time_s:.0f} s, drive {name} {drive[0]:.2f}, {drive[1]:.2f} m/s2",
                lambda recording, drive=drive, time_s=time_s: small_ekf(
                    recording, drive, time_s, arguments.speed_noise
                ),  # type: ignore[misc]
            )
    for time_s in (100.0, 200.0, 300.0):
        add(
            f"first error removed, {time_s:.0f} s",
            lambda r, time_s=time_s: first_error_removed(r, time_s),  # type: ignore[misc]
            KINDS[:1],
        )
    print_table(
        "Ratio to raw: mean, worst (odd, even)", ["filter", "start known", "start unknown"], rows
    )


if __name__ == "__main__":
    try:
        main()
    except RecordingError as error:
        print(f"skipped: {error}; vehicled data fetch lot17_rtk_gps_2023")

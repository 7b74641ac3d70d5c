"""Consistency of the estimators: simulated sensor streams, every shipped estimator, every kind of
receiver.

python -m bench.consistency [--estimator NAME]... [--receiver NAME]... [--seeds 10] [--seconds 150]
[--jobs 2] [--json]

A kinematic truth (the plant of the twin, driven open loop) is sampled by the sensor models of the
twin, and the estimator is fed directly, without a daemon. Truth is the plant's; no estimator has a
part in it. Columns:

- ANEES: position error squared over its covariance, divided by its two degrees of freedom; yaw and
  speed likewise by one. 1 is consistent, above 1 the covariance lies, far below 1 it is too
  careful.
- inside 95 %: share of time in which the position error is within the 95 % ellipse that the
  estimate claims.
- error/sigma: largest Mahalanobis distance of the position.
- false arms: runs with a moment at which arming would accept the estimate (RUNNING, sigma at most a
  third of the corridor) although the position is wrong by more than 2.45 times that limit.

With ``--starts`` the vehicle has no heading device and no accelerometer, and begins in every way
that can turn a yaw round: backward, pushed by hand, after a standstill. Counted are the starts with
a row that is RUNNING although the yaw is wrong by more than 90 degrees.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from math import hypot, inf, isfinite, pi, remainder, sin, sqrt, tau
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import Motion, StartPose, interpolate
from sim_backend.sensors.drive_train import MotorStatusSensor
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.heading import HeadingSensor
from sim_backend.sensors.imu import Imu
from sim_backend.sensors.interface import Sensor
from vehicled.core.messages import (
    NAN3,
    NAN9,
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    ImuSample,
    Message,
    StateEstimate,
)
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel
from vehicled.profile.loading import load_profile
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile
from vehicled.profile.sensors import MotorStatusModel
from vehicled.run.terminal import print_table

START_NS = 1_000_000_000
STEP_NS = 5_000_000
FUSION_NS = 20_000_000
LEVER_ARM_M = (0.25, 0.0, 0.30)
ARMING_SIGMA_M = 2.0 / 3.0
"""A third of the corridor of the profile `art`, required by arming and the rule
`position_uncertain`."""
INSIDE_95 = 5.991
FALSE_ARM_M = sqrt(INSIDE_95) * ARMING_SIGMA_M
SETTLE_S = 5.0
"""Time before which yaw and speed do not count, as the filter is still aligning."""

RECEIVERS: dict[str, dict[str, Any]] = {
    "rtk_fixed": {},
    "gauss": {"model": "gauss"},
    "random_walk": {"model": "random_walk"},
    "airsim": {"model": "airsim"},
    "gauss_airsim": {"model": "gauss_airsim"},
    "random_walk_airsim": {"model": "random_walk_airsim"},
    "art_inner": {"model": "art_inner"},
    "art_simulator": {"model": "art_simulator"},
    "art_judge": {"model": "art_judge"},
    "recorded": {"model": "recorded", "carrier": "none"},
    "recorded_as_fixed": {"model": "recorded"},
    "rtk_float": {"carrier": "float", "sigma_m": 0.05, "walk_sigma_m": 0.3},
    "single_walk": {"carrier": "none", "sigma_m": 0.05, "walk_sigma_m": 1.4},
    "single_slow": {"carrier": "none", "sigma_m": 0.05, "walk_sigma_m": 1.4, "walk_time_s": 1000.0},
    "single_unknown": {
        "carrier": "none",
        "sigma_m": 0.05,
        "walk_sigma_m": 1.4,
        "covariance": "unknown",
    },
    "rtk_outage": {"zones": [{"effect": "no_fix", "from_s": 40.0, "until_s": 50.0}]},
    "rtk_to_single": {"zones": [{"effect": "no_carrier", "from_s": 40.0, "until_s": 70.0}]},
    "late": {"latency_ms": 250.0, "latency_jitter_ms": 30.0},
    "recorded_late": {
        "model": "recorded",
        "carrier": "none",
        "latency_ms": 250.0,
        "latency_jitter_ms": 30.0,
    },
    "half_declared": {"model": "recorded", "carrier": "none", "declared": 0.5},
    "double_declared": {"model": "recorded", "carrier": "none", "declared": 2.0},
    "rtk_half_declared": {"declared": 0.5},
    "rtk_double_declared": {"declared": 2.0},
}
"""Receivers by name: keys of `[sim.gnss]`, and `declared`, the factor between the reported accuracy
and the true one."""

ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ekf4": ("ekf4", {}),
    "ekf4_dynamic": ("ekf4", {"model": "dynamic"}),
    "planar": ("planar", {}),
    "ins": (
        "ins",
        {"imu_lever_arm_m": (0.25, 0.0, 0.10), "moving_base": {"bias_sigma_rad": 0.005}},
    ),
}
"""Estimators for driving, by name. `ekf4_published` replicates another filter and is not judged."""


class Setup(Struct, frozen=True, kw_only=True):
    """Sensors and motion of one drive."""

    receiver: dict[str, Any] = msgspec.field(default_factory=dict)
    seconds: float = 150.0
    standstill_s: float = 4.0
    """Time before the first motion."""
    speed_mps: float = 1.2
    legs: tuple[tuple[float, float], ...] = ()
    """Times and speeds of the drive; empty for one leg at `speed_mps`."""
    reverse: bool = False
    """True if the vehicle can reverse."""
    accelerometer: bool = True
    heading: bool = True
    gnss_velocity: bool = True
    motor: bool = False
    pushed: tuple[float, float, float] | None = None
    """Start, end and speed (m/s) of a push by hand; no command is given meanwhile."""
    gyro_bias_radps: float = 0.001


FORWARD = ((4.0, 1.2),)
BACKWARD_FIRST = ((4.0, -0.6), (14.0, 1.2))
FORWARD_AND_BACK = ((4.0, 1.2), (14.0, 0.0), (17.0, -0.6), (24.0, 0.0), (26.0, 1.0))
STARTS: dict[str, dict[str, Any]] = {
    "forward": {"legs": FORWARD},
    "forward at once": {"legs": FORWARD, "standstill_s": 0.5},
    "forward, no GNSS velocity": {"legs": FORWARD, "gnss_velocity": False},
    "forward, gyro bias 0.02 rad/s": {"legs": FORWARD, "gyro_bias_radps": 0.02},
    "backward first": {"legs": BACKWARD_FIRST, "reverse": True},
    "backward first, no GNSS velocity": {"legs": BACKWARD_FIRST, "reverse": True,
        "gnss_velocity": False},
    "backward first, motor speed": {"legs": BACKWARD_FIRST, "reverse": True, "motor": True},
    "forward and back": {"legs": FORWARD_AND_BACK, "reverse": True},
    "forward and back, no GNSS velocity": {"legs": FORWARD_AND_BACK, "reverse": True,
        "gnss_velocity": False},
    "pushed forward": {"legs": ((12.0, 1.2),), "standstill_s": 12.0, "pushed": (3.0, 6.0, 0.8)},
    "pushed backward": {"legs": ((12.0, 1.2),), "standstill_s": 12.0, "pushed": (3.0, 6.0, -0.8)},
    "pushed backward, motor speed": {
        "legs": ((12.0, 1.2),), "standstill_s": 12.0, "pushed": (3.0, 6.0, -0.8), "reverse": True,
        "motor": True
    },
    "stopped, then pushed backward": {
        "legs": ((2.0, 1.2), (12.0, 0.0), (24.0, 1.2)), "standstill_s": 2.0,
        "pushed": (17.0, 20.0, -0.8)
    },
}  # fmt: skip
"""Ways to begin a drive without a heading device, by name."""
START_RECEIVERS = {"RTK": "rtk_fixed", "plain GNSS": "recorded"}


class Stream(Struct, frozen=True):
    """One drive: messages and commands in order of arrival, and the truth at every step of the
    estimator."""

    profile: Profile
    arrivals: list[tuple[int, Message]]
    truth: list[tuple[int, float, float, float, float]]
    """Time, x, y, yaw and speed of the rear axle."""


def _profile(setup: Setup) -> Profile:
    profile = load_profile("art_published")
    if not setup.reverse:
        return profile
    assert profile.sim.drive is not None
    drive = replace(profile.vehicle.drive, reverse_share=0.5)
    vehicle = replace(profile.vehicle, drive=drive)
    return replace(
        profile,
        vehicle=vehicle,
        sim=replace(profile.sim, drive=replace(profile.sim.drive, reverse_share=0.5)),
    )


def _wanted_mps(setup: Setup, t_s: float) -> float:
    if t_s < setup.standstill_s:
        return 0.0
    if not setup.legs:
        return setup.speed_mps
    wanted = 0.0
    for begin_s, speed_mps in setup.legs:
        if t_s >= begin_s:
            wanted = speed_mps
    return wanted


def stream(setup: Setup, seed: int) -> Stream:
    """Simulate a drive. The same setup and seed give the same messages, whoever estimates."""
    profile = _profile(setup)
    sim, drive = profile.sim, profile.vehicle.drive
    keys = dict(setup.receiver)
    declared = float(keys.pop("declared", 1.0))
    gnss = Gnss(
        msgspec.convert(keys, GnssModel),
        LEVER_ARM_M,
        LOT_17,
        seed,
        "gnss/GnssFix",
        START_NS,
        10**18,
    )
    imu = Imu(
        replace(sim.imu, rate_hz=100.0, gyro_bias_radps=setup.gyro_bias_radps),
        (0.25, 0.0, 0.10),
        seed,
        "imu/ImuSample",
    )
    actuators = Actuators(sim, START_NS, STEP_NS)
    sensors: list[Sensor] = [gnss, imu]
    if setup.heading and sim.heading is not None:
        sensors.append(HeadingSensor(sim.heading, seed, "heading/Heading"))
    if setup.motor:
        sensors.append(MotorStatusSensor(MotorStatusModel(), actuators))
    yaw_rad = float(np.random.default_rng(seed).uniform(-pi, pi))
    plant = FourDof(sim, StartPose(0.0, 0.0, yaw_rad), STEP_NS * 1e-9)
    due = [START_NS + round(1e9 / sensor.rate_hz) for sensor in sensors]
    arrivals: list[tuple[int, int, Message]] = []
    truth: list[tuple[int, float, float, float, float]] = []
    before = plant.motion()
    for k in range(int(setup.seconds * 1e9) // STEP_NS):
        now_ns = START_NS + k * STEP_NS
        t_s = k * STEP_NS * 1e-9
        if k % 4 == 0:
            command = _command(setup, profile, t_s, before.speed_mps, now_ns)
            arrivals.append((now_ns, len(arrivals), command))
            actuators.command(now_ns, command.throttle, command.brake, command.steering)
        actuators.step(now_ns, plant.motor_speed_radps if actuators.sags else 0.0)
        push = setup.pushed
        if push is not None and push[0] <= t_s < push[1]:
            plant = _pushed(plant, sim, push[2])
        plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
        after, after_ns = plant.motion(), now_ns + STEP_NS
        for i, sensor in enumerate(sensors):
            while due[i] <= after_ns:
                motion = interpolate(before, after, (due[i] - now_ns) / STEP_NS)
                ready_ns, message = sensor.sample(due[i], motion)
                arrivals.append((ready_ns, len(arrivals), _degraded(setup, declared, message)))
                due[i] += round(1e9 / sensor.rate_hz)
        before = after
        if after_ns % FUSION_NS == 0:
            truth.append((after_ns, after.x_m, after.y_m, after.yaw_rad, after.speed_mps))
    assert drive is not None
    arrivals.sort(key=lambda entry: entry[:2])
    return Stream(profile, [(t_ns, message) for t_ns, _, message in arrivals], truth)


def _pushed(plant: FourDof, sim: Any, speed_mps: float) -> FourDof:
    """Return the same vehicle, pushed by hand at a speed."""
    at: Motion = plant.motion()
    return FourDof(sim, StartPose(at.x_m, at.y_m, at.yaw_rad), STEP_NS * 1e-9, speed_mps)


def _command(
    setup: Setup, profile: Profile, t_s: float, speed_mps: float, now_ns: int
) -> ActuatorCommand:
    drive, steering = profile.vehicle.drive, profile.vehicle.steering
    wanted = _wanted_mps(setup, t_s)
    throttle = 0.0
    if wanted != 0.0:
        throttle = drive.steady_throttle(wanted) + 0.6 * (wanted - speed_mps)
        throttle = (
            min(max(throttle, 0.0), 1.0)
            if wanted > 0.0
            else min(max(throttle, -drive.reverse_share), 0.0)
        )
    share = 0.35 + 0.5 * sin(0.21 * t_s) if wanted != 0.0 else 0.0
    return ActuatorCommand(now_ns, now_ns, throttle, 0.0, share, steering.wheel_angle_rad(share))


def _degraded(setup: Setup, declared: float, message: Message) -> Message:
    if isinstance(message, ImuSample) and not setup.accelerometer:
        return replace(message, specific_force_mps2=NAN3)
    if isinstance(message, GnssFix):
        if not setup.gnss_velocity:
            message = replace(message, velocity_enu_mps=NAN3, velocity_covariance_m2ps2=NAN9)
        if declared != 1.0:
            message = replace(
                message,
                position_covariance_m2=tuple(
                    declared**2 * v for v in message.position_covariance_m2
                ),
            )
    return message


def build(name: str, profile: Profile) -> Any:
    """Return an estimator of the table, with its defaults."""
    registered, keys = ESTIMATORS[name]
    kind = resolve("estimator", registered)
    return kind(msgspec.convert(keys, kind.Params), profile.vehicle, LOT_17, LEVER_ARM_M)


def estimates(name: str, drive: Stream) -> list[StateEstimate]:
    """Feed a drive to an estimator; return its estimate at every row of the truth."""
    estimator = build(name, drive.profile)
    found, position = [], 0
    arrivals = drive.arrivals
    for t_ns, *_ in drive.truth:
        while position < len(arrivals) and arrivals[position][0] <= t_ns:
            message = arrivals[position][1]
            if isinstance(message, ActuatorCommand):
                estimator.command(message)
            else:
                estimator.observe(message)
            position += 1
        found.append(estimator.step(t_ns))
    return found


class Verdict(Struct, frozen=True, kw_only=True):
    """Consistency of one run. Rows count where the filter says RUNNING."""

    rows: int
    running: float
    """Fraction of all rows."""
    anees: float
    anees_yaw: float
    anees_speed: float
    inside: float
    worst: float
    worst_yaw: float
    mean_error_m: float
    mean_sigma_m: float
    false_arm: bool
    reversed_rows: int
    """Rows that are RUNNING with a yaw error above 90 degrees."""
    nis: float
    """Mean normalised innovation squared of the position, divided by its two degrees of freedom."""


def judge(drive: Stream, found: Sequence[StateEstimate]) -> Verdict:
    """Judge the estimates of a drive against its truth."""
    nees, nees_yaw, nees_speed, errors, sigmas, nis = [], [], [], [], [], []
    false_arm, reversed_rows, running = False, 0, 0
    for (t_ns, x, y, yaw, speed), e in zip(drive.truth, found, strict=True):
        if e.status is not EstimatorStatus.RUNNING:
            continue
        running += 1
        c = np.array(e.covariance).reshape(4, 4)
        d = np.array((e.x_m - x, e.y_m - y))
        error, sigma = hypot(*d), sqrt(max(c[0, 0], c[1, 1]))
        dyaw = remainder(e.yaw_rad - yaw, tau)
        nees.append(float(d @ np.linalg.solve(c[:2, :2], d)))
        errors.append(error)
        sigmas.append(sigma)
        reversed_rows += abs(dyaw) > 0.5 * pi
        false_arm = false_arm or (sigma <= ARMING_SIGMA_M and error > FALSE_ARM_M)
        if isfinite(e.normalised_innovation_squared):
            nis.append(e.normalised_innovation_squared)
        if t_ns - START_NS > SETTLE_S * 1e9:
            nees_yaw.append(dyaw * dyaw / c[2, 2])
            nees_speed.append((e.speed_mps - speed) ** 2 / c[3, 3])

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if values else float("nan")

    return Verdict(
        rows=len(drive.truth),
        running=running / max(len(drive.truth), 1),
        anees=mean(nees) / 2.0,
        anees_yaw=mean(nees_yaw),
        anees_speed=mean(nees_speed),
        inside=mean([float(v <= INSIDE_95) for v in nees]),
        worst=sqrt(max(nees, default=0.0)),
        worst_yaw=sqrt(max(nees_yaw, default=0.0)),
        mean_error_m=mean(errors),
        mean_sigma_m=mean(sigmas),
        false_arm=false_arm,
        reversed_rows=reversed_rows,
        nis=mean(nis) / 2.0,
    )


def run_one(task: tuple[str, float, int, tuple[str, ...]]) -> list[tuple[str, str, int, Verdict]]:
    """Judge one receiver and seed with every estimator."""
    receiver, seconds, seed, names = task
    drive = stream(Setup(receiver=RECEIVERS[receiver], seconds=seconds), seed)
    return [(name, receiver, seed, judge(drive, estimates(name, drive))) for name in names]


def start_stream(start: str, receiver: str, seed: int) -> Stream:
    """Simulate one start without heading device and accelerometer."""
    setup = Setup(
        receiver=RECEIVERS[receiver],
        seconds=34.0,
        accelerometer=False,
        heading=False,
        **STARTS[start],
    )
    return stream(setup, seed)


def print_starts(names: Sequence[str], seeds: int) -> None:
    """Run every start and print the number that was RUNNING while reversed."""
    rows = []
    for label, receiver in START_RECEIVERS.items():
        for start in STARTS:
            row = [label, start]
            drives = [start_stream(start, receiver, seed) for seed in range(1, seeds + 1)]
            for name in names:
                found = [judge(drive, estimates(name, drive)) for drive in drives]
                reversed_starts = sum(verdict.reversed_rows > 0 for verdict in found)
                running = float(np.mean([verdict.running for verdict in found]))
                row.append(f"{reversed_starts} of {seeds}, running {running:.0%}")
            rows.append(row)
    print_table("starts RUNNING while reversed", ["receiver", "start", *names], rows)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--estimator", action="append", choices=list(ESTIMATORS))
    parser.add_argument("--receiver", action="append", choices=list(RECEIVERS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = tuple(arguments.estimator or ESTIMATORS)
    if arguments.starts:
        print_starts(names, arguments.seeds)
        return
    tasks = [
        (receiver, arguments.seconds, seed, names)
        for receiver in arguments.receiver or RECEIVERS
        for seed in range(1, arguments.seeds + 1)
    ]
    if arguments.jobs > 1:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            found = [row for rows in pool.map(run_one, tasks) for row in rows]
    else:
        found = [row for task in tasks for row in run_one(task)]
    rows = []
    for name in names:
        for receiver in arguments.receiver or RECEIVERS:
            verdicts = [v for n, r, _, v in found if (n, r) == (name, receiver)]

            def mean(key: str, of: Sequence[Verdict] = verdicts) -> float:
                values = [getattr(v, key) for v in of if isfinite(getattr(v, key))]
                return float(np.mean(values)) if values else float("nan")

            row: dict[str, Any] = {"estimator": name, "receiver": receiver, "seeds": len(verdicts)}
            for key in (
                "anees",
                "anees_yaw",
                "anees_speed",
                "nis",
                "inside",
                "running",
                "mean_error_m",
                "mean_sigma_m",
            ):
                row[key] = mean(key)
            row["worst"] = max((v.worst for v in verdicts), default=-inf)
            row["false_arms"] = sum(v.false_arm for v in verdicts)
            rows.append(row)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    titles = [
        "estimator",
        "receiver",
        "ANEES",
        "yaw",
        "speed",
        "NIS",
        "inside 95 %",
        "error/sigma",
        "error m",
        "sigma m",
        "running",
        "false arms",
    ]
    print_table(
        "",
        titles,
        [
            [
                row["estimator"], row["receiver"], f"{row['anees']:.2f}", f"{row['anees_yaw']:.2f}",
                f"{row['anees_speed']:.2f}", f"{row['nis']:.2f}", f"{row['inside']:.0%}",
                f"{row['worst']:.1f}", f"{row['mean_error_m']:.3f}", f"{row['mean_sigma_m']:.3f}",
                f"{row['running']:.0%}", f"{row['false_arms']} of {row['seeds']}",
            ]
            for row in rows
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()

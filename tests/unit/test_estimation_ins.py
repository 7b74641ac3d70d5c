"""The inertial filter on known trajectories: levelling, circle, bias, outage, lateness,
consistency, alignment, lost sensors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tests.grid import sampled
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    NAN,
    NAN3,
    NAN9,
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.ins.estimator import Ins
from vehicled.estimation.ins.measurements import UNKNOWN_SIGMA_M
from vehicled.estimation.ins.params import Constraints, GnssUse, HeadingUse, InsParams, Rest
from vehicled.estimation.ins.state import rotation
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(steering=make_steering(delay_s=0.0), drive=make_drive(delay_s=0.0))
DATUM = Datum(0.7517, -1.5605, 260.0)
MS = 1_000_000
START_NS = 10**12
G = 9.80665
ANTENNA_M = (0.2, 0.05, 0.3)
IMU_M = (0.25, 0.02, 0.1)
PARAMS = InsParams(imu_lever_arm_m=IMU_M)
Floats = npt.NDArray[np.float64]


def weave(t: Floats) -> tuple[Floats, Floats]:
    """Speed and yaw rate: two seconds of standing, then 1.2 m/s in curves."""
    speed = 1.2 * np.clip((t - 2.0) / 1.5, 0.0, 1.0)
    return speed, np.where(t > 2.0, 0.5 * np.sin(0.8 * (t - 2.0)), 0.0) * (speed > 0.0)


def circle(t: Floats) -> tuple[Floats, Floats]:
    """Two seconds of standing, then a circle of 3 m radius."""
    speed = 1.5 * np.clip((t - 2.0) / 1.5, 0.0, 1.0)
    return speed, speed / 3.0


def straight(t: Floats) -> tuple[Floats, Floats]:
    return 1.0 * np.clip((t - 2.0) / 1.0, 0.0, 1.0), np.zeros_like(t)


def backward(t: Floats) -> tuple[Floats, Floats]:
    """Two seconds of standing, then backward in curves, then forward again from the twelfth second
    on."""
    speed = -0.9 * np.clip((t - 2.0) / 1.5, 0.0, 1.0) + 1.8 * np.clip((t - 12.0) / 2.0, 0.0, 1.0)
    return speed, 0.4 * np.sin(0.8 * (t - 2.0)) * speed


def standing(t: Floats) -> tuple[Floats, Floats]:
    return np.zeros_like(t), np.zeros_like(t)


@dataclass
class KnownDrive:
    """A drive with an inertial unit at 200 Hz, fixes and headings at 10 Hz. The truth is integrated
    at 1 kHz."""

    params: InsParams = field(default_factory=lambda: PARAMS)
    motion: Callable[[Floats], tuple[Floats, Floats]] = weave
    seconds: float = 15.0
    seed: int = 5
    roll: float = 0.0
    pitch: float = 0.0
    gyro_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    force_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sigma_m: float = 0.02
    latency_ms: int = 60
    heading: HeadingKind | None = HeadingKind.MOVING_BASE
    misalignment: float = 0.0
    velocity: bool = True
    fixes: Callable[[float], bool] = lambda t: True
    carrier: Callable[[float], CarrierSolution] = lambda t: CarrierSolution.FIXED
    error: Callable[[float, CarrierSolution], tuple[float, float]] = lambda t, carrier: (0.0, 0.0)
    imu_latency_ms: int = 0
    imu: Callable[[float], bool] = lambda t: True
    forces: bool = True
    wheel: float | None = None
    """Measured over true speed of a wheel sensor; None for none."""
    motor: bool = False
    shuffle: bool = False
    """Deliver fixes in batches of three, the newest first."""
    judged: bool = False
    estimates: list[StateEstimate] = field(default_factory=list)
    feeds: list[tuple[int, list[Message]]] = field(default_factory=list)
    """Inputs of the filter at each step."""
    inside: list[tuple[float, float]] = field(default_factory=list)

    def run(self) -> "KnownDrive":
        rng = np.random.default_rng(self.seed)
        n = int(self.seconds * 1000) + 1
        t: Floats = np.arange(n, dtype=np.float64) * 1e-3
        v, r = self.motion(t)
        yaw0 = 0.4
        yaw = yaw0 + np.concatenate(([0.0], np.cumsum(0.5 * (r[1:] + r[:-1]) * 1e-3)))
        mid_yaw, mid_v = 0.5 * (yaw[1:] + yaw[:-1]), 0.5 * (v[1:] + v[:-1])
        x = 2.0 + np.concatenate(([0.0], np.cumsum(mid_v * np.cos(mid_yaw) * 1e-3)))
        y = 1.0 + np.concatenate(([0.0], np.cumsum(mid_v * np.sin(mid_yaw) * 1e-3)))
        a, rdot = np.gradient(v, 1e-3), np.gradient(r, 1e-3)
        self.truth = np.column_stack((x, y, yaw, v))
        force = np.column_stack(
            (
                a - rdot * IMU_M[1] - r * r * IMU_M[0],
                v * r + rdot * IMU_M[0] - r * r * IMU_M[1],
                0.0 * t + G,
            )
        )
        # The unit stands on a slope of constant roll and pitch only where the vehicle stands; see
        # the levelling tests.
        cr = math.cos(self.roll)
        sr = math.sin(self.roll)
        cp = math.cos(self.pitch)
        sp = math.sin(self.pitch)
        if self.roll or self.pitch:
            force[:] = (-sp * G, cp * sr * G, cp * cr * G)
        ins = self.ins = Ins(self.params, VEHICLE, DATUM, ANTENNA_M)
        due: list[tuple[int, int, Message]] = []
        batch: list[Message] = []
        nan = (NAN, NAN, NAN)
        for ms in range(5, n, 5):
            now, stamp = ms * 1e-3, START_NS + ms * MS
            if self.imu(now):
                f = force[ms] + self.force_bias + 0.03 * rng.standard_normal(3)
                w = np.array((0.0, 0.0, r[ms])) + self.gyro_bias + 0.003 * rng.standard_normal(3)
                sample = ImuSample(
                    stamp, stamp, tuple(f.tolist()) if self.forces else nan, tuple(w.tolist())
                )
                due.append((stamp + self.imu_latency_ms * MS, ms, sample))
            if ms % 100 == 50 and self.heading is not None:
                z = yaw[ms] + self.misalignment + 0.01 * rng.standard_normal()
                due.append(
                    (stamp + 30 * MS, ms, Heading(stamp, stamp, float(z), 0.01, self.heading))
                )
            if ms % 20 == 0 and self.wheel is not None:
                due.append((stamp, ms, WheelSpeed(stamp, stamp, float(v[ms]) * self.wheel, 0.03)))
            if ms % 20 == 0 and self.motor:
                due.append(
                    (stamp, ms, MotorStatus(stamp, stamp, float(v[ms]) / (0.08451952624 / 3)))
                )
            if ms % 100 == 0 and self.fixes(now):
                fix = self._fix(ms, stamp, x, y, yaw, v, r, rng)
                batch.append(fix)
                if not self.shuffle:
                    due.append((stamp + self.latency_ms * MS, ms, batch.pop()))
                elif len(batch) == 3:
                    due += [
                        (stamp + self.latency_ms * MS, 10 * n - k, late)
                        for k, late in enumerate(batch)
                    ]
                    batch = []
            due.sort(key=lambda entry: entry[:2])
            observed = []
            while due and due[0][0] <= stamp:
                observed.append(due.pop(0)[2])
                ins.observe(observed[-1])
            self.feeds.append((stamp, observed))
            self.estimates.append(ins.step(stamp))
            throttle = 0.3 * float(np.sign(v[min(ms + 50, n - 1)]))
            ins.command(
                ActuatorCommand(
                    stamp,
                    stamp,
                    throttle,
                    0.0,
                    0.0,
                    math.atan(0.5 * r[ms] / v[ms]) if abs(v[ms]) > 0.1 else 0.0,
                )
            )
            state = ins.state
            if self.judged and state is not None and ms % 100 == 95:
                self.inside.append((now, self._nees(state, ms)))
        return self

    def _fix(
        self,
        ms: int,
        stamp: int,
        x: Any,
        y: Any,
        yaw: Any,
        v: Any,
        r: Any,
        rng: np.random.Generator,
    ) -> GnssFix:
        c, s = math.cos(yaw[ms]), math.sin(yaw[ms])
        forward, left, up = ANTENNA_M
        carrier = self.carrier(ms * 1e-3)
        extra = self.error(ms * 1e-3, carrier)
        sigma = {
            CarrierSolution.FIXED: self.sigma_m,
            CarrierSolution.FLOAT: 0.3,
            CarrierSolution.NONE: 1.0,
        }[carrier]
        white = self.sigma_m if carrier is CarrierSolution.FIXED else 0.1
        e, n_, u = white * rng.standard_normal(3)
        east = x[ms] + c * forward - s * left + e + extra[0]
        north = y[ms] + s * forward + c * left + n_ + extra[1]
        lat, lon, h = DATUM.to_geodetic(float(east), float(north), float(up + u))
        noise = 0.05 * rng.standard_normal(3)
        ahead, side = v[ms] - r[ms] * left, r[ms] * forward
        moved = (c * ahead - s * side + noise[0], s * ahead + c * side + noise[1], noise[2])
        spread = (
            sigma**2,
            0.0,
            0.0,
            0.0,
            sigma**2,
            0.0,
            0.0,
            0.0,
            sigma**2 * (1.0 if carrier is CarrierSolution.FIXED else 2.0),
        )
        spread_v = (2.5e-3, 0.0, 0.0, 0.0, 2.5e-3, 0.0, 0.0, 0.0, 2.5e-3)
        velocity = tuple(map(float, moved)) if self.velocity else NAN3
        return GnssFix(
            stamp, stamp, lat, lon, h, velocity, spread, spread_v, FixType.FIX_3D, carrier
        )

    def _nees(self, state: Any, ms: int) -> float:
        """Normalised error squared over (x, y, yaw, speed) of the newest estimate."""
        e, q = self.estimates[-1], self.truth[ms]
        d = np.array(
            (
                e.x_m - q[0],
                e.y_m - q[1],
                math.remainder(e.yaw_rad - q[2], math.tau),
                e.speed_mps - q[3],
            )
        )
        return float(d @ np.linalg.solve(np.array(e.covariance).reshape(4, 4), d))

    def errors(self, since_s: float, until_s: float = math.inf) -> Floats:
        """Rows: distance, yaw, speed error in absolute value."""
        rows = []
        for k, e in enumerate(self.estimates):
            if since_s <= (k + 1) * 0.005 < until_s:
                q = self.truth[(k + 1) * 5]
                yaw = abs(math.remainder(e.yaw_rad - q[2], math.tau))
                rows.append((math.hypot(e.x_m - q[0], e.y_m - q[1]), yaw, abs(e.speed_mps - q[3])))
        return np.array(rows).T

    def at(self, t_s: float) -> StateEstimate:
        return self.estimates[round(t_s / 0.005) - 1]


def rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


# ---------------------------------------------------------------- standing


@pytest.mark.parametrize(("roll", "pitch"), [(0.1, -0.05), (-0.2, 0.15)])
def test_levels_from_the_accelerometer_while_standing(roll: float, pitch: float) -> None:
    drive = KnownDrive(motion=standing, seconds=2.0, roll=roll, pitch=pitch).run()
    state = drive.ins.state
    assert state is not None
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    assert state.R[6:] == pytest.approx((-sp, cp * sr, cp * cr), abs=2e-3)
    np.testing.assert_allclose(
        np.array(rotation(state.q)).reshape(3, 3) @ np.array(rotation(state.q)).reshape(3, 3).T,
        np.eye(3),
        atol=1e-12,
    )
    assert drive.errors(1.5)[1].max() < 0.02


def test_standing_gives_the_gyro_bias_and_holds_the_pose() -> None:
    drive = KnownDrive(motion=standing, seconds=8.0, gyro_bias=(0.01, -0.015, 0.02)).run()
    state = drive.ins.state
    assert state is not None
    assert state.x[9:12] == pytest.approx((0.01, -0.015, 0.02), abs=1e-3)
    distance, yaw, speed = drive.errors(2.0)
    assert distance.max() < 0.04
    assert yaw.max() < 0.015
    assert speed.max() < 0.01


def test_zero_rate_updates_are_what_teaches_the_bias_at_rest() -> None:
    off = InsParams(imu_lever_arm_m=IMU_M, rest=Rest(use_zero_rate=False, use_zero_velocity=False))
    sigmas = []
    for params in (PARAMS, off):
        state = (
            KnownDrive(motion=standing, seconds=3.0, gyro_bias=(0.0, 0.0, 0.02), params=params)
            .run()
            .ins.state
        )
        assert state is not None
        sigmas.append([math.sqrt(state.P[k, k]) for k in (3, 9, 11)])
    learnt, blind = np.array(sigmas)
    assert (learnt < 0.3 * blind).all(), "velocity, and bias of the rates of roll and yaw"


# ---------------------------------------------------------------- driving


def test_tracks_better_than_the_sensors_do() -> None:
    drive = KnownDrive().run()
    distance, yaw, speed = drive.errors(4.0)
    assert rms(distance) < 0.02
    assert rms(yaw) < 0.006
    assert rms(speed) < 0.02
    assert drive.estimates[-1].status is EstimatorStatus.RUNNING
    assert drive.ins.ignored == drive.ins.late == drive.ins.restarts == 0
    assert drive.estimates[-1].rejected <= 4


def test_circle_with_lever_arms_is_followed_at_the_rear_axle() -> None:
    drive = KnownDrive(motion=circle).run()
    last = drive.errors(10.0)
    assert rms(last[0]) < 0.02
    assert rms(last[2]) < 0.02
    estimate = drive.estimates[-1]
    assert estimate.yaw_rate_radps == pytest.approx(0.5, abs=0.02)
    wrong = KnownDrive(motion=circle, params=InsParams(imu_lever_arm_m=(-0.75, 0.0, 0.1))).run()
    right_state, wrong_state = drive.ins.state, wrong.ins.state
    assert right_state is not None
    assert wrong_state is not None
    # A metre nearer to the centre feels 0.25 m/s2 less, which only a bias or a tilt can explain.
    assert abs(right_state.x[12] + G * right_state.R[6]) < 0.05
    assert wrong_state.x[12] + G * wrong_state.R[6] == pytest.approx(-0.25, abs=0.05)


@pytest.mark.parametrize("heading", sampled([HeadingKind.MOVING_BASE, None], bool))
def test_backward_is_a_negative_speed_and_no_turn_of_the_heading(
    heading: HeadingKind | None,
) -> None:
    drive = KnownDrive(motion=backward, heading=heading, wheel=1.0, seconds=20.0).run()
    assert drive.at(10.0).speed_mps == pytest.approx(-0.9, abs=0.05)
    assert drive.at(18.0).speed_mps == pytest.approx(0.9, abs=0.05)
    distance, yaw, speed = drive.errors(8.0)
    assert rms(distance) < 0.03
    assert rms(yaw) < 0.03
    assert rms(speed) < 0.03


def test_accelerometer_and_gyro_bias_are_estimated_while_driving() -> None:
    drive = KnownDrive(
        gyro_bias=(0.0, 0.0, 0.015), force_bias=(0.08, 0.0, 0.0), motion=circle, seconds=22.0
    ).run()
    state = drive.ins.state
    assert state is not None
    assert state.x[11] == pytest.approx(0.015, abs=1.5e-3)
    # On level ground the accelerometer bias cannot be separated from a tilt at rest; a turn on the
    # spot would show their sum.
    tilt = -state.R[6]
    assert state.x[12] - G * tilt == pytest.approx(0.08, abs=0.03)


def test_heading_misalignment_is_found_on_a_straight() -> None:
    drive = KnownDrive(misalignment=0.04, motion=straight, seconds=30.0).run()
    assert drive.at(1.0).yaw_rad - 0.4 == pytest.approx(0.04, abs=0.02)
    assert drive.errors(25.0)[1].max() < 0.015
    state = drive.ins.state
    assert state is not None
    assert state.x[20] == pytest.approx(0.04, abs=0.012)


@pytest.mark.parametrize("wheel", sampled([1.03, 0.96], lambda wheel: wheel < 1.0))
def test_wheel_scale_is_a_state(wheel: float) -> None:
    drive = KnownDrive(wheel=wheel, seconds=22.0).run()
    state = drive.ins.state
    assert state is not None
    assert 1.0 - state.x[21] == pytest.approx(wheel, abs=0.01)
    assert rms(drive.errors(20.0)[2]) < 0.015


def test_an_identified_wheel_radius_does_not_correct_the_motor_speed_twice() -> None:
    drive = KnownDrive(motor=True, seconds=3.0).run()
    other = Ins(drive.params, VEHICLE, DATUM, ANTENNA_M)
    other.adapt(
        replace(
            VEHICLE,
            drive=replace(VEHICLE.drive, wheel_radius_m=0.85 * VEHICLE.drive.wheel_radius_m),
        )
    )
    same = Ins(drive.params, VEHICLE, DATUM, ANTENNA_M)
    for stamp, observed in drive.feeds:
        for message in observed:
            other.observe(message)
            same.observe(message)
        assert other.step(stamp) == same.step(stamp)


# ------------------------------------------------------------- outages, lateness, kinds of solution


def test_three_seconds_without_gnss_are_bridged_and_the_filter_knows_that_it_knows_less() -> None:
    drive = KnownDrive(fixes=lambda t: not 12.0 <= t < 15.7, seconds=20.0).run()
    distance = drive.errors(12.0, 15.7)[0]
    assert distance.max() < 0.15
    during = drive.at(15.7)
    assert during.status is EstimatorStatus.RUNNING
    assert distance.max() < 4.0 * math.sqrt(during.covariance[0] + during.covariance[5])
    assert during.covariance[0] > 4.0 * drive.at(11.9).covariance[0]
    assert drive.errors(16.5)[0].max() < 0.06


def test_a_wheel_sensor_bridges_longer() -> None:
    plain = KnownDrive(fixes=lambda t: t < 8.0, seconds=18.0).run().errors(17.0)[0].max()
    wheels = (
        KnownDrive(fixes=lambda t: t < 8.0, seconds=18.0, wheel=1.0).run().errors(17.0)[0].max()
    )
    motor = (
        KnownDrive(fixes=lambda t: t < 8.0, seconds=18.0, motor=True).run().errors(17.0)[0].max()
    )
    assert wheels < 0.35
    assert wheels < plain
    assert motor < plain


@pytest.mark.parametrize("shuffle", sampled([False, True], bool))
def test_late_fixes_give_what_timely_ones_give(shuffle: bool) -> None:
    """Not only nearly so: the same set of measurements leads to the same state, in whatever order
    they came."""
    params = InsParams(
        imu_lever_arm_m=IMU_M, history_length_s=1.0, moving_base=HeadingUse(bias_sigma_rad=0.0)
    )
    timely = KnownDrive(params=params, latency_ms=0, seconds=8.0).run()
    late = KnownDrive(params=params, latency_ms=300, seconds=8.0, shuffle=shuffle).run()
    # Both are aligned by fixes of different age; at rest that is one state. What the late one has
    # not had yet is left out.
    assert late.errors(4.0)[0].max() < 0.06
    assert timely.errors(4.0)[0].max() < 0.06
    assert late.ins.late == 0


def test_order_of_arrival_changes_nothing() -> None:
    """Two filters, one gets everything in time, one gets five fixes half a second late: their
    states then are equal."""
    feeds = KnownDrive(seconds=6.0, latency_ms=0).run().feeds
    states = []
    for hold in (False, True):
        ins = Ins(InsParams(imu_lever_arm_m=IMU_M, history_length_s=1.0), VEHICLE, DATUM, ANTENNA_M)
        held: list[Message] = []
        for stamp, messages in feeds:
            for message in messages:
                if (
                    hold
                    and isinstance(message, GnssFix)
                    and START_NS + 4000 * MS < message.t_ns <= START_NS + 4500 * MS
                ):
                    held.insert(0, message)
                else:
                    ins.observe(message)
            if stamp == START_NS + 4800 * MS:
                for message in held:
                    ins.observe(message)
                held = []
            ins.step(stamp)
            if stamp == START_NS + 4850 * MS:
                states.append(ins.state)
    first, second = states
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(second.x, first.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(second.q, first.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(second.P, first.P, rtol=1e-9, atol=1e-15)
    assert second.counters.rejected == first.counters.rejected


def test_a_late_inertial_unit_does_not_become_a_lag() -> None:
    """Samples 20 ms late, fixes 10 ms: the filter waits for the samples and the estimate is carried
    on to now."""
    drive = KnownDrive(imu_latency_ms=20, latency_ms=10).run()
    distance, yaw, speed = drive.errors(4.0)
    assert rms(distance) < 0.02
    assert rms(yaw) < 0.008
    assert rms(speed) < 0.025
    assert drive.ins.late <= 4, (
        "but those of before the first one arrived, when there seemed to be no unit"
    )


def test_without_smoothing_old_measurements_are_refused_and_counted() -> None:
    drive = KnownDrive(
        params=InsParams(imu_lever_arm_m=IMU_M, smooth_lagged_data=False), latency_ms=0, seconds=5.0
    ).run()
    assert drive.ins.late == pytest.approx(50, abs=3), "headings arrive 30 ms late"
    assert drive.errors(4.0)[0].max() < 0.06
    drive = KnownDrive(latency_ms=700, seconds=5.0).run()
    assert drive.ins.late > 30


def test_from_float_to_fixed_and_back() -> None:
    """A float solution is wrong by a slowly varying 0.4 m; the first fixed ones pull the estimate
    there at once."""

    def carrier(t: float) -> CarrierSolution:
        return CarrierSolution.FLOAT if t < 8.0 or 14.0 <= t < 17.0 else CarrierSolution.FIXED

    def error(t: float, kind: CarrierSolution) -> tuple[float, float]:
        return (0.3, -0.25) if kind is CarrierSolution.FLOAT else (0.0, 0.0)

    drive = KnownDrive(carrier=carrier, error=error, seconds=20.0).run()
    assert 0.25 < drive.errors(7.0, 8.0)[0].mean() < 0.55
    assert drive.errors(8.5, 14.0)[0].max() < 0.08
    assert drive.errors(14.2, 17.0)[0].max() < 0.15, (
        "what the fixed solution taught is not given away"
    )
    assert drive.errors(18.0)[0].max() < 0.06
    assert drive.estimates[-1].rejected <= 5
    assert all(e.status is EstimatorStatus.RUNNING for e in drive.estimates[200:])


def test_coloured_error_of_plain_gnss_is_not_averaged_away() -> None:
    """A constant error of 1 m in the fixes must not be claimed as certainty, and the shape of the
    way must not follow its steps."""

    def offset(t: float, kind: CarrierSolution) -> tuple[float, float]:
        return (0.8, -0.6)

    plain: dict[str, Any] = {"carrier": lambda t: CarrierSolution.NONE, "error": offset}
    drive = KnownDrive(**plain).run()
    last = drive.estimates[-1]
    sigma = math.sqrt(last.covariance[0] + last.covariance[5])
    assert 0.5 < sigma < 2.0
    assert drive.errors(4.0)[0].max() < 2.5 * sigma
    white = KnownDrive(
        params=InsParams(imu_lever_arm_m=IMU_M, gnss=GnssUse(coloured=False)), **plain
    ).run()
    claimed = white.estimates[-1].covariance
    assert math.sqrt(claimed[0] + claimed[5]) < 0.5 * sigma


def test_start_at_a_known_place_is_carried_through_plain_gnss() -> None:
    """Fixed at the start, plain afterwards with an offset: the coloured states take the offset, not
    the position."""

    def offset(t: float, kind: CarrierSolution) -> tuple[float, float]:
        return (0.8, -0.6) if kind is CarrierSolution.NONE else (0.0, 0.0)

    drive = KnownDrive(
        carrier=lambda t: CarrierSolution.FIXED if t < 2.0 else CarrierSolution.NONE, error=offset
    ).run()
    assert drive.errors(4.0)[0].max() < 0.3


# ---------------------------------------------------------------- gates


def test_single_outliers_are_rejected_and_counted() -> None:
    def outlier(t: float, kind: CarrierSolution) -> tuple[float, float]:
        return (3.0, 0.0) if round(t * 10) % 20 == 0 and t > 5.0 else (0.0, 0.0)

    drive = KnownDrive(error=outlier, seconds=20.0).run()
    assert drive.errors(4.0)[0].max() < 0.08
    assert 7 <= drive.estimates[-1].rejected <= 12
    ungated = KnownDrive(error=outlier, params=InsParams(imu_lever_arm_m=IMU_M, gate=False)).run()
    assert ungated.errors(6.0)[0].max() > 0.2
    assert ungated.estimates[-1].rejected == 0


def test_a_lasting_jump_is_believed_in_the_end_and_reported_meanwhile() -> None:
    drive = KnownDrive(error=lambda t, kind: (2.0, 0.0) if t > 10.0 else (0.0, 0.0)).run()
    assert drive.errors(10.2, 10.5)[0].max() < 0.2, "not at once"
    settled = drive.errors(13.0)[0]
    assert abs(settled - 2.0).max() < 0.15
    doubted = [e.t_ns for e in drive.estimates[1000:] if e.status is not EstimatorStatus.RUNNING]
    assert 10.4 < (min(doubted) - START_NS) * 1e-9 < 10.9
    assert drive.estimates[-1].status is EstimatorStatus.RUNNING
    assert drive.ins.restarts == 0


# ---------------------------------------------------------------- alignment


def test_status_goes_from_uninitialised_over_aligning_to_running() -> None:
    statuses = [e.status for e in KnownDrive(seconds=3.0).run().estimates]
    order = [s for k, s in enumerate(statuses) if k == 0 or s is not statuses[k - 1]]
    assert order == [
        EstimatorStatus.UNINITIALISED,
        EstimatorStatus.ALIGNING,
        EstimatorStatus.RUNNING,
    ]
    assert math.isnan(KnownDrive(seconds=0.1, heading=None).run().estimates[0].x_m)


@pytest.mark.parametrize("velocity", [True, False])
def test_without_heading_it_aligns_in_motion(velocity: bool) -> None:
    drive = KnownDrive(heading=None, velocity=velocity, seconds=18.0).run()
    assert drive.at(2.0).status is EstimatorStatus.UNINITIALISED
    first = next(
        k for k, e in enumerate(drive.estimates) if e.status is not EstimatorStatus.UNINITIALISED
    )
    assert 2.0 < first * 0.005 < 6.0
    assert drive.errors(first * 0.005 + 0.1, first * 0.005 + 0.2)[1].max() < 0.3
    distance, yaw, _ = drive.errors(12.0)
    assert rms(distance) < 0.03
    assert rms(yaw) < 0.03


def test_a_jump_between_two_kinds_of_fix_is_no_course() -> None:
    """Fixed at standstill, plain GNSS 4 m to the side once it drives: the chord across the jump
    says nothing of the yaw."""

    def error(t: float, kind: CarrierSolution) -> tuple[float, float]:
        return (-2.5, 3.1) if kind is CarrierSolution.NONE else (0.0, 0.0)

    drive = KnownDrive(
        heading=None, velocity=False, seconds=40.0, motion=straight, error=error,
        carrier=lambda t: CarrierSolution.FIXED if t < 2.0 else CarrierSolution.NONE,
    ).run()  # fmt: skip
    known = [k for k, e in enumerate(drive.estimates) if e.status is EstimatorStatus.RUNNING]
    assert known
    for k in known:
        estimate = drive.estimates[k]
        yaw_error = math.remainder(estimate.yaw_rad - drive.truth[5 * (k + 1), 2], math.tau)
        assert abs(yaw_error) < 3.0 * math.sqrt(estimate.covariance[10])
        assert abs(yaw_error) < 0.3


def test_inertial_heading_counts_only_by_its_changes() -> None:
    """Its zero is wrong by a radian: it aligns nothing, and spoils nothing."""
    drive = KnownDrive(heading=HeadingKind.INERTIAL, misalignment=1.0, seconds=18.0).run()
    assert drive.at(2.0).status is EstimatorStatus.UNINITIALISED
    assert rms(drive.errors(12.0)[1]) < 0.03
    state = drive.ins.state
    assert state is not None
    assert state.x[18] == pytest.approx(1.0, abs=0.05)


# ---------------------------------------------------------------- lost sensors


def test_a_lost_inertial_unit_is_replaced_by_the_model_and_taken_back() -> None:
    drive = KnownDrive(imu=lambda t: not 8.0 <= t < 11.0).run()
    assert drive.errors(8.0, 11.0)[0].max() < 0.15
    assert drive.errors(12.0)[0].max() < 0.06
    assert drive.at(10.9).status is EstimatorStatus.RUNNING


def test_without_accelerometer_the_planar_mechanisation_holds() -> None:
    drive = KnownDrive(forces=False).run()
    assert drive.estimates[-1].status is EstimatorStatus.RUNNING
    distance, yaw, speed = drive.errors(6.0)
    assert rms(distance) < 0.04
    assert rms(yaw) < 0.01
    assert rms(speed) < 0.06


def test_a_long_pause_starts_anew_and_a_lost_receiver_ends_in_diverged() -> None:
    drive = KnownDrive(fixes=lambda t: t < 5.0, seconds=6.0).run()
    ins, now_ns = drive.ins, drive.estimates[-1].t_ns
    for _ in range(100_000):
        estimate = ins.step(now_ns := now_ns + 20 * MS)
        if estimate.status is not EstimatorStatus.RUNNING:
            break
    assert estimate.status is EstimatorStatus.DIVERGED
    assert ins.step(now_ns + 2_000 * MS).status is EstimatorStatus.UNINITIALISED
    assert ins.restarts == 1


# ---------------------------------------------------------------- consistency


def test_innovations_and_errors_are_as_large_as_the_filter_says() -> None:
    """Monte Carlo: NIS has two degrees of freedom, the error over (x, y, yaw, speed) four.
    Bar-Shalom 2001, section 5.4.

    Sensors err as the filter is configured here, and no more; with floors and margins for the road
    it would be pessimistic.
    """
    params = InsParams(
        imu_lever_arm_m=IMU_M,
        gnss=GnssUse(sigma_floor_m=0.001, velocity_sigma_floor_mps=0.001, coloured=False),
        moving_base=HeadingUse(bias_sigma_rad=0.0),
        constraints=Constraints(use_lateral=False, use_vertical=False),
        rest=Rest(use_zero_velocity=False, use_zero_rate=False),
    )
    nis, nees = [], []
    for seed in range(3):
        drive = KnownDrive(params=params, seed=seed, seconds=12.0, judged=True).run()
        nis += [e.normalised_innovation_squared for e in drive.estimates[800::20]]
        nees += [value for t, value in drive.inside if t > 4.0]
    # The sum of n chi-square values of m degrees has the deviation sqrt(2 n m); errors are
    # correlated over about 10 steps.
    assert 2.0 - 6.0 / math.sqrt(len(nis)) < np.mean(nis) < 2.0 + 6.0 / math.sqrt(len(nis))
    assert 1.5 < np.mean(nees) < 5.5


# ---------------------------------------------------------------- small things


def test_masks_switch_sensors_off() -> None:
    off = InsParams(imu_lever_arm_m=IMU_M, gnss=GnssUse(use_position=False, use_velocity=False))
    assert (
        KnownDrive(params=off, seconds=2.0).run().estimates[-1].status
        is EstimatorStatus.UNINITIALISED
    )
    blind = InsParams(imu_lever_arm_m=IMU_M, moving_base=HeadingUse(use_yaw=False))
    assert (
        KnownDrive(params=blind, seconds=1.9).run().estimates[-1].status
        is EstimatorStatus.UNINITIALISED
    )


def test_unknown_accuracy_takes_the_usual_figure() -> None:
    ins = Ins(InsParams(gnss=GnssUse(coloured=False)), VEHICLE, DATUM, (0.0, 0.0, 0.0))
    lat, lon, h = DATUM.to_geodetic(3.0, 4.0, 0.0)
    ins.observe(Heading(START_NS, START_NS, 0.3, 0.02, HeadingKind.MOVING_BASE))
    ins.observe(
        GnssFix(
            START_NS, START_NS, lat, lon, h, NAN3, NAN9, NAN9, FixType.FIX_3D, CarrierSolution.FIXED
        )
    )
    estimate = ins.step(START_NS)
    assert (estimate.x_m, estimate.y_m, estimate.yaw_rad) == pytest.approx(
        (3.0, 4.0, 0.3), abs=1e-6
    )
    assert math.sqrt(estimate.covariance[0]) == pytest.approx(
        UNKNOWN_SIGMA_M[CarrierSolution.FIXED], rel=0.01
    )


def test_newest_input_is_the_time_of_validity_of_what_entered() -> None:
    drive = KnownDrive(seconds=4.0).run()
    assert all(0 <= e.t_ns - e.newest_input_ns <= 5 * MS for e in drive.estimates)
    drive = KnownDrive(seconds=4.0, imu=lambda t: False).run()
    ages = [e.t_ns - e.newest_input_ns for e in drive.estimates[200:]]
    assert 30 * MS <= max(ages) <= 110 * MS

"""The planar filter on drives whose truth is known: what it learns, what it survives, what it says
of itself."""

from collections.abc import Callable
from math import cos, hypot, pi, remainder, sin, tan, tau

import numpy as np
import pytest
from msgspec.structs import replace

from tests.vehicles import make_steering, make_vehicle
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    NAN,
    NAN3,
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.congruence import Congruence
from vehicled.estimation.planar import state as planar_state
from vehicled.estimation.planar.estimator import Planar
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import AUTHORITY, GYRO_BIAS, MISALIGNMENT, WHEEL_SCALE
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(steering=make_steering(delay_s=0.2))
DATUM = Datum(0.7517, -1.5605, 260.0)
START_NS = 5_000_000_000
TICK_NS = 10_000_000


class Drivebox:
    """A vehicle that drives a wavy line at 100 Hz, and its sensors. ``authority`` is its drive over
    what the filter believes."""

    def __init__(self, estimator: Planar, *, authority: float = 1.0, seed: int = 1) -> None:
        self.estimator = estimator
        self.authority = authority
        self.rng = np.random.default_rng(seed)
        self.now_ns = START_NS
        self.x = self.y = self.yaw = self.v = 0.0
        self.rate = 0.0
        self.throttle = 0.0
        self.error = (0.0, 0.0)
        self.misalignment = 0.0
        self.gyro_bias = 0.0
        self.wheel_scale = 0.0
        self.gyro = True
        self.carrier: CarrierSolution | None = CarrierSolution.FIXED
        self.heading: HeadingKind | None = HeadingKind.MOVING_BASE
        self.latency_ns = 0
        self._delayed: list[tuple[int, GnssFix]] = []
        self.estimate: StateEstimate | None = None

    def fix(self) -> GnssFix:
        assert self.carrier is not None
        sigma = 0.02 if self.carrier is CarrierSolution.FIXED else 1.5
        white = self.rng.normal(0.0, 0.01, 2)
        lat, lon, height = DATUM.to_geodetic(
            self.x + self.error[0] + white[0], self.y + self.error[1] + white[1], 0.0
        )
        R = (sigma**2, 0.0, 0.0, 0.0, sigma**2, 0.0, 0.0, 0.0, NAN)
        return GnssFix(
            self.now_ns,
            self.now_ns + self.latency_ns,
            lat,
            lon,
            height,
            NAN3,
            R,
            fix_type=FixType.FIX_3D,
            carrier=self.carrier,
        )

    def run(self, seconds: float, throttle: float = 0.6, steer: float = 0.5) -> StateEstimate:
        e = self.estimator
        drive = VEHICLE.drive
        for _ in range(round(seconds * 1e9 / TICK_NS)):
            self.now_ns += TICK_NS
            dt = TICK_NS * 1e-9
            t = (self.now_ns - START_NS) * 1e-9
            self.throttle += (throttle - self.throttle) * dt / 0.1
            pull = drive.acceleration_mps2(self.throttle * self.authority, self.v)
            self.v = max(0.0, self.v + pull * dt)
            wheel = 0.335 * steer * sin(tau * t / 12.0)
            self.rate = self.v * tan(wheel) / 0.5
            self.yaw += self.rate * dt
            self.x += self.v * cos(self.yaw) * dt
            self.y += self.v * sin(self.yaw) * dt
            e.command(
                ActuatorCommand(
                    self.now_ns, 0, throttle, 0.0, steer * sin(tau * (t + 0.2) / 12.0), 0.0
                )
            )
            if self.gyro:
                rate = self.rate + self.gyro_bias + self.rng.normal(0.0, 0.01)
                e.observe(ImuSample(self.now_ns, self.now_ns, NAN3, (NAN, NAN, rate)))
            if self.now_ns % 100_000_000 == 0:
                if self.carrier is not None:
                    self._delayed.append((self.now_ns + self.latency_ns, self.fix()))
                if self.heading is not None:
                    yaw = remainder(self.yaw + self.misalignment + self.rng.normal(0.0, 0.01), tau)
                    e.observe(Heading(self.now_ns, self.now_ns, yaw, 0.01, self.heading))
                if self.wheel_scale:
                    e.observe(WheelSpeed(self.now_ns, self.now_ns, self.v / self.wheel_scale, 0.02))
            while self._delayed and self._delayed[0][0] <= self.now_ns:
                e.observe(self._delayed.pop(0)[1])
            self.estimate = e.step(self.now_ns)
        assert self.estimate is not None
        return self.estimate

    @property
    def distance(self) -> float:
        assert self.estimate is not None
        return hypot(self.estimate.x_m - self.x, self.estimate.y_m - self.y)


def box(params: PlanarParams | None = None, **options: float) -> Drivebox:
    return Drivebox(Planar(params or PlanarParams(), VEHICLE, DATUM, (0.0, 0.0, 0.0)), **options)  # type: ignore[arg-type]


def test_converges_and_says_so() -> None:
    b = box()
    assert b.run(0.05, 0.0).status is EstimatorStatus.UNINITIALISED
    assert b.run(0.2, 0.0).status is EstimatorStatus.ALIGNING
    estimate = b.run(10.0)
    assert estimate.status is EstimatorStatus.RUNNING
    assert b.distance < 0.03
    assert estimate.speed_mps == pytest.approx(b.v, abs=0.05)
    assert remainder(estimate.yaw_rad - b.yaw, tau) == pytest.approx(0.0, abs=0.03)
    assert estimate.rejected == 0
    assert 0.0 < estimate.normalised_innovation_squared < 20.0


def test_speed_is_known_without_any_sensor_of_it_from_a_drive_that_is_weaker_than_believed() -> (
    None
):
    b = box(authority=0.75)
    b.run(1.0, 0.0)
    b.run(20.0)
    errors = [b.run(0.1).speed_mps - b.v for _ in range(100)]
    assert float(np.sqrt(np.mean(np.square(errors)))) < 0.05
    b.run(10.0, 0.9)
    state = b.estimator.state
    assert state is not None
    assert state.x[AUTHORITY] < 2.536 * 0.93


def test_an_outage_is_bridged_and_the_covariance_grows() -> None:
    b = box(authority=0.85)
    b.run(1.0, 0.0)
    before = b.run(20.0).covariance
    b.carrier = b.heading = None
    after = b.run(3.7).covariance
    assert b.distance < 0.3
    assert after[0] + after[5] > 4.0 * (before[0] + before[5])
    b.carrier = CarrierSolution.FIXED
    assert b.run(1.0).status is EstimatorStatus.RUNNING
    assert b.distance < 0.05


def test_a_jump_of_a_fixed_solution_is_refused_at_first_and_believed_when_it_stays() -> None:
    b = box()
    b.run(10.0)
    b.error = (1.5, -1.0)
    b.run(0.3)
    assert b.distance < 0.1
    assert b.estimator.step(b.now_ns).rejected >= 2
    b.run(1.5)
    assert b.distance == pytest.approx(hypot(1.5, 1.0), abs=0.15)
    b.error = (0.0, 0.0)
    b.run(5.0)
    assert b.distance < 0.05


def test_a_jump_of_a_plain_solution_is_its_error_not_a_motion() -> None:
    b = box()
    b.run(5.0)
    b.carrier = CarrierSolution.NONE
    b.error = (1.0, 1.0)
    b.run(5.0)
    assert b.distance < 0.3
    b.error = (3.0, -1.0)
    b.run(5.0)
    assert b.distance < 0.5


def test_plain_fixes_after_a_known_start_lose_their_offset() -> None:
    b = box()
    b.run(2.0, 0.0)
    b.carrier = CarrierSolution.NONE
    b.error = (2.0, -1.5)
    b.run(30.0)
    assert b.distance < 1.2
    assert b.estimate is not None
    assert b.estimate.covariance[0] < 1.5**2


@pytest.mark.parametrize("latency_ms", [0, 60, 300])
def test_late_fixes_are_fused_at_their_time(latency_ms: int) -> None:
    b = box()
    b.latency_ns = latency_ms * 1_000_000
    b.run(15.0, 0.9)
    assert b.v > 1.5
    assert b.distance < 0.04
    assert b.estimator.late == 0


def test_what_is_too_late_is_counted() -> None:
    b = box()
    b.latency_ns = 600_000_000
    b.run(3.0)
    assert b.estimator.late > 15


def test_a_misaligned_heading_is_learnt_by_driving() -> None:
    b = box()
    b.misalignment = 0.12
    b.run(1.0, 0.0)
    estimate = b.run(30.0)
    state = b.estimator.state
    assert state is not None
    assert state.x[MISALIGNMENT] == pytest.approx(0.12, abs=0.02)
    assert remainder(estimate.yaw_rad - b.yaw, tau) == pytest.approx(0.0, abs=0.02)


def test_gyro_bias_is_learnt_at_rest_and_an_unknown_wheel_scale_on_the_road() -> None:
    b = box()
    b.gyro_bias = 0.006
    b.run(20.0, 0.0)
    state = b.estimator.state
    assert state is not None
    assert state.x[GYRO_BIAS] == pytest.approx(0.006, abs=0.002)
    b.wheel_scale = 1.08
    b.run(30.0)
    state = b.estimator.state
    assert state is not None
    assert state.x[WHEEL_SCALE] == pytest.approx(1.08, abs=0.02)


def test_without_a_gyro_steering_and_heading_do() -> None:
    b = box()
    b.gyro = False
    b.run(20.0)
    assert b.distance < 0.05
    assert b.estimate is not None
    assert b.estimate.yaw_rate_radps == pytest.approx(b.rate, abs=0.15)


def test_standing_stays_standing() -> None:
    b = box()
    b.run(20.0, 0.0)
    b.carrier = CarrierSolution.NONE
    for k in range(20):
        b.error = (0.05 * k, -0.05 * k)
        b.run(0.5, 0.0)
    assert b.distance < 0.03
    assert b.estimate is not None
    assert b.estimate.speed_mps < 0.01


def test_starts_from_the_course_driven_without_a_heading_source() -> None:
    b = box()
    b.heading = None
    b.yaw = 2.0
    assert b.run(1.0, 0.0).status is EstimatorStatus.UNINITIALISED
    b.run(20.0)
    assert b.distance < 0.05
    assert b.estimate is not None
    assert remainder(b.estimate.yaw_rad - b.yaw, tau) == pytest.approx(0.0, abs=0.05)


def test_diverges_without_fixes_and_begins_anew_after_a_gap() -> None:
    b = box()
    b.run(5.0)
    b.carrier = b.heading = None
    b.gyro = False
    statuses = {b.run(1.0).status for _ in range(120)}
    assert EstimatorStatus.DIVERGED in statuses
    b.carrier, b.heading = CarrierSolution.FIXED, HeadingKind.MOVING_BASE
    b.now_ns += 10_000_000_000
    b.run(5.0)
    assert b.estimator.restarts >= 1
    assert b.distance < 0.1


def test_the_same_drive_gives_the_same_bits() -> None:
    outcomes = []
    for _ in range(2):
        b = box()
        outcomes.append(b.run(3.0))
    assert outcomes[0] == outcomes[1]


def test_rtk_float_and_back_is_survived() -> None:
    b = box()
    b.run(5.0)
    for _ in range(4):
        b.carrier = CarrierSolution.FLOAT
        b.error = (0.4, 0.2)
        b.run(2.0)
        assert b.distance < 0.4
        b.carrier = CarrierSolution.FIXED
        b.error = (0.0, 0.0)
        b.run(2.0)
        assert b.distance < 0.05


def test_an_identified_vehicle_changes_delays_not_what_was_learnt() -> None:
    b = box(authority=0.8)
    b.run(20.0)
    before = b.estimator.state
    assert before is not None
    b.estimator.adapt(
        replace(VEHICLE, steering=replace(VEHICLE.steering, gain_rad=0.25, delay_s=0.3))
    )
    b.run(0.01)
    after = b.estimator.state
    assert after is not None
    assert after.x[AUTHORITY] == pytest.approx(before.x[AUTHORITY], abs=0.05)
    b.run(5.0)
    assert b.distance < 0.05


def test_yaw_is_wrapped() -> None:
    b = box()
    b.yaw = pi - 0.05
    for _ in range(60):
        assert abs(b.run(0.2).yaw_rad) <= pi
    assert remainder(b.estimator.step(b.now_ns).yaw_rad - b.yaw, tau) == pytest.approx(
        0.0, abs=0.05
    )


def test_wheels_that_turn_end_an_assumed_standstill() -> None:
    """Pushed, or driven by a drive that nobody commanded."""
    filter_ = Planar(PlanarParams(), make_vehicle(), Datum(0.75, -1.56, 260.0), (0.0, 0.0, 0.0))
    for k in range(300):
        now_ns = k * 20_000_000
        speed = 0.0 if k < 200 else 1.0
        filter_.observe(Heading(now_ns, now_ns, 0.0, 0.02, HeadingKind.MOVING_BASE))
        filter_.observe(WheelSpeed(now_ns, now_ns, speed, 0.03))
        if k % 5 == 0 and k < 200:
            latitude, longitude, height = Datum(0.75, -1.56, 260.0).to_geodetic(0.0, 0.0, 0.0)
            filter_.observe(
                GnssFix(
                    now_ns, now_ns, latitude, longitude, height,
                    position_covariance_m2=(4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 1e-3),
                    fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED,
                )
            )  # fmt: skip
        filter_.command(ActuatorCommand(now_ns, now_ns, 0.0, 0.0, 0.0, 0.0))
        estimate = filter_.step(now_ns)
        if k == 199:
            assert abs(estimate.speed_mps) < 0.05
        if k == 203:
            assert estimate.speed_mps > 0.7


@pytest.mark.parametrize("repeats", [False, True])
def test_locked_wheels_are_no_standstill_where_a_live_receiver_moves(repeats: bool) -> None:
    datum = Datum(0.75, -1.56, 260.0)
    filter_ = Planar(PlanarParams(), make_vehicle(), datum, (0.0, 0.0, 0.0))
    for k in range(400):
        now_ns, slides = k * 20_000_000, k >= 200
        filter_.observe(Heading(now_ns, now_ns, 0.0, 0.02, HeadingKind.MOVING_BASE))
        filter_.observe(WheelSpeed(now_ns, now_ns, 0.0, 0.03))
        if k % 5 == 0:
            x_m = 0.6 * 0.02 * (k - 200) if slides and not repeats else 0.0
            latitude, longitude, height = datum.to_geodetic(x_m, 0.0, 0.0)
            noise_mps = 0.0 if slides and repeats else 1e-4 * k
            filter_.observe(
                GnssFix(
                    now_ns, now_ns, latitude, longitude, height,
                    (0.6 * slides + noise_mps, 0.0, 0.0),
                    position_covariance_m2=(4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 1e-3),
                    velocity_covariance_m2ps2=(2.5e-3, 0.0, 0.0, 0.0, 2.5e-3, 0.0, 0.0, 0.0, 1e-2),
                    fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED,
                )
            )  # fmt: skip
        filter_.command(ActuatorCommand(now_ns, now_ns, 0.0, 1.0, 0.0, 0.0))
        estimate = filter_.step(now_ns)
    assert estimate.speed_mps == pytest.approx(0.0 if repeats else 0.6, abs=0.1)


@pytest.mark.parametrize("gyro", [True, False])
@pytest.mark.parametrize("heading", HeadingKind)
def test_the_covariance_follows_the_whole_transition(
    gyro: bool, heading: HeadingKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def checked(call: Congruence) -> Callable[[Array, Array], Array]:
        def product(transition: Array, covariance: Array) -> Array:
            nonlocal seen
            seen += 1
            found = call(transition, covariance)
            np.testing.assert_allclose(
                found, transition @ covariance @ transition.T, rtol=1e-9, atol=1e-12
            )
            return found

        return product

    for name in ("_MEASURED", "_STEERED"):
        monkeypatch.setattr(planar_state, name, checked(getattr(planar_state, name)))
    drive = box()
    drive.heading = heading
    drive.run(2.0)
    drive.gyro, drive.carrier = gyro, CarrierSolution.NONE
    drive.run(3.0)
    assert seen > 400

"""The measured speed by itself: which messages count, for how long, and what they say about
standstill."""

from math import cos, inf, nan
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import LIMITS
from vehicled.core.messages import NAN9, FixType, GnssFix, MotorStatus, WheelSpeed
from vehicled.core.vehicle import STANDSTILL_MPS, Limits
from vehicled.safety.monitors.speed import (
    FIX_SIGMAS,
    GROUND_SIGMA_MPS,
    SpeedMeasurement,
    SpeedMonitor,
    StandstillEvidence,
)

MS = 10**6
NOW = 50 * 10**9
LATITUDE = 0.7
EARTH_M = 6_371_000.0


def approx(number: float) -> Any:
    """A number that is nearly equal, in the place of one that is."""
    return pytest.approx(number)


class Speeds:
    """A speed monitor, and the time."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.monitor = SpeedMonitor(VEHICLE, limits)
        self.now_ns = NOW

    def after(self, ms: float) -> "Speeds":
        self.now_ns += round(ms * MS)
        return self

    def wheel(
        self, mps: float, sigma: float = 0.02, age_ms: float = 0.0, ahead_ns: int = 0
    ) -> "Speeds":
        t_ns = self.now_ns - round(age_ms * MS)
        self.monitor.on_message(WheelSpeed(t_ns, self.now_ns + ahead_ns, mps, sigma), self.now_ns)
        return self

    def motor(self, radps: float, ahead_ns: int = 0) -> "Speeds":
        self.monitor.on_message(
            MotorStatus(self.now_ns, self.now_ns + ahead_ns, motor_speed_radps=radps), self.now_ns
        )
        return self

    def fix(
        self,
        east: float,
        north: float = 0.0,
        *,
        variance: float = 4e-4,
        age_ms: float = 0.0,
        ahead_ns: int = 0,
    ) -> "Speeds":
        spread = (0.5 * variance, *(0.0,) * 3, variance, *(0.0,) * 4)
        fix = GnssFix(
            self.now_ns - round(age_ms * MS),
            self.now_ns + ahead_ns,
            LATITUDE,
            0.1,
            0.0,
            (east, north, 0.0),
            NAN9,
            spread,
        )
        self.monitor.on_message(fix, self.now_ns)
        return self

    def place(
        self, east_m: float, north_m: float = 0.0, *, sigma: float = 0.05, **fields: Any
    ) -> "Speeds":
        """A fix without a velocity."""
        spread = (0.5 * sigma**2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)
        latitude = LATITUDE + north_m / EARTH_M
        fix = GnssFix(
            self.now_ns, self.now_ns, latitude, east_m / (EARTH_M * cos(latitude)), 0.0,
            (nan, nan, nan), spread, NAN9, FixType.FIX_3D,
        )  # fmt: skip
        self.monitor.on_message(replace(fix, **fields), self.now_ns)
        return self

    @property
    def ground(self) -> SpeedMeasurement | None:
        return self.monitor.ground(self.now_ns)

    @property
    def measured(self) -> float:
        return self.monitor.measured_mps(self.now_ns)


# ------------------------------------------------------------------------------------------- wheels


def test_it_begins_without_a_speed() -> None:
    speeds = Speeds()
    monitor = speeds.monitor
    assert (monitor.held_mps, monitor.doubt_m, monitor.unmeasured, monitor.gnss_ignored) == (
        inf,
        0.0,
        False,
        False,
    )
    assert (monitor.fresh(NOW), monitor.gnss_repeats) == ([], False)
    assert monitor.measured_mps(NOW) != monitor.measured_mps(NOW)
    assert monitor.newest_ground_mps(NOW) != monitor.newest_ground_mps(NOW)
    assert monitor.wheels(0) is None
    assert monitor.ground(0) is None
    assert monitor.standstill(NOW, 0.0) is StandstillEvidence.NONE


@pytest.mark.parametrize(("top_mps", "moving_mps"), [(3.0, 0.15), (0.5, 0.15), (0.4, 0.12)])
def test_the_speed_that_is_motion_for_certain(top_mps: float, moving_mps: float) -> None:
    assert Speeds(replace(LIMITS, max_speed_mps=top_mps)).monitor.moving_mps == pytest.approx(
        moving_mps
    )


@pytest.mark.parametrize(("silence_s", "fresh_ms"), [(0.3, 500), (0.7, 700)])
def test_a_receiver_counts_for_half_a_second_or_as_long_as_it_may_be_silent(
    silence_s: float, fresh_ms: int
) -> None:
    for late_ns, counts in ((0, True), (1, False)):
        speeds = Speeds(replace(LIMITS, gnss_silence_s=silence_s))
        for _ in range(3):
            speeds.fix(1.0)
        speeds.now_ns += fresh_ms * MS + late_ns
        assert (speeds.ground is not None) is counts
        assert (speeds.monitor.newest_ground_mps(speeds.now_ns) == 1.0) is counts


@pytest.mark.parametrize(
    ("sigma", "counted"), [(0.02, 0.02), (0.0, 0.01), (-0.02, 0.01), (nan, 0.01), (inf, 0.01)]
)
def test_a_wheel_counts_for_three_tenths_of_a_second_with_its_noise(
    sigma: float, counted: float
) -> None:
    for mps in (0.8, -0.8):
        speeds = Speeds().wheel(mps, sigma).wheel(nan)
        assert speeds.monitor.wheels(NOW + 300 * MS) == SpeedMeasurement(
            "wheels", 0.8, counted, False, NOW
        )
        assert speeds.monitor.wheels(NOW + 300 * MS + 1) is None
        assert speeds.monitor.fresh_wheel_mps(NOW + 300 * MS) == mps
        assert speeds.monitor.fresh_wheel_mps(NOW + 300 * MS + 1) != mps


def test_a_motor_counts_by_gear_and_wheel() -> None:
    speeds = Speeds().motor(-30.0).motor(nan).motor(inf)
    assert speeds.monitor.fresh_wheel_mps(NOW) == pytest.approx(-30.0 * 0.0845 / 3.0)
    assert speeds.monitor.wheels(NOW) == SpeedMeasurement(
        "wheels", approx(30.0 * 0.0845 / 3.0), 0.01, False, NOW
    )


def test_a_stamp_from_the_future_is_as_old_as_its_arrival() -> None:
    ahead_ns = 10**12
    for speeds in (Speeds().wheel(1.0, ahead_ns=ahead_ns), Speeds().motor(30.0, ahead_ns=ahead_ns)):
        assert speeds.monitor.wheels(NOW + 300 * MS + 1) is None
    speeds = Speeds()
    for _ in range(3):
        speeds.fix(1.0, ahead_ns=ahead_ns)
    assert speeds.monitor.ground(NOW + 500 * MS + 1) is None


# --------------------------------------------------------------------------------------------- GNSS


def test_three_velocities_have_a_mean() -> None:
    speeds = Speeds().fix(3.0).fix(0.0, 3.0, variance=9e-4)
    assert speeds.ground is None
    assert speeds.monitor.newest_ground_mps(NOW) == 3.0
    speeds.fix(0.0)
    assert speeds.ground == SpeedMeasurement(
        "GNSS", approx(2.0**0.5), approx(0.03 / 3**0.5), True, NOW, True
    )
    assert speeds.monitor.ground_enu_mps == (1.0, 1.0)
    assert not speeds.monitor.gnss_repeats
    speeds.fix(0.0).fix(0.0)
    assert speeds.ground == SpeedMeasurement("GNSS", 0.0, approx(0.02 / 3**0.5), False, NOW, False)
    assert speeds.monitor.gnss_repeats
    speeds.fix(0.0, 1e-9)
    assert not speeds.monitor.gnss_repeats


@pytest.mark.parametrize(
    ("variance", "sigma"), [(nan, 0.1), (inf, 0.1), (-1e-9, 0.1), (0.0, 0.0), (0.25, 0.5)]
)
def test_a_velocity_that_declares_no_noise_has_that_of_a_usual_one(
    variance: float, sigma: float
) -> None:
    speeds = Speeds()
    for _ in range(3):
        speeds.fix(1.0, variance=variance)
    assert speeds.ground is not None
    assert speeds.ground.sigma_mps == pytest.approx(sigma / 3**0.5)


@pytest.mark.parametrize(("mps", "contradicted"), [(0.169, False), (0.171, True)])
def test_one_fix_contradicts_the_others_beyond_six_times_its_noise(
    mps: float, contradicted: bool
) -> None:
    speeds = Speeds().fix(0.0).fix(0.0, mps).fix(0.0)
    assert speeds.ground is not None
    assert speeds.ground.contradicted is contradicted


@pytest.mark.parametrize(("change", "contradicted"), [(0.134, False), (0.136, True)])
def test_a_vehicle_that_passes_through_standstill_does_not_stand(
    change: float, contradicted: bool
) -> None:
    speeds = Speeds().fix(0.5 * change).fix(0.0).fix(-0.5 * change)
    assert speeds.ground is not None
    assert speeds.ground.mps == pytest.approx(0.0)
    assert speeds.ground.contradicted is contradicted


@pytest.mark.parametrize(("mps2", "contradicted"), [(0.8, False), (1.0, True)])
def test_places_along_a_way_there_and_back_are_no_line(mps2: float, contradicted: bool) -> None:
    """A parabola of two seconds is up to a third of its acceleration from its line: six sigma at
    0.9 m/s^2."""
    speeds = Speeds()
    for k in range(-10, 11):
        speeds.place(0.5 * mps2 * (0.1 * k) ** 2).after(100)
    speeds.after(-100)
    assert speeds.ground is not None
    assert speeds.ground.mps == pytest.approx(0.0, abs=1e-6)
    assert speeds.ground.contradicted is contradicted


def test_old_fixes_and_those_before_a_gap_do_not_count() -> None:
    speeds = Speeds()
    for _ in range(3):
        speeds.fix(1.0, age_ms=500.001)
    assert speeds.ground is None
    for _ in range(3):
        speeds.fix(1.0, age_ms=500.0)
    assert speeds.ground is not None
    speeds.after(500.0).fix(1.0)
    assert speeds.ground is not None
    speeds.after(500.001).fix(1.0)
    assert speeds.ground is None
    speeds.fix(nan)
    assert speeds.monitor.newest_ground_mps(speeds.now_ns) == 1.0, "neither velocity nor place"
    speeds.after(499.0).place(0.0, fix_type=FixType.DEAD_RECKONING).after(2.0)
    assert speeds.monitor.newest_ground_mps(speeds.now_ns) != 1.0, "it keeps nothing alive"
    assert not speeds.monitor._places


@pytest.mark.parametrize(("east", "north"), [(1.0, 0.0), (0.0, -2.0), (0.6, 0.8)])
def test_places_give_a_speed_along_their_line(east: float, north: float) -> None:
    speeds = Speeds()
    for k in range(8):
        speeds.place(0.1 * k * east, 0.1 * k * north, fix_type=FixType.FIX_2D)
        # Seven tenths of a second, at least.
        assert (speeds.ground is not None) is (k == 7)
        speeds.after(100)
    speeds.after(-100)
    assert speeds.ground is not None
    assert speeds.monitor.ground_enu_mps == pytest.approx((east, north), abs=1e-4)
    assert speeds.ground.mps == pytest.approx((east**2 + north**2) ** 0.5, abs=1e-4)
    # The sum of the squares of the times about their mean.
    assert speeds.ground.sigma_mps == pytest.approx(0.05 / 0.42**0.5)
    assert speeds.ground.independent
    assert not speeds.ground.contradicted
    # A place that is repeated at its time adds nothing.
    before = speeds.ground
    speeds.place(99.0)
    assert speeds.ground == before
    # A velocity ends the line.
    speeds.fix(1.0)
    assert not speeds.monitor._places
    speeds.after(100).place(1.0)
    assert not speeds.monitor._fixes
    assert len(speeds.monitor._places) == 1


@pytest.mark.parametrize(("sigma", "counted"), [(0.02, 0.02), (0.5, 0.1), (nan, 0.1), (0.0, 0.0)])
def test_the_noise_of_places_and_a_receiver_that_repeats_one(sigma: float, counted: float) -> None:
    speeds = Speeds()
    for _ in range(3):
        speeds.place(5.0, sigma=sigma).after(400)
    speeds.after(-400)
    assert speeds.ground == SpeedMeasurement(
        "GNSS", 0.0, approx(counted / 0.32**0.5), False, speeds.now_ns
    )
    speeds.after(100).place(5.01, sigma=sigma)
    assert speeds.ground is not None
    assert speeds.ground.independent


def test_a_line_is_two_seconds_long_and_has_three_places() -> None:
    speeds = Speeds()
    for k in range(30):
        speeds.place(0.1 * k * 0.5).after(100)
    assert len(speeds.monitor._places) == 21
    speeds = Speeds().place(0.0).after(450).place(0.3).after(449)
    assert speeds.ground is None
    speeds = Speeds(replace(LIMITS, gnss_silence_s=2.0)).place(0.0).after(900).place(0.9)
    assert speeds.ground is None
    assert speeds.after(900).place(1.8).ground is not None


# ----------------------------------------------------------------------------------------- measured


def test_the_larger_of_the_fresh_speeds_counts_with_its_sign() -> None:
    speeds = Speeds().wheel(-0.5)
    for _ in range(3):
        speeds.fix(1.0)
    signed = speeds.monitor.signed_mps
    assert speeds.measured == 1.0
    assert signed(NOW, 0.5) == -1.0
    assert Speeds().wheel(0.0).monitor.signed_mps(NOW, -0.5) == 0.0
    assert signed(NOW + 301 * MS, -0.5) == -1.0
    assert signed(NOW + 301 * MS, 0.5) == 1.0
    still = speeds.wheel(0.0).monitor
    assert (still.signed_mps(NOW, -0.5), still.signed_mps(NOW, 0.5)) == (-1.0, 1.0)
    still.gnss_ignored = True
    assert (still.measured_mps(NOW), still.ground(NOW)) == (0.0, None)


def test_an_unmeasured_speed_is_held_and_its_doubt_grows_as_on_a_slope() -> None:
    slope = 0.08 * 9.80665
    monitor = Speeds().wheel(-1.0).monitor
    monitor.update(NOW, 0.9)
    assert (monitor.unmeasured, monitor.held_mps, monitor.doubt_m) == (False, 1.0, 0.0)
    late = NOW + 400 * MS
    monitor.update(late - 100 * MS, 0.9)
    monitor.update(late, 0.9)
    assert (monitor.unmeasured, monitor.held_mps) == (True, 1.0)
    assert monitor.doubt_m == pytest.approx(0.1 * 0.1 * slope)
    for k in range(1, 11):
        monitor.update(late + k * 100 * MS, 0.9)
    # Half of the speed at most: of the one that is held, or of a faster estimate.
    assert monitor._doubt_mps == pytest.approx(0.5)
    for estimated in (-2.0, nan):
        doubt_m = monitor.doubt_m
        monitor._updated_ns = late
        monitor.update(late + 100 * MS, estimated)
        assert monitor._doubt_mps == pytest.approx(
            0.5 + 0.1 * slope if estimated == estimated else 0.5
        )
        assert monitor.doubt_m - doubt_m == pytest.approx(0.1 * monitor._doubt_mps)
    monitor.on_message(WheelSpeed(late, late, 0.01, 0.01), late)
    monitor.update(late, 0.9)
    assert (monitor.unmeasured, monitor.held_mps, monitor.doubt_m, monitor._doubt_mps) == (
        False,
        0.15,
        0.0,
        0.0,
    )


def test_sparse_fixes_measure_too() -> None:
    speeds = Speeds().fix(0.8)
    speeds.monitor.update(NOW, 1.0)
    assert (speeds.monitor.unmeasured, speeds.monitor.held_mps) == (False, 0.8)


# --------------------------------------------------------------------------------------- standstill


@pytest.mark.parametrize(
    ("sigma", "standing_mps"), [(0.0, 0.05), (0.02, 0.11), (0.06, 0.23), (0.07, 0.25), (9.0, 0.25)]
)
def test_what_noise_explains_at_standstill(sigma: float, standing_mps: float) -> None:
    assert SpeedMeasurement("wheels", 0.0, sigma, False, NOW).standing_mps == approx(standing_mps)
    for ratio, evidence in ((0.99, StandstillEvidence.STANDS), (1.01, StandstillEvidence.MOVES)):
        for side in (1.0, -1.0):
            speeds = Speeds().wheel(side * ratio * standing_mps, sigma or 1e-9)
            assert speeds.monitor.standstill(NOW, 0.0) is evidence


@pytest.mark.parametrize(
    ("wheel", "fixes", "ceiling_mps", "evidence"),
    [
        (0.0, None, 0.051, StandstillEvidence.UNCONFIRMED),
        (0.0, None, 0.05, StandstillEvidence.STANDS),
        (None, (0.0, 0.0, 0.0), 0.051, StandstillEvidence.UNCONFIRMED),
        (None, (0.0, 0.0, 0.0), 0.05, StandstillEvidence.STANDS),
        (None, (0.0, 0.01, 0.0), 3.0, StandstillEvidence.STANDS),
        (0.0, (0.0, 0.01, 0.0), 3.0, StandstillEvidence.STANDS),
        (1.0, (0.0, 0.01, 0.0), 0.0, StandstillEvidence.MOVES),
        (0.0, (1.0, 1.0, 1.01), 0.0, StandstillEvidence.MOVES),
        (0.0, (0.2, -0.2, 0.0), 0.0, StandstillEvidence.MOVES),
        (None, None, 0.0, StandstillEvidence.NONE),
    ],
)  # fmt: skip
def test_evidence_of_standstill(
    wheel: float | None,
    fixes: tuple[float, ...] | None,
    ceiling_mps: float,
    evidence: StandstillEvidence,
) -> None:
    speeds = Speeds()
    if wheel is not None:
        speeds.wheel(wheel)
    for mps in fixes or ():
        speeds.fix(mps)
    assert speeds.monitor.standstill(NOW, ceiling_mps) is evidence


@pytest.mark.parametrize(
    ("age_ms", "evidence"), [(99.9, StandstillEvidence.STANDS), (100.1, StandstillEvidence.NONE)]
)
def test_a_standstill_of_before_the_last_motion_is_none(
    age_ms: float, evidence: StandstillEvidence
) -> None:
    """Its fixes come later than its wheel speeds, which end while it sets off."""
    speeds = Speeds().wheel(0.0).wheel(0.3).after(400.0)
    for k in range(3):
        speeds.fix(0.001 * k, age_ms=300.0 + age_ms)
    assert speeds.monitor.standstill(speeds.now_ns, 0.0) is evidence


def test_a_stamp_from_the_future_does_not_outlast_the_motion() -> None:
    ahead_ns = 10**12
    monitor = (speeds := Speeds()).monitor
    speeds.now_ns += ahead_ns
    late = (
        WheelSpeed(speeds.now_ns, NOW, 1.0, 0.02),
        GnssFix(speeds.now_ns, NOW, LATITUDE, 0.1, 0.0, (1.0, 0.0, 0.0), NAN9, NAN9),
    )
    for message in (late[0], late[1], late[1], late[1]):
        monitor.on_message(message, NOW)
    speeds.now_ns = NOW
    speeds.after(600.0).wheel(0.0)
    assert monitor.standstill(speeds.now_ns, 0.0) is StandstillEvidence.STANDS


@pytest.mark.parametrize(("age_ms", "counts"), [(300.0, True), (300.1, False)])
def test_wheels_are_as_old_as_the_time_that_they_speak_of(age_ms: float, counts: bool) -> None:
    for mps in (0.0, 0.5):
        speeds = Speeds().wheel(mps, age_ms=age_ms)
        assert (speeds.monitor.wheels(NOW) is not None) is counts
        moved_ns = NOW - round(age_ms * MS) if mps and not counts else 0
        assert speeds.monitor.moved_ns == moved_ns, "late readings show motion at their time"


@pytest.mark.parametrize("age_ms", [500.001, 750.0, 20_000.0])
@pytest.mark.parametrize("variance", [4e-4, nan, -1.0, inf])
def test_a_fix_that_comes_late_shows_motion_at_its_time(age_ms: float, variance: float) -> None:
    sigma = 0.02 if variance == 4e-4 else GROUND_SIGMA_MPS
    limit = STANDSTILL_MPS + FIX_SIGMAS * sigma
    moved_ns = NOW - round(age_ms * MS)
    for east, north in ((1.0, 0.0), (0.0, -1.0), (0.6, 0.8)):
        speeds = Speeds()
        speeds.fix(
            east * 0.999 * limit, north * 0.999 * limit, variance=variance, age_ms=age_ms
        ).fix(nan, age_ms=age_ms)
        assert speeds.monitor.moved_ns == 0
        speeds.fix(east * 1.001 * limit, north * 1.001 * limit, variance=variance, age_ms=age_ms)
        assert speeds.monitor.moved_ns == moved_ns
        speeds.fix(3.0, age_ms=age_ms + 1.0)
        assert speeds.monitor.moved_ns == moved_ns, "the newest counts"
    assert Speeds().fix(3.0, age_ms=500.0).monitor.moved_ns == 0, (
        "one in time measures the speed itself"
    )


@pytest.mark.parametrize(("away_m", "contradicted"), [(0.06, False), (0.16, True)])
def test_places_are_not_believed_nearer_than_two_centimetres(
    away_m: float, contradicted: bool
) -> None:
    """A receiver declares a millimetre, and one of its places is aside: six times 2 cm are noise,
    and the line moves with it."""
    speeds = Speeds()
    for k in range(21):
        speeds.place(0.0, away_m if k == 10 else 0.0, sigma=0.001).after(100)
    speeds.after(-100)
    assert speeds.ground is not None
    assert speeds.ground.contradicted is contradicted


def test_a_steady_velocity_to_the_north_is_no_change() -> None:
    for east, north in ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0)):
        speeds = (
            Speeds()
            .fix(east, north, variance=0.09)
            .fix(east, north, variance=0.09)
            .fix(east, north + 0.01, variance=0.09)
        )
        assert speeds.ground is not None
        assert not speeds.ground.contradicted


def test_after_a_gap_or_a_velocity_the_line_of_places_begins_anew() -> None:
    for spoil in ("gap", "velocity"):
        speeds = Speeds()
        for k in range(10):
            speeds.place(0.1 * k).after(100)
        assert speeds.ground is not None
        if spoil == "gap":
            speeds.after(400.001)
        else:
            speeds.fix(1.0).fix(1.0).fix(1.0)
            assert speeds.ground is not None
            speeds.after(10)
        speeds.place(1.0)
        assert speeds.ground is None
        assert len(speeds.monitor._places) == 1


def test_without_an_estimate_the_doubt_of_an_unmeasured_speed_is_half_of_what_is_held() -> None:
    speeds = Speeds().wheel(0.0)
    speeds.monitor.update(speeds.now_ns, nan)
    held = speeds.monitor.held_mps
    assert held < 1.0
    for _ in range(300):
        before = speeds.monitor.doubt_m
        speeds.after(10).monitor.update(speeds.now_ns, nan)
    assert speeds.monitor.doubt_m - before == pytest.approx(0.5 * held * 0.01)

"""The pitch of the IMU against the way that the fixes climb: on slopes, while accelerating, at the
limits, and with bad input."""

from math import cos, inf, nan, pi, sin
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import FixType, GnssFix, ImuSample, Mode
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.climb import ClimbMonitor
from vehicled.safety.monitors.inertial import InertialMonitor, Mounting

G = 9.80665
MS = 10**6
NOW = 50 * 10**9


class Way:
    """A vehicle on a slope, with an IMU that is turned nose up."""

    def __init__(self, tilt: float = 0.0, slope: float = 0.0, sigma: float = 0.01) -> None:
        self.inertial = InertialMonitor()
        self.monitor = ClimbMonitor(Mounting(table="imu"), self.inertial)
        self.tilt, self.slope, self.sigma = tilt, slope, sigma
        self.now_ns, self.height_m = NOW, 100.0

    def drive(
        self,
        seconds: float,
        from_mps: float = 1.0,
        to_mps: float | None = None,
        *,
        imu: bool = True,
        **fix: Any,
    ) -> "Way":
        """Ticks at 100 Hz, fixes at 10 Hz."""
        ticks, to_mps = round(seconds * 100), from_mps if to_mps is None else to_mps
        mps2 = (to_mps - from_mps) / seconds if from_mps == from_mps else 0.0
        for k in range(ticks):
            v = from_mps + (k + 1) * 0.01 * mps2
            self.now_ns += 10 * MS
            self.height_m += v * 0.01 * sin(self.slope) if v == v else 0.0
            x, z = G * sin(self.slope) + mps2, G * cos(self.slope)
            force = (
                cos(self.tilt) * x + sin(self.tilt) * z,
                0.0,
                cos(self.tilt) * z - sin(self.tilt) * x,
            )
            if imu:
                self.inertial.on_message(
                    ImuSample(self.now_ns, self.now_ns, force, (0.0, 0.0, 0.0)), self.now_ns
                )
            self.inertial.update()
            estimate = replace(ESTIMATE, speed_mps=v)
            self.monitor.update(
                SafetyInputs(now_ns=self.now_ns, mode=Mode.AUTO, limits=LIMITS, estimate=estimate)
            )
            if k % 10 == 9:
                self.fix(**fix)
        return self

    def fix(self, **fields: Any) -> None:
        sent = {
            "height_m": self.height_m,
            "position_covariance_m2": (*(0.0,) * 8, self.sigma**2),
            "fix_type": FixType.FIX_3D,
        }
        values = {**sent, **fields}
        self.monitor.on_message(
            GnssFix(self.now_ns, self.now_ns, 0.7, 0.1, velocity_enu_mps=(1.0, 0.0, 0.0), **values),
            self.now_ns,
        )


@pytest.mark.parametrize("slope", [0.0, 0.1, -0.2, 0.3])
@pytest.mark.parametrize("mps", [1.0, -1.0, 4.0])
@pytest.mark.parametrize("tilt", [0.0, 0.15, 0.35, -0.35])
def test_a_slope_is_no_tilt_and_a_tilt_is_named(tilt: float, mps: float, slope: float) -> None:
    way = Way(tilt, slope).drive(12.0, mps)
    assert way.monitor.tilted_rad == pytest.approx(tilt, abs=0.04)
    assert (way.monitor.tilted_in_a_row >= 5) is (abs(tilt) > 0.3)
    assert (
        f"mounting_pitch_rad = {int(-way.monitor.tilted_rad * 1e4) * 1e-4 + 0.0:.4f}"
        in way.monitor.remedy
    )


@pytest.mark.parametrize(("from_mps", "to_mps"), [(0.0, 6.0), (6.0, 0.5), (0.0, 15.0)])
def test_speed_gained_and_lost_is_no_tilt(from_mps: float, to_mps: float) -> None:
    assert Way().drive(5.0, from_mps, to_mps).monitor.tilted_in_a_row == 0
    assert Way(0.35).drive(8.0, from_mps, to_mps).monitor.tilted_in_a_row >= 5


@pytest.mark.parametrize(
    ("seconds", "mps", "judged"),
    [
        (5.0, 1.0, False),
        (5.3, 1.0, True),
        (2.0, 4.0, False),
        (2.2, 4.0, True),
        (2.0, -4.0, False),
        (2.2, -4.0, True),
    ],
)
def test_the_shortest_way(seconds: float, mps: float, judged: bool) -> None:
    """Five metres, or two seconds, from the first fix on, which comes after a tenth of a second."""
    assert (Way(0.5).drive(seconds, mps).monitor.tilted_rad != 0.0) is judged


@pytest.mark.parametrize(("sigma", "judged"), [(0.02, True), (0.5, False)])
def test_heights_that_are_not_known_well_enough_say_nothing(sigma: float, judged: bool) -> None:
    assert (Way(0.35, sigma=sigma).drive(10.0).monitor.tilted_in_a_row > 0) is judged
    assert Way(0.35, sigma=sigma).drive(60.0).monitor.tilted_in_a_row > 0, (
        "a long way shows it all the same"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"height_m": nan}, {"fix_type": FixType.FIX_2D}, {"position_covariance_m2": (nan,) * 9},
        {"position_covariance_m2": (0.0,) * 9}, {"position_covariance_m2": (inf,) * 9},
    ],
)  # fmt: skip
def test_fixes_without_a_height_are_not_used(fields: dict[str, Any]) -> None:
    assert Way(0.35).drive(10.0, **fields).monitor.tilted_rad == 0.0


def test_a_gap_and_a_speed_that_is_no_number_begin_the_way_anew() -> None:
    for spoil in ("gap", "speed"):
        way = Way(0.35).drive(10.0)
        assert way.monitor.tilted_in_a_row >= 5
        way.now_ns += 300 * MS if spoil == "gap" else 0
        way.drive(0.01, nan if spoil == "speed" else 1.0)
        assert (way.monitor.tilted_in_a_row, way.monitor.tilted_rad) == (0, 0.0)
        assert way.drive(4.0).monitor.tilted_in_a_row == 0
        assert way.drive(4.0).monitor.tilted_in_a_row >= 5


@pytest.mark.parametrize(
    ("tilt", "mps", "sigma", "counts"),
    [
        # The way is ten metres: 6 * sqrt(2) sigmas are unknown, and 0.05 m for a speed of 1 m/s,
        # 0.2 m for 4 m/s.
        (0.35, 1.0, 0.15, True), (0.35, 1.0, 0.19, False), (0.24, 4.0, 0.01, True),
        (0.215, 4.0, 0.01, False), (-0.24, -4.0, 0.01, True), (0.215, -4.0, 0.01, False),
        (0.24, -4.0, 0.01, True),
    ],
)  # fmt: skip
def test_what_is_not_known_of_a_way(tilt: float, mps: float, sigma: float, counts: bool) -> None:
    way = Way(tilt, sigma=sigma).drive(10.2 / abs(mps), mps)
    assert way.monitor.tilted_rad == pytest.approx(tilt, abs=0.01)
    assert (way.monitor.tilted_in_a_row > 0) is counts


def test_an_uncertain_first_height_leaves_the_way_unknown() -> None:
    way = Way(0.35, sigma=0.5).drive(0.1)
    way.sigma = 0.01
    assert way.drive(10.0).monitor.tilted_in_a_row == 0
    assert way.drive(25.0).monitor.tilted_in_a_row > 0


def test_fixes_count_once_for_a_quarter_of_a_metre() -> None:
    way = Way(0.35).drive(10.0)
    counted = way.monitor.tilted_in_a_row
    for _ in range(3):
        way.fix()
    assert way.monitor.tilted_in_a_row == counted
    assert way.drive(0.3).monitor.tilted_in_a_row == counted + 1


@pytest.mark.parametrize("mps", [10.0, -10.0])
def test_a_way_of_a_hundred_metres_is_remembered(mps: float) -> None:
    way = Way(0.35).drive(3.0, mps)
    assert way.monitor.tilted_in_a_row > 0
    way.tilt = 0.0
    assert abs(way.drive(9.0, mps).monitor.tilted_rad) > 0.03
    assert abs(way.drive(2.0, mps).monitor.tilted_rad) < 0.01


@pytest.mark.parametrize(("after_ms", "anew"), [(200, False), (201, True)])
def test_a_way_goes_on_over_a_short_gap(after_ms: int, anew: bool) -> None:
    way = Way(0.35).drive(10.0)
    way.now_ns += (after_ms - 10) * MS
    assert (way.drive(0.01).monitor.tilted_rad == 0.0) is anew


def test_after_a_gap_the_way_begins_with_the_next_force() -> None:
    way = Way(0.0, slope=0.3).drive(10.0)
    way.now_ns += 300 * MS
    way.drive(9.0, imu=False)
    assert way.monitor.tilted_rad == 0.0
    assert way.drive(9.0).monitor.tilted_rad == pytest.approx(0.0, abs=0.04)


def test_a_height_that_no_way_explains_is_a_right_angle() -> None:
    for height_m, tilted_rad in ((5000.0, -0.5 * pi), (-5000.0, 0.5 * pi)):
        way = Way().drive(7.0).drive(0.3, height_m=height_m)
        assert way.monitor.tilted_rad == pytest.approx(tilted_rad)

"""The localisation on a map: when a scan last fitted, and what is said of one that does not."""

from math import isnan, nan

import pytest
from msgspec.structs import replace

from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import MapMatch, MapPose, Mode
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.localisation import TEXTS, LocalisationMonitor

S = 10**9
NOW = 50 * S


def see(
    monitor: LocalisationMonitor, outcome: MapMatch, t_ns: int, now_ns: int, fit: float = 0.8
) -> None:
    monitor.on_message(MapPose(t_ns, now_ns, 1.0, 2.0, 0.5, fit=fit, outcome=outcome), now_ns)


def lost_s(monitor: LocalisationMonitor, now_ns: int) -> float:
    monitor.update(SafetyInputs(now_ns=now_ns, mode=Mode.AUTO, limits=LIMITS))
    return monitor.lost_s


def on_map() -> LocalisationMonitor:
    monitor = LocalisationMonitor()
    monitor.mapped = True
    return monitor


def test_a_place_is_lost_since_the_last_scan_that_fitted() -> None:
    monitor = on_map()
    assert isnan(lost_s(monitor, NOW))
    assert isnan(monitor.fit)
    assert not monitor.located
    assert "being searched" in monitor.why
    see(monitor, MapMatch.MATCHED, NOW, NOW + S // 10)
    assert lost_s(monitor, NOW + S // 2) == pytest.approx(0.5)
    assert monitor.located
    for outcome in (MapMatch.UNFIT, MapMatch.AMBIGUOUS, MapMatch.BLIND, MapMatch.SEARCHING):
        see(monitor, outcome, NOW + S, NOW + S)
        assert lost_s(monitor, NOW + 2 * S) == pytest.approx(2.0)
        assert not monitor.located
    see(monitor, MapMatch.MATCHED, NOW + 3 * S, NOW + 3 * S)
    assert lost_s(monitor, NOW + 3 * S) == 0.0


def test_a_scan_from_the_future_is_as_old_as_its_arrival() -> None:
    monitor = on_map()
    see(monitor, MapMatch.MATCHED, NOW + 9 * S, NOW)
    assert lost_s(monitor, NOW + S) == pytest.approx(1.0)


def test_without_a_map_or_before_the_first_scan_that_fits_nothing_is_lost() -> None:
    monitor = LocalisationMonitor()
    see(monitor, MapMatch.MATCHED, NOW, NOW)
    assert isnan(lost_s(monitor, NOW + 9 * S))
    monitor = on_map()
    see(monitor, MapMatch.UNFIT, NOW, NOW)
    assert isnan(lost_s(monitor, NOW + 9 * S))


@pytest.mark.parametrize("outcome", MapMatch)
def test_what_is_wrong_is_said_with_the_fit_where_it_explains(outcome: MapMatch) -> None:
    monitor = on_map()
    see(monitor, outcome, NOW, NOW, 0.37)
    assert set(TEXTS) == set(MapMatch)
    assert monitor.fit == 0.37
    assert monitor.why.startswith(TEXTS[outcome][:14])
    assert ("(37 % of it)" in monitor.why) is (outcome is MapMatch.UNFIT)
    assert ("fits nowhere" in monitor.why) is (outcome is MapMatch.UNFIT)
    assert ("several places" in monitor.why) is (outcome is MapMatch.AMBIGUOUS)


@pytest.mark.parametrize("mapped", [True, False])
def test_poses_that_repeat_themselves_locate_no_vehicle_that_moves(mapped: bool) -> None:
    monitor = LocalisationMonitor()
    monitor.mapped = mapped

    def lost_at(x_m: float, speed_mps: float, now_ns: int) -> float:
        monitor.on_message(MapPose(now_ns, now_ns, x_m, 2.0, 0.5, outcome=MapMatch.MATCHED), now_ns)
        estimate = replace(ESTIMATE, speed_mps=speed_mps)
        monitor.update(
            SafetyInputs(now_ns=now_ns, mode=Mode.AUTO, limits=LIMITS, estimate=estimate)
        )
        return monitor.lost_s

    found = 0.0 if mapped else nan
    assert lost_at(1.0, 0.0, NOW) == pytest.approx(found, nan_ok=True)
    assert lost_at(1.0, -0.051, NOW + S) == pytest.approx(found, nan_ok=True), "it stood before"
    assert lost_at(1.0, 0.05, NOW + 2 * S) == pytest.approx(1.0)
    assert monitor.repeats
    assert "repeat themselves" in monitor.why
    assert lost_at(1.0, 0.051, NOW + 3 * S) == pytest.approx(found, nan_ok=True), "it stands"
    assert lost_at(1.0, 1.0, NOW + 4 * S) == pytest.approx(1.0)
    assert lost_at(1.0 + 1e-9, 1.0, NOW + 5 * S) == pytest.approx(found, nan_ok=True)
    assert not monitor.repeats

"""Receivers as base stations against their emulators: survey, fixed position, wrong position, power
cut; and the caster."""

from math import dist, nan
from typing import Any

import pytest

from drivers.gnss.base_station import BaseReport, BaseStationParams
from drivers.rtcm.codec import Station, decode, message_type
from sim_backend.emulators.registry import emulator
from tests.emulator_bench import MS, SECOND, START, Bench, table
from tests.unit.test_gnss_receivers import fix
from vehicled.core.messages import Corrections, FixType, GnssFix, PortState
from vehicled.core.wire.geodesy import geodetic_to_ecef
from vehicled.paths.datum import LOT_17
from vehicled.profile.registry import names, resolve

FAMILIES = names("base station")
PLACE = geodetic_to_ecef(*LOT_17.to_geodetic(3.0, -4.0, 2.0))
"""Position of the emulated receivers."""
AWAY = geodetic_to_ecef(*LOT_17.to_geodetic(3.0, 996.0, 2.0))


def bench(family: str, **params: Any) -> Bench:
    driver = resolve("driver", family)
    # On USB a u-blox receiver has no line rate, so that the port's is not searched.
    port = "serial:/dev/ttyACM0" if family == "ublox" else "serial:/dev/ttyUSB0?baud=115200"
    line = emulator("gnss", table(family, driver.Params(), ["GnssFix"], port), 3, START, wires=True)
    kind: Any = resolve("base station", family)
    return Bench(line, kind(BaseStationParams(**({"survey_s": 30} | params))))


def standing(seconds: float, **changes: Any) -> list[tuple[int, GnssFix]]:
    found: list[tuple[int, GnssFix]] = []
    for k in range(1, round(seconds * 5)):
        t_ns = START + k * 200 * MS
        place = LOT_17.to_geodetic(3.0, -4.0, 2.0)
        values = dict(zip(("latitude_rad", "longitude_rad", "height_m"), place)) | {
            "velocity_enu_mps": (0.0, 0.0, 0.0)
        }
        found.append((t_ns + 50 * MS, fix(2 * k, **(values | changes))))
    return found


def reports(found: Bench, kind: str = "") -> list[BaseReport]:
    messages: list[Any] = list(found.messages)
    return [each for each in messages if isinstance(each, BaseReport) and kind in ("", each.kind)]


def frames(found: Bench) -> list[bytes]:
    return [each.data for each in found.of(Corrections)]


def stations(found: Bench) -> list[Station]:
    return [
        content for _, content in decode(b"".join(frames(found))) if isinstance(content, Station)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_survey_ends_in_corrections_of_the_surveyed_position(family: str) -> None:
    found = bench(family, station=77)
    found.run(START + 25 * SECOND, standing(120.0))
    assert not frames(found)
    assert found.driver is not None
    assert reports(found, "survey_progress")
    found.run(
        START + 120 * SECOND, [each for each in standing(120.0) if each[1].t_ns > found.now_ns]
    )
    assert [each.kind for each in reports(found) if each.kind not in ("survey_progress",)][-2:] == [
        "survey_finished",
        "ready",
    ] or ([each.kind for each in reports(found)][-3:] == ["survey_finished", "configured", "ready"])
    (finished,) = reports(found, "survey_finished")
    assert finished.seconds >= 30.0
    assert finished.ecef_m is not None
    assert dist(finished.ecef_m, PLACE) < 0.01
    assert {message_type(each) for each in frames(found)} == {1005, 1077, 1087, 1097, 1127, 1230}
    assert stations(found)
    for each in stations(found):
        assert each.number == 77
        assert dist((each.x_m, each.y_m, each.z_m), finished.ecef_m) < 0.001


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fixed_position_is_checked_and_then_served(family: str) -> None:
    given = (PLACE[0] + 1.2345, PLACE[1] - 2.3456, PLACE[2] + 0.1234)
    found = bench(family, ecef_m=given, msm=4)
    found.run(START + 30 * SECOND, standing(30.0))
    (located,) = reports(found, "located")
    assert located.offset_m == pytest.approx(dist(given, PLACE), abs=0.1)
    assert not reports(found, "survey_finished")
    assert {message_type(each) for each in frames(found)} == {1005, 1074, 1084, 1094, 1124, 1230}
    first = stations(found)[0]
    assert (first.x_m, first.y_m, first.z_m) == pytest.approx(given, abs=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_position_far_from_the_receiver_serves_nothing(family: str) -> None:
    found = bench(family, ecef_m=AWAY)
    found.run(START + 30 * SECOND, standing(30.0))
    (misplaced,) = reports(found, "misplaced")
    assert misplaced.offset_m == pytest.approx(1000.0, abs=1.0)
    assert misplaced.ecef_m is not None
    assert dist(misplaced.ecef_m, PLACE) < 1.0
    assert not frames(found)
    assert not reports(found, "ready")


@pytest.mark.parametrize("family", FAMILIES)
def test_without_sky_the_survey_is_called_unfinished_once(family: str) -> None:
    found = bench(family, survey_timeout_s=40.0)
    found.run(START + 100 * SECOND, standing(100.0, fix_type=FixType.NONE, latitude_rad=nan))
    (unfinished,) = reports(found, "survey_unfinished")
    assert unfinished.seconds == pytest.approx(40.0, abs=1.0)
    assert not frames(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_position_is_reported_once(family: str) -> None:
    found = bench(family, ecef_m=PLACE, locate_timeout_s=20.0)
    found.run(START + 60 * SECOND, standing(60.0, fix_type=FixType.NONE, latitude_rad=nan))
    assert len(reports(found, "without_position")) == 1
    assert not frames(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_after_a_power_cut_the_surveyed_position_is_kept(family: str) -> None:
    found = bench(family)
    samples = standing(200.0)
    found.run(START + 80 * SECOND, samples)
    (finished,) = reports(found, "survey_finished")
    before = len(stations(found))
    line: Any = found.emulator
    line.device.restart(found.now_ns)
    found.run(START + 200 * SECOND, [each for each in samples if each[1].t_ns > found.now_ns])
    assert len(reports(found, "survey_finished")) == 1
    assert len(reports(found, "interrupted")) == 1
    assert len(stations(found)) > before
    last = stations(found)[-1]
    assert finished.ecef_m is not None
    assert dist((last.x_m, last.y_m, last.z_m), finished.ecef_m) < 0.001


def test_a_receiver_that_refuses_the_time_mode_is_named() -> None:
    found = bench("ublox")
    line: Any = found.emulator
    known = line.device.settings
    store = known.store
    from drivers.ublox.keys import KEYS

    known.store = lambda order: (
        False
        if any(key == KEYS["CFG-TMODE-MODE"] for key, value in order.items if value)
        else store(order)
    )
    found.run(START + 20 * SECOND, standing(20.0))
    failed = reports(found, "configuration_failed")
    assert len(failed) == 1
    assert "CFG-TMODE-MODE" in failed[0].reason
    assert not frames(found)


def test_messages_that_a_receiver_lacks_are_named_and_the_others_flow() -> None:
    found = bench("ublox", ecef_m=PLACE)
    line: Any = found.emulator
    known = line.device.settings
    store = known.store
    from drivers.ublox.keys import KEYS

    beidou = KEYS["CFG-MSGOUT-RTCM_3X_TYPE1127_USB"]
    known.store = lambda order: (
        False if any(key == beidou for key, _ in order.items) else store(order)
    )
    found.run(START + 20 * SECOND, standing(20.0))
    configured = reports(found, "configured")[-1]
    assert configured.lacking == ("CFG-MSGOUT-RTCM_3X_TYPE1127_USB",)
    assert {message_type(each) for each in frames(found)} == {1005, 1077, 1087, 1097, 1230}


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_neither_raises_nor_serves(family: str) -> None:
    kind: Any = resolve("base station", family)
    station = kind(BaseStationParams())
    station.on_port(PortState.OPENED, "", START)
    noise = bytes((k * 7919 + k // 251) % 256 for k in range(20_000))
    for at in range(0, len(noise), 333):
        assert not [
            each
            for each in station.on_rx(noise[at : at + 333], START + at)
            if isinstance(each, Corrections)
        ]
        station.take_tx()


def test_a_position_that_is_not_on_the_earth_is_refused() -> None:
    with pytest.raises(ValueError, match="not a place"):
        BaseStationParams(ecef_m=(0.0, 0.0, 1.0))


def test_a_fix_of_the_bench_is_where_it_should_be() -> None:
    (_, first), *_ = standing(1.0)
    assert isinstance(first, GnssFix)
    assert (
        dist(geodetic_to_ecef(first.latitude_rad, first.longitude_rad, first.height_m), PLACE)
        < 0.01
    )

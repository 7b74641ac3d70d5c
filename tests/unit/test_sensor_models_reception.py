"""Poor reception of the simulated receiver: loss, recovery, reports; zones in files."""

import json
from contextlib import suppress
from math import isnan, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.emulators.ublox_epoch import Instant, cov, hpposllh, pvt
from sim_backend.plant.interface import Motion
from sim_backend.scene.errors import SceneError
from sim_backend.sensors.gnss_reception import Zone
from sim_backend.sensors.gnss_zones import read_zones, with_zones
from tests.examples import examples
from tests.gnss_bench import DATUM, QUIET, REST, START, enu, fixes, receiver, variances
from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.profile.gnss import GnssModel, GnssZone, Rtk

SECOND = 1_000_000_000
NONE, FLOAT, FIXED = CarrierSolution.NONE, CarrierSolution.FLOAT, CarrierSolution.FIXED


# ---------------------------------------------------------------------------------------- reception


def states(found: list[GnssFix]) -> list[tuple[float, FixType, CarrierSolution]]:
    """Changes only: seconds, kind, carrier."""
    out: list[tuple[float, FixType, CarrierSolution]] = []
    for fix in found:
        state = (fix.fix_type, fix.carrier)
        if not out or out[-1][1:] != state:
            out.append(((fix.t_ns - START) * 1e-9, *state))
    return out


def test_an_outage_loses_everything_and_finds_it_again_step_by_step():
    rtk = Rtk(reacquire_s=2.0, float_after_s=3.0, fixed_after_s=4.0)
    zone = GnssZone(effect="no_fix", from_s=5.0, until_s=8.0)
    found = fixes(receiver(rtk=rtk, zones=[zone]), 200)
    fix_3d = FixType.FIX_3D
    expected = [
        (0.1, fix_3d, FIXED),
        (5.0, FixType.NONE, NONE),
        (9.9, fix_3d, NONE),
        (12.9, fix_3d, FLOAT),
        (16.9, fix_3d, FIXED),
    ]
    assert [(pytest.approx(t), kind, carrier) for t, kind, carrier in expected] == states(found)
    out = [fix for fix in found if fix.fix_type is FixType.NONE]
    for fix in out:
        assert all(
            isnan(v)
            for v in (fix.latitude_rad, fix.longitude_rad, fix.height_m, *fix.velocity_enu_mps)
        )
        assert all(isnan(v) for v in (*fix.position_covariance_m2, *fix.velocity_covariance_m2ps2))
        assert fix.satellites <= 3
        assert fix.hdop > 99.0
        assert (fix.differential, isnan(fix.correction_age_s)) == (False, True)
        assert fix.utc_ns == 10**18 + fix.t_ns - START, "its clock goes on"


def test_where_the_solution_cannot_be_fixed_it_floats_and_says_how_well():
    rtk = Rtk(float_sigma_m=0.4, fixed_after_s=2.0)
    zone = GnssZone(effect="float", center_m=[10.0, 0.0], radius_m=3.0)
    gnss = receiver(rtk=rtk, zones=[zone], sigma_m=0.0, walk_sigma_m=0.0, hdop=1.0, vdop=1.5)
    found = [
        gnss.sample(
            START + k * SECOND // 10, Motion(0.1 * k, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        )[1]
        for k in range(1, 200)
    ]
    assert [(round(t, 1), carrier) for t, _, carrier in states(found)] == [
        (0.1, FIXED),
        (7.0, FLOAT),
        (15.0, FIXED),
    ]
    off = enu(found) - [[0.1 * k, 0.0, 0.0] for k in range(1, 200)]
    floating = np.array([fix.carrier is FLOAT for fix in found])
    assert np.abs(off[~floating]).max() < 1e-6
    assert 0.02 < np.abs(off[floating]).max() < 5 * 0.4 * 1.5
    assert variances(found[100]) == pytest.approx([0.16, 0.16, 0.36])
    assert variances(found[10]) == pytest.approx([1e-6] * 3)


def test_without_corrections_it_goes_from_fixed_over_float_to_none():
    rtk = Rtk(float_age_s=3.0, correction_timeout_s=6.0, float_after_s=1.0, fixed_after_s=1.0)
    zone = GnssZone(effect="no_corrections", from_s=10.0, until_s=20.0)
    found = fixes(receiver(rtk=rtk, zones=[zone], rate_hz=5.0), 150)
    assert [(round(t, 1), carrier) for t, _, carrier in states(found)] == [
        (0.2, FIXED),
        (11.8, FLOAT),
        (14.8, NONE),
        (20.8, FLOAT),
        (21.8, FIXED),
    ]
    ages = {round((fix.t_ns - START) * 1e-9, 1): fix.correction_age_s for fix in found}
    assert ages[9.8] == pytest.approx(0.3 + 0.8)
    assert ages[14.0] == pytest.approx(0.3 + 5.0)
    assert isnan(ages[16.0])
    assert not next(fix for fix in found if fix.t_ns == START + 16 * SECOND).differential


def test_fewer_satellites_dilute():
    zone = GnssZone(effect="multipath", bias_m=0.0, satellites_lost=18)
    fix = receiver(
        zones=[zone], covariance="hdop", user_range_error_m=1.0, hdop=1.0, vdop=2.0
    ).sample(START, REST)[1]
    assert (fix.satellites, fix.hdop, fix.vdop) == (6, 2.0, 4.0)
    assert variances(fix) == pytest.approx([4.0, 4.0, 16.0])
    lost = receiver(zones=[GnssZone(effect="multipath", bias_m=0.0, satellites_lost=60)]).sample(
        START, REST
    )[1]
    assert lost.satellites == 4


def test_multipath_belongs_to_the_place_and_is_not_reported():
    zone = GnssZone(effect="multipath", bias_m=2.0, correlation_m=4.0)

    def bias(seed: int, x_m: float, y_m: float) -> Array:
        there = Motion(x_m, y_m, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        found = enu(
            [receiver(seed, zones=[zone], hdop=1.0, vdop=1.0, **QUIET).sample(START, there)[1]]
        )[0]
        off: Array = found - np.array([x_m, y_m, 0.0])
        return off

    assert bias(1, 5.0, 7.0) == pytest.approx(bias(1, 5.0, 7.0), abs=1e-9)
    assert np.abs(bias(1, 5.0, 7.0) - bias(1, 5.2, 7.0)).max() < 0.5, (
        "a step further it is nearly the same"
    )
    assert np.abs(bias(1, 5.0, 7.0) - bias(2, 5.0, 7.0)).max() > 0.1
    chance = np.random.default_rng(1)
    field = Zone(zone, 1.0, 3, "z")
    many = np.array(
        [field.bias_m(*place) for place in chance.uniform(-300.0, 300.0, (4_000, 2)).tolist()]
    )
    assert many.std(axis=0) == pytest.approx([2.0] * 3, rel=0.05)
    assert variances(receiver(zones=[zone], **QUIET).sample(START, REST)[1]) == pytest.approx(
        [1e-6] * 3
    )


def test_zones_are_circles_polygons_and_times():
    circle = Zone(
        GnssZone(effect="float", center_m=[2.0, 1.0], radius_m=1.5, from_s=1.0, until_s=2.0),
        1.0,
        1,
        "z",
    )
    inside = (SECOND, 2.0, 2.4)
    assert circle.holds(*inside)
    assert [circle.holds(t, 2.0, 2.4) for t in (SECOND - 1, 2 * SECOND - 1, 2 * SECOND)] == [
        False,
        True,
        False,
    ]
    assert not circle.holds(SECOND, 2.0, 2.6)
    hook = Zone(
        GnssZone(effect="float", corners_m=[[0, 0], [4, 0], [4, 4], [3, 4], [3, 1], [0, 1]]),
        1.0,
        1,
        "z",
    )
    places = {(2.0, 0.5): True, (3.5, 3.0): True, (2.0, 2.0): False, (-0.1, 0.5): False}
    assert {place: hook.holds(0, *place) for place in places} == places
    assert Zone(GnssZone(effect="float"), 1.0, 1, "z").holds(10**15 - 1, 1e9, -1e9)


@pytest.mark.parametrize("model", ["walk", "gauss", "random_walk", "recorded"])
def test_zones_change_no_noise(model: str):
    """A vehicle that passes a zone has the same errors before, and after it has its solution back,
    as one that does not."""
    zone = GnssZone(effect="no_fix", from_s=3.0, until_s=4.0)
    rtk = Rtk(reacquire_s=0.5, float_after_s=0.5, fixed_after_s=0.5)
    with_zone = enu(fixes(receiver(model=model, zones=[zone], rtk=rtk), 100))
    without = enu(fixes(receiver(model=model), 100))
    same = np.all(with_zone == without, axis=1)
    assert same[:29].all()
    assert same[53:].all()
    assert not same[29:53].any()


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"center_m": [0.0, 0.0]}, "radius_m"),
        (
            {"center_m": [0.0, 0.0], "radius_m": 1.0, "corners_m": [[0, 0], [1, 0], [1, 1]]},
            "polygon",
        ),
        ({"from_s": 5.0, "until_s": 5.0}, "until_s"),
    ],
)
def test_zones_that_make_no_sense_are_refused(keys: dict[str, Any], part: str):
    with pytest.raises(ValueError, match=part):
        GnssZone(effect="no_fix", **keys)


# ----------------------------------------------------------------------------------- zones in files

CORNERS_M = [[-5.0, -5.0], [5.0, -5.0], [5.0, 5.0], [-5.0, 5.0]]


def geojson(
    properties: Any, corners_m: list[list[float]] = CORNERS_M, kind: str = "Polygon"
) -> bytes:
    ring = []
    for east, north in [*corners_m, corners_m[0]]:
        latitude, longitude, _ = DATUM.to_geodetic(east, north, 0.0)
        ring.append([longitude * 180.0 / pi, latitude * 180.0 / pi])
    feature = {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": kind, "coordinates": [ring]},
    }
    return json.dumps({"type": "FeatureCollection", "features": [feature]}).encode()


def test_polygons_of_a_file_are_zones_on_the_map(tmp_path: Path):
    file = tmp_path / "reception.geojson"
    file.write_bytes(geojson({"effect": "multipath", "bias_m": 3.0, "from_s": 2.0}))
    own = GnssZone(effect="float", until_s=1.0)
    model = with_zones(GnssModel(zones=[own], zones_file=str(file)), DATUM)
    assert model.zones[0] == own
    zone = model.zones[1]
    assert (zone.effect, zone.bias_m, zone.from_s) == ("multipath", 3.0, 2.0)
    assert zone.corners_m is not None
    assert np.array(zone.corners_m) == pytest.approx(np.array(CORNERS_M), abs=1e-4)
    assert with_zones(model, DATUM) is model


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (
            geojson({"effect": "multipaht", "bias": 1.0}),
            ["feature 1", 'did you mean "multipath"', 'did you mean "bias_m"'],
        ),
        (geojson({"effect": "float"}, kind="MultiPolygon"), ["feature 1", "Polygon"]),
        (geojson({"effect": "float"}, corners_m=CORNERS_M[:1]), ["feature 1", "corners_m"]),
        (geojson([1]), ["feature 1"]),
        (b'{"type": "FeatureCollection", "features": 3}', ["no list of features"]),
        (b'{"type": "FeatureCollection", "features": [7]}', ["feature 1"]),
        (b"[", ["zones.geojson"]),
        (
            geojson({"effect": "float"}).replace(b"[[[", b"[[[1e3, 1e3], ["),
            ["feature 1 position 1", "longitude"],
        ),
    ],
)
def test_mistakes_in_a_file_are_reported_with_their_place(data: bytes, parts: list[str]):
    with pytest.raises(SceneError) as caught:
        read_zones(data, "zones.geojson", DATUM)
    for part in ("zones.geojson", *parts):
        assert part in str(caught.value)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path):
    with pytest.raises(SceneError, match="cannot be read"):
        with_zones(GnssModel(zones_file=str(tmp_path / "none.geojson")), DATUM)


@examples(60)
@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["Feature", "Polygon", "FeatureCollection"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "features", "geometry", "coordinates", "properties",
        "effect"]), inner, max_size=4),
    max_leaves=12,
).map(lambda tree: json.dumps(tree).encode()))  # fmt: skip
def test_whatever_a_file_holds_there_are_zones_or_one_kind_of_error(data: bytes):
    with suppress(SceneError):
        assert all(isinstance(zone, GnssZone) for zone in read_zones(data, "f", DATUM))


def test_a_receiver_on_its_wire_reports_an_outage_as_a_real_one_does():
    gnss = receiver(zones=[GnssZone(effect="no_fix")])
    fix = gnss.sample(START, REST)[1]
    instant = Instant(fix.utc_ns, True, fix, None)
    assert (pvt(instant).fix_type, pvt(instant).flags & 1, pvt(instant).satellites) == (
        0,
        0,
        fix.satellites,
    )
    assert hpposllh(instant).flags == 1, "invalid"
    assert cov(instant).position_valid == 0

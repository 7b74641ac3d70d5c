"""Scanners on a table: each driver with its emulator, in a room, with everything that goes wrong
with them."""

from math import cos, hypot, inf, isfinite, pi, sin, tau
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.lidar import hokuyo, ldrobot, rplidar, sick, ydlidar
from drivers.lidar.rplidar import RplidarParams
from tests.grid import covering, sampled
from tests.lidar_bench import FAMILIES, MODELS, RATES_HZ, ROOM, Bench, scanner
from vehicled.core.messages import LaserScan, Reaction
from vehicled.profile import ProfileError, load_profile
from vehicled.profile.registry import resolve
from vehicled.runtime.ports.sharing import judge_ports

each_family = pytest.mark.parametrize("family", FAMILIES)
KEPT = {(family, model) for family, (model, _) in FAMILIES.items()} | {
    ("rplidar", "a3"), ("rplidar", "c1"), ("rplidar", "s3"), ("ydlidar", "tg15"),
    ("ydlidar", "tmini"), ("sick", "lms511"),
}  # fmt: skip
"""Models that together have every kind of frame."""
MOUNTINGS = (True, 0.0), (False, 2.5), (True, -1.0)
BREAKS = "off@1+2", "garbage@1+2", "brownout@1+0.5", "intermittent=0.1@1+2", "delayed=0.3@1+2"
X_M = 0.45
"""Place of the scanner before the rear axle."""


def wall_m(bearing_rad: float) -> float:
    """Distance from the scanner to the walls of the room, in a direction of the body."""
    c, s = cos(bearing_rad), sin(bearing_rad)
    ahead = (4.0 - X_M) / c if c > 1e-9 else (3.0 + X_M) / -c if c < -1e-9 else inf
    aside = 2.0 / abs(s) if abs(s) > 1e-9 else inf
    return min(ahead, aside)


def bearings(scan: LaserScan) -> Any:
    return scan.angle_min_rad + scan.angle_increment_rad * np.arange(len(scan.ranges_m))


def errors_m(scan: LaserScan) -> Any:
    """Distance of each return from the walls, along the ray; the corners are left out, where a
    small angle is a large range."""
    found = []
    for bearing, range_m in zip(bearings(scan), scan.ranges_m):
        if isfinite(range_m):
            x, y = X_M + range_m * cos(bearing), range_m * sin(bearing)
            found.append(min(abs(x - 4.0), abs(x + 3.0), abs(y - 2.0), abs(y + 2.0)))
    return np.array(found)


@pytest.mark.parametrize(
    ("family", "model"),
    sampled(
        [(family, model) for family, models in MODELS.items() for model in models],
        KEPT.__contains__,
    ),
)
def test_every_model_sees_the_room_with_the_right_hand_on_the_right(
    family: str, model: str, tmp_path: Path
) -> None:
    scene = ROOM + "[[circle]]\nat = [1.5, 1.2]\nradius_m = 0.2\n"
    bench = Bench(tmp_path, scanner(family, model), scene=scene).run(1.5)
    assert len(bench.scans) >= 3
    assert not bench.faults
    scan = bench.scans[-1]
    ranges = np.array(scan.ranges_m)
    # The post is before the left shoulder; nothing but the wall is before the right one.
    toward = np.abs(bearings(scan) - np.arctan2(1.2, 1.5 - X_M)) < 0.05
    assert np.nanmin(ranges[toward]) == pytest.approx(hypot(1.2, 1.5 - X_M) - 0.2, abs=0.06)
    away = np.abs(bearings(scan) + np.arctan2(1.2, 1.5 - X_M)) < 0.05
    assert np.nanmin(ranges[away]) == pytest.approx(wall_m(-np.arctan2(1.2, 1.5 - X_M)), abs=0.15)
    others = errors_m(scan)[
        np.abs(bearings(scan)[np.isfinite(ranges)] - np.arctan2(1.2, 1.5 - X_M)) > 0.35
    ]
    assert np.median(others) < 0.015
    assert np.quantile(others, 0.98) < 0.08
    # Every ray that points somewhere was measured, once.
    assert np.isnan(ranges).mean() < 0.05


@each_family
def test_scans_come_at_their_rate_and_are_stamped_when_they_were_measured(
    family: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, scanner(family)).run(3.0)
    rate_hz = RATES_HZ[family]
    periods = np.diff([scan.t_ns for scan in bench.scans[2:]]) * 1e-9
    assert np.median(periods) == pytest.approx(1.0 / rate_hz, rel=0.02)
    for scan in bench.scans[2:]:
        assert scan.scan_time_s == pytest.approx(1.0 / rate_hz, rel=0.06)
        last_ns = scan.t_ns + scan.time_increment_s * 1e9 * (len(scan.ranges_m) - 1)
        assert last_ns <= scan.t_rx_ns
        assert scan.t_rx_ns - last_ns < 0.4e9 / rate_hz


@each_family
def test_a_moving_body_is_where_it_was_at_the_time_of_its_ray(family: str, tmp_path: Path) -> None:
    """A plate crosses the scan at 2 m/s: wherever it is met, it was there at the stamp of that
    ray."""
    scene = (
        "[[moving]]\nplaces = [[2.45, -6.0], [2.45, 6.0]]\nstart_s = 0.0\nspeed_mps = 4.0\n"
        "outline = [[-0.3, -0.05], [0.3, -0.05], [0.3, 0.05], [-0.3, 0.05]]\n"
    )
    bench = Bench(tmp_path, scanner(family), scene=scene).run(3.0)
    offs = []
    for scan in bench.scans:
        ranges = np.array(scan.ranges_m)
        hit = np.flatnonzero(np.isfinite(ranges))
        if len(hit) < 4:
            continue
        along = ranges[hit] * np.sin(bearings(scan)[hit])
        # The outline turns along the path, so the plate is 0.6 m long in its direction; both ends
        # must have been seen.
        t_s = (scan.t_ns + 1e9 * scan.time_increment_s * hit) * 1e-9
        middle = -6.0 + 4.0 * t_s
        ends = along - middle
        if abs(along).max() < 2.0:
            offs.append(0.5 * (ends.max() + ends.min()))
    assert len(offs) >= 2
    assert abs(np.median(offs)) < 0.06, "15 ms at this speed"


@pytest.mark.parametrize(
    ("family", "upside_down", "yaw_rad"),
    covering([(f, *mounting) for f in FAMILIES for mounting in MOUNTINGS], lambda case: case),
)
def test_it_may_be_mounted_upside_down_and_turned(
    family: str, upside_down: bool, yaw_rad: float, tmp_path: Path
) -> None:
    overrides = scanner(family, upside_down=str(upside_down).lower(), mounting_yaw_rad=yaw_rad)
    scene = ROOM + (
        "[[circle]]\nat = [0.45, 1.2]\nradius_m = 0.2\n[[circle]]\nat = [2.0, -0.5]\nradius_m "
        "= 0.2\n"
    )
    scan = Bench(tmp_path, overrides, scene=scene).run(1.5).scans[-1]
    ranges = np.array(scan.ranges_m)
    for x, y in ((0.0, 1.2), (1.55, -0.5)):
        toward = np.abs((bearings(scan) - np.arctan2(y, x) + pi) % tau - pi) < 0.05
        if toward.any():
            assert np.nanmin(ranges[toward]) == pytest.approx(hypot(x, y) - 0.2, abs=0.06)
    for x, y in ((0.0, -1.2), (1.55, 0.5)):
        toward = np.abs((bearings(scan) - np.arctan2(y, x) + pi) % tau - pi) < 0.05
        if toward.any():
            assert np.nanmin(ranges[toward]) > hypot(x, y) + 0.3, "nothing stands on the other side"
    assert np.isfinite(ranges).sum() > 0.4 * len(ranges)


@each_family
def test_a_sector_and_a_mask(family: str, tmp_path: Path) -> None:
    overrides = scanner(family, angle_min_rad=-1.0, angle_max_rad=1.5, masked_rad="[[-0.2, 0.1]]")
    scan = Bench(tmp_path, overrides).run(1.5).scans[-1]
    at = bearings(scan)
    assert at.min() >= -1.01
    assert at.max() <= 1.51
    assert at.max() - at.min() > 2.4
    hidden = np.isnan(np.array(scan.ranges_m))
    assert hidden[(at > -0.19) & (at < 0.09)].all()
    assert not hidden[(at < -0.21) | (at > 0.11)].any()
    assert np.quantile(errors_m(scan), 0.95) < 0.08


@each_family
def test_ranges_are_limited_and_rays_without_a_return_are_free(family: str, tmp_path: Path) -> None:
    scan = Bench(tmp_path, scanner(family, range_min_m=1.0, range_max_m=2.5)).run(1.5).scans[-1]
    ranges = np.array(scan.ranges_m)
    assert (scan.range_min_m, scan.range_max_m) == (1.0, 2.5)
    assert np.isposinf(ranges).mean() > 0.2
    assert ranges[np.isfinite(ranges)].min() >= 1.0
    assert ranges[np.isfinite(ranges)].max() <= 2.5
    near = Bench(tmp_path, scanner(family, range_min_m=3.0, range_max_m=5.0)).run(1.5).scans[-1]
    assert np.isneginf(np.array(near.ranges_m)).mean() > 0.3


@each_family
def test_nothing_returns_is_free_or_blind_as_the_profile_says(family: str, tmp_path: Path) -> None:
    scan = Bench(tmp_path, scanner(family), ["scanner:no_returns@0"]).run(1.5).scans[-1]
    assert all(each == inf for each in scan.ranges_m)
    scan = (
        Bench(tmp_path, scanner(family, least_returns=0.1), ["scanner:no_returns@0"])
        .run(1.5)
        .scans[-1]
    )
    assert np.isnan(np.array(scan.ranges_m)).all()
    scan = Bench(tmp_path, scanner(family, least_returns=0.1)).run(1.5).scans[-1]
    assert np.isfinite(np.array(scan.ranges_m)).mean() > 0.9


@each_family
def test_a_motor_that_stops_is_said_and_gives_no_scans_until_it_turns_again(
    family: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, scanner(family), ["scanner:motor_stops@1.5+2.5"]).run(4.0)
    stopped = [scan for scan in bench.scans if scan.t_rx_ns > 2.0e9]
    assert not stopped
    said = [fault for fault in bench.faults if fault.active]
    assert said
    assert said[0].code in ("lidar_speed", "lidar_health", "lidar_configuration")
    assert all(fault.reaction <= Reaction.WARN for fault in bench.faults), (
        "the rules of the matrix stop the vehicle"
    )
    bench.run(6.0)
    assert [scan for scan in bench.scans if scan.t_rx_ns > 8e9]
    active = {fault.code: fault.active for fault in bench.faults}
    assert not any(active.values()), active


@pytest.mark.parametrize("family", ["rplidar", "ydlidar", "hokuyo", "sick"])
def test_a_fault_of_the_device_is_said_with_its_code_and_ends(family: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner(family), ["scanner:lidar_fault=32772@1.5+3"]).run(4.5)
    assert not [scan for scan in bench.scans if scan.t_rx_ns > 2.0e9]
    said = " ".join(fault.reason for fault in bench.faults if fault.active)
    assert (
        "32772"
        if family in ("rplidar", "ydlidar")
        else "Laser malfunction"
        if family == "hokuyo"
        else "reports an error"
    ) in said
    bench.run(8.0)
    assert [scan for scan in bench.scans if scan.t_rx_ns > 11e9]
    active = {fault.code: fault.active for fault in bench.faults}
    assert not any(active.values()), active


@pytest.mark.parametrize(
    ("family", "failure"),
    covering([(f, each) for f in FAMILIES for each in BREAKS], lambda case: case),
)
def test_it_recovers_from_a_broken_connection(family: str, failure: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner(family), [f"scanner:{failure}"]).run(3.0)
    before = len(bench.scans)
    bench.run(6.0)
    assert len(bench.scans) - before > 3.0 * RATES_HZ[family]
    scan = bench.scans[-1]
    assert np.quantile(errors_m(scan), 0.95) < 0.08
    late_ns = scan.t_rx_ns - scan.t_ns
    assert late_ns < 1.6e9 / RATES_HZ[family], "a late burst does not move its clock for good"


@each_family
def test_scans_that_repeat_are_withheld_and_said(family: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner(family), ["scanner:stuck@1.5+4"]).run(5.0)
    assert not [scan for scan in bench.scans if scan.t_rx_ns > 3.5e9]
    assert {"lidar_stuck", "lidar_speed"} & {fault.code for fault in bench.faults if fault.active}
    bench.run(7.0)
    assert [scan for scan in bench.scans if scan.t_rx_ns > 11e9]


@each_family
def test_a_reopened_port_begins_anew_whatever_the_device_was_sending(
    family: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, scanner(family)).run(1.5)
    bench.open()
    before = len(bench.scans)
    bench.run(2.5)
    assert len(bench.scans) > before + 3
    assert not bench.faults
    if family != "ldrobot":
        assert [event.name for event in bench.events].count("lidar_configured") == 2


@each_family
def test_a_device_that_answers_nothing_is_said_once_and_asked_again(
    family: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, scanner(family), ["scanner:off@0+8"]).run(7.0)
    assert not bench.scans
    faults = [fault for fault in bench.faults if fault.code == "lidar_configuration"]
    assert len(faults) == (0 if family == "ldrobot" else 1)
    bench.run(6.0)
    assert bench.scans
    assert not any({fault.code: fault.active for fault in bench.faults}.values())


def one_turn(family: str) -> list[bytes]:
    """Two turns as the device sends them, with something 2 m away at 80 to 100 degrees of its own
    angle and 5 m elsewhere."""

    def range_m(degrees: float) -> float:
        return 2.0 if 80.0 <= degrees % 360.0 <= 100.0 else 5.0

    if family == "rplidar":
        nodes = [
            rplidar.encode_node(each % 360, range_m(each), begins=each % 360 == 0)
            for each in range(900)
        ]
        return [rplidar.scan_descriptor(rplidar.NODES), *nodes]
    if family == "ydlidar":
        at = [[(first + i) % 360 for i in range(20)] for first in range(0, 900, 20)]
        ranges = [tuple([round(4000 * range_m(a)) for a in each]) for each in at]
        packets = [
            ydlidar.YdlidarPacket(False, 0.0, each[0], each[-1], found, (9,) * 20)
            for each, found in zip(at, ranges)
        ]
        return [ydlidar.encode_packet(packet) for packet in packets]
    if family == "ldrobot":
        at = [[(first + i) % 360 for i in range(12)] for first in range(0, 900, 12)]
        return [
            ldrobot.encode_packet(
                ldrobot.LdrobotPacket(
                    3600,
                    100 * each[0],
                    tuple(round(1000 * range_m(a)) for a in each),
                    (9,) * 12,
                    100 * each[-1],
                    0,
                )
            )
            for each in at
        ]
    if family == "hokuyo":
        # Step 540 is the front, 1440 are a turn.
        steps = [round(1000 * range_m((step - 540) / 4)) for step in range(1081)]
        return [hokuyo.encode_ranges("MD0000108001000", "99", 7, steps)]
    # 90 degrees of a SICK are its front.
    counts = tuple(round(1000 * range_m(each - 90.0)) for each in range(-45, 226))
    return [
        sick.encode_scan(
            sick.ScanData(0, 1, 1, 5, 6005, 15.0, -45.0, 1.0, 1.0, counts), binary=True
        )
    ]


@pytest.mark.parametrize(
    ("family", "model", "bearing_rad"),
    [
        ("rplidar", "a1", -pi / 2), ("ydlidar", "tmini", -pi / 2), ("ldrobot", "ld19", -pi / 2),
        ("hokuyo", "ust10lx", pi / 2), ("sick", "tim551", pi / 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("upside_down", "yaw_rad"), [(False, 0.0), (True, 0.0), (False, 0.5), (True, 0.5)]
)
def test_the_sense_of_rotation_is_that_of_the_device(
    family: str, model: str, bearing_rad: float, upside_down: bool, yaw_rad: float
) -> None:
    """A quarter turn of the device is to the right of one that turns clockwise, and to the left of
    one upside down.

    By bytes alone, because emulator and driver would share a mistake."""
    kind: Any = resolve("driver", family)
    params = kind.Params(
        model=model, configure=False, upside_down=upside_down, mounting_yaw_rad=yaw_rad
    )
    device = kind(params, [LaserScan], 10**9)
    scans = []
    for i, data in enumerate(one_turn(family)):
        scans += [
            each for each in device.on_rx(data, 10**9 + i * 10**6) if isinstance(each, LaserScan)
        ]
    assert scans
    near = bearings(scans[-1])[np.array(scans[-1].ranges_m) < 3.0]
    expected = (-bearing_rad if upside_down else bearing_rad) + yaw_rad
    assert len(near) > 3
    assert np.median((near - expected + pi) % tau - pi) == pytest.approx(0.0, abs=0.03)


def test_the_motor_of_an_rplidar_is_set_as_its_series_wants(tmp_path: Path) -> None:
    assert Bench(tmp_path, scanner("rplidar", "a2m8", rate_hz=8.0)).run(1.0).unit.duty == 528
    assert Bench(tmp_path, scanner("rplidar", "s2", rate_hz=12.0)).run(1.0).unit.rpm == 720
    assert Bench(tmp_path, scanner("rplidar", "a1")).run(1.0).unit.duty == 0, "it has a switch, DTR"


@pytest.mark.parametrize("scan", ["legacy", "express", "typical"])
def test_every_kind_of_measurements_of_an_rplidar(scan: str, tmp_path: Path) -> None:
    # Single measurements have five bytes each, so fewer fit on the line.
    overrides = scanner("rplidar", "a3", scan=scan)
    found = Bench(tmp_path, overrides).run(1.5).scans[-1]
    assert np.median(errors_m(found)) < 0.015
    assert np.isfinite(np.array(found.ranges_m)).mean() > 0.9


@pytest.mark.parametrize("speed_hz", [7.0, 8.3, 10.0, 11.9])
def test_the_speed_of_a_ydlidar_is_set_by_steps(speed_hz: float, tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner("ydlidar", "g4", rate_hz=speed_hz)).run(2.0)
    assert bench.unit.speed_hz == pytest.approx(speed_hz)
    assert bench.scans


@pytest.mark.parametrize(
    ("cola", "dialect"), [("auto", "CoLa B"), ("b", "CoLa B"), ("a", "CoLa A")]
)
def test_a_sick_scanner_is_spoken_to_in_its_dialect(
    cola: str, dialect: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, scanner("sick", cola=cola)).run(2.0)
    assert dialect in "".join(event.fields for event in bench.events)
    assert bench.scans


def test_a_sick_scanner_of_the_other_dialect_is_found_and_a_wrong_one_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner("sick"))
    bench.unit._binary = False
    assert bench.run(3.0).scans
    bench = Bench(tmp_path, scanner("sick", cola="b"))
    bench.unit._binary = False
    assert not bench.run(3.0).scans
    assert "not CoLa B" in bench.faults[0].reason


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"angle_min_rad": 1.0, "angle_max_rad": -1.0}, "angle_max_rad must be above"),
        ({"range_min_m": 5.0, "range_max_m": 1.0}, "range_max_m must be above"),
        ({"masked_rad": "[[-2.0, 2.0]]"}, "40 %"),
        ({"mounting_yaw_rad": 180.0}, "mounting_yaw_rad"),
        ({"model": "a9"}, "a9"),
        ({"least_returns": 2.0}, "least_returns"),
    ],
)
def test_impossible_parameters_are_refused_with_their_place(
    given: dict[str, object], says: str
) -> None:
    with pytest.raises(ProfileError) as refused:
        load_profile(
            "art_vesc",
            [
                *scanner("rplidar"),
                *[f"devices.scanner.driver.rplidar.{k}={v}" for k, v in given.items()],
            ],
        )
    assert says in str(refused.value)


def test_a_narrow_sector_may_be_masked_in_part() -> None:
    RplidarParams(angle_min_rad=-1.0, angle_max_rad=1.0, masked_rad=[(0.0, 0.5)])


@pytest.mark.parametrize(
    ("family", "model", "port", "says"),
    [
        ("rplidar", "a3", "serial:/dev/serial/by-id/x?baud=115200", "256000 baud"),
        ("rplidar", "a1", "serial:/dev/serial/by-id/x?baud=115200", "dtr=off"),
        ("rplidar", "a1", "serial:/dev/serial/by-id/x?baud=115200&dtr=off", ""),
        ("ydlidar", "x4", "serial:/dev/serial/by-id/x", "128000 baud"),
        ("hokuyo", "urg04lx", "serial:/dev/serial/by-id/x", ""),
        ("sick", "tim571", "tcp:192.168.0.1:2112", ""),
    ],
)
def test_the_line_that_a_scanner_needs_is_named(
    family: str, model: str, port: str, says: str
) -> None:
    profile = load_profile("art_vesc", scanner(family, model, port))
    found = " ".join(map(str, judge_ports({"scanner": profile.devices["scanner"]})))
    assert (says in found) if says else not found

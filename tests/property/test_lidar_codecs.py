"""Laser scanners: what is encoded is read again, whatever damages the stream costs only what it
hits, and nothing raises."""

from math import hypot, nan, pi, tau
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.lidar import hokuyo, ldrobot, rplidar, sick, ydlidar
from drivers.lidar.base import LidarDevice
from drivers.lidar.scan import Measurements, Revolutions, ScanGeometry
from tests.conformance.test_device_contract import DEVICES
from vehicled.core.messages import LaserScan, PortState, StateEstimate
from vehicled.profile import load_profile
from vehicled.safety.monitors.lane import LaneBody
from vehicled.safety.monitors.scans import MotionHistory, scan_points

SCANNERS = [name for name in DEVICES if isinstance(DEVICES[name][0](), LidarDevice)]
each_scanner = pytest.mark.parametrize("name", SCANNERS)
uint16 = st.integers(0, 0xFFFF)
uint32 = st.integers(0, 0xFFFF_FFFF)
angles = st.floats(0.0, 359.9)


@given(
    st.sampled_from(sorted(rplidar.CAPSULE_BYTES)),
    angles,
    angles,
    st.integers(0, 2**32),
    st.floats(0.05, 15.0),
    st.floats(0.0, 7.8),
)
def test_capsules_of_rplidar(
    kind: int, first: float, second: float, seed: int, scale: float, shift: float
) -> None:
    count = rplidar.CAPSULE_SAMPLES[kind]
    # Neighbours differ little, as on walls: the differences of an ultra capsule have ten bits.
    ranges = (
        scale * (1.0 + 0.01 * np.random.default_rng(seed).standard_normal(count + 1))
    ).tolist()
    ranges[4] = 0.0
    given_ = ranges if kind == rplidar.ULTRA else ranges[:count]
    frame = rplidar.encode_capsule(kind, first, given_, first=False, shift_deg=shift)
    following = rplidar.encode_capsule(kind, second, [ranges[-1]] * len(given_), first=False)
    samples = rplidar.parse_capsule(kind, frame, following)
    assert samples.angle_deg[0] == pytest.approx(round(first * 64) % (360 * 64) / 64)
    assert samples.range_m[4] == 0.0
    step = {rplidar.ULTRA: 0.017, rplidar.ULTRA_DENSE: 0.005}.get(kind, 0.0006)
    assert np.abs(samples.range_m - ranges[:count]).max() <= step
    if kind == rplidar.EXPRESS:
        assert samples.shift_deg == pytest.approx(-round(shift * 8) / 8)


@given(
    st.booleans(),
    st.floats(0.0, 12.0),
    angles,
    angles,
    st.lists(uint16, min_size=1, max_size=80),
    st.booleans(),
)
def test_packets_of_ydlidar(
    begins: bool, speed: float, first: float, last: float, ranges: list[int], strong: bool
) -> None:
    kept = tuple(each & ~3 for each in ranges) if strong else tuple(ranges)
    packet = ydlidar.YdlidarPacket(
        begins, round(speed * 10) / 10, first, last, kept, (1023,) * len(kept) if strong else ()
    )
    frame = ydlidar.encode_packet(packet)
    assert ydlidar.checksum(frame, 3 if strong else 2) == 0
    found = ydlidar.parse_packet(frame)
    quantised = {
        name: round(getattr(packet, name) * 64) % (360 * 64) / 64
        for name in ("first_deg", "last_deg")
    }
    assert found == packet._replace(**quantised)


@given(
    st.lists(uint16, min_size=12, max_size=12),
    st.integers(0, 35_999),
    st.integers(0, 35_999),
    uint16,
)
def test_packets_of_ldrobot(ranges: list[int], first: int, last: int, stamp: int) -> None:
    packet = ldrobot.LdrobotPacket(3600, first, tuple(ranges), (7,) * 12, last, stamp)
    assert [content for _, content in ldrobot.decode(b"\x54" + ldrobot.encode_packet(packet))] == [
        packet
    ]


@given(
    st.lists(st.integers(0, (1 << 18) - 1), min_size=1, max_size=300),
    st.integers(0, (1 << 24) - 1),
    st.integers(1, 700),
)
def test_ranges_of_scip(ranges: list[int], stamp: int, first: int) -> None:
    echo = f"MD{first:04d}{first + len(ranges) - 1:04d}01000"
    ((_, found),) = hokuyo.decode(hokuyo.encode_ranges(echo, "99", stamp, ranges))
    assert found == hokuyo.Ranges(
        echo, "99", stamp, first, first + len(ranges) - 1, 1, tuple(ranges)
    )


@given(
    st.lists(uint16, min_size=2, max_size=361),
    uint32,
    uint32,
    st.booleans(),
    st.integers(-450_000, 0),
)
def test_scans_of_cola(counts: list[int], start: int, sent: int, binary: bool, first: int) -> None:
    scan = sick.ScanData(2, 5, 0xFFFF, start, sent, 15.0, first / 1e4, 1.0, 1.0, tuple(counts))
    ((_, found),) = sick.decode(sick.encode_scan(scan, binary=binary))
    assert found == scan


@each_scanner
@given(data=st.data())
def test_damage_costs_the_frames_it_hits_and_the_next_scans_are_whole(
    name: str, data: st.DataObject
) -> None:
    make, stream = DEVICES[name]
    device: Any = make()
    device.on_port(PortState.OPENED, "", 1)
    junk = data.draw(st.binary(max_size=400))
    cut = data.draw(st.integers(0, len(stream)))
    t_ns = 10**9
    for part in (stream, junk, stream[:cut], stream, stream):
        for message in device.on_rx(part, t_ns):
            assert isinstance(message, device.produces)
        t_ns += 3 * 10**9
    before = device.scans
    device.on_rx(stream, t_ns)
    device.on_rx(stream, t_ns + 10**9)
    assert device.scans > before


@each_scanner
@given(chunks=st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 900)), max_size=30))
def test_nothing_it_receives_makes_it_raise_or_report_what_is_no_scan(
    name: str, chunks: list[Any]
) -> None:
    """Garbage, and pieces of what it sends, in any order and with the clock standing still or
    jumping."""
    make, stream = DEVICES[name]
    device = make()
    device.on_port(PortState.OPENED, "", 1)
    t_ns = 10**9
    for i, chunk in enumerate(chunks):
        data = chunk if isinstance(chunk, bytes) else stream[chunk % len(stream) :][:100]
        t_ns += (i % 4) * 10**8
        for message in [*device.on_rx(data, t_ns), *device.on_time(t_ns)]:
            assert isinstance(message, device.produces)
            if isinstance(message, LaserScan):
                assert len(message.ranges_m) >= 2
                assert message.scan_time_s > 0.0
                assert -7.0 < message.angle_min_rad < 7.0


# ------------------------------------------------------------------ turns


@given(
    clockwise=st.booleans(), yaw=st.floats(-pi, pi), low=st.floats(-pi, 0.0),
    high=st.floats(0.1, pi), rate_hz=st.floats(3.0, 20.0), batch=st.integers(1, 97),
    late_ms=st.floats(0.0, 8.0), seed=st.integers(0, 99),
)  # fmt: skip
def test_turns_become_scans_of_the_directions_and_times_of_their_measurements(
    clockwise: bool,
    yaw: float,
    low: float,
    high: float,
    rate_hz: float,
    batch: int,
    late_ms: float,
    seed: int,
) -> None:
    """The range at each bearing is a function of it, and so is the time: both are found again at
    each ray."""
    geometry = ScanGeometry(clockwise, yaw, low, high, (), 0.3, 0.1, 0.05, 50.0, 0.0)
    turns = Revolutions(geometry, 360, rate_hz)
    random = np.random.default_rng(seed)
    count, sample_ns = 1800, 1e9 / (rate_hz * 500.0)
    turned = np.arange(count) * (tau / 500.0)
    bearing = geometry.bearing_rad(turned)
    ranges = 5.0 + np.cos(bearing) + 0.5 * np.sin(2.0 * bearing)
    made_ns = 10**9 + sample_ns * np.arange(count)
    scans = []
    for at in range(0, count, batch):
        part = slice(at, min(at + batch, count))
        # Bytes arrive with the last of the batch, or later; what is known of it is when the last
        # was made.
        delay = random.uniform(0.0, late_ms) * 1e6
        t_ns = made_ns[part] + delay
        found = Measurements(turned[part] % tau, np.zeros(part.stop - at), ranges[part], t_ns)
        scans += turns.add(found, round(float(t_ns[-1])))
    assert len(scans) >= 2
    for scan in scans:
        rays = np.arange(len(scan.ranges_m))
        seen = scan.angle_min_rad + scan.angle_increment_rad * rays
        assert seen.min() >= low - 1e-6
        assert seen.max() <= high + 1e-6
        measured = np.array(scan.ranges_m)
        assert not np.isnan(measured).any(), "there are more measurements than rays"
        assert np.abs(measured - (5.0 + np.cos(seen) + 0.5 * np.sin(2.0 * seen))).max() < 0.05
        stamped_ns = scan.t_ns + 1e9 * scan.time_increment_s * rays
        turn = geometry.sense * (seen - yaw)
        expected = 10**9 + (turn % tau) / tau * 500.0 * sample_ns
        off = (stamped_ns - expected + 0.5e9 / rate_hz) % (1e9 / rate_hz) - 0.5e9 / rate_hz
        assert np.abs(off).max() < late_ms * 1e6 + 3.0 * sample_ns


# ------------------------------------------------------------------ motion


def estimate_at(t_s: float, path: Any) -> Any:
    x, y, yaw, speed, rate = path(t_s)
    return StateEstimate(round(t_s * 1e9), 0, x, y, yaw, speed, rate, (0.0,) * 16)


def test_a_scan_of_a_vehicle_that_turns_and_brakes_is_undistorted() -> None:
    """A wall of points seen in one sweep of 0.2 s, 0.25 s later: within a millimetre of where it
    stands."""
    step_s = 0.01

    def speed_mps(t_s: float) -> float:
        return 4.0 - 6.0 * max(t_s - 0.4, 0.0)

    def rate_radps(t_s: float) -> float:
        return 1.5 * float(np.sin(6.0 * t_s))

    fine_s = 1e-4
    t = np.arange(0.0, 1.0 + fine_s, fine_s)
    yaws = np.concatenate(
        ([0.0], np.cumsum([rate_radps(each + 0.5 * fine_s) * fine_s for each in t]))
    )[:-1]
    ways = np.array([speed_mps(each + 0.5 * fine_s) * fine_s for each in t])
    xs, ys = (np.concatenate(([0.0], np.cumsum(ways * f(yaws))))[:-1] for f in (np.cos, np.sin))

    def path(t_s: float) -> tuple[float, ...]:
        x, y, yaw = (float(np.interp(t_s, t, column)) for column in (xs, ys, yaws))
        return x, y, yaw, speed_mps(t_s), rate_radps(t_s)

    begin_s, rays = 0.55, 200
    ranges, wall_x = [], 12.0
    for i in range(rays):
        x, _, yaw, _, _ = path(begin_s + 0.001 * i)
        bearing = -0.5 + 0.005 * i
        origin = x + 0.4 * np.cos(yaw)
        ranges.append(float((wall_x - origin) / np.cos(yaw + bearing)))
    scan = LaserScan(
        round(begin_s * 1e9), 0, -0.5, 0.005, 0.001, 0.2, 0.05, 50.0, 0.4, 0.0, tuple(ranges)
    )
    vehicle = load_profile("art").vehicle
    body, history = LaneBody(vehicle, 0.1), MotionHistory()
    for k in range(101):
        history.add(estimate_at(k * step_s, path))
    now = estimate_at(1.0, path)
    undistorted, _ = scan_points(scan, now, body, history)
    assert len(undistorted) == rays
    assert np.abs(undistorted - wall_x).max() < 0.01
    straight, _ = scan_points(scan, now, body)
    assert np.abs(straight - wall_x).max() > 0.1, (
        "speed and yaw rate of the end, taken for the whole sweep"
    )


@given(
    speeds=st.lists(st.one_of(st.floats(-20.0, 20.0), st.just(nan)), min_size=1, max_size=30),
    steps=st.lists(st.integers(-20, 200), min_size=30, max_size=30),
    ages=st.lists(st.floats(-1.0, 3.0), min_size=1, max_size=20),
)  # fmt: skip
def test_poses_are_finite_and_no_further_than_the_fastest_motion(
    speeds: list[float], steps: list[int], ages: list[float]
) -> None:
    history, t_ms = MotionHistory(), 5_000
    for speed, step in zip(speeds, steps):
        t_ms += step
        history.add(estimate_at(t_ms * 1e-3, lambda _, speed=speed: (0.0, 0.0, 0.0, speed, 0.3)))
    now = estimate_at(t_ms * 1e-3, lambda _: (1.0, 2.0, 0.5, 3.0, -0.2))
    age_s = np.array(ages)
    x, y, yaw = history.poses(age_s, now)
    for px, py, pyaw, age in zip(x, y, yaw, age_s):
        assert hypot(px - 1.0, py - 2.0) <= 20.0 * abs(age) + 1e-6
        assert abs(pyaw - 0.5) <= 0.3 * abs(age) + 1e-6

"""Base class of inertial units on the wire of the N100; and the differences of WitMotion and
BNO08x."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import cos, isnan, pi, radians, sin
from typing import Any

import msgspec
import pytest

from drivers.imu import bno08x, n100, witmotion
from drivers.imu.base import ImuDevice, Sample, mounting, turn
from vehicled.core.events import MessageUnused
from vehicled.core.messages import (
    Event,
    Fault,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    PortState,
    Reaction,
)
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.usage import Loss, MessageUsage, Unused

MS = 1_000_000
PERIOD = 10 * MS


def _imu(
    count: int = 0,
    *,
    force: Sequence[float] = (0.0, 0.0, -9.81),
    rate: Sequence[float] = (0.0,) * 3,
    at_us: int | None = None,
) -> bytes:
    """An N100 frame in axes of the device; its values differ with ``count`` as noise makes those of
    a real one."""
    timestamp_us = 10_000 * count if at_us is None else at_us
    noise = 1e-3 * (count % 7)
    packet = n100.ImuPacket(
        (rate[0] + noise, rate[1], rate[2]),
        tuple(map(float, force)),
        (0.0,) * 3,
        20.0,
        101325.0,
        20.0,
        timestamp_us,
    )
    return n100.encode_imu(packet, count)


def _ahrs(heading_rad: float, sn: int = 0) -> bytes:
    return n100.encode_ahrs(
        n100.AhrsPacket((0.0,) * 3, 0.0, 0.0, heading_rad, (1.0, 0.0, 0.0, 0.0), 10_000), sn
    )


def _n100(
    messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any
) -> n100.N100Device:
    return n100.N100Device(msgspec.convert(params, n100.N100Params), messages, 50 * MS)


def _run(
    device: ImuDevice, frames: Iterable[bytes], start_ns: int = 0, period_ns: int = PERIOD
) -> list[Message]:
    got: list[Message] = []
    for i, frame in enumerate(frames):
        got += device.on_rx(frame, start_ns + i * period_ns)
    return got


def _only(messages: Iterable[Message], kind: type[Any]) -> list[Any]:
    return [message for message in messages if isinstance(message, kind)]


# ------------------------------------------------------------------------------------------ samples


def test_a_sample_is_in_body_axes_and_si() -> None:
    (sample,) = _n100().on_rx(_imu(force=(1.0, 2.0, -9.81), rate=(0.1, 0.2, 0.3)), 7 * MS)
    assert isinstance(sample, ImuSample)
    assert sample.specific_force_mps2 == pytest.approx((1.0, -2.0, 9.81))
    assert sample.angular_rate_radps == pytest.approx((0.1, -0.2, -0.3))
    assert sample.temperature_k == pytest.approx(293.15)
    assert (sample.t_ns, sample.t_rx_ns, sample.saturated) == (6 * MS, 7 * MS, False)


def test_time_comes_from_the_clock_of_the_device() -> None:
    """Arrivals in bunches of five, as an adapter makes them; the samples stay ten milliseconds
    apart."""
    device = _n100(latency_s=0.002)
    samples = []
    for bunch in range(60):
        arrival = 10**9 + (5 * bunch + 4) * PERIOD
        samples += _only(
            device.on_rx(b"".join(_imu(5 * bunch + i) for i in range(5)), arrival), ImuSample
        )
    settled = samples[100:]
    steps = {(b.t_ns - a.t_ns) for a, b in pairwise(settled)}
    assert all(abs(step - PERIOD) < 100_000 for step in steps)
    assert all(sample.t_ns <= sample.t_rx_ns - 2 * MS for sample in samples)
    assert device.clock is not None
    assert device.clock.resets == 0


def test_a_restart_of_the_device_is_reported_once() -> None:
    device = _n100(messages=[ImuSample])
    got = _run(device, [_imu(i, at_us=50_000_000 + 10_000 * i) for i in range(300)])
    got += _run(device, [_imu(i) for i in range(500)], start_ns=300 * PERIOD)
    (event,) = _only(got, Event)
    assert (event.name, event.level, json.loads(event.fields)) == (
        "imu_clock",
        "warning",
        {"device": "n100", "resets": 1},
    )
    last = _only(got, ImuSample)[-1]
    assert last.t_rx_ns - last.t_ns < 2 * MS


@pytest.mark.parametrize(
    ("angles", "expected"),
    [
        ({"mounting_yaw_rad": pi / 2}, (-2.0, 1.0, 9.0)),
        ({"mounting_pitch_rad": pi / 2}, (9.0, 2.0, -1.0)),
        ({"mounting_roll_rad": pi}, (1.0, -2.0, -9.0)),
        ({"mounting_roll_rad": pi / 2, "mounting_yaw_rad": pi / 2}, (9.0, 1.0, 2.0)),
    ],
)
def test_mounting_turns_the_axes(angles: dict[str, float], expected: tuple[float, ...]) -> None:
    device = _n100(messages=[ImuSample], **angles)
    (sample,) = device.on_rx(_imu(force=(1.0, -2.0, -9.0), rate=(1.0, -2.0, -9.0)), 0)
    assert isinstance(sample, ImuSample)
    assert sample.specific_force_mps2 == pytest.approx(expected, abs=1e-6)
    assert sample.angular_rate_radps == pytest.approx(expected, abs=1e-6)


def test_mounting_is_a_rotation() -> None:
    rows = mounting(0.3, -0.5, 2.0)
    for i, row in enumerate(rows):
        assert turn(rows, row) == pytest.approx([float(i == j) for j in range(3)])


def test_the_end_of_the_range_is_flagged() -> None:
    g = 9.80665
    device = _n100(
        messages=[ImuSample],
        accelerometer_range_mps2=4 * g,
        gyro_range_radps=radians(250),
        mounting_yaw_rad=0.8,
    )
    frames = [
        _imu(1, force=(0.0, -3.9 * g, -g)),
        _imu(2, force=(0.0, 4 * g, -g)),
        _imu(3, force=(0.0, 0.0, -g), rate=(0.0, 0.0, -radians(250))),
        _imu(4, force=(-4 * g, 0.0, -g)),
        _imu(5, rate=(0.0, radians(250), 0.0)),
        _imu(6),
    ]
    assert [sample.saturated for sample in _only(_run(device, frames), ImuSample)] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]
    assert device.saturated_samples == 4


def test_values_that_are_no_numbers_go_no_further() -> None:
    device = _n100(messages=[ImuSample])
    bad = [
        _imu(1, force=(float("nan"), 0.0, 0.0)),
        _imu(2, rate=(0.0, float("-inf"), 0.0)),
        _imu(3),
    ]
    assert len(_only(_run(device, bad), ImuSample)) == device.samples == 1
    assert device.usage.of("IMU").refused == {
        Loss(Unused.NOT_FINITE, "specific force"): 1, Loss(Unused.NOT_FINITE, "angular rate"): 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "loss"),
    [
        (_imu(1, force=(0.0, 0.0, 0.0)), Loss(Unused.ALL_ZERO, "specific force")),
        (_imu(1, force=(0.0, 1e30, 0.0)), Loss(Unused.OUT_OF_RANGE, "specific force")),
        (_imu(1, rate=(0.0, 0.0, -1e30)), Loss(Unused.OUT_OF_RANGE, "angular rate")),
    ],
)
def test_values_that_no_sensor_has_go_no_further(frame: bytes, loss: Loss) -> None:
    device = _n100(messages=[ImuSample])
    got = _run(device, [frame, frame, _imu(2)])
    assert len(_only(got, ImuSample)) == 1
    assert device.usage.of("IMU").refused == {loss: 2}
    assert [event.name for event in _only(got, Event)] == [MessageUnused.names[0]]


def test_an_impossible_temperature_costs_only_itself() -> None:
    device = _n100(messages=[ImuSample])
    packet = n100.ImuPacket((0.0,) * 3, (0.0, 0.0, -9.8), (0.0,) * 3, 1e6, 101_325.0, 20.0, 10_000)
    (sample,) = _only(_run(device, [n100.encode_imu(packet, 0)]), ImuSample)
    assert isnan(sample.temperature_k)
    assert device.usage.of("IMU").lost == {Loss(Unused.OUT_OF_RANGE, "temperature"): 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quaternion": (0.0, 0.0, 0.0, 0.0)}, Unused.ALL_ZERO),
        ({"quaternion": (0.9, 0.0, 0.0, 0.0)}, Unused.NOT_A_ROTATION),
        ({"quaternion": (2.0, 0.0, 0.0, 0.0)}, Unused.NOT_A_ROTATION),
        ({"quaternion": (float("nan"), 0.0, 0.0, 0.0)}, Unused.NOT_FINITE),
        ({"heading_rad": 0.0}, Unused.ALL_ZERO),
        ({"heading_rad": 40.0}, Unused.OUT_OF_RANGE),
        ({"pitch_rad": 2.0}, Unused.OUT_OF_RANGE),
        ({"roll_rad": float("inf")}, Unused.NOT_FINITE),
    ],
)
def test_an_attitude_that_is_none_is_no_heading(changes: dict[str, Any], reason: Unused) -> None:
    device = _n100(messages=[Heading])
    sound = n100.AhrsPacket((0.0,) * 3, 0.0, 0.0, 1.0, (1.0, 0.0, 0.0, 0.0), 10_000)
    got = _run(
        device,
        [
            n100.encode_ahrs(msgspec.structs.replace(sound, **changes), 0),
            n100.encode_ahrs(sound, 1),
        ],
    )
    assert len(_only(got, Heading)) == 1
    assert {loss.reason: count for loss, count in device.usage.of("AHRS").refused.items()} == {
        reason: 1
    }


def test_a_clock_that_stands_is_said_and_the_arrival_stands_in() -> None:
    device = _n100(messages=[ImuSample], latency_s=0.0)
    got = _run(device, [_imu(i) for i in range(100)])
    got = _run(device, [_imu(i, at_us=1_000_000) for i in range(100, 300)], start_ns=100 * PERIOD)
    samples = _only(got, ImuSample)
    assert [sample.t_ns for sample in samples[20:]] == [sample.t_rx_ns for sample in samples[20:]]
    assert [json.loads(event.fields) for event in _only(got, Event)] == [
        {"device": "n100", "active": True}
    ]


def test_a_clock_that_goes_back_is_a_restart() -> None:
    device = _n100(messages=[ImuSample], latency_s=0.0)
    _run(device, [_imu(i) for i in range(300)])
    got = _run(device, [_imu(i + 300, at_us=10_000 * i) for i in range(300)], start_ns=300 * PERIOD)
    assert device.clock is not None
    assert device.clock.resets == 1
    samples = _only(got, ImuSample)
    assert all(0 <= sample.t_rx_ns - sample.t_ns < 2 * MS for sample in samples)
    assert [event.name for event in _only(got, Event)] == ["imu_clock"]


def test_damaged_frames_are_counted() -> None:
    device = _n100(messages=[ImuSample])
    broken = bytearray(_imu(5))
    broken[20] ^= 1
    got = _run(device, [_imu(254), _imu(255), _imu(256), _imu(259), bytes(broken), _imu(261)])
    assert len(got) == 5
    assert device.bad_frames >= 1
    assert device.dropped_bytes == 64


def test_yaw_and_inertial_frames_share_a_clock_and_may_overtake_each_other() -> None:
    """The heading of a moment comes 7 ms later than its force and rate; both keep the time at which
    they were true."""
    device = _n100(latency_s=0.001)
    for i in range(300):
        true_ns = i * PERIOD
        later = n100.AhrsPacket(
            (0.0,) * 3, 0.0, 0.0, 0.1, (1.0, 0.0, 0.0, 0.0), 10_000 * (i - 1) if i else 0
        )
        (sample,) = device.on_rx(_imu(i), true_ns + MS)
        (heading,) = device.on_rx(n100.encode_ahrs(later, i), true_ns + 8 * MS)
        assert isinstance(sample, ImuSample)
        assert isinstance(heading, Heading)
        assert abs(sample.t_ns - true_ns) < MS // 10
        assert abs(heading.t_ns - max(0, true_ns - PERIOD)) < MS // 10
    assert device.clock is not None
    assert device.clock.resets == 0


# ------------------------------------------------------------------------------------------ heading


def test_heading_comes_only_when_asked_for() -> None:
    device = _n100(messages=[ImuSample])
    assert not _only(device.on_rx(_ahrs(0.5), 5 * MS), Heading)
    assert device.usage.of("AHRS").refused == {Loss(Unused.NOT_WANTED): 1}
    assert not _n100(messages=[Heading]).on_rx(_imu(), 5 * MS)
    (heading,) = _n100(heading_sigma_rad=0.1).on_rx(_ahrs(2 * pi), 5 * MS)
    assert isinstance(heading, Heading)
    assert (heading.t_ns, heading.t_rx_ns, heading.sigma_rad, heading.kind) == (
        4 * MS,
        5 * MS,
        0.1,
        HeadingKind.MAGNETIC,
    )
    assert heading.yaw_rad == pytest.approx(pi / 2)


@pytest.mark.parametrize("roll_rad", [0.0, pi, 0.4])
def test_heading_is_that_of_the_body(roll_rad: float) -> None:
    """A sensor whose x axis points to the left of the vehicle sees yaw a quarter turn larger,
    upright or not."""
    device = _n100(
        messages=[Heading], mounting_roll_rad=roll_rad, mounting_yaw_rad=pi / 2, yaw_offset_rad=0.05
    )
    (heading,) = device.on_rx(_ahrs(radians(10)), 0)
    assert isinstance(heading, Heading)
    assert heading.yaw_rad == pytest.approx(radians(80) - pi / 2 + 0.05, abs=1e-6)


def test_yaw_stays_within_half_a_turn() -> None:
    device = _n100(messages=[Heading], yaw_offset_rad=3.0)
    for i in range(16):
        (heading,) = device.on_rx(_ahrs((i + 1) * pi / 8, i), 0)
        assert isinstance(heading, Heading)
        assert -pi <= heading.yaw_rad < pi
        expected = pi / 2 - (i + 1) * pi / 8 + 3.0
        assert cos(heading.yaw_rad - expected) == pytest.approx(1.0)
        assert sin(heading.yaw_rad - expected) == pytest.approx(0.0, abs=1e-5)


# -------------------------------------------------------------------------------------------- stuck


def test_a_sensor_that_repeats_itself_is_one_episode() -> None:
    device = _n100(messages=[ImuSample])
    got = _run(device, [_imu(i) for i in range(50)])
    assert len(got) == 50
    got = _run(device, [_imu(50, at_us=10_000 * i) for i in range(50, 200)], start_ns=50 * PERIOD)
    (fault,) = _only(got, Fault)
    assert (fault.code, fault.origin, fault.reaction, fault.active) == (
        "imu_stuck",
        "n100",
        Reaction.CONTROLLED_STOP,
        True,
    )
    assert fault.t_ns == (50 + 51) * PERIOD
    assert len(_only(got, ImuSample)) == 51
    assert device.stuck
    assert device.stuck_samples == 99
    got = _run(device, [_imu(i) for i in range(200, 260)], start_ns=200 * PERIOD)
    assert [fault.active for fault in _only(got, Fault)] == [False]
    assert len(_only(got, ImuSample)) == 60


def test_one_field_that_stands_still_is_no_stuck_sensor() -> None:
    device = _n100(messages=[ImuSample])
    still_force = [_imu(i) for i in range(200)]  # only the gyro moves
    still_gyro = [
        _imu(7 * i, force=(0.01 * (i % 5), 0.0, -9.81), at_us=10_000 * i) for i in range(200, 400)
    ]
    got = _run(device, still_force + still_gyro)
    assert len(got) == 400
    assert not _only(got, Fault)


def test_twenty_periods_of_a_slow_sensor_are_longer_than_half_a_second() -> None:
    device = _n100(messages=[ImuSample], rate_hz=10)
    slow = 10 * PERIOD
    assert not _only(
        _run(device, [_imu(0, at_us=100_000 * i) for i in range(21)], period_ns=slow), Fault
    )
    assert _only(device.on_rx(_imu(0, at_us=2_100_000), 21 * slow), Fault)


def test_the_same_value_before_and_after_a_silence_is_not_stuck() -> None:
    device = _n100(messages=[ImuSample])
    got = [
        *device.on_rx(_imu(3), 0),
        *device.on_rx(_imu(3, at_us=900_000), 900 * MS),
        *device.on_rx(_imu(3), 910 * MS),
    ]
    assert [type(message) for message in got] == [ImuSample] * 3


def test_a_silence_does_not_end_the_episode() -> None:
    device = _n100(messages=[ImuSample])
    _run(device, [_imu(0, at_us=10_000 * i) for i in range(60)])
    assert device.stuck
    assert not device.on_rx(_imu(0, at_us=3_000_000), 3000 * MS)
    assert device.stuck


def test_a_yaw_that_moves_does_not_excuse_the_sensors() -> None:
    """The filter of a device with one frame for all goes on turning when its sensors hang."""

    class Codec:
        protocols = n100.N100Codec.protocols
        usage = MessageUsage()
        wants_heading = True
        yaw_rad = 0.0

        def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
            self.yaw_rad += 0.001
            return (Sample(None, (0.0, 0.0, 9.81), (0.0, 0.0, 0.1), self.yaw_rad),)

        def reset(self) -> None: ...

    device = ImuDevice(n100.N100Params(), [ImuSample, Heading], 1, Codec())
    got = _run(device, [_imu(i) for i in range(60)])
    assert len(_only(got, Fault)) == 1
    assert len(_only(got, Heading)) == len(_only(got, ImuSample)) == 51


def test_reopening_ends_the_episode_and_keeps_the_counts() -> None:
    device = _n100(messages=[ImuSample])
    _run(device, [_imu(0, at_us=10_000 * i) for i in range(60)])
    device.on_rx(b"\xfc\x40", 600 * MS)
    assert device.stuck
    assert not device.on_port(PortState.LOST, "unplugged", 700 * MS)
    (fault,) = device.on_port(PortState.OPENED, "", 800 * MS)
    assert isinstance(fault, Fault)
    assert (fault.t_ns, fault.active) == (800 * MS, False)
    assert (device.stuck_samples, device.dropped_bytes) == (9, 2)
    (sample,) = device.on_rx(_imu(0), 900 * MS)
    assert sample.t_rx_ns - sample.t_ns == MS  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------------- rate


def _events(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [
        {"level": event.level, "name": event.name, **json.loads(event.fields)}
        for event in _only(messages, Event)
    ]


def test_a_rate_other_than_declared_is_one_episode() -> None:
    device = _n100(messages=[ImuSample], rate_hz=100)
    right = _run(device, [_imu(i) for i in range(401)])
    assert not _events(right)
    slow = _run(
        device,
        [_imu(i, at_us=20_000 * i) for i in range(201, 701)],
        start_ns=4_020 * MS,
        period_ns=2 * PERIOD,
    )
    assert _events(slow) == [
        {
            "level": "warning",
            "name": "imu_rate",
            "device": "n100",
            "active": True,
            "measured_hz": 50.0,
            "expected_hz": 100.0,
        }
    ]
    again = _run(device, [_imu(i) for i in range(1402, 2000)], start_ns=14_020 * MS)
    assert [(event["name"], event["active"]) for event in _events(again)] == [("imu_rate", False)]


def test_a_rate_at_the_edge_is_not_reported_over_and_over() -> None:
    device = _n100(messages=[ImuSample], rate_hz=100)
    messages: list[Message] = []
    t_ns = i = 0
    for rate_hz in (88, 91, 89, 91, 95):
        for _ in range(3 * rate_hz):
            i += 1
            t_ns += 10**9 // rate_hz
            messages += device.on_rx(_imu(i, at_us=t_ns // 1000), t_ns)
    assert [event["active"] for event in _events(messages)] == [True, False]


def test_a_pause_is_not_a_wrong_rate() -> None:
    device = _n100(messages=[ImuSample])
    got = []
    for burst in range(6):
        got += _run(
            device,
            [_imu(i, at_us=10_000 * (400 * burst + i)) for i in range(150)],
            start_ns=burst * 400 * PERIOD,
        )
    assert not _events(got)


# ---------------------------------------------------------------------------------------- WitMotion


def _measurement(i: int, *, time: bool = True) -> list[bytes]:
    clock = [witmotion.Time(2025, 1, 1, 0, 0, i // 100, 10 * i % 1000)] if time else []
    packets: list[witmotion.Packet] = [
        *clock, witmotion.Acceleration((0.0, 0.01 * (i % 9), 9.81), 300.0),
        witmotion.Gyro((0.1, 0.0, 0.01 * (i % 7))), witmotion.Angle(0.0, 0.0, 0.5),
    ]  # fmt: skip
    return [witmotion.encode(packet) for packet in packets]


def _witmotion(
    messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any
) -> witmotion.WitMotionDevice:
    return witmotion.WitMotionDevice(
        msgspec.convert(params, witmotion.WitMotionParams), messages, 50 * MS
    )


def test_witmotion_assembles_a_sample_of_several_frames() -> None:
    device = _witmotion(latency_s=0.001)
    time, force, rate, angle = _measurement(3)
    assert not device.on_rx(time + force, 10 * MS)
    (sample,) = device.on_rx(rate, 11 * MS)
    assert isinstance(sample, ImuSample)
    assert sample.specific_force_mps2 == pytest.approx((0.0, 0.03, 9.81), abs=0.003)
    assert sample.angular_rate_radps == pytest.approx((0.1, 0.0, 0.03), abs=6e-4)
    assert sample.temperature_k == pytest.approx(300.0)
    (heading,) = device.on_rx(angle, 12 * MS)
    assert isinstance(heading, Heading)
    assert heading.yaw_rad == pytest.approx(0.5, abs=1e-4)


def test_witmotion_never_joins_halves_of_two_measurements() -> None:
    device = _witmotion(messages=[ImuSample])
    first, second, third = (_measurement(i, time=False) for i in range(3))
    got = device.on_rx(first[0] + second[1] + second[0] + third[0] + third[1] + third[1], 0)
    assert len(_only(got, ImuSample)) == 2
    assert (
        device.usage.of("ACCELERATION").refused
        == device.usage.of("GYRO").refused
        == {Loss(Unused.INCOMPLETE): 1}
    )
    # The first pair stands side by side as one would; the acceleration of the second measurement
    # found no gyro.
    assert device.incomplete == 2


def test_witmotion_takes_time_from_the_device_where_it_gives_any() -> None:
    with_time = _witmotion(messages=[ImuSample], latency_s=0.0)
    without = _witmotion(messages=[ImuSample], latency_s=0.0)
    late = [0, 0, 4 * MS, 1 * MS]
    stamps: dict[bool, list[int]] = {True: [], False: []}
    for i in range(400):
        arrival = 10**9 + i * PERIOD + late[i % 4]
        for time, device in ((True, with_time), (False, without)):
            (sample,) = _only(
                device.on_rx(b"".join(_measurement(i, time=time)), arrival), ImuSample
            )
            stamps[time].append(sample.t_ns - 10**9 - i * PERIOD)
    assert max(map(abs, stamps[True][100:])) < MS // 2
    assert stamps[False] == [late[i % 4] for i in range(400)]


def test_witmotion_measurement_without_its_time_is_not_given_that_of_another() -> None:
    device = _witmotion(messages=[ImuSample], latency_s=0.0)
    _run(device, [b"".join(_measurement(i)) for i in range(100)])
    (sample,) = device.on_rx(b"".join(_measurement(100, time=False)), 100 * PERIOD)
    assert isinstance(sample, ImuSample)
    assert sample.t_ns == 100 * PERIOD


def test_witmotion_forgets_half_a_measurement_when_reopened() -> None:
    device = _witmotion()
    force, rate, _ = _measurement(1, time=False)
    device.on_rx(force, 0)
    device.on_port(PortState.OPENED, "", 1)
    assert not _only(device.on_rx(rate, 2), ImuSample)


def test_witmotion_time_passes_midnight() -> None:
    device = _witmotion(messages=[ImuSample], latency_s=0.0)
    for i in range(200):
        ms = (23 * 3600 + 59 * 60 + 59) * 1000 + 10 * i
        hour, minute, second = ms // 3_600_000 % 24, ms // 60_000 % 60, ms // 1000 % 60
        time = witmotion.encode(
            witmotion.Time(2025, 1, 31 if ms < 86_400_000 else 1, hour, minute, second, ms % 1000)
        )
        (sample,) = _only(
            device.on_rx(time + b"".join(_measurement(i, time=False)), i * PERIOD), ImuSample
        )
        assert abs(sample.t_ns - i * PERIOD) < MS
    assert device.clock is not None
    assert device.clock.resets == 0


def _times(p: Sequence[float], q: Sequence[float]) -> tuple[float, ...]:
    (a, b, c, d), (e, f, g, h) = p, q
    return (
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    )


def test_witmotion_quaternion_stands_in_for_missing_angles() -> None:
    device = _witmotion(messages=[Heading])
    yaw, pitch, roll = (radians(angle) / 2 for angle in (60, 20, -35))
    turned = _times(
        (cos(yaw), 0.0, 0.0, sin(yaw)),
        _times((cos(pitch), 0.0, sin(pitch), 0.0), (cos(roll), sin(roll), 0.0, 0.0)),
    )
    quaternion = witmotion.encode(witmotion.Quaternion(*turned))
    force, rate, angle = _measurement(1, time=False)
    for _ in range(2):
        (heading,) = device.on_rx(force + rate + quaternion, 0)
        assert isinstance(heading, Heading)
        assert heading.yaw_rad == pytest.approx(radians(60), abs=1e-4)
        assert len(_only(device.on_rx(force + rate + angle + quaternion, 0), Heading)) == 1
    assert device.usage.of("QUATERNION").refused == {Loss(Unused.DUPLICATE): 2}


@pytest.mark.parametrize(
    "quaternion", [(0.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), (0.99, 0.5, 0.0, 0.0)]
)
def test_witmotion_quaternion_that_is_no_rotation_is_no_heading(
    quaternion: tuple[float, ...],
) -> None:
    device = _witmotion(messages=[Heading])
    assert not _only(device.on_rx(witmotion.encode(witmotion.Quaternion(*quaternion)), 0), Heading)
    assert device.usage.of("QUATERNION").used == 0


def test_bno08x_yaw_beyond_half_a_turn_is_none() -> None:
    device = bno08x.Bno08xDevice(bno08x.Bno08xParams(), [Heading], 50 * MS)
    frame = bytearray(bno08x.encode(bno08x.RvcPacket(1, 1.0, 0.0, 0.0, (0.0, 0.0, 9.8))))
    frame[3:5] = (18_001).to_bytes(2, "little")
    frame[18] = sum(frame[2:18]) & 0xFF
    assert not _only(device.on_rx(bytes(frame), 0), Heading)
    assert device.usage.of("RVC").lost == {Loss(Unused.OUT_OF_RANGE, "yaw"): 1}


def test_witmotion_is_set_up_step_by_step_when_wanted() -> None:
    quiet = _witmotion()
    quiet.on_port(PortState.OPENED, "", 0)
    assert quiet.next_due_ns() == NEVER_NS
    device = _witmotion(configure=True, rate_hz=200)
    device.on_port(PortState.OPENED, "", 5)
    sent = []
    while (due := device.next_due_ns()) != NEVER_NS:
        device.on_time(due)
        (action,) = device.take_tx()
        assert isinstance(action, Send)
        assert action.deadline_ns == due + 50 * MS
        sent.append((due, action.data.hex()))
    assert sent == [(5, "ffaa6988b5"), (5 + 100 * MS, "ffaa020f00"), (5 + 200 * MS, "ffaa030b00")]
    device.on_port(PortState.OPENED, "", 10**9)
    device.on_port(PortState.LOST, "", 2 * 10**9)
    assert device.next_due_ns() == NEVER_NS


# ------------------------------------------------------------------------------------------- BNO08x


def _rvc(i: int, **changes: Any) -> bytes:
    values = {
        "yaw_rad": 0.25,
        "pitch_rad": 0.0,
        "roll_rad": 0.0,
        "specific_force_mps2": (0.0, 0.01 * (i % 7), 9.81),
        **changes,
    }
    return bno08x.encode(bno08x.RvcPacket(i, **values))


def _bno08x(
    messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any
) -> bno08x.Bno08xDevice:
    return bno08x.Bno08xDevice(msgspec.convert(params, bno08x.Bno08xParams), messages, 50 * MS)


def test_bno08x_gives_no_rate_and_does_not_pretend() -> None:
    sample, heading = _bno08x().on_rx(_rvc(1), 20 * MS)
    assert isinstance(sample, ImuSample)
    assert isinstance(heading, Heading)
    assert all(map(isnan, sample.angular_rate_radps))
    assert isnan(sample.temperature_k)
    assert sample.specific_force_mps2 == pytest.approx((0.0, 0.01, 9.81), abs=0.005)
    assert heading.kind is HeadingKind.INERTIAL
    assert heading.yaw_rad == pytest.approx(0.25, abs=1e-4)
    (_, other) = _bno08x(yaw_positive="right").on_rx(_rvc(1), 20 * MS)
    assert isinstance(other, Heading)
    assert other.yaw_rad == pytest.approx(-0.25, abs=1e-4)


def test_bno08x_index_is_a_clock_that_wraps() -> None:
    """Late arrivals, lost frames, and a silence of more than one turn of the index leave the time
    of validity where it was."""
    device = _bno08x(messages=[ImuSample], latency_s=0.008)
    arriving = [i for i in range(1500) if i % 100 != 50 and not 700 <= i < 1200]
    for i in arriving:
        (sample,) = device.on_rx(_rvc(i), (8 + i % 3) * MS + i * PERIOD)
        assert isinstance(sample, ImuSample)
        assert abs(sample.t_ns - i * PERIOD) < MS // 2
    assert device.clock is not None
    assert device.clock.resets == 0


def test_bno08x_stuck_needs_yaw_and_acceleration() -> None:
    turning = [_rvc(0, yaw_rad=0.01 * i) for i in range(150)]
    assert not _only(_run(_bno08x(), turning), Fault)
    assert len(_only(_run(_bno08x(), [_rvc(0)] * 150), Fault)) == 1


@pytest.mark.parametrize(
    "params", [n100.N100Params, witmotion.WitMotionParams, bno08x.Bno08xParams]
)
def test_unknown_and_impossible_parameters_are_refused(params: type[Any]) -> None:
    for wrong in ({"rate": 100}, {"rate_hz": 0}, {"mounting_yaw_rad": 90}, {"latency_s": -1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, params)

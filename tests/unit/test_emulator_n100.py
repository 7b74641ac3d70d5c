"""The emulated inertial unit and the real driver: what was measured comes through, on a clock that
is not ours."""

from math import pi, remainder, sin, tau
from typing import Any

import pytest

from drivers.imu.n100 import N100Device, N100Params, decode
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.n100 import BAUD, n100
from tests.emulator_bench import MS, SECOND, START, Bench, table
from vehicled.core.messages import Heading, ImuSample, Message

PERIOD = 2_500_000


def imu(k: int) -> ImuSample:
    wave = sin(0.01 * k)
    return ImuSample(
        START + k * PERIOD, 0, (0.3 + wave, -0.2 * wave, 9.80665), (0.01, -0.02 * wave, 0.5 * wave)
    )


def samples(count: int) -> list[tuple[int, ImuSample]]:
    return [((one := imu(k)).t_ns + MS // 2, one) for k in range(1, count)]


def headings(count: int) -> list[tuple[int, Heading]]:
    return [
        (
            START + k * 50 * MS + 5 * MS,
            Heading(START + k * 50 * MS, 0, remainder(0.1 * k, tau), 0.01),
        )
        for k in range(1, count)
    ]


def bench(
    params: N100Params, messages: tuple[str, ...] = ("ImuSample",), port: str = "", seed: int = 3
) -> Bench:
    known: dict[str, type[Message]] = {"ImuSample": ImuSample, "Heading": Heading}
    kinds = [known[name] for name in messages]
    return Bench(
        n100("imu", table("n100", params, messages, port), seed, START),
        N100Device(params, kinds, SECOND),
    )


def test_samples_come_through_as_they_were() -> None:
    found = bench(N100Params(rate_hz=400.0))
    sent = samples(4000)
    found.run(START + 10 * SECOND, sent)
    got = found.of(ImuSample)
    assert len(got) >= 3990
    assert isinstance(found.driver, N100Device)
    assert found.driver.bad_frames == 0
    assert found.reported() == []
    for (_, true), one in zip(sent, got):
        assert one.specific_force_mps2 == pytest.approx(true.specific_force_mps2, abs=1e-5)
        assert one.angular_rate_radps == pytest.approx(true.angular_rate_radps, abs=1e-6)
        assert abs(one.t_ns - true.t_ns) < 2 * MS


def test_its_clock_is_its_own() -> None:
    found = bench(N100Params(rate_hz=400.0))
    found.run(START + SECOND, samples(400))
    stamps = [packet.timestamp_us for name, packet in decode(found.received) if name == "IMU"]  # type: ignore[attr-defined]
    assert stamps[0] > 1_000_000
    rate_ppm = 1e6 * ((stamps[-1] - stamps[0]) / (398 * 2500) - 1.0)
    assert 0.1 < abs(rate_ppm) < 100.0


def test_attitude_comes_with_every_sample_and_turns_with_the_gyro() -> None:
    found = bench(N100Params(rate_hz=400.0))
    turning = [
        (one.t_ns, ImuSample(one.t_ns, 0, one.specific_force_mps2, (0.0, 0.0, 0.5)))
        for _, one in samples(401)
    ]
    found.run(START + 2 * SECOND, turning)
    packets = list(decode(found.received))
    assert [name for name, _ in packets[:4]] == ["IMU", "AHRS", "IMU", "AHRS"]
    attitude: Any = packets[-1][1]
    # A turn to the left lowers the heading, which counts clockwise.
    assert remainder(pi / 2 - attitude.heading_rad, tau) == pytest.approx(0.5, abs=1e-3)
    assert attitude.rates_radps[2] == pytest.approx(-0.5)


def test_a_heading_of_the_profile_goes_out_as_attitude() -> None:
    found = bench(N100Params(rate_hz=400.0, yaw_offset_rad=-0.4), ("ImuSample", "Heading"))
    found.run(START + 5 * SECOND, [*samples(2000), *headings(100)])
    got = found.of(Heading)
    assert len(got) >= 98
    for (_, true), one in zip(headings(100), got):
        assert remainder(one.yaw_rad - true.yaw_rad, tau) == pytest.approx(0.0, abs=1e-5)
        assert abs(one.t_ns - true.t_ns) < 6 * MS


@pytest.mark.parametrize("angles", [(0.0, 0.0, pi / 2), (pi, 0.0, 0.0), (0.1, -0.2, 2.9)])
def test_a_case_that_is_mounted_askew_measures_in_its_own_axes(
    angles: tuple[float, float, float],
) -> None:
    roll, pitch, yaw = angles
    params = N100Params(
        rate_hz=400.0, mounting_roll_rad=roll, mounting_pitch_rad=pitch, mounting_yaw_rad=yaw
    )
    found = bench(params, ("ImuSample", "Heading"))
    sent = samples(100)
    found.run(START + SECOND, [*sent, *headings(5)])
    for (_, true), one in zip(sent, found.of(ImuSample)):
        assert one.specific_force_mps2 == pytest.approx(true.specific_force_mps2, abs=1e-5)
        assert one.angular_rate_radps == pytest.approx(true.angular_rate_radps, abs=1e-6)
    for (_, true_yaw), one in zip(headings(5), found.of(Heading)):
        assert remainder(one.yaw_rad - true_yaw.yaw_rad, tau) == pytest.approx(0.0, abs=1e-5)
    packet: Any = next(packet for name, packet in decode(found.received) if name == "IMU")
    assert packet.accelerometer_mps2 != pytest.approx(
        (sent[0][1].specific_force_mps2[0], 0.0, -9.80665), abs=1e-3
    )


def test_a_port_opened_at_another_rate_receives_noise() -> None:
    found = bench(N100Params(rate_hz=400.0), port="serial:/dev/ttyUSB0?baud=115200")
    found.run(START + SECOND, samples(400))
    assert found.of(ImuSample) == []
    sound = bench(N100Params(rate_hz=400.0), port=f"serial:/dev/ttyUSB0?baud={BAUD}")
    sound.run(START + SECOND, samples(400))
    assert len(sound.of(ImuSample)) > 390


def test_a_restart_begins_its_clock_anew_and_the_driver_follows() -> None:
    found = bench(N100Params(rate_hz=400.0))
    sent = samples(4000)
    found.run(START + 3 * SECOND, sent[:1199])
    assert isinstance(found.emulator, SerialLine)
    found.emulator.restart(found.now_ns)
    before = len(found.of(ImuSample))
    found.run(START + 10 * SECOND, sent[1199:])
    after = found.of(ImuSample)[before:]
    assert len(after) > 2700
    assert max(one.t_rx_ns - one.t_ns for one in after[100:]) < 5 * MS


def test_the_same_seed_gives_the_same_bytes() -> None:
    def once(seed: int) -> list[tuple[int, bytes]]:
        found = bench(N100Params(rate_hz=400.0), seed=seed)
        found.run(START + SECOND, samples(400))
        return found.arrivals

    assert once(1) == once(1)
    assert once(1) != once(2)

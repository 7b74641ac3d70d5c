"""Noise that is added to what a real sensor measures: its forms, in time, and marked."""

import json
from collections.abc import Sequence
from math import pi, sqrt

import numpy as np
import pytest

from vehicled.core.messages import (
    Event,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    MapMatch,
    MapPose,
    Message,
    PortState,
    ReferenceState,
)
from vehicled.core.ports import NEVER_NS, Device
from vehicled.daemon.app import make_device
from vehicled.daemon.noise import NoisyDevice, PositionNoise
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.profile.noise import SensorNoise, injected
from vehicled.profile.notes import noise_of
from vehicled.profile.problems import ProfileError

STEP_NS = 100_000_000
START_NS = 10**9


class Source(Device):
    """A device that gives the messages of a test."""

    produces = (GnssFix, Heading, MapPose)

    def __init__(self) -> None:
        self.next: Sequence[Message] = ()
        self.counted = 7

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        return self.next


def fix(t_ns: int, east: float = 0.0, north: float = 0.0) -> GnssFix:
    lat, lon, height = LOT_17.to_geodetic(east, north, 0.0)
    return GnssFix(
        t_ns, t_ns, lat, lon, height, (1.0, 0.0, 0.0), (1e-4, 0, 0, 0, 1e-4, 0, 0, 0, 1e-4),
        fix_type=FixType.FIX_3D,
    )  # fmt: skip


def pose(t_ns: int) -> MapPose:
    covariance = (1e-6, 0.0, 0.0, 0.0, 1e-6, 0.0, 0.0, 0.0, 1e-6)
    return MapPose(t_ns, t_ns, 1.0, 2.0, 0.5, covariance, 1.0, MapMatch.MATCHED)


def passed(noise: SensorNoise, messages: Sequence[Message], name: str = "mocap") -> list[Message]:
    source = Source()
    device = NoisyDevice(source, noise, name)
    found: list[Message] = []
    for message in messages:
        source.next = (message,)
        t_ns = message.t_ns  # type: ignore[attr-defined]
        while device.next_due_ns() <= t_ns:
            found += device.on_time(device.next_due_ns())
        found += device.on_rx(b"", t_ns)
    return found


def errors(noise: SensorNoise, count: int, step_ns: int = STEP_NS) -> np.ndarray:
    found = PositionNoise(noise, "mocap")
    return np.array([found.at(START_NS + i * step_ns) for i in range(count)])


# -------------------------------------------------------------------- forms


def test_white_noise_has_its_sigma_and_no_memory() -> None:
    found = errors(SensorNoise(position="gauss"), 20_000)[:, 0]
    assert found.std() == pytest.approx(0.03, rel=0.03)
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.03


def test_coloured_noise_has_its_sigma_and_its_time() -> None:
    noise = SensorNoise(position="walk")
    found = np.concatenate(
        [errors(SensorNoise(position="walk", seed=s), 2000)[:, 0] for s in range(60)]
    )
    assert found.std() == pytest.approx(sqrt(0.1**2 + 0.3**2), rel=0.08)
    own = errors(noise, 50_000)[:, 0]
    lag = 100  # ten seconds
    rho = np.mean(own[lag:] * own[:-lag]) / 0.09
    assert rho == pytest.approx(np.exp(-10.0 / 30.0), abs=0.15)


@pytest.mark.parametrize(("form", "settled"), [("art_inner", 0.25), ("random_walk", 0.103)])
def test_walks_settle_where_the_simulators_do(form: str, settled: float) -> None:
    """The steady state was found by simulation of the twin's receiver, which has its own code."""
    found = [errors(SensorNoise(position=form, seed=s), 3)[-1] for s in range(2)]  # type: ignore[arg-type]
    assert np.abs(found).max() < settled, "they start at zero"
    late = [
        errors(SensorNoise(position=form, seed=s), 40, 5 * 10**9)[10:].ravel()  # type: ignore[arg-type]
        for s in range(30)
    ]
    assert np.concatenate(late).std() == pytest.approx(settled, rel=0.15)


@pytest.mark.parametrize("form", ["walk", "art_inner", "art_judge", "art_simulator"])
def test_noise_advances_with_time_and_not_with_who_reads_it(form: str) -> None:
    noise = SensorNoise(position=form, seed=3)  # type: ignore[arg-type]
    if form == "walk":
        rare, often = errors(noise, 4000, 10**9), errors(noise, 4000, 10**7)
        moved = [np.abs(np.diff(each[:, 0])).mean() for each in (often, rare)]
        assert moved[0] < moved[1] * 1.5
        return
    rare, often = errors(noise, 21, 10**9), errors(noise, 2001, 10**7)
    assert rare == pytest.approx(often[::100], abs=1e-12)


def test_a_walk_after_a_long_silence_costs_little_and_has_forgotten() -> None:
    noise = PositionNoise(SensorNoise(position="art_judge"), "mocap")
    noise.at(START_NS)
    assert np.isfinite(noise.at(START_NS + 10**9 * 86_400)).all()
    assert np.isfinite(noise.at(START_NS)).all(), "time that goes back changes nothing"


# -------------------------------------------------------------------- messages


def test_a_fix_is_moved_and_says_how_uncertain_it_is() -> None:
    noise = SensorNoise(position="gauss", velocity_sigma_mps=0.1)
    found = passed(noise, [fix(START_NS + i * STEP_NS, 5.0, -3.0) for i in range(4000)])
    places = np.array(
        [LOT_17.to_enu(f.latitude_rad, f.longitude_rad, f.height_m)[:2] for f in found]  # type: ignore[attr-defined]
    )
    assert places.mean(axis=0) == pytest.approx((5.0, -3.0), abs=0.003)
    assert places.std(axis=0) == pytest.approx((0.03, 0.03), rel=0.05)
    last = found[-1]
    assert isinstance(last, GnssFix)
    assert last.position_covariance_m2[0] == pytest.approx(1e-4 + 0.03**2)
    assert last.velocity_covariance_m2ps2[0] != last.velocity_covariance_m2ps2[0], (
        "not known before"
    )
    speeds = np.array([f.velocity_enu_mps[0] for f in found])  # type: ignore[attr-defined]
    assert speeds.std() == pytest.approx(0.1, rel=0.05)


def test_a_pose_is_moved_and_turned() -> None:
    noise = SensorNoise(position="gauss", yaw_sigma_rad=0.02)
    found = passed(noise, [pose(START_NS + i * STEP_NS) for i in range(3000)])
    table = np.array([(p.x_m, p.y_m, p.yaw_rad) for p in found])  # type: ignore[attr-defined]
    assert table.mean(axis=0) == pytest.approx((1.0, 2.0, 0.5), abs=0.003)
    assert table.std(axis=0) == pytest.approx((0.03, 0.03, 0.02), rel=0.06)
    last = found[-1]
    assert isinstance(last, MapPose)
    assert last.covariance[8] == pytest.approx(1e-6 + 0.02**2)


def test_a_sensor_that_does_not_know_its_error_keeps_its_covariance() -> None:
    noise = SensorNoise(position="gauss", yaw_sigma_rad=0.02, declared=False)
    (found,) = passed(noise, [pose(START_NS)])
    assert isinstance(found, MapPose)
    assert found.covariance == pose(START_NS).covariance


def test_headings_drift_wrap_and_are_rounded() -> None:
    noise = SensorNoise(yaw_drift_rad=0.1, yaw_step_rad=0.01)
    found = passed(
        noise, [Heading(START_NS + i * STEP_NS, 0, pi - 0.01, 0.005) for i in range(600)]
    )
    yaws = np.array([h.yaw_rad for h in found])  # type: ignore[attr-defined]
    assert np.abs(yaws).max() <= pi
    assert yaws.min() < 0.0 < yaws.max()
    steps = yaws / 0.01
    off = np.abs(steps - np.round(steps))
    turned = np.abs((yaws + 2 * pi) / 0.01 - np.round((yaws + 2 * pi) / 0.01))
    assert np.minimum(off, turned).max() < 1e-6


def test_positions_are_rounded_to_the_step() -> None:
    (found,) = passed(SensorNoise(step_m=0.25), [pose(START_NS)])
    assert isinstance(found, MapPose)
    assert (found.x_m, found.y_m) == (1.0, 2.0)
    (moved,) = passed(SensorNoise(step_m=0.4), [pose(START_NS)])
    assert isinstance(moved, MapPose)
    assert (moved.x_m, moved.y_m) == pytest.approx((0.8, 2.0))


def test_a_delay_keeps_the_stamp_and_moves_the_arrival() -> None:
    source = Source()
    device = NoisyDevice(source, SensorNoise(delay_s=0.15), "mocap")
    source.next = (pose(START_NS),)
    assert list(device.on_rx(b"", START_NS)) == []
    assert device.next_due_ns() == START_NS + 150_000_000
    assert list(device.on_time(START_NS + 149_999_999)) == []
    (found,) = device.on_time(START_NS + 150_000_000)
    assert isinstance(found, MapPose)
    assert (found.t_ns, found.t_rx_ns) == (START_NS, START_NS + 150_000_000)
    assert device.next_due_ns() == NEVER_NS
    device.on_rx(b"", START_NS + 10**9)
    device.on_port(PortState.LOST, "", START_NS + 10**9)
    assert device.next_due_ns() == NEVER_NS


def test_a_rate_keeps_one_message_of_each_type_for_each_period() -> None:
    messages: list[Message] = []
    for i in range(100):
        t_ns = START_NS + i * 10_000_000
        messages += [fix(t_ns), Heading(t_ns, t_ns, 0.1, 0.01)]
    found = passed(SensorNoise(rate_hz=10.0), messages)
    assert [type(each) for each in found].count(GnssFix) == 10
    assert [type(each) for each in found].count(Heading) == 10


def test_truth_and_everything_else_pass_untouched() -> None:
    state = ReferenceState(START_NS, START_NS, 0.7, -1.5, 0.0, (0.0, 0.0, 0.0), 0.0, 0.0, 0.1)
    sample = ImuSample(START_NS, START_NS, (0.0, 0.0, 9.8), (0.0, 0.0, 0.1))
    noise = SensorNoise(position="gauss", yaw_sigma_rad=0.5, delay_s=1.0)
    assert passed(noise, [state, sample]) == [state, sample]


def test_equal_seeds_give_equal_noise_and_ports_differ() -> None:
    messages = [fix(START_NS + i * STEP_NS) for i in range(50)]
    noise = SensorNoise(position="art_inner", seed=5)
    assert passed(noise, messages) == passed(noise, messages)
    assert passed(noise, messages) != passed(noise, messages, "gnss")
    assert passed(noise, messages) != passed(SensorNoise(position="art_inner", seed=6), messages)


# -------------------------------------------------------------------- marks


def test_the_log_says_that_noise_is_injected_whenever_the_port_opens() -> None:
    device = NoisyDevice(Source(), SensorNoise(position="art_inner", delay_s=0.1), "mocap")
    (event,) = device.on_port(PortState.OPENED, "", START_NS)
    assert isinstance(event, Event)
    assert (event.level, event.name) == ("warning", "noise_injected")
    assert json.loads(event.fields) == {
        "device": "mocap", "noise": "position art_inner, delay_s 0.1",
    }  # fmt: skip
    assert device.counted == 7


def test_without_the_switch_nothing_is_added() -> None:
    quiet, noisy = load_profile("art_mocap"), load_profile("art_mocap", ["inject_noise=true"])
    assert injected(quiet) == ""
    assert injected(noisy) == "mocap: position art_inner, yaw_sigma_rad 0.03"
    for profile, kind in ((quiet, "NatNetDevice"), (noisy, "NoisyDevice")):
        device = make_device("mocap", profile.devices, "wires", noisy=profile.inject_noise)
        assert type(device).__name__ == kind
    assert list(noise_of(quiet)) == []
    (note,) = noise_of(noisy)
    assert note.level == "warning"


def test_to_inject_what_is_not_stated_is_an_error() -> None:
    (note,) = noise_of(load_profile("f1tenth", ["inject_noise=true"]))
    assert note.level == "error"
    assert "[devices.NAME.noise]" in note.message


def test_noise_belongs_to_a_device_that_measures_a_pose() -> None:
    with pytest.raises(ProfileError, match="noise can be added"):
        load_profile("art_mocap", ["devices.imu.noise.position=gauss"])

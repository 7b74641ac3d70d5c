"""The world on wires: the profile's devices behind their lines, and nothing that depends on when it
is asked."""

from collections import Counter

import pytest
from msgspec.structs import replace

from drivers.imu.n100 import N100Device, N100Params
from drivers.imu.n100 import decode as decode_n100
from drivers.pwm_board.codec import Pulses, encode
from drivers.pwm_board.device import PwmParams
from drivers.ublox import keys
from drivers.ublox.codec import decode
from drivers.ublox.codec import encode as encode_ubx
from drivers.ublox.device import UbloxDevice
from drivers.ublox.keys import CfgValset
from drivers.ublox.settings import Params
from sim_backend.emulators.failures import Failure, FailureError
from sim_backend.emulators.registry import UnknownEmulatorError, check_emulators
from sim_backend.world import Arrival, World, port_names
from tests.emulator_bench import MS, SECOND, START
from vehicled.core.messages import GnssFix, ImuSample, PortState
from vehicled.core.ports import Device as Driver
from vehicled.core.ports import Send
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import Profile, load_profile
from vehicled.profile.schema import Choice, DeviceTable


def choice(name: str, params: object) -> Choice:
    return Choice(name=name, params={name: params})


@pytest.fixture(scope="module")
def profile() -> Profile:
    """ART with the devices that the vehicle has."""
    art = load_profile("art_published")
    wired: dict[str, Choice] = {
        "gnss": choice("ublox", Params(rate_hz=10.0)),
        "heading": choice("ublox", Params(rate_hz=20.0)),
        "imu": choice("n100", N100Params(rate_hz=400.0)),
        "drive": choice("pwm_board", PwmParams()),
    }
    devices: dict[str, DeviceTable] = {
        name: replace(device, driver=wired[name]) if name in wired else device
        for name, device in art.devices.items()
    }
    return replace(art, devices=devices)


@pytest.fixture(scope="module")
def course() -> Course:
    return load_course("circle_r5_ccw")


def drive(world: World, profile: Profile, instants: list[int], until_ns: int) -> list[Arrival]:
    """Advance by ``instants`` with frames at 20 Hz, off the physics grid, each delivered before
    time passes it."""
    port = port_names(profile).index("drive")
    frames = [
        (START + 50 * MS * k + 300_000, encode(Pulses(1450 + 20 * (k % 9 - 4), 1440), 4))
        for k in range(100)
    ]
    arrivals: list[Arrival] = []
    for to_ns in [*instants, until_ns]:
        while frames and frames[0][0] < to_ns:
            t_ns, data = frames.pop(0)
            world.on_frame(port, t_ns, data)
        arrivals += world.advance(to_ns)
    return arrivals


def by_port(profile: Profile, arrivals: list[Arrival]) -> dict[str, bytes]:
    names = port_names(profile)
    found: dict[str, bytes] = {}
    for _, port, data in arrivals:
        found[names[port]] = found.get(names[port], b"") + data
    return found


def test_every_device_speaks_its_own_wire(profile: Profile, course: Course) -> None:
    arrivals = drive(World(profile, course, 1, START, wires=True), profile, [], START + 3 * SECOND)
    streams = by_port(profile, arrivals)
    assert {"GNGGA", "GNRMC"} <= {name for name, _ in decode(streams["gnss"])}
    counts = Counter(name for name, _ in decode_n100(streams["imu"]))
    assert counts["IMU"] == pytest.approx(1199, abs=2)
    assert counts["AHRS"] == pytest.approx(counts["IMU"], abs=2)
    assert "drive" not in streams


def test_nothing_depends_on_when_it_is_asked(profile: Profile, course: Course) -> None:
    until = START + 3 * SECOND
    runs = []
    for interval_ns in (2_500_000, 7_000_000, 1_000_000, 33_300_000):
        world = World(profile, course, 1, START, wires=True)
        arrivals = drive(world, profile, list(range(START, until, interval_ns)), until)
        world.advance(START + 4 * SECOND)
        runs.append((arrivals, world.motion, world.actuators.timeouts))
    assert all(run == runs[0] for run in runs)
    assert runs[0][1].speed_mps > 0.1


def test_a_frame_acts_when_its_last_byte_has_arrived(profile: Profile, course: Course) -> None:
    port = port_names(profile).index("drive")
    world = World(profile, course, 1, START, wires=True)
    for k in range(40):
        world.advance(START + k * 50 * MS)
        world.on_frame(port, START + k * 50 * MS, encode(Pulses(1450, 1400)))
    assert world.actuators.timeouts == 0
    assert world.motion.speed_mps > 0.5
    world.advance(START + 4 * SECOND)
    assert world.actuators.timeouts == 1


def test_the_drivers_understand_it(profile: Profile, course: Course) -> None:
    world = World(profile, course, 1, START, wires=True)
    names = port_names(profile)
    drivers: dict[str, Driver] = {
        "gnss": UbloxDevice(profile.devices["gnss"].driver.selected, [GnssFix], SECOND),
        "imu": N100Device(profile.devices["imu"].driver.selected, [ImuSample], SECOND),
    }
    fixes, samples = 0, 0
    for name, driver in drivers.items():
        driver.on_port(PortState.OPENED, "", START)
        for action in driver.take_tx():
            if isinstance(action, Send):
                world.on_frame(names.index(name), START, action.data)
    for step in range(1, 1200):
        to_ns = START + step * 2_500_000
        for t_rx_ns, port, data in world.advance(to_ns):
            found = drivers.get(names[port])
            for message in found.on_rx(data, t_rx_ns) if found is not None else ():
                if isinstance(message, GnssFix):
                    fixes += 1
                    assert 0 <= t_rx_ns - message.t_ns < 150 * MS
                samples += isinstance(message, ImuSample)
        for name, driver in drivers.items():
            for action in driver.take_tx():
                if isinstance(action, Send):
                    world.on_frame(names.index(name), to_ns, action.data)
    assert fixes >= 25
    assert samples >= 1190


def test_the_line_rate_reaches_the_device(profile: Profile, course: Course) -> None:
    uart = replace(
        profile.devices["gnss"], driver=choice("ublox", Params(port="uart1", baud=115_200))
    )
    wired = replace(profile, devices={**profile.devices, "gnss": uart})
    world = World(wired, course, 1, START, wires=True)
    port = port_names(wired).index("gnss")
    order = encode_ubx(CfgValset(((keys.KEYS["CFG-RATE-MEAS"], 200),)))
    world.on_line(port, START, 115_200)
    world.on_frame(port, START, order)
    world.advance(START + SECOND)
    world.on_line(port, START + SECOND, 38_400)
    world.on_frame(port, START + SECOND, order)
    streams = by_port(wired, world.advance(START + 2 * SECOND))
    assert "ACK-ACK" in {name for name, _ in decode(streams["gnss"])}


def test_failures_reach_their_port_only(profile: Profile, course: Course) -> None:
    until = START + 3 * SECOND
    plain = drive(World(profile, course, 1, START, wires=True), profile, [], until)
    failures = [Failure("imu", "off", 1.0, 1.0), Failure("gnss", "stuck", 1.0, 1.0)]
    failing = drive(
        World(profile, course, 1, START, wires=True, failures=failures), profile, [], until
    )
    imu = port_names(profile).index("imu")
    assert [a for a in failing if a[1] not in (imu, 0)] == [
        a for a in plain if a[1] not in (imu, 0)
    ]
    assert not [a for a in failing if a[1] == imu and START + SECOND <= a[0] < START + 2 * SECOND]


def test_a_world_refuses_failures_that_cannot_be(profile: Profile, course: Course) -> None:
    with pytest.raises(FailureError):
        World(profile, course, 1, START, wires=True, failures=[Failure("drive", "multipath", 1.0)])


def test_a_driver_without_an_emulator_is_refused(profile: Profile) -> None:
    unknown = replace(profile.devices["gnss"], driver=choice("abacus", Params()))
    with pytest.raises(UnknownEmulatorError, match="abacus"):
        check_emulators(replace(profile, devices={"gnss": unknown}))

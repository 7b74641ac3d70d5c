"""The emulated inertial units and their real drivers: set up by what the devices understand, true
to what was measured."""

import json
from collections.abc import Callable
from math import isnan, pi, remainder, sin, tau
from typing import Any, NamedTuple

import pytest
from msgspec.structs import asdict

from drivers.imu import bno08x as bno_driver
from drivers.imu import mip as mip_driver
from drivers.imu import vectornav as vn_driver
from drivers.imu import witmotion as wit_driver
from drivers.imu import xsens as xsens_driver
from drivers.imu.set_up import ConfigurableParams
from sim_backend.emulators.bno08x import bno08x
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import parse_failure
from sim_backend.emulators.inertial import InertialUnit
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.mip import MipUnit, mip
from sim_backend.emulators.vectornav import VectorNavUnit, vectornav
from sim_backend.emulators.witmotion import WitMotionUnit, witmotion
from sim_backend.emulators.xsens import XsensUnit, xsens
from tests.emulator_bench import MS, SECOND, START, Bench, table
from tests.grid import sampled
from vehicled.core.messages import Event, Heading, ImuSample, Message

SETTLED = START + 3 * SECOND
"""Every dialogue is over by then."""


class Kind(NamedTuple):
    """A device, the rate it is driven at here, and how exactly its frames carry what was
    measured."""

    make: Callable[..., SerialLine]
    driver: type[Any]
    params: type[Any]
    rate_hz: float
    force: float = 1e-5
    rate: float = 1e-6
    yaw: float = 2e-3
    clock_ns: int = 2 * MS


KINDS = {
    "xsens": Kind(xsens, xsens_driver.XsensDevice, xsens_driver.XsensParams, 400.0),
    "vectornav": Kind(vectornav, vn_driver.VectorNavDevice, vn_driver.VectorNavParams, 400.0),
    "mip": Kind(mip, mip_driver.MipDevice, ConfigurableParams, 250.0),
    "witmotion": Kind(
        witmotion,
        wit_driver.WitMotionDevice,
        wit_driver.WitMotionParams,
        200.0,
        3e-3,
        6e-4,
        clock_ns=4 * MS,
    ),
}
PORT = "serial:/dev/ttyUSB0?baud=921600"
every_kind = pytest.mark.parametrize("name", KINDS)


def bench(
    name: str, messages: tuple[str, ...] = ("ImuSample",), port: str = PORT, **params: Any
) -> Bench:
    kind = KINDS[name]
    settings = kind.params(**{"rate_hz": kind.rate_hz, **params})
    known: dict[str, type[Message]] = {"ImuSample": ImuSample, "Heading": Heading}
    driver = kind.driver(settings, [known[each] for each in messages], SECOND)
    return Bench(kind.make("imu", table(name, settings, messages, port), 3, START), driver)


def unit(found: Bench) -> Any:
    assert isinstance(found.emulator, SerialLine)
    assert isinstance(found.emulator.device, InertialUnit)
    return found.emulator.device


def samples(name: str, seconds: float, start_ns: int = START) -> list[tuple[int, ImuSample]]:
    period = round(1e9 / KINDS[name].rate_hz)
    made = []
    for k in range(1, round(seconds * 1e9 / period)):
        wave = sin(4.0 * k * period / 1e9)
        t_ns = start_ns + k * period
        made.append(
            (
                t_ns + MS // 2,
                ImuSample(
                    t_ns, 0, (0.3 + wave, -0.2 * wave, 9.80665), (0.01, -0.02 * wave, 0.5 * wave)
                ),
            )
        )
    return made


def headings(
    seconds: float, rate_hz: float = 20.0, late_ns: int = 5 * MS
) -> list[tuple[int, Heading]]:
    period = round(1e9 / rate_hz)
    times = [START + k * period for k in range(1, round(seconds * rate_hz))]
    return [
        (t + late_ns, Heading(t, 0, remainder(0.3 * (t - START) / 1e9, tau), 0.01)) for t in times
    ]


def turning(name: str, seconds: float) -> list[tuple[int, ImuSample]]:
    """Return samples that turn as ``headings`` do, with a varying pitch rate."""
    return [
        (t, ImuSample(one.t_ns, 0, (0.3, 0.0, 9.80665), (0.0, one.angular_rate_radps[1], 0.3)))
        for t, one in samples(name, seconds)
    ]


@every_kind
def test_it_is_set_up_and_what_was_measured_comes_through(name: str) -> None:
    found, kind = bench(name), KINDS[name]
    sent = [one for _, one in samples(name, 8)]
    found.run(START + 8 * SECOND, samples(name, 8))
    assert found.reported() in ([], ["imu_configured"])
    got = [one for one in found.of(ImuSample) if one.t_rx_ns > SETTLED]
    assert len(got) > 0.98 * 5 * kind.rate_hz
    assert found.driver is not None
    assert found.driver.bad_frames == 0  # type: ignore[attr-defined]
    # Every one of them in its place: from the first on, which is found by its value, one after the
    # other.
    first = min(
        range(len(sent)),
        key=lambda k: abs(sent[k].t_ns - got[0].t_ns) + 1e9 * (not _same(got[0], sent[k], kind)),
    )
    for true, one in zip(sent[first:], got):
        assert _same(one, true, kind)
        assert abs(one.t_ns - true.t_ns) < kind.clock_ns


def _same(one: ImuSample, true: ImuSample, kind: Kind) -> bool:
    forces = zip(one.specific_force_mps2, true.specific_force_mps2)
    rates = zip(one.angular_rate_radps, true.angular_rate_radps)
    return all(abs(a - b) < kind.force for a, b in forces) and all(
        abs(a - b) < kind.rate for a, b in rates
    )


ANGLES = [(0.0, 0.0, 0.0), (0.0, 0.0, pi / 2), (pi, 0.0, 0.0), (0.1, -0.2, 2.9)]
FAILURES = [
    "stuck",
    "garbage",
    "delayed=0.3",
    "intermittent=0.2",
    "saturation=1",
    "baud=9600",
    "usb",
]


@pytest.mark.parametrize(
    ("name", "angles"),
    sampled(
        [(name, angles) for angles in ANGLES for name in KINDS], lambda case: case[1] == ANGLES[-1]
    ),
)
def test_a_case_that_is_mounted_askew_gives_the_heading_of_the_vehicle(
    name: str, angles: tuple[float, float, float]
) -> None:
    mounting: dict[str, Any] = dict(
        zip(("mounting_roll_rad", "mounting_pitch_rad", "mounting_yaw_rad"), angles)
    )
    found = bench(name, ("ImuSample", "Heading"), yaw_offset_rad=-0.4, **mounting)
    kind = KINDS[name]
    # A heading is old when it comes; the attitude that goes out is of the present.
    found.run(START + 6 * SECOND, [*turning(name, 6), *headings(6, late_ns=50 * MS)])
    got = [one for one in found.of(Heading) if one.t_rx_ns > SETTLED]
    assert len(got) > 0.95 * 3 * kind.rate_hz
    for one in got:
        assert remainder(one.yaw_rad - 0.3 * (one.t_ns - START) / 1e9, tau) == pytest.approx(
            0.0, abs=kind.yaw
        )
    for sample in found.of(ImuSample):
        assert sample.specific_force_mps2 == pytest.approx((0.3, 0.0, 9.80665), abs=kind.force)


@every_kind
def test_a_unit_that_is_only_asked_for_headings_sends_them(name: str) -> None:
    found = bench(name, ("Heading",), rate_hz=KINDS[name].rate_hz)
    found.run(START + 6 * SECOND, headings(6))
    got = [one for one in found.of(Heading) if one.t_rx_ns > SETTLED]
    assert len(got) >= 55
    assert all(
        remainder(one.yaw_rad - 0.3 * (one.t_ns - START) / 1e9, tau) == pytest.approx(0.0, abs=5e-3)
        for one in got
    )


@every_kind
def test_saturation_is_flagged_or_stays_at_the_end_of_the_range(name: str) -> None:
    found = bench(name)
    full = 16 * 9.80665
    sent = [
        (
            t,
            ImuSample(
                one.t_ns, 0, (full, *one.specific_force_mps2[1:]), (0.0, 0.0, 0.1), saturated=True
            ),
        )
        for t, one in samples(name, 5)
    ]
    found.run(START + 5 * SECOND, sent)
    late = [one for one in found.of(ImuSample) if one.t_rx_ns > SETTLED]
    assert late
    assert all(one.saturated for one in late)


@every_kind
def test_a_port_opened_at_another_rate_receives_noise(name: str) -> None:
    found = bench(name)
    assert isinstance(found.emulator, SerialLine)
    found.emulator.force_baud(115_200)
    found.run(START + 2 * SECOND, samples(name, 2))
    assert found.of(ImuSample) == []


@every_kind
def test_after_a_brown_out_it_is_driven_again(name: str) -> None:
    found, kind = bench(name), KINDS[name]
    before, after = samples(name, 4), samples(name, 12)
    found.run(START + 4 * SECOND, before)
    assert isinstance(found.emulator, SerialLine)
    found.emulator.restart(found.now_ns)
    count = len(found.of(ImuSample))
    found.run(START + 12 * SECOND, after[len(before) :])
    again = found.of(ImuSample)[count:]
    assert len(again) > 5 * kind.rate_hz
    assert max(one.t_rx_ns - one.t_ns for one in again[-200:]) < 10 * MS
    if name in ("vectornav", "mip"):
        # Nothing is saved in them: they have to be set up anew.
        assert found.reported().count("imu_configured") == 2
    if name == "xsens":
        written = [
            json.loads(event.fields)["written"]
            for event in found.of(Event)
            if event.name == "imu_configured"
        ]
        assert written == [True, False], "what is in its flash already is not written again"


@pytest.mark.parametrize(
    ("name", "failure"),
    sampled(
        [(name, failure) for failure in FAILURES for name in KINDS],
        lambda case: FAILURES.index(case[1]) % len(KINDS) == list(KINDS).index(case[0]),
    ),
)
def test_every_failure_passes_and_the_samples_are_true_again(name: str, failure: str) -> None:
    sound, kind = bench(name), KINDS[name]
    text = parse_failure(f"imu:{failure}@4+1.5")
    found = Bench(FailingEmulator(sound.emulator, [text], ("ImuSample",), 5, START), sound.driver)
    sent = samples(name, 9)
    found.run(START + 9 * SECOND, sent)
    during = [
        one for one in found.of(ImuSample) if START + 4100 * MS < one.t_rx_ns < START + 5400 * MS
    ]
    after = [one for one in found.of(ImuSample) if one.t_rx_ns > START + 8 * SECOND]
    full = 1.3 * kind.rate_hz
    late = sum(one.t_rx_ns - one.t_ns > 200 * MS for one in during)
    hurt = {
        "delayed=0.3": late + full - len(during),
        "saturation=1": sum(one.saturated for one in during),
    }
    assert hurt.get(failure, full - len(during)) > 0.1 * full
    assert len(after) > 0.95 * kind.rate_hz
    for one in after:
        nearest = sent[min(len(sent), round((one.t_ns - START) * kind.rate_hz / 1e9)) - 1][1]
        assert one.angular_rate_radps[2] == pytest.approx(nearest.angular_rate_radps[2], abs=0.01)
    configured = {"imu_configured", "imu_rate", "imu_clock"}
    assert set(found.reported()) - configured == ({"imu_stuck"} if failure == "stuck" else set())


@every_kind
def test_a_unit_that_the_driver_does_not_set_up_was_set_up_by_hand(name: str) -> None:
    found, kind = bench(name, configure=False), KINDS[name]
    found.run(START + 4 * SECOND, samples(name, 4))
    assert len(found.of(ImuSample)) > 0.97 * 4 * kind.rate_hz
    assert found.reported() == []


@every_kind
def test_the_same_seed_gives_the_same_bytes_by_a_clock_of_its_own(name: str) -> None:
    def once() -> Bench:
        found = bench(name)
        found.run(START + 4 * SECOND, samples(name, 4))
        return found

    first = once()
    assert first.arrivals == once().arrivals
    clock_ns = unit(first).clock_ns
    assert 10 < abs(clock_ns(START + SECOND) - clock_ns(START) - SECOND) < 100_000


def test_witmotion_is_as_delivered_until_it_is_configured() -> None:
    found = bench("witmotion", configure=True)
    found.run(START + 4 * SECOND, samples("witmotion", 4))
    wit = unit(found)
    assert isinstance(wit, WitMotionUnit)
    assert (wit.registers[2], wit.registers[3]) == (0x0F, 0x0B)
    names = [
        name
        for name, _ in wit_driver.decode(
            b"".join(data for t_ns, data in found.arrivals if t_ns < START + 90 * MS)
        )
    ]
    assert set(names) <= {"ACCELERATION", "GYRO", "ANGLE", "MAGNETIC"}
    assert len(found.of(ImuSample)) > 3.4 * 200
    found.emulator.restart(found.now_ns)  # type: ignore[attr-defined]
    assert (wit.registers[2], wit.registers[3]) == (0x1E, 0x06), "nothing was saved"


def test_witmotion_lowers_its_rate_without_a_word_where_the_line_is_too_slow() -> None:
    found = bench("witmotion", port="serial:/dev/ttyUSB0?baud=57600")
    found.run(START + 6 * SECOND, samples("witmotion", 6))
    assert len(found.of(ImuSample)) == pytest.approx(600, abs=20), (
        "100 Hz of four frames fit, 125 Hz do not"
    )
    assert found.reported() == ["imu_rate"]


def test_witmotion_takes_nothing_while_it_is_locked_or_busy_and_answers_reads() -> None:
    found = Bench(bench("witmotion").emulator)
    wit = unit(found)
    found.send(wit_driver.command(3, 0x06))
    found.run(START + SECOND)
    assert wit.registers[3] == 0x0B, "locked"
    found.send(wit_driver.UNLOCK + wit_driver.command(3, 0x09) + wit_driver.command(2, 0x1E))
    found.run(START + 2 * SECOND)
    assert (wit.registers[3], wit.registers[2]) == (0x09, 0x0F), (
        "the second came while it wrote the first"
    )
    found.send(wit_driver.command(wit_driver.READ_REGISTER, 2))
    found.run(START + 3 * SECOND)
    assert list(wit_driver.decode(found.received)) == [
        ("REGISTER", wit_driver.Register((0x0F, 0x09, 0, 0)))
    ]


def test_xsens_acknowledges_its_configuration_late_and_wakes_up_with_a_word() -> None:
    found = bench("xsens")
    found.run(START + 3 * SECOND, samples("xsens", 3))
    acknowledged = [name for name, _ in xsens_driver.decode(found.received) if name == "MID 0x31"]
    assert acknowledged == ["MID 0x31"]
    configured = next(event for event in found.of(Event) if event.name == "imu_configured")
    assert configured.t_ns > START + 20 * MS
    found.emulator.restart(found.now_ns)  # type: ignore[attr-defined]
    assert not unit(found).measuring
    alone = Bench(found.emulator, start_ns=found.now_ns)
    alone.run(found.now_ns + SECOND, samples("xsens", 1, found.now_ns))
    assert next(iter(xsens_driver.decode(alone.received)))[0] == "MID 0x3E"
    assert unit(found).measuring, "nobody answered"


def test_xsens_refuses_what_it_does_not_have_and_gives_the_nearest_rate() -> None:
    found = Bench(bench("xsens").emulator)
    for mid, data in (
        (0x30, b""),
        (0xC0, bytes.fromhex("5042 0001")),
        (0xC0, bytes.fromhex("4020 012C 1060 0000")),
    ):
        found.send(xsens_driver.encode(mid, data))
        found.run(found.now_ns + 2 * SECOND)
    replies = [
        message for name, message in xsens_driver.decode(found.received) if name.startswith("MID")
    ]
    assert [(reply.mid, reply.data.hex()) for reply in replies] == [  # type: ignore[attr-defined]
        (0x31, ""), (0x42, "21"), (0xC1, "402000c81060ffff"),
    ]  # fmt: skip


def test_vectornav_answers_as_its_manual_says() -> None:
    found = Bench(bench("vectornav", port="serial:/dev/ttyUSB0?baud=115200").emulator)
    lines = []
    for body in (
        "VNRRG,01",
        "VNRRG,99",
        "VNWRG,01,x",
        "VNWRG,06,0",
        "VNWRG,75,1,2,01,0029",
        "VNWRG,75,1,16,01,0029",
        "VNWRG,75,1,16,40,0001",
        "VNWRG,75,1",
        "VNXYZ",
    ):
        found.send(vn_driver.encode_line(body))
        found.run(found.now_ns + 50 * MS)
    found.send(b"$VNRRG,01*00\r\n")
    found.run(found.now_ns + 50 * MS)
    lines = [line for _, line in vn_driver.decode(found.received)]
    assert lines == [
        "VNRRG,01,VN-100S-0000",
        "VNERR,08",
        "VNERR,09",
        "VNWRG,06,0",
        "VNERR,0C",
        "VNWRG,75,1,16,01,0029",
        "VNERR,07",
        "VNERR,05",
        "VNERR,04",
    ]
    assert isinstance(unit(found), VectorNavUnit)


def test_vectornav_sends_lines_until_it_is_configured() -> None:
    found = Bench(bench("vectornav").emulator)
    found.run(START + SECOND, samples("vectornav", 1))
    lines = [str(line) for _, line in vn_driver.decode(found.received)]
    assert len(lines) == pytest.approx(40, abs=2)
    assert all(line.startswith("VNYMR,") and len(line.split(",")) == 13 for line in lines)
    assert [float(word) for word in lines[-1].split(",")[7:10]][2] == pytest.approx(
        -9.80665, abs=1e-3
    )


def test_mip_of_before_the_shared_descriptors_is_set_up_by_the_older_commands() -> None:
    params = ConfigurableParams(rate_hz=250.0)
    device = table("mip", params, ("ImuSample", "Heading"), PORT)
    old = SerialLine(
        MipUnit("imu", device, 3, START, modern=False), "imu", 3, START, host_baud=921_600
    )
    found = Bench(old, mip_driver.MipDevice(params, [ImuSample, Heading], SECOND))
    found.run(START + 6 * SECOND, [*turning("mip", 6), *headings(6)])
    assert found.reported() == ["imu_configured"]
    assert len(found.of(ImuSample)) > 1300
    assert [field for field, _ in unit(found).format] == [0x12, 0x04, 0x05, 0x0C, 0x18]
    assert abs(found.of(ImuSample)[-1].t_rx_ns - found.of(ImuSample)[-1].t_ns) < 5 * MS


def test_mip_is_silent_until_it_is_configured_and_refuses_a_format_as_a_whole() -> None:
    found = Bench(bench("mip").emulator)
    found.run(START + SECOND, samples("mip", 1))
    assert found.received == b""
    found.send(mip_driver.encode(mip_driver.BASE, (mip_driver.PING, b"")))
    for field in (0x04, 0x06):
        body = bytes((1, 0x80, 1, field, 0, 4))
        found.send(mip_driver.encode(mip_driver.COMMANDS_3DM, (mip_driver.MESSAGE_FORMAT, body)))
    found.run(START + 2 * SECOND)
    replies = [
        packet
        for _, packet in mip_driver.decode(found.received)
        if isinstance(packet, mip_driver.Packet)
    ]
    assert [reply.fields for reply in replies] == [
        ((0xF1, b"\x01\x00"),),
        ((0xF1, b"\x0f\x00"),),
        ((0xF1, b"\x0f\x03"),),
    ]


def _bno(
    messages: tuple[str, ...], port: str = "serial:/dev/ttyUSB0?baud=115200", **params: Any
) -> Bench:
    settings = bno_driver.Bno08xParams(**params)
    kinds: list[type[Message]] = [Heading if each == "Heading" else ImuSample for each in messages]
    emulated = bno08x("yaw", table("bno08x", settings, messages, port), 3, START)
    return Bench(emulated, bno_driver.Bno08xDevice(settings, kinds, SECOND))


@pytest.mark.parametrize("positive", ["left", "right"])
def test_bno08x_counts_its_yaw_from_where_it_pointed_first(positive: str) -> None:
    found = _bno(("ImuSample", "Heading"), yaw_positive=positive, mounting_yaw_rad=0.7)
    # It points 0.6 rad left of east when it is first received.
    sent = [(t, Heading(one.t_ns, 0, one.yaw_rad + 0.6, 0.01)) for t, one in headings(10, 100.0)]
    found.run(START + 10 * SECOND, [*turning("mip", 10), *sent])
    got = found.of(Heading)
    assert len(got) == pytest.approx(1000, abs=3)
    for one in got[100:]:
        truth = 0.3 * (one.t_ns - START) / 1e9
        # Between two frames of its own it repeats what it knew: 10 ms of turning, and the hundredth
        # of a degree.
        assert remainder(one.yaw_rad + 0.7 - truth, tau) == pytest.approx(0.0, abs=8e-3)
    assert all(isnan(one.angular_rate_radps[0]) for one in found.of(ImuSample))
    assert found.of(ImuSample)[-1].specific_force_mps2 == pytest.approx(
        (0.3, 0.0, 9.80665), abs=6e-3
    )
    assert found.driver is not None
    # A brown-out takes its zero away.
    found.emulator.restart(found.now_ns)  # type: ignore[attr-defined]
    found.run(found.now_ns + SECOND)
    assert remainder(found.of(Heading)[-1].yaw_rad + 0.7, tau) == pytest.approx(0.0, abs=1e-3)


def test_bno08x_has_one_line_rate() -> None:
    found = _bno(("ImuSample",), port=PORT)
    found.run(START + 2 * SECOND, samples("mip", 2))
    assert found.of(ImuSample) == []


def test_the_tables_of_the_emulators_name_every_unit() -> None:
    assert {type(unit(bench(name))) for name in KINDS} == {
        XsensUnit,
        VectorNavUnit,
        MipUnit,
        WitMotionUnit,
    }
    assert asdict(bno_driver.Bno08xParams())["rate_hz"] == 100.0

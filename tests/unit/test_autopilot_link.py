"""Messages of an autopilot beside sticks and sensors: corrections for its receiver, its time
by TIMESYNC, its battery."""

from math import isnan
from typing import Any

import pytest

from drivers.autopilot import codec
from drivers.autopilot.codec import BatteryStatus, GpsRtcmData, SysStatus
from drivers.autopilot.corrections import FRAGMENT_BYTES, MOST_BYTES, Reassembly, fragments
from drivers.autopilot.device import AutopilotDevice
from drivers.autopilot.timesync import LONGEST_TRIP_NS, PERIOD_NS, STEP_NS, TimeSync
from drivers.rtcm.codec import encode
from tests.motor_bench import MS, Bench
from tests.unit.test_autopilot import bench
from vehicled.core.messages import (
    ActuatorCommand,
    Corrections,
    Event,
    GnssFix,
    ImuSample,
    MotorStatus,
    PortState,
)
from vehicled.core.ports import Send
from vehicled.core.wire.framing import Framer
from vehicled.core.wire.usage import Unused

# -------------------------------------------------------------------------------- corrections


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (1, [1]), (180, [180]), (181, [180, 1]), (359, [180, 179]), (360, [180, 180, 0]),
        (540, [180, 180, 180, 0]), (541, [180, 180, 180, 1]), (720, [180] * 4),
    ],
)  # fmt: skip
def test_a_message_in_fragments(size: int, sizes: list[int]) -> None:
    message = bytes(k % 251 for k in range(size))
    found = list(fragments(message, 37))
    assert [each.len for each in found] == sizes
    assert [each.flags >> 3 for each in found] == [37 & 31] * len(sizes)
    assert [each.flags >> 1 & 3 for each in found] == list(range(len(sizes)))
    assert [bool(each.flags & 1) for each in found] == [size > FRAGMENT_BYTES] * len(sizes)
    reassembly = Reassembly()
    whole = [reassembly.add(each) for each in found]
    assert whole == [b""] * (len(sizes) - 1) + [message]


def test_a_lost_fragment_spoils_its_own_message_alone() -> None:
    reassembly = Reassembly()
    first, second = list(fragments(bytes(400), 1)), list(fragments(bytes([7]) * 400, 2))
    found = [reassembly.add(each) for each in (first[0], first[2], *second)]
    assert found == [b"", b"", b"", b"", bytes([7]) * 400]


def receiver() -> Bench:
    found = bench()
    found.driver = AutopilotDevice(
        found.driver.params if hasattr(found.driver, "params") else AutopilotDevice.Params(),
        [ActuatorCommand, GnssFix, MotorStatus, ImuSample],
        50 * MS,
    )
    found.messages = list(found.driver.on_port(PortState.OPENED, "", found.now_ns))
    found.run(3000)
    return found


def test_corrections_reach_the_receiver_of_the_autopilot() -> None:
    b = receiver()
    frames = [encode(bytes([0x43, 0x50]) + bytes(size - 8)) for size in (20, 180, 360, 500, 720)]
    stream = b"\x00junk".join(frames)
    # Cut anywhere, with what is no RTCM in between.
    for at in range(0, len(stream), 97):
        b.driver.on_command(
            Corrections(b.now_ns, b.now_ns, "caster", stream[at : at + 97]), b.now_ns
        )
        b.run(20)
    b.run(400)
    assert b.emulator._device.corrections == frames


def test_a_message_that_fits_no_four_fragments_is_named() -> None:
    b = receiver()
    large = encode(bytes([0x43, 0x50]) + bytes(MOST_BYTES - 7))
    b.driver.on_command(
        Corrections(b.now_ns, b.now_ns, "caster", large + encode(bytes(14))), b.now_ns
    )
    found = b.run(200)
    assert b.emulator._device.corrections == [encode(bytes(14))]
    unused = [each for each in found if isinstance(each, Event) and each.name == "message_unused"]
    assert any("RTCM 1077" in str(each) and "721" in str(each) for each in unused)


def test_an_autopilot_that_gives_no_fix_takes_no_corrections() -> None:
    params = AutopilotDevice.Params()
    assert Corrections in AutopilotDevice(params, [GnssFix], 50 * MS).consumes
    assert Corrections not in AutopilotDevice(params, [ImuSample], 50 * MS).consumes


def test_nothing_is_sent_before_the_autopilot_is_known() -> None:
    device = AutopilotDevice(AutopilotDevice.Params(), [GnssFix], 50 * MS)
    device.on_port(PortState.OPENED, "", 0)
    device.take_tx()
    device.on_command(Corrections(0, 0, "caster", encode(bytes(14))), 0)
    assert not device.take_tx()


# -------------------------------------------------------------------------------- time

OFFSET_NS = 5 * 10**12
LATE_NS = 8 * MS


class Clocks:
    """Answers of an autopilot whose messages arrive ``LATE_NS`` late at least."""

    def __init__(self) -> None:
        self.sync = TimeSync()
        self.now_ns = 10**9

    def answer(self, out_ns: int, back_ns: int, wrong_ns: int = 0) -> Any:
        self.now_ns += PERIOD_NS
        asked_ns = self.sync.ask(self.now_ns)
        assert asked_ns is not None
        device_ns = asked_ns + out_ns - OFFSET_NS + wrong_ns
        return self.sync.answer(
            device_ns, asked_ns, asked_ns + out_ns + back_ns, OFFSET_NS + LATE_NS
        )


def test_the_middle_of_the_round_trip_shows_how_late_messages_arrive() -> None:
    clocks = Clocks()
    assert clocks.answer(3 * MS, 3 * MS) is None
    assert clocks.sync.shift_ns == -LATE_NS
    assert clocks.answer(3 * MS, 40 * MS) is None
    assert clocks.sync.shift_ns == -LATE_NS, "a longer trip says less"
    assert clocks.answer(MS, 2 * MS) is None
    assert clocks.sync.shift_ns == pytest.approx(-LATE_NS, abs=STEP_NS)
    assert clocks.sync.trip_ns == 3 * MS


def test_answers_that_are_not_used() -> None:
    clocks = Clocks()
    clocks.answer(MS, MS)
    before_ns = clocks.sync.shift_ns
    late = clocks.answer(MS, LONGEST_TRIP_NS)
    assert late is not None
    assert late.reason is Unused.TOO_INACCURATE
    other_clock = clocks.answer(MS, MS, wrong_ns=10**18)
    assert other_clock is not None
    assert other_clock.reason is Unused.CONTRADICTION
    foreign = clocks.sync.answer(0, 5, clocks.now_ns, 0)
    assert foreign is not None
    assert foreign.reason is Unused.FOREIGN
    assert clocks.sync.shift_ns == before_ns
    assert clocks.sync.ask(clocks.now_ns) is None, "one question a second"


def test_an_outlier_moves_the_stamps_by_a_step_and_a_restart_forgets() -> None:
    clocks = Clocks()
    clocks.answer(2 * MS, 2 * MS)
    clocks.answer(0, 0, wrong_ns=-50 * MS)
    assert clocks.sync.shift_ns == -LATE_NS + STEP_NS
    clocks.sync.restart()
    assert (clocks.sync.shift_ns, clocks.sync.known) == (0, False)


@pytest.mark.parametrize("late_ms", [0, 30])
def test_stamps_lose_the_time_of_the_line(late_ms: int) -> None:
    """The line of the bench holds every message of the autopilot back, and its answers too."""
    b = receiver()
    boot_ns = b.emulator._device._boot_ns
    rate = b.emulator._device._rate
    writer = codec.MavlinkWriter(1, 1)
    device = AutopilotDevice(AutopilotDevice.Params(rate_hz=50.0), [ImuSample], 50 * MS)
    now_ns = b.now_ns
    device.on_port(PortState.OPENED, "", now_ns)
    wire: list[tuple[int, bytes]] = []
    errors = []
    for k in range(600):
        now_ns += 10 * MS
        us = round((now_ns - boot_ns) * rate) // 1000
        if k % 20 == 0:
            wire.append((now_ns, writer.frame(codec.MavHeartbeat(4, 10, 3, 0, 3))))
        sample = codec.RawImu(us, 0, 0, -1000, 0, 0, 0, 0, 0, 0)
        wire.append((now_ns + late_ms * MS, writer.frame(sample)))
        for due_ns, frame in [each for each in wire if each[0] <= now_ns]:
            wire.remove((due_ns, frame))
            errors += [
                each.t_ns - (now_ns - late_ms * MS)
                for each in device.on_rx(frame, now_ns)
                if isinstance(each, ImuSample)
            ]
        if device.next_due_ns() <= now_ns:
            device.on_time(now_ns)
        for action in device.take_tx():
            assert isinstance(action, Send)
            for _, request in Framer(codec.PROTOCOLS, 512).feed(action.data):
                content = codec.read(request).content
                if isinstance(content, codec.Timesync):
                    back = writer.frame(codec.Timesync(us * 1000, content.ts1))
                    wire.append((now_ns + late_ms * MS, back))
    # A line that is slow in one direction alone halves the error; the way of a request takes none.
    assert abs(errors[-1]) <= late_ms * MS / 2 + MS


# -------------------------------------------------------------------------------- battery


def battery(**fields: Any) -> BatteryStatus:
    cells = fields.pop("cells", (4000, 4100))
    values: dict[str, Any] = {
        "current_consumed": -1, "energy_consumed": -1, "temperature": 0x7FFF,
        "voltages": (*cells, *(65535,) * (10 - len(cells))), "current_battery": 250, "id": 0,
        "battery_function": 0, "type": 0, "battery_remaining": -1,
    }  # fmt: skip
    return BatteryStatus(**values | fields)


def said(*contents: codec.Content) -> list[Any]:
    device = AutopilotDevice(AutopilotDevice.Params(), [MotorStatus], 50 * MS)
    device.on_port(PortState.OPENED, "", 0)
    writer = codec.MavlinkWriter(1, 1)
    found: list[Any] = []
    for k, content in enumerate((codec.MavHeartbeat(4, 10, 3, 0, 3), *contents)):
        found += device.on_rx(writer.frame(content), (k + 1) * MS)
        found += device.on_time((k + 1) * MS)
    return found


def sys_status(volts_mv: int, current_ca: int) -> SysStatus:
    return SysStatus(0, 0, 0, 0, volts_mv, current_ca, 0, 0, 0, 0, 0, 0, -1)


@pytest.mark.parametrize(
    ("cells", "volts"),
    [((4000, 4100), 8.1), ((65534, 7000), 72.534), ((48_000,), 48.0), ((), None)],
)
def test_the_sum_of_the_cells_stands_for_a_voltage_that_is_not_known(
    cells: tuple[int, ...], volts: float | None
) -> None:
    motor = [
        each
        for each in said(battery(cells=cells), sys_status(65535, -1))
        if isinstance(each, MotorStatus)
    ]
    if volts is None:
        assert isnan(motor[-1].input_voltage_v)
    else:
        assert motor[-1].input_voltage_v == pytest.approx(volts)
    assert motor[-1].input_current_a == pytest.approx(2.5)


def test_what_the_status_says_itself_counts() -> None:
    found = said(battery(cells=(9000,)), sys_status(16_200, 100))
    motor = [each for each in found if isinstance(each, MotorStatus)]
    assert (motor[-1].input_voltage_v, motor[-1].input_current_a) == (16.2, 1.0)


def test_another_battery_is_not_that_of_the_drive() -> None:
    motor = [
        each for each in said(battery(id=1), sys_status(65535, -1)) if isinstance(each, MotorStatus)
    ]
    assert isnan(motor[-1].input_voltage_v)


def test_trouble_of_the_battery_is_named() -> None:
    faults = [
        (each.code, each.active, each.reason)
        for each in said(battery(charge_state=3), battery(charge_state=1))
        if hasattr(each, "reaction")
    ]
    assert faults[0] == ("autopilot_battery", True, "the autopilot calls its battery critical")
    assert faults[1][:2] == ("autopilot_battery", False)


def test_a_fragment_of_the_wire_is_read_back() -> None:
    frame = codec.MavlinkWriter(1).frame(GpsRtcmData(3, 2, b"ab"))
    content = codec.read(frame).content
    assert isinstance(content, GpsRtcmData)
    assert (content.flags, content.data[: content.len]) == (3, b"ab")

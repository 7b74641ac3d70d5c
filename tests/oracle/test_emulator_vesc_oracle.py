"""The simulated VESC and programs of others: python-can reads its frames and writes to it, pyvesc
talks to its serial line."""

import importlib
import sys
import types
import warnings
from binascii import crc_hqx
from collections import Counter
from itertools import pairwise

import pytest

from drivers.vesc.canbus import Can
from sim_backend.emulators.vesc import FAULT, VescCanEmulator, VescUartEmulator
from tests.vesc_bench import MS, START_NS, Bench, device, moving
from vehicled.core.messages import Mode
from vehicled.core.wire.can import RECORD_BYTES

SECOND_MS = 1000


def _records(wire):
    for t_ns, data in wire:
        for at in range(0, len(data), RECORD_BYTES):
            yield t_ns, data[at : at + RECORD_BYTES]


def test_python_can_logs_its_frames_as_candump_does(tmp_path) -> None:
    can = pytest.importorskip("can")
    from can.interfaces.socketcan import constants, socketcan

    bench = Bench(device("vesc_can", controller_id=7, max_duty=0.9))
    bench.run(200, throttle=0.0, mode=Mode.STANDBY)
    bench.wire.clear()
    bench.run(2 * SECOND_MS, throttle=0.2, sample=moving)
    log = tmp_path / "drive.log"
    with can.CanutilsLogWriter(log) as writer:
        for t_ns, record in _records(bench.wire):
            can_id, length, _, data = socketcan.dissect_can_frame(record)
            assert can_id & constants.CAN_EFF_FLAG
            assert not can_id & (constants.CAN_ERR_FLAG | constants.CAN_RTR_FLAG)
            writer(
                can.Message(
                    t_ns * 1e-9,
                    can_id & 0x1FFF_FFFF,
                    is_extended_id=True,
                    data=data[:length],
                    channel="vcan0",
                )
            )
    with can.LogReader(log) as reader:
        messages = list(reader)
    assert {
        message.arbitration_id & 0xFF
        for message in messages
        if message.arbitration_id >> 8 in range(9, 60)
    } == {7}
    packets = Counter(message.arbitration_id >> 8 for message in messages)
    # Two seconds of 50 and 5 Hz, and of 20 polls a second of eleven pieces and an end.
    assert {packets[each] for each in (Can.STATUS, Can.STATUS_4, Can.STATUS_5)} == {100}
    assert {packets[each] for each in (Can.STATUS_2, Can.STATUS_3)} == {10}
    assert (packets[Can.FILL_RX_BUFFER], packets[Can.PROCESS_RX_BUFFER]) == (11 * 40, 40)
    # 100 rad/s of two pole pairs, 5 A, half of a duty of 0.9.
    status = [message for message in messages if message.arbitration_id == 0x907][-1]
    assert bytes(status.data) == (1910).to_bytes(4, "big") + (50).to_bytes(2, "big") + (
        450
    ).to_bytes(2, "big")
    assert "vcan0 00000907#0000077600320" in log.read_text()
    # One after the other: the shortest has five bytes, 107 bits of 2 us.
    times = [t_ns for t_ns, _ in _records(bench.wire)]
    assert min(b - a for a, b in pairwise(times)) >= 107 * 2000


def test_python_can_drives_it() -> None:
    can = pytest.importorskip("can")
    from can.interfaces.socketcan import socketcan

    emulator = VescCanEmulator(
        "drive",
        device("vesc_can", max_current_a=20.0, servo_center=0.5, servo_gain=-0.5),
        1,
        START_NS,
    )
    for can_id, data in (
        (0x101, bytes.fromhex("00001388")),  # 5 A
        (0x801, bytes.fromhex("fe020c01f4")),  # servo 0.5
        (0x8FF, bytes.fromhex("fe020c0258")),  # servo 0.6, to everyone
        (0x1101, bytes.fromhex("fe")),  # ping
        (0x102, bytes.fromhex("00002710")),  # 10 A, to somebody else
    ):
        emulator.on_rx(
            socketcan.build_can_frame(can.Message(arbitration_id=can_id, data=data)), START_NS
        )
    emulator.on_time(START_NS + 5 * MS)
    commands = emulator.take_commands()
    assert (commands[-1].throttle, commands[-1].steering) == pytest.approx((0.25, -0.2))
    ((_, record),) = emulator.take_tx()
    can_id, length, _, data = socketcan.dissect_can_frame(record)
    assert (can_id & 0x1FFF_FFFF, data[:length]) == (0x12FE, bytes((1, 0)))


@pytest.fixture(scope="module")
def pyvesc():
    """pyvesc 1.0.5 imports ``PyCRC``, a name under which the package index delivers another
    program: it gets the CRC it means."""
    module = types.ModuleType("PyCRC.CRCCCITT")

    class CRCCCITT:
        def calculate(self, data: bytes) -> int:
            return crc_hqx(data, 0)

    module.CRCCCITT = CRCCCITT  # type: ignore[attr-defined]
    added = {"PyCRC": types.ModuleType("PyCRC"), "PyCRC.CRCCCITT": module}
    before = set(sys.modules)
    sys.modules.update(added)
    try:
        with warnings.catch_warnings():
            # It compares numbers by identity, which compilers of today warn of.
            warnings.simplefilter("ignore", SyntaxWarning)
            yield importlib.import_module("pyvesc")
    finally:
        for name in set(sys.modules) - before:
            if name.startswith(("PyCRC", "pyvesc")):
                del sys.modules[name]


class _Wire:
    """The emulator as seen by a program that polls a serial port."""

    def __init__(self, emulator: VescUartEmulator) -> None:
        self.emulator = emulator
        self.now_ns = START_NS
        self.buffer = b""
        self._pending: list[tuple[int, bytes]] = []

    def write(self, data: bytes) -> None:
        self.emulator.on_rx(data, self.now_ns)

    def wait(self, duration_ms: int) -> None:
        self.now_ns += duration_ms * MS
        self.emulator.on_time(self.now_ns)
        self._pending += self.emulator.take_tx()
        while self._pending and self._pending[0][0] <= self.now_ns:
            self.buffer += self._pending.pop(0)[1]


def test_pyvesc_reads_it_in_the_layout_of_old_firmware(pyvesc) -> None:
    wire = _Wire(
        VescUartEmulator("drive", device("vesc_uart", max_duty=0.9), 1, START_NS, firmware=(3, 0))
    )
    wire.emulator.on_message(moving(START_NS), START_NS)
    wire.wait(1)
    wire.emulator.inject(FAULT, 3, True, wire.now_ns)
    wire.write(pyvesc.encode_request(pyvesc.GetValues))
    wire.wait(3)
    # Still on its way: it takes 61 bytes of 87 us.
    assert pyvesc.decode(wire.buffer) == (None, 0)
    wire.wait(20)
    message, consumed = pyvesc.decode(wire.buffer)
    assert consumed == len(wire.buffer) == 61
    assert isinstance(message, pyvesc.GetValues)
    assert (message.rpm, message.v_in, message.duty_now) == (1910, 11.1, 0.45)
    assert (message.current_motor, message.current_in) == (5.0, 2.5)
    assert message.temp_mos1 == pytest.approx(320.0 - 273.15, abs=0.05)
    assert message.mc_fault_code == b"\x03"


def test_pyvesc_drives_it(pyvesc) -> None:
    table = device(
        "vesc_uart",
        max_duty=0.4,
        max_speed_mps=3.0,
        erpm_per_mps=1000.0,
        max_current_a=20.0,
        max_brake_current_a=10.0,
    )
    wire = _Wire(VescUartEmulator("drive", table, 1, START_NS, firmware=(3, 0)))
    for message, throttle, brake in (
        (pyvesc.SetDutyCycle(20_000), 0.5, 0.0),
        (pyvesc.SetCurrent(5_000), 0.25, 0.0),
        (pyvesc.SetCurrentBrake(2_500), 0.0, 0.25),
        (pyvesc.SetDutyCycle(-20_000), -0.5, 0.0),
    ):
        wire.write(pyvesc.encode(message))
        wire.wait(5)
        last = wire.emulator.take_commands()[-1]
        assert (last.throttle, last.brake) == pytest.approx((throttle, brake))
    # A speed is controlled: at rest far from it, in excess of it, and there.
    wire.write(pyvesc.encode(pyvesc.SetRPM(1500)))
    wire.wait(5)
    assert wire.emulator.take_commands()[-1].throttle == 1.0
    wire.emulator.on_message(moving(wire.now_ns), wire.now_ns)
    wire.wait(1)
    last = wire.emulator.take_commands()[-1]
    assert last.throttle == 0.0
    assert last.brake > 0.2
    # What it calls SetRotorPositionMode has another number in every firmware since.
    wire.write(pyvesc.encode(pyvesc.SetRotorPositionMode(3)))
    wire.wait(5)

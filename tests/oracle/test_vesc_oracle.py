"""The VESC codec against other people's: python-can's reader of CAN logs, and pyvesc for the serial
line."""

import json
import sys
import types
import warnings
from binascii import crc_hqx
from collections import Counter

import pytest

from drivers.vesc.canbus import Can, ForeignFrame, decode_can
from drivers.vesc.comm import Comm, Request, SetCommand, encode_comm
from drivers.vesc.uart import decode, frame_uart
from drivers.vesc.values import Values, ValuesLayout
from vehicled.core.wire.can import CanFrame, pack, unpack_all


def test_captured_status_frames_have_the_counts_that_python_can_gives(shared_data) -> None:
    can = pytest.importorskip("can")
    captures = shared_data / "captures"
    expected = json.loads((captures / "counts.json").read_text())
    logs = sorted((captures / "vesc").glob("*.candump.log"))
    assert logs
    for log in logs:
        with can.LogReader(log) as reader:
            frames = [
                CanFrame(
                    m.arbitration_id,
                    bytes(m.data),
                    m.is_extended_id,
                    m.is_remote_frame,
                    m.is_error_frame,
                )
                for m in reader
            ]
        # Through the record of a frame port, as the driver gets them.
        assert unpack_all(b"".join(map(pack, frames))) == frames
        named = [decode_can(frame) for frame in frames]
        assert not [content for _, content in named if isinstance(content, ForeignFrame)]
        ours = Counter(f"pkt {Can[name].value}" for name, _ in named)
        assert dict(ours) == expected[f"vesc/{log.name}"]["counts"]


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
            yield pytest.importorskip("pyvesc")
    finally:
        for name in set(sys.modules) - before:
            if name.startswith(("PyCRC", "pyvesc")):
                del sys.modules[name]


def test_pyvesc_and_we_frame_commands_alike(pyvesc) -> None:
    theirs = [
        (pyvesc.SetDutyCycle(20_000), SetCommand(Comm.SET_DUTY, 0.2)),
        (pyvesc.SetCurrent(-5000), SetCommand(Comm.SET_CURRENT, -5.0)),
        (pyvesc.SetCurrentBrake(12_345), SetCommand(Comm.SET_CURRENT_BRAKE, 12.345)),
        (pyvesc.SetRPM(-3000), SetCommand(Comm.SET_RPM, -3000.0)),
        (pyvesc.SetPosition(90), SetCommand(Comm.SET_POS, 90.0)),
    ]
    for message, ours in theirs:
        wire = pyvesc.encode(message)
        assert frame_uart(encode_comm(ours)) == wire
        assert [content for _, content in decode(wire)] == [ours]
    assert frame_uart(encode_comm(Request(Comm.GET_VALUES))) == pyvesc.encode_request(
        pyvesc.GetValues
    )


def test_pyvesc_reads_our_telemetry_in_its_layout(pyvesc) -> None:
    values = Values(
        fet_temperature_c=41.5,
        motor_current_a=12.34,
        input_current_a=-1.5,
        duty=0.125,
        erpm=-4200.0,
        input_voltage_v=23.9,
        used_ah=1.25,
        charged_ah=0.5,
        used_wh=20.0,
        charged_wh=3.0,
        tachometer=-77,
        absolute_tachometer=88,
        fault_code=3,
    )
    wire = frame_uart(encode_comm(values, ValuesLayout.LEGACY))
    message, consumed = pyvesc.decode(wire)
    assert consumed == len(wire)
    assert isinstance(message, pyvesc.GetValues)
    assert (message.temp_mos1, message.temp_mos6, message.current_motor, message.current_in) == (
        41.5,
        41.5,
        12.34,
        -1.5,
    )
    assert (
        message.duty_now,
        message.rpm,
        message.v_in,
        message.tachometer,
        message.tachometer_abs,
    ) == (
        0.125,
        -4200,
        23.9,
        -77,
        88,
    )
    assert (
        message.amp_hours,
        message.amp_hours_charged,
        message.watt_hours,
        message.watt_hours_charged,
    ) == (1.25, 0.5, 20.0, 3.0)
    assert message.mc_fault_code == b"\x03"
    ((name, ours),) = decode(wire)
    assert name == "GET_VALUES"
    assert isinstance(ours, Values)
    assert (ours.erpm, ours.fault_code, ours.input_voltage_v, ours.tachometer) == (
        -4200.0,
        3,
        23.9,
        -77,
    )


@pytest.mark.parametrize("length", [1, 2, 255, 256, 300, 512])
def test_pyvesc_reads_our_frames_of_every_length(pyvesc, length) -> None:
    payload = bytes(range(1, 256)) * 3
    payload = payload[:length]
    wire = frame_uart(payload)
    assert pyvesc.packet.codec.unframe(wire) == (payload, len(wire))
    assert pyvesc.packet.codec.frame(payload) == wire

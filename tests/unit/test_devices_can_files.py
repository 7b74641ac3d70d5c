"""Recordings of a CAN bus: python-can writes what we read, and reads what we write; damage costs
what is damaged."""

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import can
import pytest

from drivers.vesc.canbus import SendMode, Status, Status5, encode_can, split_comm
from drivers.vesc.comm import Comm
from vehicled.cli import devices, main
from vehicled.cli.can_files import WRITTEN, CanFile, CanRecorder, kind_of
from vehicled.core.errors import SetupError
from vehicled.core.messages import PortState
from vehicled.core.wire.can import CanFrame, pack

START_S = 1_700_000_000.25
FRAMES = [
    encode_can(Status(1, 3000.0, 12.3, 0.25)),
    encode_can(Status5(1, 600, 16.2)),
    *split_comm(
        1, 254, bytes([Comm.FW_VERSION, 6, 2]) + b"vesc with a long name\0" * 2, SendMode.PASS_ON
    ),
    CanFrame(0x123, b"\x01\x02", extended=False),
    CanFrame(0x124, b"", extended=False),
    CanFrame(0x125, b"", extended=False, remote=True),
] * 5


def message(frame: CanFrame, number: int) -> can.Message:
    return can.Message(
        timestamp=START_S + number * 0.01,
        arbitration_id=frame.can_id,
        is_extended_id=frame.extended,
        is_remote_frame=frame.remote,
        dlc=len(frame.data),
        data=None if frame.remote else frame.data,
        channel="can0",
    )


def written_by_python_can(file: Path) -> bytes:
    with can.Logger(file) as logger:
        for number, frame in enumerate(FRAMES):
            logger.on_message_received(message(frame, number))
    return file.read_bytes()


@pytest.mark.parametrize("ending", [*WRITTEN, ".trc"])
def test_what_python_can_wrote_is_read(tmp_path: Path, ending: str) -> None:
    data = written_by_python_can(tmp_path / f"bus{ending}")
    assert kind_of(data) == ending, "by its content, whatever its name"
    file = CanFile(data, ending)
    found = list(file)
    # It does not write remote frames to TRC.
    assert [frame for _, frame in found] == [
        frame for frame in FRAMES if ending != ".trc" or not frame.remote
    ]
    assert found[12][0] - found[0][0] == pytest.approx(
        0.13 if ending == ".trc" else 0.12, abs=0.002
    )
    assert file.damaged == 0


@pytest.mark.parametrize("ending", ["", *WRITTEN])
def test_what_is_recorded_is_read_by_python_can(tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"bus{ending}"
    recorder = CanRecorder(target, "can0")
    for number, frame in enumerate(FRAMES):
        recorder.write(pack(frame), round((START_S + number * 0.01) * 1e9))
    recorder.close()
    reader = can.LogReader(target) if ending else can.CanutilsLogReader(target)
    read = [
        (m.arbitration_id, m.is_extended_id, m.is_remote_frame, m.dlc, bytes(m.data))
        for m in reader
    ]
    assert read == [
        (f.can_id, f.extended, f.remote, len(f.data), b"" if f.remote else f.data) for f in FRAMES
    ]
    assert [frame for _, frame in CanFile(target.read_bytes(), ending or ".log")] == FRAMES


def test_an_ending_that_is_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"\.log, \.asc, \.blf, \.csv"):
        CanRecorder(tmp_path / "bus.bin", "can0")


ERRORS = [
    CanFrame(0x40, bytes(8), extended=False, error=True),
    CanFrame(0x04, b"\0\x10" + bytes(6), extended=False, error=True),
    CanFrame(0x20, bytes(8), extended=False, error=True),
    CanFrame(0x88, b"\0\0\x08" + bytes(5), extended=False, error=True),
    CanFrame(0x40, bytes(4), extended=False, error=True),
]


@pytest.mark.parametrize("ending", WRITTEN)
def test_error_frames_come_back_as_errors_with_their_class(tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"bus{ending}"
    recorder = CanRecorder(target, "can0")
    frames = [each for pair in zip(FRAMES, ERRORS, strict=False) for each in pair]
    for number, frame in enumerate(frames):
        recorder.write(pack(frame), round((START_S + number * 0.01) * 1e9))
    recorder.close()
    assert [frame for _, frame in CanFile(target.read_bytes(), ending)] == frames
    if ending != ".log":  # its reader of candump takes errors for data
        assert [m.is_error_frame for m in can.LogReader(target)] == [
            frame.error for frame in frames
        ]


def test_candump_lines_of_errors_are_never_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bus.log"
    lines = (
        "20000040#0000000000000000",
        "20000004#0004000000000000",
        "20000088#0000080000000000",
        "20000040#00000000",
    )
    file.write_text("".join(f"(1700000000.{k:06d}) can0 {line}\n" for k, line in enumerate(lines)))
    assert main(["devices", "decode", str(file), "--type", "vesc"]) == 0
    said = capsys.readouterr().out
    assert "ERROR" in said
    assert "SET_DUTY" not in said
    assert main(["devices", "decode", str(file), "--type", "can", "--show"]) == 0
    assert "bus-off" in capsys.readouterr().out


@pytest.mark.parametrize("ending", [*WRITTEN, ".trc"])
def test_damage_costs_what_is_damaged(tmp_path: Path, ending: str) -> None:
    data = written_by_python_can(tmp_path / f"bus{ending}")
    chance = Random(5)
    for cut in range(0, len(data), max(1, len(data) // 20)):
        list(CanFile(data[:cut], ending))
        hurt = bytearray(data)
        for _ in range(20):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        list(CanFile(bytes(hurt), ending))
    list(CanFile(chance.randbytes(5000), ending))
    if ending in (".log", ".csv"):
        lines = data.splitlines(keepends=True)
        lines[10:10] = [b"(nonsense) can0\n", b"\xff\xfe\x00#zz\n"]
        file = CanFile(b"".join(lines) + b"(1700000", ending)
        assert [frame for _, frame in file] == FRAMES
        assert file.damaged == 3


def test_frames_of_a_port_as_they_are_and_candump_on_the_screen_are_distinguished() -> None:
    assert kind_of(b"".join(map(pack, FRAMES))) == "records"
    assert [frame for _, frame in CanFile(b"".join(map(pack, FRAMES)), "records")] == FRAMES
    assert kind_of(b"  can0  123   [2]  11 22\n") == "screen"
    assert kind_of(b"") == ""
    assert kind_of(Random(1).randbytes(4096)) == ""
    assert kind_of(b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n") == ""


@pytest.mark.parametrize(
    ("ending", "packed"), [(".log", False), (".asc", False), (".blf", False), (".csv", True)]
)
def test_decode_reads_a_bus_and_finds_the_vesc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str, *, packed: bool
) -> None:
    data = written_by_python_can(tmp_path / f"bus{ending}")
    file, table = tmp_path / "whatever.bin", tmp_path / "out.csv"
    file.write_bytes(gzip.compress(data) if packed else data)
    assert main(["devices", "decode", str(file), "--csv", str(table)]) == 0
    said = capsys.readouterr()
    assert "type vesc" in said.err
    assert "STATUS_5" in said.out
    assert "FW_VERSION" in said.out, "a packet in pieces is put together"
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert float(rows[1]["time_s"]) - float(rows[0]["time_s"]) == pytest.approx(0.01, abs=0.002)
    assert main(["devices", "decode", str(file), "--type", "can", "--only", "123"]) == 0


class Port:
    """Three chunks of a CAN port."""

    async def serve(self, host: devices.Recorder) -> None:
        host.on_port("recorded", PortState.OPENED, "can0", 0)
        for frame in FRAMES[:3]:
            host.on_rx("recorded", pack(frame), 10**9)


def test_record_then_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vehicled.runtime.ports.make_port", lambda name, url: Port())
    target = tmp_path / "bus.log"
    assert devices.record(SimpleNamespace(port="can:can0", output=str(target), duration=1.0)) == 0  # type: ignore[arg-type]
    assert "3 frames" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == [target]
    assert [m.arbitration_id for m in can.LogReader(target)] == [
        frame.can_id for frame in FRAMES[:3]
    ]
    assert main(["devices", "decode", str(target), "--type", "vesc"]) == 0


@pytest.mark.parametrize(
    ("data", "arguments", "part"),
    [
        (b"  can0  123   [2]  11 22\n", [], "candump -l"),
        (b"nothing at all", [], "--type"),
        (b"nothing at all", ["--type", "can"], "is not a CAN recording"),
    ],
)
def test_undecodable_frames_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, arguments: list[str], part: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    assert main(["devices", "decode", str(file), *arguments]) == 2
    assert part in capsys.readouterr().err


def sentences() -> Iterator[bytes]:
    yield from [b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n"] * 5


def test_sentences_and_corrections_have_types_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"".join(sentences()))
    assert main(["devices", "decode", str(file)]) == 0
    assert "type nmea" in capsys.readouterr().err
    file.write_bytes(bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98") * 4)
    assert main(["devices", "decode", str(file), "--show"]) == 0
    said = capsys.readouterr()
    assert "type rtcm" in said.err
    assert "1005" in said.out

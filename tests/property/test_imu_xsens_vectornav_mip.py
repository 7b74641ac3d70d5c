"""Streams of Xsens, VectorNav and MicroStrain, cut anywhere, damaged anywhere, and sound frames
that hold nonsense."""

import math
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu import mip, vectornav, xsens
from drivers.imu.base import FRAME_LIMIT_BYTES
from drivers.imu.set_up import ConfigurableImuDevice
from drivers.imu.vectornav_fields import FIELDS
from tests.examples import examples
from vehicled.core.messages import Heading, ImuSample, Message, PortState
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.framing import Framer, Protocol

WANTED: list[type[Message]] = [ImuSample, Heading]
AWKWARD = struct.unpack(">f", b"\x3d\xfa\xff\x36")[0]
"""A number that holds the syncs of two of the protocols."""


def _xsens_frames() -> list[bytes]:
    found = []
    for i in range(12):
        values: list[tuple[int, xsens.Value]] = [
            (0x1020, i), (0x1060, 100 * i), (0xE020, 7),
            (0x2010, (math.cos(0.1 * i), 0.0, 0.0, math.sin(0.1 * i))),
            (0x4022, (0.1 * i, 0.0, 9.8)), (0x8020, (AWKWARD, 0.1 * i, AWKWARD)),
        ]  # fmt: skip
        found.append(xsens.encode_mtdata2(values))
        if i % 4 == 0:
            found.append(
                xsens.encode(0x36, xsens.write(0x7020, bytes(range(250))) + xsens.write(0x1020, i))
            )  # long form
            found.append(xsens.encode(0x3E))
    return found


def _vectornav_frames() -> list[bytes]:
    found = []
    for i in range(12):
        values = {
            "common.time_startup": 10**7 * i,
            "common.ypr": (AWKWARD, 0.0, 1.0 * i),
            "imu.temperature": 20.0,
        }
        values["attitude.status"] = i % 3
        found.append(
            vectornav.encode(
                {
                    **values,
                    "common.acceleration": (0.1 * i, 0.0, -9.8),
                    "common.angular_rate": (AWKWARD,) * 3,
                }
            )
        )
        found.append(vectornav.encode_line(f"VNRRG,75,{i}"))
        if i % 4 == 0:
            satellites = bytes((i, 0)) + bytes(8 * i)
            found.append(
                vectornav.encode(
                    {"gnss.satellite_info": satellites, "gnss.altitude_msl": 1.5, "ins.status": 3}
                )
            )
    return found


def _mip_frames() -> list[bytes]:
    found = []
    for i in range(12):
        time = mip.write(mip.SENSOR, mip.REFERENCE_TIME, 10**7 * i)
        force = mip.write(mip.SENSOR, mip.ACCEL, (0.01 * i, 0.0, -1.0))
        rate = mip.write(mip.SENSOR, mip.GYRO, (AWKWARD, 0.0, 0.0))
        # No value of a sensor, but bytes that begin a packet.
        field = mip.write(
            mip.SENSOR, 0x06, (AWKWARD, struct.unpack(">f", b"\x75\x65\x80\x0e")[0], 0.0)
        )
        if i % 3:
            found.append(mip.encode(mip.SENSOR, time, force, rate, field))
        else:
            found += [mip.encode(mip.SENSOR, time, force), mip.encode(mip.SENSOR, time, rate)]
        found.append(
            mip.encode(
                mip.FILTER, time, mip.write(mip.FILTER, mip.FILTER_EULER, (0.0, 0.1, 0.1 * i, 1))
            )
        )
        found.append(mip.encode(mip.BASE, (mip.REPLY, b"\x06\x00")))
    return found


class Case:
    """One device: its frames, what finds them, and how to make it."""

    def __init__(
        self,
        frames: list[bytes],
        protocols: Sequence[Protocol],
        device: Callable[[], ConfigurableImuDevice],
        decode: Callable[[bytes], Any],
        sound: Callable[[bytes], bytes],
        recording: str,
    ) -> None:
        self.frames = frames
        self.stream = b"".join(frames)
        self.protocols = protocols
        self.device = device
        self.decode = decode
        self.sound = sound
        self.recording = recording


def _sound_vectornav(noise: bytes) -> bytes:
    groups = noise[:1] or b"\x01"
    body = groups + noise[1:]
    return b"\xfa" + body + crc16_xmodem(body).to_bytes(2, "big")


def _sound_mip(noise: bytes) -> bytes:
    """Sound as a packet, with fields whose descriptors are known and whose data is noise."""
    fields: list[tuple[int, bytes]] = []
    at = 1
    descriptors = [descriptor for kind, descriptor in mip.LAYOUTS if kind == mip.SENSOR]
    while at < len(noise) and len(fields) < 6:
        descriptor = descriptors[noise[at] % len(descriptors)]
        size = mip.LAYOUTS[mip.SENSOR, descriptor].size
        fields.append((descriptor, (noise[at + 1 : at + 1 + size] * size)[:size]))
        at += 1 + size
    return mip.encode(
        (mip.SENSOR, mip.FILTER, mip.COMMANDS_3DM)[noise[0] % 3 if noise else 0], *fields
    )


def _sound_xsens(noise: bytes) -> bytes:
    ids = [xdi | low for xdi in xsens._COMPONENTS for low in range(16)] + list(xsens._PLAIN)
    values, at = b"", 0
    while at < len(noise) and len(values) < 200:
        xdi = ids[noise[at] % len(ids)]
        count = xsens._COMPONENTS.get(xdi & 0xFFF0)
        size = xsens._PLAIN[xdi].size if count is None else xsens._FORMATS[xdi & 3][count].size
        values += (
            xdi.to_bytes(2, "big")
            + bytes((size,))
            + (noise[at + 1 : at + 1 + size] * size)[:size].ljust(size, b"\xff")
        )
        at += 1 + size
    return xsens.encode(xsens.MTDATA2, values)


CASES = {
    "xsens": Case(
        _xsens_frames(), (xsens.PROTOCOL,),
        lambda: xsens.XsensDevice(xsens.XsensParams(), WANTED, 1), xsens.decode, _sound_xsens,
        "xsens-go__1_output.bin",
    ),
    "vectornav": Case(
        _vectornav_frames(), (vectornav.BINARY, vectornav.LINE),
        lambda: vectornav.VectorNavDevice(vectornav.VectorNavParams(), WANTED, 1),
        vectornav.decode, _sound_vectornav, "vn100__F00294",
    ),
    "mip": Case(
        _mip_frames(), (mip.PROTOCOL,), lambda: mip.MipDevice(mip.MipDevice.Params(), WANTED, 1),
        mip.decode, _sound_mip, "mip_sdk__mip_data_part1.bin",
    ),
}  # fmt: skip
each_device = pytest.mark.parametrize("name", CASES)


def _cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@each_device
@given(places=st.lists(st.integers(0, 1 << 20), max_size=40))
def test_any_chunking_gives_the_same_messages(name: str, places: list[int]) -> None:
    case = CASES[name]
    whole = case.device().on_rx(case.stream, 10**9)
    device = case.device()
    pieces = [
        message for piece in _cut(case.stream, places) for message in device.on_rx(piece, 10**9)
    ]
    assert pieces == list(whole)
    assert sum(isinstance(message, ImuSample | Heading) for message in whole) == 12 * 2
    assert device.bad_frames == device.dropped_bytes == 0


@each_device
@examples(15)
@given(places=st.lists(st.integers(0, 1 << 20), max_size=200))
def test_any_chunking_of_a_recording_gives_the_same_messages(
    name: str, shared_data: Path, places: list[int]
) -> None:
    case = CASES[name]
    data = (shared_data / "captures" / "imu" / case.recording).read_bytes()[:20_000]
    whole = case.device().on_rx(data, 10**9)
    device = case.device()
    pieces = [message for piece in _cut(data, places) for message in device.on_rx(piece, 10**9)]
    assert whole
    assert pieces == list(whole)


@each_device
@given(data=st.data())
def test_damage_costs_the_damaged_frames_only(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    hit = data.draw(
        st.dictionaries(
            st.integers(0, len(case.stream) - 1), st.integers(1, 255), min_size=1, max_size=6
        )
    )
    damaged = bytearray(case.stream)
    for place, change in hit.items():
        damaged[place] ^= change
    untouched, at = [], 0
    for frame in case.frames:
        if not any(at <= place < at + len(frame) for place in hit):
            untouched.append(frame)
        at += len(frame)
    framer = Framer(case.protocols, FRAME_LIMIT_BYTES)
    found = [
        frame for piece in _cut(bytes(damaged), [100, 300, 777]) for _, frame in framer.feed(piece)
    ]
    found += [frame for _, frame in framer.flush()]
    missing = iter(found)
    assert all(frame in missing for frame in untouched)
    assert framer.bad_frames + framer.dropped_bytes > 0


@each_device
@given(chunks=st.lists(st.binary(max_size=200), max_size=20), data=st.data())
def test_hostile_bytes_never_raise(name: str, chunks: list[bytes], data: st.DataObject) -> None:
    """Noise, and frames that are sound and full of noise, to a device in the middle of its
    dialogue."""
    case = CASES[name]
    device = case.device()
    device.on_port(PortState.OPENED, "", 0)
    for i, chunk in enumerate(chunks):
        if data.draw(st.booleans()):
            chunk = case.sound(chunk)
        for message in (*device.on_rx(chunk, i), *device.on_time(i)):
            assert isinstance(message, device.produces)
            if isinstance(message, ImuSample):
                values = (*message.specific_force_mps2, *message.angular_rate_radps)
                assert not any(math.isinf(value) for value in values)
    for chunk in chunks:
        list(case.decode(chunk))
        list(case.decode(case.sound(chunk)))


@each_device
def test_a_million_damaged_bytes(name: str) -> None:
    """Half of them noise, half of them frames with one byte in fifty changed; the memory stays
    bounded."""
    case = CASES[name]
    generator = np.random.default_rng(5)
    noise = generator.integers(0, 256, 500_000, dtype=np.uint8).tobytes()
    frames = np.frombuffer(
        (case.stream * (500_000 // len(case.stream) + 1))[:500_000], dtype=np.uint8
    ).copy()
    hit = generator.random(frames.size) < 0.02
    frames[hit] = generator.integers(0, 256, int(hit.sum()), dtype=np.uint8)
    device = case.device()
    for part in (noise, frames.tobytes()):
        for at in range(0, len(part), 997):
            device.on_rx(part[at : at + 997], at)
            assert device._framer.buffered_bytes < FRAME_LIMIT_BYTES
    assert device.samples > 100
    assert device.bad_frames > 1000


@given(
    kind=st.sampled_from(sorted(xsens._COMPONENTS)),
    low=st.integers(0, 15),
    values=st.lists(st.integers(-(2**30), 2**30), min_size=9, max_size=9),
)
def test_xsens_values_survive_every_number_format(kind: int, low: int, values: list[int]) -> None:
    """Multiples of 2^-20 below 2^10: exact in every format but float32."""
    count = xsens._COMPONENTS[kind]
    exact = tuple(value / 2**20 for value in values[:count])
    value = exact[0] if count == 1 else exact
    ((xdi, raw),) = xsens.items(xsens.write(kind | low, value))
    assert xdi == kind | low
    assert len(raw) == count * (4, 4, 6, 8)[low & 3]
    assert xsens.read(xdi, raw) == (
        pytest.approx(value, rel=1e-6) if low & 3 == xsens.FLOAT32 else value
    )


@given(yaw=st.floats(-3.1, 3.1), pitch=st.floats(-1.4, 1.4), roll=st.floats(-3.1, 3.1))
def test_xsens_yaw_is_the_same_in_every_world_frame(yaw: float, pitch: float, roll: float) -> None:
    """The same attitude in ENU, NED and NWU, as angles; ``yaw`` is the one from east."""
    shifted = {xsens.ENU: yaw, xsens.NWU: yaw - math.pi / 2, xsens.NED: math.pi / 2 - yaw}
    for frame, angle in shifted.items():
        decoded = xsens.yaw_from_east(
            xsens.EULER_ANGLES | frame,
            (math.degrees(roll), math.degrees(pitch), math.degrees(angle)),
        )
        assert (decoded - yaw + math.pi) % (2 * math.pi) - math.pi == pytest.approx(0.0, abs=1e-9)


@given(
    value=st.sampled_from([math.inf, -math.inf, math.nan, 3e38, -3e38, 1e-45]),
    other=st.sampled_from([0.0, math.inf, 3e38]),
)
def test_numbers_that_are_none_are_refused_wherever_they_stand(value: float, other: float) -> None:
    """Sound frames whose check sums hold, with what a faulty sensor computes: nothing is raised,
    nothing infinite is passed on."""
    streams: dict[str, list[bytes]] = {name: [] for name in CASES}
    for kind, count in xsens._COMPONENTS.items():
        several = (value, *[other] * (count - 1)) if count > 1 else value
        reverse = (*[other] * (count - 1), value) if count > 1 else value
        for order in (several, reverse):
            for low in (xsens.FLOAT32, xsens.FLOAT64 | xsens.NED):
                base: list[tuple[int, xsens.Value]] = [
                    (0x1060, 100),
                    (0xE020, 7),
                    (kind | low, order),
                ]
                streams["xsens"].append(xsens.encode_mtdata2(base))
    for name in FIELD_NAMES:
        group, _, field = name.partition(".")
        code = dict(FIELDS[group])[field]
        if code[-1] in "fd":
            count = int(code[:-1] or 1)
            streams["vectornav"].append(
                vectornav.encode({name: (value, *[other] * (count - 1)) if count > 1 else value})
            )
            streams["vectornav"].append(
                vectornav.encode({name: (*[other] * (count - 1), value) if count > 1 else value})
            )
    interval = mip.write(mip.SENSOR, mip.REFERENCE_TIME_DELTA, 1)
    for (kind, descriptor), layout in mip.LAYOUTS.items():
        values = tuple(
            value if isinstance(zero, float) else 1 for zero in layout.unpack(bytes(layout.size))
        )
        packed = (descriptor, layout.pack(*values))
        streams["mip"].append(
            mip.encode(kind, interval, packed) if kind >= 0x80 else mip.encode(kind, packed)
        )
    for name, frames in streams.items():
        device = CASES[name].device()
        for i, frame in enumerate(frames):
            for message in device.on_rx(frame, i):
                if isinstance(message, ImuSample):
                    assert not any(
                        map(math.isinf, (*message.specific_force_mps2, *message.angular_rate_radps))
                    )
                if isinstance(message, Heading):
                    assert math.isfinite(message.yaw_rad)
        assert device.bad_frames == 0


FIELD_NAMES = [f"{group}.{name}" for group, cells in FIELDS.items() for name, code in cells if code]


@given(
    names=st.sets(st.sampled_from(FIELD_NAMES), min_size=1, max_size=8), number=st.integers(0, 60)
)
def test_vectornav_frames_of_any_masks_survive(names: set[str], number: int) -> None:
    values: dict[str, Any] = {}
    for name in names:
        group, _, field = name.partition(".")
        code = dict(FIELDS[group])[field]
        if code == "*":
            values[name] = (
                bytes(10 if field == "raw" else 0)
                + bytes((number, 0))
                + bytes((28 if field == "raw" else 8) * number)
            )
        elif code.endswith("s"):
            values[name] = bytes(int(code[:-1]))
        else:
            layout = struct.Struct("<" + code)
            several = tuple(type(value)(number) for value in layout.unpack(bytes(layout.size)))
            values[name] = several[0] if len(several) == 1 else several
    frame = vectornav.encode(values)
    ((label, found),) = vectornav.decode(frame)
    assert isinstance(found, vectornav.BinaryFrame)
    assert found.values == values
    assert label == f"VN fa{found.header.hex()}"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2049 bytes"):
        xsens.encode(0x36, bytes(2049))
    with pytest.raises(ValueError, match="not known"):
        xsens.write(0x7777, 1.0)
    with pytest.raises(ValueError, match="no value"):
        xsens.write(0x4020, (1.0, 2.0))
    with pytest.raises(ValueError, match="no field"):
        vectornav.encode({"common.nothing": 1})
    with pytest.raises(ValueError, match="no value"):
        vectornav.encode({"common.ypr": (1.0,)})
    with pytest.raises(ValueError, match="do not fit"):
        mip.encode(0x80, (1, bytes(254)))
    with pytest.raises(ValueError, match="do not fit"):
        mip.encode(0x80, *[(1, bytes(60))] * 5)
    with pytest.raises(ValueError, match="not known"):
        mip.write(0x80, 0x77, 1)
    with pytest.raises(ValueError, match="no value"):
        mip.write(0x80, 0x04, 1.0)

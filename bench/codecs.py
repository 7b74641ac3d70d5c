"""Cost of decoding: our codecs against other parsers of the same bytes, and a full serial line in
shares of a core.

    python bench/codecs.py [--rounds 7] [--json]

CPU time of this thread; ours and the reference in turns within one run, medians over the rounds.
Ours gets pieces of 512 bytes, as a port delivers them, the reference all bytes at once. Both must
find the same number of messages; what each does for it differs:

* NAV-PVT, NAV-PVT without bit fields: framing, check sum and every field, against pyubx2 as it
  comes and set to leave bit fields alone, which is its fastest; ours gives bit fields as integers
  with properties
* mixed, mixed framing: UBX, NMEA and RTCM3 on one port, the capture of a ZED-F9R beside the project
  (left out where it is absent). First with fields, against pyubx2, which has fields of every
  message where ours has those that the driver uses; then the framing alone, against pyubx2 set not
  to parse. That believes every length and verifies no check sum, ours verifies all
* N100, VESC STATUS, ImuSample: no other parser in Python is known; the reference is the floor, one
  bare ``struct.unpack`` (or msgpack's decoding) per message at places known beforehand: no search
  for frames, no check sum, no message made (but msgpack's)

The full line is 92 160 bytes a second, all that 921600 baud carry, through ``on_rx`` of the
devices: a ZED-F9P's complete epochs at 25 Hz, and the rest N100 with both its packets per sample,
some 710 samples a second, in pieces of a millisecond. It ends in the messages of the daemon: frames
found and verified, epochs assembled, device clocks regressed, sensors watched.
"""

import argparse
import io
import json
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sin
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import msgpack
from pyubx2 import ERR_IGNORE, UBXReader

from drivers.imu import n100
from drivers.msglink import codec as msglink
from drivers.ublox import codec as ublox
from drivers.ublox import layouts, nmea
from drivers.ublox.device import UbloxDevice
from drivers.vesc.canbus import Status, decode_can, encode_can
from vehicled.core.messages import GnssFix, Heading, ImuSample, Message, PortState, Vector3
from vehicled.core.wire.can import RECORD_BYTES, pack, unpack_all
from vehicled.core.wire.framing import Framer
from vehicled.offline.recordings.public_data import DATA_FOLDER

CAPTURE = Path(DATA_FOLDER).expanduser() / "captures/gnss/gpsd__ublox-zed-f9r.log"
PIECE_BYTES = 512
FRAMES = 1000
REPEATS = 5
"""Runs of our codec per round, as one is short."""

LINE_BYTES_PER_S = 92_160
LINE_S = 4
EPOCH_HZ = 25
START_NS = 1_000_000_000
MS = 1_000_000


class Row(NamedTuple):
    """One comparison: what each side is called, and does; both return the number of messages."""

    name: str
    data: bytes
    ours: Callable[[], int]
    reference_name: str
    reference: Callable[[], int]


# ---------------------------------------------------------------- bytes


def nav_pvt(i: int) -> layouts.NavPvt:
    """Return a receiver's NAV-PVT with a fixed solution."""
    # Date and clock, accuracy and fix, place, accuracies, motion, their accuracies and what is
    # seldom looked at.
    return layouts.NavPvt(
        40 * i, 2024, 5, 17, 9, 41, i % 60, 0xF7, 25, -120_000 + i, 3, 0x83, 0xEA, 28,
        -894_012_345 + 13 * i, 430_712_345 + 7 * i, 286_412, 319_876, 14, 18, 1_500 + i, -420, 3,
        1_558, 34_443_210, 62, 180_000, 98, 0, 0, 0, 0,
    )  # fmt: skip


def epoch(i: int) -> bytes:
    """Return all messages that the driver requests from a receiver, once per epoch."""
    pvt = nav_pvt(i)
    place = (pvt.longitude_deg_e7, pvt.latitude_deg_e7, pvt.height_mm, pvt.height_msl_mm)
    high_precision = layouts.NavHpposllh(0, 0, pvt.itow_ms, *place, 12, -34, 5, -6, 141, 180)
    covariance = layouts.NavCov(
        pvt.itow_ms, 0, 1, 1, 1e-4, 1e-6, 2e-6, 1e-4, 1e-6, 3e-4, 1e-3, 1e-5, 1e-5, 1e-3, 1e-5, 2e-3
    )
    dilution = layouts.NavDop(pvt.itow_ms, 120, 98, 60, 80, 55, 40, 38)
    return b"".join(
        map(ublox.encode, (pvt, high_precision, covariance, dilution, layouts.NavEoe(pvt.itow_ms)))
    )


def force_and_rate(i: int) -> tuple[Vector3, Vector3]:
    """Return a sample of a vehicle that shakes."""
    return (0.3 * sin(0.1 * i), 0.2 * sin(0.07 * i), -9.81 + 0.1 * sin(0.3 * i)), (
        0.01 * sin(0.2 * i),
        0.0,
        0.3 * sin(0.01 * i),
    )


def imu_frame(i: int, sn: int, t_us: int) -> bytes:
    """Return a packet 0x40."""
    force, rate = force_and_rate(i)
    return n100.encode_imu(
        n100.ImuPacket(rate, force, (200.0, 0.0, 450.0), 40.0, 101_325.0, 40.0, t_us), sn
    )


def ahrs_frame(i: int, sn: int, t_us: int) -> bytes:
    """Return a packet 0x41."""
    return n100.encode_ahrs(
        n100.AhrsPacket(force_and_rate(i)[1], 0.0, 0.0, 1.0 + 1e-4 * i, (1.0, 0.0, 0.0, 0.0), t_us),
        sn,
    )


# ---------------------------------------------------------------- comparisons


def pieces(data: bytes, size: int = PIECE_BYTES) -> list[bytes]:
    """Split bytes into pieces as a port delivers them."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def ubx_fields(data: bytes) -> Callable[[], int]:
    """Return a run of our parser that finds and decodes frames."""
    cut = pieces(data)

    def decode() -> int:
        feed, count = ublox.framer().feed, 0
        for piece in cut:
            for name, frame in feed(piece):
                if name == ublox.UBX:
                    ublox.parse_ubx(frame)
                elif name == ublox.NMEA:
                    nmea.parse(frame)
                else:
                    ublox.rtcm_number(frame)
                count += 1
        return count

    return decode


def ubx_frames(data: bytes) -> Callable[[], int]:
    """Return a run of our parser that only finds frames."""
    cut = pieces(data)

    def find() -> int:
        feed = ublox.framer().feed
        return sum(len(feed(piece)) for piece in cut)

    return find


def pyubx2(data: bytes, **options: Any) -> Callable[[], int]:
    """Return a run of pyubx2 over the same bytes."""
    return lambda: sum(
        1 for _ in UBXReader(io.BytesIO(data), protfilter=7, quitonerror=ERR_IGNORE, **options)
    )


def bare(layout: struct.Struct, data: bytes, stride: int, offset: int) -> Callable[[], int]:
    """Return a run of the floor: a layout unpacked at known places."""
    unpack_from, places = layout.unpack_from, range(offset, len(data), stride)

    def unpack() -> int:
        for at in places:
            unpack_from(data, at)
        return len(places)

    return unpack


def n100_row() -> Row:
    """Compare packets 0x40, decoded as the driver does."""
    data = b"".join(imu_frame(i, i, 1_000_000 + 2_500 * i) for i in range(FRAMES))
    cut = pieces(data)

    def decode() -> int:
        feed, samples = Framer((n100.PROTOCOL,)).feed, n100.N100Codec().decode
        return sum(len(samples(name, frame)) for piece in cut for name, frame in feed(piece))

    stride = len(data) // FRAMES
    return Row(
        "N100 IMU",
        data,
        decode,
        "bare struct",
        bare(struct.Struct("<12fq"), data, stride, n100.HEAD_BYTES),
    )


def vesc_row() -> Row:
    """Compare STATUS frames in the kernel's records, 32 to a piece."""
    data = b"".join(pack(encode_can(Status(1, 4000.0 + i, 3.5, 0.25))) for i in range(FRAMES))
    cut = pieces(data)

    def decode() -> int:
        return sum(
            isinstance(decode_can(frame)[1], Status) for piece in cut for frame in unpack_all(piece)
        )

    return Row(
        "VESC STATUS",
        data,
        decode,
        "bare struct",
        bare(struct.Struct(">ihh"), data, RECORD_BYTES, 8),
    )


def imu_sample_row() -> Row:
    """Compare ImuSample of a message device."""
    frames = [
        msglink.encode(ImuSample(2_500_000 * i, 0, *force_and_rate(i), 313.0))
        for i in range(1, FRAMES + 1)
    ]
    data = b"".join(frames)
    cut = pieces(data)
    payloads = [frame[5:-2] for frame in frames]
    decode_payload = msgpack.Decoder(ImuSample).decode

    def decode() -> int:
        feed = msglink.MsglinkDecoder().feed
        return sum(len(feed(piece)) for piece in cut)

    def floor() -> int:
        for payload in payloads:
            decode_payload(payload)
        return len(payloads)

    return Row("ImuSample", data, decode, "bare msgpack", floor)


def rows() -> list[Row]:
    """Return all comparisons that can run here."""
    pvt = b"".join(ublox.encode(nav_pvt(i)) for i in range(FRAMES))
    found = [
        Row("NAV-PVT", pvt, ubx_fields(pvt), "pyubx2", pyubx2(pvt)),
        Row(
            "NAV-PVT without bit fields",
            pvt,
            ubx_fields(pvt),
            "pyubx2",
            pyubx2(pvt, parsebitfield=False),
        ),
    ]
    if CAPTURE.exists():
        mixed = CAPTURE.read_bytes()
        found += [
            Row("mixed", mixed, ubx_fields(mixed), "pyubx2", pyubx2(mixed)),
            Row("mixed framing", mixed, ubx_frames(mixed), "pyubx2", pyubx2(mixed, parsing=False)),
        ]
    return [*found, n100_row(), vesc_row(), imu_sample_row()]


def spent_us(run: Callable[[], int], repeats: int) -> tuple[float, int]:
    """Return CPU time per message and the number of messages."""
    begin = time.thread_time_ns()
    for _ in range(repeats):
        count = run()
    return (time.thread_time_ns() - begin) / (1e3 * repeats * count), count


def compare(row: Row, rounds: int) -> dict[str, Any]:
    """Measure ours and the reference in turns."""
    ours, reference = [], []
    for _ in range(rounds):
        own_us, own_count = spent_us(row.ours, REPEATS)
        other_us, other_count = spent_us(row.reference, 1)
        if own_count != other_count:
            raise SystemExit(
                f"{row.name}: {own_count} messages by us, {other_count} by {row.reference_name}"
            )
        ours.append(own_us)
        reference.append(other_us)
    us, reference_us = statistics.median(ours), statistics.median(reference)
    return {
        "messages": own_count,
        "us_per_message": us,
        "mb_per_s": len(row.data) / (own_count * us),
        "reference": row.reference_name,
        "reference_us_per_message": reference_us,
        "ratio": reference_us / us,
    }


# ---------------------------------------------------------------- a full line


class FullLine:
    """Pieces of a millisecond for both devices, and what becomes of them."""

    def __init__(self) -> None:
        epochs = [epoch(i) for i in range(EPOCH_HZ * LINE_S)]
        self.epochs = len(epochs)
        pair_bytes = len(imu_frame(0, 0, 0)) + len(ahrs_frame(0, 0, 0))
        self.rate_hz = (LINE_BYTES_PER_S - EPOCH_HZ * len(epochs[0])) / pair_bytes
        self.samples = int(self.rate_hz * LINE_S)
        stream = bytearray()
        for i in range(self.samples):
            t_us = 1_000_000 + round(i * 1e6 / self.rate_hz)
            stream += imu_frame(i, 2 * i, t_us) + ahrs_frame(i, 2 * i + 1, t_us)
        self.bytes_per_s = (len(stream) + sum(map(len, epochs))) / LINE_S
        slots = 1000 * LINE_S
        cuts = [len(stream) * slot // slots for slot in range(slots + 1)]
        self._imu = [bytes(stream[a:b]) for a, b in pairwise(cuts)]
        self._gnss: list[tuple[int, bytes]] = []
        """Slot and bytes: an epoch comes at once, at the rate of the line."""
        for i, data in enumerate(epochs):
            slot = i * 1000 // EPOCH_HZ
            self._gnss += [
                (slot + k, piece) for k, piece in enumerate(pieces(data, LINE_BYTES_PER_S // 1000))
            ]

    def share_of_core(self) -> float:
        """CPU time of the devices over the time that the bytes take on the line."""
        imu = n100.N100Device(n100.N100Params(rate_hz=self.rate_hz), (ImuSample, Heading), 50 * MS)
        gnss = UbloxDevice(
            UbloxDevice.Params(configure=False, rate_hz=EPOCH_HZ), (GnssFix,), 50 * MS
        )
        for device in (imu, gnss):
            device.on_port(PortState.OPENED, "", START_NS)
        messages: list[Message] = []
        begin = time.thread_time_ns()
        for slot, data in enumerate(self._imu):
            messages += imu.on_rx(data, START_NS + (slot + 1) * MS)
        for slot, data in self._gnss:
            messages += gnss.on_rx(data, START_NS + (slot + 1) * MS)
        spent_ns = time.thread_time_ns() - begin
        self._check(messages)
        return spent_ns / (LINE_S * 1e9)

    def _check(self, messages: Sequence[Message]) -> None:
        for kind, expected in (
            (ImuSample, self.samples),
            (Heading, self.samples),
            (GnssFix, self.epochs),
        ):
            count = sum(isinstance(message, kind) for message in messages)
            if count != expected:
                raise SystemExit(
                    f"the full line should give {expected} {kind.__name__}, but gave {count}"
                )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    compared = {row.name: compare(row, arguments.rounds) for row in rows()}
    line = FullLine()
    shares = [line.share_of_core() for _ in range(arguments.rounds)]
    full_line = {
        "bytes_per_s": line.bytes_per_s,
        "n100_samples_per_s": line.rate_hz,
        "gnss_epochs_per_s": EPOCH_HZ,
        "share_of_core": statistics.median(shares),
    }
    left_out = (
        "" if CAPTURE.exists() else f"mixed: no capture at {CAPTURE}: vehicled data fetch captures"
    )
    if arguments.json:
        print(
            json.dumps({"codecs": compared, "full_line": full_line, "left_out": left_out}, indent=2)
        )
        return
    print(f"CPU time per message, median of {arguments.rounds} rounds")
    for name, row in compared.items():
        print(
            f"  {name:<27}{row['us_per_message']:7.2f} us {row['mb_per_s']:6.1f} MB/s   "
            f"{row['reference']:<12} {row['reference_us_per_message']:7.2f} us   ratio "
            f"{row['ratio']:6.2f}"
        )
    if left_out:
        print(f"  left out: {left_out}")
    print(
        f"921600 baud filled by N100 ({line.rate_hz:.0f} Hz) and UBX ({EPOCH_HZ} Hz), "
        f"{line.bytes_per_s:.0f} bytes/s: {100 * statistics.median(shares):.2f} % of a core (min "
        f"{100 * min(shares):.2f}, max {100 * max(shares):.2f})"
    )


if __name__ == "__main__":
    main()

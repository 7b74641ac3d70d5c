"""A walk with an RTK receiver at 4 Hz: UBX and NMEA in one stream, with the time tag that RTKLIB
writes beside it.

Epochs are encoded by the emulator of the receiver, because the recorded walk is too large to be
brought along. Messages per epoch, changes of the carrier solution and scatter of the arrivals are
those of the recorded one.
"""

import json
import struct
from math import cos, sin
from pathlib import Path
from random import Random

from drivers.ublox.codec import encode, ubx_frame
from sim_backend.emulators.ublox_epoch import GPS_EPOCH_S, LEAP_S, NAV, SENTENCES, Instant
from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.core.wire.crc import xor8
from vehicled.paths.datum import Datum

NAME = "gnss_imu__walk_gnss_1730.ubx"
EPOCHS = 536
STEP_MS = 250
FIRST_UTC_NS = (GPS_EPOCH_S + 2328 * 604_800 - LEAP_S) * 1_000_000_000 + 408_639_750_000_000
FLOAT = (range(300, 304), range(353, EPOCHS))
"""Epochs without fixed ambiguities: one second, and the end."""
RAWX, SFRBX = b"\x02\x15", b"\x02\x13"
SPEED_MPS, CIRCLE_RADPS = 1.3, 0.05
TAG_HEAD = b"TIMETAG RTKLIB EX".ljust(76, b"\0")


def make(captures: Path) -> None:
    """Write the stream and its time tag to ``gnss``, and what is in it to ``counts.json``."""
    chance, data, records = Random(1730), bytearray(), []
    counts = dict.fromkeys(
        ("GNGGA", "GNGLL", "GNRMC", "GNTXT", "NAV-PVT", "RXM-RAWX", "RXM-SFRBX"), 0
    )
    datum = Datum.from_degrees(40.07, -105.18, 1600.0)

    def put(name: str, *frames: bytes) -> None:
        counts[name] += len(frames)
        data.extend(b"".join(frames))

    for k in range(EPOCHS):
        now = Instant(FIRST_UTC_NS + k * STEP_MS * 1_000_000, True, _fix(datum, k), None)
        tick_ms = 110 + k * STEP_MS + round(chance.expovariate(1 / 11.0))
        for name in ("RMC", "GGA", "GLL"):
            put(f"GN{name}", SENTENCES[name](now))
        put("NAV-PVT", encode(NAV["NAV-PVT"](now)))
        records.append((tick_ms, len(data)))
        satellites = 8
        put(
            "RXM-RAWX",
            ubx_frame(
                RAWX,
                bytes(11) + bytes((satellites,)) + bytes(4) + chance.randbytes(32 * satellites),
            ),
        )
        put(
            "RXM-SFRBX",
            *(
                ubx_frame(SFRBX, bytes((0, 1, 0, 0, 10, 0, 2, 0)) + chance.randbytes(40))
                for _ in range(4)
            ),
        )
        if k % 4:
            body = b"GNTXT,01,01,02,walk"
            put("GNTXT", b"$%s*%02X\r\n" % (body, xor8(body)))
        records.append((tick_ms + 20, len(data)))
    (captures / "gnss" / NAME).write_bytes(data)
    tag = b"".join(struct.pack("<II", *record) for record in records)
    (captures / "gnss" / f"{NAME}.tag").write_bytes(TAG_HEAD + tag)
    ubx = sum(n for name, n in counts.items() if "-" in name)
    framed = {"NMEA": sum(counts.values()) - ubx, "UBX": ubx}
    listing = json.loads((captures / "counts.json").read_text())
    listing[f"gnss/{NAME}"] = {
        "counts": counts,
        "extra": {"by_protocol": framed, "unframed_bytes": 0},
    }
    (captures / "counts.json").write_text(json.dumps(listing))


def _fix(datum: Datum, k: int) -> GnssFix:
    t_s = k * STEP_MS * 1e-3
    radius_m, turned = SPEED_MPS / CIRCLE_RADPS, CIRCLE_RADPS * t_s
    latitude_rad, longitude_rad, height_m = datum.to_geodetic(
        radius_m * cos(turned), radius_m * sin(turned), 0.1 * sin(t_s)
    )
    floating = any(k in epochs for epochs in FLOAT)
    variance_m2 = 0.15**2 if floating else 0.014**2
    return GnssFix(
        0, 0, latitude_rad, longitude_rad, height_m,
        velocity_enu_mps=(-SPEED_MPS * sin(turned), SPEED_MPS * cos(turned), 0.02),
        position_covariance_m2=(variance_m2, 0.0, 0.0, 0.0, variance_m2, 0.0, 0.0, 0.0,
            4.0 * variance_m2),
        velocity_covariance_m2ps2=(0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.04),
        fix_type=FixType.FIX_3D,
        carrier=CarrierSolution.FLOAT if floating else CarrierSolution.FIXED,
        differential=True, satellites=17, hdop=0.7, vdop=1.1, correction_age_s=1.0,
    )  # fmt: skip

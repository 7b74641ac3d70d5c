"""Keys of encrypted SPARTN services, as PointPerfect gives them: RXM-SPARTN-KEY (02 36), and the
texts that hold them. Sources: NOTES.md."""

import json
from collections.abc import Mapping
from struct import Struct as Layout
from typing import Any, NamedTuple

from drivers.gnss.epochs import WEEK_MS
from drivers.ublox.codec import UBX_OVERHEAD_BYTES, ubx_frame

KEY = b"\x02\x36"
VERSION = 1
MOST_KEYS = 2
KEY_BYTES = (16, 32)
"""Lengths of keys: AES-128 of all services so far, AES-256."""
LEAP_S = 18
"""GPS time less UTC. Keys change by day, so a later leap second would not matter."""
_GPS_EPOCH_MS = 315_964_800_000
_HEAD, _ENTRY = Layout("<BB2x"), Layout("<BBHI")


class SpartnKey(NamedTuple):
    """One key, valid from a second of GPS time on."""

    value: bytes
    week: int
    tow_s: int

    def __repr__(self) -> str:
        return f"SpartnKey(week={self.week}, tow_s={self.tow_s})"


def encode_keys(found: list[SpartnKey]) -> bytes:
    """Return the frame for the receiver: the present key, and the next one."""
    heads = [_ENTRY.pack(0, len(key.value), key.week, key.tow_s) for key in found]
    payload = _HEAD.pack(VERSION, len(found)) + b"".join(heads)
    return ubx_frame(KEY, payload + b"".join(key.value for key in found))


def parse_keys(payload: bytes) -> list[SpartnKey]:
    """Return the keys in the payload of RXM-SPARTN-KEY. Raises ValueError for other bytes."""
    if len(payload) < _HEAD.size or payload[0] != VERSION:
        raise ValueError("the message has another version")
    count = payload[1]
    at = _HEAD.size + count * _ENTRY.size
    if not 1 <= count <= MOST_KEYS or len(payload) < at:
        raise ValueError(f"the message has {count} keys")
    found = []
    for index in range(count):
        _, size, week, tow_s = _ENTRY.unpack_from(payload, _HEAD.size + index * _ENTRY.size)
        found.append(_key(payload[at : at + size], week, tow_s))
        at += size
    return found


def read_keys(text: str) -> list[SpartnKey]:
    """Return the keys in a text: the hexadecimal digits of an RXM-SPARTN-KEY message, the JSON of
    PointPerfect, or lines ``KEY WEEK SECOND``. Raises ValueError, whose text holds no key."""
    text = text.strip()
    if text.startswith("{"):
        return _of_json(text)
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if lines and all(len(line) == 3 for line in lines):
        try:
            parts = [(bytes.fromhex(key), int(week), int(tow)) for key, week, tow in lines]
        except ValueError:
            raise ValueError("a line is not KEY WEEK SECOND") from None
        return [_key(*part) for part in parts[:MOST_KEYS]]
    try:
        frame = bytes.fromhex("".join(text.split()))
    except ValueError:
        raise ValueError(
            "it holds no key: expected JSON of PointPerfect, the digits of an RXM-SPARTN-KEY "
            "message, or lines KEY WEEK SECOND"
        ) from None
    size = int.from_bytes(frame[4:6], "little") + UBX_OVERHEAD_BYTES
    if frame[:4] != b"\xb5\x62" + KEY or size != len(frame) or ubx_frame(KEY, frame[6:-2]) != frame:
        raise ValueError("it is no sound RXM-SPARTN-KEY message")
    return parse_keys(frame[6:-2])


def _of_json(text: str) -> list[SpartnKey]:
    try:
        found: Any = json.loads(text)
        found = found.get("dynamickeys", found)
        periods: list[Mapping[str, Any]] = [found[name] for name in ("current", "next")]
        return [
            _key(bytes.fromhex(each["value"]), *_gps_time(int(each["start"]))) for each in periods
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            "its JSON has no dynamickeys with start and value of current and next"
        ) from None


def _gps_time(unix_ms: int) -> tuple[int, int]:
    week, tow_ms = divmod(unix_ms - _GPS_EPOCH_MS + LEAP_S * 1000, WEEK_MS)
    return week, tow_ms // 1000


def _key(value: bytes, week: int, tow_s: int) -> SpartnKey:
    if len(value) not in KEY_BYTES:
        raise ValueError(f"a key has {len(value)} bytes, not 16")
    if not 0 <= week < 1 << 16 or not 0 <= tow_s < WEEK_MS // 1000:
        raise ValueError("a key is valid from no week and second")
    return SpartnKey(value, week, tow_s)

"""Names what a file or a stream of bytes is when no driver reads it: by its first bytes, or by
frames whose checksums are right.

Pure. The work is bounded: each byte is covered by a checksum at most a few times, whatever the
bytes are.
"""

import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from vehicled.core.wire.crc import crc16_xmodem, xor8

ENOUGH = 2
"""Frames with a right checksum that are no chance; of formats without one, in a row."""
MOST_FRAMES = 2000
MOST_WORK = 6
"""Checksums may cover so many times the bytes of the file."""
_LISTED = 4

_IMPORT = "convert it with vehicled log import"
_MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (b"\xd4\xc3\xb2\xa1", "a network capture (pcap)", ""),
    (b"\xa1\xb2\xc3\xd4", "a network capture (pcap)", ""),
    (b"\x4d\x3c\xb2\xa1", "a network capture (pcap)", ""),
    (b"\x0a\x0d\x0d\x0a", "a network capture (pcapng)", ""),
    (
        b"\x89MCAP",
        "an MCAP log",
        (
            "look into it with vehicled log info; a bag of ROS 2 is converted with vehicled log "
            "import"
        ),
    ),
    (b"#ROSBAG V2.0", "a ROS 1 bag", _IMPORT),
    (b"SQLite format 3\x00", "a database, such as a bag of ROS 2 (.db3)", f"{_IMPORT} its folder"),
    (b"ULog", "a log of PX4 (ULog)", _IMPORT),
    (b"\xa3\x95\x80", "a log of ArduPilot (DataFlash)", _IMPORT),
    (b"MDF ", "a measurement of Vector or ASAM (MDF, MF4)", "export its CAN frames as BLF or ASC"),
    (b"\x89HDF", "an HDF5 file", "export the data as CSV"),
    (b"PAR1", "a Parquet table", "convert it to CSV"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it and give the file in it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it and give the file in it"),
    (b"\xfd7zXZ\x00", "a file compressed with xz", "unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "unpack it with unzstd"),
    (b"BZh", "a file compressed with bzip2", "unpack it with bunzip2"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it and give the file in it"),
    (b".FIT", "a recording of Garmin (FIT)", "export it as GPX"),
)
"""First bytes of files, what they are, and the cure."""
_PCAP_CURE = (
    "save the payload alone, in Wireshark by Follow TCP (or UDP) stream, Show as raw; then "
    "decode that file"
)
_XML = rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<"
_PATH = "it is a path: give it to vehicled courses"
_TEXTS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb"\A.{0,70}RINEX VERSION", re.DOTALL),
        "a RINEX file (raw measurements)",
        "compute positions from it, as with RTKLIB",
    ),
    (
        re.compile(rb"\A%\s*program\s*:|\A%\s+(?:GPST|UTC|JST)\b"),
        "positions of RTKLIB (.pos)",
        _PATH,
    ),
    (re.compile(_XML + rb"gpx\b", re.IGNORECASE), "a GPX file", _PATH),
    (re.compile(_XML + rb"kml\b", re.IGNORECASE), "a KML file", _PATH),
    (re.compile(rb"\AQGC WPL \d+"), "a mission of a ground station", _PATH),
    (
        re.compile(rb"\[column names\]", re.IGNORECASE),
        "a recording of Racelogic (VBO)",
        "export it as CSV or GPX",
    ),
)
"""Beginnings of text files."""


class Recognised(Struct, frozen=True):
    """A format and the evidence for it."""

    name: str
    """Name of the file or the frames, such as "binary logs of a NovAtel receiver"."""
    cure: str
    frames: int = 0
    """Frames found with a right checksum; 0 for a file that is known by its first bytes."""
    kinds: str = ""
    """The most frequent kinds of frames, with their counts."""
    readers: tuple[str, ...] = ()
    """Decoders that read other frames of this protocol, so that it is no second one."""
    sentences: tuple[str, ...] = ()
    """Names that decoders of text give to such messages."""

    def __str__(self) -> str:
        count = f"{self.frames} or more" if self.frames >= MOST_FRAMES else str(self.frames)
        counted = f"{count} {self.name} with right checksums" if self.frames else self.name
        return f"{counted}{f' ({self.kinds})' if self.kinds else ''}: {self.cure}"


def recognise(data: bytes) -> list[Recognised]:
    """Return the formats in a file that no driver reads; the surest first, empty if none is
    known."""
    whole = _file(data)
    if whole is not None:
        return [whole]
    found = [each for family in _FAMILIES if (each := family.find(data)) is not None]
    if not found and _is_instinct(data):
        return [Recognised("a recording of a VectorNav sensor by INSTINCT (.vnb)", _INSTINCT)]
    return sorted(found, key=lambda each: -each.frames)


def _is_instinct(data: bytes) -> bool:
    """True if the data begins with masks of six groups and a record whose times are possible."""
    if len(data) < 48:
        return False
    *masks, cycle, week, second, since_start_ns = struct.unpack_from("<6IIIdQ", data)
    fits = (
        all(mask < 1 << fields for mask, fields in zip(masks, _INSTINCT_FIELDS, strict=True))
        and masks[0] & 1
    )
    return bool(
        fits
        and cycle < 8
        and week < 1024
        and 0.0 <= second < 604_800.0
        and since_start_ns < 1 << 56
    )


def _file(data: bytes) -> Recognised | None:
    head = data[:4096]
    for magic, name, cure in _MAGICS:
        if head.startswith(magic) or (magic == b".FIT" and data[8:12] == magic):
            return Recognised(name, cure or _PCAP_CURE)
    for pattern, name, cure in _TEXTS:
        if pattern.search(head):
            return Recognised(name, cure)
    return None


_INSTINCT = "export it as CSV there, and give that to vehicled log import --map"
_INSTINCT_FIELDS = 10, 11, 17, 9, 11, 17
"""Fields of the groups time, IMU, GNSS 1, attitude, INS and GNSS 2."""

Frame = tuple[int, str]
"""Length in bytes and kind of a valid frame."""


class _Family(Struct, frozen=True):
    """Frames of one protocol: sync, and a function that judges a candidate."""

    name: str
    sync: bytes
    judge: Callable[[bytes, int], tuple[int, str, int]]
    """(data, offset) -> (length, kind, bytes covered); length 0 for no frame."""
    cure: str
    chained: bool = False
    """True without a checksum: frames count where one follows the other."""
    readers: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    def find(self, data: bytes) -> Recognised | None:
        """Return the frames of this protocol in the data; None for too few."""
        kinds = Counter(kind for _, kind in self._frames(data))
        if kinds.total() < ENOUGH:
            return None
        listed = ", ".join(f"{kind}: {count}" for kind, count in kinds.most_common(_LISTED))
        more = f" and {len(kinds) - _LISTED} more kinds" if len(kinds) > _LISTED else ""
        return Recognised(
            self.name, self.cure, kinds.total(), listed + more, self.readers, self.sentences
        )

    def _frames(self, data: bytes) -> Iterator[Frame]:
        at, work, count, before = 0, MOST_WORK * len(data) + 4096, 0, -1
        while (at := data.find(self.sync, at)) >= 0 and work > 0 and count < MOST_FRAMES:
            length, kind, covered = self.judge(data, at)
            work -= covered + 16
            if length <= 0 or at + length > len(data):
                at += 1
                continue
            if not self.chained or before == at or data.startswith(self.sync, at + length):
                count += 1
                yield length, kind
            before = at = at + length


def _crc32(data: bytes) -> int:
    """Return the CRC of NovAtel: that of zlib without inversion."""
    return zlib.crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF


_NOVATEL = {
    42: "BESTPOS",
    99: "BESTVEL",
    507: "INSPVA",
    508: "INSPVAS",
    325: "RAWIMUS",
    43: "RANGE",
    971: "HEADING",
    1335: "HEADING2",
}


def _oem(data: bytes, at: int) -> tuple[int, str, int]:
    """Judge a binary log of NovAtel, long or short."""
    if at + 12 > len(data):
        return 0, "", 0
    if data[at + 2] == 0x13:
        head, size, number = 12, data[at + 3], int.from_bytes(data[at + 4 : at + 6], "little")
    else:
        head, size = data[at + 3], int.from_bytes(data[at + 8 : at + 10], "little")
        number = int.from_bytes(data[at + 4 : at + 6], "little")
    return _crc32_frame(data, at, head + size + 4, _NOVATEL.get(number, str(number)))


def _crc32_frame(data: bytes, at: int, length: int, kind: str) -> tuple[int, str, int]:
    if not 16 <= length <= 70_000 or at + length > len(data):
        return 0, "", 0
    right = _crc32(data[at : at + length - 4]) == int.from_bytes(
        data[at + length - 4 : at + length], "little"
    )
    return (length if right else 0), kind, length


_ASCII_LOG = re.compile(rb"[#%]([A-Z0-9]{3,24}),[^\r\n*#%]{0,4000}\*([0-9A-Fa-f]{8})")


def _ascii_log(data: bytes, at: int) -> tuple[int, str, int]:
    """Judge a text log of NovAtel: #NAME,head;body*CRC32."""
    found = _ASCII_LOG.match(data, at, at + 4100)
    if found is None:
        return 0, "", 64
    right = _crc32(data[at + 1 : found.start(2) - 1]) == int(found[2], 16)
    return (found.end() - at if right else 0), found[1].decode("ascii"), found.end() - at


_FP_A = re.compile(rb"\$FP,([A-Z0-9_]{1,24}),[^\r\n*$]{0,1000}\*([0-9A-Fa-f]{2})")


def _fixposition(data: bytes, at: int) -> tuple[int, str, int]:
    found = _FP_A.match(data, at, at + 1100)
    if found is None:
        return 0, "", 16
    right = xor8(data[at + 1 : found.start(2) - 1]) == int(found[2], 16)
    return (found.end() - at if right else 0), f"FP_A-{found[1].decode('ascii')}", found.end() - at


def _fixposition_binary(data: bytes, at: int) -> tuple[int, str, int]:
    if at + 12 > len(data):
        return 0, "", 0
    number, size = struct.unpack_from("<HH", data, at + 2)
    return (size + 12 if size <= 4096 else 0), f"FP_B-{number}", 0


_EXTRAS = {
    0: 50, 1: 124, 2: 137, 22: 220, 24: 24, 27: 144, 29: 115, 30: 39, 32: 185, 33: 104, 36: 222,
    42: 28, 62: 183, 65: 118, 74: 20, 77: 143, 111: 34, 116: 76, 125: 203, 136: 1, 147: 154,
    193: 71, 241: 90, 242: 104, 253: 83,
}  # fmt: skip
"""Seeds of the checksum by message number (MAVLink, common and ardupilotmega dialects)."""
_MAVLINK_NAMES = {
    0: "HEARTBEAT", 1: "SYS_STATUS", 22: "PARAM_VALUE", 24: "GPS_RAW_INT", 27: "RAW_IMU",
    30: "ATTITUDE", 33: "GLOBAL_POSITION_INT", 36: "SERVO_OUTPUT_RAW", 65: "RC_CHANNELS",
    74: "VFR_HUD", 116: "SCALED_IMU2", 253: "STATUSTEXT",
}  # fmt: skip


def _mavlink(data: bytes, at: int) -> tuple[int, str, int]:
    version = data[at]
    head = 10 if version == 0xFD else 6
    if at + head > len(data):
        return 0, "", 0
    size = data[at + 1]
    number = int.from_bytes(data[at + 7 : at + 10], "little") if version == 0xFD else data[at + 5]
    extra = _EXTRAS.get(number)
    stop = at + head + size
    if extra is None or stop + 2 > len(data):
        return 0, "", 0
    signature = 13 if version == 0xFD and data[at + 2] & 1 else 0
    right = _x25(data[at + 1 : stop] + bytes([extra])) == int.from_bytes(
        data[stop : stop + 2], "little"
    )
    return (
        (head + size + 2 + signature if right else 0),
        _MAVLINK_NAMES.get(number, str(number)),
        size + head,
    )


def _x25(data: bytes) -> int:
    """Return CRC-16/MCRF4XX."""
    crc = 0xFFFF
    for octet in data:
        mixed = (octet ^ crc) & 0xFF
        mixed = (mixed ^ (mixed << 4)) & 0xFF
        crc = (crc >> 8) ^ (mixed << 8) ^ (mixed << 3) ^ (mixed >> 4)
    return crc & 0xFFFF


_NEAREST = 8
_LONGEST_VECTORNAV = 1024


def _vectornav(data: bytes, at: int) -> tuple[int, str, int]:
    """Judge a binary output of unknown fields, whose length only the next sync shows."""
    stop, covered = at, 0
    for _ in range(_NEAREST):
        stop = data.find(b"\xfa", stop + 1, at + _LONGEST_VECTORNAV)
        stop = len(data) if stop < 0 and at + _LONGEST_VECTORNAV >= len(data) else stop
        if stop < 0:
            break
        covered += stop - at
        # A checksum over the frame and its own checksum is 0.
        if stop - at >= 8 and crc16_xmodem(data[at + 1 : stop]) == 0:
            return stop - at, f"groups 0x{data[at + 1]:02X}", covered
        if stop == len(data):
            break
    return 0, "", covered


def _skytraq(data: bytes, at: int) -> tuple[int, str, int]:
    if at + 7 > len(data):
        return 0, "", 0
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    stop = at + 4 + size
    right = (
        1 <= size <= 2048
        and data[stop + 1 : stop + 3] == b"\r\n"
        and xor8(data[at + 4 : stop]) == data[stop]
    )
    return (size + 7 if right else 0), f"0x{data[at + 4]:02X}", size if right else 0


def _hemisphere(data: bytes, at: int) -> tuple[int, str, int]:
    if at + 12 > len(data):
        return 0, "", 0
    number, size = struct.unpack_from("<HH", data, at + 4)
    stop = at + 8 + size
    if size > 1024 or stop + 4 > len(data) or data[stop + 2 : stop + 4] != b"\r\n":
        return 0, "", 0
    right = sum(data[at + 8 : stop]) & 0xFFFF == int.from_bytes(data[stop : stop + 2], "little")
    return (size + 12 if right else 0), f"Bin{number}", size


_NMEA_TOO = (
    "let the receiver also send NMEA (GGA, RMC, GST and HDT), which is read, or convert the "
    "file to CSV with its maker's program"
)
_NMEA_OF_SENSOR = "let the sensor also send its NMEA messages, which are read"
_AUTOPILOT = (
    "give the autopilot's own log (.bin, .ulg) to vehicled log import, or convert this one with "
    "pymavlink's mavlogdump --format csv and vehicled log import --map"
)
_FAMILIES = (
    _Family("binary logs of a NovAtel receiver", b"\xaa\x44\x12", _oem, _NMEA_TOO),
    _Family("short binary logs of a NovAtel receiver", b"\xaa\x44\x13", _oem, _NMEA_TOO),
    _Family("text logs of a NovAtel receiver", b"#", _ascii_log, _NMEA_TOO, readers=("unicore",)),
    _Family("text logs of a NovAtel receiver, short", b"%", _ascii_log, _NMEA_TOO),
    _Family(
        "messages of a Fixposition sensor",
        b"$FP,",
        _fixposition,
        _NMEA_OF_SENSOR,
        sentences=("FP",),
    ),
    _Family(
        "binary messages of a Fixposition sensor",
        b"f!",
        _fixposition_binary,
        _NMEA_OF_SENSOR,
        chained=True,
    ),
    _Family("MAVLink 2 messages of an autopilot (telemetry, .tlog)", b"\xfd", _mavlink, _AUTOPILOT),
    _Family("MAVLink 1 messages of an autopilot (telemetry, .tlog)", b"\xfe", _mavlink, _AUTOPILOT),
    _Family(
        "binary outputs of a VectorNav sensor with fields that are not known here",
        b"\xfa",
        _vectornav,
        (
            "export the recording as CSV with VectorNav's program, or let the sensor send the "
            "common group alone"
        ),
        readers=("vectornav", "xsens", "n100"),
    ),
    _Family("messages of a SkyTraq receiver", b"\xa0\xa1", _skytraq, _NMEA_TOO),
    _Family("binary messages of a Hemisphere receiver", b"$BIN", _hemisphere, _NMEA_TOO),
)

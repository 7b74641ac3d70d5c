"""MAVLink 1 and 2, as far as an autopilot and its driver need it: codec in both directions.
Sources: NOTES.md.

Fields are in the order of the wire: by size, largest first, extensions last. A MAVLink 2 payload
ends at its last byte that is not zero; a MAVLink 1 payload has no extensions.
"""

from binascii import crc_hqx
from collections.abc import Iterator
from struct import Struct as Layout
from typing import Any, NamedTuple, get_type_hints

from msgspec import Struct

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.wire.crc import BIT_REVERSED, Buffer
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    CountedFrame,
    FrameCheck,
    Framer,
    Protocol,
    Stream,
)

V1, V2 = 0xFE, 0xFD
SIGNED = 0x01
"""Bit of the incompatibility flags; a receiver must drop frames with any other."""
SIGNATURE_BYTES = 13
LONGEST_BYTES = 280
SET_MODE, ARM, SET_INTERVAL, REQUEST_MESSAGE = 176, 400, 511, 512
"""MAV_CMD."""
VERSION_NUMBER = 148
"""Number of AUTOPILOT_VERSION."""
MILLI_G = STANDARD_GRAVITY_MPS2 * 1e-3
"""Unit of RAW_IMU and SCALED_IMU, m/s2."""
OWN_COMPONENT = 191
"""MAV_COMP_ID_ONBOARD_COMPUTER."""

CRC_EXTRA: dict[int, int] = {
    int(number): int(extra)
    for number, _, extra in (
        each.partition(":")
        for each in (  # noqa: SIM905 - a table
            "0:50 1:124 2:137 4:237 5:217 6:104 7:119 11:89 20:214 21:159 22:220 23:168 24:24 "
            "25:23 26:170 27:144 28:67 29:115 30:39 31:246 32:185 33:104 34:237 35:244 36:222 "
            "37:212 38:9 39:254 40:230 41:28 42:28 43:132 44:221 45:232 46:11 47:153 48:41 "
            "49:39 50:78 51:196 54:15 55:3 61:167 62:183 63:119 64:191 65:118 66:148 67:21 "
            "69:243 70:124 73:38 74:20 75:158 76:152 77:143 81:106 82:49 83:22 84:143 85:140 "
            "86:5 87:150 89:231 90:183 91:63 92:54 93:47 100:175 101:102 102:158 103:208 104:56 "
            "105:93 106:138 107:108 108:32 109:185 110:84 111:34 112:174 113:124 114:237 115:4 "
            "116:76 117:128 118:56 119:116 120:134 121:237 122:203 123:250 124:87 125:203 "
            "126:220 127:25 128:226 129:46 130:29 131:223 132:85 133:6 134:229 135:203 136:1 "
            "137:195 138:109 139:168 140:181 141:47 142:72 143:131 144:127 146:103 147:154 "
            "148:178 149:200 150:134 151:219 152:208 153:188 154:84 155:22 156:19 157:21 "
            "158:134 160:78 161:68 162:189 163:127 164:154 165:21 166:21 167:144 168:1 169:234 "
            "170:73 171:181 172:22 173:83 174:167 175:138 176:234 177:240 178:47 179:189 180:52 "
            "181:174 182:229 183:85 184:159 185:186 186:72 191:92 192:36 193:71 194:98 195:120 "
            "200:134 201:205 214:69 215:101 216:50 217:202 218:17 219:162 225:208 226:207 "
            "230:163 231:105 232:151 233:35 234:150 235:179 241:90 242:104 243:85 244:95 "
            "245:130 246:184 247:81 248:8 249:204 250:49 251:170 252:44 253:83 254:46 256:71 "
            "257:131 258:187 259:92 260:146 261:179 262:12 263:133 264:49 265:26 266:193 267:35 "
            "268:14 269:109 270:59 271:22 275:126 276:18 277:62 280:70 281:48 282:123 283:74 "
            "284:99 285:137 286:210 287:1 288:20 295:234 296:158 299:19 301:243 310:28 311:95 "
            "320:243 321:88 322:243 323:78 324:132 330:23 331:91 332:236 333:231 335:225 "
            "339:199 340:99 345:209 350:232 360:11 370:75 373:117 375:251 376:199 385:147 "
            "386:132 387:4 388:8 390:156 9000:113 9005:117 10001:209 10002:186 10003:4 "
            "10004:133 10005:103 10006:193 10007:71 10008:240 10151:195 11000:134 11001:15 "
            "11002:234 11003:64 11004:11 11005:93 11010:46 11011:106 11020:205 11030:144 "
            "11031:133 11032:85 11033:195 11034:79 11035:128 11036:177 11037:130 11038:47 "
            "11039:142 11040:132 11041:208 11042:201 11043:193 11044:189 11060:162 12900:114 "
            "12901:254 12902:140 12903:249 12904:77 12905:49 12915:94 12918:139 12919:7 "
            "12920:20 42000:227 42001:239 50001:246 50002:181 50003:62 50004:240 50005:152 "
            "52000:13 52001:239 "
        ).split()
    )
}
"""Byte by message number that enters the checksum, so that only equal definitions understand each
other: the sets ``common`` and ``ardupilotmega``."""


class MavHeartbeat(NamedTuple):
    """State of a system; sent by every participant."""

    custom_mode: int
    type: int
    autopilot: int
    base_mode: int
    system_status: int
    mavlink_version: int = 3


class SysStatus(NamedTuple):
    """Health of an autopilot, and the battery: mV (65535 unknown), cA (-1 unknown)."""

    present: int
    enabled: int
    health: int
    load: int
    voltage_mv: int
    current_ca: int
    drop_rate: int
    errors_comm: int
    errors_1: int
    errors_2: int
    errors_3: int
    errors_4: int
    remaining: int


class ParamRequestRead(NamedTuple):
    """Question for a parameter by its name; the index is then -1."""

    param_index: int
    target_system: int
    target_component: int
    param_id: bytes


class ParamValue(NamedTuple):
    """Value of a parameter. PX4 puts the bits of an integer into the float, ArduPilot its value."""

    param_value: float
    param_count: int
    param_index: int
    param_id: bytes
    param_type: int


class GpsRawInt(NamedTuple):
    """Fix of a receiver: 1e-7 degrees, mm, cm/s, centidegrees. Extensions are 0 where unknown."""

    time_usec: int
    lat: int
    lon: int
    alt: int
    eph: int
    epv: int
    vel: int
    cog: int
    fix_type: int
    satellites_visible: int
    alt_ellipsoid: int = 0
    h_acc: int = 0
    v_acc: int = 0
    vel_acc: int = 0
    hdg_acc: int = 0
    yaw: int = 0


class ScaledImu(NamedTuple):
    """Inertial sample: mG, mrad/s, axes forward, right, down; 0.01 degrees Celsius, 0 unknown."""

    time_boot_ms: int
    xacc: int
    yacc: int
    zacc: int
    xgyro: int
    ygyro: int
    zgyro: int
    xmag: int
    ymag: int
    zmag: int
    temperature: int = 0


class RawImu(NamedTuple):
    """Inertial sample. ArduPilot sends mG and mrad/s in it, other autopilots counts."""

    time_usec: int
    xacc: int
    yacc: int
    zacc: int
    xgyro: int
    ygyro: int
    zgyro: int
    xmag: int
    ymag: int
    zmag: int
    id: int = 0
    temperature: int = 0


class MavAttitude(NamedTuple):
    """Attitude of the autopilot's filter: rad from north, clockwise; rad/s."""

    time_boot_ms: int
    roll: float
    pitch: float
    yaw: float
    rollspeed: float
    pitchspeed: float
    yawspeed: float


class MavRcChannels(NamedTuple):
    """Pulses that the autopilot acts on, us, overrides included; 0 or 65535 for none."""

    time_boot_ms: int
    channels: tuple[int, ...]
    chancount: int
    rssi: int


class ManualControl(NamedTuple):
    """Sticks, -1000 to 1000: y to the right, z forwards. 32767 leaves an axis alone."""

    x: int
    y: int
    z: int
    r: int
    buttons: int
    target: int


class CommandLong(NamedTuple):
    """Command with seven numbers."""

    params: tuple[float, ...]
    command: int
    target_system: int
    target_component: int
    confirmation: int = 0


class CommandAck(NamedTuple):
    """Answer to a command."""

    command: int
    result: int
    progress: int = 0
    result_param2: int = 0
    target_system: int = 0
    target_component: int = 0


class HighresImu(NamedTuple):
    """Inertial sample of PX4: m/s2, rad/s, axes forward, right, down; degrees Celsius."""

    time_usec: int
    xacc: float
    yacc: float
    zacc: float
    xgyro: float
    ygyro: float
    zgyro: float
    xmag: float
    ymag: float
    zmag: float
    abs_pressure: float
    diff_pressure: float
    pressure_alt: float
    temperature: float
    fields_updated: int
    id: int = 0


class AutopilotVersion(NamedTuple):
    """Version of the firmware: one byte each for major, minor, patch and kind."""

    capabilities: int
    uid: int
    flight_sw_version: int
    middleware_sw_version: int
    os_sw_version: int
    board_version: int
    vendor_id: int
    product_id: int
    custom: bytes


class Statustext(NamedTuple):
    """Line of text for people."""

    severity: int
    text: bytes


class WheelDistance(NamedTuple):
    """Distance of each wheel encoder since the start, m."""

    time_usec: int
    distances: tuple[float, ...]
    wheels: int


class GpsRtcmData(NamedTuple):
    """Fragment of RTCM for the autopilot's receiver, see :mod:`drivers.autopilot.corrections`."""

    flags: int
    len: int
    data: bytes


class Timesync(NamedTuple):
    """Request with ``tc1`` 0, or answer with the time of the answering side in it; ns."""

    tc1: int
    ts1: int


class BatteryStatus(NamedTuple):
    """One battery: mV of each cell, or of all in the first (65535 unknown); cA (-1 unknown);
    centidegrees Celsius (32767 unknown)."""

    current_consumed: int
    energy_consumed: int
    temperature: int
    voltages: tuple[int, ...]
    current_battery: int
    id: int
    battery_function: int
    type: int
    battery_remaining: int
    time_remaining: int = 0
    charge_state: int = 0


Content = (
    MavHeartbeat | SysStatus | ParamRequestRead | ParamValue | GpsRawInt | ScaledImu | RawImu
    | MavAttitude | MavRcChannels | ManualControl | CommandLong | CommandAck | HighresImu
    | AutopilotVersion | Statustext | WheelDistance | GpsRtcmData | Timesync | BatteryStatus
)  # fmt: skip


class MessageLayout(NamedTuple):
    """Number, name, fields and layout of a message; ``repeated``: length of its array of
    numbers."""

    number: int
    name: str
    kind: Any
    layout: Layout
    repeated: int = 0


def _layout(number: int, name: str, kind: Any, fields: str, repeated: int = 0) -> MessageLayout:
    return MessageLayout(number, name, kind, Layout("<" + fields), repeated)


LAYOUTS = (
    _layout(0, "HEARTBEAT", MavHeartbeat, "IBBBBB"),
    _layout(1, "SYS_STATUS", SysStatus, "IIIHHhHHHHHHb"),
    _layout(20, "PARAM_REQUEST_READ", ParamRequestRead, "hBB16s"),
    _layout(22, "PARAM_VALUE", ParamValue, "fHH16sB"),
    _layout(24, "GPS_RAW_INT", GpsRawInt, "QiiiHHHHBBiIIIIH"),
    _layout(26, "SCALED_IMU", ScaledImu, "I9hh"),
    _layout(27, "RAW_IMU", RawImu, "Q9hBh"),
    _layout(30, "ATTITUDE", MavAttitude, "Iffffff"),
    _layout(65, "RC_CHANNELS", MavRcChannels, "I18HBB", 18),
    _layout(69, "MANUAL_CONTROL", ManualControl, "hhhhHB"),
    _layout(76, "COMMAND_LONG", CommandLong, "7fHBBB", 7),
    _layout(77, "COMMAND_ACK", CommandAck, "HBBiBB"),
    _layout(105, "HIGHRES_IMU", HighresImu, "Q13fHB"),
    _layout(111, "TIMESYNC", Timesync, "qq"),
    _layout(147, "BATTERY_STATUS", BatteryStatus, "iih10HhBBBbiB", 10),
    _layout(148, "AUTOPILOT_VERSION", AutopilotVersion, "QQIIIIHH24s"),
    _layout(233, "GPS_RTCM_DATA", GpsRtcmData, "BB180s"),
    _layout(253, "STATUSTEXT", Statustext, "B50s"),
    _layout(9000, "WHEEL_DISTANCE", WheelDistance, "Q16dB", 16),
)
BY_NUMBER = {each.number: each for each in LAYOUTS}
BY_KIND = {each.kind: each for each in LAYOUTS}
_ARRAYS = {
    each.number: list(get_type_hints(each.kind)).index(
        next(name for name, kind in get_type_hints(each.kind).items() if "tuple" in str(kind))
    )
    for each in LAYOUTS
    if each.repeated
}
"""Place of the array among the fields."""


class MavlinkMessage(Struct, frozen=True, gc=False):
    """One frame."""

    number: int
    system: int
    component: int
    payload: bytes
    signed: bool = False

    @property
    def name(self) -> str:
        """Name of the message."""
        layout = BY_NUMBER.get(self.number)
        return layout.name if layout is not None else f"MAVLINK_{self.number}"

    @property
    def content(self) -> Content | None:
        """Fields of the message; None for one that this driver does not read. A missing end is
        zero, and what a newer definition appends is cut."""
        found = BY_NUMBER.get(self.number)
        if found is None:
            return None
        size = found.layout.size
        values = found.layout.unpack(self.payload[:size].ljust(size, b"\0"))
        if found.repeated:
            at, end = _ARRAYS[self.number], _ARRAYS[self.number] + found.repeated
            values = (*values[:at], values[at:end], *values[end:])
        content: Content = found.kind(*values)
        return content


def crc16_mcrf4xx(data: Buffer, extra: int) -> int:
    """Return CRC-16/MCRF4XX of bytes and one byte more: the checksum of MAVLink, called X.25 there.
    It is a CRC of reversed bits that begins with ones, and that one runs in C."""
    bits = (bytes(data) + bytes((extra,))).translate(BIT_REVERSED)
    crc = crc_hqx(bits, 0xFFFF)
    return BIT_REVERSED[crc >> 8] | BIT_REVERSED[crc & 0xFF] << 8


def _residue_1(data: Buffer) -> int:
    """Return 0 for a sound MAVLink 1 frame without its start."""
    extra = CRC_EXTRA.get(data[4])
    if extra is None:
        return -1
    return crc16_mcrf4xx(data[:-2], extra) ^ int.from_bytes(data[-2:], "little")


def _residue_2(data: Buffer) -> int:
    """Return 0 for a sound MAVLink 2 frame without its start; its signature is not looked at."""
    extra = CRC_EXTRA.get(int.from_bytes(data[6:9], "little"))
    if extra is None:
        return -1
    end = 9 + data[0]
    return crc16_mcrf4xx(data[:end], extra) ^ int.from_bytes(data[end : end + 2], "little")


class _SignableFrame(CountedFrame):
    """MAVLink 2 frame, which may be signed."""

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), bytes((0, SIGNED))]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        size = super().length(buffer, at, end)
        if size == INCOMPLETE:
            return size
        flags = buffer[at + 2]
        if flags & ~SIGNED:
            return NO_FRAME
        return size + SIGNATURE_BYTES if flags else size


PROTOCOLS = (
    Protocol(
        "mavlink2",
        bytes((V2,)),
        _SignableFrame(FrameCheck(_residue_2, weight=2, first=1), at=1, extra=12, most=255, head=3),
    ),
    Protocol(
        "mavlink1",
        bytes((V1,)),
        CountedFrame(FrameCheck(_residue_1, weight=2, first=1), at=1, extra=8, most=255),
    ),
)


def read(frame: bytes) -> MavlinkMessage:
    """Return the message of a sound frame."""
    count = frame[1]
    if frame[0] == V1:
        return MavlinkMessage(frame[5], frame[3], frame[4], frame[6 : 6 + count])
    number = int.from_bytes(frame[7:10], "little")
    return MavlinkMessage(
        number, frame[5], frame[6], frame[10 : 10 + count], bool(frame[2] & SIGNED)
    )


class MavlinkWriter:
    """Frames messages as one participant, in MAVLink 2."""

    def __init__(self, system: int, component: int = OWN_COMPONENT) -> None:
        self._system, self._component, self._sequence = system, component, 0

    def frame(self, content: Content) -> bytes:
        """Return a frame."""
        found = BY_KIND[type(content)]
        values: list[Any] = list(content)
        if found.repeated:
            at = _ARRAYS[found.number]
            values[at : at + 1] = values[at]
        payload = found.layout.pack(*values).rstrip(b"\0") or b"\0"
        head = bytes((len(payload), 0, 0, self._sequence, self._system, self._component))
        self._sequence = (self._sequence + 1) & 0xFF
        body = head + found.number.to_bytes(3, "little") + payload
        checksum = crc16_mcrf4xx(body, CRC_EXTRA[found.number])
        return bytes((V2,)) + body + checksum.to_bytes(2, "little")


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the messages of a recording: name, and content or the frame of one that is not
    read."""
    for _, frame in Framer(PROTOCOLS, LONGEST_BYTES + 1).feed(data):
        message = read(frame)
        yield message.name, message.content or message


def name_of(text: bytes) -> str:
    """Return the name of a parameter, which ends at its first zero byte."""
    return text.partition(b"\0")[0].decode("ascii", "replace")

"""Definitions and encoders of the standard ROS 2 types that we publish or subscribe to.

Fields and constants as in ROS 2 Humble: common_interfaces 4.2 and rcl_interfaces 1.2
(builtin_interfaces), geometry2 0.25 (tf2_msgs), ackermann_msgs 2.0, rosgraph_msgs 1.2; unchanged
since but for NavSatStatus, to which later releases add constants. Those of Autoware are in
:mod:`~vehicled.ros.autoware_types`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from struct import Struct as Layout
from struct import error as LayoutError
from struct import pack

from vehicled.ros.autoware_types import AUTOWARE
from vehicled.ros.cdr import HEADER, HEADER_SIZE, CdrError
from vehicled.ros.definition import SEPARATOR, RosDefinition
from vehicled.ros.fields import PRIMITIVES, SCALAR, SEQUENCE, Field, parse_type

Value = bool | int | float | str | Sequence["Value"]
"""Value of a field: a message is the sequence of its fields' values, an array that of its elements'
values."""

_DESCRIPTION = """
builtin_interfaces/Time: int32 sec, uint32 nanosec
builtin_interfaces/Duration: int32 sec, uint32 nanosec
std_msgs/Header: builtin_interfaces/Time stamp, string frame_id
rosgraph_msgs/Clock: builtin_interfaces/Time clock

geometry_msgs/Vector3: float64 x, float64 y, float64 z
geometry_msgs/Point: float64 x, float64 y, float64 z
geometry_msgs/Quaternion: float64 x, float64 y, float64 z, float64 w
geometry_msgs/Pose: geometry_msgs/Point position, geometry_msgs/Quaternion orientation
geometry_msgs/PoseStamped: std_msgs/Header header, geometry_msgs/Pose pose
geometry_msgs/PoseWithCovariance: geometry_msgs/Pose pose, float64[36] covariance
geometry_msgs/Twist: geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular
geometry_msgs/TwistStamped: std_msgs/Header header, geometry_msgs/Twist twist
geometry_msgs/TwistWithCovariance: geometry_msgs/Twist twist, float64[36] covariance
geometry_msgs/Accel: geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular
geometry_msgs/AccelWithCovariance: geometry_msgs/Accel accel, float64[36] covariance
geometry_msgs/AccelWithCovarianceStamped: std_msgs/Header header,
    geometry_msgs/AccelWithCovariance accel
geometry_msgs/Transform: geometry_msgs/Vector3 translation, geometry_msgs/Quaternion rotation
geometry_msgs/TransformStamped: std_msgs/Header header, string child_frame_id,
    geometry_msgs/Transform transform
tf2_msgs/TFMessage: geometry_msgs/TransformStamped[] transforms

nav_msgs/Odometry: std_msgs/Header header, string child_frame_id,
    geometry_msgs/PoseWithCovariance pose, geometry_msgs/TwistWithCovariance twist
nav_msgs/Path: std_msgs/Header header, geometry_msgs/PoseStamped[] poses

sensor_msgs/Imu: std_msgs/Header header,
    geometry_msgs/Quaternion orientation, float64[9] orientation_covariance,
    geometry_msgs/Vector3 angular_velocity, float64[9] angular_velocity_covariance,
    geometry_msgs/Vector3 linear_acceleration, float64[9] linear_acceleration_covariance
sensor_msgs/NavSatStatus:
    int8 STATUS_NO_FIX=-1, int8 STATUS_FIX=0, int8 STATUS_SBAS_FIX=1, int8 STATUS_GBAS_FIX=2,
    int8 status,
    uint16 SERVICE_GPS=1, uint16 SERVICE_GLONASS=2, uint16 SERVICE_COMPASS=4,
    uint16 SERVICE_GALILEO=8, uint16 service
sensor_msgs/NavSatFix: std_msgs/Header header, sensor_msgs/NavSatStatus status,
    float64 latitude, float64 longitude, float64 altitude, float64[9] position_covariance,
    uint8 COVARIANCE_TYPE_UNKNOWN=0, uint8 COVARIANCE_TYPE_APPROXIMATED=1,
    uint8 COVARIANCE_TYPE_DIAGONAL_KNOWN=2, uint8 COVARIANCE_TYPE_KNOWN=3,
    uint8 position_covariance_type
sensor_msgs/LaserScan: std_msgs/Header header, float32 angle_min, float32 angle_max,
    float32 angle_increment,
    float32 time_increment, float32 scan_time, float32 range_min, float32 range_max,
    float32[] ranges, float32[] intensities
sensor_msgs/BatteryState:
    uint8 POWER_SUPPLY_STATUS_UNKNOWN=0, uint8 POWER_SUPPLY_STATUS_CHARGING=1,
    uint8 POWER_SUPPLY_STATUS_DISCHARGING=2,
    uint8 POWER_SUPPLY_STATUS_NOT_CHARGING=3, uint8 POWER_SUPPLY_STATUS_FULL=4,
    uint8 POWER_SUPPLY_HEALTH_UNKNOWN=0, uint8 POWER_SUPPLY_HEALTH_GOOD=1,
    uint8 POWER_SUPPLY_HEALTH_OVERHEAT=2,
    uint8 POWER_SUPPLY_HEALTH_DEAD=3, uint8 POWER_SUPPLY_HEALTH_OVERVOLTAGE=4,
    uint8 POWER_SUPPLY_HEALTH_UNSPEC_FAILURE=5,
    uint8 POWER_SUPPLY_HEALTH_COLD=6, uint8 POWER_SUPPLY_HEALTH_WATCHDOG_TIMER_EXPIRE=7,
    uint8 POWER_SUPPLY_HEALTH_SAFETY_TIMER_EXPIRE=8,
    uint8 POWER_SUPPLY_TECHNOLOGY_UNKNOWN=0, uint8 POWER_SUPPLY_TECHNOLOGY_NIMH=1,
    uint8 POWER_SUPPLY_TECHNOLOGY_LION=2,
    uint8 POWER_SUPPLY_TECHNOLOGY_LIPO=3, uint8 POWER_SUPPLY_TECHNOLOGY_LIFE=4,
    uint8 POWER_SUPPLY_TECHNOLOGY_NICD=5,
    uint8 POWER_SUPPLY_TECHNOLOGY_LIMN=6,
    std_msgs/Header header, float32 voltage, float32 temperature, float32 current, float32 charge,
    float32 capacity,
    float32 design_capacity, float32 percentage, uint8 power_supply_status,
    uint8 power_supply_health,
    uint8 power_supply_technology, bool present, float32[] cell_voltage, float32[] cell_temperature,
    string location, string serial_number

ackermann_msgs/AckermannDrive: float32 steering_angle, float32 steering_angle_velocity,
    float32 speed, float32 acceleration, float32 jerk
ackermann_msgs/AckermannDriveStamped: std_msgs/Header header, ackermann_msgs/AckermannDrive drive

diagnostic_msgs/KeyValue: string key, string value
diagnostic_msgs/DiagnosticStatus: byte OK=0, byte WARN=1, byte ERROR=2, byte STALE=3, byte level,
    string name, string message, string hardware_id, diagnostic_msgs/KeyValue[] values
diagnostic_msgs/DiagnosticArray: std_msgs/Header header, diagnostic_msgs/DiagnosticStatus[] status
"""


def _parse(description: str) -> tuple[dict[str, tuple[Field, ...]], dict[str, str]]:
    """Return fields and .msg text of every described type, by short name (``nav_msgs/Path``)."""
    fields: dict[str, tuple[Field, ...]] = {}
    texts: dict[str, str] = {}
    for entry in description.replace(",\n", ",").replace(":\n", ":").split("\n"):
        if not entry:
            continue
        name, _, members = entry.partition(":")
        lines = [member.strip() for member in members.split(",")]
        texts[name] = "\n".join(lines) + "\n"
        typed = [line.split(" ") for line in lines if "=" not in line]
        fields[name] = tuple(
            Field(field_name, *parse_type(type_text)) for type_text, field_name in typed
        )
    return fields, texts


_FIELDS, _TEXTS = _parse(_DESCRIPTION + AUTOWARE)


@cache
def standard_definition(type_name: str) -> RosDefinition:
    """Return the definition of a standard type by short name (``nav_msgs/Path``), with its
    dependencies. Raises KeyError if unknown.
    """
    needed = [type_name]
    for name in needed:  # grows while it is walked
        used = dict.fromkeys(field.base for field in _FIELDS[name] if field.base in _FIELDS)
        needed += [base for base in used if base not in needed]
    text = _TEXTS[type_name] + "".join(
        f"{SEPARATOR}\nMSG: {name}\n{_TEXTS[name]}" for name in needed[1:]
    )
    package, _, name = type_name.partition("/")
    return RosDefinition(f"{package}/msg/{name}", text)


def standard_fields(type_name: str) -> tuple[Field, ...]:
    """Return the fields of a standard type by short name. Raises KeyError if unknown."""
    return _FIELDS[type_name]


def encode(type_name: str, value: Value) -> bytes:
    """CDR record of a standard type from nested sequences in field order. Raises CdrError where the
    value does not fit.

    Walks the definition at every call; what is published often has a :class:`Template`.
    """
    record = bytearray(HEADER)
    try:
        _append(record, type_name, value)
    except _FAILURES as failure:
        raise CdrError(type_name, str(failure)) from None
    return bytes(record)


class Template:
    """Precompiled encoder of a standard type whose strings and sequence lengths are known
    beforehand.

    ``strings`` gives the text of each string by its path (``header.frame_id``; one text for all
    elements of a sequence), ``lengths`` the length of each sequence by its path. KeyError if one is
    missing.
    """

    def __init__(
        self, type_name: str, strings: Mapping[str, str], lengths: Mapping[str, int] | None = None
    ) -> None:
        self.type_name = type_name
        self._constants: list[tuple[int, int, bytes]] = [(0, HEADER_SIZE, HEADER)]
        parts = [f"<{HEADER_SIZE}x"]
        position = 0
        for leaf in _leaves(type_name, "", strings, lengths or {}):
            if isinstance(leaf, bytes):
                gap = -position % 4
                start = HEADER_SIZE + position + gap
                self._constants.append((start, start + len(leaf), leaf))
                parts.append(f"{gap + len(leaf)}x")
                position += gap + len(leaf)
            else:
                code, size = PRIMITIVES[leaf]
                gap = -position % size
                parts.append(f"{gap}x{code}")
                position += gap + size
        self._layout = Layout("".join(parts))

    def encode(self, *values: float) -> bytes:
        """CDR record from all numbers in order, nested fields flattened. Raises CdrError where one
        does not fit."""
        try:
            record = bytearray(self._layout.pack(*values))
        except _FAILURES as failure:
            raise CdrError(self.type_name, str(failure)) from None
        for start, end, constant in self._constants:
            record[start:end] = constant
        return bytes(record)


_FAILURES = (LayoutError, ValueError, TypeError, OverflowError)


def _leaves(
    type_name: str, path: str, strings: Mapping[str, str], lengths: Mapping[str, int]
) -> Iterator[str | bytes]:
    """Tokens in wire order: the name of a primitive whose value comes later, or the bytes of a
    known count or string."""
    for field in _FIELDS[type_name]:
        where = path + field.name
        count = max(field.length, 1)
        if field.length == SEQUENCE:
            count = lengths[where]
            yield pack("<I", count)
        for _ in range(count):
            if field.base in PRIMITIVES:
                yield field.base
            elif field.base == "string":
                text = strings[where].encode() + b"\0"
                yield pack("<I", len(text)) + text
            else:
                yield from _leaves(field.base, f"{where}.", strings, lengths)


def _append(record: bytearray, base: str, value: Value) -> None:
    """Append one value of a base type, aligned."""
    if base in PRIMITIVES:
        code, size = PRIMITIVES[base]
        record += pack(f"<{(HEADER_SIZE - len(record)) % size}x{code}", value)
    elif base == "string":
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no string")
        text = value.encode("utf-8", "backslashreplace") + b"\0"
        _append(record, "uint32", len(text))
        record += text
    else:
        for field, item in zip(_FIELDS[base], _elements(value), strict=True):
            if field.length == SCALAR:
                _append(record, field.base, item)
                continue
            elements = _elements(item)
            if field.length == SEQUENCE:
                _append(record, "uint32", len(elements))
            elif len(elements) != field.length:
                raise ValueError(f"{field.name} takes {field.length} elements, not {len(elements)}")
            if elements and field.base in PRIMITIVES:
                code, size = PRIMITIVES[field.base]
                record += pack(
                    f"<{(HEADER_SIZE - len(record)) % size}x{len(elements)}{code}", *elements
                )
                continue
            for element in elements:
                _append(record, field.base, element)


def _elements(value: Value) -> Sequence[Value]:
    if isinstance(value, bool | int | float | str):
        raise TypeError(f"{value!r} is no sequence")
    return value

"""Fields of VectorNav's binary frames, and their masks in registers. Sources:
NOTES-xsens-vectornav-mip.md."""

from collections.abc import Sequence

_GNSS = (
    "utc:b5BH tow:Q week:H satellites:B fix:B position_lla:3d position_ecef:3d velocity_ned:3f "
    "velocity_ecef:3f position_sigma:3f velocity_sigma:f time_sigma:f time_info:2B dop:7f "
    "satellite_info:* - raw:* status:H altitude_msl:d"
)
_TABLE = {
    "common": "time_startup:Q time_gps:Q time_sync_in:Q ypr:3f quaternion:4f angular_rate:3f "
    "position_lla:3d velocity_ned:3f"
    " acceleration:3f imu:6f mag_pres:5f deltas:7f ins_status:H sync_in_count:I time_pps:Q",
    "time": (
        "startup:Q gps:Q tow:Q week:H sync_in:Q pps:Q utc:b5BH sync_in_count:I "
        "sync_out_count:I status:B"
    ),
    "imu": "status:H raw_mag:3f raw_acceleration:3f raw_gyro:3f temperature:f pressure:f "
    "delta_theta:4f delta_velocity:3f mag:3f"
    " acceleration:3f angular_rate:3f saturation:H reserved12:40s",
    "gnss": _GNSS,
    "attitude": "status:H ypr:3f quaternion:4f dcm:9f mag_ned:3f acceleration_ned:3f "
    "linear_body:3f linear_ned:3f ypr_sigma:3f"
    " reserved9:12s reserved10:28s reserved11:24s heave:3f sigma:f",
    "ins": "status:H position_lla:3d position_ecef:3d velocity_body:3f velocity_ned:3f "
    "velocity_ecef:3f mag_ecef:3f"
    " acceleration_ecef:3f linear_ecef:3f position_sigma:f velocity_sigma:f reserved11:68s "
    "reserved12:64s",
    "gnss2": _GNSS,
}  # fmt: skip
GROUPS = tuple(_TABLE)
"""Group names, by bit in the group byte."""
FIELDS = {
    group: tuple([(cell.partition(":")[0], cell.partition(":")[2]) for cell in row.split()])
    for group, row in _TABLE.items()
}
"""Fields as (name, layout), by bit in the group's masks; bit 15 only announces a second mask. The
length of a ``*`` field follows from a count in it."""
NAMES = {
    f"{group}.{name}": (i, bit)
    for i, group in enumerate(GROUPS)
    for bit, (name, code) in enumerate(FIELDS[group])
    if code
}
"""Bits (group, field) by ``"group.field"``."""
EXTENDED = 0x8000
"""Mask bit that announces another mask of the same group."""


def masks(names: list[str]) -> str:
    """Return groups and masks as in the binary output registers, hexadecimal."""
    bits = [0] * len(GROUPS)
    for name in names:
        index, bit = NAMES[name]
        bits[index] |= 1 << bit
    groups = sum([1 << index for index, mask in enumerate(bits) if mask])
    return ",".join([f"{groups:02X}", *[f"{mask:04X}" for mask in bits if mask]])


def names_of(words: Sequence[str]) -> list[str]:
    """Return the ``"group.field"`` names of the groups and masks that :func:`masks` writes. Raises
    ValueError if there are others."""
    groups, *rest = [int(word, 16) for word in words]
    names = []
    for index in range(groups.bit_length()):
        if not groups >> index & 1:
            continue
        bits, shift, extended = 0, 0, True
        while extended:
            if index >= len(GROUPS) or not rest:
                raise ValueError(f"{','.join(words)} are no groups and masks")
            mask = rest.pop(0)
            extended = bool(mask & EXTENDED)
            bits |= (mask & ~EXTENDED) << shift
            shift += 16
        fields = FIELDS[GROUPS[index]]
        found = [name for bit, (name, code) in enumerate(fields) if bits >> bit & 1 and code]
        if bits.bit_count() != len(found):
            raise ValueError(f"{','.join(words)} ask for fields that do not exist")
        names += [f"{GROUPS[index]}.{name}" for name in found]
    if rest:
        raise ValueError(f"{','.join(words)} are more masks than groups")
    return names

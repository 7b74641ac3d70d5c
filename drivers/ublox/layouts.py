"""UBX messages that the driver understands, as tuples of their raw fields.

Integers are as on the wire, with the unit and the decimal exponent in the name (``latitude_deg_e7`` is in 1e-7 degrees). Bit fields
keep their wire value and are read through properties. Offsets and sources: NOTES.md; the byte layouts: :mod:`drivers.ublox.ubx`.
"""

from typing import NamedTuple


class NavPvt(NamedTuple):
    """NAV-PVT (01 07): position, velocity and time of one epoch."""

    itow_ms: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    valid: int
    time_accuracy_ns: int
    nano_ns: int
    """Added to the whole second; negative as often as not."""
    fix_type: int
    """0 none, 1 dead reckoning, 2 2D, 3 3D, 4 GNSS and dead reckoning, 5 time only."""
    flags: int
    flags2: int
    satellites: int
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    """Above the ellipsoid."""
    height_msl_mm: int
    horizontal_accuracy_mm: int
    vertical_accuracy_mm: int
    velocity_north_mmps: int
    velocity_east_mmps: int
    velocity_down_mmps: int
    ground_speed_mmps: int
    course_deg_e5: int
    speed_accuracy_mmps: int
    course_accuracy_deg_e5: int
    pdop_e2: int
    flags3: int
    vehicle_heading_deg_e5: int = 0
    magnetic_declination_deg_e2: int = 0
    magnetic_accuracy_deg_e2: int = 0

    @property
    def fix_ok(self) -> bool:
        """Within the receiver's own masks."""
        return bool(self.flags & 1)

    @property
    def differential(self) -> bool:
        """Corrections of some kind were applied."""
        return bool(self.flags & 2)

    @property
    def carrier(self) -> int:
        """0 none, 1 float, 2 fixed."""
        return self.flags >> 6 & 3

    @property
    def position_invalid(self) -> bool:
        """Longitude, latitude and heights are not to be used."""
        return bool(self.flags3 & 1)

    @property
    def correction_age_code(self) -> int:
        """0 not available, else an index into :data:`CORRECTION_AGE_S`."""
        return self.flags3 >> 1 & 15

    @property
    def utc_known(self) -> bool:
        """Date and time valid and resolved to the second, and confirmed where the receiver can confirm."""
        if self.valid & 7 != 7:
            return False
        return not self.flags2 & 0x20 or self.flags2 & 0xC0 == 0xC0


CORRECTION_AGE_S = (0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0)
"""``correction_age_code`` n means an age from ``[n - 1]`` up to ``[n]``; 12 means the last value or more."""


class NavHpposllh(NamedTuple):
    """NAV-HPPOSLLH (01 14): the digits of the position that NAV-PVT has no room for."""

    version: int
    flags: int
    itow_ms: int
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    height_msl_mm: int
    longitude_deg_e9: int
    """To be added, -99 to 99; so are the next three."""
    latitude_deg_e9: int
    height_mm_e1: int
    height_msl_mm_e1: int
    horizontal_accuracy_mm_e1: int
    vertical_accuracy_mm_e1: int

    @property
    def position_invalid(self) -> bool:
        """Not to be used."""
        return bool(self.flags & 1)


class NavCov(NamedTuple):
    """NAV-COV (01 36): covariances in north, east, down; m2 and m2/s2."""

    itow_ms: int
    version: int
    position_valid: int
    velocity_valid: int
    position_nn: float
    position_ne: float
    position_nd: float
    position_ee: float
    position_ed: float
    position_dd: float
    velocity_nn: float
    velocity_ne: float
    velocity_nd: float
    velocity_ee: float
    velocity_ed: float
    velocity_dd: float


class NavRelposned(NamedTuple):
    """NAV-RELPOSNED version 1 (01 3C): the vector from the (moving) base to this antenna."""

    version: int
    station: int
    itow_ms: int
    north_cm: int
    east_cm: int
    down_cm: int
    length_cm: int
    heading_deg_e5: int
    north_mm_e1: int
    """To be added, -99 to 99; so are the next three."""
    east_mm_e1: int
    down_mm_e1: int
    length_mm_e1: int
    north_accuracy_mm_e1: int
    east_accuracy_mm_e1: int
    down_accuracy_mm_e1: int
    length_accuracy_mm_e1: int
    heading_accuracy_deg_e5: int
    flags: int

    @property
    def fix_ok(self) -> bool:
        """Within the receiver's own masks."""
        return bool(self.flags & 0x01)

    @property
    def position_valid(self) -> bool:
        """The vector is valid."""
        return bool(self.flags & 0x04)

    @property
    def carrier(self) -> int:
        """0 none, 1 float, 2 fixed."""
        return self.flags >> 3 & 3

    @property
    def extrapolated(self) -> bool:
        """The base's position or observations of this epoch were missing, and older ones stood in."""
        return bool(self.flags & 0xC0)

    @property
    def heading_valid(self) -> bool:
        """The heading is valid."""
        return bool(self.flags & 0x100)

    @property
    def normalised(self) -> bool:
        """The vector has length one: its length says nothing."""
        return bool(self.flags & 0x200)

    @property
    def length_m(self) -> float:
        """Length of the vector."""
        return self.length_cm * 1e-2 + self.length_mm_e1 * 1e-4


class NavDop(NamedTuple):
    """NAV-DOP (01 04): dilutions of precision."""

    itow_ms: int
    gdop_e2: int
    pdop_e2: int
    tdop_e2: int
    vdop_e2: int
    hdop_e2: int
    ndop_e2: int
    edop_e2: int


class NavStatus(NamedTuple):
    """NAV-STATUS (01 03): here for the receiver's own detection of spoofing."""

    itow_ms: int
    fix_type: int
    flags: int
    fix_status: int
    flags2: int
    time_to_first_fix_ms: int
    since_start_ms: int

    @property
    def spoofing(self) -> int:
        """0 unknown or off, 1 none, 2 indicated, 3 indicated by several tests."""
        return self.flags2 >> 3 & 3


class NavTimels(NamedTuple):
    """NAV-TIMELS (01 26): leap seconds."""

    itow_ms: int
    version: int
    source: int
    leap_s: int
    """GPS minus UTC now."""
    change_source: int
    change_s: int
    to_change_s: int
    change_week: int
    change_day: int
    valid: int
    """Bit 0: ``leap_s`` is valid; bit 1: the time to the next change is."""


class NavEoe(NamedTuple):
    """NAV-EOE (01 61): last message of its epoch."""

    itow_ms: int


class RxmRtcm(NamedTuple):
    """RXM-RTCM (02 32): the receiver's word on one RTCM message that it was sent."""

    version: int
    flags: int
    subtype: int
    station: int
    message: int

    @property
    def crc_failed(self) -> bool:
        """The message arrived damaged."""
        return bool(self.flags & 1)

    @property
    def used(self) -> int:
        """0 unknown, 1 not used, 2 used."""
        return self.flags >> 1 & 3


class TimTp(NamedTuple):
    """TIM-TP (0D 01): time of the next pulse on the PPS pin."""

    tow_ms: int
    tow_sub_ms_2e32: int
    quantisation_error_ps: int
    week: int
    flags: int
    reference: int


class Ack(NamedTuple):
    """ACK-ACK (05 01): a request was taken; no number tells which, only its kind."""

    message_class: int
    message_id: int


class Nak(NamedTuple):
    """ACK-NAK (05 00): a request was refused."""

    message_class: int
    message_id: int


class RfBlock(NamedTuple):
    """One radio path in MON-RF."""

    block: int
    flags: int
    antenna_status: int
    antenna_power: int
    post_status: int
    noise_per_ms: int
    agc: int
    jamming_indicator: int
    """0 none to 255 strong continuous wave."""
    offset_i: int
    magnitude_i: int
    offset_q: int
    magnitude_q: int

    @property
    def jamming(self) -> int:
        """0 unknown or off, 1 none, 2 warning, 3 critical: no fix possible."""
        return self.flags & 3


class MonRf(NamedTuple):
    """MON-RF (0A 38): what the radio front end hears."""

    version: int
    blocks: tuple[RfBlock, ...]


class MonVer(NamedTuple):
    """MON-VER (0A 04): firmware, hardware and what else the receiver says of itself."""

    software: str
    hardware: str
    extensions: tuple[str, ...] = ()

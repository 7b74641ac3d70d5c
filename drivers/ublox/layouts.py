"""UBX messages of the driver, as tuples of raw fields.

Integers are as on the wire, with unit and decimal exponent in the name (``latitude_deg_e7`` is in
1e-7 degrees). Properties read the bit fields. Offsets and sources: NOTES.md; byte layouts:
:mod:`drivers.ublox.ubx`.
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
    """Nanoseconds to add to the whole second; often negative."""
    fix_type: int
    """Fix type: 0 none, 1 dead reckoning, 2 2D, 3 3D, 4 GNSS and dead reckoning, 5 time only."""
    flags: int
    flags2: int
    satellites: int
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    """Height above the ellipsoid."""
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
        """True if the fix is within the receiver's masks."""
        return bool(self.flags & 1)

    @property
    def differential(self) -> bool:
        """True if corrections were applied."""
        return bool(self.flags & 2)

    @property
    def carrier(self) -> int:
        """Carrier solution: 0 none, 1 float, 2 fixed."""
        return self.flags >> 6 & 3

    @property
    def vehicle_heading_valid(self) -> bool:
        """True if the heading of the vehicle is valid."""
        return bool(self.flags & 0x20)

    @property
    def position_invalid(self) -> bool:
        """True if longitude, latitude and heights are invalid."""
        return bool(self.flags3 & 1)

    @property
    def correction_age_code(self) -> int:
        """Age of the corrections: 0 not available, else an index into :data:`CORRECTION_AGE_S`."""
        return self.flags3 >> 1 & 15

    @property
    def utc_known(self) -> bool:
        """True if date and time are valid, resolved to the second, and confirmed if the receiver
        can confirm them."""
        if self.valid & 7 != 7:
            return False
        return not self.flags2 & 0x20 or self.flags2 & 0xC0 == 0xC0


CORRECTION_AGE_S = (0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0)
"""Ages, s: code n means from ``[n - 1]`` to ``[n]``; 12 means the last value or more."""


class NavHpposllh(NamedTuple):
    """NAV-HPPOSLLH (01 14): the position digits beyond NAV-PVT."""

    version: int
    flags: int
    itow_ms: int
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    height_msl_mm: int
    longitude_deg_e9: int
    """Addend, -99 to 99; likewise the next three."""
    latitude_deg_e9: int
    height_mm_e1: int
    height_msl_mm_e1: int
    horizontal_accuracy_mm_e1: int
    vertical_accuracy_mm_e1: int

    @property
    def position_invalid(self) -> bool:
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


class NavPvat(NamedTuple):
    """NAV-PVAT (01 17): NAV-PVT and the attitude of the vehicle in one message, of receivers with
    an inertial sensor."""

    itow_ms: int
    version: int
    valid: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    time_accuracy_ns: int
    nano_ns: int
    fix_type: int
    flags: int
    """Bits as in NAV-PVT, and 3, 4, 5: roll, pitch, heading of the vehicle valid."""
    flags2: int
    satellites: int
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    height_msl_mm: int
    horizontal_accuracy_mm: int
    vertical_accuracy_mm: int
    velocity_north_mmps: int
    velocity_east_mmps: int
    velocity_down_mmps: int
    ground_speed_mmps: int
    speed_accuracy_mmps: int
    roll_deg_e5: int
    pitch_deg_e5: int
    heading_deg_e5: int
    course_deg_e5: int
    roll_accuracy_deg_e2: int
    pitch_accuracy_deg_e2: int
    heading_accuracy_deg_e2: int
    magnetic_declination_deg_e2: int
    magnetic_accuracy_deg_e2: int
    ellipse_direction_deg_e2: int
    ellipse_major_mm: int
    ellipse_minor_mm: int

    @property
    def heading_valid(self) -> bool:
        """True if the heading of the vehicle is valid."""
        return bool(self.flags & 0x20)

    @property
    def pvt(self) -> NavPvt:
        """Position, velocity and time, without what this message lacks."""
        return NavPvt(
            self.itow_ms,
            *self[3:9],
            self.valid,
            *self[9:25],
            self.course_deg_e5,
            self.speed_accuracy_mmps,
            18_000_000,
            9999,
            0,
        )


class NavRelposned(NamedTuple):
    """NAV-RELPOSNED (01 3C): the vector from the (moving) base to this antenna. Version 0 has
    neither length nor heading: they are computed from its components."""

    version: int
    station: int
    itow_ms: int
    north_cm: int
    east_cm: int
    down_cm: int
    length_cm: int
    heading_deg_e5: int
    north_mm_e1: int
    """Addend, -99 to 99; likewise the next three."""
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
        """True if the fix is within the receiver's masks."""
        return bool(self.flags & 0x01)

    @property
    def position_valid(self) -> bool:
        """True if the vector is valid."""
        return bool(self.flags & 0x04)

    @property
    def carrier(self) -> int:
        """Carrier solution: 0 none, 1 float, 2 fixed."""
        return self.flags >> 3 & 3

    @property
    def moving(self) -> bool:
        """True if the base moves with the vehicle, so that the vector lies in the vehicle."""
        return bool(self.flags & 0x20)

    @property
    def extrapolated(self) -> bool:
        """True if data of the base for this epoch was missing and older data was used."""
        return bool(self.flags & 0xC0)

    @property
    def heading_valid(self) -> bool:
        return bool(self.flags & 0x100)

    @property
    def normalised(self) -> bool:
        """True if the vector is normalised, so that its length has no meaning."""
        return bool(self.flags & 0x200)

    @property
    def components_m(self) -> tuple[float, float, float]:
        """Components to north, east and down."""
        return (
            self.north_cm * 1e-2 + self.north_mm_e1 * 1e-4,
            self.east_cm * 1e-2 + self.east_mm_e1 * 1e-4,
            self.down_cm * 1e-2 + self.down_mm_e1 * 1e-4,
        )

    @property
    def length_m(self) -> float:
        """Length of the vector."""
        return self.length_cm * 1e-2 + self.length_mm_e1 * 1e-4


class NavAtt(NamedTuple):
    """NAV-ATT (01 05): attitude of the vehicle, of receivers with an inertial sensor. It says
    nothing of its validity."""

    itow_ms: int
    version: int
    roll_deg_e5: int
    pitch_deg_e5: int
    heading_deg_e5: int
    roll_accuracy_deg_e5: int
    pitch_accuracy_deg_e5: int
    heading_accuracy_deg_e5: int


class HnrAtt(NamedTuple):
    """HNR-ATT (28 01): NAV-ATT at a high rate, between the epochs predicted by the inertial
    sensor."""

    itow_ms: int
    version: int
    roll_deg_e5: int
    pitch_deg_e5: int
    heading_deg_e5: int
    roll_accuracy_deg_e5: int
    pitch_accuracy_deg_e5: int
    heading_accuracy_deg_e5: int


class HnrPvt(NamedTuple):
    """HNR-PVT (28 00): position at a high rate, between the epochs predicted by the inertial
    sensor."""

    itow_ms: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    valid: int
    nano_ns: int
    fix_type: int
    flags: int
    """Bits: 0 fix valid, 1 corrections, 2 week valid, 3 time of week valid, 4 heading of the
    vehicle valid."""
    longitude_deg_e7: int
    latitude_deg_e7: int
    height_mm: int
    height_msl_mm: int
    ground_speed_mmps: int
    speed_mmps: int
    course_deg_e5: int
    vehicle_heading_deg_e5: int
    horizontal_accuracy_mm: int
    vertical_accuracy_mm: int
    speed_accuracy_mmps: int
    heading_accuracy_deg_e5: int


class HnrIns(NamedTuple):
    """HNR-INS (28 02): rates and accelerations of the vehicle, compensated for the turn of the
    earth and gravity."""

    flags: int
    """Bits: 0-7 version, 8-10 rates valid, 11-13 accelerations valid."""
    itow_ms: int
    rate_x_dps_e3: int
    rate_y_dps_e3: int
    rate_z_dps_e3: int
    acceleration_x_mps2_e2: int
    acceleration_y_mps2_e2: int
    acceleration_z_mps2_e2: int


class EsfIns(NamedTuple):
    """ESF-INS (10 15): as HNR-INS, once per epoch."""

    flags: int
    itow_ms: int
    rate_x_dps_e3: int
    rate_y_dps_e3: int
    rate_z_dps_e3: int
    acceleration_x_mps2_e2: int
    acceleration_y_mps2_e2: int
    acceleration_z_mps2_e2: int


class EsfAlg(NamedTuple):
    """ESF-ALG (10 14): mounting angles of the receiver in the vehicle."""

    itow_ms: int
    version: int
    flags: int
    """Bits: 0 alignment on, 1-3 its status."""
    error: int
    yaw_deg_e2: int
    pitch_deg_e2: int
    roll_deg_e2: int


class EsfSensor(NamedTuple):
    """State of one sensor in ESF-STATUS."""

    status1: int
    """Bits: 0-5 type, 6 used, 7 ready."""
    status2: int
    """Bits: 0-1 calibration, 2-3 time."""
    frequency_hz: int
    faults: int
    """Bits: 0 bad measurement, 1 bad time tag, 2 missing, 3 noisy."""


class EsfStatus(NamedTuple):
    """ESF-STATUS (10 10): state of the fusion with the inertial sensor, and of its sensors."""

    itow_ms: int
    version: int
    init_status1: int
    init_status2: int
    fusion_mode: int
    """Fusion mode: 0 initialising, 1 working, 2 suspended, 3 disabled."""
    sensors: tuple[EsfSensor, ...] = ()


class EsfMeas(NamedTuple):
    """ESF-MEAS (10 02): measurements of sensors, in both directions."""

    time_tag_ms: int
    flags: int
    """Bits: 0-1 time mark, 2 its edge, 3 a calibrated time tag follows. The number of measurements
    above is that of ``data``."""
    provider: int
    data: tuple[tuple[int, int], ...]
    """Type and 24 bits of each. Two's complement: 5, 13, 14 gyro about z, y, x, 2^-12 deg/s; 11
    speed, mm/s; 12 temperature, 0.01 K; 16, 17, 18 accelerometer x, y, z, 2^-10 m/s2. Bit 23
    backward: 8, 9 ticks of the rear wheels left and right, 10 of one sensor."""
    calibrated_ms: int | None = None


class SecSig(NamedTuple):
    """SEC-SIG (27 09): jamming and spoofing, in the place of MON-RF and NAV-STATUS in newer
    firmware."""

    version: int
    jamming: int
    """Jamming: 0 unknown or off, 1 none, 2 warning, 3 critical."""
    spoofing: int
    """Spoofing: 0 unknown or off, 1 none, 2 indicated, 3 affirmed."""
    frequencies: tuple[int, ...] = ()
    """Centre frequencies (bits 0-23, kHz) and whether they are jammed (bit 24), in version 2."""


class RxmCor(NamedTuple):
    """RXM-COR (02 34): the receiver's report on one input message of any protocol of
    corrections."""

    version: int
    ebno_e3: int
    status: int
    """Bits: 0-4 protocol (1 RTCM 3, 2 SPARTN, 29 PMP), 5-6 error (1 none, 2 damaged), 7-8 use (1
    not used, 2 used), 28-29 encrypted (2 yes), 30-31 decrypted (1 no, 2 yes)."""
    message: int
    subtype: int

    @property
    def damaged(self) -> bool:
        """True if the message arrived damaged."""
        return self.status >> 5 & 3 == 2

    @property
    def used(self) -> int:
        """Use of the message: 0 unknown, 1 not used, 2 used."""
        return self.status >> 7 & 3

    @property
    def protocol(self) -> int:
        """Protocol: 1 RTCM 3, 2 SPARTN, 29 PMP."""
        return self.status & 31

    @property
    def undecrypted(self) -> bool:
        """True if the message is encrypted and the receiver could not decrypt it."""
        return self.status >> 28 & 3 == 2 and self.status >> 30 & 3 == 1


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
    """NAV-STATUS (01 03): used for its spoofing detection."""

    itow_ms: int
    fix_type: int
    flags: int
    fix_status: int
    flags2: int
    time_to_first_fix_ms: int
    since_start_ms: int

    @property
    def spoofing(self) -> int:
        """Spoofing: 0 unknown or off, 1 none, 2 indicated, 3 indicated by several tests."""
        return self.flags2 >> 3 & 3


class NavTimels(NamedTuple):
    """NAV-TIMELS (01 26): leap seconds."""

    itow_ms: int
    version: int
    source: int
    leap_s: int
    """Present GPS minus UTC, s."""
    change_source: int
    change_s: int
    to_change_s: int
    change_week: int
    change_day: int
    valid: int
    """Validity bits: 0 for ``leap_s``, 1 for the time to the next change."""


class NavSvin(NamedTuple):
    """NAV-SVIN (01 3B): progress of a base station's survey, in an earth-centred frame."""

    version: int
    itow_ms: int
    duration_s: int
    mean_x_cm: int
    mean_y_cm: int
    mean_z_cm: int
    mean_x_mm_e1: int
    """Addend, -99 to 99; likewise the next two."""
    mean_y_mm_e1: int
    mean_z_mm_e1: int
    mean_accuracy_mm_e1: int
    observations: int
    valid: int
    """1 once the survey is finished."""
    active: int

    @property
    def ecef_m(self) -> tuple[float, float, float]:
        """Mean position."""
        return (
            self.mean_x_cm * 1e-2 + self.mean_x_mm_e1 * 1e-4,
            self.mean_y_cm * 1e-2 + self.mean_y_mm_e1 * 1e-4,
            self.mean_z_cm * 1e-2 + self.mean_z_mm_e1 * 1e-4,
        )


class NavEoe(NamedTuple):
    """NAV-EOE (01 61): last message of its epoch."""

    itow_ms: int


class RxmRtcm(NamedTuple):
    """RXM-RTCM (02 32): the receiver's report on one RTCM input message."""

    version: int
    flags: int
    subtype: int
    station: int
    message: int

    @property
    def crc_failed(self) -> bool:
        """True if the message arrived damaged."""
        return bool(self.flags & 1)

    @property
    def used(self) -> int:
        """Use of the message: 0 unknown, 1 not used, 2 used."""
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
    """ACK-ACK (05 01): request accepted; identifies only the kind of request."""

    message_class: int
    message_id: int


class Nak(NamedTuple):
    """ACK-NAK (05 00): request rejected."""

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
    """CW jamming indicator, 0 none to 255 strong."""
    offset_i: int
    magnitude_i: int
    offset_q: int
    magnitude_q: int

    @property
    def jamming(self) -> int:
        """Jamming: 0 unknown or off, 1 none, 2 warning, 3 critical (no fix possible)."""
        return self.flags & 3


class MonRf(NamedTuple):
    """MON-RF (0A 38): state of the radio front end."""

    version: int
    blocks: tuple[RfBlock, ...]


class MonVer(NamedTuple):
    """MON-VER (0A 04): firmware, hardware and extensions."""

    software: str
    hardware: str
    extensions: tuple[str, ...] = ()

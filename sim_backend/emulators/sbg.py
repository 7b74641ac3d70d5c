"""Emulator of an SBG Systems Ellipse: logs of its main loop and of its receiver, output
configuration, acknowledgements.

It is in factory state, also after a brown-out, because nothing is saved: no log is on. If the
driver does not configure it, all are on that the driver reads. A unit that is set up by another
interface (``rest`` True) knows only CMD_INFO.
"""

from datetime import UTC, datetime
from math import degrees, isfinite, sqrt

from drivers.sbg import codec
from drivers.sbg.codec import (
    ACCELERATION_LSB,
    DGPS,
    DIVISORS,
    EKF_EULER,
    EKF_NAV,
    GENERAL_OK,
    GPS1_HDT,
    GPS1_POS,
    GPS1_POS_USED,
    GPS1_VEL,
    IMU_PASSED,
    IMU_SHORT,
    INFO,
    LOGS,
    MAIN_LOOP_HZ,
    MODE_AHRS,
    MODE_NAV_POSITION,
    NEW_DATA,
    OUTPUT_CONF,
    PROTOCOL,
    RATE_LSB,
    RTK_FIXED,
    RTK_FLOAT,
    SINGLE,
    STATUS,
    TEMPERATURE_LSB,
    UNKNOWN_16,
    UTC_TIME,
    Log,
    divisor_of,
    encode_log,
)
from sim_backend.emulators.inertial import (
    ImuReading,
    InertialUnit,
    OutputSchedule,
    clockwise_from_north,
    euler,
    frd,
)
from sim_backend.emulators.line import baud_of, on_its_line
from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    Message,
    ReferenceState,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

BAUD = 921_600
PORT_A = 0
UNDULATION_M = -33.5
"""Height of mean sea level above the ellipsoid; exact in single precision, so that heights pass
unchanged."""
INVALID_PARAMETER, UNKNOWN_COMMAND = 9, 2
OUTPUT_MODES = frozenset((0, NEW_DATA, *DIVISORS))
IN_RANGE = codec.ACCELS_IN_RANGE | codec.GYROS_IN_RANGE
SOUND = MODE_NAV_POSITION | GPS1_POS_USED | 0xF0
"""Status of a filter that navigates, all of its solution valid."""
LOST = MODE_AHRS | codec.ATTITUDE_VALID | codec.HEADING_VALID
"""Status of a filter without position."""
ATTITUDE_SIGMA_RAD = 0.002
NOWHERE = (0.0, 0.0, 0.0)
NO_SOLUTION = 1
"""Status of a position and of a heading: too few satellites."""
DOPPLER = 2
CLOCK_VALID, UTC_INITIALISED = 3, 2
GPS_EPOCH_NS = 315_964_800_000_000_000
WEEK_MS = 604_800_000
LEAP_NS = 18_000_000_000
PRODUCT = "ELLIPSE-D-G4A3-B1"
_TYPES = {CarrierSolution.FLOAT: RTK_FLOAT, CarrierSolution.FIXED: RTK_FIXED}
_MOST_COUNTS = 2**31 - 1


class SbgUnit(InertialUnit):
    """Ellipse as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(
        self, port: str, device: DeviceTable, seed: int, start_ns: int, *, rest: bool = False
    ) -> None:
        super().__init__(port, device, seed, start_ns, baud_of(device.port) or BAUD)
        self._rest = rest
        self._flash: dict[int, int] = {}
        if not self.params.configure:
            self._flash = dict.fromkeys(
                (IMU_SHORT, EKF_EULER, EKF_NAV), divisor_of(self.params.rate_hz)
            )
            self._flash |= dict.fromkeys((GPS1_POS, GPS1_VEL, GPS1_HDT), NEW_DATA) | dict.fromkeys(
                (STATUS, UTC_TIME), 200
            )
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((PROTOCOL,))
        self.outputs: dict[int, int] = {}
        """Output mode by log at port A."""
        self._paces: dict[int, OutputSchedule] = {}
        self._seconds = OutputSchedule(1.0)
        for log, output in self._flash.items():
            self._set(log, output)

    def _set(self, log: int, output: int) -> None:
        self.outputs[log] = output
        self._paces[log] = OutputSchedule(MAIN_LOOP_HZ / output if output in DIVISORS else 0.0)

    # ---------------------------------------------------------------- commands

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Obey commands. A frame with a wrong checksum is ignored."""
        for _, frame in self._framer.feed(data):
            content = codec.read(frame)
            if isinstance(content, codec.SbgMessage) and content.message_class == codec.COMMANDS:
                self.answer(self._obey(content.number, content.payload), now_ns)

    def _obey(self, number: int, payload: bytes) -> bytes:
        if number == INFO:
            return codec.command(INFO, PRODUCT.encode().ljust(32, b"\0") + bytes(20))
        if number != OUTPUT_CONF or self._rest:
            return codec.acknowledgement(number, UNKNOWN_COMMAND)
        if (
            len(payload) not in (3, 5)
            or payload[0] != PORT_A
            or payload[2] != LOGS
            or payload[1] not in codec.NAMES
        ):
            return codec.acknowledgement(number, INVALID_PARAMETER)
        log = payload[1]
        if len(payload) == 3:
            return codec.command(
                OUTPUT_CONF, payload + self.outputs.get(log, 0).to_bytes(2, "little")
            )
        output = int.from_bytes(payload[3:], "little")
        if output not in OUTPUT_MODES:
            return codec.acknowledgement(number, INVALID_PARAMETER)
        self._set(log, output)
        return codec.acknowledgement(number)

    # ---------------------------------------------------------------- logs

    def on_message(self, message: Message, now_ns: int) -> None:
        # Logs of one main loop have one stamp. Only the receiver's are older, and they alone give a
        # unit no loop.
        if not isinstance(message, GnssFix):
            self._status(getattr(message, "t_ns", now_ns))
        elif not self._senses:
            self._status(now_ns)
        if isinstance(message, ReferenceState):
            self._state(message)
        elif isinstance(message, GnssFix):
            self._fix(message)
        else:
            super().on_message(message, now_ns)
            if isinstance(message, Heading) and isfinite(message.yaw_rad):
                self._heading(message)

    def _put(self, log: Log, t_ns: int) -> None:
        """Send a log if it is on, and at its pace if it belongs to the main loop."""
        number = codec.number_of(log)
        output = self.outputs.get(number, 0)
        if output and (output == NEW_DATA or self._paces[number].due(t_ns)):
            self.send(encode_log(log))

    def _us(self, t_ns: int) -> int:
        return self.clock_ns(t_ns) // 1000 & 0xFFFFFFFF

    def _sample(self, measured: ImuReading) -> None:
        status = IMU_PASSED | IN_RANGE
        if measured.clipped:
            status &= ~IN_RANGE
        (fx, fy, fz), (rx, ry, rz) = frd(measured.force_mps2), frd(measured.rate_radps)
        force, rate = (_counts(ACCELERATION_LSB, fx, fy, fz), _counts(RATE_LSB, rx, ry, rz))
        us = self._us(measured.t_ns)
        self._put(
            codec.ImuShort(us, status, *force, *rate, round(measured.celsius * TEMPERATURE_LSB)),
            measured.t_ns,
        )
        self._put(
            codec.ImuData(
                us, status, fx, fy, fz, rx, ry, rz, measured.celsius, fx, fy, fz, rx, ry, rz
            ),
            measured.t_ns,
        )

    def _status(self, t_ns: int) -> None:
        if self._seconds.due(t_ns):
            general = sum(1 << bit for bit in GENERAL_OK)
            uptime_s = self.clock_ns(t_ns) // 1_000_000_000
            self._put(codec.StatusLog(self._us(t_ns), general, 0, 0, 0, uptime_s=uptime_s), t_ns)

    def _attitude(
        self, t_ns: int, body: tuple[float, float, float], sigma_rad: float, solution: int = SOUND
    ) -> None:
        """Send the attitude as angles and as a quaternion; ``body``: roll, pitch, yaw of the
        vehicle."""
        q = self.case_in_ned(*body)
        doubts = (ATTITUDE_SIGMA_RAD, ATTITUDE_SIGMA_RAD, sigma_rad)
        us = self._us(t_ns)
        self._put(codec.EkfEuler(us, *euler(q), *doubts, solution), t_ns)
        self._put(codec.EkfQuat(us, *q, *doubts, solution), t_ns)

    def _heading(self, heading: Heading) -> None:
        yaw_rad = heading.yaw_rad - self.params.yaw_offset_rad
        if self.params.heading == "dual_antenna":
            us, doubt = self._us(heading.t_ns), degrees(heading.sigma_rad)
            bearing = degrees(clockwise_from_north(yaw_rad))
            self._put(
                codec.GpsHeading(
                    us, 0, self._tow_ms(heading.t_ns), bearing, doubt, 0.0, doubt, 1.0
                ),
                heading.t_ns,
            )
            return
        self._attitude(heading.t_ns, (0.0, 0.0, yaw_rad), heading.sigma_rad)

    def _state(self, state: ReferenceState) -> None:
        if not self._senses:
            noise = self.chance.normal(0.0, 1e-3, 6).tolist()
            force = self._in_case((noise[0], noise[1], STANDARD_GRAVITY_MPS2 + noise[2]))
            rate = self._in_case((noise[3], noise[4], state.yaw_rate_radps))
            self._sample(ImuReading(state.t_ns, force, rate, 40.0, 0))
        ve, vn, vu = state.velocity_enu_mps
        se, sn, su = state.velocity_sigma_mps
        east, north, up = state.position_sigma_m
        yaw_rad = state.yaw_rad - self.params.yaw_offset_rad
        found = isfinite(state.latitude_rad)
        solution = SOUND if found else LOST
        place = (
            (
                degrees(state.latitude_rad),
                degrees(state.longitude_rad),
                state.height_m - UNDULATION_M,
            )
            if found
            else NOWHERE
        )
        if self.outputs.get(GPS1_POS) and self._gps_due(state.t_ns):
            kind = _TYPES.get(state.carrier, SINGLE) if found else 0
            self._position(state.t_ns, state, (east, north, up), kind, 20, UNKNOWN_16)
        self._attitude(
            state.t_ns, (state.roll_rad, state.pitch_rad, yaw_rad), state.yaw_sigma_rad, solution
        )
        us = self._us(state.t_ns)
        self._put(
            codec.EkfNav(
                us, vn, ve, -vu, sn, se, su, *place, UNDULATION_M, north, east, up, solution
            ),
            state.t_ns,
        )

    def _gps_due(self, t_ns: int) -> bool:
        return self._paces.setdefault(-1, OutputSchedule(5.0)).due(t_ns)

    def _tow_ms(self, utc_ns: int) -> int:
        return (utc_ns - GPS_EPOCH_NS + LEAP_NS) // 1_000_000 % WEEK_MS

    def _fix(self, fix: GnssFix) -> None:
        t_ns = fix.t_ns
        found = fix.fix_type not in (FixType.NONE, FixType.TIME) and isfinite(fix.latitude_rad)
        us, tow = self._us(t_ns), self._tow_ms(fix.utc_ns or t_ns)
        if fix.utc_ns and self._paces.setdefault(-2, OutputSchedule(1.0)).due(t_ns):
            when = datetime.fromtimestamp(fix.utc_ns // 1_000_000_000, UTC)
            status = CLOCK_VALID << 1 | UTC_INITIALISED << 6
            day = (when.year, when.month, when.day, when.hour, when.minute, when.second)
            self._put(codec.UtcTime(us, status, *day, fix.utc_ns % 1_000_000_000, tow), t_ns)
        ve, vn, vu = fix.velocity_enu_mps
        se, sn, su = (
            sqrt(fix.velocity_covariance_m2ps2[k])
            if fix.velocity_covariance_m2ps2[k] >= 0.0
            else 99.0
            for k in (0, 4, 8)
        )
        east, north, up = (
            sqrt(fix.position_covariance_m2[k]) if fix.position_covariance_m2[k] >= 0.0 else 99.0
            for k in (0, 4, 8)
        )
        if self.params.fix == "ekf":
            if found:
                place = (
                    degrees(fix.latitude_rad),
                    degrees(fix.longitude_rad),
                    fix.height_m - UNDULATION_M,
                    UNDULATION_M,
                )
                self._put(
                    codec.EkfNav(us, vn, ve, -vu, sn, se, su, *place, north, east, up, SOUND), t_ns
                )
            return
        status = DOPPLER << 6 if found and isfinite(ve + vn + vu) else NO_SOLUTION
        speeds = (vn, ve, -vu) if status != NO_SOLUTION else (0.0, 0.0, 0.0)
        self._put(codec.GpsVelocity(us, status, tow, *speeds, sn, se, su, 0.0, 180.0), t_ns)
        age = round(fix.correction_age_s * 100) if isfinite(fix.correction_age_s) else UNKNOWN_16
        kind = _TYPES.get(fix.carrier, DGPS if fix.differential else SINGLE) if found else 0
        self._position(
            t_ns, fix, (east, north, up), kind, fix.satellites, min(age, UNKNOWN_16), tow
        )

    def _position(
        self,
        t_ns: int,
        at: GnssFix | ReferenceState,
        sigmas: tuple[float, ...],
        kind: int,
        satellites: int,
        age_cs: int,
        tow_ms: int | None = None,
    ) -> None:
        """Send the position of the receiver; ``kind`` 0 for none."""
        place = (
            (degrees(at.latitude_rad), degrees(at.longitude_rad), at.height_m - UNDULATION_M)
            if kind
            else NOWHERE
        )
        east, north, up = sigmas
        self._put(
            codec.GpsPosition(
                self._us(t_ns), kind << 6 if kind else NO_SOLUTION,
                self._tow_ms(t_ns) if tow_ms is None else tow_ms, *place, UNDULATION_M, north, east,
                up, satellites, 0, age_cs, satellites,
            ),
            t_ns,
        )  # fmt: skip


def _counts(lsb: float, x: float, y: float, z: float) -> tuple[int, int, int]:
    """Return a vector in counts, cut at what fits."""
    x, y, z = (
        max(-_MOST_COUNTS, min(_MOST_COUNTS, round(value * lsb))) if isfinite(value) else 0
        for value in (x, y, z)
    )
    return x, y, z


sbg = on_its_line(SbgUnit)

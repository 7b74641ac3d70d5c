"""Emulator of a Unicore UM982: logs by name and period, and commands with their answers."""

from math import degrees, hypot, isfinite

from drivers.gnss import unicore
from drivers.gnss.receiver import TextShape
from drivers.gnss.unicore import TYPES, BestNav, Log, StaDop, Stamp, UniHeading, encode
from sim_backend.emulators.corrections import content_bytes
from sim_backend.emulators.gnss import CommandedReceiver, course_deg, line_deg, sigma, solved
from sim_backend.emulators.line import on_its_line
from sim_backend.emulators.ublox_epoch import GEOID_SEPARATION_M, LEAP_S, WEEK_MS, Instant
from vehicled.core.messages import CarrierSolution, GnssFix
from vehicled.core.wire.framing import Protocol
from vehicled.core.wire.geodesy import ecef_to_geodetic

_LINE = TextShape(rb"[A-Z][\x20-\x7e]*+\r?\n", rb"[A-Z][\x20-\x7e]*+\r?\Z")
_LOGS = {"BESTNAVB": "BESTNAV", "STADOPB": "STADOP", "UNIHEADINGB": "UNIHEADING"}
_KINDS = {CarrierSolution.FIXED: TYPES["NARROW_INT"], CarrierSolution.FLOAT: TYPES["NARROW_FLOAT"]}
_INSUFFICIENT = unicore.SOLUTIONS["INSUFFICIENT_OBS"]
VERSION = (
    'VERSIONA,97,GPS,FINE,2190,365174000,0,0,18,12;"UM982","R4.10Build11833",'
    '"HRPT00-S10C-P","2310415000012-LR23A0225104240"'
)


class UnicoreReceiver(CommandedReceiver):
    """UM982 with two antennas."""

    commands = tuple(
        Protocol("command", begin, _LINE)
        for begin in (b"BEST", b"STAD", b"UNI", b"UNLOG", b"VERS", b"MODE", b"CONF", b"RTCM")
    )

    def begin(self) -> None:
        self.periods_ms: dict[str, int] = {}
        """Period by log; those that are off are missing."""
        self.corrections_ms: dict[int, int] = {}
        """Period by RTCM message."""
        self.station = 0
        if not self.params.configure:
            self.periods_ms = dict.fromkeys(_LOGS.values(), round(1000.0 / self.params.rate_hz))

    def obey(self, command: str) -> bytes:
        if command == "VERSIONA":
            return unicore.answer(command) + unicore.text_line(VERSION)
        name, _, period = command.partition(" ")
        if command == "UNLOG":
            self.periods_ms, self.corrections_ms = {}, {}
        elif name == "MODE":
            if not self._set_mode(period.split(" ")):
                return unicore.answer(command, "PARSING FAILD PARAMETER NOT SUPPORTED")
        elif (
            name.startswith("RTCM")
            and name[4:].isdecimal()
            and content_bytes(int(name[4:])) | (name == "RTCM1005")
        ):
            self.corrections_ms[int(name[4:])] = _period_ms(period)
        elif name in _LOGS and _period_ms(period):
            self.periods_ms[_LOGS[name]] = _period_ms(period)
        else:
            return unicore.answer(command, f"PARSING FAILD NO MATCHING FUNC  {name}")
        return unicore.answer(command)

    def _set_mode(self, words: list[str]) -> bool:
        """Set a mode; False if there is none of that name."""
        match words:
            case ["ROVER"]:
                self.base.off()
            case ["BASE", station, "TIME", seconds] if station.isdecimal() and seconds.isdecimal():
                self.station = int(station)
                self.base.survey(int(seconds))
            case ["BASE", station, x, y, z] if station.isdecimal():
                self.station = int(station)
                self.base.fix((float(x), float(y), float(z)))
            case _:
                return False
        return True

    def send_epoch(self, instant: Instant) -> None:
        stamp = Stamp(
            instant.gps_ms // WEEK_MS if instant.time_known else 0, instant.itow_ms, LEAP_S
        )
        logs = {
            "STADOP": _dop(instant.fix),
            "BESTNAV": _position(instant.fix)
            if self.base.place is None
            else _station(self.base.place),
            "UNIHEADING": _vector(instant),
        }
        for name, log in logs.items():
            if name in self.periods_ms and self.due(name, self.periods_ms[name], instant):
                self._tx.append(encode(stamp, log, name))
        due = [
            kind
            for kind, period_ms in self.corrections_ms.items()
            if self.due(f"RTCM{kind}", period_ms, instant)
        ]
        self._tx += self.base.messages(due, self.station)


def _period_ms(text: str) -> int:
    """Return the period of an output; 0 for a text that is none."""
    try:
        seconds = float(text)
    except ValueError:
        return 0
    return round(seconds * 1000.0) if 0.02 <= seconds <= 3600.0 else 0


def _dop(fix: GnssFix | None) -> Log:
    hdop, vdop = (fix.hdop, fix.vdop) if fix is not None and solved(fix) else (0.0, 0.0)
    return StaDop(0, hypot(hdop, vdop), hypot(hdop, vdop), 0.0, vdop, hdop)


def _position(fix: GnssFix | None) -> Log:
    if fix is None or not solved(fix):
        lost = (
            _INSUFFICIENT,
            0,
            0.0,
            0.0,
            0.0,
            0.0,
            61,
            0.0,
            0.0,
            0.0,
            b"",
            0.0,
            0.0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        )
        return BestNav(*lost, _INSUFFICIENT, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    kind = _KINDS.get(fix.carrier, TYPES["PSRDIFF"] if fix.differential else TYPES["SINGLE"])
    east, north, up = fix.velocity_enu_mps
    moves = isfinite(east + north + up)
    ee, nn, uu = (fix.position_covariance_m2[k] for k in (0, 4, 8))
    flat, steep = fix.velocity_covariance_m2ps2[0], fix.velocity_covariance_m2ps2[8]
    age_s = fix.correction_age_s if isfinite(fix.correction_age_s) else 0.0
    return BestNav(
        0, kind, degrees(fix.latitude_rad), degrees(fix.longitude_rad),
        fix.height_m - GEOID_SEPARATION_M, GEOID_SEPARATION_M, 61, sigma(nn, 0.0), sigma(ee, 0.0),
        sigma(uu, 0.0), b"0", age_s, 0.0, fix.satellites, fix.satellites, 0, 0, 0, 0, 0, 0,
        0 if moves else _INSUFFICIENT, TYPES["DOPPLER_VELOCITY"] if moves else 0, 0.0, 0.0,
        hypot(east, north) if moves else 0.0, course_deg(east, north) if moves else 0.0,
        up if moves else 0.0, sigma(steep, 0.0), sigma(flat, 0.0),
    )  # fmt: skip


def _station(ecef_m: tuple[float, float, float]) -> Log:
    """Return the position of a base station, which states no error."""
    latitude, longitude, height_m = ecef_to_geodetic(*ecef_m)
    return BestNav(
        0, TYPES["FIXEDPOS"], degrees(latitude), degrees(longitude), height_m - GEOID_SEPARATION_M,
        GEOID_SEPARATION_M, 61, 0.0, 0.0, 0.0, b"0", 0.0, 0.0, 20, 20, 0, 0, 0, 0, 0, 0, 0,
        TYPES["DOPPLER_VELOCITY"], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


def _vector(instant: Instant) -> Log:
    bearing = line_deg(instant)
    if instant.heading is None or bearing is None:
        return UniHeading(
            _INSUFFICIENT, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, b"", 0, 0, 0, 0, 0, 0, 0, 0
        )
    doubt = degrees(instant.heading.sigma_rad)
    kind = TYPES["NARROW_INT"]
    return UniHeading(
        0,
        kind,
        instant.baseline_m,
        bearing,
        0.0,
        0.0,
        doubt,
        doubt,
        b"999",
        20,
        18,
        18,
        17,
        0,
        0,
        0,
        0,
    )


unicore_unit = on_its_line(UnicoreReceiver)

"""Emulator of a Septentrio mosaic: SBF blocks by stream, and commands with their answers and
prompt."""

from collections.abc import Mapping
from math import degrees, isfinite
from types import MappingProxyType
from typing import ClassVar

from drivers.gnss import septentrio as sbf
from drivers.gnss.receiver import TextShape
from drivers.gnss.septentrio import UNKNOWN, UNKNOWN_U8, UNKNOWN_U16, Block, encode
from sim_backend.emulators.corrections import content_bytes
from sim_backend.emulators.gnss import CommandedReceiver, line_deg, vector_m
from sim_backend.emulators.line import on_its_line
from sim_backend.emulators.ublox_epoch import LEAP_S, WEEK_MS, Instant
from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.core.wire.framing import Protocol
from vehicled.core.wire.geodesy import ecef_to_geodetic

PORT = "COM1"
STREAMS = ("Stream1", "Stream2")
INTERVALS_MS = {name: round(1000.0 / rate) for rate, name in sbf.INTERVALS.items()}
_NAMES = frozenset(sbf.NAMES.values())
_CARRIERS = {CarrierSolution.FIXED: 4, CarrierSolution.FLOAT: 5}
_LINE = TextShape(rb"[A-Za-z][\x20-\x7e]*+\r", rb"[A-Za-z][\x20-\x7e]*+\Z")
DETERMINING_S = 20
"""Time in which a base station determines its position by itself."""
_SECOND = ("ReceiverTime", "RFStatus")


class SeptentrioReceiver(CommandedReceiver):
    """Mosaic with two antennas."""

    kinds: ClassVar[Mapping[str, float]] = MappingProxyType({"jamming": 2.0, "spoofing": 2.0})
    commands = tuple(
        Protocol("command", begin, _LINE) for begin in (b"set", b"get", b"exe", b"lst", b"SSSS")
    )

    def begin(self) -> None:
        self.two_antennas = False
        self.station, self.place = 0, (0.0, 0.0, 0.0)
        """Number of the station, and the fixed position that a command gave."""
        self.wanted: list[int] = []
        """RTCM messages that are on."""
        self.intervals_ms: dict[str, int] = {}
        """Interval by message, as the command names them."""
        self.outputs = ["SBF"]
        self.streams: dict[str, tuple[tuple[str, ...], int]] = {}
        """Blocks and interval in ms by stream."""
        if not self.params.configure:
            self.two_antennas = True
            of_epoch = tuple(_NAMES.difference(_SECOND))
            self.streams = {
                "Stream1": (of_epoch, round(1000.0 / self.params.rate_hz)),
                "Stream2": (_SECOND, 1000),
            }

    def obey(self, command: str) -> bytes:
        words = [word.strip() for word in command.split(",")]
        problem = self._set(words[0], words[1:])
        text = (
            f"$R? {words[0]}: {problem}"
            if problem
            else f"$R: {command}\r\n  {', '.join([words[0][3:], *words[1:]])}"
        )
        return f"{text}\r\n{PORT}>".encode()

    def _set(self, name: str, words: list[str]) -> str:
        match name, words:
            case "setSBFOutput", [stream, port, blocks, interval]:
                names = tuple(blocks.replace(" ", "").strip("+").split("+"))
                for argument, known in (
                    ("Stream", stream in STREAMS), ("Cd", port == PORT),
                    ("Messages", set(names) <= _NAMES), ("Interval", interval in INTERVALS_MS),
                ):  # fmt: skip
                    if not known:
                        return f"Argument '{argument}' is invalid!"
                self.streams[stream] = names, INTERVALS_MS[interval]
                return ""
            case "setDataInOut", [port, _, outputs]:
                self.outputs = outputs.split("+")
                return "" if port == PORT else "Argument 'Cd' is invalid!"
            case "setPVTMode", [*mode]:
                return self._set_mode(mode)
            case "setStaticPosCartesian", ["Cartesian1", x, y, z, "WGS84"]:
                self.place = float(x), float(y), float(z)
                return ""
            case "setRTCMv3Formatting", [station] if station.isdecimal():
                self.station = int(station)
                return ""
            case "setRTCMv3Interval", [kinds, seconds]:
                self.intervals_ms |= dict.fromkeys(kinds.split("+"), round(float(seconds) * 1000.0))
                return ""
            case "setRTCMv3Output", [port, kinds]:
                numbers = [int(kind.removeprefix("RTCM")) for kind in kinds.split("+")]
                if port != PORT or not all(kind == 1005 or content_bytes(kind) for kind in numbers):
                    return "Argument 'Messages' is invalid!"
                self.wanted = numbers
                return ""
            case "setGNSSAttitude", [source]:
                self.two_antennas = source == "MultiAntenna"
                return ""
        return "Invalid command!"

    def _set_mode(self, words: list[str]) -> str:
        match words:
            case ["Rover"]:
                self.base.off()
            case ["Static", "", "auto"]:
                self.base.survey(DETERMINING_S)
            case ["Static", "", "Cartesian1"]:
                self.base.fix(self.place)
            case _:
                return "Argument 'RefPos' is invalid!"
        return ""

    def send_epoch(self, instant: Instant) -> None:
        for stream, (names, interval_ms) in self.streams.items():
            if self.due(stream, interval_ms, instant):
                self._tx += [encode(block) for block in self._blocks(instant, names)]
        if "RTCMv3" in self.outputs:
            due = [
                kind
                for kind in self.wanted
                if self.due(f"RTCM{kind}", self._interval_ms(kind), instant)
            ]
            self._tx += self.base.messages(due, self.station)

    def _interval_ms(self, kind: int) -> int:
        word = "RTCM1005|6" if kind == 1005 else "RTCM1230" if kind == 1230 else f"MSM{kind % 10}"
        return self.intervals_ms.get(word, 1000)

    def _blocks(self, instant: Instant, names: tuple[str, ...]) -> list[Block]:
        stamp = instant.itow_ms, instant.gps_ms // WEEK_MS if instant.time_known else UNKNOWN_U16
        found: dict[str, Block] = {
            "ReceiverTime": sbf.ReceiverTime(
                *stamp, *(-128,) * 6, LEAP_S if instant.time_known else -128, 7 * instant.time_known
            ),
            "RFStatus": sbf.RfStatus(*stamp, int(self.spoofing > 1), self._bands()),
            **self._position(instant, stamp),
            "EndOfPVT": sbf.EndOfPvt(*stamp),
            **self._attitude(instant, stamp),
            "EndOfAtt": sbf.EndOfAtt(*stamp),
        }
        return [block for name, block in found.items() if name in names]

    def _bands(self) -> tuple[sbf.RfBand, ...]:
        return (
            (sbf.RfBand(1_575_420_000, 2_000, 8 if self.jamming > 2 else 2),)
            if self.jamming > 1
            else ()
        )

    def _position(self, instant: Instant, stamp: tuple[int, int]) -> dict[str, Block]:
        fix = instant.fix
        if (
            fix is None
            or fix.fix_type in (FixType.NONE, FixType.TIME)
            or not isfinite(fix.latitude_rad)
        ):
            end = UNKNOWN_U8, 0, UNKNOWN_U16, UNKNOWN_U16, 0, 0
            return {
                "PVTGeodetic": sbf.PvtGeodetic(
                    *stamp, 0, 1, *(UNKNOWN,) * 8, UNKNOWN, UNKNOWN, 0, 0, *end
                ),
                "PosCovGeodetic": sbf.CovGeodetic(*stamp, 0, 1, *(UNKNOWN,) * 10),
                "VelCovGeodetic": sbf.VelCovGeodetic(*stamp, 0, 1, *(UNKNOWN,) * 10),
                "DOP": sbf.Dop(*stamp, 0, 0, 0, 0, 0, 0),
            }
        if self.base.place is not None or self.base.surveys:
            return self._static(stamp, fix)
        mode = (
            _CARRIERS.get(fix.carrier, 2 if fix.differential else 1)
            | (fix.fix_type is FixType.FIX_2D) << 7
        )
        east, north, up = (value if isfinite(value) else UNKNOWN for value in fix.velocity_enu_mps)
        age_cs = (
            min(round(fix.correction_age_s * 100.0), UNKNOWN_U16)
            if isfinite(fix.correction_age_s)
            else UNKNOWN_U16
        )
        place = fix.latitude_rad, fix.longitude_rad, fix.height_m, -34.0
        end = fix.satellites, 0, UNKNOWN_U16, age_cs, 0, 0
        dops = (round(each * 100.0) if isfinite(each) else 0 for each in (fix.hdop, fix.vdop))
        return {
            "PVTGeodetic": sbf.PvtGeodetic(
                *stamp, mode, 0, *place, north, east, up, UNKNOWN, 0.0, 0.0, 0, 0, *end
            ),
            "PosCovGeodetic": _covariance(sbf.CovGeodetic, stamp, mode, fix.position_covariance_m2),
            "VelCovGeodetic": _covariance(
                sbf.VelCovGeodetic, stamp, mode, fix.velocity_covariance_m2ps2
            ),
            "DOP": sbf.Dop(*stamp, fix.satellites, 0, 0, 0, *dops),
        }

    def _static(self, stamp: tuple[int, int], fix: GnssFix) -> dict[str, Block]:
        """Return the position of a base station. Bit 6 says that it is still being determined."""
        place = self.base.place or self.base.mean
        latitude, longitude, height_m = (
            ecef_to_geodetic(*place)
            if any(place)
            else (fix.latitude_rad, fix.longitude_rad, fix.height_m)
        )
        end = fix.satellites, 0, UNKNOWN_U16, UNKNOWN_U16, 0, 0
        mode = 3 | self.base.surveys << 6
        still = latitude, longitude, height_m, -34.0, 0.0, 0.0, 0.0, UNKNOWN
        return {"PVTGeodetic": sbf.PvtGeodetic(*stamp, mode, 0, *still, 0.0, 0.0, 0, 0, *end)}

    def _attitude(self, instant: Instant, stamp: tuple[int, int]) -> dict[str, Block]:
        bearing = line_deg(instant) if self.two_antennas else None
        if instant.heading is None or bearing is None:
            error = 1 if self.two_antennas else 1 << 7
            return {
                "AttEuler": sbf.AttEuler(
                    *stamp, UNKNOWN_U8, error, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
                ),
                "AttCovEuler": sbf.AttCovEuler(*stamp, 0, error, UNKNOWN, UNKNOWN, UNKNOWN),
                "AuxAntPositions": sbf.AuxAntPositions(*stamp),
            }
        variance = degrees(instant.heading.sigma_rad) ** 2
        vector = sbf.AuxAntenna(20, 0, 0, 1, *vector_m(instant, bearing), 0.0)
        return {
            "AttEuler": sbf.AttEuler(*stamp, 20, 0, 2, 0, bearing, 0.0, 0.0),
            "AttCovEuler": sbf.AttCovEuler(*stamp, 0, 0, variance, variance, UNKNOWN),
            "AuxAntPositions": sbf.AuxAntPositions(*stamp, (vector,)),
        }


def _covariance(
    kind: type[sbf.CovGeodetic], stamp: tuple[int, int], mode: int, enu: tuple[float, ...]
) -> sbf.CovGeodetic:
    """Return the block of a covariance; one that is not known is marked so."""
    ee, en, eu, _, nn, nu, _, _, uu = enu
    if not isfinite(sum(enu)):
        return kind(*stamp, mode, 1, *(UNKNOWN,) * 10)
    return kind(*stamp, mode, 0, nn, ee, uu, 0.0, en, nu, 0.0, eu, 0.0, 0.0)


septentrio = on_its_line(SeptentrioReceiver)

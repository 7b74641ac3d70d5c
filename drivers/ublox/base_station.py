"""u-blox receiver with high precision (ZED-F9P, F9T, X20P) as a base station. Sources: NOTES.md."""

from collections.abc import Callable
from math import hypot, nan, radians
from typing import Any, ClassVar

from drivers.gnss.base_station import (
    MSM_CONSTELLATIONS,
    STATION_PERIOD_S,
    BaseStage,
    BaseStation,
    News,
    Place,
)
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from drivers.ublox import content
from drivers.ublox.codec import (
    MAX_UBX_PAYLOAD_BYTES,
    PROTOCOLS,
    RTCM,
    UBX,
    UBX_OVERHEAD_BYTES,
    encode,
    parse_ubx,
    poll,
)
from drivers.ublox.keys import KEYS, CfgValget, CfgValgetPoll, CfgValset, Items, key_name
from drivers.ublox.layouts import Ack, MonVer, Nak, NavPvt, NavSvin
from drivers.ublox.names import ubx_name
from vehicled.core.wire.framing import Protocol
from vehicled.core.wire.geodesy import geodetic_to_ecef
from vehicled.core.wire.usage import Unused

_VALSET, _VALGET = (0x06, 0x8A), (0x06, 0x8B)
_STATIONARY = 2
_OFF, _SURVEY, _FIXED = 0, 1, 2
"""Values of CFG-TMODE-MODE."""
_POSITION_SIGMA_E1 = 100
"""Standard deviation of a fixed position, 0.1 mm."""


class UbloxBase(BaseStation):
    """Base station on USB or a serial port of the receiver."""

    name = "ublox"
    protocols: ClassVar[tuple[Protocol, ...]] = tuple(
        each for each in PROTOCOLS if each.name != RTCM
    )
    longest_frame = MAX_UBX_PAYLOAD_BYTES + UBX_OVERHEAD_BYTES

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: News) -> None:
        if protocol != UBX:
            self.usage.refuse("NMEA", Unused.OTHER_PROTOCOL)
            return
        name, message = ubx_name(frame[2:4]), parse_ubx(frame)
        match message:
            case Ack() | Nak() | CfgValget() | MonVer():
                self.replies.append(message)
            case NavPvt():
                usable = content.position_problem(message) is None
                place = geodetic_to_ecef(
                    radians(message.latitude_deg_e7 * 1e-7),
                    radians(message.longitude_deg_e7 * 1e-7),
                    message.height_mm * 1e-3,
                )
                sigma_m = hypot(message.horizontal_accuracy_mm, message.vertical_accuracy_mm) * 1e-3
                self.on_position(place if usable else None, sigma_m, t_rx_ns, messages)
            case NavSvin():
                found = message.ecef_m if message.valid and not message.active else None
                sigma_m = message.mean_accuracy_mm_e1 * 1e-4 if message.observations else nan
                self.on_survey(
                    t_rx_ns,
                    messages,
                    seconds=float(message.duration_s),
                    sigma_m=sigma_m,
                    ecef_m=found,
                )
            case _:
                self.usage.refuse(name, Unused.NOT_READ)
                return
        self.usage.use(name)

    def script(self, stage: BaseStage, ecef_m: Place | None) -> Script:
        """Write each group to RAM, and read it back."""
        version = yield SetUpRequest("report its version", poll("MON-VER"), _version_of)
        lacking: list[str] = []
        port = self.params.receiver_port.upper()
        # Switched off first, because a survey begins when its mode is written anew.
        groups = [self._ports(port), _items({"CFG-TMODE-MODE": _OFF}), self._navigation(port)]
        if stage is not BaseStage.LOCATE:
            groups += [self._time_mode(ecef_m), *self._corrections(port)]
        for items in groups:
            done = yield _write(items)
            if isinstance(done, Refusal):
                items = yield from self._one_by_one(items, lacking)
            if not items:
                continue
            read = yield _read(items)
            if isinstance(read, Refusal):
                raise ConfigurationError(f"{key_name(items[0][0])} cannot be read back")
            for key, value in items:
                if read.get(key) != value:
                    raise ConfigurationError(
                        f"{key_name(key)} reads back {read.get(key)} instead of {value}"
                    )
        firmware = " ".join(version.extensions[:3])
        return {"model": f"{version.software} {firmware}".strip(), "lacking": lacking}

    def _one_by_one(self, items: Items, lacking: list[str]) -> Any:
        """Write items of a refused group alone, and return those that are accepted."""
        accepted = []
        for key, value in items:
            done = yield _write(((key, value),))
            if not isinstance(done, Refusal):
                accepted.append((key, value))
                continue
            name = key_name(key)
            if name.startswith("CFG-TMODE") and value:
                raise ConfigurationError(
                    f"the receiver refuses {name}: only receivers such as ZED-F9P, ZED-F9T and "
                    "ZED-X20P can be a base station"
                )
            if value:
                lacking.append(name)
        return tuple(accepted)

    def _ports(self, port: str) -> Items:
        return _items(
            {
                f"CFG-{port}INPROT-UBX": 1,
                f"CFG-{port}OUTPROT-UBX": 1,
                f"CFG-{port}OUTPROT-NMEA": 0,
                f"CFG-{port}OUTPROT-RTCM3X": 1,
            }
        )

    def _navigation(self, port: str) -> Items:
        return _items(
            {
                "CFG-RATE-MEAS": 1000,
                "CFG-RATE-NAV": 1,
                "CFG-NAVSPG-DYNMODEL": _STATIONARY,
                f"CFG-MSGOUT-UBX_NAV_PVT_{port}": 1,
                f"CFG-MSGOUT-UBX_NAV_SVIN_{port}": 1,
            }
        )

    def _time_mode(self, ecef_m: Place | None) -> Items:
        params = self.params
        if ecef_m is None:
            return _items(
                {
                    "CFG-TMODE-SVIN_MIN_DUR": params.survey_s,
                    "CFG-TMODE-SVIN_ACC_LIMIT": round(params.survey_accuracy_m * 1e4),
                    "CFG-TMODE-MODE": _SURVEY,
                }
            )
        found: dict[str, int] = {
            "CFG-TMODE-POS_TYPE": 0,
            "CFG-TMODE-FIXED_POS_ACC": _POSITION_SIGMA_E1,
        }
        for axis, value in zip("XYZ", ecef_m):
            total = round(value * 1e4)
            coarse = round(total / 100)
            # Items hold unsigned integers.
            found[f"CFG-TMODE-ECEF_{axis}"] = coarse & 0xFFFF_FFFF
            found[f"CFG-TMODE-ECEF_{axis}_HP"] = (total - 100 * coarse) & 0xFF
        return _items(found | {"CFG-TMODE-MODE": _FIXED})

    def _corrections(self, port: str) -> list[Items]:
        other = 11 - self.params.msm
        wanted = dict.fromkeys(self.params.observations, 1) | {
            1005: STATION_PERIOD_S,
            1230: STATION_PERIOD_S,
        }
        unwanted = dict.fromkeys((10 * first + other for first in MSM_CONSTELLATIONS), 0)
        return [
            _items(
                {
                    f"CFG-MSGOUT-RTCM_3X_TYPE{kind}_{port}": epochs
                    for kind, epochs in (wanted | unwanted).items()
                }
            ),
            _items({"CFG-RTCM-DF003_OUT": self.params.station}),
        ]


def _items(named: dict[str, int]) -> Items:
    return tuple((KEYS[name], value) for name, value in named.items())


def _version_of(reply: Any) -> MonVer | None:
    return reply if isinstance(reply, MonVer) else None


def _write(items: Items) -> SetUpRequest:
    return SetUpRequest(
        f"set {key_name(items[0][0])}", encode(CfgValset(items)), _acknowledged(_VALSET)
    )


def _acknowledged(kind: tuple[int, int]) -> Callable[[Any], Any]:
    def judge(reply: Any) -> bool | Refusal | None:
        if not isinstance(reply, Ack | Nak) or tuple(reply) != kind:
            return None
        return True if isinstance(reply, Ack) else Refusal("rejected")

    return judge


def _read(items: Items) -> SetUpRequest:
    keys = tuple(key for key, _ in items)

    def judge(reply: Any) -> dict[int, int] | Refusal | None:
        if isinstance(reply, CfgValget) and {key for key, _ in reply.items} == set(keys):
            return dict(reply.items)
        return Refusal("rejected") if isinstance(reply, Nak) and tuple(reply) == _VALGET else None

    return SetUpRequest(f"read back {key_name(keys[0])}", encode(CfgValgetPoll(keys)), judge)

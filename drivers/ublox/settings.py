"""Parameters of the driver in the profile, and the receiver settings that follow from them."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from drivers.ublox.identity import GENERATION_10, ReceiverIdentity
from drivers.ublox.keys import KEYS, Items
from vehicled.core.messages import Corrections, GnssFix, Heading, Message
from vehicled.core.ports import SecretRef

DynamicModel = Literal[
    "portable",
    "stationary",
    "pedestrian",
    "automotive",
    "sea",
    "airborne_1g",
    "airborne_2g",
    "airborne_4g",
]
_DYNAMIC_MODELS: dict[str, int] = {
    "portable": 0, "stationary": 2, "pedestrian": 3, "automotive": 4, "sea": 5,
    "airborne_1g": 6, "airborne_2g": 7, "airborne_4g": 8,
}  # fmt: skip
Constellation = Literal["gps", "galileo", "beidou", "glonass"]
_CONSTELLATIONS = {"gps": "GPS", "galileo": "GAL", "beidou": "BDS", "glonass": "GLO"}
_OBSERVATIONS = {"gps": 1077, "glonass": 1087, "galileo": 1097, "beidou": 1127}
WIRE_BAUD = 460_800
"""Rate of the wire of a moving base, as its application note recommends above 1 Hz."""
Baud = Literal[9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600]


class Params(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the driver. Defaults fit a ZED-F9P rover on USB with all constellations."""

    rate_hz: Annotated[float, Meta(ge=0.1, le=25.0)] = 5.0
    """Navigation rate, Hz. RTK with four constellations: 7 below firmware HPG 1.50, 5 from there
    on; more with fewer."""
    protocol: Literal["ubx", "nmea"] = "ubx"
    """Protocol; NMEA lacks vertical velocity and covariances, and is for receivers without UBX."""
    port: Literal["usb", "uart1", "uart2"] = "usb"
    """Port of the receiver that the cable connects to."""
    baud: Baud | None = None
    """Line rate to search first and to set; none on USB."""
    configure: bool = True
    """False only listens: for recordings, and for receivers older than generation 9."""
    dynamic_model: DynamicModel = "automotive"
    """Dynamic platform model of the receiver (CFG-NAVSPG-DYNMODEL)."""
    constellations: Annotated[tuple[Constellation, ...], Meta(max_length=4)] = ()
    """Constellations to use; empty keeps the receiver's choice. A change restarts the satellite
    search."""
    high_precision: bool = True
    """Position to 0.1 mm (NAV-HPPOSLLH; high-precision mode of NMEA)."""
    covariance: bool = True
    """Covariances of position and velocity (NAV-COV)."""
    inertial: bool = False
    """The receiver has an inertial sensor (ZED-F9R): its attitude is the heading, instead of a
    moving base's vector."""
    wheel_speed_hz: Annotated[float, Meta(ge=0.0, le=50.0)] = 0.0
    """Rate of the vehicle's wheel speed sent to a receiver with an inertial sensor, Hz; 10 is
    usual, 0 sends none."""
    metres_per_motor_radian: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.0
    """Distance per radian of the motor, m: ``wheel_radius_m`` times ``gear_ratio`` of the vehicle's
    drive. The wheel speed is then made of ``MotorStatus``; 0 takes ``WheelSpeed``."""
    spartn: bool = False
    """Accept SPARTN corrections beside RTCM, of receivers that know them."""
    spartn_source: Literal["ip", "lband"] = "ip"
    """Source of SPARTN that the receiver uses: messages of the network or of a file, or those of a
    satellite receiver (RXM-PMP)."""
    spartn_keys_file: Annotated[str, Meta(max_length=1_000)] = ""
    """Path of a file with the keys of an encrypted service, see the notes."""
    spartn_keys_credential: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]*$", max_length=200)] = ""
    """Name of a service credential with the keys."""
    time_pulse: bool = False
    """Announcements of the pulse on the PPS pin (TIM-TP)."""
    correction_timeout_s: Annotated[int, Meta(ge=1, le=255)] = 60
    """Age of the corrections after which the receiver falls back to a plain 3D fix, s; the position
    then jumps by metres."""
    stale_corrections_s: Annotated[float, Meta(gt=0.0, le=255.0)] = 10.0
    """Age of the corrections reported as an event, s."""
    latency_ms: Annotated[float, Meta(ge=0.0, le=1_000.0)] = 40.0
    """Least time from an epoch to the arrival of its first byte, ms; the clock regression cannot
    observe it."""
    epoch_timeout_ms: Annotated[float, Meta(gt=0.0, le=1_000.0)] = 100.0
    """Longest wait for the rest of an epoch after its position, ms, if its end does not arrive."""
    silence_s: Annotated[float, Meta(ge=0.2, le=60.0)] = 3.0
    """Timeout without frames (the port is reopened) or without epochs (the receiver is configured
    again), s."""
    baseline_m: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """Distance of the two antennas of a moving base, m; vectors of another length are refused. 0
    learns it from the first ones, up to 5 m, and reports it."""
    baseline_tolerance_m: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.05
    """Largest difference from ``baseline_m``, m."""
    baseline_yaw_rad: Annotated[float, Meta(ge=-3.15, le=3.15)] = 0.0
    """Direction from the base's antenna to the rover's in body axes, rad: 0 rover ahead, pi/2 rover
    on the left."""
    moving_base_wire: Literal["", "uart1", "uart2"] = ""
    """UART of the wire to the other receiver of a moving base, 460,800 baud, the same key at both:
    the one with ``Heading`` is the rover, and the other one sends it what it observes."""
    heading_needs_fixed: bool = True
    """Reject headings of a float solution."""
    heading_sigma_rad: Annotated[float, Meta(gt=0.0, le=3.15)] = 0.02
    """Error of a heading whose message states none (THS, HDT, HPR, PTNL,AVR), rad."""
    estimated_heading_sigma_rad: Annotated[float, Meta(gt=0.0, le=3.15)] = 0.2
    """The same of a heading that the receiver holds without GNSS (mode E of THS), rad."""

    def __post_init__(self) -> None:
        if self.moving_base_wire == self.port:
            raise ValueError(
                f"moving_base_wire and port are both {self.port}: name the UART of the wire to the "
                "other receiver"
            )
        if self.spartn_keys_file and self.spartn_keys_credential:
            raise ValueError(
                "spartn_keys_file and spartn_keys_credential are both given; remove one"
            )
        if self.secret_ref is not None and not self.spartn:
            raise ValueError("keys of SPARTN need spartn = true")

    @property
    def secret_ref(self) -> SecretRef | None:
        """Return the reference to the keys; None without one."""
        if not self.spartn_keys_file and not self.spartn_keys_credential:
            return None
        return SecretRef(file=self.spartn_keys_file, credential=self.spartn_keys_credential)


class Group(NamedTuple):
    """Items written and read back together; few, because a rejection does not name its item."""

    name: str
    items: Items
    only_if_different: bool = False
    """Read first and write only differences, because writing restarts the satellite search."""


DISPENSABLE = frozenset(
    KEYS[name]
    for port in ("USB", "UART1", "UART2")
    for name in (
        "CFG-ITFM-ENABLE", "CFG-SPARTN-USE_SOURCE", f"CFG-{port}INPROT-RTCM3X",
        f"CFG-{port}INPROT-SPARTN",
        *(
            f"CFG-MSGOUT-UBX_{message}_{port}"
            for message in (
                "NAV_HPPOSLLH", "NAV_COV", "NAV_DOP", "NAV_EOE", "NAV_STATUS", "NAV_TIMELS",
                "MON_RF", "RXM_RTCM", "RXM_COR", "SEC_SIG", "ESF_STATUS",
            )
        ),
    )
)  # fmt: skip
"""Optional items, without which the driver works less exactly; their rejection is reported once,
not as a fault."""


def period_ms(params: Params) -> int:
    """Return the time between epochs as configured in the receiver."""
    return max(1, round(1000.0 / params.rate_hz))


def baud_item(params: Params) -> Items:
    """Return the item that sets the line rate of the port."""
    return ((KEYS[f"CFG-{params.port.upper()}-BAUDRATE"], params.baud or 0),)


def groups(params: Params, messages: Sequence[type[Message]]) -> list[Group]:
    """Return all settings for the receiver's RAM, in the order of writing."""
    port = params.port.upper()
    ubx = params.protocol == "ubx"
    second = min(255, max(1, round(params.rate_hz)))
    return [
        _group(
            "ports",
            {
                f"CFG-{port}INPROT-UBX": 1,
                f"CFG-{port}INPROT-RTCM3X": 1,
                # Replies to configuration are UBX, with either protocol.
                f"CFG-{port}OUTPROT-UBX": 1,
                f"CFG-{port}OUTPROT-NMEA": not ubx,
            },
        ),
        *_corrections(params, messages),
        *(_spartn(port, params) if params.spartn else []),
        _group(
            "rate", {"CFG-RATE-MEAS": period_ms(params), "CFG-RATE-NAV": 1, "CFG-RATE-TIMEREF": 1}
        ),
        _group(
            "navigation",
            {
                "CFG-NAVSPG-DYNMODEL": _DYNAMIC_MODELS[params.dynamic_model],
                "CFG-NAVSPG-CONSTR_DGNSSTO": params.correction_timeout_s,
            },
        ),
        *([_constellations(params.constellations)] if params.constellations else []),
        _messages(
            "epoch messages",
            port,
            {
                "UBX_NAV_PVT": ubx,
                "UBX_NAV_HPPOSLLH": ubx and params.high_precision,
                "UBX_NAV_COV": ubx and params.covariance,
                "UBX_NAV_DOP": ubx,
                "UBX_NAV_EOE": ubx,
                "UBX_NAV_RELPOSNED": ubx and Heading in messages and not params.inertial,
                **({"UBX_NAV_ATT": ubx and Heading in messages} if params.inertial else {}),
            },
        ),
        _messages(
            "monitoring messages",
            port,
            {
                "UBX_NAV_STATUS": second,
                "UBX_NAV_TIMELS": second,
                "UBX_MON_RF": second,
                "UBX_RXM_RTCM": 1,
                "UBX_TIM_TP": params.time_pulse,
                **({"UBX_ESF_STATUS": second} if params.inertial else {}),
            },
        ),
        _group("jamming monitor", {"CFG-ITFM-ENABLE": 1}),
        *([_fusion(params)] if params.inertial else []),
        *([] if ubx else _sentences(port, params, messages)),
    ]


def groups_of(identity: ReceiverIdentity, params: Params) -> list[Group]:
    """Return the settings beyond :func:`groups` that a receiver needs, because its firmware reports
    the same in other messages."""
    found = []
    if identity.security_messages:
        second = min(255, max(1, round(params.rate_hz)))
        every = {"UBX_SEC_SIG": second} | (
            {} if identity.standard_precision else {"UBX_RXM_COR": 1}
        )
        found.append(_messages("security messages", params.port.upper(), every))
    wanted = params.constellations
    if identity.hardware == GENERATION_10 and "beidou" in wanted:
        # Its radio has no room for GLONASS beside B1I of BeiDou, and refuses both signals of BeiDou
        # together.
        beside = "glonass" in wanted
        signals = {"CFG-SIGNAL-BDS_B1_ENA": int(not beside), "CFG-SIGNAL-BDS_B1C_ENA": int(beside)}
        found.append(_group("signals of BeiDou", signals, only_if_different=True))
    return found


def _corrections(params: Params, messages: Sequence[type[Message]]) -> list[Group]:
    """Return the settings of a moving base, and of the wire to the rover or from it."""
    port, wire = params.port.upper(), params.moving_base_wire.upper()
    found = []
    sends = [port] if Corrections in messages else []
    if wire:
        found.append(_group("wire of the moving base", {f"CFG-{wire}-BAUDRATE": WIRE_BAUD}))
        if Heading in messages:
            found.append(_group("corrections by wire", {f"CFG-{wire}INPROT-RTCM3X": 1}))
        else:
            sends.append(wire)
            # The rover would take sentences for damaged corrections.
            mute = {f"CFG-{wire}OUTPROT-UBX": 0, f"CFG-{wire}OUTPROT-NMEA": 0}
            found.append(_group("wire without other messages", mute))
    for each in sends:
        found.append(_group("output of corrections", {f"CFG-{each}OUTPROT-RTCM3X": 1}))
        if GnssFix in messages:
            # A base station that stands still, set up by others, keeps its own choice.
            wanted: Sequence[str] = params.constellations or tuple(_OBSERVATIONS)
            kinds = ["4072_0", *(_OBSERVATIONS[name] for name in wanted)]
            kinds += [1230] if "glonass" in wanted else []
            every = {f"RTCM_3X_TYPE{kind}": 1 for kind in kinds}
            found.append(_messages("messages of a moving base", each, every))
    if sends and GnssFix in messages:
        found.append(_group("mode of a moving base", {"CFG-TMODE-MODE": 0}))
    return found


def _spartn(port: str, params: Params) -> list[Group]:
    source = {"CFG-SPARTN-USE_SOURCE": int(params.spartn_source == "lband")}
    return [
        _group("input of SPARTN", {f"CFG-{port}INPROT-SPARTN": 1}),
        _group("source of SPARTN", source),
        _messages("report on corrections", port, {"UBX_RXM_COR": 1}),
    ]


def _fusion(params: Params) -> Group:
    speed = {"CFG-SFODO-USE_SPEED": 1} if params.wheel_speed_hz > 0.0 else {}
    return _group("fusion", {"CFG-SFCORE-USE_SF": 1} | speed, only_if_different=True)


def _group(name: str, items: dict[str, int], *, only_if_different: bool = False) -> Group:
    return Group(
        name, tuple((KEYS[key], int(value)) for key, value in items.items()), only_if_different
    )


def _messages(name: str, port: str, every: dict[str, int]) -> Group:
    return _group(
        name, {f"CFG-MSGOUT-{message}_{port}": epochs for message, epochs in every.items()}
    )


def _constellations(wanted: Sequence[str]) -> Group:
    items = {
        f"CFG-SIGNAL-{short}_ENA": int(name in wanted) for name, short in _CONSTELLATIONS.items()
    }
    return _group("constellations", items, only_if_different=True)


def _sentences(port: str, params: Params, messages: Sequence[type[Message]]) -> list[Group]:
    wanted = {
        "GGA": 1,
        "RMC": 1,
        "GST": 1,
        "VTG": 1,
        "THS": int(Heading in messages),
        "GSA": 0,
        "GSV": 0,
        "GLL": 0,
    }
    return [
        _messages("sentences", port, {f"NMEA_ID_{name}": every for name, every in wanted.items()}),
        _group("precision of sentences", {"CFG-NMEA-HIGHPREC": int(params.high_precision)}),
    ]

"""Emulator of a u-blox ZED-F9P, in factory state until it is configured.

Its output is what the daemon configured; before that it sends NMEA once a second at 38400 baud,
like a new receiver. Positions come from the GNSS model at the rate of ``[sim.gnss]``; one per
configured period is sent.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from drivers.ublox.codec import NMEA, RTCM, encode, framer, parse_ubx, rtcm_number
from drivers.ublox.identity import identify
from drivers.ublox.keys import CfgValgetPoll, CfgValset
from drivers.ublox.layouts import (
    Ack,
    EsfMeas,
    MonRf,
    MonVer,
    Nak,
    NavPvt,
    NavSvin,
    RfBlock,
    RxmCor,
    RxmRtcm,
    SecSig,
    TimTp,
)
from drivers.ublox.names import IDS
from sim_backend.emulators.corrections import MOVING_BASE, SIZES, EmulatedBase
from sim_backend.emulators.line import LineDevice, on_its_line
from sim_backend.emulators.ublox_epoch import (
    DEFAULT_BASELINE_M,
    NAV,
    SENTENCES,
    WEEK_MS,
    FixPairing,
    Instant,
    fusion,
)
from sim_backend.emulators.ublox_settings import ReceiverSettings
from sim_backend.sensors.noise import stream
from vehicled.core.messages import Message
from vehicled.profile.schema import DeviceTable

VERSION = MonVer(
    "EXT CORE 1.00 (3fda8e)",
    "00190000",
    (
        "ROM BASE 0x118B2060",
        "FWVER=HPG 1.32",
        "PROTVER=27.31",
        "MOD=ZED-F9P",
        "GPS;GLO;GAL;BDS",
        "SBAS;QZSS",
    ),
)
F9R_VERSION = MonVer(
    "EXT CORE 1.00 (a669b8)",
    "00190000",
    (
        "ROM BASE 0x118B2060",
        "FWVER=HPS 1.30",
        "PROTVER=33.30",
        "MOD=ZED-F9R",
        "GPS;GLO;GAL;BDS",
        "SBAS;QZSS",
    ),
)
STALE_NS = 200_000_000
_CLASS_CFG = 0x06
_RESET = IDS["CFG-RST"]
_VALSET, _VALGET, _VERSION = IDS["CFG-VALSET"], IDS["CFG-VALGET"], IDS["MON-VER"]
_NAV_BY_KEY = {IDS[name]: make for name, make in NAV.items()}
_SPOOFING_NONE, _JAMMING_NONE = 1, 1
_CORRECTIONS = {
    kind: f"RTCM_3X_TYPE{'4072_0' if kind == MOVING_BASE else kind}"
    for kind in (
        1005, 1230, MOVING_BASE,
        *(10 * first + msm for msm, sizes in SIZES.items() for first in sizes),
    )
}  # fmt: skip
_TIME_MODE = (
    "CFG-TMODE-MODE", "CFG-TMODE-SVIN_MIN_DUR", "CFG-TMODE-SVIN_ACC_LIMIT", "CFG-TMODE-POS_TYPE",
    *(f"CFG-TMODE-ECEF_{axis}{part}" for axis in "XYZ" for part in ("", "_HP")),
)  # fmt: skip
_SURVEY, _FIXED = 1, 2
"""Values of CFG-TMODE-MODE."""


class UbloxReceiver(LineDevice):
    """ZED-F9P as a :class:`sim_backend.emulators.line.LineDevice`."""

    kinds: ClassVar[Mapping[str, float]] = MappingProxyType({"jamming": 2.0, "spoofing": 2.0})
    """Injectable failures with default levels: 2 is warning, 3 critical."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        params = device.driver.selected
        self._port = params.port.upper()
        self._baseline_m = params.baseline_m or DEFAULT_BASELINE_M
        self._baseline_yaw_rad = params.baseline_yaw_rad
        self._inertial = bool(params.inertial)
        self._pairing = FixPairing(device, start_ns)
        self._settings = ReceiverSettings(self._lacks)
        self._jamming = _JAMMING_NONE
        self._spoofing = _SPOOFING_NONE
        self.version = F9R_VERSION if params.inertial else VERSION
        """Answer to MON-VER; one of newer firmware reports jamming, spoofing and corrections in
        other messages."""
        self.wheel_speeds_mps: list[float] = []
        """Wheel speeds received."""
        self._base = EmulatedBase(stream(seed, f"{port}/base").bytes)
        self.refused = 0
        """Number of commands and polls answered with ACK-NAK."""
        self.corrections = 0
        """Number of complete RTCM messages received."""
        self._begin()

    def _begin(self) -> None:
        self._framer = framer()
        self._received_ns = 0
        self._tx.clear()
        self._epochs = 0
        self._index = -1
        self._pairing.clear()
        self._newest: Instant | None = None
        self._pulse_s = -1
        self._time_mode: tuple[int, ...] = ()
        self._base.off()

    @property
    def settings(self) -> ReceiverSettings:
        """Present configuration."""
        return self._settings

    @property
    def baud(self) -> int:
        """Configured line rate; USB has none."""
        return 0 if self._port == "USB" else self._settings.value(f"CFG-{self._port}-BAUDRATE")

    @property
    def period_ms(self) -> int:
        """Time between its epochs."""
        return self._settings.value("CFG-RATE-MEAS") * self._settings.value("CFG-RATE-NAV")

    def restart(self, now_ns: int) -> None:
        """Forget what was written to RAM only."""
        self._settings.restart()
        self._begin()

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Report jamming in MON-RF, spoofing in NAV-STATUS."""
        if kind == "jamming":
            self._jamming = int(value) if active else _JAMMING_NONE
        elif kind == "spoofing":
            self._spoofing = int(value) if active else _SPOOFING_NONE

    # ---------------------------------------------------------------- epochs

    def on_message(self, message: Message, now_ns: int) -> None:
        """Start an epoch with a position and the heading of its instant; without positions every
        heading starts one."""
        found = self._pairing.on_message(message)
        if found is None:
            return
        settings = self._settings
        instant = found._replace(
            baseline_m=self._baseline_m,
            baseline_yaw_rad=self._baseline_yaw_rad,
            spoofing=0 if self._newer else self._spoofing,
            high_precision=bool(settings.value("CFG-NMEA-HIGHPREC")),
        )
        index = instant.gps_ms // self.period_ms
        if index == self._index:
            return
        self._index = index
        self._epochs += 1
        self._newest = instant
        if settings.value(f"CFG-{self._port}OUTPROT-NMEA"):
            self._tx += [
                make(instant) for name, make in SENTENCES.items() if self._wanted(f"NMEA_ID_{name}")
            ]
        if not settings.value(f"CFG-{self._port}OUTPROT-UBX"):
            return
        self._survey(instant)
        for name, make in NAV.items():
            if self._wanted("UBX_" + name.replace("-", "_")):
                self._tx.append(encode(self._own(make(instant), instant)))
        if self._wanted("UBX_NAV_SVIN"):
            self._tx.append(encode(self._progress(instant)))
        if settings.value(f"CFG-{self._port}OUTPROT-RTCM3X"):
            kinds = [kind for kind, name in _CORRECTIONS.items() if self._wanted(name)]
            self._tx += self._base.messages(kinds, settings.value("CFG-RTCM-DF003_OUT"))
        if self._wanted("UBX_ESF_STATUS"):
            self._tx.append(encode(fusion(instant, bool(self.wheel_speeds_mps))))
        if self._wanted("UBX_SEC_SIG"):
            self._tx.append(encode(SecSig(2, self._jamming, self._spoofing)))
        if self._wanted("UBX_MON_RF"):
            self._tx.append(encode(self._radio()))
        next_s = instant.gps_ms // 1000 + 1
        if next_s != self._pulse_s and self._wanted("UBX_TIM_TP"):
            self._pulse_s = next_s
            week, tow_ms = divmod(next_s * 1000, WEEK_MS)
            # Time base GNSS, UTC available.
            self._tx.append(encode(TimTp(tow_ms, 0, 0, week, 0x02, 0)))

    def _lacks(self, item: str) -> bool:
        """True for an item that a receiver of this version does not have."""
        identity = identify(self.version)
        of_fusion = item.startswith(
            ("CFG-SFCORE", "CFG-SFODO", "CFG-MSGOUT-UBX_ESF", "CFG-MSGOUT-UBX_NAV_ATT")
        )
        of_newer = item == "CFG-SIGNAL-BDS_B1C_ENA" and not identity.newer
        return identity.lacks(item) or (of_fusion and not self._inertial) or of_newer

    @property
    def _newer(self) -> bool:
        """True for firmware that reports by SEC-SIG."""
        return identify(self.version).security_messages

    def _wanted(self, message: str) -> bool:
        every = self._settings.value(f"CFG-MSGOUT-{message}_{self._port}")
        return every > 0 and self._epochs % every == 0

    def _own(self, message: Any, instant: Instant) -> Any:
        """Return a navigation message with what this kind of receiver has beyond the others."""
        if not isinstance(message, NavPvt):
            return message
        if self._base.place is not None:
            # A base station computes time alone.
            return message._replace(fix_type=5)
        aligned = self._inertial and instant.heading is not None and instant.solved
        return message._replace(flags=message.flags | 0x20) if aligned else message

    def _survey(self, instant: Instant) -> None:
        """Follow the time mode of the configuration."""
        values = tuple(map(self._settings.value, _TIME_MODE))
        if values != self._time_mode:
            self._time_mode = values
            mode, least_s, limit_e1, _, *place = values
            signed = [
                value - (1 << bits) if value >> bits - 1 else value
                for value, bits in zip(place, (32, 8) * 3)
            ]
            if mode == _SURVEY:
                self._base.survey(least_s, limit_e1 * 1e-4)
            elif mode == _FIXED:
                x, y, z = (signed[at] * 1e-2 + signed[at + 1] * 1e-4 for at in (0, 2, 4))
                self._base.fix((x, y, z))
            else:
                self._base.off()
        fix = instant.fix
        solved = fix is not None and instant.solved
        self._base.on_instant(
            instant.gps_ms,
            (fix.latitude_rad, fix.longitude_rad, fix.height_m) if fix and solved else None,
        )

    def _progress(self, instant: Instant) -> NavSvin:
        base = self._base
        (x, x_e1), (y, y_e1), (z, z_e1) = (
            divmod(round(value * 1e4), 100) for value in (base.place or base.mean)
        )
        finished = base.place is not None and base.observations > 0
        accuracy_e1 = min(round(base.sigma_m * 1e4), 2**32 - 1)
        state = base.observations, int(finished), int(base.surveys)
        return NavSvin(
            0, instant.itow_ms, base.seconds, x, y, z, x_e1, y_e1, z_e1, accuracy_e1, *state
        )

    def _radio(self) -> MonRf:
        watched = self._settings.value("CFG-ITFM-ENABLE")
        level = self._jamming if watched and not self._newer else 0
        indicator = 200 if self._jamming > _JAMMING_NONE else 8
        return MonRf(
            0,
            tuple(
                RfBlock(band, level, 2, 1, 0, 94 - 7 * band, 5600, indicator, 3, 160, -2, 158)
                for band in range(2)
            ),
        )

    # ---------------------------------------------------------------- input from the daemon

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Answer commands and polls at once; take corrections if enabled."""
        stale = now_ns - self._received_ns > STALE_NS
        self._received_ns = now_ns
        for protocol, frame in self._framer.feed(data, stale):
            if protocol == RTCM:
                self._on_rtcm(frame)
            elif protocol != NMEA and self._settings.value(f"CFG-{self._port}INPROT-UBX"):
                self._on_ubx(frame, now_ns)

    def _on_rtcm(self, frame: bytes) -> None:
        number = rtcm_number(frame)
        if number < 0 or not self._settings.value(f"CFG-{self._port}INPROT-RTCM3X"):
            return
        self.corrections += 1
        if self._settings.value(f"CFG-MSGOUT-UBX_RXM_RTCM_{self._port}"):
            station = (frame[4] & 0x0F) << 8 | frame[5]
            self._answer(RxmRtcm(2, 2 << 1, 0, station, number))
        if self._settings.value(f"CFG-MSGOUT-UBX_RXM_COR_{self._port}"):
            self._answer(RxmCor(1, 0, 1 | 1 << 5 | 2 << 7, number, 0))

    def _on_ubx(self, frame: bytes, now_ns: int) -> None:
        key, empty = frame[2:4], len(frame) == 8
        if key[0] == _CLASS_CFG:
            self._on_order(key, parse_ubx(frame), now_ns)
        elif empty and key == _VERSION:
            self._answer(self.version)
        elif key == IDS["ESF-MEAS"] and isinstance(found := parse_ubx(frame), EsfMeas):
            # Type 11 is a speed, in two's complement.
            self.wheel_speeds_mps += [
                ((value ^ 1 << 23) - (1 << 23)) * 1e-3 for kind, value in found.data if kind == 11
            ]
        elif empty and key == IDS["MON-RF"]:
            self._answer(self._radio())
        elif empty and key in _NAV_BY_KEY and self._newest is not None:
            self._answer(_NAV_BY_KEY[key](self._newest))

    def _on_order(self, key: bytes, message: object, now_ns: int) -> None:
        if key == _RESET:
            # The only command without acknowledgement.
            self.restart(now_ns)
            return
        taken = False
        if key == _VALSET and isinstance(message, CfgValset):
            taken = self._settings.store(message)
        elif key == _VALGET and isinstance(message, CfgValgetPoll):
            found = self._settings.read(message)
            taken = found is not None
            if found is not None:
                self._answer(found)
        if taken:
            self._answer(Ack(*key))
        else:
            self.refused += 1
            self._answer(Nak(*key))

    def _answer(self, message: object) -> None:
        if self._settings.value(f"CFG-{self._port}OUTPROT-UBX"):
            self._tx.append(encode(message))


ublox = on_its_line(UbloxReceiver)

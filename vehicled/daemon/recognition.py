"""Recognises what a port receives when its driver cannot read it: another device, another baud
rate, a text."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from vehicled.core.messages import Event, Fault, Message
from vehicled.core.observers import Observers
from vehicled.profile.registry import names, resolve

Decoder = Callable[[bytes], Iterable[tuple[str, object]]]

ENOUGH = 3
"""Messages needed to recognise a format, because noise sometimes passes a short checksum."""
BYTES_PER_MESSAGE = 4096
"""Most bytes per message, because noise passes a checksum more often in much data."""
SAMPLE_BYTES = 2048
"""Bytes that are examined, and kept of each port; a second of a slow device."""
COMMON = {"nmea", "rtcm"}
"""Formats that devices of many manufacturers send in addition to their own, so they do not identify
a device."""
OWN_SENTENCES = {"vectornav": "VN"}
"""Beginning of the sentences that only the devices of one driver send."""
_TITLES = {
    "nmea": "NMEA 0183 (driver ublox)",
    "rtcm": "RTCM 3 (driver rtcm)",
    "spartn": 'SPARTN (driver rtcm, protocol = "spartn")',
    "ublox": "UBX (driver ublox)",
    "septentrio": "SBF of a Septentrio (driver septentrio)",
    "unicore": "logs of a Unicore UM98x (driver unicore)",
    "n100": "FDILink (driver n100)",
    "witmotion": "WitMotion (driver witmotion)",
    "bno08x": "BNO08x (driver bno08x)",
    "xsens": "Xbus of an Xsens (driver xsens)",
    "vectornav": "VectorNav (driver vectornav)",
    "mip": "MIP of a MicroStrain (driver mip)",
    "sbg": "sbgECom (driver sbg)",
    "vesc": "a VESC (driver vesc_uart)",
    "natnet": "NatNet of OptiTrack Motive (driver natnet)",
    "vrpn": "a VRPN server (driver vrpn)",
    "vicon": "objects of a Vicon Tracker (driver vicon)",
    "mavlink": "MAVLink of an autopilot (driver mavlink_autopilot)",
    "encoder": "counts of wheel encoders (driver encoder)",
    "rplidar": "RPLIDAR (driver rplidar)",
    "ydlidar": "YDLIDAR (driver ydlidar)",
    "ldrobot": "an LDROBOT LD06 (driver ldrobot)",
    "hokuyo": "SCIP of a Hokuyo (driver hokuyo)",
    "sick": "CoLa of a SICK (driver sick)",
    "velodyne": "a Velodyne (driver velodyne)",
    "ouster": "an Ouster (driver ouster)",
    "crsf": "CRSF of an RC receiver (driver crsf)",
    "sbus": "SBUS of an RC receiver (driver sbus)",
    "ibus": "iBUS of an RC receiver (driver ibus)",
}
_READERS = {
    "nmea": ("ublox", "vectornav"),
    "rtcm": ("rtcm", "ntrip", "ublox"),
    "spartn": ("rtcm", "ntrip"),
    "vesc": ("vesc_uart", "vesc_forward"),
    "mavlink": ("mavlink_autopilot",),
}
"""Drivers that read a format, where its name is not that of the driver."""
_REMARKS = (Event, Fault)
"""Messages that are no measurement."""
_TEXT_SHARE = 0.95


def best_format(data: bytes, decoders: Mapping[str, Decoder]) -> tuple[str, Counter[str]]:
    """Return the format that fits, and the messages in it: the one that alone understands the most,
    else a common format that covers all data. The name is empty if none fits."""
    found = {name: Counter(kind for kind, _ in decode(data)) for name, decode in decoders.items()}
    common = {kind for name in COMMON & found.keys() for kind in found[name]}
    own = {
        name: sum(
            n
            for kind, n in kinds.items()
            if (
                kind.startswith(OWN_SENTENCES[name])
                if name in OWN_SENTENCES
                else kind not in common
            )
        )
        for name, kinds in found.items()
    }
    enough = max(ENOUGH, len(data) // BYTES_PER_MESSAGE)
    name = max(own, key=lambda name: own[name], default="")
    if not name or own[name] < enough:
        name = max(COMMON & found.keys(), key=lambda name: found[name].total(), default="")
    if not name or found[name].total() < enough:
        name = ""
    return name, found.get(name, Counter())


def decoders() -> dict[str, Decoder]:
    """Return all decoders of recordings by name, and load them."""
    return {name: resolve("decoder", name) for name in names("decoder")}


def describe(data: bytes, driver: str = "", users: Mapping[str, str] | None = None) -> str:
    """Return what ``data`` looks like, as the end of "bytes arrived ...".

    ``driver`` is the one that reads them; ``users`` are the other devices of the vehicle by driver.
    """
    name, found = best_format(data, decoders())
    if name:
        readers = _READERS.get(name, (name,))
        if driver in readers and (
            driver not in OWN_SENTENCES
            or any(kind.startswith(OWN_SENTENCES[driver]) for kind in found)
        ):
            kinds = ", ".join(kind for kind, _ in found.most_common(3))
            return (
                f"which the driver reads ({kinds}), but they hold no measurement that the "
                "profile expects"
            )
        other = next((users[each] for each in readers if users and each in users), "")
        exchanged = f', as "{other}" expects: are the two ports exchanged?' if other else ""
        return f"that look like {_TITLES.get(name, name)}{exchanged}"
    printable = bytes(byte for byte in data if 0x20 <= byte < 0x7F)
    if len(printable) + data.count(b"\r") + data.count(b"\n") >= _TEXT_SHARE * len(data):
        line = max(data.splitlines(), key=len)[:40].decode("ascii", "replace")
        return f"that are text without a known sentence ({line!r})"
    return "in which no known device can be recognised; the baud rate may be wrong"


class UnreadBytes:
    """Bytes that a port has received since its driver produced its last measurement."""

    def __init__(
        self, driver: str, users: Mapping[str, str], observers: Observers | None = None
    ) -> None:
        """Take the name of the driver, and the other devices of the vehicle by the name of
        theirs."""
        guard = (observers or Observers()).guard
        self.on_rx = guard("recognition", self._take, None)
        """Function that takes received bytes, and the messages that they completed."""
        self.described = guard("recognition", self._describe, "")
        """Function that returns "4,312 bytes arrived that look like ..."; empty without enough
        bytes."""
        self.count = 0
        self._driver = driver
        self._users = users
        self._pieces: deque[bytes] = deque(maxlen=64)
        self._described = ""
        self._examined = 0

    def _take(self, data: bytes, messages: Sequence[Message]) -> None:
        if any(type(message) not in _REMARKS for message in messages):
            if self.count:
                self.count = 0
                self._pieces.clear()
                self._described = ""
                self._examined = 0
            return
        self.count += len(data)
        if self._examined < SAMPLE_BYTES:
            self._pieces.append(data[-SAMPLE_BYTES:])

    def _describe(self) -> str:
        """Return the text.

        The newest bytes are examined, until ``SAMPLE_BYTES`` have arrived, and no more often than
        their number doubles.
        """
        if self.count < SAMPLE_BYTES // 4:
            return ""
        if self._examined < SAMPLE_BYTES and self.count >= 2 * self._examined:
            self._examined = self.count
            self._described = describe(
                b"".join(self._pieces)[-SAMPLE_BYTES:], self._driver, self._users
            )
        return f"{self.count:,} bytes arrived {self._described}"

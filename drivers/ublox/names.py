"""Names of UBX messages by class and id.

The names are those of the interface descriptions of generations 6 to 10 (NOTES.md), so that
recordings of any receiver are readable; messages used by the driver have a layout in
:mod:`drivers.ublox.ubx`.
"""

_CLASSES: dict[int, tuple[str, str]] = {
    0x01: (
        "NAV",
        (
            "01 POSECEF 02 POSLLH 03 STATUS 04 DOP 05 ATT 06 SOL 07 PVT 09 ODO 10 RESETODO 11 "
            "VELECEF 12 VELNED 13 HPPOSECEF 14 HPPOSLLH 17 PVAT 20 TIMEGPS 21 TIMEUTC 22 CLOCK "
            "23 TIMEGLO 24 TIMEBDS 25 TIMEGAL 26 TIMELS 27 TIMEQZSS 28 NMI 30 SVINFO 31 DGPS 32 "
            "SBAS 34 ORB 35 SAT 36 COV 39 GEOFENCE 3b SVIN 3c RELPOSNED 3d EELL 40 EKFSTATUS 42 "
            "SLAS 43 SIG 45 DAHEADING 60 AOPSTATUS 61 EOE 62 PL 63 TIMENAVIC 64 TIMETRUSTED"
        ),
    ),
    0x02: (
        "RXM",
        (
            "10 RAW 11 SFRB 13 SFRBX 14 MEASX 15 RAWX 20 SVSI 30 ALM 31 EPH 32 RTCM 33 SPARTN 34 "
            "COR 36 SPARTN-KEY 40 POSREQ 41 PMREQ 59 RLM 61 IMES 72 PMP 73 QZSSL6 74 TM 80 "
            "MEASD12 82 MEASC12 84 MEAS20 86 MEAS50"
        ),
    ),
    0x04: ("INF", "00 ERROR 01 WARNING 02 NOTICE 03 TEST 04 DEBUG"),
    0x05: ("ACK", "00 NAK 01 ACK"),
    0x06: (
        "CFG",
        (
            "00 PRT 01 MSG 02 INF 04 RST 06 DAT 07 TP 08 RATE 09 CFG 0e FXN 11 RXM 12 EKF 13 ANT "
            "16 SBAS 17 NMEA 1b USB 1d TMODE 1e ODO 22 NVS 23 NAVX5 24 NAV5 29 ESFGWT 31 TP5 32 "
            "PM 34 RINV 39 ITFM 3b PM2 3d TMODE2 3e GNSS 41 OTP 47 LOGFILTER 4c ESFA 4d ESFG 53 "
            "TXSLOT 56 ESFALG 57 PWR 5c HNR 60 ESRC 61 DOSC 62 SMGR 64 SPT 69 GEOFENCE 70 DGNSS "
            "71 TMODE3 82 ESFWT 84 FIXSEED 85 DYNSEED 86 PMS 88 SENIF 8a VALSET 8b VALGET 8c "
            "VALDEL 8d SLAS 93 BATCH"
        ),
    ),
    0x09: ("UPD", "14 SOS"),
    0x0A: (
        "MON",
        (
            "02 IO 04 VER 06 MSGPP 07 RXBUF 08 TXBUF 09 HW 0b HW2 21 RXR 27 PATCH 28 GNSS 2b PT2 "
            "2e SMGR 2f SPT 31 SPAN 35 PMP 36 COMMS 37 HW3 38 RF 39 SYS"
        ),
    ),
    0x0B: ("AID", "00 REQ 01 INI 02 HUI 10 DATA 30 ALM 31 EPH 32 ALPSRV 33 AOP 50 ALP"),
    0x0D: ("TIM", "01 TP 03 TM2 04 SVIN 06 VRFY 11 DOSC 12 TOS 13 SMEAS 15 VCOCAL 16 FCHG 17 HOC"),
    0x10: ("ESF", "02 MEAS 03 RAW 04 CAL 10 STATUS 13 RESETALG 14 ALG 15 INS"),
    0x13: ("MGA", "10 SF 80 DBD"),
    0x21: (
        "LOG",
        (
            "03 ERASE 04 STRING 07 CREATE 08 INFO 09 RETRIEVE 0b RETRIEVEPOS 0d RETRIEVESTRING "
            "0e FINDTIME 0f RETRIEVEPOSEXTRA 10 RETRIEVEBATCH 11 BATCH"
        ),
    ),
    0x27: ("SEC", "01 SIGN 03 UNIQID 09 SIG 0a OSNMA 10 SIGLOG"),
    0x28: ("HNR", "00 PVT 01 ATT 02 INS"),
    0x29: (
        "NAV2",
        (
            "01 POSECEF 02 POSLLH 03 STATUS 04 DOP 07 PVT 09 ODO 11 VELECEF 12 VELNED 17 PVAT 20 "
            "TIMEGPS 21 TIMEUTC 22 CLOCK 23 TIMEGLO 24 TIMEBDS 25 TIMEGAL 26 TIMELS 27 TIMEQZSS "
            "32 SBAS 35 SAT 36 COV 3b SVIN 3d EELL 42 SLAS 43 SIG 61 EOE 63 TIMENAVIC"
        ),
    ),
}
"""Name and message names (by hexadecimal id) of each class."""


def _names() -> dict[bytes, str]:
    found = {}
    for number, (prefix, listing) in _CLASSES.items():
        words = listing.split()
        for identifier, name in zip(words[::2], words[1::2]):
            found[bytes((number, int(identifier, 16)))] = f"{prefix}-{name}"
    return found


NAMES: dict[bytes, str] = _names()
"""Message name by the two bytes class and id, e.g. ``NAV-PVT``."""

IDS: dict[str, bytes] = {name: key for key, name in NAMES.items()}
"""Class and id by name."""


def ubx_name(key: bytes) -> str:
    """Return the name of the message with the two bytes class and id; ``UBX-0c4b`` if
    undocumented."""
    return NAMES.get(key) or f"UBX-{key.hex()}"

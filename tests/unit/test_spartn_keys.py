"""Keys of SPARTN services on their way to the receiver, corrections of a satellite receiver, and
what the receiver reports of both."""

import json

import pytest
from pyubx2 import SET, UBXReader

from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.ublox.codec import ubx_frame
from drivers.ublox.device import UbloxDevice
from drivers.ublox.settings import Params
from drivers.ublox.spartn_keys import SpartnKey, encode_keys, parse_keys, read_keys
from vehicled.core.messages import Corrections, Event, Fault, GnssFix, Message, PortState
from vehicled.core.ports import Send

KEYS = [SpartnKey(bytes(range(16)), 2403, 0), SpartnKey(bytes(range(16, 32)), 2407, 432_000)]
START_MS = 315_964_800_000 - 18_000
"""Unix time of the begin of GPS time, as the service counts it."""


FRAME = encode_keys(KEYS)


def test_another_implementation_reads_the_message() -> None:
    message = UBXReader.parse(FRAME, msgmode=SET)
    assert (message.identity, message.version, message.numKeys) == ("RXM-SPARTN-KEY", 1, 2)
    octets = b""
    for i, (key, week, tow_s) in enumerate(KEYS, 1):
        heads = ("encryptAlgorithm", "keyLengthBytes", "validFromWno", "validFromTow")
        found = [getattr(message, f"{name}_{i:02d}") for name in heads]
        assert found == [0, len(key), week, tow_s]
        octets += key
    assert [getattr(message, f"key_{i:02d}") for i in range(1, 33)] == list(octets)
    assert parse_keys(FRAME[6:-2]) == KEYS
    assert "0102" not in repr(KEYS)


def points(start_ms: int, key: SpartnKey) -> dict[str, object]:
    return {"start": start_ms, "duration": 2_419_200_000, "value": key.value.hex()}


TEXTS = [
    FRAME.hex(),
    "\n".join(f"{key.hex()} {week} {tow_s}" for key, week, tow_s in KEYS) + "\n",
    json.dumps(
        {
            "dynamickeys": {
                name: points(START_MS + (key.week * 604_800 + key.tow_s) * 1000, key)
                for name, key in zip(("current", "next"), KEYS, strict=True)
            }
        }
    ),
]


@pytest.mark.parametrize("text", TEXTS, ids=["message", "lines", "json"])
def test_each_form_of_a_file_gives_the_keys(text: str) -> None:
    assert read_keys(text) == KEYS


@pytest.mark.parametrize(
    "text",
    [
        "", "simulated", "{", "{}", '{"dynamickeys": {"current": {"start": 1, "value": "00"}}}',
        "[" * 50_000, "{" * 50_000, "00 1 2", f"{'00' * 16} 1 x", f"{'00' * 16} 1 604800",
        f"{'00' * 16} 70000 1", FRAME.hex()[:-2], "b562", "é 1 2", "0" * 10**6,
    ],
)  # fmt: skip
def test_other_texts_hold_no_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)key|message"):
        read_keys(text)


def test_messages_with_other_counts_and_lengths_are_refused() -> None:
    payload = encode_keys(KEYS)[6:-2]
    for odd in (
        b"",
        payload[:3],
        b"\2" + payload[1:],
        b"\1\0\0\0",
        b"\1\3" + payload[2:],
        payload[:-1],
    ):
        with pytest.raises(ValueError, match=r"key|message"):
            parse_keys(odd)


def listening(**params: object) -> UbloxDevice:
    given = {"configure": False, "spartn": True, **params}
    device = UbloxDevice(Params(**given), [GnssFix], 50_000_000)  # type: ignore[arg-type]
    device.on_port(PortState.OPENED, "", 1)
    device.take_tx()
    return device


def report(status: int, message: int = 0) -> bytes:
    fields = bytes((1, 80, 0, 0)) + status.to_bytes(4, "little") + message.to_bytes(2, "little")
    return ubx_frame(b"\x02\x34", fields + b"\0\0")


def faults(found: list[Message]) -> list[tuple[str, bool]]:
    return [(each.code, each.active) for each in found if isinstance(each, Fault)]


def test_what_the_receiver_does_with_its_corrections_is_shown() -> None:
    device = listening()
    used, undecrypted = (
        2 | 1 << 5 | 2 << 7 | 2 << 28 | 2 << 30,
        2 | 1 << 5 | 1 << 7 | 2 << 28 | 1 << 30,
    )
    pmp, damaged = 29 | 1 << 5 | 2 << 7, 1 | 2 << 5 | 1 << 7
    found = list(device.on_rx(report(used) * 2 + report(pmp) + report(damaged), 10**9))
    assert not faults(found)
    found = list(device.on_rx(report(undecrypted), 2 * 10**9))
    assert faults(found) == [("spartn_undecrypted", True)]
    assert device.usage.of("RXM-COR").remark == (
        "the receiver reports 1 of PMP used, 1 of RTCM damaged, 1 of SPARTN not decrypted, 2 of "
        "SPARTN used"
    )
    assert faults(list(device.on_rx(report(used), 3 * 10**9))) == [("spartn_undecrypted", False)]


def test_satellite_corrections_pass_whole() -> None:
    device = RtcmDevice(RtcmParams(protocol="pmp"), [Corrections], 0)
    device.on_port(PortState.OPENED, "", 1)
    frames = [
        ubx_frame(b"\x02\x72", bytes(range(256)) * 2 + bytes(16)),
        ubx_frame(b"\x02\x72", b"\1" + bytes(400)),
    ]
    other = ubx_frame(b"\x01\x07", bytes(92))
    stream = b"$GNGGA,,*00\r\n" + frames[0] + other + frames[1]
    found = [
        each
        for at in range(0, len(stream), 7)
        for each in device.on_rx(stream[at : at + 7], at + 2)
    ]
    assert [each.data for each in found if isinstance(each, Corrections)] == frames


def test_keys_are_sent_to_a_receiver_that_is_set_up_and_again_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = listening(spartn_keys_file="/etc/keys")
    monkeypatch.setattr(UbloxDevice, "configured", True)
    device.set_secret(TEXTS[0])
    device.on_rx(b"", 10**9)
    (sent,) = [each for each in device.take_tx() if isinstance(each, Send)]
    assert sent.data == FRAME
    assert sent.journal == sent.data[:8]
    device.on_rx(b"", 2 * 10**9)
    assert not device.take_tx()
    device.set_secret("nothing")
    found = device.on_rx(b"", 3 * 10**9)
    assert [each.code for each in found if isinstance(each, Fault)] == ["spartn_keys"]
    assert not any(isinstance(each, Event) for each in found)

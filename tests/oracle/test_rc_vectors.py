"""Codecs of RC receivers against frames that others published or recorded, in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest

from drivers.rc import crsf, ibus, sbus
from vehicled.core.messages import RcChannels
from vehicled.core.wire.crc import crc8_d5

# rtlopez/esp-fc at 78c9800, test/test_input_crsf (MIT): channel 3 low, all others at the centre.
CRSF_ESPFC = "c81816e0031f2bc0073ef0810f7ce0031ff8c0073ef0810f7cdb"
# PX4/PX4-Autopilot at d537a1b628, src/lib/rc/rc_tests/test_data/sbus2_r7008SB.txt (BSD-3-Clause):
# Futaba R7008SB, logic analyser.
SBUS2_PX4 = [
    f"0f1104 20a801 0816 5003 1080 0004 2000 0108 4000 0210 8000 {end}"
    for end in ("14", "24", "34", "04")
]
SBUS2_CHANNELS = (1041, 1024, 1696, 1024, 352, 1696, *(1024,) * 10)
SLOT = bytes.fromhex("03c02e")
"""Telemetry slot that follows the frame that ends with 04."""


def vectors(folder: Path, protocol: str) -> list[dict[str, Any]]:
    found = json.loads((folder / "captures2" / "rc" / "rc_vectors.json").read_text())["vectors"]
    return [each for each in found if each["protocol"] == protocol]


def test_the_checksum_of_crsf_is_that_of_the_catalogue() -> None:
    assert crc8_d5(b"123456789") == 0xBC


def test_crsf_of_a_published_test() -> None:
    ((name, content),) = crsf.decode(bytes.fromhex(CRSF_ESPFC))
    assert name == "CHANNELS"
    assert isinstance(content, crsf.Channels)
    assert content.channels == (992, 992, 172, *(992,) * 13)
    assert crsf.encode(content).hex() == CRSF_ESPFC


def test_sbus2_of_a_recorded_receiver_with_telemetry_slots() -> None:
    frames = [bytes.fromhex(each) for each in SBUS2_PX4]
    stream = (b"".join(frames) + SLOT) * 3
    # The recording begins within a frame, and one of its frames lacks a byte.
    damaged = frames[0][2:] + stream + frames[0][:12] + frames[0][13:] + stream
    found = [sbus.parse(each) for each in sbus.SbusReader().feed(damaged)]
    assert all(each.channels == SBUS2_CHANNELS for each in found)
    # The first after each damage confirms the next.
    assert len(found) == 2 * 12 - 2
    assert [sbus.encode(sbus.parse(each), each[24]) for each in frames] == frames


@pytest.mark.parametrize("protocol", ["CRSF", "IBUS", "SBUS"])
def test_all_frames_of_the_collection(real_data: Path, protocol: str) -> None:
    found = vectors(real_data, protocol)
    assert found
    decode = {"CRSF": crsf.decode, "IBUS": ibus.decode, "SBUS": sbus.decode}[protocol]
    for vector in found:
        data = bytes.fromhex(vector["bytes"])
        ((_, content),) = decode(data)
        channels = content.channels  # type: ignore[attr-defined]
        expected = vector.get("raw_11bit") or vector["expected_channels"]
        assert list(channels) == expected
        match content:
            case crsf.Channels():
                again = crsf.encode(content, data[0])
            case ibus.IbusFrame():
                again = (
                    ibus.encode(content)[:1] + data[1:2] + ibus.encode(content)[2:-2] + data[-2:]
                )
            case sbus.SbusFrame():
                again = sbus.encode(content)
            case _:
                raise AssertionError(content)
        assert again == data


def test_every_driver_gives_the_channels_of_the_wire() -> None:
    device = crsf.CrsfDevice(crsf.CrsfParams(), [RcChannels], 0)
    (message,) = device.on_rx(bytes.fromhex(CRSF_ESPFC), 7)
    assert isinstance(message, RcChannels)
    assert message.channels[:3] == (992, 992, 172)
    assert (message.t_rx_ns, message.failsafe, message.frame_lost) == (7, False, False)

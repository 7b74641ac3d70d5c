"""Setting a receiver up: a receiver that answers, refuses, stays silent, speaks at another line
rate, forgets."""

import heapq
import json
from itertools import count, pairwise
from typing import Any

import pytest

from drivers.ublox import keys
from drivers.ublox.codec import UBX, encode, framer, parse_ubx, poll
from drivers.ublox.device import UbloxDevice
from drivers.ublox.keys import FLASH, RAM, CfgValget, CfgValgetPoll, CfgValset, key_name
from drivers.ublox.layouts import Ack, MonVer, Nak, NavEoe, NavPvt
from drivers.ublox.names import IDS
from drivers.ublox.settings import WIRE_BAUD, Params, groups
from vehicled.core.messages import (
    Corrections,
    Event,
    Fault,
    GnssFix,
    Heading,
    Message,
    PortState,
)
from vehicled.core.ports import NEVER_NS, Reopen, Send, SetBaud

S = 1_000_000_000
KEYS = keys.KEYS
PVT = NavPvt(
    0, 2025, 4, 11, 23, 14, 37, 0x37, 21, 172_938, 3, 0x83, 0xEA, 25, 76_590_724, 450_657_724,
    303_638, 256_403, 14, 10, -13, 12, 52, 17, 19_004_270, 191, 18_000_000, 144, 2,
)  # fmt: skip
TEXT = b"$GNTXT,01,01,02,u-blox AG - www.u-blox.com*4E\r\n"


class Receiver:
    """The far side of the line, as a receiver of generation 9 behaves: line rate, RAM, answers in
    order, epochs each second."""

    def __init__(
        self, *, baud: int | None = None, refuses: tuple[str, ...] = (), keeps: tuple[str, ...] = ()
    ) -> None:
        self.baud = baud
        self.ram: dict[int, int] = dict.fromkeys(KEYS.values(), 0)
        self.ram[KEYS["CFG-USBOUTPROT-NMEA"]] = 1
        self.refuses = {KEYS[name] for name in refuses}
        self.keeps = {KEYS[name] for name in keeps}
        self.lose_acks = 0
        self.lose_requests = 0
        self.deaf = False
        self.mute = False
        self.sets: list[CfgValset] = []
        self.requests: list[bytes] = []
        self._stream = framer()

    def on_bytes(self, data: bytes) -> bytes:
        if self.deaf:
            return b""
        answers = b""
        for protocol, frame in self._stream.feed(data):
            assert protocol == UBX
            self.requests.append(frame)
            if self.lose_requests:
                self.lose_requests -= 1
                continue
            answers += self._on_frame(frame)
        return answers

    def _on_frame(self, frame: bytes) -> bytes:
        if frame == poll("MON-VER"):
            return encode(
                MonVer(
                    "EXT CORE 1.00 (f10c36)", "00190000", ("ROM BASE 0x118B2060", "FWVER=HPG 1.32")
                )
            )
        message = parse_ubx(frame)
        if isinstance(message, CfgValset):
            assert message.layers == keys.RAM
            self.sets.append(message)
            if any(key in self.refuses for key, _ in message.items):
                return encode(Nak(*IDS["CFG-VALSET"]))
            for key, value in message.items:
                if key not in self.keeps:
                    self.ram[key] = value
                if (
                    key == KEYS["CFG-UART1-BAUDRATE"]
                    and self.baud is not None
                    and key not in self.keeps
                ):
                    # The acknowledgement of this one gets lost in the change.
                    self.baud = value
                    return b""
            if self.lose_acks:
                self.lose_acks -= 1
                return b""
            return encode(Ack(*IDS["CFG-VALSET"]))
        assert isinstance(message, CfgValgetPoll)
        if any(key in self.refuses for key in message.keys):
            return encode(Nak(*IDS["CFG-VALGET"]))
        values = CfgValget(tuple((key, self.ram[key]) for key in message.keys))
        return encode(values) + encode(Ack(*IDS["CFG-VALGET"]))

    def epoch(self, number: int) -> bytes:
        if self.mute:
            return b""
        if (
            self.ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_USB"]]
            or self.ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_UART1"]]
        ):
            return encode(PVT._replace(itow_ms=number * 1000)) + encode(NavEoe(number * 1000))
        return TEXT


class Bench:
    """Device and receiver on one line, in virtual time."""

    def __init__(
        self, device: UbloxDevice, receiver: Receiver, host_baud: int | None = None
    ) -> None:
        self.device, self.receiver, self.host_baud = device, receiver, host_baud
        self.now_ns = S
        self.messages: list[Message] = []
        self.actions: list[Any] = []
        self._number = count()
        self._waiting: list[tuple[int, int, bytes]] = []
        self._next_epoch_ns = S + S // 2

    def open(self) -> None:
        self.messages += self.device.on_port(PortState.OPENED, "", self.now_ns)
        self._act()

    def run(self, seconds: float) -> None:
        end = self.now_ns + round(seconds * S)
        while True:
            due = min(
                self.device.next_due_ns(),
                self._next_epoch_ns,
                self._waiting[0][0] if self._waiting else NEVER_NS,
            )
            if due > end:
                break
            self.now_ns = max(self.now_ns, due)
            if self._waiting and self._waiting[0][0] <= self.now_ns:
                self.messages += self.device.on_rx(heapq.heappop(self._waiting)[2], self.now_ns)
            elif self._next_epoch_ns <= self.now_ns:
                self._to_host(self.receiver.epoch(self.now_ns // S))
                self._next_epoch_ns += S
            else:
                self.messages += self.device.on_time(self.now_ns)
                assert self.device.next_due_ns() > self.now_ns, "on_time leaves its due time behind"
            self._act()
        self.now_ns = end

    def _act(self) -> None:
        for action in self.device.take_tx():
            self.actions.append(action)
            match action:
                case Send():
                    assert action.deadline_ns > self.now_ns
                    if self.receiver.baud == self.host_baud:
                        self._to_host(self.receiver.on_bytes(action.data))
                case SetBaud():
                    self.host_baud = action.baud
                case Reopen():
                    pass

    def _to_host(self, data: bytes) -> None:
        if data and self.receiver.baud != self.host_baud:
            data = bytes(byte * 7 + 13 & 0xFF for byte in data)
        if data:
            heapq.heappush(self._waiting, (self.now_ns + 20_000_000, next(self._number), data))

    def faults(self) -> list[Fault]:
        return [message for message in self.messages if isinstance(message, Fault)]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [
            json.loads(message.fields)
            for message in self.messages
            if isinstance(message, Event) and message.name == name
        ]


def bench(receiver: Receiver, host_baud: int | None = None, **params: Any) -> Bench:
    return Bench(UbloxDevice(Params(**params), [GnssFix, Heading], 50_000_000), receiver, host_baud)


def wanted(**params: Any) -> dict[int, int]:
    return {
        key: value
        for group in groups(Params(**params), [GnssFix, Heading])
        for key, value in group.items
    }


def test_everything_is_written_to_ram_and_reads_back():
    line = bench(Receiver(), rate_hz=8.0, dynamic_model="pedestrian")
    line.open()
    line.run(3.0)
    assert line.device.configured
    assert line.faults() == []
    ram = line.receiver.ram
    assert {key: ram[key] for key in wanted(rate_hz=8.0, dynamic_model="pedestrian")} == wanted(
        rate_hz=8.0, dynamic_model="pedestrian"
    )
    assert ram[KEYS["CFG-RATE-MEAS"]] == 125
    assert ram[KEYS["CFG-NAVSPG-DYNMODEL"]] == 3
    assert ram[KEYS["CFG-MSGOUT-UBX_NAV_RELPOSNED_USB"]] == 1
    assert ram[KEYS["CFG-USBOUTPROT-NMEA"]] == 0
    assert line.events("gnss_configured") == [
        {
            "problems": 0,
            "software": "EXT CORE 1.00 (f10c36)",
            "firmware": "ROM BASE 0x118B2060 FWVER=HPG 1.32",
        }
    ]
    read = [parse_ubx(frame) for frame in line.receiver.requests]
    assert {
        key for message in read if isinstance(message, CfgValgetPoll) for key in message.keys
    } == wanted().keys()


def test_requests_are_few_items_one_at_a_time_and_never_a_reset():
    line = bench(Receiver())
    line.open()
    line.run(5.0)
    assert max(len(message.items) for message in line.receiver.sets) <= 8
    assert {frame[2:4] for frame in line.receiver.requests} == {
        IDS["CFG-VALSET"],
        IDS["CFG-VALGET"],
        IDS["MON-VER"],
    }
    # Each order is read back before the next one is given.
    kinds = [type(parse_ubx(frame)) for frame in line.receiver.requests if frame[2:3] == b"\x06"]
    assert all(a is not b for a, b in pairwise(kinds))


def test_a_refused_item_is_named_and_the_others_are_set():
    line = bench(Receiver(refuses=("CFG-MSGOUT-UBX_NAV_PVT_USB", "CFG-NAVSPG-DYNMODEL")))
    line.open()
    line.run(5.0)
    (fault,) = line.faults()
    assert (fault.code, fault.active) == ("gnss_configuration", True)
    assert "CFG-MSGOUT-UBX_NAV_PVT_USB 1 is rejected" in fault.reason
    assert "CFG-NAVSPG-DYNMODEL 4 is rejected" in fault.reason
    assert fault.reason.count(";") == 1
    expected = {key: value for key, value in wanted().items() if key not in line.receiver.refuses}
    assert {key: line.receiver.ram[key] for key in expected} == expected


def test_a_value_that_the_receiver_does_not_keep_is_named():
    line = bench(Receiver(keeps=("CFG-RATE-MEAS",)), rate_hz=20.0)
    line.open()
    line.run(3.0)
    (fault,) = line.faults()
    assert fault.reason == "CFG-RATE-MEAS reads back 0 instead of 50"


def test_what_a_receiver_of_standard_precision_does_not_have_is_reported_once_and_is_no_fault():
    lacks = (
        "CFG-MSGOUT-UBX_NAV_HPPOSLLH_USB",
        "CFG-MSGOUT-UBX_TIM_TP_USB",
        "CFG-MSGOUT-UBX_RXM_RTCM_USB",
    )
    line = bench(Receiver(refuses=lacks))
    line.open()
    line.run(10.0)
    assert not line.faults()
    (messages,) = line.events("gnss_items_unavailable")
    assert messages["items"] == [lacks[0], lacks[2]], "what was not wanted anyhow is not missed"
    line.receiver.ram = dict.fromkeys(line.receiver.ram, 0)
    line.run(30.0)
    assert len(line.events("gnss_configured")) > 1
    assert len(line.events("gnss_items_unavailable")) == 1


def test_a_receiver_that_refuses_everything_is_said_to_be_of_another_generation():
    line = bench(Receiver(refuses=tuple(KEYS)))
    line.open()
    line.run(5.0)
    (fault,) = line.faults()
    assert "not of generation 9" in fault.reason


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_requests_are_repeated(lost: int):
    line = bench(Receiver())
    line.receiver.lose_requests = lost
    line.open()
    line.run(6.0)
    assert line.device.configured
    assert line.faults() == []


def test_lost_acknowledgements_are_made_good_by_reading_back():
    line = bench(Receiver())
    line.receiver.lose_acks = 3
    line.open()
    line.run(10.0)
    assert line.device.configured
    assert line.faults() == []
    assert line.receiver.ram[KEYS["CFG-RATE-MEAS"]] == 200


def test_a_deaf_receiver_is_named_once_and_tried_again():
    line = bench(Receiver())
    line.receiver.deaf = True
    line.open()
    line.run(30.0)
    (fault,) = line.faults()
    assert "does not reply" in fault.reason
    line.receiver.deaf = False
    line.run(70.0)
    assert line.device.configured
    assert [fault.active for fault in line.faults()] == [True, False]


def test_nothing_on_the_line_is_named_and_waited_for():
    line = bench(Receiver())
    line.receiver.deaf = line.receiver.mute = True
    line.open()
    line.run(200.0)
    (fault,) = line.faults()
    assert "no data from the receiver" in fault.reason
    # Waits grow: three questions per round, 5 s, 10 s, 20 s, 40 s, 60 s apart.
    assert 12 <= len(line.actions) <= 18
    assert not any(isinstance(action, Reopen) for action in line.actions)


@pytest.mark.parametrize("there", [38_400, 460_800, 9_600])
def test_the_line_rate_is_found_and_changed(there: int):
    line = bench(Receiver(baud=there), host_baud=115_200, port="uart1", baud=460_800)
    line.open()
    line.run(20.0)
    assert line.device.configured
    assert line.receiver.baud == line.host_baud == 460_800
    assert line.faults() == []
    assert line.receiver.ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_UART1"]] == 1
    assert any(isinstance(message, GnssFix) for message in line.messages)


def test_a_line_rate_that_cannot_be_changed_is_named():
    line = bench(
        Receiver(baud=38_400, keeps=("CFG-UART1-BAUDRATE",)),
        host_baud=38_400,
        port="uart1",
        baud=921_600,
    )
    line.open()
    line.run(15.0)
    assert "stays at line rate 38400" in line.faults()[0].reason


def test_a_line_rate_that_nobody_speaks_is_named():
    line = bench(Receiver(baud=1_200), host_baud=115_200, port="uart1", baud=115_200)
    line.open()
    line.run(20.0)
    (fault,) = line.faults()
    assert "at any line rate" in fault.reason
    tried = [action.baud for action in line.actions if isinstance(action, SetBaud)]
    assert tried[0] == 115_200
    assert len(set(tried)) == 8


def test_constellations_are_left_alone_where_they_are_right():
    names = {"GPS": 1, "GAL": 1, "BDS": 0, "GLO": 0}
    line = bench(Receiver(), constellations=("gps", "galileo"))
    line.receiver.ram |= {KEYS[f"CFG-SIGNAL-{name}_ENA"]: value for name, value in names.items()}
    line.open()
    line.run(3.0)
    signals = {KEYS[f"CFG-SIGNAL-{name}_ENA"] for name in names}
    assert not any(key in signals for message in line.receiver.sets for key, _ in message.items)
    line = bench(Receiver(), constellations=("gps", "galileo"))
    line.open()
    line.run(3.0)
    written = {key for message in line.receiver.sets for key, _ in message.items if key in signals}
    assert written == {KEYS["CFG-SIGNAL-GPS_ENA"], KEYS["CFG-SIGNAL-GAL_ENA"]}


def test_a_receiver_that_forgot_is_set_up_again():
    line = bench(Receiver())
    line.open()
    line.run(5.0)
    assert line.device.configured
    line.receiver.ram = Receiver().ram
    line.run(10.0)
    assert len(line.events("epochs_absent")) == 1
    assert line.receiver.ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_USB"]] == 1
    assert len(line.events("gnss_configured")) == 2


def test_silence_is_reported_once_and_the_port_reopened_with_growing_timeout():
    line = bench(Receiver())
    line.open()
    line.run(5.0)
    line.receiver.mute = line.receiver.deaf = True
    line.run(100.0)
    assert len(line.events("receiver_silent")) == 1
    reopens = [action for action in line.actions if isinstance(action, Reopen)]
    assert 3 <= len(reopens) <= 8
    line.receiver.mute = line.receiver.deaf = False
    line.run(3.0)
    assert len(line.events("receiver_heard")) == 1
    # The fix was fixed, was lost with the silence, and is fixed again.
    assert [(e["before"], e["now"]) for e in line.events("rtk_state")] == [
        ("none", "fixed"),
        ("fixed", "none"),
        ("none", "fixed"),
    ]


def test_a_listener_sends_nothing():
    line = bench(Receiver(), configure=False)
    line.receiver.ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_USB"]] = 1
    line.open()
    line.run(10.0)
    assert line.actions == []
    assert sum(isinstance(message, GnssFix) for message in line.messages) == 10


def test_a_lost_port_leaves_nothing_to_do():
    line = bench(Receiver())
    line.open()
    line.device.on_port(PortState.LOST, "unplugged", line.now_ns)
    assert line.device.take_tx() == ()
    assert line.device.next_due_ns() == NEVER_NS


def test_the_nmea_protocol_still_answers_in_ubx():
    line = bench(Receiver(), protocol="nmea")
    line.open()
    line.run(3.0)
    ram = line.receiver.ram
    assert line.device.configured
    assert ram[KEYS["CFG-USBOUTPROT-NMEA"]] == ram[KEYS["CFG-USBOUTPROT-UBX"]] == 1
    assert ram[KEYS["CFG-MSGOUT-NMEA_ID_GGA_USB"]] == ram[KEYS["CFG-NMEA-HIGHPREC"]] == 1
    assert ram[KEYS["CFG-MSGOUT-UBX_NAV_PVT_USB"]] == 0


# Binary messages of the application note "ZED-F9P moving base applications" (UBX-19009093), which
# writes to RAM and flash; the driver writes to RAM alone.
PUBLISHED = {
    "CFG-MSGOUT-RTCM_3X_TYPE4072_0_UART2": "B5 62 06 8A 09 00 00 05 00 00 00 03 91 20 01 53 51",
    "CFG-MSGOUT-RTCM_3X_TYPE1074_UART2": "B5 62 06 8A 09 00 00 05 00 00 60 03 91 20 01 B3 31",
    "CFG-MSGOUT-RTCM_3X_TYPE1230_UART2": "B5 62 06 8A 09 00 00 05 00 00 05 03 91 20 01 58 6A",
    "CFG-UART2-BAUDRATE": "B5 62 06 8A 0C 00 00 05 00 00 01 00 53 40 00 08 07 00 44 B5",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_of_a_moving_base_are_those_of_its_application_note(name: str) -> None:
    value = WIRE_BAUD if name.endswith("BAUDRATE") else 1
    assert encode(CfgValset(((KEYS[name], value),), RAM | FLASH)) == bytes.fromhex(PUBLISHED[name])


def settings_of(*messages: type[Message], **params: Any) -> dict[str, int]:
    made = groups(Params(**params), messages)
    return {key_name(key): value for group in made for key, value in group.items}


def test_a_moving_base_sends_its_observations_where_the_rover_gets_them() -> None:
    kinds = ("4072_0", "1077", "1097")
    constellations = ("gps", "galileo")
    by_wire = settings_of(GnssFix, moving_base_wire="uart2", constellations=constellations)
    sent = [key for key in by_wire if "RTCM_3X" in key]
    assert sent == [f"CFG-MSGOUT-RTCM_3X_TYPE{kind}_UART2" for kind in kinds]
    assert by_wire["CFG-UART2-BAUDRATE"] == WIRE_BAUD
    assert by_wire["CFG-TMODE-MODE"] == by_wire["CFG-UART2OUTPROT-NMEA"] == 0
    rover = settings_of(Heading, moving_base_wire="uart2")
    assert rover["CFG-UART2-BAUDRATE"] == WIRE_BAUD
    assert rover["CFG-UART2INPROT-RTCM3X"] == 1
    assert not [key for key in rover if "RTCM_3X" in key or "TMODE" in key]
    through_daemon = settings_of(GnssFix, Corrections, constellations=constellations)
    sent = [key for key in through_daemon if "RTCM_3X" in key]
    assert sent == [f"CFG-MSGOUT-RTCM_3X_TYPE{kind}_USB" for kind in kinds]
    with_glonass = settings_of(GnssFix, Corrections)
    assert with_glonass["CFG-MSGOUT-RTCM_3X_TYPE1230_USB"] == 1
    # Another program has set up a base station that stands still.
    standing = settings_of(Corrections)
    assert not [key for key in standing if "RTCM_3X" in key or "TMODE" in key]


def test_a_wire_at_the_port_of_the_computer_is_refused() -> None:
    with pytest.raises(ValueError, match="moving_base_wire and port are both uart2"):
        Params(port="uart2", moving_base_wire="uart2")

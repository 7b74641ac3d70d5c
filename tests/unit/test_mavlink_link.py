"""The UDP link of the MAVLink bridge: what it takes of a flood."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.live.bridges.mavlink.config import parse_address
from vehicled.live.bridges.mavlink.link import FEW, STREAMS, MavlinkLink

STATION, OTHER = mav.MAVLink(None, 255, 190), mav.MAVLink(None, 254, 190)


@pytest.fixture
def link() -> Iterator[MavlinkLink]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    opened = MavlinkLink(parse_address(f"udpin:127.0.0.1:{port}"))
    yield opened
    assert opened._socket is not None
    opened._socket.close()


@pytest.fixture
def sender(link: MavlinkLink) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.connect(("127.0.0.1", link.port))
        yield opened


def place(x: float, system: int = 1) -> Any:
    return mav.MAVLink_set_position_target_local_ned_message(
        0, system, 1, 1, 0b110111111000, x, 0.0, 0.0, *(0.0,) * 8
    )


def stop(sequence: float = 0.0) -> Any:
    return mav.MAVLink_command_long_message(1, 1, 185, 0, 1.0, sequence, *(0.0,) * 5)


def summary(messages: list[Any]) -> list[tuple[str, float]]:
    return [
        (message.get_type(), getattr(message, "x", getattr(message, "param2", 0.0)))
        for message in messages
    ]


PLACE, COMMAND = "SET_POSITION_TARGET_LOCAL_NED", "COMMAND_LONG"


@pytest.mark.parametrize("version_1", [False, True])
def test_of_a_flood_of_places_the_newest_is_taken_and_every_command(
    link: MavlinkLink, sender: socket.socket, version_1: bool
) -> None:
    def send(message: Any, station: mav.MAVLink = STATION) -> None:
        sender.send(message.pack(station, force_mavlink1=version_1))

    for k in range(FEW):
        send(place(float(k)))
    send(stop(1.0))
    send(place(50.0))
    send(place(0.0, 0))
    send(stop(2.0))
    send(place(60.0, 7))
    send(place(70.0), OTHER)
    assert summary(link.receive()) == [
        (COMMAND, 1.0), (PLACE, 50.0), (PLACE, 0.0), (COMMAND, 2.0), (PLACE, 60.0), (PLACE, 70.0),
    ]  # fmt: skip


def test_a_few_places_are_all_taken(link: MavlinkLink, sender: socket.socket) -> None:
    for k in range(FEW):
        sender.send(place(float(k)).pack(STATION))
    assert summary(link.receive()) == [(PLACE, float(k)) for k in range(FEW)]


def test_a_damaged_or_joined_datagram_hides_none(link: MavlinkLink, sender: socket.socket) -> None:
    """A datagram of several messages is no stream: a command may be among them."""
    for k in range(FEW):
        sender.send(place(float(k)).pack(STATION))
    sender.send(place(40.0).pack(STATION) + stop(1.0).pack(STATION))
    sender.send(place(41.0).pack(STATION)[:-1])
    sender.send(b"")
    sender.send(b"\xfd")
    assert summary(link.receive()) == [(PLACE, FEW - 1.0), (PLACE, 40.0), (COMMAND, 1.0)]


@pytest.mark.parametrize("number", STREAMS)
def test_the_place_of_the_target_in_a_stream(number: int) -> None:
    kind = mav.mavlink_map[number]
    values: dict[str, Any] = {
        name: 77 if name in ("target", "target_system") else 0 for name in kind.fieldnames
    }
    if number == mav.MAVLINK_MSG_ID_SET_ATTITUDE_TARGET:
        values["q"] = [0.0] * 4
    payload = kind(*(values[name] for name in kind.fieldnames)).pack(STATION)[10:-2]
    assert payload[STREAMS[number]] == 77
    assert sum(payload) == 77

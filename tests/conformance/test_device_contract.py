"""What every device must keep to, whatever it drives. A new driver joins by one line in ``DEVICES``."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.msglink.codec import encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from vehicled.messages import ALL, ActuatorCommand, Heading, ImuSample, Message, PortState
from vehicled.ports import NEVER_NS, Device, Reopen, Send, SetBaud

SAMPLES: list[Message] = [ImuSample(5, 0, (1.0, 2.0, 3.0), (0.1, 0.2, 0.3), 300.0), Heading(7, 0, 1.0, 0.1)]
DEVICES: dict[str, tuple[Callable[[], Device], bytes]] = {
    "msglink": (lambda: MsgLinkDevice(MsgLinkParams(), [ImuSample, Heading, ActuatorCommand], 50_000_000), b"".join(map(encode, SAMPLES)) * 3)
}
each_device = pytest.mark.parametrize("name", DEVICES)


@each_device
def test_declares_what_it_produces_and_consumes(name: str) -> None:
    device = DEVICES[name][0]()
    assert set(device.produces) <= set(ALL)
    assert set(device.consumes) <= set(ALL)


@each_device
@given(data=st.data())
def test_any_chunking_gives_the_same_messages(name: str, data: st.DataObject) -> None:
    make, stream = DEVICES[name]
    whole = list(make().on_rx(stream, 100))
    assert whole
    device = make()
    got: list[Message] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += device.on_rx(stream[:size], 100)
        stream = stream[size:]
    assert got == whole


@each_device
@given(chunks=st.lists(st.binary(max_size=300), max_size=30))
def test_hostile_bytes_never_raise(name: str, chunks: list[bytes]) -> None:
    device = DEVICES[name][0]()
    for i, chunk in enumerate(chunks):
        for message in device.on_rx(chunk, i):
            assert isinstance(message, device.produces)


@each_device
@given(cut=st.integers(1, 60))
def test_a_reopened_port_starts_clean(name: str, cut: int) -> None:
    make, stream = DEVICES[name]
    device = make()
    device.on_rx(stream[:cut], 1)
    device.on_port(PortState.LOST, "unplugged", 2)
    device.on_port(PortState.OPENED, "again", 3)
    assert list(device.on_rx(stream, 100)) == list(make().on_rx(stream, 100))


@each_device
def test_actions_are_taken_once_and_due_times_are_in_range(name: str) -> None:
    device = DEVICES[name][0]()
    device.on_port(PortState.OPENED, "", 10)
    for action in device.take_tx():
        assert isinstance(action, Send | SetBaud | Reopen)
    assert not device.take_tx()
    assert 0 <= device.next_due_ns() <= NEVER_NS


def test_msglink_stamps_arrivals_and_lets_commands_expire() -> None:
    device = MsgLinkDevice(MsgLinkParams(), [ImuSample], 50)
    (sample,) = device.on_rx(encode(SAMPLES[0]), 99)
    assert isinstance(sample, ImuSample)
    assert (sample.t_ns, sample.t_rx_ns) == (5, 99)
    device.on_rx(encode(SAMPLES[1]), 100)
    assert device.unexpected == 1
    device.on_command(SAMPLES[0], 1000)
    (action,) = device.take_tx()
    assert isinstance(action, Send)
    assert action.deadline_ns == 1050

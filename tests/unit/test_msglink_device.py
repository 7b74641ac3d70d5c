"""Messages of the link that cannot be true are refused, counted and named."""

from math import nan

import pytest

from drivers.msglink.codec import encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from vehicled.core.messages import (
    NAN3,
    NAN9,
    Event,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.core.wire.usage import Loss, Unused

KINDS: list[type[Message]] = [
    GnssFix,
    ImuSample,
    Heading,
    WheelSpeed,
    MotorStatus,
    SteeringFeedback,
]
SOUND: list[Message] = [
    GnssFix(1, 0, 0.7, -1.5, 200.0),
    GnssFix(1, 0, nan, nan, nan, NAN3, NAN9),
    ImuSample(1, 0, (0.0, 0.0, 9.81), NAN3),
    Heading(1, 0, -10.0, nan),
    WheelSpeed(1, 0, -3.0, 0.05),
    MotorStatus(1, 0),
    SteeringFeedback(1, 0, 0.4, 0.01),
]
IMPOSSIBLE: list[tuple[Message, str]] = [
    (GnssFix(1, 0, 1e30, 0.0, 0.0), "place"),
    (GnssFix(1, 0, 0.7, -7.0, 0.0), "place"),
    (GnssFix(1, 0, 0.7, 0.0, -1e30), "place"),
    (GnssFix(1, 0, 0.7, 0.0, 0.0, (1e30, 0.0, 0.0)), "velocity"),
    (GnssFix(1, 0, 0.7, 0.0, 0.0, position_covariance_m2=(-1.0, *NAN9[1:])), "covariance"),
    (ImuSample(1, 0, (0.0, -1e30, 9.81), (0.0, 0.0, 0.0)), "specific force"),
    (ImuSample(1, 0, (0.0, 0.0, 9.81), (0.0, 1e30, 0.0)), "angular rate"),
    (Heading(1, 0, 1e30, 0.1), "yaw"),
    (Heading(1, 0, 1.0, -0.1), "sigma"),
    (WheelSpeed(1, 0, 1e30, 0.1), "speed"),
    (MotorStatus(1, 0, 1e30), "motor speed"),
    (SteeringFeedback(1, 0, 40.0, 0.1), "wheel angle"),
]


def test_a_message_that_can_be_true_passes() -> None:
    device = MsgLinkDevice(MsgLinkParams(), KINDS, 50)
    assert len(device.on_rx(b"".join(map(encode, SOUND)), 9)) == len(SOUND)
    assert all(use.used == use.arrived for _, use in device.usage)


@pytest.mark.parametrize(("message", "field"), IMPOSSIBLE)
def test_a_message_that_cannot_be_true_is_refused_and_named_once(
    message: Message, field: str
) -> None:
    device = MsgLinkDevice(MsgLinkParams(), KINDS, 50)
    got = device.on_rx(encode(message) * 3, 9)
    assert [type(each) for each in got] == [Event]
    assert device.usage.of(type(message).__name__).refused == {Loss(Unused.OUT_OF_RANGE, field): 3}


def test_what_the_profile_does_not_expect_is_named() -> None:
    device = MsgLinkDevice(MsgLinkParams(), [ImuSample], 50)
    assert device.on_rx(encode(SOUND[0]), 9) == []
    assert device.usage.of("GnssFix").refused == {Loss(Unused.NOT_WANTED): 1}

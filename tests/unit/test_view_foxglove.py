"""Foxglove's protocol, read by a client that was written from its specification alone."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from tests.unit.view_facts import OFFSET_NS, STARTED_NS, estimate, opening, packed
from vehicled.core.messages import ImuSample, Path
from vehicled.live.view.foxglove import FoxgloveSession, SharedChannels


class SpecClient:
    """A client of docs/spec.md of foxglove/ws-protocol, sharing no code with the server."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {}
        self.channels: dict[int, dict[str, Any]] = {}
        self.subscriptions: dict[int, int] = {}
        self.status: list[dict[str, Any]] = []
        self.data: list[tuple[str, int, bytes]] = []

    def subscribe(self, **topics: int) -> str:
        by_topic = {channel["topic"]: number for number, channel in self.channels.items()}
        wanted = {
            number: by_topic["/" + topic.replace("__", "/")] for topic, number in topics.items()
        }
        self.subscriptions |= wanted
        return json.dumps(
            {
                "op": "subscribe",
                "subscriptions": [{"id": n, "channelId": c} for n, c in wanted.items()],
            }
        )

    def receive(self, message: str | bytes) -> None:
        if isinstance(message, str):
            value = json.loads(message)
            match value["op"]:
                case "serverInfo":
                    self.info = value
                case "advertise":
                    self.channels |= {channel["id"]: channel for channel in value["channels"]}
                case "status":
                    self.status.append(value)
                case other:
                    raise AssertionError(other)
            return
        opcode, subscription, t_ns = struct.unpack_from("<BIQ", message)
        assert opcode == 1
        self.data.append(
            (self.channels[self.subscriptions[subscription]]["topic"], t_ns, message[13:])
        )


class Bench:
    def __init__(self) -> None:
        self.shared = SharedChannels(opening())
        self.session = FoxgloveSession(self.shared)
        self.client = SpecClient()
        for message in self.shared.greeting:
            self.client.receive(message)

    def ask(self, text: str | bytes) -> None:
        for answer in self.session.receive(text):
            self.client.receive(answer)

    def feed(self, records: bytes) -> None:
        for channel, t_ns, payload in self.shared.messages(
            records, set(self.session.subscription_of)
        ):
            if channel in self.session.subscription_of:
                self.client.receive(self.session.data(channel, t_ns, payload))


def decode(channel: dict[str, Any], payload: bytes) -> Any:
    """Decode by the advertised schema, with another project's reader."""
    assert channel["encoding"] == "cdr"
    assert channel["schemaEncoding"] == "ros2msg"
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(channel["schema"], channel["schemaName"]))
    return store.deserialize_cdr(payload, channel["schemaName"])


def channel_of(client: SpecClient, topic: str) -> dict[str, Any]:
    return next(channel for channel in client.channels.values() if channel["topic"] == topic)


def test_the_server_introduces_itself_and_its_channels() -> None:
    client = Bench().client
    assert client.info["capabilities"] == []
    assert client.info["sessionId"] == "a"
    topics = [channel["topic"] for channel in client.channels.values()]
    assert len(topics) == len(set(topics))
    assert {
        "/vehicled/state_estimate",
        "/vehicled/task_tick",
        "/odometry",
        "/tf",
        "/gnss/fix",
    } <= set(topics)


def test_messages_are_those_of_the_log_and_standard_types_beside_them() -> None:
    bench = Bench()
    bench.ask(bench.client.subscribe(vehicled__state_estimate=7, odometry=8))
    bench.feed(
        packed(
            [
                (estimate(1.25, -2.5), STARTED_NS),
                (ImuSample(0, 0, (0.0,) * 3, (0.0,) * 3), STARTED_NS),
            ]
        )
    )
    (ours, t_ns, payload), (standard, _, odometry) = bench.client.data
    assert (ours, standard, t_ns) == (
        "/vehicled/state_estimate",
        "/odometry",
        STARTED_NS + OFFSET_NS,
    )
    message = decode(channel_of(bench.client, ours), payload)
    assert (message.x_m, message.y_m, message.speed_mps) == (1.25, -2.5, 1.5)
    decoded: Any = get_typestore(Stores.ROS2_HUMBLE).deserialize_cdr(
        odometry, "nav_msgs/msg/Odometry"
    )
    pose = decoded.pose.pose.position
    assert (pose.x, pose.y) == (1.25, -2.5)


def test_a_late_reader_gets_the_course() -> None:
    bench = Bench()
    course = Path(
        STARTED_NS, "line", False, (0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)
    )
    bench.feed(packed([(course, STARTED_NS)]))
    assert bench.client.data == []
    bench.ask(bench.client.subscribe(vehicled__path=1, course=2))
    assert [topic for topic, _, _ in bench.client.data] == ["/vehicled/path", "/course"]


def test_no_message_follows_an_unsubscription() -> None:
    bench = Bench()
    bench.ask(bench.client.subscribe(vehicled__state_estimate=7))
    bench.ask('{"op": "unsubscribe", "subscriptionIds": [7]}')
    bench.feed(packed([(estimate(1.0), STARTED_NS)]))
    assert bench.client.data == []
    bench.ask(bench.client.subscribe(vehicled__state_estimate=9))
    bench.feed(packed([(estimate(1.0), STARTED_NS)]))
    assert len(bench.client.data) == 1


def test_every_subscription_that_there_is_not_is_reported() -> None:
    bench = Bench()
    bench.ask(bench.client.subscribe(vehicled__state_estimate=7))
    bench.ask('{"op": "unsubscribe", "subscriptionIds": [3, 7, 4]}')
    assert [status["message"] for status in bench.client.status] == [
        "no subscription 3",
        "no subscription 4",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"op": "subscribe", "subscriptions": [{"id": 1, "channelId": 99999}]}',
        '{"op": "subscribe", "subscriptions": [{"id": -1, "channelId": 1}]}',
        '{"op": "subscribe", "subscriptions": [{"id": 4294967296, "channelId": 1}]}',
        (
            '{"op": "subscribe", "subscriptions": [{"id": 5, "channelId": 2}, {"id": 5, '
            '"channelId": 1}]}'
        ),
        (
            '{"op": "subscribe", "subscriptions": [{"id": 5, "channelId": 2}, {"id": 6, '
            '"channelId": 2}]}'
        ),
        '{"op": "unsubscribe", "subscriptionIds": [3]}',
        '{"op": "advertise", "channels": []}',
        b"\x01\x00\x00\x00\x00hello",
    ],
)
def test_what_cannot_be_is_answered_with_a_status(text: str | bytes) -> None:
    bench = Bench()
    bench.ask(text)
    (status,) = bench.client.status
    assert status["level"] == 1
    assert status["message"]


@given(
    st.lists(
        st.one_of(
            st.text(),
            st.binary(),
            st.from_regex(r'\{"op": ?"(un)?subscribe", ?"subscript.{0,40}\}'),
        ),
        max_size=5,
    )
)
def test_garbage_breaks_nothing(texts: list[str | bytes]) -> None:
    bench = Bench()
    for text in texts:
        bench.ask(text)
    bench.ask(bench.client.subscribe(vehicled__state_estimate=2**32 - 1))
    bench.feed(packed([(estimate(3.0), STARTED_NS)]))
    assert [topic for topic, _, _ in bench.client.data] == ["/vehicled/state_estimate"]

"""Commands ``vehicled topic list``, ``echo`` and ``hz``, which show the messages of a running
daemon."""

import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import msgspec

from vehicled.cli.control import to_daemon
from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import SubscribeRequest, TopicsRequest
from vehicled.live.control_socket.socket_path import find
from vehicled.run.argument_types import TOPIC, between
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import print_table

SURVEY_S = 1.0
WINDOW = 10_000
_RATE = between(0.1, 100.0, "expected a rate from 0.1 to 100 Hz")
_SECONDS = between(0.1, 1e6, "expected a number of seconds from 0.1 up")


def declare_topic_list(parser: CommandParser) -> None:
    """Print every topic with its type and its rate."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    to_daemon(parser, topics)


def declare_topic_echo(parser: CommandParser) -> None:
    """Print the messages of a topic, the newest at most at a rate."""
    parser.add_argument(
        "topic",
        type=TOPIC,
        metavar="TOPIC",
        help="topic, as in: vehicled topic list, or its last part",
    )
    parser.add_argument(
        "--rate",
        type=_RATE,
        default=20.0,
        metavar="HZ",
        help="highest rate, 0.1 to 100 (default 20)",
    )
    parser.add_argument("--count", type=int, default=0, metavar="N", help="end after N messages")
    parser.add_argument("--once", action="store_true", help="end after one message")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    to_daemon(parser, echo)


def declare_topic_hz(parser: CommandParser) -> None:
    """Print the rate of a topic every second."""
    parser.add_argument(
        "topic",
        type=TOPIC,
        metavar="TOPIC",
        help="topic, as in: vehicled topic list, or its last part",
    )
    parser.add_argument("--duration", type=_SECONDS, metavar="S", help="end after S seconds")
    to_daemon(parser, hz)


def topics(arguments: Namespace) -> int:
    """Print every topic with its type and its rate now."""
    with Client(find(arguments.profile)) as client:
        found = client.ask(TopicsRequest(SURVEY_S))["topics"]
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    rows = [
        [row["topic"], row["type"], f"{row['rate_hz']:.1f}" if row["rate_hz"] else "-"]
        for row in found
    ]
    print_table("topics", ["topic", "type", "Hz"], rows)
    return 0


def echo(arguments: Namespace) -> int:
    """Print the messages of a topic, the newest at most at a rate."""
    printed = 0
    for reply in _subscribed(arguments, rate_hz=arguments.rate):
        if "message" not in reply:
            continue
        if arguments.json:
            print(
                msgspec.json.encode({"t_s": reply["t_ns"] * 1e-9, **reply["message"]}).decode(),
                flush=True,
            )
        else:
            lines = [f"{name}: {_text(value)}" for name, value in reply["message"].items()]
            skipped = f"  # {reply['skipped']} before it left out" if reply["skipped"] else ""
            print("\n".join([f"---{skipped}", *lines]), flush=True)
        printed += 1
        if printed >= (1 if arguments.once else arguments.count or printed + 1):
            break
    return 0


def hz(arguments: Namespace) -> int:
    """Print the rate of a topic once a second: mean, and shortest, longest and deviation of the
    intervals."""
    window: deque[int] = deque(maxlen=WINDOW)
    shown_s, begin_s = 0.0, time.monotonic()
    for reply in _subscribed(arguments, times=True):
        window.extend(reply["times_ns"])
        now_s = time.monotonic()
        over = arguments.duration is not None and now_s - begin_s >= arguments.duration
        if now_s - shown_s >= 1.0 or over:
            shown_s = now_s
            _show_rate(list(window), reply["dropped"])
        if over:
            break
    return 0


def _show_rate(times_ns: list[int], dropped: int) -> None:
    if len(times_ns) < 2:
        print("no messages so far" if not times_ns else "one message so far", flush=True)
        return
    steps_s = [(b - a) * 1e-9 for a, b in pairwise(times_ns)]
    mean_s = fmean(steps_s)
    rate = f"{1.0 / mean_s:.3f}" if mean_s > 0.0 else "inf"
    spread = (
        f"min {min(steps_s):.6f} s, max {max(steps_s):.6f} s, deviation {pstdev(steps_s):.6f} s"
    )
    lost = f", {dropped} dropped" if dropped else ""
    print(f"{rate} Hz: {spread}, {len(times_ns)} messages{lost}", flush=True)


def _subscribed(arguments: Namespace, **request: Any) -> Iterator[dict[str, Any]]:
    """Yield the daemon's answers to a subscription."""
    from vehicled.log.cat import kinds_of
    from vehicled.log.schema import topic_of

    with Client(find(arguments.profile)) as client:
        client.send(SubscribeRequest(topic_of(kinds_of([arguments.topic])[0]), **request))
        while True:
            yield client.receive()


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)

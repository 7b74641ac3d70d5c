"""Our CDR codec and log against well-kept libraries: the figures of docs/adr/0014.

    python -m bench.libraries [--rounds 7] [--json]

Measured in turns within one run, per message, median of the rounds:

* CDR: ``vehicled.ros.cdr`` packs and unpacks a StateEstimate; ``rosbags`` (the reference) does the
  same with the same bytes and the same definition.
* MCAP: ``LogSink.record`` with packing and the pipe to the writer process, against
  ``foxglove-sdk``'s writer (``pip install foxglove-sdk``) in the same process, given the CDR bytes
  ready-made.
"""

import argparse
import importlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.log_write import estimate, time_ours
from vehicled.core.messages import Message, StateEstimate
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import RunHeader, TaskRow
from vehicled.ros.cdr import packer, unpacker
from vehicled.ros.definition import definition

MESSAGES = 5_000
STEP_NS = 2_500_000


def rosbags_codec() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """Return rosbags' functions that read and write a StateEstimate."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    own = definition(StateEstimate)
    name = own.name
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(own.text, name))
    return (lambda data: store.deserialize_cdr(data, name)), (
        lambda message: bytes(store.serialize_cdr(message, name))
    )


def per_message_us(work: Callable[[], object]) -> float:
    """Return the time per message of a function that handles ``MESSAGES`` of them, us."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / MESSAGES * 1e6


def cdr(rounds: int) -> dict[str, float]:
    """Return microseconds per message of both codecs."""
    messages = [estimate(n * STEP_NS) for n in range(MESSAGES)]
    pack, unpack = packer(StateEstimate), unpacker(StateEstimate)
    records = [pack(message) for message in messages]
    read, write = rosbags_codec()
    theirs = [read(record) for record in records]
    if [write(message) for message in theirs[:100]] != records[:100]:
        raise SystemExit("rosbags writes other bytes than we do")
    arms: dict[str, Callable[[], object]] = {
        "pack, ours": lambda: [pack(message) for message in messages],
        "pack, rosbags": lambda: [write(message) for message in theirs],
        "unpack, ours": lambda: [unpack(record) for record in records],
        "unpack, rosbags": lambda: [read(record) for record in records],
    }
    found: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name, work in arms.items():
            found[name].append(per_message_us(work))
    return {name: statistics.median(values) for name, values in found.items()}


def mcap(rounds: int) -> dict[str, float]:
    """Return microseconds per message on the thread of the loop; without foxglove-sdk only ours."""
    messages: list[tuple[int, Message]] = [
        (n * STEP_NS, estimate(n * STEP_NS)) for n in range(MESSAGES)
    ]
    records = [(t_ns, packer(StateEstimate)(message)) for t_ns, message in messages]
    found: dict[str, list[float]] = {"log, ours": []}
    sdk = importlib.import_module("foxglove") if find_spec("foxglove") is not None else None
    if sdk is not None:
        found["log, foxglove-sdk"] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            header = RunHeader(
                run_id=f"{number:06x}", start_wall_ns=time.time_ns(), start_monotonic_ns=0,
                profile="bench", course="none",
                tasks=[TaskRow(name="fusion", rate_hz=400.0, deadline_ns=5_000_000)],
            )  # fmt: skip
            writer = WriterProcess.start(
                header, folder=folder, journal_limit_bytes=1 << 30, derived_limit_bytes=1 << 30
            )
            found["log, ours"].append(time_ours(writer, messages) / MESSAGES * 1e6)
            writer.close({}, MESSAGES * STEP_NS)
            if sdk is not None:
                own = definition(StateEstimate)
                with sdk.open_mcap(str(Path(folder, f"{number}.mcap"))):
                    schema = sdk.Schema(name=own.name, encoding="ros2msg", data=own.text.encode())
                    channel = sdk.Channel(
                        f"/state_estimate_{number}", message_encoding="cdr", schema=schema
                    )

                    def log(channel: Any = channel) -> None:
                        for t_ns, record in records:
                            channel.log(record, log_time=t_ns)

                    found["log, foxglove-sdk"].append(per_message_us(log))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = cdr(arguments.rounds) | mcap(arguments.rounds)
    if arguments.json:
        print(json.dumps(found))
        return
    for name, us in found.items():
        print(f"{name:<20} {us:7.2f} us")
    for ours, theirs in (
        ("pack, ours", "pack, rosbags"),
        ("unpack, ours", "unpack, rosbags"),
        ("log, ours", "log, foxglove-sdk"),
    ):
        if theirs in found:
            print(
                f"{ours.split(',')[0]}: {found[ours] / found[theirs]:.3f} of "
                f"{theirs.split(', ')[1]}"
            )
    if "log, foxglove-sdk" not in found:
        print("foxglove-sdk is not installed: pip install foxglove-sdk")


if __name__ == "__main__":
    main()

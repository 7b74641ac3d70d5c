"""Cost of logging for the loop, and throughput of the writer process.

    python bench/log_write.py [--rounds 7] [--json]

Measured in turns within one run, per record:

* ours: ``LogSink.record`` of the message, packing included, and the pump to the writer process,
  which compresses, indexes and projects to the standard ROS types meanwhile
* mcap (the reference): ``mcap.writer.Writer.add_message`` in the same process into a file of the
  same folder, given the same CDR bytes ready-made, zstd as by default; the packing is not charged
  to it

The writer's throughput is the size of all records, projections included, over its CPU time.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mcap.writer import Writer

from vehicled.core.messages import (
    Cause,
    EstimatorStatus,
    ImuSample,
    Message,
    StateEstimate,
    TaskTick,
)
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import CHANNELS, RunHeader, TaskRow, schema_of
from vehicled.ros.cdr import packer

RECORDS = 20_000
"""Records per type and round."""
BATCH = 20
"""Records between two calls of the pump."""
STEP_NS = 2_500_000


def imu(t_ns: int) -> ImuSample:
    """A sample."""
    return ImuSample(
        t_ns,
        t_ns + 400_000,
        (0.12, -0.31, 9.79 + t_ns % 97 * 1e-3),
        (1e-3, -2e-3, t_ns % 89 * 1e-4),
        300.0,
    )


def tick(t_ns: int) -> TaskTick:
    """A release that met its deadline."""
    return TaskTick(
        t_ns,
        t_ns + 61_234 + t_ns % 977,
        t_ns + 161_234,
        99_000,
        5_000_000,
        0,
        1,
        False,
        Cause.NONE,
        255,
    )


def estimate(t_ns: int) -> StateEstimate:
    """A running estimate."""
    covariance = tuple(1e-4 * (n + 1) for n in range(16))
    return StateEstimate(
        t_ns,
        t_ns - 2_000_000,
        t_ns * 1e-9,
        2.0,
        0.3,
        1.5,
        0.1,
        covariance,
        EstimatorStatus.RUNNING,
        1.3,
    )


TYPES: dict[type[Message], Callable[[int], Message]] = {
    ImuSample: imu,
    TaskTick: tick,
    StateEstimate: estimate,
}


def time_ours(writer: WriterProcess, messages: list[tuple[int, Message]]) -> float:
    """Seconds on the loop."""
    record, pump = writer.sink.record, writer.pump
    spent = 0.0
    for at in range(0, len(messages), BATCH):
        batch = messages[at : at + BATCH]
        start = time.perf_counter()
        for t_ns, message in batch:
            record(message, t_ns)
        pump(t_ns)
        spent += time.perf_counter() - start
    return spent


def time_mcap(writer: Writer, channel: int, messages: list[tuple[int, bytes]]) -> float:
    """Seconds on the loop."""
    add = writer.add_message
    start = time.perf_counter()
    for sequence, (t_ns, data) in enumerate(messages):
        add(channel, t_ns, data, t_ns, sequence)
    return time.perf_counter() - start


def run(rounds: int) -> dict[str, object]:
    """Return all figures."""
    header = RunHeader(
        run_id="bbbbbbbb", start_wall_ns=time.time_ns(), start_monotonic_ns=0, profile="bench",
        course="none", tasks=[TaskRow(name="fusion", rate_hz=200.0, deadline_ns=5_000_000)],
    )  # fmt: skip
    ours: dict[type[Message], list[float]] = {kind: [] for kind in TYPES}
    theirs: dict[type[Message], list[float]] = {kind: [] for kind in TYPES}
    with (
        tempfile.TemporaryDirectory() as folder,
        open(Path(folder) / "reference.mcap", "wb") as stream,
    ):
        writer = WriterProcess.start(
            header, folder=folder, journal_limit_bytes=1 << 30, derived_limit_bytes=1 << 30
        )
        reference = Writer(stream)
        reference.start("ros2")
        channels = {}
        for kind in TYPES:
            name, text = schema_of(kind)
            schema = reference.register_schema(name, "ros2msg", text.encode())
            channels[kind] = reference.register_channel(CHANNELS[kind].topic, "cdr", schema)
        t_ns = 0
        for _ in range(rounds):
            for kind, make in TYPES.items():
                stamps = range(t_ns, t_ns + RECORDS * STEP_NS, STEP_NS)
                t_ns = stamps.stop
                messages = [(stamp, make(stamp)) for stamp in stamps]
                pack = packer(kind)
                packed = [(stamp, pack(message)) for stamp, message in messages]
                ours[kind].append(time_ours(writer, messages) / RECORDS * 1e6)
                theirs[kind].append(time_mcap(reference, channels[kind], packed) / RECORDS * 1e6)
        reference.finish()
        result = writer.close({"reason": "bench"}, t_ns, timeout_s=60.0)
    if not result.finished or result.dropped_derived or result.dropped_journal:
        raise SystemExit(f"the log is not whole: {result}")
    rows = {}
    for kind in TYPES:
        mine, reference_us = statistics.median(ours[kind]), statistics.median(theirs[kind])
        rows[kind.__name__] = {
            "ours_us": mine,
            "mcap_us": reference_us,
            "ratio": mine / reference_us,
            "records_per_s": 1e6 / mine,
        }
    return {
        "records": rows,
        "writer": {
            "mb_per_cpu_s": result.record_bytes / 1e6 / result.writer_cpu_s,
            "messages_per_cpu_s": result.messages / result.writer_cpu_s,
            "compression": result.record_bytes / result.bytes,
        },
    }


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = run(arguments.rounds)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'record':<14} {'ours us':>8} {'mcap us':>8} {'ratio':>6} {'records/s':>10}")
    rows = found["records"]
    assert isinstance(rows, dict)
    for name, row in rows.items():
        print(
            f"{name:<14} {row['ours_us']:>8.2f} {row['mcap_us']:>8.2f} {row['ratio']:>6.2f} "
            f"{row['records_per_s']:>10.0f}"
        )
    writer = found["writer"]
    assert isinstance(writer, dict)
    print(
        f"writer process: {writer['mb_per_cpu_s']:.0f} MB and {writer['messages_per_cpu_s']:.0f} "
        f"messages per CPU second, compressed {writer['compression']:.1f} to 1"
    )


if __name__ == "__main__":
    main()

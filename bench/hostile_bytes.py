"""Cost of hostile and damaged bytes, beside that of data: every driver, and the decoders of ports and simulator.

    python bench/hostile_bytes.py [--bytes 1000000] [--piece 1024] [--opcodes 65536] [--driver NAME] [--json]

The bytes arrive in pieces, as a port hands them over. Each row is the dearest of the hostile streams of ``tests/hostile_bytes.py``:
repeated syncs, syncs with the longest length, nested heads, checksums that nearly fit, valid data in between, flipped bits,
prefixes, noise, text. Operations per byte are instructions of the interpreter, counted over ``--opcodes`` bytes, and bytes given to
a checksum; both are the same on every machine. The time is CPU time of this thread over ``--bytes``, the least of three rounds.
Hostile bytes should cost no more than three times as much as data. A new driver must be named in ``tests/hostile_bytes.py``.
"""

import argparse
import json
from typing import NamedTuple

from tests.hostile_bytes import Subject, cost, cpu_ns, filled, inputs, subjects
from vehicled.terminal import print_table


class Row(NamedTuple):
    """Figures of one reader, per byte."""

    reader: str
    data_opcodes: float
    hostile_opcodes: float
    dearest: str
    summed: float
    data_ns: float
    hostile_ns: float
    slowest: str


def measure(name: str, subject: Subject, size: int, counted: int, piece: int) -> Row:
    """Return the dearest hostile streams of one reader."""
    data = cost(subject, filled(subject.valid, counted), piece)
    costs = {kind: cost(subject, stream, piece) for kind, stream in inputs(subject, counted).items()}
    dearest = max(costs, key=lambda kind: costs[kind].opcodes)
    data_ns = cpu_ns(subject, filled(subject.valid, size), piece)
    times = {kind: cpu_ns(subject, stream, piece) for kind, stream in inputs(subject, size).items()}
    slowest = max(times, key=lambda kind: times[kind])
    summed = max(each.summed for each in costs.values())
    return Row(name, data.opcodes, costs[dearest].opcodes, dearest, summed, data_ns, times[slowest], slowest)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure what hostile bytes cost beside data.")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="length of each timed stream")
    parser.add_argument("--opcodes", type=int, default=32_768, help="length of each stream whose instructions are counted")
    parser.add_argument("--piece", type=int, default=1_024, help="bytes that arrive together")
    parser.add_argument("--driver", help="this reader only")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [
        measure(name, subject, arguments.bytes, arguments.opcodes, arguments.piece)
        for name, subject in subjects().items()
        if arguments.driver in (None, name)
    ]
    if arguments.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
        return
    print_table(
        f"per byte, {arguments.bytes} bytes in pieces of {arguments.piece}",
        ["reader", "instructions", "hostile", "ratio", "by", "summed", "ns", "hostile", "ratio", "by"],
        [
            [
                row.reader,
                f"{row.data_opcodes:.1f}",
                f"{row.hostile_opcodes:.1f}",
                f"{row.hostile_opcodes / row.data_opcodes:.1f}",
                row.dearest,
                f"{row.summed:.1f}",
                f"{row.data_ns:.0f}",
                f"{row.hostile_ns:.0f}",
                f"{row.hostile_ns / row.data_ns:.1f}",
                row.slowest,
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()

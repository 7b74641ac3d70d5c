"""Cost of hostile and damaged bytes, beside that of data: every driver, and the decoders of ports
and simulator.

    python bench/hostile_bytes.py [--bytes 1000000] [--opcodes 1024] [--driver NAME] [--json]

The bytes arrive in pieces, as a port delivers them. Each figure is that of the dearest of the
hostile streams of ``tests/hostile_bytes.py``: repeated syncs, syncs with the longest length, nested
heads, checksums that nearly fit, valid data in between, flipped bits, prefixes, noise, text.
Operations are instructions of the interpreter, counted over ``--opcodes`` bytes, the same on every
machine. The time is CPU time of this thread over ``--bytes`` in pieces of 1024, the least of two
rounds, of the three streams with the most instructions. A new driver must be named in
``tests/hostile_bytes.py``.
"""

import argparse
import json
from typing import Any

from tests.hostile_bytes import Subject, cost, cpu_ns, filled, inputs, subjects
from vehicled.run.terminal import print_table

PIECES = 1, 64, 1_024
"""Bytes that arrive together."""


def measure(subject: Subject, size: int, counted: int) -> dict[str, Any]:
    """Return the figures of one reader: instructions and ns per byte of data, and those of the
    dearest hostile stream over them."""
    found: dict[str, Any] = {}
    for piece in PIECES:
        data = cost(subject, filled(subject.valid, counted), piece).opcodes
        costs = {
            kind: cost(subject, stream, piece).opcodes
            for kind, stream in inputs(subject, counted).items()
        }
        by = max(costs, key=lambda kind: costs[kind])
        found[str(piece)] = {"data": data, "ratio": costs[by] / data, "by": by}
    data_ns = cpu_ns(subject, filled(subject.valid, size), PIECES[-1])
    dearest, streams = sorted(costs, key=lambda kind: costs[kind])[-3:], inputs(subject, size)
    times = {kind: cpu_ns(subject, streams[kind], PIECES[-1]) for kind in dearest}
    by = max(times, key=lambda kind: times[kind])
    return found | {"ns": {"data": data_ns, "ratio": times[by] / data_ns, "by": by}}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure what hostile bytes cost beside data.")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="length of each timed stream")
    parser.add_argument(
        "--opcodes",
        type=int,
        default=1_024,
        help="length of each stream whose instructions are counted",
    )
    parser.add_argument("--driver", help="this reader only")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chosen = {
        name: subject for name, subject in subjects().items() if arguments.driver in (None, name)
    }
    found = {
        name: measure(subject, arguments.bytes, arguments.opcodes)
        for name, subject in chosen.items()
    }
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    names = [f"pieces of {piece}" for piece in PIECES] + ["ns"]
    print_table(
        "per byte: data, hostile bytes over data",
        ["reader", *(text for name in names for text in (name, "ratio", "by"))],
        [
            [
                name,
                *(
                    text
                    for of in figures.values()
                    for text in (f"{of['data']:.1f}", f"{of['ratio']:.1f}", of["by"])
                ),
            ]
            for name, figures in found.items()
        ],
    )


if __name__ == "__main__":
    main()

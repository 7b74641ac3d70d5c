"""Rate of mistakes that `vehicled check` finds: every number of every shipped profile, changed one
at a time.

    python bench/profile_mutations.py [--missed] [PROFILE ...]

Each number is multiplied and divided by 1000 (a slip of prefix), by 57.3 (degrees for radians),
multiplied by 3.6 (km/h for m/s), given the other sign, and swapped with the next number of its
table. A change is found if the profile is then refused or warned about. ``--missed`` lists what was
not.
"""

import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from msgspec import Struct

from vehicled.profile import names
from vehicled.profile.loading import findings_of, values

FACTORS = {
    "x1000": 1000.0,
    "/1000": 1e-3,
    "x57.3": 57.3,
    "/57.3": 1 / 57.3,
    "x3.6": 3.6,
    "sign": -1.0,
}


class Outcome(Struct, frozen=True):
    """One mutation and the gravest level that was reported of it: "error", "warning", or empty."""

    profile: str
    key: str
    kind: str
    level: str


def mutations(data: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Iterate over (key, kind, mutated copy) of a parsed profile."""
    for path in _numbers(data, ()):
        table = _table(data, path)
        value = table[path[-1]]
        for kind, factor in FACTORS.items():
            if value:
                yield ".".join(path), kind, _with(data, {path: _number(value, value * factor)})
        keys = [key for key, other in table.items() if _is_number(other)]
        following = keys[keys.index(path[-1]) + 1 :][:1]
        if following and table[following[0]] != value:
            neighbour = (*path[:-1], following[0])
            yield ".".join(path), "swap", _with(data, {path: table[following[0]], neighbour: value})


def outcome(name: str, key: str, kind: str, data: dict[str, Any]) -> Outcome:
    """Return what is reported of a mutated profile."""
    levels = {note.level for note in findings_of(data)}
    return Outcome(
        name, key, kind, "error" if "error" in levels else "warning" if "warning" in levels else ""
    )


def measure(profiles: list[str]) -> list[Outcome]:
    """Return the outcome of every mutation of these profiles."""
    outcomes = []
    for name in profiles:
        data = values(name)
        outcomes += [outcome(name, *mutation) for mutation in mutations(data)]
    return outcomes


def _numbers(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _numbers(value, (*path, key))
        elif _is_number(value) and key != "schema":
            yield (*path, key)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(before: float, after: float) -> float:
    return int(after) if isinstance(before, int) and float(after).is_integer() else after


def _table(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in path[:-1]:
        data = data[key]
    return data


def _with(data: dict[str, Any], values: dict[tuple[str, ...], float]) -> dict[str, Any]:
    copy = deepcopy(data)
    for path, value in values.items():
        _table(copy, path)[path[-1]] = value
    return copy


def main() -> int:
    """Print the share of slips found, by kind and by part of the profile."""
    parser = ArgumentParser(description="Share of slips in profiles that are found.")
    parser.add_argument("profile", nargs="*", help="all shipped profiles if none is named")
    parser.add_argument("--missed", action="store_true", help="list what was not found")
    arguments = parser.parse_args()
    outcomes = measure(arguments.profile or names())
    for title, group in (("kind", lambda o: o.kind), ("table", lambda o: o.key.partition(".")[0])):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for each in outcomes:
            counts[group(each)][each.level] += 1
            counts["all"][each.level] += 1
        print(f"{title:12} {'slips':>6} {'refused':>8} {'warned':>8} {'found':>7}")
        for name, levels in sorted(counts.items(), key=lambda item: item[0] == "all"):
            total = levels.total()
            found = levels["error"] + levels["warning"]
            print(
                f"{name:12} {total:6} {levels['error'] / total:8.1%} "
                f"{levels['warning'] / total:8.1%} {found / total:7.1%}"
            )
        print()
    if arguments.missed:
        for each in outcomes:
            if not each.level:
                print(f"{each.profile:12} {each.kind:6} {each.key}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

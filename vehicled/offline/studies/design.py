"""Factors of a study and the design points that they give."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import exp, isfinite, log
from typing import Any, Literal

from msgspec import Struct

Value = str | int | float | bool | list[Any]
"""Value of one key."""
MAX_RUNS = 1_000_000
NAMES_OF_FACTORS = ("values", "from", "low", "cases")
"""Keys that distinguish the table of a factor from a part of a dotted key."""


class Level(Struct, frozen=True):
    """One level of a factor: its label in tables, and the keys that it sets."""

    label: str | int | float | bool
    keys: dict[str, Any]


class Factor(Struct, frozen=True, kw_only=True):
    """A factor with levels, which are all combined with those of the others."""

    name: str
    levels: tuple[Level, ...]

    @property
    def all_keys(self) -> set[str]:
        """Keys that at least one level sets."""
        return {key for level in self.levels for key in level.keys}

    @property
    def numeric(self) -> bool:
        """True if every level is a number."""
        return all(
            isinstance(level.label, int | float) and not isinstance(level.label, bool)
            for level in self.levels
        )


class Interval(Struct, frozen=True, kw_only=True):
    """A factor that is sampled between two bounds, or searched by an optimisation."""

    name: str
    keys: tuple[str, ...]
    low: float
    high: float
    log: bool = False
    """True if equal ratios are equally likely."""
    whole: bool = False
    """True for whole numbers, with both bounds."""

    @property
    def all_keys(self) -> set[str]:
        """Keys that get the value."""
        return set(self.keys)

    def at(self, fraction: float) -> float | int:
        """Return the value at a fraction of the way from ``low`` to ``high``."""
        if self.whole:
            return min(int(self.low + fraction * (self.high - self.low + 1)), int(self.high))
        if self.log:
            return exp(log(self.low) + fraction * (log(self.high) - log(self.low)))
        return self.low + fraction * (self.high - self.low)

    def level(self, value: float) -> Level:
        """Return the level of a value."""
        return Level(value, dict.fromkeys(self.keys, value))


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """Samples of the factors that have bounds instead of levels."""

    points: int
    method: Literal["latin_hypercube", "random", "sobol"] = "latin_hypercube"
    seed: int = 1


def points(
    factors: Sequence[Factor], intervals: Sequence[Interval], sampling: Sampling | None
) -> Iterator[dict[str, Level]]:
    """Iterate over the design points: every sample with every combination of levels. The last
    factor varies fastest."""
    samples = _samples(intervals, sampling) if intervals and sampling is not None else [{}]
    for sample in samples:
        for levels in product(*(factor.levels for factor in factors)):
            yield sample | {
                factor.name: level for factor, level in zip(factors, levels, strict=True)
            }


def _samples(intervals: Sequence[Interval], sampling: Sampling) -> list[dict[str, Level]]:
    import numpy as np

    if sampling.method == "random":
        table = np.random.default_rng(sampling.seed).random((sampling.points, len(intervals)))
    else:
        from scipy.stats import qmc

        kind = qmc.Sobol if sampling.method == "sobol" else qmc.LatinHypercube
        table = kind(len(intervals), rng=np.random.default_rng(sampling.seed)).random(
            sampling.points
        )
    return [
        {each.name: each.level(each.at(float(row[i]))) for i, each in enumerate(intervals)}
        for row in table
    ]  # fmt: skip


def factor_of(name: str, written: Any) -> Factor | Interval:
    """Return a factor as a study file writes it. Raises ValueError with the reason."""
    if isinstance(written, list):
        return _listed(name, written, (name,))
    if not isinstance(written, dict):
        raise ValueError(
            f"is the single value {written!r}: give a list, or move it to the fixed values"
        )
    table = dict(written)
    keys = table.pop("keys", None)
    if keys is not None and not (
        isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    ):
        raise ValueError("keys is a list of keys that all get the value")
    names = tuple(keys) if keys is not None else (name,)
    match table:
        case {"values": list() as values, **rest} if not rest:
            return _listed(name, values, names)
        case {"cases": dict() as cases, **rest} if not rest and keys is None:
            return _cases(name, cases)
        case {"from": _, "to": _, **rest} if not set(rest) - {"step", "count"}:
            return _listed(name, _range(table), names)
        case {"low": low, "high": high, **rest} if not set(rest) - {"log", "whole"}:
            return _interval(name, names, low, high, rest)
    raise ValueError(
        "is none of: a list; {values = [..], keys = [..]}; {from, to, step or count}; {low, "
        "high, log, whole}; {cases = {name = {key = value}}}"
    )


def _listed(name: str, values: list[Any], keys: tuple[str, ...]) -> Factor:
    if not values:
        raise ValueError("has no levels: the list is empty")
    labels = [value if isinstance(value, str | int | float) else str(value) for value in values]
    if len(set(map(str, labels))) < len(labels):
        raise ValueError("has a level twice")
    return Factor(
        name=name,
        levels=tuple(
            Level(label, dict.fromkeys(keys, value))
            for label, value in zip(labels, values, strict=True)
        ),
    )


def _cases(name: str, cases: Mapping[str, Any]) -> Factor:
    levels = []
    for label, keys in cases.items():
        if not isinstance(keys, dict):
            raise ValueError(f"case {label}: give a table of keys and values")
        levels.append(Level(label, dict(flat(keys))))
    if not levels:
        raise ValueError("has no cases")
    return Factor(name=name, levels=tuple(levels))


def _number(table: Mapping[str, Any], key: str) -> float | int:
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{key} = {value!r} is not a number")
    return value


def _range(table: Mapping[str, Any]) -> list[Any]:
    low, high = _number(table, "from"), _number(table, "to")
    if "count" in table and "step" in table:
        raise ValueError("has step and count: give one of them")
    if "count" in table:
        count = table["count"]
        if not isinstance(count, int) or count < 2:
            raise ValueError("count is a whole number from 2 up")
        if count > MAX_RUNS:
            raise ValueError(f"has more than {MAX_RUNS} levels")
        values = [low + (high - low) * i / (count - 1) for i in range(count)]
    else:
        step = _number(table, "step") if "step" in table else 1
        if step == 0 or (high - low) / step < 0:
            raise ValueError(f"never reaches {high} from {low} by steps of {step}")
        if (high - low) / step > MAX_RUNS:
            raise ValueError(f"has more than {MAX_RUNS} levels")
        values = [low + step * i for i in range(int((high - low) / step + 1e-9) + 1)]
    whole = all(float(value).is_integer() for value in values) and isinstance(low, int)
    return (
        [int(value) for value in values] if whole else [float(f"{value:.12g}") for value in values]
    )


def _interval(
    name: str, keys: tuple[str, ...], low: Any, high: Any, rest: Mapping[str, Any]
) -> Interval:
    low, high = _number({"low": low}, "low"), _number({"high": high}, "high")
    if not low < high:
        raise ValueError(f"low = {low} must be below high = {high}")
    if not all(isinstance(value, bool) for value in rest.values()):
        raise ValueError("log and whole are true or false")
    logarithmic, whole = rest.get("log", False), rest.get("whole", False)
    if logarithmic and (low <= 0 or whole):
        raise ValueError("log needs bounds above 0, and no whole")
    return Interval(name=name, keys=keys, low=low, high=high, log=logarithmic, whole=whole)


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the keys of nested tables, dotted. The table of a factor is not taken apart."""
    for key, value in table.items():
        if isinstance(value, dict) and not any(name in value for name in NAMES_OF_FACTORS):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

"""Whatever a file holds, loading it gives a profile or a ProfileError, and agrees with msgspec on
the types."""

import copy
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as mi
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.strategies import near, near_count
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.profile import ProfileError, load, parse, toml_text
from vehicled.profile.collect import INVALID, Collector
from vehicled.profile.loading import Loaded
from vehicled.profile.schema import LogTable, Sim, TaskRate

TEXT = (Path(__file__).parents[2] / "profiles" / "art.toml").read_text()
ART = tomllib.loads(TEXT)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.just(10**400),
    st.integers(-3, 3),
    st.floats(-2, 2),
)
scalars = st.one_of(st.booleans(), numbers, texts, st.dates())
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tables = st.dictionaries(texts, values, max_size=5)
KEYS = sorted(
    {
        key
        for key in toml_text.write(ART).replace("[", "").replace("]", "").replace(".", "\n").split()
        if key.isidentifier()
    }
)


def judge(error: ProfileError) -> None:
    """An error names at least one problem and can be written to a terminal."""
    assert error.problems
    assert str(error).encode()


def survives(text: str) -> Loaded | None:
    """The loaded profile, or None for a ProfileError whose text can be printed."""
    try:
        return parse(text)
    except ProfileError as error:
        judge(error)
        return None


def all_tables(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [data] + [
        inner for value in data.values() if isinstance(value, dict) for inner in all_tables(value)
    ]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """art.toml's values with a few keys removed, replaced or added."""
    data = copy.deepcopy(ART)
    for _ in range(draw(st.integers(1, 5))):
        table = draw(st.sampled_from(all_tables(data)))
        present = sorted(table)
        match draw(st.sampled_from(["delete", "replace", "add"])):
            case "delete" if present:
                del table[draw(st.sampled_from(present))]
            case "replace" if present:
                table[draw(st.sampled_from(present))] = draw(values)
            case _:
                table[draw(st.one_of(st.sampled_from(KEYS), texts))] = draw(values)
    return data


@examples(100)
@given(mutated())
def test_mutated_values(data: dict[str, Any]) -> None:
    loaded = survives(toml_text.write(data))
    if loaded is not None:
        assert parse(loaded.source).profile == loaded.profile


@examples(80)
@given(st.data())
def test_mutated_text(data: st.DataObject) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 30))
        text = (
            text[:at]
            + data.draw(
                st.sampled_from(
                    ['"', "[", "]", "=", "\n", "'''", "#", "{", "\\", ".", "9", "-", "x"]
                )
                | texts
            )
            + text[at + cut :]
        )
    survives(text)


@examples(50)
@given(st.binary(max_size=200))
def test_random_bytes(tmp_path_factory: Any, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "random.toml"
    file.write_bytes(data)
    try:
        load(str(file))
    except ProfileError as error:
        judge(error)
    else:
        raise AssertionError("random bytes are no profile")


@examples(60)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.builds("{}={}".format, st.sampled_from(KEYS), st.text(max_size=10)),
        ),
        max_size=4,
    )
)
def test_random_overrides(overrides: list[str]) -> None:
    try:
        loaded = load("art", overrides)
    except ProfileError as error:
        judge(error)
    else:
        assert parse(loaded.source).profile == loaded.profile


@examples(60)
@given(tables)
def test_writing_and_reading_give_the_same_values(data: dict[str, Any]) -> None:
    again = toml_text.parse(toml_text.write(data), "")
    assert repr(sort(again)) == repr(sort(data)), "repr, because nan is not equal to itself"


def sort(value: Any) -> Any:
    return {key: sort(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


@examples(60)
@given(tables)
def test_every_written_key_is_found_on_its_line(data: dict[str, Any]) -> None:
    text = toml_text.write(data)
    lines = text.split("\n")
    places = toml_text.Places(text, ())

    def visit(table: dict[str, Any], path: tuple[str, ...]) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                visit(value, (*path, key))
            else:
                line = places.line((*path, key))
                assert line is not None
                assert next(iter(tomllib.loads(lines[line - 1]))) == key

    visit(data, ())


STRUCTS: dict[type[msgspec.Struct], dict[str, Any]] = {
    Vehicle: ART["vehicle"],
    Limits: ART["limits"],
    TaskRate: ART["tasks"]["control"],
    LogTable: ART["log"],
    Sim: ART["sim"],
}


def limits_of(kind: mi.Type) -> list[float]:
    """The bounds of the numbers that a field takes."""
    if isinstance(kind, mi.UnionType):
        return [limit for each in kind.types for limit in limits_of(each)]
    found = (getattr(kind, name, None) for name in ("ge", "gt", "le", "lt"))
    return [float(limit) for limit in found if limit is not None]


def bounded(
    kind: mi.Type, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Every number of a struct that has bounds: its key path and they."""
    for each in kind.types if isinstance(kind, mi.UnionType) else (kind,):
        if isinstance(each, mi.StructType):
            for field in each.fields:
                yield from bounded(field.type, (*path, field.encode_name))
                if limits := limits_of(field.type):
                    yield (*path, field.encode_name), limits


BOUNDED = [
    (struct, *found)
    for struct in STRUCTS
    for found in bounded(mi.type_info(struct))
    if found[0][0] in STRUCTS[struct]
]


@examples(200)
@given(st.data())
def test_at_the_bounds_of_a_number_the_collector_and_msgspec_agree(data: st.DataObject) -> None:
    """Property: at a bound, one ulp or one to either side of it, as a float and as a whole
    number."""
    struct, path, limits = data.draw(st.sampled_from(BOUNDED))
    table = copy.deepcopy(STRUCTS[struct])
    value: Any = data.draw(
        near(*limits, garbage=True) | near_count(*(round(limit) for limit in limits), low=-(10**6))
    )
    inner = table
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    judge_alike(struct, table, stricter=isinstance(value, float) and not math.isfinite(value))


@examples(150)
@given(st.data())
def test_the_collector_accepts_exactly_what_msgspec_accepts(data: st.DataObject) -> None:
    """Independent judge of the types and ranges; the collector alone asks for finite numbers, 64
    bits and no NUL in texts."""
    struct = data.draw(st.sampled_from(list(STRUCTS)))
    table = copy.deepcopy(STRUCTS[struct])
    inner = data.draw(st.sampled_from(all_tables(table)))
    key = data.draw(st.sampled_from(sorted(inner)))
    value: Any = data.draw(st.one_of(scalars, st.just([]), st.just({})))
    if data.draw(st.booleans()):
        inner[key] = value
    else:
        del inner[key]
    stricter = (
        (isinstance(value, float) and not math.isfinite(value))
        or (isinstance(value, int) and not -(2**63) < value < 2**63)
        or (isinstance(value, str) and "\0" in value)
    )
    judge_alike(struct, table, stricter=stricter)


def judge_alike(struct: type[msgspec.Struct], table: dict[str, Any], *, stricter: bool) -> None:
    collector = Collector(lambda path: "", {})
    built = collector.build(struct, table)
    try:
        expected = msgspec.convert(table, struct)
    except msgspec.ValidationError:
        expected = None
    if expected is None or (stricter and built is INVALID):
        assert built is INVALID
        assert collector.problems
    else:
        assert built == expected
        assert not collector.problems

"""The collector by itself: types that a parameter struct may use, and registered implementations
that need not exist."""

from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import Meta, Struct, field

from vehicled.control.pure_pursuit import PurePursuitParams
from vehicled.profile import ProfileError, load, registry
from vehicled.profile.collect import INVALID, Collector

ART = Path(__file__).parents[2] / "profiles" / "art.toml"


class Kind(IntEnum):
    """Numbers with names."""

    NEAR = 1
    FAR = 2


class Colour(Enum):
    """Texts with names."""

    RED = "red"


class Inner(Struct, frozen=True, kw_only=True):
    """A table inside a table; it does not forbid unknown keys itself."""

    gain: Annotated[float, Meta(gt=0.0)] = 1.0


class Everything(Struct, frozen=True, kw_only=True):
    """One field per kind of type."""

    pair: tuple[float, int] = (0.0, 0)
    row: tuple[float, ...] = ()
    names: set[str] = field(default_factory=set)
    frozen: frozenset[int] = frozenset()
    kind: Kind = Kind.NEAR
    colour: Colour = Colour.RED
    either: float | str = 0.0
    optional: Inner | None = None
    version: Literal[1, 2] = 1
    even: Annotated[int, Meta(multiple_of=2)] = 0
    short: Annotated[str, Meta(min_length=1, max_length=3)] = "x"
    tables: dict[str, Inner] = field(default_factory=dict)
    anything: Any = None


class Checked(Struct, frozen=True, kw_only=True):
    """A struct with a check of its own."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low must not be above high")


def build(struct: type[Struct], data: Any) -> tuple[Any, dict[str, str]]:
    collector = Collector(lambda path: "", {})
    value = collector.build(struct, data)
    return value, {problem.path: problem.message for problem in collector.problems}


def test_every_kind_of_type_is_built() -> None:
    data = {
        "pair": [1, 2], "row": [1, 2.5], "names": ["a"], "frozen": [1], "kind": 2, "colour": "red",
        "either": "x", "optional": {"gain": 2}, "version": 2, "even": 4, "short": "abc",
        "tables": {"t": {}}, "anything": [{}],
    }  # fmt: skip
    value, problems = build(Everything, data)
    assert problems == {}
    assert value == Everything(
        pair=(1.0, 2), row=(1.0, 2.5), names={"a"}, frozen=frozenset({1}), kind=Kind.FAR,
        colour=Colour.RED, either="x", optional=Inner(gain=2.0), version=2, even=4, short="abc",
        tables={"t": Inner()}, anything=[{}],
    )  # fmt: skip
    assert type(value.pair[0]) is float
    assert value.kind is Kind.FAR


@pytest.mark.parametrize(
    ("data", "path", "part"),
    [
        (
            {"pair": [1]},
            "pair",
            "a list of 2 elements: a number, a whole number, found a list of 1",
        ),
        ({"pair": [1, 2.5]}, "pair[1]", "must be a whole number, found 2.5"),
        ({"row": [1, True]}, "row[1]", "must be a number, found true"),
        ({"names": "a"}, "names", "must be a list, each text"),
        ({"kind": 3}, "kind", "must be one of 1, 2, found 3"),
        ({"kind": True}, "kind", "must be one of 1, 2, found true"),
        ({"colour": []}, "colour", "must be one of red"),
        ({"either": []}, "either", "must be a number or text, found a list of 0"),
        ({"optional": 1}, "optional", "must be a table with the keys gain, found 1"),
        ({"optional": {"gain": 0}}, "optional.gain", "must be a number > 0, found 0"),
        ({"optional": {"gian": 1}}, "optional.gian", 'did you mean "gain"?'),
        ({"version": True}, "version", "must be one of 1, 2, found true"),
        ({"version": 1.0}, "version", "must be one of 1, 2, found 1.0"),
        ({"even": 3}, "even", "a multiple of 2"),
        ({"even": 2**64}, "even", "found 18446744073709551616"),
        ({"short": ""}, "short", "text of at least 1 and at most 3 characters"),
        ({"short": "\0"}, "short", "must be text"),
        ({"tables": {"t t": {"gain": "1"}}}, 'tables."t t".gain', "remove the quotes"),
        ({"pair": [10**400, 1]}, "pair[0]", "must be a number, found a number beyond all bounds"),
        ([], "", "must be a table"),
    ],
)
def test_every_kind_of_type_is_checked(data: Any, path: str, part: str) -> None:
    value, problems = build(Everything, data)
    assert value is INVALID
    assert list(problems) == [path]
    assert part in problems[path]


def test_check_of_a_struct_is_reported_at_its_table() -> None:
    value, problems = build(Checked, {"low": 2, "high": 1})
    assert value is INVALID
    assert problems == {"": "low must not be above high"}


def test_missing_key_is_not_reported_beside_its_misspelling() -> None:
    _, problems = build(Checked, {"low": 1, "hihg": 2})
    assert problems == {"hihg": 'unknown key; did you mean "high"?'}


def test_a_type_that_toml_cannot_hold_is_a_mistake_of_the_programmer() -> None:
    class Bytes(Struct):
        """Not for profiles."""

        data: bytes

    with pytest.raises(TypeError, match="a profile cannot hold"):
        build(Bytes, {"data": "x"})


# ---------------------------------------------------------------- registered implementations, faked


class Fake:
    """Stands for an estimator or controller."""

    Params: ClassVar[type[Struct]] = Inner


class Demanding:
    """Its parameters have no defaults."""

    Params: ClassVar[type[Struct]] = Checked


@pytest.fixture
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CONTROLLERS, "fake", f"{__name__}:Fake")
    monkeypatch.setitem(registry.CONTROLLERS, "demanding", f"{__name__}:Demanding")
    monkeypatch.setitem(
        registry.CONTROLLERS, "not_installed", "no_such_solver.controller:Controller"
    )


@pytest.mark.usefixtures("_fakes")
def test_chosen_implementation_without_a_table_has_its_defaults() -> None:
    profile = load("art", ["controller.name=fake"]).profile
    assert profile.controller.selected == Inner()
    assert set(profile.controller.params) == {"fake", "mpc", "pure_pursuit"}, (
        "tables of the others stay"
    )


@pytest.mark.usefixtures("_fakes")
def test_a_table_that_is_not_chosen_is_validated_all_the_same() -> None:
    with pytest.raises(ProfileError) as caught:
        load("art", ["controller.fake.gain=-1", "controller.name=fakes", "controller.fak.gain=1"])
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert "must be a number > 0, found -1" in found["controller.fake.gain"]
    assert 'did you mean "fake"?' in found["controller.name"]
    assert 'unknown controller; did you mean "fake"?' in found["controller.fak"]


@pytest.mark.usefixtures("_fakes")
def test_chosen_implementation_without_a_table_still_needs_what_it_needs() -> None:
    with pytest.raises(ProfileError) as caught:
        load("art", ["controller.name=demanding"])
    assert [problem.path for problem in caught.value.problems] == [
        "controller.demanding.low",
        "controller.demanding.high",
    ]


@pytest.mark.usefixtures("_fakes")
def test_implementation_whose_library_is_missing() -> None:
    with pytest.raises(
        ProfileError, match=r'the controller "not_installed" cannot be loaded: No module named'
    ):
        load("art", ["controller.name=not_installed"])
    assert load("art").profile.name == "art", "it is not imported unless it is mentioned"


def test_choice_must_be_a_table_with_a_name() -> None:
    with pytest.raises(ProfileError, match="must be a name, or a table with a name"):
        load("art", ["controller=5"])
    assert (
        load("art", ["controller=pure_pursuit"]).profile.controller.selected == PurePursuitParams()
    )
    with pytest.raises(ProfileError, match=r"controller.name .*: missing; one of .*pure_pursuit"):
        load("art", ["controller={}"])
    with pytest.raises(ProfileError, match=r"controller.name .*: must be one of .*, found 5"):
        load("art", ["controller.name=5"])

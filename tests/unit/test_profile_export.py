"""The JSON Schema says the same as the loader, as far as a schema can."""

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import defstruct

from vehicled.profile import json_schema, registry

ART = Path(__file__).parents[2] / "profiles" / "art.toml"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def art() -> dict[str, Any]:
    return tomllib.loads(ART.read_text())


def test_every_key_has_a_description(schema: dict[str, Any]) -> None:
    tables = {"Profile": schema, **schema["$defs"]}
    silent = [
        f"{table}.{key}"
        for table, definition in tables.items()
        for key, value in definition.get("properties", {}).items()
        if not value.get("description")
    ]
    assert silent == [], "write a docstring with the unit under each of these fields"


def test_art_is_valid(validator: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(art())] == []


def test_a_profile_with_a_base_states_only_what_differs(
    validator: jsonschema.Draft202012Validator,
) -> None:
    validator.validate(
        {
            "name": "mine",
            "base": "f1tenth",
            "vehicle": {"mass_kg": 3.5},
            "without": ["devices.heading"],
        }
    )
    assert not validator.is_valid({"name": "mine", "vehicle": {"mass_kg": 3.5}})


BROKEN: list[tuple[tuple[str, ...], Any]] = [
    (("limits", "max_speed_mps"), -1),
    (("limits", "max_speed"), 1),
    (("tasks", "control", "policy"), "wait"),
    (("devices", "gnss", "driver"), "ublox_typo"),
    (("devices", "gnss", "messages"), ["Gnss"]),
    (("devices", "gnss", "lever_arm_m"), [0, 0]),
    (("devices", "Upper Case"), {"driver": "msglink"}),
    (("estimator", "name"), "ekf5"),
    (("estimator", "ekf4", "max_rejections"), 0),
    (("controller", "pure_pursuit", "speed", "p"), -1),
    (("controller", "pure_pursiut"), {}),
    (("schema",), 2),
]


@pytest.mark.parametrize(("path", "value"), BROKEN)
def test_broken_profile_is_not(
    validator: jsonschema.Draft202012Validator, path: tuple[str, ...], value: Any
) -> None:
    data = art()
    table = data
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    errors = list(validator.iter_errors(data))
    assert errors
    assert all(next(iter(error.absolute_path)) == path[0] for error in errors)


def test_what_can_be_chosen_is_listed_with_its_parameters(schema: dict[str, Any]) -> None:
    kinds: dict[registry.Kind, str] = {
        "estimator": "Profile",
        "controller": "Profile",
        "driver": "DeviceTable",
    }
    for kind, owner in kinds.items():
        name, table = schema["$defs"][owner]["properties"][kind]["anyOf"]
        assert name["enum"] == list(registry.names(kind))
        assert set(table["properties"]) == {"name", *registry.names(kind)}


def test_fields_are_described_by_the_texts_under_them(schema: dict[str, Any]) -> None:
    limits = schema["$defs"]["Limits"]["properties"]
    assert limits["corridor_m"]["description"].startswith("Half width of the corridor")
    assert (
        schema["$defs"]["TaskRate"]["properties"]["declared_us"]["description"]
        == "Cost that lockstep charges the task."
    )
    assert schema["$defs"]["PurePursuitParams"]["properties"]["turn_threshold_rad"]["description"]
    assert schema["$defs"]["Steering"]["description"].startswith("Steering actuator")


def test_structs_of_the_same_name_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CONTROLLERS, "twin", f"{__name__}:Twin")
    both = json_schema()
    jsonschema.Draft202012Validator.check_schema(both)
    data = art()
    data["controller"] = {"name": "twin", "twin": {"only_here": 1}}
    jsonschema.Draft202012Validator(both).validate(data)


class Twin:
    """A controller whose parameters are named like another's."""

    Params = defstruct(
        "PurePursuitParams", [("only_here", int)], module=__name__, forbid_unknown_fields=True
    )

"""Import paths of before the packages stood in folders."""

import importlib
import importlib.util
import sys

import pytest

from vehicled import moved


@pytest.mark.parametrize("name", sorted(moved.NEW))
def test_every_new_name_exists(name: str) -> None:
    assert importlib.util.find_spec(moved.NEW[name]) is not None


@pytest.mark.parametrize(
    "name", ["vehicled.messages", "vehicled.wire.crc", "vehicled.lab.twin.validate"]
)
def test_a_former_path_gives_the_same_module_and_names_the_new_one(name: str) -> None:
    new = str(moved.new_name(name))
    with pytest.warns(FutureWarning) as warned:
        module = importlib.import_module(name)
    assert f"{name} has moved: import {new}" in [str(each.message) for each in warned]
    assert module is importlib.import_module(new)
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__ == new


@pytest.fixture(autouse=True)
def _not_imported_yet() -> None:
    for former in [key for key in sys.modules if moved.new_name(key)]:
        del sys.modules[former]


@pytest.mark.parametrize(
    "name",
    ["vehicled.nothing", "vehicled.messagesx", "vehicled", "drivers.messages", "vehicles.messages"],
)
def test_other_names_are_left_alone(name: str) -> None:
    assert moved.new_name(name) is None


@pytest.mark.filterwarnings("ignore:vehicled:FutureWarning")
def test_what_a_moved_package_never_held_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"vehicled\.core\.wire\.nothing"):
        importlib.import_module("vehicled.wire.nothing")

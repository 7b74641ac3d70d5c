"""Other values and defaults for modules that are imported already, each in a process of its own."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exchange import (
    CannotExchangeError,
    ModuleExchange,
    assignments,
    exchange_defaults,
    sources,
)
from tests.mutation import in_child, preload
from vehicled.core.messages import Mode, Reaction
from vehicled.safety import entry, matrix, modes, supervisor
from vehicled.safety.monitors import host
from vehicled.safety.rows import operation, sensors


def tree_of(module: Any, before: str, after: str) -> ast.Module:
    text = Path(module.__file__).read_text(encoding="utf-8")
    assert before in text
    return ast.parse(text.replace(before, after, 1))


def exchanged(module: Any, before: str, after: str, found: Callable[[ModuleExchange], Any]) -> Any:
    """Return what is found in a process in which a module's source has another text."""
    sources()
    code = assignments(tree_of(module, before, after))
    return in_child(lambda: found(ModuleExchange(module, code)))


def test_a_number_is_bound_anew_wherever_it_was_imported() -> None:
    before = host.STEP_S
    found = exchanged(
        host,
        "STEP_S = ",
        "STEP_S = 7.0 + ",
        lambda e: [sorted(e.differs), e.plain, host.STEP_S, vars(operation)["STEP_S"]],
    )
    assert found == [
        [["vehicled.safety.monitors.host", "STEP_S"]],
        True,
        7.0 + before,
        7.0 + before,
    ]
    assert host.STEP_S == vars(operation)["STEP_S"] == before
    assert exchanged(
        host, "STEP_S = ", "STEP_S = 0.0 + ", lambda e: [sorted(e.differs), e.plain]
    ) == [[], True]


def test_a_rule_is_changed_where_all_others_hold_it() -> None:
    rule = next(rule for rule in matrix.RULES if rule.code == "imu_silent")
    mine = [k for k, each in enumerate(supervisor.Supervisor()._rules) if each is rule]

    def found(e: ModuleExchange) -> list[Any]:
        return [
            int(rule.reaction),
            e.plain,
            [k for k, each in enumerate(supervisor.Supervisor()._rules) if each is rule],
        ]

    text = Path(sensors.__file__).read_text(encoding="utf-8").partition('code="imu_silent",')[2]
    before = (
        'code="imu_silent",' + text[: text.index("reaction=")] + "reaction=Reaction.CONTROLLED_STOP"
    )
    after = before.replace("CONTROLLED_STOP", "CAP_SPEED")
    assert exchanged(sensors, before, after, found) == [int(Reaction.CAP_SPEED), False, mine]
    assert rule.reaction is Reaction.CONTROLLED_STOP


def test_a_rule_that_is_deleted_is_gone_for_those_who_took_all_as_a_default() -> None:
    row = matrix.MATRIX[0]
    codes = [rule.code for rule in matrix.RULES]
    tree = ast.parse(
        Path(matrix.__file__)
        .read_text(encoding="utf-8")
        .replace("for row in MATRIX for", "for row in MATRIX[1:] for")
    )
    sources()

    def found() -> list[Any]:
        exchange = ModuleExchange(matrix, assignments(tree))
        rules = supervisor.Supervisor()._rules
        return [
            [rule.code for rule in rules],
            exchange.plain,
            all(any(each is one for one in matrix.RULES) for each in rules),
        ]

    assert in_child(found) == [codes[len(row.rules) :], False, True]


def test_the_table_of_modes_and_what_is_made_of_it() -> None:
    found = exchanged(
        modes, "_way(Trigger.ARM, Mode.ARMED, Mode.STANDBY)",
        "_way(Trigger.ARM, Mode.ARMED, Mode.FAULT)",
        lambda e: [modes.after(mode, modes.Trigger.ARM) == Mode.ARMED
            for mode in (Mode.STANDBY, Mode.FAULT)],
    )  # fmt: skip
    assert found == [False, True]
    assert modes.after(Mode.STANDBY, modes.Trigger.ARM) is Mode.ARMED


def test_what_a_class_or_a_test_made_of_a_value_is_said() -> None:
    code = assignments(tree_of(modes, "MOVING = DRIVING | {Mode.STOPPING}", "MOVING = DRIVING"))
    sources()

    def refused() -> str:
        with pytest.raises(CannotExchangeError) as caught:
            ModuleExchange(modes, code)
        return str(caught.value)

    assert in_child(refused) == "vehicled.safety.rule made a class or a function of it"
    file = str(sys.modules[__name__].__file__)
    assert exchanged(
        entry, "JOIN_RAD = 0.5", "JOIN_RAD = 0.6", lambda e: [file in e.stale, entry.JOIN_RAD]
    ) == [True, 0.6]


TWICE_RAD = 2.0 * entry.JOIN_RAD


def test_defaults_of_functions_and_named_tuples() -> None:
    def found(before: str, after: str) -> list[Any]:
        changed = exchange_defaults(entry, tree_of(entry, before, after))
        return [[function.__name__ for function in changed], entry.Entry().run_up_m]

    signature = "x_m: float, y_m: float, run_up_m: float = "
    assert in_child(lambda: found(f"{signature}0.0", f"{signature}1.0")) == [["off_course_m"], 0.0]
    assert in_child(lambda: found("joined: bool = False", "joined: bool = False")) == [[], 0.0]
    assert in_child(lambda: found("run_up_m: float = 0.0\n", "run_up_m: float = 2.0\n")) == [
        ["__new__"],
        2.0,
    ]


def test_a_package_that_waits_for_a_module_knows_its_other_parts_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "waiting_package"
    package.mkdir()
    (package / "part.py").write_text("")
    (package / "changed.py").write_text("")
    (package / "__init__.py").write_text(
        "from waiting_package.part import __name__ as part_name\nimport waiting_package.changed\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def parts() -> list[bool]:
        name = "waiting_package.changed"
        preload(name, package / "changed.py", ["waiting_package", name])
        waited = not any(module.startswith("waiting_package") for module in sys.modules)
        return [waited, hasattr(importlib.import_module("waiting_package"), "part")]

    assert in_child(parts) == [True, True]

"""The checks of the command gate, checked: every small change of its source must be noticed by one
of them."""

from collections.abc import Callable
from types import CodeType, ModuleType

import pytest

from tests.gate_bench import CHECKS
from tests.mutation import all_mutants, listed
from vehicled.safety import gate


def survives(mutant: CodeType) -> bool:
    module = ModuleType("mutant")
    try:
        exec(mutant, module.__dict__)
        for check in CHECKS:
            check(module)
    except Exception:  # noqa: BLE001 - whatever a mutant does wrong, it was noticed
        return False
    return True


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_gate_passes(check: Callable[[ModuleType], None]) -> None:
    check(gate)


def test_every_mutant_of_the_gate_is_noticed() -> None:
    found = all_mutants("gate.py")
    assert len(found) > 200
    expected = sorted((where, what) for file, where, what in listed() if file == "gate.py")
    assert (
        sorted((mutant.where, mutant.what) for mutant in found if survives(mutant.compile()))
        == expected
    )

"""The checks of the command gate, checked: every small change of its source must be noticed by one of them."""

from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType

import pytest

import vehicled.safety
from tests.gate_bench import CHECKS
from tests.mutants import mutants
from vehicled.safety import gate

SOURCE = Path(vehicled.safety.__file__).with_name("gate.py")

EQUIVALENT = {
    "wheel_rad = held + (step if wheel_rad > held else -step): wheel_rad > held -> wheel_rad >= held": "they differ there",
    "wheel_rad = limit if wheel_rad > 0.0 else -limit: wheel_rad > 0.0 -> wheel_rad >= 0.0": "its size is above the limit there",
    "sign = 1.0 if throttle > 0.0 else -1.0: throttle > 0.0 -> throttle >= 0.0": "zero has returned before",
    "if beyond_mps < room_mps:: beyond_mps < room_mps -> beyond_mps <= room_mps": "nothing is left there",
    "self._throttle = 0.0: 0.0 -> 1.0": "the first command is measured from nothing",
    "self._throttle = 0.0: 0.0 -> -1.0": "the first command is measured from nothing",
}
"""Mutants that behave as the gate does, each with the reason."""


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
    found = list(mutants(SOURCE.read_text(encoding="utf-8")))
    assert len(found) > 200
    assert sorted(mutant.what for mutant in found if survives(mutant.code)) == sorted(EQUIVALENT)

"""The pipeline names its tasks in the profile and in the machine; a fifth task must reach everything else from there."""

from pathlib import Path

from vehicled.core.tasks import PIPELINE
from vehicled.profile.schema import Tasks

ROOT = Path(__file__).parents[2] / "vehicled"


def test_the_profile_has_the_tasks_of_the_machine() -> None:
    assert Tasks.__struct_fields__ == PIPELINE


def test_no_other_module_lists_them() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if all(f'"{task}"' in path.read_text(encoding="utf-8") for task in PIPELINE)
    }
    assert named == {"daemon/machine.py", "core/tasks.py"}

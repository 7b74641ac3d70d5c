"""The pipeline names its tasks in the profile and in the machine; a fifth task must reach
everything else from there."""

from pathlib import Path

from msgspec.structs import fields

from vehicled.core.tasks import PIPELINE
from vehicled.profile.schema import Tasks

ROOT = Path(__file__).parents[2] / "vehicled"


def test_the_profile_has_the_tasks_of_the_machine() -> None:
    assert Tasks.__struct_fields__ == PIPELINE


def test_a_task_that_was_added_has_a_default() -> None:
    """Profiles and logs from before it stay valid."""
    first = {"ingestion", "fusion", "control", "actuation"}
    required = {field.name for field in fields(Tasks) if field.required}
    assert required <= first


def test_no_other_module_lists_them() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if all(f'"{task}"' in path.read_text(encoding="utf-8") for task in PIPELINE)
    }
    assert named == {"daemon/machine.py", "core/tasks.py"}

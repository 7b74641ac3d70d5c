"""Every driver, emulator, message, task and command has all that ``docs/extending.md`` names; each
omission fails by its name."""

import re
import subprocess
import sys
from argparse import SUPPRESS, _SubParsersAction
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from sim_backend.emulators.registry import EMULATORS
from tests.conformance.test_device_contract import DEVICES
from tests.hostile_bytes import LONGEST
from vehicled.cli.commands import build_parser
from vehicled.core import messages
from vehicled.core.messages import Message
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.recognition import _TITLES
from vehicled.log.reader import LogReader
from vehicled.profile import registry
from vehicled.profile.supported_devices import SUPPORTED
from vehicled.ros.cdr import known_fields
from vehicled.run.command_line import CommandParser

ROOT = Path(__file__).parents[2]
WITHOUT_EMULATOR = {"rtcm": "a byte stream of a base, which the simulated receivers do not need"}
WITHOUT_BYTES = {"pwm_board": "it sends nothing", "sabertooth": "it sends nothing"}
"""Drivers that read no bytes of a device."""
PAGES = list(build_parser().walk())
LEAVES = [page for page in PAGES if not page.subcommands]


def modules_in(folder: str) -> Iterator[str]:
    """Iterate over the names of the modules in a folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


# ---------------------------------------------------------------- drivers and emulators


@pytest.mark.parametrize("name", registry.DRIVERS)
def test_a_driver_has_contract_case_hostile_bytes_emulator_notes_and_a_row_of_its_page(
    name: str,
) -> None:
    assert name in DEVICES, "add it to DEVICES in tests/conformance/test_device_contract.py"
    assert name in LONGEST or name in WITHOUT_BYTES, (
        "add the head of its longest frame to LONGEST in tests/hostile_bytes.py"
    )
    assert name in EMULATORS or name in WITHOUT_EMULATOR, (
        "add an emulator to sim_backend/emulators/registry.py"
    )
    folder = ROOT.joinpath(*registry.DRIVERS[name].partition(":")[0].split(".")).parent
    notes = "".join(path.read_text(encoding="utf-8") for path in folder.glob("NOTES*.md"))
    assert notes, (
        f"write {folder.relative_to(ROOT)}/NOTES.md: sources, and what was never seen real"
    )
    rows = [row for row in SUPPORTED if name in row.drivers]
    assert len(rows) == 1, "add a row to vehicled/profile/supported_devices.py"
    assert (ROOT / "drivers" / rows[0].notes).is_file(), "name its notes in that row"


@pytest.mark.parametrize("name", registry.DECODERS)
def test_a_recording_format_has_a_listening_driver_and_a_title(name: str) -> None:
    assert name in registry.LISTENERS, "add it to LISTENERS in vehicled/profile/registry.py"
    assert name in _TITLES, "add it to _TITLES in vehicled/daemon/recognition.py"


def test_every_module_of_drivers_and_emulators_is_reached_from_a_registry() -> None:
    """A driver that nobody registered does not stay unnoticed."""
    code = (
        "import sys; from importlib import import_module; from vehicled.profile import registry "
        "as r; from sim_backend.emulators.registry import EMULATORS as e; tables = r.DRIVERS, "
        "r.BASE_STATIONS, r.DECODERS, r.CAN_DECODERS, e; [import_module(t.split(':')[0]) for "
        "table in tables for t in table.values()]; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {*modules_in("drivers"), *modules_in("sim_backend/emulators")} - set(loaded) == set()


# ---------------------------------------------------------------- messages and tasks


def test_every_message_is_in_the_table() -> None:
    """Log, link and ROS types derive from it."""
    found = {
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, Message)
    } - {Message}
    for module in ("sensors", "decisions", "records"):
        mine = vars(import_module(f"vehicled.core.messages.{module}")).values()
        found |= {kind for kind in mine if isinstance(kind, type) and issubclass(kind, Message)} - {
            Message
        }
    assert found == set(messages.ALL)


@pytest.mark.parametrize("log", ["messages", "wires", "wall"])
def test_fields_are_appended_with_defaults_only(log: str) -> None:
    """Each recorded definition is the beginning of the present one, so that older logs can be
    read."""
    kinds = {f"vehicled_msgs/msg/{kind.__name__}": kind for kind in messages.ALL}
    with LogReader(ROOT / "tests" / "golden" / "replay" / f"{log}.mcap") as reader:
        stored = [schema for schema in reader.layout.schemas.values() if schema.name in kinds]
        assert stored
        for schema in stored:
            known_fields(kinds[schema.name], schema.data.decode())


def test_a_task_is_in_the_page_about_timing() -> None:
    page = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8")
    assert ", ".join(PIPELINE) in page, "name the tasks in their order in docs/timing.md"


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.prog)
def test_a_command_explains_each_of_its_arguments(page: CommandParser) -> None:
    silent = [
        action.option_strings or action.dest
        for action in page._actions
        if action.help != SUPPRESS and not action.help and not isinstance(action, _SubParsersAction)
    ]
    assert silent == [], "give it a help text"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.prog)
def test_a_command_completes_files_only_where_it_takes_one(page: CommandParser) -> None:
    """An argument without a type is completed by files."""
    places = re.compile(r"FILE|DIR|CSV|TOML|PNG|HTML|OUT|LOG|RECORDING|RUN|DRIVE", re.IGNORECASE)
    taking = [
        a
        for a in page._actions
        if a.type is None and a.choices is None and a.nargs != 0 and a.metavar != SUPPRESS
    ]
    wrong = [a.option_strings or a.dest for a in taking if not places.search(str(a.metavar))]
    assert wrong == [], (
        "give it a type of vehicled/run/argument_types.py, TEXT if nothing completes it"
    )


@pytest.mark.parametrize("page", LEAVES, ids=lambda page: page.prog)
def test_a_command_runs_something(page: CommandParser) -> None:
    assert callable(page.get_default("run"))

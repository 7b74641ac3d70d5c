"""The tables of the pages on the interfaces are those of the code."""

import pytest

from tests.interface_tables import BLOCK, ROOT, TABLES, renewed

pytest.importorskip("pymavlink", reason="needs pymavlink: pip install 'vehicled[mavlink]'")


@pytest.mark.parametrize("page", TABLES)
def test_the_tables_of_a_page_are_those_of_the_code(page: str) -> None:
    text = (ROOT / page).read_text()
    assert {block["name"] for block in BLOCK.finditer(text)} == set(TABLES[page])
    assert text == renewed(page), "renew the page: python -m tests.interface_tables"


def test_every_command_of_mavlink_has_a_place_in_the_table_of_missions() -> None:
    from pymavlink.dialects.v20 import ardupilotmega as mav

    from vehicled.paths.mission_commands import COMMANDS

    theirs = {
        number: entry.name.removeprefix("MAV_CMD_")
        for number, entry in mav.enums["MAV_CMD"].items()
    }
    del theirs[max(theirs)]  # the end of the enumeration, which is no command
    assert {number: name for number, (name, _) in COMMANDS.items()} == theirs

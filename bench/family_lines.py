"""Lines of each family of drivers, with its emulator: the table of docs/devices.md.

    python bench/family_lines.py [--json]

Counted are lines that are not blank, of the modules of the drivers of a row of `vehicled devices
list`, of their emulators, and of what these import and no other family does. A module of two
families, such as the emulator of all RC receivers, counts for the first. The rest is shared:
framing, epochs, set-up, serial lines.
"""

import argparse
import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path

from sim_backend.emulators.registry import EMULATORS
from vehicled.profile.registry import DRIVERS
from vehicled.profile.supported_devices import SUPPORTED
from vehicled.run.terminal import print_table

ROOT = Path(__file__).parents[1]
PLACES = ("drivers.", "sim_backend.emulators.")


def file_of(module: str) -> Path:
    """Return the source of a module; a package is its ``__init__``."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imported(module: str) -> frozenset[str]:
    """Return the modules of drivers and emulators that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(file_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # A name that is imported from a package may be a module of it.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(each for each in found if each.startswith(PLACES) and file_of(each).is_file())


def closure(begins: set[str]) -> set[str]:
    """Return modules with all that they import, directly or not. Codecs that an emulator imports
    are those of its driver."""
    found, waiting = set(begins), list(begins)
    while waiting:
        module = waiting.pop()
        place = next(each for each in PLACES if module.startswith(each))
        new = {each for each in imported(module) if each.startswith(place)} - found
        found |= new
        waiting += new
    return found


def lines(modules: set[str]) -> int:
    """Return the lines of modules that are not blank."""
    texts = (file_of(module).read_text(encoding="utf-8") for module in modules)
    return sum(1 for text in texts for line in text.splitlines() if line.strip())


def counted() -> dict[str, dict[str, int]]:
    """Return the lines of each family, by its first driver."""
    families: dict[str, set[str]] = {}
    owners: dict[str, str] = {}
    for row in SUPPORTED:
        begins = {
            table[name].partition(":")[0]
            for name in row.drivers
            for table in (DRIVERS, EMULATORS)
            if name in table
        }
        mine = {each for each in begins if each.startswith(PLACES)}
        families[row.drivers[0]] = closure(mine)
        owners |= dict.fromkeys(mine - owners.keys(), row.drivers[0])
    users = Counter(module for modules in families.values() for module in modules)
    found = {}
    for name, modules in families.items():
        own = {
            module
            for module in modules
            if owners.get(module, name if users[module] == 1 else "") == name
        }
        of_driver = {module for module in own if module.startswith("drivers.")}
        driver, emulator = lines(of_driver), lines(own - of_driver)
        found[name] = {"driver": driver, "emulator": emulator, "sum": driver + emulator}
    shared = {module for module, count in users.items() if count > 1 and module not in owners}
    of_drivers = {module for module in shared if module.startswith("drivers.")}
    found["shared"] = {
        "driver": lines(of_drivers),
        "emulator": lines(shared - of_drivers),
        "sum": lines(shared),
    }
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    found = counted()
    if parser.parse_args().json:
        print(json.dumps({"families": found}))
        return
    rows = [[name, *map(str, each.values())] for name, each in found.items()]
    print_table("Lines of each family", ["family", "driver", "emulator", "together"], rows)


if __name__ == "__main__":
    main()

"""Command ``vehicled experiment NAME``. Each experiment parses its own options."""

from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from vehicled.cli.parser import CommandParser
from vehicled.offline.replications.experiments.common import EXPERIMENTS, names
from vehicled.run.terminal import Progress, print_table


class TerminalConsole:
    """Shows an experiment on the terminal: progress on standard error, results on standard output."""

    def __init__(self) -> None:
        self._progress = Progress()

    def progress(self, text: str) -> None:
        """Show a progress line, which the next one replaces."""
        self._progress.update(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table on standard output."""
        self._progress.close()
        print_table(title, columns, rows)

    def text(self, text: str) -> None:
        """Print a line on standard output."""
        self._progress.close()
        print(text)

    def close(self) -> None:
        """Clear the progress line."""
        self._progress.close()


def run(arguments: Namespace) -> int:
    """Run the experiment given in ``arguments.rest``. Reports the known names if it is unknown."""
    parser = CommandParser(prog="vehicled experiment", description="Repeat a published experiment and compare the results.")
    commands = parser.add_subparsers(dest="name", metavar="EXPERIMENT", required=True)
    modules = {}
    for name in names():
        module, about = EXPERIMENTS[name]
        modules[name] = import_module(module)
        modules[name].add_arguments(commands.add_parser(name, help=about, description=modules[name].__doc__))
    parsed = parser.parse(arguments.rest)
    console = TerminalConsole()
    try:
        status: int = modules[parsed.name].run(parsed, console)
    finally:
        console.close()
    return status

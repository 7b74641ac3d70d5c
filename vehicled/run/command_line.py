"""Command-line parser with one-line errors that suggest the nearest name, and help that fits the
terminal.

A command is a row of a table (:class:`CommandRow`). The module that runs it declares its arguments
and is imported only when they are needed, so that the program starts fast however many commands it
has.
"""

import argparse
import shutil
from argparse import Action, ArgumentError, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from textwrap import fill
from typing import Any, NamedTuple, NoReturn

USAGE_STATUS = 2
"""Exit status for invalid input."""
PASSING_STATUS = 75
"""Exit status for a fault that the same command may not meet again, such as a full disk;
EX_TEMPFAIL of sysexits.h."""
NARROWEST, WIDEST = 40, 100
_MOST_NAMES = 12


class HelpFormatter(argparse.HelpFormatter):
    """Help formatter that wraps paragraphs to the terminal and keeps lines that begin with a
    blank."""

    def __init__(self, prog: str, **options: Any) -> None:
        columns = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
        super().__init__(prog, **{"max_help_position": 26, "width": columns - 2} | options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrap = super()._fill_text
        return "\n".join(
            line if not line.strip() or line[0] == " " else wrap(line, width, indent)
            for line in text.splitlines()
        )


class CommandRow(NamedTuple):
    """A command, or a group of commands."""

    name: str
    help: str
    """One line in the list of commands."""
    module: str = ""
    """Module with the function ``declare_NAME``, which adds arguments and ``run`` to the parser;
    default that of the group. Its docstring is the description in the help. ``declare_log_info`` is
    that of ``vehicled log info``. A group may have one.
    """
    commands: Sequence["CommandRow"] = ()
    implied: str = ""
    """Subcommand that is meant where none is named."""


class CommandParser(ArgumentParser):
    """Parser of one command; subcommands use the same class."""

    def __init__(self, *, command: CommandRow | None = None, **options: Any) -> None:
        """Build the parser; with ``command`` its arguments are declared when they are first
        read."""
        self._pending: CommandRow | None = None
        super().__init__(**{"formatter_class": HelpFormatter} | options)
        self.examples: tuple[str, ...] = ()
        self.implied = "" if command is None else command.implied
        self._pending = command

    @property
    def _actions(self) -> list[Action]:
        # argparse, and what completes, reads this list before anything else of a parser.
        command, self._pending = self._pending, None
        if command is not None:
            name = "_".join(["declare", *self.prog.replace("-", "_").split()[1:]])
            module = import_module(command.module) if command.module else None
            if not command.commands or hasattr(module, name):
                declare = getattr(module, name)
                self.description = self.description or " ".join((declare.__doc__ or "").split())
                declare(self)
            if command.commands:
                self.add_commands(
                    command.commands, dest=f"{command.name}_command", module=command.module
                )
        return self._declared

    @_actions.setter
    def _actions(self, actions: list[Action]) -> None:
        self._declared = actions

    def describe(
        self, description: str = "", *, examples: Sequence[str] = (), epilog: str = ""
    ) -> None:
        """Set texts of the help: a description that is no docstring, ``examples``, and an
        ``epilog`` behind them."""
        shown = (
            "Examples:\n" + "".join(f"  {example}\n" for example in examples) if examples else ""
        )
        self.description = description or self.description
        self.epilog = "\n".join(part for part in (shown, epilog) if part) or None
        self.examples = tuple(examples)

    def add_commands(self, commands: Sequence[CommandRow], *, dest: str, module: str = "") -> None:
        """Add subcommands; the name of the chosen one is put into ``dest``."""
        group = self.add_subparsers(
            prog=self.prog, dest=dest, metavar="COMMAND", required=True, parser_class=CommandParser
        )
        for command in commands:
            group.add_parser(
                command.name,
                help=command.help,
                command=command._replace(module=command.module or module),
            )

    def complete(self, **types: Callable[[str], Any]) -> None:
        """Give arguments that another parser shares, by their ``dest``, the types that complete
        them."""
        for action in self._actions:
            action.type = types.get(action.dest, action.type)

    @property
    def subcommands(self) -> dict[str, "CommandParser"]:
        """Return the parsers of the subcommands by name."""
        for action in self._actions:
            if isinstance(action, _SubParsersAction):
                return dict(action.choices)
        return {}

    def descend(self, words: Sequence[str]) -> "CommandParser":
        """Return the parser of the innermost command named in ``words``."""
        parser = self
        for word in words:
            known = parser.subcommands
            parser = known.get(word if word in known else parser.implied, parser)
        return parser

    def walk(self) -> Iterator["CommandParser"]:
        """Iterate over this parser and all subcommands."""
        yield self
        for parser in self.subcommands.values():
            yield from parser.walk()

    def parse(self, argv: Sequence[str]) -> Namespace:
        """Parse ``argv``. Invalid arguments end the process with a one-line message."""
        arguments: Namespace
        arguments, unknown = self.parse_known_args(argv)
        arguments.argv = tuple(argv)
        if unknown:
            self.descend([word for word in argv if not word.startswith("-")])._refuse(unknown)
        return arguments

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known, as argparse does, after the implied subcommand if none is named."""
        if self.implied and args and args[0] not in (*self.subcommands, "-h", "--help"):
            args = [self.implied, *args]
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """Return the help. The usage shows only required arguments; the list of options follows."""
        usage = self.usage
        if usage is None:
            actions = self._actions
            groups = [group for group in self._mutually_exclusive_groups if group.required]
            chosen = [action for group in groups for action in group._group_actions]
            needed = [a for a in actions if not a.option_strings or a.required or a in chosen]
            formatter = self._get_formatter()
            formatter.add_usage(None, needed, groups, "")
            shown = " ".join(formatter.format_help().split()).replace(
                self.prog, f"{self.prog} [options]", 1
            )
            width = formatter._width - len("usage: ")
            self.usage = fill(
                shown, width, subsequent_indent=" " * 12, break_long_words=False
            ).replace("%", "%%")
        try:
            return super().format_help()
        finally:
            self.usage = usage

    def error(self, message: str) -> NoReturn:
        """End the process with a one-line message that points to the help."""
        message = message.removeprefix("argument ").replace(
            "the following arguments are required:", "missing:"
        )
        # An argument of the user may contain a line break.
        message = " ".join(message.split())
        see = "See" if message.endswith("?") else "; see"
        self.exit(
            USAGE_STATUS,
            f"{self.prog}: {message}{' ' * (see == 'See')}{see} '{self.prog} --help'\n",
        )

    def _check_value(self, action: Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        kind = "command" if isinstance(action, _SubParsersAction) else "value"
        cure = _nearest(str(value), names) or (
            f"choose from {', '.join(names)}" if len(names) <= _MOST_NAMES else ""
        )
        raise ArgumentError(
            None if kind == "command" else action,
            f"no {kind} {str(value)[:60]!r}" + (f"; {cure}" if cure else ""),
        )

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        option = next((word for word in unknown if word.startswith("-")), "")
        if not option:
            self.error(f"unexpected argument: {unknown[0][:60]!r}")
        name = option.partition("=")[0]
        cure = _nearest(
            name,
            [known for action in self._actions for known in action.option_strings if known != "-h"],
        )
        self.error(f"no option {name[:60]!r}" + (f"; {cure}" if cure else ""))


class GroupedParser(CommandParser):
    """Parser of the program itself; its help groups the commands by purpose."""

    def __init__(self, groups: Sequence[tuple[str, Sequence[CommandRow]]], **options: Any) -> None:
        """Build the parser of all commands of ``groups``, pairs of a title and commands."""
        super().__init__(**options)
        self._groups = groups
        self.add_commands(
            [command for _, commands in groups for command in commands], dest="command"
        )

    def format_help(self) -> str:
        """Return the help: usage, description, groups of commands, options and examples."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        commands = next(action for action in self._actions if isinstance(action, _SubParsersAction))
        rows: dict[str, Action] = {row.dest: row for row in commands._choices_actions}
        formatter.add_usage(self.usage, [], [], "usage: ")
        for title, group in self._groups:
            formatter.start_section(title)
            formatter.add_arguments([rows[command.name] for command in group])
            formatter.end_section()
        formatter.start_section("Options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _nearest(name: str, known: Sequence[str]) -> str:
    close = [other for other in known if len(name) > 1 and other.startswith(name)]
    close = close or get_close_matches(name[:64], known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""

"""Command ``vehicled completion``: completion by the shell, of the same parser and by the types of
its arguments."""

import sys
from argparse import Action, ArgumentParser, Namespace
from typing import Any

from vehicled.run.argument_types import NameType, files
from vehicled.run.command_line import USAGE_STATUS, CommandParser

SHELLS = ("bash", "zsh", "fish")


def declare_completion(parser: CommandParser) -> None:
    """Print the shell script that completes commands, options, profiles, courses, logs and
    failures."""
    parser.describe(
        examples=(
            'eval "$(vehicled completion bash)"     in ~/.bashrc',
            'eval "$(vehicled completion zsh)"      in ~/.zshrc, after compinit',
            "vehicled completion fish | source      in ~/.config/fish/config.fish",
        )
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="your shell")
    parser.set_defaults(run=completion)


def completion(arguments: Namespace) -> int:
    """Print the completion script of a shell."""
    if not arguments.shell:
        print("vehicled: completion: which shell? Give bash, zsh or fish", file=sys.stderr)
        return USAGE_STATUS
    print(script(arguments.shell).strip())
    return 0


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    from argcomplete.shell_integration import shellcode

    # Nothing completes what the parser does not; no blank follows what goes on, such as
    # ``gnss:stuck@`` or ``limits.``.
    return shellcode(["vehicled"], shell=shell, complete_arguments=["-o", "nospace"]).replace(
        "[=/:]", "[=/:@.]"
    )


def complete(parser: ArgumentParser, **options: Any) -> None:
    """Print the candidates for the command line in the environment, and end the process;
    ``options`` are argcomplete's."""
    from argcomplete import autocomplete

    # Any callable completes.
    autocomplete(parser, always_complete_options="long", default_completer=candidates, **options)  # type: ignore[arg-type]


def candidates(
    *, prefix: str, action: Action, parser: ArgumentParser, parsed_args: Namespace
) -> list[str]:
    """Return the candidates for an argument: those of its type; files for a text without one."""
    if isinstance(action.type, NameType):
        return action.type.candidates(prefix, parsed_args)
    return files(prefix) if action.type is None else []

"""Command ``vehicled completion``: shell scripts, and the candidates that they request, taken from the parser."""

import argparse
import os
import shlex
import sys
from argparse import Action, Namespace
from collections.abc import Callable, Iterable

from vehicled.cli.parser import USAGE_STATUS, CommandParser

# Bash splits words at these characters and puts a candidate after the last one.
BASH = r"""
_vehicled() {
    local line="${COMP_LINE:0:COMP_POINT}" cut
    mapfile -t COMPREPLY < <(vehicled completion --line "$line" 2>/dev/null)
    local current="${line##* }"
    cut="${current%"${current##*[:=@]}"}"
    local breaks="${COMP_WORDBREAKS//[^:=@]/}"
    if [[ -n $cut ]]; then
        cut="${current%"${current##*["$breaks"]}"}"
        COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=:@.] ]]; then compopt -o nospace; fi
}
complete -F _vehicled vehicled
"""
ZSH = r"""
_vehicled() {
    local -a whole open
    local candidate
    for candidate in "${(@f)$(vehicled completion --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}"; do
        case $candidate in
            '') ;;
            *[/=:@.]) open+=("$candidate") ;;
            *) whole+=("$candidate") ;;
        esac
    done
    (( ${#open} )) && compadd -S '' -- "${open[@]}"
    (( ${#whole} )) && compadd -- "${whole[@]}"
    (( ${#open} + ${#whole} ))
}
compdef _vehicled vehicled
"""
FISH = r"""
complete -c vehicled -f -a '(vehicled completion --line (commandline -cp) 2>/dev/null)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(arguments: Namespace) -> int:
    """Print the completion script of a shell, or the candidates for a line."""
    if arguments.line is not None:
        for candidate in candidates(arguments.line):
            print(candidate)
        return 0
    if not arguments.shell:
        print("vehicled: completion: which shell? Give bash, zsh or fish", file=sys.stderr)
        return USAGE_STATUS
    print(SCRIPTS[arguments.shell].strip())
    return 0


def candidates(line: str) -> list[str]:
    """Return the candidates for the last word of ``line``. The line begins with the program's name."""
    from vehicled.cli.arguments import build_parser

    *before, current = _words(line)
    parser = build_parser()
    words = before[1:]
    command = parser.descend([word for word in words if not word.startswith("-")])
    name, equals, value = current.partition("=")
    if name.startswith("--") and equals:
        action = _option(command, name)
        return [f"{name}={found}" for found in _values(action, value, words)] if action is not None else []
    action = _option(command, words[-1]) if words else None
    if action is not None and action.nargs != 0:
        return _values(action, current, words)
    if current.startswith("-"):
        return sorted(_begin(current, _options(command)))
    if command.subcommands:
        return _begin(current, command.subcommands)
    positional = [action for action in command._actions if not action.option_strings]
    found = _values(positional[0], current, words) if positional else []
    return found if found or current else sorted(_options(command))


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError:
        # The line ends inside a quotation.
        words = line.split()
    return words if words and not line[-1:].isspace() else [*words, ""]


def _options(command: CommandParser) -> list[str]:
    shown = [action for action in command._actions if action.help != argparse.SUPPRESS]
    return [option for action in shown for option in action.option_strings if option.startswith("--")]


def _option(command: CommandParser, word: str) -> Action | None:
    return next((action for action in command._actions if word in action.option_strings), None)


def _begin(text: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(text)]


def _values(action: Action, text: str, words: list[str]) -> list[str]:
    if action.choices is not None:
        return _begin(text, map(str, action.choices))
    if action.nargs == 0:
        return []
    kind = _KINDS.get(action.dest) or _KINDS.get(str(action.metavar))
    found = kind(text, words) if kind is not None else []
    return found if kind is not None and kind not in _OR_FILES else [*found, *_files(text)]


def _profiles(text: str, words: list[str]) -> list[str]:
    from vehicled.profile import names

    return _begin(text, names())


def _courses(text: str, words: list[str]) -> list[str]:
    from vehicled.paths.catalog import names, parameters

    head, colon, given = text.partition(":")
    if not colon:
        return _begin(text, names())
    done, comma, _ = given.rpartition(",")
    return _begin(text, [f"{head}:{done}{comma}{key}=" for key in parameters(head)])


def _scenes(text: str, words: list[str]) -> list[str]:
    from vehicled.paths.scenes import names

    return _begin(text, names())


def _logs(text: str, words: list[str]) -> list[str]:
    from vehicled.cli.log_names import LATEST, names

    return _begin(text, [LATEST, *names()])


def _failures(text: str, words: list[str]) -> list[str]:
    from sim_backend.emulators.failures import KINDS

    port, colon, _ = text.partition(":")
    return _begin(text, [f"{port}:{kind}@" for kind in KINDS] if colon else [f"{name}:" for name in _profile(words).devices])


def _keys(text: str, words: list[str]) -> list[str]:
    from msgspec import Struct
    from msgspec.structs import fields

    *path, last = text.split(".")
    table: object = _profile(words)
    for name in path:
        table = table.get(name) if isinstance(table, dict) else getattr(table, name, None)
    if isinstance(table, dict):
        items = dict(table)
    elif isinstance(table, Struct):
        items = {field.name: getattr(table, field.name) for field in fields(table)}
    else:
        return []
    ends = {name: "." if isinstance(value, Struct | dict) else "=" for name, value in items.items()}
    return [".".join([*path, f"{name}{ends[name]}"]) for name in items if name.startswith(last)]


def _registered(table: str) -> Callable[[str, list[str]], list[str]]:
    def names_of(text: str, words: list[str]) -> list[str]:
        from vehicled.profile import registry

        return _begin(text, getattr(registry, table))

    return names_of


def _programmes(text: str, words: list[str]) -> list[str]:
    from vehicled.control.programmes import PROGRAMMES

    return _begin(text, PROGRAMMES)


def _things_to_check(text: str, words: list[str]) -> list[str]:
    return [*_profiles(text, words), *_courses(text, words)]


def _nothing(text: str, words: list[str]) -> list[str]:
    return []


def _files(text: str) -> list[str]:
    """Return the files and folders whose path begins with ``text``."""
    folder, name = os.path.split(text)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    shown = sorted(row for row in found if name.startswith(".") or not row[0].startswith("."))
    return [os.path.join(folder, file) + ("/" if is_folder else "") for file, is_folder in shown]


def _profile(words: list[str]):  # type: ignore[no-untyped-def]  # a Profile, whose type is loaded late
    """Return the profile named on the line, or the default one if that cannot be read."""
    from vehicled.profile import ProfileError, load_profile

    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--profile"]
    for name in [*named[-1:], "art"]:
        try:
            return load_profile(name)
        except ProfileError:
            continue
    raise AssertionError("the built-in profile art cannot be read")


_KINDS: dict[str, Callable[[str, list[str]], list[str]]] = {
    "profile": _profiles,
    "course": _courses,
    "scene": _scenes,
    "RUN": _logs,
    "RUN_A": _logs,
    "RUN_B": _logs,
    "fail": _failures,
    "set": _keys,
    "controller": _registered("CONTROLLERS"),
    "estimator": _registered("ESTIMATORS"),
    "identifier": _registered("IDENTIFIERS"),
    "programme": _programmes,
    "what": _things_to_check,
    **dict.fromkeys(("N", "S", "HZ", "M", "V", "T", "T0", "T1", "URL", "ADDRESS", "PERCENT", "SHARE", "K"), _nothing),
}
"""Completion functions by argument name or metavar. All other arguments complete to files."""
_OR_FILES = {_profiles, _courses, _scenes, _logs, _programmes, _things_to_check}

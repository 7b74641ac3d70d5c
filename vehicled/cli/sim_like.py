"""Option ``vehicled sim --like``: the options of an earlier run from its log."""

import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import msgspec
from msgspec import Struct

from vehicled.cli.commands import build_parser
from vehicled.core.errors import SetupError
from vehicled.log.reader import LogReader
from vehicled.log.schema import RunHeader
from vehicled.offline.replay.extraction import extract
from vehicled.offline.replay.setup import same_numbers

_OF_LOG = (
    "profile",
    "course",
    "seed",
    "link",
    "clock",
    "latency",
    "board",
    "fail",
    "start",
    "duration",
)
"""Options that the log gives."""
_CHANGES = ("set", "controller", "estimator", "identifier", "programme", "scene")
"""Options that change what the log gives."""


class Likeness(Struct, frozen=True, kw_only=True):
    """Choices with which an earlier run is repeated."""

    digest: str
    """Digest of the earlier run, if this one must have the same; else empty."""
    why_not: str
    """Reason why the digests cannot be compared; empty if they can."""

    def judge(self, digest: str) -> str:
        """Return the comparison of the digests as text."""
        if not self.digest:
            return f"digest not comparable with that of the log: {self.why_not}"
        same = digest == self.digest
        return (
            "digest equal to that of the log"
            if same
            else f"digest differs from that of the log, {self.digest}"
        )


def take_over(arguments: Namespace, folder: Path) -> Likeness:
    """Fill the options that the user has not stated from the log, whose files are written into
    ``folder``.

    Says what is repeated and what the user's options change. Raises :class:`SetupError` and
    LogError.
    """
    stated = given(arguments.argv)
    if "laps" in stated:
        raise SetupError(
            "--laps cannot be combined with --like: the course of the log holds all its laps"
        )
    if arguments.connect:
        raise SetupError("--like starts a simulator of its own: leave --connect out")
    done = extract(arguments.like, folder / "run", code=arguments.code)
    header = done.header
    if not done.course and not arguments.course:
        raise SetupError(f"{arguments.like}: the log was imported and has no course: give --course")
    simulated = header.clock in ("lockstep", "wall") and header.argv[1:2] != ["run"]
    failures, start, duration_s = conditions_of(header)
    values = {
        "profile": done.profile,
        "course": done.course or arguments.course,
        "seed": header.seed if header.seed is not None else 1,
        "link": (header.link if simulated else "") or "messages",
        "clock": header.clock if simulated else "lockstep",
        "latency": header.latency,
        "board": done.board,
        "fail": list(failures),
        "start": start or None,
        "duration": duration_s,
    }
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    shown = {"profile": header.profile, "course": header.course, "board": header.board}
    kept = [
        f"{key} {shown.get(key, values[key])}"
        for key in _OF_LOG
        if values[key] not in (None, "", []) and key not in stated
    ]
    print(f"like {arguments.like}: {', '.join(kept)}", file=sys.stderr)
    if not simulated:
        print(
            (
                "note: the log is of a vehicle, not of a simulation: its twin is driven in "
                "lockstep, by messages"
            ),
            file=sys.stderr,
        )
    changed = []
    for key in (*_OF_LOG, *_CHANGES):
        if key in stated:
            was = f" in place of {shown.get(key, values[key])}" if values.get(key) else ""
            print(f"note: --{key} {_text(getattr(arguments, key))}{was}", file=sys.stderr)
            changed.append(f"--{key}")
    for key, value in values.items():
        if key not in stated:
            setattr(arguments, key, value)
    return _likeness(arguments, header, changed, simulated=simulated)


def _likeness(
    arguments: Namespace, header: RunHeader, changed: Sequence[str], *, simulated: bool
) -> Likeness:
    with LogReader(arguments.like) as log:
        digest = log.end.get("digest", "") if not log.header.imported else ""
    why_not = ""
    if changed:
        why_not = f"{', '.join(changed)} changed the run"
    elif not simulated or header.clock != "lockstep":
        why_not = "it was not in lockstep"
    elif header.mixed or arguments.mixed or arguments.mixed_vehicle:
        why_not = "mixed reality is not repeated"
    elif not digest:
        why_not = "it has none, or goes on in another part"
    elif not same_numbers(header):
        why_not = "it was computed with other libraries or on another kind of computer"
    return Likeness(digest="" if why_not else digest, why_not=why_not)


def conditions_of(header: RunHeader) -> tuple[tuple[str, ...], str, float | None]:
    """Return failures, start and duration of a simulated run; of a log without them, from its
    command line."""
    if not header.world and header.argv[1:2] == ["sim"]:
        return _of_command(header.argv[1:])
    try:
        failures = msgspec.json.decode(header.world.get("failures", "[]"), type=tuple[str, ...])
        duration_s = float(header.world["duration_s"]) if "duration_s" in header.world else None
    except (msgspec.DecodeError, ValueError):
        raise SetupError(
            "the conditions of the run cannot be read from the header of the log"
        ) from None
    return failures, header.world.get("start", ""), duration_s


def _of_command(argv: Sequence[str]) -> tuple[tuple[str, ...], str, float | None]:
    try:
        with redirect_stderr(StringIO()):
            then = build_parser().parse(argv)
    except SystemExit:
        return (), "", None
    return tuple(then.fail), then.start or "", then.duration


def given(argv: Sequence[str]) -> frozenset[str]:
    """Return the names of the options that a command line of ``sim`` states."""
    command = build_parser().subcommands["sim"]
    for action in command._actions:
        action.default = SUPPRESS
    command._defaults.clear()
    stated, _ = command.parse_known_args(list(argv[1:]))
    return frozenset(vars(stated))


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

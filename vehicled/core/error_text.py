"""Exceptions of any code as text: short, printable, and without raising, whatever the exception
does.

An exception of a user's code may raise in its own ``__str__``, hold 50 MB, come from 100 000
frames, or claim to be another type.
"""

import traceback
from collections import deque
from collections.abc import Callable
from reprlib import Repr
from types import TracebackType
from typing import Any

from vehicled.core.plain_text import printable

MESSAGE_LIMIT = 400
"""Most characters of a message."""
TRACE_LIMIT = 4000
"""Most characters of a traceback."""
OUTER_FRAMES, INNER_FRAMES = 2, 12
"""Frames of a traceback that are shown; those between are counted."""
CHAIN_LIMIT = 4
"""Most exceptions that are shown of a chain of causes, or of nested groups."""

# Read as Python itself does: a class may define properties of these names that raise.
_type_name = type.__dict__["__name__"].__get__
_arguments = BaseException.__dict__["args"].__get__
_members = BaseExceptionGroup.__dict__["exceptions"].__get__
_trace = BaseException.__dict__["__traceback__"].__get__
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_context_hidden = BaseException.__dict__["__suppress_context__"].__get__


class Interrupted(KeyboardInterrupt):
    """The user's second Ctrl-C or SIGTERM, which ends a run at once. Code of the user's may raise
    any other exception by itself."""


class _Shown(Repr):
    """Bounded representation of any value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 60
        self.maxlevel = 3


_shown = _Shown()


def guarded(make: Callable[[], str], otherwise: str) -> str:
    """Return a text that the user's code makes; ``otherwise`` if making it raises. Only
    :class:`Interrupted` passes through."""
    try:
        text = make()
        # A subclass of str may override anything, so only the methods of str itself are called.
        return one_line(str.__getitem__(text, slice(MESSAGE_LIMIT + 1)))
    except Interrupted:
        raise
    except BaseException:  # noqa: BLE001 - what an exception says of itself is the user's code, and must not end the run
        return otherwise


def one_line(text: str) -> str:
    """Return one line of at most ``MESSAGE_LIMIT`` characters that every terminal and encoding can
    show."""
    return printable(" ".join(text.split()), MESSAGE_LIMIT)


def shown(value: object) -> str:
    """Return a short representation of any value."""
    return guarded(lambda: _shown.repr(value), f"<{type_name(value)}>")


def type_name(value: object) -> str:
    """Return the name of a value's type, which its metaclass cannot falsify."""
    return guarded(lambda: _type_name(type(value)), "object")


def message(error: BaseException) -> str:
    """Return what an exception says; empty if it says nothing."""

    def made() -> str:
        arguments = _arguments(error)
        if _is(error, BaseExceptionGroup):
            arguments = arguments[:1]
        if type(error).__str__ in (BaseException.__str__, BaseExceptionGroup.__str__) or not all(
            map(_is_small, arguments)
        ):
            # Python's own text would represent all of it.
            first = arguments[0] if arguments else ""
            return (
                first
                if len(arguments) <= 1 and _is(first, str)
                else ", ".join(map(shown, arguments[:4]))
            )
        return str(error)

    return guarded(made, "its text cannot be read")


def error_text(error: BaseException) -> str:
    """Return type and message of an exception; of a group also those of its first member."""
    said = message(error)
    text = f"{type_name(error)}: {said}" if said else type_name(error)
    first = _first_member(error)
    return (
        text if first is None else one_line(f"{text}; first: {type_name(first)}: {message(first)}")
    )


def error_trace(error: BaseException) -> str:
    """Return the traceback of an exception and of its causes, outermost first; frames in the middle
    of long ones are left out."""
    parts: list[str] = []
    each: BaseException | None = error
    while each is not None and len(parts) < CHAIN_LIMIT:
        parts.append("".join([*_frames(_trace(each)), error_text(each), "\n"]))
        each = _cause(each) or (None if _context_hidden(each) else _context(each))
    return "raised while handling:\n".join(parts[::-1])[-TRACE_LIMIT:]


def innermost(error: BaseException, files: frozenset[str]) -> TracebackType | None:
    """Return the innermost traceback entry in one of some files; None if an exception passed
    through none of them."""
    found, trace = None, _trace(error)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            found = trace
        trace = trace.tb_next
    if found is None and (first := _first_member(error)) is not None:
        return innermost(first, files)
    return found


def _frames(trace: TracebackType | None) -> list[str]:
    outer: list[TracebackType] = []
    inner: deque[TracebackType] = deque(maxlen=INNER_FRAMES)
    count = 0
    while trace is not None:
        (outer if count < OUTER_FRAMES else inner).append(trace)
        count += 1
        trace = trace.tb_next
    left_out = count - len(outer) - len(inner)
    gap = [f"  ... {left_out} frames\n"] if left_out else []
    return [*_lines(outer), *gap, *_lines(inner)]


def _lines(traces: "list[TracebackType] | deque[TracebackType]") -> list[str]:
    try:
        walked = ((each.tb_frame, each.tb_lineno) for each in traces)
        return [
            line[:MESSAGE_LIMIT]
            for line in traceback.format_list(traceback.StackSummary.extract(walked))
        ]
    except Exception:  # noqa: BLE001 - the source lines of a frame may be anything, and only explain
        return []


def _first_member(error: BaseException) -> BaseException | None:
    """Return the first exception of a group that is no group itself; None for any other
    exception."""
    found: Any = error
    for _ in range(CHAIN_LIMIT):
        if not _is(found, BaseExceptionGroup):
            break
        found = _members(found)[0]
    return None if found is error else found


def _is(value: object, kind: type) -> bool:
    """Like isinstance, which would ask the value for its class."""
    return issubclass(type(value), kind)


def _is_small(value: Any) -> bool:
    return (
        value is None
        or type(value) in (int, float)
        or (type(value) in (str, bytes) and len(value) <= 4 * MESSAGE_LIMIT)
    )

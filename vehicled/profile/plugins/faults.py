"""Faults of plugins: whose an exception is, and what it says, whatever that exception does."""

import os
from collections.abc import Iterable
from types import TracebackType

from vehicled.core.error_text import Interrupted, error_text, innermost
from vehicled.core.errors import UserError


class PluginError(UserError):
    """A plugin cannot be used. The text names the file, the line and the cure."""


class PluginFaultError(PluginError):
    """A method of a plugin failed or returned something wrong. The text names the file, the line
    and the value."""


class PluginStuckError(Exception):
    """A call of a plugin has not returned in time."""


_files: frozenset[str] = frozenset()


def note_files(paths: Iterable[object]) -> None:
    """Add files of plugins."""
    global _files  # replaced at once, because signal handlers and other threads read it at any time
    _files = _files.union(map(str, paths))


def files() -> frozenset[str]:
    """Return the paths of the loaded plugins' files, and of those beside them that they import."""
    return _files


def place_of(error: BaseException) -> str:
    """Return the innermost line of a plugin that an exception passed through, as ``file:line in
    function``; empty if none."""
    trace = innermost(error, _files)
    return "" if trace is None else _place(trace)


def _place(trace: TracebackType) -> str:
    code = trace.tb_frame.f_code
    return f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"


def describe(error: BaseException) -> str:
    """Return an exception as short text, with the line of the plugin that raised it. Never
    raises."""
    if type(error) is PluginFaultError:
        return str(error)
    place = place_of(error)
    return f"{error_text(error)}{f' ({place})' if place else ''}"


def is_interrupt(error: BaseException) -> bool:
    """Return True for the user's Ctrl-C, which is no fault of a plugin and ends what was running.

    A KeyboardInterrupt whose innermost line of ours is a plugin's was raised there: signal handlers
    of a run raise :class:`~vehicled.core.error_text.Interrupted`.
    """
    if isinstance(error, Interrupted):
        return True
    return isinstance(error, KeyboardInterrupt) and not place_of(error)

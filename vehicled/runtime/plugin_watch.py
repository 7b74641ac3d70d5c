"""Ends the code of a plugin that does not return: a loop without end, a sleep, a wait for a
network.

``os._exit`` in a plugin's call raises :class:`SystemExit` instead, which counts as any exception of
that plugin: otherwise the run would end without a brake, a reason or, with status 0, even a sign of
failure. A child that a plugin forks may still call it.

A thread looks a few times per second at what the watched thread executes. A call of a plugin that
is still the same after the time limit gets an exception at the line it is at, which then counts as
any exception of that plugin. Code that catches it, or that never comes back from a C library, ends
the process: the actuators then stop by their own timeouts.

Calls that call each other without end are left with the interpreter's own error: nothing raises the
limit of their depth beyond :data:`MOST_CALLS` meanwhile.

A thread or an exit function that a plugin leaves behind does not keep a finished process alive.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from types import FrameType

from vehicled.core.plain_text import printable_lines
from vehicled.profile import plugins
from vehicled.profile.plugins import PluginStuckError

STEP_LIMIT_S = 1.0
"""Longest call of a plugin in a drive, s. The actuators have stopped by their own timeouts long
before."""
IMPORT_LIMIT_S = 60.0
"""Longest import of a plugin, s; a library for neural networks may take half a minute."""
CHECKS_PER_LIMIT = 8
MOST_CALLS = 5_000
"""Largest depth of calls that a plugin may ask for: millions take half a minute to be left again,
and calls through C overflow a stack of 8 MB before that."""
ATTEMPTS = 3
"""Number of exceptions that a call may survive before the process ends."""
STUCK_STATUS = 70
EXIT_LIMIT_S = 5.0
"""Time for which a finished process waits for threads and exit functions of plugins, s."""
_EXIT_THREAD = "plugin exit"
_SIGNAL = signal.SIGVTALRM


class PluginWatch(ContextDecorator):
    """Watches the plugins' calls of the main thread, from the time it is entered until it is
    left."""

    def __init__(
        self,
        limit_s: float = STEP_LIMIT_S,
        end: Callable[[int], object] = os._exit,
        *,
        imports: bool = False,
    ) -> None:
        """``end`` ends the process with a status. Without ``imports`` only the plugins that are
        loaded by then are watched."""
        self._limit_s = limit_s
        self._imports = imports
        self._end = end
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._call: FrameType | None = None
        """Outermost frame of a plugin in the watched thread, when it was last looked at."""

    def __enter__(self) -> "PluginWatch":
        self._exit = os._exit
        os._exit = _exit_of(os._exit)  # type: ignore[assignment]
        self._set_limit = sys.setrecursionlimit
        # To lower the limit below the present depth would be a fatal error of the interpreter.
        sys.setrecursionlimit = _capped(sys.setrecursionlimit)
        # A signal interrupts a sleep, but only the main thread can handle one.
        self._over.clear()
        needed = self._imports or bool(plugins.files())
        if (
            needed
            and threading.current_thread() is threading.main_thread()
            and hasattr(signal, "pthread_kill")
        ):
            self._watched = threading.get_ident()
            self._previous = signal.signal(_SIGNAL, self._on_signal)
            self._thread = threading.Thread(target=self._watch, name="plugin watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os._exit = self._exit
        sys.setrecursionlimit = self._set_limit
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = self._call = None
            signal.signal(_SIGNAL, self._previous)

    def _watch(self) -> None:
        since_s, attempts = time.monotonic(), 0
        while not self._over.wait(self._limit_s / CHECKS_PER_LIMIT):
            # Looking into another thread's stack is a liberty that only a plugin justifies.
            call = None
            with suppress(Exception):  # out of memory, say: look again the next time
                call = (
                    _plugin_call(sys._current_frames().get(self._watched))
                    if plugins.files()
                    else None
                )
            if call is None or call is not self._call:
                self._call, since_s, attempts = call, time.monotonic(), 0
            elif time.monotonic() - since_s >= self._limit_s * (1 + attempts):
                attempts += 1
                if attempts > ATTEMPTS:
                    silent_s = time.monotonic() - since_s
                    text = (
                        f"vehicled: {_place(call)} has not returned for {silent_s:.0f} s and "
                        "ignores exceptions\n"
                    )
                    os.write(2, printable_lines(text).encode(errors="replace"))
                    self._end(STUCK_STATUS)
                    return
                signal.pthread_kill(self._watched, _SIGNAL)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        call = _plugin_call(frame)
        # The call may have returned since.
        if call is not None and call is self._call and not self._over.is_set():
            raise PluginStuckError(f"no return after {self._limit_s:g} s")


def watch_import(_name: str) -> PluginWatch:
    """Return the watch of a plugin's import."""
    return PluginWatch(IMPORT_LIMIT_S, imports=True)


def end_without_plugins(status: int, end: Callable[[int], object] = os._exit) -> None:
    """Let the process end with this status when its main thread has ended, although threads or exit
    functions of plugins go on.

    Call it last. It does nothing without plugins. ``end`` ends the process.
    """
    if plugins.files() and all(each.name != _EXIT_THREAD for each in threading.enumerate()):
        threading.Thread(
            target=_end_after_main, args=(status, end), name=_EXIT_THREAD, daemon=True
        ).start()


def _end_after_main(status: int, end: Callable[[int], object]) -> None:
    threading.main_thread().join()
    time.sleep(EXIT_LIMIT_S)
    with suppress(OSError):
        os.write(
            2,
            (
                f"vehicled: a plugin's thread or exit function goes on after {EXIT_LIMIT_S:g} s: "
                "ended without it\n"
            ).encode(),
        )
    end(status)


def _exit_of(end: Callable[[int], object]) -> Callable[[int], object]:
    """Return an ``os._exit`` for a process that plugins must not end."""
    watched = os.getpid()

    def _exit(status: int) -> object:
        if os.getpid() == watched and _plugin_call(sys._getframe()) is not None:
            raise SystemExit(f"os._exit({status})")
        return end(status)

    return _exit


def _capped(set_limit: Callable[[int], None]) -> Callable[[int], None]:
    """Return a ``sys.setrecursionlimit`` that goes up to ``MOST_CALLS``."""

    def setrecursionlimit(limit: int) -> None:
        set_limit(min(limit, MOST_CALLS))

    return setrecursionlimit


def _plugin_call(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame of a plugin's file in a stack; None if there is none."""
    found, files = None, plugins.files()
    while frame is not None:
        # A script that simulates with its own class is itself no call of it.
        if frame.f_code.co_filename in files and frame.f_globals.get("__name__") != "__main__":
            found = frame
        frame = frame.f_back
    return found


def _place(frame: FrameType) -> str:
    return (
        f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"
    )

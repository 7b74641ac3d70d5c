"""The command line: ``vehicled <command>``. Imports are lazy, because starting fast is part of being pleasant."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from vehicled.cli.arguments import build_parser
from vehicled.cli.parser import USAGE_STATUS

# One BLAS thread, decided before numpy is loaded by anyone: its helper threads would only disturb the loop, and results must
# not depend on how many cores there are.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

INTERRUPTED_STATUS = 130
DEFECT_STATUS = 70
"""Exit status after an error that is not the user's: a defect of this program."""
TRACE_VARIABLE = "VEHICLED_TRACEBACK"
"""Set in the environment, it shows the whole traceback of a defect."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns the exit status; a mistake in the input is a message, never a traceback."""
    _prepare_streams()
    # Until everything is loaded Ctrl-C ends the process the plain way: an import that is interrupted half-way fails in odd words.
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL) if threading.current_thread() is threading.main_thread() else None
    arguments = build_parser().parse(sys.argv[1:] if argv is None else argv)
    from importlib import import_module

    module, _, name = arguments.run.partition(":")
    from vehicled.cli.errors import expected_errors

    command = getattr(import_module(module), name)
    if previous is not None:
        signal.signal(signal.SIGINT, previous)
    try:
        status: int = command(arguments)
        sys.stdout.flush()
    except expected_errors() as error:
        return _say(str(error), USAGE_STATUS)
    except KeyboardInterrupt:
        # Before or after the drive: while it lasts, Ctrl-C is a request to the vehicle.
        return _say("interrupted", INTERRUPTED_STATUS)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not a failure of ours, and nothing to tell it.
        _forget_output()
        return 0
    except OSError as error:
        _forget_output()
        if error.errno == errno.ENOSPC:
            return _say("the output cannot be written: no space left", USAGE_STATUS)
        if error.filename is None or TRACE_VARIABLE in os.environ:
            return _defect(error, arguments.command)
        return _say(f"{error.filename}: {error.strerror}; name a file that can be used", USAGE_STATUS)
    except Exception as error:  # noqa: BLE001 - a defect is a message as well, with the way to its traceback
        return _defect(error, arguments.command)
    return status


def _prepare_streams() -> None:
    """Make sure that standard streams are there, and that no character ends the program on a terminal that does not know it."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # A file or socket must not get the number of a stream that the shell has closed.
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
        sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
        sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
        sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _forget_output() -> None:
    """Let nothing more be written to an output that takes nothing."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, status: int) -> int:
    with suppress(OSError):
        print(f"vehicled: {text}", file=sys.stderr)
    return status


def _defect(error: Exception, command: str) -> int:
    # The journal of a vehicle keeps the whole of it.
    if command == "run" or TRACE_VARIABLE in os.environ:
        raise error
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = "" if frame is None else f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}, line {frame.tb_lineno})"
    if "home" in str(error) and isinstance(error, RuntimeError):
        return _say("this user has no home directory: set HOME", USAGE_STATUS)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _say(f"a defect of vehicled, please report it: {text}{place}; {TRACE_VARIABLE}=1 shows all of it", DEFECT_STATUS)

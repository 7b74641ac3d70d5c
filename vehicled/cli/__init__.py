"""Entry point of the command line, ``vehicled <command>``. Modules are imported lazily so that
commands start fast."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from vehicled.cli.commands import build_parser
from vehicled.run.command_line import PASSING_STATUS, USAGE_STATUS

# Use one BLAS thread, set before numpy is imported: helper threads would disturb the loop, and
# results would depend on the number of cores.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

INTERRUPTED_STATUS = 130
DEFECT_STATUS = 70
"""Exit status after an internal error of this program."""
COMPLETION_VARIABLE = "_ARGCOMPLETE"
"""Environment variable that the completion of the shell sets: candidates are asked for, and no
command runs."""
TRACE_VARIABLE = "VEHICLED_TRACEBACK"
"""Environment variable; if set, internal errors print the whole traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Mistakes in the input are reported as a
    message, never as a traceback."""
    _prepare_streams()
    from vehicled.core.safe_text import safe_streams

    with safe_streams():
        status = _main(argv)
    from vehicled.runtime.plugin_watch import end_without_plugins

    end_without_plugins(status)
    return status


def _main(argv: Sequence[str] | None) -> int:
    # Until all modules are loaded, Ctrl-C ends the process by the default action: an interrupted
    # import fails with misleading errors.
    previous = (
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if threading.current_thread() is threading.main_thread()
        else None
    )
    parser = build_parser()
    if COMPLETION_VARIABLE in os.environ:
        from vehicled.cli.completion import complete

        complete(parser)
    arguments = parser.parse(sys.argv[1:] if argv is None else argv)
    from vehicled.core.errors import UserError, passes
    from vehicled.profile import plugins
    from vehicled.run.signals import own_interrupts
    from vehicled.runtime.plugin_watch import watch_import

    plugins.guard = watch_import
    if previous is not None:
        signal.signal(signal.SIGINT, previous)
    try:
        with own_interrupts():
            status: int = arguments.run(arguments)
        sys.stdout.flush()
    except UserError as error:
        return _say(str(error), PASSING_STATUS if error.passing else USAGE_STATUS)
    except KeyboardInterrupt:
        # During a drive Ctrl-C is a request to the vehicle; here it ends the program.
        return _say("interrupted", INTERRUPTED_STATUS)
    except BrokenPipeError:
        # The reader of our output is gone (`| head`): not an error.
        _forget_output()
        return 0
    except OSError as error:
        _forget_output()
        if error.errno == errno.ENOSPC:
            return _say("cannot write the output: no space left on the device", PASSING_STATUS)
        if error.filename is None or TRACE_VARIABLE in os.environ:
            return _defect(error, arguments.command)
        if passes(error):
            return _say(f"{error.filename}: {error.strerror}", PASSING_STATUS)
        return _say(f"{error.filename}: {error.strerror}; choose another file", USAGE_STATUS)
    except Exception as error:  # noqa: BLE001 - a defect is a message as well, with the way to its traceback
        return _defect(error, arguments.command)
    return status


def _prepare_streams() -> None:
    """Replace missing standard streams, and escape characters that the terminal cannot encode."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # Fill descriptors 0 to 2, so that no file or socket gets the number of a closed standard
        # stream.
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
    """Redirect standard output to the null device, so that flushing it at exit cannot fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, status: int) -> int:
    with suppress(OSError):
        print(f"vehicled: {text}", file=sys.stderr)
    return status


def _defect(error: Exception, command: str) -> int:
    # The system journal of a vehicle keeps the whole traceback.
    if command == "run" or TRACE_VARIABLE in os.environ:
        from traceback import print_exception

        print_exception(error)
        return DEFECT_STATUS
    from vehicled.core.error_text import error_text

    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = (
        ""
        if frame is None
        else f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}, line {frame.tb_lineno})"
    )
    if "home" in error_text(error) and isinstance(error, RuntimeError):
        return _say("this user has no home directory: set HOME", USAGE_STATUS)
    text = (
        f"internal error, please report it: {error_text(error)}{place}; set {TRACE_VARIABLE}=1 "
        "to see the traceback"
    )
    return _say(text, DEFECT_STATUS)

"""Process that drives runs one after another: ``python -m vehicled.offline.studies.worker FD``. It
ends with the study."""

import contextlib
import gc
import os
import signal
import sys
from itertools import count
from multiprocessing.connection import Connection

import msgspec

COLLECT_EVERY = 8
"""Runs between two collections of garbage: what a run leaves takes a few megabytes, and a
collection as long as its set-up."""


def main(descriptor: int) -> None:
    """Drive every request that arrives on the connection and send its row."""
    # Ctrl-C is for the study, which ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Only the study writes to the terminal; standard error is kept, because it shows why a process
    # died.
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
    from vehicled.offline.studies.conduct import RunRequest, conduct
    from vehicled.profile import plugins
    from vehicled.runtime.plugin_watch import watch_import

    plugins.guard = watch_import
    connection = Connection(descriptor)
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(RunRequest)
    with contextlib.suppress(EOFError, OSError):
        for number in count(1):
            connection.send_bytes(encoder.encode(conduct(decoder.decode(connection.recv_bytes()))))
            if number % COLLECT_EVERY == 0:
                gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]))

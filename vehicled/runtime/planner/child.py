"""Planning process: ``python -m vehicled.runtime.planner.child``, with a socket to the daemon as
its standard input.

It loads nothing before its first request: a daemon that never plans has a bare interpreter of 10 MB
beside it, and the loop never waits for a start.
"""

import os
import queue
import socket
import struct
import sys
import threading

from vehicled.core.child_process import be_expendable, be_modest

NICENESS = 10
_HEAD = struct.Struct("<IB")


def main() -> int:
    """Answer requests in order until the daemon is gone."""
    be_modest(NICENESS)
    be_expendable()
    channel = socket.socket(fileno=0)
    requests: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, requests), daemon=True).start()
    _, opening = requests.get()
    kind, payload = requests.get()

    from vehicled.runtime.planner.work import Work

    work = Work(opening)
    while True:
        for piece in work.reply(kind, payload):
            channel.sendall(piece)
        kind, payload = requests.get()


def _receive(channel: socket.socket, requests: "queue.SimpleQueue[tuple[int, bytes]]") -> None:
    """Queue the daemon's frames. Its end ends this process, even in the middle of a plan."""
    try:
        while True:
            length, kind = _HEAD.unpack(_exactly(channel, _HEAD.size))
            requests.put((kind, _exactly(channel, length)))
    finally:
        os._exit(0)


def _exactly(channel: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        received = channel.recv_into(view)
        if not received:
            raise EOFError
        view = view[received:]
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main())

"""Cost of the live view for the loop, with no readers and with four of which one never reads.

    python bench/view.py [--seconds 20] [--rounds 3] [--json]

The same drive on the wall clock, in turns: without a view (the reference), with a view that nobody
reads, and with two pages, a Foxglove client on four channels, and a Foxglove client on all channels
that never reads a byte. Per arm, over all rounds:

* share of the loop's time inside view code, wall and CPU, and the longest single piece, as the
  daemon's own account in its log says
* releases that missed their deadline or were skipped, per 10 000, and the 99.9 % quantile of the
  response over the reference's
* CPU time of the view's own process, as a share of one processor, readers included where they are
  its work
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from vehicled.core.messages import Event, TaskTick
from vehicled.log.reader import LogReader
from vehicled.log.schema import CHANNELS

NONE, ALONE, FOUR = "no view", "view, nobody looks", "view, four readers"
ARMS = (NONE, ALONE, FOUR)
FOXGLOVE = "foxglove.websocket.v1"
WARM_UP_NS = 3 * 10**9
"""Time left out at the start of each drive, while the processes of an arm, different for each,
start side by side."""
TOPICS = (
    "/vehicled/state_estimate",
    "/vehicled/actuator_command",
    "/vehicled/gnss_fix",
    "/vehicled/fault",
)


@contextmanager
def reader(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """A reader of the view, in a thread of this process."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def page(port: int) -> Callable[[threading.Event], None]:
    """A page that reads its messages."""

    def work(over: threading.Event) -> None:
        with (
            suppress(ConnectionClosed, OSError),
            connect(f"ws://127.0.0.1:{port}/socket", compression=None) as client,
        ):
            while not over.is_set():
                with suppress(TimeoutError):
                    client.recv(timeout=0.2)

    return work


def foxglove(port: int) -> Callable[[threading.Event], None]:
    """A Foxglove client with a few panels."""
    channels = [channel.id for channel in CHANNELS.values() if channel.topic in TOPICS]

    def work(over: threading.Event) -> None:
        with (
            suppress(ConnectionClosed, OSError),
            connect(f"ws://127.0.0.1:{port}/", subprotocols=[Subprotocol(FOXGLOVE)]) as client,
        ):
            client.send(
                json.dumps(
                    {
                        "op": "subscribe",
                        "subscriptions": [{"id": n, "channelId": n} for n in channels],
                    }
                )
            )
            while not over.is_set():
                with suppress(TimeoutError):
                    client.recv(timeout=0.2)

    return work


def never_reads(port: int) -> Callable[[threading.Event], None]:
    """A Foxglove client that subscribes to everything and reads nothing; reconnects after a
    hang-up."""
    wanted = json.dumps(
        {
            "op": "subscribe",
            "subscriptions": [{"id": c.id, "channelId": c.id} for c in CHANNELS.values()],
        }
    ).encode()
    request = (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: "
        "Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {FOXGLOVE}\r\n\r\n"
    ).encode()

    def work(over: threading.Event) -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(
                    request + b"\x81\xfe" + len(wanted).to_bytes(2, "big") + bytes(4) + wanted
                )
                end_s = time.monotonic() + 12.0
                while not over.is_set() and time.monotonic() < end_s:
                    time.sleep(0.1)

    return work


def drive(arm: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Run one drive and return its figures from the log."""
    command = [
        sys.executable,
        "-m",
        "vehicled",
        "sim",
        "--clock",
        "wall",
        "--profile",
        "art_vesc",
        "--course",
        "circle_r5_ccw",
    ]
    command += ["--laps", "9", "--duration", str(seconds), "--quiet", "--log", str(folder)]
    # A machine that is busy with others must not end a drive early.
    for key in (
        "imu_silence_s",
        "estimate_silence_s",
        "control_silence_s",
        "loop_silence_s",
        "telemetry_silence_s",
    ):
        command += ["--set", f"limits.{key}=2"]
    command += [] if arm == NONE else ["--view", "127.0.0.1:0"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    child_s = 0.0
    with process, ExitStack() as stack:
        if arm != NONE:
            port = int(process.stderr.readline().rpartition(":")[2].strip().strip("/"))
            child = _child_of(process.pid)
            if arm == FOUR:
                for work in (page(port), page(port), foxglove(port), never_reads(port)):
                    stack.enter_context(reader(work))
            while process.poll() is None:
                child_s = _cpu_s(child) or child_s
                time.sleep(0.1)
        process.wait()
    (log,) = folder.glob("*.mcap")
    with LogReader(str(log)) as found:
        ticks = [record.message for record in found.messages(TaskTick)]
        ticks = [tick for tick in ticks if tick.release_ns - ticks[0].release_ns > WARM_UP_NS]
        events = [record.message for record in found.messages(Event)]
    cost: dict[str, Any] = next(
        (json.loads(event.fields) for event in events if event.name == "bridge_cost"), {}
    )
    return {
        "releases": len(ticks) + sum(tick.skipped for tick in ticks),
        "lost": sum(tick.missed + tick.skipped for tick in ticks),
        "responses_ms": [(tick.end_ns - tick.release_ns) * 1e-6 for tick in ticks],
        "cost": cost,
        "child_share": child_s / seconds,
    }


def _child_of(pid: int) -> int:
    """Return the view's process among the children of a daemon."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(
        int(child)
        for child in children
        if b"vehicled.live.view.server" in Path(f"/proc/{child}/cmdline").read_bytes()
    )


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Return all figures by arm."""
    done: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        # Turned round every time, so that no arm always comes after the same other.
        for arm in ARMS[number % 3 :] + ARMS[: number % 3]:
            with tempfile.TemporaryDirectory() as folder:
                done[arm].append(drive(arm, seconds, Path(folder)))
    tails = {
        arm: float(np.quantile([ms for drive in drives for ms in drive["responses_ms"]], 0.999))
        for arm, drives in done.items()
    }
    figures: dict[str, dict[str, float]] = {}
    for arm, drives in done.items():
        releases = sum(drive["releases"] for drive in drives)
        figures[arm] = {
            "lost_per_10000": 1e4 * sum(drive["lost"] for drive in drives) / releases,
            "response_p999_ratio": tails[arm] / tails[NONE],
        }
        if arm != NONE:
            costs = [drive["cost"] for drive in drives]
            figures[arm] |= {
                "loop_wall_share": float(np.mean([cost["wall_share"] for cost in costs])),
                "loop_cpu_share": float(np.mean([cost["cpu_share"] for cost in costs])),
                "longest_us": max(cost["longest_us"] for cost in costs),
                "dropped_frames": sum(sum(cost["dropped"].values()) for cost in costs),
                "child_cpu_share": float(np.mean([drive["child_share"] for drive in drives])),
            }
    return figures


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = run(arguments.seconds, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for arm, values in figures.items():
        print(arm)
        for name, value in values.items():
            print(f"  {name:<22} {value:.4g}")


if __name__ == "__main__":
    main()

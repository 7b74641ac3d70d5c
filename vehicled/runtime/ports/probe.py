"""Identifies the device on a port: listens at the usual baud rates and tries every decoder. Sends
nothing."""

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

import anyio
from msgspec import Struct

from vehicled.core.messages import PortState
from vehicled.daemon.recognition import Decoder, best_format
from vehicled.runtime.ports.factory import make_port

BAUDS = (115_200, 921_600, 460_800, 38_400, 9_600, 230_400, 250_000, 420_000)
"""Baud rates of the supported devices, the commonest first."""
SBUS = "baud=100000&frame=8E2"
"""Line of SBUS, which alone has parity: at 8N1 its bytes would be others."""


class Answer(Struct, frozen=True):
    """Result of listening on a port."""

    baud: int
    bytes: int
    driver: str = ""
    """Name of the matching decoder; empty if none matched."""
    messages: tuple[tuple[str, float], ...] = ()
    """Rate (Hz) of each message type."""
    gap_p99_ms: float = 0.0
    """Time between arrivals (99 %), ms; shows the delay of a slow adapter or a busy system."""
    trouble: str = ""
    """Reason why the port could not be read."""


class _Ear:
    """Host that collects the received bytes of one port."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.arrivals_ns: list[int] = []
        self.trouble = ""
        self.opened = anyio.Event()

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        self.trouble = "" if state is PortState.OPENED else detail
        if state is PortState.OPENED:
            self.opened.set()

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self.data += data
        self.arrivals_ns.append(t_rx_ns)


async def probe(
    url: str, decoders: Mapping[str, Decoder], seconds: float = 1.2, bauds: Sequence[int] = BAUDS
) -> Answer:
    """Listen at each baud rate until a decoder matches, and then as SBUS needs it. Never raises for
    device errors."""
    best = Answer(0, 0)
    for options in [*[f"baud={baud}" for baud in bauds], SBUS]:
        ear, baud = _Ear(), int(options.partition("&")[0].removeprefix("baud="))
        port = make_port("probed", f"{url}?{options}")
        begin_ns = time.monotonic_ns()
        with anyio.move_on_after(seconds):
            await port.serve(ear)
        await port.aclose()
        if ear.trouble:
            return Answer(baud, 0, trouble=ear.trouble)
        elapsed_s = (time.monotonic_ns() - begin_ns) * 1e-9
        answer = judge(bytes(ear.data), ear.arrivals_ns, baud, elapsed_s, decoders)
        if answer.driver:
            return answer
        if answer.bytes > best.bytes:
            best = answer
    return best


async def ask(
    url: str, question: bytes, decode: Decoder, baud: int = BAUDS[0], seconds: float = 0.6
) -> dict[str, object]:
    """Send a question that changes nothing, and return what the device answers, by the name of the
    message. Never raises for it."""
    ear, port = _Ear(), make_port("asked", url if "baud=" in url else f"{url}?baud={baud}")

    async def send() -> None:
        await ear.opened.wait()
        now_ns = time.monotonic_ns()
        port.send(question, now_ns + 1_000_000_000, now_ns)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await port.serve(ear)
    await port.aclose()
    return dict(decode(bytes(ear.data)))


def judge(
    data: bytes,
    arrivals_ns: Sequence[int],
    baud: int,
    elapsed_s: float,
    decoders: Mapping[str, Decoder],
) -> Answer:
    """Return the best decoder and what it found."""
    driver, counts = best_format(data, decoders)
    gaps = sorted(later - sooner for sooner, later in pairwise(arrivals_ns))
    gap_ns = gaps[min(len(gaps) - 1, len(gaps) * 99 // 100)] if gaps else 0
    rates = tuple((kind, count / elapsed_s) for kind, count in counts.most_common())
    return Answer(baud, len(data), driver, rates, gap_ns * 1e-6)

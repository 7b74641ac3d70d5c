"""The lockstep pump against a simulator that keeps no time: every run ends with a reason, and none
that keeps time does."""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.link import Frame, Hello, LinkFrameKind
from vehicled.core.link_time import MAX_STEP_NS
from vehicled.daemon.machine import Outgoing
from vehicled.runtime.ending import Ending, Outcome
from vehicled.runtime.lockstep import run_lockstep

START = 1_000_000_000
PERIOD = 10_000_000
MAX_BATCHES = 100_000


class Machine:
    """Runs one task every 10 ms."""

    ports = ("gnss", "drive")

    def __init__(self) -> None:
        self.executive = SimpleNamespace(busy_until_ns=0)
        self.now_ns = START - PERIOD
        self.received: list[int] = []

    def start(self, now_ns: int) -> None: ...

    def on_port(self, *_: Any) -> None: ...

    def on_time(self, now_ns: int) -> None:
        assert now_ns > self.now_ns, "time goes forward"
        self.now_ns = now_ns

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self.received.append(t_rx_ns)

    def take_tx(self) -> Sequence[Outgoing]:
        return ()

    def next_due_ns(self) -> int:
        return self.now_ns + PERIOD

    def next_output_ns(self) -> int:
        return self.now_ns + PERIOD


class Run:
    """Ends after some turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def turn(self, now_ns: int) -> Ending | None:
        self.turns -= 1
        return Ending(Outcome.FINISHED, "done", now_ns) if self.turns <= 0 else None

    def lost(self, why: str, now_ns: int) -> Ending:
        return Ending(Outcome.NOT_FINISHED, why, now_ns)


class Stopwatch:
    def wake_ns(self, due_ns: int, free_ns: int) -> int:
        return max(due_ns, free_ns)


class Simulator:
    """Link to a simulator that sends what a function of (number of the batch, instant asked for)
    returns."""

    def __init__(
        self, send: Callable[[int, int], Iterable[Frame]], clock: "Clock", wait_s: float = 0.0
    ) -> None:
        self.ports = ["gnss", "drive"]
        self.hello = Hello(role="simulator", clock="lockstep", ports=self.ports, start_ns=START)
        self._send, self._clock, self._wait_s = send, clock, wait_s
        self.batches, self.asked_ns = 0, START

    def receive(self) -> Iterable[Frame]:
        self.batches += 1
        assert self.batches < MAX_BATCHES, "it hangs"
        self._clock.now_s += self._wait_s
        return self._send(self.batches, self.asked_ns)

    def reply(self, outgoing: Sequence[Outgoing], wake_ns: int | None) -> None:
        if wake_ns is not None:
            self.asked_ns = wake_ns

    def close(self, reason: str) -> None: ...


class Clock:
    """The clock of the computer; each look takes a millisecond."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1e-3
        return self.now_s


def run(
    send: Callable[[int, int], Iterable[Frame]], *, turns: int = 1000, wait_s: float = 0.0
) -> tuple[Ending, Simulator]:
    clock = Clock()
    simulator = Simulator(send, clock, wait_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", clock)
        ending = run_lockstep(Machine(), simulator, Run(turns), Stopwatch())  # type: ignore[arg-type]
    return ending, simulator


def grant(t_ns: int) -> Frame:
    return LinkFrameKind.GRANT, 0, t_ns, b""


def data(t_ns: int, port: int = 0) -> Frame:
    return LinkFrameKind.DATA, port, t_ns, b"x"


def after(
    count: int, hostile: Callable[[int], Iterable[Frame]]
) -> Callable[[int, int], Iterable[Frame]]:
    """Keep time for some batches, then do something else."""
    return lambda batch, asked_ns: (
        [data(asked_ns), grant(asked_ns)] if batch <= count else hostile(asked_ns)
    )


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (lambda asked: [grant(asked - PERIOD - 1)], "its time went back"),
        (lambda asked: [grant(-1)], "its time went back"),
        (lambda asked: [grant(asked + MAX_STEP_NS + 1)],
         "granted time 1.000 s after the present instant"),
        (lambda asked: [grant(2**62)], "after the present instant"),
        (lambda asked: [data(asked - PERIOD - MAX_STEP_NS - 1), grant(asked)],
         "stamped bytes 1.000 s before the present instant"),
        (lambda asked: [data(2**63 - 1)], "stamped bytes"),
        (lambda asked: [data(asked, port=2), grant(asked)], "a port that it did not announce"),
        (lambda asked: [grant(asked - PERIOD)], "no time for 5 s, although it sends"),
        (lambda asked: [data(asked - PERIOD)] * 50, "no time for 5 s, although it sends"),
        (
            lambda asked: [(LinkFrameKind.SYNC, 0, 0, b""), (LinkFrameKind.HELLO, 0, 0, b"{}"),
                (LinkFrameKind.LINE, 0, 0, b"")],
            "no time for 5 s",
        ),
        (lambda asked: [], "no time for 5 s"),
        (lambda asked: [(LinkFrameKind.BYE, 0, 0, b"\x1b]0;owned\x07" + b"A" * 100_000)],
        r"\u001b]0;owned\u0007AAA"),
    ],
)  # fmt: skip
def test_a_simulator_that_keeps_no_time_is_ended_with_a_reason(
    hostile: Callable[[int], Iterable[Frame]], said: str
) -> None:
    ending, simulator = run(after(20, hostile))
    assert said in ending.why
    assert ending.why.isprintable()
    assert len(ending.why) < 300
    assert ending.outcome is Outcome.NOT_FINISHED
    assert simulator.batches > 20


def test_a_time_that_only_crawls_is_ended_too() -> None:
    crawled = START

    def crawl(batch: int, asked_ns: int) -> list[Frame]:
        nonlocal crawled
        crawled += 1
        return [grant(crawled)]

    assert "no time for 5 s" in run(crawl)[0].why


@pytest.mark.parametrize("wait_s", [0.0, 0.9, 4.0, 100.0])
def test_a_slow_simulator_keeps_time(wait_s: float) -> None:
    """It may also be stopped for a while, or a debugger may stop both."""
    assert run(after(10**9, lambda asked: []), turns=50, wait_s=wait_s)[0].why == "done"


def test_a_simulator_with_smaller_steps_than_the_daemon_asks_for_keeps_time() -> None:
    granted = START - 1_000_000

    def step(batch: int, asked_ns: int) -> list[Frame]:
        nonlocal granted
        granted = min(granted + 1_000_000, asked_ns)
        return [grant(granted)]

    assert run(step, turns=50, wait_s=0.9)[0].why == "done"


def test_bytes_that_are_a_little_late_are_taken() -> None:
    ending, _ = run(
        after(5, lambda asked: [data(asked - PERIOD - 1_000_000), grant(asked)]), turns=20
    )
    assert ending.why == "done"


kinds = st.sampled_from(
    [
        LinkFrameKind.DATA,
        LinkFrameKind.GRANT,
        LinkFrameKind.GRANT,
        LinkFrameKind.SYNC,
        LinkFrameKind.DONE,
    ]
)
steps = st.integers(-3 * PERIOD, 3 * PERIOD) | st.integers(-(2**63), 2**63 - 1) | st.just(0)


@given(
    st.lists(
        st.lists(st.tuples(kinds, st.integers(0, 3), steps), max_size=4), min_size=1, max_size=12
    )
)
def test_any_frames_end_the_run_sooner_or_later(
    batches: list[list[tuple[LinkFrameKind, int, int]]],
) -> None:
    def send(batch: int, asked_ns: int) -> list[Frame]:
        return [
            (kind, port, max(-(2**63), min(asked_ns + step, 2**63 - 1)), b"")
            for kind, port, step in batches[batch % len(batches)]
        ]

    ending, _ = run(send, turns=30)
    assert ending.why

"""Lines and turns of the control socket: any chunking, bounded memory; work in gaps, for a small
fraction of the time."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.live.control_socket import turns
from vehicled.live.control_socket.lines import PIECE_BYTES, LineReader, LineTooLongError
from vehicled.live.control_socket.protocol import COURSE_BEGINS, MAX_COURSE_LINE, MAX_LINE
from vehicled.live.control_socket.turns import Turns

short = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))
courses = st.integers(MAX_LINE, MAX_LINE + 500).map(lambda size: COURSE_BEGINS.ljust(size, b"x"))


def joined(line: object) -> bytes:
    return b"".join(line) if isinstance(line, list) else bytes(line)  # type: ignore[call-overload]


@given(st.lists(short | courses, max_size=4), st.data())
def test_any_chunking_gives_the_same_lines(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in sent)
    reader, got = LineReader(), []
    while stream:
        size = data.draw(st.integers(1, 200) | st.integers(len(stream) // 2 + 1, len(stream)))
        got += reader.feed(stream[:size])
        stream = stream[size:]
    assert [joined(line) for line in got] == sent
    for line in got:
        assert isinstance(line, list) is (len(joined(line)) > MAX_LINE)
        assert not isinstance(line, list) or max(map(len, line)) <= PIECE_BYTES + 1


def test_a_course_that_comes_byte_by_byte_is_kept_in_few_pieces() -> None:
    reader = LineReader()
    line = COURSE_BEGINS.ljust(20_000, b"x")
    for k in range(len(line)):
        assert reader.feed(line[k : k + 1]) == []
    assert reader.in_course
    (pieces,) = reader.feed(b"\n")
    assert len(pieces) < 10
    assert not reader.in_course


@pytest.mark.parametrize(("begin", "most"), [(b"{", MAX_LINE), (COURSE_BEGINS, MAX_COURSE_LINE)])
def test_a_line_without_end_is_refused(begin: bytes, most: int) -> None:
    reader = LineReader()
    reader.feed(begin)
    with pytest.raises(LineTooLongError, match=str(most)):
        list(map(reader.feed, [b"x" * 60_000] * (most // 60_000 + 2)))


def test_a_long_line_between_short_ones_is_refused_too() -> None:
    with pytest.raises(LineTooLongError):
        LineReader().feed(b"a\n" + b"x" * (MAX_LINE + 1) + b"\nb\n")


class Loop:
    """A loop whose task is due every ``period_ns`` and takes ``busy_ns``; sleeping and working pass
    its time."""

    def __init__(self, period_ns: int, busy_ns: int) -> None:
        self.now_ns = 0
        self._period_ns, self._busy_ns = period_ns, busy_ns
        self._due_ns = period_ns
        self.late_ns: list[int] = []

    def due_ns(self) -> int:
        return self._due_ns

    def run(self) -> None:
        while self._due_ns <= self.now_ns:
            self.late_ns.append(self.now_ns - self._due_ns)
            self.now_ns += self._busy_ns
            self._due_ns = (self.now_ns // self._period_ns + 1) * self._period_ns

    async def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        self.run()

    async def checkpoint(self) -> None:
        self.run()


@given(
    st.integers(1_000_000, 20_000_000),
    st.floats(0.0, 0.9),
    st.lists(st.integers(10_000, 400_000), min_size=5, max_size=60),
)
def test_requests_are_served_in_gaps_and_take_a_small_fraction(
    period_ns: int, busy: float, costs_ns: list[int]
) -> None:
    loop = Loop(period_ns, round(busy * period_ns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anyio.sleep", loop.sleep)
        patch.setattr("anyio.lowlevel.checkpoint", loop.checkpoint)
        patch.setattr("time.perf_counter_ns", lambda: loop.now_ns)
        patch.setattr("time.monotonic", lambda: loop.now_ns * 1e-9)
        taken = Turns(lambda: loop.now_ns, loop.due_ns)
        longest_ns, worst_ns = max(costs_ns), 0

        async def work() -> None:
            nonlocal worst_ns
            for cost_ns in costs_ns:

                def act(cost_ns: int = cost_ns) -> int:
                    loop.now_ns += cost_ns
                    return cost_ns

                assert await taken.take("kind", act) == cost_ns
                worst_ns = max(worst_ns, loop.now_ns - loop.due_ns())

        anyio.run(work)
    total_ns = loop.now_ns
    assert sum(costs_ns[:-1]) <= turns.TIME_FRACTION * total_ns + longest_ns
    gap_ns = period_ns - round(busy * period_ns)
    if gap_ns > 4 * longest_ns:
        # The first of a kind may come at any time; after it there is always room for one twice as
        # long.
        assert worst_ns <= costs_ns[0] or worst_ns <= longest_ns // 2


async def _served(order: list[int], served: Turns, k: int) -> None:
    await served.take("kind", lambda: order.append(k))


def test_everybody_has_a_turn_in_the_order_of_asking() -> None:
    order: list[int] = []

    async def main() -> None:
        served = Turns(lambda: 0)
        async with anyio.create_task_group() as group:
            for k in range(5):
                group.start_soon(_served, order, served, k)

    anyio.run(main)
    assert sorted(order) == list(range(5))

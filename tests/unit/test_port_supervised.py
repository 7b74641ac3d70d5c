"""Supervision on a channel that fails on command: episodes, back-off, what is owed, changes of
rate."""

import random
from collections.abc import Callable
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from tests.conformance.port_kit import Recorder, now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.ports.backoff import Backoff, Retry
from vehicled.runtime.ports.contract import ClosedError, Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.supervised import SupervisedPort

OPENED, LOST, ERROR = PortState.OPENED, PortState.LOST, PortState.ERROR
FAST = Retry(min_s=0.001, max_s=0.002)


class FakeChannel:
    """A channel without a descriptor: it is asked again every millisecond."""

    def __init__(self) -> None:
        self.detail = "fake"
        self.retry_s: float | None = 0.001
        self.owes = False
        self.room = 1 << 30
        self.wire: list[bytes | int] = []
        self.closed: list[bool] = []
        self.why = ""
        self.deliver: Deliver | None = None
        self.changing: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        return -1

    async def receive(self, deliver: Deliver) -> None:
        self.deliver = deliver
        while not self.why:  # noqa: ASYNC110 - it stands in for a descriptor, which is polled as well
            await anyio.sleep(0.0005)
        raise LostError(self.why)

    def write(self, data: bytes) -> int:
        if self.why:
            raise LostError(self.why)
        taken = min(self.room, len(data))
        self.room -= taken
        if taken:
            self.wire.append(data[:taken])
        return taken

    async def change_baud(self, baud: int) -> None:
        await anyio.sleep(0.002)
        self.changing()
        if baud == 13:
            raise LostError("no such rate")
        self.wire.append(baud)

    async def aclose(self, *, drain: bool) -> None:
        self.closed.append(drain)


class Opener:
    """Opens what it was given, one after the other; an exception stands for an attempt that
    fails."""

    def __init__(self, *plan: FakeChannel | OpenError) -> None:
        self.plan = list(plan)
        self.attempts = 0

    async def __call__(self, counts: PortCounts) -> FakeChannel:
        await anyio.lowlevel.checkpoint()
        self.attempts += 1
        item = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
        if isinstance(item, OpenError):
            raise item
        return item


@pytest.mark.anyio
async def test_an_episode_is_reported_once_with_its_first_reason():
    channel = FakeChannel()
    opener = Opener(
        OpenError("busy"), OpenError("no permission"), OpenError("no permission"), channel
    )
    port = SupervisedPort("imu", opener, retry=FAST)
    async with serving(port) as host:
        await host.reached(ERROR, OPENED)
        assert host.details[0] == "busy"
        assert host.details[1].startswith("fake; after")
        assert host.details[1].endswith("4 attempts")
        opener.plan = [OpenError("gone")]
        channel.why = "unplugged"
        await until(lambda: port.trouble == "gone")
        again = FakeChannel()
        opener.plan = [again]
        await host.reached(ERROR, OPENED, LOST, OPENED)
        assert host.details[2] == "unplugged"
        assert port.trouble == ""
    assert channel.closed == [False]
    assert again.closed == [True]


@pytest.mark.anyio
async def test_lost_while_the_host_handles_the_opening():
    """A device configures at once; the first write may find the port dead, before anyone reads
    it."""
    first, second = FakeChannel(), FakeChannel()
    first.why = "dead on arrival"
    port = SupervisedPort("imu", Opener(first, second), retry=FAST)
    answers = []

    class Configuring(Recorder):
        def on_port(self, name: str, state: PortState, detail: str, t_ns: int) -> None:
            super().on_port(name, state, detail, t_ns)
            answers.append(port.send(b"configure", NEVER_NS, now_ns()))

    host = Configuring()
    async with anyio.create_task_group() as group:
        group.start_soon(port.serve, host)
        await host.reached(OPENED, LOST, OPENED)
        group.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        await port.aclose()
    assert answers == [False, False, True]
    assert second.wire == [b"configure"]
    assert host.details[1] == "dead on arrival"


@pytest.mark.anyio
async def test_what_is_owed_leaves_first():
    class Owing(FakeChannel):
        def write(self, data: bytes) -> int:
            if not data:
                self.owes = False
                self.wire.append(b"owed")
            return super().write(data)

    channel = Owing()
    port = SupervisedPort("imu", Opener(channel))
    async with serving(port) as host:
        await host.reached(OPENED)
        channel.owes = True
        assert port.send(b"next", NEVER_NS, now_ns())
        assert channel.wire == [b"owed", b"next"]


@pytest.mark.anyio
async def test_a_full_channel_is_tried_again():
    channel = FakeChannel()
    channel.room = 3
    port = SupervisedPort("imu", Opener(channel))
    async with serving(port) as host:
        await host.reached(OPENED)
        assert port.send(b"abcdef", NEVER_NS, now_ns())
        assert port.send(b"ghi", NEVER_NS, now_ns())
        assert channel.wire == [b"abc"]
        await anyio.sleep(0.01)
        assert channel.wire == [b"abc"]
        channel.room = 4
        await until(lambda: channel.wire == [b"abc", b"def", b"g"])
        channel.room = 100
        await until(lambda: channel.wire == [b"abc", b"def", b"g", b"hi"])


@pytest.mark.anyio
async def test_a_change_of_rate_asked_for_during_another():
    channel = FakeChannel()
    port = SupervisedPort("imu", Opener(channel))
    async with serving(port) as host:
        await host.reached(OPENED)
        port.set_baud(9600)
        seen: list[bool] = []

        def meanwhile() -> None:
            if not seen:
                seen.append(port.send(b"slow", NEVER_NS, now_ns()))
                port.set_baud(460_800)
                seen.append(port.send(b"fast", NEVER_NS, now_ns()))

        channel.changing = meanwhile
        await until(lambda: channel.wire == [9600, b"slow", 460_800, b"fast"])
        assert seen == [True, True]


@pytest.mark.anyio
async def test_a_rate_that_cannot_be_set_is_a_loss():
    channel = FakeChannel()
    port = SupervisedPort("imu", Opener(channel), retry=FAST)
    async with serving(port) as host:
        await host.reached(OPENED)
        port.set_baud(13)
        await host.reached(OPENED, LOST)
        assert host.details[1] == "no such rate"


@pytest.mark.anyio
async def test_no_action_on_a_closed_port_does_anything():
    port = SupervisedPort("imu", Opener(OpenError("never")), retry=FAST)
    port.set_baud(9600)
    port.reopen("why not")
    assert not port.send(b"x", NEVER_NS, now_ns())
    await port.aclose()
    assert port.counts == PortCounts(refused=1)


@pytest.mark.anyio
async def test_a_frame_that_could_never_fit_is_refused():
    channel = FakeChannel()
    port = SupervisedPort("imu", Opener(channel), tx_limit_bytes=10)
    async with serving(port) as host:
        await host.reached(OPENED)
        assert not port.send(b"x" * 11, NEVER_NS, now_ns())
        assert port.send(b"", NEVER_NS, now_ns())
        assert port.send(b"x" * 10, NEVER_NS, now_ns())
        assert channel.wire == [b"x" * 10]


def test_pauses_grow_and_stay_in_their_bounds():
    retry = Retry(min_s=0.1, max_s=3.0)
    for seed in range(50):
        backoff = Backoff(retry, random.Random(seed))
        pauses = [backoff.pause_s() for _ in range(12)]
        assert all(0.1 <= pause <= 3.0 for pause in pauses)
        assert pauses[0] <= 0.2
        assert all(later > earlier / 2 for earlier, later in pairwise(pauses))
        assert all(pause >= 1.5 for pause in pauses[5:])
        backoff.reset()
        assert backoff.pause_s() <= 0.2


def test_pauses_differ_between_ports():
    first, second = (Backoff(Retry(), random.Random(seed)) for seed in (1, 2))
    assert [first.pause_s() for _ in range(5)] != [second.pause_s() for _ in range(5)]


@pytest.mark.parametrize("min_s", [0.1, 1.0, 60.0])
def test_a_bound_that_is_one_value(min_s):
    backoff = Backoff(Retry(min_s=min_s, max_s=min_s), random.Random(1))
    assert [backoff.pause_s() for _ in range(4)] == [min_s] * 4


@pytest.mark.anyio
async def test_a_server_that_closes_soon_is_returned_to_after_the_longer_pauses():
    class Closing(FakeChannel):
        async def receive(self, deliver: Deliver) -> None:
            raise ClosedError("closed")

    opener = Opener(Closing())
    port = SupervisedPort("caster", opener, retry=FAST, closed_retry=Retry(min_s=30.0, max_s=60.0))
    async with serving(port) as host:
        await host.reached(OPENED, LOST)
        await anyio.sleep(0.1)
        assert opener.attempts == 1
        port.pause(0.02, 0.04)
        await until(lambda: opener.attempts >= 2)


@pytest.mark.anyio
async def test_a_device_sets_the_pause_of_its_closed_port_and_it_lasts_until_it_is_open():
    opener = Opener(OpenError("refused"))
    port = SupervisedPort("caster", opener, retry=FAST)
    async with serving(port) as host:
        await host.reached(ERROR)
        port.pause(30.0, 60.0)
        await anyio.sleep(0.02)
        before = opener.attempts
        await anyio.sleep(0.1)
        assert opener.attempts == before
        opener.plan = [FakeChannel()]
        port.pause(0.001, 0.002)
        await host.reached(ERROR, OPENED)


@pytest.mark.anyio
async def test_a_port_that_falls_at_once_is_not_hammered():
    """Back-off goes on where it was: opening alone is no recovery."""

    def dead() -> FakeChannel:
        channel = FakeChannel()
        channel.why = "falls at once"
        return channel

    class Flapping(Opener):
        async def __call__(self, counts: PortCounts) -> FakeChannel:
            self.attempts += 1
            return dead()

    opener = Flapping()
    pauses: list[float] = []

    class Watched(random.Random):
        def uniform(self, a: float, b: float) -> float:
            pauses.append(b)
            return super().uniform(a, b)

    rng = Watched(5)
    port = SupervisedPort("imu", opener, retry=Retry(min_s=0.001, max_s=0.02), rng=rng)
    async with serving(port):
        await until(lambda: opener.attempts >= 7)
    assert [round(upper, 4) for upper in pauses[:6]] == [0.002, 0.004, 0.008, 0.016, 0.02, 0.02]

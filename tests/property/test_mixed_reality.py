"""Whatever a virtual world sends, it makes the vehicle slower, never faster, and nothing but the
obstacle stop learns of it."""

from functools import lru_cache
from math import inf, nan, pi
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from sim_backend.connection import START_NS
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    MapPose,
    Message,
    Mode,
    Reaction,
    StateEstimate,
    VirtualScan,
    VirtualWorld,
)
from vehicled.daemon.app import build, wire
from vehicled.daemon.machine import Machine
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.run.pair import Pair
from vehicled.runtime.board.recording import virtual_stopwatch

pytestmark = pytest.mark.xdist_group("mixed reality")  # the drive is recorded once

MS = 1_000_000
DRIVE_S = 3.0
SCANNER = (
    "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45,0.0,0.15]",
)  # fmt: skip
PROFILE, COURSE = load_profile("art_vesc", SCANNER), load_course("circle_r5_ccw")
ROUNDING_MPS = 1e-12
VERBS = ("on_rx", "on_port", "on_message", "on_time", "start")


class Outputs:
    """Messages that a machine makes, by type."""

    def __init__(self) -> None:
        self.by_type: dict[type[Message], list[Any]] = {}

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.by_type.setdefault(type(message), []).append(message)


class RecordedPair(Pair):
    """A drive whose inputs of the machine are kept."""

    def start(self, now_ns: int) -> None:
        """Start a daemon, and keep its inputs."""
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        build_machine = Machine.start

        def start(machine: Machine, at_ns: int) -> None:
            for verb in VERBS:
                setattr(machine, verb, self._kept(verb, getattr(machine, verb)))
            self.calls.append(("start", (at_ns,)))
            build_machine(machine, at_ns)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Machine, "start", start)
            super().start(now_ns)

    def _kept(self, verb: str, call: Any) -> Any:
        def kept(*arguments: Any) -> Any:
            self.calls.append((verb, arguments))
            return call(*arguments)

        return kept


@lru_cache(maxsize=1)
def recorded() -> list[tuple[str, tuple[Any, ...]]]:
    with TemporaryDirectory() as folder:
        # A real post, so that a virtual world could also hide something.
        (scene := Path(folder) / "scene.toml").write_text(
            "[[circle]]\nat = { s_m = 4.0 }\nradius_m = 0.2\n"
        )
        profile = load_profile("art_vesc", [*SCANNER, f"sim.scene={scene}"])
        pair = RecordedPair(profile, COURSE, [], Outputs(), 3, link="messages")
    while pair.now_ns < START_NS + DRIVE_S * 1_000_000_000:
        pair.grant()
        pair.reply()
    assert pair.machine.mode is Mode.AUTO
    assert pair.machine.supervisor.reaction is Reaction.CAP_SPEED
    return pair.calls


class Driven:
    """The recorded inputs once more, with virtual messages among them."""

    def __init__(self, virtual: list[tuple[int, Message]]) -> None:
        self.outputs = Outputs()
        self.observed: set[type[Message]] = set()
        self.caps: list[tuple[Mode, float]] = []
        """Mode, and speed cap of the supervisor, after each input."""
        wiring = wire(PROFILE, "messages")
        self.machine = build(
            PROFILE, COURSE, wiring, virtual_stopwatch(wiring, None, START_NS, 3), self.outputs,
            around=self._around, virtual=True,
        )  # fmt: skip
        left = sorted(virtual, key=lambda each: each[0])
        for verb, arguments in recorded():
            now_ns = arguments[-1]
            while left and left[0][0] <= now_ns and verb == "on_time":
                self.machine.on_message(left.pop(0)[1], now_ns)
            getattr(self.machine, verb)(*arguments)
            self.machine.take_tx()
            supervisor = self.machine.supervisor
            self.caps.append((supervisor.mode, supervisor.speed_cap_mps))

    def _around(self, estimator: Any, controller: Any) -> tuple[Any, Any]:
        observe = estimator.observe

        def seen(message: Message) -> None:
            self.observed.add(type(message))
            observe(message)

        estimator.observe = seen
        # It would know that the vehicle was stopped, and this recorded one was not.
        estimator.command = lambda command: None
        return estimator, controller

    def of(self, kind: type[Message]) -> list[Any]:
        """Return the messages of a type."""
        return self.outputs.by_type.get(kind, [])


@lru_cache(maxsize=1)
def without() -> Driven:
    return Driven([])


floats = st.one_of(
    st.sampled_from([nan, inf, -inf, 0.0, -1.0, 1e308]), st.floats(-5.0, 40.0, allow_nan=False)
)


@st.composite
def scans(draw: st.DrawFn, at_ns: int) -> VirtualScan:
    """A scan of a virtual world that may be wrong in every field."""
    stamped = draw(st.sampled_from([0, 0, 0, -20 * MS, -500 * MS, 10**10, -(10**15)]))
    if draw(st.booleans()):
        # Honest: something somewhere round the vehicle.
        near = draw(st.floats(0.0, 20.0))
        ray = draw(st.integers(0, 71))
        ranges = [inf] * 72
        ranges[ray] = near
        ranges[ray - 1] = near
        return VirtualScan(
            at_ns + stamped, at_ns, -pi, 2 * pi / 72, 0.0, 0.05, 0.0, 30.0, 0.2, 0.0, tuple(ranges),
            draw(st.booleans()),
        )  # fmt: skip
    ranges = draw(st.lists(floats, max_size=40))
    values = [draw(floats) for _ in range(8)]
    fields: tuple[Any, ...] = (*values, tuple(ranges), draw(st.booleans()))
    return VirtualScan(at_ns + stamped, at_ns, *fields)


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[int, Message]]:
    """Messages of a virtual world at times of the drive."""
    begin_ns = START_NS + round(draw(st.floats(0.0, 1.5)) * 1e9)
    found: list[tuple[int, Message]] = []
    if draw(st.integers(0, 9)):
        stops = draw(st.booleans())
        found.append((begin_ns, VirtualWorld(begin_ns, begin_ns, "x", stops)))
    at_ns = begin_ns
    for _ in range(draw(st.integers(0, 25))):
        at_ns += draw(st.sampled_from([0, 50 * MS, 50 * MS, 50 * MS, 400 * MS]))
        found.append((at_ns, draw(scans(at_ns))))
    return found


# Each example is a drive: to shrink one would take minutes.
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(worlds())
@example([(START_NS, VirtualWorld(START_NS, START_NS, "silent from the start"))])
def test_a_virtual_world_only_makes_slower_and_only_the_obstacle_stop_learns_of_it(virtual):
    plain, mixed = without(), Driven(virtual)
    commands = list(zip(plain.of(ActuatorCommand), mixed.of(ActuatorCommand), strict=True))
    # Not the pedals: a vehicle that was slowed accelerates again while the other one cruises.
    for (mode, one_mps), (other_mode, other_mps) in zip(plain.caps, mixed.caps, strict=True):
        # Once it has stopped no rule has to cap it.
        assert other_mps <= one_mps or other_mode is not mode
    for one, other in commands:
        if other.mode is one.mode:
            assert other.reaction >= one.reaction
        if other.mode is not one.mode or other.reaction >= Reaction.CONTROLLED_STOP:
            assert other.throttle == 0.0
            assert other.brake >= one.brake
    for one, other in zip(plain.of(ControlCommand), mixed.of(ControlCommand), strict=True):
        assert other.target_speed_mps <= one.target_speed_mps + ROUNDING_MPS
    assert mixed.observed == plain.observed
    sources = [drive.machine.pipeline.monitors.sources for drive in (plain, mixed)]
    assert sources[0]._received_ns == sources[1]._received_ns
    for kind in (StateEstimate, MapPose):
        assert plain.of(kind) == mixed.of(kind)


def test_the_recorded_drive_is_slowed_by_a_body_ahead():
    """The drawn worlds are not all without effect: the property above would hold then, too."""
    at_ns = START_NS + 2_000 * MS
    ahead = tuple(1.2 if 340 <= ray <= 380 else inf for ray in range(720))
    world: list[tuple[int, Message]] = [(at_ns, VirtualWorld(at_ns, at_ns, "x"))]
    world += [
        (
            t_ns,
            VirtualScan(t_ns, t_ns, -pi, 2 * pi / 720, 0.0, 0.05, 0.0, 30.0, 0.2, 0.0, ahead),
        )
        for t_ns in range(at_ns, at_ns + 600 * MS, 50 * MS)
    ]
    last = Driven(world).of(ActuatorCommand)[-1]
    assert last.throttle == 0.0
    assert last.brake > 0.0
    assert without().of(ActuatorCommand)[-1].brake == 0.0

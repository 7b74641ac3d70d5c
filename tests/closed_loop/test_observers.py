"""All that only explains a drive raises at every call that it has, and the vehicle drives on as if
nothing had happened.

The functions are found while they run: every function of a module of ``EXPLAINS``, and every call
that was given a boundary. A module that neither list knows fails the test, so that a new one gets
its place.
"""

import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import CO_GENERATOR
from io import StringIO
from itertools import cycle, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.busy_computer import WIDE_LIMITS
from vehicled.core.events import ObserverFailed
from vehicled.core.executive import Executive
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Mode,
    ModeChange,
    PortEvent,
    TaskTick,
)
from vehicled.core.observers import BOUNDARIES, Observers
from vehicled.daemon.machine import Machine
from vehicled.log.reader import LogReader
from vehicled.run.judge import Judge
from vehicled.run.plan import Plan
from vehicled.run.simulation import Simulated, SimulationSpec, simulate
from vehicled.run.spec import RunSpec
from vehicled.runtime.ending import EndConditions
from vehicled.runtime.events import EventLog

EXPLAINS = (
    "vehicled.core.attribution", "vehicled.core.error_text", "vehicled.core.histogram",
    "vehicled.core.journal:Digest", "vehicled.core.events", "vehicled.core.simulation_events",
    "vehicled.core.wire.usage:MessageUsage._", "vehicled.core.wire.usage:rows",
    "vehicled.daemon.recognition", "vehicled.live.bridges", "vehicled.live.control_socket.console",
    "vehicled.log", "vehicled.ros", "vehicled.run.injected", "vehicled.run.judge",
    "vehicled.run.manoeuvre", "vehicled.run.result:Learnt", "vehicled.run.wall_session:_log_health",
    "vehicled.runtime.events", "vehicled.runtime.evidence", "vehicled.runtime.health",
    "vehicled.safety.margins", "vehicled.safety.reason",
)  # fmt: skip
"""Modules, or parts of them behind a colon, that only explain a run."""
DRIVES = (
    "drivers", "vehicled.control", "vehicled.core.arrays", "vehicled.core.bus",
    "vehicled.core.clamp", "vehicled.core.executive", "vehicled.core.journal", "vehicled.core.link",
    "vehicled.core.messages", "vehicled.core.observers", "vehicled.core.ports",
    "vehicled.core.tasks", "vehicled.core.vehicle", "vehicled.core.wire",
    "vehicled.daemon.actuation", "vehicled.daemon.machine", "vehicled.daemon.pipeline",
    "vehicled.estimation", "vehicled.live.control_socket.server", "vehicled.paths",
    "vehicled.profile", "vehicled.profile.plugins", "vehicled.run.result", "vehicled.run.session",
    "vehicled.run.signals", "vehicled.run.simulation", "vehicled.run.task_costs",
    "vehicled.run.wall_session", "vehicled.run.world_link", "vehicled.runtime.clock",
    "vehicled.runtime.connection", "vehicled.runtime.ending", "vehicled.runtime.lease",
    "vehicled.runtime.link_port", "vehicled.runtime.lockstep", "vehicled.runtime.loop",
    "vehicled.runtime.plugin_watch", "vehicled.runtime.readable", "vehicled.runtime.reopening",
    "vehicled.runtime.simulator", "vehicled.runtime.timer", "vehicled.runtime.wall",
    "vehicled.safety",
)  # fmt: skip
"""Modules that drive, or that hold a run together."""


class HostileError(Exception):
    """An exception that raises where it is shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


KINDS = (
    ValueError,
    MemoryError,
    RecursionError,
    KeyError,
    OSError,
    HostileError,
    AssertionError,
    StopIteration,
    UnicodeError,
)


class Thrower:
    """Profile function that raises at calls of what explains: at the first of each function from
    each caller, whose boundaries differ, and at fewer and fewer later ones."""

    def __init__(self) -> None:
        self.on = False
        self.thrown: Counter[str] = Counter()
        self.modules: set[str] = set()
        self._calls: Counter[tuple[CodeType, CodeType | None]] = Counter()
        self._wanted: dict[CodeType, bool] = {}
        self.guarded: set[CodeType] = set()
        self._kinds = cycle(KINDS)

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if (
            event != "call"
            or not self.on
            or not self._is_wanted(code, frame.f_globals.get("__name__", ""))
        ):
            return
        call = code, frame.f_back.f_code if frame.f_back else None
        self._calls[call] += 1
        n = self._calls[call]
        while n % 3 == 0:
            n //= 3
        if n == 1:
            self.thrown[f"{frame.f_globals['__name__']}:{code.co_qualname}"] += 1
            raise next(self._kinds)

    def _is_wanted(self, code: CodeType, module: str) -> bool:
        wanted = self._wanted.get(code)
        if wanted is None:
            place = f"{module}:{code.co_qualname}"
            if module.partition(".")[0] in ("vehicled", "drivers"):
                self.modules.add(place)
            explains = place.startswith(EXPLAINS) or code in self.guarded
            # Nobody calls the end of an object or of a generator, and Python itself contains what
            # they raise.
            ends = code.co_name == "__del__" or code.co_flags & CO_GENERATOR
            wanted = self._wanted[code] = explains and code not in BOUNDARIES and not ends
        return wanted

    @contextmanager
    def throwing(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Throw from the first turn of the pump to the end of the log. A profile function that
        raises is unset, so set it again."""
        run, turn, guard = Executive.run, EndConditions.turn, Observers.guard

        def noted(
            self: Observers, name: str, call: Callable[..., Any], *arguments: Any, **named: Any
        ) -> Any:
            inner = call.func if isinstance(call, partial) else call
            self_code = getattr(getattr(inner, "__func__", inner), "__code__", None)
            if self_code is not None:
                thrower.guarded.add(self_code)
            return guard(self, name, call, *arguments, **named)

        def armed(self: Executive, now_ns: int) -> None:
            sys.setprofile(thrower)
            run(self, now_ns)

        def turned(self: EndConditions, now_ns: int) -> Any:
            thrower.on = True
            return turn(self, now_ns)

        thrower = self
        monkeypatch.setattr(Observers, "guard", noted)
        monkeypatch.setattr("vehicled.core.observers.OFF_AFTER", 10**9)
        monkeypatch.setattr(Executive, "run", armed)
        monkeypatch.setattr(EndConditions, "turn", turned)
        try:
            yield
        finally:
            self.on = False
            sys.setprofile(None)


MS = 1_000_000


def drive(folder: Path, **changes: Any) -> tuple[Simulated, list[ActuatorCommand]]:
    """Drive for a short time with all that may explain a drive; return also what was sent to the
    actuators."""
    sent: list[Any] = []
    wide = WIDE_LIMITS[1::2] if changes.get("clock") == "wall" else ()
    spec = RunSpec(
        **{"profile": "art", "course": "circle_r5_ccw", "seed": 3, "duration_s": 4.0,
            "log_folder": str(folder), **changes},
        # Every release of this task is a miss that has to be explained.
        overrides=("tasks.control.deadline_ms=0.01", "tasks.control.declared_us=20", *wide),
    )  # fmt: skip
    lockstep = spec.clock == "lockstep"
    done = simulate(
        Plan.of(spec),
        SimulationSpec(in_process=lockstep, failures=("gnss:stuck@3.2+0.1",)),
        keep_trace=True,
        listeners=[
            ((Fault, ModeChange, PortEvent, Event), EventLog(StringIO(), json=True).record),
            ((TaskTick,), explode),
            ((ActuatorCommand,), lambda message, _: sent.append(message)),
        ],
        progress=glance,
    )
    return done, sent


def glance(_machine: Machine, judge: Judge, _now_ns: int) -> None:
    """Be a progress line that only looks."""
    assert judge.driven_m >= 0.0


def explode(_message: object, t_ns: int) -> None:
    """Be a listener that never works, and at times waits, so that somebody asks how long the loop
    had to."""
    if t_ns // MS % 50 == 0:
        time.sleep(1e-4)
    raise KeyError("a listener")


def test_all_that_explains_a_drive_in_lockstep_may_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, sent = drive(tmp_path)
    thrower = Thrower()
    with thrower.throwing(monkeypatch):
        disturbed, sent_then = drive(tmp_path)
    assert disturbed.result.why == sound.result.why == "stopped by the time limit"
    assert sent_then == sent
    check(thrower, 35)
    for name in (
        "log",
        "log writer",
        "Judge.record",
        "attribution",
        "statistics",
        "digest",
        "explode",
        "reaction time",
        "progress",
    ):
        assert f"{name} failed" in disturbed.result.observers_failed
    assert disturbed.result.digest == "", "a digest that lacks a frame is none"
    assert sound.result.observers_failed.startswith(
        "explode failed 10 times and was switched off (KeyError: 'a listener')"
    )
    with LogReader(disturbed.result.log) as log:
        # Nothing was written before the first record that was lost.
        assert log.end["observers_failed"] == disturbed.result.observers_failed
        assert int(log.end["dropped_journal"]) > 0
    with LogReader(sound.result.log) as log:
        (event,) = [
            record.message for record in log.messages(Event) if ObserverFailed.read(record.message)
        ]
        assert "explode" in event.fields


@pytest.mark.xdist_group("wall")
def test_all_that_explains_a_drive_on_the_wall_clock_may_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thrower = Thrower()
    thresholds = gc.get_threshold()
    gc.set_threshold(200)
    try:
        with thrower.throwing(monkeypatch):
            done, sent = drive(
                tmp_path,
                clock="wall",
                shared_clock=True,
                control_socket="any",
                view="127.0.0.1:0",
                duration_s=5.0,
            )
    finally:
        gc.set_threshold(*thresholds)
    assert done.result.why == "stopped by the time limit"
    modes = [command.mode for command in sent]
    # It stops once, at the time limit.
    driven = modes[modes.index(Mode.AUTO) :]
    assert sum(a is not b for a, b in pairwise(driven)) <= 2
    check(thrower, 60)
    for name in (
        "log",
        "bridges",
        "block sampler",
        "evidence",
        "attribution",
        "taken time",
        "run delay",
        "holders",
    ):
        assert f"{name} failed" in done.result.observers_failed


def check(thrower: Thrower, at_least: int) -> None:
    """Check that the lists are complete, and that much was thrown."""
    unknown = {
        place.partition(":")[0]
        for place in thrower.modules
        if not place.startswith((*EXPLAINS, *DRIVES))
    }
    assert not unknown, (
        "does it drive or explain? Give it a place in one of the lists, and a boundary if it "
        "explains"
    )
    assert len(thrower.thrown) >= at_least, sorted(thrower.thrown)

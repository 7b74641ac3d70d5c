"""A simulated drive that the caller steps, and may steer, in this process."""

from math import nan
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from sim_backend.connection import START_NS
from vehicled.core.error_text import shown
from vehicled.core.errors import SetupError
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    GroundTruth,
    LaserScan,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    Setpoint,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS
from vehicled.run.pair import Pair
from vehicled.run.plan import Plan
from vehicled.run.signals import held_back
from vehicled.run.simulation import simulated_profile
from vehicled.run.spec import LONGEST_S

ORIGIN = "the script"
DRIVING = (Mode.AUTO, Mode.OFFBOARD)
LONGEST_START_S = 60.0


class Action(NamedTuple):
    """Setpoint of the caller: a speed, and either a wheel angle or a curvature."""

    speed_mps: float
    """Negative drives backward."""
    wheel_angle_rad: float | None = None
    """Positive left."""
    curvature_per_m: float | None = None
    """Curvature of the path of the rear axle, positive left."""


LARGEST = {"speed_mps": 100.0, "wheel_angle_rad": 1.6, "curvature_per_m": 100.0}
"""Largest magnitude of each value of an :class:`Action`, as on the control socket."""


class Observation(NamedTuple):
    """State of a simulation after a step; None for a message that there has not been yet."""

    time_s: float
    """Simulated time since :meth:`Stepwise.reset`."""
    mode: Mode
    reaction: Reaction
    estimate: StateEstimate | None
    truth: GroundTruth | None
    control: ControlCommand | None
    """Newest command of the profile's controller, with its place on the course, also while the
    caller steers."""
    command: ActuatorCommand | None
    """Newest command that was sent to the actuators."""
    scan: LaserScan | None
    finished: bool
    """True once the end of the course was reached."""
    over: bool
    """True once the drive has ended and the vehicle stands; then call :meth:`Stepwise.reset`."""
    why: str
    """Reason of the mode."""


class _Newest:
    """Sink that keeps the newest message of each type."""

    def __init__(self) -> None:
        self.of: dict[type[Message], Any] = {}

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.of[type(message)] = message


class Stepwise:
    """Daemon and simulator in this process, driven step by step.

    The daemon is that of ``vehicled sim``: estimator, controller, failsafe matrix and command gate.
    A drive that is only watched has the digest of ``vehicled sim``.
    """

    def __init__(self, plan: Plan) -> None:
        """Take a checked plan, and :meth:`reset`. Raises :class:`SetupError` for what a simulator
        would refuse."""
        self._plan, self._profile = plan, simulated_profile(plan)
        self.period_s = 1.0 / plan.loaded.profile.tasks.control.rate_hz
        """Default length of a step: the period of the control task."""
        self._pair: Pair
        self._newest: _Newest
        self.reset()

    @property
    def digest(self) -> str:
        """Digest of all frames to the actuators since the last reset."""
        return self._pair.machine.digest.hexdigest()

    def reset(self, seed: int | None = None, *, begin: bool = True) -> Observation:
        """Build vehicle and daemon anew. ``begin``: go on until the vehicle drives; else stay at
        the first instant.

        Raises :class:`SetupError` if the drive does not begin.
        """
        if not isinstance(begin, bool | np.bool_):
            raise SetupError(f"begin = {shown(begin)}: give True or False")
        if seed is not None:
            seed = whole_number("seed", seed)
            self._plan = replace(self._plan, spec=replace(self._plan.spec, seed=seed))
        plan, self._newest = self._plan, _Newest()
        spec = plan.spec
        self._pair = Pair(
            self._profile,
            plan.course,
            (),
            self._newest,
            spec.seed,
            link=spec.link,
            fence=plan.fence,
            board=plan.board,
            grid=plan.grid,
        )
        self._target_ns, self._sequence, self._over = START_NS, 0, False
        end_ns = START_NS + round(LONGEST_START_S * 1e9)
        with held_back():
            while begin and self._pair.machine.mode not in DRIVING:
                self._turn()
                if self._pair.now_ns > end_ns or self._over:
                    raise SetupError(f"the drive does not begin: {self._pair.machine.why}")
        self._target_ns = self._pair.now_ns
        return self.observe()

    def step(self, action: Action | None = None, *, until_s: float | None = None) -> Observation:
        """Go on for one control period, or until a time since the reset, and return what is known
        then.

        With an ``action`` the vehicle leaves its course and follows the caller's setpoints (mode
        OFFBOARD); each further step then needs one, because a setpoint older than 0.2 s brakes.
        Without any the profile's controller drives. Raises :class:`SetupError` after the end, and
        for a value that is no finite number in its range.
        """
        checked = None if action is None else _checked(action)
        if until_s is not None:
            until_s = number("until_s", until_s, 0.0, LONGEST_S)
        if self._over:
            raise SetupError(f"the drive is over ({self._pair.machine.why}): call reset()")
        until_ns = (
            self._target_ns + round(self.period_s * 1e9)
            if until_s is None
            else START_NS + round(until_s * 1e9)
        )
        self._target_ns = max(until_ns, self._target_ns)
        with held_back():
            if checked is not None:
                self._ask(*checked)
            while self._pair.next_ns <= self._target_ns and not self._over:
                self._turn()
        return self.observe()

    def observe(self) -> Observation:
        """Return what is known now, without a step."""
        machine, of = self._pair.machine, self._newest.of
        return Observation(
            (self._target_ns - START_NS) * 1e-9,
            machine.mode,
            machine.supervisor.reaction,
            of.get(StateEstimate),
            of.get(GroundTruth),
            of.get(ControlCommand),
            of.get(ActuatorCommand),
            of.get(LaserScan),
            machine.course_driven,
            self._over,
            machine.why,
        )

    def _ask(self, speed_mps: float, wheel_rad: float, curvature_per_m: float) -> None:
        machine, now_ns = self._pair.machine, self._pair.now_ns
        self._sequence += 1
        setpoint = Setpoint(
            now_ns, now_ns, speed_mps, curvature_per_m, wheel_rad, ORIGIN, self._sequence
        )
        machine.on_message(setpoint, now_ns)
        if machine.mode is Mode.AUTO:
            machine.on_message(
                OperatorCommand(now_ns, now_ns, OperatorAction.OFFBOARD, ORIGIN), now_ns
            )

    def _turn(self) -> None:
        pair = self._pair
        pair.grant()
        self._over = pair.machine.over(pair.now_ns)
        if not self._over:
            pair.reply()
        assert pair.next_ns < NEVER_NS


def _checked(action: Any) -> tuple[float, float, float]:
    """Return speed, wheel angle and curvature; NaN for the one of the two that is not given. Raises
    :class:`SetupError`."""
    if not isinstance(action, tuple | list | np.ndarray) or not 2 <= len(action) <= 3:
        raise SetupError(
            f"action = {shown(action)}: give an Action, such as Action(speed_mps=0.5, "
            "curvature_per_m=0.1)"
        )
    turns = [
        name
        for name, value in zip(Action._fields[1:], action[1:], strict=False)
        if value is not None
    ]
    if len(turns) != 1:
        raise SetupError(
            "an Action has either wheel_angle_rad or curvature_per_m; this one has "
            f"{' and '.join(turns) or 'none'}"
        )
    values = dict(zip(Action._fields, action, strict=False))
    given = {
        name: number(name, values[name], -LARGEST[name], LARGEST[name])
        for name in ("speed_mps", *turns)
    }
    return given["speed_mps"], given.get("wheel_angle_rad", nan), given.get("curvature_per_m", nan)


def number(name: str, value: Any, low: float, high: float) -> float:
    """Return a number that a caller gave. Raises :class:`SetupError` if it is none, not finite or
    out of range."""
    plain = (
        value.item()
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
        else value
    )
    if type(plain) not in (int, float) or not low <= plain <= high:
        raise SetupError(f"{name} = {shown(value)}: give a number from {low:g} to {high:g}")
    return float(plain)


def whole_number(name: str, value: Any, high: int = 2**63 - 1) -> int:
    """Return a whole number from 0 on that a caller gave. Raises :class:`SetupError`."""
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) is not int or not 0 <= plain <= high:
        raise SetupError(f"{name} = {shown(value)}: give a whole number from 0 to {high}")
    return plain

"""A simulated drive that the caller steps, and may steer, in this process."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from sim_backend.connection import START_NS
from vehicled.app import SetupError
from vehicled.messages import (
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
from vehicled.ports import NEVER_NS
from vehicled.run.pair import Pair
from vehicled.run.plan import Plan
from vehicled.run.simulation import simulated_profile

ORIGIN = "the script"
DRIVING = (Mode.AUTO, Mode.OFFBOARD)
LONGEST_START_S = 60.0


class Action(NamedTuple):
    """Setpoint of the caller: a speed, and a wheel angle or a curvature."""

    speed_mps: float
    wheel_angle_rad: float = float("nan")
    curvature_per_m: float = float("nan")


class Observation(NamedTuple):
    """State of a simulation after a step; None for a message that there has not been yet."""

    time_s: float
    """Simulated time since :meth:`Stepwise.reset`."""
    mode: Mode
    reaction: Reaction
    estimate: StateEstimate | None
    truth: GroundTruth | None
    control: ControlCommand | None
    """Newest command of the profile's controller, with its place on the course, also while the caller steers."""
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
        """See :class:`vehicled.journal.Sink`."""
        self.of[type(message)] = message


class Stepwise:
    """Daemon and simulator in this process, driven step by step.

    The daemon is that of ``vehicled sim``: estimator, controller, failsafe matrix and command gate. A drive that is only watched
    has the digest of ``vehicled sim``.
    """

    def __init__(self, plan: Plan) -> None:
        """Take a checked plan, and :meth:`reset`. Raises :class:`SetupError` for what a simulator would refuse."""
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
        """Build vehicle and daemon anew. ``begin``: go on until the vehicle drives; else stay at the first instant.

        Raises :class:`SetupError` if the drive does not begin.
        """
        if seed is not None:
            self._plan = replace(self._plan, spec=replace(self._plan.spec, seed=seed))
        plan, self._newest = self._plan, _Newest()
        spec = plan.spec
        self._pair = Pair(
            self._profile, plan.course, (), self._newest, spec.seed, link=spec.link, fence=plan.fence, board=plan.board
        )
        self._target_ns, self._sequence, self._over = START_NS, 0, False
        end_ns = START_NS + round(LONGEST_START_S * 1e9)
        while begin and self._pair.machine.mode not in DRIVING:
            self._turn()
            if self._pair.now_ns > end_ns or self._over:
                raise SetupError(f"the drive does not begin: {self._pair.machine.why}")
        self._target_ns = self._pair.now_ns
        return self.observe()

    def step(self, action: Action | None = None, *, until_s: float | None = None) -> Observation:
        """Go on for one control period, or until a time since the reset, and return what is known then.

        With an ``action`` the vehicle leaves its course and follows the caller's setpoints (mode OFFBOARD); each further step then
        needs one, because a setpoint older than 0.2 s brakes. Without any the profile's controller drives. Raises
        :class:`SetupError` after the end.
        """
        if self._over:
            raise SetupError(f"the drive is over ({self._pair.machine.why}): call reset()")
        until_ns = self._target_ns + round(self.period_s * 1e9) if until_s is None else START_NS + round(until_s * 1e9)
        self._target_ns = max(until_ns, self._target_ns)
        if action is not None:
            self._ask(Action(*action))
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

    def _ask(self, action: Action) -> None:
        machine, now_ns = self._pair.machine, self._pair.now_ns
        self._sequence += 1
        setpoint = Setpoint(
            now_ns, now_ns, action.speed_mps, action.curvature_per_m, action.wheel_angle_rad, ORIGIN, self._sequence
        )  # fmt: skip
        machine.on_message(setpoint, now_ns)
        if machine.mode is Mode.AUTO:
            machine.on_message(OperatorCommand(now_ns, now_ns, OperatorAction.OFFBOARD, ORIGIN), now_ns)

    def _turn(self) -> None:
        pair = self._pair
        pair.grant()
        self._over = pair.machine.over(pair.now_ns)
        if not self._over:
            pair.reply()
        assert pair.next_ns < NEVER_NS

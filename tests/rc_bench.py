"""A supervisor with the handset of an RC operator, and everybody else who may send to it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from vehicled.core.messages import (
    EstimatorStatus,
    GnssFix,
    Mode,
    OperatorAction,
    OperatorCommand,
    RcChannels,
    Setpoint,
    StateEstimate,
    TeleopCommand,
)
from vehicled.core.rc import RcAxis, RcMap, RcModeSwitch, RcParams, RcSwitch
from vehicled.core.wire.channels import TICKS
from vehicled.paths.formulas import straight
from vehicled.profile import load_profile
from vehicled.safety.matrix import RULES
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.speed import FIXES
from vehicled.safety.rule import Rule, RuleInputs
from vehicled.safety.supervisor import Supervisor

PROFILE = load_profile("art")
LIMITS = replace(PROFILE.limits, corridor_m=2.0)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
TICK_NS = 10_000_000
LOW, MIDDLE, HIGH = TICKS


def params(**change: Any) -> RcParams:
    """Return a map with all switches: mode low release, middle auto, high manual."""
    switches = {
        "mode": RcModeSwitch(channel=5, middle="auto"),
        "arm": RcSwitch(channel=6),
        "kill": RcSwitch(channel=7),
    }
    return RcParams(
        **{"steering": RcAxis(channel=1), "throttle": RcAxis(channel=2), **switches, **change}
    )


def channels(
    steering: float = 0.0,
    throttle: float = 0.0,
    mode: float = LOW,
    arm: float = LOW,
    kill: float = LOW,
) -> tuple[float, ...]:
    """Return the channels of a handset; ``steering`` to the left."""
    axes = [MIDDLE - 800.0 * steering, MIDDLE + 800.0 * throttle]
    return (*axes, MIDDLE, MIDDLE, mode, arm, kill, *(MIDDLE,) * 9)


class Bench:
    """A supervisor of a vehicle that stands, ticking every 10 ms; the handset sends a frame at each
    tick while it is ``on``."""

    def __init__(
        self,
        *,
        checked: bool = True,
        at_rest: bool = True,
        rules: Sequence[Rule] = RULES,
        **change: Any,
    ) -> None:
        self.supervisor = Supervisor(rules)
        self.monitors = Monitors(
            LIMITS,
            PROFILE.vehicle,
            course=straight(20.0),
            rc=RcMap(params(**change), TICKS, checked=checked),
        )
        self.now_ns = 10**9
        self.on = False
        self.hands: dict[str, float] = {}
        self.frame: dict[str, Any] = {}
        """Other fields of the frames."""
        self.speed_mps = 0.0
        self._count = 0
        if at_rest:
            self.step(FIXES)

    @property
    def mode(self) -> Mode:
        """Mode of the supervisor."""
        return self.supervisor.mode

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            now_ns = self.now_ns = self.now_ns + TICK_NS
            velocity = (self.speed_mps + 0.01 * (now_ns // TICK_NS % 3), 0.0, 0.0)
            self.monitors.speed.on_message(
                GnssFix(now_ns, now_ns, 0.0, 0.0, 0.0, velocity_enu_mps=velocity), now_ns
            )
            if self.on:
                self.receive(channels(**self.hands), **self.frame)
            self.supervisor.step(self.inputs())

    def inputs(self) -> RuleInputs:
        estimate = replace(ESTIMATE, speed_mps=self.speed_mps)
        return RuleInputs(
            now_ns=self.now_ns,
            mode=self.supervisor.mode,
            limits=LIMITS,
            monitors=self.monitors,
            estimate=estimate,
        )

    def receive(self, values: tuple[float, ...], **fields: Any) -> TeleopCommand | None:
        """Give the daemon one frame, as the pipeline does."""
        frame = RcChannels(self.now_ns, self.now_ns, values, **fields)
        reading = self.monitors.rc.on_message(frame, self.now_ns)
        if reading is not None:
            self.monitors.teleop.on_message(reading, self.now_ns, rc=True)
        return reading

    def switch(self, times: int = 8, **hands: float) -> None:
        """Move sticks and switches of the handset, which is on, and let some ticks pass."""
        self.on = True
        self.hands |= hands
        self.step(times)

    def ask(self, *actions: OperatorAction, origin: str = "page") -> None:
        for action in actions:
            self.supervisor.on_operator(
                OperatorCommand(self.now_ns, self.now_ns, action, origin), self.now_ns
            )

    def stick(self, throttle: float = 0.0, *, origin: str = "pad", deadman: bool = True) -> None:
        """Send a reading of a gamepad."""
        self._count += 1
        self.monitors.on_message(
            TeleopCommand(
                self.now_ns, self.now_ns, 0.0, throttle, 0.0, deadman, origin, self._count
            ),
            self.now_ns,
        )

    def setpoint(self) -> None:
        """Send a setpoint of a program."""
        self._count += 1
        self.monitors.on_message(
            Setpoint(self.now_ns, self.now_ns, 0.5, 0.0, origin="planner", sequence=self._count),
            self.now_ns,
        )

    def drive(self, mode: Mode) -> None:
        """Bring the vehicle into a mode, by everybody but the RC operator."""
        self.ask(OperatorAction.ARM)
        self.step(2)
        match mode:
            case Mode.AUTO:
                self.supervisor.mode = Mode.AUTO
            case Mode.TELEOP:
                for _ in range(3):
                    self.stick()
                    self.ask(OperatorAction.TELEOP, origin="pad")
                    self.step()
            case Mode.OFFBOARD:
                for _ in range(3):
                    self.setpoint()
                    self.ask(OperatorAction.OFFBOARD, origin="planner")
                    self.step()
            case Mode.ALIGN:
                self.supervisor.mode = Mode.ALIGN
            case Mode.STOPPING:
                self.supervisor.mode = Mode.AUTO
                self.ask(OperatorAction.STOP)
        assert self.mode is mode

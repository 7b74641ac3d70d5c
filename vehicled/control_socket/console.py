"""What services beside the pump may see of a run, and ask of it. Everything asked goes through the machine and into its journal."""

from math import isfinite, sqrt
from typing import Any

from msgspec import Struct

from vehicled.machine import PIPELINE, Machine
from vehicled.messages import Heartbeat, Mode, OperatorAction, OperatorCommand, PortState, Reaction, TeleopCommand
from vehicled.safety.supervisor import Supervisor


class RunFacts(Struct, frozen=True, kw_only=True):
    """What does not change while a run lasts."""

    profile: str
    course: str
    course_m: float
    estimator: str
    controller: str
    link: str
    version: str
    started_ns: int
    log: str = ""
    """Path of the log; empty when none is written."""
    closed_ports: frozenset[str] = frozenset()
    """Ports that this run never opens: on a vehicle the truth's, and those of devices without an address."""


class Console:
    """One run, seen from outside. All methods return at once; call them on the loop."""

    def __init__(self, machine: Machine, facts: RunFacts) -> None:
        self._machine = machine
        self.facts = facts

    def request(self, action: OperatorAction, origin: str, now_ns: int) -> str:
        """Ask for a change of mode; it passes the same checks whoever asks, and takes effect at the next actuation tick.

        Why it leads nowhere in the present mode, in words; empty when it is followed or waits for its checks.
        """
        refused = self._machine.supervisor.refusal(action)
        self._machine.on_message(OperatorCommand(now_ns, now_ns, action, origin), now_ns)
        return refused

    def hand(self, reading: TeleopCommand, now_ns: int) -> None:
        """A reading of a stick. It counts once."""
        self._machine.on_message(reading, now_ns)

    def heartbeat(self, origin: str, now_ns: int) -> None:
        """The ground station is there."""
        self._machine.on_message(Heartbeat(now_ns, now_ns, origin), now_ns)

    @property
    def supervisor(self) -> Supervisor:
        """Who decides mode and reaction."""
        return self._machine.supervisor

    @property
    def mode(self) -> Mode:
        """Present mode."""
        return self._machine.mode

    def status(self, now_ns: int) -> dict[str, Any]:
        """Everything a human wants to know at a glance, as plain values; what is not known is None."""
        machine, facts = self._machine, self.facts
        supervisor = machine.supervisor
        estimate, control = machine.estimate, machine.control
        return {
            "profile": facts.profile,
            "course": facts.course,
            "course_m": facts.course_m,
            "estimator": facts.estimator,
            "controller": facts.controller,
            "link": facts.link,
            "version": facts.version,
            "log": facts.log,
            "up_s": (now_ns - facts.started_ns) * 1e-9,
            "mode": supervisor.mode.name,
            "why": supervisor.why,
            "reaction": supervisor.reaction.name,
            "waiting_for": machine.waiting_for(now_ns),
            "substitutes": list(machine.substitutes),
            "independent_stop": machine.independent_stop,
            "chain": [
                {"ago_s": (now_ns - link.t_ns) * 1e-9, "code": link.code, "reaction": link.reaction.name, "reason": link.reason}
                for link in supervisor.chain
            ],
            "speed_cap_mps": self._speed_cap_mps(),
            "estimate": None
            if estimate is None
            else {
                "status": estimate.status.name,
                "x_m": _known(estimate.x_m),
                "y_m": _known(estimate.y_m),
                "yaw_rad": _known(estimate.yaw_rad),
                "speed_mps": _known(estimate.speed_mps),
                "sigma_m": _known(sqrt(max(estimate.covariance[0], estimate.covariance[5], 0.0))),
                "age_ms": (now_ns - estimate.t_ns) * 1e-6,
            },
            "lane": self._lane(),
            "progress_m": None if control is None else _known(control.progress_m),
            "cross_track_m": None if control is None else _known(control.cross_track_m),
            "target_speed_mps": None if control is None else _known(control.target_speed_mps),
            "ports": [
                {"name": name, "state": state.name if isinstance(state, PortState) else "OPENING", "detail": detail}
                for name, (state, detail) in machine.port_states.items()
                if name not in facts.closed_ports
            ],
            "deadlines": [self._deadline(index) for index in range(len(PIPELINE))],
            "clipped": {"commands": machine.gate.clipped_total, "by_kind": dict(machine.gate.clipped_by_kind)},
        }

    def _speed_cap_mps(self) -> float | None:
        """The speed cap where it is below the profile's limit."""
        supervisor = self._machine.supervisor
        s = supervisor.situation
        return None if s is None or supervisor.speed_cap_mps >= s.limits.max_speed_mps else supervisor.speed_cap_mps

    def _lane(self) -> dict[str, Any] | None:
        """The way ahead, None without a sensor of obstacles that sees; ``free_m`` None where it is clear."""
        s = self._machine.supervisor.situation
        if s is None or not s.watch.obstacle.sees:
            return None
        return {"free_m": _known(s.watch.obstacle.free_m), "stop_m": _known(s.watch.stopping.distance_m)}

    def _deadline(self, index: int) -> dict[str, Any]:
        stats = self._machine.executive.stats(index)
        return {"task": PIPELINE[index], "releases": stats.n, "misses": stats.misses, "skips": stats.skips}

    def summary(self) -> str:
        """One line for the service manager: mode, and what arming waits for or why it stopped."""
        supervisor = self._machine.supervisor
        said = f"{supervisor.mode.name}: {supervisor.why}"
        return said if supervisor.reaction is Reaction.NONE else f"{said} ({supervisor.reaction.name})"


def _known(value: float) -> float | None:
    return value if isfinite(value) else None

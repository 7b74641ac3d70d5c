"""Protocols of estimators and identifiers."""

from typing import Any, ClassVar, Protocol

from vehicled.core.messages import ActuatorCommand, Identification, Message, StateEstimate
from vehicled.core.vehicle import Vehicle
from vehicled.paths.datum import Datum


class Estimator(Protocol):
    """Fuses measurements into the state of the rear axle. Time is an argument; no method reads a
    clock, waits or raises.

    Call order within one tick: ``observe`` for every message that arrived, ``step`` once, and
    ``command`` for the command then sent to the actuators.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[estimator.<name>]`` of the
    profile."""

    def __init__(
        self, params: Any, vehicle: Vehicle, datum: Datum, lever_arm_m: tuple[float, float, float]
    ) -> None:
        """``datum`` is the origin of the ``map`` frame; ``lever_arm_m`` points from the rear axle
        to the GNSS antenna: forward, left, up."""
        ...

    def observe(self, message: Message) -> None:
        """Take a measurement. Unused types are ignored; values that are not finite are ignored and
        counted."""
        ...

    def command(self, command: ActuatorCommand) -> None:
        """Take a command as sent to the actuators; it acts after the delays of the vehicle."""
        ...

    def step(self, now_ns: int) -> StateEstimate:
        """Fuse all measurements observed so far and return the state predicted to ``now_ns``."""
        ...

    def adapt(self, vehicle: Vehicle) -> None:
        """Predict with these parameters, identified while driving, from now on."""
        ...


class Identifier(Protocol):
    """Learns the parameters of the vehicle while it drives, beside any estimator. Time is an
    argument, as for the estimator.

    Call order within one tick: ``observe`` for every message that arrived, the estimator's step,
    then ``step`` with its estimate, and ``command`` for the command sent to the actuators.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[identifier.<name>]`` of
    the profile."""

    def __init__(self, params: Any, vehicle: Vehicle) -> None:
        """``vehicle`` has the parameters of the profile, from which learning starts."""
        ...

    def observe(self, message: Message) -> None:
        """Take a measurement. Unused types and values that are not finite are ignored."""
        ...

    def command(self, command: ActuatorCommand) -> None:
        """Take a command as sent to the actuators."""
        ...

    def step(self, estimate: StateEstimate, now_ns: int) -> Identification | None:
        """Return the identified parameters if they changed enough to report (a few times a second
        at most); else None."""
        ...

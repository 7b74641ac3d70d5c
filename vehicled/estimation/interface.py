"""What an estimator is to the rest of the daemon."""

from typing import Any, ClassVar, Protocol

from vehicled.messages import ActuatorCommand, Identification, Message, StateEstimate
from vehicled.paths.datum import Datum
from vehicled.vehicle import Vehicle


class Estimator(Protocol):
    """Fuses measurements into the state of the rear axle. Time is an argument; nothing here reads a clock, waits or raises.

    Call order within one tick: ``observe`` for everything that arrived, ``step`` once, and ``command`` for what then went to the
    actuators.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[estimator.<name>]`` of the profile."""

    def __init__(self, params: Any, vehicle: Vehicle, datum: Datum, lever_arm_m: tuple[float, float, float]) -> None:
        """``datum`` is the origin of the ``map`` frame; ``lever_arm_m`` the GNSS antenna from the rear axle: forward, left, up."""
        ...

    def observe(self, message: Message) -> None:
        """A measurement. Types without use here are ignored; values that are not finite are ignored and counted."""
        ...

    def command(self, command: ActuatorCommand) -> None:
        """A command as handed to the actuators; it acts after the delays of the vehicle."""
        ...

    def step(self, now_ns: int) -> StateEstimate:
        """State predicted to ``now_ns``, with every measurement observed so far fused."""
        ...

    def adapt(self, vehicle: Vehicle) -> None:
        """Predict with these parameters from now on: what was identified while driving."""
        ...


class Identifier(Protocol):
    """Learns the parameters of the vehicle while it drives, beside any estimator. Time is an argument, as for the estimator.

    Call order within one tick: ``observe`` for everything that arrived, the estimator's step, then ``step`` with its estimate, and
    ``command`` for what went to the actuators.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[identifier.<name>]`` of the profile."""

    def __init__(self, params: Any, vehicle: Vehicle) -> None:
        """``vehicle`` is what the profile believes, the start of everything."""
        ...

    def observe(self, message: Message) -> None:
        """A measurement. Types without use here are ignored; values that are not finite are ignored."""
        ...

    def command(self, command: ActuatorCommand) -> None:
        """A command as handed to the actuators."""
        ...

    def step(self, estimate: StateEstimate, now_ns: int) -> Identification | None:
        """What is known now, when that has changed enough to be told (a few times a second at most); else None."""
        ...

"""Table of the pipeline's tasks. Profile, wiring, board check, timing, replay and report derive
their task lists from it."""

from msgspec import Struct

from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    Identification,
    Message,
    StateEstimate,
)


class TaskDefinition(Struct, frozen=True):
    """One task of the pipeline. Its function stands in the machine under the same name, its timing
    in the profile."""

    name: str
    outputs: tuple[type[Message], ...] = ()
    """Messages that it computes; the first is its main output."""
    age_limit: str = ""
    """Key of the profile's ``limits`` that bounds the age of its main output; empty without one."""


TASKS = (
    TaskDefinition("ingestion"),
    TaskDefinition("fusion", (StateEstimate, Identification), "estimate_silence_s"),
    TaskDefinition("control", (ControlCommand,), "control_silence_s"),
    TaskDefinition("actuation", (ActuatorCommand,), "loop_silence_s"),
)
"""Tasks in the order in which they run when due at the same instant."""
PIPELINE = tuple(task.name for task in TASKS)

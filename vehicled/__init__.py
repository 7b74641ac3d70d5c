"""A daemon that drives small autonomous ground vehicles: a pure machine driven by a thin runtime.

``import vehicled as v`` gives the Python interface of :mod:`vehicled.offline.api`, and every
message type with its enumerations.
"""

import sys
from typing import Any

from vehicled.moved import FormerPaths

sys.meta_path.insert(0, FormerPaths())
__version__ = "0.1.0"

_API = (
    "Action", "Log", "Observation", "Run", "Simulation", "Study",
    "gap", "load_profile", "open_log", "open_study", "simulate", "simulate_many", "study",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for: a daemon on a vehicle must not load the simulator and the tools for
    logs."""
    from importlib import import_module

    if name == "replay":
        return import_module("vehicled.offline.replay")
    return getattr(import_module("vehicled.offline.api"), name) if name in _API else _message(name)


def __dir__() -> list[str]:
    """Return the names of the interface, without what this module needs itself."""
    from vehicled.core.messages import NAMES

    return sorted({*_API, "replay", "__version__", *NAMES})


def _message(name: str) -> Any:
    from importlib import import_module

    messages = import_module("vehicled.core.messages")
    if name in messages.NAMES:
        return getattr(messages, name)
    raise AttributeError(f"module 'vehicled' has no attribute {name!r}")

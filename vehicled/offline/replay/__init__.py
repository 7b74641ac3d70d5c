"""Deterministic replay: runs the machine from its journal and reports the first frame or record
that differs.

:mod:`~vehicled.offline.replay.journal` reads the inputs, :mod:`~vehicled.offline.replay.drive`
feeds them to a machine built from the log alone, :mod:`~vehicled.offline.replay.compare` compares
its outputs with those in the log.

The package can be called: ``vehicled.offline.replay(path)`` is :func:`vehicled.offline.api.replay`,
whose name it has.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("vehicled.offline.api").replay(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

"""Former import paths: code that was written for them runs, with a warning that names the new
path."""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_FOLDERS = {
    "core": "attribution bus child_process clamp error_text executive histogram journal link "
    "link_time messages observers "
    "plain_text ports safe_text shipped simulation_events tasks vehicle wire",
    "daemon": "app live_changes machine pipeline recognition reference",
    "live": "bridges control_socket teleop view",
    "offline": "analysis api learning recordings replay studies",
    "profile": "plugins registry",
    "run": "judge output terminal",
    "runtime": "planner",
}
_EXPERIMENTS = "vehicled.offline.replications.experiments"
NEW = {
    f"vehicled.{name}": f"vehicled.{folder}.{name}"
    for folder, names in _FOLDERS.items()
    for name in names.split()
} | {
    "vehicled.cli.argument_types": "vehicled.run.argument_types",
    "vehicled.cli.log_names": "vehicled.run.log_names",
    "vehicled.cli.parser": "vehicled.run.command_line",
    "vehicled.offline.learning.plot": "vehicled.offline.learning.training",
    f"{_EXPERIMENTS}.ekf_circle_plot": f"{_EXPERIMENTS}.ekf_circle",
    f"{_EXPERIMENTS}.mpc_tracking_plot": f"{_EXPERIMENTS}.mpc_tracking",
    "vehicled.offline.studies.figure": "vehicled.offline.studies.report",
    "vehicled.offline.twin.calibrate_plot": "vehicled.offline.twin.calibrate",
    "vehicled.offline.twin.plot": "vehicled.offline.twin.validate",
    "vehicled.lab": "vehicled.offline",
    "vehicled.lab.calibration": "vehicled.offline.twin.calibration",
    "vehicled.lab.experiments": _EXPERIMENTS,
    "vehicled.lab.published": "vehicled.offline.replications.published",
    "vehicled.lab.validation": "vehicled.offline.twin.validation",
    "vehicled.reality_gap": "vehicled.offline.gap",
}
"""Former name of a package or module: its name now."""


def new_name(name: str) -> str | None:
    """Return the name now of a module or package that has moved, or that lies in a package that
    has; None for every other."""
    head, rest = name, ""
    while head != "vehicled":
        if head in NEW:
            return NEW[head] + rest
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
        if not head:
            break
    return None


class FormerPaths:
    """Gives the module of the new path for an import of a former one: the same object, so that
    types stay one.

    A finder and a loader without their base classes, whose module would have every program load
    ``importlib.resources``.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a former path, and warn at the line that imports it."""
        if not fullname.startswith("vehicled.") or (new := new_name(fullname)) is None:
            return None
        warnings.warn(f"{fullname} has moved: import {new}", FutureWarning, stacklevel=2)
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module under its new name; ModuleNotFoundError if it is gone."""
        module = import_module(str(new_name(spec.name)))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import of the former path has just
        replaced."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

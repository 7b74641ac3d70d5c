"""Plants of the simulator by name, or as plugins. Apart from the daemon's registry, because the
daemon must not know its plant."""

from collections.abc import Callable
from importlib import import_module

from sim_backend.plant.interface import Plant, StartPose
from vehicled.core.errors import UserError
from vehicled.profile import plugins
from vehicled.profile.schema import Sim

PLANTS: dict[str, str] = {
    "four_dof": "sim_backend.plant.four_dof:FourDof",
    "double_track": "sim_backend.plant.double_track.plant:DoubleTrackPlant",
}
CONTRACT = plugins.Contract("sim_backend.plant.interface:Plant", ("sim", "pose", "step_s"))
"""Requirements on a plant that is a plugin."""


class UnknownPlantError(UserError, LookupError):
    """No plant has this name. Attributes: ``name`` and ``known``."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'sim.plant "{name}" is not known; use one of {", ".join(sorted(PLANTS))}, or '
            "FILE.py:NAME"
        )
        self.name = name
        self.known = sorted(PLANTS)


def plant_class(name: str) -> Callable[[Sim, StartPose, float], Plant]:
    """Import and return the plant registered as ``name``, or the plugin.

    Raises :class:`UnknownPlantError`, and :class:`vehicled.profile.plugins.PluginError` for a
    plugin.
    """
    if plugins.is_reference(name):
        plugin: Callable[[Sim, StartPose, float], Plant] = plugins.load(
            "plant", name, CONTRACT, PLANTS
        ).implementation
        return plugin
    try:
        module, _, attribute = PLANTS[name].partition(":")
    except KeyError:
        raise UnknownPlantError(name) from None
    found: Callable[[Sim, StartPose, float], Plant] = getattr(import_module(module), attribute)
    return found


def prepare(sim: Sim) -> None:
    """Build the plant of a profile once and make a step, so that compilation happens before the
    run.

    Raises what the plant raises.
    """
    # Rounded like the grid of the world, so that it is the same plant.
    step_s = round(sim.step_ms * 1e6) * 1e-9
    plant_class(sim.plant)(sim, StartPose(0.0, 0.0, 0.0), step_s).step(0.0, 0.0, 0.0)

"""Several vehicles in one world, as PettingZoo's parallel environment: agents drive some of them,
and the others drive by their controllers. See docs/gym.md."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import cos, isfinite, pi, remainder, sin
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sim_backend.fleet.bodies import corners
from sim_backend.fleet.collision import overlap
from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import ScenePose
from vehicled.control.interface import Controller
from vehicled.core.arrays import Array, clipped
from vehicled.core.messages import EstimatorStatus, NeighbourState, StateEstimate
from vehicled.core.vehicle import Outline
from vehicled.offline.learning.gym.environments import action_space, checked_seed, refuse_rendering
from vehicled.offline.learning.gym.errors import GymError
from vehicled.offline.learning.gym.settings import settings
from vehicled.offline.learning.gym.simulation import BatchSimulation, Observations
from vehicled.offline.studies.exact_drive import controller_of
from vehicled.run.fleet import FleetVehiclePlan, plan_fleet, read_fleet, seed_of, varied
from vehicled.run.spec import RunSpec

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise ImportError('FleetEnv needs pettingzoo: pip install "vehicled[gym]"') from None

NEIGHBOUR = ("ahead_m", "left_m", "heading_rad", "speed_mps")
"""Numbers that an agent sees of every other vehicle, in its own frame."""
BOUNDS = np.array([1000.0, 1000.0, pi, 200.0], np.float32)
"""Largest magnitudes of those numbers."""
Info = dict[str, Any]


class _VehicleBody(Moving):
    """Rectangle of a vehicle at the pose that was set last."""

    def __init__(self, outline: Outline) -> None:
        super().__init__([(0.0, 0.0)], [0.0], outline_m=corners(outline))
        self.pose = ScenePose(0.0, 0.0, 0.0)

    def place(self, time_s: Array) -> tuple[Array, Array, Array]:
        """Return x, y and heading (n,), the same at all times."""
        x, y, yaw = (np.full(len(time_s), value) for value in self.pose)
        return x, y, yaw


class _Vehicle:
    """One vehicle of the environment."""

    def __init__(self, planned: FleetVehiclePlan, task: Mapping[str, Any], period_s: float) -> None:
        plan = planned.plan
        self.name = planned.entry.name
        options = {
            **task,
            "profile": plan.loaded.path,
            "overrides": plan.spec.overrides,
            "course": planned.course,
            "period_s": period_s,
        }
        self.simulation = BatchSimulation(settings(options), 1)
        self.profile = plan.loaded.profile
        self.body = _VehicleBody(self.profile.vehicle.outline)

    @property
    def outline(self) -> Outline:
        """Rectangle of the body."""
        return self.profile.vehicle.outline

    @property
    def pose(self) -> ScenePose:
        """Present pose."""
        plant = self.simulation.plant
        return ScenePose(float(plant.x_m[0]), float(plant.y_m[0]), float(plant.yaw_rad[0]))

    @property
    def speed_mps(self) -> float:
        """Present speed."""
        return float(self.simulation.plant.speed_mps[0])

    def reset(self, seed: int) -> None:
        """Start a new episode."""
        self.simulation.reset(np.zeros(1, np.intp), [np.random.default_rng(seed)])
        self.body.pose = self.pose


class _Driven(_Vehicle):
    """Vehicle that its controller drives, with the exact state."""

    def __init__(
        self, planned: FleetVehiclePlan, task: Mapping[str, Any], control_hz: float
    ) -> None:
        super().__init__(planned, task, 1.0 / control_hz)
        self._control_hz = control_hz
        self._controller: Controller | None = None
        self._steps = 0

    def reset(self, seed: int) -> None:
        """Start a new episode."""
        super().reset(seed)
        self._controller, self._steps = None, 0

    def step(self, messages: Sequence[NeighbourState]) -> None:
        """Drive one control period."""
        simulation, now_ns = self.simulation, round(self._steps * 1e9 / self._control_hz)
        if self._controller is None:
            self._controller = controller_of(self.profile, simulation.course, self._control_hz)
        for each in messages:
            self._controller.on_neighbour(each)
        rate = float(simulation.plant.yaw_rate_radps[0])
        command = self._controller.step(
            StateEstimate(
                now_ns, now_ns, *self.pose, self.speed_mps, rate, (0.0,) * 16,
                EstimatorStatus.RUNNING,
            ),
            now_ns,
        )  # fmt: skip
        drive = -command.brake if command.brake > 0.0 else command.throttle
        steering = self.profile.vehicle.steering.command(command.wheel_angle_rad)
        simulation.advance(np.array([[drive, steering]]))
        self._steps += 1


class FleetEnv(ParallelEnv[str, Observations, npt.NDArray[np.float32]]):  # type: ignore[misc]
    """Vehicles of a fleet file in one world.

    An agent observes the features of its task, then :data:`NEIGHBOUR` of every other vehicle in the
    order of names. A contact ends the episodes of both vehicles as a failure; a vehicle whose
    episode has ended stays where it is. The episode ends when no agent is left.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "vehicled_fleet_v0", "render_modes": []}

    def __init__(
        self,
        fleet: str,
        agents: Sequence[str] = (),
        overrides: Sequence[str] = (),
        period_s: float = 0.1,
        control_hz: float = 50.0,
        task: str = "path_tracking",
        render_mode: None = None,
        **options: Any,
    ) -> None:
        """Take the file of a fleet.

        ``agents``: vehicles that act, all if empty; the others drive by their controllers at
        ``control_hz``. ``overrides``: as ``--set``. ``options``: those of the other environments
        but profile and course, for the agents. Raises :class:`GymError`, SetupError and what the
        vehicles raise.
        """
        refuse_rendering(render_mode)
        file = read_fleet(Path(fleet))
        entries, _, common = varied(file.vehicle, file.radio, overrides)
        names = sorted(each.name for each in entries)
        unknown = sorted(set(agents) - set(names))
        if unknown:
            raise GymError(
                f"agents: no vehicle {', '.join(unknown)}; the fleet has {', '.join(names)}"
            )
        self._substeps = round(period_s * control_hz) if isfinite(period_s * control_hz) else 0
        if self._substeps < 1 or abs(self._substeps - period_s * control_hz) > 1e-9:
            raise GymError(
                f"period_s = {period_s:g} must hold a whole number of control periods: "
                f"control_hz is {control_hz:g}"
            )
        self._seed = 0
        self.possible_agents = sorted(agents) or names
        self.agents: list[str] = []
        own = {"task": task, **options}
        spec = RunSpec(profile="art_published", overrides=common, scene=file.scene, log_folder=None)
        self._vehicles: dict[str, _Vehicle] = {}
        # The courses that begin elsewhere are read once.
        with TemporaryDirectory(prefix="vehicled_fleet_") as folder:
            for each in plan_fleet(entries, spec, Path(folder)).vehicles:
                name = each.entry.name
                self._vehicles[name] = (
                    _Vehicle(each, own, period_s)
                    if name in self.possible_agents
                    else _Driven(each, {"task": "path_tracking"}, control_hz)
                )
        self._radio: list[NeighbourState] = []
        self._ended: set[str] = set()
        for vehicle in self._vehicles.values():
            for other in self._others(vehicle):
                vehicle.simulation.add_moving(other.body)
        count = len(self._vehicles) - 1
        self.observation_spaces = {}
        self.action_spaces = {name: action_space() for name in self.possible_agents}
        for name in self.possible_agents:
            features = self._vehicles[name].simulation.features
            bound = np.tile(BOUNDS, count)
            self.observation_spaces[name] = spaces.Box(
                np.append(features.low, -bound), np.append(features.high, bound), dtype=np.float32
            )

    def observation_space(self, agent: str) -> Any:
        """Return the observation space of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return the action space of an agent."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observations], dict[str, Info]]:
        """Start new episodes of all vehicles. Without a seed those that follow the last ones."""
        del options
        given = checked_seed(seed)
        self._seed = self._seed + 1 if given is None else given
        self.agents, self._ended = list(self.possible_agents), set()
        for vehicle in self._vehicles.values():
            vehicle.reset(seed_of(self._seed, vehicle.name))
        self._share_poses()
        return self._observations(self.agents), self._infos(self.agents)

    def step(
        self, actions: Mapping[str, npt.NDArray[np.float32]]
    ) -> tuple[
        dict[str, Observations],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """Advance all vehicles one period, each by its action or its controller."""
        acting = self.agents
        missing = sorted(set(acting) - set(actions))
        if missing:
            raise GymError(f"no action for {', '.join(missing)}")
        self._advance(acting, actions)
        struck = self._struck()
        self._share_poses()
        rewards, terminated, truncated = dict[str, float](), dict[str, bool](), dict[str, bool]()
        for name in acting:
            simulation = self._vehicles[name].simulation
            failed = bool(simulation.terminated[0])
            rewards[name] = float(simulation.reward[0])
            if name in struck and not failed:
                rewards[name] -= simulation.weights.failure
            terminated[name] = failed or name in struck
            truncated[name] = bool(simulation.truncated[0]) and not terminated[name]
        infos = self._infos(acting)
        for name in acting:
            infos[name]["struck"] = name in struck
        self._ended |= struck | {name for name in acting if terminated[name] or truncated[name]}
        self.agents = [name for name in acting if name not in self._ended]
        return self._observations(acting), rewards, terminated, truncated, infos

    # ------------------------------------------------------------------ inside

    def _others(self, vehicle: _Vehicle) -> list[_Vehicle]:
        return [each for each in self._vehicles.values() if each is not vehicle]

    def _advance(self, acting: Sequence[str], actions: Mapping[str, Any]) -> None:
        driven = [
            each
            for each in self._vehicles.values()
            if isinstance(each, _Driven) and each.name not in self._ended
        ]
        for name in acting:
            self._vehicles[name].simulation.advance(np.asarray(actions[name])[None])
        for substep in range(self._substeps):
            for each in driven:
                received = [state for state in self._radio if state.sender != each.name]
                each.step(received if not substep else ())
        for each in driven:
            simulation = each.simulation
            if simulation.terminated[0] or simulation.truncated[0]:
                self._ended.add(each.name)

    def _struck(self) -> set[str]:
        """Return the vehicles that touch another."""
        found: set[str] = set()
        for a, b in combinations(self._vehicles.values(), 2):
            if {a.name, b.name} <= self._ended:
                continue
            if overlap(a.outline, a.pose, b.outline, b.pose):
                found |= {a.name, b.name}
        return found

    def _share_poses(self) -> None:
        """Publish the present poses of all vehicles at the same time, and sense."""
        for each in self._vehicles.values():
            each.body.pose = each.pose
        for name in self.agents:
            self._vehicles[name].simulation.sense()
        self._radio = [_broadcast(each) for each in self._vehicles.values()]

    def _observations(self, names: Sequence[str]) -> dict[str, Observations]:
        return {name: self._observation(self._vehicles[name]) for name in names}

    def _observation(self, vehicle: _Vehicle) -> Observations:
        own = vehicle.simulation.observe()[0]
        seen = [value for other in self._others(vehicle) for value in _relative(vehicle, other)]
        space = self.observation_spaces[vehicle.name]
        observed: Observations = np.append(own, seen).astype(np.float32)
        return clipped(observed, space.low, space.high)

    def _infos(self, names: Sequence[str]) -> dict[str, Info]:
        return {
            name: {
                key: values[0].item()
                for key, values in self._vehicles[name].simulation.info().items()
            }
            for name in names
        }


def _relative(vehicle: _Vehicle, other: _Vehicle) -> tuple[float, float, float, float]:
    x, y, yaw = vehicle.pose
    other_x, other_y, other_yaw = other.pose
    dx, dy, c, s = other_x - x, other_y - y, cos(yaw), sin(yaw)
    heading = remainder(other_yaw - yaw, 2.0 * pi)
    return c * dx + s * dy, c * dy - s * dx, heading, other.speed_mps


def _broadcast(vehicle: _Vehicle) -> NeighbourState:
    t_ns = round(float(vehicle.simulation.time_s[0]) * 1e9)
    rate = float(vehicle.simulation.plant.yaw_rate_radps[0])
    return NeighbourState(t_ns, t_ns, vehicle.name, *vehicle.pose, vehicle.speed_mps, rate, 0.0)

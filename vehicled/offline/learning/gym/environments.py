"""Gymnasium environments over the simulator: one vehicle, or many as a vector.

Both are :class:`~vehicled.offline.learning.gym.simulation.BatchSimulation`.
"""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vehicled.core.error_text import message, shown
from vehicled.offline.learning.gym.errors import GymError
from vehicled.offline.learning.gym.settings import settings
from vehicled.offline.learning.gym.simulation import BatchSimulation, Observations, Rows

Info = dict[str, Any]


def action_space() -> Any:
    """Return the space of throttle, as a fraction of full drive, negative for the brake, and
    steering, as a fraction of full steering, positive left. Each has a random stream of its own."""
    return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


def _observation_space(simulation: BatchSimulation) -> Any:
    return gymnasium.spaces.Box(simulation.features.low, simulation.features.high, dtype=np.float32)


class VehicleEnv(gymnasium.Env[Observations, npt.NDArray[np.float32]]):
    """One vehicle. The options are those of
    :class:`~vehicled.offline.learning.gym.settings.EnvironmentSettings`."""

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium's own attribute

    def __init__(self, render_mode: None = None, **options: Any) -> None:
        """Raises :class:`GymError` for an option, and ProfileError, CourseError or SceneError for
        what it names."""
        refuse_rendering(render_mode)
        self.simulation = BatchSimulation(settings(options), 1)
        """State and truth of the vehicle."""
        self.observation_space = _observation_space(self.simulation)
        self.action_space = action_space()

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observations, Info]:
        super().reset(seed=checked_seed(seed))
        self.simulation.reset(np.zeros(1, np.intp), [self.np_random])
        return self.simulation.observe()[0], self._info()

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observations, float, bool, bool, Info]:
        if self._np_random is None:
            raise gymnasium.error.ResetNeeded("call reset() before the first step")
        simulation = self.simulation
        simulation.step(_array(action)[None])
        return (
            simulation.observe()[0],
            float(simulation.reward[0]),
            bool(simulation.terminated[0]),
            bool(simulation.truncated[0]),
            self._info(),
        )

    def _info(self) -> Info:
        return {key: values[0].item() for key, values in self.simulation.info().items()}


class VehicleVectorEnv(VectorEnv[Observations, npt.NDArray[np.float32], npt.NDArray[np.generic]]):
    """Many vehicles on one course, each as :class:`VehicleEnv` with its own seed."""

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: None = None,
        **options: Any,
    ) -> None:
        """Raises like :class:`VehicleEnv`."""
        if num_envs < 1:
            raise GymError(f"num_envs is {num_envs}; it must be 1 or more")
        refuse_rendering(render_mode)
        self.num_envs = num_envs
        self._autoreset = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self._autoreset}
        self.simulation = BatchSimulation(settings(options), num_envs)
        """State and truth of all vehicles."""
        self.single_observation_space = _observation_space(self.simulation)
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._generators: list[np.random.Generator] = []
        self._seeds: list[int] = []

    @property  # type: ignore[misc]  # no setter: seeds come by reset()
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # one for each row, as gymnasium's own
        """Random streams of the rows."""
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Seeds of the rows."""
        return tuple(self._seeds)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: Info | None = None
    ) -> tuple[Observations, Info]:
        """Start new episodes. A number seeds row i with ``seed + i``; with ``options={"reset_mask":
        ...}`` only some rows start.

        Raises :class:`GymError` for seeds that are none, and for seeds or a mask of another length.
        """
        n = self.num_envs
        mask = np.asarray((options or {}).get("reset_mask", np.ones(n, dtype=np.bool_)))
        if mask.shape != (n,) or mask.dtype != np.bool_ or not mask.any():
            raise GymError(f"reset_mask must hold {n} booleans, at least one of them true")
        if isinstance(seed, list | tuple | np.ndarray):
            seeds = [checked_seed(each) for each in seed]
        else:
            first = checked_seed(seed)
            seeds = [None if first is None else first + row for row in range(n)]
        if len(seeds) != n:
            raise GymError(f"{len(seeds)} seeds for {n} environments; give one each, or one number")
        if not self._generators:
            drawn = [seeding.np_random() for _ in range(n)]
            self._generators = [generator for generator, _ in drawn]
            self._seeds = [number for _, number in drawn]
        rows = np.flatnonzero(mask)
        for row in rows.tolist():
            if seeds[row] is not None:
                self._generators[row], self._seeds[row] = seeding.np_random(seeds[row])
        self.simulation.reset(rows, [self._generators[row] for row in rows.tolist()])
        self._ended[rows] = False
        return self.simulation.observe(), self._info()

    def step(
        self, actions: npt.NDArray[np.float32]
    ) -> tuple[
        Observations, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], Info
    ]:
        if not self._generators:
            raise gymnasium.error.ResetNeeded("call reset() before the first step")
        simulation = self.simulation
        new: Rows | None = None
        if self._autoreset == AutoresetMode.NEXT_STEP:
            new = np.flatnonzero(self._ended)
        elif self._autoreset == AutoresetMode.DISABLED and self._ended.any():
            raise GymError(
                'an episode has ended: call reset(options={"reset_mask": terminated | '
                "truncated}) before the next step"
            )
        simulation.step(_array(actions), new)
        observations, info = simulation.observe(), self._info()
        rewards = simulation.reward.copy()
        terminated = simulation.terminated.copy()
        truncated = simulation.truncated.copy()
        self._ended = terminated | truncated
        if self._autoreset == AutoresetMode.SAME_STEP and self._ended.any():
            rows = np.flatnonzero(self._ended)
            final = {key: values for key, values in info.items() if not key.startswith("_")}
            for row in rows.tolist():
                last = {
                    "final_obs": observations[row],
                    "final_info": {key: values[row] for key, values in final.items()},
                }
                info = self._add_info(info, last, row)
            simulation.reset(rows)
            observations, info = simulation.observe(), info | self._info()
        return observations, rewards, terminated, truncated, info

    def _info(self) -> Info:
        every, facts = np.ones(self.num_envs, dtype=np.bool_), self.simulation.info()
        return facts | {f"_{key}": every for key in facts}


def checked_seed(value: Any) -> int | None:
    """Return a seed as gymnasium takes it. Raises :class:`GymError` for what is no whole number of
    at least 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise GymError(f"seed {shown(value)}: give a whole number of at least 0, or None")
    return int(value)


def _array(action: object) -> npt.NDArray[Any]:
    try:
        return np.asarray(action)
    except (ValueError, TypeError) as error:
        raise GymError(f"the action {shown(action)} is no array: {message(error)}") from None


def refuse_rendering(render_mode: object) -> None:
    """Raise :class:`GymError` for a render mode."""
    if render_mode is not None:
        raise GymError(
            f"render_mode {render_mode!r}: there is none; draw simulation.plant, or drive the "
            "daemon with a live view"
        )

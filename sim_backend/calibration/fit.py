"""Least squares of quantities on drives, with what is known before as a weak prior and unknowns of the drives beside them.

Unknowns are scaled by the standard deviations of the prior. The charge of a drive's battery is an unknown of that drive alone
(``LEVEL_SIGMA`` about 1): it takes up what differs between drives of one vehicle, and nobody knows it of a drive to come. How far
the heading that a rig gives is turned from that of the vehicle (``MISALIGNED_SIGMA_RAD`` about 0) is an unknown of all drives of
that rig, and so known of one to come: markers are stuck on by hand.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from sim_backend.calibration.quantity import Model, Quantity
from sim_backend.calibration.run import Array, Motion, Piece, as_measured

LEVEL_SIGMA = 0.01
MISALIGNED_SIGMA_RAD = 0.03
SPEED_SIGMA_MPS = 0.1
YAW_SIGMA_RAD = 0.05
PLACE_SIGMA_M = 0.1
"""Errors of a good fit are a third of these, and hang together over ten rows and more."""
DIFFERENCE = 0.01
"""Of a scaled unknown, for derivatives: dry friction and rest make the cost rough below it."""
MOST_ROUNDS = 16
TRIAL_ROUNDS = 5
MOST_TRIES = 5
LEAST_GAIN = 1e-3
STARTS = 3

Tell = Callable[[str], None]


class Fitted(Struct, frozen=True, kw_only=True):
    """A solution of one stage."""

    quantities: list[Quantity]
    values: dict[str, float]
    covariance: Array
    """(q, q) of the quantities, in their units; what drives have to do with each other along a drive is taken into account."""
    levels: dict[int, float]
    """Charge by index of the run; empty where no throttle is fitted."""
    misaligned_rad: dict[str, float]
    """Heading of the vehicle less the measured one, by rig; empty where no path is fitted."""
    stopped: bool
    """Ended by hand; the values are the best until then."""


class Stage:
    """Quantities that are seen in one kind of drive: at the measured speed, or by throttle alone."""

    def __init__(
        self, model: Model, pieces: Sequence[Piece], quantities: Sequence[Quantity], fixed: dict[str, float], *, by_speed: bool
    ) -> None:
        self._model, self._pieces, self._quantities, self._fixed = model, list(pieces), list(quantities), dict(fixed)
        self._by_speed = by_speed
        self._step_s = model.steps_s()[0]
        self._beside: list[int | str] = sorted({self._key(piece) for piece in pieces}, key=str)
        self._best: tuple[float, Array] = (np.inf, np.zeros(0))
        self._linear: tuple[list[Array], Array] | None = None

    def solve(self, tell: Tell, begin: dict[str, float] | None = None) -> Fitted:
        """Best values. ``begin`` skips the search for where to begin. Needs scipy."""
        q = self._quantities
        guesses = [self._scaled(begin or {})]
        stopped = False
        self._tell = tell
        try:
            guesses = guesses if begin else self._guesses(tell)
            if len(guesses) > 1:
                trials = []
                for number, guess in enumerate(guesses, start=1):
                    self._told = f"start {number} of {len(guesses)}, "
                    trials.append(self._search(guess, TRIAL_ROUNDS))
                guesses = [min(trials, key=lambda trial: trial[0])[1]]
            self._told = ""
            self._search(guesses[0], MOST_ROUNDS)
            self._derivatives(self._best[1])
        except KeyboardInterrupt:
            stopped = True
        z = self._best[1] if len(self._best[1]) else guesses[0]
        covariance = self._covariance(*self._linear) if self._linear else np.diag([quantity.sigma**2 for quantity in q])
        beside = {key: float(z[len(q) + k]) for k, key in enumerate(self._beside)}
        return Fitted(
            quantities=q,
            values=self._values(z),
            covariance=covariance,
            levels={key: 1.0 + LEVEL_SIGMA * beside[key] for key in beside if isinstance(key, int)},
            misaligned_rad={key: MISALIGNED_SIGMA_RAD * beside[key] for key in beside if isinstance(key, str)},
            stopped=stopped,
        )

    def _search(self, z: Array, rounds: int) -> tuple[float, Array]:
        """Levenberg and Marquardt's way down; every step is the bounded linear least squares, so that bounds do not slow it."""
        from scipy.optimize import lsq_linear

        lower, upper = self._bounds()
        damping, self._round, idle = 0.1, 0, 0
        residual = self._residuals(z)
        cost = _robust(residual, len(z))
        while self._round < rounds and idle < 2:
            jacobian = self._derivatives(z)
            weight = _weights(residual, len(z))
            triangle = np.asarray(np.linalg.qr(np.column_stack([jacobian * weight[:, None], residual * weight]))[1])
            idle += 1
            for _ in range(MOST_TRIES):
                rows = np.vstack([triangle[:, :-1], np.sqrt(damping) * np.eye(len(z))])
                aim = -np.concatenate([triangle[:, -1], np.zeros(len(z))])
                step = lsq_linear(rows, aim, bounds=(lower - z - 1e-12, upper - z + 1e-12), method="bvls").x
                moved = np.clip(z + step, lower, upper)
                there = self._residuals(moved)
                reached = _robust(there, len(z))
                if reached < cost:
                    idle = idle if cost - reached < LEAST_GAIN * cost else 0
                    z, residual, cost, damping = moved, there, reached, damping / 6.0
                    break
                damping *= 6.0
        return cost, z

    def _guesses(self, tell: Tell) -> list[Array]:
        """Where to begin: the best of the vehicle's own values and of those that quantities name."""
        tried = [self._scaled({}), *(self._scaled(start) for quantity in self._quantities for start in quantity.starts)]
        if len(tried) == 1:
            return tried
        tell("looking where to begin")
        costs = [_robust(self._residuals(z), len(z)) for z in tried]
        return [tried[k] for k in np.argsort(costs)[:STARTS]]

    def _scaled(self, values: dict[str, float]) -> Array:
        lower, upper = self._bounds()
        z = np.zeros(len(self._quantities) + len(self._beside))
        for k, quantity in enumerate(self._quantities):
            z[k] = (values.get(quantity.name, quantity.start) - quantity.start) / quantity.sigma
        inside: Array = np.clip(z, lower + 1e-3 * np.abs(lower), upper - 1e-3 * np.abs(upper))
        return np.clip(inside, lower + 1e-9, upper - 1e-9)

    def _bounds(self) -> tuple[Array, Array]:
        q = self._quantities
        lower = [(quantity.lower - quantity.start) / quantity.sigma for quantity in q]
        upper = [(quantity.upper - quantity.start) / quantity.sigma for quantity in q]
        few = [5.0] * len(self._beside)
        return np.array(lower + [-bound for bound in few]), np.array(upper + few)

    def _values(self, z: Array) -> dict[str, float]:
        q = self._quantities
        return {quantity.name: float(quantity.start + quantity.sigma * z[k]) for k, quantity in enumerate(q)}

    def _key(self, piece: Piece) -> int | str:
        """Whose unknown beside the quantities a piece depends on: its run's, or its rig's."""
        return piece.index if self._by_speed else piece.run.rig

    def _driven(self, piece: Piece, z: Array) -> Motion:
        level = 1.0 + LEVEL_SIGMA * z[self._column(piece)] if self._by_speed else 1.0
        values = {**self._fixed, **self._values(z)}
        return self._model.drive(piece, values, self._step_s, at_speed=not self._by_speed, level=level)

    def _column(self, piece: Piece) -> int:
        return len(self._quantities) + self._beside.index(self._key(piece))

    def _piece(self, piece: Piece, z: Array, made: Motion | None = None) -> Array:
        """Scaled residuals of a piece: (rows,) of the speed, or (3 rows,) of yaw and place. ``made`` is its drive, where known."""
        made = made or self._driven(piece, z)
        if not self._by_speed:
            made = as_measured(made, piece, MISALIGNED_SIGMA_RAD * z[self._column(piece)])
        run, rows = piece.run, piece.rows
        if self._by_speed:
            parts = [(made.speed_mps - run.speed_mps[rows]) / SPEED_SIGMA_MPS]
        else:
            parts = [
                (made.yaw_rad - run.yaw_rad[rows]) / YAW_SIGMA_RAD,
                (made.x_m - run.x_m[rows]) / PLACE_SIGMA_M,
                (made.y_m - run.y_m[rows]) / PLACE_SIGMA_M,
            ]
        return np.clip(np.nan_to_num(np.concatenate(parts), nan=0.0), -1e4, 1e4)

    def _residuals(self, z: Array) -> Array:
        each = [self._piece(piece, z) for piece in self._pieces]
        found = np.concatenate([*each, z])
        cost = _robust(found, len(z))
        if cost < self._best[0]:
            self._best = (cost, z.copy())
        return found

    def _derivatives(self, z: Array) -> Array:
        """(residuals, unknowns). An unknown beside the quantities moves its own pieces only."""
        q = len(self._quantities)
        drives = [self._driven(piece, z) for piece in self._pieces]
        base = [self._piece(piece, z, made) for piece, made in zip(self._pieces, drives, strict=True)]
        ends = np.cumsum([0, *(len(one) for one in base)])
        jacobian = np.zeros((ends[-1] + len(z), len(z)))
        jacobian[ends[-1] :] = np.eye(len(z))
        self._round += 1
        self._tell(f"{self._told}round {self._round}: cost {self._best[0]:.0f}")
        upper = self._bounds()[1]
        for k in range(q):
            step = DIFFERENCE if z[k] + DIFFERENCE < upper[k] else -DIFFERENCE
            moved = z.copy()
            moved[k] += step
            for n, piece in enumerate(self._pieces):
                jacobian[ends[n] : ends[n + 1], k] = (self._piece(piece, moved) - base[n]) / step
        for n, piece in enumerate(self._pieces):
            k = self._column(piece)
            moved = z.copy()
            moved[k] += DIFFERENCE
            made = None if self._by_speed else drives[n]
            jacobian[ends[n] : ends[n + 1], k] = (self._piece(piece, moved, made) - base[n]) / DIFFERENCE
        self._linear = base, jacobian
        return jacobian

    def _covariance(self, residuals: Sequence[Array], jacobian: Array) -> Array:
        """Of the quantities. The data's part is weakened by how long its residuals, one array per piece, hang together: of ten rows
        that err alike, one counts. How large they are is taken from themselves, not from what was assumed."""
        weight = []
        for residual in residuals:
            large = max(float((residual**2).mean()), 1e-2)
            together = max(_together(part) for part in np.split(residual, 1 if self._by_speed else 3))
            weight.append(np.full(len(residual), 1.0 / (large * together)))
        unknowns = jacobian.shape[1]
        data = jacobian[:-unknowns] * np.sqrt(np.concatenate(weight))[:, None]
        information = data.T @ data + np.eye(unknowns)
        scale = np.array([quantity.sigma for quantity in self._quantities])
        found = np.linalg.inv(information)[: len(scale), : len(scale)]
        covariance: Array = found * np.outer(scale, scale)
        return covariance


def _robust(residual: Array, priors: int) -> float:
    """Cost: what lies far off counts by its size, not its square; the last ``priors`` count by their square."""
    data, prior = residual[:-priors], residual[-priors:]
    return float((2.0 * (np.sqrt(1.0 + data * data) - 1.0)).sum() + (prior * prior).sum())


def _weights(residual: Array, priors: int) -> Array:
    """Roots (n,) of the weights with which least squares go down the robust cost."""
    weight: Array = (1.0 + residual * residual) ** -0.25
    weight[-priors:] = 1.0
    return weight


def _together(residual: Array) -> float:
    """Rows that err alike: integrated autocorrelation, up to where it first falls to 0."""
    power = float((residual**2).sum())
    if power <= 1e-12 or len(residual) < 4:
        return 1.0
    total = 1.0
    for lag in range(1, len(residual) // 2):
        share = float((residual[lag:] * residual[:-lag]).sum()) / power
        if share <= 0.05:
            break
        total += 2.0 * share
    return total

"""Least-squares fit of quantities to drives, with weak priors and nuisance parameters.

Unknowns are scaled by their prior standard deviations. Nuisance parameters: the battery charge of
each drive (``LEVEL_SIGMA`` about 1), which absorbs differences between drives and is unknown for
future ones; and the heading misalignment of each rig (``MISALIGNED_SIGMA_RAD`` about 0), shared by
its drives and so known for future ones, because markers are attached by hand.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.arrays import Array
from vehicled.offline.processes import WorkerPool
from vehicled.offline.twin.calibration.quantity import CalibrationModel, Quantity, Values
from vehicled.offline.twin.calibration.run import RunSegment, SimulatedMotion, as_measured

LEVEL_SIGMA = 0.01
MISALIGNED_SIGMA_RAD = 0.03
SPEED_SIGMA_MPS = 0.1
YAW_SIGMA_RAD = 0.05
PLACE_SIGMA_M = 0.1
"""Scale of residuals; a good fit has a third of it, correlated over ten rows and more."""
START_SIGMA_M = 0.02
START_SIGMA_RAD = 0.01
"""Errors of a measured pose."""
SPEED_DRAWS = 8
"""Number of times that the noise of the measured speed is drawn anew, for its share of the
covariance."""
DIFFERENCE = 0.01
"""Step of numerical derivatives, scaled; below it dry friction and standstill make the cost
rough."""
MOST_ROUNDS = 16
TRIAL_ROUNDS = 5
MOST_TRIES = 5
LEAST_GAIN = 1e-3
STARTS = 3

Report = Callable[[str], None]


class Fitted(Struct, frozen=True, kw_only=True):
    """Solution of one stage."""

    quantities: list[Quantity]
    values: dict[str, float]
    covariance: Array
    """Covariance (q, q) of the quantities, in their units; it accounts for correlation along a
    drive and for what is considered."""
    shown: Array
    """The same as if all other quantities were known: what the drives show."""
    pulls: dict[str, float]
    """Distance by which the priors move each quantity, in its unit and to first order."""
    levels: dict[int, float]
    """Charge by index of the run; empty if no throttle is fitted."""
    misaligned_rad: dict[str, float]
    """Heading of the vehicle minus the measured one, by rig; empty if no path is fitted."""
    stopped: bool
    """True if interrupted; the values are the best so far."""


class FitStage:
    """Quantities fitted to one kind of drive: at the measured speed, or by throttle alone."""

    def __init__(
        self,
        model: CalibrationModel,
        pieces: Sequence[RunSegment],
        quantities: Sequence[Quantity],
        fixed: dict[str, float],
        *,
        by_speed: bool,
        considered: Sequence[Quantity] = (),
        processes: WorkerPool | None = None,
    ) -> None:
        """``considered`` are not fitted, but what is known of them counts in the covariance
        (Schmidt 1966). ``processes`` simulate the drives, if given.
        """
        self._considered = list(considered)
        self._model = model
        self._pieces = list(pieces)
        self._quantities = list(quantities)
        self._fixed = dict(fixed)
        self._by_speed = by_speed
        self._step_s = model.steps_s()[0]
        self._nuisance_keys: list[int | str] = sorted(
            {self._key(piece) for piece in pieces}, key=str
        )
        self._best: tuple[float, Array] = (np.inf, np.zeros(0))
        self._linear: tuple[list[Array], Array] | None = None
        self._processes = processes or WorkerPool(1)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to the process that solves."""
        return self.__dict__ | {"_processes": None, "_report": None, "_linear": None}

    def solve(self, report: Report, begin: dict[str, float] | None = None) -> Fitted:
        """Return the best values. ``begin`` skips the search for a starting point. Needs scipy."""
        q = self._quantities
        guesses = [self._scaled(begin or {})]
        sensitivity: Array | None = None
        stopped = False
        self._report = report
        self._processes.share(self)
        try:
            guesses = guesses if begin else self._guesses(report)
            if len(guesses) > 1:
                trials = []
                for number, guess in enumerate(guesses, start=1):
                    self._prefix = f"start {number} of {len(guesses)}, "
                    trials.append(self._search(guess, TRIAL_ROUNDS))
                guesses = [min(trials, key=lambda trial: trial[0])[1]]
            self._prefix = ""
            self._search(guesses[0], MOST_ROUNDS)
            self._derivatives(self._best[1])
            sensitivity = self._sensitivity(self._best[1])
        except KeyboardInterrupt:
            stopped = True
        z = self._best[1] if len(self._best[1]) else guesses[0]
        prior = np.diag([quantity.sigma**2 for quantity in q])
        shown, covariance = (
            self._covariance(*self._linear, sensitivity) if self._linear else (prior, prior)
        )
        nuisance = {key: float(z[len(q) + k]) for k, key in enumerate(self._nuisance_keys)}
        return Fitted(
            quantities=q,
            values=self._values(z),
            covariance=covariance,
            shown=shown,
            pulls=self._pulls(z, *self._linear) if self._linear else {},
            levels={
                key: 1.0 + LEVEL_SIGMA * nuisance[key] for key in nuisance if isinstance(key, int)
            },
            misaligned_rad={
                key: MISALIGNED_SIGMA_RAD * nuisance[key]
                for key in nuisance
                if isinstance(key, str)
            },
            stopped=stopped,
        )

    def _search(self, z: Array, rounds: int) -> tuple[float, Array]:
        """Minimise by Levenberg-Marquardt; each step is a bounded linear least squares, so bounds
        do not slow it."""
        from scipy.optimize import lsq_linear

        lower, upper = self._bounds()
        damping, self._round, idle = 0.1, 0, 0
        residual = self._residuals(z)
        cost = _robust(residual, len(z))
        while self._round < rounds and idle < 2:
            jacobian = self._derivatives(z)
            weight = _weights(residual, len(z))
            triangle = np.asarray(
                np.linalg.qr(np.column_stack([jacobian * weight[:, None], residual * weight]))[1]
            )
            idle += 1
            for _ in range(MOST_TRIES):
                rows = np.vstack([triangle[:, :-1], np.sqrt(damping) * np.eye(len(z))])
                aim = -np.concatenate([triangle[:, -1], np.zeros(len(z))])
                step = lsq_linear(
                    rows, aim, bounds=(lower - z - 1e-12, upper - z + 1e-12), method="bvls"
                ).x
                moved = np.clip(z + step, lower, upper)
                there = self._residuals(moved)
                reached = _robust(there, len(z))
                if reached < cost:
                    idle = idle if cost - reached < LEAST_GAIN * cost else 0
                    z, residual, cost, damping = moved, there, reached, damping / 6.0
                    break
                damping *= 6.0
        return cost, z

    def _guesses(self, report: Report) -> list[Array]:
        """Return the starting point: the best of the vehicle's own values and those that quantities
        suggest."""
        tried = [
            self._scaled({}),
            *(self._scaled(start) for quantity in self._quantities for start in quantity.starts),
        ]
        if len(tried) == 1:
            return tried
        report("searching a starting point")
        costs = [_robust(self._residuals(z), len(z)) for z in tried]
        return [tried[k] for k in np.argsort(costs)[:STARTS]]

    def _scaled(self, values: dict[str, float]) -> Array:
        lower, upper = self._bounds()
        z = np.zeros(len(self._quantities) + len(self._nuisance_keys))
        for k, quantity in enumerate(self._quantities):
            z[k] = (values.get(quantity.name, quantity.start) - quantity.start) / quantity.sigma
        inside: Array = np.clip(z, lower + 1e-3 * np.abs(lower), upper - 1e-3 * np.abs(upper))
        return np.clip(inside, lower + 1e-9, upper - 1e-9)

    def _bounds(self) -> tuple[Array, Array]:
        q = self._quantities
        lower = [(quantity.lower - quantity.start) / quantity.sigma for quantity in q]
        upper = [(quantity.upper - quantity.start) / quantity.sigma for quantity in q]
        few = [5.0] * len(self._nuisance_keys)
        return np.array(lower + [-bound for bound in few]), np.array(upper + few)

    def _values(self, z: Array) -> dict[str, float]:
        q = self._quantities
        return {
            quantity.name: float(quantity.start + quantity.sigma * z[k])
            for k, quantity in enumerate(q)
        }

    def _key(self, piece: RunSegment) -> int | str:
        """Return the nuisance parameter of a piece: its run's or its rig's."""
        return piece.index if self._by_speed else piece.run.rig

    def _driven(self, piece: RunSegment, z: Array, values: Values | None = None) -> SimulatedMotion:
        level = 1.0 + LEVEL_SIGMA * z[self._column(piece)] if self._by_speed else 1.0
        return self._model.drive(
            piece,
            {**self._fixed, **(values or self._values(z))},
            self._step_s,
            at_speed=not self._by_speed,
            level=level,
        )

    def _column(self, piece: RunSegment) -> int:
        return len(self._quantities) + self._nuisance_keys.index(self._key(piece))

    def _piece(self, piece: RunSegment, z: Array, motion: SimulatedMotion | None = None) -> Array:
        """Return the scaled residuals of a piece: (rows,) of the speed, or (3 rows,) of yaw and
        position. ``motion`` is its simulated drive, if known.
        """
        motion = motion or self._driven(piece, z)
        if not self._by_speed:
            motion = as_measured(motion, piece, MISALIGNED_SIGMA_RAD * z[self._column(piece)])
        run, rows = piece.run, piece.rows
        if self._by_speed:
            return _bounded((motion.speed_mps - run.speed_mps[rows]) / SPEED_SIGMA_MPS)
        yaw = _bounded((motion.yaw_rad - run.yaw_rad[rows]) / YAW_SIGMA_RAD)
        x = _bounded((motion.x_m - run.x_m[rows]) / PLACE_SIGMA_M)
        y = _bounded((motion.y_m - run.y_m[rows]) / PLACE_SIGMA_M)
        # At a standstill the start is the mean of many rows.
        exact = piece.run.course_only or piece.start[3] == 0.0
        return np.concatenate([yaw, x, y] if exact else _from_best_start(yaw, x, y, motion, piece))

    def _many(self, tasks: Sequence[tuple[int, Array]]) -> list[Array]:
        """Return the scaled residuals of pieces, each by its number and with its own unknowns."""
        return self._processes.map(_piece_of, tasks)

    def piece(self, number: int, z: Array) -> Array:
        """Return the scaled residuals of a piece."""
        return self._piece(self._pieces[number], z)

    def with_nuisance(self, number: int, z: Array) -> tuple[Array, Array]:
        """Return the scaled residuals of a piece, and those with its nuisance parameter moved by
        ``DIFFERENCE``."""
        piece = self._pieces[number]
        motion = self._driven(piece, z)
        moved = z.copy()
        moved[self._column(piece)] += DIFFERENCE
        # The charge acts on the drive, the misalignment on what is measured of it.
        return self._piece(piece, z, motion), self._piece(
            piece, moved, None if self._by_speed else motion
        )

    def _residuals(self, z: Array) -> Array:
        each = self._many([(n, z) for n in range(len(self._pieces))])
        found = np.concatenate([*each, z])
        cost = _robust(found, len(z))
        if cost < self._best[0]:
            self._best = (cost, z.copy())
        return found

    def _derivatives(self, z: Array) -> Array:
        """Return the Jacobian (residuals, unknowns). A nuisance parameter affects its own pieces
        only."""
        q = len(self._quantities)
        numbers = range(len(self._pieces))
        pairs = self._processes.map(_with_nuisance, [(n, z) for n in numbers])
        base = [pair[0] for pair in pairs]
        ends = np.cumsum([0, *(len(one) for one in base)])
        jacobian = np.zeros((ends[-1] + len(z), len(z)))
        jacobian[ends[-1] :] = np.eye(len(z))
        self._round += 1
        self._report(f"{self._prefix}round {self._round}: cost {self._best[0]:.0f}")
        upper = self._bounds()[1]
        steps = [(k, DIFFERENCE if z[k] + DIFFERENCE < upper[k] else -DIFFERENCE) for k in range(q)]
        changes = [(n, k, step) for k, step in steps for n in numbers]
        tasks = []
        for n, k, step in changes:
            moved = z.copy()
            moved[k] += step
            tasks.append((n, moved))
        for (n, k, step), found in zip(changes, self._many(tasks), strict=True):
            jacobian[ends[n] : ends[n + 1], k] = (found - base[n]) / step
        for n, (piece, (_, found)) in enumerate(zip(self._pieces, pairs, strict=True)):
            jacobian[ends[n] : ends[n + 1], self._column(piece)] = (found - base[n]) / DIFFERENCE
        self._linear = base, jacobian
        return jacobian

    def _sensitivity(self, z: Array) -> Array:
        """Return the effect (residuals of the data, considered) of one prior standard deviation of
        each, to the side where it is larger: a rate limit acts only below the rates that were
        driven. At the measured speed the noise of the speed is considered, too: a path adds it up,
        so that it bends the whole drive where the residuals of yaw and place are white.
        """
        assert self._linear is not None
        base, values = np.concatenate(self._linear[0]), self._values(z)
        columns = []
        for quantity in self._considered:
            both = []
            for side in (-1.0, 1.0):
                moved = {
                    quantity.name: min(
                        max(quantity.start + side * quantity.sigma, quantity.lower), quantity.upper
                    )
                }
                each = [
                    self._piece(piece, z, self._driven(piece, z, values | moved))
                    for piece in self._pieces
                ]
                both.append(side * (np.concatenate(each) - base))
            columns.append(max(both, key=lambda effect: float(effect @ effect)))
        chance = np.random.default_rng(0)
        for _ in range(0 if self._by_speed else SPEED_DRAWS):
            each = [
                self._piece(piece, z, self._driven(_with_noise(piece, chance), z))
                for piece in self._pieces
            ]
            columns.append((np.concatenate(each) - base) / np.sqrt(SPEED_DRAWS))
        return np.column_stack(columns) if columns else np.zeros((len(base), 0))

    def _pulls(self, z: Array, residuals: Sequence[Array], jacobian: Array) -> dict[str, float]:
        """Return the move of each quantity by the priors, whose gradient of the cost is ``z``."""
        weighted = jacobian * _weights(np.concatenate([*residuals, z]), len(z))[:, None]
        moved = -np.linalg.solve(weighted.T @ weighted, z)
        return {
            quantity.name: float(quantity.sigma * moved[k])
            for k, quantity in enumerate(self._quantities)
        }

    def _covariance(
        self, residuals: Sequence[Array], jacobian: Array, sensitivity: Array | None
    ) -> tuple[Array, Array]:
        """Return the covariance of the quantities without and with what is considered. The data's
        weight is reduced by the correlation length of its residuals, one array per piece: ten equal
        errors count once. The size of the errors is estimated from the residuals.
        """
        weight = []
        for residual in residuals:
            large = max(float((residual**2).mean()), 1e-2)
            together = max(
                _together(part) for part in np.split(residual, 1 if self._by_speed else 3)
            )
            weight.append(np.full(len(residual), 1.0 / (large * together)))
        unknowns = jacobian.shape[1]
        root = np.sqrt(np.concatenate(weight))[:, None]
        data = jacobian[:-unknowns] * root
        found = np.linalg.inv(data.T @ data + np.eye(unknowns))
        q = len(self._quantities)
        sigma = np.array([quantity.sigma for quantity in self._quantities])
        scale = np.outer(sigma, sigma)
        shown: Array = found[:q, :q] * scale + np.diag(
            [quantity.model_error**2 for quantity in self._quantities]
        )
        if sensitivity is None:
            return shown, shown
        moved = found[:q] @ data.T @ (sensitivity * root)
        return shown, shown + (moved @ moved.T) * scale


def _piece_of(stage: FitStage, task: tuple[int, Array]) -> Array:
    number, z = task
    return stage.piece(number, z)


def _with_nuisance(stage: FitStage, task: tuple[int, Array]) -> tuple[Array, Array]:
    return stage.with_nuisance(*task)


def _with_noise(piece: RunSegment, chance: np.random.Generator) -> RunSegment:
    """Return the piece with as much noise again in its measured speeds as they have from row to
    row."""
    speed_mps = piece.run.speed_mps
    bends = speed_mps[1:-1] - 0.5 * (speed_mps[:-2] + speed_mps[2:])
    # Of noise that is independent from row to row the bends have 1.5 times the variance; 0.6745 is
    # the median of a normal deviate.
    sigma_mps = (
        float(np.nanmedian(np.abs(bends))) / (0.6745 * np.sqrt(1.5))
        if np.isfinite(bends).any()
        else 0.0
    )
    return replace(
        piece,
        run=replace(piece.run, speed_mps=speed_mps + chance.normal(0.0, sigma_mps, len(speed_mps))),
    )


def _bounded(residual: Array) -> Array:
    """Return the residual with 0 where nothing is known."""
    return np.clip(np.nan_to_num(residual, nan=0.0), -1e4, 1e4)


def _from_best_start(
    yaw: Array, x: Array, y: Array, motion: SimulatedMotion, piece: RunSegment
) -> list[Array]:
    """Return the residuals for the pose at the start that explains them best, each with the error
    of that pose as one row more.

    The measured pose has errors too, and an open-loop drive carries them to its end (Golub &
    Pereyra 1973, variable projection).
    """
    known = piece.run.known()[piece.rows]
    one, none = known.astype(float), np.zeros(len(yaw))
    east, north = ((motion.x_m - piece.start[0]) * one, (motion.y_m - piece.start[1]) * one)
    turned = np.concatenate([one / YAW_SIGMA_RAD, -north / PLACE_SIGMA_M, east / PLACE_SIGMA_M])
    effects = np.column_stack([
        START_SIGMA_RAD * turned, START_SIGMA_M / PLACE_SIGMA_M * np.concatenate([none, one, none]),
        START_SIGMA_M / PLACE_SIGMA_M * np.concatenate([none, none, one]),
    ])  # fmt: skip
    residual = np.concatenate([yaw, x, y])
    errors = np.linalg.solve(effects.T @ effects + np.eye(3), effects.T @ residual)
    parts = np.split(residual - effects @ errors, 3)
    return [np.append(part, error) for part, error in zip(parts, errors, strict=True)]


def _robust(residual: Array, priors: int) -> float:
    """Return the robust cost: outliers count by magnitude, not square; the last ``priors`` by their
    square."""
    data, prior = residual[:-priors], residual[-priors:]
    return float((2.0 * (np.sqrt(1.0 + data * data) - 1.0)).sum() + (prior * prior).sum())


def _weights(residual: Array, priors: int) -> Array:
    """Return the square roots (n,) of the weights of iteratively reweighted least squares."""
    weight: Array = (1.0 + residual * residual) ** -0.25
    weight[-priors:] = 1.0
    return weight


def _together(residual: Array) -> float:
    """Return the integrated autocorrelation of rows, up to its first zero."""
    power = float((residual**2).sum())
    if power <= 1e-12 or len(residual) < 4:
        return 1.0
    total = 1.0
    for lag in range(1, len(residual) // 2):
        autocorrelation = float((residual[lag:] * residual[:-lag]).sum()) / power
        if autocorrelation <= 0.05:
            break
        total += 2.0 * autocorrelation
    return total

"""Solvers of :class:`~vehicled.control.qp.HorizonQp`. Each ends by a bound on its iterations and never by a clock."""

from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from vehicled.control.qp import DYNAMICS, TURN, WHEEL, Array, HorizonQp, Indices
from vehicled.messages import ControlReason

TOLERANCE = 1e-5
"""Of the solution, in metres and radians. OSQP's default 1e-3 gives first inputs that are visibly wrong."""


class Answer(NamedTuple):
    """What a solver found. ``x`` (6, N) belongs to the caller and is finite when ``reason`` is NONE; None when it is not."""

    x: Array | None
    reason: ControlReason
    iterations: int


class Solver(Protocol):
    """Solves the program it was made for, as it stands."""

    def solve(self) -> Answer:
        """The solution from a warm start at the one before. Never raises."""
        ...

    def forget(self) -> None:
        """Start cold next time."""
        ...


class CompressedColumns(NamedTuple):
    """A sparse matrix as OSQP's extension reads it: the attributes of a scipy matrix, without scipy. Entries that are zero today
    keep their places.
    """

    data: Array
    indices: Indices
    indptr: Indices
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.data)


class OsqpSolver:
    """Operator splitting (Stellato et al. 2020) on the sparse program, through the extension type of the osqp package.

    The package's ``OSQP.update`` and ``solve`` copy, clip and wrap; the type below them does what is needed in a quarter of the
    time and validates as little: shapes are constant here, and the planner hands over no program that is not finite.

    Every program begins with the same step size. The easy ones, nearly all, end with it; the hard ones, at corners that cannot be
    driven, have it adapted after every ``ADAPT_EVERY`` iterations: by count and not by time, which would make the solution depend
    on the processor. OSQP's scaling, duality gap and polishing are off: see :mod:`vehicled.control.qp` for the scaling; the gap is
    checked at the price of two products and tells nothing about the inputs.
    """

    ADAPT_EVERY = 50

    def __init__(self, program: HorizonQp, max_iterations: int, step_size: float, *, check_every: int = 10) -> None:
        """``step_size`` is OSQP's rho."""
        # Imported here, because a controller without a solver must not load one.
        from osqp import ext_builtin

        self._program = program
        self._step_size = step_size
        settings = ext_builtin.OSQPSettings()
        ext_builtin.osqp_set_default_settings(settings)
        chosen = {
            "verbose": 0,
            "eps_abs": TOLERANCE,
            "eps_rel": TOLERANCE,
            "max_iter": max_iterations,
            "check_termination": check_every,
            "rho": step_size,
            "alpha": 1.6,
            "adaptive_rho": 1,
            "adaptive_rho_interval": self.ADAPT_EVERY,
            "scaling": 0,
            "polishing": 0,
            "check_dualgap": 0,
        }
        for name, value in chosen.items():
            setattr(settings, name, value)
        n, m = program.unknowns, program.constraints
        each = np.arange(n + 1, dtype=np.int32)
        p = CompressedColumns(program.p_diagonal, each[:-1], each, (n, n))
        a = CompressedColumns(program.values(), program.rows, program.column_starts, (m, n))
        self._solver = ext_builtin.OSQPSolver(
            ext_builtin.CSC(p), program.q, ext_builtin.CSC(a), program.lower, program.upper, m, n, settings
        )
        self._zeros = np.zeros(n), np.zeros(m)
        self._solved = int(ext_builtin.osqp_status_type.OSQP_SOLVED)
        self._bounded = frozenset(
            int(status)
            for status in (ext_builtin.osqp_status_type.OSQP_MAX_ITER_REACHED, ext_builtin.osqp_status_type.OSQP_SOLVED_INACCURATE)
        )
        self._shape = (-1, program.stages)
        # The first solve allocates and touches what later ones only use.
        self._solver.solve()
        self.forget()

    def forget(self) -> None:
        """Start cold next time."""
        self._solver.warm_start(*self._zeros)

    def solve(self) -> Answer:
        """See :class:`Solver`."""
        program, solver = self._program, self._solver
        solver.update_data_vec(program.q, program.lower, program.upper)
        solver.update_data_mat(None, None, program.varying, program.varying_at)
        solver.solve()
        info = solver.info
        iterations = info.iter
        if info.rho_updates:
            solver.update_rho(self._step_size)
        if info.status_val != self._solved:
            if info.status_val in self._bounded:
                # The next program resembles this one: it goes on from here.
                return Answer(None, ControlReason.NOT_CONVERGED, iterations)
            self.forget()
            return Answer(None, ControlReason.INFEASIBLE, iterations)
        x = solver.solution.x
        # NaN and infinity survive a sum.
        if not isfinite(np.add.reduce(x)):
            self.forget()
            return Answer(None, ControlReason.NOT_FINITE, iterations)
        return Answer(x.reshape(self._shape), ControlReason.NONE, iterations)

    @property
    def run_time_s(self) -> float:
        """OSQP's own time of the last update and solve."""
        return float(self._solver.info.run_time)


class DaqpSolver:
    """Dual active set (Arnstrom et al. 2022) on the condensed program: states eliminated, turns and slacks left. Exact.

    min z'Hz/2 + f'z over z = (turns, slacks) (2 N,), bounds on z first and then 2 N rows: wheel, left less slack.
    """

    def __init__(self, program: HorizonQp, max_iterations: int) -> None:
        import daqp

        self._program = program
        self._max_iterations = max_iterations
        self._solve = daqp.solve
        n = program.stages
        self._free = np.concatenate((np.arange(TURN * n, (TURN + 1) * n), np.arange((WHEEL + 1) * n, program.unknowns)))
        self._states = np.arange((TURN + 1) * n, (WHEEL + 1) * n)

    def forget(self) -> None:
        """Nothing is remembered."""

    def solve(self) -> Answer:
        """See :class:`Solver`."""
        program = self._program
        n, m = program.stages, DYNAMICS * program.stages
        a = program.dense()
        if not (np.isfinite(a).all() and np.isfinite(program.q).all() and np.isfinite(program.lower + program.upper).all()):
            return Answer(None, ControlReason.NOT_FINITE, 0)
        # Dynamics: states = gain z. Their block is triangular with -1 on the diagonal, so it can always be inverted.
        gain = np.linalg.solve(a[:m, self._states], -a[:m, self._free])
        whole = np.zeros((program.unknowns, 2 * n))
        whole[self._free, np.arange(2 * n)] = 1.0
        whole[self._states] = gain
        hessian = whole.T @ (program.p_diagonal[:, None] * whole)
        gradient = whole.T @ program.q
        bounds = a[m:] @ whole
        turns, rows = slice(m, m + n), slice(m + n, None)
        slack = np.full(n, 1e30)
        upper = np.concatenate((program.upper[turns], slack, program.upper[rows]))
        lower = np.concatenate((program.lower[turns], -slack, program.lower[rows]))
        z, _, flag, info = self._solve(
            hessian, gradient, np.ascontiguousarray(bounds[n:]), upper, lower, iter_limit=self._max_iterations
        )
        iterations = int(info["iterations"])
        if flag < 1:
            return Answer(None, ControlReason.INFEASIBLE if flag == -1 else ControlReason.NOT_CONVERGED, iterations)
        x = whole @ z
        if not np.isfinite(x).all():
            return Answer(None, ControlReason.NOT_FINITE, iterations)
        return Answer(x.reshape(-1, n), ControlReason.NONE, iterations)

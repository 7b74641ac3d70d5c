"""Solvers of :class:`~vehicled.control.mpc.qp.HorizonQp`. Each stops at an iteration limit, never
at a time limit."""

from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from vehicled.control.mpc.qp import DYNAMICS, TURN, WHEEL, HorizonQp, Indices
from vehicled.core.arrays import Array
from vehicled.core.messages import ControlReason

TOLERANCE = 1e-5
"""Solution tolerance, m and rad. OSQP's default of 1e-3 gives visibly wrong first inputs."""


class QpSolution(NamedTuple):
    """Result of a solver. ``x`` (6, N) belongs to the caller and is finite if ``reason`` is NONE;
    otherwise it is None."""

    x: Array | None
    reason: ControlReason
    iterations: int


class Solver(Protocol):
    """Interface of the solvers; each is built for one program."""

    def solve(self) -> QpSolution:
        """Return the solution, warm-started at the last one. Never raises."""
        ...

    def forget(self) -> None:
        """Start cold next time."""
        ...


class CompressedColumns(NamedTuple):
    """Sparse matrix with the scipy attributes that OSQP's extension reads. Entries that are zero
    now keep their places."""

    data: Array
    indices: Indices
    indptr: Indices
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.data)


class OsqpSolver:
    """Operator splitting (Stellato et al. 2020) on the sparse program, through the extension type
    of the osqp package.

    Direct use of the extension type takes a quarter of the time of ``OSQP.update`` and ``solve``,
    which copy, clip and wrap. It validates little: shapes are constant, and the planner passes only
    finite programs.

    Rho adapts every ``ADAPT_EVERY`` iterations, by count, because adaptation by time would make the
    solution depend on the processor. Most programs end before. OSQP's scaling, duality gap and
    polishing are off (for scaling see :mod:`vehicled.control.mpc.qp`).
    """

    ADAPT_EVERY = 50

    def __init__(
        self, program: HorizonQp, max_iterations: int, step_size: float, *, check_every: int = 10
    ) -> None:
        """Set up OSQP; ``step_size`` is its rho."""
        # Imported here, so that other controllers do not load a solver.
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
            ext_builtin.CSC(p),
            program.q,
            ext_builtin.CSC(a),
            program.lower,
            program.upper,
            m,
            n,
            settings,
        )
        self._zeros = np.zeros(n), np.zeros(m)
        self._solved = int(ext_builtin.osqp_status_type.OSQP_SOLVED)
        self._bounded = frozenset(
            int(status)
            for status in (
                ext_builtin.osqp_status_type.OSQP_MAX_ITER_REACHED,
                ext_builtin.osqp_status_type.OSQP_SOLVED_INACCURATE,
            )
        )
        self._shape = (-1, program.stages)
        # The first solve allocates memory that later ones reuse.
        self._solver.solve()
        self.forget()

    def forget(self) -> None:
        """Start cold next time."""
        self._solver.warm_start(*self._zeros)

    def solve(self) -> QpSolution:
        """Solve the program; see :class:`Solver`."""
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
                # The next program is similar, so it continues from here.
                return QpSolution(None, ControlReason.NOT_CONVERGED, iterations)
            self.forget()
            return QpSolution(None, ControlReason.INFEASIBLE, iterations)
        x = solver.solution.x
        # NaN and infinity propagate through a sum.
        if not isfinite(np.add.reduce(x)):
            self.forget()
            return QpSolution(None, ControlReason.NOT_FINITE, iterations)
        return QpSolution(x.reshape(self._shape), ControlReason.NONE, iterations)

    @property
    def run_time_s(self) -> float:
        """Run time of the last update and solve, measured by OSQP."""
        return float(self._solver.info.run_time)


class DaqpSolver:
    """Dual active-set solver (Arnstrom et al. 2022) on the condensed program, with turns and slacks
    as unknowns. Exact.

    min z'Hz/2 + f'z over z = (turns, slacks) (2 N,), first with bounds on z, then with 2 N rows:
    wheel, left minus slack.
    """

    def __init__(self, program: HorizonQp, max_iterations: int) -> None:
        import daqp

        self._program = program
        self._max_iterations = max_iterations
        self._solve = daqp.solve
        n = program.stages
        self._free = np.concatenate(
            (np.arange(TURN * n, (TURN + 1) * n), np.arange((WHEEL + 1) * n, program.unknowns))
        )
        self._states = np.arange((TURN + 1) * n, (WHEEL + 1) * n)

    def forget(self) -> None:
        """Do nothing: this solver has no warm start."""

    def solve(self) -> QpSolution:
        """Solve the program; see :class:`Solver`."""
        program = self._program
        n, m = program.stages, DYNAMICS * program.stages
        a = program.dense()
        if not (
            np.isfinite(a).all()
            and np.isfinite(program.q).all()
            and np.isfinite(program.lower + program.upper).all()
        ):
            return QpSolution(None, ControlReason.NOT_FINITE, 0)
        # Dynamics: states = gain z. Their block is triangular with -1 on the diagonal, hence
        # invertible.
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
            hessian,
            gradient,
            np.ascontiguousarray(bounds[n:]),
            upper,
            lower,
            iter_limit=self._max_iterations,
        )
        iterations = int(info["iterations"])
        if flag < 1:
            return QpSolution(
                None,
                ControlReason.INFEASIBLE if flag == -1 else ControlReason.NOT_CONVERGED,
                iterations,
            )
        x = whole @ z
        if not np.isfinite(x).all():
            return QpSolution(None, ControlReason.NOT_FINITE, iterations)
        return QpSolution(x.reshape(-1, n), ControlReason.NONE, iterations)

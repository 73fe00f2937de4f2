"""Solves that libraries differentiate: how a system is to be solved, checked and kept until it is."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._core import SolverLimits
from .._util.arguments import one_of, whole_number
from ..arrays import AnyArray
from ..operator.operator import SparseOperator
from . import krylov
from .named import NAMES, SYMMETRIC_SOLVERS, named
from .preconditioners import Jacobi
from .solve import NotSolvedError, solve
from .stopping import check_limits
from .systems import Callback

Method: TypeAlias = Literal["auto", "cg", "minres", "bicgstab", "gmres"]
_METHODS = ("auto", "cg", "minres", "bicgstab", "gmres")
_RESTART = 20


class Request(NamedTuple):
    """How a system is to be solved; all but the matrix and the preconditioner."""

    method: str
    rtol: float | None
    atol: float
    maxiter: int | None
    restart: int | None
    nullspace: str | None

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix, and so the preconditioner, is its own adjoint."""
        return self.method in SYMMETRIC_SOLVERS

    def check(self, M: object, has_pattern: bool, has_values: bool) -> None:
        """Refuse, with TypeError or ValueError, what does not fit together."""
        one_of("method", self.method, _METHODS)
        if self.method == "auto" and not (self.maxiter is None and self.restart is None and M is None):
            raise TypeError("maxiter=, restart= and M= need a method; give method='cg', for example")
        if self.nullspace is not None and not self.is_symmetric:
            raise TypeError(f"nullspace= is for the methods cg and minres, not {self.method}")
        if isinstance(M, str):
            one_of("M", M, NAMES)
        elif not (M is None or isinstance(M, LinearOperator)):
            raise TypeError(
                f"M must be a LinearOperator or one of {', '.join(NAMES)}, not {type(M).__name__}; for the "
                "inverse of a diagonal, give spmvgpu.linalg.Jacobi"
            )
        if has_pattern != has_values:
            raise TypeError("values= is needed with a MatrixPattern, and only with one")

    def preconditioner(self, name: str, op: SparseOperator) -> LinearOperator:
        """A preconditioner by name, as an operator, which has an adjoint."""
        M = named(name, op, self.method)
        return Jacobi(M) if isinstance(M, np.ndarray) else M

    def run(self, op: SparseOperator, b: AnyArray, x0: object, M: object) -> AnyArray:
        """The solution; NotSolvedError if it is not as exact as asked for."""
        rtol = self.rtol
        if rtol is None:
            rtol = 1e-5 if op.dtype in (np.float32, np.complex64) else 1e-8
        if self.method == "auto":
            return solve(op, b, rtol, atol=self.atol, x0=x0)

        def limits(unknowns: int, callback: Callback | None) -> SolverLimits:
            limits = check_limits(rtol, self.atol, self.maxiter, 10, unknowns, callback)
            restart = self.restart
            length = _RESTART if restart is None else whole_number("restart", restart, 1, 2**20)
            limits.restart = min(length, unknowns)
            return limits

        x, info, went = krylov.run(self.method, op, b, x0, M, limits, nullspace=self.nullspace, warns=False)
        if np.any(info):
            residual = went.true_residual / (went.norm_b or 1.0)
            raise NotSolvedError(
                f"{self.method} ended after {went.iterations} iterations ({went.status}) with a relative "
                f"residual of {residual:.1e}, and rtol is {rtol:g}; give M=, a greater maxiter= or a greater "
                "rtol=",
                x,
            )
        return x

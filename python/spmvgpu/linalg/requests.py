"""Solves that libraries differentiate: how a system is to be solved, checked and kept until it is."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, cast

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import one_of
from .._util.types import DType
from ..arrays import AnyArray, AnyLibrary, library_of
from ..arrays.products import common_type
from ..operator.composed import keeping
from ..operator.construct import as_operator
from ..operator.operands import check_vector
from ..operator.operator import SparseOperator
from ..operator.patterns import Pattern
from .direct import splu
from .kept_factors import FactorsOf
from .krylov import KrylovRequest, run
from .named import NAMES, SYMMETRIC_SOLVERS, named
from .solve import NotSolvedError, solve
from .systems import check_square, no_entries, refuse_ranks

Method: TypeAlias = Literal["auto", "direct", "cg", "minres", "bicgstab", "gmres"]
_METHODS = ("auto", "direct", "cg", "minres", "bicgstab", "gmres")


def solution_type(op: LinearOperator, b: AnyArray) -> DType:
    """The type of the solution of a system for a right-hand side."""
    own: DType = np.dtype(op.dtype)
    return own if isinstance(op, SparseOperator) else common_type(own, _type_of(b))


def _type_of(x: AnyArray) -> DType:
    return cast("AnyLibrary", library_of(x)).type_of(x)


def _check_vectors(shape: tuple[int, ...], own: DType, b: AnyArray, x0: AnyArray) -> None:
    columns = b.shape[1] if b.ndim == 2 and b.shape[1] != 1 else None
    for name, x in (("b", b), ("x0", x0)):
        if x is not None:
            check_vector(name, tuple(x.shape), _type_of(x), shape, own, columns)


class SolveRequest(NamedTuple):
    """How a system is to be solved; all but the matrix and the preconditioner."""

    method: str
    rtol: float | None
    atol: float
    maxiter: int | None
    restart: int | None
    nullspace: str | None
    batch: int | None = None  # number of systems on the diagonal of the matrix, each solved by itself

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix, and so the preconditioner, is its own adjoint."""
        return self.method in SYMMETRIC_SOLVERS

    def batched(self, count: int) -> SolveRequest | None:
        """The request for as many systems at once; None if they can only be solved one after the other."""
        if self.method == "auto" or self.nullspace is not None:
            return None
        return self._replace(batch=(self.batch or 1) * count)

    def check(self, M: object, has_pattern: bool, has_values: bool) -> None:
        """Refuse, with TypeError or ValueError, what does not fit together."""
        one_of("method", self.method, _METHODS)
        needs_none = self.method in ("auto", "direct")
        if needs_none and not (self.maxiter is None and self.restart is None and M is None):
            raise TypeError(
                "maxiter=, restart= and M= need an iterative method; give method='cg', for example"
            )
        if self.nullspace is not None and not self.is_symmetric:
            raise TypeError(f"nullspace= is for the methods cg and minres, not {self.method}")
        if isinstance(M, str):
            one_of("M", M, NAMES)
        elif not (M is None or isinstance(M, LinearOperator)):
            raise TypeError(
                f"M must be a LinearOperator or one of {', '.join(NAMES)}, not {type(M).__name__}; for the "
                "inverse of a diagonal, give spmvgpu.linalg.Jacobi"
            )
        if has_pattern and not has_values:
            raise TypeError("A is a MatrixPattern: give values=, such as pattern.values")
        if has_values and not has_pattern:
            raise TypeError(
                "values= is for a MatrixPattern, which spmvgpu.torch and spmvgpu.jax make of a matrix"
            )

    def system(
        self, A: object, b: AnyArray, x0: AnyArray, M: object, values: AnyArray, has_memory: bool = True
    ) -> tuple[LinearOperator | Pattern[AnyArray], DType]:
        """The operator or the pattern of what a caller gave, and the type of its solution.

        What solvers refuse is refused in the same words, but vectors need no memory. Without it, `A` must be
        an operator or a pattern.
        """
        self.check(M, isinstance(A, Pattern), values is not None)
        refuse_ranks(A)
        if not isinstance(A, LinearOperator | Pattern):
            if not has_memory:
                raise TypeError(
                    f"A is a {type(A).__name__}; in a function that is traced or transformed, give an "
                    "operator that was made before: spmvgpu.aslinearoperator(A)"
                )
            A = as_operator(A, b)
        check_square(A.shape)
        own = A._type_of(values) if isinstance(A, Pattern) else solution_type(A, b)
        _check_vectors(A.shape, own, b, x0)
        return A, own

    def preconditioner(
        self, M: LinearOperator | str | None, op: LinearOperator, factors_of: FactorsOf | None = None
    ) -> LinearOperator | None:
        """A preconditioner as an operator, which has an adjoint; of the direct method the factors."""
        if self.method == "direct" and M is None:
            return (factors_of or splu)(op)
        if not isinstance(M, str):
            return keeping(M)
        if not isinstance(op, SparseOperator):
            raise no_entries(f"M={M!r}")
        return named(M, op, self.method)

    def run(
        self,
        op: LinearOperator,
        b: AnyArray,
        x0: object,
        M: LinearOperator | str | None,
        factors_of: FactorsOf | None = None,
    ) -> AnyArray:
        """The solution; NotSolvedError if it is not as exact as asked for."""
        rtol = self.rtol
        if rtol is None:
            rtol = 1e-5 if op.dtype in (np.float32, np.complex64) else 1e-8
        if self.method == "auto":
            _check_vectors(op.shape, solution_type(op, b), b, x0)  # it would turn to a complex system
            return solve(op, b, rtol, atol=self.atol, x0=x0)

        limits = rtol, self.atol, self.maxiter, self.nullspace
        is_direct = self.method == "direct"  # an iteration with the factors, which finds the residual
        solver, M = ("gmres", self.preconditioner(M, op, factors_of)) if is_direct else (self.method, M)
        request = KrylovRequest(solver, x0, M, *limits, restart=self.restart, warns=False, batch=self.batch)
        x, info, went = run(op, b, request)
        if np.any(info):
            residual = went.true_residual / (went.norm_b or 1.0)
            raise NotSolvedError(
                f"{self.method} ended after {went.iterations} iterations ({went.status}) with a relative "
                f"residual of {residual:.1e}, and rtol is {rtol:g}; give M=, a greater maxiter= or a greater "
                "rtol=",
                x,
            )
        return x

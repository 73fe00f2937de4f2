"""A system of equations for `solve`: what is known of its matrix, and refinement."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._util.types import Device, DType, Format, HostArray
from ..arrays import NUMPY, AnyArray, array_and_library, on_host
from ..arrays.products import kind_of
from ..devices import CPU, resolve_device
from ..inputs.canonical import ForeignOperator, source_of
from ..inputs.source import Source, storage_dtype
from ..operator.construct import as_operator
from ..operator.operator import SparseOperator
from ..operator.solve_info import SolveInfo
from .diagonals import empty_rows, inverse_of
from .factors import norms, seconds_of_factors
from .forecast import OnesInSystem, Rival, iterations_of_multigrid, rival_of
from .jacobi import InverseDiagonal, Jacobi, inverse_diagonal
from .krylov import Watch
from .nullspace import NullSpace
from .systems import System, check_square, system_of
from .vectors import random_vector, staged


def dominance(matrix: sp.sparray, diagonal: HostArray) -> float:
    """The least ratio of an entry of the diagonal to the sum of the others of its row, by their sizes."""
    sums = np.asarray(abs(matrix).sum(axis=1)).reshape(-1)
    sizes = np.abs(diagonal)
    others = sums - sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(others > 1e-14 * sums, sizes / others, np.inf)
    return float(ratios.min(initial=np.inf))


_SMALL_ROWS = 4000  # up to which a direct solver on the CPU may be as fast as any other
_SMALL_ENTRIES = 50  # in a row of such a matrix, unless it is very small
_VERY_SMALL_ROWS = 500
# Seconds for factors: what an iterative solver takes at least, and what one may cost that fails.
_QUICK_FACTORS, _SLOW_FACTORS = 5e-4, 0.2
_QUICK_CG = 2e-3  # seconds of cg, up to which factors are not estimated further
# Seconds of an iteration of cg on a CPU for a small matrix, and for each of its entries and rows.
_CG, _CG_ENTRY, _CG_ROW = 5e-6, 1e-9, 2e-9

#: Solves for a right-hand side within a tolerance and a number of iterations.
Solve: TypeAlias = Callable[[HostArray, float, int, Watch], tuple[HostArray, SolveInfo]]


class DoubleSystem:
    """A system that is solved in double precision, whatever its matrix is given as.

    Parameters
    ----------
    A : matrix, SparseOperator or LinearOperator
    b : array
        Right-hand side.
    x0 : array, optional
        Initial guess.
    device, format : str
        Where a matrix goes to, and how it is stored.
    dtype : numpy.dtype, optional
        Type of the operator, for `refine`. By default it is in double precision.
    """

    def __init__(
        self,
        A: object,
        b: object,
        x0: AnyArray,
        device: Device,
        format: Format = "auto",
        dtype: DType | None = None,
    ) -> None:
        self.b, self.library = array_and_library("b", b)
        self.located, self.x0 = self.library.locate(self.b, "b"), x0
        resolve_device(device)  # refuses what is none
        self._device, self._format = device, format
        self._given: SparseOperator | Source = A if isinstance(A, SparseOperator) else source_of(A)
        self.is_foreign = isinstance(self._given, ForeignOperator)
        if len(self._given.shape) != 2:
            raise ValueError(f"A has {len(self._given.shape)} dimensions; give a square matrix")
        check_square(self._given.shape)
        self.rows = int(self._given.shape[0])
        is_complex = "c" in (storage_dtype(self._given.dtype, None).kind, kind_of(self.located.dtype))
        self.dtype: DType = dtype or np.dtype(np.complex128 if is_complex else np.float64)
        self.kind = "Hermitian" if self.dtype.kind == "c" else "symmetric"

    @cached_property
    def op(self) -> SparseOperator | LinearOperator:
        """The operator on its device."""
        op = as_operator(self._given, self.b, device=self._device, format=self._format, dtype=self.dtype)
        if isinstance(op, SparseOperator):
            return op.astype(self.dtype, copy=False)
        return sla.LinearOperator(op.shape, op.matvec, matmat=op.matmat, dtype=self.dtype)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The matrix in host memory."""
        given = self._given
        return given.tocsr() if isinstance(given, SparseOperator) else sp.csr_array(given.host())

    @cached_property
    def empty_rows(self) -> HostArray:
        """The rows without entries, or with zeros alone; none if the entries are not known."""
        if not self.is_small and (self._signs is None or not self._signs.empty_rows):
            return np.empty(0, np.intp)
        return np.flatnonzero(empty_rows(self.matrix))

    @cached_property
    def is_small(self) -> bool:
        """Whether a direct solver on the CPU is the best."""
        if self.is_foreign or self.located.host is None or self.rows > _SMALL_ROWS:
            return False
        if self.rows > _VERY_SMALL_ROWS and self.matrix.nnz > _SMALL_ENTRIES * self.rows:
            return False
        if seconds_of_factors(self.matrix, _QUICK_FACTORS) <= _QUICK_FACTORS:
            return True
        most = min(_SLOW_FACTORS, self._seconds_of_cg)
        if most <= _QUICK_CG:
            return False
        return seconds_of_factors(self.matrix, most) <= most

    @property
    def _seconds_of_cg(self) -> float:
        """About how long cg takes on a CPU; infinity if the matrix may not be positive definite.

        The more the diagonal varies, the more the number of iterations may be above the guess.
        """
        ones = self.ones
        rounding = 1e-6  # rows may add up to zero but for rounding errors
        if ones is None or dominance(self.matrix, self.matrix.diagonal()) < 1 - rounding:
            return float("inf")
        if not self.is_hermitian:
            return float("inf")
        most = ones.iterations * ones.diagonal * ones.inverse / self.rows**2
        return float(most * (_CG + _CG_ENTRY * self.matrix.nnz + _CG_ROW * self.rows))

    @cached_property
    def diagonal(self) -> HostArray | None:
        op = self.op
        return op.diagonal() if isinstance(op, SparseOperator) else None

    @cached_property
    def _signs(self) -> InverseDiagonal | None:
        op = self.op
        return inverse_diagonal(op) if isinstance(op, SparseOperator) else None

    @cached_property
    def divides(self) -> bool:
        """Whether the diagonal has an inverse."""
        signs = self._signs
        if signs is None or signs.others == 0:
            return signs is not None
        diagonal = self.diagonal
        return diagonal is not None and bool(np.isfinite(inverse_of(diagonal, self.dtype)).all())

    def preconditioner(self, name: str) -> Jacobi | str | None:
        """What stands for a name: the inverse of a positive diagonal has been made."""
        if name != "jacobi":
            return None if name == "none" else name
        signs = self._signs
        return name if signs is None or signs.negative or signs.others else signs.inverse

    @property
    def has_positive_diagonal(self) -> bool:
        """Whether the diagonal is positive, as far as it is known."""
        signs = self._signs
        if signs is None or signs.negative == signs.others == 0:
            return True
        diagonal = self.diagonal
        return diagonal is not None and signs.negative == 0 and bool((diagonal.real > 0).all())

    @property
    def ordinal(self) -> int:
        """The device that vectors in host memory stay on from one attempt to the next."""
        op = self.op
        is_whole = isinstance(op, SparseOperator) and not op._stored.description.is_divided
        return op._ordinal if is_whole else CPU

    @property
    def _vectors_by_name(self) -> dict[str, AnyArray]:
        return {"b": self.b} if self.x0 is None else {"b": self.b, "x0": self.x0}

    @cached_property
    def vectors(self) -> tuple[AnyArray, AnyArray]:
        """The right-hand side and the guess, on the operator's GPU if they are vectors in host memory.

        What solvers refuse stays as it is, for their messages.
        """
        pair = self.b, self.x0
        if self.ordinal == CPU or self.rows == 0 or isinstance(self.x0, str):
            return pair
        arrays = [array_and_library(name, array) for name, array in self._vectors_by_name.items()]
        hosts = [library.locate(array, "b").host for array, library in arrays]
        numbers = "biufc" if self.dtype.kind == "c" else "biuf"
        if any(x is None or x.shape != (self.rows,) or kind_of(x.dtype) not in numbers for x in hosts):
            return pair
        b, *x0 = (staged(np.ascontiguousarray(x, self.dtype), self.ordinal).owner for x in hosts)
        return b, x0[0] if x0 else None

    @cached_property
    def host_vectors(self) -> tuple[HostArray, HostArray | None]:
        """The right-hand side and the guess in host memory, checked as the solvers do, and converted.

        Raises
        ------
        TypeError, ValueError
            As the solvers, and for infinity or NaN.
        """
        system = System(on_host("b", self.b), NUMPY, self.rows, self.dtype, CPU, _core.SolverMemory(CPU))
        made: list[HostArray] = []
        for name, array in self._vectors_by_name.items():
            own: Any = system.vectors(False).take(name, on_host(name, array)).owner
            if not np.isfinite(own).all():
                raise ValueError(f"{name} contains inf or NaN")
            made.append(own.T)
        return made[0], made[1] if len(made) > 1 else None

    def residual(self, x: HostArray) -> HostArray:
        """``b - A @ x`` for one right-hand side in host memory."""
        found: HostArray = on_host("b", self.b) - self.matrix @ x
        return found

    def norm(self, v: HostArray) -> float:
        """The norm of a vector in host memory."""
        return float(norms(v))

    def agreement(self) -> AbstractContextManager[None]:
        """A block at whose end all ranks raise what any of them has raised within."""
        return nullcontext()

    def delivered(self, x: AnyArray) -> AnyArray:
        """A solution as the caller gets it, if it is of `vectors` on a GPU."""
        if not isinstance(x, _core.DeviceArray) or self.vectors[0] is self.b:
            return x
        result = np.empty(self.rows, self.dtype)
        x.download(result)
        return self.library.from_host(result, self.b)

    @cached_property
    def is_hermitian(self) -> bool:
        """Whether two products with random vectors differ by rounding errors only."""
        if self.rows == 0:
            return True
        with self.agreement():
            system = system_of(self.op, self.vectors[0])
            A, ordinal = system.core_map(), system.vectors(False).ordinal
        n = system.shape[0]
        basis = _core.KrylovBasis(self.dtype, n, 3, system.memory, system.max_threads, system.ranks)
        at, threads = system.first, system.max_threads
        x, y = (random_vector(n, self.dtype, number, ordinal, at, threads) for number in range(2))
        found = np.array(basis.products(A, x.pointer, y.pointer)).reshape(2, 3)
        if not np.isfinite(found).all():
            raise ValueError("A contains inf or NaN, or its products overflow")
        of_vectors = found[:, :2]
        # The size of both factors of an inner product; the numbers of a random vector are below 1.
        size = np.sqrt(np.abs(found[:, 2]).max() * self.rows)
        allowed = 1e4 * float(np.finfo(self.dtype).eps) * size
        return bool(np.abs(of_vectors - of_vectors.conj().T).max() <= allowed)

    def multigrid(self, solver: str) -> Rival | None:
        """What may be faster than a solver, cg or bicgstab; None if the entries are not known."""
        op = self.op
        if not isinstance(op, SparseOperator):
            return None
        parts = len(op._stored.ordinals)
        of_part = (size // parts for size in (self.rows, op.nnz, op.nbytes))
        return rival_of(solver, iterations_of_multigrid(op._ordinal, *of_part), lambda: self.ones)

    @property
    def ones(self) -> OnesInSystem | None:
        """What the matrix makes of a vector of ones; None if not all of its diagonal is positive."""
        signs = self._signs
        return None if signs is None else signs.ones

    @property
    def suits_multigrid(self) -> bool:
        """Whether the matrix nearly maps constant vectors to zero."""
        return self.ones is not None and self.ones.suit_multigrid

    @cached_property
    def has_constant_null_space(self) -> bool:
        """Whether the matrix and its adjoint map constant vectors to zero, but for rounding errors."""
        if not self.rows:
            return False
        try:
            null = NullSpace(system_of(self.op, self.vectors[0]), "constant", "gmres", self.ordinal, 0.0)
        except ValueError:
            return False
        return null.of_adjoint

    @cached_property
    def dominance(self) -> float:
        """As `dominance` gives it; 0 if the entries are not in host memory."""
        if self.diagonal is None or isinstance(self._given, SparseOperator):
            return 0.0
        return dominance(self.matrix, self.diagonal)


def refine(
    problem: DoubleSystem, guess: AnyArray, solve: Solve, rtol: float, maxiter: int, watch: Watch
) -> tuple[HostArray, SolveInfo, int, float]:
    """Solve, and solve again for the correction while the true residual is too large and gets smaller.

    The residual that a solver updates drifts from the true one by rounding: hardly in double precision, but
    in single precision long before a usual tolerance.

    Returns
    -------
    x : array
    how : SolveInfo
        Of all rounds together, with the residual of `x`.
    rounds : int
    verify_seconds : float
        Time for the residuals.
    """
    double = np.result_type(problem.dtype, np.float64)
    least = 1000 * float(np.finfo(problem.dtype).eps)
    residual = b = on_host("b", problem.b)
    x, left = np.zeros(len(b), double), problem.norm(b)
    norm_b = left
    if guess is not None:
        x += on_host("x0", guess)
        residual = problem.residual(x)
        left = problem.norm(residual)
    done, rounds, verify_seconds = 0, 0, 0.0
    while True:
        scale, before = left or 1.0, done

        def look(
            iterations: int, norm: float, of_1: float, scale: float = scale, before: int = before
        ) -> object:
            return watch(before + iterations, norm / (of_1 or 1.0) * scale, norm_b)

        right, goal = (residual / scale).astype(problem.dtype), max(rtol * norm_b / scale, least)
        correction, how = solve(right, goal, maxiter - done, look)
        start = perf_counter()
        x += scale * correction.astype(double)
        residual, previous = problem.residual(x), left
        left = problem.norm(residual)
        verify_seconds += perf_counter() - start
        done, rounds, status = done + how.iterations, rounds + 1, how.status
        if left <= rtol * norm_b:
            status = "converged"
        elif status == "converged":
            status = "exhausted" if done >= maxiter else "stagnated"
        may_go_on = how.status in ("converged", "stagnated") and left <= 0.5 * previous
        if status == "converged" or done >= maxiter or not may_go_on:
            total = replace(how, status=status, iterations=done, true_residual=left, norm_b=norm_b)
            return x, total, rounds, verify_seconds

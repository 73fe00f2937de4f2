"""What solvers are given, made into what the core solves, and its answer made into theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg as sla

from .. import _core
from .._core import SolverLimits
from .._util.arguments import whole_number
from ..arrays import is_sparse, taken
from ..devices import CPU, device_name
from ..inputs.canonical import matrix_of
from ..operator.construct import aslinearoperator
from ..operator.operands import kind_of
from ..operator.operator import SparseOperator
from .preconditioners import (
    PreconditionerMap,
    callback_map,
    checked_product,
    keeps_pieces,
    map_of_preconditioner,
    taken_map,
)
from .stopping import SolveInfo, check_residuals, info_of, values_of
from .vectors import NOTHING, DeviceVector, Vectors, check_square, is_distributed

_SINGLE = (np.float32, np.complex64)

# Whether the core may use kernels whose blocks wait for each other, and not one for each sweep. Tests do
# without.
COOPERATIVE = True
# Whether it may record iterations as a CUDA graph. Tests do without.
RECORDED = True


class ForeignOperator:
    """A LinearOperator that is none of ours, as the machinery of vectors sees it; products are callbacks.

    Vectors are where `b` is.
    """

    def __init__(self, operator: Any, dtype: np.dtype[Any], ordinal: int) -> None:
        self.shape: tuple[int, int] = operator.shape
        self.dtype = dtype
        self.max_threads: int | None = None
        self.solve_info: SolveInfo | None = None
        self._operator = operator
        self._ordinal = ordinal
        self._stream: int | None = None
        self._solver_memory = _core.SolverMemory(ordinal)

    def _check_device(self, name: str, located: Any, beside: int | None = None) -> None:
        if located.host is None and located.ordinal != self._ordinal:
            raise ValueError(
                f"{name} is on {device_name(located.ordinal)}, but b is on {device_name(self._ordinal)}; "
                "move one of them"
            )

    def core_map(self) -> Any:
        return callback_map(self, partial(checked_product, "A", self._operator.matvec), self._ordinal)


def _system_of(A: Any, b: Any) -> Any:
    """`A` as something that is solved with: a `SparseOperator`, or what stands for one."""
    if is_distributed(A):
        return A._piece_of_system(b)
    if not isinstance(A, SparseOperator):
        b, library = taken("b", b)
        located = library.locate(b, "b")
        ordinal = CPU if located.host is not None else located.ordinal
        if isinstance(A, sla.LinearOperator) or (hasattr(A, "matvec") and not hasattr(A, "tocsr")):
            A = sla.aslinearoperator(A)
            A = ForeignOperator(A, _common_type(np.dtype(A.dtype), located.dtype), ordinal)
        else:
            A = A if is_sparse(A) and hasattr(A, "dtype") else matrix_of(A)  # one of CuPy's stays on its GPU
            dtype = _common_type(np.dtype(A.dtype), located.dtype)
            where = "auto" if library.moves else device_name(ordinal)
            A = aslinearoperator(A, device=where, dtype=dtype)
    check_square(A)
    return A


def _common_type(matrix: np.dtype[Any], b: Any) -> np.dtype[Any]:
    """SciPy's rule: complex if either is, and single precision only where both are."""
    are_single = matrix in _SINGLE and (b in _SINGLE or not isinstance(b, np.dtype))
    if "c" in (matrix.kind, kind_of(b)):
        return np.dtype(np.complex64 if are_single else np.complex128)
    return np.dtype(np.float32 if are_single else np.float64)


class _Prepared(NamedTuple):
    """What the core is called with."""

    system: Any
    limits: SolverLimits
    vectors: Vectors
    right: DeviceVector
    guess: DeviceVector
    preconditioner: PreconditionerMap | None
    x: DeviceVector


def solve(
    solver: str,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    limits: Callable[[int, Any], SolverLimits],
    *,
    callback: Callable[[Any], object] | None = None,
    residuals: list[float] | None = None,
    check_every: int | None = None,
    watch: Callable[[int, float, float], object] | None = None,
) -> tuple[Any, int, SolveInfo]:
    """Run a solver of the core on what the caller gave: the solution, SciPy's `info`, and how it went.

    ``limits(unknowns, callback)`` says when it ends. `watch` gets the iterations, the residual and the norm
    of b whenever the host looks at the solve. Of a distributed system all ranks raise what any of them finds
    wrong with what it was given.
    """
    ranks = A if is_distributed(A) else None
    if ranks is not None:
        callback = ranks._shared_callback(callback)
    with nullcontext() if ranks is None else ranks.agreement():
        given = _prepare(A, b, x0, M, limits, callback, residuals, check_every)
    system, vectors = given.system, given.vectors
    wants_norm = solver == "gmres" and not given.limits.look_restarts

    def look(iterations: int, residual: float, norm_b: float) -> None:
        assert callback is not None
        callback(residual / norm_b if wants_norm else vectors.result())

    looked = watch if callback is None else look
    if ranks is not None:
        system.check_same(**values_of(given.limits), x0=_kind_of_guess(x0), M=_kind_of(given.preconditioner))
        looked = looked and system.together(looked)
    report = _core.solve(
        solver,
        _map_of(system),
        None if given.preconditioner is None else given.preconditioner.core,
        system.shape[0],
        vectors.ordinal,
        given.right.pointer,
        given.guess.pointer,
        given.x.pointer,
        given.limits,
        system._solver_memory,
        vectors.stream,
        system.max_threads,
        looked,
        None if ranks is None else system.ranks,
    )
    if residuals is not None:
        residuals.extend(report.residuals)
    how = SolveInfo.of(solver, report)
    system.solve_info = how
    info = info_of(solver, system.dtype, how, report.offending_value, given.limits.maxiter)
    return vectors.result(), info, how


def _prepare(
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    limits: Callable[[int, Any], SolverLimits],
    callback: Any,
    residuals: Any,
    check_every: Any,
) -> _Prepared:
    """Check and convert what the caller gave."""
    b, _ = taken("b", b)  # once, as reading it may take its time
    system = _system_of(A, b)
    over_ranks = is_distributed(A)
    check_residuals(residuals)
    guess_is_mb = isinstance(x0, str) and x0 == "Mb"
    every = limits(system.unknowns if over_ranks else system.shape[0], callback)
    if check_every is not None:
        every.look_every = whole_number("check_every", check_every, 1, 2**30)
    every.guess_is_mb, every.record = guess_is_mb, residuals is not None
    every.cooperative, every.recorded = COOPERATIVE, RECORDED
    M = taken_map(M)
    vectors = system.vectors() if over_ranks else Vectors(system, b, keeps_pieces(system, M))
    right = vectors.take("b", b)
    guess = NOTHING if x0 is None or guess_is_mb else vectors.take("x0", x0)
    preconditioner = map_of_preconditioner(system, M, vectors)
    return _Prepared(system, every, vectors, right, guess, preconditioner, vectors.new())


def _kind_of_guess(x0: Any) -> str:
    return "none" if x0 is None else "Mb" if isinstance(x0, str) else "array"


def _kind_of(preconditioner: PreconditionerMap | None) -> str:
    if preconditioner is None:
        return "none"
    return "diagonal" if preconditioner.is_diagonal else "operator"


def _map_of(system: Any) -> Any:
    if isinstance(system, SparseOperator):
        return _core.matrix_map(system._matrix)
    return system.core_map()

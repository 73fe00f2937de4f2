"""What solvers are given, made into what the core solves, and its answer made into theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse.linalg as sla

from .. import _core
from ..arguments import whole_number
from ..arrays import library_of
from ..construct import aslinearoperator
from ..devices import CPU, device_name
from ..operands import kind_of
from ..operator import SparseOperator
from .preconditioners import callback_map, checked_product, map_of_preconditioner
from .stopping import SolveInfo, check_residuals, info_of, warn_of_drift
from .vectors import NOTHING, Vectors, check_square

_SINGLE = (np.float32, np.complex64)

# Whether the core may do the iterations of a small system within one kernel. Tests do without.
RESIDENT = True


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
        self._origin = self
        self._solver_memory = _core.SolverMemory(ordinal)

    def check_device(self, name: str, located: Any, beside: int | None = None) -> None:
        if located.host is None and located.ordinal != self._ordinal:
            raise ValueError(
                f"{name} is on {device_name(located.ordinal)}, and b on {device_name(self._ordinal)}; "
                "move it there"
            )

    def multiply(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return checked_product("A", self._operator.matvec, x)


def operator_of(A: Any, b: Any) -> Any:
    """`A` as something that solvers work with: a `SparseOperator`, or a `ForeignOperator`."""
    if not isinstance(A, SparseOperator):
        if isinstance(b, list | tuple):
            b = np.asarray(b)
        library = library_of(b)
        if library is None:
            raise TypeError(f"b must be an array, not {type(b).__name__}")
        located = library.locate(b, "b")
        ordinal = CPU if located.host is not None else located.ordinal
        if isinstance(A, sla.LinearOperator) or (hasattr(A, "matvec") and not hasattr(A, "tocsr")):
            A = sla.aslinearoperator(A)
            A = ForeignOperator(A, _common_type(np.dtype(A.dtype), located.dtype), ordinal)
        else:
            dtype = _common_type(np.dtype(getattr(A, "dtype", np.float64)), located.dtype)
            where = "auto" if located.host is not None else device_name(ordinal)
            A = aslinearoperator(A, device=where, dtype=dtype)
    check_square(A)
    return A


def _common_type(matrix: np.dtype[Any], b: Any) -> np.dtype[Any]:
    """SciPy's rule: complex if either is, and single precision only where both are."""
    are_single = matrix in _SINGLE and (b in _SINGLE or not isinstance(b, np.dtype))
    if "c" in (matrix.kind, kind_of(b)):
        return np.dtype(np.complex64 if are_single else np.complex128)
    return np.dtype(np.float32 if are_single else np.float64)


def solve(
    solver: str,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    limits: dict[str, Any],
    *,
    callback: Callable[[Any], object] | None = None,
    callback_type: str = "x",
    residuals: list[float] | None = None,
    check_every: int | None = None,
    watch: Callable[[int, float, float], object] | None = None,
) -> tuple[Any, int]:
    """Run a solver of the core on what the caller gave; `A` as `operator_of` makes it.

    `watch` gets the iterations, the residual and the norm of b whenever the host looks at the solve.
    """
    check_residuals(residuals)
    every = 0 if check_every is None else whole_number("check_every", check_every, 1, 2**30)
    vectors = Vectors(A, b)
    right = vectors.take("b", b)
    guess_is_mb = isinstance(x0, str) and x0 == "Mb"
    guess = NOTHING if x0 is None or guess_is_mb else vectors.take("x0", x0)
    preconditioner = map_of_preconditioner(A, M, vectors)
    x = vectors.new()

    def look(iterations: int, residual: float, norm_b: float) -> None:
        assert callback is not None
        callback(vectors.result() if callback_type == "x" else residual / norm_b)

    report = _core.solve(
        solver,
        _map_of(A),
        None if preconditioner is None else preconditioner.core,
        A.shape[0],
        A._ordinal,
        right.pointer,
        guess.pointer,
        x.pointer,
        {
            **limits,
            "guess_is_mb": guess_is_mb,
            "look_every": every,
            "record": residuals is not None,
            "resident": RESIDENT,
        },
        A._solver_memory,
        vectors.stream,
        A.max_threads,
        watch if callback is None else look,
    )
    if residuals is not None:
        residuals.extend(report["residuals"])
    A.solve_info = SolveInfo(
        solver, *(report[name] for name in SolveInfo.__dataclass_fields__ if name != "solver")
    )
    status, iterations = report["status"], report["iterations"]
    info = info_of(solver, A.dtype, status, iterations, report["offending_value"], limits["maxiter"])
    if status == "converged" and not (solver == "minres" and M is not None):
        warn_of_drift(solver, max(report["goal"], report["residual"]), report["true_residual"], A.dtype)
    return vectors.result(), info


def _map_of(A: Any) -> Any:
    if isinstance(A, ForeignOperator):
        return callback_map(A, A.multiply)
    return _core.matrix_map(A._matrix)

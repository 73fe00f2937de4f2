"""Factors of a matrix on the CPU or a GPU, as `splu` returns them."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import LinearMap, SolverReports
from .._util.arguments import one_of, with_hints
from .._util.steps import step
from .._util.types import ArrayT, HostArray, HostOperand
from ..arrays import AnyArray, ArrayInfo, array_and_library
from ..devices import CPU, device_name
from ..operator.new_values import NewValues
from ..operator.operator import SparseOperator
from .cudss import CudssFactors
from .factors import SingularMatrixError, SuperLUFactors
from .preconditioners import DevicePreconditioner
from .stopping import warn
from .systems import OperatorSystem
from .vectors import DeviceVector, empty, no_columns, zero_column

_REFINEMENTS = 10  # iterations of gmres with the factors
_ROUNDING = 100  # times the unit roundoff, of a residual that needs no refinement


class DirectFactors(DevicePreconditioner):
    """The factors of a matrix, as `splu` returns them.

    A `LinearOperator` that multiplies by the inverse of the matrix, for example as a preconditioner.

    Attributes
    ----------
    nnz : int
        Number of entries of the factors.
    device : str
        Where they are.
    L, U : csc_array
        Lower and upper triangular factors, whose product is `A` with its rows and columns in another order.
        On the CPU only.
    perm_r, perm_c : (n,) numpy.ndarray of int
        New places of the rows and of the columns, as SciPy's `SuperLU` has them. On the CPU only.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> factors = sg.linalg.splu(np.array([[2.0, 1.0], [0.0, 4.0]]), device="cpu")
    >>> factors.solve(np.array([4.0, 4.0]))
    array([1.5, 1. ])
    """

    _state: _Factored

    def __init__(self, op: SparseOperator, order: HostArray | None = None) -> None:
        super().__init__(op.dtype, op.shape, op._ordinal)
        self._state = _Factored(op._snapshot(), _factorized(op.tocsr(), op._ordinal))
        # Where the values of the matrix that a caller gave are in CSR order; None if they are in that order.
        self._order = order

    @property
    def _op(self) -> SparseOperator:
        return self._state.op

    @property
    def device(self) -> str:
        return device_name(self._ordinal)

    @property
    def nnz(self) -> int:
        factors = self._state.factors
        return 0 if factors is None else factors.nnz

    @property
    def L(self) -> sp.csc_array:  # noqa: N802
        return sp.csc_array(self._of_superlu("L"))

    @property
    def U(self) -> sp.csc_array:  # noqa: N802
        return sp.csc_array(self._of_superlu("U"))

    @property
    def perm_r(self) -> HostArray:
        return np.asarray(self._of_superlu("perm_r"))

    @property
    def perm_c(self) -> HostArray:
        return np.asarray(self._of_superlu("perm_c"))

    def _facts(self) -> str:
        return f"{self.nnz} entries"

    def _of_superlu(self, name: str) -> Any:
        """An attribute of SciPy's factors; AttributeError on a GPU, and for a matrix without rows."""
        factors = self._state.factors
        if isinstance(factors, SuperLUFactors):
            return getattr(factors.scipy, name)
        why = "the matrix has no rows" if factors is None else 'cuDSS gives none; use splu(op.to("cpu"))'
        raise AttributeError(f"the factors on {self.device!r} have no {name}: {why}")

    @overload
    def solve(self, b: HostOperand, trans: str = ...) -> HostArray: ...
    @overload
    def solve(self, b: ArrayT, trans: str = ...) -> ArrayT: ...
    @overload
    def solve(self, b: object, trans: str = ...) -> Any: ...
    @with_hints
    def solve(self, b: object, trans: str = "N") -> AnyArray:
        """Solve systems with the matrix, its transpose or its conjugate transpose.

        Parameters
        ----------
        b : (n,) or (n, k) array
            Right-hand side, or several of them as columns: a NumPy array, or an array of another library on
            the device of the factors. It is cast to their dtype. It may be complex only if they are.
        trans : {"N", "T", "H"}
            Which matrix: `A`, its transpose or its conjugate transpose. On a GPU, each of them is factorized
            when it is first needed, unless `A` is symmetric or Hermitian.

        Returns
        -------
        (n,) or (n, k) array
            Solution, of the library and on the device of `b`.

        Raises
        ------
        TypeError, ValueError
            If an argument has a type, a shape, a dtype or a device that is not allowed.
        SingularMatrixError
            If the solution is not finite and `b` is.
        MemoryError, CudaError
            If the device has no memory left, or fails.

        Warns
        -----
        SolverWarning
            On a GPU, if ``norm(b - A @ x) / norm(b)`` is greater than the square root of the machine epsilon.

        Notes
        -----
        On a GPU, pivots are not chosen among all rows. So the residual is computed in each call, and a few
        iterations of `gmres` with the factors follow where it is larger than rounding errors. The last bits
        of a solution may differ from call to call there.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> factors = sg.linalg.splu(np.array([[2.0, 1.0], [0.0, 4.0]]), device="cpu")
        >>> factors.solve(np.array([4.0, 4.0]), "T")
        array([2. , 0.5])
        """
        one_of("trans", trans, ("N", "T", "H"))
        return self._solve(b, trans)

    def _solve(self, b: object, trans: str, is_vector: bool = False) -> AnyArray:
        """The solution; if `is_vector`, a single column is one as well."""
        b, library = array_and_library("b", b)
        system = OperatorSystem(self._op, b, library)
        if system.columns == 0:
            self._solve(zero_column(b, library), trans)
            return no_columns(self.shape[0], self.dtype, b, library)
        shape = library.locate(b, "b").shape
        if len(shape) == 2 and not is_vector:
            system.columns = shape[1]
        vectors = system.vectors(False)
        right, x = vectors.take("b", system.b), vectors.new()
        vectors.wait()
        factors = self._state.factors
        if isinstance(factors, CudssFactors):
            self._solve_and_check(factors, system, right, x, trans)
        elif factors is not None:
            factors.solve(right, x, system.columns or 1, trans)
        return vectors.result()

    def _solve_and_check(
        self, factors: CudssFactors, system: OperatorSystem, right: DeviceVector, x: DeviceVector, trans: str
    ) -> None:
        """Solve, and refine what is less exact than rounding errors make it."""
        eps, columns = float(np.finfo(self.dtype).eps), system.columns or 1
        first = empty((columns, self.shape[0]), self.dtype, self._ordinal)
        factors.solve(right, first, columns, trans)
        op = self._op if trans == "N" else self._op.T if trans == "T" else self._op.H
        A = _core.matrix_map(op._matrix)

        def run(right: DeviceVector, guess: int, iterations: int, goal: float) -> SolverReports:
            request = _core.SolverRequest("gmres", A, self.shape[0], system.memory, system.max_threads)
            request.rtol, request.atol, request.maxiter = 0.0, goal, iterations
            request.restart, request.legacy = min(_REFINEMENTS, self.shape[0]), True
            request.M = factors.core_map(trans) if iterations else None
            request.columns, request.ordinal = columns, self._ordinal
            request.b, request.guess, request.x = right.pointer, guess, x.pointer
            return _core.solve(request)

        sizes = [report.norm_b for report in run(first, 0, 0, 0.0)]
        reports = run(right, first.pointer, 0, 0.0)
        if not all(np.isfinite(report.norm_b) for report in reports):
            return
        goals = [
            _ROUNDING * eps * (factors.norm * size + report.norm_b)
            for size, report in zip(sizes, reports, strict=True)
        ]
        if not np.isfinite(sizes).all():
            raise SingularMatrixError("the matrix is singular: the solution is not finite")
        if any(report.true_residual > goal for report, goal in zip(reports, goals, strict=True)):
            reports = run(right, first.pointer, _REFINEMENTS, min(goals))
        residual = max(report.true_residual / (report.norm_b or 1.0) for report in reports)
        if not residual <= np.sqrt(eps):
            warn(
                f"norm(b - A @ x) / norm(b) is {residual:.1e}: the matrix is close to singular, or needs the "
                'more careful pivoting of the CPU: splu(op.to("cpu"))',
                stacklevel=6,
            )

    def update_values(self, data: object) -> None:
        """Take a matrix with the same sparsity pattern and other values.

        On a GPU the order of the unknowns and the pattern of the factors stay, so this takes less time than
        `splu`. `H`, `T`, sums and products that were made of the factors before have the new values, too.

        Parameters
        ----------
        data : sparse matrix, SparseOperator, dense matrix, or (nnz,) array
            The matrix or its values, as `SparseOperator.update_values` takes them. An array is in the order
            of ``A.data``, if the factors were made of a SciPy matrix `A` in CSR, CSC or COO without
            duplicates: for a CSC matrix column by column. Otherwise it is in CSR order.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.update_values`, and if the values contain infinity or NaN.
        SingularMatrixError
            If the new matrix is singular. After any error except `CudaError`, the factors are the old ones.
        MemoryError, CudaError
            If the device has no memory left, or fails.

        Examples
        --------
        >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
        >>> A = sp.csc_array(np.array([[2.0, 1.0], [0.0, 4.0]]))
        >>> factors = sg.linalg.splu(A, device="cpu")
        >>> factors.update_values(2 * A)
        >>> factors.solve(np.array([4.0, 4.0]))
        array([0.75, 0.5 ])
        """
        self._renew(data)

    def _state_with(self, data: object) -> _Factored:
        own = self._state
        values = NewValues(own.op._stored, data)
        if values.are_in_order and self._order is not None:
            values = NewValues(own.op._stored, values.on_host()[self._order])
        op = own.op._snapshot()
        op._update(values)
        csr = op.tocsr()
        _check_finite(csr)
        return _Factored(op, None if own.factors is None else own.factors.renewed(csr))

    def _renewed(self, data: object) -> DirectFactors:
        """Other factors, of a matrix as `update_values` takes it."""
        made = DirectFactors.__new__(DirectFactors)
        DevicePreconditioner.__init__(made, self.dtype, self.shape, self._ordinal)
        made._state, made._order = self._state_with(data), self._order
        return made

    # Methods of preconditioners

    def _core_map(self) -> LinearMap:
        return self._map("N")

    def _map(self, trans: str) -> LinearMap:
        factors = self._state.factors
        if factors is None:
            return _core.callback_map(self.dtype, lambda rows: rows, 0, 0, CPU)
        return factors.core_map(trans)

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        return self._solve(x.array, "N")

    def _conjugate_transposed(self, state: _Factored) -> _Factored:
        return state  # whose factors solve with the adjoint, too

    def _adjoint(self) -> AdjointFactors:
        return AdjointFactors(self)

    def _reduced(self) -> tuple[object, ...]:
        return DirectFactors, (self._op, self._order)


class AdjointFactors(DevicePreconditioner):
    """Multiplication by the inverse of the conjugate transpose."""

    def __init__(self, factors: DirectFactors) -> None:
        super().__init__(factors.dtype, factors.shape, factors._ordinal)
        self._adjoint_of = self._of = factors

    def _facts(self) -> str:
        return self._of._facts()

    def _core_map(self) -> LinearMap:
        return self._of._map("H")

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        return self._of._solve(x.array, "H")


class _Factored(NamedTuple):
    """A matrix, and its factors, which one without rows has not."""

    op: SparseOperator
    factors: SuperLUFactors | CudssFactors | None


def _factorized(csr: sp.csr_array, ordinal: int) -> SuperLUFactors | CudssFactors | None:
    """The factors where vectors are; None for a matrix without rows."""
    _check_finite(csr)
    if csr.indptr.dtype != np.int32:
        raise ValueError(f"A has {csr.nnz} stored entries; at most 2**31 - 1 are allowed")
    if csr.shape[0] == 0:
        return None
    with step("factors", "SuperLU" if ordinal == CPU else "cuDSS"):
        return SuperLUFactors(csr) if ordinal == CPU else CudssFactors(csr, ordinal)


def _check_finite(csr: sp.csr_array) -> None:
    if not np.isfinite(csr.data).all():
        raise ValueError("A contains inf or NaN")

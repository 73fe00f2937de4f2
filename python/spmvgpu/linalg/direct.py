"""Direct solvers: SciPy's SuperLU on the CPU, and cuDSS on a GPU."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, overload

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import LinearMap, SolverReports
from .._util.arguments import one_of, with_hints
from .._util.steps import step
from .._util.types import ArrayT, Device, HostArray, HostOperand
from ..arrays import AnyArray, ArrayInfo, array_and_library
from ..devices import CPU, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from ..operator.construct import as_operator
from ..operator.new_values import NewValues
from ..operator.operator import SparseOperator
from . import cudss
from .cudss import CudssFactors
from .factors import SingularMatrixError, SuperLUFactors
from .preconditioners import DevicePreconditioner, square_operator
from .stopping import warn
from .systems import DeviceVector, OperatorSystem, OverRanks, empty, no_columns, zero_column

_REFINEMENTS = 10  # iterations of gmres with the factors
_DENSE_ENTRIES = 1 << 22  # of columns that are solved for at once, of a sparse right-hand side
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


def _order_of_values(A: Any) -> HostArray | None:
    """Where the values of a SciPy matrix are in CSR order; None if they are in that order, or in no other."""
    values = getattr(A, "data", None) if sp.issparse(A) else None
    if not isinstance(values, np.ndarray) or values.shape != (A.nnz,) or values.dtype == object:
        return None  # not one number for each entry
    numbered = copy.copy(A)
    numbered.data = np.arange(A.nnz, dtype=np.float64)
    order = canonical_csr(numbered).data.astype(np.int64)
    return None if len(order) < A.nnz or (np.diff(order) == 1).all() else order


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


def device_for_factors(device: Device) -> Device:
    """Where a matrix goes to be factorized: with "auto" to a GPU only if that can be done there."""
    if device != "auto" or (resolve_device(device) != CPU and cudss.is_available()):
        return device
    return "cpu"


def _operator(A: object, device: Device, b: AnyArray = None) -> SparseOperator:
    """The operator of a square matrix, which goes to a device, or beside a right-hand side."""
    resolve_device(device)  # refuses what is none
    if isinstance(A, OverRanks):
        raise TypeError("A is distributed over ranks, and factors are of one process; use solve, cg or gmres")
    if isinstance(A, SparseOperator):
        if device != "auto":
            raise TypeError(f"device={device!r} is for a matrix; leave it out for an operator")
    elif b is None or isinstance(b, np.ndarray):
        device = device_for_factors(device)
    return square_operator(as_operator(A, b, device=device, format="csr"), "A")


@with_hints
def splu(A: object, *, device: Device = "auto") -> DirectFactors:
    """Factorize a matrix, to solve systems with it directly.

    On the CPU `scipy.sparse.linalg.splu` makes the factors [1]_. On a GPU NVIDIA's cuDSS does [2]_, which
    needs the package nvmath-python: ``pip install "spmvgpu[direct]"``. On the CPU, Ctrl-C ends the call at
    once, and the factorization continues in a thread until it is done.

    Parameters
    ----------
    A : SparseOperator, array or sparse matrix
        Square. Whether it is symmetric or Hermitian is found out; on a GPU, its factors take half the memory
        then.
    device : str, default "auto"
        Where a matrix goes to, as `aslinearoperator` takes it. With "auto" it goes to a GPU only if cuDSS
        is installed. An operator stays where it is.

    Returns
    -------
    DirectFactors
        With `solve`, and `update_values` for a matrix with the same sparsity pattern. It keeps its values
        when the operator gets others.

    Raises
    ------
    SingularMatrixError
        If the matrix is singular. It is a `numpy.linalg.LinAlgError` and a `RuntimeError`. On a GPU, also if
        the matrix is so close to singular that a random system is not solved to half the digits.
    ImportError
        If an operator is on a GPU, and cuDSS is not installed.
    TypeError, ValueError
        If `A` is neither a matrix nor an operator that has one, is not square, contains infinity or NaN, or
        has 2**31 or more stored entries.
    MemoryError, CudaError
        If the device has no memory left, or fails.

    See Also
    --------
    spsolve : For one system.
    solve : Picks a method, and checks the solution.

    References
    ----------
    .. [1] X. S. Li, "An overview of SuperLU: algorithms, implementation, and user interface", ACM Trans.
       Math. Softw. 31, 2005.
    .. [2] NVIDIA, "cuDSS: GPU-accelerated direct sparse solver", https://docs.nvidia.com/cuda/cudss.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> factors = sg.linalg.splu(sg.gallery.poisson2d(30), device="cpu")
    >>> x = factors.solve(np.ones(900))
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> sg.linalg.cg(op, np.ones(900), M=factors)[1], op.solve_info.iterations
    (0, 1)
    """
    op = _operator(A, device)
    return DirectFactors(op, None if op is A else _order_of_values(A))


@overload
def spsolve(A: object, b: HostOperand, *, device: Device = ...) -> HostArray: ...
@overload
def spsolve(A: object, b: ArrayT, *, device: Device = ...) -> ArrayT: ...
@overload
def spsolve(A: object, b: object, *, device: Device = ...) -> Any: ...
@with_hints
def spsolve(A: object, b: object, *, device: Device = "auto") -> AnyArray:
    """Solve ``A x = b`` directly.

    As `scipy.sparse.linalg.spsolve`, but the matrix may be in any format. A singular matrix raises an error:
    SciPy's function warns of it, and returns NaN.

    Parameters
    ----------
    A : SparseOperator, array or sparse matrix
        Square, as `splu` takes it.
    b : (n,) or (n, k) array or sparse matrix
        Right-hand side, or several of them as columns: a NumPy array, an array of another library on the
        device of `A`, or a sparse matrix of SciPy's.
    device : str, default "auto"
        Where a matrix goes to, as in `splu`. With "auto" it goes to the device of `b`, if `b` is an array of
        another library than NumPy.

    Returns
    -------
    (n,) or (n, k) array, or csc_array or csc_matrix
        Solution, of the library and on the device of `b`. For `b` of shape (n, 1) it has shape (n,), as in
        SciPy. For several sparse columns it is sparse. It has the dtype that NumPy's promotion gives for a
        matrix, and an operator's own dtype.

    Raises
    ------
    SingularMatrixError, ImportError, TypeError, ValueError, MemoryError, CudaError
        As `splu` and `DirectFactors.solve`.

    Warns
    -----
    SolverWarning
        As `DirectFactors.solve`.

    See Also
    --------
    splu : For several systems with the same matrix, or the same sparsity pattern.
    solve : Picks a method, and checks the solution.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> sg.linalg.spsolve(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 4.0]))
    array([1.5, 1. ])
    """
    if sp.issparse(b):
        return _sparse_solution(A, b, device)
    b, _ = array_and_library("b", b)
    return DirectFactors(_operator(A, device, b))._solve(b, "N", is_vector=True)


def _sparse_solution(A: object, B: Any, device: Device) -> Any:
    """The solution for a sparse right-hand side: sparse, or for a single column a vector."""
    factors = DirectFactors(_operator(A, device, np.zeros(B.shape[0], B.dtype)))
    if B.shape[0] != factors.shape[0]:
        raise ValueError(
            f"b has shape {B.shape}; a matrix of shape {factors.shape} needs ({factors.shape[0]}, k)"
        )
    if B.ndim == 1 or B.shape[1] == 1:
        return factors._solve(B.toarray(), "N", is_vector=True)
    columns, width = sp.csc_array(B), max(1, _DENSE_ENTRIES // max(1, B.shape[0]))
    solved = [
        sp.csc_array(factors._solve(columns[:, first : first + width].toarray(), "N"))
        for first in range(0, max(1, B.shape[1]), width)
    ]
    X = sp.hstack(solved, format="csc")
    return X if isinstance(B, sp.sparray) else sp.csc_matrix(X)

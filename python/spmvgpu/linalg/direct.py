"""Direct solvers: SciPy's SuperLU on the CPU, and cuDSS on a GPU."""

from __future__ import annotations

import copy
from typing import Any, overload

import numpy as np
import scipy.sparse as sp

from .._util.arguments import with_hints
from .._util.types import ArrayT, Device, HostArray, HostOperand
from ..arrays import AnyArray, array_and_library
from ..devices import CPU, resolve_device
from ..inputs.canonical import canonical_csr
from ..operator.construct import as_operator
from ..operator.operator import SparseOperator
from . import cudss
from .direct_factors import DirectFactors
from .preconditioners import square_operator
from .systems import OverRanks

_DENSE_ENTRIES = 1 << 22  # of columns that are solved for at once, of a sparse right-hand side


def _order_of_values(A: Any) -> HostArray | None:
    """Where the values of a SciPy matrix are in CSR order; None if they are in that order, or in no other."""
    values = getattr(A, "data", None) if sp.issparse(A) else None
    if not isinstance(values, np.ndarray) or values.shape != (A.nnz,) or values.dtype == object:
        return None  # not one number for each entry
    numbered = copy.copy(A)
    numbered.data = np.arange(A.nnz, dtype=np.float64)
    order = canonical_csr(numbered).data.astype(np.int64)
    return None if len(order) < A.nnz or (np.diff(order) == 1).all() else order


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

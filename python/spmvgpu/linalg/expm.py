"""Exponentials of matrices, times vectors."""

from __future__ import annotations

from math import ceil, isfinite
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._util.arguments import is_number, real_number, whole_number, with_hints
from .._util.types import DType, HostArray
from ..arrays import AnyArray, array_and_library
from ..devices import at_most
from ..operator.construct import as_operator
from ..operator.operands import check_vector
from ..operator.operator import SparseOperator
from .systems import refuse_ranks, system_of

# By the number of bits: the most terms of a series, and the largest norm for which they suffice. Longer
# series would allow for larger norms, but also for larger terms, whose rounding errors stay.
_SERIES = {32: (25, 4.926), 64: (55, 9.867)}
_MOST_STEPS = 2**53


@with_hints
def expm_multiply(
    A: object,
    B: object,
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: complex | None = None,
) -> AnyArray:
    """Compute ``expm(t * A) @ B``, the solution of ``x' = A x`` at the time `t`, without the exponential.

    `scipy.sparse.linalg.expm_multiply` has the same arguments. The method of Al-Mohy and Higham [1]_ is a
    product of Taylor series. There is one for every 9.9 of the norm of ``t * (A - mu * I)``, or 4.9 in single
    precision, where `mu` is the mean of the diagonal. It takes at most 55 products with `A`, or 25 in single
    precision. All vectors stay on the device of `A`. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Square. A matrix is converted in each call. A `LinearOperator` whose entries are not known is called
        with NumPy vectors, and needs `rmatvec` for an estimate of its norm.
    B : (n,) or (n, k) array
        Vector, or several as columns: a NumPy array, or an array of another library on the device of `A`. It
        is cast to the dtype of `A`. It may be complex only if `A` is, or is a matrix. Columns are multiplied
        together, and the series of each ends separately.
    start, stop : float, optional
        The first and the last of several times. Without any of `start`, `stop`, `num` and `endpoint`, the
        only time is 1. Times may be negative.
    num : int, default 50
        Number of times, at least 2, with the same distance from each to the next.
    endpoint : bool, default True
        False: `stop` is no longer one of the times, but follows the last.
    traceA : number, optional
        Trace of `A`, or a guess of it. The default is the trace, or 0 if the entries are not known.

    Returns
    -------
    (n,), (n, k), (num, n) or (num, n, k) array
        Of the library and on the device of `B`. Several times come first.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, or if `A` contains
        infinity.

    References
    ----------
    .. [1] A. H. Al-Mohy and N. J. Higham, "Computing the action of the matrix exponential, with an
       application to exponential integrators", SIAM J. Sci. Comput. 33, 2011.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[0.0, 1.0], [-1.0, 0.0]])  # a rotation
    >>> sg.linalg.expm_multiply(A, np.array([1.0, 0.0]), start=0, stop=np.pi, num=3).round(6)
    array([[ 1.,  0.],
           [ 0., -1.],
           [-1., -0.]])
    """
    refuse_ranks(A)
    is_one = all(given is None for given in (start, stop, num, endpoint))
    first, step, count = (1.0, 0.0, 1) if is_one else _times(start, stop, num, endpoint)
    b, library = array_and_library("B", B)
    op = as_operator(A, b, "B")
    system = system_of(op, b, "B")
    n, columns, dtype = system.unknowns, system.columns, system.dtype
    located = library.locate(b, "B")
    shape = located.shape
    if 0 in shape:
        check_vector("B", shape, located.dtype, system.shape, dtype, columns)
        return library.from_host(np.zeros(shape if is_one else (count, *shape), dtype), b)
    vectors = system.vectors(False)
    right = vectors.take("B", system.b)
    vectors.wait()
    shift = _mean_of_diagonal(op, traceA, dtype)
    most_terms, most_norm = _SERIES[np.finfo(dtype).bits]
    norm = _norm(op, shift)
    width = columns or 1
    made = vectors if is_one else vectors.of(system, count * width)
    result = made.new()
    core = _core.Exponential(system.core_map(), n, width, system.memory, system.max_threads)
    source, target = right.pointer, result.pointer
    for i in range(count):
        time = step if i else first
        steps = 0 if time == 0 else max(1, _steps(abs(time) * norm / most_norm))
        part = time / max(steps, 1)
        with np.errstate(over="ignore"):
            growth = complex(np.exp(part * shift))
        core.apply(source, target, steps, part, shift, growth, most_terms)
        source, target = target, target + n * width * dtype.itemsize
    if is_one:
        return library.reshaped(made.result(), shape)
    rows = library.transposed(made.result())
    if columns is None:
        return library.reshaped(rows, (count, *shape))
    return library.permuted(library.reshaped(rows, (count, width, n)), (0, 2, 1))


def _times(start: object, stop: object, num: object, endpoint: object) -> tuple[float, float, int]:
    """The first time, the distance from each to the next, and their number."""
    count = 50 if num is None else whole_number("num", num, 2, 2**31 - 1)
    first, last = (real_number(*end, "a finite time", isfinite) for end in (("start", start), ("stop", stop)))
    is_closed = endpoint is None or bool(endpoint)
    return first, (last - first) / (count - is_closed), count


def _mean_of_diagonal(op: LinearOperator, trace: Any, dtype: DType) -> complex:
    """What is taken off the diagonal, so that the norm is smaller."""
    if trace is None:
        trace = op.diagonal().sum() if isinstance(op, SparseOperator) else 0.0
        if not np.isfinite(trace):
            raise ValueError("the diagonal of A contains inf or NaN, or its sum overflows")
    elif dtype.kind != "c" or not is_number(trace):
        trace = real_number("traceA", trace, "a finite number, which is real if A is", isfinite)
    return complex(trace / op.shape[0])


def _norm(op: LinearOperator, shift: complex) -> float:
    """The largest sum of sizes of a row less a shift of the diagonal, or an estimate of that of a column.

    Estimates of norms of powers, as in the paper, could only be smaller. They take work of the host, with
    products of several powers and their adjoints. Any norm of a matrix will do.
    """
    if not isinstance(op, SparseOperator):
        identity = sla.aslinearoperator(sp.eye_array(op.shape[0]))
        return float(sla.onenormest(op - shift * identity if shift else op))
    with at_most(op.max_threads):
        csr = op._stored.canonical_there()
        if not csr.is_wide:
            return csr.source.row_norm(shift)
        diagonal: HostArray = csr.diagonal(0)
        sizes = abs(csr.host).sum(axis=1) - np.abs(diagonal) + np.abs(diagonal - shift)
        return float(sizes.max())


def _steps(count: float) -> int:
    """At least so many steps; ValueError for more than can be done."""
    if not count < _MOST_STEPS:
        raise ValueError("A contains inf, or its norm is so large that there would be no end of products")
    return ceil(count)

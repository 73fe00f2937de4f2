"""The preconditioner by the inverse of the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .._util.types import DType, HostArray
from ..arrays import AnyArray, ArrayInfo, on_host
from ..arrays.products import kind_of
from ..devices import CPU, at_most, device_name
from ..inputs.csr import CanonicalCsr
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from .diagonals import diagonal_of, positive_inverse
from .forecast import OnesInSystem
from .preconditioners import Preconditioner, check_shape, matrix_with, square_operator
from .systems import OverRanks, System, check_square, staged_numpy
from .vectors import DeviceVector, empty


class Jacobi(Preconditioner):
    """Multiplication by the inverse of the diagonal of a matrix.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy. `jacobi` makes one from an operator.
    ``Jacobi(inverse_diagonal)`` makes one from a vector, which it copies. One that `jacobi` made keeps the
    matrix in memory, for `update_values`; copies and pickles do not.

    Attributes
    ----------
    inverse_diagonal : (n,) numpy.ndarray
        Read-only.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> M = sg.linalg.Jacobi(np.array([0.25, 0.5]))
    >>> M @ np.ones(2)
    array([0.25, 0.5 ])
    """

    def __init__(self, inverse_diagonal: object) -> None:
        own = np.array(on_host("inverse_diagonal", inverse_diagonal))
        if kind_of(own.dtype) not in "biufc":
            raise TypeError(f"inverse_diagonal has dtype {own.dtype}; allowed are numbers")
        if own.ndim != 1 and own.shape[1:] != (1,):
            raise ValueError(f"inverse_diagonal has shape {own.shape}; give a vector, (n,) or (n, 1)")
        own = own.reshape(-1)
        own.flags.writeable = False
        super().__init__(own.dtype, (len(own), len(own)))
        self._copies: dict[tuple[int, DType], DeviceVector] = {}
        self._operators: dict[int, SparseOperator] = {}  # by GPU, for products with its arrays
        self._inverse_diagonal: HostArray | None = own

    @classmethod
    def _there(cls, vector: DeviceVector, length: int, dtype: DType, ordinal: int) -> Jacobi:
        """Of the inverse of a diagonal on a device, which crosses the bus if it is asked for."""
        made = cls.__new__(cls)
        super().__init__(made, dtype, (length, length))
        made._copies, made._operators, made._inverse_diagonal = {(ordinal, dtype): vector}, {}, None
        return made

    def _renew(self, data: object) -> None:
        if isinstance(self._pattern_of, OverRanks):
            op = self._pattern_of._snapshot()
            op.update_values(data)
            made = _jacobi_over_ranks(op)
        else:
            made = _jacobi(matrix_with(self, data))
        # One call of a dict, so that no signal handler finds, or leaves, half of it.
        self.__dict__.update(made.__dict__)

    @property
    def inverse_diagonal(self) -> HostArray:
        if self._inverse_diagonal is None:
            own = np.empty(self.shape[0], self.dtype)
            next(iter(self._copies.values())).read(own)
            own.flags.writeable = False
            self._inverse_diagonal = own
        return self._inverse_diagonal

    def _ordinals(self) -> Sequence[int]:
        return sorted({ordinal for ordinal, _ in self._copies}) or [CPU]

    def _product_of(self, x: ArrayInfo) -> AnyArray:
        if x.host is not None:
            return self.inverse_diagonal.reshape(-1, *[1] * (x.host.ndim - 1)) * x.host
        if x.ordinal not in self._operators:
            diagonal = sp.diags_array(self.inverse_diagonal)
            self._operators[x.ordinal] = aslinearoperator(diagonal, device=device_name(x.ordinal))
        return self._operators[x.ordinal] @ x.array

    def _adjoint(self) -> Jacobi:
        # A matrix that is known has a positive diagonal.
        is_real = self.dtype.kind != "c" or self._pattern_of is not None
        return self if is_real else Jacobi(self.inverse_diagonal.conj())

    def _transpose(self) -> Jacobi:
        return self

    def _on_device(self, system: System, ordinal: int) -> DeviceVector:
        """A copy for a system of the same size, made once for each device and dtype."""
        check_shape(system, self)
        key = ordinal, system.dtype
        if key not in self._copies:
            self._copies[key] = staged_numpy(system, self.inverse_diagonal, ordinal)
        return self._copies[key]

    def __reduce__(self) -> tuple[object, ...]:
        return Jacobi, (self.inverse_diagonal,)


def jacobi(op: object) -> Jacobi:
    """Return the Jacobi preconditioner of a positive definite matrix.

    It multiplies by the inverse of the diagonal.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Square.

    Returns
    -------
    Jacobi
        For a `DistributedOperator`, the piece of this rank. Its `update_values` takes what the
        `update_values` of the operator takes, and all ranks call it.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither a matrix nor an operator that has one, or is not square.
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, unless all of its row is zero. The matrix is not positive
        definite then. With `gmres` and `bicgstab`, pass ``M=1 / op.diagonal()`` instead.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> sg.linalg.jacobi(op).inverse_diagonal
    array([0.25, 0.5 ])
    """
    if isinstance(op, OverRanks):
        made = _jacobi_over_ranks(op)
        made._pattern_of = op._snapshot()
        return made
    own = square_operator(op)
    with at_most(own.max_threads):
        made = _jacobi(own._stored.canonical_there())
    made._pattern_of = own._stored
    return made


def _jacobi_over_ranks(op: OverRanks) -> Jacobi:
    with op.agreement():
        check_square(op.shape)
        return Jacobi(positive_inverse("jacobi", diagonal_of(op), op.dtype, op.row_ranges.begin))


def _jacobi(csr: CanonicalCsr) -> Jacobi:
    found = _inverse_diagonal(csr)
    if found.negative == found.others == 0:
        return found.inverse
    return Jacobi(positive_inverse("jacobi", diagonal_of(csr.host), csr.dtype))


class InverseDiagonal(NamedTuple):
    """The inverse of a diagonal, unless `others` entries are zero, not real or have no finite inverse.

    An empty row, as of a vertex of a graph without edges, has a one: what is left of `b` there stays.

    Attributes
    ----------
    inverse : Jacobi
    negative, others, empty_rows : int
        Numbers of entries, and of rows.
    ones : OnesInSystem, optional
        Without empty rows; None if not all of the diagonal is positive.
    """

    inverse: Jacobi
    negative: int
    others: int
    empty_rows: int
    ones: OnesInSystem | None


def inverse_diagonal(op: SparseOperator, of_sizes: bool = False) -> InverseDiagonal:
    """The inverse of the diagonal, or of the sizes of its entries, made where the matrix is stored."""
    with at_most(op.max_threads):
        return _inverse_diagonal(op._stored.canonical_there(), of_sizes)


def _inverse_diagonal(csr: CanonicalCsr, of_sizes: bool = False) -> InverseDiagonal:
    rows = csr.shape[0]
    vector = empty((rows,), csr.dtype, csr.ordinal)
    inverse = Jacobi._there(vector, rows, csr.dtype, csr.ordinal)
    if csr.is_wide:
        return InverseDiagonal(inverse, 0, rows, 0, None)
    found = csr.source.invert_diagonal(of_sizes, vector.pointer)
    negative, others, without_entries = found[:3]
    ones = OnesInSystem(rows - without_entries, *found[3:]) if negative == others == 0 else None
    return InverseDiagonal(inverse, negative, others, without_entries, ones)

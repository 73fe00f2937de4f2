"""Incomplete factorizations without fill-in."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import IncompleteFactors as Factors
from .._core import LinearMap
from .._util.show import in_bytes
from .._util.steps import step
from .._util.types import DType
from ..devices import resolve_device
from ..inputs.csr import CanonicalCsr
from ..operator.operator import SparseOperator
from .preconditioners import (
    DevicePreconditioner,
    diagonal_of,
    matrix_with,
    of_own_block,
    requested_device,
    square_operator,
    what_fits,
    with_unit_rows,
)


class IncompleteFactors(DevicePreconditioner):
    """Solution with the incomplete factors of a matrix, as `ilu0` and `ic0` return it.

    A `LinearOperator`, for the solvers of `spmvgpu.linalg` and of SciPy.

    Attributes
    ----------
    nbytes : int
        Bytes of the factors on the device.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[2.0, 1.0], [0.0, 4.0]]), device="cpu")
    >>> sg.linalg.ilu0(op) @ np.array([4.0, 4.0])  # exact, because no entry is dropped
    array([1.5, 1. ])
    """

    def __init__(
        self, factors: Factors, dtype: DType, n: int, ordinal: int, requested: str, is_definite: bool = False
    ) -> None:
        super().__init__(dtype, (n, n), ordinal)
        self._state = factors
        self._requested = requested  # the device as the caller named it, which pickles go by
        self._is_definite = is_definite  # for new values: all pivots are to be positive

    @property
    def nbytes(self) -> int:
        return int(self._now().nbytes)

    def _facts(self) -> str:
        return f"{'ic0' if self._is_definite else 'ilu0'}, {in_bytes(self.nbytes)}"

    def _core_map(self) -> LinearMap:
        return _core.factors_map(self._now(), self._memory)

    def _stored(self) -> sp.csr_array:
        """Both factors in one matrix, with the inverse pivots on its diagonal."""
        stored = sp.csr_array(self._state.to_csr(), shape=self.shape)
        stored.has_canonical_format = True
        return stored

    def _state_with(self, data: object) -> Factors:
        return _factors(matrix_with(self, data).host, self._ordinal, self._is_definite)

    def _conjugate_transposed(self, factors: Factors) -> Factors:
        stored = CanonicalCsr.of(self._stored()).transposed()
        return _of_stored(stored.with_data(stored.data.conj()), not factors.pivots_in_lower, self._ordinal)

    def _reduced(self) -> tuple[object, ...]:
        return _restored, (self._stored(), self._state.pivots_in_lower, self._requested, self._is_definite)


def _of_stored(stored: sp.csr_array | CanonicalCsr, pivots_in_lower: bool, ordinal: int) -> Factors:
    # Arrays from a pickle may lie in buffers that are aligned in any way.
    indptr, indices, data = (
        np.require(array, None, ["C", "A"]) for array in (stored.indptr, stored.indices, stored.data)
    )
    return Factors(indptr, indices, data, ordinal, pivots_in_lower)


def _restored(
    stored: sp.csr_array, pivots_in_lower: bool, requested: str, is_definite: bool
) -> IncompleteFactors:
    """What pickle calls."""
    ordinal = resolve_device(requested)
    factors = _of_stored(stored, pivots_in_lower, ordinal)
    return IncompleteFactors(factors, stored.dtype, stored.shape[0], ordinal, requested, is_definite)


@of_own_block
def ilu0(op: object) -> IncompleteFactors:
    """Return the incomplete LU preconditioner of a matrix, without fill-in.

    The factors have the sparsity pattern of the matrix [1]_, and a row of the identity in place of an empty
    row. The CPU computes them in double precision. The
    triangular solves run on the device of `op` [2]_. Their parallelism depends on the matrix: a grid of n by
    n points in natural order takes 2 n - 1 consecutive steps.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Square. A matrix is converted with the defaults of `aslinearoperator`. For an operator over ranks,
        each rank makes the preconditioner of its diagonal block.

    Returns
    -------
    IncompleteFactors
        A preconditioner for `bicgstab` and `gmres`. Its adjoint `H` is computed on first use.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither a matrix nor an operator that has one, is not square, or has 2**31 or more stored
        entries.
    numpy.linalg.LinAlgError
        If a row that is not empty has no entry on the diagonal, or if a pivot is zero or not finite.

    References
    ----------
    .. [1] Y. Saad, "Iterative Methods for Sparse Linear Systems", 2nd ed., SIAM, 2003, section 10.3.
    .. [2] W. Liu et al., "A synchronization-free algorithm for parallel sparse triangular solves", 2016.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.ones(900), M=sg.linalg.ilu0(op))
    >>> info, op.solve_info.iterations < 25
    (0, True)
    """
    return _factorised(square_operator(op), False)


@of_own_block
def ic0(op: object) -> IncompleteFactors:
    """Return the incomplete Cholesky preconditioner of a matrix, without fill-in.

    It is the factorization of `ilu0`, with the pivots split between both factors. The preconditioner is
    symmetric or Hermitian, and positive definite.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Symmetric or Hermitian, and positive definite. Symmetry is not checked. A matrix is converted with the
        defaults of `aslinearoperator`. For an operator over ranks, each rank makes the preconditioner of its
        diagonal block.

    Returns
    -------
    IncompleteFactors
        A preconditioner for `cg` and `minres`.

    Raises
    ------
    TypeError, ValueError
        As `ilu0`.
    numpy.linalg.LinAlgError
        If a row that is not empty has no entry on the diagonal, or if a pivot is not positive. This can also
        happen to a positive definite matrix.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.ic0(op))
    >>> info, op.solve_info.iterations < 30
    (0, True)
    """
    return _factorised(square_operator(op), True)


def _factorised(op: SparseOperator, is_definite: bool) -> IncompleteFactors:
    factors = _factors(op.tocsr(), op._ordinal, is_definite)
    made = IncompleteFactors(factors, op.dtype, op.shape[0], op._ordinal, requested_device(op), is_definite)
    made._pattern_of = op._stored
    return made


def _factors(matrix: sp.csr_array, ordinal: int, is_definite: bool) -> Factors:
    """The factors of a canonical matrix, or LinAlgError; positive pivots if it is to be definite."""
    csr = with_unit_rows(matrix)
    if csr.indptr.dtype != np.int32:
        raise ValueError(f"op has {csr.nnz} stored entries; at most 2**31 - 1 are allowed")
    with step("factors", "ic0" if is_definite else "ilu0"):
        factors = Factors(csr.indptr, csr.indices, csr.data, ordinal)
    if factors.failed:
        row, pivot = factors.failed
        is_stored = row in csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
        why = (
            f"is {pivot:g} after elimination, which has no finite inverse in {csr.dtype}"
            if is_stored
            else "is not stored"
        )
        raise np.linalg.LinAlgError(
            f"row {row} has no pivot: its diagonal entry {why}; use {what_fits(diagonal_of(csr), csr.dtype)}"
        )
    if is_definite and factors.nonpositive:
        row, pivot = factors.nonpositive
        raise np.linalg.LinAlgError(
            f"the pivot of row {row} is not positive ({pivot:g}): the matrix is not positive definite, or "
            "has no incomplete Cholesky factorization; use ilu0(op) with gmres or bicgstab, or "
            f"{what_fits(diagonal_of(csr), csr.dtype)}"
        )
    return factors

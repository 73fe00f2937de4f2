"""Incomplete factorizations, without fill-in or with levels of it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import IncompleteFactors as Factors
from .._core import LinearMap
from .._util.arguments import whole_number, with_hints
from .._util.show import in_bytes
from .._util.steps import step
from .._util.types import DType
from ..devices import resolve_device
from ..inputs.csr import CanonicalCsr
from ..operator.operator import SparseOperator
from .diagonals import diagonal_of, what_fits, with_unit_rows
from .preconditioners import (
    DevicePreconditioner,
    matrix_with,
    of_own_block,
    requested_device,
    square_operator,
)

_MOST_LEVELS = 2**30  # any number above that of the rows makes exact factors


class IncompleteFactors(DevicePreconditioner):
    """Solution with the incomplete factors of a matrix, as `ilu0`, `ic0`, `ilu` and `ic` return it.

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
        self,
        factors: Factors,
        dtype: DType,
        n: int,
        ordinal: int,
        requested: str,
        is_definite: bool = False,
        levels: int = 0,
    ) -> None:
        super().__init__(dtype, (n, n), ordinal)
        self._state = factors
        self._requested = requested  # the device as the caller named it, which pickles go by
        self._is_definite = is_definite  # for new values: all pivots are to be positive
        self._levels = levels

    @property
    def nbytes(self) -> int:
        return int(self._now().nbytes)

    def _facts(self) -> str:
        return f"{_name(self._is_definite, self._levels)}, {in_bytes(self.nbytes)}"

    def _core_map(self) -> LinearMap:
        return _core.factors_map(self._now(), self._memory)

    def _stored(self) -> sp.csr_array:
        """Both factors in one matrix, with the inverse pivots on its diagonal."""
        stored = sp.csr_array(self._state.to_csr(), shape=self.shape)
        stored.has_canonical_format = True
        return stored

    def _state_with(self, data: object) -> Factors:
        return _factors(matrix_with(self, data).host, self._ordinal, self._is_definite, self._levels)

    def _conjugate_transposed(self, factors: Factors) -> Factors:
        stored = CanonicalCsr.of(self._stored()).transposed()
        return _of_stored(stored.with_data(stored.data.conj()), not factors.pivots_in_lower, self._ordinal)

    def _reduced(self) -> tuple[object, ...]:
        kind = self._requested, self._is_definite, self._levels
        return _restored, (self._stored(), self._state.pivots_in_lower, *kind)


def _name(is_definite: bool, levels: int) -> str:
    return f"{'ic' if is_definite else 'ilu'}{levels}"


def _of_stored(stored: sp.csr_array | CanonicalCsr, pivots_in_lower: bool, ordinal: int) -> Factors:
    # Arrays from a pickle may lie in buffers that are aligned in any way.
    indptr, indices, data = (
        np.require(array, None, ["C", "A"]) for array in (stored.indptr, stored.indices, stored.data)
    )
    return Factors(indptr, indices, data, ordinal, pivots_in_lower)


def _restored(
    stored: sp.csr_array, pivots_in_lower: bool, requested: str, is_definite: bool, levels: int
) -> IncompleteFactors:
    """What pickle calls."""
    ordinal = resolve_device(requested)
    factors = _of_stored(stored, pivots_in_lower, ordinal)
    return IncompleteFactors(factors, stored.dtype, stored.shape[0], ordinal, requested, is_definite, levels)


@of_own_block
def ilu0(op: object) -> IncompleteFactors:
    """Return the incomplete LU preconditioner of a matrix, without fill-in: `ilu` with no levels.

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
    return _factorised(square_operator(op), False, 0)


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
    return _factorised(square_operator(op), True, 0)


@with_hints
@of_own_block
def ilu(op: object, levels: int = 1) -> IncompleteFactors:
    """Return the incomplete LU preconditioner of a matrix, with levels of fill.

    The factors have more entries than the matrix, and are closer to exact ones. An entry that elimination
    fills in has a level, one more than the sum of the levels of the two entries that it comes from, and stays
    if that is at most `levels` [1]_. With each level a solver takes fewer iterations. Setup, memory and an
    iteration take more, and the triangular solves have more consecutive steps. The pattern of the factors
    [2]_ depends only on the pattern of the matrix, and `update_values` keeps it.

    For nodes with several unknowns, whose rows have full blocks, as in elasticity, this is the block ILU.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        As `ilu0` takes it.
    levels : int, default 1
        0: the factors of `ilu0`. On a grid in space in its natural order, factors with 1, 2 and 3 levels have
        about 2, 3 and 6 times as many entries.

    Returns
    -------
    IncompleteFactors
        A preconditioner for `bicgstab` and `gmres`.

    Raises
    ------
    TypeError, ValueError
        As `ilu0`, and if `levels` is not a whole number from 0 on, or if the factors have 2**31 or more
        entries.
    MemoryError
        If the factors do not fit.
    numpy.linalg.LinAlgError
        As `ilu0`.

    References
    ----------
    .. [1] Y. Saad, "Iterative Methods for Sparse Linear Systems", 2nd ed., SIAM, 2003, section 10.3.3.
    .. [2] D. Hysom and A. Pothen, "A scalable parallel algorithm for incomplete factor preconditioning", SIAM
       J. Sci. Comput. 22, 2001.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.ones(900), M=sg.linalg.ilu(op, 2))
    >>> info, op.solve_info.iterations < 15
    (0, True)
    """
    return _factorised(square_operator(op), False, levels)


@with_hints
@of_own_block
def ic(op: object, levels: int = 1) -> IncompleteFactors:
    """Return the incomplete Cholesky preconditioner of a matrix, with levels of fill.

    It is the factorization of `ilu`, with the pivots split between both factors. The preconditioner is
    symmetric or Hermitian, and positive definite.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        As `ic0` takes it.
    levels : int, default 1
        As of `ilu`.

    Returns
    -------
    IncompleteFactors
        A preconditioner for `cg` and `minres`.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As `ilu`.
    numpy.linalg.LinAlgError
        As `ic0`. More levels make it less likely for a positive definite matrix.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.ic(op, 2))
    >>> info, op.solve_info.iterations < 20
    (0, True)
    """
    return _factorised(square_operator(op), True, levels)


def _factorised(op: SparseOperator, is_definite: bool, levels: int) -> IncompleteFactors:
    levels = whole_number("levels", levels, 0, _MOST_LEVELS)
    factors = _factors(op.tocsr(), op._ordinal, is_definite, levels)
    kind = requested_device(op), is_definite, levels
    made = IncompleteFactors(factors, op.dtype, op.shape[0], op._ordinal, *kind)
    made._pattern_of = op._stored
    return made


def _factors(matrix: sp.csr_array, ordinal: int, is_definite: bool, levels: int) -> Factors:
    """The factors of a canonical matrix, or LinAlgError; positive pivots if it is to be definite."""
    csr = with_unit_rows(matrix)
    if csr.indptr.dtype != np.int32:
        raise ValueError(f"op has {csr.nnz} stored entries; at most 2**31 - 1 are allowed")
    with step("factors", _name(is_definite, levels)):
        try:
            factors = Factors(csr.indptr, csr.indices, csr.data, ordinal, levels=levels)
        except MemoryError as error:
            if levels:
                error.args = (f"{error}; give fewer levels than {levels}",)
            raise
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

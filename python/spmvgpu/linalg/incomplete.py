"""Incomplete factorisations without fill-in, solved with on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..devices import resolve_device
from ..inputs.compressed import transpose
from ..operator import SparseOperator
from ..value_types import core_class
from .preconditioners import DevicePreconditioner, check_operator, requested_device, what_fits


class IncompleteFactors(DevicePreconditioner):
    """Division by incomplete factors of a matrix; made by `ilu0` and `ic0`.

    Attributes
    ----------
    nbytes : int
        Bytes of the factors on their device.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[2.0, 1.0], [0.0, 4.0]]), device="cpu")
    >>> sg.linalg.ilu0(op) @ np.array([4.0, 4.0])  # no entry is left out, so it is the inverse
    array([1.5, 1. ])
    """

    def __init__(self, factors: Any, dtype: np.dtype[Any], n: int, ordinal: int, requested: str) -> None:
        super().__init__(dtype, (n, n), ordinal)
        self._factors = factors
        self._requested = requested  # the device as the caller named it, which pickles go by

    @property
    def nbytes(self) -> int:
        return int(self._factors.nbytes)

    def _core_map(self) -> Any:
        return core_class("FactorsMap", self.dtype)(self._factors, self._memory)

    def _stored(self) -> Any:
        """Both factors in one matrix, with the inverse pivots on its diagonal."""
        stored = sp.csr_array(self._factors.to_csr(), shape=self.shape)
        stored.has_canonical_format = True
        return stored

    def _conjugate_transposed(self) -> IncompleteFactors:
        stored = transpose(self._stored())
        stored.data = stored.data.conj()
        return _of_stored(stored, not self._factors.pivots_in_lower, self._ordinal, self._requested)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._stored(), self._factors.pivots_in_lower, self._requested)


def _of_stored(stored: Any, pivots_in_lower: bool, ordinal: int, requested: str) -> IncompleteFactors:
    # What comes from a pickle may lie in buffers that are aligned in any way.
    arrays = (np.require(array, None, ["C", "A"]) for array in (stored.indptr, stored.indices, stored.data))
    factors = core_class("IncompleteFactors", stored.dtype)(*arrays, ordinal, pivots_in_lower)
    return IncompleteFactors(factors, stored.dtype, stored.shape[0], ordinal, requested)


def _restored(stored: Any, pivots_in_lower: bool, requested: str) -> IncompleteFactors:
    """What pickle calls."""
    return _of_stored(stored, pivots_in_lower, resolve_device(requested), requested)


def ilu0(op: SparseOperator) -> IncompleteFactors:
    """The incomplete LU factors of a matrix that have its own entries and no others.

    Saad, Iterative Methods for Sparse Linear Systems, section 10.3. The factors are computed on the CPU, in
    double precision, and solved with on the operator's device: row by row, as soon as the unknowns are known
    that a row needs (Liu et al. 2016). How much that does at once is up to the matrix: a grid of n x n points
    in their natural order has 2 n - 1 steps that follow each other.

    Parameters
    ----------
    op : SparseOperator
        Square; a preconditioner for `bicgstab` and `gmres`.

    Returns
    -------
    IncompleteFactors
        Its adjoint `H` divides by the conjugate transposes of the factors, which are made on first use.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a row has no entry on the diagonal, or its pivot comes out as zero or not finite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.ones(900), M=sg.linalg.ilu0(op))
    >>> info, op.solve_info.iterations < 25
    (0, True)
    """
    return _factorised(op, _factors(op))


def ic0(op: SparseOperator) -> IncompleteFactors:
    """The incomplete Cholesky factors of a symmetric or Hermitian positive definite matrix, without fill-in.

    They are those of `ilu0`, of which the pivots are shared out differently: a preconditioner that is
    symmetric, or Hermitian, and positive definite as `cg` and `minres` need it.

    Parameters
    ----------
    op : SparseOperator
        Symmetric or Hermitian positive definite; that it is symmetric is not checked.

    Returns
    -------
    IncompleteFactors

    Raises
    ------
    numpy.linalg.LinAlgError
        If a row has no entry on the diagonal, or its pivot comes out as not positive, which may happen to
        matrices that are positive definite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.ic0(op))
    >>> info, op.solve_info.iterations < 30
    (0, True)
    """
    factors = _factors(op)
    if factors.nonpositive:
        row, pivot = factors.nonpositive
        raise np.linalg.LinAlgError(
            f"the pivot of row {row} is not positive ({pivot:g}): the matrix is not positive definite, or it "
            "has no incomplete Cholesky factors; use ilu0(op) with gmres or bicgstab, or "
            f"{what_fits(op.diagonal(), op.dtype)}"
        )
    return _factorised(op, factors)


def _factors(op: Any) -> Any:
    check_operator(op)
    csr = op.tocsr()
    if csr.indptr.dtype != np.int32:
        raise ValueError(f"op has {csr.nnz} stored entries; factors are of up to 2**31 - 1")
    factors = core_class("IncompleteFactors", op.dtype)(csr.indptr, csr.indices, csr.data, op._ordinal)
    if factors.failed:
        row, pivot = factors.failed
        is_stored = row in csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
        why = (
            f"comes out as {pivot:g} after the rows before it, which cannot be divided by in {op.dtype}"
            if is_stored
            else "is not stored"
        )
        raise np.linalg.LinAlgError(
            f"row {row} has no pivot: its diagonal entry {why}; use {what_fits(csr.diagonal(), op.dtype)}"
        )
    return factors


def _factorised(op: SparseOperator, factors: Any) -> IncompleteFactors:
    return IncompleteFactors(factors, op.dtype, op.shape[0], op._ordinal, requested_device(op))

"""Conversion from and to matrices of petsc4py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .errors import agreement
from .from_rows import aslinearoperator
from .operator import DistributedOperator

if TYPE_CHECKING:  # importing it starts PETSc
    from petsc4py.PETSc import Mat, Vec


def petsc(op: DistributedOperator) -> Mat:
    """Return the operator as a petsc4py matrix, for PETSc's KSP and SNES and for SLEPc.

    Parameters
    ----------
    op : DistributedOperator
        Of the scalar type of PETSc, usually float64.

    Returns
    -------
    petsc4py.PETSc.Mat
        Of type "python", with the distribution of the operator. It computes products, transposed products and
        the diagonal. For a preconditioner that needs the entries, pass a second matrix: ``ksp.setOperators(A,
        P)``.

    Raises
    ------
    TypeError
        If the operator has another dtype than PETSc's scalar type.
    ImportError
        If petsc4py is not installed.

    Examples
    --------
    >>> from spmvgpu import distributed
    >>> solver = PETSc.KSP().create(op.comm)  # doctest: +SKIP
    >>> solver.setOperators(distributed.petsc(op))  # doctest: +SKIP
    """
    PETSc = _petsc()
    with agreement(op.comm):
        if np.dtype(PETSc.ScalarType) != op.dtype:
            raise TypeError(
                f"the operator has dtype {op.dtype}, and PETSc was built for {np.dtype(PETSc.ScalarType)}; "
                "give this dtype= to aslinearoperator"
            )
    sizes = tuple(zip(op.local_shape, op.shape, strict=True))
    matrix = PETSc.Mat().createPython(sizes, _Products(op), comm=op.comm)
    matrix.setUp()
    return matrix


def from_petsc(matrix: Mat, **options: Any) -> DistributedOperator:
    """Return the operator of a petsc4py matrix, with the same distribution.

    Parameters
    ----------
    matrix : petsc4py.PETSc.Mat
        Assembled, of type "aij".
    **options
        As in `distributed.aslinearoperator`.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError
        If `matrix` is not a petsc4py matrix of type "aij".
    ImportError
        If petsc4py is not installed.
    ValueError, FormatError, MemoryError, CudaError
        As `distributed.aslinearoperator`.

    Examples
    --------
    >>> from spmvgpu import distributed
    >>> op = distributed.from_petsc(matrix, device="cuda")  # doctest: +SKIP
    """
    PETSc = _petsc()
    if not isinstance(matrix, PETSc.Mat):
        raise TypeError(f"matrix must be a petsc4py.PETSc.Mat, not {type(matrix).__name__}")
    comm = matrix.comm.tompi4py()
    with agreement(comm):
        if not matrix.type.endswith("aij"):
            raise TypeError(f"the matrix has type {matrix.type!r}; give matrix.convert('aij')")
        indptr, indices, values = matrix.getValuesCSR()
        csr = sp.csr_array((values, indices, indptr), shape=(matrix.local_size[0], matrix.size[1]))
    ranges = {
        "row_ranges": matrix.getOwnershipRanges().astype(np.int64),
        "col_ranges": matrix.getOwnershipRangesColumn().astype(np.int64),
    }
    return aslinearoperator(csr, comm, **ranges, **options)


class _Products:
    """What PETSc calls of a matrix of type "python"."""

    def __init__(self, op: DistributedOperator) -> None:
        self._op = op

    def mult(self, _: Mat, x: Vec, y: Vec) -> None:
        self._op.spmv(x.getArray(readonly=True), out=y.getArray())

    def multTranspose(self, _: Mat, x: Vec, y: Vec) -> None:  # noqa: N802
        self._op.T.spmv(x.getArray(readonly=True), out=y.getArray())

    def getDiagonal(self, _: Mat, diagonal: Vec) -> None:  # noqa: N802
        diagonal.getArray()[...] = self._op.diagonal()


def _petsc() -> Any:
    try:
        from petsc4py import PETSc
    except ImportError as error:
        raise ImportError(
            f"spmvgpu.distributed.petsc needs petsc4py ({error}), which comes with PETSc"
        ) from error
    return PETSc

"""Batches: matrices of one sparsity pattern, stored as the blocks of one block-diagonal matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._util.show import fit
from .._util.types import DType, HostArray
from ..arrays import AnyArray, AnyLibrary, array_and_library
from ..arrays.products import shape_of
from ..inputs.canonical import canonical_csr
from ..inputs.limits import ENTRY_LIMIT, INDEX_LIMIT
from .operator import SparseOperator

if TYPE_CHECKING:
    from typing_extensions import Self

    from .solve_info import SolveInfo


class BatchedOperator:
    """Matrices of one sparsity pattern on a device; `aslinearoperator` makes it of a batch of `values`.

    They are stored as the blocks of one block-diagonal matrix, in the format that suits it, and a product
    multiplies by all of them at once. `spmvgpu.linalg.cg`, `minres`, `bicgstab` and `gmres` solve all systems
    together, each until it has converged.

    Attributes
    ----------
    shape : tuple of int
        Number of matrices m, rows and columns of each.
    ndim : int
        3.
    dtype : numpy.dtype
    blocks : SparseOperator
        The block-diagonal matrix of all, with its format, device and memory. Preconditioners, factors and
        everything else that is for one matrix can be made of it.
    T, H : BatchedOperator
        The transposed and the conjugate transposed matrices.
    solve_info : spmvgpu.linalg.SolveInfo or None
        How the last solve of `spmvgpu.linalg` went; its `columns` has one for each system.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson1d(100)
    >>> values = A.data * np.array([[1.0], [2.0], [3.0]])
    >>> op = sg.aslinearoperator(A, values=values, device="cpu")
    >>> op.shape
    (3, 100, 100)
    >>> op.matvec(np.ones((3, 100)))[:, 0]
    array([1., 2., 3.])
    >>> x, info = sg.linalg.cg(op, np.ones((3, 100)), rtol=1e-8)
    >>> info
    array([0, 0, 0])
    """

    __array_ufunc__ = None  # NumPy leaves ``array @ op`` to us, and there is no such product
    ndim = 3

    def __init__(self, blocks: SparseOperator, number: int) -> None:
        self.blocks = blocks
        self.shape = (number, blocks.shape[0] // number, blocks.shape[1] // number)

    @property
    def dtype(self) -> DType:
        dtype: DType = self.blocks.dtype
        return dtype

    @property
    def T(self) -> Self:  # noqa: N802
        return type(self)(self.blocks.T, len(self))

    @property
    def H(self) -> Self:  # noqa: N802
        return type(self)(self.blocks.H, len(self))

    @property
    def solve_info(self) -> SolveInfo | Any:
        return self.blocks.solve_info

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        count, rows, cols = self.shape
        return fit(f"<{count}x{rows}x{cols} BatchedOperator of {self.dtype}, as {self.blocks!r}>")

    def matvec(self, x: AnyArray) -> AnyArray:
        """Multiply each matrix by a vector.

        Parameters
        ----------
        x : (m, n) array
            A NumPy array, or an array of another library on the device of the operator.

        Returns
        -------
        (m, rows) array
            Of the library of `x`.

        Raises
        ------
        TypeError, ValueError
            If `x` has another shape, or a dtype or a device that is not allowed.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.matvec(np.ones((2, 2)))
        array([[1., 2.],
               [3., 4.]])
        """
        return self._product(x, 2)

    def matmat(self, X: AnyArray) -> AnyArray:
        """Multiply each matrix by the columns of an array; ``op @ X`` is the same.

        Parameters
        ----------
        X : (m, n, k) array
            A NumPy array, or an array of another library on the device of the operator.

        Returns
        -------
        (m, rows, k) array
            Of the library of `X`.

        Raises
        ------
        TypeError, ValueError
            If `X` has another shape, or a dtype or a device that is not allowed.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.matmat(np.ones((2, 2, 5))).shape
        (2, 2, 5)
        """
        return self._product(X, 3)

    def rmatvec(self, x: AnyArray) -> AnyArray:
        """Multiply each conjugate transposed matrix by a vector, as ``op.H.matvec(x)``.

        Parameters
        ----------
        x : (m, rows) array
            As `matvec` takes it.

        Returns
        -------
        (m, n) array

        Raises
        ------
        TypeError, ValueError
            As `matvec`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.rmatvec(np.ones((2, 2)))
        array([[1., 2.],
               [3., 4.]])
        """
        return self.H.matvec(x)

    def rmatmat(self, X: AnyArray) -> AnyArray:
        """Multiply each conjugate transposed matrix by columns, as ``op.H.matmat(X)``.

        Parameters
        ----------
        X : (m, rows, k) array
            As `matmat` takes it.

        Returns
        -------
        (m, n, k) array

        Raises
        ------
        TypeError, ValueError
            As `matmat`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.rmatmat(np.ones((2, 2, 5))).shape
        (2, 2, 5)
        """
        return self.H.matmat(X)

    __matmul__ = matmat

    def diagonal(self) -> HostArray:
        """Return the diagonals of all matrices.

        Returns
        -------
        (m, min(rows, columns)) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu").diagonal()
        array([[1., 2.],
               [3., 4.]])
        """
        count, rows, cols = self.shape
        if rows == cols:
            return self.blocks.diagonal().reshape(count, rows)
        return np.stack([block.diagonal() for block in self._blocks_of_csr()])

    def toarray(self) -> HostArray:
        """Return all matrices as dense arrays.

        Returns
        -------
        (m, rows, columns) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.toarray().shape
        (2, 2, 2)
        """
        return np.stack([block.toarray() for block in self._blocks_of_csr()])

    def update_values(self, values: AnyArray) -> None:
        """Replace the values of all matrices, as `SparseOperator.update_values` does.

        Parameters
        ----------
        values : (m, nnz) array
            As `aslinearoperator` takes them, in host memory or on the device of the operator.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.update_values`. After an error the operator has the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.eye(2), values=[[1.0, 2.0], [3.0, 4.0]], device="cpu")
        >>> op.update_values(np.full((2, 2), 5.0))
        >>> op.diagonal()
        array([[5., 5.],
               [5., 5.]])
        """
        self.blocks.update_values(_flat("values", values, (len(self), self.blocks.nnz // len(self)), 2)[0])

    def _flat(self, name: str, x: object, ndim: int | None = None) -> tuple[AnyArray, AnyLibrary]:
        """Vectors that the matrices multiply as one of the block-diagonal matrix; ValueError for others."""
        return _flat(name, x, (len(self), self.shape[2]), ndim)[:2]

    def _each(self, y: AnyArray, library: AnyLibrary) -> AnyArray:
        """What a product with the block-diagonal matrix gives, or a solution, for each matrix."""
        return library.reshaped(y, (*self.shape[:2], *y.shape[1:]))

    def _product(self, x: AnyArray, ndim: int) -> AnyArray:
        flat, library = self._flat("x" if ndim == 2 else "X", x, ndim)
        return self._each(self.blocks @ flat, library)

    def _blocks_of_csr(self) -> list[Any]:
        count, rows, cols = self.shape
        csr = self.blocks.tocsr()
        return [csr[j * rows : (j + 1) * rows, j * cols : (j + 1) * cols] for j in range(count)]


class BlockDiagonal(NamedTuple):
    """The CSR arrays of a block-diagonal matrix, and the number of its blocks."""

    arrays: tuple[AnyArray, AnyArray, AnyArray]
    shape: tuple[int, int]
    number: int


def block_diagonal(A: object, values: object, shape: tuple[int, int] | None = None) -> BlockDiagonal:
    """The block-diagonal matrix whose blocks have the pattern of `A` and a row of `values` each.

    The arrays are where the values are.

    Raises
    ------
    TypeError, ValueError
        As `canonical_csr`, for values of another shape, and for more rows or columns than are allowed.
    """
    csr = canonical_csr(A, shape=shape).host
    rows, cols = csr.shape
    flat, library, count = _flat("values", values, (None, csr.nnz), 2)
    if count == 0:
        raise ValueError(f"values has shape (0, {csr.nnz}); it must have a row for at least one matrix")
    if count * max(rows, cols) > INDEX_LIMIT:
        raise ValueError(
            f"{count} matrices of shape {csr.shape} have {count * max(rows, cols)} rows or columns together; "
            f"at most {INDEX_LIMIT} are allowed: divide the batch"
        )
    numbers = np.arange(count)[:, np.newaxis]
    kind = np.int32 if count * csr.nnz <= ENTRY_LIMIT else np.int64
    indices = (csr.indices + numbers.astype(np.int32) * cols).ravel().astype(np.int32)
    ends = (csr.indptr[1:].astype(kind) + numbers.astype(kind) * csr.nnz).ravel()
    indptr = np.concatenate([np.zeros(1, kind), ends])
    arrays = (flat, *(library.from_host(array, flat) for array in (indices, indptr)))
    return BlockDiagonal(arrays, (count * rows, count * cols), count)


def _flat(
    name: str, x: object, shape: tuple[int | None, int], ndim: int | None = None
) -> tuple[AnyArray, AnyLibrary, int]:
    """An array of shape (m, n) or (m, n, k) as one of shape (m * n,) or (m * n, k), its library, and m."""
    x, library = array_and_library(name, x)
    given = shape_of(name, x, library)
    kinds = [kind for kind in ("", ", k") if ndim in (None, 2 + bool(kind))]
    is_right = len(given) in (2 + bool(kind) for kind in kinds) and shape in (
        (given[0], given[1]),
        (None, given[1]),
    )
    if not is_right:
        allowed = " or ".join(f"({shape[0] or 'm'}, {shape[1]}{kind})" for kind in kinds)
        hint = f"; for a vector of each matrix, op.matvec({name})" if ndim == 3 and len(given) == 2 else ""
        raise ValueError(f"{name} has shape {given}; it must have shape {allowed} here{hint}")
    return library.reshaped(x, (given[0] * given[1], *given[2:])), library, given[0]

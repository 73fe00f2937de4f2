"""Partitions of Yang et al. 2015 by the lengths of the rows (section 4.2.3) and by blocks (section 4.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from .._util.arguments import whole_number, with_hints
from .._util.types import HostArray
from ..inputs.canonical import canonical_csr
from ..inputs.limits import INDEX_LIMIT
from ..multi_device.partitions import Partition, Parts, check_powers, check_sizes, in_order, row_lengths


@dataclass(frozen=True, eq=False, repr=False)
class Submatrices(Parts):
    """A matrix as the sum of its diagonal blocks and a remainder (Algorithm 4).

    `by_submatrices` makes one. Each array has two entries, for the blocks and for the remainder.

    Attributes
    ----------
    powers, rows, nnz : arrays
        As in `Partition`. Both parts have all rows.
    elements : array of int
        Number of slots: the diagonals of the blocks at full length, and the non-zeros of the remainder.
    block_size : int
        Rows and columns of a block.
    offsets : array of int
        Diagonals of the blocks that hold entries.
    blocks, remainder : csr_array
        R1 and R2 of the paper. Their sum is the matrix.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> from spmvgpu import gallery
    >>> parts = partition.by_submatrices(gallery.poisson2d(8), block_size=8)
    >>> parts.offsets, parts.nnz
    (array([-1,  0,  1], dtype=int32), array([176, 112]))
    """

    block_size: int
    offsets: HostArray
    blocks: sp.csr_array = field(repr=False)
    remainder: sp.csr_array = field(repr=False)

    def storage(self, value_size: int = 8, index_size: int = 4) -> HostArray:
        """Return the bytes of the blocks stored by diagonals, and of the remainder as CSR.

        Parameters
        ----------
        value_size : int, default 8
            Bytes of a value.
        index_size : int, default 4
            Bytes of an index.

        Returns
        -------
        (2,) array of int

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range.

        Examples
        --------
        >>> from spmvgpu import partition
        >>> from spmvgpu import gallery
        >>> partition.by_submatrices(gallery.poisson2d(8), block_size=8).storage()
        array([1548, 1604])
        """
        check_sizes(value_size, index_size)
        diagonals = self.elements[0] * value_size + len(self.offsets) * index_size
        rest = self.elements[1] * (value_size + index_size) + (self.rows[1] + 1) * index_size
        return np.array([diagonals, rest])


@with_hints
def by_pmf(A: object, powers: Sequence[float]) -> Partition:
    """Divide the rows in ascending order of length, with non-zeros proportional to each power.

    This is Algorithm 3, section 4.2.3.

    Parameters
    ----------
    A, powers
        As in `by_rows`. The first processor gets the shortest rows.

    Returns
    -------
    Partition

    Raises
    ------
    TypeError, ValueError
        As `by_rows`.

    Notes
    -----
    Rows of equal length keep their order. Parts end as in `by_nnz`.

    Theorem 1 states that no partition with the same non-zeros per part has less padding. The proof assumes
    that later parts hold longer rows. If the parts have different numbers of non-zeros, another order of the
    powers can pad less. Take 10 rows of length 1, 20 of length 2 and one of length 10: powers 1 and 5 give
    220 elements, and powers 5 and 1 give 70.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.by_pmf([2, 5, 3, 7, 1, 5, 2, 6], powers=[1, 3]).sets
    (array([0, 2, 4, 6]), array([1, 3, 5, 7]))
    """
    lengths, checked = row_lengths(A), check_powers(powers)
    return in_order(_by_length(lengths), lengths, checked)


@with_hints
def by_submatrices(A: object, powers: Sequence[float] = (1, 1), *, block_size: int = 32) -> Submatrices:
    """Separate the blocks on the diagonal from the other entries.

    This is Algorithm 4, section 4.2.4. The blocks are stored by diagonals, the remainder as CSR.

    Parameters
    ----------
    A : matrix
        A sparse matrix as in `aslinearoperator`.
    powers : sequence of 2 float, default (1, 1)
        Computing power of the processors of the blocks and of the remainder. Only
        `Submatrices.relative_difference` uses them.
    block_size : int, default 32
        Rows and columns of a block. The paper uses a warp, 32, or half a warp.

    Returns
    -------
    Submatrices

    Raises
    ------
    TypeError, ValueError
        If `A` is not a matrix, or if `powers` or `block_size` is out of range.

    Notes
    -----
    An entry belongs to a block if ``row // block_size == column // block_size``. The listing uses the
    remainder in place of the quotient, and would leave out the first column of each block.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> from spmvgpu import gallery
    >>> A = gallery.poisson2d(8)
    >>> parts = partition.by_submatrices(A, block_size=8)
    >>> float(abs(parts.blocks + parts.remainder - A).max())
    0.0
    """
    block_size = whole_number("block_size", block_size, 1, INDEX_LIMIT)
    checked = check_powers(powers)
    if len(checked) != 2:
        raise ValueError(
            f"there are {len(checked)} powers; give two, one for the blocks and one for the remainder"
        )
    matrix = canonical_csr(A)
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    inside = rows // block_size == matrix.indices // block_size
    blocks, remainder = _entries(matrix, inside), _entries(matrix, ~inside)
    offsets = np.unique(matrix.indices[inside] - rows[inside])
    nnz = np.array([blocks.nnz, remainder.nnz])
    return Submatrices(
        powers=checked,
        rows=np.full(2, matrix.shape[0]),
        nnz=nnz,
        elements=np.array([len(offsets) * matrix.shape[0], remainder.nnz]),
        block_size=block_size,
        offsets=offsets,
        blocks=blocks,
        remainder=remainder,
    )


def pmf(A: object) -> tuple[HostArray, HostArray]:
    """Return the probability mass function of the row lengths (Definition 1, section 3.1).

    Parameters
    ----------
    A : matrix or array of int
        As in `by_rows`.

    Returns
    -------
    lengths : array of int
        Row lengths that occur, ascending.
    probabilities : array of float
        Fraction of the rows with each length.

    Raises
    ------
    TypeError, ValueError
        As `row_lengths`.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.pmf([1, 2, 2, 5])
    (array([1, 2, 5]), array([0.25, 0.5 , 0.25]))
    """
    lengths = row_lengths(A)
    occurring, counts = np.unique(lengths, return_counts=True)
    return occurring, counts / max(len(lengths), 1)


def _by_length(lengths: HostArray) -> HostArray:
    """The rows in the order of their lengths; rows of equal length keep their order."""
    if len(lengths) and lengths.max() <= np.iinfo(np.uint16).max:
        lengths = lengths.astype(np.uint16)  # which NumPy sorts by counting
    return np.argsort(lengths, kind="stable")


def _entries(matrix: sp.csr_array, kept: HostArray) -> sp.csr_array:
    """The matrix with some of its entries only."""
    counted = np.concatenate(([0], np.cumsum(kept)))
    arrays = (matrix.data[kept], matrix.indices[kept], counted[matrix.indptr].astype(matrix.indptr.dtype))
    return sp.csr_array(arrays, shape=matrix.shape)

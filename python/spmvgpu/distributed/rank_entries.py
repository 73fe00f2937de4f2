"""The entries of an operator over ranks, of which a rank has some rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import scipy.sparse as sp

from .._util.types import HostArray
from ..devices import at_most
from .errors import agreement
from .products import Product
from .ranges import Ranges
from .rows import rows_with


class RankEntries:
    """What reads and replaces the entries in the rows of a rank."""

    row_ranges: Ranges
    col_ranges: Ranges
    _shared: Any
    _product: Product
    _threads: int | None
    _which: tuple[bool, bool]

    def tocsr(self) -> sp.csr_array:
        """Return the rows of this rank, with all columns of the matrix.

        Returns
        -------
        scipy.sparse.csr_array
            In host memory.

        Raises
        ------
        TypeError
            If the operator is a transpose, which holds columns.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.tocsr().toarray()
        array([[2., 1.],
               [0., 4.]])
        """
        if self._product.transposed:
            raise TypeError("a transposed DistributedOperator holds columns, not rows; use op.T.tocsr()")
        return self._product.local.tocsr(self.col_ranges)

    def update_values(self, data: object) -> None:
        """Replace the values of the stored entries, as `SparseOperator.update_values`; all ranks call it.

        Parameters
        ----------
        data : sparse matrix, dense matrix, or (local nnz,) array
            The rows of this rank with all columns of the matrix, with the same sparsity pattern or a part of
            it. Or an array of values in the order of ``op.tocsr().data``.

        Raises
        ------
        TypeError
            If the operator is a transpose or a conjugate, or if the values would be rounded.
        ValueError
            If `data` has an entry where the operator has none, or another shape.
        FormatError, MemoryError, CudaError
            As `SparseOperator.update_values`.

        Notes
        -----
        An exception of one rank is raised on all, which then have the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.update_values(np.array([4.0, 2.0, 8.0]))
        >>> op @ np.ones(2)
        array([6., 8.])
        """
        shared = self._shared
        local, old = shared.local, [op._stored for op in shared.local.operators]
        with at_most(self._threads):
            try:
                with agreement(self.row_ranges.comm):
                    if any(self._which):
                        raise TypeError(
                            "a transpose or a conjugate takes no new values; update the operator that it is "
                            "made of, and take T, H or conj() of that again"
                        )
                    held = local.snapshot()  # so that the old values stay until all ranks have the new ones
                    rows = rows_with(data, local, self.col_ranges)
                    for op, values in zip(local.operators, local.divided(rows, self.col_ranges), strict=True):
                        op.update_values(values)
            except Exception:
                for op, stored in zip(local.operators, old, strict=True):
                    op._become(stored)
                raise
            del held
        del shared.variants[self._which]  # so that T and H of the old values do not find this operator
        self._shared = replace(shared, variants={self._which: self})
        self._product = Product(local, shared.exchange, shared.transport, *self._which)

    def diagonal(self) -> HostArray:
        """Return the entries of the diagonal in the rows of this rank.

        Returns
        -------
        (local rows,) numpy.ndarray
            Shorter if the matrix has fewer columns than rows.

        Raises
        ------
        ValueError
            If the operator is a transpose, and rows and columns are distributed differently.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.diagonal()
        array([2., 4.])
        """
        if self.row_ranges != self.col_ranges:
            if self._which[0]:
                raise ValueError(
                    "rows and columns are distributed differently, so no rank holds its piece of the "
                    "diagonal of the transpose"
                )
            return cast("HostArray", self.tocsr().diagonal(self.row_ranges.begin))
        diagonal = self._product.local.block.diagonal()
        return diagonal.conj() if self._which == (True, True) else diagonal

"""The entries of a stored matrix, as arrays and SciPy matrices in host memory."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from .._util.arguments import whole_number
from .._util.types import HostArray
from ..devices import at_most
from ..inputs.limits import INDEX_LIMIT
from ..planning import parts
from .stored import StoredMatrix


class StoredEntries:
    """What reads the entries of a stored matrix."""

    _stored: StoredMatrix

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as a new `scipy.sparse.csr_array` of the operator's dtype.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.tocsr().indices
        array([0, 1, 1], dtype=int32)
        """
        return self._stored.to_csr()

    def toarray(self) -> HostArray:
        """Return the matrix as a dense array in host memory.

        Returns
        -------
        (m, n) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.toarray()
        array([[4., 1.],
               [0., 3.]])
        """
        dense: HostArray = self.tocsr().toarray()
        return dense

    def diagonal(self, k: int = 0) -> HostArray:
        """Return a diagonal of the matrix.

        Parameters
        ----------
        k : int, default 0
            Which diagonal. ``k > 0`` is above the main diagonal.

        Returns
        -------
        numpy.ndarray
            In host memory.

        Raises
        ------
        TypeError, ValueError
            If `k` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.diagonal(), op.diagonal(1)
        (array([4., 3.]), array([1.]))
        """
        shift = whole_number("k", k, -INDEX_LIMIT, INDEX_LIMIT)
        with at_most(self._stored.description.threads):
            return self._stored.canonical_there().diagonal(shift)

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of the entries of a diagonal.

        Parameters
        ----------
        offset : int, default 0
            Which diagonal, as `k` of `diagonal`.

        Returns
        -------
        scalar

        Raises
        ------
        TypeError, ValueError
            If `offset` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> float(op.trace())
        7.0
        """
        return self.diagonal(whole_number("offset", offset, -INDEX_LIMIT, INDEX_LIMIT)).sum()

    def sum(self, axis: int | None = None) -> Any:
        """Sum the entries of the matrix, of each column or of each row.

        Parameters
        ----------
        axis : {None, 0, 1, -1, -2}, optional
            None: all entries. 0: the sum of each column. 1: the sum of each row.

        Returns
        -------
        scalar or numpy.ndarray

        Raises
        ------
        TypeError, ValueError
            If `axis` is not one of these.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.sum(axis=0)
        array([4., 4.])
        """
        return self.tocsr().sum(None if axis is None else whole_number("axis", axis, -2, 1))

    def arrays(self) -> dict[str, HostArray]:
        """Copy the arrays of the stored matrix to the host.

        Returns
        -------
        dict of str to numpy.ndarray
            The arrays by name, as in ``row_offsets``, ``col_indices`` and ``values`` of csr.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.arrays()["row_offsets"], op.arrays()["col_indices"]
        (array([0, 2, 3], dtype=int32), array([0, 1, 1], dtype=int32))
        """
        return parts.arrays(self._stored.matrix)

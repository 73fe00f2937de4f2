"""JAX's sparse matrices: as SciPy's matrices over the same memory, and as CSR where they are."""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse as sp

from .._util.types import HostArray
from ..arrays import AnyArray, library_of
from ..arrays.products import kind_of
from .limits import ENTRY_LIMIT, INDEX_LIMIT
from .source import Source


class JaxSource(Source):
    """A sparse matrix of JAX's."""

    def csr(self) -> tuple[AnyArray, ...] | None:
        data = self.given.data
        located = library_of(data).locate(data, "A.data")  # type: ignore[union-attr]
        return self.arrays() if located.host is None else None

    def host(self) -> sp.sparray:
        """A matrix over the memory of the one on the CPU, or over a copy of one on a GPU.

        Its arrays are not checked. What fills them up is left out: of BCOO what is out of range, of BCSR what
        comes after the last row.
        """
        A, kind = self.given, type(self.given).__name__
        if kind not in ("BCOO", "BCSR"):
            raise TypeError(f"A is a {kind}; allowed are BCOO and BCSR, as of jax.experimental.sparse")
        if A.n_batch or A.n_dense or len(A.shape) != 2:
            raise ValueError(
                f"A is a {kind} of shape {A.shape} with {A.n_batch} batch and {A.n_dense} dense dimensions; "
                "it must be a matrix without such"
            )
        data, indices = _host("A.data", A.data), _host("A.indices", A.indices)
        if kind == "BCSR":
            made = sp.csr_array(A.shape)
            made.indptr = _host("A.indptr", A.indptr)
            count = made.indptr[-1] if made.indptr.size else 0
            made.data, made.indices = data[:count], indices[:count]
            return made
        if len(data) != len(indices):
            raise ValueError(f"mismatched lengths: data has shape {data.shape}, indices {indices.shape}")
        made = sp.coo_array(A.shape)
        inside = (indices < np.array(A.shape)).all(axis=1)
        made.data, (made.row, made.col) = data[inside], indices[inside].T
        return made

    def arrays(self) -> tuple[AnyArray, AnyArray, AnyArray] | None:
        """(data, indices, indptr) on the device of a matrix, with indices of int32.

        BCOO becomes CSR in order and without duplicates. None for what is no matrix or has negative indices,
        which `host` and the conversion of its result refuse with the reason.
        """
        A, kind = self.given, type(self.given).__name__
        if kind not in ("BCOO", "BCSR") or A.n_batch or A.n_dense or len(A.shape) != 2:
            return None
        if max(A.shape) > INDEX_LIMIT or A.nse > ENTRY_LIMIT or not A.nse:
            return None
        if kind == "BCOO":
            if bool((A.indices < 0).any()):
                return None
            ordered = A.sum_duplicates(remove_zeros=False)  # which drops what is out of range
            A = sys.modules["jax.experimental.sparse"].BCSR.from_bcoo(ordered)
        count = int(A.indptr[-1])
        return A.data[:count], A.indices[:count].astype(np.int32), A.indptr.astype(np.int32)


def _host(name: str, array: AnyArray) -> HostArray:
    """An array in host memory, of a type that NumPy has."""
    located = library_of(array).locate(array, name)  # type: ignore[union-attr]
    host: HostArray = np.asarray(array) if located.host is None else located.host
    return host.astype(np.float64) if host.dtype.isbuiltin == 2 and kind_of(host.dtype) == "f" else host

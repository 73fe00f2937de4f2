"""PyTorch's sparse tensors: as SciPy's matrices over the same memory, and as CSR where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from .._util.types import DType, HostArray
from ..arrays import library_of
from ..arrays.torch_tensors import Torch
from .limits import ENTRY_LIMIT, INDEX_LIMIT
from .source import Source

if TYPE_CHECKING:
    import torch

_INDICES = {  # by layout: the methods that give offsets and indices, and SciPy's kind of matrix
    "torch.sparse_csr": ("crow_indices", "col_indices", sp.csr_array),
    "torch.sparse_csc": ("ccol_indices", "row_indices", sp.csc_array),
    "torch.sparse_bsr": ("crow_indices", "col_indices", sp.bsr_array),
}
_COO = "torch.sparse_coo"


class TorchSource(Source):
    """A sparse tensor of PyTorch's."""

    @property
    def _torch(self) -> Torch:
        return cast("Torch", library_of(self.given))

    @property
    def dtype(self) -> DType:
        return _numpy_type(self.given)

    def csr(self) -> tuple[torch.Tensor, ...] | None:
        return self.tensors() if self.given.is_cuda else None

    def host(self) -> sp.sparray:
        """A matrix over the memory of the tensor in host memory, or over a copy of one on a GPU."""
        A, layout, shape = self.given, str(self.given.layout), self.shape
        self._torch.refuse_gradient("A", A)
        if layout not in (*_INDICES, _COO):
            allowed = ", ".join((*_INDICES, _COO))
            raise TypeError(
                f"A is a tensor of layout {layout}; allowed are {allowed}, as of A.to_sparse_csr()"
            )
        if len(shape) != 2:
            raise ValueError(f"A is a sparse tensor of shape {shape}; it must have 2 dimensions")
        if layout == _COO:
            made = sp.coo_array(shape)
            made.data, made.row, made.col = map(_host, self._triplets(A.detach()))
            return made
        offsets, indices, kind = _INDICES[layout]
        # SciPy's constructors would check, convert and copy.
        blocks = {"blocksize": tuple(A.values().shape[-2:])} if layout == "torch.sparse_bsr" else {}
        made = kind(shape, **blocks)
        made.indptr, made.indices = _host(getattr(A, offsets)()), _host(getattr(A, indices)())
        made.data = _host(A.values())
        return made

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """(data, indices, indptr) on the device of a tensor, with indices of int32.

        Other layouts become CSR in order and without duplicates. None for a tensor that is no matrix or has
        indices out of range, which `host` and the conversion of its result refuse with the reason.
        """
        A, layout, torch = self.given, str(self.given.layout), self._torch.module
        if A.ndim != 2 or layout not in (*_INDICES, _COO) or max(A.shape) > INDEX_LIMIT:
            return None
        self._torch.refuse_gradient("A", A)
        A, (rows, cols) = A.detach(), A.shape
        if layout != _COO:
            indptr, inner = (getattr(A, name)() for name in _INDICES[layout][:2])
            if not _are_offsets(indptr, len(inner)):
                return None
            if layout == "torch.sparse_csr":
                is_right = _are_below(inner, cols) and len(inner) <= ENTRY_LIMIT
                return (A.values(), inner.int(), indptr.int()) if is_right else None
            A = A.to_sparse()
        data, row, col = self._triplets(A)
        if data.ndim != 1 or len(data) > ENTRY_LIMIT or not (_are_below(row, rows) and _are_below(col, cols)):
            return None
        # Stored zeros stay, and duplicates are summed.
        indices = torch.stack([row, col])
        coo = torch.sparse_coo_tensor(indices, data, (rows, cols), check_invariants=False).coalesce()
        row, col = coo.indices()
        indptr = torch.searchsorted(row.contiguous(), torch.arange(rows + 1, device=A.device))
        return coo.values(), col.int(), indptr.int()

    def _triplets(self, A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Values, rows and columns of a COO matrix; the blocks of a hybrid one are written out."""
        values, sparse = A._values(), A._indices()
        if values.ndim == 1:
            return values, sparse[0], sparse[1]
        torch = self._torch.module
        within = torch.meshgrid(*(torch.arange(n, device=A.device) for n in values.shape[1:]), indexing="ij")
        indices = [along.repeat_interleave(within[0].numel()) for along in sparse]
        indices += [along.flatten().repeat(len(values)) for along in within]
        return values.flatten(), indices[0], indices[1]


def _numpy_type(A: torch.Tensor) -> DType:
    """The type of the values, and float64 for bfloat16, which NumPy lacks."""
    found = cast("Torch", library_of(A)).type_of(A)
    return found if isinstance(found, np.dtype) else np.dtype(np.float64)


def _host(array: torch.Tensor) -> HostArray:
    """An array in host memory, of a type that NumPy has."""
    array = array.cpu()
    host: HostArray | None = library_of(array).locate(array, "A").host  # type: ignore[union-attr]
    assert host is not None
    return host.astype(_numpy_type(array), copy=False)


def _are_below(indices: torch.Tensor, end: int) -> bool:
    """Whether indices are from 0 on, and below a number: else kernels of PyTorch would fail for good."""
    return bool(((indices >= 0) & (indices < end)).all())


def _are_offsets(indptr: torch.Tensor, count: int) -> bool:
    """Whether these are offsets into `count` entries."""
    if not len(indptr):
        return False
    return bool((indptr[0] == 0) & (indptr[-1] == count) & (indptr.diff() >= 0).all())

"""Matrices that nobody has checked, made canonical on a GPU: they cross the bus once, or not at all."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import CsrSource
from .._util.steps import took
from .._util.types import DType
from .._util.value_types import is_value_type
from ..arrays import Located, library_of
from . import limits
from .compressed import storage_dtype
from .csr import CanonicalCsr
from .jax_sparse import csr_of_jax, is_jax_sparse, is_on_gpu
from .limits import INDEX_LIMIT
from .torch_sparse import csr_tensors, is_torch_sparse


def device_csr(A: Any, ordinal: int, shape: Any, wanted: DType | None) -> CanonicalCsr | None:
    """A matrix that nobody has checked, on a GPU, where it is checked.

    None for what is no CSR matrix with int32 indices, has no value type, or is not canonical: that takes the
    way through host memory, where it is converted, or refused with the reason. What is checked is a copy, as
    there: a thread that changes the arrays of `A` meanwhile brings no index out of range into it.

    Parameters
    ----------
    A : SciPy, CuPy, PyTorch or JAX sparse matrix, or (data, indices, indptr) tuple
    ordinal : int
        A GPU.
    shape : tuple of int or None
        Of a tuple.
    wanted : dtype or None
        As `canonical_csr` takes it, checked.
    """
    arrays, shape = _csr_arrays(A, shape)
    if arrays is None or shape is None:
        return None
    names = ("data", "indices", "indptr")
    located = [_locate(name, array) for name, array in zip(names, arrays, strict=True)]
    if any(found is None for found in located):
        return None
    found = cast("list[Located]", located)
    data, indices, indptr = found
    if not _fits(data, indices, indptr, shape) or storage_dtype(data.dtype, wanted) != data.dtype:
        return None
    try:
        if data.host is not None and indices.host is not None and indptr.host is not None:
            source, steps = CsrSource.checked(indptr.host, indices.host, data.host, shape[1], ordinal)
        elif {array.ordinal for array in found} == {ordinal}:
            for stream in {array.library.stream(array) for array in found}:  # what is queued for them is done
                _core.synchronize(stream, ordinal)
            pointers = (indptr.pointer, indices.pointer, data.pointer)
            sizes = (shape[0], shape[1], data.shape[0])
            source, steps = CsrSource.checked_at(data.dtype, *pointers, *sizes, ordinal)
        else:
            return None
    except (MemoryError, ValueError):  # what is wrong with it, if anything, is found out on the other way
        return None
    took(steps)
    return None if source is None else CanonicalCsr.on(source, shape, data.dtype, data.shape[0], ordinal)


def _csr_arrays(A: Any, shape: Any) -> tuple[Any, Any]:
    """(data, indices, indptr) of what is CSR, and its shape, as far as they can be relied on.

    PyTorch's other layouts and JAX's BCOO become CSR on their GPU.
    """
    if isinstance(A, tuple):
        lengths = shape if isinstance(shape, tuple) else ()
        plain = len(lengths) == 2 and all(type(n) is int and 0 <= n <= INDEX_LIMIT for n in lengths)
        return (A, shape) if len(A) == 3 and plain else (None, None)
    if shape is None and is_torch_sparse(A):
        return csr_tensors(A) if A.is_cuda else None, tuple(A.shape)
    if shape is None and is_jax_sparse(A):
        return csr_of_jax(A) if is_on_gpu(A) else None, tuple(A.shape)
    is_ours = sp.issparse(A) or type(A).__module__.partition(".")[0] == "cupyx"
    if shape is not None or not is_ours or getattr(A, "format", None) != "csr" or len(A.shape) != 2:
        return None, None
    if max(A.shape) > INDEX_LIMIT:
        return None, None
    return tuple(getattr(A, name, None) for name in ("data", "indices", "indptr")), tuple(map(int, A.shape))


def _locate(name: str, array: Any) -> Located | None:
    if isinstance(array, np.ma.MaskedArray):
        return None
    library = library_of(array)
    return None if library is None else library.locate(array, name)


def _fits(data: Located, indices: Located, indptr: Located, shape: tuple[int, int]) -> bool:
    arrays = (data, indices, indptr)
    return (
        all(len(array.shape) == 1 and array.contiguous for array in arrays)
        and indices.dtype == indptr.dtype == np.int32
        and indptr.shape == (shape[0] + 1,)
        and data.shape == indices.shape
        and data.shape[0] <= limits.ENTRY_LIMIT
        and is_value_type(data.dtype)
    )

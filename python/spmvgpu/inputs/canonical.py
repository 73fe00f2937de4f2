"""From whatever a caller calls a sparse matrix to canonical CSR, checked in host memory or on a GPU."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.steps import step
from .._util.types import DType, HostArray
from ..arrays import as_array, library_of, on_host
from ..arrays.torch_tensors import Torch
from ..devices import CPU
from .csr import CanonicalCsr
from .jax_sparse import JaxSource
from .limits import ENTRY_LIMIT, INDEX_LIMIT
from .source import Source, compressed, csr_of_dense, storage_dtype, wanted_dtype
from .torch_sparse import TorchSource

Symmetric = Literal["lower", "upper", "hermitian"] | bool | None

_ALLOWED = "give a sparse matrix, a (data, indices, indptr) tuple with shape=, or a 2-D array"


def canonical_csr(
    A: Any, *, shape: Any = None, dtype: Any = None, symmetric: Symmetric = None, ordinal: int = CPU
) -> CanonicalCsr:
    """`A` with sorted indices, no duplicates, and data of a value type.

    The index arrays are copies, and the copies are what is checked: a thread that changes those of `A`
    meanwhile may change which matrix this is, but brings no index out of range into it.

    Parameters
    ----------
    A : Source, (data, indices, indptr) tuple, or what `source_of` takes
        Never changed; the values of the result may share its memory.
    shape : tuple of int, optional
        Needed with, and only with, a tuple.
    dtype : dtype, optional
        A value type. By default such a type stays and every other real one becomes float64.
    symmetric : {None, False, True, "lower", "upper", "hermitian"}
        With "lower" or "upper", `A` holds that triangle of a symmetric matrix and is completed; with
        "hermitian", it is checked that `A` is its own conjugate transpose.
    ordinal : int
        Where the matrix is wanted: it stays on this GPU, or goes there, if it can be checked there.

    Raises
    ------
    TypeError
        For a dtype that is not supported, or an `A` that is no matrix.
    ValueError
        For arrays that do not describe a matrix, and for one that is not as `symmetric` says.
    """
    declared = checked_symmetry(symmetric)
    wanted = wanted_dtype(dtype)
    source = given_source(A, shape)
    if ordinal != CPU and declared in (None, True):
        there = source.on_device(ordinal, wanted)
        if there is not None:
            return _complete(there, declared)
    with step("checks"):
        return _complete(source.on_host(wanted), declared)


_Declared = Literal[True, "lower", "upper", "hermitian"]


def checked_symmetry(symmetric: Any) -> _Declared | None:
    """What a caller says of a matrix's symmetry; None where it says nothing."""
    if symmetric is None or isinstance(symmetric, bool | np.bool_):
        return True if symmetric else None
    if isinstance(symmetric, str) and symmetric in ("lower", "upper", "hermitian"):
        return cast("_Declared", symmetric)
    kind = ValueError if isinstance(symmetric, str) else TypeError
    allowed = "give None or False, True, 'lower', 'upper' or 'hermitian'"
    raise kind(f"symmetric={symmetric!r} is not allowed; {allowed}")


def given_source(A: Any, shape: Any) -> Source:
    """What the arguments `A` and `shape` of `canonical_csr` are."""
    if isinstance(A, tuple):
        return CsrArrays(A, shape)
    if shape is not None:
        raise TypeError("shape= is allowed only with a (data, indices, indptr) tuple; leave it out")
    return source_of(A)


def source_of(A: Any) -> Source:
    """What a caller calls a matrix, or an operator: this alone asks which library it is of.

    Raises
    ------
    TypeError
        For what is neither.
    """
    if isinstance(A, Source):
        return A
    if isinstance(A, str | bytes | os.PathLike):
        raise TypeError(f"A is {A!r}, not a matrix; read a file with spmvgpu.matrix_io.read_matrix(path)")
    found = sparse_source(A)
    return DenseSource(A) if found is None else found


def sparse_source(A: Any) -> Source | None:
    """What is sparse, or an operator; None for everything else.

    Sparse are the matrices of SciPy, CuPy, PyTorch and JAX; what has `tocsr` or `to_scipy_sparse`, as the
    matrices of many libraries and some operators have; and a data frame of pandas' whose columns are all
    sparse.
    """
    if sp.issparse(A):
        return ScipySource(A)
    if type(A).__module__.partition(".")[0] == "cupyx":
        return CupySource(A)
    if isinstance(library_of(A), Torch) and str(A.layout) != "torch.strided":
        return TorchSource(A)
    if isinstance(A, getattr(sys.modules.get("jax.experimental.sparse"), "JAXSparse", ())):
        return JaxSource(A)
    if hasattr(A, "tocsr"):
        if hasattr(A, "_as_csr"):
            return StoredSource(A)
        converted = A.tocsr()
    elif hasattr(A, "matvec"):
        return ForeignOperator(A)
    elif hasattr(A, "to_scipy_sparse"):
        converted = A.to_scipy_sparse()
    elif len(getattr(A, "shape", ())) == 2 and hasattr(getattr(A, "sparse", None), "to_coo"):
        converted = A.sparse.to_coo()
    else:
        return None
    if not sp.issparse(converted):
        raise TypeError(
            f"a {type(A).__name__} converts itself to a {type(converted).__name__}, which is not a SciPy "
            "sparse matrix; give a SciPy sparse matrix"
        )
    return ScipySource(converted)


class ScipySource(Source):
    """A sparse matrix or array of SciPy's."""

    def csr(self) -> tuple[Any, ...] | None:
        if getattr(self.given, "format", None) != "csr":
            return None
        return tuple(getattr(self.given, name, None) for name in ("data", "indices", "indptr"))


class CupySource(ScipySource):
    """A sparse matrix of CuPy's."""

    def host(self) -> Any:
        return self.given.get()


class DenseSource(Source):
    """An array of any library and dimensions, or what NumPy makes one of."""

    def __init__(self, given: Any) -> None:
        dense = array_on_host("A", given)
        if dense.ndim == 0:
            raise TypeError(f"A is of type {type(given).__name__}, not a matrix; {_ALLOWED}")
        super().__init__(dense)
        self._kind = type(given).__name__

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        if self.given.ndim != 2:
            raise ValueError(f"A is of type {self._kind} and has {self.given.ndim} dimensions; {_ALLOWED}")
        return csr_of_dense(self.given, wanted)


class CsrArrays(Source):
    """The arrays (data, indices, indptr) of a matrix of a given shape; `first` is the first of indptr."""

    def __init__(self, arrays: tuple[Any, ...], shape: Any, first: int = 0) -> None:
        if len(arrays) != 3:
            raise ValueError(f"a tuple must be (data, indices, indptr); this one has {len(arrays)} entries")
        if shape is None:
            raise TypeError("a (data, indices, indptr) tuple needs shape=(rows, columns)")
        super().__init__(arrays)
        self._shape, self.first = _checked_shape(shape), first

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def csr(self) -> tuple[Any, ...]:
        arrays: tuple[Any, ...] = self.given
        return arrays

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        data, indices, indptr = map(array_on_host, ("data", "indices", "indptr"), self.given)
        if self.first:
            indptr = indptr - self.first
        return compressed(data, indices, indptr, self._shape, storage_dtype(data.dtype, wanted))


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = shape
        checked = (int(rows), int(cols))
    except (TypeError, ValueError, OverflowError, np.ma.MaskError):
        raise ValueError(f"shape must be two whole numbers (rows, columns), not {shape!r}") from None
    if checked != (rows, cols) or min(checked) < 0 or max(checked) > INDEX_LIMIT:
        raise ValueError(f"shape must be two whole numbers from 0 to {INDEX_LIMIT}, not {shape!r}")
    return checked


def array_on_host(name: str, array: object) -> HostArray:
    return as_array(name, array) if library_of(array) is None else on_host(name, array)


class StoredSource(Source):
    """An operator of this library, which gives its entries where they are."""

    def _made(self, wanted: DType | None) -> CanonicalCsr:
        found: CanonicalCsr = self.given._as_csr(storage_dtype(self.dtype, wanted))
        return found

    def host(self) -> Any:
        return self._made(None).host

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        return self._made(wanted).in_host_memory()

    def on_device(self, ordinal: int, wanted: DType | None) -> CanonicalCsr | None:
        made = self._made(wanted)
        return made.at(ordinal) if made.ordinal == CPU else made.to(ordinal)


class ForeignOperator(StoredSource):
    """An operator whose products are all that is known, unless it is made of others with entries."""

    def _made(self, wanted: DType | None) -> CanonicalCsr:
        if not hasattr(self.given, "_as_csr"):
            raise TypeError(f"A is a {type(self.given).__name__}, whose entries cannot be read; {_ALLOWED}")
        return super()._made(wanted)


def _complete(csr: CanonicalCsr, symmetric: _Declared | None) -> CanonicalCsr:
    if symmetric is None:
        return csr
    if csr.shape[0] != csr.shape[1]:
        kind = "Hermitian" if symmetric == "hermitian" else "symmetric"
        raise ValueError(f"a {kind} matrix is square; this one has shape {csr.shape}")
    if symmetric is True:
        return csr
    if symmetric == "hermitian":
        _check_hermitian(csr)
        return csr
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    outside = csr.indices > rows if symmetric == "lower" else csr.indices < rows
    if outside.any():
        k = int(np.argmax(outside))
        raise ValueError(
            f"symmetric={symmetric!r}, but entry ({rows[k]}, {csr.indices[k]}) is outside this triangle; "
            "give symmetric=True for a matrix that is stored in full"
        )
    mirrored = csr.indices != rows
    # Through coordinates, so that explicitly stored zeros stay.
    data = np.concatenate([csr.data, csr.data[mirrored]])
    all_rows = np.concatenate([rows, csr.indices[mirrored]])
    all_cols = np.concatenate([csr.indices, rows[mirrored]])
    full = sp.coo_array((data, (all_rows, all_cols)), shape=csr.shape)
    full.has_canonical_format = True  # else SciPy would sort; `compressed` does so on all cores
    full = full.tocsr()
    return compressed(full.data, full.indices, full.indptr, full.shape, csr.dtype)


def _check_hermitian(csr: CanonicalCsr) -> None:
    if csr.indptr.dtype != np.int32:
        raise ValueError(
            f"symmetric='hermitian' is allowed for at most {ENTRY_LIMIT} (2**31 - 1) stored entries, which "
            f"are checked; this matrix has {csr.nnz}; leave it out"
        )
    found = _core.asymmetry(csr.indptr, csr.indices, csr.data, True)
    if found:
        raise ValueError(f"symmetric='hermitian', but the matrix is not: {found}")

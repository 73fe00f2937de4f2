"""Array libraries: one adapter for each, and the table that finds the one of an array."""

from __future__ import annotations

import operator
import sys
from typing import NamedTuple

import numpy as np

from .. import _core
from .._util.types import HostArray
from .cupy_arrays import Cupy
from .library import AnyArray as AnyArray
from .library import AnyLibrary as AnyLibrary
from .library import ArrayInfo as ArrayInfo
from .library import Library as Library
from .library import Memory
from .numpy_arrays import NUMPY as NUMPY
from .numpy_arrays import as_array as as_array
from .products import kind_of
from .protocols import Jax, OfMemory, Protocols
from .torch_tensors import Torch

_ADAPTERS: dict[str, type[AnyLibrary]] = {"cupy": Cupy, "torch": Torch, "jax": Jax, "": Protocols}
_by_name: dict[str, AnyLibrary] = {}
_by_type: dict[type, AnyLibrary | None] = {np.ndarray: NUMPY, Memory: OfMemory(np)}


def library_of(x: object) -> AnyLibrary | None:
    """The adapter of an array's library; None for what is no array (lists, operators, numbers).

    It is found by the modules of the array's type and its bases, so that no library is imported.
    """
    kind = type(x)
    try:
        return _by_type[kind]
    except KeyError:
        pass
    found: AnyLibrary | None = None
    if isinstance(x, np.ndarray):
        found = NUMPY
    elif hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__") or _is_traced(x):
        roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
        name = next((root for root in roots if root in _ADAPTERS), "")
        found = _by_name.setdefault(name, _ADAPTERS[name](sys.modules.get(name, np)))
    _by_type[kind] = found
    return found


def _is_traced(x: object) -> bool:
    """Whether this is what JAX hands a function in place of arrays, to find out what it does."""
    return isinstance(x, getattr(sys.modules.get("jax"), "Array", ()))


def array_and_library(name: str, x: object, wanted: str = "an array") -> tuple[object, AnyLibrary]:
    """What a caller gives for a vector or columns, as an array, and the adapter of its library.

    The one rule for all of them: an array of a library stays what it is, and everything else is what NumPy
    makes of it: lists, ranges, buffers, objects of pandas, xarray and h5py. `wanted` says what else may be
    given, for the message.

    Raises
    ------
    TypeError
        For what is no array, for a sparse matrix, and for a masked array that masks something.
    ValueError
        For nested lists of different lengths, and for what cannot be read.
    """
    library = library_of(x)
    if library is not None:
        return x, library
    if is_sparse(x):
        raise TypeError(
            f"{name} is a sparse {type(x).__name__}; give a dense array, such as {name}.toarray()"
        )
    array = as_array(name, x)
    if array.ndim == 0:
        raise TypeError(
            f"{name} must be {wanted}, not {type(x).__name__}, which NumPy cannot convert to an array"
        )
    return array, NUMPY


class ArrayKind(NamedTuple):
    """The arrays that functions take which one library differentiates.

    Attributes
    ----------
    types : tuple of type
    convert : str
        The function that makes one, for messages.
    """

    types: tuple[type, ...]
    convert: str

    def array(self, name: str, x: AnyArray) -> AnyArray:
        """What a caller gives, an array of NumPy's as one of its own; TypeError if it is of another kind."""
        if not isinstance(x, self.types):
            raise TypeError(
                f"{name} must be of type {self.types[0].__name__}, not {type(x).__name__}; give "
                f"{self.convert}({name})"
            )
        return as_array(name, x) if isinstance(x, np.ndarray) else x

    def arrays(self, b: AnyArray, x0: AnyArray, values: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        """The same of what a solve is given; a guess, or values, may be None."""
        x0, values = (x if x is None else self.array(name, x) for name, x in (("x0", x0), ("values", values)))
        return self.array("b", b), x0, values


def is_sparse(x: object) -> bool:
    """Whether this is a sparse matrix, of SciPy's or of another library that makes SciPy's of its own."""
    return (hasattr(x, "tocsr") or hasattr(x, "to_scipy_sparse")) and not hasattr(x, "matvec")


def host_array(name: str, x: object) -> HostArray:
    """What a caller gives for a vector or columns, as an array of NumPy's; TypeError if it is on a GPU."""
    x, library = array_and_library(name, x)
    host: HostArray | None = library.locate(x, name).host
    if host is None:
        raise TypeError(f"{name} is a {type(x).__name__} on a GPU; give a NumPy array")
    return host


def on_host(name: str, x: object) -> HostArray:
    """What a caller gives for a vector or columns, as an array of NumPy's; a copy of one on a GPU."""
    x, library = array_and_library(name, x)
    located = library.locate(x, name)
    if located.host is not None:
        return located.host
    dtype = located.dtype
    if not isinstance(dtype, np.dtype):  # NumPy lacks it
        dtype = np.dtype(np.complex64 if kind_of(dtype) == "c" else np.float32)
    if not located.contiguous or dtype != located.dtype:
        located = library.locate(library.contiguous(x, dtype), name)
    copy = np.empty(located.shape, dtype)
    _core.fetch(located.pointer, copy, located.ordinal)
    return copy


def stream_handle(stream: object) -> int:
    """A CUDA stream as an integer: from an integer, or from a CuPy, PyTorch or Numba stream object."""
    for name in ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    try:
        return operator.index(stream)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            "stream must be an integer handle or an object with .ptr (CuPy) or .cuda_stream (PyTorch), "
            f"not {stream!r}"
        ) from None

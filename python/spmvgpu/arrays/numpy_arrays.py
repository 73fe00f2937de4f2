"""NumPy, and arrays of other libraries in host memory, which are used through NumPy views of them."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import numpy as np

from .._util.types import DType, HostArray
from ..devices import CPU
from .library import ArrayInfo, Library, Memory, Shape, in_items

_BLOCK_ITEMS = 1 << 20  # some milliseconds of copying


class Numpy(Library[HostArray]):
    moves = True

    def locate(self, x: HostArray, name: str) -> ArrayInfo:
        if type(x) is not np.ndarray:
            x = as_array(name, x)
        flags = x.flags
        in_order = flags.c_contiguous and flags.aligned
        strides = in_items(x.strides, x.itemsize) if x.ndim == 2 and flags.aligned else None
        return ArrayInfo(self, x, 0, x.shape, x.dtype, CPU, in_order, strides, flags.writeable, x)

    def contiguous(self, x: HostArray, dtype: DType) -> HostArray:
        if x.dtype == dtype and x.flags.c_contiguous and x.flags.aligned:
            return x
        return _copied(x, np.empty(x.shape, dtype))

    def join(self, real: HostArray, imaginary: HostArray) -> HostArray:
        result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
        _copied(real, result.real)
        _copied(imaginary, result.imag)
        return result

    def from_host(self, result: HostArray, like: HostArray) -> HostArray:
        return result

    def device(self, x: HostArray) -> AbstractContextManager[object]:
        return nullcontext()

    def event(self) -> SimpleNamespace:
        return SimpleNamespace(record=lambda: None, synchronize=lambda: None)  # nothing is queued

    def buffer(self, shape: Shape, x: HostArray, on_device: bool) -> HostArray:
        return np.zeros(shape, x.dtype)

    def copy(self, x: HostArray, to: HostArray) -> None:
        to[...] = x

    def take(self, x: HostArray, indices: HostArray, to: HostArray) -> None:
        np.take(x, indices, axis=0, out=to, mode="clip")  # without a copy, which it makes to check

    def beside(self, array: HostArray | Memory, x: HostArray) -> HostArray:
        return np.asarray(array)


NUMPY = Numpy(np)


def _copied(array: HostArray, to: HostArray) -> HostArray:
    """Copy rows in blocks, between which Python looks whether the user wants to interrupt."""
    if array.size <= _BLOCK_ITEMS:
        to[...] = array
        return to
    rows = max(1, _BLOCK_ITEMS // max(1, math.prod(array.shape[1:])))
    for begin in range(0, len(array), rows):
        to[begin : begin + rows] = array[begin : begin + rows]
    return to


def as_array(name: str, given: object) -> HostArray:
    """A caller's array, as an array of NumPy's own; ValueError or TypeError that names it if it is none."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise TypeError(f"{name} is a masked array with masked entries; give {name}.filled(value)")
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{name} is of type {type(given).__name__}, which NumPy cannot convert to an array: {error}"
        ) from None

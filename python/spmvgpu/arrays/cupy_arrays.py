"""CuPy. It is asked for addresses through its own attributes, in a fraction of the time of the protocols."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

from .._util.types import DType, HostArray
from .library import ArrayInfo, Library, Memory, Shape, in_items

if TYPE_CHECKING:
    import cupy


class Cupy(Library["cupy.ndarray"]):
    def locate(self, x: cupy.ndarray, name: str) -> ArrayInfo:
        memory, dtype, shape = x.data, x.dtype, x.shape
        pointer = memory.ptr
        is_aligned = pointer % dtype.itemsize == 0
        in_order = is_aligned and x.flags.c_contiguous
        strides = in_items(x.strides, dtype.itemsize) if is_aligned and len(shape) == 2 else None
        return ArrayInfo(self, x, pointer, shape, dtype, memory.device_id, in_order, strides)

    def contiguous(self, x: cupy.ndarray, dtype: DType) -> cupy.ndarray:
        with x.device:
            result = self.module.ascontiguousarray(x, dtype)
            return result if result.data.ptr % result.itemsize == 0 else result.copy()

    def join(self, real: cupy.ndarray, imaginary: cupy.ndarray) -> cupy.ndarray:
        with real.device:
            result = self.module.empty(real.shape, np.result_type(real.dtype, np.complex64))
            result.real, result.imag = real, imaginary
        return result

    def stream(self, located: ArrayInfo) -> int:
        return int(self.module.cuda.get_current_stream(located.ordinal).ptr)

    def empty(self, shape: Shape, like: cupy.ndarray, located: ArrayInfo) -> tuple[cupy.ndarray, int]:
        if self.module.cuda.runtime.getDevice() == located.ordinal:
            result = self.module.ndarray(shape, located.dtype)
        else:
            with like.device:
                result = self.module.ndarray(shape, located.dtype)
        return result, result.data.ptr

    def from_host(self, result: HostArray, like: cupy.ndarray) -> cupy.ndarray:
        return self.beside(result, like)

    def device(self, x: cupy.ndarray) -> AbstractContextManager[object]:
        return x.device  # type: ignore[no-any-return]

    context = device

    def pinned(self, shape: Shape, x: cupy.ndarray) -> HostArray:
        memory = self.module.cuda.alloc_pinned_memory(max(1, math.prod(shape)) * x.dtype.itemsize)
        return np.ndarray(shape, x.dtype, memory)

    def copy(self, x: cupy.ndarray, to: cupy.ndarray | HostArray) -> None:
        if isinstance(to, np.ndarray):
            x.get(out=to)
        else:
            to[...] = x

    def beside(self, array: cupy.ndarray | HostArray | Memory, x: cupy.ndarray) -> cupy.ndarray:
        with x.device:  # on another one, memory would be copied there
            return self.module.asarray(array)

"""JAX, and libraries that are only known by DLPack or the CUDA Array Interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._util.types import DType, HostArray
from .library import AnyArray, ArrayInfo, Library, Memory, Operator, Shape, in_items
from .numpy_arrays import NUMPY, as_array

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's numbers for devices, and for kinds of numbers
_IN_HOST_MEMORY = (_CPU, _CUDA_HOST)
_OTHERS = {4: " (OpenCL)", 7: " (Vulkan)", 8: " (Metal)", 10: " (ROCm)", 14: " (oneAPI)", 15: " (WebGPU)"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_LEGACY_DEFAULT_STREAM = 1


class Protocols(Library[AnyArray]):
    def locate(self, x: AnyArray, name: str) -> ArrayInfo:
        if not hasattr(x, "__dlpack__"):
            return self._by_interface(x, name)
        kind, ordinal = map(int, x.__dlpack_device__())
        if kind in _IN_HOST_MEMORY:
            return NUMPY.locate(_host_view(x, name), name)
        if kind in (_CUDA, _CUDA_MANAGED):
            return self._by_dlpack(x, name, ordinal)
        raise ValueError(
            f"{name} is on a device of DLPack type {kind}{_OTHERS.get(kind, '')}; allowed are CPU and CUDA "
            "arrays"
        )

    def _by_dlpack(self, x: AnyArray, name: str, ordinal: int) -> ArrayInfo:
        view = _core.DlpackView(x.__dlpack__(stream=_LEGACY_DEFAULT_STREAM))
        try:
            dtype = np.dtype(f"{_KINDS[view.type_code]}{view.type_bits}".replace("bool8", "bool"))
        except (KeyError, TypeError):
            raise TypeError(
                f"{name} has DLPack type code {view.type_code} with {view.type_bits} bits, which NumPy does "
                "not have; convert it to a NumPy dtype"
            ) from None
        pointer, shape, is_aligned = view.pointer, tuple(view.shape), view.pointer % dtype.itemsize == 0
        in_order = is_aligned and view.contiguous
        strides = in_items(tuple(view.strides), 1) if is_aligned else None
        return ArrayInfo(self, x, pointer, shape, dtype, ordinal, in_order, strides, owner=view)

    def _by_interface(self, x: AnyArray, name: str) -> ArrayInfo:
        about = x.__cuda_array_interface__
        if about.get("mask") is not None:
            raise TypeError(f"{name} has a mask, which products cannot use; give an array without a mask")
        dtype, shape, (pointer, is_fixed) = np.dtype(about["typestr"]), tuple(about["shape"]), about["data"]
        item, stream = dtype.itemsize, about.get("stream")
        dense = tuple(item * math.prod(shape[i + 1 :]) for i in range(len(shape)))
        given, is_aligned = tuple(about.get("strides") or dense), pointer % item == 0
        in_order = is_aligned and given == dense
        strides = in_items(given, item) if is_aligned else None
        ordinal = _core.device_of(pointer) if pointer else 0
        return ArrayInfo(
            self, x, int(pointer), shape, dtype, ordinal, in_order, strides, not is_fixed, stream=stream
        )

    def contiguous(self, x: AnyArray, dtype: DType) -> AnyArray:
        located = self.locate(x, "x")
        if located.dtype != dtype and hasattr(x, "__array_namespace__"):
            namespace = x.__array_namespace__()
            x = namespace.astype(x, getattr(namespace, dtype.name))
            located = self.locate(x, "x")
        if located.contiguous and located.dtype == dtype:
            return x
        order = "contiguous" if located.contiguous else "non-contiguous"
        given = f"{order} {type(x).__name__} of dtype {located.dtype}"
        raise _refused(given, "converted or copied", f"a C-contiguous array of dtype {dtype}")

    def transposed(self, x: AnyArray) -> AnyArray:
        return self._with(x, "T", "transposed", "its columns one by one").T

    def permuted(self, x: AnyArray, axes: Shape) -> AnyArray:
        namespace, x = self._functions(x)
        return namespace.permute_dims(x, axes)

    def reshaped(self, x: AnyArray, shape: Shape) -> AnyArray:
        namespace, x = self._functions(x)
        return namespace.reshape(x, shape)

    def column(self, x: AnyArray, j: int) -> AnyArray:
        return self._with(x, "__getitem__", "taken apart", "its columns one by one")[:, j]

    def stacked(self, vectors: Sequence[AnyArray]) -> AnyArray:
        namespace, _ = self._functions(vectors[0])
        return namespace.stack(vectors, axis=1)

    def _functions(self, x: AnyArray) -> tuple[Any, AnyArray]:
        """What has the functions of the array API standard for an array, and the array for them."""
        array = self._with(x, "__array_namespace__", "taken apart", "vectors one by one")
        return (_NumPy if isinstance(array, np.ndarray) else array.__array_namespace__()), array

    def parts(self, x: AnyArray) -> tuple[AnyArray, AnyArray]:
        array = self._with(x, "real", "split", "its real and imaginary parts separately")
        return array.real, array.imag

    def _with(self, x: AnyArray, attribute: str, done: str, instead: str) -> AnyArray:
        """An array that has an attribute: itself, or a view of NumPy's of one in host memory."""
        if hasattr(x, attribute):
            return x
        host = self.locate(x, "x").host
        if host is None:
            raise _refused(type(x).__name__, done, instead)
        return host

    def join(self, real: AnyArray, imaginary: AnyArray) -> AnyArray:
        given = f"complex {type(real).__name__}"
        raise _refused(given, "put together again", "its real and imaginary parts separately")

    def stream(self, located: ArrayInfo) -> int:
        return _LEGACY_DEFAULT_STREAM if located.stream is None else int(located.stream)

    def empty(self, shape: Shape, like: AnyArray, located: ArrayInfo) -> tuple[AnyArray, int]:
        result = _core.DeviceArray(shape, located.dtype, located.ordinal)
        return result, result.pointer

    def deliver(self, result: AnyArray, like: AnyArray, stream: int) -> AnyArray:
        # The stream on which the result will be read is not known, so it is finished first.
        _core.synchronize(stream, result.__dlpack_device__()[1])
        return _of_kind(result, like)

    def from_host(self, result: HostArray, like: AnyArray) -> AnyArray:
        if hasattr(like, "__dlpack_device__") and int(like.__dlpack_device__()[0]) in _IN_HOST_MEMORY:
            return _of_kind(result, like)
        memory = _core.DeviceArray(result.shape, result.dtype, self.locate(like, "x").ordinal)
        memory.upload(result)
        return _of_kind(memory, like)


class _NumPy:
    """Functions of NumPy by the names of the standard, which NumPy has from version 2 on."""

    permute_dims, reshape, stack = np.transpose, np.reshape, np.stack


def _of_kind(result: AnyArray, like: AnyArray) -> AnyArray:
    """A result as an array of the library of another one, if that can read it."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(result)
    return result


class OfMemory(Protocols):
    """Of memory on a device, which stays what it is: what is done with it is ordered by its stream."""

    def empty(self, shape: Shape, like: Memory, located: ArrayInfo) -> tuple[Memory, int]:
        made = _core.DeviceArray(shape, located.dtype, located.ordinal)
        return Memory(made.pointer, shape, located.dtype, stream=like.stream, owner=made), made.pointer

    def deliver(self, result: Memory, like: Memory, stream: int) -> Memory:
        return result


def _host_view(x: AnyArray, name: str) -> HostArray:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as refused:
        # A read-only array cannot cross DLPack before its version 1.0, which NumPy reads from 2.1 on. What
        # comes instead may be a copy, so nothing must be written to it.
        if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
            view = as_array(name, x).view()
            view.flags.writeable = False
            return view
        raise TypeError(
            f"{name} is a {type(x).__name__} that NumPy cannot read through DLPack: {refused}; give a NumPy "
            "array"
        ) from None


def _refused(given: str, done: str, instead: str) -> TypeError:
    return TypeError(
        f"x is a {given} on a CUDA device that cannot be {done}; give {instead}, or a CuPy or PyTorch array"
    )


class Jax(Protocols):
    """JAX, whose arrays are read through DLPack, and never written."""

    def locate(self, x: AnyArray, name: str) -> ArrayInfo:
        if not self._is_traced(x):
            # NumPy has no types of 8 bits but whole numbers.
            if isinstance(x.dtype, np.dtype) and x.dtype.itemsize == 1 and x.dtype.kind not in "biu":
                x = x.astype(self.module.numpy.float32)
            return super().locate(x, name)
        raise TypeError(  # JAX traces functions with such objects in place of arrays
            f"{name} is traced by JAX (jax.jit, jax.grad, jax.vmap, ...), which traces op @ x, x @ op and "
            "spmvgpu.jax.solve alone, and the values of a spmvgpu.jax.MatrixPattern; use these, or call this "
            "outside the transformed function"
        )

    def differentiable(self, op: Operator, x: AnyArray) -> AnyArray | None:
        if not self._is_traced(x) or not hasattr(op, "_matrix"):  # a composed operator calls its operands
            return None
        from .jax_gradients import differentiable  # which imports JAX

        return differentiable(op._snapshot(), x)

    def contiguous(self, x: AnyArray, dtype: DType) -> AnyArray:
        with self.module.enable_x64(True):  # else there may be no such type
            return super().contiguous(x, dtype)

    def stacked(self, vectors: Sequence[AnyArray]) -> AnyArray:
        with self.module.enable_x64(True):
            return super().stacked(vectors)

    def join(self, real: AnyArray, imaginary: AnyArray) -> AnyArray:
        return self.module.lax.complex(real, imaginary)

    def _is_traced(self, x: AnyArray) -> bool:
        return isinstance(x, self.module.core.Tracer)

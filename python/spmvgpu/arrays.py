"""Vectors of other libraries: where they lie, and how to make a result of the same kind.

CuPy and PyTorch are asked through their own attributes, which takes a fraction of the time of the protocols;
every other library goes through DLPack or the CUDA Array Interface.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _core
from .devices import CPU


class Located(NamedTuple):
    """Where an array lies."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ordinal: int  # CUDA device, or CPU
    contiguous: bool  # C order without gaps
    writable: bool = True
    owner: Any = None  # what must stay alive while the pointer is used
    stream: int | None = None  # stream to order the work after, where the array itself names one


class Library(Protocol):
    """What the operator asks of an array library."""

    def inspect(self, x: Any) -> Located:
        """Where `x` lies."""

    def stream(self, located: Located) -> int:
        """The CUDA stream that work on the array must be ordered after."""

    def transposed(self, x: Any) -> Any:
        """A C-contiguous copy of the transpose of a 2-D array."""

    def empty(self, shape: Any, like: Any, located: Located) -> tuple[Any, int]:
        """A new array of the same kind and on the same device, and its address."""

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        """What the caller gets, once the product is queued on `stream`."""


class _Cupy:
    def inspect(self, x: Any) -> Located:
        memory = x.data
        return Located(memory.ptr, x.shape, x.dtype, memory.device_id, x.flags.c_contiguous)

    def stream(self, located: Located) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(located.ordinal).ptr)

    def transposed(self, x: Any) -> Any:
        return sys.modules["cupy"].ascontiguousarray(x.T)

    def empty(self, shape: Any, like: Any, located: Located) -> tuple[Any, int]:
        cupy = sys.modules["cupy"]
        if cupy.cuda.runtime.getDevice() == located.ordinal:
            result = cupy.ndarray(shape, located.dtype)
        else:
            with like.device:
                result = cupy.ndarray(shape, located.dtype)
        return result, result.data.ptr

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        return result


class _Torch:
    def inspect(self, x: Any) -> Located:
        ordinal = x.device.index if x.device.type == "cuda" else CPU
        return Located(
            x.data_ptr(), tuple(x.shape), _numpy_dtype_of_torch(x.dtype), ordinal, x.is_contiguous()
        )

    def stream(self, located: Located) -> int:
        return int(sys.modules["torch"].cuda.current_stream(located.ordinal).cuda_stream)

    def transposed(self, x: Any) -> Any:
        return x.t().contiguous()

    def empty(self, shape: Any, like: Any, located: Located) -> tuple[Any, int]:
        result = like.new_empty(shape)
        return result, result.data_ptr()

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        return result


def _numpy_dtype_of_torch(dtype: Any) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:  # bfloat16 and other types that NumPy lacks
        raise TypeError(f"x has dtype {dtype}; allowed are float32 and float64") from None


class _Protocols:
    """A library that is only known by DLPack or the CUDA Array Interface."""

    def inspect(self, x: Any) -> Located:
        if hasattr(x, "__dlpack__"):
            return self._inspect_dlpack(x)
        interface = x.__cuda_array_interface__
        dtype = np.dtype(interface["typestr"])
        shape = tuple(interface["shape"])
        pointer = int(interface["data"][0])
        strides = interface.get("strides")
        in_order = strides is None or tuple(strides) == _c_strides(shape, dtype.itemsize)
        ordinal = _core.device_of(pointer) if pointer else 0
        writable = not interface["data"][1]
        return Located(pointer, shape, dtype, ordinal, in_order, writable, x, interface.get("stream"))

    def _inspect_dlpack(self, x: Any) -> Located:
        kind, number = x.__dlpack_device__()
        if int(kind) == _DLPACK_CPU:
            host = np.from_dlpack(x)
            return Located(
                host.ctypes.data,
                host.shape,
                host.dtype,
                CPU,
                host.flags.c_contiguous,
                host.flags.writeable,
                host,
            )
        if int(kind) not in (_DLPACK_CUDA, _DLPACK_CUDA_MANAGED):
            raise ValueError(
                f"x lies on a device of DLPack type {int(kind)}; only CPU and CUDA arrays can be used"
            )
        view = _core.DlpackView(x.__dlpack__(stream=_LEGACY_DEFAULT_STREAM))
        names = {0: "int", 1: "uint", 2: "float", 5: "complex"}
        try:
            dtype = np.dtype(f"{names[view.type_code]}{view.type_bits}")
        except (KeyError, TypeError):
            raise TypeError(
                f"x has DLPack type code {view.type_code}; allowed are float32 and float64"
            ) from None
        return Located(view.pointer, tuple(view.shape), dtype, int(number), view.contiguous, True, view)

    def stream(self, located: Located) -> int:
        return _LEGACY_DEFAULT_STREAM if located.stream is None else int(located.stream)

    def transposed(self, x: Any) -> Any:
        raise TypeError(
            f"products with a 2-D {type(x).__name__} are not supported; give its columns one by one, "
            "or a NumPy, CuPy or PyTorch array"
        )

    def empty(self, shape: Any, like: Any, located: Located) -> tuple[Any, int]:
        if located.ordinal == CPU:
            host = np.empty(shape, located.dtype)
            return host, host.ctypes.data
        result = _core.DeviceVector(shape, located.dtype.itemsize, located.ordinal)
        return result, result.pointer

    def deliver(self, result: Any, like: Any, stream: int) -> Any:
        if isinstance(result, _core.DeviceVector):
            # Nobody can say on which stream the result will be read, so it is finished first.
            _core.synchronize(stream, result.__dlpack_device__()[1])
        if hasattr(like, "__array_namespace__"):
            return like.__array_namespace__().from_dlpack(result)
        return result


_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_MANAGED = 1, 2, 13
_LEGACY_DEFAULT_STREAM = 1

_KNOWN: dict[str, Library] = {"cupy": _Cupy(), "torch": _Torch()}
_PROTOCOLS = _Protocols()
_by_type: dict[type, Library | None] = {}


def library_of(x: Any) -> Library | None:
    """The library that an array belongs to; None for what is no array (lists, operators, numbers)."""
    kind = type(x)
    try:
        return _by_type[kind]
    except KeyError:
        pass
    library: Library | None = None
    if hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__"):
        library = _KNOWN.get(kind.__module__.partition(".")[0], _PROTOCOLS)
    _by_type[kind] = library
    return library


def stream_handle(stream: Any) -> int:
    """A CUDA stream as an integer: from an integer, or from a CuPy, PyTorch or Numba stream object."""
    for name in ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    try:
        return operator.index(stream)
    except TypeError:
        raise TypeError(
            "stream must be an integer handle or an object with .ptr (CuPy) or .cuda_stream (PyTorch), "
            f"not {stream!r}"
        ) from None


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def check_operand(x: Any, ndim: int, length: int) -> Any:
    """`x` with the shape that SciPy's matvec (ndim 1) or matmat (ndim 2) takes, or ValueError."""
    if isinstance(x, list | tuple):
        x = np.asarray(x)
    shape: tuple[int, ...] = tuple(getattr(x, "shape", ()))
    fits = shape in ((length,), (length, 1)) if ndim == 1 else len(shape) == 2 and shape[0] == length
    if not fits:
        wanted = f"({length},) or ({length}, 1)" if ndim == 1 else f"({length}, k)"
        raise ValueError(f"dimension mismatch: x has shape {shape}; the operator needs {wanted}")
    return x

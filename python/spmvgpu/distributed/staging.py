"""What products and solvers do with vectors outside operators, for each library whose arrays they may be.

MPI sends and receives buffers that it can read and write: they lie beside an array in host memory, and beside
one on a GPU if MPI is CUDA-aware. Otherwise entries of an array on a GPU are picked there by one kernel,
copied to a buffer in pinned host memory, sent, and copied to the GPU of the rank that needs them.
"""

from __future__ import annotations

import ctypes
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Event(Protocol):
    """A point of what is queued on a stream."""

    def record(self) -> object:
        """It is the one that the current stream has reached now."""

    def synchronize(self) -> object:
        """Wait until that is done."""


class Staging(Protocol):
    """The few operations; `x` is contiguous and of an operator's type.

    All but `device` and `array_at` are called while the device of `x` is the current one, and are queued on
    its current stream.
    """

    def device(self, x: Any) -> AbstractContextManager[Any]:
        """The device of an array, as the current one in a ``with`` block."""

    def event(self) -> Event:
        """One on the current device."""

    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        """An array of the type of `x`, where MPI can read and write it."""

    def index_map(self, indices: Array, like: Any) -> Any:
        """Indices where `take` and `add` find them: on the device of an array."""

    def take(self, x: Any, indices: Any, to: Any) -> None:
        """Copy entries, or rows, of `x` into a buffer."""

    def pick(self, x: Any, indices: Any) -> Any:
        """Entries, or rows, of `x` as an array beside it."""

    def add(self, y: Any, indices: Any, values: Any) -> None:
        """Add to entries, or rows, of `y`, each of which is named once."""

    def copy(self, x: Any, to: Any) -> None:
        """Copy all of `x` into a buffer."""

    def like(self, buffer: Any, x: Any) -> Any:
        """A buffer as an array of the kind of `x`, which later changes to it may reach."""

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        """The vector that begins at an address on a device, as an array which shares its memory."""


class _OnDevice:
    """The memory of a vector on a GPU, for libraries to make an array of."""

    def __init__(self, address: int, length: int, dtype: np.dtype[Any]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (length,),
            "typestr": dtype.str,
            "version": 3,
        }


class _InHostMemory:
    """Nothing is queued there: an operation is done when it returns."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class _ByIndexing:
    """What arrays of all libraries do alike."""

    def pick(self, x: Any, indices: Any) -> Any:
        return x[indices]

    def add(self, y: Any, indices: Any, values: Any) -> None:
        y[indices] += values

    def like(self, buffer: Any, x: Any) -> Any:
        return buffer


class _Host(_ByIndexing):
    def device(self, x: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def event(self) -> Event:
        return _InHostMemory()

    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        return np.zeros(shape, x.dtype)

    def index_map(self, indices: Array, like: Any) -> Any:
        return indices

    def take(self, x: Any, indices: Any, to: Any) -> None:
        np.take(x, indices, axis=0, out=to, mode="clip")  # without a copy, which it makes to check

    def copy(self, x: Any, to: Any) -> None:
        to[...] = x

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        if length == 0:
            return np.empty(0, dtype)
        memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
        return np.frombuffer(memoryview(memory), dtype)


class _Cupy(_ByIndexing):
    def device(self, x: Any) -> AbstractContextManager[Any]:
        return x.device  # type: ignore[no-any-return]

    def event(self) -> Event:
        return sys.modules["cupy"].cuda.Event(disable_timing=True)  # type: ignore[no-any-return]

    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        return sys.modules["cupy"].zeros(shape, x.dtype)

    def index_map(self, indices: Array, like: Any) -> Any:
        return sys.modules["cupy"].asarray(indices)

    def take(self, x: Any, indices: Any, to: Any) -> None:
        x.take(indices, axis=0, out=to)

    def copy(self, x: Any, to: Any) -> None:
        to[...] = x

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            return cupy.asarray(_OnDevice(address, length, dtype))


class _CupyThroughHost(_Cupy):
    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        pinned = sys.modules["cupy"].cuda.alloc_pinned_memory(max(1, math.prod(shape)) * x.dtype.itemsize)
        return np.ndarray(shape, x.dtype, pinned)

    def take(self, x: Any, indices: Any, to: Any) -> None:
        self.copy(x.take(indices, axis=0), to)

    def copy(self, x: Any, to: Any) -> None:
        x.get(out=to)

    def like(self, buffer: Any, x: Any) -> Any:
        return sys.modules["cupy"].asarray(buffer)


class _Torch(_ByIndexing):
    def device(self, x: Any) -> AbstractContextManager[Any]:
        return sys.modules["torch"].cuda.device(x.device)  # type: ignore[no-any-return]

    def event(self) -> Event:
        return sys.modules["torch"].cuda.Event()  # type: ignore[no-any-return]

    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        return sys.modules["torch"].zeros(shape, dtype=x.dtype, device=x.device)

    def index_map(self, indices: Array, like: Any) -> Any:
        return sys.modules["torch"].from_numpy(indices.astype(np.int64, copy=False)).to(like.device)

    def take(self, x: Any, indices: Any, to: Any) -> None:
        sys.modules["torch"].index_select(x.detach(), 0, indices, out=to)

    def copy(self, x: Any, to: Any) -> None:
        to.copy_(x.detach())

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        return sys.modules["torch"].as_tensor(_OnDevice(address, length, dtype), device=f"cuda:{ordinal}")


class _TorchThroughHost(_Torch):
    def buffer(self, shape: tuple[int, ...], x: Any) -> Any:
        return sys.modules["torch"].empty(shape, dtype=x.dtype, pin_memory=True).numpy()

    def take(self, x: Any, indices: Any, to: Any) -> None:
        self.copy(x.index_select(0, indices), to)

    def copy(self, x: Any, to: Any) -> None:
        sys.modules["torch"].from_numpy(to).copy_(x.detach())

    def like(self, buffer: Any, x: Any) -> Any:
        return sys.modules["torch"].from_numpy(buffer).to(x.device)


_HOST = _Host()
# By the root of an array's module: with buffers in host memory, and beside the array.
_BY_ROOT: dict[str, tuple[Staging, Staging]] = {
    "numpy": (_HOST, _HOST),
    "cupy": (_CupyThroughHost(), _Cupy()),
    "torch": (_TorchThroughHost(), _Torch()),
}


def staging_of(x: Any, cuda_aware: bool = False) -> Staging:
    """The operations for an array: NumPy's, or on a GPU, of which MPI reads the memory if it is `cuda_aware`.

    Raises
    ------
    TypeError
        For arrays on a GPU of a library other than CuPy and PyTorch.
    """
    if isinstance(x, np.ndarray):
        return _HOST
    roots = (base.__module__.partition(".")[0] for base in type(x).__mro__)
    found = next((_BY_ROOT[root] for root in roots if root in _BY_ROOT), None)
    if found is None:
        raise TypeError(f"vectors on a GPU must be CuPy or PyTorch arrays here, not {type(x).__name__}")
    return found[cuda_aware]


def device_of(x: Any) -> str:
    """The device of an array, to tell it from others."""
    return str(getattr(x, "device", None))

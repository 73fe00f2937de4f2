"""What products and solvers do with vectors outside operators, for each library whose arrays they may be.

Messages go through host memory: entries of an array on a GPU are picked there by one kernel, copied to the
host, sent, and copied to the GPU of the rank that needs them.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Staging(Protocol):
    """The few operations; `x` is contiguous and of an operator's type."""

    def index_map(self, indices: Array, like: Any) -> Any:
        """Indices where `take` and `add` find them: on the device of an array."""

    def take(self, x: Any, indices: Any, to: Array) -> None:
        """Copy entries, or rows, of `x` into an array in host memory, finished when it returns."""

    def pick(self, x: Any, indices: Any) -> Any:
        """Entries, or rows, of `x` as an array beside it."""

    def add(self, y: Any, indices: Any, values: Any) -> None:
        """Add to entries, or rows, of `y`, each of which is named once."""

    def download(self, x: Any, to: Array) -> None:
        """Copy all of `x`, as `take`."""

    def like(self, host: Array, x: Any) -> Any:
        """An array in host memory as one of the kind of `x`, which later changes to it may reach."""

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


class _ByIndexing:
    """Arrays that know by themselves where they are."""

    def pick(self, x: Any, indices: Any) -> Any:
        return x[indices]

    def add(self, y: Any, indices: Any, values: Any) -> None:
        y[indices] += values


class _Host(_ByIndexing):
    def index_map(self, indices: Array, like: Any) -> Any:
        return indices

    def take(self, x: Any, indices: Any, to: Array) -> None:
        np.take(x, indices, axis=0, out=to, mode="clip")  # without a copy, which it makes to check

    def download(self, x: Any, to: Array) -> None:
        to[...] = x

    def like(self, host: Array, x: Any) -> Any:
        return host

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        if length == 0:
            return np.empty(0, dtype)
        memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
        return np.frombuffer(memoryview(memory), dtype)


class _Cupy:
    def index_map(self, indices: Array, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].asarray(indices)

    def take(self, x: Any, indices: Any, to: Array) -> None:
        with x.device:
            self.download(x.take(indices, axis=0), to)

    def pick(self, x: Any, indices: Any) -> Any:
        with x.device:
            return x[indices]

    def add(self, y: Any, indices: Any, values: Any) -> None:
        with y.device:
            y[indices] += values

    def download(self, x: Any, to: Array) -> None:
        with x.device:
            to[...] = x.get()

    def like(self, host: Array, x: Any) -> Any:
        with x.device:
            return sys.modules["cupy"].asarray(host)

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            return cupy.asarray(_OnDevice(address, length, dtype))


class _Torch(_ByIndexing):
    def index_map(self, indices: Array, like: Any) -> Any:
        return self.like(indices.astype(np.int64, copy=False), like)

    def take(self, x: Any, indices: Any, to: Array) -> None:
        self.download(x.index_select(0, indices), to)

    def download(self, x: Any, to: Array) -> None:
        sys.modules["torch"].from_numpy(to).copy_(x.detach())

    def like(self, host: Array, x: Any) -> Any:
        return sys.modules["torch"].from_numpy(host).to(x.device)

    def array_at(self, address: int, length: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        return sys.modules["torch"].as_tensor(_OnDevice(address, length, dtype), device=f"cuda:{ordinal}")


_HOST = _Host()
_BY_ROOT: dict[str, Staging] = {"numpy": _HOST, "cupy": _Cupy(), "torch": _Torch()}


def staging_of(x: Any) -> Staging:
    """The operations for an array: NumPy's, or on a GPU.

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
        raise TypeError(
            f"pieces on a GPU must be arrays of CuPy or PyTorch, not {type(x).__name__}, whose entries "
            "cannot be picked to be sent"
        )
    return found

"""What products and solvers do with vectors outside operators, for each library whose arrays they may be.

Messages go through host memory: entries of an array on a GPU are picked there by one kernel, copied to the
host, sent, and copied to the GPU of the rank that needs them.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_BLOCK = 1 << 15


class Staging(Protocol):
    """The few operations; `x` is contiguous and of an operator's type."""

    def index_map(self, indices: Array, like: Any) -> Any:
        """Indices where `take` and `add` find them: on the device of an array."""

    def take(self, x: Any, indices: Any, to: Array) -> None:
        """Copy entries, or rows, of `x` into an array in host memory, finished when it returns."""

    def download(self, x: Any, to: Array) -> None:
        """Copy all of `x`, as `take`."""

    def like(self, host: Array, x: Any) -> Any:
        """An array in host memory as one of the kind of `x`, which later changes to it may reach."""

    def zeros(self, x: Any) -> Any:
        """Zeros in the shape and type of `x`, where it lies."""

    def add(self, y: Any, factor: float, x: Any) -> None:
        """``y += factor * x``."""

    def dot(self, x: Any, y: Any) -> float:
        """The inner product, in float64, with the same bits whatever the number of threads."""


class _Host:
    def index_map(self, indices: Array, like: Any) -> Any:
        return indices

    def take(self, x: Any, indices: Any, to: Array) -> None:
        np.take(x, indices, axis=0, out=to, mode="clip")  # without a copy, which it makes to check

    def download(self, x: Any, to: Array) -> None:
        to[...] = x

    def like(self, host: Array, x: Any) -> Any:
        return host

    def zeros(self, x: Any) -> Any:
        return np.zeros_like(x)

    def add(self, y: Any, factor: float, x: Any) -> None:
        scaled = np.empty_like(x[:_BLOCK])
        for begin in range(0, len(x), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            y[block] += np.multiply(x[block], factor, out=scaled[: len(x) - begin])

    def dot(self, x: Any, y: Any) -> float:
        # Not BLAS, which divides the sum among as many threads as there happen to be. Blocks stay in cache.
        products, total = np.empty(min(len(x), _BLOCK)), 0.0
        for begin in range(0, len(x), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            total += float(np.multiply(x[block], y[block], out=products[: len(x) - begin]).sum())
        return total


class _Cupy:
    def index_map(self, indices: Array, like: Any) -> Any:
        with like.device:
            return sys.modules["cupy"].asarray(indices)

    def take(self, x: Any, indices: Any, to: Array) -> None:
        with x.device:
            self.download(x.take(indices, axis=0), to)

    def download(self, x: Any, to: Array) -> None:
        with x.device:
            to[...] = x.get()

    def like(self, host: Array, x: Any) -> Any:
        with x.device:
            return sys.modules["cupy"].asarray(host)

    def zeros(self, x: Any) -> Any:
        with x.device:
            return sys.modules["cupy"].zeros_like(x)

    def add(self, y: Any, factor: float, x: Any) -> None:
        with x.device:
            y += factor * x

    def dot(self, x: Any, y: Any) -> float:
        with x.device:
            return float((x.astype(np.float64, copy=False) * y).sum())


class _Torch:
    def index_map(self, indices: Array, like: Any) -> Any:
        return self.like(indices.astype(np.int64, copy=False), like)

    def take(self, x: Any, indices: Any, to: Array) -> None:
        self.download(x.index_select(0, indices), to)

    def download(self, x: Any, to: Array) -> None:
        sys.modules["torch"].from_numpy(to).copy_(x.detach())

    def like(self, host: Array, x: Any) -> Any:
        return sys.modules["torch"].from_numpy(host).to(x.device)

    def zeros(self, x: Any) -> Any:
        return sys.modules["torch"].zeros_like(x)

    def add(self, y: Any, factor: float, x: Any) -> None:
        y.add_(x, alpha=factor)

    def dot(self, x: Any, y: Any) -> float:
        return float((x.double() * y).sum())


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

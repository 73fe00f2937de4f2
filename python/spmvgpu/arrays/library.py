"""What an adapter of an array library offers. An array goes through a product, or a solver, in four steps.

check
    `locate` says where the array lies, of which type it is, and in which order.
place
    `contiguous` copies what the core cannot take as it is, on the device of the array.
product
    The core reads the array at its address, and writes to an array of `empty`, on a stream.
deliver
    `deliver` and `from_host` make of the result what the caller gets: an array of the same library.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from .._util.types import DType, HostArray

Shape: TypeAlias = tuple[int, ...]
Strides: TypeAlias = tuple[int, int]
A = TypeVar("A")  # an array of the library


class ArrayInfo(NamedTuple):
    """Where an array lies."""

    library: AnyLibrary  # whose adapter works with `array`: NumPy's for everything in host memory
    array: object  # what the caller gave; in host memory a NumPy view of it
    pointer: int  # on a CUDA device; 0 in host memory
    shape: Shape
    dtype: DType  # NumPy's, or the library's own for a type that NumPy lacks
    ordinal: int  # CUDA device, or CPU
    contiguous: bool  # C order without gaps, and aligned; on a CUDA device to whole items
    strides: Strides | None = None  # of a 2-D array, in items; None where an item is not aligned to its size
    writable: bool = True
    host: HostArray | None = None  # `array`, if it is in host memory
    owner: object = None  # what must stay alive while the pointer is used
    stream: int | None = None  # stream to order the work after, where the array itself names one


def in_items(strides: Shape, item: int) -> Strides | None:
    """The strides of a 2-D array, given in bytes, in items; None if they are no whole ones."""
    if len(strides) != 2 or not item or strides[0] % item or strides[1] % item:
        return None
    return strides[0] // item, strides[1] // item


class Operator(Protocol):
    """What is asked of an operator whose products are recorded."""

    @property
    def H(self) -> Operator: ...  # noqa: N802
    def __matmul__(self, x: object) -> AnyArray: ...
    def _snapshot(self) -> Operator:
        """An operator that has the values of this one, and keeps them."""


class Library(ABC, Generic[A]):
    """An adapter; what is for arrays on CUDA devices only, the adapter of NumPy does without."""

    moves = False  # whether its arrays may lie elsewhere than the operator, and are copied to it and back

    def __init__(self, module: ModuleType) -> None:
        self.module: ModuleType = module

    # Check

    @abstractmethod
    def locate(self, x: A, name: str) -> ArrayInfo:
        """Where the argument called `name` lies."""

    def type_of(self, x: A) -> DType:
        """The type of an array, which need not have memory, as `ArrayInfo` has it."""
        return np.dtype(x.dtype)  # type: ignore[attr-defined]

    def differentiable(self, op: Operator, x: A) -> A | None:
        """``op @ x`` as the library records it to differentiate it later; None if it records nothing."""
        return None

    # Place

    @abstractmethod
    def contiguous(self, x: A, dtype: DType) -> A:
        """`x` in C order as `dtype`; itself if it is so."""

    def transposed(self, x: A) -> A:
        """The transpose of a 2-D array, which may be a view."""
        return x.T  # type: ignore[attr-defined, no-any-return]

    def permuted(self, x: A, axes: Shape) -> A:
        """An array with its axes in another order, which may be a view."""
        return x.transpose(axes)  # type: ignore[attr-defined, no-any-return]

    def reshaped(self, x: A, shape: Shape) -> A:
        """An array with its entries in another shape, which may be a view."""
        with self.context(x):
            return x.reshape(shape)  # type: ignore[attr-defined, no-any-return]

    def conjugate(self, x: A) -> A:
        with self.context(x):
            return x.conj()  # type: ignore[attr-defined, no-any-return]

    def column(self, x: A, j: int) -> A:
        """A column of a 2-D array, which may be a view."""
        return x[:, j]  # type: ignore[index, no-any-return]

    def stacked(self, vectors: Sequence[A]) -> A:
        """Vectors as the columns of an array."""
        with self.context(vectors[0]):
            return self.module.stack(vectors, 1)  # type: ignore[no-any-return]

    def parts(self, x: A) -> tuple[A, A]:
        """The real and the imaginary part of a complex array, which may be views."""
        return x.real, x.imag  # type: ignore[attr-defined]

    @abstractmethod
    def join(self, real: A, imaginary: A) -> A:
        """The complex array of two parts."""

    # Product

    def stream(self, located: ArrayInfo) -> int:
        """The CUDA stream that work on the array must be ordered after."""
        raise NotImplementedError

    def empty(self, shape: Shape, like: A, located: ArrayInfo) -> tuple[A, int]:
        """A new array of the same kind, type and device, and its address."""
        raise NotImplementedError

    # Deliver

    def deliver(self, result: A, like: A, stream: int) -> A:
        """What the caller gets for `result`, made by `empty`, once what fills it is queued on `stream`."""
        return result

    @abstractmethod
    def from_host(self, result: HostArray, like: A) -> A:
        """A NumPy array that was made for the purpose, as an array of the same kind and device as `like`."""

    # Between ranks. MPI sends and receives buffers that it can read and write: beside the array if it is
    # CUDA-aware, and in pinned host memory otherwise. What follows is queued on the current stream of the
    # current device, which is that of `x`.

    def device(self, x: A) -> AbstractContextManager[object]:
        """The device of an array, as the current one in a ``with`` block; TypeError if none can be sent."""
        raise TypeError(f"vectors on a GPU must be CuPy or PyTorch arrays here, not {type(x).__name__}")

    def context(self, x: A) -> AbstractContextManager[object]:
        """A ``with`` block in which results of arithmetic with an array are on its device."""
        return nullcontext()

    def event(self) -> Any:
        """A point of what is queued on the current device, with `record` and `synchronize`."""
        return self.module.cuda.Event()

    def buffer(self, shape: Shape, x: A, on_device: bool) -> A | HostArray:
        """An array of the type of `x` where MPI can read and write it."""
        return self.empty(shape, x, self.locate(x, "x"))[0] if on_device else self.pinned(shape, x)

    def pinned(self, shape: Shape, x: A) -> HostArray:
        """An array of the type of `x` in pinned host memory."""
        raise NotImplementedError

    def copy(self, x: A, to: A | HostArray) -> None:
        """Copy an array into a buffer."""
        raise NotImplementedError

    def take(self, x: A, indices: A, to: A | HostArray) -> None:
        """Copy entries, or rows, of an array into a buffer."""
        self.copy(x[indices], to)  # type: ignore[index]

    def beside(self, array: A | HostArray | Memory, x: A) -> A:
        """A buffer, an array of NumPy's, or memory on the device of `x`, as an array there."""
        raise NotImplementedError


class Memory:
    """An array at an address, of which libraries make arrays that share its memory.

    Parameters
    ----------
    address : int
    shape : tuple of int
    dtype : dtype
    strides : tuple of int, optional
        In bytes; None for C order.
    stream : int, optional
        CUDA stream that work on it must be ordered after.
    owner : object
        What must stay alive while it is used.
    """

    def __init__(
        self,
        address: int,
        shape: Shape,
        dtype: DType,
        strides: Shape | None = None,
        stream: int | None = None,
        owner: object = None,
    ) -> None:
        self.address, self.shape, self.dtype, self.stream = address, shape, dtype, stream
        self.nbytes = dtype.itemsize * math.prod(shape)
        self._strides, self._owner = strides, owner
        about = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}
        self.__array_interface__ = {**about, "strides": strides}
        self.__cuda_array_interface__ = {**self.__array_interface__, "stream": stream}

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Memory:  # noqa: N802
        strides = self._strides or tuple(
            self.dtype.itemsize * math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))
        )
        return Memory(self.address, self.shape[::-1], self.dtype, strides[::-1], self.stream, self._owner)


AnyArray: TypeAlias = Any  # of a library that is known when the program runs
AnyLibrary: TypeAlias = Library[AnyArray]

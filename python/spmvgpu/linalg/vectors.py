"""The vectors of a solve on the device of its system."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Protocol

import numpy as np

from .. import _core
from .._util.types import DType, HostArray
from ..arrays import AnyArray, AnyLibrary, ArrayInfo, array_and_library, on_host
from ..arrays.products import kind_of
from ..devices import CPU, at_most
from ..operator.operands import DeviceOperator, check_place, converted_vector


class Space(DeviceOperator, Protocol):
    """What a system says of its vectors."""

    b: AnyArray
    library: AnyLibrary
    columns: int | None
    _ordinal: int


class DeviceVector(NamedTuple):
    """A vector on the device of a system."""

    pointer: int
    owner: object  # kept alive as long as the pointer is used

    def read(self, to: HostArray) -> None:
        """Copy it to an array in host memory, unless it is that array."""
        if isinstance(self.owner, _core.DeviceArray):
            self.owner.download(to)
        elif self.owner is not to:
            to[...] = self.owner


NO_VECTOR = DeviceVector(0, None)


class Vectors:
    """The vectors of one solve, of the kind that `b` has; several columns lie one after the other.

    Parameters
    ----------
    system : Space
    in_pieces : bool, default False
        Whether the core hands out pieces of them to several devices.

    Attributes
    ----------
    ordinal : int
        The device that they are given to the core on: where `b` is; for NumPy arrays the system's, or the
        CPU where the core hands out pieces of them to several devices.
    stream : int or None
        The solve starts after what it holds; None: there is nothing to wait for.
    """

    def __init__(self, system: Space, in_pieces: bool = False) -> None:
        self._space, self._b, self._library, self._columns = system, system.b, system.library, system.columns
        self.ordinal = CPU if in_pieces else system._ordinal
        self.stream: int | None = None

    def take(self, name: str, array: object) -> DeviceVector:
        """A vector that the caller gave, or the columns of several, checked and converted.

        An array of NumPy's goes to the device. What is there already may be of another library than b.
        """
        array, library = array_and_library(name, array)
        is_b = array is self._b
        columns = None if name == "M" else self._columns
        array, located = converted_vector(self._space, name, array, library, columns)
        if located.host is not None:
            return staged(located.host, self.ordinal)
        if is_b:
            self._like = array, located
            self.ordinal = located.ordinal
        check_place(name, located, (self.ordinal,), "the vectors of the solve are on")
        if library is self._library:
            self._wait_for(located)
        else:
            _core.synchronize(library.stream(located), located.ordinal)
        return DeviceVector(located.pointer, (array, located))

    def of(self, space: Space, columns: int | None = None) -> Vectors:
        """Vectors of another space, or several columns, for the same caller, once `take` has had b."""
        other = copy(self)
        other._space, other._columns = space, columns
        return other

    def wait(self) -> None:
        """Let the host wait for what the stream holds."""
        if self.stream is not None:
            _core.synchronize(self.stream, self.ordinal)

    def _wait_for(self, located: ArrayInfo) -> None:
        own = self._space._stream
        stream = self._library.stream(located) if own is None else own
        if self.stream is not None and stream != self.stream:
            _core.synchronize(self.stream, self.ordinal)
        self.stream = stream

    def new(self) -> DeviceVector:
        """Memory for the result, once `take` has had b."""
        shape: tuple[int, ...] = (self._space.shape[0],)
        if self._columns is not None:
            shape = (self._columns, *shape)
        if self.stream is None:
            self._x: AnyArray = np.empty(shape, self._space.dtype)
            self._x_on_device = staged(self._x, self.ordinal, upload=False)
        else:
            self._x, pointer = self._library.empty(shape, *self._like)
            self._x_on_device = DeviceVector(pointer, self._x)
        return self._x_on_device

    def result(self) -> AnyArray:
        """The result for the caller."""
        if self.stream is not None:
            x = self._library.deliver(self._x, self._b, self.stream)
            return x if self._columns is None else self._library.transposed(x)
        self._x_on_device.read(self._x)
        return self._library.from_host(self._x if self._columns is None else self._x.T, self._b)


def zero_column(b: AnyArray, library: AnyLibrary) -> AnyArray:
    """A column of zeros beside an array that has no columns.

    It is solved for in their place, so that everything else that a caller gave is checked.
    """
    located = library.locate(b, "b")
    dtype = located.dtype if isinstance(located.dtype, np.dtype) else np.dtype(np.float32)
    return library.from_host(np.zeros(located.shape[0], dtype), b)


def no_columns(rows: int, dtype: DType, b: AnyArray, library: AnyLibrary) -> AnyArray:
    """The solution for an array that has no columns."""
    return library.from_host(np.zeros((rows, 0), dtype), b)


def columns_of(name: str, array: AnyArray, library: AnyLibrary, shape: tuple[int, int]) -> list[AnyArray]:
    """The columns of an array; ValueError if it has another shape."""
    given = library.locate(array, name).shape
    if given != shape:
        raise ValueError(f"{name} has shape {given}; it must have shape {shape} here")
    return [library.column(array, j) for j in range(shape[1])]


def columns_on_host(name: str, given: object, n: int, most: int, dtype: DType) -> HostArray:
    """Vectors of length `n` from a caller, at most `most`, as the columns of an array in host memory."""
    vectors = on_host(name, given)
    if kind_of(vectors.dtype) not in ("biufc" if dtype.kind == "c" else "biuf"):
        raise TypeError(f"{name} has dtype {vectors.dtype}; it must be numeric, and complex only if A is")
    columns = vectors[:, np.newaxis] if vectors.ndim == 1 else vectors
    if columns.ndim != 2 or len(columns) != n or not 0 < columns.shape[1] <= most:
        raise ValueError(f"{name} has shape {vectors.shape}; it must have {n} rows and 1 to {most} columns")
    columns = columns.astype(dtype)
    if not np.isfinite(columns).all():
        raise ValueError(f"{name} contains inf or NaN")
    return columns


def empty(shape: tuple[int, ...], dtype: DType, ordinal: int) -> DeviceVector:
    """New memory on a device."""
    return staged(np.empty(shape, dtype), ordinal, upload=False)


def random_vector(
    length: int, dtype: DType, seed: int, ordinal: int, first: int = 0, max_threads: int | None = None
) -> DeviceVector:
    """Entries from `first` on of a vector of random numbers from -1 to 1, the same on every device."""
    vector = empty((length,), dtype, ordinal)
    with at_most(max_threads):
        _core.draw_vector(dtype, length, seed, vector.pointer, ordinal, first)
    return vector


def staged(array: HostArray, ordinal: int, upload: bool = True) -> DeviceVector:
    """A NumPy array where the device can read it: as it is on the CPU, in the GPU's memory otherwise."""
    if ordinal == CPU:
        return DeviceVector(array.ctypes.data, array)
    memory = _core.DeviceArray(array.shape, array.dtype, ordinal)
    if upload:
        memory.upload(array)
    return DeviceVector(memory.pointer, memory)

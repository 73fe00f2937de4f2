"""The vectors of a solve: taken from the caller, staged on the operator's device, and given back."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arrays import NUMPY, Located, taken
from ..devices import CPU, device_name
from ..operator.operands import converted_vector


class DeviceVector(NamedTuple):
    """A vector on the operator's device."""

    pointer: int
    owner: Any  # kept alive as long as the pointer is used


NOTHING = DeviceVector(0, None)


class Vectors:
    """The vectors of one solve, of the kind that `b` has.

    Attributes
    ----------
    ordinal : int
        The device that they are given to the core on: where `b` is; for NumPy arrays the operator's, or the
        CPU where the core hands out pieces of them to several devices.
    stream : int or None
        The solve starts after what it holds; None: there is nothing to wait for.
    """

    def __init__(self, op: Any, b: Any, in_pieces: bool = False) -> None:
        self._op = op
        self._b, self._library = taken("b", b)
        self._is_on_host = self._library.locate(self._b, "b").host is not None
        self.ordinal: int = CPU if in_pieces else op._ordinal
        self.stream: int | None = None

    def take(self, name: str, array: Any) -> DeviceVector:
        """A vector that the caller gave, checked and converted."""
        array, library = taken(name, array)
        is_on_host = library.locate(array, name).host is not None
        if is_on_host != self._is_on_host or not (is_on_host or library is self._library):
            on_host, elsewhere = "an array in host memory", "an array of the same library"
            wanted = on_host if self._is_on_host else elsewhere
            raise TypeError(f"{name} must be {wanted} like b, not {type(array).__name__}")
        array, located = converted_vector(self._op, name, array, library)
        if located.host is not None:
            return staged(located.host, self.ordinal)
        if name == "b":
            self._like = array, located
            self.ordinal = located.ordinal
        elif located.ordinal != self.ordinal:
            raise ValueError(
                f"{name} is on {device_name(located.ordinal)}, but b is on {device_name(self.ordinal)}; move "
                "one of them"
            )
        self._wait_for(located)
        return DeviceVector(located.pointer, (array, located))

    def _wait_for(self, located: Located) -> None:
        stream = self._library.stream(located) if self._op._stream is None else self._op._stream
        if self.stream is not None and stream != self.stream:
            _core.synchronize(self.stream, self.ordinal)
        self.stream = stream

    def new(self) -> DeviceVector:
        """Memory for the result, once `take` has had b."""
        n = self._op.shape[0]
        if self.stream is None:
            self._x: Any = np.empty(n, self._op.dtype)
            self._x_on_device = staged(self._x, self.ordinal, upload=False)
        else:
            self._x, pointer = self._library.empty((n,), *self._like)
            self._x_on_device = DeviceVector(pointer, self._x)
        return self._x_on_device

    def result(self) -> Any:
        """The result for the caller."""
        if self.stream is not None:
            return self._library.deliver(self._x, self._b, self.stream)
        if self._x_on_device.owner is not self._x:
            self._x_on_device.owner.download(self._x)
        return self._library.from_host(self._x, self._b)


def staged(array: npt.NDArray[Any], ordinal: int, upload: bool = True) -> DeviceVector:
    """A NumPy array where the device can read it: as it is on the CPU, in the GPU's memory otherwise."""
    if ordinal == CPU:
        return DeviceVector(array.ctypes.data, array)
    memory = _core.DeviceArray(array.shape, array.dtype, ordinal)
    if upload:
        memory.upload(array)
    return DeviceVector(memory.pointer, memory)


def staged_numpy(op: Any, array: npt.NDArray[Any], ordinal: int) -> DeviceVector:
    return staged(converted_vector(op, "M", array, NUMPY)[1].host, ordinal)


def is_distributed(op: Any) -> bool:
    """Asked without importing `spmvgpu.distributed`: where nobody did, there is no such operator."""
    module = sys.modules.get("spmvgpu.distributed")
    return module is not None and isinstance(op, module.DistributedOperator)


def check_square(op: Any) -> None:
    """Refuse, with ValueError, an operator that is no system of equations."""
    if op.shape[0] != op.shape[1]:
        raise ValueError(f"the operator has shape {op.shape}; this needs a square one")

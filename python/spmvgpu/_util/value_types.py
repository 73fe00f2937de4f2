"""THE table of value types: what a matrix may hold, and the classes of the core that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .types import DType

if TYPE_CHECKING:  # the core's classes have no common names
    from typing_extensions import TypeIs

    CsrSource: TypeAlias = _core._CsrSource
    Matrix: TypeAlias = _core._Matrix
    PartedMatrix: TypeAlias = _core._PartedMatrix
    StreamedMatrix: TypeAlias = _core._StreamedMatrix
    MultiDeviceMatrix: TypeAlias = _core._MultiDeviceMatrix
    AnyMatrix: TypeAlias = Matrix | PartedMatrix | StreamedMatrix | MultiDeviceMatrix
else:
    CsrSource = Matrix = PartedMatrix = StreamedMatrix = MultiDeviceMatrix = AnyMatrix = Any


class ValueType(NamedTuple):
    """A value type.

    Attributes
    ----------
    suffix : str
        What the names of the core's classes for this type end with.
    matrix, parted, streamed, multi_device, source : type
        The classes of the core.
    profile : str
        The type that stands for this one in profiles of devices: the one whose values are as wide, or the
        widest. How many bytes this one has, the models know.
    """

    suffix: str
    matrix: type[Matrix]
    parted: type[PartedMatrix]
    streamed: type[StreamedMatrix]
    multi_device: type[MultiDeviceMatrix]
    source: type[CsrSource]
    profile: str


def _value_type(suffix: str, profile: str) -> ValueType:
    kinds = ("Matrix", "PartedMatrix", "StreamedMatrix", "MultiDeviceMatrix", "CsrSource")
    matrix, parted, streamed, multi_device, source = (getattr(_core, kind + suffix) for kind in kinds)
    return ValueType(suffix, matrix, parted, streamed, multi_device, source, profile)


_VALUE_TYPES: dict[DType, ValueType] = {
    np.dtype(np.float32): _value_type("F32", "f32"),
    np.dtype(np.float64): _value_type("F64", "f64"),
    np.dtype(np.complex64): _value_type("C64", "f64"),
    np.dtype(np.complex128): _value_type("C128", "f64"),
}

TYPE_NAMES = tuple(dtype.name for dtype in _VALUE_TYPES)
NAMES = f"{', '.join(TYPE_NAMES[:-1])} and {TYPE_NAMES[-1]}"  # for messages


_IN_ONE_FORMAT = tuple(entry.matrix for entry in _VALUE_TYPES.values())
_PARTED = tuple(entry.parted for entry in _VALUE_TYPES.values())
_STREAMED = tuple(entry.streamed for entry in _VALUE_TYPES.values())
_MULTI_DEVICE = tuple(entry.multi_device for entry in _VALUE_TYPES.values())


def is_in_one_format(matrix: AnyMatrix) -> TypeIs[Matrix]:
    return isinstance(matrix, _IN_ONE_FORMAT)


def is_parted(matrix: AnyMatrix) -> TypeIs[PartedMatrix]:
    return isinstance(matrix, _PARTED)


def is_streamed(matrix: AnyMatrix) -> TypeIs[StreamedMatrix]:
    return isinstance(matrix, _STREAMED)


def is_multi_device(matrix: AnyMatrix) -> TypeIs[MultiDeviceMatrix]:
    return isinstance(matrix, _MULTI_DEVICE)


def is_value_type(dtype: DType) -> bool:
    return dtype in _VALUE_TYPES


def value_type(dtype: npt.DTypeLike) -> ValueType:
    """The entry of a type that is in the table."""
    return _VALUE_TYPES[np.dtype(dtype)]


def core_class(name: str, dtype: npt.DTypeLike) -> Any:
    """The core's class of a name for a value type."""
    return getattr(_core, name + value_type(dtype).suffix)

"""THE table of value types: what a matrix may hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .types import DType

# With the type that stands for each in profiles of devices: the one whose values are as wide, or the widest.
_VALUE_TYPES: dict[DType, str] = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "f64",
    np.dtype(np.complex128): "f64",
}

TYPE_NAMES = tuple(dtype.name for dtype in _VALUE_TYPES)
NAMES = f"{', '.join(TYPE_NAMES[:-1])} and {TYPE_NAMES[-1]}"  # for messages


def is_value_type(dtype: DType) -> bool:
    return dtype in _VALUE_TYPES


def type_in_profiles(dtype: npt.DTypeLike) -> str:
    """The type that stands for one that is in the table."""
    return _VALUE_TYPES[np.dtype(dtype)]

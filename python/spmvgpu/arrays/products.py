"""Types and shapes of products, which all libraries have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._util.types import DType
from .library import AnyLibrary, Shape


def kind_of(dtype: object) -> str:
    """NumPy's kind of a type, also of one that only another library has, or that one has taught NumPy."""
    if isinstance(dtype, np.dtype):
        return "f" if _is_taught(dtype) and np.can_cast(dtype, np.float32) else dtype.kind
    if getattr(dtype, "is_complex", False):
        return "c"
    return "f" if getattr(dtype, "is_floating_point", False) else "V"


def _is_taught(dtype: DType) -> bool:
    """Whether a type is none of NumPy's own: bfloat16 and others of ml_dtypes, which JAX uses."""
    return dtype.isbuiltin == 2


def promoted(own: DType, dtype: DType) -> DType:
    """The type of a product of an operator of a type, or TypeError for an operand that has none."""
    kind = kind_of(dtype)
    if kind not in "biufc":
        raise TypeError(
            f"x has dtype {dtype}, which is not numeric; allowed are real and complex numbers, as of "
            "x.astype(float)"
        )
    if not isinstance(dtype, np.dtype) or _is_taught(dtype):  # narrower than every type of an operator
        return np.result_type(own, np.complex64 if kind == "c" else np.float16)
    return np.result_type(own, dtype)


def shape_of(name: str, x: Any, library: AnyLibrary) -> Shape:
    """The shape of an array, which need not have memory."""
    return tuple(x.shape if hasattr(x, "shape") else library.locate(x, name).shape)


def mismatch(operator: tuple[int, int], x: Shape) -> ValueError:
    return ValueError(
        f"dimension mismatch: an operator of shape {operator} cannot multiply an array x of shape {x}"
    )


def check_from_left(operator: tuple[int, int], x: Shape) -> None:
    """Refuse, with ValueError, an array whose rows the operator on its right cannot multiply."""
    if len(x) not in (1, 2) or x[-1] != operator[0]:
        raise ValueError(
            f"dimension mismatch: an array x of shape {x} cannot be multiplied by an operator of shape "
            f"{operator} on its right"
        )

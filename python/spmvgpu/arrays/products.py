"""What products of arrays of all libraries have in common: types, shapes, and whether they are traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._util.types import DType
from .library import AnyArray, AnyLibrary, Shape


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


SINGLE = (np.float32, np.complex64)


def common_type(matrix: DType, b: object) -> DType:
    """SciPy's rule: complex if either is, and single precision only where both are."""
    are_single = matrix in SINGLE and (b in SINGLE or not isinstance(b, np.dtype))
    if "c" in (matrix.kind, kind_of(b)):
        return np.dtype(np.complex64 if are_single else np.complex128)
    return np.dtype(np.float32 if are_single else np.float64)


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


def is_stack(x: Any, library: AnyLibrary) -> bool:
    """Whether this is an array of matrices."""
    return bool((x.ndim if hasattr(x, "ndim") else len(shape_of("x", x, library))) > 2)


def of_stack(
    product: Callable[[AnyArray], AnyArray], operator: tuple[int, int], x: AnyArray, library: AnyLibrary
) -> AnyArray:
    """The products with the matrices in an array of shape (..., n, k): one, with all columns of them."""
    *stack, n, k = shape = shape_of("x", x, library)
    if n != operator[1]:
        raise mismatch(operator, shape)
    last = len(stack) + 1
    first = library.permuted(x, (last - 1, *range(last - 1), last))
    y = product(library.reshaped(first, (n, math.prod(stack) * k)))
    y = library.reshaped(y, (operator[0], *stack, k))
    return library.permuted(y, (*range(1, last), 0, last))


def of_rows(
    product: Callable[[AnyArray], AnyArray], columns: int, x: AnyArray, library: AnyLibrary
) -> AnyArray:
    """The product from the left with all rows of an array of more than two dimensions."""
    *stack, n = shape_of("x", x, library)
    y = product(library.reshaped(x, (math.prod(stack), n)))
    return library.reshaped(y, (*stack, columns))


def mismatch(operator: tuple[int, int], x: Shape) -> ValueError:
    return ValueError(
        f"dimension mismatch: an operator of shape {operator} cannot multiply an array x of shape {x}"
    )


def check_from_left(operator: tuple[int, int], x: Shape) -> None:
    """Refuse, with ValueError, an array whose rows the operator on its right cannot multiply."""
    if not x or x[-1] != operator[0]:
        raise ValueError(
            f"dimension mismatch: an array x of shape {x} cannot be multiplied by an operator of shape "
            f"{operator} on its right"
        )


def is_transformed(torch: Any) -> bool:
    """Whether PyTorch compiles a function, or transforms or differentiates it forwards."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return torch.autograd.forward_ad._current_level >= 0 and bool(torch._C._is_fwd_grad_enabled())

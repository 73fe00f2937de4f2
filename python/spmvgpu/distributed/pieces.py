"""The one way of pieces of vectors through a distributed operator: check, convert, multiply, deliver."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import library_of, taken
from ..operator.operands import kind_of, promoted


def multiply(op: Any, x: Any) -> Any:
    """``op @ x`` for a piece of any type and layout, or one of the rows of a 2-D array."""
    x, library = taken("x", x)
    located = library.locate(x, "x")
    check_shape(op, "x", located.shape, op.local_shape[1], (1, 2))
    target = op.dtype if located.dtype == op.dtype else promoted(op, located.dtype)
    if located.host is not None:
        return library.from_host(_multiply_host(op, located.host, target), x)
    if kind_of(located.dtype) == "c" and op.dtype.kind != "c":
        part_type = np.empty(0, target).real.dtype
        parts = [op._multiply(library.contiguous(part, op.dtype)) for part in library.real_and_imaginary(x)]
        return library.join(*(library.contiguous(part, part_type) for part in parts))
    y = op._multiply(library.contiguous(x, op.dtype))
    return y if target == op.dtype else library.contiguous(y, target)


def _multiply_host(op: Any, x: Any, target: np.dtype[Any]) -> Any:
    if x.dtype.kind != "c" or op.dtype.kind == "c":
        return op._multiply(np.require(x, op.dtype, ["C", "A"])).astype(target, copy=False)
    y = np.empty((op.local_shape[0], *x.shape[1:]), target)
    for part, result in ((x.real, y.real), (x.imag, y.imag)):
        result[...] = op._multiply(np.require(part, op.dtype, ["C", "A"]))
    return y


def scaled_product(op: Any, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
    """``alpha * op @ x + beta * out``, both being as the operator needs them."""
    if out is None and beta != 0:
        raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
    given = _as_it_is(op, "x", x, op.local_shape[1])
    if out is None:
        y = op._multiply(given, None, alpha, beta)
        return y if given is x else _locate("x", x)[0].from_host(y, x)
    target = _as_it_is(op, "out", out, op.local_shape[0])
    if isinstance(given, np.ndarray) and np.may_share_memory(given, target):
        raise ValueError("out overlaps x; give a separate array")
    op._multiply(given, target, alpha, beta)
    return out


def check_shape(op: Any, name: str, shape: tuple[int, ...], length: int, dimensions: tuple[int, ...]) -> None:
    """Refuse, with ValueError, what is no piece of so many entries."""
    if len(shape) not in dimensions or shape[0] != length:
        which = "columns" if name == "x" else "rows"
        allowed = f"({length},)" + (f" or ({length}, k)" if 2 in dimensions else "")
        raise ValueError(
            f"{name} has shape {shape}; it must have shape {allowed}, because rank {op.comm.rank} holds "
            f"{length} of the {which} of an operator of shape {op.shape}"
        )


def _as_it_is(op: Any, name: str, x: Any, length: int) -> Any:
    """An array that is used without a copy, through NumPy if it is in host memory; or it is refused."""
    _, located = _locate(name, x)
    if located.dtype != op.dtype:
        raise TypeError(f"{name} has dtype {located.dtype}; the operator needs {op.dtype}")
    check_shape(op, name, located.shape, length, (1,))
    if not located.contiguous:
        raise ValueError(f"{name} is not contiguous; give a C-contiguous array")
    if name == "out" and not located.writable:
        raise ValueError("out is read-only; give a writable array")
    return x if located.host is None else located.host


def _locate(name: str, x: Any) -> tuple[Any, Any]:
    library = library_of(x)
    if library is None:
        raise TypeError(f"{name} must be an array, not {type(x).__name__}")
    return library, library.locate(x, name)

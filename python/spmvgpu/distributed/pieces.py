"""Products of the piece of a vector that a rank holds, or of its rows of a 2-D array."""

from __future__ import annotations

from typing import Any

from ..arrays import taken
from ..operator.operands import as_it_is, of_any_type, refuse_overlap


def multiply(op: Any, x: Any) -> Any:
    """``op @ x`` for a piece of any type and layout."""
    x, library = taken("x", x)
    located = library.locate(x, "x")
    check_shape(op, "x", located.shape, op.local_shape[1], (1, 2))
    result = of_any_type(op, located, lambda x: op._multiply(x.library.contiguous(x.array, op.dtype)))
    return result if located.host is None else library.from_host(result, x)


def scaled_product(op: Any, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
    """``alpha * op @ x + beta * out``, both being as the operator needs them."""
    if out is None and beta != 0:
        raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
    library, located = as_it_is(op, "x", x)
    check_shape(op, "x", located.shape, op.local_shape[1], (1,))
    if out is None:
        result = op._multiply(located.array, None, alpha, beta)
        return result if located.host is None else library.from_host(result, x)
    _, target = as_it_is(op, "out", out)
    check_shape(op, "out", target.shape, op.local_shape[0], (1,))
    refuse_overlap(located, target)
    op._multiply(located.array, target.array, alpha, beta)
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

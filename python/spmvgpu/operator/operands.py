"""How an operand goes through an operator: check, convert, multiply, deliver.

Products with `@` take every real and complex type, as NumPy does. The operand's own library converts it to
the operator's type, on the device where it is. A complex operand of a real operator is multiplied in two
parts. The result has the type that NumPy's promotion gives. `spmv` and `set_x` promise not to allocate: they
refuse an operand that needs a conversion.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import _core
from .._util.value_types import AnyMatrix
from ..arrays import TORCH, Library, Located, is_sparse, library_of, stream_handle, taken


class Multiplier(Protocol):
    """What products ask of an operator."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    _matrix: AnyMatrix
    _stream: int | None

    def _check_device(self, name: str, located: Located, beside: int | None = None) -> None:
        """Refuse an array that lies elsewhere than the operator, or than x, which lies `beside`."""


_BLOCK_ITEMS = 1 << 20  # some milliseconds of copying

# Products of any type and layout


def multiply(op: Multiplier, x: Any, library: Library) -> Any:
    """``op @ x`` for a vector, or the columns of a 2-D array."""
    if type(x) is np.ndarray and x.dtype is op.dtype and x.shape == (op.shape[1],):
        # What most products are, known by as few questions as can be: what the way below makes of it, sooner.
        flags = x.flags
        if flags.c_contiguous and flags.aligned:
            return op._matrix.multiply_numpy(x)
    if library is TORCH and x.requires_grad and sys.modules["torch"].is_grad_enabled():
        from ..torch.autograd import differentiable  # which imports PyTorch

        return differentiable(op, x, multiply_tensor)
    located = library.locate(x, "x")
    if len(located.shape) not in (1, 2) or located.shape[0] != op.shape[1]:
        raise ValueError(
            f"dimension mismatch: an operator of shape {op.shape} cannot multiply an array x of shape "
            f"{located.shape}"
        )
    if not library.moves:
        op._check_device("x", located)
    if located.host is not None:
        return library.from_host(_on_host(op, located), x)
    return _on_device(op, x, library, located)


def multiply_from_left(op: Any, x: Any, library: Library) -> Any:
    """``x @ op`` for a vector, or the rows of a 2-D array."""
    shape = library.locate(x, "x").shape
    if len(shape) not in (1, 2) or shape[-1] != op.shape[0]:
        raise ValueError(
            f"dimension mismatch: an array x of shape {shape} cannot be multiplied by an operator of shape "
            f"{op.shape} on its right"
        )
    if len(shape) == 1:
        return multiply(op.T, x, library)
    result, library = taken("x", op.T @ library.transposed(x))
    return library.transposed(result)


def multiply_tensor(op: Multiplier, x: Any) -> Any:
    """``op @ x`` for a PyTorch tensor, as if it required no gradient."""
    return multiply(op, x.detach(), TORCH)


def _on_host(op: Multiplier, located: Located) -> npt.NDArray[Any]:
    x = located.host
    if located.dtype == op.dtype:
        return _host_product(op, x, located.contiguous)
    target = promoted(op, located.dtype)
    if _is_taken_apart(op, located.dtype):
        # Part by part: 1j * inf, a product of complex numbers, has NaN for its real part.
        result = np.empty((op.shape[0], *x.shape[1:]), target)
        _copy_in_blocks(_host_product(op, _converted(x.real, op.dtype), True), result.real)
        _copy_in_blocks(_host_product(op, _converted(x.imag, op.dtype), True), result.imag)
        return result
    result = _host_product(op, _converted(x, op.dtype), True)
    return result if target == op.dtype else _converted(result, target)


def _converted(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    copy = np.empty(array.shape, dtype)
    _copy_in_blocks(array, copy)
    return copy


def _copy_in_blocks(array: npt.NDArray[Any], to: npt.NDArray[Any]) -> None:
    """Copy rows in blocks, between which Python looks whether the user wants to interrupt."""
    rows = max(1, _BLOCK_ITEMS // max(1, math.prod(array.shape[1:])))
    for begin in range(0, len(array), rows):
        to[begin : begin + rows] = array[begin : begin + rows]


def _host_product(op: Multiplier, x: npt.NDArray[Any], contiguous: bool) -> npt.NDArray[Any]:
    if x.ndim == 2:
        return op._matrix.multiply_columns(x if _whole_strides(x) else x.copy())
    return op._matrix.multiply_numpy(x if contiguous else x.copy())


def _whole_strides(x: npt.NDArray[Any]) -> bool:
    """Whether the elements of an array lie a whole number of elements apart."""
    return bool(x.flags.aligned) and not any(stride % x.itemsize for stride in x.strides)


def _on_device(op: Multiplier, x: Any, library: Library, located: Located) -> Any:
    own = library.stream(located)
    stream = own if op._stream is None else op._stream
    if len(located.shape) == 1 and located.contiguous and located.dtype == op.dtype:
        return _device_product(op, x, library, located, stream)
    if located.dtype == op.dtype:
        strides = library.strides(x, located) if len(located.shape) == 2 else None
        if strides is not None and (op._matrix.takes_rows or strides[0] == 1):
            return _columns_product(op, x, library, located, strides, stream)
        return _converted_product(op, x, library, located, own, stream)
    target = promoted(op, located.dtype)
    if _is_taken_apart(op, located.dtype):
        results = [
            _converted_product(op, part, library, located, own, stream)
            for part in library.real_and_imaginary(x)
        ]
        part_type = np.empty(0, target).real.dtype
        return library.join(*(library.contiguous(part, part_type) for part in results))
    result = _converted_product(op, x, library, located, own, stream)
    return result if target == op.dtype else library.contiguous(result, target)


def _device_product(op: Multiplier, x: Any, library: Library, located: Located, stream: int) -> Any:
    result, pointer = library.empty((op.shape[0],), x, located)
    op._matrix.multiply_pointers(located.pointer, pointer, 1.0, 0.0, stream)
    return library.deliver(result, x, stream)


def _columns_product(
    op: Multiplier,
    x: Any,
    library: Library,
    located: Located,
    strides: tuple[int, ...],
    stream: int,
    alpha: float = 1.0,
) -> Any:
    """The product of the columns of an array, where they lie; in the order of the array."""
    rows, count = op.shape[0], located.shape[1]
    by_columns = strides[0] == 1 and count > 1 and (op.shape[1] > 1 or not op._matrix.takes_rows)
    result, pointer = library.empty((count, rows) if by_columns else (rows, count), x, located)
    result_strides = (1, rows) if by_columns else (count, 1)
    op._matrix.multiply_column_pointers(
        located.pointer, (strides[0], strides[1]), pointer, result_strides, count, alpha, 0.0, stream
    )
    result = library.deliver(result, x, stream)
    return library.transposed(result) if by_columns else result


def _converted_product(
    op: Multiplier, x: Any, library: Library, located: Located, own: int, stream: int
) -> Any:
    """The product of what must be copied first, which the library does on a stream of its own."""
    many = len(located.shape) == 2
    cols = op.shape[1]
    by_columns = many and not op._matrix.takes_rows
    x = library.contiguous(library.transposed(x) if by_columns else x, op.dtype)
    located = library.locate(x, "x")
    if stream != own:
        _core.synchronize(own, located.ordinal)
    if by_columns:
        located = located._replace(shape=located.shape[::-1])
        result = _columns_product(op, x, library, located, (1, cols), stream)
    elif many:
        result = _columns_product(op, x, library, located, (located.shape[1], 1), stream)
    else:
        result = _device_product(op, x, library, located, stream)
    if stream != own:
        _core.synchronize(stream, located.ordinal)
    return result


def _is_taken_apart(op: Multiplier, dtype: Any) -> bool:
    """Whether products with arrays of a type are those of the real and of the imaginary part."""
    return kind_of(dtype) == "c" and op.dtype.kind != "c"


def kind_of(dtype: Any) -> str:
    """NumPy's kind of a type, also of one that only another library has, or that one has taught NumPy."""
    if isinstance(dtype, np.dtype):
        return "f" if _is_taught(dtype) and np.can_cast(dtype, np.float32) else dtype.kind
    if getattr(dtype, "is_complex", False):
        return "c"
    return "f" if getattr(dtype, "is_floating_point", False) else "V"


def _is_taught(dtype: np.dtype[Any]) -> bool:
    """Whether a type is none of NumPy's own: bfloat16 and others of ml_dtypes, which JAX uses."""
    return dtype.isbuiltin == 2


def promoted(op: Multiplier, dtype: Any) -> np.dtype[Any]:
    """The type of a product, or TypeError for a type that has none."""
    kind = kind_of(dtype)
    if kind not in "biufc":
        raise TypeError(
            f"x has dtype {dtype}, which is not numeric; allowed are real and complex numbers, as of "
            "x.astype(float)"
        )
    if not isinstance(dtype, np.dtype) or _is_taught(dtype):  # narrower than every type of an operator
        dtype = np.complex64 if kind == "c" else np.float16
    return np.result_type(op.dtype, dtype)


# Products into an array of the caller's


def scaled_product(op: Multiplier, x: Any, out: Any, alpha: Any, beta: Any, stream: Any) -> Any:
    """``alpha * op @ x + beta * out``, `x` and `out` being as the operator needs them."""
    if type(alpha) is not float or type(beta) is not float:  # as most are: it saves two calls
        alpha, beta = factor(op, "alpha", alpha), factor(op, "beta", beta)
    if out is None and beta != 0:
        raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
    library, located = operand(op, "x", x, op.shape[1], many=True)
    target, many = None, len(located.shape) == 2
    if out is not None:
        same_place = located.ordinal if located.host is None else None
        out_library, target = operand(op, "out", out, op.shape[0], same_place, many=True)
        if (target.host is None) != (located.host is None) or out_library.moves != library.moves:
            raise TypeError(
                f"out must be an array on the same device as x, which is a {type(x).__name__}, "
                f"not a {type(out).__name__}"
            )
        if len(target.shape) != len(located.shape) or (many and target.shape[1] != located.shape[1]):
            raise ValueError(
                f"out has shape {target.shape}; x of shape {located.shape} needs "
                f"{(op.shape[0], *located.shape[1:])}"
            )
    if located.host is not None:
        if stream is not None:
            raise TypeError(
                f"stream={stream!r} is for arrays on a CUDA device; leave it out for {type(x).__name__}"
            )
        if target is not None and np.may_share_memory(located.host, target.host):
            raise ValueError("out overlaps x; give an array of its own")
        multiply_host = op._matrix.multiply_columns if many else op._matrix.multiply_numpy
        result = multiply_host(located.host, None if target is None else target.host, alpha, beta)
        return library.from_host(result, x) if out is None else out
    if stream is not None:
        handle = stream_handle(stream)
    else:
        handle = library.stream(located) if op._stream is None else op._stream
    if many:
        return _scaled_columns(op, x, library, located, out, target, alpha, beta, handle)
    if target is None:
        result, pointer = library.empty((op.shape[0],), x, located)
        op._matrix.multiply_pointers(located.pointer, pointer, alpha, beta, handle)
        return library.deliver(result, x, handle)
    (rows, cols), item, x_pointer, out_pointer = op.shape, op.dtype.itemsize, located.pointer, target.pointer
    if x_pointer < out_pointer + item * rows and out_pointer < x_pointer + item * cols:
        raise ValueError("out overlaps x; give an array of its own")
    op._matrix.multiply_pointers(x_pointer, out_pointer, alpha, beta, handle)
    return out


def _scaled_columns(
    op: Multiplier,
    x: Any,
    library: Library,
    located: Located,
    out: Any,
    target: Located | None,
    alpha: float,
    beta: float,
    stream: int,
) -> Any:
    strides = _device_strides("x", x, library, located)
    if target is None:
        return _columns_product(op, x, library, located, strides, stream, alpha)
    out_library = library_of(out)
    assert out_library is not None
    out_strides = _device_strides("out", out, out_library, target)
    begin, end = _extent(located, strides)
    out_begin, out_end = _extent(target, out_strides)
    if begin < out_end and out_begin < end:
        raise ValueError("out overlaps x; give an array of its own")
    op._matrix.multiply_column_pointers(
        located.pointer, strides, target.pointer, out_strides, located.shape[1], alpha, beta, stream
    )
    return out


def _device_strides(name: str, x: Any, library: Library, located: Located) -> tuple[int, int]:
    strides = library.strides(x, located)
    if strides is None:
        raise ValueError(f"{name} is a view whose memory holds other numbers; give a contiguous array")
    return strides[0], strides[1]


def _extent(located: Located, strides: tuple[int, int]) -> tuple[int, int]:
    """The addresses that the elements of a 2-D array lie between."""
    if 0 in located.shape:
        return located.pointer, located.pointer
    reach = [(n - 1) * stride for n, stride in zip(located.shape, strides, strict=True)]
    item = located.dtype.itemsize
    below, above = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    return located.pointer + item * below, located.pointer + item * (above + 1)


def operand(
    op: Multiplier, name: str, x: Any, length: int, same_place: int | None = None, many: bool = False
) -> tuple[Library, Located]:
    """A vector that is used as it is: of the operator's type and on its device, or refused.

    With `many` also the columns of a 2-D array, which may lie in any way.
    """
    library = library_of(x)
    if library is None:
        raise TypeError(
            f"{name} must be a NumPy array or a device array, which is used where it lies, not "
            f"{type(x).__name__}; give an array, such as numpy.asarray({name}, {str(op.dtype)!r})"
        )
    located = library.locate(x, name)
    if not library.moves:
        op._check_device(name, located, same_place)
    dtype, shape = located.dtype, located.shape
    if dtype is not op.dtype and dtype != op.dtype:
        raise TypeError(f"{name} has dtype {dtype}; the operator needs {op.dtype}")
    columns = many and len(shape) == 2 and shape[0] == length
    if not columns and shape != (length,):
        raise ValueError(
            f"{name} has shape {shape}; an operator of shape {op.shape} needs ({length},)"
            + (f" or ({length}, k)" if many else "")
        )
    usable = located.contiguous
    if columns and not usable:
        usable = located.host is None or _whole_strides(located.host)
    if not usable:
        raise ValueError(f"{name} is not contiguous; give a C-contiguous array")
    if name == "out" and not located.writable:
        raise ValueError("out is read-only; give an array that may be written")
    return library, located


def address(located: Located) -> int:
    """The address of the first element."""
    return located.pointer if located.host is None else int(located.host.ctypes.data)


def factor(op: Multiplier, name: str, value: Any) -> complex:
    """A factor of a product, which may be complex where the operator is."""
    if type(value) is float:
        return value
    is_complex = op.dtype.kind == "c"
    try:
        if isinstance(value, str | bytes if is_complex else str | bytes | complex | np.complexfloating):
            raise TypeError
        return complex(value) if is_complex else float(value)
    except (TypeError, ValueError, OverflowError):
        kind = "a number" if is_complex else "a real number"
        raise TypeError(f"{name} must be {kind}, not {value!r}") from None


# Vectors of solvers, and those that stay on several devices


def converted_vector(op: Any, name: str, x: Any, library: Library) -> tuple[Any, Located]:
    """A vector that fits a square operator, converted to its type; a copy only if need be."""
    n = op.shape[0]
    located = library.locate(x, name)
    if kind_of(located.dtype) not in ("biufc" if op.dtype.kind == "c" else "biuf"):
        allowed = "numbers" if op.dtype.kind == "c" else f"real numbers, as the operator is of {op.dtype}"
        raise TypeError(f"{name} has dtype {located.dtype}; allowed are {allowed}")
    if located.shape not in ((n,), (n, 1)):
        raise ValueError(
            f"{name} has shape {located.shape}; an operator of shape {op.shape} needs ({n},) or ({n}, 1)"
        )
    if not library.moves:
        op._check_device(name, located)
    if located.host is not None:
        host = np.require(located.host.reshape(-1), op.dtype, ["C", "A"])
        return host, located._replace(host=host, shape=(n,), dtype=op.dtype, contiguous=True)
    if not located.contiguous or located.dtype != op.dtype:
        x = library.contiguous(x.reshape(-1) if hasattr(x, "reshape") else x, op.dtype)
        if op._stream is not None and op._stream != library.stream(located):
            _core.synchronize(library.stream(located), located.ordinal)
        located = library.locate(x, name)
    return x, located


def check_shape(name: str, x: Any, ndim: int, length: int) -> Any:
    """What SciPy's matvec (ndim 1) or matmat (ndim 2) takes; ValueError, with the argument's name, if not."""
    if ndim == 1 or not is_sparse(x):
        x, library = taken(name, x)
        shape = tuple(x.shape if hasattr(x, "shape") else library.locate(x, name).shape)
    else:
        shape = x.shape
    fits = shape in ((length,), (length, 1)) if ndim == 1 else len(shape) == 2 and shape[0] == length
    if not fits:
        wanted = f"({length},) or ({length}, 1)" if ndim == 1 else f"({length}, k)"
        raise ValueError(f"dimension mismatch: {name} has shape {shape}; the operator needs {wanted}")
    return x

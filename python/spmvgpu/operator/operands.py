"""How an operand goes through an operator, in four steps: check, place, product, deliver.

Products with `@` take every real and complex type, as NumPy does. The operand's own library converts it to
the operator's type, on the device where it is. A complex operand of a real operator is multiplied in two
parts. The result has the type that NumPy's promotion gives. `spmv` and `set_x` promise not to allocate: they
refuse an operand that needs a conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, TypeVar, cast

import numpy as np

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.arguments import is_number
from .._util.linear_operator import LinearOperator
from .._util.types import DType, HostArray
from ..arrays import (
    AnyArray,
    AnyLibrary,
    ArrayInfo,
    Library,
    array_and_library,
    is_sparse,
    library_of,
    stream_handle,
)
from ..arrays.library import Operator, Shape
from ..arrays.products import is_stack, kind_of, mismatch, of_stack, promoted, shape_of
from ..devices import device_name

A = TypeVar("A")  # an array of any library


class HasType(Protocol):
    """An operator, on one device or over ranks."""

    dtype: DType


class DeviceOperator(HasType, Protocol):
    """An operator, or a system, on devices of this process."""

    shape: tuple[int, int]
    _stream: int | None

    def _check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        """Refuse, with ValueError, an array on another device than the operator, or than x (`beside`)."""


class Multiplier(DeviceOperator, Protocol):
    """What products on the devices of this process ask of an operator."""

    _matrix: AnyMatrix


class Transposable(Multiplier, Operator, Protocol):
    """A `Multiplier` that has its transposes."""

    @property
    def T(self) -> Transposable: ...  # noqa: N802


# Products of any type and layout


def multiply(op: Transposable, x: AnyArray, library: AnyLibrary) -> AnyArray:
    """``op @ x`` for a vector, the columns of a 2-D array, or a stack of such arrays."""
    if _is_plain(x, op, op.shape[1]):  # as most are: what the way below makes of it, sooner
        return op._matrix.multiply_numpy(x)
    if is_stack(x, library):
        return of_stack(partial(multiply, op, library=library), op.shape, x, library)
    recorded = library.differentiable(op, x)
    return multiply_now(op, x, library) if recorded is None else recorded


def _is_plain(x: object, op: HasType, length: int) -> TypeGuard[HostArray]:
    """Whether `x` is a contiguous NumPy vector of the operator's type. This is quick, and may miss some."""
    if type(x) is not np.ndarray or x.dtype is not op.dtype or x.shape != (length,):
        return False
    flags = x.flags
    return flags.c_contiguous and flags.aligned


def multiply_now(op: Multiplier, x: AnyArray, library: AnyLibrary) -> AnyArray:
    """The same, of which no library records anything for gradients."""
    located = _checked(op, x, library)
    is_own = located.dtype is op.dtype  # as most are: each of these saves calls
    if is_own and located.contiguous and located.strides is None and located.host is None:
        return _multiplied(op, located, op._stream)
    result = _product(op, located) if is_own else of_any_type(op, located, partial(_product, op))
    return result if located.host is None else library.from_host(result, x)


def multiply_by(
    op: DeviceOperator, product: Callable[[ArrayInfo], AnyArray], x: AnyArray, library: AnyLibrary
) -> AnyArray:
    """The same for what has no matrix of the core: `product` converts an operand and multiplies it."""
    located = _checked(op, x, library)
    result = of_any_type(op, located, product)
    return result if located.host is None else library.from_host(result, x)


def _checked(op: DeviceOperator, x: AnyArray, library: AnyLibrary) -> ArrayInfo:
    """Where an operand lies, if an operator can multiply it."""
    located = library.locate(x, "x")
    if len(located.shape) not in (1, 2) or located.shape[0] != op.shape[1]:
        raise mismatch(op.shape, located.shape)
    if not library.moves:
        op._check_device("x", located)
    return located


def of_any_type(op: HasType, x: ArrayInfo, product: Callable[[ArrayInfo], A]) -> A:
    """The product of an operand, which `product` converts to the operator's type if it has another."""
    if x.dtype == op.dtype:
        return product(x)
    made, target, library = op.dtype, promoted(op.dtype, x.dtype), x.library
    if kind_of(x.dtype) == "c" and made.kind != "c":
        # Part by part: 1j * inf, a product of complex numbers, has NaN for its real part.
        parts = (library.locate(part, "x") for part in library.parts(x.array))
        copied = (part._replace(contiguous=False, strides=None) for part in parts)  # never used as they lie
        result: A = library.join(*map(product, copied))
        made = np.result_type(made, np.complex64)
    else:
        result = product(x)
    if target != made:
        result = library.contiguous(result, target)
    return result


def _product(op: Multiplier, x: ArrayInfo) -> AnyArray:
    """The product of an operand as it lies, if the core takes it so, or of a copy that its library makes."""
    many, library = len(x.shape) == 2, x.library
    takes_rows = not many or x.host is not None or op._matrix.takes_rows
    in_order = x.strides is not None and (takes_rows or x.strides[0] == 1) if many else x.contiguous
    if in_order and x.dtype == op.dtype:
        return _multiplied(op, x, op._stream)
    if x.host is not None:
        return _multiply_host(op, x)(library.contiguous(x.array, op.dtype))
    if takes_rows:
        copy = library.locate(library.contiguous(x.array, op.dtype), "x")
    else:
        copy = library.locate(library.contiguous(library.transposed(x.array), op.dtype), "x")
        copy = copy._replace(shape=x.shape, strides=(1, op.shape[1]))
    if op._stream is None or op._stream == library.stream(copy):
        return _multiplied(op, copy, op._stream)
    _core.synchronize(library.stream(copy), x.ordinal)  # on which the library copies
    result = _multiplied(op, copy, op._stream)
    _core.synchronize(op._stream, x.ordinal)
    return result


def _multiplied(op: Multiplier, x: ArrayInfo, stream: int | None, alpha: complex = 1.0) -> AnyArray:
    """The product of an operand as it lies, in a new array of the same order."""
    if x.host is not None:
        return _multiply_host(op, x)(x.host, None, alpha, 0.0)
    library, rows = x.library, op.shape[0]
    if stream is None:
        stream = library.stream(x)
    if x.strides is None:
        result, pointer = library.empty((rows,), x.array, x)
        op._matrix.multiply_pointers(x.pointer, pointer, alpha, 0.0, stream)
        return library.deliver(result, x.array, stream)
    count = x.shape[1]
    turned = x.strides[0] == 1 and count > 1 and (op.shape[1] > 1 or not op._matrix.takes_rows)
    shape, strides = ((count, rows), (1, rows)) if turned else ((rows, count), (count, 1))
    result, pointer = library.empty(shape, x.array, x)
    op._matrix.multiply_column_pointers(x.pointer, x.strides, pointer, strides, count, alpha, 0.0, stream)
    result = library.deliver(result, x.array, stream)
    return library.transposed(result) if turned else result


def multiply_by_map(core_map: LinearMap, shape: tuple[int, int], dtype: DType, x: ArrayInfo) -> AnyArray:
    """The product of a map of the core and an operand on a GPU, which is converted; complete on return."""
    library, many = x.library, len(x.shape) == 2
    given = library.contiguous(library.transposed(x.array) if many else x.array, dtype)
    located, columns = library.locate(given, "x"), x.shape[1] if many else 1
    rows = (columns, shape[0]) if many else (shape[0],)
    result, pointer = library.empty(rows, given, located)
    stream = library.stream(located)
    if columns:
        _core.synchronize(stream, x.ordinal)  # the core applies maps on a stream of its own
        _core.apply_map(core_map, located.pointer, pointer, shape[0], columns, x.ordinal)
    result = library.deliver(result, given, stream)
    return library.transposed(result) if many else result


def _multiply_host(op: Multiplier, x: ArrayInfo) -> Callable[..., HostArray]:
    return op._matrix.multiply_numpy if len(x.shape) == 1 else op._matrix.multiply_columns


# Products into an array of the caller's


def scaled_product(op: Multiplier, x: A, out: A | None, alpha: complex, beta: complex, stream: object) -> A:
    """``alpha * op @ x + beta * out``, `x` and `out` being as the operator needs them."""
    if type(alpha) is not float or type(beta) is not float:  # as most are: it saves two calls
        alpha, beta = factor(op, "alpha", alpha), factor(op, "beta", beta)
    if out is None and beta != 0:
        raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
    if (
        stream is None
        and _is_plain(x, op, op.shape[1])
        and _is_plain(out, op, op.shape[0])
        and out.flags.writeable
        and not np.may_share_memory(x, out)
    ):
        op._matrix.multiply_numpy(x, out, alpha, beta)
        return cast("A", out)
    library, located = operand(op, "x", x, op.shape[1], many=True)
    if located.host is None:
        handle = op._stream if stream is None else stream_handle(stream)
    elif stream is None:
        handle = None
    else:
        raise TypeError(
            f"stream={stream!r} is for arrays on a CUDA device; leave it out for {type(x).__name__}"
        )
    if out is None:
        result = _multiplied(op, located, handle, alpha)
        return result if located.host is None else library.from_host(result, x)
    beside = located.ordinal if located.host is None else None
    own, target = operand(op, "out", out, op.shape[0], beside, many=True)
    if (target.host is None) != (located.host is None) or own.moves != library.moves:
        raise TypeError(
            f"out must be an array on the same device as x, which is a {type(x).__name__}, not a "
            f"{type(out).__name__}"
        )
    if target.shape[1:] != located.shape[1:]:
        needed = (op.shape[0], *located.shape[1:])
        raise ValueError(f"out has shape {target.shape}; x of shape {located.shape} needs {needed}")
    refuse_overlap(located, target)
    if located.host is not None:
        _multiply_host(op, located)(located.host, target.host, alpha, beta)
        return out
    handle = library.stream(located) if handle is None else handle
    if located.strides is None or target.strides is None:
        op._matrix.multiply_pointers(located.pointer, target.pointer, alpha, beta, handle)
    else:
        pointers = located.pointer, located.strides, target.pointer, target.strides
        op._matrix.multiply_column_pointers(*pointers, located.shape[1], alpha, beta, handle)
    return out


def refuse_overlap(x: ArrayInfo, out: ArrayInfo) -> None:
    """Refuse, with ValueError, a result that is written while x is read."""
    if x.host is not None and out.host is not None:
        overlap = np.may_share_memory(x.host, out.host)
    else:
        begin, end = _extent(x)
        out_begin, out_end = _extent(out)
        overlap = begin < out_end and out_begin < end
    if overlap:
        raise ValueError("out overlaps x; give another array")


def _extent(located: ArrayInfo) -> tuple[int, int]:
    """The addresses that the elements of an array lie between."""
    pointer, item = located.pointer, located.dtype.itemsize
    if located.strides is None:
        return pointer, pointer + item * located.shape[0]
    if 0 in located.shape:
        return pointer, pointer
    reach = [(n - 1) * stride for n, stride in zip(located.shape, located.strides, strict=True)]
    below, above = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    return pointer + item * below, pointer + item * (above + 1)


# Checks


def operand(
    op: Multiplier, name: str, x: A, length: int, beside: int | None = None, many: bool = False
) -> tuple[Library[A], ArrayInfo]:
    """A vector that is used as it is: of the operator's type and on its device, or refused.

    With `many` also the columns of a 2-D array, which may lie in any way.
    """
    library, located = as_it_is(op, name, x, many)
    if not library.moves:
        op._check_device(name, located, beside)
    shape = located.shape
    if shape != (length,) and not (many and len(shape) == 2 and shape[0] == length):
        raise ValueError(
            f"{name} has shape {shape}; an operator of shape {op.shape} needs ({length},)"
            + (f" or ({length}, k)" if many else "")
        )
    return library, located


def as_it_is(op: HasType, name: str, x: A, many: bool = False) -> tuple[Library[A], ArrayInfo]:
    """An array that is used where it lies: of the operator's type, in order, and writable if it is `out`."""
    library = library_of(x)
    if library is None:
        raise TypeError(
            f"{name} must be a NumPy array or a device array, which is used where it lies, not "
            f"{type(x).__name__}; give an array, such as numpy.asarray({name}, {str(op.dtype)!r})"
        )
    located = library.locate(x, name)
    if located.dtype is not op.dtype and located.dtype != op.dtype:
        raise TypeError(f"{name} has dtype {located.dtype}; the operator needs {op.dtype}")
    if not located.contiguous and not (many and located.strides is not None):
        raise ValueError(f"{name} is not contiguous; give a C-contiguous array")
    if name == "out" and not located.writable:
        raise ValueError("out is read-only; give an array that may be written")
    return library, located


def check_shape(name: str, x: AnyArray, ndim: int, length: int) -> object:
    """What SciPy's matvec (ndim 1) or matmat (ndim 2) takes; ValueError, with the argument's name, if not."""
    if ndim == 1 or not is_sparse(x):
        x, library = array_and_library(name, x)
        shape = shape_of(name, x, library)
    else:
        shape = x.shape
    fits = shape == (length, 1) or (len(shape) >= ndim and shape[-ndim] == length)
    if not fits:
        wanted = f"({length},), ({length}, 1) or (..., {length})" if ndim == 1 else f"(..., {length}, k)"
        raise ValueError(f"dimension mismatch: {name} has shape {shape}; the operator needs {wanted}")
    return x


def address(located: ArrayInfo) -> int:
    """The address of the first element."""
    return located.pointer if located.host is None else int(located.host.ctypes.data)


def check_place(
    name: str, located: ArrayInfo, places: Sequence[int], other: str = "the operator is on"
) -> None:
    """Refuse, with ValueError, an array that lies on none of the devices where `other` is."""
    if located.ordinal not in places:
        there = device_name(located.ordinal)
        here = " or ".join(repr(device_name(place)) for place in places)
        raise ValueError(f"{name} is on {there!r}, but {other} {here}; move one of them")


def factor(op: HasType, name: str, value: Any) -> complex:
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


def check_vector(
    name: str, shape: Shape, dtype: object, of_op: Shape, own: DType, columns: int | None = None
) -> None:
    """Refuse, with TypeError or ValueError, a vector, or columns, that a system of a type does not take."""
    if kind_of(dtype) not in ("biufc" if own.kind == "c" else "biuf"):
        allowed = "numbers" if own.kind == "c" else f"real numbers, as the operator is of {own}"
        raise TypeError(f"{name} has dtype {dtype}; allowed are {allowed}")
    n = of_op[0]
    if shape not in (((n,), (n, 1)) if columns is None else ((n, columns),)):
        wanted = f"({n},) or ({n}, 1)" if columns is None else f"({n}, {columns})"
        raise ValueError(f"{name} has shape {shape}; an operator of shape {of_op} needs {wanted}")


def converted_vector(
    op: DeviceOperator, name: str, x: A, library: Library[A], columns: int | None = None
) -> tuple[A, ArrayInfo]:
    """A vector that fits a square operator, converted to its type; a copy only if need be.

    Of several columns it is the transpose, so that each of them is contiguous.
    """
    located = library.locate(x, name)
    check_vector(name, located.shape, located.dtype, op.shape, op.dtype, columns)
    if not library.moves:
        op._check_device(name, located)
    is_as_wanted = located.host is None and located.contiguous and located.dtype == op.dtype
    if is_as_wanted and columns is None:
        return x, located
    own, array = located.library, located.array
    if columns is not None:
        array = own.transposed(array)
    elif hasattr(array, "reshape"):
        array = array.reshape(-1)
    made = own.contiguous(array, op.dtype)
    if located.host is None and op._stream is not None and op._stream != own.stream(located):
        _core.synchronize(own.stream(located), located.ordinal)
    return made, own.locate(made, name)


def refuse_stack(op: Any) -> None:
    """Refuse, with ValueError, several operators in one, as SciPy has them from version 1.18 on."""
    if len(getattr(op, "shape", "mn")) != 2:
        raise ValueError(f"the {type(op).__name__} has shape {op.shape}; give one of two dimensions")


def is_operand(x: object) -> bool:
    """Whether SciPy makes an operator of this and another one."""
    return isinstance(x, LinearOperator) or is_number(x)


def refuse_number(x: object) -> None:
    if is_number(x):
        raise ValueError("Scalar operands are not allowed, use '*' instead")


def multiplies_itself(x: object) -> bool:
    """Whether this is no operand of the kinds here, and knows its product with an operator on its left."""
    is_known = is_operand(x) or is_sparse(x) or library_of(x) is not None or hasattr(x, "__array__")
    return hasattr(type(x), "__rmatmul__") and not is_known


def plain(x: object) -> object:
    """The number in a 0-d array; anything else as it is."""
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x

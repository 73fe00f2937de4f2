"""Products that JAX differentiates, batches and compiles. This module imports JAX.

A product is an operation of JAX's own, with rules for its derivatives and for batches. A compiled program
calls the core, or a function of Python that is given the addresses of arrays, without JAX in between.
"""

from __future__ import annotations

import atexit
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .. import _core
from .._util.types import DType
from ..devices import CPU, device_name
from .library import AnyArray, Memory
from .products import mismatch, promoted

_CALL = "spmvgpu"  # what programs call


def _register() -> None:
    if tuple(map(int, jax.__version__.split(".")[:2])) < (0, 10):
        raise ImportError(
            f"products that JAX traces need JAX 0.10 or later, and this is {jax.__version__}; install it "
            'with pip install "jax>=0.10"',
            name="jax",
        )
    for platform, about in _core.xla_types().items():
        jax.ffi.register_ffi_type(_CALL, about, platform=platform)
    for platform, handlers in _core.xla_handlers().items():
        jax.ffi.register_ffi_target(_CALL, handlers, platform=platform)
    atexit.register(_core.end_xla_calls)  # before what JAX has registered, which waits for programs


_register()


def register_rules(primitive: Primitive, batch: Callable[..., Any], call: Callable[..., Any]) -> None:
    """Let a primitive work on batches, and in programs of each platform."""
    batching.primitive_batchers[primitive] = batch
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(primitive, partial(call, platform), platform=platform)


# Products of any type


def differentiable(op: Any, x: AnyArray) -> AnyArray:
    """``op @ x``, of an operator whose values stay, differentiable as often as one likes."""
    return _of_any_type(op.shape, op.dtype, x, partial(product_p.bind, op=op))


def product(pattern: Any, values: AnyArray, x: AnyArray) -> AnyArray:
    """A product with values, differentiable with respect to these and to `x`."""
    dtype = np.dtype(values.dtype)
    return _of_any_type(pattern.shape, dtype, x, partial(values_p.bind, values, pattern=pattern))


def _of_any_type(
    shape: tuple[int, int], own: DType, x: AnyArray, exact: Callable[[AnyArray], AnyArray]
) -> AnyArray:
    """A product of the type that NumPy gives it, or of half of its bits where JAX has no longer ones."""
    if x.ndim not in (1, 2) or x.shape[0] != shape[1]:
        raise mismatch(shape, x.shape)
    target = result_type(promoted(own, np.dtype(x.dtype)))
    with longest_types():
        if jnp.iscomplexobj(x) and own.kind != "c":
            # Part by part: 1j * inf, a product of complex numbers, has NaN for its real part.
            parts = (lax.convert_element_type(part, own) for part in (lax.real(x), lax.imag(x)))
            y = lax.complex(*map(exact, parts))
        else:
            y = exact(lax.convert_element_type(x, own))
        return lax.convert_element_type(y, target)


def shaped(x: Any, length: int, dtype: DType) -> Any:
    """What JAX knows of an array like `x` of another length and type: also over which devices it varies."""
    return x.update(shape=(length, *x.shape[1:]), dtype=dtype, weak_type=False)


def result_type(dtype: DType) -> DType:
    """The type that JAX has in place of one: without `jax_enable_x64`, the one of half the bits."""
    canonical: DType = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    return canonical


def longest_types() -> Any:
    """A block in which JAX has types of 64 bits, as operators may have."""
    return jax.enable_x64(True)


# The product with an operator: linear in x

product_p = Primitive("spmvgpu_product")


@product_p.def_impl
def _product_now(x: AnyArray, *, op: Any) -> AnyArray:
    with longest_types():
        return op @ jnp.asarray(x)


@product_p.def_abstract_eval
def _product_shape(x: Any, *, op: Any) -> Any:
    return shaped(x, op.shape[0], op.dtype)


def _product_transpose(gradient: AnyArray, x: Any, *, op: Any) -> list[AnyArray]:
    return [product_p.bind(gradient, op=op.T)]


def _product_batch(args: Any, axes: Any, *, op: Any) -> tuple[AnyArray, int]:
    x, batch = as_columns(args[0], axes[0])
    return from_columns(product_p.bind(x, op=op), batch)


def _product_call(platform: str, ctx: Any, x: Any, *, op: Any) -> Any:
    stored = op._stored
    _check_platform(platform, stored.ordinal, stored.device)
    return call(ctx, _core.XlaCallee(op._matrix, stored.places), x)


ad.deflinear2(product_p, _product_transpose)
register_rules(product_p, _product_batch, _product_call)


# The product with values: linear in both

values_p = Primitive("spmvgpu_product_of_values")


@values_p.def_impl
def _values_now(values: AnyArray, x: AnyArray, *, pattern: Any) -> AnyArray:
    with longest_types():
        return pattern._with_values(jnp.asarray(values)) @ jnp.asarray(x)


@values_p.def_abstract_eval
def _values_shape(values: Any, x: Any, *, pattern: Any) -> Any:
    return shaped(x, pattern.shape[0], values.dtype)


def _to_values(gradient: AnyArray, values: Any, x: AnyArray, *, pattern: Any) -> AnyArray:
    def of_vectors(y: AnyArray, x: AnyArray) -> AnyArray:
        return take(y, pattern.rows) * take(x, pattern.cols)

    if x.ndim == 1:
        return of_vectors(gradient, x)
    # Column by column: all at once would take as much memory as the matrix for each.
    begin = jnp.zeros(values.aval.shape, values.aval.dtype)
    columns = gradient.T, x.T
    return lax.scan(lambda total, both: (total + of_vectors(*both), None), begin, columns)[0]


def _to_x(gradient: AnyArray, values: AnyArray, x: Any, *, pattern: Any) -> AnyArray:
    transposed, order = pattern._turned
    return values_p.bind(take(values, order), gradient, pattern=transposed)


def _values_batch(args: Any, axes: Any, *, pattern: Any) -> tuple[AnyArray, int]:
    values, x = args
    if axes[0] is not None:
        size = values.shape[axes[0]]
        flat = (as_rows(arg, axis, size) for arg, axis in zip(args, axes, strict=True))
        return from_rows(values_p.bind(*flat, pattern=pattern._batched(size)), size)
    x, batch = as_columns(x, axes[1])
    return from_columns(values_p.bind(values, x, pattern=pattern), batch)


def _values_call(platform: str, ctx: Any, values: Any, x: Any, *, pattern: Any) -> Any:
    op, reads = pattern._multiplier(np.dtype(ctx.avals_in[0].dtype))
    if reads:
        _check_platform(platform, op._stored.ordinal, op._stored.device)
        return call(ctx, _core.XlaCallee.of_values(op._matrix, op._stored.places), values, x)

    def multiply(values: AnyArray, x: AnyArray, y: AnyArray) -> None:
        pattern._with_values(values).spmv(x, out=y, **({"stream": y.stream} if isinstance(y, Memory) else {}))

    return call_function(platform, ctx, multiply, pattern._ordinal, values, x)


ad.defbilinear(values_p, _to_values, _to_x)
register_rules(values_p, _values_batch, _values_call)


def take(x: AnyArray, indices: AnyArray) -> AnyArray:
    """Entries of an array at indices that are in range."""
    return jnp.take(x, indices, mode="clip")


# Batches


def as_columns(x: AnyArray, axis: int | None, size: int = 0) -> tuple[AnyArray, tuple[int, ...]]:
    """A batch of vectors, or of columns, as columns, and what these are a batch of; the batch is its last.

    Without an axis, it is made of this size.
    """
    if axis is None:
        moved = lax.broadcast_in_dim(x, (*x.shape, size), tuple(range(x.ndim)))
    else:
        moved = jnp.moveaxis(x, axis, -1)
    batch = moved.shape[1:]
    return lax.reshape(moved, (moved.shape[0], math.prod(batch))), batch


def from_columns(y: AnyArray, batch: tuple[int, ...]) -> tuple[AnyArray, int]:
    """The batch of columns, and its axis."""
    return lax.reshape(y, (y.shape[0], *batch)), len(batch)


def as_rows(x: AnyArray, axis: int | None, size: int) -> AnyArray:
    """A batch of vectors, or of columns, one after the other, for a block-diagonal matrix."""
    moved = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    return lax.reshape(moved, (size * moved.shape[1], *moved.shape[2:]))


def from_rows(y: AnyArray, size: int) -> tuple[AnyArray, int]:
    """The batch of what a block-diagonal matrix gives, and its axis."""
    return lax.reshape(y, (size, y.shape[0] // size, *y.shape[1:])), 0


def each(
    bind: Callable[..., AnyArray], args: Sequence[AnyArray], axes: Sequence[int | None]
) -> tuple[AnyArray, int]:
    """A function of each element of a batch, one after the other."""
    batched = [jnp.moveaxis(arg, axis, 0) for arg, axis in zip(args, axes, strict=True) if axis is not None]

    def one(some: Sequence[AnyArray]) -> AnyArray:
        rest = iter(some)
        return bind(*(arg if axis is None else next(rest) for arg, axis in zip(args, axes, strict=True)))

    return lax.map(one, batched), 0


# Calls in compiled programs


def call(ctx: Any, callee: Any, *operands: Any, orders: Any = None) -> Any:
    """A call of the core. The program keeps the callee, and until there is one, so does what it is made from.

    `orders` has the axes of operands and results from the innermost outwards; None for C order.
    """
    ctx.module_context.add_keepalive(callee)
    given, made = orders or (None, None)
    lowering = jax.ffi.ffi_lowering(_CALL, operand_layouts=given, result_layouts=made)
    return lowering(ctx, *operands, callee=np.int64(callee.number))


def call_function(
    platform: str, ctx: Any, run: Callable[..., None], ordinal: int, *operands: Any, by_columns: bool = False
) -> Any:
    """A call of a function of the operands and of the results, as arrays that share their memory.

    It must not call JAX, which may wait for it. With `by_columns`, the columns of 2-D arrays are contiguous.
    """
    _check_platform(platform, ordinal, device_name(ordinal))
    about = [(aval.shape, np.dtype(aval.dtype)) for aval in (*ctx.avals_in, *ctx.avals_out)]

    def run_at(addresses: list[int], stream: int) -> None:
        where = None if ordinal == CPU else stream
        arrays = zip(addresses, about, strict=True)
        run(*(_array_at(address, *kind, where, by_columns) for address, kind in arrays))

    orders = None
    if by_columns:
        orders = [[tuple(range(aval.ndim)) for aval in avals] for avals in (ctx.avals_in, ctx.avals_out)]
    return call(ctx, _core.XlaCallee(run_at), *operands, orders=orders)


def _array_at(
    address: int, shape: tuple[int, ...], dtype: DType, stream: int | None, by_columns: bool
) -> AnyArray:
    if stream is None and 0 in shape:
        return np.empty(shape, dtype)
    if by_columns and shape[1:] == (1,):
        shape = shape[:1]  # else strides would tell it from a vector
    memory = Memory(address, shape[::-1] if by_columns else shape, dtype, stream=stream)
    array: AnyArray = np.asarray(memory) if stream is None else memory
    return array.T if by_columns else array


def _check_platform(platform: str, ordinal: int, device: object) -> None:
    if (platform == "cpu") != (ordinal == CPU):
        there = "'cpu'" if platform == "cpu" else "a GPU"
        raise ValueError(f"x is on {there}, but the operator is on {device!r}; move one of them")

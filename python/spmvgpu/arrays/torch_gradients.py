"""Products that PyTorch differentiates, batches and compiles. This module imports PyTorch.

PyTorch takes tensors, numbers and strings as arguments of an operation. So an operator of this package has a
name there: the number of the object, with ".H" for its adjoint. A matrix whose values are a tensor goes
there as a pattern, with the tensor beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import cast, py_object
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch

from .._util.types import DType
from .library import Operator
from .products import is_transformed

_named: WeakValueDictionary[str, Any] = WeakValueDictionary()
_numbers = count()
_NAME, _ADJOINT = "_torch_name", ".H"

_library = torch.library.Library("spmvgpu", "FRAGMENT")


class MatrixEntries(NamedTuple):
    """The entries of a matrix that PyTorch differentiates with respect to, in the order of its pattern."""

    rows: Any = None
    cols: Any = None
    values: Any = None

    def gradient(self, name: str, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """That of the values where `y` is that of the product of a matrix, or of its adjoint, with `x`."""
        rows, cols, values = self
        left, right = (x, y) if is_adjoint(name) else (y, x)
        if y.ndim == 1:
            # `index_select` takes a fraction of the time of indexing.
            pairs = left.index_select(0, rows) * right.index_select(0, cols).conj()
            return of_type(pairs, values.dtype)
        total = torch.zeros_like(values)
        # Column by column: all at once would take as much memory as the matrix for each.
        for a, b in zip(left.unbind(1), right.unbind(1), strict=True):
            total = total + self.gradient("", a, b)
        return total


NO_ENTRIES = MatrixEntries()


# Names


def _give_name(thing: object) -> None:
    # Something else may have the name that a copy of an object came with.
    if _named.get(thing.__dict__.get(_NAME, "")) is not thing:
        thing.__dict__[_NAME] = name = str(next(_numbers))
        _named[name] = thing


@torch.compiler.assume_constant_result
def _give_name_at(address: int) -> None:
    _give_name(cast(address, py_object).value)


def name_of(thing: object) -> str:
    """The name of an operator, a preconditioner or a pattern. It keeps nothing alive.

    A compiled function reads it as an attribute, and so is compiled again for another object.
    """
    if torch.compiler.is_compiling():
        # In some versions, functions that are called during compilation take numbers, but no objects.
        _give_name_at(id(thing))
    else:
        _give_name(thing)
    return thing._torch_name  # type: ignore[attr-defined, no-any-return]


def owner(name: str) -> Any:
    """The object that has a name, whose adjoint may be meant."""
    try:
        return _named[name.removesuffix(_ADJOINT)]
    except KeyError:
        raise RuntimeError(
            "an operator that PyTorch multiplies or solves with, or computes a gradient for, has been "
            "deleted; keep it as long as a compiled function, or a gradient of one, needs it"
        ) from None


def is_adjoint(name: str) -> bool:
    """Whether a name means the adjoint of an object."""
    return name.endswith(_ADJOINT)


def called(name: str) -> Any:
    """What has a name: an object or its adjoint."""
    return owner(name).H if is_adjoint(name) else owner(name)


def operator_called(name: str, values: torch.Tensor | None) -> Any:
    """The operator that has a name, or the one that a pattern makes of values."""
    if hasattr(owner(name), "_with_values"):
        return owner(name)._with_values(values, is_adjoint=is_adjoint(name))
    return called(name)


def adjoint(name: str) -> str:
    """The name of the adjoint of what has a name."""
    return name.removesuffix(_ADJOINT) if is_adjoint(name) else name + _ADJOINT


# The product


def differentiable(op: Operator, x: torch.Tensor) -> torch.Tensor:
    """``op @ x``, differentiable with respect to `x` as often as one likes."""
    return product(name_of(op), NO_ENTRIES, x)


def product(op: str, entries: MatrixEntries, x: torch.Tensor) -> torch.Tensor:
    """A product by name, differentiable with respect to `x` and to the values of the entries."""
    transformed = is_transformed(torch)
    if not transformed and not torch.is_grad_enabled() and not has_no_memory(x):
        return _multiplied(op, entries.values, x)
    result: torch.Tensor = (_Product if transformed else _PlainProduct).apply(op, *entries, x)
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(op: str, rows: Any, cols: Any, values: Any, x: torch.Tensor) -> torch.Tensor:
        if not has_no_memory(x):
            return _multiplied(op, values, x)
        return _in_graph(op, x) if values is None else _of_values_in_graph(op, values, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.name, rows, cols, values, x = inputs
        ctx.dtype = x.dtype
        if values is not None:
            ctx.save_for_backward(rows, cols, values, x)
        if not torch.compiler.is_compiling():  # what is compiled holds nothing
            ctx.op = owner(ctx.name)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved: Any = ctx.saved_tensors or (None,)
        entries, to_values, to_x = MatrixEntries(*saved[:-1]), None, None
        if ctx.needs_input_grad[3]:
            to_values = entries.gradient(ctx.name, gradient, saved[-1])
        if ctx.needs_input_grad[4]:
            to_x = of_type(product(adjoint(ctx.name), entries, gradient), ctx.dtype)
        return None, None, None, to_values, to_x

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[torch.Tensor, int]:
        op, *entries, x = args
        size: int = info.batch_size
        if in_dims[3] is not None:
            op, of_batch = batched(op, entries[2], in_dims[3], size)
            return product(op, of_batch, as_rows(x, in_dims[4], size)).unflatten(0, (size, -1)), 0
        x, batch = as_columns(x, in_dims[4], size)
        return product(op, MatrixEntries(*entries), x).unflatten(1, batch), len(batch)


class _PlainProduct(torch.autograd.Function):
    """The same without transforms, which PyTorch needs more time for than a small product takes."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:
        y = _Product.forward(*inputs)
        _Product.setup_context(ctx, inputs, y)
        return y

    backward = _Product.backward


def _multiplied(op: str, values: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    if values is None:
        y: torch.Tensor = called(op) @ x.detach()
        return y
    made: torch.Tensor = owner(op)._times(values, x, is_adjoint=op.endswith(_ADJOINT))
    return made


def _promised(op: str, own: DType, x: torch.Tensor) -> torch.Tensor:
    """A tensor of the shape and the type of a product."""
    if x.is_floating_point() or x.is_complex():
        dtype = torch.promote_types(tensor_type(own), x.dtype)
    else:
        dtype = tensor_type(np.result_type(own, str(x.dtype).removeprefix("torch.")))
    shape = owner(op).shape
    return x.new_empty((shape[op.endswith(_ADJOINT)], *x.shape[1:]), dtype=dtype)


def operation(
    schema: str,
    computed: Callable[..., torch.Tensor],
    promised: Callable[..., torch.Tensor],
    *,
    is_captured: bool,
) -> Any:
    """An operation of PyTorch's, which compiled functions call.

    `promised` makes a tensor like the result, without its values. A CUDA graph captures nothing that waits
    for the device.
    """
    # `torch.library.custom_op` would add twice the time of a small product to each call.
    tags = [torch.Tag.pt2_compliant_tag]
    if not is_captured and hasattr(torch.Tag, "cudagraph_unsafe"):
        tags.append(torch.Tag.cudagraph_unsafe)
    name = schema.partition("(")[0]
    _library.define(schema, tags=tags)
    # Compiled functions are told that results are contiguous.
    _library.impl(name, lambda *args: computed(*args).contiguous(), "CompositeExplicitAutograd")
    torch.library.register_fake(f"spmvgpu::{name}", promised, lib=_library)
    return getattr(torch.ops.spmvgpu, name).default


_in_graph = operation(
    "product(str op, Tensor x) -> Tensor",
    lambda op, x: _multiplied(op, None, x),
    lambda op, x: _promised(op, owner(op).dtype, x),
    is_captured=True,
)
_of_values_in_graph = operation(
    "product_of_values(str op, Tensor values, Tensor x) -> Tensor",
    _multiplied,
    lambda op, values, x: _promised(op, np.dtype(str(values.dtype).removeprefix("torch.")), x),
    is_captured=False,
)


# Transforms


def has_no_memory(x: torch.Tensor) -> bool:
    """Whether a tensor stands for others: in a graph, or in a batch of gradients."""
    return bool(torch.compiler.is_compiling() or torch._C._functorch.is_legacy_batchedtensor(x))


def as_columns(x: torch.Tensor, axis: int | None, size: int) -> tuple[torch.Tensor, torch.Size]:
    """A batch of vectors, or of columns, as columns, and what these are a batch of; the batch is its last."""
    moved = x.unsqueeze(-1).expand(*x.shape, size) if axis is None else x.movedim(axis, -1)
    return moved.flatten(1), moved.shape[1:]


def as_rows(x: torch.Tensor, axis: int | None, size: int) -> torch.Tensor:
    """A batch of vectors, or of columns, one after the other, for a block-diagonal matrix."""
    moved = x.unsqueeze(0).expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
    return moved.flatten(0, 1)


def batched(op: str, values: torch.Tensor, axis: int, size: int) -> tuple[str, MatrixEntries]:
    """The name of the block-diagonal matrix that a pattern, or its adjoint, has for a batch of values."""
    pattern = owner(op)._batched(size)
    name = name_of(pattern)
    return adjoint(name) if op.endswith(_ADJOINT) else name, pattern._entries(as_rows(values, axis, size))


def each(
    function: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[torch.Tensor, int]:
    """A function of each element of a batch, one after the other."""
    pairs = list(zip(args, in_dims, strict=True))
    results = [
        function.apply(*(arg if axis is None else arg.select(axis, k) for arg, axis in pairs))
        for k in range(info.batch_size)
    ]
    return torch.stack(results), 0


# Types


def tensor_type(dtype: DType) -> torch.dtype:
    """PyTorch's name of a type of NumPy's."""
    found: torch.dtype = getattr(torch, dtype.name)
    return found


def of_type(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A gradient as that of an argument of a type: where that is real, the real part."""
    if gradient.dtype.is_complex and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(dtype)

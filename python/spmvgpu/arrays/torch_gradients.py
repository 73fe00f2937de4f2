"""Products that PyTorch differentiates, batches and compiles. This module imports PyTorch.

PyTorch sees a product as an operator of its own, whose arguments are tensors, numbers and strings. So an
operator of this package has a name there: the number of the object, with ".H" for its adjoint.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch

from .._util.types import DType
from .library import Operator

_named: WeakValueDictionary[str, object] = WeakValueDictionary()
_numbers = count()
_NAME, _ADJOINT = "_torch_name", ".H"


class Placed(Operator, Protocol):
    """What is asked of an operator whose products PyTorch records."""

    shape: tuple[int, int]
    dtype: DType


class Context(Protocol):
    """What PyTorch keeps of a call for its gradient."""

    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[torch.Tensor, ...]

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None: ...


class _OfProduct(Context):
    name: str
    op: object
    dtype: torch.dtype


# Names


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _give_name(thing: object) -> None:
    if _NAME not in thing.__dict__:
        thing.__dict__[_NAME] = name = str(next(_numbers))
        _named[name] = thing


def name_of(thing: object) -> str:
    """The name of an operator, a preconditioner or a pattern; it keeps nothing alive.

    A compiled function reads it as an attribute, and so is compiled again for another object.
    """
    _give_name(thing)
    return thing._torch_name  # type: ignore[attr-defined, no-any-return]


def called(name: str) -> object:
    """What has a name, or its adjoint."""
    number = name.removesuffix(_ADJOINT)
    try:
        found = _named[number]
    except KeyError:
        raise RuntimeError(
            "PyTorch computes a product or a solve, or its gradient, with an operator that has been deleted; keep a "
            "reference to it as long as the compiled function is used"
        ) from None
    return found if number == name else found.H  # type: ignore[attr-defined]


def adjoint(name: str) -> str:
    """The name of the adjoint of what has a name."""
    return name.removesuffix(_ADJOINT) if name.endswith(_ADJOINT) else name + _ADJOINT


# The product


def differentiable(op: Operator, x: torch.Tensor) -> torch.Tensor:
    """``op @ x``, differentiable with respect to `x` as often as one likes."""
    return _recorded(name_of(op), x)


def _recorded(op: str, x: torch.Tensor) -> torch.Tensor:
    is_plain = not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())
    result: torch.Tensor = (_PlainProduct if is_plain else _Product).apply(op, x)
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(op: str, x: torch.Tensor) -> torch.Tensor:
        return (_in_graph if has_no_memory(x) else _multiplied)(op, x)

    @staticmethod
    def setup_context(ctx: _OfProduct, inputs: tuple[str, torch.Tensor], output: torch.Tensor) -> None:
        ctx.name, x = inputs
        ctx.dtype = x.dtype
        if not torch.compiler.is_compiling():  # what is compiled holds nothing
            ctx.op = called(ctx.name)

    @staticmethod
    def backward(ctx: _OfProduct, gradient: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, of_type(_recorded(adjoint(ctx.name), gradient), ctx.dtype)

    @staticmethod
    def vmap(
        info: object, in_dims: tuple[None, int], op: str, x: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        """All products at once: a batch is one more axis of columns."""
        moved = x.movedim(in_dims[1], -1)
        y = _recorded(op, moved.flatten(1)).unflatten(1, moved.shape[1:])
        return y, y.ndim - 1


class _PlainProduct(torch.autograd.Function):
    """The same without transforms, of which PyTorch asks for less time than a small product takes."""

    @staticmethod
    def forward(ctx: _OfProduct, op: str, x: torch.Tensor) -> torch.Tensor:
        y = _Product.forward(op, x)
        _Product.setup_context(ctx, (op, x), y)
        return y

    backward = _Product.backward


def _multiplied(op: str, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = called(op) @ x.detach()  # type: ignore[operator]
    return y


@torch.library.custom_op("spmvgpu::product", mutates_args=())
def _in_graph(op: str, x: torch.Tensor) -> torch.Tensor:
    return _multiplied(op, x).contiguous()  # as what is compiled is told that it is


@_in_graph.register_fake
def _(op: str, x: torch.Tensor) -> torch.Tensor:
    found: Placed = called(op)  # type: ignore[assignment]
    if x.is_floating_point() or x.is_complex():
        dtype = torch.promote_types(tensor_type(found.dtype), x.dtype)
    else:
        dtype = tensor_type(np.result_type(found.dtype, str(x.dtype).removeprefix("torch.")))
    return x.new_empty((found.shape[0], *x.shape[1:]), dtype=dtype)


def has_no_memory(x: torch.Tensor) -> bool:
    """Whether a tensor stands for others: in a graph, or in a batch of gradients."""
    if torch.compiler.is_compiling():
        return True
    is_batch: bool = torch._C._functorch.is_legacy_batchedtensor(x)
    return is_batch


def tensor_type(dtype: DType) -> torch.dtype:
    """PyTorch's name of a type of NumPy's."""
    found: torch.dtype = getattr(torch, dtype.name)
    return found


def of_type(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A gradient as that of an argument of a type: where that is real, the real part."""
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(dtype)

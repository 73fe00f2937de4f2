"""Products that PyTorch differentiates; what multiplies is given by the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..operator.composed import keeping

Multiply = Callable[[Any, torch.Tensor], torch.Tensor]


@torch.compiler.disable
def differentiable(op: Any, x: torch.Tensor, multiply: Multiply) -> torch.Tensor:
    """``multiply(op, x)``, differentiable with respect to `x` as often as one likes."""
    result: torch.Tensor = _Matmul.apply(op, x, multiply)
    return result


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Any, x: torch.Tensor, multiply: Multiply) -> torch.Tensor:
        ctx.op, ctx.dtype, ctx.multiply = keeping(op), x.dtype, multiply
        return multiply(op, x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        return None, of_type(differentiable(ctx.op.H, gradient, ctx.multiply), ctx.dtype), None


def of_type(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A gradient as that of an argument of a type: where that is real, the real part."""
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(dtype)

"""Products that PyTorch differentiates. This module imports PyTorch: import it where there is a tensor."""

from __future__ import annotations

from typing import Protocol

import torch

from .library import Operator


class _Context(Protocol):
    """What PyTorch keeps of a product for its gradient."""

    op: Operator
    dtype: torch.dtype


@torch.compiler.disable
def differentiable(op: Operator, x: torch.Tensor) -> torch.Tensor:
    """``op @ x``, differentiable with respect to `x` as often as one likes."""
    result: torch.Tensor = _Matmul.apply(op, x)
    return result


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, op: Operator, x: torch.Tensor) -> torch.Tensor:
        ctx.op, ctx.dtype = op, x.dtype
        return op @ x.detach()

    @staticmethod
    def backward(ctx: _Context, gradient: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, of_type(differentiable(ctx.op.H, gradient), ctx.dtype)


def of_type(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A gradient as that of an argument of a type: where that is real, the real part."""
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(dtype)

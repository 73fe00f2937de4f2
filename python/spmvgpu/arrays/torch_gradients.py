"""Products that PyTorch differentiates. This module imports PyTorch: import it where there is a tensor."""

from __future__ import annotations

from typing import Any

import torch


@torch.compiler.disable
def differentiable(op: Any, x: torch.Tensor) -> torch.Tensor:
    """``op @ x``, differentiable with respect to `x` as often as one likes; `op` must keep its values."""
    result: torch.Tensor = _Matmul.apply(op, x)
    return result


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.op, ctx.dtype = op, x.dtype
        result: torch.Tensor = op @ x.detach()
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, of_type(differentiable(ctx.op.H, gradient), ctx.dtype)


def of_type(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A gradient as that of an argument of a type: where that is real, the real part."""
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(dtype)

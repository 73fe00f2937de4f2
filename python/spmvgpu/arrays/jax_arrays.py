"""JAX, whose arrays are read through DLPack, and never written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._util.types import DType
from .library import AnyArray, ArrayInfo, Operator
from .protocols import Protocols


class Jax(Protocols):
    def locate(self, x: AnyArray, name: str) -> ArrayInfo:
        if not self._is_traced(x):
            # NumPy has no types of 8 bits but whole numbers.
            if isinstance(x.dtype, np.dtype) and x.dtype.itemsize == 1 and x.dtype.kind not in "biu":
                x = x.astype(self.module.numpy.float32)
            return super().locate(x, name)
        raise TypeError(  # what JAX hands a function in place of arrays, to find out what it does
            f"{name} is traced by JAX (jax.jit, jax.grad, jax.vmap, ...), which traces op @ x, x @ op and "
            "spmvgpu.jax.solve alone, and the values of a spmvgpu.jax.MatrixPattern; use these, or call this "
            "outside the transformed function"
        )

    def differentiable(self, op: Operator, x: AnyArray) -> AnyArray | None:
        if not self._is_traced(x) or not hasattr(op, "_matrix"):  # what is made of operators calls them
            return None
        from .jax_gradients import differentiable  # which imports JAX

        return differentiable(op._snapshot(), x)

    def contiguous(self, x: AnyArray, dtype: DType) -> AnyArray:
        with self.module.enable_x64(True):  # else there may be no such type
            return super().contiguous(x, dtype)

    def stacked(self, vectors: Sequence[AnyArray]) -> AnyArray:
        with self.module.enable_x64(True):
            return super().stacked(vectors)

    def join(self, real: AnyArray, imaginary: AnyArray) -> AnyArray:
        return self.module.lax.complex(real, imaginary)

    def _is_traced(self, x: AnyArray) -> bool:
        return isinstance(x, self.module.core.Tracer)

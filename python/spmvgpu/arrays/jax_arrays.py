"""JAX, whose arrays are read through DLPack, and are written by nobody but JAX."""

from __future__ import annotations

from .library import AnyArray, Located, Operator
from .protocols import Protocols


class Jax(Protocols):
    def locate(self, x: AnyArray, name: str) -> Located:
        if not self._is_traced(x):
            return super().locate(x, name)
        raise TypeError(  # what JAX hands a function in place of arrays, to find out what it does
            f"{name} is traced by JAX (jax.jit, jax.grad, jax.vmap, ...), which traces op @ x, x @ op and "
            "spmvgpu.jax.solve alone; use these, or call this outside the transformed function"
        )

    def differentiable(self, op: Operator, x: AnyArray) -> AnyArray | None:
        if not self._is_traced(x) or not hasattr(op, "_matrix"):  # what is made of operators calls them
            return None
        from .jax_gradients import differentiable  # which imports JAX

        return differentiable(op._snapshot(), x)

    def join(self, real: AnyArray, imaginary: AnyArray) -> AnyArray:
        return self.module.lax.complex(real, imaginary)

    def _is_traced(self, x: AnyArray) -> bool:
        return isinstance(x, self.module.core.Tracer)

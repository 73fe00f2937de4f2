"""JAX, whose arrays are read through DLPack, and are written by nobody but JAX."""

from __future__ import annotations

from .library import Located
from .protocols import Protocols


class Jax(Protocols):
    def locate(self, x: object, name: str) -> Located:
        if not isinstance(x, self.module.core.Tracer):
            return super().locate(x, name)
        raise TypeError(  # what JAX hands a function in place of arrays, to find out what it does
            f"{name} is traced by JAX (jax.jit, jax.grad, jax.vmap, ...), which cannot trace an operator; "
            "call the operator outside the transformed function, or inside it through jax.pure_callback, "
            "with jax.custom_vjp for a gradient"
        )

    def join(self, real: object, imaginary: object) -> object:
        return self.module.lax.complex(real, imaginary)

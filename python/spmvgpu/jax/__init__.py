"""Products and solves that JAX differentiates, also with respect to the values of the matrix.

``op @ x`` and ``x @ op`` work in functions that JAX transforms:

>>> import jax, jax.numpy as jnp, numpy as np, spmvgpu as sg
>>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
>>> x = jnp.ones(2)
>>> jax.jit(lambda x: op @ x)(x)
Array([5., 3.], dtype=float32)
>>> jax.grad(lambda x: (op @ x).sum())(x)
Array([4., 4.], dtype=float32)

So do `MatrixPattern` and `solve`: with `jax.jit`, with `jax.grad`, `jax.jvp` and higher derivatives, and with
`jax.vmap`, whose batches become columns. A function keeps the values that an operator has when JAX traces it,
and the compiled program keeps the matrix; later updates of the operator do not change it.

Operators multiply in their own type. Without ``jax.config.update("jax_enable_x64", True)``, JAX has no types
of 64 bits, and rounds the result of an operator of float64 to float32.
"""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401
except ImportError as missing:
    raise ModuleNotFoundError(
        f"spmvgpu.jax needs JAX, which cannot be imported ({missing}); install it with pip install jax",
        name="jax",
    ) from missing

from .eigenpairs import eigsh
from .patterns import MatrixPattern
from .solves import solve

__all__ = ["MatrixPattern", "eigsh", "solve"]


def __dir__() -> list[str]:
    return __all__

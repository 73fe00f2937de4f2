"""Eigenvalues and eigenvectors that JAX differentiates with respect to the values of matrices.

The derivative of an eigenvector is the solution of a system, which JAX differentiates again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._util.arguments import with_hints
from .._util.types import HostArray
from ..arrays import AnyArray
from ..arrays import jax_gradients as traced
from ..linalg.eigen_requests import EigenRequest
from .patterns import ARRAYS


@with_hints
def eigsh(
    A: object,
    k: int = 6,
    M: object = None,
    sigma: float | None = None,
    which: Literal["LM", "SM", "LA", "SA", "BE"] = "LM",
    *,
    values: jax.Array | None = None,
    M_values: jax.Array | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    inner: Literal["auto", "direct", "cg", "minres"] = "auto",
    preconditioner: object = None,
) -> tuple[jax.Array, jax.Array]:
    """Find eigenvalues and eigenvectors, differentiable with respect to the values of `A` and `M`.

    Higher derivatives are available too.

    Parameters
    ----------
    A, M : SparseOperator, MatrixPattern, array, sparse matrix or LinearOperator
        As `spmvgpu.linalg.eigsh` takes them, or patterns.
    k, sigma, which, ncv, maxiter, inner, preconditioner
        As in `spmvgpu.linalg.eigsh`.
    values, M_values : (nnz,) array
        The values of patterns in the places of `A` and `M`. The matrices must be symmetric or Hermitian, and
        so must be every change of them: make the values from what keeps them so.

    Returns
    -------
    w : (k,) array
        Eigenvalues in ascending order.
    v : (n, k) array
        Eigenvectors in its columns.

    Raises
    ------
    numpy.linalg.LinAlgError
        As `spmvgpu.linalg.eigsh`. For the derivative of an eigenvector whose eigenvalue is not simple.
        A compiled function raises a `jax.errors.JaxRuntimeError` that says the same.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a value that is not allowed.

    Notes
    -----
    The derivative of an eigenvalue costs no solve. For an eigenvector it takes one by `minres`, with an
    indefinite matrix. It exists for a simple eigenvalue, and for functions to which the
    sign of the eigenvector, or its phase, makes no difference.

    Products and solves run on the device of the matrices. On a GPU, values and vectors go through the host
    once in each call.

    Examples
    --------
    >>> import jax, numpy as np, spmvgpu as sg
    >>> pattern = sg.jax.MatrixPattern(np.array([[2.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> largest = lambda values: sg.jax.eigsh(pattern, 1, values=values)[0].sum()
    >>> np.asarray(jax.grad(largest)(pattern.values)).round(4)
    array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    how = k, sigma, which, ncv, maxiter, inner, preconditioner
    request, given = EigenRequest.of(ARRAYS, A, M, values, M_values, *how)
    w, v = _eigenpairs(_Problem(request), jax.tree.map(jnp.asarray, given))
    return w, v


@dataclass(frozen=True, eq=False)  # JAX compares it, and hashes it
class _Problem:
    """Functions of the values of both matrices, which are None for matrices that are no patterns."""

    request: EigenRequest

    def times(self, number: int, given: Any, x: AnyArray) -> AnyArray:
        """The product with `A`, number 0, or with `M`, number 1."""
        matrix: Any = self.request[number]
        if matrix is None:
            return x
        y: AnyArray = matrix @ x if given[number] is None else matrix.matmul(given[number], x)
        return y

    def pairs(self, given: Any) -> Any:
        """The eigenpairs, computed by the host."""
        A = self.request.A
        dtype = traced.result_type(np.dtype(A.dtype) if given[0] is None else A._type_of(given[0]))
        shape = A.shape[0], self.request.k
        shapes = [jax.ShapeDtypeStruct(shape[1:], np.finfo(dtype).dtype), jax.ShapeDtypeStruct(shape, dtype)]
        return _on_host(lambda given: self.request.pairs(*self.request.operators(*given)), shapes, given)

    def inverse(self, given: Any, w: AnyArray, v: AnyArray, x: AnyArray) -> Any:
        """As `EigenRequest.inverse`."""

        def run(given: Any, w: HostArray, *vectors: HostArray) -> Any:
            A, M = self.request.operators(*given)
            own = (np.asarray(array, np.dtype(A.dtype)) for array in vectors)
            return [self.request.inverse(A, M, w, *own)]

        return _on_host(run, [jax.ShapeDtypeStruct(x.shape, x.dtype)], given, w, v, x)[0]


def _on_host(function: Any, shapes: Any, *args: Any) -> Any:
    def call(*args: Any) -> Any:
        made = function(*jax.tree.map(np.asarray, args))
        return [np.asarray(array, shape.dtype) for array, shape in zip(made, shapes, strict=True)]

    return jax.pure_callback(call, shapes, *args, vmap_method="sequential")


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _eigenpairs(problem: _Problem, given: Any) -> Any:
    return problem.pairs(given)


@_eigenpairs.defjvp
def _change(problem: _Problem, primals: Any, tangents: Any) -> Any:
    ((given,), (changes,)) = primals, tangents
    w, v = _eigenpairs(problem, given)
    mass = problem.times(1, given, v)
    of_M = change = jnp.zeros_like(v)
    if given[1] is not None:
        of_M = problem.times(1, changes, v)
        change = -of_M * w
    if given[0] is not None:
        change = change + problem.times(0, changes, v)

    def along(x: AnyArray, y: AnyArray) -> AnyArray:
        return jnp.sum(jnp.conj(x) * y, axis=0)

    def multiply(y: AnyArray) -> AnyArray:
        shifted = problem.times(0, given, y) - problem.times(1, given, y) * w
        return shifted + mass * along(mass, y)

    def solve(_: Any, x: AnyArray) -> AnyArray:
        return problem.inverse(given, w, v, x)

    def solve_transposed(_: Any, x: AnyArray) -> AnyArray:
        return jnp.conj(problem.inverse(given, w, v, jnp.conj(x)))

    dw = along(v, change)
    dv = -lax.custom_linear_solve(multiply, change - mass * dw, solve, solve_transposed)
    return [w, v], [jnp.real(dw), dv - v * jnp.real(along(v, of_M)) / 2]

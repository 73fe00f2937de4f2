"""Solutions of systems that JAX differentiates with respect to b and to the values of the matrix.

The solution is linear in b: its derivative is a solution, and its transpose is that of the transposed system,
with the transposed preconditioner. A change of the values changes b by minus its product with the solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._util.arguments import with_hints
from .._util.types import HostArray
from ..arrays import AnyArray
from ..arrays import jax_gradients as traced
from ..arrays.library import Memory
from ..arrays.products import SINGLE
from ..devices import CPU
from ..linalg.kept_factors import FactorsOf, factors_of_pattern
from ..linalg.requests import Method, SolveRequest
from ..linalg.vectors import staged
from ..operator.composed import keeping
from ..operator.operator import SparseOperator
from .patterns import ARRAYS, MatrixPattern


@with_hints
def solve(
    A: object,
    b: jax.Array,
    method: Method = "auto",
    *,
    values: jax.Array | None = None,
    x0: jax.Array | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int | None = None,
    M: LinearOperator | str | None = None,
    nullspace: Literal["constant"] | None = None,
) -> jax.Array:
    """Solve ``A x = b``, differentiable with respect to `b` and to the values of `A`.

    Higher derivatives are available too.

    Parameters
    ----------
    A : SparseOperator, MatrixPattern, array, sparse matrix or LinearOperator
        Square. A matrix is made an operator in each call, and cannot be given where JAX transforms the
        function. A `LinearOperator` of another library is for arrays on the CPU.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns, on the device of `A`. It may be complex only if `A`
        is, or is a matrix.
    method : {"auto", "direct", "cg", "minres", "bicgstab", "gmres"}
        A solver of `spmvgpu.linalg`, which says what matrices it is for. "auto": `spmvgpu.linalg.solve`,
        which looks at the matrix and picks a solver and a preconditioner in each call. "direct": the factors
        of `spmvgpu.linalg.splu`, which are made as a preconditioner is that is given by name.
        A `MatrixPattern` keeps the last factors: the same values, as of the gradients, need no others, and
        new values begin with the analysis of the pattern.
    values : (nnz,) array
        The values of a `MatrixPattern`, as its products take them. With "cg" and "minres" the matrix must be
        symmetric or Hermitian, and so must be every change of it: make its values from what keeps it so.
    x0 : array of the shape of `b`, optional
        Initial guess. The solution does not depend on it, so it has no gradient.
    rtol, atol : float
        Tolerances: ``norm(b - A @ x) <= max(rtol * norm(b), atol)`` for each column. The default of `rtol` is
        1e-8, and 1e-5 in single precision. Gradients are solved for with the same tolerances.
    maxiter, restart : int, optional
        As the solver takes them. Not with "auto" and "direct".
    M : LinearOperator or str, optional
        As the solver takes it: a preconditioner of `spmvgpu.linalg`, another `LinearOperator`, or a name,
        which makes a preconditioner: for an operator when JAX traces the call, for a pattern in each call.
        Not with "auto" and "direct". Gradients are solved for with its adjoint. Its products must not call
        JAX.
    nullspace : {None, "constant"}
        "constant": `A` is singular, and maps constant vectors to zero for all values that are given. The
        solver solves for the part of `b` without mean, and the solution has none. With "cg" and "minres"
        only.

    Returns
    -------
    (n,) or (n, k) array
        Solution, of the dtype of the operator, on the device of `b`.

    Raises
    ------
    spmvgpu.linalg.NotSolvedError
        If the solver does not reach the tolerance, for the solution or for a gradient. A compiled function
        raises a `jax.errors.JaxRuntimeError` that says the same.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed.

    Notes
    -----
    The columns of `b` are solved for together, and so are batches of `jax.vmap`.

    On a GPU, the host waits for the solution.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> b = jnp.array([1.0, 2.0])
    >>> x = jax.jit(lambda b: sg.jax.solve(op, b, "cg", M="jacobi"))(b)
    >>> np.asarray(x).round(4)
    array([0.0909, 0.6364], dtype=float32)

    The gradient of the values of the matrix:

    >>> pattern = sg.jax.MatrixPattern(np.array([[4.0, 1.0], [0.0, 2.0]]), device="cpu")
    >>> total = lambda values: sg.jax.solve(pattern, b, "gmres", values=values).sum()
    >>> np.asarray(jax.grad(total)(pattern.values)).round(3)
    array([-0.   , -0.25 , -0.375], dtype=float32)
    """
    request = SolveRequest(method, rtol, atol, maxiter, restart, nullspace)
    b, x0, values = ARRAYS.arrays(b, x0, values)
    with traced.longest_types():
        b = jnp.asarray(b)  # an array of NumPy's goes where JAX puts it, and a matrix to the same device
    given, own = request.system(A, b, x0, M, values, not isinstance(b, jax.core.Tracer))
    op: Any = keeping(given)
    if isinstance(op, LinearOperator):
        M = request.preconditioner(M, op)
    system = _System(op, keeping(M), request)
    target = traced.result_type(own)
    with traced.longest_types():
        of_matrix = [] if values is None else [values]
        guess = []
        if x0 is not None:
            guess = [lax.convert_element_type(lax.stop_gradient(lax.reshape(x0, b.shape)), own)]
        x = solve_p.bind(lax.convert_element_type(b, own), *of_matrix, *guess, system=system)
        x = lax.convert_element_type(x, target)
    if isinstance(A, SparseOperator):
        A.solve_info = op.solve_info
    return x


@dataclass(frozen=True, eq=False)  # JAX compares it, and hashes it
class _System:
    """What is solved, and how."""

    matrix: LinearOperator | MatrixPattern
    M: LinearOperator | str | None
    request: SolveRequest

    def adjoint(self) -> _System:
        if self.request.is_symmetric:
            return self
        M = self.M if self.M is None or isinstance(self.M, str) else self.M.H
        matrix = self.matrix
        turned = matrix._turned[0] if isinstance(matrix, MatrixPattern) else matrix.H
        return _System(turned, M, self.request)

    def batched(self, size: int) -> _System | None:
        """As many systems at once; None if they can only be solved one after the other."""
        request = self.request.batched(size)
        if (
            request is None
            or isinstance(self.M, LinearOperator)
            or not isinstance(self.matrix, MatrixPattern)
        ):
            return None
        return _System(self.matrix._batched(size), self.M, request)

    def split(self, rest: Any) -> tuple[list[AnyArray], list[AnyArray]]:
        """Values and the guess, if there are, of what comes after b."""
        count = int(isinstance(self.matrix, MatrixPattern))
        return list(rest[:count]), list(rest[count:])

    def solution(self, b: AnyArray, *rest: AnyArray) -> AnyArray:
        values, guess = self.split(rest)
        op: LinearOperator | MatrixPattern = self.matrix
        factors_of: FactorsOf | None = None
        if isinstance(op, MatrixPattern):
            factors_of, op = factors_of_pattern(op), op._with_values(values[0])
        return self.request.run(op, b, guess[0] if guess else None, self.M, factors_of)


solve_p = Primitive("spmvgpu_solve")


@solve_p.def_impl
def _solve_now(b: AnyArray, *rest: AnyArray, system: _System) -> AnyArray:
    with traced.longest_types():
        b, *others = map(jnp.asarray, (b, *rest))
        if 0 in b.shape:
            return b
        x = lax.reshape(system.solution(b, *others), b.shape)
        return lax.convert_element_type(x, b.dtype)


@solve_p.def_abstract_eval
def _solve_shape(b: Any, *rest: Any, system: _System) -> Any:
    return traced.shaped(b, b.shape[0], b.dtype)


def _solve_jvp(primals: Any, tangents: Any, *, system: _System) -> tuple[AnyArray, AnyArray]:
    b, *rest = primals
    db, *changes = tangents
    values, _ = system.split(rest)
    changed, _ = system.split(changes)
    x = solve_p.bind(b, *rest, system=system)
    if changed and type(changed[0]) is not ad.Zero:
        product = traced.values_p.bind(changed[0], x, pattern=system.matrix)
        db = lax.neg(product) if type(db) is ad.Zero else lax.sub(db, product)
    if type(db) is ad.Zero:
        return x, ad.Zero(jax.typeof(x).to_tangent_aval())
    return x, solve_p.bind(db, *values, system=system)


def _solve_transpose(gradient: AnyArray, b: Any, *rest: AnyArray, system: _System) -> list[AnyArray | None]:
    if type(gradient) is ad.Zero:
        return [None] * (1 + len(rest))
    values, _ = system.split(rest)
    if values and not system.request.is_symmetric:
        assert isinstance(system.matrix, MatrixPattern)
        values = [jnp.conj(traced.take(values[0], system.matrix._turned[1]))]
    x = solve_p.bind(jnp.conj(gradient), *values, system=system.adjoint())
    return [jnp.conj(x)] + [None] * len(rest)


def _solve_batch(args: Any, axes: Any, *, system: _System) -> tuple[AnyArray, int]:
    bind = partial(solve_p.bind, system=system)
    values, guess = system.split(axes[1:])
    size = next(arg.shape[axis] for arg, axis in zip(args, axes, strict=True) if axis is not None)
    if values and values[0] is not None:
        together = system.batched(size)
        if together is None:
            return traced.each(bind, args, axes)
        flat = (traced.as_rows(arg, axis, size) for arg, axis in zip(args, axes, strict=True))
        return traced.from_rows(solve_p.bind(*flat, system=together), size)
    b, batch = traced.as_columns(args[0], axes[0], size)
    given, first = system.split(args[1:])
    first = [traced.as_columns(x0, axis, size)[0] for x0, axis in zip(first, guess, strict=True)]
    return traced.from_columns(bind(b, *given, *first), batch)


def _solve_call(platform: str, ctx: Any, *operands: Any, system: _System) -> Any:
    ordinal = getattr(system.matrix, "_ordinal", CPU)

    def run(*arrays: AnyArray) -> None:
        *given, out = arrays
        if 0 in out.shape:
            return
        if isinstance(out, Memory) and out.dtype in SINGLE and system.request.method == "auto":
            # It solves in double precision, and no library converts the memory.
            x = np.asarray(system.solution(*(_fetched(array, ordinal) for array in given)))
            columns = staged(np.ascontiguousarray(x.reshape(out.shape).T, out.dtype), ordinal)
            _core.copy_on_device(columns.pointer, out.address, out.nbytes, ordinal)
            return
        x = system.solution(*given)
        if isinstance(out, Memory):
            _core.synchronize(out.stream or 0, ordinal)
            _core.copy_on_device(x.address, out.address, out.nbytes, ordinal)
        else:
            out[...] = x.reshape(out.shape)

    return traced.call_function(platform, ctx, run, ordinal, *operands, by_columns=True)


def _fetched(array: Memory, ordinal: int) -> HostArray:
    """A copy of an array whose columns are contiguous."""
    made = np.empty(array.shape[::-1], array.dtype)
    _core.fetch(array.address, made, ordinal)
    return made.T


ad.primitive_jvps[solve_p] = _solve_jvp
ad.primitive_transposes[solve_p] = _solve_transpose
traced.register_rules(solve_p, _solve_batch, _solve_call)

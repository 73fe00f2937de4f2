"""Solutions of systems that PyTorch differentiates with respect to b and to the values of the matrix.

The gradient of b is the solution of the adjoint system, with the adjoint preconditioner. That of a value at
(i, j) is the negative product of entry i of this solution with the conjugate of entry j of x.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import with_hints
from ..arrays import torch_gradients as gradients
from ..arrays.products import is_transformed
from ..linalg.kept_factors import FactorsOf, factors_of_pattern
from ..linalg.named import SYMMETRIC_SOLVERS
from ..linalg.requests import Method, SolveRequest, solution_type
from ..operator.composed import keeping
from ..operator.operator import SparseOperator
from .patterns import TENSORS, MatrixPattern


@with_hints
def solve(
    A: object,
    b: torch.Tensor,
    method: Method = "auto",
    *,
    values: torch.Tensor | None = None,
    x0: torch.Tensor | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int | None = None,
    M: LinearOperator | str | None = None,
    nullspace: Literal["constant"] | None = None,
) -> torch.Tensor:
    """Solve ``A x = b``, differentiable with respect to `b` and to the values of `A`.

    Higher derivatives are available too.

    Parameters
    ----------
    A : SparseOperator, MatrixPattern, array, sparse matrix or LinearOperator
        Square. A matrix is made an operator in each call, and cannot be given where PyTorch transforms or
        compiles the function.
    b : (n,) or (n, k) tensor
        Right-hand side, or several of them as columns, on the device of `A`. It may be complex only if `A`
        is, or is a matrix.
    method : {"auto", "direct", "cg", "minres", "bicgstab", "gmres"}
        A solver of `spmvgpu.linalg`, which says what matrices it is for. "auto": `spmvgpu.linalg.solve`,
        which looks at the matrix and picks a solver and a preconditioner in each call. "direct": the factors
        of `spmvgpu.linalg.splu`, which solve for the gradients too.
        A `MatrixPattern` keeps the last factors: the same values, as of the gradients, need no others, and
        new values begin with the analysis of the pattern.
    values : (nnz,) tensor
        The values of a `MatrixPattern`, as its products take them. With "cg" and "minres" the matrix must be
        symmetric or Hermitian, and so must be every change of it: make its values from what keeps it so.
    x0 : tensor of the shape of `b`, optional
        Initial guess. The solution does not depend on it, so it has no gradient.
    rtol, atol : float
        Tolerances: ``norm(b - A @ x) <= max(rtol * norm(b), atol)`` for each column. The default of `rtol` is
        1e-8, and 1e-5 in single precision. Gradients are solved for with the same tolerances.
    maxiter, restart : int, optional
        As the solver takes them. Not with "auto" and "direct".
    M : LinearOperator or str, optional
        As the solver takes it: a preconditioner of `spmvgpu.linalg`, another `LinearOperator`, or a name,
        which makes a preconditioner for this call and its gradient. Not with "auto" and "direct". Gradients
        are solved for with its adjoint.
    nullspace : {None, "constant"}
        "constant": `A` is singular, and maps constant vectors to zero for all values that are given. The
        solver solves for the part of `b` without mean, and the solution has none. With "cg" and "minres"
        only.

    Returns
    -------
    (n,) or (n, k) tensor
        Solution, of the dtype of the operator, on the device of `b`.

    Raises
    ------
    spmvgpu.linalg.NotSolvedError
        If the solver does not reach the tolerance, for the solution or for a gradient.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed.

    Notes
    -----
    The columns of `b` are solved for together, and so are batches of `torch.vmap`.

    A compiled function makes a preconditioner that is given by name in each call, and again for the gradient.
    To make it once, pass a preconditioner.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg, torch
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> b = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> x = sg.torch.solve(op, b, "cg", M="jacobi")
    >>> x.sum().backward()
    >>> b.grad
    tensor([0.1818, 0.2727], dtype=torch.float64)

    The gradient of the values of the matrix:

    >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 2.0]]), device="cpu")
    >>> values = pattern.values.clone().requires_grad_()
    >>> x = sg.torch.solve(pattern, b.detach(), "gmres", values=values)
    >>> x.sum().backward()
    >>> values.grad
    tensor([-0.0000, -0.2500, -0.3750], dtype=torch.float64)
    """
    request = SolveRequest(method, rtol, atol, maxiter, restart, nullspace)
    if torch.compiler.is_compiling():  # types and shapes are checked when the function runs
        request.check(M, isinstance(A, MatrixPattern), values is not None)
        system: Any = A
    else:
        b, x0, values = TENSORS.arrays(b, x0, values)
        system, _ = request.system(A, b.detach(), x0, M, values, not is_transformed(torch))
    entries = gradients.NO_ENTRIES if values is None else system._entries(values)
    keeps = not is_transformed(torch)
    if keeps:
        system = keeping(system) if values is None else system._with_values(values)
        factors_of = factors_of_pattern(A) if isinstance(A, MatrixPattern) else None
        M = request.preconditioner(M, system, factors_of)
    preconditioner = M if M is None or isinstance(M, str) else gradients.name_of(M)
    how = " ".join(map(str, (gradients.name_of(system), preconditioner, *request)))
    x: torch.Tensor = _Solve.apply(how, *entries, b, x0)
    if keeps and isinstance(A, SparseOperator):
        A.solve_info = system.solve_info
    return x


class _Solve(torch.autograd.Function):
    """What is solved and how is a text: names of A and of M, the method, its limits and the null space."""

    @staticmethod
    def forward(how: str, rows: Any, cols: Any, values: Any, b: torch.Tensor, x0: Any) -> torch.Tensor:
        return (_in_graph if gradients.has_no_memory(b) else _solution)(how, values, b, x0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.how, rows, cols, values, b, _ = inputs
        ctx.dtype = b.dtype
        ctx.save_for_backward(rows, cols, values, output)
        if not torch.compiler.is_compiling():  # what is compiled holds nothing
            ctx.kept = tuple(gradients.owner(name) for name in ctx.how.split(" ")[:2] if _is_of_object(name))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *saved, x = ctx.saved_tensors
        A, M, method, *limits = ctx.how.split(" ")
        entries, name, to_values, to_b = gradients.MatrixEntries(*saved), A, None, None
        if method not in SYMMETRIC_SOLVERS:
            A, M = gradients.adjoint(A), gradients.adjoint(M) if _is_of_object(M) else M
        b = _Solve.apply(" ".join([A, M, method, *limits]), *entries, gradient, None)
        if ctx.needs_input_grad[3]:
            to_values = -entries.gradient(name, b, x)
        if ctx.needs_input_grad[4]:
            to_b = gradients.of_type(b, ctx.dtype)
        return None, None, None, to_values, to_b, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[torch.Tensor, int]:
        if in_dims[3] is not None:
            return _of_values(info, in_dims, args)
        *others, b, x0 = args
        b, batch = gradients.as_columns(b, in_dims[4], info.batch_size)
        if x0 is not None:
            x0, _ = gradients.as_columns(x0, in_dims[5], info.batch_size)
        return _Solve.apply(*others, b, x0).unflatten(1, batch), len(batch)


def _of_values(info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[torch.Tensor, int]:
    """The solutions for a batch of values, together if each system can be solved by itself."""
    size: int = info.batch_size
    how, _, _, values, *vectors = args
    A, M, *texts = how.split(" ")
    request = SolveRequest(*map(_value, texts)).batched(size)
    if request is None or _is_of_object(M):
        return gradients.each(_Solve, info, in_dims, args)
    name, entries = gradients.batched(A, values, in_dims[3], size)
    flat = [
        None if x is None else gradients.as_rows(x, axis, size)
        for x, axis in zip(vectors, in_dims[4:], strict=True)
    ]
    x: torch.Tensor = _Solve.apply(" ".join(map(str, (name, M, *request))), *entries, *flat)
    return x.unflatten(0, (size, -1)), 0


def _is_of_object(name: str) -> bool:
    """Whether this is the name of an object, and not of a kind of preconditioner."""
    return name[0].isdigit()


def _solution(
    how: str, values: torch.Tensor | None, b: torch.Tensor, x0: torch.Tensor | None
) -> torch.Tensor:
    A, M, *texts = how.split(" ")
    op, request = gradients.operator_called(A, values), SolveRequest(*map(_value, texts))
    b = b.detach()
    if b.ndim == 2 and b.shape[1] == 0:
        return _promised(how, values, b, x0)
    preconditioner = None if M == "None" else gradients.called(M) if _is_of_object(M) else M
    factors_of: FactorsOf | None = None
    if isinstance(pattern := gradients.owner(A), MatrixPattern):
        factors_of = factors_of_pattern(pattern, is_adjoint=gradients.is_adjoint(A))
    guess = None if x0 is None else x0.detach()
    x: torch.Tensor = request.run(op, b, guess, preconditioner, factors_of)
    return x.to(gradients.tensor_type(solution_type(op, b))).reshape(b.shape)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None if text == "None" else text


def _promised(
    how: str, values: torch.Tensor | None, b: torch.Tensor, x0: torch.Tensor | None
) -> torch.Tensor:
    dtype = (
        gradients.tensor_type(solution_type(gradients.owner(how.split(" ")[0]), b))
        if values is None
        else values.dtype
    )
    return b.new_empty(b.shape, dtype=dtype)


_in_graph = gradients.operation(
    "solve(str how, Tensor? values, Tensor b, Tensor? x0) -> Tensor", _solution, _promised, is_captured=False
)

"""The report of a solve, which an operator keeps of the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._util.show import Brief


@dataclass(frozen=True, repr=False)
class SolveInfo(Brief):
    """How a solve went.

    `SparseOperator.solve_info` holds it for the last solve with an operator. For several right-hand sides
    `columns` has one for each, and the others are of all: the most iterations and products, the status of the
    first column that did not succeed, and the residuals of the column that is furthest from its goal.

    Attributes
    ----------
    solver : str
        Name of the solver.
    status : str
        "converged", "least_squares", "exhausted", "stagnated" or the name of a breakdown. "least_squares":
        the system has no solution, and `x` minimizes the residual (`minres` only). "exhausted": ``maxiter``
        was reached. "stagnated": rounding errors keep the residual above the goal.
    iterations : int
        Number of iterations. `gmres` counts the inner ones.
    residual : float
        Norm of the residual that the method updates.
    true_residual : float
        ``norm(b - A @ x)``, computed from `x`.
    goal : float
        ``max(rtol * norm(b), atol)``.
    norm_b : float
        ``norm(b)``.
    products : int
        Number of products with `A`.
    preconditionings : int
        Number of applications of `M`. 0 if `M` is a diagonal.
    seconds : float
        Time of the solve in seconds. Transfers of NumPy arrays to and from a GPU are not included, except
        those in pieces to several devices.
    product_seconds, precondition_seconds : float
        Time of the products and of `M` in seconds. 0 on a GPU, where they are not timed.
    pieces : int
        Number of devices that each held a piece of the vectors.
    resident : bool
        Whether one GPU kernel did all iterations between two checks by the host.
    chained : bool
        Whether one GPU kernel did all work between two products.
    columns : sequence of SolveInfo
        How each column went; empty for one right-hand side.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> x, _ = sg.linalg.cg(op, np.ones(2), rtol=1e-10)
    >>> op.solve_info.status, op.solve_info.iterations
    ('converged', 2)
    """

    solver: str
    status: str
    iterations: int
    residual: float
    true_residual: float
    goal: float
    norm_b: float
    products: int
    preconditionings: int
    seconds: float
    product_seconds: float
    precondition_seconds: float
    pieces: int
    resident: bool
    chained: bool
    columns: Sequence[SolveInfo] = ()

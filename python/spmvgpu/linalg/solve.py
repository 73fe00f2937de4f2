"""One call that picks a method and a preconditioner, and checks what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from .._util.arguments import with_hints
from .._util.plugins import Plugins
from .._util.show import Brief
from .._util.types import ArrayT, Device, HostArray, HostOperand
from ..arrays import AnyArray, array_and_library
from .problem import DoubleSystem
from .search import Attempt, Search
from .stopping import tolerance
from .systems import OverRanks
from .vectors import no_columns, zero_column

if TYPE_CHECKING:
    from typing_extensions import Unpack

    class _Options(TypedDict, total=False):
        """Arguments of `solve` on which the type of what it returns does not depend."""

        atol: float
        x0: object
        nullspace: object
        device: Device


# Systems that this module does not import: those over ranks, of an operator, a right-hand side and a guess.
_PROBLEMS: Mapping[str, Callable[[OverRanks, object, object], DoubleSystem]] = Plugins("problem")


@dataclass(frozen=True, repr=False)
class Solved(Brief):
    """How `solve` came to a solution.

    Attributes
    ----------
    method, preconditioner : str
        What found the solution: "direct" or the name of a solver, and the name of a preconditioner or "none".
    reason : str
        Why the first method was chosen.
    residual : float
        ``norm(b - A @ x) / norm(b)``, computed from `x`; the largest of all columns.
    device : str
        Where it was found.
    tried : tuple
        All methods, the last of which found it. Each has `method`, `preconditioner`, `outcome`, `iterations`,
        `residual` and `seconds`.
    seconds : float
        Time from the matrix to the solution.
    iterations : int
        Of the method that found it.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson2d(100)
    >>> x, how = sg.linalg.solve(A, np.ones(10_000), full_output=True)
    >>> how.method, how.residual <= 1e-8
    ('cg', True)
    """

    method: str
    preconditioner: str
    reason: str
    residual: float
    device: str
    tried: tuple[Attempt, ...]
    seconds: float

    @property
    def iterations(self) -> int:
        return self.tried[-1].iterations

    def explain(self) -> str:
        """Say which method was chosen and why, and what else was tried.

        Returns
        -------
        str
            A few lines.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> x, how = sg.linalg.solve(sg.gallery.poisson2d(10), np.ones(100), full_output=True)
        >>> print(how.explain().splitlines()[0])
        direct, because the matrix is small (100 rows)
        """
        found = self.tried[-1]
        lines = [f"{self.tried[0]}, because {self.reason}"]
        lines += [f"{attempt}: {attempt.outcome}" for attempt in self.tried[:-1]]
        lines.append(
            f"{found}: converged on {self.device} to a relative residual of {self.residual:.1e} in "
            f"{found.iterations} iterations, {self.seconds:.3g} s in all"
        )
        return "\n".join(lines)


class NotSolvedError(np.linalg.LinAlgError):
    """`solve` found no solution within the tolerance; the message says what was tried.

    Attributes
    ----------
    x : array or None
        The best approximation.
    tried : tuple
        As in `Solved`.
    """

    def __init__(self, message: str, x: AnyArray = None, tried: tuple[Attempt, ...] = ()) -> None:
        super().__init__(message)
        self.x, self.tried = x, tried


@overload
def solve(
    A: object,
    b: HostOperand,
    rtol: float = ...,
    *,
    full_output: Literal[False] = ...,
    **options: Unpack[_Options],
) -> HostArray: ...
@overload
def solve(
    A: object, b: ArrayT, rtol: float = ..., *, full_output: Literal[False] = ..., **options: Unpack[_Options]
) -> ArrayT: ...
@overload
def solve(
    A: object,
    b: HostOperand,
    rtol: float = ...,
    *,
    full_output: Literal[True],
    **options: Unpack[_Options],
) -> tuple[HostArray, Solved]: ...
@overload
def solve(
    A: object, b: ArrayT, rtol: float = ..., *, full_output: Literal[True], **options: Unpack[_Options]
) -> tuple[ArrayT, Solved]: ...
@overload
def solve(
    A: object, b: object, rtol: float = ..., *, full_output: bool = ..., **options: Unpack[_Options]
) -> Any: ...
@with_hints
def solve(
    A: object,
    b: object,
    rtol: float = 1e-8,
    *,
    atol: float = 0.0,
    x0: object = None,
    nullspace: object = None,
    device: Device = "auto",
    full_output: bool = False,
) -> Any:
    """Solve ``A x = b`` by a method that suits the matrix.

    Like `scipy.sparse.linalg.spsolve` it returns `x`. It looks at the matrix: its size, whether it is
    symmetric or Hermitian, its diagonal, and the sums of its rows. Small systems with little fill-in are
    solved by SciPy's direct solver on the CPU, others by a solver of `spmvgpu.linalg` with a preconditioner.
    If one breaks down or stalls, others follow. What it returns has a residual within the tolerance, which is
    computed from `x` in double precision.

    An empty row whose column is empty too, as of a vertex of a graph without edges, is set aside: `x` is
    there what `x0` is, or zero. If `b` is not zero in an empty row, the error names the row.

    Parameters
    ----------
    A : array, sparse matrix, SparseOperator, LinearOperator or DistributedOperator
        Square. It is solved in double precision. The entries of a `LinearOperator` of another library are not
        known, so there is no preconditioner for it. All ranks of a `DistributedOperator` call it together,
        with their pieces of `b` and `x0`. Each rank makes preconditioners but jacobi of its diagonal
        block, and there is no direct solver.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns, as the solvers take it.
    rtol, atol : float
        Tolerances: ``norm(b - A @ x) <= max(rtol * norm(b), atol)`` for each column.
    x0 : array of the shape of `b`, optional
        Initial guess. The direct solver does not use it, apart from empty rows.
    nullspace : "constant" or (n,) or (n, m) array, optional
        Null space of a singular `A`, as the solvers take it. The tolerance is relative to the part of `b`
        that they solve for.
    device : str, default "auto"
        Where a matrix goes to, as `aslinearoperator` takes it. With "auto" it goes to the device of
        `b`, if `b` is an array of another library than NumPy. An operator stays where it is.
    full_output : bool, default False
        Also return how the solution was found.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution in double precision, of the library and on the device of `b`.
    how : Solved
        Returned only if `full_output` is True. ``how.explain()`` says which method was chosen and why.

    Raises
    ------
    NotSolvedError
        If no method reaches the tolerance. It is a `numpy.linalg.LinAlgError` that says what was tried.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, or if `A`, `b` or `x0`
        contains infinity or NaN.

    See Also
    --------
    cg, minres, bicgstab, gmres : The methods, for matrices whose kind is known.

    Notes
    -----
    Up to 100,000 rows, SciPy's direct solver is also tried where all else has failed. Its factors are
    estimated first, and are not made where they seem to take more than a minute. On a GPU, if cuDSS is
    installed, factors of up to 500,000 rows are tried before `ic0` and `ilu0`. Ctrl-C ends `solve` at once.
    Since SciPy's direct solver cannot be stopped, it continues in a thread until it is done.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson2d(30)
    >>> x = sg.linalg.solve(A, np.ones(900))
    >>> bool(np.linalg.norm(A @ x - 1) <= 1e-8 * 30)
    True
    """
    start = perf_counter()
    rtol, atol = tolerance("rtol", rtol), tolerance("atol", atol)
    options: dict[str, Any] = {}
    if isinstance(A, OverRanks):
        problem = _PROBLEMS["ranks"](A, b, x0)
        options = {"direct": False, "refines": A.dtype.char in "fF"}  # no rank has the whole matrix
    else:
        b, library = array_and_library("b", b)
        located = library.locate(b, "b")
        if len(located.shape) == 2 and located.shape[1] == 0:
            options = {"atol": atol, "nullspace": nullspace, "device": device, "full_output": True}
            found, how = solve(A, zero_column(b, library), rtol, **options)
            X = no_columns(located.shape[0], library.locate(found, "x").dtype, b, library)
            return (X, how) if full_output else X
        problem = DoubleSystem(A, b, x0, device)
    search = Search(problem, rtol, atol, nullspace, **options)
    is_solved = search.solve()
    tried = tuple(search.tried)
    if not is_solved:
        raise NotSolvedError(_message(search, rtol), search.x, tried)
    if not full_output:
        return search.x
    method, name, _, _, residual, _ = tried[-1]
    seconds = perf_counter() - start
    return search.x, Solved(method, name, search.reason, residual, search.device, tried, seconds)


def _message(search: Search, rtol: float) -> str:
    """Why there is no solution, as far as it is known."""
    reason = search.contradiction()
    if reason:
        return f"A x = b has no solution: {reason}"
    outcomes = "; ".join(f"{attempt} {attempt.outcome}" for attempt in search.tried)
    best = min(attempt.residual for attempt in search.tried)
    left = f"the smallest relative residual is {best:.1e}, of the attribute x; " if best < np.inf else ""
    return (
        f"no solution of A x = b within rtol={rtol:g} was found{search.advice()}; {left}tried were: "
        f"{outcomes}"
    )
